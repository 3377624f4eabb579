"""Lines of a log file with their numbers and byte offsets, in bounded memory whatever a file holds."""

import gzip
import zlib
from collections.abc import Iterator
from itertools import chain
from typing import BinaryIO, NamedTuple

from jobs.core.errors import InputError

LINE_LIMIT = 4 << 20
"""Longest line that is read, in bytes: a query row with 1,000 hits and its engine query stays under 200 KB."""

RAW_LIMIT = 4096
"""Bytes of a refused row that are kept (formats.md, rejected_impressions)."""

_BLOCK = 1 << 20
_GZIP = b"\x1f\x8b"
_MARK = b"\xef\xbb\xbf"


class Line(NamedTuple):
    """One line: 1-based number, byte offset in the unpacked file, content without its end, whether it was cut."""

    number: int
    offset: int
    content: bytes
    cut: bool


def unpacked(stream: BinaryIO) -> BinaryIO:
    """The stream itself, or its unpacked form if it begins like gzip (the name of a file proves nothing)."""
    start = stream.read(2)
    stream.seek(0)
    return gzip.GzipFile(fileobj=stream) if start == _GZIP else stream


def read_lines(stream: BinaryIO, *, name: str, limit: int = LINE_LIMIT) -> Iterator[Line]:
    """Yield the non-empty lines of an unpacked stream; a line beyond `limit` is yielded cut to RAW_LIMIT, marked.

    Raises InputError, naming the file and how far it was read, where packed data end early or are damaged.
    """
    blocks = _blocks(stream, name=name)
    start = next(blocks, b"")
    marked = start.startswith(_MARK)  # some editors and exports begin UTF-8 with a byte order mark: it is no content
    number, offset, rest = 0, 3 if marked else 0, b""
    blocks = chain([start[offset:]], blocks)
    for block in blocks:
        *lines, rest = (rest + block).split(b"\n")
        for content in lines:
            number += 1
            size = len(content)
            if content and not content.isspace():
                yield Line(number, offset, content, False) if size <= limit and content[-1] != 13 else (
                    _line(number, offset, content, limit))  # fmt: skip
            offset += size + 1
        if len(rest) > limit:
            number += 1
            yield Line(number, offset, rest[:RAW_LIMIT], True)
            offset += len(rest)
            skipped, rest = _skip(blocks)
            offset += skipped
    lines = rest.split(b"\n")
    for i, content in enumerate(lines):
        if content.strip():
            yield _line(number + 1 + i, offset, content, limit)
        offset += len(content) + 1


def _line(number: int, offset: int, content: bytes, limit: int) -> Line:
    cut = len(content) > limit
    return Line(number, offset, content[:RAW_LIMIT] if cut else content.rstrip(b"\r"), cut)


def _blocks(stream: BinaryIO, *, name: str) -> Iterator[bytes]:
    done = 0
    while True:
        try:
            block = stream.read(_BLOCK)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(
                f"{name}: its packed data end or break after {done} bytes ({error}): fetch the file again; nothing"
                " of this ingestion was published"
            ) from error
        if not block:
            return
        done += len(block)
        yield block


def _skip(blocks: Iterator[bytes]) -> tuple[int, bytes]:
    """Read past the end of an overlong line: bytes skipped (its end included) and what follows it."""
    skipped = 0
    for block in blocks:
        place = block.find(b"\n")
        if place >= 0:
            return skipped + place + 1, block[place + 1 :]
        skipped += len(block)
    return skipped, b""
