"""CSV and JSON lines whose rows each say all (page, query, item, rank, click, time), to rows as read."""

import csv
from collections import deque
from collections.abc import Iterator
from typing import Any

import polars as pl

from jobs.core.errors import InputError
from jobs.impressions import reasons
from jobs.impressions.documents import READ, Kind
from jobs.impressions.layout import FIELDS, REQUIRED, Layout
from jobs.impressions.lines import Line
from jobs.impressions.ubi import Tally, exact_document, load
from jobs.impressions.values import getter, id_text, rounded, text

_MOST_LINES = 20
"""A quoted field with line ends may span this many lines; a stray quote then costs one row, not the rest of the
file."""

_READ_AS = {"page": "search_id", "item": "item_id", "click": "clicked", "event": "event_id"}


def read_name(name: str) -> str:
    """Column of documents.READ that holds a field."""
    return _READ_AS.get(name, name)


def mapped_columns(there: list[str], *, layout: Layout, name: str, optional: bool = False) -> dict[str, str]:
    """Field to file column for the columns that exist; InputError names what is missing and how to map it.

    With `optional` a declared column of a field that a row may lack need not be there.
    """
    found = {f: layout.column(f) for f in FIELDS if layout.column(f) in there}
    wrong = sorted(f for f in layout.columns if f not in found and not (optional and f not in REQUIRED))
    if wrong:
        raise InputError(
            f"{name}: columns.{wrong[0]} names {layout.columns[wrong[0]]!r}, which is not there: it has"
            f" {', '.join(there)}"
        )
    given = {*found, *layout.defaults, *({"time"} if layout.day else set())}
    missing = [f for f in REQUIRED if f not in given]
    if missing:
        way = "pass --day, or map it with --columns time=COLUMN" if missing == ["time"] else (
            f"map it with --columns {missing[0]}=COLUMN")  # fmt: skip
        raise InputError(f"{name}: no column holds the field {missing[0]!r}: {way}; it has {', '.join(there)}")
    return found


def frame_of(columns: dict[str, list], lines: list[Line], refused: list[tuple[Line, str]]) -> pl.DataFrame:
    """Rows as read from columns of texts by field, and the lines that were refused before they were rows."""
    rank = pl.Series("rank", columns.pop("rank", [None] * len(lines)), dtype=pl.String)
    interaction = pl.Series("interaction", columns.pop("interaction", [None] * len(lines)), dtype=pl.String)
    body: dict[str, Any] = {read_name(f): pl.Series(v, dtype=pl.String) for f, v in columns.items()}
    body |= {"line": [n.number for n in lines], "byte_offset": [n.offset for n in lines]}
    kept = pl.DataFrame(body).with_columns(
        pl.lit(int(Kind.ROW), pl.Int8).alias("kind"), rank_of(rank), rank_reason(rank), number_of(interaction)
    )
    lost = pl.DataFrame(
        {"line": [n.number for n, _ in refused], "byte_offset": [n.offset for n, _ in refused],
         "reason": [r for _, r in refused]},
        schema={n: READ[n] for n in ("line", "byte_offset", "reason")},
    )  # fmt: skip
    return completed(pl.concat([kept, lost], how="diagonal_relaxed") if lost.height else kept)


