"""Days to files by arrival day: UBI documents in gzip, impressions in Parquet. One day in memory at a time, and what of
it arrives later; the same bytes for the same seed.
"""

import gzip
import io
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import polars as pl

from jobs.simulate.dirt import NOT_UTF8, bot_visit, dirty_lines
from jobs.simulate.lines import action_lines, query_lines, silent, with_actions
from jobs.simulate.log import Day, draw_day, impressions_frame
from jobs.simulate.world import World

PART_LINES = 100_000
"""Lines of one log file: small enough that several tasks share a large day."""


class UbiWriter:
    """Writes one corpus day by day; `counts` then says how many lines of each kind and form reached the log."""

    def __init__(self, world: World, *, corpus: str, folder: Path) -> None:
        self._world, self._corpus, self._folder = world, corpus, folder
        self._waiting: dict[date, list[pl.DataFrame]] = defaultdict(list)
        self.kinds: Counter[str] = Counter()
        self.forms: Counter[str] = Counter()
        self.late: Counter[str] = Counter()
        self.days: list[date] = []

    def write_day(self, day: date) -> int:
        """Write what arrives on `day`; returns the number of lines. Days must come in order."""
        for offset, lines in _by_arrival(self._lines(day), day):
            self._waiting[day + timedelta(days=offset)].append(lines)
        lines = pl.concat(self._waiting.pop(day)).sort("arrived", maintain_order=True)
        self._count(lines)
        folder = self._folder / day.isoformat()
        folder.mkdir(parents=True, exist_ok=True)
        for part, start in enumerate(range(0, lines.height, PART_LINES)):
            body = _encoded(lines["line"].slice(start, PART_LINES))
            with (folder / f"part-{part:04d}.ndjson.gz").open("wb") as raw, _zipped(raw) as file:
                file.write(body)
        self.days.append(day)
        return lines.height

    @property
    def not_arrived(self) -> int:
        """Lines of simulated days that would reach the log only after the last written day."""
        return sum(frame.height for frames in self._waiting.values() for frame in frames)

    def _lines(self, day: date) -> pl.DataFrame:
        drawn = with_actions(self._world, draw_day(self._world, corpus=self._corpus, day=day))
        frames = [query_lines(self._world, drawn)]
        frames += [action_lines(self._world, drawn, name=name) for name in ("click", "impression")]
        if not self._world.size.clean:
            frames += [dirty_lines(self._world, drawn), *self._bots(drawn.day)]
        return pl.concat(frames)

    def _bots(self, drawn: Day) -> list[pl.DataFrame]:
        bot = bot_visit(self._world, drawn)
        if bot is None:
            return []
        return [query_lines(self._world, silent(bot)).with_columns(pl.lit("bot_query").alias("kind"))]

    def _count(self, lines: pl.DataFrame) -> None:
        self.kinds.update(dict(lines.group_by("kind").len().iter_rows()))
        self.forms.update(dict(lines.drop_nulls("forms").group_by("forms").len().iter_rows()))
        self.late.update(dict(lines.filter("late").group_by("kind").len().iter_rows()))


class ParquetWriter:
    """Writes one corpus day by day as impressions; late rows stand in the folder of the day on which they arrive."""

    def __init__(self, world: World, *, corpus: str, folder: Path) -> None:
        self._world, self._corpus, self._folder = world, corpus, folder
        self._waiting: dict[date, list[pl.DataFrame]] = defaultdict(list)
        self.rows = 0

    def write_day(self, day: date) -> int:
        """Write what arrives on `day`; returns the number of rows."""
        drawn = draw_day(self._world, corpus=self._corpus, day=day)
        offsets = drawn.arrival_offset
        for offset in np.unique(offsets).tolist():
            frame = impressions_frame(self._world, drawn, rows=np.nonzero(offsets == offset)[0])
            self._waiting[day + timedelta(days=offset)].append(frame)
        folder = self._folder / day.isoformat()
        folder.mkdir(parents=True, exist_ok=True)
        frame = pl.concat(self._waiting.pop(day))
        frame.write_parquet(folder / "part-0000.parquet", compression="zstd", compression_level=1)
        self.rows += frame.height
        return frame.height


def _by_arrival(lines: pl.DataFrame, day: date) -> Iterator[tuple[int, pl.DataFrame]]:
    epoch = (day - date(1970, 1, 1)).days
    offset = (pl.col("arrived") // 86_400_000 - epoch).cast(pl.Int32)
    for (value,), frame in lines.with_columns(offset=offset).partition_by("offset", as_dict=True).items():
        yield value, frame.drop("offset")


def _encoded(lines: pl.Series) -> bytes:
    body = "\n".join(lines.to_list()) + "\n"
    if NOT_UTF8 not in body:
        return body.encode()
    return b"".join(_line_bytes(line) for line in body.splitlines(keepends=True))


def _line_bytes(line: str) -> bytes:
    return line.removeprefix(NOT_UTF8).encode("latin-1", "replace") if line.startswith(NOT_UTF8) else line.encode()


def _zipped(raw: io.BufferedWriter) -> gzip.GzipFile:
    """Without a name and a time in its head, so that equal logs are equal files."""
    return gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=1, mtime=0)
