"""Pages of the simulated service outside its log: those that people graded, and those of an A/B test. With their
truth.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from jobs.core.keys import key_hex
from jobs.simulate.world import CorpusWorld, World, corpus_seed

PAGE_ITEMS = 5
LABEL_EDGES = (0.3, 0.48)
"""Planted page relevance from which a rater who does not err gives 0.5 and 1: near the thirds of the graded pages."""

RANDOM_SHARE = 0.25
"""Graded pages with items drawn at random from the candidates: else hardly a page is bad enough for a 0."""

RATER_NOISE = 0.07
RATERS_PER_PAGE = 2
RATERS = 5

SYSTEMS = {"a": (0.35, 0.4, 0.25), "b": (0.85, 0.15, 0.05)}
"""Weights of relevance, look and fame: a is the text and fame ranker in use, b has learnt from behaviour."""

SYSTEM_NOISE = 0.25
"""Noise of a system's score of an item, the same on all its pages: on a good third of the queries the better system
loses.
"""

INSTANCE_NOISE = 0.05
INSTANCES = 3
TEST_DAYS = 28
LAUNCH_ID = "new-ranker"


@dataclass(frozen=True, kw_only=True)
class Pages:
    """Pages by row: query index, items (indices, [n, PAGE_ITEMS]) and planted page relevance."""

    corpus: str
    query: np.ndarray
    items: np.ndarray
    relevance: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Launch:
    """An A/B test of one corpus: pages by system and instance, and by query its planted and its measured outcome."""

    corpus: str
    query: np.ndarray
    pages: dict[tuple[str, int], Pages]
    planted: dict[str, np.ndarray]
    measured: dict[str, np.ndarray]
    views: np.ndarray


def discounts(items: int) -> np.ndarray:
    """1 / log2(i + 1) for ranks 1 to `items`, summing to 1."""
    weights = 1 / np.log2(np.arange(2, items + 2))
    return weights / weights.sum()


def page_relevance(part: CorpusWorld, query: np.ndarray, places: np.ndarray) -> np.ndarray:
    """DCG-weighted planted relevance of pages; places [n, items]: positions in the pool."""
    return np.take_along_axis(part.relevance[query], places, axis=1) @ discounts(places.shape[1])


def human_pages(world: World, *, corpus: str, count: int) -> Pages:
    """Pages of the rankers, and some at random as studies add them, for queries drawn by the root of their traffic."""
    part, rng = world.corpora[corpus], _rng(world, corpus, 7)
    chance = np.sqrt(part.weights)
    count = min(count, len(chance))
    query = rng.choice(len(chance), size=count, replace=False, p=chance / chance.sum())
    ranker, draft = rng.integers(part.orders.shape[0], size=count), rng.integers(part.orders.shape[1], size=count)
    order = part.orders[ranker, draft, query].astype(np.int64)
    drawn = rng.random(count) < RANDOM_SHARE
    order[drawn] = rng.permuted(order[drawn], axis=1)
    return _pages(part, query, order[:, :PAGE_ITEMS])


def rater_labels(world: World, pages: Pages) -> tuple[np.ndarray, np.ndarray]:
    """Labels 0, 0.5, 1 and raters' numbers, both [n, RATERS_PER_PAGE]."""
    rng = _rng(world, pages.corpus, 8)
    seen = pages.relevance[:, None] + rng.normal(0, RATER_NOISE, (len(pages.query), RATERS_PER_PAGE))
    raters = np.stack([rng.permutation(RATERS)[:RATERS_PER_PAGE] for _ in pages.query])
    return np.searchsorted(LABEL_EDGES, seen, side="right") / 2, raters + 1


def make_launch(world: World, *, corpus: str, queries: int) -> Launch:
    """The A/B test of one corpus on its `queries` most frequent queries, with outcomes as noisy as their traffic
    makes them.
    """
    part, rng = world.corpora[corpus], _rng(world, corpus, 9)
    query = np.sort(np.argsort(-part.weights, kind="stable")[:queries])
    pages = {}
    for system, weights in SYSTEMS.items():
        score = _score(part, query, weights) + rng.normal(0, SYSTEM_NOISE, (len(query), part.relevance.shape[1]))
        for instance in range(INSTANCES):
            jitter = rng.normal(0, INSTANCE_NOISE, score.shape)
            places = np.argsort(-(score + jitter), axis=1, kind="stable")[:, :PAGE_ITEMS]
            pages[system, instance] = _pages(part, query, places)
    planted = {s: np.mean([pages[s, i].relevance for i in range(INSTANCES)], axis=0) for s in SYSTEMS}
    views = _views(world, corpus, part.weights[query])
    measured = {s: rng.binomial(views, planted[s].clip(0, 1)) / views for s in SYSTEMS}
    return Launch(corpus=corpus, query=query, pages=pages, planted=planted, measured=measured, views=views)


def page_rows(
    world: World, pages: Pages, *, set_: str, prefix: str, system: str | None, instance: int
) -> list[dict[str, Any]]:
    """Lines of pages.jsonl."""
    part = world.corpora[pages.corpus]
    texts = part.queries.select("locale", "query", "query_key")[pages.query].iter_rows()
    return [
        {
            "page_id": f"{prefix}-{pages.corpus}-{key_hex(key)}-{instance}", "set": set_, "corpus": pages.corpus,
            "locale": locale, "query_key": key_hex(key), "query": query, "system": system, "instance": instance,
            "items": item_rows(part, items),
        }
        for (locale, query, key), items in zip(texts, pages.items.tolist(), strict=True)
    ]  # fmt: skip


def item_rows(part: CorpusWorld, items: list[int]) -> list[dict[str, Any]]:
    """A page's items as in pages.jsonl."""
    shown = part.items[items]
    rows = zip(shown["item_id"], shown["title"], shown["type"], strict=True)
    return [
        {"item_id": i, "rank": n, "title": title, "type": type_} for n, (i, title, type_) in enumerate(rows, start=1)
    ]


def _rng(world: World, corpus: str, stream: int) -> np.random.Generator:
    return np.random.default_rng([*corpus_seed(world.seed, corpus), stream])


def _pages(part: CorpusWorld, query: np.ndarray, places: np.ndarray) -> Pages:
    items = np.take_along_axis(part.pool_of(query), places, axis=1)
    return Pages(corpus=part.corpus, query=query, items=items, relevance=page_relevance(part, query, places))


def _score(part: CorpusWorld, query: np.ndarray, weights: tuple[float, float, float]) -> np.ndarray:
    relevance, look, fame = weights
    known = part.items["fame"].to_numpy()[part.pool_of(query)]
    return relevance * part.relevance[query] + look * part.look[part.intent_of[query]] + fame * known


def _views(world: World, corpus: str, weights: np.ndarray) -> np.ndarray:
    """Page views of each arm over the test: half of the queries' traffic."""
    day = world.size.pages_on(world.size.calendar[-1], corpus=corpus)
    return np.maximum(5, np.round(weights * day * TEST_DAYS / 2)).astype(np.int64)
