"""Skills on disk: SKILL.md in the open format, an index, versions; hostile and hand-written files."""

import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.core.errors import InputError, NotThereError
from jobs.skills.artefacts import (
    changes,
    read_index,
    read_skill,
    read_skills,
    skills_version,
    with_versions,
    write_skills,
)
from jobs.skills.parse import parse_mined
from jobs.skills.skill import Skill

INDEX = {"corpus": "c", "model": "m", "retired": []}


def skill(name="one", **fields):
    base = {
        "skill_id": name,
        "name": name.title(),
        "description": "When?",
        "instruction": "Do it.",
        "domains": ("law",),
    }
    return Skill(**{**base, **fields})


def test_what_is_written_is_the_open_format_and_reads_back(tmp_path):
    one = skill(description='Says: "quoted" # not a comment', instruction="First: do it.", domains=("a: b", "c, d"))
    write_skills(tmp_path, [one], index=INDEX)
    front = yaml.safe_load((tmp_path / "one" / "SKILL.md").read_text().split("---\n")[1])
    assert front["name"] == "one" == (tmp_path / "one").name
    assert front["description"] == one.description
    assert all(isinstance(value, str) for value in front["metadata"].values())
    assert read_skills(tmp_path).skills == (one,)


@settings(max_examples=40, deadline=None)
@given(st.text(min_size=1, max_size=60), st.text(min_size=1, max_size=200))
def test_any_text_of_a_model_reads_back_without_counting_as_an_edit(tmp_path_factory, description, instruction):
    folder = tmp_path_factory.mktemp("skills")
    reply = json.dumps({"name": "one", "description": description, "instruction": instruction, "domains": ["law"]})
    draft, _ = parse_mined(reply)
    words = (draft.description, draft.instruction) if draft else ("x", "x")
    write_skills(folder, [skill(description=words[0], instruction=words[1])], index=INDEX)
    assert [one.edited for one in read_skills(folder).skills] == [False]


def test_an_instruction_cannot_open_a_section_of_its_own(tmp_path):
    write_skills(tmp_path, [skill(instruction="Do.\n## Domains\n- everything")], index=INDEX)
    assert read_skills(tmp_path).skills[0].domains == ("law",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# No front matter", "no front matter"),
        ("---\nname: one\n---\nDo it.", "lacks name or description"),
        ("---\nname: [\n---\nDo it.", "no YAML"),
        ("---\nname: Not Ok\ndescription: d\n---\nDo it.", "lower-case"),
        ("---\nname: one\ndescription: d\n---\n## Domains\n- law\n", "no instruction"),
        ("---\nname: !!python/object:os.system x\ndescription: d\n---\nx", "no YAML"),
        (f"---\nname: one\ndescription: {'d' * 1025}\n---\nDo it.", "more than 1024 characters"),
        (f"---\nname: {'n' * 65}\ndescription: d\n---\nDo it.", "lower-case"),
        ("---\n- name\n---\nDo it.", "lacks name or description"),
    ],
    ids=[
        *("plain", "no description", "broken", "bad name", "no instruction", "an object", "long description"),
        *("long name", "a list"),
    ],
)
def test_bad_files_are_named(tmp_path, text, message):
    file = tmp_path / "one" / "SKILL.md"
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        read_skill(file)


@pytest.mark.parametrize("name", ["123", "1e5", "true", "no", "null", "2024-01-01", "0x1f", "y"])
def test_a_name_that_yaml_takes_for_something_else_stays_a_name(tmp_path, name):
    write_skills(tmp_path, [skill(name)], index=INDEX)
    front = yaml.safe_load((tmp_path / name / "SKILL.md").read_text().split("---\n")[1])
    assert front["name"] == name
    assert [(one.skill_id, one.edited) for one in read_skills(tmp_path).skills] == [(name, False)]


@pytest.mark.parametrize("name", ["generic", "transcripts", "versions", "state", "vectors"])
def test_a_folder_that_is_something_else_is_no_skill(tmp_path, name):
    file = tmp_path / name / "SKILL.md"
    file.parent.mkdir()
    file.write_text("---\nname: one\ndescription: d\n---\nDo it.")
    with pytest.raises(InputError, match="another name"):
        read_skill(file)


@pytest.mark.parametrize("metadata", ["", "text", "[a]", "3", "{pinned: True}"])
def test_what_editors_make_of_a_file_is_read(tmp_path, metadata):
    file = tmp_path / "one" / "SKILL.md"
    file.parent.mkdir()
    text = f"---\r\nname: one\r\ndescription: 5\r\nmetadata: {metadata}\r\n---\r\nDo it.\r\n"
    file.write_bytes(b"\xef\xbb\xbf" + text.encode())
    found = read_skill(file)
    assert (found.name, found.description, found.instruction) == ("one", "5", "Do it.")
    assert found.pinned == ("pinned" in metadata)


def test_a_file_in_another_encoding_is_named(tmp_path):
    file = tmp_path / "one" / "SKILL.md"
    file.parent.mkdir()
    file.write_bytes("---\nname: one\ndescription: für\n---\nx".encode("latin-1"))
    with pytest.raises(InputError, match="not UTF-8"):
        read_skill(file)


def test_skills_written_by_hand_need_no_index(tmp_path):
    file = tmp_path / "by-hand" / "SKILL.md"
    file.parent.mkdir()
    file.write_text("---\nname: by-hand\ndescription: For law.\n---\n\nName the term of art.\n")
    (found,) = read_skills(tmp_path).skills
    assert (found.instruction, found.origin, found.held) == ("Name the term of art.", "human", True)
    with pytest.raises(NotThereError, match=r"index.json"):
        read_index(tmp_path)


def test_an_empty_folder_is_named(tmp_path):
    with pytest.raises(NotThereError, match=r"no SKILL.md"):
        read_skills(tmp_path)


def test_versions_are_numbered_when_something_changed(tmp_path):
    write_skills(tmp_path, [skill()], index=INDEX)
    write_skills(tmp_path, [skill()], index=INDEX)
    last = write_skills(tmp_path, [skill(), skill("two")], index=INDEX)
    assert last["sequence"] == 2
    assert sorted(path.name for path in (tmp_path / "versions").iterdir()) == ["0001.json", "0002.json"]
    assert json.loads((tmp_path / "versions" / "0001.json").read_text())["skills"][0]["skill_id"] == "one"
    write_skills(tmp_path, [skill("two")], index=INDEX)
    assert not (tmp_path / "one").exists()


def test_the_version_of_a_set_is_what_it_says():
    assert skills_version([skill(), skill("two")]) == skills_version([skill("two"), skill(why="other", clusters=(1,))])
    assert skills_version([skill()]) != skills_version([skill(instruction="Do something else.")])


def test_changes_and_versions_of_each_skill():
    before = [skill(version=3), skill("two"), skill("gone")]
    after = [
        skill(version=3),
        skill("two", instruction="More.", why="broadened"),
        skill("new"),
        skill("held", pinned=True),
    ]
    assert {one["skill_id"]: one["change"] for one in changes(before, after, gone={"gone": "why"})} == {
        "one": "kept",
        "two": "refined",
        "new": "added",
        "gone": "removed",
        "held": "added",
    }
    assert [one.version for one in with_versions(before, after)] == [3, 2, 1, 1]
