"""A kept discovery: the same transcript gives the same SKILL.md, and the same prompts. HINDCAST_REBUILD_GOLDEN=1 writes
transcript.jsonl (a scripted model on a small planted corpus) and expected/ anew."""

import os
import shutil
from pathlib import Path

from jobs.skills.artefacts import write_skills
from jobs.skills.discovery import Options, discover_skills
from jobs.skills.documents import RetrievalQuery
from jobs.skills.planted import ScriptedModel, make_planted
from jobs.skills.planted.corpus import human_skill
from jobs.skills.rewriting import Job, LlmRewriter
from jobs.skills.transcript import replay
from tests.unit.skills.fakes import WordEncoder

HERE = Path(__file__).parent
REBUILD = bool(os.environ.get("HINDCAST_REBUILD_GOLDEN"))


def test_the_kept_transcript_gives_the_expected_skills(tmp_path):
    if REBUILD:
        _record(tmp_path / "made")
    state, differences = replay(HERE / "transcript.jsonl")
    index = {"corpus": "planted", "model": "scripted", "retired": []}
    write_skills(tmp_path / "skills", state.skills, index=index)
    if REBUILD:
        shutil.rmtree(HERE / "expected", ignore_errors=True)
        for file in (tmp_path / "skills").glob("*/SKILL.md"):
            (HERE / "expected" / file.parent.name).mkdir(parents=True)
            shutil.copy(file, HERE / "expected" / file.parent.name / "SKILL.md")
    assert differences == []
    assert _texts(tmp_path / "skills") == _texts(HERE / "expected")
    assert len(state.skills) == 3
    assert state.stopped == "every cluster is covered"


def test_the_writers_prompt_is_the_expected_one():
    model = ScriptedModel()
    query = RetrievalQuery(id="q", text='a juror worries about "losing grip"')
    LlmRewriter(model).rewrite([Job(query=query, skill=human_skill("law"), texts=("Handbook entry: perjury.",))])
    found = f"{model.requests[0].system}\n---user---\n{model.requests[0].user}\n"
    if REBUILD:
        (HERE / "rewrite_prompt.txt").write_text(found, encoding="utf-8")
    assert found == (HERE / "rewrite_prompt.txt").read_text(encoding="utf-8")


def _record(folder: Path) -> None:
    planted = make_planted(seed=1, domains=3, copies=1)
    discover_skills(
        planted.subject.documents, corpus="planted", folder=folder, encoder=WordEncoder(), model=ScriptedModel(),
        options=Options(),
    )  # fmt: skip
    shutil.copy(folder / "transcripts" / "0001.jsonl", HERE / "transcript.jsonl")


def _texts(folder: Path) -> dict[str, str]:
    return {file.parent.name: file.read_text(encoding="utf-8") for file in sorted(folder.glob("*/SKILL.md"))}
