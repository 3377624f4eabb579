"""Propensity and evidence as Spark tasks, against a plain Spark SQL window sum over the same Delta tables."""

import polars as pl
import pytest

from jobs.core.spark import read_delta
from jobs.core.windows import evidence_filter
from jobs.evidence import job as evidence_job
from jobs.propensity import job as propensity_job
from jobs.propensity import reading
from tests.unit.pages.ministore import CORPUS, copy_of, mini_store

pytestmark = pytest.mark.spark

SPARK = {"spark": {"master": "local[2]", "driver_memory": "1g"}}

REFERENCE = """
with seen as (
  select c.*, p.propensity
  from counts c join curve p on p.rank = c.rank and p.segment is null
  where c.event_day >= date'{start}' and c.event_day < date'{end}' and c.arrival_day < date'{cut}'
    and c.corpus = '{corpus}'
), issuers as (
  select query_key, max(n) as users from (
    select query_key, salt_id, count(distinct user_hash) as n from users
    where event_day >= date'{start}' and event_day < date'{end}' and arrival_day < date'{cut}' and corpus = '{corpus}'
    group by query_key, salt_id)
  group by query_key
)
select s.query_key, s.item_key, sum(impressions) as impressions, sum(clicks) as clicks,
       sum(impressions * propensity) as examined, sum(impressions * propensity * propensity) as examined_squared,
       sum(clicks) / sum(impressions * propensity) as relevance, first(users) as users,
       max(case when impressions > 0 then event_day end) as last_shown_day
from seen s join issuers i on i.query_key = s.query_key
where users >= {min_users}
group by s.query_key, s.item_key having sum(impressions) > 0
order by query_key, item_key
"""


def test_tasks_on_spark_equal_plain_spark_sql(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "ROWS_A_TASK", 3000)
    mini = mini_store(tmp_path / "first")
    threshold = _median_users(mini.ctx) + 1
    ctx = copy_of(mini, tmp_path / "second", evidence={"min_users": threshold}, **SPARK).ctx
    try:
        propensity_job.run(ctx)
        summary = evidence_job.run(ctx)["corpora"][CORPUS]
        rows = ctx.read("evidence", run=ctx.run.key).sort("query_key", "item_key")
        expected = _spark_sql(ctx)
    finally:
        ctx.spark.stop()
    assert 0 < summary["queries"] < 10, "the threshold is meant to cut through the queries"
    assert summary["dropped_rare"] == 10 - summary["queries"]
    assert len(ctx.store.files("evidence", where={"run": ctx.run.key})) > 1, "several tasks wrote"
    assert rows.height == len(expected)
    for row, want in zip(rows.iter_rows(named=True), expected, strict=True):
        for name, value in want.asDict().items():
            assert row[name] == (pytest.approx(value, rel=1e-9) if isinstance(value, float) else value), name


def _median_users(ctx):
    users = ctx.store.read("daily_users").filter(evidence_filter(ctx.run))
    return int(users.group_by("query_key").agg(pl.col("user_hash").n_unique())["user_hash"].median())


def _spark_sql(ctx):
    for view, name in {"counts": "daily_counts", "users": "daily_users", "curve": "propensities"}.items():
        frame = read_delta(ctx.spark, ctx.store.table_uri(name), version=ctx.table_version(name))
        frame.createOrReplaceTempView(view)
    window = {"start": ctx.run.evidence.start, "end": ctx.run.evidence.end, "cut": ctx.run.cut, "corpus": CORPUS}
    return ctx.spark.session.sql(REFERENCE.format(min_users=ctx.settings.evidence.min_users, **window)).collect()
