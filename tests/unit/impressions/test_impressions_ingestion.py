"""Whole ingestions on small stores: restated days, idempotence, refusals, replay and what a failure leaves behind."""

import gzip
from datetime import date

import polars as pl
import pytest

from jobs.core.errors import InputError, NotThereError
from jobs.impressions import daily, ingest, tasks
from jobs.impressions.inputs import list_table
from jobs.impressions.replay import replay
from tests.unit.impressions.logs import event, query

DAYS = ("2026-11-20", "2026-11-21", "2026-11-22", "2026-11-23")


def searches(day: str, count: int = 20, **more):
    return [query(f"{day}-{n}", hits=["a", "b", "c"], at=f"{day}T{n % 24:02d}:00:00Z", client_id=f"u{n % 5}", **more)
            for n in range(count)]  # fmt: skip


def clicks(day: str, numbers=range(5), item: str = "b", rank: int = 2):
    return [event(search=f"{day}-{n}", item=item, rank=rank, at=f"{day}T{n % 24:02d}:00:30Z") for n in numbers]


def a_log(bench):
    """Four arrival days with clicks, a query row and an impression event that come one to three days late."""
    bench.write("2026-11-20", *searches("2026-11-20"), *clicks("2026-11-20"), event(search="early", item="x", rank=1))
    bench.write("2026-11-21", *searches("2026-11-21"), *clicks("2026-11-20", [7], item="a", rank=1))
    bench.write("2026-11-22", query("early", at="2026-11-20T09:00:00Z"), event("impression", "early", item="x", rank=1))
    bench.write("2026-11-23", *clicks("2026-11-20", [9]), *clicks("2026-11-19"), *clicks("2026-11-21", [1], item="z"))


def test_nights_end_where_one_ingestion_of_everything_does(bench, tmp_path, monkeypatch):
    a_log(bench)
    for day in DAYS:
        bench.ingest(days=(day,))
    nightly = bench.tables()
    whole = type(bench)(tmp_path)
    whole.store = type(bench.store)(str(tmp_path / "whole"))
    whole.ingest()
    assert {n: f.equals(whole.tables()[n]) for n, f in nightly.items()} == dict.fromkeys(nightly, True)
    assert ("early", "x") in set(nightly["impressions"].filter("clicked").select("search_id", "item_id").iter_rows())


@pytest.mark.parametrize("order", [(3, 2, 1, 0), (1, 0, 3, 2)], ids=["backwards", "shuffled"])
def test_backfills_in_any_order_end_at_the_same_tables(bench, tmp_path, order):
    a_log(bench)
    for n in order:
        bench.ingest(days=(DAYS[n],))
    other = type(bench)(tmp_path)
    other.store = type(bench.store)(str(tmp_path / "other"))
    other.ingest()
    assert {n: f.equals(other.tables()[n]) for n, f in bench.tables().items()} == dict.fromkeys(bench.tables(), True)


def test_what_resolves_later_leaves_quarantine_and_is_counted(bench):
    a_log(bench)
    first = bench.ingest(days=DAYS[:1])
    assert first["rejected"] == {"unknown_search": 1}
    later = bench.ingest(days=DAYS[1:3])
    assert later["resolved"] == 1
    assert bench.store.read("rejected_impressions").height == 0


def test_a_second_ingestion_of_the_same_files_changes_no_version_and_tells_the_same(bench):
    a_log(bench)
    first, before = bench.ingest(run_id="same"), bench.versions()
    second = bench.ingest(run_id="same")
    assert bench.versions() == before
    told = ("rows_in", "accepted", "duplicates", "ignored", "rejected", "impressions", "clicks")
    assert {n: second[n] for n in told} == {n: first[n] for n in told}


def test_only_days_that_a_late_row_touches_are_written_again(bench):
    a_log(bench)
    bench.ingest(days=DAYS[:1])
    summary = bench.ingest(days=DAYS[1:2])
    assert summary["changed_days"] == ["2026-11-20", "2026-11-21"]
    bench.write("2026-11-24", *searches("2026-11-24"))
    assert bench.ingest(days=("2026-11-24",))["changed_days"] == ["2026-11-24"]


def test_a_late_click_is_a_row_of_its_own_in_the_counts(bench):
    a_log(bench)
    bench.ingest()
    counts = bench.store.read("daily_counts").filter(pl.col("event_day") == date(2026, 11, 20))
    sums = counts.group_by("arrival_day").agg(pl.col("impressions", "clicks").sum()).sort("arrival_day")
    assert sums.rows() == [
        (date(2026, 11, 20), 60, 5),
        (date(2026, 11, 21), 0, 1),
        (date(2026, 11, 22), 1, 1),
        (date(2026, 11, 23), 0, 1),
    ]


