"""A text's vector is the same bit for bit whatever else is embedded with it, so that nights in any order agree."""

import random

import numpy as np

from jobs.core.embedding import Embedder

WORDS = ("rain", "song", "sun", "love", "lyrics", "cover", "live", "2019", "für", "straße", "canción", "the", "of", "a")


def made(seed: int, n: int) -> list[str]:
    chance = random.Random(seed)
    return list(dict.fromkeys(" ".join(chance.choices(WORDS, k=chance.randint(1, 9))) for _ in range(n)))


def test_company_and_order_change_no_bit():
    texts = [*made(1, 90), "", "x " * 400]  # nothing at all, and more than the model's window
    whole = Embedder("all-MiniLM-L6-v2").encode(texts)
    for seed in range(3):
        chosen = random.Random(seed).sample(range(len(texts)), 25)
        apart = Embedder("all-MiniLM-L6-v2").encode([texts[i] for i in chosen])
        assert np.array_equal(apart, whole[chosen])
    alone = Embedder("all-MiniLM-L6-v2").encode(texts[:1])
    assert np.array_equal(alone[0], whole[0])
    assert np.allclose(np.linalg.norm(whole, axis=1), 1)
