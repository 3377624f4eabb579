"""The one entry: `hindcast STEP …`, the same as `python -m jobs STEP …`. Each step's module is imported on use."""

import importlib
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from jobs import __version__

STEPS: dict[str, tuple[str, str]] = {
    "simulate": ("jobs.simulate.job", "Write a simulated log with planted truth."),
    "impressions": ("jobs.impressions.job", "Raw logs to canonical impressions and daily counts."),
    "items": ("jobs.impressions.items", "Item catalogues."),
    "propensity": ("jobs.propensity.job", "Examination probability by rank."),
    "evidence": ("jobs.evidence.job", "Debiased Query-Relevance-Impressions rows."),
    "pages": ("jobs.pages.job", "Pages to judge and their truth."),
    "cards": ("jobs.cards.job", "Evidence cards of each page, and the leakage audit."),
    "judging": ("jobs.judging.job", "Grade pages, plain and grounded."),
    "skills": ("jobs.skills.job", "Query-rewriting skills of a corpus."),
    "reports": ("jobs.reports.job", "Figures, HTML and exports."),
    "publish": ("jobs.night", "Let consumers see a finished run."),
    "night": ("jobs.night", "All steps of a night, in one process."),
    "launch": ("jobs.launch", "Forecast before an A/B launch, and its outcome."),
    "status": ("jobs.status", "Nights, gaps, coverage and cost."),
    "housekeeping": ("jobs.housekeeping", "Small files, old versions and old runs of a store."),
    "reproduce": ("jobs.reproduce", "Rebuild a past report from its manifest."),
    "package": ("jobs.package", "Archives for the executors of a Spark cluster."),
    "doctor": ("jobs.doctor.job", "What is wrong with this machine or set-up."),
}


class LazySteps(TyperGroup):
    """A group whose sub-commands are imported when they are called, so that `hindcast --help` is quick."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The steps in the order of the flow."""
        return list(STEPS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The step's command; None for an unknown name, which becomes a usage error (exit code 2)."""
        if cmd_name not in STEPS:
            return None
        module_name, meaning = STEPS[cmd_name]
        if cmd_name not in sys.argv:
            return TyperCommand(cmd_name, help=meaning)
        module = importlib.import_module(module_name)
        step = getattr(module, f"{cmd_name}_app", None) or module.app
        step._add_completion = False  # one entry, one place for it; a step's help lists what the step does
        command = typer.main.get_command(step)
        if isinstance(command, TyperGroup) and not command.epilog:
            command.epilog = next((verb.epilog for verb in command.commands.values() if verb.epilog), None)
        return command


app = typer.Typer(
    cls=LazySteps,
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=False,
    pretty_exceptions_show_locals=False,  # locals can hold keys and users' queries
)


def _version(*, asked: bool) -> None:
    if asked:
        typer.echo(f"hindcast {__version__}")
        raise typer.Exit


@app.callback()
def hindcast(
    version: Annotated[bool, typer.Option("--version", callback=lambda v: _version(asked=v), is_eager=True)] = False,
) -> None:
    """Hindcast grades search result pages with what past users did.

    Start with `hindcast doctor`, then `hindcast simulate --help` or `hindcast impressions inspect FILE`.
    """


def main() -> None:
    """Entry point of the installed command."""
    app()


if __name__ == "__main__":
    main()
