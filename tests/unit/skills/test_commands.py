"""The commands and the nightly step, with files, a store and an endpoint on loopback; no model is loaded."""

import json
from datetime import date
from decimal import Decimal

import polars as pl
import pytest
from typer.testing import CliRunner

from jobs.core.context import Context
from jobs.core.errors import UsageError
from jobs.core.progress import Progress
from jobs.core.settings import load_settings
from jobs.core.spark import SparkProvider
from jobs.core.tables import Store
from jobs.core.windows import Run
from jobs.pages.files import read_pages
from jobs.skills import commands, job, launch_pages, nightly
from jobs.skills.documents import RetrievalQuery
from jobs.skills.planted import make_other, make_planted
from tests.unit.skills.endpoint_double import serving
from tests.unit.skills.fakes import WordEncoder

OFFLINE = "original,generic,skills,embedding-router,random,best-single,oracle"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Documents, queries, labels, and another corpus's documents as files."""
    folder = tmp_path_factory.mktemp("files")
    planted = make_planted(seed=2, queries_per_domain=4)
    other = make_other(planted, seed=2)
    write(folder / "documents.jsonl", ({"id": d.id, "title": "", "text": d.text} for d in planted.subject.documents))
    write(folder / "other.jsonl", ({"id": d.id, "title": "", "text": d.text} for d in other.subject.documents))
    write(folder / "queries.jsonl", ({"id": q.id, "text": q.text} for q in planted.subject.queries))
    grades = planted.subject.qrels.grades
    write(folder / "qrels.jsonl", ({"query_id": q, "document_id": d, "grade": 1} for q in grades for d in grades[q]))
    return folder


@pytest.fixture(autouse=True)
def encoder(monkeypatch):
    """Every embedder is a bag of words."""
    made = WordEncoder(dimension=256)
    monkeypatch.setattr(commands, "Embedder", lambda *_, **__: made)
    monkeypatch.setattr(nightly, "embedder_for", lambda *_, **__: made)
    return made


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def call(*arguments):
    result = CliRunner().invoke(job.app, [str(one) for one in arguments], catch_exceptions=False)
    return result.exit_code, json.loads(result.stdout.splitlines()[-1]) if result.exit_code == 0 else result.output


def discover(files, out, *more, documents="documents.jsonl"):
    return call("discover", "--documents", files / documents, "--corpus", "planted", "--out", out, "--json", *more)


def evaluate(files, skills, out, *more, methods=OFFLINE):
    paths = (
        "--documents",
        files / "documents.jsonl",
        "--queries",
        files / "queries.jsonl",
        "--qrels",
        files / "qrels.jsonl",
    )
    return call("evaluate", *paths, "--skills", skills, "--out", out, "--methods", methods, "--json", *more)


def test_without_a_model_all_commands_run_and_say_so(files, tmp_path):
    code, found = discover(files, tmp_path / "skills")
    assert (code, found["model"], found["calls"]) == (0, "offline-baseline", 0)
    code, done = evaluate(files, tmp_path / "skills", tmp_path / "out", methods=OFFLINE + ",query2doc")
    assert code == 0
    assert done["methods"]["query2doc"]["ndcg10"] is None
    assert 0 < done["methods"]["original"]["ndcg10"] < 1
    assert done["discovery"][""]["version"] == found["version"]
    saved = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    assert saved["methods"] == done["methods"]
    rows = [json.loads(one) for one in (tmp_path / "out" / "per_query.jsonl").read_text().splitlines()]
    assert {one["method"] for one in rows} == set(OFFLINE.split(","))


