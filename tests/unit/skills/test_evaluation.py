"""Rewriting, routers, methods and the evaluation, on planted corpora with a scripted model and without one."""

import json

import numpy as np
import pytest

from jobs.core.errors import InputError, UsageError
from jobs.skills.artefacts import read_skills
from jobs.skills.bench import Bench, Extras
from jobs.skills.calibration import calibrate, one_hot
from jobs.skills.discovery import Options, discover_skills, discovered_views
from jobs.skills.documents import RetrievalQuery
from jobs.skills.endpoint import read_completion
from jobs.skills.evaluation import check_methods, evaluate
from jobs.skills.feedback import Outcome, gains_of, read_outcomes, store_outcomes
from jobs.skills.llm import OFFLINE, CachedModel, Reply, Request
from jobs.skills.methods import METHODS
from jobs.skills.planted import ScriptedModel, make_other, make_planted
from jobs.skills.retrieval import Retriever
from jobs.skills.rewriting import Job, LlmRewriter, OfflineRewriter, RewriteOptions
from jobs.skills.routers import route_calibrated, route_with_model
from jobs.skills.skill import GENERIC, Skill
from jobs.skills.terms import Lexicon
from tests.unit.skills.fakes import QueueModel, WordEncoder

ENCODER = WordEncoder(dimension=256)
QUERY = RetrievalQuery(id="q", text="a query")
SKILL = Skill(skill_id="one", name="One", description="d", instruction="Do one.", domains=("law",))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A planted corpus with discovered, foreign and human skills, and the clusters of its discovery."""
    planted = make_planted(seed=5, queries_per_domain=14)
    other = make_other(planted, seed=5)
    found = {}
    for name, corpus in (("own", planted), ("other", other)):
        folder = tmp_path_factory.mktemp(name)
        discover_skills(
            corpus.subject.documents,
            corpus=name,
            folder=folder,
            encoder=ENCODER,
            model=ScriptedModel(),
            options=Options(),
        )
        found[name] = read_skills(folder).skills, discovered_views(folder)
    clusters, profiles = found["own"][1]
    extras = Extras(human=planted.human, other=found["other"][0], clusters=clusters, profiles=profiles)
    return planted, found["own"][0], extras


def bench_of(world, *, model=None, options=RewriteOptions()):
    planted, skills, extras = world
    retriever = Retriever(planted.subject.documents, ENCODER)
    return Bench(planted.subject, retriever, skills, encoder=ENCODER, model=model, options=options, extras=extras)


@pytest.fixture(scope="module")
def scripted(world):
    return evaluate([bench_of(world, model=ScriptedModel())], [name for name in METHODS if name != "calibrated"])


def ndcg(evaluation, name):
    return evaluation.summary["methods"][name]["ndcg10"]


def test_discovered_skills_do_as_well_as_human_ones_and_foreign_ones_bring_nothing(scripted):
    assert ndcg(scripted, "skills") >= 0.95 * ndcg(scripted, "human")
    assert ndcg(scripted, "skills") >= ndcg(scripted, "generic") + 0.05
    assert ndcg(scripted, "other-corpus") == pytest.approx(ndcg(scripted, "generic"))


def test_bounds_hold(scripted):
    values = {name: one["ndcg10"] for name, one in scripted.summary["methods"].items()}
    assert values["oracle"] >= max(values[name] for name in ("skills", "best-single", "random", "embedding-router"))
    assert values["best-single"] >= values["random"]
    assert scripted.summary["methods"]["oracle"]["with_labels"]


def test_every_method_counts_its_calls(scripted):
    calls = {name: one["per_query"]["calls"] for name, one in scripted.summary["methods"].items()}
    assert (calls["original"], calls["generic"], calls["skills"], calls["embedding-router"]) == (0, 1, 2, 1)
    assert (calls["query2doc"], calls["think"], calls["oracle"]) == (1, 3, 6)
    assert calls["synthesised"] == 2
    assert scripted.summary["methods"]["skills"]["per_query"]["tokens_in"] > 0


def test_sensitive_queries_router_accuracy_and_calibration(scripted):
    found = scripted.summary["sensitive"]
    assert 0 < found["n"] <= scripted.summary["n_queries"]
    assert found["router_accuracy"]["skills"] == pytest.approx(1, abs=0.05)
    assert found["router_accuracy"]["embedding-router"] <= 1
    (row,) = scripted.summary["calibration"]["skills"]
    assert (row["labelled"], row["splits"]) == (30, 1000)
    assert row["low"] <= row["calibrated"] - row["uncalibrated"] <= row["high"]


def test_tests_are_paired_and_corrected(scripted):
    rows = {(one["a"], one["b"]): one for one in scripted.summary["tests"]}
    assert rows["skills", "generic"]["p_holm"] < 0.05
    assert rows["other-corpus", "generic"]["p"] == 1
    assert all(one["p_holm"] >= one["p"] for one in rows.values())
    assert ("original", "generic") not in rows


def test_without_a_model_methods_are_null_with_a_reason(world):
    done = evaluate([bench_of(world)], list(METHODS))
    rows = done.summary["methods"]
    for name in ("query2doc", "think", "multiple-choice", "synthesised"):
        assert rows[name]["ndcg10"] is None
        assert "needs a language model" in rows[name]["reason"]
    assert "skills feedback" in rows["calibrated"]["reason"]
    assert rows["skills"]["note"].startswith(OFFLINE)
    assert rows["skills"]["ndcg10"] == rows["embedding-router"]["ndcg10"]
    assert done.summary["model"] == OFFLINE
    json.dumps(done.summary, allow_nan=False)


def test_an_unknown_method_lists_all(world):
    with pytest.raises(UsageError, match="unknown method magic: choose among original"):
        check_methods(["original", "magic"])


def test_excluded_documents_never_count(world):
    planted, skills, _ = world
    query = planted.subject.queries[0]
    relevant = planted.subject.qrels.relevant(query.id)
    barred = RetrievalQuery(id=query.id, text=query.text, excluded_ids=tuple(relevant))
    subject = type(planted.subject)(
        name="", documents=planted.subject.documents, queries=(barred,), qrels=planted.subject.qrels
    )
    bench = Bench(subject, Retriever(subject.documents, ENCODER), skills, encoder=ENCODER, model=None)
    assert METHODS["original"](bench).values == {query.id: 0.0}


@pytest.mark.parametrize(
    ("replies", "options", "text", "fallback"),
    [
        ([{"rewrite": "better"}], RewriteOptions(), "better", None),
        ([{"rewrite": "better"}], RewriteOptions(join=True), "a query better", None),
        ([{"rewrite": "x"}, {"rewrite": "y"}], RewriteOptions(temperature=0.7, samples=2), "a query x y", None),
        (["nonsense", {"rewrite": "y"}], RewriteOptions(temperature=0.7, samples=2), "a query y", None),
        (["nonsense"], RewriteOptions(), "a query", "the reply is no JSON object"),
        ([Reply(problem="endpoint: down")], RewriteOptions(), "a query", "endpoint: down"),
        ([{"rewrite": " "}], RewriteOptions(), "a query", "rewrite is missing or empty"),
    ],
    ids=["replace", "join", "two samples", "one of two", "nonsense", "down", "blank"],
)
def test_a_rewrite_or_the_query_with_the_reason(replies, options, text, fallback):
    (made,) = LlmRewriter(QueueModel(*replies), options=options).rewrite([Job(query=QUERY, skill=SKILL)])
    assert (made.text, made.fallback) == (text, fallback)
    assert made.cost.calls == options.samples


class Near:
    """An encoder for which a word is the nearer to any query the longer it is."""

    name, revision = "near", "1"

    def encode(self, texts, *, kind="plain"):
        return np.array([[1.0 if kind == "query" else len(one)] for one in texts], np.float32)


@pytest.mark.parametrize(
    ("skill", "texts", "text"),
    [
        (True, ("aa bbb cccc", "aa bbb dddd"), "a query bbb"),
        (True, ("aa bbb cccc", "dddd"), "a query"),
        (True, ("eeeee", "eeeee"), "a query"),
        (True, (), "a query cccc"),
        (True, ("query", "query"), "a query"),
        (False, ("aa eeeee", "aa eeeee", "fffffff"), "a query eeeee"),
        (False, ("common aa", "common aa"), "a query aa"),
        (False, (), "a query"),
    ],
    ids=[
        *("the nearest shared word of the skill", "only one result holds it", "none of the skill's", "no results"),
        *(
            "asked already",
            "generic: the nearest shared word",
            "generic: a common word tells nothing",
            "nothing at all",
        ),
    ],
)
def test_a_template_adds_the_one_word_that_results_and_skill_agree_on(skill, texts, text):
    lexicon = Lexicon(9, {"aa": 1, "bbb": 1, "cccc": 1, "dddd": 1, "eeeee": 1, "fffffff": 1, "common": 8})
    own = Skill(skill_id="s", name="s", description="d", instruction="i", domains=("aa", "bbb", "cccc", "query"))
    job = Job(query=QUERY, skill=own if skill else None, texts=texts)
    (made,) = OfflineRewriter(lexicon, encoder=Near()).rewrite([job])
    assert made.text == text
    assert (made.fallback is None) == (text != "a query")


@pytest.mark.parametrize("empty", ["", "  "])
def test_a_query_without_text_stays_one(empty):
    job = Job(query=RetrievalQuery(id="q", text=empty), skill=SKILL, texts=("law", "law"))
    for writer in (OfflineRewriter(Lexicon(1, {}), encoder=Near()), LlmRewriter(QueueModel({"rewrite": "x"}))):
        (made,) = writer.rewrite([job])
        assert (made.text, made.fallback) == (empty, "the query holds no text")


def test_samples_need_a_temperature_and_differ():
    with pytest.raises(UsageError, match="all alike"):
        RewriteOptions(samples=2)
    model = QueueModel({"rewrite": "x"})
    LlmRewriter(model, options=RewriteOptions(temperature=0.7, samples=2)).rewrite([Job(query=QUERY, texts=("first",))])
    assert [one.seed for one in model.requests] == [0, 1]
    assert '"first"' in model.requests[0].user


def test_a_bad_router_reply_becomes_generic():
    choices = route_with_model(QueueModel("x", {"skill_id": "one"}), [QUERY, QUERY], [SKILL])
    assert [(one.skill_id, bool(one.problem)) for one in choices] == [(GENERIC, True), ("one", False)]


def test_calibrated_router_follows_stored_outcomes(tmp_path):
    two = [SKILL, Skill(skill_id="two", name="Two", description="d", instruction="i", domains=("x",))]
    rows = [Outcome(query=f"q{n}", skill_id="two", outcome=1.0, source="clicks") for n in range(20)]
    rows += [Outcome(query=f"q{n}", skill_id="one", outcome=0.0, source="clicks") for n in range(20)]
    assert store_outcomes(tmp_path, rows) == 40
    assert store_outcomes(tmp_path, rows[:1]) == 40
    gains = gains_of(tmp_path)
    assert gains["two"] > 0.5 > gains["one"]
    cosines = np.array([[0.5, 0.4]])
    assert route_calibrated(cosines, [QUERY], two, gains, weight=1.0)[0].skill_id == "two"
    assert route_calibrated(cosines, [QUERY], two, {}, weight=1.0)[0].skill_id == "one"
    assert gains_of(tmp_path / "nowhere") == {}


@pytest.mark.parametrize(
    "line",
    [
        '{"query": "q", "skill_id": "s"}',
        '{"query": "q", "skill_id": "s", "outcome": 2}',
        '{"query": "q", "skill_id": "s", "outcome": 1, "source": "mood"}',
    ],
)
def test_bad_outcomes_are_named(tmp_path, line):
    (tmp_path / "o.jsonl").write_text(line + "\n")
    with pytest.raises(InputError):
        read_outcomes(tmp_path / "o.jsonl")


def test_calibration_finds_a_biased_router():
    """A router that always takes skill 0, where skill 1 is better: 30 labels tell."""
    rng = np.random.default_rng(0)
    values = np.stack([rng.normal(0.3, 0.1, 200), rng.normal(0.5, 0.1, 200)], axis=1)
    done = calibrate(one_hot(["a"] * 200, ["a", "b"]), values, splits=200)
    assert done.uncalibrated == pytest.approx(0.3, abs=0.02)
    assert done.calibrated == pytest.approx(0.5, abs=0.02)
    assert done.low > 0
    assert calibrate(np.zeros((40, 2)), np.zeros((40, 2)), splits=2).queries == 40
    assert calibrate(np.zeros((39, 2)), np.zeros((39, 2))) is None
    assert calibrate(np.zeros((40, 1)), np.zeros((40, 1))) is None


def test_good_replies_are_bought_once(tmp_path):
    request = Request(purpose="p", system="s", user="u", schema={})
    model = QueueModel("bad", Reply(problem="empty reply"), "good")
    cached = CachedModel(model, file=tmp_path / "replies.sqlite")
    other = Request(purpose="p", system="s", user="v", schema={})
    first = cached.complete([request, request, other])
    assert [one.text or one.problem for one in first] == ["bad", "bad", "empty reply"]
    again = CachedModel(model, file=tmp_path / "replies.sqlite").complete([other, request])
    assert [(one.text, one.cached) for one in again] == [("good", False), ("bad", True)]
    assert len(model.requests) == 3


@pytest.mark.parametrize("change", ["system", "user", "temperature", "seed", "sample", "max_tokens", "schema", "model"])
def test_anything_that_can_change_a_reply_changes_its_key(change):
    base = {
        "purpose": "p",
        "system": "s",
        "user": "u",
        "schema": {},
        "temperature": 0.0,
        "seed": 0,
        "sample": 0,
        "max_tokens": 9,
    }
    other = {
        **base,
        **(
            {}
            if change == "model"
            else {change: {"x": 1} if change == "schema" else "z" if isinstance(base[change], str) else 7}
        ),
    }
    assert Request(**base).key("m") != Request(**other).key("n" if change == "model" else "m")
    assert Request(**base).key("m") == Request(**{**base, "purpose": "another name"}).key("m")


@pytest.mark.parametrize(
    ("body", "want"),
    [
        (
            {
                "choices": [{"message": {"content": "x"}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 3, "completion_tokens": 1},
            },
            Reply(text="x", tokens_in=3, tokens_out=1, seconds=1.0),
        ),
        (
            {"choices": [{"message": {"content": "x"}, "finish_reason": "length"}]},
            Reply(problem="cut off", seconds=1.0),
        ),
        ({"choices": [{"message": {"content": None, "refusal": "no"}}]}, Reply(problem="refusal", seconds=1.0)),
        ({"choices": []}, Reply(problem="empty reply", seconds=1.0)),
        ({}, Reply(problem="empty reply", seconds=1.0)),
        ({"choices": "x"}, Reply(problem="empty reply", seconds=1.0)),
        ({"choices": ["x"]}, Reply(problem="empty reply", seconds=1.0)),
        ({"choices": [{"message": "x"}], "usage": [1]}, Reply(problem="empty reply", seconds=1.0)),
        ({"choices": [{"message": {"content": [{"text": "x"}]}}]}, Reply(problem="empty reply", seconds=1.0)),
        (
            {"choices": [{"message": {"content": "x\ud800"}}], "usage": {"prompt_tokens": "3", "total_tokens": -1}},
            Reply(text="x?", seconds=1.0),
        ),
    ],
    ids=[
        *("text", "cut off", "refusal", "no choice", "nothing"),
        *("choices is text", "a choice is text", "a message is text", "content is a list", "half a pair, odd counts"),
    ],
)
def test_completions_are_text_or_a_problem(body, want):
    assert read_completion(body, seconds=1.0) == want
