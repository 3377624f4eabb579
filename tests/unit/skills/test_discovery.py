"""Discovery on planted corpora with a scripted model: finds the domains, repeats, follows changes, respects people."""

import ast
import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from jobs.core.errors import InputError, UsageError
from jobs.skills import discovery
from jobs.skills.artefacts import read_index, read_skills
from jobs.skills.discovery import Options, discover_skills, discovered_views
from jobs.skills.documents import Document
from jobs.skills.llm import OFFLINE, Reply
from jobs.skills.planted import ScriptedModel, make_other, make_planted
from jobs.skills.transcript import replay
from tests.unit.skills.fakes import QueueModel, WordEncoder

ENCODER = WordEncoder()


def run(documents, folder, *, model=None, options=Options(), encoder=ENCODER):
    return discover_skills(documents, corpus="c", folder=folder, encoder=encoder, model=model, options=options)


@pytest.fixture(scope="module")
def planted():
    return make_planted(seed=3)


def test_every_planted_domain_is_found_and_covered(planted, tmp_path):
    done = run(planted.subject.documents, tmp_path, model=ScriptedModel())
    assert {name for one in done["skills"] for name in one["domains"]} == set(planted.domains)
    assert done["stopped"] == "every cluster is covered"
    assert done["rounds"][-1]["document_coverage"] == 1
    assert done["calls"] <= done["call_bound"]


def test_an_unchanged_corpus_asks_and_embeds_nothing(planted, tmp_path):
    first = run(planted.subject.documents, tmp_path, model=ScriptedModel())
    model, encoder = ScriptedModel(), WordEncoder()
    shuffled = random.Random(1).sample(planted.subject.documents, len(planted.subject.documents))
    again = run(shuffled, tmp_path, model=model, encoder=encoder)
    assert (again["unchanged"], again["version"], again["sequence"]) == (True, first["version"], 1)
    assert (model.requests, encoder.asked, again["calls"]) == ([], 0, 0)


def test_the_same_corpus_gives_the_same_skills_anywhere(planted, tmp_path):
    for name in ("a", "b"):
        run(planted.subject.documents, tmp_path / name, model=ScriptedModel())
    files = [
        sorted((path.relative_to(tmp_path / name), path.read_bytes()) for path in (tmp_path / name).glob("*/SKILL.md"))
        for name in ("a", "b")
    ]
    assert files[0] == files[1]
    assert len(files[0]) == 5


