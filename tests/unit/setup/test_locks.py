"""The committed locks: what pyproject.toml asks for, by hash, without download addresses."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
GROUPS = PROJECT["dependency-groups"] | {"local-llm": PROJECT["project"]["optional-dependencies"]["local-llm"]}
LOCKS = {"tools": "tools", "jobs": "jobs", "dev": "jobs-dev", "airflow": "airflow", "airflow-dev": "airflow-dev",
         "object-store": "object-store", "audit": "audit", "local-llm": "local-llm"}  # fmt: skip
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", re.MULTILINE)


def _text(lock: str) -> str:
    return (ROOT / "requirements" / f"{lock}.txt").read_text()


def _wanted(group: str) -> list[Requirement]:
    found = []
    for entry in GROUPS[group]:
        found += _wanted(entry["include-group"]) if isinstance(entry, dict) else [Requirement(entry)]
    return found


def test_every_group_has_its_lock() -> None:
    assert set(GROUPS) == set(LOCKS)
    assert {path.stem for path in (ROOT / "requirements").iterdir()} == set(LOCKS.values())


@pytest.mark.parametrize("group", sorted(LOCKS))
def test_a_lock_fits_its_group(group: str) -> None:
    pins: dict[str, list[str]] = {}
    for name, version in PIN.findall(_text(LOCKS[group])):
        pins.setdefault(name, []).append(version)
    unmet = [str(r) for r in _wanted(group) if not any(r.specifier.contains(v) for v in pins.get(r.name.lower(), []))]
    assert unmet == [], "run `make lock`"


@pytest.mark.parametrize("lock", sorted(LOCKS.values()))
def test_a_lock_holds_hashes_and_no_addresses(lock: str) -> None:
    text = _text(lock)
    assert "://" not in text
    entries = re.split(r"\n(?=[A-Za-z0-9])", text.strip())
    assert [entry.split("==")[0] for entry in entries if "--hash=sha256:" not in entry] == []


def test_the_two_sparks_never_meet() -> None:
    assert "pyspark-client==" not in _text("jobs-dev")
    assert re.search(r"^pyspark==", _text("airflow-dev"), re.MULTILINE) is None


@pytest.mark.parametrize(("small", "large"), [("jobs", "jobs-dev"), ("airflow", "airflow-dev")])
def test_development_adds_packages_and_changes_none(small: str, large: str) -> None:
    assert set(PIN.findall(_text(small))) <= set(PIN.findall(_text(large)))
