"""What discovery talks about: clusters as agents see them, profiles, skills, drafts and verdicts. All immutable."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal

MAX_NAME = 64  # characters; the open SKILL.md format allows no more
MAX_DESCRIPTION = 1024  # likewise

GENERIC = "generic"
"""Stands wherever a skill id can: the instruction that knows nothing of the corpus."""

RESERVED = frozenset({GENERIC, "state", "transcripts", "vectors", "versions"})
"""No skill has one of these ids: the generic instruction's, and the other folders that stand beside the skills."""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A cluster as agents see it: texts nearest to its centroid, other sampled texts, and its c-TF-IDF terms."""

    id: int
    size: int
    representatives: tuple[str, ...]
    samples: tuple[str, ...]
    terms: tuple[str, ...]
    fingerprint: str


@dataclass(frozen=True, kw_only=True)
class Profile:
    """What a cluster is about and which kind of text it holds; `source` is agent, terms (fallback) or kept."""

    domain: str
    content_type: str
    source: Literal["agent", "terms", "kept"] = "agent"


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A skill as an agent proposes it, before it is accepted."""

    name: str
    description: str
    instruction: str
    domains: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Skill:
    """A rewriting strategy. A held one (pinned, or edited by a person) is never refined nor dropped by discovery."""

    skill_id: str
    name: str
    description: str
    instruction: str
    domains: tuple[str, ...]
    version: int = 1
    origin: str = "discovered"
    clusters: tuple[int, ...] = ()
    pinned: bool = False
    edited: bool = False
    why: str = ""

    @property
    def held(self) -> bool:
        """True where a person has the last word."""
        return self.pinned or self.edited

    @property
    def card(self) -> str:
        """One text for routers: name, description and domains."""
        return f"{self.name}. {self.description} Domains: {', '.join(self.domains)}."


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A judge's word on one cluster: covered or refine (both with a skill), new, or unknown (no usable reply)."""

    cluster: int
    kind: Literal["covered", "refine", "new", "unknown"]
    skill_id: str = ""


@dataclass(frozen=True, kw_only=True)
class Drop:
    """Something that an agent gave and that was not taken, with the reason."""

    round: int
    what: str
    reason: str


_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def printable(text: str) -> str:
    """The text without control characters and lone surrogates, which YAML, and so SKILL.md, cannot hold."""
    return _UNPRINTABLE.sub("", text)


def skill_id_of(name: str) -> str:
    """A folder name from a skill's name: lower-case ASCII letters, digits and single hyphens, at most 64 characters.

    A name without such a letter gives an empty text, a reserved one gets a word more.

    >>> skill_id_of("Clinical terms — for lay symptoms!")
    'clinical-terms-for-lay-symptoms'
    >>> skill_id_of("Versions")
    'versions-skill'
    """
    ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    found = re.sub(r"[^a-z0-9]+", "-", ascii_name).strip("-")[:MAX_NAME].strip("-")
    return f"{found}-skill" if found in RESERVED else found
