"""Which language model the commands and the nightly step ask, if any, with its replies kept beside the skills."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from jobs.core.errors import UsageError
from jobs.core.settings import Settings
from jobs.skills.llm import CachedModel

REPLIES = "replies.sqlite"


def model_from_options(
    *, base_url: str, model: str, folder: Path, say: Callable[[str], None] | None = None
) -> CachedModel | None:
    """The model of --base-url and --model; None where neither is given (offline-baseline)."""
    if not base_url and not model:
        return None
    if not model:
        raise UsageError("--base-url is given without --model: name the model that the endpoint serves")
    return _cached(model=model, base_url=base_url, folder=folder, say=say)


def model_from_settings(
    settings: Settings, *, folder: Path, say: Callable[[str], None] | None = None
) -> CachedModel | None:
    """The judge's model where settings.judging names an endpoint; None for the offline baseline and local files."""
    judging = settings.judging
    if judging.judge != "openai":
        return None
    return _cached(model=judging.model, base_url=judging.base_url, folder=folder, say=say)


def _cached(*, model: str, base_url: str, folder: Path, say: Callable[[str], None] | None) -> CachedModel:
    from jobs.judging.endpoint import EndpointSettings
    from jobs.skills.endpoint import EndpointModel

    asked = EndpointModel(EndpointSettings(model=model, base_url=base_url), say=say)
    return CachedModel(asked, file=folder / REPLIES)
