"""The simulated world: what it plants is really there, and the same seed plants the same."""

import numpy as np
import polars as pl
import pytest

from jobs.core.errors import UsageError
from jobs.core.keys import item_key, query_key
from jobs.core.normalise import normalise_query
from jobs.simulate.kinds import AMBIGUOUS, KINDS, POOL
from jobs.simulate.lexicon import lexicon
from jobs.simulate.sizes import LOCALES, WORDINGS, size_of
from jobs.simulate.texts import kinds_of
from jobs.simulate.world import EXAMINATION, make_world


@pytest.fixture(scope="module")
def world():
    return make_world(seed=3, size="demo")


def test_the_same_seed_makes_the_same_world_and_another_seed_another():
    first, again, other = (make_world(seed=s, size="tiny") for s in (1, 1, 2))
    for corpus in first.corpora:
        a, b, c = first.corpora[corpus], again.corpora[corpus], other.corpora[corpus]
        assert a.queries.equals(b.queries)
        assert a.items.equals(b.items)
        assert np.array_equal(a.relevance, b.relevance)
        assert np.array_equal(a.orders, b.orders)
        assert not a.items["title"].equals(c.items["title"])


def test_keys_are_those_of_the_pipeline(world):
    for corpus, part in world.corpora.items():
        for locale, query, key in part.queries.select("locale", "query", "query_key").head(20).iter_rows():
            assert normalise_query(query, locale=locale) == query
            assert query_key(corpus, locale, query) == key
        row = part.items.row(5, named=True)
        assert item_key(corpus, row["item_id"]) == row["item_key"]


def test_queries_are_unique_and_every_locale_has_some(world):
    for part in world.corpora.values():
        assert part.queries.select("locale", "query").is_duplicated().sum() == 0
        assert set(part.queries["locale"]) == set(LOCALES)
        assert part.queries.height % WORDINGS == 0


def test_an_intent_has_a_pool_of_distinct_items_of_its_locale(world):
    for part in world.corpora.values():
        assert part.pool.shape[1] == POOL
        assert all(len(set(row)) == POOL for row in part.pool.tolist())
        locales = part.items["locale"].to_numpy()[part.pool]
        assert (locales == locales[:, :1]).all()


def test_relevance_is_a_click_probability(world):
    for part in world.corpora.values():
        assert part.relevance.min() >= 0.005
        assert part.relevance.max() <= 0.95


def test_examination_falls_with_rank_from_one(world):
    for corpus, part in world.corpora.items():
        curve = part.examination[0]
        assert curve[0] == 1
        assert (np.diff(curve) < 0).all()
        assert curve[9] == pytest.approx(10 ** -EXAMINATION[corpus], rel=1e-5)


@pytest.mark.parametrize("kind", AMBIGUOUS)
def test_looks_mislead_where_they_are_meant_to(world, kind):
    """In an ambiguous kind the most relevant candidate is not the best looking one, on the whole."""
    wins = []
    for part in world.corpora.values():
        intents = part.queries.filter(pl.col("kind") == kind)["intent"].unique().to_numpy()
        first = part.queries.group_by("intent", maintain_order=True).agg(pl.int_range(pl.len()).first())
        assert first.height == len(part.pool)
        relevance = part.relevance[intents * WORDINGS]
        fame = part.items["fame"].to_numpy()[part.pool[intents]]
        look = 0.6 * part.look[intents] + 0.4 * fame
        wins += (relevance.argmax(axis=1) == look.argmax(axis=1)).tolist()
    assert len(wins) >= 2
    assert np.mean(wins) <= 0.35


def test_a_lyric_quotes_the_title_of_another_song_that_somebody_wants(world):
    """The trap is a real title of another intent, whose own askers are glad of it."""
    part = world.corpora["tracks"]
    first = part.queries.filter((pl.col("kind") == "lyric") & (pl.col("wording") == 2) & (pl.col("locale") == "en"))
    titles = {t.lower(): i for i, t in enumerate(part.items["title"])}
    for query, intent in first.select("query", "intent").iter_rows():
        quoted = [i for t, i in titles.items() if t in query and i in part.pool[intent].tolist()]
        assert quoted
        place = part.pool[intent].tolist().index(quoted[0])
        assert part.relevance[intent * WORDINGS, place] < 0.15
        elsewhere = [(q, c) for q, pool in enumerate(part.pool.tolist()) for c, i in enumerate(pool) if i == quoted[0]]
        assert max(part.relevance[q * WORDINGS, c] for q, c in elsewhere) > 0.5


@pytest.mark.parametrize(
    ("name", "better", "worse"),
    [("good ranker beats the poor one", 0, 1), ("the mixed one lies above the poor one", 2, 1)],
)
def test_rankers_differ_in_quality(world, name, better, worse):
    for part in world.corpora.values():
        discounts = 1 / np.log2(np.arange(2, 12))

        def quality(ranker, part=part, discounts=discounts):
            order = part.orders[ranker, 0, :, :10].astype(np.int64)
            return (np.take_along_axis(part.relevance, order, axis=1) @ discounts).mean()

        assert quality(better) > 1.1 * quality(worse), name


def test_kinds_come_in_their_shares():
    kinds = kinds_of(500)
    assert kinds[0] == "title"
    assert sum(kind.share for kind in KINDS.values()) == pytest.approx(1)
    for kind, planned in KINDS.items():
        assert kinds.count(kind) == pytest.approx(500 * planned.share, abs=1.01)


@pytest.mark.parametrize("corpus", ["tracks", "podcasts"])
@pytest.mark.parametrize("locale", list(LOCALES))
def test_every_lexicon_has_wordings_for_every_kind(corpus, locale):
    words = lexicon(locale)[corpus]
    assert set(words["wordings"]) == set(KINDS)
    assert {len(w) for w in words["wordings"].values()} == {WORDINGS}
    assert all(role.template == "title" or role.template in words for kind in KINDS.values() for role in kind.roles)


def test_the_poor_share_is_what_was_asked():
    rankers = make_world(seed=0, size="tiny", poor_share=0.8).rankers
    assert {r.name: round(r.share, 6) for r in rankers}["poor"] == 0.8
    assert sum(r.share for r in rankers) == pytest.approx(1)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: size_of("huge"), "huge"),
        (lambda: size_of(None, impressions=10, days=30), "10 impressions"),
        (lambda: lexicon("xx"), "xx"),
    ],
)
def test_what_cannot_be_simulated_is_refused_by_name(call, told):
    with pytest.raises(UsageError, match=told):
        call()
