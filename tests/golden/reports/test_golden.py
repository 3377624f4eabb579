"""The golden report: fixed judgments in, the same figures out. HINDCAST_REBUILD_GOLDEN=1 writes them anew."""

import json
import os
import random
from pathlib import Path

import pytest
from scipy.stats import kendalltau, spearmanr

from jobs.reports.build import build
from jobs.reports.data import Options
from jobs.reports.files import from_files

HERE = Path(__file__).parent
EXPECTED = HERE / "expected.json"


@pytest.fixture(scope="module")
def report() -> dict:
    params = json.loads((HERE / "params.json").read_text())
    data = from_files(**{n: HERE / f"{n}.jsonl" for n in ("judgments", "truth", "outcomes")})
    return build(data, Options(**params))


def figures(report: dict) -> dict:
    """Every number of the report by its path; counts of the whole report, not a selection."""
    found: dict = {}

    def walk(value, path: str) -> None:
        if isinstance(value, dict):
            for k, v in value.items():
                walk(v, f"{path}.{k}")
        elif isinstance(value, list):
            for i, v in enumerate(value):
                walk(v, f"{path}[{i}]")
        elif isinstance(value, int | float) or value is None:
            found[path] = value

    walk({k: v for k, v in report.items() if k not in ("run", "paper")}, "")
    return found


def test_figures_are_the_expected_ones(report):
    found = figures(report)
    if os.environ.get("HINDCAST_REBUILD_GOLDEN"):
        EXPECTED.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n")
    expected = json.loads(EXPECTED.read_text())
    assert found.keys() == expected.keys()
    wrong = {k for k in found if found[k] != pytest.approx(expected[k], abs=1e-9)}
    assert not wrong


@pytest.mark.parametrize("variant", ["plain", "ctr", "qri"])
def test_rho_and_tau_are_scipys(report, variant):
    truth = {r["page_id"]: r["truth"] for r in map(json.loads, (HERE / "truth.jsonl").open())}
    rows = [r for r in map(json.loads, (HERE / "judgments.jsonl").open()) if r["variant"] == variant]
    pairs = [
        (r["label"], truth[r["page_id"]])
        for r in rows
        if truth.get(r["page_id"]) is not None and r["label"] is not None
    ]
    labels, truths = zip(*pairs, strict=True)
    ours = report["logs"]["variants"][variant]["all"]
    assert ours["n"] == len(pairs) >= 147
    assert ours["spearman"]["value"] == pytest.approx(spearmanr(labels, truths).statistic, abs=1e-12)
    assert ours["kendall_b"]["value"] == pytest.approx(kendalltau(labels, truths).statistic, abs=1e-12)
    assert ours["kendall_c"]["value"] == pytest.approx(kendalltau(labels, truths, variant="c").statistic, abs=1e-12)


def test_order_of_rows_and_number_of_workers_change_nothing(report, tmp_path):
    rng = random.Random(3)
    for name in ("judgments", "truth", "outcomes"):
        lines = (HERE / f"{name}.jsonl").read_text().splitlines(keepends=True)
        rng.shuffle(lines)
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))
    params = json.loads((HERE / "params.json").read_text())
    data = from_files(**{n: tmp_path / f"{n}.jsonl" for n in ("judgments", "truth", "outcomes")})
    found, expected = figures(build(data, Options(**params, workers=5))), figures(report)
    assert found.keys() == expected.keys()
    known = {k for k, v in expected.items() if v is not None}
    assert {k for k in known if found[k] != pytest.approx(expected[k], abs=1e-12, rel=1e-12)} == set()
    assert {k for k, v in found.items() if v is not None} == known
