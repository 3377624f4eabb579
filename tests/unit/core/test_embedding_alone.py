"""A text's vector is the same bit for bit whatever else is embedded with it, so that nights in any order agree."""

import random

import numpy as np
import pytest

from jobs.core.embedding import Embedder
from jobs.core.embedding_batches import MULTIPLE, TOKENS, padded_length, rows_of

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


def test_long_texts_of_every_length_too():
    texts = [" ".join(random.Random(n).choices(WORDS, k=n)) for n in range(1, 240, 7)]
    whole = Embedder("all-MiniLM-L6-v2").encode(texts)
    apart = Embedder("all-MiniLM-L6-v2").encode(texts[::-3])
    assert np.array_equal(apart, whole[::-3])


def test_the_vectors_are_those_of_the_models_own_encode():
    texts = [*made(2, 40), "x " * 400]
    embedder = Embedder("all-MiniLM-L6-v2")
    ours = embedder.encode(texts)
    theirs = embedder._loaded().encode(texts, normalize_embeddings=True, show_progress_bar=False)
    assert np.allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize("longest", [None, 128, 256, 250, 512])
def test_a_batch_is_filled_in_whole_blocks_and_no_text_outgrows_the_model(longest):
    for tokens in range(1, (longest or 600) + 1):
        length = padded_length(tokens, longest=longest)
        assert length >= tokens
        assert longest is None or length <= longest or length == tokens
        assert rows_of(length) * length % MULTIPLE == 0
        assert rows_of(length) * length <= max(2 * TOKENS, MULTIPLE * length)
