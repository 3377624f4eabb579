"""What was known on an arrival day stays as it was known: whatever arrives later changes nothing of it."""

import random
from datetime import UTC, date, datetime, timedelta

import polars as pl
import pytest

from jobs.impressions import daily, ingest
from jobs.impressions.days import Limits, daily_counts, daily_users, exclude_bots
from tests.unit.impressions.logs import event, layout, ndjson, query
from tests.unit.impressions.logs import ingest as ingested

START = date(2026, 11, 20)
LIMITS = Limits(impressions_per_session_hour=7, queries_per_user_day=4)
ARRIVED = layout(columns={"arrived": "arrived_at", "interaction": "amount"}, lateness_days=9)


def arrival(day: int, hour: int = 3) -> str:
    return f"{START + timedelta(days=day)}T{hour:02d}:00:00Z"


def by_day(outcome) -> dict[date, tuple[int, int, int]]:
    """Impressions, clicks and interaction by arrival day."""
    rows = outcome.rows.with_columns(corpus=pl.lit("tracks"), event_day=pl.col("shown_at").dt.date(), excluded=None)
    sums = daily_counts(rows).group_by("arrival_day").agg(pl.col("impressions", "clicks", "interaction").sum())
    return {day: tuple(rest) for day, *rest in sums.sort("arrival_day").iter_rows()}


# --- the arrival of a row ---


@pytest.mark.parametrize(
    ("arrived", "folder", "known"),
    [
        ("2026-11-20T10:00:05Z", date(2026, 11, 23), date(2026, 11, 23)),
        ("2026-11-20T10:00:05Z", date(2026, 11, 20), date(2026, 11, 20)),
        ("2026-11-22T01:00:00Z", date(2026, 11, 20), date(2026, 11, 22)),
        ("2026-11-22T01:00:00Z", None, date(2026, 11, 22)),
        (None, date(2026, 11, 23), date(2026, 11, 23)),
    ],
)
@pytest.mark.parametrize("form", ["ubi", "csv"])
def test_a_row_arrives_no_earlier_than_the_day_of_its_folder_nor_than_it_says(arrived, folder, known, form):
    if form == "ubi":
        content = ndjson(query(hits=["a"], arrived_at=arrived), event(arrived_at=arrived))
    else:
        rows = ["search_id,query,item_id,rank,clicked,shown_at,arrived_at,click_arrived_at",
                f"q1,jazz,a,1,1,2026-11-20T10:00:00Z,{arrived or ''},2026-11-20T10:00:09Z"]  # fmt: skip
        content = "\n".join(rows).encode()
    outcome = ingested(content, layout=layout(format=form, columns={"arrived": "arrived_at"}), arrival_day=folder)
    row = outcome.rows.row(0, named=True)
    assert (row["arrived_at"].date(), row["click_arrived_at"].date()) == (known, known)


@pytest.mark.parametrize(
    ("times", "reasons"),
    [
        ({"at": "2026-11-20T11:00:00Z", "arrived_at": "2026-11-20T10:00:00Z"}, {"future": 1}),
        ({"at": "2099-01-01T00:00:00Z", "arrived_at": "2099-01-01T00:00:00Z"}, {"future": 1}),
        ({"at": "2026-11-20T10:00:00Z", "arrived_at": "2099-01-01T00:00:00Z"}, {"future": 1}),
        ({"at": "2026-11-20T10:00:00Z", "arrived_at": "2026-11-20T10:00:00Z"}, {}),
    ],
    ids=["shown-after-it-arrived", "both-in-the-future", "arrives-in-the-future", "fine"],
)
@pytest.mark.parametrize("folder", [None, date(2026, 11, 21)])
def test_a_folder_of_a_later_day_excuses_no_impossible_time(times, reasons, folder):
    assert ingested(ndjson(query(hits=["a"], **times)), layout=ARRIVED, arrival_day=folder).reasons == reasons


# --- interactions, clicks and places that come late ---


@pytest.mark.parametrize(
    ("amounts", "credited"),
    [
        ([(0, 0.5)], {0: 500_000}),
        ([(0, 0.5), (2, 0.8)], {0: 500_000, 2: 300_000}),
        ([(0, 0.5), (2, 0.4)], {0: 500_000}),
        ([(2, 0.4)], {0: 0, 2: 400_000}),
        ([(1, 0.2), (2, 1.0), (3, 0.9)], {0: 0, 1: 200_000, 2: 800_000}),
        ([(1, 0.2), (1, 0.6), (3, 0.7)], {0: 0, 1: 600_000, 3: 100_000}),
    ],
)
def test_a_stronger_interaction_is_credited_to_its_own_arrival_day(amounts, credited):
    """amounts: (arrival day, value)."""
    events = [event("purchase", amount=v, arrived_at=arrival(d, 12), at=f"2026-11-20T10:{n:02d}:00Z")
              for n, (d, v) in enumerate(amounts)]  # fmt: skip
    outcome = ingested(ndjson(query(hits=["a"], arrived_at=arrival(0, 11)), *events), layout=ARRIVED)
    assert {d: v for d, (_, _, v) in by_day(outcome).items()} == {
        START + timedelta(days=d): v for d, v in credited.items()
    }
    assert outcome.rows["interaction"].to_list() == [max(round(v * 1e6) for _, v in amounts)]


