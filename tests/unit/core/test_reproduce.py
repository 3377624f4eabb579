"""Reproducing: every figure is compared, and what is gone or has changed is named; manifests follow their run."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime

import pytest

from jobs.core import context
from jobs.core.context import Context, past
from jobs.core.errors import NotThereError, SettingsError
from jobs.core.progress import Progress
from jobs.core.settings import Settings, load_settings
from jobs.core.spark import SparkProvider
from jobs.core.tables import Store
from jobs.core.windows import Run
from jobs.reproduce import changed, differing, erased, gone, manifest_of

NIGHT = date(2026, 11, 20)
REPORT = {
    "run": {"created_at": "then"},
    "logs": {"variants": {"qri": {"spearman": {"value": 0.5, "low": None}}}, "n_pages": 10},
    "slices": [{"n": 1}, {"n": 2}],
    "launch": {"track": {"n": 1}, "n_queries": 4},
    "changes": None,
    "gates": {"failed": []},
}


def altered(path, value):
    """REPORT with one leaf changed."""
    body = json.loads(json.dumps(REPORT))
    *way, last = path
    held = body
    for key in way:
        held = held[key]
    held[last] = value
    return body


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("logs", "n_pages"), 11, "logs.n_pages: 10, now 11"),
        (("logs", "variants", "qri", "spearman", "value"), 0.5 + 1e-12, "logs.variants.qri.spearman.value: 0.5, now"),
        (("logs", "variants", "qri", "spearman", "low"), 0, "logs.variants.qri.spearman.low: None, now 0"),
        (("slices", 1, "n"), "2", "slices[1].n: 2, now '2'"),
        (("slices",), [{"n": 1}], "slices[1].n: 2, now not there"),
        (("logs", "fresh"), 1, "logs.fresh: not there, now 1"),
        (("gates", "failed"), ["x"], "gates.failed[0]: not there, now 'x'"),
        (("launch", "n_queries"), 5, "launch.n_queries: 4, now 5"),
    ],
)
def test_a_figure_that_differs_is_named_with_both_values(path, value, told):
    (found,) = differing(REPORT, altered(path, value))
    assert found.startswith(told)


@pytest.mark.parametrize(
    ("path", "value"),
    [(("run", "created_at"), "now"), (("changes",), {"since": 1}), (("launch", "track", "n"), 2), (("paper",), {})],
)
def test_what_belongs_to_the_moment_is_no_difference(path, value):
    assert differing(REPORT, altered(path, value)) == []


@pytest.fixture
def store(tmp_path):
    return Store(str(tmp_path / "store"))


def ctx_of(store, settings=None, **changes):
    settings = settings or Settings(root=store.uri, **changes)
    run = Run.night(NIGHT, lengths=settings.windows.lengths)
    spark = SparkProvider(settings.spark, store_uri=store.uri)
    return Context(settings=settings, store=store, run=run, spark=spark, progress=Progress(None),
                   now=lambda: datetime(2026, 11, 21, tzinfo=UTC))  # fmt: skip


def test_a_manifest_gives_back_the_run_and_its_settings(store):
    ctx = ctx_of(store, windows={"gap_days": 3}, evidence={"min_users": 7}, judging={"variants": ["plain", "ctr"]})
    ctx.pin("impressions", {"rows_in": 1}, versions={"impressions": 4})
    manifest = json.loads(json.dumps(store.read_json("runs/night-2026-11-20/manifest.json")))
    now = Settings(root=store.uri, store="elsewhere", spark={"master": "spark://x:1"})
    then, run = past(manifest, now)
    assert run == ctx.run
    assert then.sha256() == ctx.settings.sha256() == manifest["config_sha256"] != now.sha256()
    assert (then.store, then.spark.master) == ("elsewhere", "spark://x:1"), "where it runs is of now"
    assert {"code_sha256", "prompts_sha256", "versions", "normalisation", "windows"} <= set(manifest)


def test_settings_that_are_none_any_more_are_left_out_and_told(store):
    """A later version of Hindcast reads the manifests of an earlier one, when it forgets a user or reproduces."""
    ctx = ctx_of(store, evidence={"min_users": 7}, corpora={"a": {}})
    ctx.record("evidence", {})
    manifest = json.loads(json.dumps(ctx.manifest()))
    manifest["config"]["evidence"]["given_up"] = 1
    manifest["config"]["corpora"]["a"]["colour"] = "red"
    manifest["config"]["older_part"] = {"x": [1]}
    then, run = past(manifest, Settings(root=store.uri))
    assert (then.sha256(), run) == (ctx.settings.sha256(), ctx.run)
    told = changed(manifest, ctx.settings, then)
    names = ("corpora.a.colour", "evidence.given_up", "older_part.x[0]")
    assert told == [f"hindcast.toml {name}: no setting any more" for name in names]
    manifest["config"]["evidence"]["min_users"] = "many"
    with pytest.raises(SettingsError, match="none any more"):
        past(manifest, Settings(root=store.uri))


def test_a_launch_comes_back_without_an_evaluation_window(store):
    settings = Settings()
    run = Run.launch("x", start=NIGHT, lengths=settings.windows.lengths)
    ctx = replace(ctx_of(store, settings), run=run)
    ctx.record("launch", {})
    assert past(ctx.manifest(), settings)[1] == run


TABLES = dict.fromkeys(("impressions", "queries", "propensities", "evidence", "pages", "cards", "judgments"), 1)
STEPS = ("impressions", "skills.tracks", "propensity", "evidence", "pages", "cards", "cards.audit", "judging")


@pytest.mark.parametrize(
    ("changes", "kept_steps", "kept_tables"),
    [
        pytest.param({}, set(STEPS), set(TABLES), id="the same settings"),
        pytest.param({"evidence": {"min_users": 7}}, set(STEPS), set(TABLES), id="other settings, the same windows"),
        pytest.param(
            {"windows": {"evidence_days": 10}},
            {"impressions", "skills.tracks"},
            {"impressions", "queries"},
            id="other windows: what they gave is no part of this run",
        ),
    ],
)
def test_a_run_that_is_computed_again_has_the_head_of_its_last_step(store, changes, kept_steps, kept_tables):
    first = ctx_of(store)
    for step in STEPS:
        first.pin(step, {}, versions=TABLES)
    again = ctx_of(store, **changes)
    again.pin("impressions", {"rows_in": 2}, versions={})
    manifest = again.manifest()
    assert set(manifest["steps"]) == kept_steps and set(manifest["tables"]) == kept_tables
    assert manifest["windows"]["evidence"] == [again.run.evidence.start.isoformat(), again.run.evidence.end.isoformat()]
    assert manifest["config_sha256"] == again.settings.sha256()
    if "evidence" not in kept_tables:
        with pytest.raises(NotThereError, match="has not written evidence"):
            again.table_version("evidence")


def test_what_only_moves_references_leaves_the_head_to_who_computed(store, monkeypatch):
    """Forgetting names the newest versions in old manifests; their figures are still those of the old code."""
    ctx_of(store, evidence={"min_users": 7}).pin("evidence", {}, versions={"evidence": 1})
    before = store.read_json("runs/night-2026-11-20/manifest.json")
    monkeypatch.setattr(context, "code_sha256", lambda: "f" * 64)
    ctx_of(store).pin("forget", {"by": "x"}, versions={"evidence": 2}, keep_head=True)
    after = store.read_json("runs/night-2026-11-20/manifest.json")
    assert after.pop("tables") == {"evidence": 2} and set(after.pop("steps")) == {"evidence", "forget"}
    assert after == {k: v for k, v in before.items() if k not in ("tables", "steps")}


def test_what_has_changed_since_is_told(store, monkeypatch):
    ctx = ctx_of(store, evidence={"min_users": 7})
    ctx.record("evidence", {})
    manifest = ctx.manifest()
    assert changed(manifest, ctx.settings, ctx.settings) == []
    manifest |= {"versions": {**manifest["versions"], "polars": "0.1"}, "normalisation": "older"}
    manifest["steps"]["pages"] = {"settings": "others"}
    manifest["steps"]["cards"] = {"embedding_revision": "0" * 8}
    monkeypatch.setattr("jobs.reproduce.code_sha256", lambda: "f" * 64)
    told = "\n".join(changed(manifest, Settings(root=store.uri), ctx.settings))
    for part in ("code: sha256 ffffffffffff, then", "polars 2", "then 0.1", "then older", "hindcast.toml",
                 "evidence.min_users: 20, then 7", "other settings than the last step: pages",
                 "embedding model all-MiniLM-L6-v2 revision"):  # fmt: skip
        assert part in told
    assert "prompts" not in told


def test_vacuumed_versions_and_erased_days_are_told(store):
    ctx = ctx_of(store)
    ctx.pin("evidence", {}, versions={"evidence": 3, "queries": None})
    assert gone(store, ctx.manifest(), ctx.run) == ["evidence version 3: its files were vacuumed"]
    inside, outside = ctx.run.evidence.start.isoformat(), "2020-01-01"
    store.write_json("forgotten/forget-20261125T101500.json", {"days": [inside, outside]})
    store.write_json("forgotten/forget-20261126T101500.json", {"days": [outside]})
    assert erased(store, ctx.run) == [f"inputs of 1 days from {inside} were erased by forget on 2026-11-25"]


def test_a_run_that_housekeeping_removed_says_when(store):
    store.write_json("housekeeping/1.json", {"runs": {"runs": ["night-2026-11-20"]}, "at": "2027-01-02T03:04:05"})
    with pytest.raises(NotThereError, match="removed by housekeeping on 2027-01-02"):
        manifest_of(store, "night-2026-11-20")
    with pytest.raises(NotThereError, match="`hindcast status` lists the runs"):
        manifest_of(store, "night-2026-11-21")


def test_no_secret_of_an_address_reaches_a_manifest(tmp_path):
    file = tmp_path / "hindcast.toml"
    file.write_text('[judging]\nbase_url = "https://me:planted-pw@host/v1"\n[corpora.a]\nitems = "s3://k:planted-pw@b/i"\n')
    settings = load_settings(file, environment={"HINDCAST_USER_SALT": "planted-pw", "HINDCAST_API_KEY": "planted-pw"})
    held = json.dumps(settings.recorded())
    assert "planted-pw" not in held and "https://host/v1" in held
    assert settings.judging.base_url == "https://me:planted-pw@host/v1", "calls still use it"


def test_the_hash_of_a_folder_sees_names_and_contents(tmp_path):
    hashes = []
    for name, content in (("a.md", "x"), ("b.md", "x"), ("a.md", "y")):
        folder = tmp_path / f"{len(hashes)}"
        (folder / "deep").mkdir(parents=True)
        (folder / "deep" / name).write_text(content)
        (folder / "ignored.pyc").write_text(str(len(hashes)))
        hashes.append(context.folder_sha256(str(folder)))
    assert len(set(hashes)) == 3
    assert context.folder_sha256(str(tmp_path / "none")) == context.folder_sha256(str(tmp_path / "neither"))