def test_with_an_endpoint_everything_is_asked_once(files, tmp_path):
    with serving() as (url, server):
        asks = ("--base-url", url, "--model", "scripted")
        _, found = discover(files, tmp_path / "skills", *asks)
        discover(files, tmp_path / "other", *asks, documents="other.jsonl")
        assert found["stopped"] == "every cluster is covered"
        assert 0 < found["calls"] <= found["call_bound"]
        assert found["usage"]["tokens_in"] == 11 * found["calls"]
        methods = "original,generic,skills,other-corpus,think,synthesised"
        more = (*asks, "--other-skills", tmp_path / "other")
        _, done = evaluate(files, tmp_path / "skills", tmp_path / "out", *more, methods=methods)
        bought = server.calls
        _, again = evaluate(files, tmp_path / "skills", tmp_path / "out", *more, methods=methods)
        assert server.calls == bought
    values = {name: one["ndcg10"] for name, one in done["methods"].items()}
    assert values["skills"] > values["generic"] + 0.05
    assert values["other-corpus"] == values["generic"]
    assert again["methods"]["skills"]["per_query"]["tokens_in"] == done["methods"]["skills"]["per_query"]["tokens_in"]


def test_sensitivity_varies_one_setting_a_time(files, tmp_path):
    with serving() as (url, server):
        asks = ("--base-url", url, "--model", "scripted")
        discover(files, tmp_path / "skills", *asks)
        _, done = evaluate(files, tmp_path / "skills", tmp_path / "out", *asks, "--sensitivity", methods="skills")
        bought = server.calls
        evaluate(files, tmp_path / "skills", tmp_path / "again", *asks, "--sensitivity", methods="skills")
        assert server.calls == bought
    assert not list((tmp_path / "out").rglob("replies.sqlite"))
    rows = done["sensitivity"]
    assert set(rows) == {"as discovered", "clusters x0.5", "clusters x2", "ten skills"}
    assert rows["as discovered"]["points"] == 0
    assert rows["as discovered"]["ndcg10"] == done["methods"]["skills"]["ndcg10"]


def test_several_retrievers_are_compared(files, tmp_path):
    discover(files, tmp_path / "skills")
    _, done = evaluate(
        files, tmp_path / "skills", tmp_path / "out", "--retriever", "one", "--retriever", "two", methods="original"
    )
    assert set(done["retrievers"]) == {"one", "two"}


