"""Integer keys of queries and items (formats.md, "query_key"), and the equal ranges that tasks work on."""

import hashlib
import itertools

import polars as pl

RANGES, FINEST = 16, 64
"""Row groups of daily tables are cut at this many equal ranges of query_key, those of large days at the finer ones: a
task reads its own and nothing else."""


def key_of(*parts: str) -> int:
    """First 8 bytes of sha256 over the parts joined by 0x00, as a signed big-endian 64-bit integer.

    The same value as Spark's `cast(conv(substr(sha2(concat_ws(char(0), ...), 256), 1, 16), 16, -10) as bigint)`.
    """
    digest = hashlib.sha256("\x00".join(parts).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def query_key(corpus: str, locale: str, query: str) -> int:
    """Key of a normalised query within its corpus and locale; all joins of logs, pages, outcomes and cards use it."""
    return key_of(corpus, locale, query)


def item_key(corpus: str, item_id: str) -> int:
    """Key of an item within its corpus."""
    return key_of(corpus, item_id)


def key_hex(key: int) -> str:
    """The key as 16 hexadecimal digits, as files and page ids show it."""
    return f"{key & 0xFFFFFFFFFFFFFFFF:016x}"


def key_from_hex(text: str) -> int:
    """Inverse of `key_hex`; raises ValueError for anything but 16 hexadecimal digits."""
    if len(text) != 16:
        raise ValueError(f"{text!r} is no key of 16 hexadecimal digits")
    return int.from_bytes(bytes.fromhex(text), "big", signed=True)


def range_of(key: int, *, ranges: int = RANGES) -> int:
    """Which of `ranges` equal parts of the signed 64-bit line holds `key` (0-based)."""
    return ((key + (1 << 63)) * ranges) >> 64


def range_bounds(*, ranges: int = RANGES) -> list[tuple[int, int]]:
    """Inclusive (low, high) of each range, in order, covering the whole signed 64-bit line."""
    edges = [-(1 << 63) + -((-i << 64) // ranges) for i in range(ranges + 1)]
    return [(low, high - 1) for low, high in itertools.pairwise(edges)]


def with_query_key(frame: pl.DataFrame, *, query: str = "query", name: str = "query_key") -> pl.DataFrame:
    """Add the query key to a frame with columns corpus, locale and `query`; each distinct text is hashed once."""
    return _with_key(frame, ["corpus", "locale", query], name)


def with_item_key(frame: pl.DataFrame, *, name: str = "item_key") -> pl.DataFrame:
    """Add the item key to a frame with columns corpus and item_id; each distinct id is hashed once."""
    return _with_key(frame, ["corpus", "item_id"], name)


def _with_key(frame: pl.DataFrame, columns: list[str], name: str) -> pl.DataFrame:
    varying = [c for c in columns if not _constant(frame[c])] or columns[-1:]  # joins on one column take half as long
    distinct = frame.select(columns).unique(varying)
    keys = pl.Series(name, [key_of(*row) for row in distinct.iter_rows()], dtype=pl.Int64)
    return frame.join(distinct.select(varying).with_columns(keys), on=varying, how="left", maintain_order="left")


def _constant(values: pl.Series) -> bool:
    return len(values) > 0 and values.null_count() == 0 and bool((values == values[0]).all())
