"""How a file of human labels is read: its columns, its scale, and which of its ratings are none. Declared in TOML."""

import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from jobs.core.errors import SettingsError

OWN_SCALE = {0.0: 0.0, 0.5: 0.5, 1.0: 1.0}
"""The labels of formats.md; every other scale is declared."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Columns(_Part):
    """Names of columns (CSV) or keys (JSON lines; dotted paths allowed); empty: the file has none.

    `items` holds whole pages: a list of items, or item ids joined by `separator`. With `item` a page is made of the
    rows of one query (and of one `page`, where that is given).
    """

    query: str = "query"
    locale: str = "locale"
    corpus: str = "corpus"
    context: str = "context"
    page: str = ""
    items: str = "items"
    item: str = ""
    rank: str = ""
    title: str = ""
    type: str = ""
    metadata: tuple[str, ...] = ()
    label: str = "label"
    rater: str = "rater"


class Skip(_Part):
    """Rows whose rating counts as none (the item stays on its page): `column` holds `value`."""

    column: str
    value: str


class LabelMap(_Part):
    """Everything that a file of labels leaves unsaid.

    kind: `pages` (labels of whole pages), `items` (labels of items, converted), `trec` (qrels, with a run and queries).
    scale: label as written to its value in [0, 1]; empty: labels are 0, 0.5 and 1. Numbers match by value.
    trec: `ranking` is a TREC run that gives the pages, `queries` the texts of the topics, both relative to the map.
    """

    kind: Literal["pages", "items", "trec"] = "pages"
    format: Literal["", "jsonl", "csv", "parquet"] = ""
    corpus: str = ""
    locale: str = ""
    separator: str = Field(default="|", min_length=1)
    max_items: int = Field(default=0, ge=0)
    min_rated_share: float = Field(default=0.5, ge=0, le=1)
    columns: Columns = Columns()
    skip: tuple[Skip, ...] = ()
    scale: dict[str, float] = {}
    ranking: str = ""
    queries: str = ""

    @field_validator("scale")
    @classmethod
    def _in_bounds(cls, value: dict[str, float]) -> dict[str, float]:
        outside = {k: v for k, v in value.items() if not 0 <= v <= 1}
        if outside:
            raise ValueError(f"values {outside} lie outside [0, 1]")
        return value

    def value_of(self, label: Any) -> float | None:
        """The label in [0, 1]; None if it is not on the scale."""
        number = as_number(label)
        if not self.scale:
            return OWN_SCALE.get(number) if number is not None else None
        for written, value in self.scale.items():
            if written == str(label).strip() or (number is not None and as_number(written) == number):
                return value
        return None


def as_number(value: Any) -> float | None:
    """A number from a number or its text; None for anything else, booleans included."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def load_map(path: Path | None) -> LabelMap:
    """Read a map; None gives the default one (human labels of formats.md). Raises SettingsError."""
    if path is None:
        return LabelMap()
    try:
        return LabelMap.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise SettingsError(f"{path}: no such map; give --map the path of an existing TOML file") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: is no TOML ({error}); mend that line") from None
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
        raise SettingsError(f"{path}: {'; '.join(lines)}") from None
