"""A night with pages and cards on a small store, built in this process with planted cosines."""

from types import SimpleNamespace

import pytest

from jobs.cards import audit, explain
from jobs.cards import job as cards_job
from jobs.pages import job as pages_job
from jobs.pages import logs_set
from tests.unit.cards.fakes import PlantedEncoder
from tests.unit.pages.ministore import copy_of, in_process, mini_store

EVIDENCE = {"min_users": 5, "near_duplicate_cosine": 0.84}


def _plant(patch):
    """Steps call tasks in this process and embed with PlantedEncoder; the model's card is not looked for."""
    for module in (logs_set, cards_job):
        patch.setattr(module, "run_tasks", in_process)
    for module in (cards_job, audit, explain):
        patch.setattr(module, "embedder_for", lambda settings, say=None: PlantedEncoder())
    patch.setattr("jobs.cards.thresholds.model_languages", lambda model: None)


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """The night that every test gets a copy of, and what the cards step said."""
    with pytest.MonkeyPatch.context() as patch:
        _plant(patch)
        mini = mini_store(tmp_path_factory.mktemp("night"), evidence=EVIDENCE)
        pages_job.run(mini.ctx)
        return mini, cards_job.run(mini.ctx)


@pytest.fixture
def night(tmp_path, made, monkeypatch):
    """A store whose night has pages and cards; `build()` makes its cards again."""
    _plant(monkeypatch)
    mini, summary = made
    ctx = copy_of(mini, tmp_path, evidence=EVIDENCE).ctx
    return SimpleNamespace(ctx=ctx, summary=summary, build=lambda: cards_job.run(ctx))
