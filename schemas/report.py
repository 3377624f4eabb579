"""The JSON schema of report.json, read from the file beside this module."""

import json
from pathlib import Path
from typing import Any

SCHEMA = Path(__file__).parent / "report_schema.json"


def report_schema() -> dict[str, Any]:
    """The schema (JSON Schema 2020-12)."""
    return json.loads(SCHEMA.read_text("utf-8"))


def problems(report: dict[str, Any]) -> list[str]:
    """Every place at which a report does not fit its schema, with its path; empty if it fits."""
    from jsonschema import Draft202012Validator

    found = Draft202012Validator(report_schema()).iter_errors(report)
    return sorted(f"{'.'.join(map(str, e.absolute_path)) or 'report'}: {e.message[:200]}" for e in found)