def test_two_sources_of_one_corpus_and_day_add_up_and_never_overwrite_each_other(bench):
    bench.write("2026-11-20", *searches("2026-11-20"))
    bench.write(
        "2026-11-20", *[d | {"query_id": f"app-{d['query_id']}"} for d in searches("2026-11-20", 7)], name="a.json"
    )
    web, app = bench.source(path="logs/{day}/*.gz"), bench.source(name="app", path="logs/{day}/*.json")
    bench.ingest(web)
    bench.ingest(app)
    assert bench.store.read("daily_counts")["impressions"].sum() == 81
    bench.write("2026-11-21", *clicks("2026-11-20"), name="late.gz")
    bench.ingest(web, days=("2026-11-21",))
    assert bench.store.read("daily_counts").select(pl.col("impressions", "clicks").sum()).row(0) == (81, 5)


def test_a_split_day_and_many_buckets_make_the_same_tables(bench, tmp_path, monkeypatch):
    a_log(bench)
    ids = {"event_id": "claimed-twice"}
    bench.write("2026-11-22", event(search="2026-11-21-3", **ids), event(search="2026-11-21-4", **ids), name="x.ndjson")
    bench.ingest()
    split = type(bench)(tmp_path)
    split.store = type(bench.store)(str(tmp_path / "split"))
    monkeypatch.setattr(daily, "DAY_ROWS", 10)
    monkeypatch.setattr(ingest, "BUCKET_ROWS", 10)
    monkeypatch.setattr(tasks, "FLUSH", 7)
    split.ingest()
    assert {n: f.equals(split.tables()[n]) for n, f in bench.tables().items()} == dict.fromkeys(bench.tables(), True)
    assert bench.store.read("rejected_impressions").filter(pl.col("reason") == "conflict").height == 2


# --- what cannot be used ---


def unchanged_check(bench, action, match):
    before = bench.versions() | {"rejected_impressions": None}
    with pytest.raises(InputError, match=match):
        action()
    assert bench.versions() | {"rejected_impressions": None} == before


def test_a_truncated_gzip_publishes_nothing_and_says_which_file(bench):
    bench.write("2026-11-20", *searches("2026-11-20"))
    path = bench.write("2026-11-20", *searches("2026-11-20", 400), name="cut.ndjson.gz")
    path.write_bytes(path.read_bytes()[:-20])
    unchanged_check(bench, bench.ingest, r"cut\.ndjson\.gz: its packed data end or break after \d+ bytes")
    path.write_bytes(gzip.compress(b"") + b"")
    assert bench.ingest()["rows_in"] == 20


def test_too_many_refused_rows_publish_nothing_but_can_be_looked_at(bench):
    bench.write("2026-11-20", *searches("2026-11-20"), *[b"{"] * 3)
    source = bench.source(max_rejected=0.1)
    unchanged_check(
        bench, lambda: bench.ingest(source), r"3 of 23 rows were refused \(malformed 3\), more than max_rejected = 0.1"
    )
    assert bench.store.read("rejected_impressions")["reason"].to_list() == ["malformed"] * 3


def test_a_mix_of_rank_bases_in_one_source_is_refused(bench):
    zero = [event("impression", f"2026-11-20-{n}", item="a", rank=0, application="zero") for n in range(9)]
    one = [event("impression", f"2026-11-20-{n}", item="a", rank=1, application="one") for n in range(10, 19)]
    bench.write("2026-11-20", *searches("2026-11-20"), *zero, *one)
    unchanged_check(bench, bench.ingest, "application 'zero' is declared with rank base 1, but 9 of its 9 ranks are 0")
    declared = bench.source(rank_base={"zero": 0, "default": 1})
    assert bench.ingest(declared)["rejected"] == {}


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("search_id,query,item_id,rank,clicked", "no column holds the field 'time': pass --day"),
        ("search_id,query,item_id,position,clicked,shown_at", "no column holds the field 'rank': map it"),
    ],
)
def test_a_missing_column_is_one_clear_sentence(bench, header, message):
    bench.write("2026-11-20", header.encode(), b"s1,jazz,a,1,0,x", name="t.ndjson")
    unchanged_check(bench, lambda: bench.ingest(bench.source(format="csv", path="logs/{day}/*.ndjson")), message)


def test_an_empty_file_is_read_and_an_empty_folder_is_an_error(bench):
    bench.write("2026-11-20", *searches("2026-11-20"))
    (bench.folder / "logs" / "2026-11-20" / "empty.ndjson").touch()
    assert bench.ingest()["rows_in"] == 20
    (bench.folder / "nothing").mkdir()
    with pytest.raises(InputError, match="no file matches"):
        bench.ingest(bench.source(path="nothing/*.gz"))


