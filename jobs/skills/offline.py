"""Discovery without a language model, named offline-baseline: c-TF-IDF profiles, one template skill per domain.

The answers depend on the task and on the embedding model only, so that a transcript replays and a night repeats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from jobs.core.embedding import Encoder
from jobs.skills.llm import OFFLINE
from jobs.skills.loop import Answer, Task
from jobs.skills.skill import Cluster, Draft, Profile, Skill, Verdict
from jobs.skills.terms import cluster_terms

# Cosines of a cluster's mean text with a skill's card, for all-MiniLM-L6-v2: the right skill of a planted corpus stands
# at .4 to .6, a wrong one under .25.
COVERED = 0.35
NEAR = 0.2

SHORT, LONG = 12, 150  # words: titles and entries below, articles above
QUESTIONS = 0.5  # share of texts that hold a question mark


class OfflineAgents:
    """Answers every task from terms and vectors. `centroids`: the mean vector of each cluster, by cluster id."""

    name = OFFLINE

    def __init__(self, *, encoder: Encoder, centroids: Mapping[int, np.ndarray]):
        self._encoder, self._centroids = encoder, centroids

    def answer(self, tasks: Sequence[Task]) -> list[Answer]:
        """One answer a task, always with a value."""
        makers = {
            "characterise": self._characterise, "propose": self._propose, "judge": self._judge, "refine": self._refine,
        }
        return [
            Answer(key=task.key, value=makers[task.kind](task), exchange={"request": {"purpose": task.kind}})
            for task in tasks
        ]

    def _characterise(self, task: Task) -> Profile:
        cluster = task.clusters[0]
        return Profile(
            domain=", ".join(cluster.terms[:3]) or "unknown", content_type=content_type(cluster.representatives),
            source="terms",
        )

    def _propose(self, task: Task) -> tuple[Draft, ...]:
        groups = _grouped(task.clusters, [self._centroids[one.id] for one in task.clusters], task.room)
        terms = cluster_terms([[text for one in group for text in _texts(one)] for group in groups])
        return tuple(_template(words) for words in terms if words)

    def _judge(self, task: Task) -> Verdict:
        cluster = task.clusters[0].id
        cosine = self._cards(task.skills) @ self._centroids[cluster]
        best = int(cosine.argmax())
        kind = "covered" if cosine[best] >= COVERED else "refine" if cosine[best] >= NEAR else "new"
        return Verdict(cluster=cluster, kind=kind, skill_id="" if kind == "new" else task.skills[best].skill_id)

    def _refine(self, task: Task) -> Draft:
        skill = task.skills[0]
        more = tuple(word for one in task.clusters for word in one.terms[:3])
        return _template(tuple(dict.fromkeys((*skill.domains, *more))), name=skill.name)

    def _cards(self, skills: Sequence[Skill]) -> np.ndarray:
        return self._encoder.encode([one.card for one in skills])


def content_type(texts: Sequence[str]) -> str:
    """A rough kind of text, from length and question marks."""
    if sum("?" in text for text in texts) >= QUESTIONS * len(texts):
        return "questions"
    length = float(np.median([len(text.split()) for text in texts])) if texts else 0.0
    return "short entries" if length < SHORT else "passages" if length < LONG else "long articles"


def _grouped(clusters: Sequence[Cluster], centroids: Sequence[np.ndarray], room: int) -> list[list[Cluster]]:
    """Clusters put together by the means of their texts, large ones weighing more; the largest group first."""
    from sklearn.cluster import KMeans

    count = min(room, len(clusters))
    model = KMeans(n_clusters=count, n_init=10, random_state=0)
    labels = model.fit_predict(np.stack(centroids), sample_weight=[one.size for one in clusters])
    groups = [[one for one, label in zip(clusters, labels, strict=True) if label == number] for number in range(count)]
    return sorted((one for one in groups if one), key=lambda group: -sum(one.size for one in group))


def _texts(cluster: Cluster) -> tuple[str, ...]:
    return cluster.representatives + cluster.samples


def _template(terms: tuple[str, ...], *, name: str = "") -> Draft:
    return Draft(
        name=name or " ".join(terms[:3]),
        description=f"Use for queries about {', '.join(terms[:6])}.",
        instruction=(
            f"Keep the query and add the words in which documents about {', '.join(terms[:3])} name what it asks for,"
            f" such as {', '.join(terms)}."
        ),
        domains=terms,
    )
