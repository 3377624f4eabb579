"""The rows of shared cases, "Logs", each for its whole kind: what is counted, what is refused and why."""

from datetime import UTC, date, datetime

import pytest

from jobs.impressions.days import Limits, daily_counts, exclude_bots
from tests.unit.impressions.logs import event, ingest, layout, ndjson, query

FULL_DAYS = {"time_zone": "UTC"}


# --- explicit and implied impressions ---


@pytest.mark.parametrize(
    ("documents", "places"),
    [
        pytest.param(
            [query(hits=["a", "b"]), event("impression", item="a")], {("q1", "a", 1)}, id="listed-and-displayed"
        ),
        pytest.param([query(hits=["a", "b"])], {("q1", "a", 1), ("q1", "b", 2)}, id="only-listed"),
        pytest.param([query(), event("impression", item="b", rank=2)], {("q1", "b", 2)}, id="only-displayed"),
        pytest.param([query(hits=["a", "a"])], {("q1", "a", 1), ("q1", "a", 2)}, id="one-item-at-two-ranks"),
        pytest.param(
            [query(), event("impression"), event("impression", at="2026-11-20T10:00:09Z")],
            {("q1", "a", 1)},
            id="seen-twice-on-one-page",
        ),
        pytest.param([event("impression"), query()], {("q1", "a", 1)}, id="event-before-its-query-row"),
    ],
)
def test_explicit_and_implied_impressions_are_one(documents, places):
    assert ingest(ndjson(*documents)).places == places


@pytest.mark.parametrize(("shown", "count"), [("auto", 8), ("displayed", 8), ("listed", 20)])
def test_listed_but_never_displayed_hits(shown, count):
    hits = [f"i{n}" for n in range(1, 21)]
    seen = [event("impression", item=f"i{n}", rank=n) for n in range(1, 9)]
    outcome = ingest(ndjson(query(hits=hits), *seen), layout=layout(shown=shown))
    assert outcome.rows.height == count
    assert outcome.accepted == 9


def test_auto_decides_by_search_not_by_source():
    outcome = ingest(ndjson(query("q1", hits=["a", "b"]), event("impression", "q1"), query("q2", hits=["a", "b"])))
    assert outcome.places == {("q1", "a", 1), ("q2", "a", 1), ("q2", "b", 2)}


def test_events_that_arrive_later_do_not_change_what_an_earlier_night_saw():
    arrived = layout(columns={"arrived": "arrived_at"})
    day_one = query(hits=["a", "b"], arrived_at="2026-11-20T10:00:01Z")
    day_two = event("impression", item="a", arrived_at="2026-11-21T00:00:01Z")
    extra = event("impression", item="c", rank=3, arrived_at="2026-11-21T00:00:01Z")
    outcome = ingest(ndjson(day_one, day_two, extra), layout=arrived)
    assert outcome.places == {("q1", "a", 1), ("q1", "b", 2), ("q1", "c", 3)}
    later = {r["item_id"]: r["arrived_at"].date().isoformat() for r in outcome.rows.to_dicts()}
    assert later == {"a": "2026-11-20", "b": "2026-11-20", "c": "2026-11-21"}


# --- clicks that do not fit ---


@pytest.mark.parametrize(
    ("documents", "reasons"),
    [
        pytest.param([query(hits=["a"]), event(search="q9")], {"unknown_search": 1}, id="click-without-query-row"),
        pytest.param(
            [query(hits=["a"]), event("impression", search="q9")], {"unknown_search": 1}, id="impression-without"
        ),
        pytest.param([query(hits=["a"]), event("purchase", search="q9")], {"unknown_search": 1}, id="purchase-without"),
        pytest.param([query(hits=["a"]), event(item="z")], {"not_shown": 1}, id="item-that-was-not-shown"),
        pytest.param([query(hits=["a"]), event(search=None)], {"missing_search": 1}, id="no-search-id"),
        pytest.param([query(hits=["a"]), event(item=None)], {"missing_item": 1}, id="no-item"),
        pytest.param([query(hits=["a"]), event(action=None)], {"missing_action": 1}, id="no-action"),
        pytest.param([query(hits=["a"], text=" \u00a0 ")], {"missing_query": 1}, id="blank-query"),
    ],
)
def test_what_cannot_be_joined_is_refused_with_its_reason_and_the_rest_goes_on(documents, reasons):
    outcome = ingest(ndjson(*documents, query("q2", hits=["a"]), event(search="q2")))
    assert outcome.reasons == reasons
    assert ("q2", "a", 1) in outcome.clicks


