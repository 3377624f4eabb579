"""The transcript of a discovery: its first state, then every task with prompt, raw reply and value; and its replay."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jobs.core.errors import InputError, NotThereError
from jobs.skills.agents import KINDS, read_answer, request_of
from jobs.skills.llm import Reply
from jobs.skills.loop import Answer, Limits, State, Task, discover
from jobs.skills.prompts import load_prompt
from jobs.skills.skill import Cluster, Draft, Profile, Skill, Verdict

_VALUES = {"Profile": Profile, "Draft": Draft, "Verdict": Verdict}


class Transcript:
    """Collects what happens, to be written once; pass `record` to `loop.discover`."""

    def __init__(self, start: State, *, agents: str):
        self.lines: list[dict[str, Any]] = [{"agents": agents, "start": state_row(start)}]

    def record(self, state: State, task: Task, answer: Answer) -> None:
        """Keep one task with its answer."""
        self.lines.append({
            "round": state.round, "phase": state.phase, "key": task.key, "kind": task.kind,
            "value": value_row(answer.value), "problem": answer.problem, **answer.exchange,
        })

    def write(self, folder: Path) -> Path:
        """Write the next numbered file of the folder and return it."""
        folder.mkdir(parents=True, exist_ok=True)
        taken = [int(one.stem) for one in folder.glob("*.jsonl") if one.stem.isdecimal()]
        file = folder / f"{max(taken, default=0) + 1:04d}.jsonl"  # never one that is there, whatever was cleared away
        text = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in self.lines)
        file.write_text(text, encoding="utf-8", errors="backslashreplace")  # half a surrogate pair as JSON's own escape
        return file


class RecordedAgents:
    """Answers from a transcript; for those of a language model, prompt and parse are done again and compared."""

    def __init__(self, lines: Sequence[dict[str, Any]]):
        self.name = lines[0]["agents"]
        self.differences: list[str] = []
        self._known = {one["key"]: one for one in lines[1:]}
        self._prompts = {kind: load_prompt(kind) for kind in KINDS}

    def answer(self, tasks: Sequence[Task]) -> list[Answer]:
        """The recorded answers; a task that was never asked is a difference and has no value."""
        return [self._answer(task) for task in tasks]

    def _answer(self, task: Task) -> Answer:
        known = self._known.get(task.key)
        if known is None:
            self.differences.append(f"{task.key} was not asked when the transcript was made")
            return Answer(key=task.key, problem="not in the transcript")
        answer = Answer(key=task.key, value=value_of(known["value"]), problem=known["problem"])
        if "reply" in known:
            self._compare(task, known, answer)
        return answer

    def _compare(self, task: Task, known: dict[str, Any], answer: Answer) -> None:
        request = request_of(task, self._prompts[task.kind])
        if request.user != known["request"]["user"] or request.system != known["request"]["system"]:
            self.differences.append(f"{task.key} would be asked with another prompt")
        if read_answer(task, request, Reply(**known["reply"])).value != answer.value:
            self.differences.append(f"the reply to {task.key} would be read as another value")


def replay(file: Path) -> tuple[State, list[str]]:
    """Run a kept transcript again: the final state, and how it differs from what was recorded (empty: not at all)."""
    if not file.exists():
        raise NotThereError(f"{file} does not exist: give a file of the skills folder's transcripts")
    lines = [json.loads(one) for one in file.read_text(encoding="utf-8").split("\n") if one]
    if not lines or "start" not in lines[0]:
        raise InputError(f"{file} is no transcript: its first line must hold the start")
    agents = RecordedAgents(lines)
    return discover(state_of(lines[0]["start"]), agents), agents.differences


def state_row(state: State) -> dict[str, Any]:
    """The parts of a first state as JSON."""
    return {
        "limits": asdict(state.limits), "clusters": [asdict(one) for one in state.clusters],
        "profiles": {str(key): asdict(one) for key, one in state.profiles.items()},
        "skills": [asdict(one) for one in state.skills],
        "verdicts": [asdict(one) for one in state.verdicts.values()], "retired": sorted(state.retired),
    }


def state_of(row: dict[str, Any]) -> State:
    """The inverse of `state_row`."""
    verdicts = [Verdict(**one) for one in row["verdicts"]]
    return State(
        limits=Limits(**row["limits"]),
        clusters=tuple(Cluster(**_tuples(one)) for one in row["clusters"]),
        profiles={int(key): Profile(**one) for key, one in row["profiles"].items()},
        skills=tuple(Skill(**_tuples(one)) for one in row["skills"]),
        verdicts={one.cluster: one for one in verdicts},
        retired=frozenset(row["retired"]),
    )


def value_row(value: Any) -> Any:
    """An answer's value as JSON that names its type; None stays None."""
    if isinstance(value, tuple):
        return [value_row(one) for one in value]
    return None if value is None else {"type": type(value).__name__, **asdict(value)}


def value_of(row: Any) -> Any:
    """The inverse of `value_row`."""
    if isinstance(row, list):
        return tuple(value_of(one) for one in row)
    if row is None:
        return None
    return _VALUES[row["type"]](**_tuples({name: one for name, one in row.items() if name != "type"}))


def _tuples(row: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(one) if isinstance(one, list) else one for name, one in row.items()}
