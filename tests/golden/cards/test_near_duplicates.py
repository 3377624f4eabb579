"""The packaged model on labelled pairs: its shipped threshold is the calibrated one, with its error rates."""

from pathlib import Path

import numpy as np
import pytest

from jobs.cards.calibrate import Pair, calibrate, cosines, read_pairs
from jobs.cards.thresholds import SHIPPED
from jobs.core.embedding import PACKAGED, Embedder

PAIRS = Path(__file__).parent / "near_duplicates.jsonl"


@pytest.fixture(scope="module")
def encoder():
    return Embedder()


def test_the_shipped_threshold_is_the_calibrated_one(encoder):
    got = calibrate(read_pairs(PAIRS), encoder=encoder)
    assert got["threshold"] == pytest.approx(SHIPPED[PACKAGED], abs=0.01)
    assert got["missed"]["rate"] <= 0.2
    assert got["wrongly_dropped"]["rate"] <= 0.05


def test_at_the_papers_value_this_model_misses_many(encoder):
    pairs = read_pairs(PAIRS)
    near = np.array([pair.near_duplicate for pair in pairs])
    assert (cosines(pairs, encoder=encoder)[near] <= 0.9).mean() > 0.35


@pytest.mark.parametrize(
    ("page", "history", "near"),
    [
        ("basketball warmup music", "basketball warmup playlist", True),
        ("basketball warmup music", "basketball training music", False),
    ],
)
def test_the_paper_s_example(encoder, page, history, near):
    (cosine,) = cosines([Pair(a=page, b=history, locale="en", near_duplicate=near)], encoder=encoder)
    assert (cosine > SHIPPED[PACKAGED]) == near
