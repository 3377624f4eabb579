"""Days of the simulated log: clicks follow the planted model, frames and counts say the same, files are the same
bytes.
"""

import gzip
import json
from collections import Counter
from datetime import timedelta

import numpy as np
import polars as pl
import pytest

from jobs.core.settings import load_settings
from jobs.simulate.counts import daily_counts, daily_users
from jobs.simulate.job import run
from jobs.simulate.log import day_log, draw_day
from jobs.simulate.sizes import DEMO, TINY, size_of
from jobs.simulate.world import SEGMENTS, make_world


@pytest.fixture(scope="module")
def demo():
    return make_world(seed=5, size="demo")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """One tiny log written twice, and once with another seed."""
    root = tmp_path_factory.mktemp("tiny")
    summaries = {name: run(out=root / name, size="tiny", seed=seed) for name, seed in (("a", 7), ("b", 7), ("c", 8))}
    return root, summaries


def test_clicks_follow_examination_times_relevance(demo):
    """Per rank, clicks over the sum of planted relevance are the planted examination, within 4 standard errors."""
    days = [draw_day(demo, corpus="tracks", day=d) for d in DEMO.calendar[:12]]
    part = demo.corpora["tracks"]
    clicks, expected = np.zeros(10), np.zeros(10)
    for day in days:
        place = (part.pool_of(day.query)[:, None, :] == day.items[:, :, None]).argmax(axis=2)
        clicks += day.clicked.sum(axis=0)
        expected += np.take_along_axis(part.relevance[day.query], place, axis=1).sum(axis=0)
    found, planted = clicks / expected, part.examination[0]
    assert (np.abs(found - planted) < 4 * np.sqrt(clicks) / expected).all()


def test_rankers_share_the_traffic_and_flags_stand_on_random_pages_only(demo):
    day = draw_day(demo, corpus="tracks", day=DEMO.calendar[3])
    shares = np.bincount(day.ranker, minlength=3) / day.pages
    assert shares == pytest.approx([r.share for r in demo.rankers], abs=0.03)
    assert set(day.ranker[day.randomised]) == {2}
    assert day.randomised.mean() == pytest.approx(0.1, abs=0.02)


def test_popularity_is_unequal_and_most_queries_stay_in_the_logs_range(demo):
    days = [draw_day(demo, corpus="tracks", day=d) for d in DEMO.calendar[-10:]]
    pages = np.bincount(np.concatenate([d.query for d in days]), minlength=demo.corpora["tracks"].queries.height)
    assert np.quantile(pages, 0.95) > 2.5 * np.median(pages)
    assert ((pages >= 20) & (pages <= 420)).mean() > 0.8


def test_counts_are_the_sums_of_the_log(demo):
    day = DEMO.calendar[2]
    log = day_log(demo, day, corpora=("podcasts",))
    counts = daily_counts(demo, corpus="podcasts", days=[day])
    users = daily_users(demo, corpus="podcasts", days=[day])
    assert counts["impressions"].sum() == log.height
    assert counts["clicks"].sum() == log["clicked"].sum()
    assert users["user_hash"].n_unique() == log["user_id"].n_unique()
    by_rank = log.group_by("rank").agg(pl.col("clicked").sum().cast(pl.Int64)).sort("rank")
    assert (
        counts.group_by("rank").agg(pl.col("clicks").sum()).sort("rank")["clicks"].to_list()
        == by_rank["clicked"].to_list()
    )


def test_some_rows_arrive_on_later_days_and_none_before_they_are_shown(demo):
    log = day_log(demo, DEMO.calendar[2])
    late = (log["arrived_at"].dt.date() > log["shown_at"].dt.date()).mean()
    assert 0.005 < late < 0.03
    assert (log["arrived_at"] > log["shown_at"]).all()
    assert (log["arrived_at"] - log["shown_at"]).max() < timedelta(days=3)


def test_segments_differ_in_examination_where_they_are_asked_for():
    world = make_world(seed=1, size=size_of("tiny", segments=True))
    curves = world.corpora["tracks"].examination
    assert len(curves) == len(SEGMENTS)
    assert (curves[1][1:] < curves[0][1:]).all()
    assert set(day_log(world, TINY.calendar[0])["segment"]) == set(SEGMENTS)


def test_the_same_seed_writes_the_same_bytes(tiny):
    root, _ = tiny
    files = sorted(p.relative_to(root / "a") for p in (root / "a").rglob("*") if p.is_file())
    assert len(files) > 30
    assert all((root / "a" / f).read_bytes() == (root / "b" / f).read_bytes() for f in files)
    logs = [f for f in files if f.parts[0] == "logs"]
    assert any((root / "a" / f).read_bytes() != (root / "c" / f).read_bytes() for f in logs)


def _documents(folder):
    """Lines of a corpus as (day, bytes)."""
    for path in sorted(folder.rglob("*.ndjson.gz")):
        for line in gzip.decompress(path.read_bytes()).splitlines():
            yield path.parent.name, line


