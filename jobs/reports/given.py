"""Rows of files that other tools made, checked on entry: what may stand in them, and one sentence on what may not."""

import gzip
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from jobs.core.errors import InputError, NotThereError
from schemas.pages import CONFIGURATIONS, SETS

Row = tuple[str, dict[str, Any]]
"""Where a row stands ("FILE line 3", "FILE row 3" of a Parquet file), and the row."""

Configuration = Literal[CONFIGURATIONS]


def _texted(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


Id = Annotated[str, BeforeValidator(_texted), Field(min_length=1)]
"""A name; whole numbers are taken as text, since many tools number their pages."""
Count = Annotated[int, BeforeValidator(_whole), Field(ge=0, lt=2**31)]
Key = int | str | None
"""A query's key: 16 hexadecimal digits, a whole number, or any text that stands for the query."""


class _Given(BaseModel):
    """Keys that nobody knows are ignored; null is the same as leaving a key out; every number is finite."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)


class GivenJudgment(_Given):
    """A line of judgments.jsonl; only page_id and variant are needed, a label or null beside them."""

    page_id: Id
    variant: Id
    model: Id = "unknown"
    sample: Count = 0
    set: Literal["logs", "human", "launch", "other", ""] = ""
    corpus: Id = "default"
    query_key: Key = None
    system: Literal["a", "b"] | None = None
    instance: Count = 0
    configuration: Configuration = "shown"
    qri_count: Count = 0
    label: float | None = None
    expected_label: float | None = None
    reason: str | None = None
    rationale: str = ""
    cited: list[Annotated[int, BeforeValidator(_whole)]] = []
    cited_invented: Count = 0
    evidence_rows: Count = 0
    evidence_cut: Count = 0
    prompt_sha256: str | None = None
    tokens_in: Count = 0
    tokens_out: Count = 0
    latency_ms: float | None = None
    cached: bool = False
    reused_from_plain: bool = False
    possibly_billed_twice: bool = False
    members: list[float | None] = []
    spread: float | None = None

    @field_validator("set", "configuration", "system", mode="before")
    @classmethod
    def _known(cls, value: Any, info: Any) -> Any:
        """What another tool calls a set, a system or a configuration means nothing here and is left out."""
        allowed = {"set": (SETS, ""), "configuration": (CONFIGURATIONS, "shown"), "system": (("a", "b"), None)}
        names, otherwise = allowed[info.field_name]
        text = value.lower() if info.field_name == "system" and isinstance(value, str) else value
        return text if text in names else otherwise


class GivenTruth(_Given):
    """A line of truth.jsonl: what users or people said of a page."""

    page_id: Id
    query_key: Key = None
    truth: float | None = None
    truth_standard_error: Annotated[float, Field(ge=0)] | None = None
    human_label: Annotated[float, Field(ge=0, le=1)] | None = None
    human_label_source: Literal["page", "derived"] | None = None
    configuration: Configuration | None = None
    corpus: Id | None = None
    locale: str | None = None
    query: str | None = None


class GivenItem(_Given):
    """One place of a page; ranks are those of the list where none are given."""

    item_id: Id
    rank: Annotated[int, BeforeValidator(_whole), Field(ge=1, lt=2**31)] | None = None
    title: str = ""
    type: str = ""
    metadata: dict[str, Any] = {}


class GivenPage(GivenTruth):
    """A line of pages.jsonl, for the explorer and the exports."""

    set: Literal["logs", "human", "launch", "other"] | None = None
    context: str | dict[str, Any] | list[Any] | None = None
    system: Literal["a", "b"] | None = None
    instance: Count = 0
    items: list[GivenItem] = []
    made: dict[str, Any] = {}


class GivenCardRow(_Given):
    """One historical query of one item."""

    query: str = ""
    similarity: float = 0.0
    impressions: Count = 0
    clicks: Count = 0
    ctr: float = 0.0
    examined: float = 0.0
    relevance: float = 0.0
    relevance_low: float = 0.0
    relevance_high: float = 0.0
    relevance_shrunk: float = 0.0
    users: Count = 0
    near_duplicate: bool = False


class GivenCard(_Given):
    """A line of cards.jsonl: the rows of one item of one page."""

    page_id: Id
    item_id: Id
    rows: list[GivenCardRow] = []


class GivenOutcome(_Given):
    """A line of outcomes.jsonl: what an A/B test measured on one query, higher is better."""

    query_key: Key = None
    corpus: str = ""
    locale: str = ""
    query: str | None = None
    system_a: float
    system_b: float
    n_a: Annotated[float, Field(ge=0)] | None = None
    n_b: Annotated[float, Field(ge=0)] | None = None
    standard_error_a: Annotated[float, Field(ge=0)] | None = None
    standard_error_b: Annotated[float, Field(ge=0)] | None = None


Model = TypeVar("Model", bound=_Given)


def checked(rows: Iterable[Row], model: type[Model]) -> Iterator[tuple[str, Model]]:
    """Rows as `model`, with their places. InputError names the place, the key and the value that does not fit."""
    for where, row in rows:
        try:
            yield where, model.model_validate(without_null(row))
        except ValidationError as error:
            raise InputError(f"{where}: {_told(error.errors()[0], row)}") from None


def without_null(value: Any) -> Any:
    """The value without keys that hold null, at any depth."""
    if isinstance(value, dict):
        return {k: without_null(v) for k, v in value.items() if v is not None}
    return [without_null(v) for v in value] if isinstance(value, list) else value


def _told(error: Any, row: dict[str, Any]) -> str:
    where = ".".join(str(part) for part in error["loc"] if not isinstance(part, type)) or "the row"
    if error["type"] == "missing":
        return f"{where} is missing or null among {', '.join(map(repr, list(row)[:8]))}: give it"
    return f"{where} is {error['input']!r:.60}: {error['msg'][:1].lower()}{error['msg'][1:]}, or leave the key out"


def read_rows(path: Path) -> Iterator[Row]:
    """Objects of a JSON-lines (.gz) or Parquet file with their places; InputError names the line that is none."""
    if not path.is_file():
        why = "it is a folder, not a file" if path.is_dir() else "there is no such file"
        raise NotThereError(f"{path}: {why}; check the option that names it")
    if path.suffix == ".parquet":
        yield from _parquet_rows(path)
        return
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as lines:
        try:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield f"{path} line {number}", json_object(line, f"{path} line {number}")
        except (gzip.BadGzipFile, EOFError) as error:
            raise InputError(f"{path} cannot be unpacked ({error}): give a whole .gz file") from None


def _parquet_rows(path: Path) -> Iterator[Row]:
    import polars as pl

    try:
        frame = pl.read_parquet(path, glob=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(f"{path} is no Parquet file ({str(error)[:120]}): name JSON lines .jsonl") from None
    for number, row in enumerate(frame.iter_rows(named=True), 1):
        _finite(row, f"{path} row {number}")
        yield f"{path} row {number}", row


def json_object(line: bytes, where: str) -> dict[str, Any]:
    """One object of a JSON line. InputError for what is no JSON, no object, or holds NaN or an infinite number."""
    try:
        text = line.decode("utf-8-sig")
        row = json.loads(text)
        if not isinstance(row, dict):
            raise InputError(f"{where} holds {row!r:.40}, not an object with keys: write one object a line")
        _finite(row, where)
        return _encodable(row) if "\\ud" in text.lower() else row
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is no JSON ({str(error)[:120]}): mend the line") from None


def _finite(value: Any, where: str, key: str = "") -> None:
    """JSON knows neither NaN nor Infinity, and 1e999 is no number that a machine can hold."""
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{where}: {key or 'a value'} is {value}, which is no finite number: give a number or null")
    if isinstance(value, dict):
        for name, one in value.items():
            _finite(one, where, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list):
        for one in value:
            _finite(one, where, key)


def _encodable(value: Any) -> Any:
    """Half of a surrogate pair is no text: it becomes a question mark, as in any browser."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {_encodable(k): _encodable(v) for k, v in value.items()}
    return [_encodable(v) for v in value] if isinstance(value, list) else value
