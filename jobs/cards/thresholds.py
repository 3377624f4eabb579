"""Near-duplicate thresholds: a cosine belongs to one embedding model, and to a locale where it was calibrated for one.

Order: the store's own calibration of the locale, then of all locales; a value that hindcast.toml states; the
calibration shipped for the model; the default of the settings.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.core.embedding_models import PACKAGED, find_model
from jobs.core.settings import Evidence
from jobs.core.tables import Store

PATH = "calibration/near_duplicates.json"
"""Calibrations of a store: {model: {revision, locales: {locale: result}}}; locale "" stands for all."""

SHIPPED = {PACKAGED: 0.84}
"""Measured by `hindcast cards calibrate-threshold` on tests/golden/cards/near_duplicates.jsonl (jobs/DECISIONS.md): at
.84 this model misses 16% of the rewordings and drops 2% of different queries; at .9 it misses 42%, "basketball warmup
playlist" for "basketball warmup music" among them."""

_FRONT_MATTER = re.compile(r"\A---\n(.*?)\n---", re.DOTALL)
_LANGUAGE = re.compile(r"^language:[ \t]*(?P<one>\S.*)?\n?(?P<many>(?:[ \t]*-[ \t]*\S+\n?)*)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """Cosines above which a historical query counts as the page's own query in other words.

    declared: used where `calibrated` (locale to cosine; "" for all) has none. source: where `declared` comes from.
    languages: what the model's card names, None where it names none.
    """

    model: str
    revision: str
    declared: float
    source: str
    calibrated: dict[str, float]
    languages: frozenset[str] | None

    def of(self, locale: str) -> float:
        """The threshold of a locale: its own calibration, else one for all locales, else the declared one."""
        return self.calibrated.get(locale, self.calibrated.get("", self.declared))

    def unknown(self, locales: list[str]) -> list[str]:
        """Locales whose language the model's card does not name and for which nothing was calibrated."""
        if self.languages is None or "multilingual" in self.languages:
            return []
        named = {locale for locale in locales if locale and _language(locale) not in self.languages}
        return sorted(named - self.calibrated.keys())

    def summary(self, locales: list[str]) -> dict[str, Any]:
        """What a run records: model, revision, each locale's threshold, and locales that the model does not know."""
        used = {locale: self.of(locale) for locale in locales}
        return {
            "embedding_model": self.model,
            "embedding_revision": self.revision,
            "near_duplicate_cosine": used,
            "near_duplicate_source": {locale: self._source(locale) for locale in locales},
            "locales_unknown_to_model": self.unknown(locales),
        }

    def _source(self, locale: str) -> str:
        return "calibrated" if locale in self.calibrated or "" in self.calibrated else self.source


def thresholds(store: Store | None, *, model: str, revision: str, settings: Evidence) -> Thresholds:
    """Thresholds for a model: calibrations that the store keeps for this very revision, then as the module says."""
    kept = store.read_json(PATH).get(model, {}) if store is not None and store.exists(PATH) else {}
    locales = kept.get("locales", {}) if kept.get("revision") == revision else {}
    stated = "near_duplicate_cosine" in settings.model_fields_set
    shipped = model in SHIPPED and not stated
    return Thresholds(
        model=model,
        revision=revision,
        declared=SHIPPED[model] if shipped else settings.near_duplicate_cosine,
        source="shipped" if shipped else "settings",
        calibrated={locale: result["threshold"] for locale, result in locales.items()},
        languages=model_languages(model),
    )


def keep_calibration(store: Store, *, model: str, revision: str, locale: str, result: dict[str, Any]) -> None:
    """Add one locale's calibration; those of another revision of the model are dropped, they no longer hold."""
    with store.documents.lock("near-duplicates"):
        body = store.read_json(PATH) if store.exists(PATH) else {}
        mine = body.get(model, {})
        locales = mine.get("locales", {}) if mine.get("revision") == revision else {}
        body[model] = {"revision": revision, "locales": {**locales, locale: result}}
        store.write_json(PATH, body)


def model_languages(model: str) -> frozenset[str] | None:
    """Languages that the front matter of a model's card names ("multilingual" may be one); None where it names none."""
    card = Path(find_model(model).location) / "README.md"
    front = _FRONT_MATTER.match(card.read_text(encoding="utf-8")) if card.is_file() else None
    found = _LANGUAGE.search(front[1] + "\n") if front else None
    if found is None:
        return None
    listed = re.findall(r"[A-Za-z]+", found["one"] or "") + re.findall(r"-[ \t]*([A-Za-z]+)", found["many"] or "")
    return frozenset(name.lower() for name in listed) or None


def _language(locale: str) -> str:
    return locale.replace("_", "-").split("-")[0].lower()
