"""`hindcast doctor`: everything that Hindcast needs, looked at, with the way out where something is wrong."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from jobs.core import cli
from jobs.core.embedding_models import PACKAGED
from jobs.core.settings import Settings, load_settings
from jobs.core.spark import home
from jobs.doctor import checks
from jobs.doctor.checks import Finding

app = typer.Typer(help="What is wrong with this machine or set-up.", no_args_is_help=False)

BaseUrlOption = Annotated[str, typer.Option("--base-url", help="Look at this endpoint, as if the judge were openai.")]
ModelOption = Annotated[str, typer.Option("--model", help="Model that the endpoint should serve.")]


def findings(settings: Settings, *, configured: bool) -> Iterator[Finding]:
    """All findings in the order in which they are mended: machine, versions, jars, model, store, endpoint.

    configured: the settings come from a file, so their store is tried too.
    """
    yield checks.python()
    yield checks.java()
    yield checks.memory()
    yield checks.disk(Path(settings.root))
    yield from checks.packages(home() / "requirements" / "jobs.txt")
    yield checks.delta_jars(home() / ".jars")
    yield checks.model(settings.evidence.embedding_model or PACKAGED)
    if configured:
        yield checks.store(settings)
    yield checks.endpoint(settings)


@cli.command(app, "doctor", example="hindcast doctor --config hindcast.toml")
def doctor(
    config: cli.ConfigOption = "", base_url: BaseUrlOption = "", model: ModelOption = "", json_: cli.JsonOption = False
) -> None:
    """Look at machine, versions, jars, model and endpoint; exit code 1 if something is wrong."""
    asked = {"judging": {"judge": "openai", "base_url": base_url, "model": model}} if base_url or model else {}
    settings = load_settings(config or None, **asked)
    found = list(findings(settings, configured=bool(config)))
    wrong = [one for one in found if not one.ok]
    body = {"ok": not wrong, "wrong": [one.name for one in wrong], "findings": [asdict(one) for one in found]}
    cli.finish(body, as_json=json_, text=_text(found, wrong))
    raise SystemExit(1 if wrong else 0)


def _text(found: list[Finding], wrong: list[Finding]) -> str:
    lines = [f"{'ok ' if one.ok else 'NO '} {one.name:<22} {one.found}" for one in found]
    lines += ["", *(f"{one.name}: {one.advice}" for one in wrong)] if wrong else ["", "Nothing is wrong."]
    return "\n".join(lines)
