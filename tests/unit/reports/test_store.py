"""Reports of a store's runs, without Spark: a night, the next night, a launch's frozen forecast and its outcome."""

import json
from datetime import UTC, date, datetime, timedelta

import numpy as np
import polars as pl
import pytest

from jobs.core.context import Context
from jobs.core.errors import InputError, NotThereError
from jobs.core.keys import key_hex
from jobs.core.progress import Progress
from jobs.core.settings import Settings
from jobs.core.spark import SparkProvider
from jobs.core.tables import Store
from jobs.core.windows import Run
from jobs.reports import job
from jobs.reports.output import read_explorer
from jobs.reports.store import judge_name
from schemas.report import problems
from tests.unit.reports.frames import judged, judgments, pages

DAY = date(2026, 11, 20)


def context(tmp_path, run, **report):
    settings = Settings(
        root=str(tmp_path), corpora={"tracks": {}}, report={"bootstrap": 100, "simulated": True, **report}
    )
    store = Store(settings.store_uri)
    spark = SparkProvider(settings.spark, store_uri=settings.store_uri)
    clock = datetime(2026, 11, 21, tzinfo=UTC)
    return Context(settings=settings, store=store, run=run, spark=spark, progress=Progress(None), now=lambda: clock)


def night(tmp_path, day=DAY, *, seed=0, model="some-llm", **report):
    ctx = context(tmp_path, Run.night(day, lengths=Settings().windows.lengths), **report)
    rng = np.random.default_rng(seed)
    truth = [float(t) for t in rng.random(40)]
    labels = {v: [float(np.clip(round(2 * (t + rng.normal(0, s))), 0, 2) / 2) for t in truth]
              for v, s in (("plain", 0.4), ("qri", 0.2))}  # fmt: skip
    table, rows = judged(labels, truth)
    keep(ctx, table, rows.with_columns(model=pl.lit(model)), "logs")
    return ctx


def keep(ctx, table, rows, name):
    run = {"run": ctx.run.key}
    ctx.store.replace("pages", table.with_columns(run=pl.lit(ctx.run.key)), where={**run, "set": name})
    for variant in rows["variant"].unique():
        own = rows.filter(pl.col("variant") == variant).with_columns(run=pl.lit(ctx.run.key))
        ctx.store.replace("judgments", own, where={**run, "set": name, "corpus": "tracks", "variant": variant})
    ctx.record("judging", {"calls": 80, "cost_usd": 0.5}, tables=("pages", "judgments"))


def launch(tmp_path):
    ctx = context(tmp_path, Run.launch("x", start=DAY + timedelta(days=10), lengths=Settings().windows.lengths))
    start = (DAY + timedelta(days=10)).isoformat()
    ctx.store.write_json("launches/x/launch.json", {"launch_id": "x", "start": start, "windows": {}})
    sides = [(q, s) for q in range(12) for s in "ab"]
    table = pages(*({"page_id": f"{q}{s}", "query_key": q, "system": s, "set": "launch"} for q, s in sides))
    rows = judgments(
        *(
            {
                "page_id": f"{q}{s}",
                "query_key": q,
                "system": s,
                "set": "launch",
                "variant": v,
                "qri_count": 3,
                "label": 1.0 if s == "b" and v == "qri" else 0.5,
            }
            for q, s in sides
            for v in ("plain", "qri")
        )
    )
    keep(ctx, table, rows, "launch")
    return ctx


def outcomes(ctx, keys=range(12)):
    rows = [{"query_key": key_hex(q), "system_a": 0.2, "system_b": 0.3} for q in keys]
    ctx.store.documents.write_bytes("launches/x/outcomes.jsonl", "\n".join(map(json.dumps, rows)).encode())


def test_a_nights_report(tmp_path):
    ctx = night(tmp_path)
    done = job.run(ctx)
    files = ctx.store.documents
    report = files.read_json("reports/night-2026-11-20/report.json")
    assert problems(report) == []
    assert report["run"]["simulated"] is True
    assert (report["run"]["judge"], report["run"]["model"]) == ("openai", "some-llm")
    assert report["logs"]["n_pages"] == 40
    assert report["health"]["judging"]["recorded"]["calls"] == 80
    assert "offline baseline" in report["controls"]["reason"]
    assert ctx.manifest()["steps"]["reports"]["gates"] == done["gates"]
    assert ctx.store.read("metrics", where={"run": ctx.run.key}).height > 20
    for name in ("index.html", "summary.md", "exports/qrels.qri.txt", "exports/rows.parquet", "figures/tile-logs.png"):
        assert files.exists(f"reports/night-2026-11-20/{name}"), name
    assert (tmp_path / "report" / "index.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("why", "models", "declared", "name"),
    [
        ("every label from the baseline", ["offline-baseline"], "openai", "offline-baseline"),
        ("an endpoint", ["gpt"], "openai", "openai"),
        ("a model that the command line named", ["gpt"], "offline-baseline", "openai"),
        (
            "both: neither name alone is true",
            ["gpt", "offline-baseline"],
            "openai",
            "mixed: offline-baseline and models",
        ),
        ("nothing was judged", [], "openai", None),
    ],
)
def test_the_baseline_is_never_called_a_model_nor_a_model_the_baseline(why, models, declared, name):
    assert judge_name(models, declared) == name, why


