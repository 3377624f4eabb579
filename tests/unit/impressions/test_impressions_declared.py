"""What is declared against what is there: rank bases, columns that a day lacks, ids, arrival, and stored figures."""

import json
import re
from datetime import date
from types import SimpleNamespace

import polars as pl
import pytest

from jobs.core.errors import InputError, UsageError
from jobs.core.windows import Run
from jobs.impressions.ingest import ingest as whole
from jobs.impressions.inputs import Ledger, list_files
from jobs.impressions.layout import layout_of
from jobs.impressions.stages import DOUBTED_BASE, WRONG_BASE
from jobs.impressions.stored import with_stored
from jobs.impressions.work import Request
from tests.unit.impressions.logs import SALT, event, ingest, layout, ndjson, query

ROW = {"search_id": "q1", "query": "jazz", "item_id": "a", "rank": 1, "clicked": 0, "shown_at": "2026-11-20T10:00:00Z"}


# --- rank bases ---


def clicks_at(*ranks: int, application: str = "app") -> list[dict]:
    """One search a rank, with its explicit impression there."""
    found = []
    for n, rank in enumerate(ranks):
        found += [query(f"{application}{n}", application=application),
                  event("impression", f"{application}{n}", rank=rank, application=application)]  # fmt: skip
    return found


@pytest.mark.parametrize(
    ("ranks", "base", "refused", "warned"),
    [
        ([1, 2, 3] * WRONG_BASE, 0, True, False),
        ([0, *[1, 2, 3] * WRONG_BASE], 0, False, False),
        ([1, 2] * DOUBTED_BASE, 0, False, True),
        ([1, 2, 3], 0, False, False),
        ([2, 3, 4] * WRONG_BASE, 0, False, False),
        ([0, 1] * 60, 1, True, False),
        ([1, 2] * WRONG_BASE, 1, False, False),
    ],
    ids=["starts-at-one", "a-single-zero", "few", "very-few", "second-place-never-either", "zero-for-one", "right"],
)
def test_a_wrong_rank_base_is_refused_in_both_directions(bench, ranks, base, refused, warned):
    bench.write("2026-11-20", *clicks_at(*ranks), *clicks_at(1, 2, application="web"))
    source = bench.source(rank_base={"app": base, "default": 1})
    if refused:
        with pytest.raises(InputError, match=rf'"app" = {1 - base}'):
            bench.ingest(source)
        assert bench.store.version("impressions") is None
        return
    assert bool(bench.ingest(source)["warnings"]) == warned


def test_one_search_with_many_ranks_proves_nothing(bench):
    bench.write("2026-11-20", query(application="app"), *[
        event("impression", item=f"i{n}", rank=1, application="app", at=f"2026-11-20T10:{n % 60:02d}:{n // 60:02d}Z")
        for n in range(3 * WRONG_BASE)
    ])  # fmt: skip
    assert bench.ingest(bench.source(rank_base={"app": 0}))["warnings"] == []