def test_a_late_copy_of_a_table_row_adds_what_it_adds_on_its_own_day():
    header = "search_id,query,item_id,rank,clicked,shown_at,arrived_at,click_arrived_at,interaction"
    rows = ["q1,jazz,a,1,0,2026-11-20T10:00:00Z,2026-11-20T11:00:00Z,,0.2",
            "q1,jazz,a,1,1,2026-11-20T10:00:00Z,2026-11-21T11:00:00Z,2026-11-22T11:00:00Z,0.5",
            "q1,jazz,a,1,1,2026-11-20T10:00:00Z,2026-11-23T11:00:00Z,2026-11-23T11:00:00Z,0.9"]  # fmt: skip
    table = layout(format="csv", columns={"arrived": "arrived_at"})
    outcome = ingested("\n".join([header, *rows]).encode(), layout=table)
    days = {
        date(2026, 11, 20): (1, 0, 200_000),
        date(2026, 11, 22): (0, 1, 300_000),
        date(2026, 11, 23): (0, 0, 400_000),
    }
    assert by_day(outcome) == days


def test_a_place_that_arrives_later_takes_no_click_from_where_it_was_seen():
    first = [query(arrived_at=arrival(0, 11)), event("impression", rank=1, arrived_at=arrival(0, 11)),
             event(rank=4, arrived_at=arrival(0, 11))]  # fmt: skip
    later = [event("impression", rank=4, arrived_at=arrival(1), at="2026-11-20T10:00:09Z")]
    assert ingested(ndjson(*first), layout=ARRIVED).clicks == {("q1", "a", 1)}
    assert ingested(ndjson(*first, *later), layout=ARRIVED).clicks == {("q1", "a", 1)}
    assert ingested(ndjson(first[0], *later, first[2]), layout=ARRIVED).clicks == {("q1", "a", 4)}


# --- all of it at once ---


def a_ubi_log(seed: int) -> list[dict]:
    """A small log in which everything may come late, twice, contradicted or for nothing."""
    draw = random.Random(seed)
    found = []
    for n in range(12):
        search, user = f"q{n % 8}", f"u{draw.randrange(3)}"
        common = {"search": search, "client_id": user, "session_id": user}
        for _ in range(draw.choice((1, 1, 2))):
            hits = draw.choice((None, [], ["a", "b", "c"], ["c", "a", "a"]))
            text = draw.choice(("jazz", "jazz", "jazz", "blues"))
            found.append(query(hits=hits, text=text, at=f"2026-11-20T{8 + n % 2:02d}:00:00Z",
                               arrived_at=arrival(draw.randrange(3), 11), **common))  # fmt: skip
        for _ in range(draw.randrange(5)):
            action = draw.choice(("impression", "impression", "click", "purchase", "add_to_cart"))
            amount = draw.choice((None, 0.3, 0.7)) if action == "purchase" else None
            found.append(event(action, item=draw.choice("abcd"), rank=draw.randrange(1, 5), amount=amount,
                               at=f"2026-11-20T{9 + n % 2:02d}:{draw.randrange(3):02d}:00Z",
                               event_id=draw.choice((None, f"e{draw.randrange(12)}-{search}")),
                               arrived_at=arrival(draw.randrange(4), 11), **common))  # fmt: skip
    return found


