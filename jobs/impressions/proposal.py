"""What inspect prints: the [[sources]] block that would read a log, with what was seen as comments above it."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from jobs.impressions.layout import OWN_NAMES


@dataclass(kw_only=True)
class Seen:
    """What a sample showed, and the settings proposed from it."""

    path: str
    files: int
    format: str
    columns: list[str] = field(default_factory=list)
    mapped: dict[str, str] = field(default_factory=dict)
    unsure: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)
    separator: str = ","
    times: dict[str, int] = field(default_factory=dict)
    bases: dict[str, int] = field(default_factory=dict)
    applications: dict[str, int] = field(default_factory=dict)
    actions: dict[str, int] = field(default_factory=dict)
    proposed_actions: dict[str, str | float] = field(default_factory=dict)
    locales: list[str] = field(default_factory=list)
    rows: int = 0
    impressions: int = 0
    clicks: int = 0
    duplicates: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def block(seen: Seen, *, corpus: str, name: str) -> str:
    """The proposed settings as TOML, with what was seen as comments above them."""
    lines = [*_comments(seen), "", f"[corpora.{corpus}]", f"locales = {json.dumps(seen.locales)}", "", "[[sources]]"]
    columns = {f: c for f, c in seen.mapped.items() if c != OWN_NAMES.get(f) or seen.format == "ubi"}
    entries: dict[str, Any] = {"name": name, "corpus": corpus, "path": seen.path, "format": seen.format}
    if columns:
        entries["columns"] = columns
    if seen.separator not in (",", "\t" if ".tsv" in seen.path else ","):
        entries["values"] = {"separator": seen.separator}
    entries["rank_base"] = seen.bases or {"default": 1}
    if seen.format == "ubi":
        entries["actions"] = seen.proposed_actions
    entries["max_rejected"] = _proposed_share(seen)
    return "\n".join([*lines, *[f"{k} = {_toml(v)}" for k, v in entries.items()]])


def _comments(seen: Seen) -> list[str]:
    told = [f"{seen.rows} rows sampled of {seen.files} file(s), format {seen.format}"]
    for label, found in (("columns", seen.columns), ("times", seen.times), ("applications", seen.applications),
                         ("actions", seen.actions), ("refused", seen.refused)):  # fmt: skip
        if found:
            told.append(f"{label}: {_short(found)}")
    told += [f"columns.{name} = {seen.mapped.get(name, name)}: {what}" for name, what in seen.values.items()]
    if seen.impressions:
        told.append(f"{seen.impressions} impressions, {seen.clicks} clicked ({seen.clicks / seen.impressions:.1%})")
    orphans = seen.refused.get("unknown_search", 0) + seen.refused.get("not_shown", 0)
    told.append(f"{orphans} orphans (events without their search or item), {seen.duplicates} duplicates")
    return [f"# {_plain(line)}" for line in (*told, *[f"note: {n}" for n in seen.notes])]


def _short(found: Any) -> str:
    parts = [f"{k} {v}" for k, v in found.items()] if isinstance(found, dict) else [str(v) for v in found]
    return ", ".join(parts[:30]) + (f" and {len(parts) - 30} more" if len(parts) > 30 else "")


def _plain(text: str) -> str:
    """One line of a comment: text of a log may hold anything."""
    return re.sub(r"[\x00-\x1f\x7f]+", " ", text)[:400]


def _proposed_share(seen: Seen) -> float:
    refused = sum(seen.refused.values())
    share = refused / seen.rows if seen.rows else 0.0
    return 0.05 if share <= 0.04 else min(1.0, round(share * 1.25 + 0.01, 2))


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(k, ensure_ascii=False)} = {_toml(v)}" for k, v in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)
