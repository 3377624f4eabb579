"""Writes the golden inputs: simulated judgments of 150 pages and of a launch, their truth and the launch's outcome.

Run `python -m tests.golden.reports.inputs` after a change here, then rebuild the expected figures (test_golden.py).
"""

import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
PAGES = 150
QUERIES = 40
NOISE = {"plain": 0.30, "ctr": 0.24, "qri": 0.16}


def label(score: float) -> float:
    """One of 0, 0.5, 1."""
    return float(np.clip(np.round(2 * score), 0, 2) / 2)


def key(number: int) -> str:
    """A query key as files spell it."""
    return f"{(number + 1) * 0x9E3779B97F4A7C15 % 2**64:016x}"


def logs(rng: np.random.Generator) -> tuple[list[dict], list[dict]]:
    """Judgments and truths: two in three queries have one page, the others a good and a degraded one."""
    judged, truths = [], []
    for i in range(PAGES):
        query, degraded = i * 4 // 5, (i * 4) % 5 == 0 and i % 5 == 0
        truth = float(rng.beta(2, 2))
        shared = truth + rng.normal(0, 0.2)
        page = {"page_id": f"page-{i:03d}", "query_key": key(query)}
        rows = int(rng.poisson(5)) if i % 9 else 0
        same = {**page, "set": "logs", "corpus": "tracks", "configuration": "low" if degraded else "good",
                "qri_count": rows, "model": "golden"}  # fmt: skip
        labels = {v: label(shared + rng.normal(0, s)) for v, s in NOISE.items()}
        for variant, value in labels.items():
            reused = variant != "plain" and not rows
            lost = variant == "qri" and i in (17, 58)
            judged.append({**same, "variant": variant, "label": None if lost else labels["plain"] if reused else value,
                           "reason": "refusal" if lost else None, "reused_from_plain": reused,
                           "rationale": f"grade of {page['page_id']}"})  # fmt: skip
        card = round(float(np.clip(truth + rng.normal(0, 0.25), 0, 1)), 4) if rows else None
        judged.append({**same, "variant": "evidence_only", "label": None, "expected_label": card})
        truths.append({**page, "truth": None if i == 149 else round(truth, 6), "corpus": "tracks",
                       "truth_standard_error": round(0.05 + 0.05 * float(rng.random()), 4),
                       "locale": ("en", "de", "es")[i % 3],
                       "human_label": label(truth + rng.normal(0, 0.15)) if i % 3 == 0 else None})  # fmt: skip
    return judged, truths


def launch(rng: np.random.Generator) -> tuple[list[dict], list[dict]]:
    """Judgments of systems a and b, three instances each, and the outcome: b is better by half a spread."""
    judged, results = [], []
    for q in range(QUERIES):
        gap = rng.normal(-0.15, 0.3)
        for system, side in (("a", 0.5), ("b", -0.5)):
            for instance in range(3):
                rows = int(rng.poisson(6))
                for variant in ("plain", "qri"):
                    weight = 0.2 if variant == "plain" else 0.2 + 0.1 * min(rows, 8)
                    score = 0.5 + side * gap * weight * 2 + rng.normal(0, 0.25)
                    judged.append({"page_id": f"launch-{q:02d}-{system}{instance}", "query_key": key(1000 + q),
                                   "set": "launch", "system": system, "instance": instance, "corpus": "tracks",
                                   "qri_count": rows, "variant": variant, "model": "golden",
                                   "label": label(score)})  # fmt: skip
        online = gap + rng.normal(0, 0.1)
        results.append({"query_key": key(1000 + q), "system_a": round(0.4 + online / 2, 6),
                        "system_b": round(0.4 - online / 2, 6), "standard_error_a": 0.07,
                        "standard_error_b": 0.07})  # fmt: skip
    return judged, results


def main() -> None:
    """Write the three files."""
    rng = np.random.default_rng(20260701)
    judged, truths = logs(rng)
    more, results = launch(rng)
    for name, rows in (("judgments", judged + more), ("truth", truths), ("outcomes", results)):
        (HERE / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows), "utf-8")


if __name__ == "__main__":
    main()
