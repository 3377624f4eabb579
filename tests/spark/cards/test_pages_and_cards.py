"""Pages and cards as Spark tasks: the same tables as the same functions give in one process."""

import pytest

from jobs.cards import audit
from jobs.cards import job as cards_job
from jobs.pages import job as pages_job
from jobs.pages import logs_set
from tests.unit.cards.fakes import PlantedEncoder
from tests.unit.pages.ministore import copy_of, in_process, mini_store

pytestmark = pytest.mark.spark

SETTINGS = {
    "evidence": {"min_users": 5, "near_duplicate_cosine": 0.84},
    "spark": {"master": "local[2]", "driver_memory": "1g"},
}


def tables(ctx):
    key = {"pages": ["set", "page_id"], "cards": ["set", "page_id", "item_id", "query_key"]}
    return {name: ctx.read(name, run=ctx.run.key).sort(columns) for name, columns in key.items()}


def test_tasks_on_spark_give_what_one_process_gives(tmp_path, monkeypatch):
    monkeypatch.setattr(logs_set, "ROWS_A_TASK", 3000)
    monkeypatch.setattr("jobs.cards.inputs.ROWS_A_TASK", 40)
    for module in (cards_job, audit):
        monkeypatch.setattr(module, "embedder_for", lambda settings, say=None: PlantedEncoder())
    monkeypatch.setattr("jobs.cards.thresholds.model_languages", lambda model: None)
    mini = mini_store(tmp_path / "spark", **SETTINGS)
    here = copy_of(mini, tmp_path / "process", **SETTINGS).ctx
    try:
        made = (pages_job.run(mini.ctx), cards_job.run(mini.ctx))
    finally:
        mini.ctx.spark.stop()
    for module in (logs_set, cards_job):
        monkeypatch.setattr(module, "run_tasks", in_process)
    assert (pages_job.run(here), cards_job.run(here)) == made
    one, other = tables(mini.ctx), tables(here)
    assert all(one[name].height > 0 and one[name].equals(other[name]) for name in one)
    assert audit.run(mini.ctx)["violations"] == 0