def test_what_is_planted_is_counted_to_the_line(tiny):
    """truth/dirty.json against an independent reading of the files."""
    root, summaries = tiny
    truth = json.loads((root / "a" / "truth" / "dirty.json").read_text())
    for corpus, planted in truth.items():
        seen, forms, events, queries = Counter(), Counter(), Counter(), Counter()
        for _, line in _documents(root / "a" / "logs" / corpus):
            seen["documents"] += 1
            try:
                document = json.loads(line.decode())
            except UnicodeDecodeError:
                seen["not_utf8"] += 1
                continue
            except json.JSONDecodeError:
                seen["malformed"] += 1
                continue
            name = document.get("action_name", "query")
            seen[name] += 1
            time = document["timestamp"]
            forms["time_epoch_ms"] += isinstance(time, int)
            forms["time_plus_0000"] += str(time).endswith("+0000")
            if name == "query":
                seen["bot_query"] += document["client_id"] == f"u{TINY.users + 1}"
                seen["empty_query"] += not document["user_query"].strip()
                queries[document["query_id"]] += 1
            else:
                attributes = document["event_attributes"]
                seen["no_position"] += attributes["position"] == {}
                seen["lost"] += document["query_id"].startswith("lost-")
                seen["unseen"] += attributes["object"]["object_id"] == "never-shown"
                events[line] += 1
        lines = {name: kind["lines"] for name, kind in planted["dirty"].items()}
        assert min(lines.values()) >= 1
        assert seen["documents"] == planted["documents"] == summaries["a"]["ubi"][corpus]["documents"]
        for name in ("not_utf8", "malformed", "bot_query", "empty_query", "no_position"):
            assert seen[name] == lines[name], name
        assert seen["scroll"] == lines["unknown_action"]
        assert seen["lost"] == lines["click_of_unknown_search"]
        assert seen["unseen"] == lines["click_of_unseen_item"]
        assert sum(n - 1 for n in events.values()) == lines["exact_copy"]
        assert max(queries.values()) == 1
        dirty_clicks = sum(
            lines[n] for n in ("click_of_unknown_search", "click_of_unseen_item", "conflict", "exact_copy",
                               "copy_under_fresh_id", "no_position", "future")
        )  # fmt: skip
        assert seen["click"] == planted["clicks"] + dirty_clicks
        pages = seen["query"] - seen["bot_query"] - seen["empty_query"]
        listed = pages - planted["listed_and_displayed"]
        assert planted["impressions"] == listed * TINY.hits + seen["impression"]
        assert forms["time_epoch_ms"] > 0 < forms["time_plus_0000"]


def test_every_kind_of_dirt_is_planted_in_the_demo_in_its_share():
    from jobs.simulate.dirt import KINDS, dirty_lines
    from jobs.simulate.lines import with_actions

    world = make_world(seed=2, size="demo")
    pages, found = 0, Counter()
    for day in DEMO.calendar[:6]:
        drawn = with_actions(world, draw_day(world, corpus="tracks", day=day))
        pages += drawn.day.pages
        found.update(dict(dirty_lines(world, drawn).group_by("kind").len().iter_rows()))
    for name, kind in KINDS.items():
        expected = kind.share * pages * (2 if name == "conflict" else 1)
        assert found[name] == pytest.approx(expected, abs=5 * np.sqrt(expected) + 1), name


def test_late_lines_stand_in_the_folder_of_their_arrival(tiny):
    root, _ = tiny
    later = 0
    for day, line in _documents(root / "a" / "logs" / "tracks"):
        try:
            document = json.loads(line.decode())
        except ValueError:
            continue
        assert document["arrived_at"][:10] == day
        later += isinstance(document["timestamp"], str) and document["timestamp"][:10] < day
    assert later > 10


def test_a_tiny_log_is_tiny_and_ready_to_run(tiny):
    root, summaries = tiny
    shown = sum(c["impressions"] for c in summaries["a"]["ubi"].values())
    assert 18_000 < shown < 22_000
    settings = load_settings(root / "a" / "hindcast.toml", environment={})
    assert settings.report.simulated
    assert set(settings.corpora) == {"tracks", "podcasts"}
    assert len(settings.judging.variants) == 6
    assert all((root / "a" / settings.corpora[c].items).exists() for c in settings.corpora)
    assert settings.windows.evidence_days == 7


def test_parquet_has_one_file_a_day_and_the_columns_of_a_log(tmp_path):
    summary = run(out=tmp_path, impressions=60_000, days=4, log_format="parquet", size="demo", seed=1)
    frame = pl.read_parquet(tmp_path / "parquet" / "tracks" / "*" / "*.parquet")
    assert summary["parquet_impressions"] == pytest.approx(60_000, rel=0.2)
    assert {"search_id", "corpus", "locale", "query", "item_id", "rank", "ranker", "user_id", "clicked", "shown_at",
            "arrived_at", "randomised"} <= set(frame.columns)  # fmt: skip
    assert not (tmp_path / "logs").exists()
    assert 'format = "parquet"' in (tmp_path / "hindcast.toml").read_text()


def test_only_what_the_simulator_writes_is_replaced(tmp_path):
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "kept").write_text("mine")
    (tmp_path / "items").mkdir()
    (tmp_path / "items" / "old.jsonl").write_text("{}")
    run(out=tmp_path, size="tiny", seed=0)
    assert (tmp_path / "store" / "kept").read_text() == "mine"
    assert not (tmp_path / "items" / "old.jsonl").exists()
