"""What a finished run says at its end: counts that add up, undefined figures left out, the path of the report."""

from datetime import UTC, date, datetime

import polars as pl
import pytest

from jobs.core.context import Context
from jobs.core.progress import Progress
from jobs.core.settings import Settings
from jobs.core.spark import SparkProvider
from jobs.core.tables import Store
from jobs.core.windows import Run, WindowLengths
from jobs.headline import headline, headline_text, rows_of_day
from schemas.catalog import table

DAY = date(2026, 11, 20)
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def section(**spearman):
    return {"variants": {v: {"all": {"spearman": {"value": value}}} for v, value in spearman.items()}}


@pytest.fixture
def make(tmp_path):
    """A run with a report, and so many impressions of its day."""

    def run(which, *, rows, report):
        settings = Settings(root=str(tmp_path), store="store/")
        store = Store(settings.store_uri)
        spark = SparkProvider(settings.spark, store_uri=settings.store_uri)
        ctx = Context(settings=settings, store=store, run=which, spark=spark, progress=Progress(None))
        spec = table("impressions")
        for day, n in ((DAY, rows), (date(2026, 11, 19), 5)):
            where = {"event_day": day, "corpus": "tracks", "source": "web"}
            frame = pl.DataFrame([_impression(spec, i) | where for i in range(n)], schema=spec.polars())
            store.replace("impressions", frame, where=where)
        ctx.record("pages", {"logs": {"pages": 7}, "human": {"pages": 2}, "launch": None}, tables=("impressions",))
        ctx.record("judging", {"labels": 16, "unscored": {"refusal": 1, "malformed": 1}})
        store.write_json(f"reports/{which.key}/report.json", report)
        return ctx

    return run


def _impression(spec, n):
    """A row of the right types; only its number matters."""
    plain = {"String": "x", "Boolean": False, "Date": DAY, "Datetime": NOON, "Float64": 0.0}
    return {name: plain.get(str(kind).split("(")[0], 1) for name, kind in spec.polars().items()} | {"search_id": str(n)}


def test_a_night_says_its_counts_and_correlations(make):
    report = {"logs": section(plain=0.2, qri=0.38), "human": section(plain=None), "launch": None}
    ctx = make(Run.night(DAY, lengths=WindowLengths()), rows=3, report=report)
    assert rows_of_day(ctx) == 3, "its own day only"
    found = headline(ctx)
    assert {k: found[k] for k in ("impressions", "pages", "labels", "unscored", "jvm_starts")} == {
        "impressions": 3, "pages": 9, "labels": 16, "unscored": 2, "jvm_starts": 0
    }  # fmt: skip
    text = headline_text(ctx.run.key, found)
    assert "night-2026-11-20: 3 impressions, 9 pages, 16 labels, 2 unscored" in text
    assert "agreement with users, Spearman: plain 0.200, qri 0.380" in text
    assert "people" not in text, "an undefined figure is left out"
    assert text.endswith("reports/night-2026-11-20/index.html")


def test_a_launch_says_how_often_it_agreed_with_the_test(make):
    report = {"launch": {"variants": {"plain": {"half_credit": 0.525}, "qri": {"half_credit": None}}}}
    ctx = make(Run.launch("x", start=date(2026, 12, 1), lengths=WindowLengths()), rows=1, report=report)
    text = headline_text(ctx.run.key, headline(ctx))
    assert text.startswith("launch-x: 9 pages, 16 labels")
    assert "agreement with the A/B test's sign: plain 0.525\n" in text
