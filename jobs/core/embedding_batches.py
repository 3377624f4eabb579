"""Batches for a sentence-transformers model in which a text's vector does not depend on what stands beside it."""

from __future__ import annotations

from math import gcd
from typing import Any

import numpy as np

BATCH = 32  # texts a batch of sentence-transformers' own `encode`; its default
TOKENS = 512  # a batch, roughly: on 2 cores 256 and 1,024 were 5 to 15% slower, for short texts and for long ones
MULTIPLE = 32  # tokens a batch are a multiple of it, so that no row falls into a kernel for remainders
SHORTEST = 4


def encode_steadily(model: Any, texts: list[str]) -> np.ndarray:
    """float32[n, d], rows of length 1, each bit for bit the same whatever else is embedded with it.

    The last bit of a matrix product depends on the shape of the whole batch (and backfills embed in another company
    than nights in order). So a batch's shape depends on the length of its texts alone: padded to a length of
    `padded_length`, `rows_of` texts, the last one repeated where they run out. Models that are no transformer with a
    tokenizer (static embeddings, routers) go through their own `encode`.
    """
    if not _is_transformer(model):
        return _by_itself(model, texts)
    longest = model.max_seq_length
    ids = model.tokenizer(texts, truncation=longest is not None, max_length=longest)["input_ids"]
    padded = np.array([padded_length(len(one), longest=longest) for one in ids], dtype=np.int64)
    vectors = np.zeros((len(texts), model.get_embedding_dimension()), np.float32)
    for length in np.unique(padded).tolist():
        alike, rows = np.flatnonzero(padded == length), rows_of(length)
        for start in range(0, len(alike), rows):
            chosen = alike[start : start + rows]
            filled = [*chosen, *[chosen[-1]] * (rows - len(chosen))]
            vectors[chosen] = _forward(model, [ids[i] for i in filled], length)[: len(chosen)]
    return vectors


def padded_length(tokens: int, *, longest: int | None = None) -> int:
    """Tokens that a text of so many is padded to: in small steps where texts are short, at most `longest`."""
    step = 4 if tokens <= 64 else 8 if tokens <= 128 else 16
    padded = max(SHORTEST, -(-tokens // step) * step)
    return padded if longest is None else max(tokens, min(padded, longest))


def rows_of(length: int) -> int:
    """Texts of that padded length in a batch: about TOKENS tokens in all, a multiple of MULTIPLE."""
    step = MULTIPLE // gcd(MULTIPLE, length)
    return step * max(1, round(TOKENS / (length * step)))


def _is_transformer(model: Any) -> bool:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Transformer

    known = isinstance(model, SentenceTransformer) and isinstance(model[0], Transformer)
    return known and hasattr(model.tokenizer, "pad")


def _forward(model: Any, ids: list[list[int]], length: int) -> np.ndarray:
    import torch

    features = model.tokenizer.pad({"input_ids": ids}, padding="max_length", max_length=length, return_tensors="pt")
    with torch.inference_mode():
        vectors = model(dict(features))["sentence_embedding"]
        return torch.nn.functional.normalize(vectors, p=2, dim=1).float().numpy()


def _by_itself(model: Any, texts: list[str]) -> np.ndarray:
    vectors = model.encode(
        texts, batch_size=BATCH, convert_to_numpy=True, normalize_embeddings=True, show_progress_bar=False, prompt=""
    )
    return np.asarray(vectors, dtype=np.float32)
