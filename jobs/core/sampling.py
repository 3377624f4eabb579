"""Stable samples: membership depends on a hash of the thing itself, so that tomorrow's sample is today's plus news."""

import hashlib

import numpy as np

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def unit_hash(*parts: str | int) -> float:
    """A uniform number in [0, 1) that depends only on the parts (sha256), the same on every machine."""
    digest = hashlib.sha256("\x00".join(map(str, parts)).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def unit_hashes(keys: np.ndarray, *, salt: int = 0) -> np.ndarray:
    """The vectorised form for int64 keys (splitmix64): float64 in [0, 1), shape of `keys`, one stream per `salt`."""
    with np.errstate(over="ignore"):
        z = keys.astype(np.int64).view(np.uint64) + _GOLDEN * np.uint64(salt + 1)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)).astype(np.float64) / 2**53