def test_a_few_changed_documents_move_only_their_clusters(planted, tmp_path):
    documents = list(planted.subject.documents)
    run(documents, tmp_path, model=ScriptedModel())
    labels = dict(zip(*_tracked(tmp_path), strict=True))
    target = labels[documents[0].id]
    members = [n for n, one in enumerate(documents) if labels[one.id] == target]
    for n in members[: len(members) // 3 + 1]:
        documents[n] = replace(documents[n], text=documents[n].text + " Revised.")
    model = ScriptedModel()
    done = run(documents, tmp_path, model=model)
    assert done["movement"]["documents_changed"] == len(members) // 3 + 1
    assert done["movement"]["clusters_moved"] == 1
    assert [one.purpose for one in model.requests] == ["characterise", "judge"]
    assert {one["change"] for one in done["changes"]} == {"kept"}


def test_a_new_domain_is_found_and_the_report_says_why(planted, tmp_path):
    whole = make_planted(seed=3, domains=5)
    first = [one for one in whole.subject.documents if not _about(one, whole.domains[0])]
    run(first, tmp_path, model=ScriptedModel(), options=Options(max_rounds=3))
    model = ScriptedModel()
    done = run(whole.subject.documents, tmp_path, model=model)
    added = [one for one in done["changes"] if one["change"] == "added"]
    assert [one["skill_id"] for one in added] == [f"{whole.domains[0]}-terms"]
    assert "proposed in round" in added[0]["why"]
    assert done["movement"]["documents_added"] == len(whole.subject.documents) - len(first)
    assert done["movement"]["clusters_new"] >= 1
    assert sum(one.purpose == "characterise" for one in model.requests) < done["clusters"]


def test_deleted_documents_are_forgotten(planted, tmp_path):
    documents = list(planted.subject.documents)
    run(documents, tmp_path, model=ScriptedModel())
    done = run(documents[5:], tmp_path, model=ScriptedModel())
    assert done["movement"]["documents_deleted"] == 5
    assert set(_tracked(tmp_path)[0]) == {one.id for one in documents[5:]}


def test_a_pinned_and_an_edited_skill_are_kept_word_for_word(planted, tmp_path):
    run(planted.subject.documents, tmp_path, model=ScriptedModel())
    pinned, edited = sorted(tmp_path.glob("*/SKILL.md"))[:2]
    pinned.write_text(pinned.read_text().replace('pinned: "false"', 'pinned: "true"'))
    edited.write_text(edited.read_text().replace("Exchange everyday words", "Kindly exchange everyday words"))
    before = pinned.read_text(), edited.read_text()
    done = run(planted.subject.documents, tmp_path, model=QueueModel("no json"), options=Options(seed=9))
    assert (pinned.read_text(), edited.read_text()) == before
    assert {one["skill_id"]: (one["pinned"], one["edited"]) for one in done["skills"]} == {
        pinned.parent.name: (True, False),
        edited.parent.name: (False, True),
    }


def test_a_removed_skill_does_not_come_back(planted, tmp_path):
    run(planted.subject.documents, tmp_path, model=ScriptedModel())
    gone = sorted(tmp_path.glob("*/SKILL.md"))[0]
    gone.unlink()
    done = run([*planted.subject.documents, Document(id="new", text="Case report.")], tmp_path, model=ScriptedModel())
    assert gone.parent.name not in {one["skill_id"] for one in done["skills"]}
    assert read_index(tmp_path)["retired"] == [gone.parent.name]


def test_edits_are_noticed_when_nothing_else_changed(planted, tmp_path):
    run(planted.subject.documents, tmp_path, model=ScriptedModel())
    file = sorted(tmp_path.glob("*/SKILL.md"))[0]
    file.write_text(file.read_text().replace("term of art", "proper term"))
    done = run(planted.subject.documents, tmp_path, model=ScriptedModel())
    assert done["unchanged"]
    assert done["sequence"] == 2
    assert [one.edited for one in read_skills(tmp_path).skills].count(True) == 1


def test_a_transcript_replays_and_shows_tampering(planted, tmp_path):
    run(planted.subject.documents, tmp_path, model=ScriptedModel())
    file = tmp_path / "transcripts" / "0001.jsonl"
    state, differences = replay(file)
    assert differences == []
    assert {one.skill_id for one in state.skills} == {one.skill_id for one in read_skills(tmp_path).skills}
    lines = [json.loads(one) for one in file.read_text().splitlines()]
    lines[1]["reply"]["text"] = '{"domain": "alchemy", "content_type": "scroll"}'
    file.write_text("".join(json.dumps(one) + "\n" for one in lines))
    assert "would be read as another value" in replay(file)[1][0]


class Hesitant(ScriptedModel):
    """The scripted model, which here proposes one skill a call, and none in the round `silent`."""

    def complete(self, requests):
        return [self._fewer(one, reply) for one, reply in zip(requests, super().complete(requests), strict=True)]

    def _fewer(self, request, reply):
        if request.purpose != "propose":
            return reply
        proposed = json.loads(reply.text)["skills"][: 0 if request.seed == self.silent else 1]
        return replace(reply, text=json.dumps({"skills": proposed}))


@pytest.mark.parametrize("silent", [0, 1, 2], ids=["never", "in round 1", "in round 2"])
def test_a_transcript_of_several_rounds_replays_too(planted, tmp_path, silent):
    model = Hesitant()
    model.silent = silent
    done = run(planted.subject.documents, tmp_path, model=model)
    assert len(done["rounds"]) > 1
    state, differences = replay(tmp_path / "transcripts" / "0001.jsonl")
    assert differences == []
    assert [one.skill_id for one in state.skills] == [one["skill_id"] for one in done["skills"]]


def test_a_transcript_never_takes_the_place_of_another(planted, tmp_path):
    folder = tmp_path / "transcripts"
    for seed in (0, 1):
        run(planted.subject.documents, tmp_path, model=ScriptedModel(), options=Options(seed=seed))
    (folder / "0001.jsonl").unlink()
    second = (folder / "0002.jsonl").read_bytes()
    run(planted.subject.documents, tmp_path, model=ScriptedModel(), options=Options(seed=2))
    assert sorted(one.name for one in folder.iterdir()) == ["0002.jsonl", "0003.jsonl"]
    assert (folder / "0002.jsonl").read_bytes() == second


def test_clusters_of_the_discovery_can_be_read_again(planted, tmp_path):
    done = run(planted.subject.documents, tmp_path, model=ScriptedModel())
    clusters, profiles = discovered_views(tmp_path)
    assert len(clusters) == done["clusters"] == len(profiles)
    assert discovered_views(tmp_path / "nowhere") == ((), {})


@pytest.mark.parametrize("reply", ["", "no", "[1]", '{"skills": []}', '{"verdict": "covered", "skill_id": "?"}'])
def test_a_model_that_writes_nonsense_is_never_fatal(planted, tmp_path, reply):
    done = run(planted.subject.documents, tmp_path, model=QueueModel(reply))
    assert done["stopped"] == "no usable skill was proposed"
    assert len(done["drops"]) == done["clusters"] + 3
    assert done["skills"] == []


def test_without_a_model_skills_come_from_terms_and_say_so(planted, tmp_path):
    done = run(planted.subject.documents, tmp_path)
    assert done["model"] == OFFLINE
    assert done["calls"] == 0
    assert 1 <= len(done["skills"]) <= 5
    text = next(iter(tmp_path.glob("*/SKILL.md"))).read_text()
    assert f'model: "{OFFLINE}"' in text


class Flaky(ScriptedModel):
    """The scripted model behind an endpoint that answers the first `answered` calls and is then down."""

    def __init__(self, answered):
        super().__init__()
        self.left = answered

    def complete(self, requests):
        replies = super().complete(requests)
        kept, self.left = self.left, max(0, self.left - len(replies))
        return [one if n < kept else Reply(problem="endpoint: down", lost=True) for n, one in enumerate(replies)]


@pytest.mark.parametrize("answered", [0, 3, 20, 25])
def test_what_an_outage_left_unasked_is_asked_the_next_time(planted, tmp_path, answered):
    first = run(planted.subject.documents, tmp_path, model=Flaky(answered))
    assert first["usage"]["lost"] > 0
    done = run(planted.subject.documents, tmp_path, model=ScriptedModel())
    assert not done["unchanged"]
    assert {name for one in done["skills"] for name in one["domains"]} == set(planted.domains)
    assert done["stopped"] == "every cluster is covered"
    assert run(planted.subject.documents, tmp_path, model=ScriptedModel())["unchanged"]


def test_a_domain_that_went_makes_room_for_one_that_came(planted, tmp_path):
    old, new = planted.domains[0], make_other(planted, seed=3).domains[0]
    run(planted.subject.documents, tmp_path, model=ScriptedModel())
    stay = [one for one in planted.subject.documents if not _about(one, old)]
    come = [one for one in make_other(planted, seed=3).subject.documents if _about(one, new)]
    come = [replace(one, id=f"new-{one.id}") for one in come]
    done = run([*stay, *come], tmp_path, model=ScriptedModel())
    changes = {one["skill_id"]: one for one in done["changes"]}
    assert changes[f"{old}-terms"]["change"] == "removed"
    assert changes[f"{old}-terms"]["why"] == "it covers no document any more"
    assert changes[f"{new}-terms"]["change"] == "added"
    assert not (tmp_path / f"{old}-terms").exists()
    assert read_index(tmp_path)["retired"] == []


@pytest.mark.parametrize("wrong", [{"max_skills": 0}, {"max_rounds": 0}, {"clusters": -1}, {"seed": -1}])
def test_options_that_cannot_be_are_refused(wrong):
    with pytest.raises(UsageError, match="or more"):
        Options(**wrong)


def test_a_corpus_without_text_is_an_error(tmp_path):
    with pytest.raises(InputError, match="no document with text"):
        run([], tmp_path)


def test_one_document_is_a_corpus(tmp_path):
    assert (
        run([Document(id="1", text="Case report. We met estoppel.")], tmp_path, model=ScriptedModel())["clusters"] == 1
    )


def test_no_label_can_reach_discovery_by_imports():
    """By types: nothing that discovery imports, however far away, imports the labels."""
    seen, open_ones = set(), {"jobs.skills.discovery"}
    while open_ones:
        name = open_ones.pop()
        seen.add(name)
        open_ones |= {one for one in _imports(name) if one.startswith("jobs.skills.")} - seen
    assert "jobs.skills.clusters" in seen
    assert not seen & {"jobs.skills.labels", "jobs.skills.collection", "jobs.skills.metrics", "jobs.skills.feedback"}


def test_planted_labels_change_nothing(planted, tmp_path):
    """By planting: labels written into ids' neighbours and metadata leave every prompt and skill as it was."""
    labelled = [replace(one, metadata={"relevant_for": "q0001", "grade": 1}) for one in planted.subject.documents]
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "qrels.txt").write_text("q0001 0 d00001 1\n")
    (tmp_path / "b" / "feedback.jsonl").write_text('{"query": "q", "skill_id": "law-terms", "outcome": 1.0}\n')
    models = ScriptedModel(), ScriptedModel()
    one = run(planted.subject.documents, tmp_path / "a", model=models[0])
    other = run(labelled, tmp_path / "b", model=models[1])
    assert one["version"] == other["version"]
    assert [r.user for r in models[0].requests] == [r.user for r in models[1].requests]


def test_every_function_of_discovery_takes_documents_not_labels():
    assert "Qrels" not in Path(discovery.__file__).read_text()


def _imports(module):
    tree = ast.parse(Path(module.replace(".", "/") + ".py").read_text())
    found = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    return found | {one.name for node in ast.walk(tree) if isinstance(node, ast.Import) for one in node.names}


def _tracked(folder):
    with np.load(folder / "state" / "clusters.npz") as arrays:
        return arrays["ids"].tolist(), arrays["labels"].tolist()


def _about(document, domain):
    from jobs.skills.planted.corpus import words

    return any(term in document.text for term in words()["domains"][domain]["terms"])
