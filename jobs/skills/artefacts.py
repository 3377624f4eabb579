"""Skills on disk: one folder a skill with SKILL.md (the open format of agent tools), and a machine-readable index.

    FOLDER/index.json                 version, models, settings, coverage, and the skills
    FOLDER/SKILL-ID/SKILL.md          what a person reads, edits, or pins (`pinned: "true"` under metadata)
    FOLDER/versions/0001.json         what each discovery changed, and why
A file that says something else than the index was edited by a person; a folder that is gone was removed by one. Both
are respected.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from jobs.core.errors import InputError, NotThereError
from jobs.skills.skill import MAX_DESCRIPTION, RESERVED, Skill, printable, skill_id_of

INDEX = "index.json"
FORMAT = 1
_SECTION = re.compile(r"^## +(.+?) *$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Found:
    """The skills of a folder as a person left them, and the ids of those that a person removed."""

    skills: tuple[Skill, ...]
    retired: frozenset[str]


def read_index(folder: Path) -> dict[str, Any]:
    """The index of a skills folder; NotThereError where there is none."""
    file = folder / INDEX
    if not file.exists():
        raise NotThereError(f"{folder} holds no {INDEX}: run `hindcast skills discover` first")
    return json.loads(file.read_text(encoding="utf-8"))


def read_skills(folder: Path) -> Found:
    """Read every SKILL.md; with an index beside them, what it knows (version, clusters, origin) is joined.

    A folder without index (skills written by hand) is read too: they count as edited, with the origin "human".
    """
    there = (folder / INDEX).exists()
    index = read_index(folder) if there else {"skills": [], "retired": []}
    known = {row["skill_id"]: row for row in index["skills"]}
    files = sorted(folder.glob("*/SKILL.md"))
    if not files and not there:  # a discovery that found no skill leaves an index
        raise NotThereError(f"{folder} holds no SKILL.md: run `hindcast skills discover` first")
    skills = tuple(_joined(read_skill(file), known.get(file.parent.name)) for file in files)
    gone = known.keys() - {one.skill_id for one in skills}
    return Found(skills=skills, retired=frozenset(index["retired"]) | gone)


def read_skill(file: Path) -> Skill:
    """One SKILL.md. Without an "Instruction" section the whole body is the instruction.

    Raises InputError for a missing front matter, name, description or instruction.
    """
    head, body = _parts(file)
    sections = _sections(body)
    metadata = head.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    instruction = sections.get("instruction", "" if sections else body).strip()
    if not instruction:
        raise InputError(f"{file} has no instruction: write one under '## Instruction'")
    domains = tuple(line[2:].strip() for line in sections.get("domains", "").splitlines() if line.startswith("- "))
    return Skill(
        skill_id=file.parent.name,
        name=str(metadata.get("title") or head["name"]),
        description=str(head["description"]),
        instruction=instruction,
        domains=domains or (str(head["description"]),),
        origin=str(metadata.get("origin") or "human"),
        pinned=str(metadata.get("pinned")).lower() == "true",
    )


def write_skills(folder: Path, skills: Sequence[Skill], *, index: dict[str, Any]) -> dict[str, Any]:
    """Write folders, index and, where something changed, a numbered version; returns the index as written.

    Folders of held skills are left as they stand; folders of skills that are no more are removed. The index goes last
    and is replaced atomically, so that a reader sees the old set or the new one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    old = read_index(folder) if (folder / INDEX).exists() else None
    for row in (old or {"skills": []})["skills"]:
        if row["skill_id"] not in {one.skill_id for one in skills}:
            shutil.rmtree(folder / row["skill_id"], ignore_errors=True)
    for one in skills:
        if not one.held:
            _write(folder / one.skill_id / "SKILL.md", skill_text(one, corpus=index["corpus"], model=index["model"]))
    rows = [asdict(one) for one in skills]
    full = {"format": FORMAT, **index, "version": skills_version(skills), "skills": rows}
    full["sequence"] = _version_number(folder, old, full)
    _write(folder / INDEX, json.dumps(full, ensure_ascii=False, indent=1) + "\n")
    return full


def skills_version(skills: Sequence[Skill]) -> str:
    """12 hex digits over what skills say: equal sets have equal versions, whenever they were made."""
    said = sorted([one.skill_id, one.name, one.description, one.instruction, list(one.domains)] for one in skills)
    return hashlib.sha256(json.dumps(said, ensure_ascii=False).encode()).hexdigest()[:12]


def skill_text(skill: Skill, *, corpus: str, model: str) -> str:
    """SKILL.md of a skill: front matter with quoted values, then the sections that a reviewer may edit."""
    quoted = {key: json.dumps(value, ensure_ascii=False) for key, value in _head(skill, corpus, model).items()}
    metadata = "\n".join(f"  {key}: {value}" for key, value in quoted.items() if key not in ("name", "description"))
    domains = "\n".join(f"- {one}" for one in skill.domains)
    return (
        f"---\nname: {quoted['name']}\ndescription: {quoted['description']}\nmetadata:\n{metadata}\n---\n\n"
        f"# {_one_line(skill.name)}\n\n## Instruction\n\n{_body(skill.instruction)}\n\n## Domains\n\n{domains}\n\n"
        f"## Provenance\n\nDiscovered from the corpus {corpus} by {model}: {_one_line(skill.why) or 'kept'}.\n"
    )