def test_running_it_again_changes_nothing(tmp_path):
    ctx = night(tmp_path)
    found = []
    for _ in range(2):
        job.run(ctx)
        folder = "reports/night-2026-11-20"
        found.append([ctx.store.documents.read_bytes(f"{folder}/{n}") for n in ("report.json", "explorer.json.gz")])
    assert found[0] == found[1]


def test_the_next_night_says_what_changed_and_an_older_one_keeps_the_site(tmp_path):
    job.run(night(tmp_path))
    job.run(night(tmp_path, DAY + timedelta(days=1), seed=1))
    ctx = night(tmp_path, DAY - timedelta(days=1), seed=2)
    job.run(ctx)
    report = ctx.store.read_json("reports/night-2026-11-21/report.json")
    assert report["changes"]["before"]["run"] == "night-2026-11-20"
    assert report["changes"]["pages"]["common"] == 40
    assert report["changes"]["pages"]["flips"]["qri"]["flipped"] > 0
    assert ctx.store.read_json("site/report.json")["run"]["run"] == "night-2026-11-21"


def test_a_failed_gate_is_recorded_with_its_figure(tmp_path):
    ctx = night(tmp_path, gates={"min_spearman": 0.999, "max_unscored": 0.02})
    job.run(ctx)
    failed = ctx.manifest()["steps"]["reports"]["gates"]["failed"]
    assert len(failed) == 1
    assert "below the limit .999" in failed[0]


def test_a_night_without_judgments_has_a_report(tmp_path):
    ctx = context(tmp_path, Run.night(DAY, lengths=Settings().windows.lengths))
    done = job.run(ctx)
    assert done["verdict"]["form"] == "cannot_say"
    assert done["gates"]["failed"] == []
    assert problems(ctx.store.read_json("reports/night-2026-11-20/report.json")) == []


def test_a_forecast_is_frozen_and_meets_its_outcome(tmp_path):
    job.run(night(tmp_path))
    ctx = launch(tmp_path)
    job.run(ctx)
    frozen = ctx.store.documents.read_bytes("launches/x/forecast.json")
    told = json.loads(frozen)
    assert told["variants"]["qri"]["preferred"] == "b"
    assert told["manifest"]["tables"]["judgments"] is not None
    row = ctx.store.read("launches").row(0, named=True)
    assert row["alignment"] is None
    outcomes(ctx)
    assert job.outcome(ctx)["aligned"]["qri"]["aligned"] == 1.0
    job.run(ctx)
    assert ctx.store.documents.read_bytes("launches/x/forecast.json") == frozen
    report = ctx.store.read_json("reports/launch-x/report.json")
    assert problems(report) == []
    assert report["launch"]["track"]["called_right"] == 1
    assert report["launch"]["variants"]["plain"]["half_credit"] == 0.5
    site = ctx.store.read_json("site/report.json")
    assert (site["run"]["run"], site["launch"]["launch_id"]) == ("night-2026-11-20", "x")
    assert len(read_explorer(ctx.store.documents, "site")["pages"]) == 64


@pytest.mark.parametrize(
    ("why", "keys", "error", "message"),
    [
        ("no outcome", None, NotThereError, "lacks its outcome"),
        ("foreign queries", range(100, 105), InputError, "none of the 5 queries"),
    ],
)
def test_outcomes_that_cannot_be_joined(tmp_path, why, keys, error, message):
    ctx = launch(tmp_path)
    job.run(ctx)
    if keys is not None:
        outcomes(ctx, keys)
    with pytest.raises(error, match=message):
        job.outcome(ctx)


def test_a_forecast_cannot_be_made_after_the_outcome(tmp_path):
    ctx = launch(tmp_path)
    outcomes(ctx)
    with pytest.raises(NotThereError, match="no frozen forecast"):
        job.run(ctx)


def test_site_and_compare_from_the_command_line(tmp_path):
    from typer.testing import CliRunner

    first, second = night(tmp_path), night(tmp_path, DAY + timedelta(days=1), seed=4)
    job.run(first)
    job.run(second)
    config = tmp_path / "hindcast.toml"
    config.write_text('[corpora.tracks]\nlocales = ["en"]\n')
    done = CliRunner().invoke(job.app, ["site", "--config", str(config), "--out", str(tmp_path / "copy"), "--json"])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "copy" / "figures" / "tile-logs.svg").exists()
    folders = [str(tmp_path / "store" / "reports" / run.run.key) for run in (first, second)]
    done = CliRunner().invoke(job.app, ["compare", *folders, "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout.splitlines()[-1])["pages"]["common"] == 40
    assert CliRunner().invoke(job.app, ["compare", *folders]).stdout.startswith("night-2026-11-20 -> night-2026-11-21")
