"""Contracts as they were published (published_contracts.json) against those of now: they only gain nullable columns.

`python -m tests.contracts.test_frozen_contracts` publishes what is declared now, after it has passed.
"""

import json
from pathlib import Path

import pytest

from schemas.catalog import TABLES

PATH = Path(__file__).with_name("published_contracts.json")
PUBLISHED = json.loads(PATH.read_text(encoding="utf-8")) if PATH.exists() else {}
WAY = "give the new column nullable=True and since=N, and the table version=N; anything else needs a new table"


def declared() -> dict:
    """What is published of each contract."""
    return {
        name: {
            "version": spec.version,
            "partition": list(spec.partition),
            "key": spec.key,
            "fields": [{k: f[k] for k in ("name", "type", "nullable")} for f in spec.spark_json()["fields"]],
        }
        for name, spec in TABLES.items()
    }


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_a_published_contract_only_gains_nullable_columns(name):
    before = PUBLISHED[name]
    assert name in TABLES, f"{name} was published: a table is not dropped"
    spec = TABLES[name]
    new, wrong = spec.evolution(before["fields"], before["partition"])
    assert wrong == [] and spec.strangers(before["fields"]) == [], WAY
    assert spec.key == before["key"], WAY
    assert [n for n in new if spec.column(n).since <= before["version"]] == [], WAY
    assert spec.version > before["version"] or not new, WAY


def test_every_declared_table_was_published_or_is_new():
    assert set(PUBLISHED) <= set(TABLES) and len(PUBLISHED) >= 15


if __name__ == "__main__":
    PATH.write_text(json.dumps(declared(), indent=1) + "\n", encoding="utf-8")