def completed(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with every column of documents.READ."""
    missing = [pl.lit(None, dtype=t).alias(n) for n, t in READ.items() if n not in frame.columns]
    return frame.with_columns(missing)


def rank_of(rank: pl.Series) -> pl.Series:
    """Places as whole numbers from texts such as "3" or "3.0", null where they are none."""
    digits = rank.str.strip_chars().str.extract(r"^(-?\d{1,9})(?:\.0+)?$")
    return digits.cast(pl.Int64).alias("rank")


def rank_reason(rank: pl.Series) -> pl.Series:
    """BAD_RANK where there is a text that is no whole number."""
    frame = pl.DataFrame({"text": rank, "place": rank_of(rank)})
    wrong = pl.col("place").is_null() & (pl.col("text").str.strip_chars() != "")
    return frame.select(pl.when(wrong).then(pl.lit(reasons.BAD_RANK)).alias("reason")).to_series()


def number_of(values: pl.Series) -> pl.Series:
    """Interaction values from texts; what is no number becomes -1, which the checks refuse."""
    frame = pl.DataFrame({"text": values, "number": values.str.strip_chars().cast(pl.Float64, strict=False)})
    wrong = pl.col("number").is_null() & (pl.col("text").str.strip_chars() != "")
    return frame.select(pl.when(wrong).then(-1.0).otherwise(pl.col("number")).alias("interaction")).to_series()


class JsonReader:
    """JSON lines, one row each; `columns` may follow dotted paths."""

    def __init__(self, layout: Layout, *, name: str) -> None:
        paths = {f: layout.column(f) for f in FIELDS}
        self._get = {f: getter(path) for f, path in paths.items()}
        self._layout, self._name, self._checked = layout, name, False
        self.tally = Tally()

    def read(self, lines: list[Line]) -> pl.DataFrame:
        """Rows as read; a field that a row lacks is null and refused by the checks."""
        kept, refused = [], []
        columns: dict[str, list] = {f: [] for f in self._get}
        for line in lines:
            document, reason = load(line)
            if reason is not None:
                refused.append((line, reason))
                continue
            kept.append(line)
            for field, get in self._get.items():
                columns[field].append(_long_or_text(get(document)))
        self._exact_ids(columns, kept)
        self.tally.documents += len(lines)
        self._check_columns(columns, kept)
        return frame_of(columns, kept, refused)

    def _check_columns(self, columns: dict[str, list], kept: list[Line]) -> None:
        """Refuse the file if no row of its first batch has a field that it needs: a wrong name is told once, not once a
        row. A field that may be missing is null then, and said so."""
        if not kept or self._checked:
            return
        there = [self._layout.column(f) for f, values in columns.items() if any(v is not None for v in values)]
        found = mapped_columns(there, layout=self._layout, name=self._name, optional=True)
        absent = [f"{f} ({c})" for f, c in self._layout.columns.items() if f not in found]
        if absent:
            self.tally.notes.append(f"{self._name}: no row of its first has columns.{', '.join(absent)}: null there")
        self._checked = True

    def _exact_ids(self, columns: dict[str, list], kept: list[Line]) -> None:
        """Ids whose numbers a float rounds, read again digit by digit."""
        for field in ("page", "item", "user", "session", "event"):
            for n, value in enumerate(columns[field]):
                if type(value) is float:
                    columns[field][n] = id_text(self._get[field](exact_document(kept[n].content)))
        for field, values in columns.items():
            columns[field] = [str(v) if type(v) is float else v for v in values]


def _long_or_text(value: Any) -> str | float | None:
    """`text` of a value; a float that rounds stays one, so that it can be read again."""
    return value if rounded(value) else text(value)


class CsvReader:
    """CSV with a header; quoted fields may hold separators, quotes and line ends."""

    def __init__(self, layout: Layout, *, name: str) -> None:
        self._layout, self._name = layout, name
        self.separator = layout.values.get("separator", "\t" if ".tsv" in name else ",")
        self.waiting: deque[Line] = deque()
        self.spread: list[Line] = []
        self._places: dict[str, int] = {}
        self.header: list[str] = []
        self.tally = Tally()

    def read(self, lines: list[Line], *, last: bool = True) -> pl.DataFrame:
        """Rows as read of these lines; without `last` a record that may go on waits for the next call."""
        kept, rows, refused = [], [], []
        for line, fields in self.records(lines, last=last):
            self.tally.documents += 1
            if isinstance(fields, str):
                refused.append((line, fields))
            else:
                kept.append(line)
                rows.append(fields)
        columns = {f: [r[i] or None for r in rows] for f, i in self._places.items()}
        return frame_of(columns, kept, refused)

    def records(self, lines: list[Line], *, last: bool = True) -> list[tuple[Line, list[str] | str]]:
        """Records with all of their lines as one, and their fields or the reason why they have none.

        `spread` holds those of several lines afterwards.
        """
        self.waiting.extend(lines)
        self.spread = []
        if not self.header and self.waiting:
            self._read_header(self.waiting.popleft())
        return list(self._records(last=last))

    def _read_header(self, line: Line) -> None:
        fields = self._parse([line.content.removeprefix(b"\xef\xbb\xbf")])
        if isinstance(fields, str):
            raise InputError(f"{self._name}: its first line is no CSV header ({fields}): declare the right format")
        self.header = [f.strip() for f in fields]
        mapped = mapped_columns(self.header, layout=self._layout, name=self._name)
        self._places = {f: self.header.index(c) for f, c in mapped.items()}

    def _records(self, *, last: bool) -> Iterator[tuple[Line, list[str] | str]]:
        while self.waiting:
            line = self.waiting[0]
            fields, used = self._record(line)
            if fields is None and not last and len(self.waiting) < _MOST_LINES:
                return
            taken = [self.waiting.popleft() for _ in range(used)]
            if used > 1:
                line = line._replace(content=b"\n".join(n.content for n in taken))
                self.spread.append(line)
            yield line, reasons.BAD_QUOTES if fields is None else fields

    def _record(self, line: Line) -> tuple[list[str] | str | None, int]:
        """Fields (or the reason why there are none) of the record that begins here, and how many lines it takes."""
        if line.cut:
            return reasons.TOO_LONG, 1
        fields = self._parse([line.content])
        taken = 1
        while fields == "open" and taken < min(_MOST_LINES, len(self.waiting)):
            taken += 1
            fields = self._parse([self.waiting[i].content for i in range(taken)])
            if fields == reasons.UNDECODABLE:  # the next line's own fault: it is told when its turn comes
                return reasons.BAD_QUOTES, 1
        if fields == "open":
            return None, 1
        if isinstance(fields, str):
            return fields, 1
        return (fields, taken) if len(fields) == len(self.header) else (reasons.FIELD_COUNT, taken)

    def _parse(self, contents: list[bytes]) -> list[str] | str:
        try:
            texts = [c.decode("utf-8") + "\n" for c in contents]
        except UnicodeDecodeError:
            return reasons.UNDECODABLE
        texts[-1] = texts[-1][:-1]
        try:
            return next(csv.reader(texts, delimiter=self.separator, strict=True), [])
        except csv.Error as error:
            told = str(error)
            if "field limit" in told:
                return reasons.TOO_LONG
            return "open" if "unexpected end" in told else reasons.BAD_QUOTES