@pytest.mark.parametrize(
    ("copies", "accepted", "duplicates", "reasons", "why"),
    [
        ([{"event_id": "e1"}, {"event_id": "e1"}], 1, 1, {}, "exact copy"),
        (
            [{"event_id": "e1", "rank": 2, "item": "b"}, {"event_id": "e1", "rank": 5, "item": "e"}],
            0,
            0,
            {"conflict": 2},
            "one id at two ranks",
        ),
        (
            [{"event_id": "e1"}, {"event_id": "e1", "at": "2026-11-20T10:00:06Z"}],
            0,
            0,
            {"conflict": 2},
            "one id at two times",
        ),
        ([{"event_id": "e1"}, {"event_id": "e1", "action": "purchase"}], 0, 0, {"conflict": 2}, "one id, two actions"),
        ([{"event_id": f"e{n}"} for n in range(1000)], 1, 999, {}, "copies under fresh ids"),
        ([{} for _ in range(1000)], 1, 999, {}, "copies without ids"),
        ([{"at": f"2026-11-20T10:00:0{n}Z"} for n in range(3)], 3, 0, {}, "three real clicks"),
    ],
)
def test_copies_and_conflicts_of_events(copies, accepted, duplicates, reasons, why):
    outcome = ingest(ndjson(query(hits=list("abcde")), *[event(**c) for c in copies]))
    assert (outcome.accepted - 1, outcome.duplicates, outcome.reasons) == (accepted, duplicates, reasons), why
    assert len(outcome.clicks) == (1 if accepted else 0)


def test_bulk_action_lines_are_no_documents_but_give_the_event_id():
    action = {"index": {"_index": "ubi_events", "_id": "e1"}}
    outcome = ingest(ndjson(query(hits=["a", "b"]), action, event(item="a"), action, event(item="b", rank=2)))
    assert (outcome.rows_in, outcome.reasons) == (3, {"conflict": 2})


def test_one_search_id_for_two_queries_is_a_conflict_for_all_of_it():
    outcome = ingest(
        ndjson(query(text="printer"), query(text="printer toner"), event("impression"), query("q2", hits=["a"]))
    )
    assert outcome.reasons == {"conflict": 3}
    assert outcome.places == {("q2", "a", 1)}


def test_several_query_rows_of_one_query_are_no_conflict():
    again = query(hits=["a", "b"], at="2026-11-20T10:00:00.5Z", text="Jazz ")
    outcome = ingest(ndjson(query(hits=[]), again, event(item="b", rank=2)))
    assert (outcome.accepted, outcome.clicks) == (3, {("q1", "b", 2)})


# --- positions ---


@pytest.mark.parametrize(
    ("position", "rank", "reason"),
    [
        ({"ordinal": 3}, 3, None),
        ({"ordinal": {"index": 3}}, 3, None),
        ({"ordinal": "3"}, 3, None),
        ({"ordinal": 3.0}, 3, None),
        ({"ordinal": 3, "x": 10, "y": 20, "page_depth": 2, "scroll_depth": 40, "trail": "a"}, 3, None),
        ({}, None, "missing_rank"),
        ({"x": 10}, None, "missing_rank"),
        ({"ordinal": {}}, None, "missing_rank"),
        ({"ordinal": None}, None, "missing_rank"),
        (None, None, "missing_rank"),
        ({"ordinal": 3.5}, None, "bad_rank"),
        ({"ordinal": "third"}, None, "bad_rank"),
        ({"ordinal": True}, None, "bad_rank"),
        ({"ordinal": -1}, None, "bad_rank"),
        ({"ordinal": 0}, None, "bad_rank"),
        ({"ordinal": 1001}, None, "bad_rank"),
        ({"ordinal": 10**30}, None, "bad_rank"),
    ],
)
def test_shapes_of_position(position, rank, reason):
    shown = event("impression")
    shown["event_attributes"]["position"] = position
    outcome = ingest(ndjson(query(), shown))
    assert outcome.reasons == ({reason: 1} if reason else {})
    assert outcome.rows["rank"].to_list() == ([rank] if rank else [])


