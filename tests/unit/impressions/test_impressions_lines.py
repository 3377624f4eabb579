"""Lines with numbers and offsets, whatever the blocks that they are read in; times as a property."""

import gzip
import io
from datetime import UTC, datetime, timedelta, timezone

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.core.errors import InputError
from jobs.impressions import lines as module
from jobs.impressions.lines import RAW_LIMIT, contents_at, read_lines, unpacked
from jobs.impressions.times import read_times


def read(content: bytes, *, limit: int = 1 << 20):
    return list(read_lines(unpacked(io.BytesIO(content)), name="file", limit=limit))


@settings(deadline=None)
@given(
    st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b"").replace(b"\r", b"")), max_size=30),
    st.integers(1, 9),
)
def test_every_line_is_found_at_its_number_and_offset(contents, block):
    contents = [b"#", *contents]  # a text never begins like gzip
    text = b"\n".join(contents)
    before = module._BLOCK
    module._BLOCK = block
    try:
        found = read(text)
        again = dict(contents_at(io.BytesIO(text), [n.offset for n in found[::2]], name="file"))
    finally:
        module._BLOCK = before
    assert [n.content for n in found] == [c for c in contents if c.strip()]
    assert again == {n.offset: n.content for n in found[::2]}
    assert all(text[n.offset :].startswith(n.content) and contents[n.number - 1] == n.content for n in found)


@pytest.mark.parametrize("after", [b"", b"\n", b"\nsecond\nthird", b"\nsecond\n" + b"y" * 3000 + b"\n"])
def test_a_line_beyond_the_limit_is_cut_and_what_follows_is_read(after):
    found = read(b"first\n" + b"x" * (3 << 20) + after, limit=2000)
    assert [(n.number, n.cut) for n in found[:2]] == [(1, False), (2, True)]
    assert len(found[1].content) == min(RAW_LIMIT, 3 << 20)
    assert [n.content for n in found[2:] if not n.cut] == [w for w in after.split(b"\n") if w and len(w) < 2000]


def test_packed_files_are_known_by_their_content_not_their_name():
    assert [n.content for n in read(gzip.compress(b"a\r\nb\n"))] == [b"a", b"b"]
    assert read(b"") == [] and read(b"\n\n") == []


@pytest.mark.parametrize("cut", [1, 8, 30])
def test_a_truncated_gzip_is_an_error_that_names_the_file(cut):
    packed = gzip.compress(bytes(range(256)) * 50)
    with pytest.raises(InputError, match="file: its packed data end or break"):
        read(packed[:-cut])


def test_damaged_gzip_is_an_error_too():
    packed = bytearray(gzip.compress(b"line\n" * 1000, mtime=0))
    packed[30] ^= 0xFF
    with pytest.raises(InputError, match="packed data"):
        read(bytes(packed))


MOMENTS = st.datetimes(datetime(1991, 1, 1), datetime(2090, 1, 1))
OFFSETS = st.integers(-14 * 4, 14 * 4).map(lambda quarters: timezone(timedelta(minutes=15 * quarters)))


@settings(deadline=None)
@given(st.lists(st.tuples(MOMENTS, OFFSETS), min_size=1, max_size=20))
def test_a_time_with_an_offset_is_the_moment_that_python_reads(pairs):
    moments = [m.replace(tzinfo=zone) for m, zone in pairs]
    read_, reasons = read_times(pl.Series([m.isoformat() for m in moments]), zone="Asia/Tokyo")
    assert reasons.null_count() == len(moments)
    assert read_.to_list() == [m.astimezone(UTC) for m in moments]


USUAL = MOMENTS.map(lambda m: m.isoformat(timespec="milliseconds") + "Z")
ODD = st.one_of(
    MOMENTS.map(lambda m: m.isoformat() + "+02:00"),
    st.sampled_from(
        ["", "  ", "x", "2026-02-30T00:00:00.000Z", "2026-11-13T24:00:36.744Z", "2026-11-13T23:59:60.744Z"]
    ),
    st.sampled_from(
        ["1794597442041", "2026-11-13", "2026-11-13 00:00", "1850-01-01T00:00:00.000Z", "2026-13-01", None]
    ),
)


@settings(deadline=None)
@given(st.lists(st.one_of(USUAL, ODD), min_size=1, max_size=20), st.sampled_from(["", "Europe/Berlin"]))
def test_the_usual_form_is_read_as_it_would_be_among_all_others(texts, zone):
    alone = [read_times(pl.Series([f" {text}" if text else text], dtype=pl.String), zone=zone) for text in texts]
    together = read_times(pl.Series(texts, dtype=pl.String), zone=zone)
    assert together[0].to_list() == [time.to_list()[0] for time, _ in alone], "a space in front takes the long way"
    assert together[1].to_list() == [reason.to_list()[0] for _, reason in alone]


@settings(deadline=None)
@given(MOMENTS.map(lambda m: m.replace(microsecond=m.microsecond // 1000 * 1000, tzinfo=UTC)))
def test_epoch_numbers_of_every_unit_are_one_moment(moment):
    millis = round(moment.timestamp() * 1000)
    for text in (str(millis), str(millis * 1000), str(millis * 1_000_000)):
        if not millis >= 1e11:
            continue
        assert read_times(pl.Series([text]))[0].to_list()[0] - moment < timedelta(milliseconds=1)
    assert read_times(pl.Series([millis // 1000]))[0].to_list() == [moment.replace(microsecond=0)]


@pytest.mark.parametrize(
    ("form", "text", "zone", "moment"),
    [
        ("%d/%m/%Y %H:%M", "20/11/2026 10:30", "UTC", datetime(2026, 11, 20, 10, 30, tzinfo=UTC)),
        ("%Y%m%d", "20261120", "UTC", datetime(2026, 11, 20, tzinfo=UTC)),
        ("%d %b %Y %H:%M:%S %z", "20 Nov 2026 10:30:00 +0200", "", datetime(2026, 11, 20, 8, 30, tzinfo=UTC)),
    ],
)
def test_declared_formats(form, text, zone, moment):
    read_, reasons = read_times(pl.Series([text, "nonsense"]), zone=zone, form=form)
    assert read_.to_list() == [moment, None]
    assert reasons.to_list() == [None, "bad_time"]


@pytest.mark.parametrize(
    ("values", "zone", "reason"),
    [
        (pl.Series([datetime(2026, 11, 20)]), "", "no_time_zone"),
        (pl.Series([datetime(2026, 11, 20)]), "UTC", None),
        (pl.Series([datetime(2026, 11, 20, tzinfo=UTC)]), "", None),
        (pl.Series([None], dtype=pl.Datetime("us")), "UTC", "missing_time"),
        (pl.Series([datetime(2026, 11, 20).date()]), "", "no_time_zone"),
        (pl.Series([1_795_000_000.25]), "", None),
        (pl.Series([float("nan")]), "", "bad_time"),
    ],
)
def test_typed_columns(values, zone, reason):
    assert read_times(values, zone=zone)[1].to_list() == [reason]
