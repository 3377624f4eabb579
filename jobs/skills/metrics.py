"""nDCG@10 by ir-measures (trec_eval's definitions), means over subjects, paired tests with Holm's correction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from jobs.skills.labels import Qrels
from jobs.skills.retrieval import Hit

CUT = 10
PERMUTATIONS = 10_000  # of signs: the smallest p-value is .0001


def ndcg_by_query(run: Mapping[str, Sequence[Hit]], qrels: Qrels) -> dict[str, float]:
    """nDCG@10 of each labelled query of the run, in the run's order; an empty ranking counts 0.

    Queries without a relevant document are left out: their nDCG is undefined.
    """
    import ir_measures
    from ir_measures import nDCG

    labelled = [query for query in run if qrels.relevant(query)]
    labels = [
        ir_measures.Qrel(query, document, grade)
        for query in labelled for document, grade in qrels.grades[query].items()
    ]
    hits = [ir_measures.ScoredDoc(query, one.document_id, one.score) for query in labelled for one in run[query]]
    found = {one.query_id: float(one.value) for one in ir_measures.iter_calc([nDCG @ CUT], labels, hits)}
    return {query: found.get(query, 0.0) for query in labelled}


def subject_mean(values: Mapping[str, float], subjects: Mapping[str, str]) -> float | None:
    """Mean within each subject, then equally over subjects; None without values."""
    groups: dict[str, list[float]] = {}
    for query, value in values.items():
        groups.setdefault(subjects[query], []).append(value)
    return float(np.mean([np.mean(one) for one in groups.values()])) if groups else None


@dataclass(frozen=True, kw_only=True)
class Paired:
    """A paired comparison over the queries that both have: mean difference and its two-sided sign-flip p-value."""

    difference: float
    p: float
    n: int


def paired(ours: Mapping[str, float], theirs: Mapping[str, float], *, seed: int = 0) -> Paired | None:
    """Sign-flip permutation test of the per-query differences; None without common queries."""
    common = [query for query in ours if query in theirs]
    if not common:
        return None
    gaps = np.array([ours[query] - theirs[query] for query in common])
    rng = np.random.default_rng(seed)
    beyond, done = 0, 0
    while done < PERMUTATIONS:  # in blocks, so that memory stays flat
        block = min(1000, PERMUTATIONS - done)
        signs = rng.integers(0, 2, (block, len(gaps)), dtype=np.int8) * 2 - 1
        beyond += int((np.abs(signs @ gaps) >= abs(gaps.sum()) - 1e-9).sum())
        done += block
    return Paired(difference=float(gaps.mean()), p=(beyond + 1) / (PERMUTATIONS + 1), n=len(common))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p-values, in the given order (Holm 1979).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    adjusted, highest = [0.0] * len(p_values), 0.0
    for step, place in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - step) * p_values[place]))
        adjusted[place] = round(highest, 12)
    return adjusted
