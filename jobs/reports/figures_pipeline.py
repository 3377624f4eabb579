"""Figures of windows, evidence, curves and launches; from report.json alone."""

from collections.abc import Iterator
from datetime import date
from typing import Any

from jobs.reports.figure_kit import BLUE, FAINT, GREY, INK, ORANGE, Drawing, label_of, look, new_figure
from jobs.reports.verdict import short


def windows(report: dict[str, Any]) -> Iterator[Drawing]:
    windows = report["run"].get("windows")
    if not windows:
        return
    start, end = (date.fromisoformat(x) for x in windows["evidence"])
    cut = date.fromisoformat(report["run"]["cut"])
    last = date.fromisoformat(windows["evaluation"][1]) if windows["evaluation"] else cut
    figure, (axes,) = new_figure(5.2, 0.75)
    spans = [(start, end, ORANGE, "evidence"), (end, cut, FAINT, "gap"), (cut, last, BLUE, "evaluation")]
    for a, b, colour, text in spans:
        days = (b - a).days
        if days:
            axes.barh(0, days, left=(a - start).days, color=colour, height=0.5)
            ink = INK if colour == FAINT else "white"
            axes.text(
                (a - start).days + days / 2, 0, f"{text} {days} d", ha="center", va="center", color=ink, fontsize=8
            )
    ticks = sorted({start, end, cut, last})
    axes.set_xticks([(t - start).days for t in ticks], [t.isoformat()[5:] for t in ticks], fontsize=7.5)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.margins(x=0)
    told = ", ".join(f"{text} {a} to {b}" for a, b, _, text in spans)
    yield Drawing(name="windows", title="Windows in UTC days, half-open", description=told, figure=figure)


def curve(report: dict[str, Any]) -> Iterator[Drawing]:
    launch = report["launch"]
    curves = {v: p for v, p in launch["evidence_curve"].items() if v in ("plain", "qri")} or launch["evidence_curve"]
    if not curves:
        return
    figure, (axes,) = new_figure(7.2, 3.2)
    for i, (variant, points) in enumerate(curves.items()):
        colour, marker = look(variant, i)
        known = [p for p in points if p["low"] is not None]
        ts = [p["t"] for p in known]
        axes.fill_between(
            ts, [p["low"] for p in known], [p["high"] for p in known], color=colour, alpha=0.15, linewidth=0
        )
        axes.plot(
            ts, [p["preference"] for p in known], color=colour, marker=marker, markersize=4, label=label_of(variant)
        )
    axes.axhline(0, color=GREY, linewidth=1)
    _threshold_marks(axes, launch)
    axes.set_xlabel("queries whose smaller system has at least this qri_count")
    axes.set_ylabel("judged preference, A minus B")
    axes.legend(fontsize=8)
    _count_ticks(axes, next(iter(curves.values())))
    told = "; ".join(
        f"{v}: " + ", ".join(f"t {p['t']}: {short(p['preference'])}" for p in c[:12]) for v, c in curves.items()
    )
    yield Drawing(name="evidence-curve", title=_curve_title(launch), description=told, figure=figure)


def _count_ticks(axes: Any, points: list[dict[str, Any]]) -> None:
    """Counts per system at some of the thresholds, under the axis."""
    step = max(1, len(points) // 8)
    chosen = points[::step]
    labels = [f"{p['t']}\nA {p['n_queries_a']}\nB {p['n_queries_b']}" for p in chosen]
    axes.set_xticks([p["t"] for p in chosen], labels, fontsize=7.5)


def _threshold_marks(axes: Any, launch: dict[str, Any]) -> None:
    found = launch["thresholds"].get("qri") or {}
    for key, text in (("right_sign", "right sign"), ("significant", "significant")):
        if found.get(key) is not None:
            axes.axvline(found[key], color=ORANGE, linewidth=1, linestyle=":" if key == "right_sign" else "--")
            axes.annotate(
                f" {text} from {found[key]}",
                (found[key], 1 if key == "right_sign" else 0.92),
                xycoords=("data", "axes fraction"),
                fontsize=8,
                color=ORANGE,
                va="top",
            )


def _curve_title(launch: dict[str, Any]) -> str:
    found = launch["thresholds"].get("qri") or {}
    if found.get("significant") is not None:
        return f"Grounded points the right way beyond noise from qri_count {found['significant']}"
    if found.get("right_sign") is not None:
        return f"Grounded points the right way from qri_count {found['right_sign']}, within noise"
    return "Judged preference by evidence; " + (found.get("reason") or "no threshold yet")


def propensity(report: dict[str, Any]) -> Iterator[Drawing]:
    curves = [c for c in report["propensity"] if c["ranks"]][:6]
    if not curves:
        return
    figure, (axes,) = new_figure(7.2, 3.0)
    dashes = ("-", "--", ":", "-.")
    for i, c in enumerate(curves):
        ranks = [r["rank"] for r in c["ranks"]]
        values = [r["propensity"] for r in c["ranks"]]
        errors = [1.96 * (r["standard_error"] or 0) for r in c["ranks"]]
        name = c["corpus"] if c["segment"] is None else f"{c['corpus']} · {c['segment']}"
        label = f"{name} ({c['estimator']}{'' if c['identified'] else ', not identified'})"
        colour = (ORANGE, BLUE, "#7b4fa3", "#4d7a3a", "#8a6d00", GREY)[i]
        low, high = ([v + s * e for v, e in zip(values, errors, strict=True)] for s in (-1, 1))
        axes.fill_between(ranks, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(ranks, values, color=colour, linestyle=dashes[i % 4], marker="o", markersize=3.5, label=label)
    axes.set_ylim(0, None)
    axes.set_xlabel("rank")
    axes.set_ylabel("examination, relative to rank 1")
    axes.legend(fontsize=8)
    known = sum(c["identified"] for c in curves)
    title = f"Examination by rank: {known} of {len(curves)} curves identified from the log"
    told = "; ".join(f"{c['corpus']}: " + ", ".join(short(r["propensity"]) for r in c["ranks"]) for c in curves)
    yield Drawing(name="propensity", title=title, description=told, figure=figure)


def counts(report: dict[str, Any]) -> Iterator[Drawing]:
    spread = report["evidence"]["qri_count"]
    if not spread:
        return
    figure, (axes,) = new_figure(7.2, 2.0)
    axes.bar([k for k, _ in spread["histogram"]], [n for _, n in spread["histogram"]], color=ORANGE, width=0.85)
    axes.set_xlabel("card rows of a page (qri_count; 100 stands for 100 and more)")
    axes.set_ylabel("pages")
    share = 1 - spread["without"] / spread["n_pages"]
    title = (
        f"{share:.0%} of {spread['n_pages']:,} pages carry evidence, half of them at least {spread['median']:g} rows"
    )
    told = ", ".join(f"{k}: {n}" for k, n in spread["histogram"])
    yield Drawing(name="qri-count", title=title, description=told, figure=figure)
