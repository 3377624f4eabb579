"""Which language model the commands and the nightly step ask, if any, with its replies kept beside the skills."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from jobs.core.errors import UsageError
from jobs.core.settings import Settings
from jobs.skills.llm import CachedModel

if TYPE_CHECKING:
    from jobs.judging.endpoint import EndpointSettings

REPLIES = "replies.sqlite"


def model_from_options(
    *, base_url: str, model: str, folder: Path, say: Callable[[str], None] | None = None
) -> CachedModel | None:
    """The model of --base-url and --model; None where neither is given (offline-baseline)."""
    from jobs.judging.endpoint import EndpointSettings

    if not base_url and not model:
        return None
    if not model:
        raise UsageError("--base-url is given without --model: name the model that the endpoint serves")
    return _cached(EndpointSettings(model=model, base_url=base_url), folder=folder, say=say)


def model_from_settings(
    settings: Settings, *, folder: Path, say: Callable[[str], None] | None = None
) -> CachedModel | None:
    """The judge's model where settings.judging names an endpoint, else None.

    A small local model grades nothing and rewrites worse: nights that judge with one keep skills to the templates.
    """
    judging = settings.judging
    if judging.judge != "openai":
        return None
    from jobs.judging.endpoint import EndpointSettings

    asked = EndpointSettings(
        model=judging.model, base_url=judging.base_url, slots=judging.slots,
        requests_per_minute=judging.requests_per_minute, tokens_per_minute=judging.tokens_per_minute,
        request_timeout_s=judging.request_timeout_s, run_deadline_s=judging.run_deadline_s,
    )
    return _cached(asked, folder=folder, say=say)


def _cached(asked: EndpointSettings, *, folder: Path, say: Callable[[str], None] | None) -> CachedModel:
    from jobs.skills.endpoint import EndpointModel

    return CachedModel(EndpointModel(asked, say=say), file=folder / REPLIES)
