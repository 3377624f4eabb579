"""A page as files hold it (formats.md, pages.jsonl), checked on entry, and its row in the table `pages`."""

import hashlib
import json
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import polars as pl
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from jobs.core.keys import key_from_hex, key_hex, query_key
from jobs.core.normalise import normalise_query
from schemas.pages import PAGES

Text = Annotated[str, BeforeValidator(lambda v: str(v) if isinstance(v, int) and not isinstance(v, bool) else v)]
"""Text; whole numbers are taken as text, since many shops number their items."""


class Item(BaseModel):
    """One place of a page."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    item_id: Annotated[Text, Field(min_length=1)]
    rank: int = Field(ge=1)
    title: str = ""
    type: str = ""
    metadata: dict[str, Any] = {}


class Page(BaseModel):
    """One result page; only page_id, query and items are required of a file."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    page_id: Annotated[Text, Field(min_length=1, max_length=200)]
    set: Literal["logs", "human", "launch", "other"] = "other"
    corpus: str = ""
    locale: str = ""
    query_key: str = ""
    query: str
    context: str | dict[str, Any] | None = None
    system: Literal["a", "b"] | None = None
    instance: int = Field(default=0, ge=0)
    configuration: Literal["good", "omitted", "low", "substitute", "shown"] = "shown"
    items: tuple[Item, ...] = Field(min_length=1)
    truth: float | None = Field(default=None, allow_inf_nan=False)
    truth_standard_error: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    human_label: float | None = Field(default=None, ge=0, le=1)
    human_label_source: Literal["page", "derived"] | None = None
    made: dict[str, Any] = {}

    @model_validator(mode="before")
    @classmethod
    def _ranked(cls, value: Any) -> Any:
        items = value.get("items") if isinstance(value, dict) else None
        if not isinstance(items, list):
            return value
        numbered = [{"rank": i, **_given(item)} if isinstance(item, dict) else item for i, item in enumerate(items, 1)]
        return {**value, "items": numbered}

    @model_validator(mode="after")
    def _sound(self) -> "Page":
        if not normalise_query(self.query, locale=self.locale):
            raise ValueError("query is empty")
        for name in ("item_id", "rank"):
            values = [getattr(item, name) for item in self.items]
            if len(set(values)) < len(values):
                raise ValueError(f"{name} {max(values, key=values.count)!r} stands twice on the page")
        return self

    @property
    def key(self) -> int:
        """The query key of the table, always made from corpus, locale and normalised query."""
        return query_key(self.corpus, self.locale, normalise_query(self.query, locale=self.locale))

    def file_row(self) -> dict[str, Any]:
        """The page as a line of pages.jsonl: every key of formats.md, `made` beside them."""
        body = self.model_dump(mode="json")
        body["items"] = [item.model_dump(mode="json") for item in sorted(self.items, key=lambda item: item.rank)]
        return {**body, "query_key": key_hex(self.key)}


def _given(item: dict[str, Any]) -> dict[str, Any]:
    """Null is the same as leaving a key out."""
    return {k: v for k, v in item.items() if v is not None}


def content_id(*parts: Any) -> str:
    """8 hexadecimal digits of the content, so that the same page gets the same id whenever it is imported."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:8]


def pages_frame(pages: Iterable[dict[str, Any]], *, run: str, set_name: str) -> pl.DataFrame:
    """Rows of the table `pages` from lines of pages.jsonl; context, items and made become JSON."""
    rows = [{**page, "run": run, "set": set_name, **_as_columns(page)} for page in pages]
    return pl.DataFrame(rows, schema=PAGES.polars(), orient="row") if rows else pl.DataFrame(schema=PAGES.polars())


def page_dicts(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Inverse of `pages_frame`: table rows as lines of pages.jsonl, without the run."""
    return [_as_file(row) for row in frame.to_dicts()]


def _as_columns(page: dict[str, Any]) -> dict[str, Any]:
    context = page.get("context")
    return {
        "query_key": key_from_hex(page["query_key"]),
        "context": None if context is None else json.dumps(context, ensure_ascii=False),
        "items": json.dumps(page["items"], ensure_ascii=False),
        "made": json.dumps(page.get("made") or {}, ensure_ascii=False),
    }


def _as_file(row: dict[str, Any]) -> dict[str, Any]:
    body = {name: row[name] for name in PAGES.names if name != "run" and name in row}
    body["query_key"] = key_hex(row["query_key"])
    for name in ("context", "items", "made"):
        if body.get(name) is not None:
            body[name] = json.loads(body[name])
    return body
