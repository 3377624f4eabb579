"""Prompts as files: a fixed system part, the line `---user---`, and a user part; placeholders are checked on load.

Texts of documents and queries are put in as JSON strings: data between quotes, whatever they say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jobs.core.errors import InputError, NotThereError

FOLDER = Path(__file__).parent / "prompts"
DIVIDER = "\n---user---\n"
_PLACE = re.compile(r"\{\{(\w+)\}\}")

PLACES: Mapping[str, frozenset[str]] = {
    "characterise": frozenset({"texts"}),
    "propose": frozenset({"room", "clusters", "skills"}),
    "judge": frozenset({"profile", "texts", "skills"}),
    "refine": frozenset({"skill", "clusters"}),
    "route": frozenset({"query", "skills"}),
    "choose": frozenset({"query", "skills"}),
    "rewrite": frozenset({"instruction", "query", "texts"}),
    "passage": frozenset({"query", "texts"}),
    "think": frozenset({"query", "so_far", "texts"}),
    "mine": frozenset({"profile", "texts"}),
    "synthesise": frozenset({"query", "skills"}),
}
"""Each prompt's placeholders: a file must hold exactly these."""


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A prompt's two parts, with places for `{{name}}` in the user part only (servers cache the fixed head)."""

    name: str
    system: str
    user: str

    def fill(self, values: Mapping[str, object]) -> str:
        """The user part with each place filled: text as a JSON string, other values as JSON, one element a line."""
        if set(values) != PLACES[self.name]:
            raise InputError(f"prompt {self.name!r} wants {sorted(PLACES[self.name])}, got {sorted(values)}")
        return _PLACE.sub(lambda found: as_data(values[found.group(1)]), self.user)


def load_prompt(name: str, *, folder: Path = FOLDER) -> Prompt:
    """Read prompt `name` and check it.

    Raises NotThereError for a missing file and InputError for a missing divider or other placeholders than `PLACES`.
    """
    file = folder / f"{name}.md"
    if not file.exists():
        raise NotThereError(f"prompt file {file} does not exist: put it there or use the built-in prompts")
    system, divider, user = file.read_text(encoding="utf-8").partition(DIVIDER)
    if not divider or set(_PLACE.findall(user)) != PLACES[name] or _PLACE.search(system):
        places = ", ".join("{{" + one + "}}" for one in sorted(PLACES[name]))
        raise InputError(f"prompt file {file}: its part under ---user--- must hold {places}, the part above none")
    return Prompt(name=name, system=system.strip(), user=user.strip())


def as_data(value: object) -> str:
    """A value as JSON; lists as one element a line, so that the prompt stays readable."""
    if isinstance(value, list | tuple):
        return "\n".join(json.dumps(one, ensure_ascii=False) for one in value) or "(none)"
    return json.dumps(value, ensure_ascii=False)


def excerpt(text: str, *, characters: int) -> str:
    """The head of a text with its white space folded, cut at a word's end, `…` where something was cut."""
    folded = " ".join(text.split())
    if len(folded) <= characters:
        return folded
    return folded[:characters].rsplit(" ", 1)[0] + " …"
