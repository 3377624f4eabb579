"""What the commands of `hindcast skills` do with files: discover, evaluate, rewrite, compare settings."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.core.embedding import PACKAGED, Embedder
from jobs.core.errors import InputError, UsageError
from jobs.skills.artefacts import read_index, read_skills
from jobs.skills.bench import Bench, Extras
from jobs.skills.collection import Subject, find_subjects, read_subjects
from jobs.skills.discovery import Options, discover_skills, discovered_views
from jobs.skills.documents import read_documents, read_queries
from jobs.skills.evaluation import Evaluation, check_methods, evaluate
from jobs.skills.feedback import gains_of
from jobs.skills.labels import Qrels
from jobs.skills.methods import check_deployable
from jobs.skills.models import model_from_options
from jobs.skills.nightly import rewrite_rows
from jobs.skills.retrieval import EXACT_UP_TO, Retriever
from jobs.skills.rewriting import RewriteOptions
from jobs.skills.skill import Skill
from schemas.names import plain_name

VECTORS = "vectors"
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """--base-url and --model; both empty: offline-baseline."""

    base_url: str = ""
    model: str = ""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to evaluate and how; paths of skill sets may be None.

    keep: folder of vectors and replies, by default the skills folder itself.
    """

    documents: Path
    queries: Path
    qrels: Path
    skills: Path
    methods: tuple[str, ...]
    retrievers: tuple[str, ...] = (PACKAGED,)
    exact_up_to: int = EXACT_UP_TO
    human: Path | None = None
    other: Path | None = None
    feedback: bool = False
    seed: int = 0
    keep: Path | None = None

    @property
    def kept(self) -> Path:
        """Where vectors and replies are."""
        return self.keep or self.skills


def discover_files(
    documents: Path, *, corpus: str, out: Path, endpoint: Endpoint, retriever: str, options: Options, say: Say,
    keep: Path | None = None,
) -> dict[str, Any]:
    """Discover skills of a file, or of each subject of a collection (into a sub-folder each).

    keep: folder of vectors and replies where it is not `out`.
    """
    plain_name(corpus, kind="corpus")
    parts = find_subjects(documents)
    encoder = Embedder(retriever, cache=(keep or out) / VECTORS, say=say)
    found = {}
    for part in parts:
        folder = out / plain_name(part.name, kind="subject") if part.name else out
        model = model_from_options(base_url=endpoint.base_url, model=endpoint.model, folder=keep or out, say=say)
        found[part.name] = discover_skills(
            read_documents(part.documents), corpus=f"{corpus}-{part.name}".rstrip("-"), folder=folder, encoder=encoder,
            model=model, options=options, say=say,
        )
    return found[""] if list(found) == [""] else {"corpus": corpus, "subjects": found}


def evaluate_files(
    plan: Plan, *, out: Path, endpoint: Endpoint, rewriting: RewriteOptions, say: Say
) -> dict[str, Any]:
    """Evaluate under each retriever; writes evaluation.json, per_query.jsonl and rewrites.jsonl into `out`."""
    methods = check_methods(plan.methods)
    subjects = read_subjects(plan.documents, plan.queries, plan.qrels)
    out.mkdir(parents=True, exist_ok=True)
    found: dict[str, tuple[Evaluation, list[Bench]]] = {}
    for name in plan.retrievers:
        benches = [
            _bench(plan, one, retriever=name, endpoint=endpoint, rewriting=rewriting, say=say) for one in subjects
        ]
        found[name] = evaluate(benches, methods, seed=plan.seed, say=say), benches
    first = found[plan.retrievers[0]][0].summary
    summary = {**first, "discovery": _discovery(plan, subjects)}
    if len(found) > 1:
        summary["retrievers"] = {name: one.summary for name, (one, _) in found.items()}
    _write_json(out / "evaluation.json", summary)
    write_lines(out / "per_query.jsonl", _per_query(found))
    write_lines(out / "rewrites.jsonl", _rewrites(found))
    return summary