def test_a_very_long_line_is_quarantined_and_the_rest_is_read(bench, monkeypatch):
    long = b'{"query_id":"q","user_query":"' + b"x" * (9 << 20) + b'"}'
    bench.write("2026-11-20", *searches("2026-11-20"), long, *clicks("2026-11-20"), name="long.ndjson")
    summary = bench.ingest()
    assert (summary["rejected"], summary["clicks"]) == ({"too_long": 1}, 5)
    row = bench.store.read("rejected_impressions").row(0, named=True)
    assert row["line"] == 21 and len(row["raw"].encode()) <= 4096


def test_a_changed_schema_in_mid_month_is_read_by_name(bench):
    bench.write(
        "2026-11-20",
        b"search_id,query,item_id,rank,clicked,shown_at",
        b"s1,jazz,a,1,0,2026-11-20T10:00:00Z",
        name="t.ndjson",
    )
    bench.write(
        "2026-11-21",
        b"shown_at,clicked,new,rank,item_id,query,search_id",
        b"2026-11-21T10:00:00Z,1,?,1,a,jazz,s2",
        name="t.ndjson",
    )
    summary = bench.ingest(bench.source(format="csv", path="logs/{day}/*.ndjson"))
    assert (summary["impressions"], summary["clicks"]) == (2, 1)


# --- quarantine and replay ---


def test_every_refused_row_is_kept_with_its_place_and_content_masked(bench):
    lost = event(search="q9", client_id="anna", note="write to anna@example.com")
    bench.write("2026-11-20", *searches("2026-11-20"), lost)
    bench.ingest()
    row = bench.store.read("rejected_impressions").row(0, named=True)
    assert (row["line"], row["reason"], row["source"], row["corpus"]) == (21, "unknown_search", "web", "tracks")
    assert row["path"].endswith("logs/2026-11-20/part.ndjson.gz")
    assert '"query_id":"q9"' in row["raw"]
    assert "anna" not in row["raw"] and "<email>" in row["raw"]


def test_replay_after_a_mend_accepts_the_rows_and_changes_nothing_else(bench):
    local = [d | {"timestamp": d["timestamp"].removesuffix("Z")} for d in searches("2026-11-20", 4)]
    fine = [d | {"query_id": f"fine-{d['query_id']}"} for d in searches("2026-11-20")]
    bench.write("2026-11-20", *local, *fine, event(search="q9"))
    assert bench.ingest()["rejected"] == {"no_time_zone": 4, "unknown_search": 1}
    mended = bench.settings(bench.source(time_zone="UTC"))
    summary = replay(bench.work(mended), reason="no_time_zone")
    assert (summary["rows_in"], summary["accepted"], summary["impressions"]) == (4, 4, 12)
    assert bench.store.read("rejected_impressions")["reason"].to_list() == ["unknown_search"]
    assert bench.store.read("impressions").height == 72
    with pytest.raises(NotThereError, match="no_time_zone"):
        replay(bench.work(mended), reason="no_time_zone")


def test_a_replayed_row_that_is_refused_again_keeps_its_day_and_place(bench):
    bench.write("2026-11-20", *searches("2026-11-20"), event(search="q9"))
    bench.ingest()
    before = bench.store.read("rejected_impressions")
    summary = replay(bench.work(bench.settings(bench.source()), run_day=date(2026, 11, 29)))
    assert summary["rejected"] == {"unknown_search": 1}
    assert bench.store.read("rejected_impressions").equals(before)


def test_a_row_that_was_cut_is_replayed_from_its_source(bench):
    long = query("long", hits=["a"], at="2026-11-20T10:00:00", note="x" * 9000)
    bench.write("2026-11-20", *searches("2026-11-20"), long)
    bench.ingest()
    assert len(bench.store.read("rejected_impressions")["raw"][0].encode()) == 4096
    summary = replay(bench.work(bench.settings(bench.source(time_zone="UTC"))))
    assert (summary["accepted"], summary["impressions"]) == (1, 1)


def test_csv_rows_are_replayed_by_their_columns(bench):
    header, row = (
        b"search_id,query,item_id,rank,clicked,shown_at,user_id",
        b's1,"tv, 55""",a,1,1,2026-11-20T10:00:00,anna',
    )
    good = b"s2,jazz,a,1,0,2026-11-20T10:00:00Z,ben"
    bench.write("2026-11-20", header, row, good, name="t.ndjson")
    source = bench.source(format="csv", path="logs/{day}/*.ndjson")
    assert bench.ingest(source)["rejected"] == {"no_time_zone": 1}
    replay(bench.work(bench.settings(source.model_copy(update={"time_zone": "UTC"}))))
    rows = bench.store.read("impressions").sort("search_id")
    assert rows["query_raw"].to_list() == ['tv, 55"', "jazz"]
    assert rows["user_key"].n_unique() == 2