def test_a_purchase_needs_no_position_and_counts_for_the_item():
    outcome = ingest(
        ndjson(query(hits=["a", "b"]), event("purchase", item="b", rank=None), event("add_to_cart", rank=None))
    )
    assert dict(outcome.rows.select("item_id", "interaction").iter_rows()) == {"a": 500_000, "b": 1_000_000}
    assert outcome.clicks == set()


def test_rank_base_is_declared_by_application():
    bases = layout(rank_base={"zero": 0, "default": 1})
    documents = [query("q1", application="zero"), query("q2", application="one")]
    documents += [event("impression", "q1", rank=n, item=f"i{n}", application="zero") for n in (0, 1)]
    documents += [event("impression", "q2", rank=n, item=f"i{n}", application="one") for n in (1, 2)]
    assert ingest(ndjson(*documents), layout=bases).places == {
        ("q1", "i0", 1), ("q1", "i1", 2), ("q2", "i1", 1), ("q2", "i2", 2)
    }  # fmt: skip


# --- times ---


@pytest.mark.parametrize(
    ("stamp", "zone", "read"),
    [
        ("2024-06-01T13:38:18.280Z", "", "2024-06-01T13:38:18.280"),
        ("2024-06-01T13:38:18.280+0000", "", "2024-06-01T13:38:18.280"),
        ("2024-06-01T15:38:18.280+02:00", "", "2024-06-01T13:38:18.280"),
        ("2024-06-01T09:38:18-04", "", "2024-06-01T13:38:18.000"),
        ("2024-06-01 13:38:18 UTC", "", "2024-06-01T13:38:18.000"),
        (1717249098280, "", "2024-06-01T13:38:18.280"),
        (1717249098, "", "2024-06-01T13:38:18.000"),
        ("1717249098280", "", "2024-06-01T13:38:18.280"),
        (1717249098280123, "", "2024-06-01T13:38:18.280"),
        ("2024-06-01T13:38:18.280", "UTC", "2024-06-01T13:38:18.280"),
        ("2024-06-01T13:38:18.280", "Europe/Berlin", "2024-06-01T11:38:18.280"),
        ("2024-01-01T13:38", "Europe/Berlin", "2024-01-01T12:38:00.000"),
        ("2024-10-27T02:30:00", "Europe/Berlin", "2024-10-27T00:30:00.000"),
    ],
)
def test_times_are_read_in_the_declared_zone(stamp, zone, read, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    outcome = ingest(ndjson(query(hits=["a"], at=stamp)), layout=layout(time_zone=zone))
    assert outcome.rows["shown_at"].dt.strftime("%Y-%m-%dT%H:%M:%S%.3f").to_list() == [read]


@pytest.mark.parametrize(
    ("stamp", "zone", "reason"),
    [
        ("2024-06-01T13:38:18.280", "", "no_time_zone"),
        ("2024-06-01", "", "no_time_zone"),
        ("2024-03-31T02:30:00", "Europe/Berlin", "bad_time"),
        ("2024-13-01T00:00:00Z", "", "bad_time"),
        ("2024-02-30T00:00:00Z", "", "bad_time"),
        ("2024-06-01T25:00:00Z", "", "bad_time"),
        ("yesterday", "UTC", "bad_time"),
        ("2024-06-01T13:38:18+99:00", "", "bad_time"),
        (-5, "", "bad_time"),
        (True, "", "bad_time"),
        (9e99, "", "bad_time"),
        ("", "UTC", "missing_time"),
        (None, "UTC", "missing_time"),
        ("0001-01-01T00:00:00Z", "", "bad_time"),
        ("2031-01-01T00:00:00Z", "", "future"),
    ],
)
def test_times_that_cannot_be_known_are_refused_never_null(stamp, zone, reason):
    outcome = ingest(ndjson(query(hits=["a"], at=stamp)), layout=layout(time_zone=zone))
    assert outcome.reasons == {reason: 1}
    assert outcome.rows.height == 0


# --- arrival ---


def test_arrival_is_the_event_time_where_a_source_has_none_never_the_moment_of_ingestion():
    outcome = ingest(ndjson(query(hits=["a"])))
    assert outcome.rows["arrived_at"].to_list() == outcome.rows["shown_at"].to_list()


def test_arrival_is_the_day_of_the_folder_for_rows_that_came_late():
    outcome = ingest(ndjson(query(hits=["a"])), arrival_day=date(2026, 11, 22))
    assert outcome.rows["arrived_at"].to_list() == [datetime(2026, 11, 22, tzinfo=UTC)]
    assert outcome.rows["shown_at"].dt.date().to_list() == [date(2026, 11, 20)]


@pytest.mark.parametrize(
    ("more", "arrival_day"),
    [({"arrived_at": "2026-11-20T09:00:00Z"}, None), ({}, date(2026, 11, 19))],
    ids=["after-its-own-arrival", "after-the-day-of-its-folder"],
)
def test_a_row_that_was_shown_after_it_arrived_is_refused(more, arrival_day):
    columns = {"arrived": "arrived_at"} if more else {}
    outcome = ingest(ndjson(query(hits=["a"], **more)), layout=layout(columns=columns), arrival_day=arrival_day)
    assert outcome.reasons == {"future": 1}


def test_clocks_that_differ_by_minutes_are_no_reason_to_refuse():
    arrived = layout(columns={"arrived": "arrived_at"})
    outcome = ingest(ndjson(query(hits=["a"], arrived_at="2026-11-20T09:58:00Z")), layout=arrived)
    assert outcome.rows["arrived_at"].to_list() == outcome.rows["shown_at"].to_list()


def test_a_late_click_counts_on_its_own_arrival_day_and_the_impression_on_its_own():
    arrived = layout(columns={"arrived": "arrived_at"})
    first = ndjson(query(hits=["a"], arrived_at="2026-11-20T10:00:01Z"))
    click = ndjson(event(at="2026-11-20T10:00:05Z", arrived_at="2026-11-22T03:00:00Z"))
    counts = _counts(ingest(click, context=first, layout=arrived).rows)
    seen = counts.select("event_day", "arrival_day", "impressions", "clicks").rows()
    assert seen == [
        (date(2026, 11, 20), date(2026, 11, 20), 1, 0),
        (date(2026, 11, 20), date(2026, 11, 22), 0, 1),
    ]


@pytest.mark.parametrize(("days", "reasons"), [(3, {}), (4, {"too_late": 1})])
def test_lateness_ends_by_arrival_day_however_many_days_one_ingestion_reads(days, reasons):
    arrived = layout(columns={"arrived": "arrived_at"})
    late = event(arrived_at=f"2026-11-{20 + days}T01:00:00Z")
    outcome = ingest(ndjson(query(hits=["a"], arrived_at="2026-11-20T10:00:01Z"), late), layout=arrived)
    assert outcome.reasons == reasons


def test_a_query_row_may_arrive_after_its_events():
    arrived = layout(columns={"arrived": "arrived_at"})
    before = ndjson(event("impression", arrived_at="2026-11-20T10:00:05Z"), event(arrived_at="2026-11-20T10:00:05Z"))
    after = ndjson(query(arrived_at="2026-11-21T01:00:00Z"))
    outcome = ingest(after, context=before, layout=arrived)
    assert outcome.clicks == {("q1", "a", 1)}
    assert outcome.rows["arrived_at"].dt.date().to_list() == [date(2026, 11, 21)], "known only once both are there"
    assert outcome.rows["click_arrived_at"].dt.date().to_list() == [date(2026, 11, 21)]


# --- ids, encodings, quoting ---


@pytest.mark.parametrize(
    ("item", "hit", "text"),
    [
        (12345, "12345", "12345"),
        ("12345", 12345, "12345"),
        (12345.0, "12345", "12345"),
        ("01", "01", "01"),
        ("1e5", "1e5", "1e5"),
    ],
)
def test_ids_are_text_and_numbers_join_with_their_text(item, hit, text):
    outcome = ingest(ndjson(query(hits=[hit]), event(item=item)))
    assert outcome.clicks == {("q1", text, 1)}


@pytest.mark.parametrize("item", [True, 1.5, {"id": 1}, ["a"]])
def test_an_item_that_is_no_id_is_refused(item):
    reasons = ingest(ndjson(query(hits=["a"]), event(item=item))).reasons
    assert reasons == {"bad_item": 1}


CSV = layout(format="csv", time_zone="UTC", actions={})
HEADER = "search_id,query,item_id,rank,clicked,shown_at\n"


@pytest.mark.parametrize(
    ("line", "query_raw"),
    [
        ('s1,"tv, 55""",a,1,0,2026-11-20T10:00:00', 'tv, 55"'),
        ('s1,tv 55",a,1,0,2026-11-20T10:00:00', 'tv 55"'),
        ('s1,"two\nlines",a,1,0,2026-11-20T10:00:00', "two\nlines"),
        ("s1,canción niño,a,1,0,2026-11-20T10:00:00", "canción niño"),
        ("s1,'; DROP TABLE x --,a,1,0,2026-11-20T10:00:00", "'; DROP TABLE x --"),
    ],
)
def test_quoted_text_makes_the_round_trip(line, query_raw):
    outcome = ingest((HEADER + line + "\n").encode(), layout=CSV)
    assert outcome.rows["query_raw"].to_list() == [query_raw]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"s1,caf\xe9,a,1,0,2026-11-20T10:00:00", "undecodable"),
        (b"s1,jazz,a,1,0", "field_count"),
        (b"s1,jazz,a,1,0,2026-11-20T10:00:00,extra", "field_count"),
        (b's1,"jazz,a,1,0,2026-11-20T10:00:00', "bad_quotes"),
        (b's1,"jazz" band,a,1,0,2026-11-20T10:00:00', "bad_quotes"),
        (b"s1,jazz,a,first,0,2026-11-20T10:00:00", "bad_rank"),
        (b"s1,jazz,a,,0,2026-11-20T10:00:00", "missing_rank"),
        (b"s1,jazz,a,1,maybe,2026-11-20T10:00:00", "bad_click"),
        (b"s1,jazz,a,1,,2026-11-20T10:00:00", "bad_click"),
        (b"s1,jazz,a,1,-1,2026-11-20T10:00:00", "bad_click"),
        (b"s1,,a,1,0,2026-11-20T10:00:00", "missing_query"),
        (b",jazz,a,1,0,2026-11-20T10:00:00", "missing_search"),
        (b"s1,jazz,,1,0,2026-11-20T10:00:00", "missing_item"),
    ],
)
def test_a_bad_csv_row_is_refused_alone(line, reason):
    good = b"s2,jazz,a,1,2,2026-11-20T10:00:00\n"
    outcome = ingest(HEADER.encode() + line + b"\n" + good, layout=CSV)
    assert outcome.reasons == {reason: 1}
    assert outcome.clicks == {("s2", "a", 1)}, "a stray quote costs its own row, not the next one"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"query_id":"q1","user_query":"caf\xe9"}', "undecodable"),
        (b'{"query_id":"q1","user_query":"jazz"', "malformed"),
        (b"[1, 2]", "malformed"),
        (b"null", "malformed"),
        (b'{"query_id":"q1"}', "unknown_document"),
        (b'{"index": 3, "query_id": "q1"}', "unknown_document"),
        (b'{"user_query":"\\ud800","query_id":"q1","timestamp":1717249098}', "malformed"),
    ],
)
def test_a_line_that_is_no_document_is_refused_alone(line, reason):
    outcome = ingest(ndjson(line, query(hits=["a"])))
    assert outcome.reasons == {reason: 1}
    assert outcome.places == {("q1", "a", 1)}


