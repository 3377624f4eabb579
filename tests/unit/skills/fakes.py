"""Doubles for skills tests: an encoder without a model, and a model that is a queue of replies."""

import hashlib
import json

import numpy as np

from jobs.skills.llm import Reply
from jobs.skills.terms import words


class WordEncoder:
    """Bags of words as sums of fixed random directions: shared words make texts near. Deterministic, no model."""

    name, revision = "words", "1"

    def __init__(self, *, dimension=64):
        self.dimension, self.asked = dimension, 0
        self._known = {}

    def encode(self, texts, *, kind="plain"):
        self.asked += len(texts)
        rows = [np.sum([self._word(one) for one in words(text)] or [self._word("")], axis=0) for text in texts]
        vectors = np.array(rows, np.float32).reshape(len(texts), self.dimension)
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)

    def _word(self, word):
        if word not in self._known:
            seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
            self._known[word] = np.random.default_rng(seed).standard_normal(self.dimension)
        return self._known[word]


class QueueModel:
    """Replies in order, one a request: text, a dict (sent as JSON), or a Reply; the last one repeats."""

    def __init__(self, *replies, name="queue"):
        self.name, self.replies, self.requests = name, list(replies), []

    def complete(self, requests):
        self.requests += requests
        return [self._next() for _ in requests]

    def _next(self):
        value = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(value, Reply):
            return value
        text = json.dumps(value) if isinstance(value, dict) else value
        return Reply(text=text, tokens_in=10, tokens_out=2, seconds=0.5)
