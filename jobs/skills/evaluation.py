"""`hindcast skills evaluate`: every asked method on every subject, with costs, tests and what routing could reach."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from jobs.core.errors import UsageError
from jobs.skills.bench import Bench, Unavailable
from jobs.skills.calibration import calibrate, one_hot, standardised
from jobs.skills.methods import METHODS, ROUTERS, WITH_LABELS, Outcome
from jobs.skills.metrics import Paired, holm, paired, subject_mean
from jobs.skills.rewriting import Cost
from jobs.skills.routers import card_cosines
from jobs.skills.skill import GENERIC

AGAINST = ("original", "generic")


@dataclass(frozen=True, kw_only=True)
class Row:
    """A method over all subjects, by "subject/query" so that subjects may share ids; `reason` where it is null."""

    values: Mapping[str, float]
    outcomes: Mapping[str, Outcome]
    seconds: float = 0.0
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Everything an evaluation found; `summary` is its JSON object."""

    rows: Mapping[str, Row]
    subjects: Mapping[str, str]
    summary: dict[str, Any]


def check_methods(names: Sequence[str]) -> tuple[str, ...]:
    """The names, without doubles; UsageError for one that does not exist."""
    unknown = [name for name in names if name not in METHODS]
    if unknown or not names:
        raise UsageError(f"unknown method {', '.join(unknown) or '(none)'}: choose among {', '.join(METHODS)}")
    return tuple(dict.fromkeys(names))


def evaluate(
    benches: Sequence[Bench], methods: Sequence[str], *, seed: int = 0,
    say: Callable[[str], None] = lambda text: None,
) -> Evaluation:
    """Run the methods on each subject's bench, in their order."""
    rows = {}
    for name in check_methods(methods):
        rows[name] = _row(name, benches)
        say(f"{name}: {'null, ' + rows[name].reason if rows[name].reason else 'done'} in {rows[name].seconds:.1f} s")
    subjects = {_key(one, query.id): one.subject.name for one in benches for query in one.subject.queries}
    summary = {
        "model": benches[0].name, "retriever": benches[0].encoder.name,
        "retriever_revision": benches[0].encoder.revision,
        "index": benches[0].index_facts,
        "n_queries": len(subjects), "n_unlabelled": _unlabelled(benches),
        "subjects": [one.subject.name for one in benches],
        "methods": {name: _method(name, one, subjects) for name, one in rows.items()},
        "tests": _tests(rows, seed),
        "sensitive": _sensitive(benches, rows, subjects),
        "calibration": _calibrations(benches, rows, seed),
    }
    return Evaluation(rows=rows, subjects=subjects, summary=summary)


def _row(name: str, benches: Sequence[Bench]) -> Row:
    begun = time.perf_counter()
    waited = sum(one.model.waited for one in benches if one.model)
    outcomes: dict[str, Outcome] = {}
    try:
        for one in benches:
            outcomes[one.subject.name] = METHODS[name](one)
    except Unavailable as absent:
        return Row(values={}, outcomes={}, reason=str(absent))
    values = {_key(one, query): v for one in benches for query, v in outcomes[one.subject.name].values.items()}
    waited = sum(one.model.waited for one in benches if one.model) - waited
    return Row(values=values, outcomes=outcomes, seconds=time.perf_counter() - begun - waited)


def _key(bench: Bench, query_id: str) -> str:
    return f"{bench.subject.name}/{query_id}"


def _unlabelled(benches: Sequence[Bench]) -> int:
    return sum(not one.subject.qrels.relevant(query.id) for one in benches for query in one.subject.queries)


def _method(name: str, row: Row, subjects: Mapping[str, str]) -> dict[str, Any]:
    if row.reason:
        return {"ndcg10": None, "reason": row.reason}
    groups: dict[str, list[float]] = {}
    for key, value in row.values.items():
        groups.setdefault(subjects[key], []).append(value)
    notes = sorted({one.note for one in row.outcomes.values() if one.note})
    return {
        "ndcg10": subject_mean(row.values, subjects), "n": len(row.values), "with_labels": name in WITH_LABELS,
        "by_subject": {subject: float(np.mean(values)) for subject, values in groups.items()},
        "per_query": _cost(row, len(subjects)), "fallbacks": _fallbacks(row), "note": "; ".join(notes),
    }