# --- rows that say all ---


@pytest.mark.parametrize(
    ("rows", "duplicates", "clicks", "reasons"),
    [
        (["s1,jazz,a,1,0,2026-11-20T10:00:00"] * 3, 2, 0, {}),
        (["s1,jazz,a,1,0,2026-11-20T10:00:00", "s1,jazz,a,1,1,2026-11-20T10:00:00"], 1, 1, {}),
        (["s1,jazz,a,1,0,2026-11-20T23:59:59", "s1,jazz,a,1,0,2026-11-21T00:00:01"], 1, 0, {}),
        (["s1,jazz,a,1,0,2026-11-20T10:00:00", "s1,blues,b,2,1,2026-11-20T10:00:00"], 0, 0, {"conflict": 2}),
        (["s1,jazz,a,1,0,2026-11-20T10:00:00", "s1,jazz,a,2,1,2026-11-20T10:00:00"], 0, 1, {}),
    ],
    ids=["copies", "a-copy-with-the-click", "copies-around-midnight", "two-queries-of-one-search", "two-ranks"],
)
def test_copies_and_conflicts_of_table_rows(rows, duplicates, clicks, reasons):
    outcome = ingest((HEADER + "\n".join(rows) + "\n").encode(), layout=CSV)
    assert (outcome.duplicates, len(outcome.clicks), outcome.reasons) == (duplicates, clicks, reasons)


