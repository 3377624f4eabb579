"""The words of a world: titles, artists, and the several wordings in which people ask for one thing.

Pure Python on `random.Random`, whose streams are the same on every platform. Texts are unique where they must be:
titles of targets within a corpus and locale, queries likewise.
"""

import random
from dataclasses import dataclass, field

from jobs.core.errors import UsageError
from jobs.core.normalise import normalise_query
from jobs.simulate.kinds import KINDS, Kind, Role
from jobs.simulate.lexicon import lexicon

_TRAP_ROLES = (0, 1, 5)  # of kind `title`: the track itself, its live version, its karaoke copy


@dataclass(frozen=True, kw_only=True)
class ItemText:
    """One catalogue entry before it has an id; `fame` in [0, 1]."""

    title: str
    type: str
    artist: str
    album: str
    market: str
    version: str
    fame: float


@dataclass(kw_only=True)
class Intent:
    """One thing that people ask for. `title` is the wanted work's; `trap` an intent whose title the query quotes."""

    kind: str
    title: str
    artist: str
    head: str
    tail: str
    trap: "Intent | None" = None
    items: list[ItemText] = field(default_factory=list)
    wordings: list[str] = field(default_factory=list)


def make_intents(*, corpus: str, locale: str, count: int, rng: random.Random) -> list[Intent]:
    """`count` intents of one corpus and locale with their own items and wordings, kinds in their shares."""
    words = lexicon(locale)
    titles = _titles(words, count, rng)
    intents = [_intent(kind, title, words, rng) for kind, title in zip(kinds_of(count), titles, strict=True)]
    rng.shuffle(intents)
    _set_traps(intents, rng)
    taken: set[str] = set()
    for intent in intents:
        intent.items = [_item(role, intent, words, corpus, rng) for role in KINDS[intent.kind].roles]
        intent.wordings = _wordings(intent, words, corpus, locale, rng, taken)
    return intents


def kinds_of(count: int) -> list[str]:
    """Kinds of `count` intents, each next one that with the largest deficit to its share; the first is `title`."""
    given = dict.fromkeys(KINDS, 0)
    out = []
    for n in range(1, count + 1):
        kind = max(KINDS, key=lambda k: KINDS[k].share * n - given[k])
        given[kind] += 1
        out.append(kind)
    return out


def trap_roles(kind: Kind) -> tuple[int, ...]:
    """Which items of the trap's intent the kind borrows."""
    return _TRAP_ROLES[: len(kind.traps)]


def _titles(words: dict, count: int, rng: random.Random) -> list[tuple[str, str, str]]:
    heads, tails = words["heads"], words["tails"]
    room = len(heads) * len(tails)
    if count > room * (1 + len(words["suffixes"])):
        raise UsageError(
            f"{count} intents of one locale are more than its words give titles: ask for fewer impressions"
        )
    order = rng.sample(range(room), room)
    return [_title(order[i % room], i // room, words) for i in range(count)]


def _title(place: int, block: int, words: dict) -> tuple[str, str, str]:
    head, tail = words["heads"][place // len(words["tails"])], words["tails"][place % len(words["tails"])]
    ending = f" {words['suffixes'][block - 1]}" if block else ""
    return head, tail, f"{head} {tail}{ending}"


def _intent(kind: str, title: tuple[str, str, str], words: dict, rng: random.Random) -> Intent:
    return Intent(kind=kind, head=title[0], tail=title[1], title=title[2], artist=_artist(words, rng))


def _artist(words: dict, rng: random.Random) -> str:
    return f"{rng.choice(words['first'])} {rng.choice(words['last'])}"


def _set_traps(intents: list[Intent], rng: random.Random) -> None:
    plain = [intent for intent in intents if intent.kind == "title"]
    for intent in intents:
        if KINDS[intent.kind].traps:
            intent.trap = rng.choice(plain)


def _item(role: Role, intent: Intent, words: dict, corpus: str, rng: random.Random) -> ItemText:
    artist = _artist(words, rng) if role.another_artist else intent.artist
    fields = _fields(intent, words, artist, rng)
    title = intent.title if role.template == "title" else words[corpus][role.template].format_map(fields)
    return ItemText(
        title=title[0].upper() + title[1:],
        type=words[corpus]["types"][role.type],
        artist=artist,
        album=words[corpus]["album"].format_map(fields),
        market=words["other_market" if intent.kind == "regional" and role.template == "title" else "market"],
        version=role.template,
        fame=rng.uniform(*role.fame),
    )


def _fields(intent: Intent, words: dict, artist: str, rng: random.Random) -> dict[str, str]:
    return {
        "title": intent.title,
        "artist": artist,
        "last": artist.split(" ", 1)[1],
        "head": intent.head,
        "tail": intent.tail,
        "head2": rng.choice(words["heads"]),
        "tail2": rng.choice(words["tails"]),
        "theme": words["themes"][_stable(intent.title) % len(words["themes"])],
        "place": words["places"][_stable(intent.artist + intent.title) % len(words["places"])],
        "trap": intent.trap.title if intent.trap else "",
    }


def _stable(text: str) -> int:
    """A number that depends on the text alone, so that all items and queries of an intent share a theme."""
    return sum((i + 1) * ord(c) for i, c in enumerate(text))


def _wordings(intent: Intent, words: dict, corpus: str, locale: str, rng: random.Random, taken: set[str]) -> list[str]:
    fields = _fields(intent, words, intent.artist, rng)
    fields["line"] = rng.choice(words[corpus]["lines"]).format_map(fields)
    templates = words[corpus]["wordings"][intent.kind]
    asked = [normalise_query(t.format_map(fields), locale=locale) for t in templates]
    return [_untaken(text, normalise_query(intent.artist, locale=locale), taken) for text in asked]


def _untaken(text: str, artist: str, taken: set[str]) -> str:
    while text in taken:  # two intents in one wording would be one query: its second asker names the artist, too
        text = f"{text} {artist}"
    taken.add(text)
    return text
