"""Skills of one corpus, from its documents alone: read, embed, cluster, run the loop, write the folder.

Nothing here can see a relevance label: its inputs are `Document`s, and no module that it imports imports labels.py.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from jobs.core.embedding import Encoder
from jobs.core.errors import InputError, UsageError
from jobs.skills.agents import LlmAgents
from jobs.skills.artefacts import INDEX, Found, changes, read_index, read_skills, with_versions, write_skills
from jobs.skills.clusters import cluster_views
from jobs.skills.documents import Document
from jobs.skills.llm import OFFLINE, Model, Usage
from jobs.skills.loop import Agents, Limits, State, call_bound, covered_clusters, discover
from jobs.skills.offline import OfflineAgents
from jobs.skills.skill import Cluster, Profile, Verdict
from jobs.skills.tracking import Movement, Tracked, cluster_anew, follow, track, wanted_clusters
from jobs.skills.transcript import Transcript, value_of, value_row

STATE = "state"


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to discover; any other value leads to a discovery from nothing (held skills stay).

    clusters: 0 for about sqrt(documents) times `cluster_factor`.
    """

    max_skills: int = 5
    max_rounds: int = 3
    clusters: int = 0
    cluster_factor: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("max_skills", 1), ("max_rounds", 1), ("clusters", 0), ("seed", 0)):
            if getattr(self, name) < least:
                raise UsageError(f"{name.replace('_', '-')} is {getattr(self, name)}: it must be {least} or more")


@dataclass(frozen=True, kw_only=True)
class Work:
    """What one discovery is of and done with."""

    documents: Sequence[Document]
    corpus: str
    folder: Path
    encoder: Encoder
    model: Model | None
    options: Options
    say: Callable[[str], None]

    @property
    def made_of(self) -> dict[str, str]:
        """Hashes of what skills are made of: the documents, and how they are looked at."""
        texts = hashlib.sha256()
        for line in sorted(f"{one.id}\0{one.hash}" for one in self.documents):
            texts.update(line.encode() + b"\n")
        name = self.model.name if self.model else OFFLINE
        how = json.dumps([self.encoder.name, self.encoder.revision, name, asdict(self.options)])
        return {"documents": texts.hexdigest()[:16], "how": hashlib.sha256(how.encode()).hexdigest()[:16]}


@dataclass(kw_only=True)
class Past:
    """What an earlier discovery left in the folder."""

    index: dict[str, Any] | None
    found: Found
    tracked: Tracked | None
    profiles: Mapping[int, Profile]
    verdicts: Mapping[int, Verdict]