# --- tables as sources ---


def _parquet_rows(count: int = 12) -> pl.DataFrame:
    at = pl.datetime_range(
        pl.datetime(2026, 11, 20), pl.datetime(2026, 11, 20, count - 1), "1h", time_zone="UTC", eager=True
    )
    return pl.DataFrame(
        {
            "search_id": [f"s{n}" for n in range(count)],
            "hour": [f"{n % 3:02d}" for n in range(count)],
            "query": ["Jazz", "jazz ", "blues"] * (count // 3),
            "item_id": [n % 4 for n in range(count)],
            "rank": [float(n % 4 + 1) for n in range(count)],
            "clicked": [n % 2 for n in range(count)],
            "shown_at": at,
            "user_id": [f"u{n % 3}" for n in range(count)],
        }
    )


def test_parquet_with_typed_columns_is_read_as_it_is(bench):
    path = bench.folder / "day.parquet"
    _parquet_rows().with_columns(pl.when(pl.col("search_id") != "s3").then("rank").alias("rank")).write_parquet(path)
    summary = bench.ingest(bench.source(format="parquet", path="*.parquet"), paths=[path])
    assert (summary["impressions"], summary["clicks"], summary["rejected"]) == (11, 5, {"missing_rank": 1})
    rows = bench.store.read("impressions")
    assert set(rows["item_id"]) == {"0", "1", "2", "3"} and set(rows["query"]) == {"jazz", "blues"}
    assert '"search_id":"s3"' in bench.store.read("rejected_impressions")["raw"][0]


def test_partition_values_of_a_delta_table_stay_text(bench):
    from deltalake import write_deltalake

    uri = str(bench.folder / "searches")
    write_deltalake(uri, _parquet_rows().to_arrow(), partition_by=["hour"])
    source = bench.source(format="delta", path="searches", columns={"segment": "hour"})
    summary = bench.ingest(source, files=list_table(uri))
    assert summary["impressions"] == 12
    assert set(bench.store.read("daily_counts")["segment"]) == {"00", "01", "02"}


def test_a_delta_source_reads_only_files_that_it_did_not_read_before(bench):
    from deltalake import write_deltalake

    from jobs.impressions.inputs import Ledger

    uri = str(bench.folder / "searches")
    write_deltalake(uri, _parquet_rows().to_arrow())
    source = bench.source(format="delta", path="searches")
    bench.ingest(source, files=list_table(uri))
    write_deltalake(uri, _parquet_rows(3).with_columns(pl.lit("new").alias("search_id")).to_arrow(), mode="append")
    unread = Ledger(bench.store, "web").unread(list_table(uri))
    assert len(unread) == 1
    assert bench.ingest(source, files=unread)["rows_in"] == 3


@pytest.mark.parametrize("name", ["01", "2026", "none", "null", "True"])
def test_names_that_look_like_values_come_back_as_they_were(bench, name):
    bench.write("2026-11-20", *searches("2026-11-20"))
    bench.ingest(bench.source(corpus=name, name=name))
    assert set(bench.store.read("impressions").select("corpus", "source").iter_rows()) == {(name, name)}
    assert bench.store.read("daily_counts", where={"corpus": name})["impressions"].sum() == 60


def test_a_full_disk_is_one_clear_sentence_and_publishes_nothing(bench, monkeypatch):
    from jobs.core.errors import MachineError
    from jobs.impressions import restate

    bench.write("2026-11-20", *searches("2026-11-20"))

    def no_space(*args, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(restate, "stage", no_space)
    with pytest.raises(MachineError, match=r"the disk is full .* nothing of this ingestion was published"):
        bench.ingest()
    assert bench.store.version("impressions") is None
    monkeypatch.undo()


def test_a_damaged_parquet_file_is_named(bench):
    path = bench.folder / "day.parquet"
    _parquet_rows().write_parquet(path)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError, match=r"day\.parquet: cannot be read as Parquet"):
        bench.ingest(bench.source(format="parquet", path="*.parquet"), paths=[path])
    assert bench.store.version("impressions") is None


def test_values_in_folder_names_are_columns_and_stay_text(bench):
    for hour in ("01", "02"):
        path = bench.folder / "log" / f"hour={hour}" / "part.parquet"
        path.parent.mkdir(parents=True)
        _parquet_rows().drop("hour").with_columns(
            pl.format("{}-{}", "search_id", pl.lit(hour)).alias("search_id")
        ).write_parquet(path)
    bench.ingest(bench.source(format="parquet", path="log", columns={"segment": "hour"}))
    assert set(bench.store.read("daily_counts")["segment"]) == {"01", "02"}