def _cost(row: Row, queries: int) -> dict[str, float]:
    """Per query: calls, tokens and seconds of the model, and seconds of everything else."""
    total = sum((cost for one in row.outcomes.values() for cost in one.cost.values()), Cost())
    shares = {name: value / max(queries, 1) for name, value in asdict(total).items()}
    return {**shares, "other_seconds": row.seconds / max(queries, 1)}


def _fallbacks(row: Row) -> dict[str, int]:
    reasons = [one.fallback for out in row.outcomes.values() for one in out.rewrites.values() if one.fallback]
    return {reason: reasons.count(reason) for reason in sorted(set(reasons))}


def _tests(rows: Mapping[str, Row], seed: int) -> list[dict[str, Any]]:
    """Each method against the original query and the generic rewrite; Holm over all of them."""
    found: list[tuple[str, str, Paired]] = []
    for name, row in rows.items():
        for other in AGAINST:
            if name in AGAINST[: AGAINST.index(other) + 1] or other not in rows or row.reason or rows[other].reason:
                continue
            test = paired(row.values, rows[other].values, seed=seed)
            if test:
                found.append((name, other, test))
    adjusted = holm([test.p for *_, test in found])
    return [
        {"a": name, "b": other, **asdict(test), "p_holm": p}
        for (name, other, test), p in zip(found, adjusted, strict=True)
    ]


def _sensitive(benches: Sequence[Bench], rows: Mapping[str, Row], subjects: Mapping[str, str]) -> dict[str, Any] | None:
    """Queries whose nDCG depends on the skill: means there, and how often each router finds a best one."""
    if not {"oracle", "best-single", "random"} & set(rows):
        return None
    scores = {_key(one, query): by for one in benches for query, by in _by_query(one).items()}
    chosen = {key for key, by in scores.items() if max(by.values()) > min(by.values())}
    means = {
        name: subject_mean({key: v for key, v in row.values.items() if key in chosen}, subjects)
        for name, row in rows.items()
    }
    routers = [name for name in ROUTERS if name in rows and not rows[name].reason]
    accuracy = {name: _accuracy(rows[name], scores, chosen) for name in routers}
    return {"n": len(chosen), "ndcg10": means, "router_accuracy": accuracy}


def _by_query(bench: Bench) -> dict[str, dict[str, float]]:
    scores = bench.skill_scores()
    return {query: {name: by[query] for name, by in scores.items()} for query in scores[GENERIC]}


def _accuracy(row: Row, scores: Mapping[str, Mapping[str, float]], chosen: set[str]) -> float | None:
    """Share of the sensitive queries on which the chosen skill is as good as the best."""
    picks = {f"{subject}/{query}": skill for subject, o in row.outcomes.items() for query, skill in o.choices.items()}
    hits = [scores[key][picks[key]] == max(scores[key].values()) for key in chosen if picks.get(key) in scores[key]]
    return float(np.mean(hits)) if hits else None


def _calibrations(benches: Sequence[Bench], rows: Mapping[str, Row], seed: int) -> dict[str, Any] | None:
    """The embedding router, and the model's, corrected by 30 labelled queries of each subject."""
    if not {"oracle", "best-single", "random"} & set(rows):
        return None
    benches = [one for one in benches if one.skills]
    found: dict[str, list[dict[str, Any]]] = {}
    for one in benches:
        queries = [query for query in one.subject.queries if one.subject.qrels.relevant(query.id)]
        by_query = _by_query(one)
        names = [skill.skill_id for skill in one.skills]
        values = np.array([[by_query[query.id][name] for name in names] for query in queries])
        sources = {"embedding-router": standardised(card_cosines(one.encoder, queries, one.skills))}
        for name in ("skills", "multiple-choice"):
            if name in rows and not rows[name].reason and one.model:
                picks = rows[name].outcomes[one.subject.name].choices
                sources[name] = one_hot([picks[query.id] for query in queries], names)
        for name, scores in sources.items():
            done = calibrate(scores, values, seed=seed)
            reason = f"{len(queries)} labelled queries or {len(names)} skills are too few"
            row = asdict(done) if done else {"calibrated": None, "reason": reason}
            found.setdefault(name, []).append({"subject": one.subject.name, **row})
    return found
