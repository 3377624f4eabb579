"""No user id, address or card of a refused row is kept as it came, whatever format and shape the row had."""

import gzip
import json

import polars as pl
import pytest

from jobs.impressions.layout import Layout
from jobs.impressions.masking import Hidden, Masker
from jobs.impressions.privacy import make_salt, mask_text
from jobs.impressions.reading import hidden_fields
from jobs.impressions.replay import replay
from tests.unit.impressions.logs import SALT, event, ndjson, query

USER, MAIL, CARD, PHONE = "anna-4711", "anna@example.com", "4111 1111 1111 1111", "030 901820"
UBI = Layout(source="s", corpus="c", format="ubi", locales=("de",))
CSV = ("search_id", "query", "user_id", "item_id")


def masker(layout: Layout = UBI, **more) -> Masker:
    return Masker(hidden=hidden_fields(layout), salt=SALT, **more)


@pytest.mark.parametrize(
    "row",
    [
        f'{{"user_id":"{USER}","user_query":"{MAIL}"}}',
        f'{{"user_id":"{USER}","user_query":"{MAIL}"',
        f'{{"user_query":"call {PHONE}","user_id":"{USER}',
        f'{{"user_query":"{CARD}","client_id": "{USER}", "x": ',
        f"{{'user_id': '{USER}', 'user_query': '{PHONE}'}}",
        f"user_id={USER}&user_query={MAIL}",
        f'{{"message":"{{\\"user_id\\":\\"{USER}\\",\\"user_query\\":\\"{MAIL}\\"}}"',
        f'{{"user_id":["{USER}"],"user_query":"{MAIL}"',
        f'{{"user_id":{{"id":"{USER}"}},"user_query":{{"text":"{PHONE}"}}}}',
        f'{{"user_id":"{USER}","trail":"/u/{USER}/search","tags":["{USER}"]}}',
        f'{{"session_id":"{USER}","event_attributes":{{"session_id":"{USER}"}}}}',
        f'{{"user_id":"{USER}","user_query":"caf\udce9 {MAIL}"}}',
        f'{{"user_id":"{USER}\udce9"}}',
        f'{{"user_id":"{USER}","user_query":"\\ud800"}}',
        f'{{"user_id":"{USER}","n":NaN}}',
        f'{{"user_id":"{USER}"}}{{"user_id":"{USER}"}}',
        f'[{{"user_id":"{USER}"}}]',
        "[" * 100_000 + f'{{"user_id":"{USER}"',
    ],
)
def test_no_shape_of_json_keeps_a_person(row):
    kept = masker().kept(row.encode("utf-8", "surrogateescape"))
    for secret in (USER, MAIL, CARD, PHONE):
        assert secret not in kept
    assert len(kept.encode()) <= 4096


@pytest.mark.parametrize(
    "row",
    [
        f"s1,jazz,{USER},a",
        f's1,"jazz, {PHONE}",{USER},a',
        f's1,"two\nlines {MAIL}","{USER}",a',
        f"s1,jazz,{USER},a,extra",
        f"s1,tv, 55,{USER},a",
        f"s1,{USER},a",
        f"jazz,{USER}",
        f's1,"jazz,{USER},a',
        f's1,"jazz" band,{USER},a',
        f"s1,caf\udce9 {CARD},{USER},a",
        f's1,"never closed\n,{USER},a',
    ],
)
def test_no_shape_of_a_csv_row_keeps_a_person(row):
    layout = Layout(source="s", corpus="c", format="csv", locales=("de",))
    kept = masker(layout, header=CSV).kept(row.encode("utf-8", "surrogateescape"))
    for secret in (USER, MAIL, CARD, PHONE):
        assert secret not in kept


@pytest.mark.parametrize("cut", [20, 25, 30, 36, 45, 60])
def test_a_row_that_is_cut_keeps_no_half_of_a_person(cut):
    row = f'{{"user_query":"{MAIL}","user_id":"{USER}"}}'.encode()
    kept = masker().kept(row[:cut], cut=True)
    assert "anna" not in kept


def test_hashed_ids_of_a_refused_row_are_those_of_the_table():
    kept = json.loads(masker().kept(ndjson({"user_id": 12345.0, "client_id": "12345"})))
    assert SALT.key(kept["user_id"]) == SALT.key(kept["client_id"]) == SALT.key("12345")


