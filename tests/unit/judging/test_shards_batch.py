"""A run's shards through the Batch API, step by step as the DAG takes them: plan, hand over, wait, collect, commit."""

import polars as pl
import pytest

from jobs.judging.batch_run import batch_states
from jobs.judging.shard_task import labels_file
from jobs.judging.shards import commit, plan, run_shard, submit_shard
from tests.unit.judging.batch_server import batch_endpoint
from tests.unit.judging.test_shards import judged, make  # noqa: F401 - the fixture

ASKED = {"judge": "openai", "model": "m", "batch": True, "variants": ("plain",), "ablation_weekday": "",
         "budget_usd": "off", "anchor_pages": 0, "repeat_pages": 0}  # fmt: skip


@pytest.fixture
def run(make, monkeypatch):  # noqa: F811 - the fixture
    """A planned run whose endpoint finishes batches when it is told to: context, provider, shard indexes."""
    monkeypatch.setenv("HINDCAST_API_KEY", "none")
    with batch_endpoint() as (url, provider):
        provider.auto_finish = False
        ctx = make(base_url=url, **ASKED)
        yield ctx, provider, [shard["index"] for shard in plan(ctx)["shards"]]


def states(ctx):
    return batch_states(ctx.settings.judging, labels_file(ctx.settings), say=lambda text: None)


def test_a_shard_is_handed_over_waited_for_and_collected_and_bought_once(run):
    ctx, provider, shards = run
    for index in shards:
        submit_shard(ctx, index)
    assert states(ctx)["done"] is False and states(ctx)["under_way"] > 0
    for index in shards:  # the task was killed after the hand-over, and is retried
        submit_shard(ctx, index)
    provider.auto_finish = True
    assert states(ctx)["done"] is True
    for index in shards:
        run_shard(ctx, index)
    commit(ctx)
    rows = judged(ctx).filter(pl.col("variant") == "plain")
    assert rows.height == 14 and rows["label"].null_count() == 0
    assert len(provider.bought) == 1, "the pages of this fixture read alike, so all of them are one question"


@pytest.mark.parametrize(
    ("judging", "batch", "why"),
    [
        ({"judge": "openai", "model": "m", "batch": True, "budget_usd": "off"}, True, "an endpoint, in batches"),
        ({"judge": "openai", "model": "m", "batch": False, "budget_usd": "off"}, False, "an endpoint, call by call"),
        ({"batch": True}, False, "the baseline asks nobody"),
    ],
)
def test_the_plan_says_which_shards_wait_for_batches(make, judging, batch, why):  # noqa: F811 - the fixture
    shards = plan(make(**judging))["shards"]
    assert shards and {shard["batch"] for shard in shards} == {batch}, why
