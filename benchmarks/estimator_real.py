"""Real click logs, read where they are and skipped where they are not: their reference curves are published with
them.
"""

import time
from collections.abc import Iterable
from concurrent.futures import Executor
from pathlib import Path

import numpy as np

from benchmarks.lines import Line, at_most, holds
from jobs.propensity.curve import Curve
from jobs.propensity.estimate import Options, fit
from jobs.propensity.logfile import read_impressions

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
YANDEX = DATA / "yandex_wscd_20q" / "trainSample_impressions.csv.gz"
YANDEX_COLUMNS = "query=query_id,item=doc_id,rank=position,click=clicked,page=serp_id"
BANDIT = [DATA / "open_bandit_small" / f"random_{part}.csv.gz" for part in ("all", "men", "women")]
EM = np.array([1, 0.740, 0.613, 0.513, 0.388, 0.340, 0.318, 0.258, 0.272, 0.255])
ADJACENT = np.array([1, 0.748, 0.644, 0.556, 0.438, 0.378, 0.343, 0.278, 0.276, 0.247])


def real(pool: Executor) -> Iterable[Line]:
    """The Yandex sample against its reference curves, and a random policy without position effect."""
    yield from (
        _yandex() if YANDEX.exists() else [Line("Yandex sample", "skipped", note=f"no {YANDEX.parent.name} here")]
    )
    yield from _bandit() if BANDIT[0].exists() else [Line("Open Bandit", "skipped", note="no open_bandit_small here")]


def _yandex() -> Iterable[Line]:
    counts = read_impressions([str(YANDEX)], columns=YANDEX_COLUMNS)
    for start in (0.0, 0.1, 0.5, 0.9):
        begun = time.monotonic()
        curve = fit(counts, options=Options(estimator="pbm_em", start=start, replicates=0))
        seconds = time.monotonic() - begun
        yield at_most(
            f"Yandex, pbm_em from {start:g}: largest distance", _distance(curve, EM), 0.01, note=f"{seconds:.2f} s"
        )
    for pairs in (False, True):
        curve = fit(counts, options=Options(estimator="allpairs", adjacent=pairs))
        name = "Yandex, allpairs over " + ("neighbours" if pairs else "all pairs")
        yield at_most(f"{name}: largest distance", _distance(curve, ADJACENT), 0.1)
        warned = any("exogenous" in w for w in curve.warnings)
        yield holds(f"{name}: says what it takes as exogenous", truth=warned, figure="said" if warned else "not said")


def _distance(curve: Curve, reference: np.ndarray) -> float:
    return float(np.abs(np.array([r.raw for r in curve.ranks]) - reference).max())


def _bandit() -> Iterable[Line]:
    counts = read_impressions(
        [str(p) for p in BANDIT], columns="item=item_id,rank=position,click=click", randomised=True
    )
    curve = fit(counts)
    flat = all(r.low <= 1 <= r.high for r in curve.ranks)
    shown = " ".join(f"{r.low:.2f}-{r.high:.2f}" for r in curve.ranks[1:])
    yield holds("Open Bandit, random policy: intervals contain a flat curve", truth=flat, figure=shown)
    warned = any("wide intervals" in w for w in curve.warnings)
    yield holds("Open Bandit: warns of the intervals' width", truth=warned, figure="said" if warned else "not said")