@pytest.mark.parametrize(
    ("text", "locale", "declared", "masked"),
    [
        ("030 901820 anrufen", "und", ("de", "en"), "<phone> anrufen"),
        ("030 901820 anrufen", "", (), "<phone> anrufen"),
        ("call (650) 253-0000", "und", (), "call <phone>"),
        ("llamar 912 345 678", "", (), "llamar <phone>"),
        ("part 12345678 red", "", (), "part 12345678 red"),
        ("isbn 9783161484100", "", (), "isbn 9783161484100"),
    ],
)
def test_phone_numbers_are_found_where_the_locale_is_not_known(text, locale, declared, masked):
    assert mask_text(text, locale=locale, declared=declared) == masked


# --- through a whole ingestion ---


def rejected(bench) -> pl.DataFrame:
    return bench.store.read("rejected_impressions").sort("line")


def test_a_csv_record_of_several_lines_is_kept_whole_and_replayed(bench):
    header = b"search_id,query,item_id,rank,clicked,shown_at,user_id"
    long = b's1,"two\nlines, and more",a,1,1,2026-11-20T10:00:00,' + USER.encode()
    wide = b's3,"' + b"x" * 5000 + b'\nend",a,1,1,2026-11-20T10:00:00,' + USER.encode()
    good = [b"s%d,jazz,a,1,0,2026-11-20T10:00:00Z,ben" % n for n in range(10, 14)]
    path = bench.write("2026-11-20", header, long, wide, *good, name="t.ndjson")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    source = bench.source(format="csv", path="logs/{day}/*.ndjson")
    assert bench.ingest(source)["rejected"] == {"no_time_zone": 2}
    kept = rejected(bench)
    assert kept["line"].to_list() == [2, 4]
    assert json.loads(kept["raw"][0])["query"] == "two\nlines, and more"
    assert USER not in "".join(kept["raw"])
    summary = replay(bench.work(bench.settings(source.model_copy(update={"time_zone": "UTC"}))))
    assert (summary["accepted"], summary["rejected"]) == (2, {})
    rows = bench.store.read("impressions").filter(pl.col("search_id").is_in(["s1", "s3"]))
    assert set(rows["query_raw"]) == {"two\nlines, and more", "x" * 5000 + "\nend"}
    assert set(rows["user_key"]) == {SALT.key(USER)}


def test_rows_that_are_no_rows_stay_in_quarantine_when_replayed(bench):
    header = b"search_id,query,item_id,rank,clicked,shown_at"
    rows = [b's1,"jazz,a,1,0,2026-11-20T10:00:00Z', b"s2,jazz,a,1", b"s3,caf\xe9,a,1,0,2026-11-20T10:00:00Z",
            b"s4,jazz,a,1,0,2026-11-20T10:00:00"]  # fmt: skip
    bench.write("2026-11-20", header, *rows, b"s5,jazz,a,1,0,2026-11-20T10:00:00Z", name="t.ndjson")
    source = bench.source(format="csv", path="logs/{day}/*.ndjson")
    reasons = ["bad_quotes", "field_count", "undecodable", "no_time_zone"]
    assert bench.ingest(source)["rejected"] == dict.fromkeys(reasons, 1)
    summary = replay(bench.work(bench.settings(source.model_copy(update={"time_zone": "UTC"}))))
    assert summary["accepted"] == 1
    assert rejected(bench)["reason"].to_list() == reasons[:3]
    assert bench.store.read("impressions").height == 2


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("form", ["ubi", "jsonl", "csv"])
def test_a_byte_order_mark_is_no_content(bench, form, packed):
    rows = {
        "ubi": ndjson(query(hits=["a"])),
        "jsonl": ndjson({"search_id": "q1", "query": "jazz", "item_id": "a", "rank": 1, "clicked": 0,
                         "shown_at": "2026-11-20T10:00:00Z"}),
        "csv": b"search_id,query,item_id,rank,clicked,shown_at\nq1,jazz,a,1,0,2026-11-20T10:00:00Z\n",
    }  # fmt: skip
    path = bench.write("2026-11-20", b"", name="t.ndjson")
    body = b"\xef\xbb\xbf" + rows[form]
    path.write_bytes(gzip.compress(body) if packed else body)
    summary = bench.ingest(bench.source(format=form, path="logs/{day}/*.ndjson"))
    assert (summary["impressions"], summary["rejected"]) == (1, {})


def test_refused_events_at_the_join_are_masked_like_the_others(bench):
    bench.write("2026-11-20", query(hits=["a"]), event(search="q9", client_id=USER, note=MAIL, trail=f"/{USER}"))
    bench.ingest()
    (raw,) = rejected(bench)["raw"]
    assert USER not in raw and MAIL not in raw


def test_a_hidden_name_inside_a_longer_one_is_no_field():
    plain = Masker(hidden=Hidden(queries=frozenset(), ids=frozenset({"id"})), salt=make_salt("s"))
    assert plain.kept(b'{"grid": 5, "width": 7') == '{"grid": 5, "width": 7'
