"""Words of clusters without a language model: c-TF-IDF (Grootendorst 2022), and how common a word is in a corpus."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

TOP_TERMS = 12
LIFT = 2.0  # stop words stand near 1 whatever the language, words of a domain at 3 and more
FEW_LIFT = 1.3  # of two or three groups: a word can be twice as frequent in at most one of two
COMMON = 0.25  # share of all texts; a word of more of them names no group, unless there are too few texts to tell
TOKEN = r"[^\W\d_](?:[^\W_]|['’-](?=[^\W_]))+"  # words of two letters and more, in any alphabet
_WORD = re.compile(TOKEN)


def words(text: str) -> list[str]:
    """Lower-case words of a text, of two letters or more."""
    return [one.lower() for one in _WORD.findall(text)]


def cluster_terms(groups: Sequence[Sequence[str]], *, top: int = TOP_TERMS) -> list[tuple[str, ...]]:
    """The words that tell each group of texts from the others, best first.

    c-TF-IDF on text frequencies: the share of the group's texts that hold the word, times log(N / texts with it), times
    the logarithm of how much more frequent it is in the group than over all. A word must be `LIFT` times as frequent
    there and stand in at most `COMMON` of the texts, so that no stop list of any language is needed.
    A group without such words gives an empty tuple.
    """
    held = [[set(words(text)) for text in group] for group in groups]
    inside = [Counter(word for text in group for word in text) for group in held]
    overall = sum(inside, Counter())
    texts = sum(len(group) for group in held)
    filled = sum(bool(group) for group in groups)
    lift = 0.0 if filled < 2 else FEW_LIFT if filled < 4 else LIFT
    if filled > 3 and texts >= 20:
        inside = [Counter({w: n for w, n in counts.items() if overall[w] <= COMMON * texts}) for counts in inside]
    seen = _Seen(overall=overall, texts=texts, lift=lift)
    return [_best(counts, len(group), seen, top=top) for counts, group in zip(inside, held, strict=True)]


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """Texts that hold each word over all groups, the number of texts, and the lift that a word must have."""

    overall: Mapping[str, int]
    texts: int
    lift: float


def _best(counts: Counter[str], size: int, seen: _Seen, *, top: int) -> tuple[str, ...]:
    def usual(word: str) -> float:
        return seen.overall[word] / seen.texts

    def weight(word: str) -> float:
        share = counts[word] / size
        return share * float(np.log((seen.texts + 1) / seen.overall[word]) * np.log1p(share / usual(word)))

    # A word of a single text names that text, not the group; in small groups nothing else may be left.
    least = 2 if size >= 4 else 1
    telling = [w for w, n in counts.items() if n >= least and n / size >= seen.lift * usual(w)]
    return tuple(sorted(telling, key=lambda word: (-weight(word), word))[:top])


@dataclass(frozen=True)
class Lexicon:
    """How many of `documents` texts hold each word."""

    documents: int
    frequency: Mapping[str, int]

    @classmethod
    def of(cls, texts: Iterable[str]) -> Lexicon:
        """Count over all given texts (pass a sample of a large corpus)."""
        counts: Counter[str] = Counter()
        number = 0
        for text in texts:
            number += 1
            counts.update(set(words(text)))
        return cls(number, counts)

    def weight(self, word: str) -> float:
        """log(N / df): 0 for a word of every text, and 0 for one that the corpus does not know."""
        known = self.frequency.get(word, 0)
        return float(np.log(self.documents / known)) if known else 0.0
