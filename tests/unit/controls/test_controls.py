"""Negative controls and planted effects on seeds that nobody tuned on: the grounded judge gains from history, and
only from it.

The judge's constants were set on seeds 0-9. Here a whole night runs in memory for each of the seeds 100-109.
"""

import polars as pl
import pytest

from jobs.core.embedding import Embedder
from tests.unit.controls.pool import (
    SHUFFLED,
    alignment_gain,
    clearly_different,
    graded_night,
    spearman_gain,
)

pytestmark = pytest.mark.timeout(1200)  # a minute on an idle machine with two cores; many on one that is shared

SEEDS = tuple(range(100, 110))
POOR_SEEDS = SEEDS[:3]  # other traffic on worlds whose texts are embedded already
VARIANTS = ("plain", "popularity", "qri")


@pytest.fixture(scope="module")
def embedder(pytestconfig):
    """With its vectors kept beside pytest's own cache: they are most of the time of a first run."""
    return Embedder(cache=pytestconfig.cache.mkdir("vectors"))


@pytest.fixture(scope="module")
def graded(embedder):
    return [graded_night(seed, embedder=embedder, variants=VARIANTS) for seed in SEEDS]


@pytest.fixture(scope="module")
def nights(graded):
    return pl.concat([night.pages for night in graded])


@pytest.fixture(scope="module")
def poor_nights(embedder):
    """Nights whose poor ranker served four pages in five."""
    nights = [graded_night(s, embedder=embedder, variants=VARIANTS, poor_share=0.8) for s in POOR_SEEDS]
    return pl.concat([night.pages for night in nights])


def of(pages: pl.DataFrame, name: str) -> pl.DataFrame:
    return pages.filter(pl.col("set") == name)


def test_enough_pages_and_queries_are_pooled(nights):
    assert of(nights, "logs").height >= 10_000
    assert nights["seed"].n_unique() >= 10
    assert clearly_different(nights).select("seed", "query_key").n_unique() >= 1_000


@pytest.mark.parametrize("truth", ["planted", "truth"])
def test_cards_of_other_queries_bring_nothing(nights, truth):
    """Each item's card moved whole from a random item of another query's page: no gain over the plain judge."""
    gain = spearman_gain(of(nights, "logs"), better=SHUFFLED, base="plain", truth=truth)
    assert gain.high <= 0.02, str(gain)


@pytest.mark.parametrize(
    ("set_", "truth"),
    [
        pytest.param("logs", "planted", id="logs against planted relevance, which shares nothing with the curve"),
        pytest.param("logs", "truth", id="logs against estimated truth, which shares the curve"),
        pytest.param("human", "human_label", id="human labels"),
    ],
)
def test_true_cards_bring_a_gain(nights, set_, truth):
    gain = spearman_gain(of(nights, set_), better="qri", base="plain", truth=truth)
    assert gain.low > 0, str(gain)


def test_true_cards_point_to_the_better_system(nights):
    """Half-credit sign alignment with the planted winner of each query whose systems differ by a standard deviation."""
    gain = alignment_gain(clearly_different(nights), better="qri", base="plain")
    assert gain.n >= 1_000
    assert gain.low > 0, str(gain)


def test_plain_sees_some_of_the_truth_but_not_most(nights):
    """The world is neither hopeless for a judge of meaning nor solved by it: else a gain says nothing."""
    logs = of(nights, "logs").with_columns(nothing=pl.lit(1.0) + pl.col("query_key") % 2)
    gain = spearman_gain(logs, better="plain", base="nothing", truth="planted")
    assert gain.low > 0.1
    assert gain.high < 0.6


def test_popularity_misleads_where_a_poor_ranker_made_it(poor_nights):
    """Impressions then say what the poor ranker liked; debiased relevance says what people did."""
    gain = spearman_gain(of(poor_nights, "logs"), better="qri", base="popularity", truth="planted")
    assert gain.low > 0, str(gain)


def test_the_planted_curve_is_found_on_every_night(graded):
    """What the controls rest on: examination fitted within a fifth of the planted one where most clicks are."""
    for night in graded:
        for fitted, planted in night.examination.values():
            assert max(abs(f / p - 1) for f, p in zip(fitted[:4], planted, strict=False)) < 0.2