# --- bots ---


def test_a_session_beyond_its_limit_is_excluded_whole_and_counted_nowhere():
    bot = [query(f"b{n}", hits=list("abcdefghij"), client_id="bot", session_id="s-bot") for n in range(500)]
    person = [query("p1", hits=["a"], client_id="person", session_id="s-person"), event(search="p1")]
    rows = _with_day(ingest(ndjson(*bot, *person)).rows)
    limits = Limits(impressions_per_session_hour=1000, queries_per_user_day=100_000)
    told = exclude_bots(rows, limits=limits)
    assert dict(told.group_by("excluded").len().iter_rows()) == {"bot_rate": 5000, None: 1}
    assert daily_counts(told).select("impressions", "clicks").rows() == [(1, 1)]


def test_a_user_with_thousands_of_searches_is_excluded_however_slow():
    slow = [query(f"b{n}", hits=["a"], at=f"2026-11-20T{n % 24:02d}:00:00Z", client_id="bot") for n in range(300)]
    rows = _with_day(ingest(ndjson(*slow)).rows)
    told = exclude_bots(rows, limits=Limits(impressions_per_session_hour=1000, queries_per_user_day=200))
    assert told["excluded"].unique().to_list() == ["bot_queries"]


def _with_day(rows):
    import polars as pl

    return rows.with_columns(
        pl.col("shown_at").dt.date().alias("event_day"), pl.lit("tracks").alias("corpus"), pl.lit("web").alias("source")
    )


