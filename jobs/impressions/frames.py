"""Staged frames between tasks: Parquet files on a folder or an object store."""

from pathlib import Path

import polars as pl

from jobs.core.storage import is_object_store, rust_uri, storage_options
from jobs.core.tables import scan_uris

_GROUP = 100_000
"""Rows of a row group of staged files: small enough that a reader of one day skips most of a file sorted by day."""


def write_frame(frame: pl.DataFrame, uri: str) -> str:
    """Write one staged file and return its URI."""
    if is_object_store(uri):
        frame.write_parquet(
            rust_uri(uri), compression="lz4", row_group_size=_GROUP, storage_options=storage_options(uri)
        )
        return uri
    path = Path(uri.removeprefix("file://"))
    path.parent.mkdir(parents=True, exist_ok=True)
    frame.write_parquet(path, compression="lz4", row_group_size=_GROUP)
    return uri


def scan_frames(uris: list[str], *, schema: dict) -> pl.LazyFrame:
    """The staged files as one lazy frame; an empty one of that schema if there are none."""
    return scan_uris(uris) if uris else pl.LazyFrame(schema=schema)