def test_who_never_logs_the_first_place_can_say_so(bench):
    bench.write("2026-11-20", *clicks_at(*[1, 2] * WRONG_BASE))
    source = bench.source(rank_base={"app": 0}, values={"first_place": "never"})
    assert bench.ingest(source)["warnings"] == []
    assert set(bench.store.read("impressions")["rank"]) == {2, 3}


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ({"values": {"seperator": ";"}}, "values.seperator means nothing: use time, arrived, separator"),
        ({"values": {"separator": "; "}}, "values.separator is '; ': write one character"),
        ({"defaults": {"clicked": "false"}}, "defaults.clicked means nothing: use page, query, item"),
        ({"columns": {"clicked": "c"}}, "columns.clicked is no field"),
    ],
)
def test_a_misspelt_declaration_is_wrong_use(bench, over, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        layout_of(bench.source(**over))


# --- columns that a day lacks ---


def test_an_optional_column_that_a_day_lacks_is_null_and_said_so(bench):
    bench.write("2026-11-20", ROW | {"variant": "x", "user": {"id": "anna"}})
    bench.write("2026-11-21", ROW | {"search_id": "q2"})
    source = bench.source(format="jsonl", columns={"ranker": "variant", "user": "user.id"})
    summary = bench.ingest(source)
    rows = dict(bench.store.read("impressions").select("search_id", "ranker").iter_rows())
    assert rows == {"q1": "x", "q2": None}
    assert len(summary["warnings"]) == 1 and "ranker (variant), user (user.id)" in summary["warnings"][0]


@pytest.mark.parametrize("field", ["page", "query", "item", "rank", "click", "time"])
def test_a_column_that_every_row_needs_is_missed_at_once(bench, field):
    bench.write("2026-11-20", ROW)
    with pytest.raises(InputError, match=f"columns.{field} names 'elsewhere', which is not there"):
        bench.ingest(bench.source(format="jsonl", columns={field: "elsewhere"}))


@pytest.mark.parametrize(
    ("times", "guarded"),
    [
        (("2026-11-20T10:01:00Z", "2026-11-20T10:01:00Z"), True),
        (("2026-11-20T10:01:00Z", None), False),
        ((None, None), False),
    ],
)
def test_arrival_is_guarded_only_if_every_row_says_when_it_arrived(bench, times, guarded):
    path = bench.write("2026-11-20", *[ROW | {"search_id": f"q{n}", "at": t} for n, t in enumerate(times)])
    source = bench.source(format="jsonl", path="flat", columns={"arrived": "at"})
    summary = bench.ingest(source, files=list_files(str(path)))
    assert summary["sources"]["web"]["arrival_guarded"] is guarded


# --- ids ---

LONG = 2**53 + 1


@pytest.mark.parametrize(
    ("number", "text"),
    [("12345", "12345"), ("12345.0", "12345"), ('"12345.0"', "12345"), ('"12345"', "12345"), (str(LONG), str(LONG)),
     (f"{LONG}.0", str(LONG)), (str(2**64 + 1), str(2**64 + 1)), (str(10**25 + 1), str(10**25 + 1)),
     ('"1.50"', "1.50"), ('"v1.0"', "v1.0"), ('"007"', "007")],
)  # fmt: skip
@pytest.mark.parametrize("form", ["ubi", "jsonl"])
def test_ids_are_what_was_written_and_join_with_their_text(form, number, text):
    if form == "ubi":
        lines = ndjson(query("Q", hits=["I"], user_id="U"), event(search="S", item=text, user_id="U"))
        told = lines.replace(b'"Q"', number.encode()).replace(b'"I"', number.encode()).replace(b'"U"', number.encode())
        outcome = ingest(told.replace(b'"S"', json.dumps(text).encode()))
        assert outcome.clicks == {(text, text, 1)}
    else:
        line = json.dumps(ROW | {"search_id": "S", "item_id": "S", "user_id": "S"}).encode()
        outcome = ingest(line.replace(b'"S"', number.encode()), layout=layout(format="jsonl", actions={}))
        assert outcome.places == {(text, text, 1)}
    assert outcome.rows["user_key"].to_list() == [SALT.key(text)]


def test_empty_numbers_of_a_float_column_are_no_ids(bench):
    path = bench.folder / "day.parquet"
    frame = pl.DataFrame([ROW, ROW | {"search_id": "q2"}]).with_columns(pl.Series("item_id", [7.0, float("nan")]))
    frame.write_parquet(path)
    summary = bench.ingest(bench.source(format="parquet", path="*.parquet"), paths=[path])
    assert summary["rejected"] == {"missing_item": 1}
    assert bench.store.read("impressions")["item_id"].to_list() == ["7"]


@pytest.mark.parametrize("field", ["item_id", "user_id", "query", "shown_at"])
@pytest.mark.parametrize("nested", [pl.concat_list("search_id"), pl.struct("search_id")], ids=["list", "struct"])
def test_a_nested_column_is_one_clear_sentence(bench, field, nested):
    path = bench.folder / "day.parquet"
    pl.DataFrame([ROW]).with_columns(nested.alias(field)).write_parquet(path)
    with pytest.raises(InputError, match=f"is '{field}', which holds .*: name a column of plain values"):
        bench.ingest(bench.source(format="parquet", path="*.parquet"), paths=[path])


def test_bytes_that_are_no_text_are_refused_and_never_null(bench):
    path = bench.folder / "day.parquet"
    rows = pl.DataFrame([ROW | {"search_id": f"q{n}", "segment": "x"} for n in range(3)])
    texts = pl.Series([b"jazz", b"caf\xe9", b""])
    rows.with_columns(query=texts, segment=pl.Series([b"a", None, b"\xff"])).write_parquet(path)
    summary = bench.ingest(bench.source(format="parquet", path="*.parquet"), paths=[path])
    assert summary["rejected"] == {"undecodable": 2}
    assert bench.store.read("impressions").select("query", "segment").rows() == [("jazz", "a")]


def test_whole_numbers_of_a_decimal_column_are_ids(bench):
    path = bench.folder / "day.parquet"
    rows = pl.DataFrame([ROW]).with_columns(pl.lit(12345).cast(pl.Decimal(20, 2)).alias("item_id"))
    rows.write_parquet(path)
    bench.ingest(bench.source(format="parquet", path="*.parquet"), paths=[path])
    assert bench.store.read("impressions")["item_id"].to_list() == ["12345"]


# --- what stored days hold ---


def test_the_ledger_knows_what_became_of_every_days_rows(bench):
    day_two = [query("q2", hits=["a"]), event(search="q2"), event(search="q2"), event(search="lost"), event("scroll")]
    bench.write("2026-11-20", query(hits=["a"]), b"{")
    bench.write("2026-11-21", *day_two)
    bench.ingest()
    ledger = Ledger(bench.store, "web")
    assert ledger.figures(date(2026, 11, 20)) == {
        "rows_in": 2, "accepted": 1, "duplicates": 0, "ignored": 0, "rejected": {"malformed": 1}
    }  # fmt: skip
    assert ledger.figures(date(2026, 11, 21)) == {
        "rows_in": 5, "accepted": 2, "duplicates": 1, "ignored": 1, "rejected": {"unknown_search": 1}
    }  # fmt: skip
    assert ledger.figures(date(2026, 11, 22)) is None


def test_an_old_night_tells_what_its_stored_days_hold(bench):
    bench.write("2026-11-20", query(hits=["a", "b"]), event(), b"{")
    bench.write("2026-11-21", event(item="b", rank=2))
    bench.ingest()
    settings = bench.settings(bench.source())
    nothing = whole([Request(source=settings.sources[0], files=())], work=bench.work(settings))
    assert nothing["rows_in"] == 0
    ctx = SimpleNamespace(store=bench.store, run=Run.night(date(2026, 11, 20), lengths=settings.windows.lengths))
    told = with_stored(ctx, nothing)
    assert (told["rows_in"], told["accepted"], told["rejected"]) == (3, 2, {"malformed": 1})
    assert (told["impressions"], told["clicks"]) == (2, 1), "the click of the next day was not known"
    assert told["rows_in"] == told["accepted"] + told["duplicates"] + told["ignored"] + sum(told["rejected"].values())
    assert told["sources"]["web"]["stored"] is True
    first = bench.ingest(days=("2026-11-20",))
    assert with_stored(ctx, first) == first, "a night that read its own rows tells of them"
