"""Lines of a log file with their numbers and byte offsets, in bounded memory whatever a file holds."""

import gzip
from collections.abc import Iterator
from itertools import accumulate, chain, count, repeat
from typing import BinaryIO, NamedTuple

from isal import igzip, isal_zlib

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
    return igzip.IGzipFile(fileobj=stream) if start == _GZIP else stream


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
        held = rest + block
        *lines, rest = held.split(b"\n")
        if _is_plain(lines, held, limit):
            starts = accumulate((len(content) + 1 for content in lines), initial=offset)
            yield from map(Line, count(number + 1), starts, lines, repeat(False, len(lines)))
            number, offset = number + len(lines), offset + len(held) - len(rest)
            lines = []
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


def _is_plain(lines: list[bytes], held: bytes, limit: int) -> bool:
    """True if every line is to be yielded as it is, as in nearly all blocks: none blank, overlong or with a return."""
    longest = max(map(len, lines), default=0)
    return longest <= limit and b"\r" not in held and all(lines) and not any(map(bytes.isspace, lines))


def _line(number: int, offset: int, content: bytes, limit: int) -> Line:
    cut = len(content) > limit
    return Line(number, offset, content[:RAW_LIMIT] if cut else content.rstrip(b"\r"), cut)


def contents_at(stream: BinaryIO, offsets: list[int], *, name: str) -> Iterator[tuple[int, bytes]]:
    """(offset, content) of the lines that begin at these byte offsets of an unpacked stream; RAW_LIMIT bytes at most
    of one longer than LINE_LIMIT. Much cheaper than reading every line again to find a few.
    """
    wanted, held, begin = sorted(set(offsets)), b"", 0
    for block in chain(_blocks(stream, name=name), [b"\n"]):
        held += block
        while wanted and wanted[0] < begin + len(held):
            place = wanted[0] - begin
            end = held.find(b"\n", place)
            if end < 0 and len(held) - place <= LINE_LIMIT:
                break
            found = held[place:] if end < 0 else held[place:end]
            yield wanted.pop(0), found[:RAW_LIMIT] if len(found) > LINE_LIMIT else found.rstrip(b"\r")
        if not wanted:
            return
        used = max(0, min(wanted[0] - begin, len(held)))
        held, begin = held[used:], begin + used


def _blocks(stream: BinaryIO, *, name: str) -> Iterator[bytes]:
    done = 0
    while True:
        try:
            block = stream.read(_BLOCK)
        except (EOFError, isal_zlib.error, gzip.BadGzipFile) as error:
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
