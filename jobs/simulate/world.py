"""The simulated service: who asks what, what would satisfy them, and which pages its rankers make. Pure and in
memory.

Arrays are by query (rows) and candidate item (columns, `POOL` of them): `pool` holds item indices, `relevance` the
planted r(query, item) relative to rank 1, `orders` the candidates' places as each ranker lists them.
"""

import itertools
import random
from dataclasses import dataclass

import numpy as np
import polars as pl

from jobs.core.keys import item_key, query_key
from jobs.simulate.kinds import BORROWED_FAR, BORROWED_LOOK, BORROWED_NEAR, BORROWED_NEAR_COUNT, KINDS, POOL
from jobs.simulate.rankers import RANKERS, Ranker, make_orders
from jobs.simulate.sizes import CORPORA, LOCALES, Size, size_of
from jobs.simulate.texts import Intent, make_intents, trap_roles

WORDING_SHARES = np.array([0.26, 0.2, 0.17, 0.14, 0.12, 0.11])
"""Traffic of an intent's wordings, most frequent first; which wording is the frequent one differs by intent."""

QUERY_NOISE = 0.12
"""Standard deviation of log relevance between the wordings of one intent: they nearly, not quite, mean the same."""

EXAMINATION = {"tracks": 1.0, "podcasts": 0.85}
"""Planted eta of p_k = k^-eta: people look less far down in music than among spoken episodes."""

SEGMENTS = {"desktop": 0.0, "phone": 0.25}
"""What a device adds to eta, where segments are on: small screens show less of the page."""

PHONE_SHARE = 0.6
NEIGHBOURHOOD = 10  # intents that lend each other items


@dataclass(frozen=True, kw_only=True)
class CorpusWorld:
    """One corpus. queries: locale, query, query_key, intent, kind, weight. items: item_id, item_key, locale and texts.

    pool [intents, POOL] int32; relevance [queries, POOL] float32; orders [rankers, drafts, queries, POOL] int8;
    look and fame [intents, POOL] are what misleads; examination [segments, hits] float32.
    """

    corpus: str
    queries: pl.DataFrame
    items: pl.DataFrame
    intent_of: np.ndarray
    weights: np.ndarray
    pool: np.ndarray
    relevance: np.ndarray
    look: np.ndarray
    orders: np.ndarray
    examination: np.ndarray

    def pool_of(self, query: np.ndarray) -> np.ndarray:
        """Item indices of the candidates of these queries: int32 [n, POOL]."""
        return self.pool[self.intent_of[query]]


@dataclass(frozen=True, kw_only=True)
class World:
    """All corpora of one seed and size, and the rankers with their shares of traffic."""

    seed: int
    size: Size
    rankers: tuple[Ranker, ...]
    corpora: dict[str, CorpusWorld]


def make_world(*, seed: int, size: Size | str = "demo", poor_share: float | None = None) -> World:
    """The world of a seed and size, the same on every call. `poor_share` sets the traffic of the poor ranker."""
    size = size_of(size) if isinstance(size, str) else size
    rankers = RANKERS if poor_share is None else with_poor_share(poor_share)
    corpora = {name: _make_corpus(seed=seed, size=size, corpus=name) for name in CORPORA}
    return World(seed=seed, size=size, rankers=rankers, corpora=corpora)


def with_poor_share(share: float) -> tuple[Ranker, ...]:
    """The rankers with `share` of the traffic on the poor one, the others in their old proportion."""
    rest = sum(r.share for r in RANKERS if r.name != "poor")
    return tuple(r.with_share(share if r.name == "poor" else r.share * (1 - share) / rest) for r in RANKERS)


def corpus_seed(seed: int, corpus: str) -> list[int]:
    """Entropy of a corpus: streams of different corpora and purposes never meet."""
    return [seed, list(CORPORA).index(corpus)]


def examination_curve(corpus: str, *, hits: int, extra: float = 0.0) -> np.ndarray:
    """Planted p_k for ranks 1 to `hits`, p_1 = 1."""
    return np.arange(1, hits + 1, dtype=np.float64) ** -(EXAMINATION[corpus] + extra)


def _make_corpus(*, seed: int, size: Size, corpus: str) -> CorpusWorld:
    rng = np.random.default_rng([*corpus_seed(seed, corpus), 1])
    texts = random.Random(f"{seed}/{corpus}")
    counts = _intents_by_locale(size, corpus)
    made = {loc: make_intents(corpus=corpus, locale=loc, count=n, rng=texts) for loc, n in counts.items()}
    items, pools = _lay_pools(made, texts)
    intents = [(locale, intent) for locale, some in made.items() for intent in some]
    queries = _queries(corpus, intents, _weights(size, len(intents), rng))
    look, level_relevance = _plant(intents, rng)
    intent_of = queries["intent"].to_numpy()
    noise = np.exp(rng.normal(0, QUERY_NOISE, (len(intent_of), POOL)))
    relevance = np.clip(level_relevance[intent_of] * noise, 0.005, 0.95).astype(np.float32)
    fame = items["fame"].to_numpy()[pools]
    return CorpusWorld(
        corpus=corpus,
        queries=queries,
        items=_with_ids(items, corpus),
        intent_of=intent_of,
        weights=queries["weight"].to_numpy(),
        pool=pools,
        relevance=relevance,
        look=look,
        orders=make_orders(relevance, look=look[intent_of], fame=fame[intent_of], rng=rng),
        examination=_examinations(size, corpus),
    )