def discover_skills(
    documents: Sequence[Document],
    *,
    corpus: str,
    folder: Path,
    encoder: Encoder,
    model: Model | None,
    options: Options,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Bring the skills folder up to date with the documents; returns what was done (the index's summary).

    `model` None: without a language model (offline-baseline). An unchanged corpus asks and embeds nothing.
    """
    if not documents:
        raise InputError(f"corpus {corpus!r} has no document with text: check corpora.{corpus}.documents")
    work = Work(
        documents=documents, corpus=corpus, folder=folder, encoder=encoder, model=model, options=options, say=say
    )
    begun = time.perf_counter()
    with _locked(folder):
        past, made_of = _past(folder), work.made_of
        if past.index and past.index["made_of"] == made_of:
            return _unchanged(folder, past, begun)
        return _fresh(work, past, made_of, begun)


def discovered_views(folder: Path) -> tuple[tuple[Cluster, ...], dict[int, Profile]]:
    """Clusters and profiles that the last discovery saw (for skills that are synthesised for each query)."""
    files = sorted((folder / "transcripts").glob("[0-9]*.jsonl"))
    if not files:
        return (), {}
    from jobs.skills.transcript import replay

    state, _ = replay(files[-1])
    return state.clusters, dict(state.profiles)


def _fresh(work: Work, past: Past, made_of: dict[str, str], begun: float) -> dict[str, Any]:
    documents, encoder, folder = work.documents, work.encoder, work.folder
    vectors = encoder.encode([one.content for one in documents], kind="document")
    embedded = time.perf_counter()
    same = past.index is not None and past.index["made_of"]["how"] == made_of["how"]
    tracked = past.tracked if same else None
    movement = _movement(documents, vectors, work.options, tracked)
    views = cluster_views(documents, vectors, movement.clustering)
    clustered = time.perf_counter()
    work.say(f"{work.corpus}: {len(documents):,} documents, {len(views)} clusters, {len(movement.moved)} to look at")
    start = _start(views, movement, work.options, past, same=same)
    agents = _agents(work.model, encoder, movement)
    if work.model is not None:
        most = call_bound(clusters=len(views), limits=start.limits)
        work.say(f"{work.corpus}: at most {most} calls of {agents.name}")
    transcript = Transcript(start, agents=agents.name)
    final = discover(start, agents, record=transcript.record)
    seconds = {
        "embedding": embedded - begun, "clustering": clustered - embedded,
        "agents": time.perf_counter() - clustered, "all": time.perf_counter() - begun,
    }
    transcript.write(folder / "transcripts")
    track(documents, vectors, movement, old=tracked).save(folder / STATE / "clusters.npz")
    _save_views(folder, final)
    skills = with_versions(past.found.skills, final.skills)
    summary = {**_summary(final, agents), "options": asdict(work.options), "movement": movement.summary,
               "changes": changes(past.found.skills, skills, gone=_gone(final))}  # fmt: skip
    if summary["usage"]["lost"]:
        made_of = {**made_of, "documents": ""}  # not done: the next discovery asks again for what is missing
        work.say(f"{work.corpus}: {summary['usage']['lost']} calls had no answer, the next discovery asks them again")
    index = {"corpus": work.corpus, "model": agents.name, "embedding_model": encoder.name, "made_of": made_of,
             "embedding_revision": encoder.revision, "documents": len(documents), "retired": sorted(final.retired)}
    written = write_skills(folder, skills, index={**index, "summary": summary, "seconds": _rounded(seconds)})
    return _result(written, unchanged=False)


def _movement(
    documents: Sequence[Document], vectors: np.ndarray, options: Options, tracked: Tracked | None
) -> Movement:
    count = wanted_clusters(len(documents), declared=options.clusters, factor=options.cluster_factor)
    if tracked is None:
        return cluster_anew(vectors, count=count, seed=options.seed, reason="first discovery with these settings")
    return follow(tracked, documents, vectors, count=count, seed=options.seed)


def _start(
    views: tuple[Cluster, ...], movement: Movement, options: Options, past: Past, *, same: bool
) -> State:
    """The first state: clusters that did not move keep profile and coverage; skills are kept, or only the held ones."""
    skills = tuple(replace(one, why="") for one in past.found.skills if same or one.held)
    names = {one.skill_id for one in skills}
    kept = {k: int(old) for k, old in enumerate(movement.origin) if k not in movement.moved}
    unfinished = past.index is not None and not past.index["made_of"]["documents"]
    known = {old: one for old, one in past.profiles.items() if not (unfinished and one.source == "terms")}
    profiles = {k: replace(known[old], source="kept") for k, old in kept.items() if old in known}
    verdicts = {k: replace(past.verdicts[old], cluster=k) for k, old in kept.items() if old in past.verdicts}
    return State(
        limits=Limits(max_skills=options.max_skills, max_rounds=options.max_rounds), clusters=views, skills=skills,
        profiles=profiles, retired=past.found.retired if same else frozenset(),
        verdicts={k: one for k, one in verdicts.items() if one.kind == "covered" and one.skill_id in names},
    )


def _agents(model: Model | None, encoder: Encoder, movement: Movement) -> Agents:
    if model is not None:
        return LlmAgents(model)
    return OfflineAgents(encoder=encoder, centroids=dict(enumerate(movement.clustering.centroids)))


def _summary(final: State, agents: Agents) -> dict[str, Any]:
    usage: Usage = getattr(agents, "usage", Usage())
    bound = call_bound(clusters=len(final.clusters), limits=final.limits)
    return {
        "clusters": len(final.clusters), "covered": len(covered_clusters(final)),
        "rounds": [asdict(one) for one in final.rounds], "stopped": final.stopped,
        "drops": [asdict(one) for one in final.drops],
        "usage": asdict(usage), "calls": usage.calls + usage.cached, "call_bound": bound,
    }


def _gone(final: State) -> dict[str, str]:
    """Why skills were let go, by id."""
    return {one.what.removeprefix("skill "): one.reason for one in final.drops if one.what.startswith("skill ")}


def _unchanged(folder: Path, past: Past, begun: float) -> dict[str, Any]:
    """Nothing to do but to note what a person did to the folder since."""
    keep = ("format", "version", "sequence", "skills")
    index = {name: value for name, value in past.index.items() if name not in keep}
    index["retired"] = sorted(past.found.retired)
    if [asdict(one) for one in past.found.skills] != _lists(past.index["skills"]):
        past.index = write_skills(folder, past.found.skills, index=index)
    done = {**past.index, "seconds": {"all": round(time.perf_counter() - begun, 3)}}
    done["summary"] = {**done["summary"], "calls": 0, "usage": asdict(Usage())}
    return _result(done, unchanged=True)


def _lists(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: tuple(one) if isinstance(one, list) else one for name, one in row.items()} for row in rows]


def _result(index: dict[str, Any], *, unchanged: bool) -> dict[str, Any]:
    names = ("corpus", "version", "sequence", "model", "embedding_model", "embedding_revision", "documents", "seconds")
    skills = [
        {name: row[name] for name in ("skill_id", "name", "description", "domains", "version", "pinned", "edited")}
        | {"clusters": len(row["clusters"])}
        for row in index["skills"]
    ]
    return {**{name: index[name] for name in names}, "unchanged": unchanged, "skills": skills, **index["summary"]}


def _past(folder: Path) -> Past:
    there = (folder / INDEX).exists()
    file = folder / STATE / "views.json"
    rows = json.loads(file.read_text(encoding="utf-8")) if there and file.exists() else {"profiles": {}, "verdicts": {}}
    by_hand = bool(list(folder.glob("*/SKILL.md")))
    return Past(
        index=read_index(folder) if there else None,
        found=read_skills(folder) if there or by_hand else Found(skills=(), retired=frozenset()),
        tracked=Tracked.load(folder / STATE / "clusters.npz") if there else None,
        profiles={int(key): value_of(row) for key, row in rows["profiles"].items()},
        verdicts={int(key): value_of(row) for key, row in rows["verdicts"].items()},
    )


def _save_views(folder: Path, final: State) -> None:
    rows = {
        "profiles": {str(key): value_row(one) for key, one in final.profiles.items()},
        "verdicts": {str(key): value_row(one) for key, one in final.verdicts.items()},
    }
    part = folder / STATE / ".views.part"
    part.write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
    part.replace(folder / STATE / "views.json")


def _rounded(seconds: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 3) for name, value in seconds.items()}


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Two discoveries of one corpus never write at once: the second waits and then finds nothing to do."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
