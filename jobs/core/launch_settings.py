"""What a launch replaces in the settings for itself alone: its corpora and how its pages are judged.

The parameters stand in launches/ID/launch.json, written by `hindcast launch`; every command of the launch's run reads
them there, so that each task of a DAG sees the same.
"""

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from jobs.core.errors import UsageError
from jobs.core.settings import Judging, Settings, mismatches
from jobs.core.tables import Store


def for_launch(settings: Settings, store: Store, launch: str | None) -> Settings:
    """The settings of one launch's run; unchanged for a night, and for a launch that is not registered yet."""
    path = f"launches/{launch}/launch.json"
    if launch is None or not store.exists(path):
        return settings
    body = store.read_json(path)
    return replaced(settings, corpora=body.get("corpora", ()), judging=body.get("judging", {}))


def replaced(settings: Settings, *, corpora: Sequence[str], judging: dict[str, Any]) -> Settings:
    """`settings` with only these corpora (none: all) and these [judging] values; UsageError for what does not fit."""
    unknown = sorted(set(corpora) - set(settings.corpora))
    if unknown:
        known = ", ".join(sorted(settings.corpora)) or "none"
        raise UsageError(f"corpora {', '.join(unknown)} have no [corpora.NAME] table: declared are {known}")
    update: dict[str, Any] = {}
    if corpora:
        update["corpora"] = {name: settings.corpora[name] for name in corpora}
        update["sources"] = tuple(s for s in settings.sources if s.corpus in corpora)
    if judging:
        try:
            update["judging"] = Judging.model_validate({**settings.judging.model_dump(), **judging})
        except ValidationError as error:
            raise UsageError(f"the launch's judging does not fit: {mismatches(error)}") from None
    return settings.model_copy(update=update) if update else settings