def _examinations(size: Size, corpus: str) -> np.ndarray:
    extras = SEGMENTS.values() if size.segments else (0.0,)
    return np.stack([examination_curve(corpus, hits=size.hits, extra=e) for e in extras]).astype(np.float32)


def _intents_by_locale(size: Size, corpus: str) -> dict[str, int]:
    total = round(size.intents * CORPORA[corpus])
    counts = {loc: max(1, round(total * share)) for loc, share in LOCALES.items() if loc != "en"}
    return {"en": max(2, total - sum(counts.values())), **counts}


def _lay_pools(made: dict[str, list[Intent]], texts: random.Random) -> tuple[pl.DataFrame, np.ndarray]:
    """Give items their index and each intent its candidates: own items, its trap's, then borrowed from neighbours."""
    intents = [intent for some in made.values() for intent in some]
    sizes = [len(intent.items) for intent in intents]
    firsts = [0, *itertools.accumulate(sizes)]
    place = {id(intent): n for n, intent in enumerate(intents)}
    pools, start = [], 0
    for some in made.values():
        for n in range(start, start + len(some)):
            own = list(range(firsts[n], firsts[n + 1]))
            trap = _trap_items(intents[n], firsts, place)
            near = _neighbours(n, start, start + len(some), len(intents))
            lent = [i for i in range(firsts[near.start], firsts[near.stop]) if i not in own and i not in trap]
            pools.append(own + trap + texts.sample(lent, POOL - len(own) - len(trap)))
        start += len(some)
    rows = [{"locale": loc, **vars(item)} for loc, some in made.items() for intent in some for item in intent.items]
    return pl.DataFrame(rows), np.array(pools, dtype=np.int32)


def _trap_items(intent: Intent, firsts: list[int], place: dict[int, int]) -> list[int]:
    if intent.trap is None:
        return []
    return [firsts[place[id(intent.trap)]] + role for role in trap_roles(KINDS[intent.kind])]


def _neighbours(n: int, start: int, stop: int, total: int) -> range:
    """The block of intents around the nth, of its own locale [start, stop) where that has enough, else of any."""
    if stop - start < NEIGHBOURHOOD:
        start, stop = 0, total
    first = max(start, min(start + (n - start) // NEIGHBOURHOOD * NEIGHBOURHOOD, stop - NEIGHBOURHOOD))
    return range(first, min(stop, first + NEIGHBOURHOOD))


def _plant(intents: list[tuple[str, Intent]], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Look and relevance of each intent's candidates, both [intents, POOL]."""
    low, high, look, level = (np.empty((len(intents), POOL)) for _ in range(4))
    for n, (_, intent) in enumerate(intents):
        kind = KINDS[intent.kind]
        own = [(r.relevance, r.look) for r in kind.roles] + [(t, 0.85) for t in kind.traps]
        borrowed = POOL - len(own)
        near = min(BORROWED_NEAR_COUNT, borrowed)
        ranges = [r for r, _ in own] + [BORROWED_NEAR] * near + [BORROWED_FAR] * (borrowed - near)
        low[n], high[n] = np.array(ranges).T
        look[n] = [s for _, s in own] + list(rng.uniform(*BORROWED_LOOK, borrowed))
        level[n] = rng.uniform(*kind.level)
    return look, level * (low + (high - low) * rng.random(low.shape))


def _weights(size: Size, intents: int, rng: np.random.Generator) -> np.ndarray:
    """Share of traffic of each (intent, wording), [intents, WORDINGS], summing to 1: Zipf over intents."""
    demand = (np.arange(intents) + 2.0) ** -size.zipf
    shares = np.stack([rng.permutation(WORDING_SHARES) for _ in range(intents)])
    weights = rng.permutation(demand)[:, None] * shares
    return weights / weights.sum()


def _queries(corpus: str, intents: list[tuple[str, Intent]], weights: np.ndarray) -> pl.DataFrame:
    rows = [
        (locale, text, query_key(corpus, locale, text), n, wording, intent.kind, weights[n, wording])
        for n, (locale, intent) in enumerate(intents)
        for wording, text in enumerate(intent.wordings)
    ]
    schema = {
        "locale": pl.String, "query": pl.String, "query_key": pl.Int64, "intent": pl.Int32, "wording": pl.Int32,
        "kind": pl.String, "weight": pl.Float64,
    }  # fmt: skip
    return pl.DataFrame(rows, schema=schema, orient="row")


def _with_ids(items: pl.DataFrame, corpus: str) -> pl.DataFrame:
    ids = [_item_id(corpus, n) for n in range(items.height)]
    keys = pl.Series("item_key", [item_key(corpus, i) for i in ids], dtype=pl.Int64)
    return items.with_columns(pl.Series("item_id", ids), keys)


def _item_id(corpus: str, n: int) -> str:
    """Every twentieth id is a plain number, as services with an older catalogue have them."""
    return str(700_000 + n) if n % 20 == 7 else f"{corpus[:2]}-{n:06d}"
