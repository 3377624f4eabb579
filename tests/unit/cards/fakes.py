"""An encoder with planted cosines: one pair of near-duplicates, everything else far apart."""

import hashlib

import numpy as np

NEAR = {"basketball warmup playlist": ("basketball warmup music", 0.95)}


class PlantedEncoder:
    """Vectors from the hash of a text; texts of NEAR stand at their planted cosine to another text."""

    name, revision = "planted", "1"

    def __init__(self):
        self.embedded = 0

    def encode(self, texts, *, kind="plain"):
        """float32[n, 64] of length 1."""
        self.embedded += len(texts)
        return np.array([_vector(text) for text in texts], dtype=np.float32).reshape(len(texts), 64)


def _vector(text):
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    own = np.random.default_rng(seed).standard_normal(64)
    own /= np.linalg.norm(own)
    if text not in NEAR:
        return own
    other, cosine = NEAR[text]
    base = _vector(other)
    rest = own - (own @ base) * base
    return cosine * base + np.sqrt(1 - cosine**2) * rest / np.linalg.norm(rest)
