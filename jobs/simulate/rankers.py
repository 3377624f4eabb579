"""Three rankers of different quality: what they weigh makes them good, poor or partly randomised."""

from dataclasses import dataclass, replace

import numpy as np

DRAFTS = 3
"""Lists that a ranker has for one query: fresh noise each, as personalisation or a changing index makes it."""


@dataclass(frozen=True, kw_only=True)
class Ranker:
    """Weights of planted relevance, look and fame in the score, noise, share of traffic, share of its pages at
    random.
    """

    name: str
    share: float
    relevance: float
    look: float
    fame: float
    noise: float
    randomised: float = 0.0

    def with_share(self, share: float) -> "Ranker":
        """The same ranker with another share of the traffic."""
        return replace(self, share=share)


RANKERS = (
    Ranker(name="good", share=0.5, relevance=1.0, look=0.1, fame=0.05, noise=0.1),
    Ranker(name="poor", share=0.3, relevance=0.05, look=0.6, fame=0.4, noise=0.12),
    Ranker(name="mixed", share=0.2, relevance=0.5, look=0.3, fame=0.2, noise=0.15, randomised=0.5),
)


def make_orders(relevance: np.ndarray, *, look: np.ndarray, fame: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Candidates in each ranker's order: int8 [rankers, DRAFTS, queries, POOL], best first."""
    orders = np.empty((len(RANKERS), DRAFTS, *relevance.shape), dtype=np.int8)
    for r, ranker in enumerate(RANKERS):
        score = ranker.relevance * relevance + ranker.look * look + ranker.fame * fame
        for draft in range(DRAFTS):
            noisy = score + ranker.noise * rng.standard_normal(score.shape, dtype=np.float32)
            orders[r, draft] = np.argsort(-noisy, axis=1, kind="stable")
    return orders