def known(rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    full = rows.with_columns(corpus=pl.lit("tracks"), event_day=pl.col("shown_at").dt.date())
    told = exclude_bots(full, limits=LIMITS)
    frames = {"counts": daily_counts(told), "users": daily_users(told)}
    return {n: f.filter(pl.sum_horizontal("impressions", "clicks", "interaction") > 0) if n == "counts" else f
            for n, f in frames.items()}  # fmt: skip


@pytest.mark.parametrize("shown", ["auto", "listed", "displayed"])
def test_counts_and_users_of_an_arrival_day_are_what_was_known_on_it(shown):
    used = layout(**{**ARRIVED.as_dict(), "shown": shown})
    compared = 0
    for seed in range(3):
        log = a_ubi_log(seed)
        whole = known(ingested(ndjson(*log), layout=used).rows)
        for day in range(4):
            end = START + timedelta(days=day)
            then = known(ingested(ndjson(*[d for d in log if d["arrived_at"][:10] <= str(end)]), layout=used).rows)
            for name, frame in whole.items():
                now = frame.filter(pl.col("arrival_day") <= end)
                assert now.sort(now.columns).equals(then[name].sort(now.columns)), (seed, day, name)
                compared += now.height
    assert compared > 20, "the logs are too small to prove anything"


def test_rows_of_tables_are_known_when_they_arrived_too():
    for seed in range(2):
        draw = random.Random(seed)
        lines = []
        for _ in range(60):
            day = draw.randrange(4)
            after = draw.choice(("", arrival(day + draw.randrange(2), 12)))
            values = [f"q{draw.randrange(9)}", "jazz", draw.choice("ab"), draw.randrange(1, 3), int(bool(after)),
                      "2026-11-20T10:00:00Z", arrival(day, 11), after, draw.choice((0, 0.3, 0.6, 1)),
                      f"u{draw.randrange(2)}"]  # fmt: skip
            lines.append((day, ",".join(map(str, values))))
        header = "search_id,query,item_id,rank,clicked,shown_at,arrived_at,click_arrived_at,interaction,user_id"
        table = layout(format="csv", columns={"arrived": "arrived_at"})
        whole = known(ingested("\n".join([header, *[t for _, t in lines]]).encode(), layout=table).rows)
        for day in range(4):
            end = START + timedelta(days=day)
            body = [t for d, t in lines if d <= day]
            then = known(ingested("\n".join([header, *body]).encode(), layout=table).rows)
            for name, frame in whole.items():
                now = frame.filter(pl.col("arrival_day") <= end)
                before = then[name].filter(pl.col("arrival_day") <= end)
                assert now.sort(now.columns).equals(before.sort(now.columns)), (seed, day, name)


# --- bots ---


def rows_of(*sessions: tuple[str, int, int, int]) -> pl.DataFrame:
    """Rows of (session, arrival day, searches, hits a search)."""
    keys = {s: n for n, (s, *_) in enumerate(sessions)}
    body = [
        {"session_key": keys[s], "user_key": keys[s], "search_id": f"{s}-{day}-{n}", "item_id": str(h), "rank": h + 1,
         "shown_at": datetime(2026, 11, 20, 10, tzinfo=UTC), "arrived_at": datetime(2026, 11, 20 + day, 12, tzinfo=UTC)}
        for s, day, searches, hits in sessions for n in range(searches) for h in range(hits)
    ]  # fmt: skip
    return pl.DataFrame(body)


@pytest.mark.parametrize(
    ("sessions", "excluded"),
    [
        ([("a", 0, 1, 7)], 0),
        ([("a", 0, 1, 8)], 8),
        ([("a", 0, 1, 4), ("a", 1, 1, 4)], 4),
        ([("a", 0, 1, 8), ("a", 1, 1, 1)], 9),
        ([("a", 0, 1, 4), ("a", 1, 1, 2), ("a", 2, 1, 3)], 3),
        ([("a", 0, 3, 1), ("a", 1, 2, 1)], 2),
        ([("a", 0, 5, 1), ("b", 0, 4, 1)], 5),
    ],
    ids=["at-the-limit", "beyond", "beyond-from-the-second-day", "once-a-bot-always", "third-day", "queries", "others"],
)
def test_bots_are_decided_with_what_had_arrived(sessions, excluded):
    told = exclude_bots(rows_of(*sessions), limits=LIMITS)
    assert told["excluded"].is_not_null().sum() == excluded


def test_a_user_without_and_with_sessions_is_counted_once():
    rows = rows_of(("a", 0, 5, 1)).with_columns(
        session_key=pl.when(pl.int_range(pl.len()) < 2).then(99), user_key=pl.lit(5)
    )
    assert exclude_bots(rows, limits=LIMITS)["excluded"].is_not_null().all()


@pytest.mark.parametrize("searches", [1, 8])
def test_a_day_in_parts_excludes_whom_the_whole_day_does(bench, tmp_path, monkeypatch, searches):
    """A page of ten hits shown at one moment counts as ten impressions, in parts as in the whole."""
    source = bench.source(max_impressions_per_session_hour=30, max_queries_per_user_day=6)
    body = [query(f"{user}-{n}", hits=[f"i{h}" for h in range(10)], text=f"jazz {n} {user}", client_id=user)
            for user in ("ann", "bob") for n in range(searches if user == "bob" else 2)]  # fmt: skip
    bench.write("2026-11-20", *body)
    late = [d | {"query_id": f"late-{d['query_id']}"} for d in body]
    bench.write("2026-11-21", *late)
    bench.ingest(source, days=("2026-11-20",))
    bench.ingest(source, days=("2026-11-21",))
    split = type(bench)(tmp_path)
    split.store = type(bench.store)(str(tmp_path / "split"))
    monkeypatch.setattr(daily, "DAY_ROWS", 10)
    monkeypatch.setattr(ingest, "BUCKET_ROWS", 10)
    split.ingest(source, days=("2026-11-20",))
    split.ingest(source, days=("2026-11-21",))
    assert {n: f.equals(split.tables()[n]) for n, f in bench.tables().items()} == dict.fromkeys(bench.tables(), True)
    excluded = bench.store.read("impressions").filter(pl.col("excluded").is_not_null())
    assert excluded.height == {1: 20, 8: 160 + 20}[searches], "ann is beyond the hourly limit only with her late rows"