def changes(before: Sequence[Skill], after: Sequence[Skill], *, gone: Mapping[str, str]) -> list[dict[str, str]]:
    """What differs between two sets, one row a skill: added, removed, refined, held or kept, with why.

    gone: by id, why a skill was removed; others are those of other settings.
    """
    old, new = {one.skill_id: one for one in before}, {one.skill_id: one for one in after}
    settings = "it was discovered with another model or other settings"
    rows = [
        {"skill_id": name, "change": "removed", "why": gone.get(name, settings)} for name in old if name not in new
    ]
    for name, one in new.items():
        changed = name in old and (old[name].instruction, old[name].domains) != (one.instruction, one.domains)
        kind = "added" if name not in old else "held" if one.held else "refined" if changed else "kept"
        rows.append({"skill_id": name, "change": kind, "why": one.why})
    return rows


def with_versions(before: Sequence[Skill], after: Sequence[Skill]) -> tuple[Skill, ...]:
    """`after` with each skill's version (1 when new, one more when what it says changed) and the latest why."""
    old = {one.skill_id: one for one in before}

    def version(one: Skill) -> int:
        if one.skill_id not in old:
            return 1
        return old[one.skill_id].version + (skills_version([one]) != skills_version([old[one.skill_id]]))

    def why(one: Skill) -> str:
        return one.why or (old[one.skill_id].why if one.skill_id in old else "")

    return tuple(replace(one, version=version(one), why=why(one)) for one in after)


def _joined(skill: Skill, row: dict[str, Any] | None) -> Skill:
    if row is None:
        return replace(skill, edited=True)
    said = (skill.name, skill.description, skill.instruction, list(skill.domains))
    written = (_one_line(row["name"]), _description(row["description"]), _body(row["instruction"]), row["domains"])
    edited = row["edited"] or said != written
    return replace(
        skill, edited=edited, version=row["version"], origin=row["origin"], clusters=tuple(row["clusters"]),
        why=row["why"],
    )


def _version_number(folder: Path, old: dict[str, Any] | None, new: dict[str, Any]) -> int:
    number = old["sequence"] if old else 0
    if old and old["version"] == new["version"]:
        return number
    _write(folder / "versions" / f"{number + 1:04d}.json", json.dumps(new, ensure_ascii=False, indent=1) + "\n")
    return number + 1


def _head(skill: Skill, corpus: str, model: str) -> dict[str, str]:
    return {
        "name": skill.skill_id, "description": _description(skill.description),
        "title": _one_line(skill.name), "corpus": corpus, "origin": skill.origin, "model": model,
        "version": str(skill.version), "pinned": "true" if skill.pinned else "false",
    }


def _parts(file: Path) -> tuple[dict[str, Any], str]:
    import yaml

    if file.parent.name in RESERVED:
        raise InputError(f"{file}: {file.parent.name!r} names something else here, give the folder another name")
    try:
        text = file.read_text(encoding="utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as problem:
        raise InputError(f"{file} is not UTF-8 ({problem.reason} at byte {problem.start}): convert it") from problem
    if not text.startswith("---\n") or "\n---\n" not in text:
        raise InputError(f"{file} has no front matter: begin it with ---, name, description, ---")
    front, body = text[4:].split("\n---\n", 1)
    try:
        head = yaml.safe_load(front)
    except yaml.YAMLError as problem:
        first = str(problem).splitlines()[0]
        raise InputError(f"{file}: the front matter is no YAML ({first}), correct it") from problem
    if not isinstance(head, dict) or not head.get("name") or not head.get("description"):
        raise InputError(f"{file}: the front matter lacks name or description, add it")
    if skill_id_of(str(head["name"])) != str(head["name"]):  # at most 64 characters, too
        raise InputError(f"{file}: name {head['name']!r:.80} is not lower-case letters, digits and single hyphens")
    if len(str(head["description"])) > MAX_DESCRIPTION:
        raise InputError(f"{file}: the description has more than {MAX_DESCRIPTION} characters, shorten it")
    return head, body


def _sections(body: str) -> dict[str, str]:
    parts = _SECTION.split(body)
    return {name.lower(): text.strip() for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def _body(text: str) -> str:
    """Text of a model as Markdown that cannot open a section of its own."""
    lines = (line.strip() for line in printable(text).splitlines())
    return "\n".join(re.sub(r"^(#+)", r"\\\1", line) for line in lines if line)


def _one_line(text: str) -> str:
    return " ".join(printable(text).split())


def _description(text: str) -> str:
    return _one_line(text)[:MAX_DESCRIPTION]


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(file)