def test_a_batch_of_queries_is_rewritten(files, tmp_path):
    discover(files, tmp_path / "skills")
    paths = ("--queries", files / "queries.jsonl", "--skills", tmp_path / "skills", "--out", tmp_path / "r.jsonl")
    code, done = call("rewrite", *paths, "--documents", files / "documents.jsonl", "--json")
    rows = [json.loads(one) for one in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert (code, done["queries"], len(rows)) == (0, 20, 20)
    assert all(one["rewrite"].startswith(one["query"]) and one["joined"] for one in rows)
    assert sum(done["by_skill"].values()) == 20
    _, bare = call("rewrite", *paths, "--json")
    assert (bare["method"], bare["feedback"]) == ("skills-no-prf", False)
    code, message = call("rewrite", *paths, "--method", "query2doc", "--json")
    assert code == 2
    assert "gave no rewrite" in message


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["discover", "--out", "x"], 2, "--documents is missing"),
        (["discover", "--documents", "none.jsonl", "--out", "x"], 1, "does not exist"),
        (["discover", "--documents", "d.jsonl", "--out", "x", "--corpus", "../up"], 2, "corpus"),
        (["discover", "--documents", "d.jsonl", "--out", "x", "--base-url", "http://127.0.0.1:1/v1"], 2,
         "without --model"),
        (["evaluate", "--documents", "d", "--queries", "q", "--qrels", "r", "--skills", "s", "--out", "o",
          "--methods", "?"], 2, "unknown method"),
        (["pages", "--documents", "d", "--queries", "q", "--skills", "s", "--out", "o", "--corpus", "c"], 2,
         "--locale"),
        (["pages", "--documents", "d", "--queries", "q", "--skills", "s", "--out", "o", "--locale", "en"], 2,
         "corpus"),
        (["replay", "--transcript", "none.jsonl"], 1, "does not exist"),
    ],
)  # fmt: skip
def test_wrong_use_is_one_sentence(arguments, code, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.jsonl").write_text('{"id": "a", "text": "t"}\n')
    result = CliRunner().invoke(job.app, arguments)
    assert result.exit_code == code
    assert message in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("method", ["original", "random", "best-single", "oracle", "human", "?"])
@pytest.mark.parametrize("command", ["rewrite", "pages"])
def test_methods_that_rewrite_no_single_query_are_refused(files, tmp_path, command, method):
    paths = ("--queries", files / "queries.jsonl", "--skills", tmp_path, "--out", tmp_path / "o", "--method", method)
    more = ("--corpus", "c", "--locale", "en") if command == "pages" else ()
    code, message = call(command, *paths, "--documents", files / "documents.jsonl", *more)
    assert code == 2
    assert "choose among" in message


@pytest.mark.parametrize("option", ["--max-skills", "--max-rounds", "--clusters", "--seed"])
def test_limits_that_cannot_be_are_wrong_use(files, tmp_path, option):
    code, message = discover(files, tmp_path, option, "-1")
    assert code == 2
    assert option.removeprefix("--") in message


def test_queries_that_nobody_labelled_are_null_with_the_reason(files, tmp_path):
    discover(files, tmp_path / "skills")
    write(tmp_path / "qrels.jsonl", [{"query_id": "another", "document_id": "d", "grade": 1}])
    write(tmp_path / "mixed.jsonl", [{"id": "q", "text": "one", "subject": "s"}, {"id": "another", "text": "two"}])
    paths = ("--documents", files / "documents.jsonl", "--qrels", tmp_path / "qrels.jsonl", "--out", tmp_path / "out")
    more = ("--skills", tmp_path / "skills", "--json", "--methods", OFFLINE)
    code, done = call("evaluate", "--queries", files / "queries.jsonl", *paths, *more)
    assert (code, done["n_unlabelled"]) == (0, done["n_queries"])
    assert {one["ndcg10"] for one in done["methods"].values()} == {None}
    code, done = call("evaluate", "--queries", tmp_path / "mixed.jsonl", *paths, *more)
    assert (code, done["n_unlabelled"], done["methods"]["original"]["ndcg10"]) == (0, 1, 0.0)


def test_a_corpus_without_a_skill_is_still_measured(files, tmp_path):
    write(tmp_path / "d.jsonl", [{"id": "a", "text": "!!!"}])
    code, done = discover(files, tmp_path / "skills", documents=tmp_path / "d.jsonl")
    assert (code, done["skills"]) == (0, [])
    code, done = evaluate(files, tmp_path / "skills", tmp_path / "out")
    found = {name for name, one in done["methods"].items() if one["ndcg10"] is not None}
    assert (code, found) == (0, {"original", "generic", "best-single", "oracle"})
    assert "no skill" in done["methods"]["random"]["reason"]


def test_half_a_surrogate_pair_anywhere_stops_nothing(files, tmp_path):
    odd = {"id": "odd\ud800", "title": "t\udfff", "text": "x \ud83d\u2028\x85 y", "metadata": {"k\ud800": "v\udc00"}}
    documents, queries = tmp_path / "d.jsonl", tmp_path / "q.jsonl"
    documents.write_text((files / "documents.jsonl").read_text() + json.dumps(odd) + "\n")
    write(queries, [{"id": "q\ud800", "text": "what \ud800 is it", "excluded_ids": []}])
    skills = tmp_path / "skills"
    with serving() as (url, _):
        asks = ("--base-url", url, "--model", "scripted")
        assert call("discover", "--documents", documents, "--corpus", "c", "--out", skills, "--json", *asks)[0] == 0
        paths = ("--documents", documents, "--queries", queries, "--skills", skills, *asks, "--json")
        assert call("rewrite", *paths, "--out", tmp_path / "r.jsonl")[0] == 0
        more = ("--corpus", "c", "--locale", "en", "--depth", "300")
        assert call("pages", *paths, *more, "--out", tmp_path / "p")[0] == 0
    code, again = call("replay", "--transcript", skills / "transcripts" / "0001.jsonl", "--json")
    assert (code, again["differences"]) == (0, [])
    read_pages(tmp_path / "p" / "pages-b.jsonl", defaults={})


def test_metadata_of_any_kind_reaches_a_page_as_json(files, tmp_path):
    discover(files, tmp_path / "skills")
    row = {"id": "a", "text": "t", "metadata": {"day": date(2026, 1, 2), "price": Decimal("1.5"), "size": float("nan")}}
    pl.DataFrame([row]).write_parquet(tmp_path / "d.parquet")
    paths = ("--documents", tmp_path / "d.parquet", "--queries", files / "queries.jsonl", "--out", tmp_path / "p")
    call("pages", *paths, "--skills", tmp_path / "skills", "--corpus", "c", "--locale", "en", "--json")
    page = json.loads((tmp_path / "p" / "pages-a.jsonl").read_text().splitlines()[0])
    assert page["items"][0]["metadata"] == {"day": "2026-01-02", "price": "1.5", "size": None}


def test_stored_outcomes_reach_the_calibrated_router_only_when_asked(files, tmp_path):
    discover(files, tmp_path / "skills")
    names = [path.parent.name for path in (tmp_path / "skills").glob("*/SKILL.md")]
    write(tmp_path / "o.jsonl", [{"query": "q", "skill_id": names[0], "outcome": 0.9}] * 2)
    code, done = call("feedback", "--skills", tmp_path / "skills", "--outcomes", tmp_path / "o.jsonl", "--json")
    assert (code, done["outcomes"]) == (0, 1)
    _, off = evaluate(files, tmp_path / "skills", tmp_path / "out", methods="calibrated")
    _, on = evaluate(files, tmp_path / "skills", tmp_path / "out", "--feedback", methods="calibrated")
    assert off["methods"]["calibrated"]["ndcg10"] is None
    assert on["methods"]["calibrated"]["ndcg10"] is not None
    paths = ("--queries", files / "queries.jsonl", "--skills", tmp_path / "skills", "--method", "calibrated", "--json")
    rewrite = ("rewrite", *paths, "--documents", files / "documents.jsonl", "--out", tmp_path / "r.jsonl")
    pages = ("pages", *rewrite[1:-1], tmp_path / "pages", "--corpus", "c", "--locale", "en")
    assert [call(*one)[1]["queries"] for one in (rewrite, pages)] == [20, 20]
    (tmp_path / "skills" / "feedback.jsonl").unlink()
    for code, message in (call(*rewrite), call(*pages)):
        assert code == 2
        assert "no stored outcomes" in message


def test_a_query_has_one_page_a_system():
    texts = (("1", "One"), ("2", "two"), ("3", " one "), ("4", ""), ("5", " \t"))
    asked = [RetrievalQuery(id=name, text=text) for name, text in texts]
    assert [one.id for one in launch_pages.distinct(asked, corpus="c", locale="en")] == ["1", "2"]


def test_pages_of_a_rewriting_change_pair_up(files, tmp_path):
    discover(files, tmp_path / "skills")
    paths = (
        "--documents",
        files / "documents.jsonl",
        "--queries",
        files / "queries.jsonl",
        "--out",
        tmp_path / "pages",
    )
    more = ("--corpus", "planted", "--locale", "en", "--depth", "5", "--json")
    code, done = call("pages", *paths, "--skills", tmp_path / "skills", *more)
    pages = {s: [json.loads(one) for one in (tmp_path / "pages" / f"pages-{s}.jsonl").open()] for s in ("a", "b")}
    assert (code, done["queries"]) == (0, 20)
    assert [one["query_key"] for one in pages["a"]] == [one["query_key"] for one in pages["b"]]
    assert [one["query"] for one in pages["a"]] == [one["query"] for one in pages["b"]]
    assert {one["system"] for one in pages["b"]} == {"b"}
    assert [one["rank"] for one in pages["a"][0]["items"]] == [1, 2, 3, 4, 5]
    assert len({one["page_id"] for s in pages for one in pages[s]}) == 40
    for system in ("a", "b"):  # what the pages room reads, it takes whole
        read = read_pages(tmp_path / "pages" / f"pages-{system}.jsonl", defaults={})
        assert (len(read.pages), read.refused) == (20, [])
        assert [one["query_key"] for one in read.pages] == [one["query_key"] for one in pages[system]]
    with pytest.raises(UsageError, match="does not rewrite"):
        launch_pages.write_pages(
            files / "documents.jsonl", files / "queries.jsonl", skills=tmp_path / "skills", corpus="c", locale="en",
            out=tmp_path, method="oracle", depth=5, endpoint=commands.Endpoint(), retriever="x", say=print,
        )  # fmt: skip


@pytest.fixture
def ctx(files, tmp_path):
    corpus = {
        "documents": str(files / "documents.jsonl"),
        "retrieval": {"queries": str(files / "queries.jsonl"), "qrels": str(files / "qrels.jsonl")},
    }
    settings = load_settings(None, environment={}, root=str(tmp_path), corpora={"planted": corpus, "bare": {}})
    run = Run.night(
        pl.date_range(pl.date(2026, 1, 5), pl.date(2026, 1, 5), eager=True)[0], lengths=settings.windows.lengths
    )
    spark = SparkProvider(settings.spark, store_uri=settings.store_uri)
    return Context(settings=settings, store=Store(settings.store_uri), run=run, spark=spark, progress=Progress(None))


def test_the_nightly_step_writes_its_tables_once_and_costs_nothing_again(ctx, encoder):
    first = job.TASKS["discover"](ctx, "planted")
    skills, rewrites = ctx.read("skills", corpus="planted"), ctx.read("rewrites", corpus="planted")
    assert skills.height == len(first["discovery"]["skills"])
    assert set(skills["version"]) == set(rewrites["version"]) == {first["discovery"]["version"]}
    assert rewrites.height == 20
    assert set(rewrites["model"]) == {"offline-baseline"}
    assert first["evaluation"]["methods"]["oracle"]["ndcg10"] >= first["evaluation"]["methods"]["skills"]["ndcg10"]
    asked = encoder.asked
    again = job.TASKS["discover"](ctx, "planted")
    assert encoder.asked == asked
    assert again["discovery"]["unchanged"]
    assert again["evaluation"] == first["evaluation"]
    assert ctx.read("rewrites", corpus="planted").equals(rewrites)
    assert ctx.store.read_json(f"{ctx.folder}/skills/planted.json")["rewrites"] == 20
    assert ctx.manifest()["steps"]["skills.planted"]["rewrites"] == 20


def test_changed_labels_are_measured_again_but_not_discovered_again(ctx, files, tmp_path):
    job.TASKS["discover"](ctx, "planted")
    labels = tmp_path / "fewer.jsonl"
    labels.write_text("".join((files / "qrels.jsonl").read_text().splitlines(keepends=True)[:6]))
    corpus = ctx.settings.corpora["planted"]
    fewer = corpus.model_copy(update={"retrieval": corpus.retrieval.model_copy(update={"qrels": str(labels)})})
    changed = ctx.settings.model_copy(update={"corpora": {"planted": fewer}})
    done = nightly.run(Context(**{**vars(ctx), "settings": changed}), "planted")
    assert done["discovery"]["unchanged"]
    assert done["evaluation"]["n_unlabelled"] > 0


def test_a_corpus_without_documents_is_named(ctx):
    with pytest.raises(UsageError, match="'bare' has no documents"):
        nightly.run(ctx, "bare")
