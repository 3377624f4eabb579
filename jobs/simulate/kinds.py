"""What people mean and what lies in wait for it: kinds of intents with the items that answer, and those that only
seem to.

An item's `look` is how much it looks like the query (what a text ranker sees), `relevance` how much it satisfies. In
the ambiguous kinds the two disagree, and fame sides with the look: there meaning and popularity mislead, and history
helps.
"""

from dataclasses import dataclass

POOL = 16
"""Candidate items of an intent; a page shows 10 of them, so that rankers differ in what they show, not only in order.
"""


@dataclass(frozen=True, kw_only=True)
class Role:
    """One item made for an intent: its title template in the lexicon, and ranges of relevance, look and fame."""

    template: str
    relevance: tuple[float, float]
    look: float
    fame: tuple[float, float] = (0.1, 0.6)
    type: str = "target"
    another_artist: bool = False


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of intent: its share, how well the catalogue serves it at all, its items, and which wordings it takes.

    traps: relevance ranges of items borrowed from another intent of kind `title`, whose title the query quotes.
    """

    share: float
    level: tuple[float, float]
    roles: tuple[Role, ...]
    traps: tuple[tuple[float, float], ...] = ()


_LIVE = Role(template="live", relevance=(0.45, 0.62), look=0.75)
_ACOUSTIC = Role(template="acoustic", relevance=(0.4, 0.6), look=0.75)
_REMIX = Role(template="remix", relevance=(0.3, 0.5), look=0.75)
_ALBUM = Role(template="album", relevance=(0.38, 0.58), look=0.15, type="album")
_COPY = Role(template="copy", relevance=(0.12, 0.28), look=0.75, fame=(0.2, 0.5))
_HIDDEN_ALBUM = Role(template="hidden", relevance=(0.4, 0.58), look=0.1, type="playlist")
_NAMED = Role(template="named", relevance=(0.05, 0.2), look=0.85, fame=(0.6, 1.0))


def _unlike(role: Role) -> Role:
    return Role(template=role.template, relevance=role.relevance, look=0.1, fame=role.fame, type=role.type)


KINDS = {
    "title": Kind(
        share=0.4,
        level=(0.7, 1.0),
        roles=(
            Role(template="title", relevance=(0.85, 1.0), look=0.85, fame=(0.3, 1.0)),
            _LIVE, _ACOUSTIC, _REMIX, _ALBUM, _COPY,
        ),
    ),
    "broad": Kind(
        share=0.16,
        level=(0.5, 0.85),
        roles=(
            Role(template="mood", relevance=(0.6, 0.9), look=0.6, type="playlist"),
            Role(template="moodlike", relevance=(0.5, 0.8), look=0.55, type="playlist"),
            Role(template="hidden", relevance=(0.5, 0.75), look=0.15, type="playlist"),
            Role(template="hidden", relevance=(0.4, 0.6), look=0.15, type="playlist"),
            Role(template="playlist", relevance=(0.35, 0.55), look=0.15, type="playlist"),
            _NAMED,
        ),
    ),
    # Nobody can say what would satisfy, and nothing quite does.
    "vague": Kind(
        share=0.16,
        level=(0.42, 0.7),
        roles=(
            Role(template="hidden", relevance=(0.65, 0.95), look=0.15, type="playlist"),
            Role(template="hidden", relevance=(0.55, 0.85), look=0.15, type="playlist"),
            Role(template="playlist", relevance=(0.5, 0.8), look=0.15, type="playlist"),
            Role(template="title", relevance=(0.5, 0.8), look=0.15),
            _ALBUM,
        ),
    ),
    # The words are sung in one song and are the title of another, which is the better known.
    "lyric": Kind(
        share=0.1,
        level=(0.55, 0.9),
        roles=(
            Role(template="title", relevance=(0.85, 1.0), look=0.1),
            _unlike(_LIVE), _unlike(_ACOUSTIC), _ALBUM, _HIDDEN_ALBUM,
        ),
        traps=((0.03, 0.12), (0.02, 0.1), (0.02, 0.1)),
    ),
    # The re-recording is wanted, the famous original is not.
    "remake": Kind(
        share=0.05,
        level=(0.58, 0.95),
        roles=(
            Role(template="remake", relevance=(0.85, 1.0), look=0.7),
            Role(template="title", relevance=(0.05, 0.2), look=0.9, fame=(0.7, 1.0), another_artist=True),
            _LIVE, _ACOUSTIC, _ALBUM, _COPY,
        ),
    ),
    # The original is wanted, the famous re-recording is not.
    "original": Kind(
        share=0.04,
        level=(0.58, 0.95),
        roles=(
            Role(template="title", relevance=(0.85, 1.0), look=0.85),
            Role(template="remake", relevance=(0.05, 0.2), look=0.75, fame=(0.7, 1.0), another_artist=True),
            _LIVE, _ACOUSTIC, _ALBUM, _COPY,
        ),
    ),
    # Three artists gave one title; the one that is wanted is not the one that is famous.
    "same": Kind(
        share=0.04,
        level=(0.55, 0.9),
        roles=(
            Role(template="title", relevance=(0.85, 1.0), look=0.9, fame=(0.1, 0.4)),
            Role(template="title", relevance=(0.3, 0.45), look=0.9, fame=(0.5, 0.8), another_artist=True),
            Role(template="title", relevance=(0.03, 0.1), look=0.9, fame=(0.8, 1.0), another_artist=True),
            _LIVE, _ALBUM, _REMIX,
        ),
    ),
    # Playlists hold what is wanted without saying so; tracks that say it do not.
    "playlist": Kind(
        share=0.03,
        level=(0.55, 0.95),
        roles=(
            Role(template="hidden", relevance=(0.8, 1.0), look=0.1, type="playlist"),
            Role(template="hidden", relevance=(0.65, 0.9), look=0.1, type="playlist"),
            Role(template="hidden", relevance=(0.5, 0.8), look=0.1, type="playlist"),
            Role(template="playlist", relevance=(0.4, 0.6), look=0.1, type="playlist"),
            Role(template="moodlike", relevance=(0.04, 0.2), look=0.75, fame=(0.6, 1.0)),
            _NAMED,
        ),
    ),
    # One recording, several markets: the version of the query's own market is wanted.
    "regional": Kind(
        share=0.02,
        level=(0.58, 0.95),
        roles=(
            Role(template="regional", relevance=(0.85, 1.0), look=0.7),
            Role(template="title", relevance=(0.08, 0.25), look=0.9, fame=(0.7, 1.0)),
            _LIVE, _ACOUSTIC, _ALBUM, _COPY,
        ),
    ),
}  # fmt: skip

AMBIGUOUS = ("lyric", "remake", "original", "same", "playlist", "regional")
"""Kinds in which the look misleads."""

BORROWED_NEAR = (0.2, 0.42)
"""Relevance of up to two borrowed items: other work of the artist, which some users are glad of."""
BORROWED_FAR = (0.01, 0.1)
BORROWED_LOOK = (0.0, 0.3)
BORROWED_NEAR_COUNT = 2