def rewrite_file(
    queries: Path, *, skills: Path, out: Path, documents: Path | None, method: str, endpoint: Endpoint,
    rewriting: RewriteOptions, retriever: str, say: Say,
) -> dict[str, Any]:
    """Rewrite each query of a file with one method; without documents there is no feedback of first results."""
    check_deployable(method)
    asked = tuple(read_queries(queries))
    if documents is None and method == "skills":
        method = "skills-no-prf"
    subject = Subject(name="", documents=tuple(read_documents(documents)) if documents else (), queries=asked,
                      qrels=Qrels({}))
    bench = rewriting_bench(
        subject, skills, method, endpoint=endpoint, rewriting=rewriting, retriever=retriever, say=say
    )
    done = evaluate([bench], [method], say=say)
    rows = rewrite_rows(done, [bench], method)
    if not rows and asked:
        raise UsageError(f"method {method!r} gave no rewrite ({done.rows[method].reason}): choose another")
    used = {"method": method, "feedback": documents is not None, "joined": rewriting.joined or bench.model is None}
    write_lines(out, ({**row, **used} for row in rows))
    by_skill = [row["skill_id"] for row in rows]
    return {
        "queries": len(rows), **used, "model": bench.name, "out": str(out),
        "fallbacks": sum(row["fallback"] is not None for row in rows),
        "by_skill": {name: by_skill.count(name) for name in sorted(set(by_skill))},
    }


def skills_in(folder: Path) -> tuple[Skill, ...]:
    """The skills of a folder; InputError where it holds none."""
    found = read_skills(folder).skills
    if not found:
        raise InputError(f"{folder} holds no skill: discover some, or write one by hand")
    return found


def write_lines(file: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """JSON lines, replaced as a whole."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.part")
    with part.open("w", encoding="utf-8", errors="backslashreplace") as stream:  # half a pair as JSON's own escape
        for row in rows:
            stream.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")
    part.replace(file)


def _bench(
    plan: Plan, subject: Subject, *, retriever: str, endpoint: Endpoint, rewriting: RewriteOptions, say: Say
) -> Bench:
    folder = plan.skills / subject.name if (plan.skills / subject.name / "index.json").exists() else plan.skills
    encoder = Embedder(retriever, cache=plan.kept / VECTORS, say=say)
    clusters, profiles = discovered_views(folder) if "synthesised" in plan.methods else ((), {})
    extras = Extras(
        human=skills_in(plan.human) if plan.human else (), other=skills_in(plan.other) if plan.other else (),
        clusters=clusters, profiles=profiles, gains=gains_of(folder) if plan.feedback else {}, seed=plan.seed,
    )
    retrieve = Retriever(subject.documents, encoder, exact_up_to=plan.exact_up_to)
    model = model_from_options(base_url=endpoint.base_url, model=endpoint.model, folder=plan.kept, say=say)
    return Bench(
        subject, retrieve, read_skills(folder).skills, encoder=encoder, model=model, options=rewriting, extras=extras
    )


def rewriting_bench(
    subject: Subject, skills: Path, method: str, *, endpoint: Endpoint, rewriting: RewriteOptions, retriever: str,
    say: Say,
) -> Bench:
    """A bench to rewrite with; stored outcomes are read for the method `calibrated` only."""
    encoder = Embedder(retriever, cache=skills / VECTORS, say=say)
    model = model_from_options(base_url=endpoint.base_url, model=endpoint.model, folder=skills, say=say)
    retrieve = Retriever(subject.documents, encoder) if subject.documents else None
    clusters, profiles = discovered_views(skills) if method == "synthesised" else ((), {})
    gains = gains_of(skills) if method == "calibrated" else {}
    extras = Extras(clusters=clusters, profiles=profiles, gains=gains)
    return Bench(
        subject, retrieve, skills_in(skills), encoder=encoder, model=model, options=rewriting, extras=extras
    )


def _discovery(plan: Plan, subjects: Sequence[Subject]) -> dict[str, Any]:
    """Seconds, calls and version of each subject's discovery, as its index recorded them."""
    found = {}
    for one in subjects:
        folder = plan.skills / one.name
        if (folder / "index.json").exists():
            index = read_index(folder)
            found[one.name] = {
                "version": index["version"], "seconds": index["seconds"], "calls": index["summary"]["calls"],
                "call_bound": index["summary"]["call_bound"], "model": index["model"],
            }
    return found


def _per_query(found: Mapping[str, tuple[Evaluation, list[Bench]]]) -> Iterable[dict[str, Any]]:
    for retriever, (one, _) in found.items():
        for method, row in one.rows.items():
            for key, value in row.values.items():
                subject, query = key.split("/", 1)
                picked = row.outcomes[subject].choices.get(query)
                yield {"retriever": retriever, "method": method, "subject": subject, "query_id": query,
                       "ndcg10": value, "skill_id": picked}


def _rewrites(found: Mapping[str, tuple[Evaluation, list[Bench]]]) -> Iterable[dict[str, Any]]:
    for retriever, (one, benches) in found.items():
        for method, row in one.rows.items():
            if any(outcome.rewrites for outcome in row.outcomes.values()):
                for line in rewrite_rows(one, benches, method):
                    yield {"retriever": retriever, "method": method, **line}


def _write_json(file: Path, value: Any) -> None:
    file.write_text(json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n", encoding="utf-8")