def _counts(rows):
    import polars as pl

    return daily_counts(_with_day(rows).with_columns(pl.lit(None, pl.String).alias("excluded"))).sort("arrival_day")


# --- interactions beyond clicks ---


@pytest.mark.parametrize(
    ("seconds", "scale", "millionths", "reasons"),
    [
        (15, "30", 500_000, {}),
        (300, "30", 1_000_000, {}),
        (None, "30", 250_000, {}),
        (0.5, None, 500_000, {}),
        (15, None, 0, {"bad_interaction": 1}),
        (-1, "30", 0, {"bad_interaction": 1}),
        ("long", "30", 0, {"bad_interaction": 1}),
    ],
)
def test_an_amount_of_interaction_is_scaled_to_the_unit_interval(seconds, scale, millionths, reasons):
    used = layout(
        actions={"play": 0.25},
        columns={"interaction": "event_attributes.seconds"},
        values={"interaction_scale": scale} if scale else {},
    )
    played = event("play", rank=None)
    played["event_attributes"]["seconds"] = seconds
    outcome = ingest(ndjson(query(hits=["a"]), played), layout=used)
    assert outcome.rows["interaction"].to_list() == [millionths]
    assert outcome.reasons == reasons


def test_the_strongest_of_several_interactions_counts_and_a_click_alone_has_none():
    outcome = ingest(
        ndjson(query(hits=["a", "b"]), event(), event("add_to_cart"), event("purchase"), event(item="b", rank=2))
    )
    assert dict(outcome.rows.select("item_id", "interaction").iter_rows()) == {"a": 1_000_000, "b": 0}
