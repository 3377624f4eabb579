"""Every figure of the report, drawn from report.json alone. Plain is blue, grounded orange, truth grey; shapes differ too."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

from jobs.reports.verdict import short

BLUE, ORANGE, GREY, INK, FAINT = "#2563a8", "#c8590a", "#7a7f87", "#1d2127", "#c9ced6"
LOOK = {
    "plain": (BLUE, "o"),
    "popularity": ("#8a6d00", "v"),
    "ctr": ("#7b4fa3", "^"),
    "qri": (ORANGE, "s"),
    "qri_unfiltered": ("#e39a66", "D"),
    "evidence_only": (GREY, "X"),
}
OTHERS = (("#4d7a3a", "P"), ("#a33a6b", "h"), ("#3a8a8a", "<"))
STYLE = {
    "font.family": "sans-serif",
    "font.size": 9,
    "text.parse_math": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "text.color": INK,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A figure with its file name, the finding as title, and a text for those who cannot see it."""

    name: str
    title: str
    description: str
    figure: Any


def look(variant: str, place: int = 0) -> tuple[str, str]:
    """Colour and marker of a variant."""
    return LOOK.get(variant) or OTHERS[place % len(OTHERS)]


def drawings(report: dict[str, Any]) -> Iterator[Drawing]:
    """All figures that the report has data for, in the order of its sections."""
    import matplotlib

    matplotlib.use("Agg")
    makers: tuple[Callable[[dict[str, Any]], Iterator[Drawing]], ...] = (
        _tiles, _windows, _truth_by_label, _label_share, _drops, _curve, _propensity, _counts,
    )  # fmt: skip
    with matplotlib.rc_context(STYLE):
        for make in makers:
            yield from make(report)


def _figure(width: float, height: float, columns: int = 1) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    return figure, figure.subplots(1, columns, sharey=columns > 1, squeeze=False)[0]


def _tiles(report: dict[str, Any]) -> Iterator[Drawing]:
    for part, who in (("logs", "users"), ("human", "people")):
        section = report[part]
        rows = [(v, _cell(x["all"]["spearman"])) for v, x in section["variants"].items()]
        rows = _shown(rows, section["baseline"], section["main"])
        paper = report["paper"][part]["all"]["spearman"]
        cap = (section["ceilings"].get("both") or {}).get("spearman")
        cap = cap or (section["ceilings"].get("labels", {}).get(section["main"]) or {}).get("spearman")
        if rows:
            title = f"Agreement with {who}, Spearman"
            yield _tile(f"tile-{part}", title, rows, paper=paper, ceiling=cap, zero=0.0)
    launch = report["launch"]
    rows = [(v, (x["half_credit"], x["half_credit_low"], x["half_credit_high"])) for v, x in launch["variants"].items()]
    rows = _shown([r for r in rows if r[1][0] is not None], "plain", "qri")
    if rows:
        ceiling = launch["online"]["ceiling"]
        yield _tile("tile-launch", "Same sign as the A/B test, half credit for ties", rows, paper={}, ceiling=ceiling, zero=0.5)


def _cell(cell: dict[str, Any]) -> tuple[float | None, float | None, float | None]:
    return cell["value"], cell["low"], cell["high"]


def _shown(rows: list, base: str | None, main: str | None) -> list:
    keep = {base, main, "evidence_only"}
    return [r for r in rows if r[0] in keep and r[1][0] is not None]


def _tile(name: str, title: str, rows: list, *, paper: dict, ceiling: float | None, zero: float) -> Drawing:
    figure, (axes,) = _figure(3.9, 1.55)
    for place, (variant, (value, low, high)) in enumerate(reversed(rows)):
        colour, marker = look(variant, place)
        if low is not None:
            axes.plot([low, high], [place, place], color=colour, linewidth=2)
        axes.plot(value, place, marker=marker, color=colour, markersize=8)
        axes.annotate(short(value), (value, place), xytext=(0, 7), textcoords="offset points", ha="center", color=colour)
        if paper.get(variant) is not None:
            axes.plot(paper[variant], place, marker="|", color=GREY, markersize=14, alpha=0.6)
    axes.axvline(zero, color=FAINT, linewidth=1)
    if ceiling is not None:
        axes.axvline(ceiling, color=GREY, linewidth=1, linestyle=":")
    axes.set_yticks(range(len(rows)), [_label(v) for v, _ in reversed(rows)])
    axes.set_ylim(-0.6, len(rows) - 0.1)
    axes.spines["left"].set_visible(False)
    axes.tick_params(left=False)
    told = "; ".join(f"{v}: {short(x[0])}, interval {short(x[1])} to {short(x[2])}" for v, x in rows)
    return Drawing(name=name, title=title, description=told, figure=figure)


def _label(variant: str) -> str:
    return {"qri": "grounded (qri)", "evidence_only": "evidence only"}.get(variant, variant)


def _windows(report: dict[str, Any]) -> Iterator[Drawing]:
    windows = report["run"].get("windows")
    if not windows:
        return
    start, end = (date.fromisoformat(x) for x in windows["evidence"])
    cut = date.fromisoformat(report["run"]["cut"])
    last = date.fromisoformat(windows["evaluation"][1]) if windows["evaluation"] else cut
    figure, (axes,) = _figure(5.2, 0.75)
    spans = [(start, end, ORANGE, "evidence"), (end, cut, FAINT, "gap"), (cut, last, BLUE, "evaluation")]
    for a, b, colour, text in spans:
        days = (b - a).days
        if days:
            axes.barh(0, days, left=(a - start).days, color=colour, height=0.5)
            ink = INK if colour == FAINT else "white"
            axes.text((a - start).days + days / 2, 0, f"{text} {days} d", ha="center", va="center", color=ink, fontsize=8)
    ticks = sorted({start, end, cut, last})
    axes.set_xticks([(t - start).days for t in ticks], [t.isoformat()[5:] for t in ticks], fontsize=7.5)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.margins(x=0)
    told = ", ".join(f"{text} {a} to {b}" for a, b, _, text in spans)
    yield Drawing(name="windows", title="Windows in UTC days, half-open", description=told, figure=figure)


def _truth_by_label(report: dict[str, Any]) -> Iterator[Drawing]:
    for part, who in (("logs", "users"), ("human", "people")):
        boxes = report["distributions"][part]["truth_by_label"]
        if not boxes or not any(boxes["all"].values()):
            continue
        figure, both = _figure(7.2, 3.0, 2)
        for axes, subset in zip(both, ("flipped", "all"), strict=True):
            _boxes(axes, boxes[subset], subset)
        both[0].set_ylabel("truth of " + who)
        title = _boxes_title(boxes["flipped"], who)
        yield Drawing(name=f"truth-by-label-{part}", title=title, description=_boxes_text(boxes), figure=figure)


def _boxes(axes: Any, by_variant: dict[str, list[dict[str, Any]]], subset: str) -> None:
    levels = sorted({b["label"] for boxes in by_variant.values() for b in boxes})
    for i, (variant, boxes) in enumerate(by_variant.items()):
        colour, _ = look(variant, i)
        stats = [{"whislo": b["low"], "q1": b["q1"], "med": b["median"], "q3": b["q3"], "whishi": b["high"]} for b in boxes]
        places = [levels.index(b["label"]) + (i - 0.5) * 0.38 for b in boxes]
        if stats:
            drawn = axes.bxp(stats, positions=places, widths=0.3, showfliers=False, patch_artist=True)
            for box in drawn["boxes"]:
                box.set(facecolor=colour, alpha=0.35 if i == 0 else 0.6, edgecolor=colour, hatch=None if i else "///")
            for line in (*drawn["medians"], *drawn["whiskers"], *drawn["caps"]):
                line.set(color=colour, linewidth=1.4)
    counts = sum(b["n"] for b in next(iter(by_variant.values()), []))
    axes.set_xticks(range(len(levels)), [f"{x:g}" for x in levels])
    axes.set_xlim(-0.6, max(len(levels), 1) - 0.4)
    axes.set_xlabel("label")
    axes.set_title(f"{'flipped pages' if subset == 'flipped' else 'all pages'}, n = {counts:,}")
    handles = [_swatch(v, i) for i, v in enumerate(by_variant)]
    axes.legend(handles=handles, loc="upper left", fontsize=8)


def _swatch(variant: str, place: int) -> Any:
    from matplotlib.patches import Patch

    colour, _ = look(variant, place)
    return Patch(facecolor=colour, alpha=0.35 if place == 0 else 0.6, edgecolor=colour, hatch=None if place else "///",
                 label=_label(variant))  # fmt: skip


def _boxes_title(flipped: dict[str, list[dict[str, Any]]], who: str) -> str:
    rises = {v: [b["median"] for b in boxes] for v, boxes in flipped.items() if len(boxes) > 1}
    grew = [v for v, medians in rises.items() if medians[-1] > medians[0]]
    if not rises:
        return f"Truth of {who} by label: no page flipped"
    names = " and ".join(_label(v) for v in grew)
    return f"On flipped pages the truth rises with the label of {names}" if grew else "On flipped pages no label tracks the truth"


def _boxes_text(boxes: dict[str, dict[str, list[dict[str, Any]]]]) -> str:
    return "; ".join(
        f"{subset}, {v}: " + ", ".join(f"label {b['label']:g} median {short(b['median'])} (n {b['n']})" for b in rows)
        for subset, by in boxes.items()
        for v, rows in by.items()
    )


def _label_share(report: dict[str, Any]) -> Iterator[Drawing]:
    for part, what in (("logs", "truth bucket of users"), ("human", "human label")):
        section, shares = report[part], report["distributions"][part]["label_share"]
        chosen = {v: shares[v] for v in (section["baseline"], section["main"]) if shares.get(v)}
        if not chosen:
            continue
        figure, both = _figure(7.2, 2.6, len(chosen))
        for i, (axes, (variant, buckets)) in enumerate(zip(both, chosen.items(), strict=True)):
            _stack(axes, buckets, look(variant, i)[0], _label(variant))
        both[0].set_ylabel("share of pages")
        told = "; ".join(f"{v}: " + _share_text(b) for v, b in chosen.items())
        yield Drawing(name=f"label-share-{part}", title=f"Share of each label by {what}", description=told, figure=figure)


def _stack(axes: Any, buckets: list[dict[str, Any]], colour: str, title: str) -> None:
    levels = list(buckets[0]["shares"])
    base = [0.0] * len(buckets)
    for i, level in enumerate(levels):
        heights = [b["shares"][level] for b in buckets]
        strength = 0.15 + 0.75 * i / max(1, len(levels) - 1)
        axes.bar(range(len(buckets)), heights, bottom=base, color=colour, alpha=strength, width=0.85, edgecolor="white",
                 label=f"label {level}")  # fmt: skip
        base = [x + y for x, y in zip(base, heights, strict=True)]
    names = [short(b["from"]) if b["from"] == b["to"] else f"{short(b['from'])}–{short(b['to'])}" for b in buckets]
    axes.set_xticks(range(len(buckets)), [f"{n}\nn {b['n']:,}" for n, b in zip(names, buckets, strict=True)], fontsize=7.5)
    axes.set_ylim(0, 1)
    axes.set_title(title, pad=16)
    axes.legend(fontsize=7, ncols=len(levels), loc="lower left", bbox_to_anchor=(0, 0.98), borderaxespad=0)


def _share_text(buckets: list[dict[str, Any]]) -> str:
    return ", ".join(f"{short(b['from'])} to {short(b['to'])}: " + " ".join(
        f"{k} {short(s)}" for k, s in b["shares"].items()) for b in buckets)  # fmt: skip


def _drops(report: dict[str, Any]) -> Iterator[Drawing]:
    found = report["logs"]["configurations"]
    if not found:
        return
    figure, (axes,) = _figure(7.2, 2.6)
    variants = [v for v in next(iter(found.values())) if v != "evidence_only"]
    for i, variant in enumerate(variants):
        colour, marker = (GREY, "*") if variant == "truth" else look(variant, i)
        for place, drops in enumerate(found.values()):
            cell, x = drops[variant], place + (i - (len(variants) - 1) / 2) * 0.11
            if cell["value"] is not None:
                axes.plot([x, x], [cell["low"], cell["high"]], color=colour, linewidth=1.6)
                label = _label(variant) if place == 0 else None
                axes.plot(x, cell["value"], marker=marker, color=colour, markersize=6, linestyle="none", label=label)
    axes.axhline(0, color=FAINT)
    axes.set_xticks(range(len(found)), [f"{k}\n{v['truth']['n']:,} pairs" for k, v in found.items()])
    axes.set_ylabel("good minus degraded")
    axes.legend(fontsize=8, ncols=6, loc="upper left", bbox_to_anchor=(0, 1.2))
    told = "; ".join(f"{k}: " + ", ".join(f"{v} {short(c['value'])}" for v, c in d.items()) for k, d in found.items())
    yield Drawing(name="label-drops", title="What a spoilt page costs it, by variant and on truth", description=told, figure=figure)


def _curve(report: dict[str, Any]) -> Iterator[Drawing]:
    launch = report["launch"]
    curves = {v: p for v, p in launch["evidence_curve"].items() if v in ("plain", "qri")} or launch["evidence_curve"]
    if not curves:
        return
    figure, (axes,) = _figure(7.2, 3.2)
    for i, (variant, points) in enumerate(curves.items()):
        colour, marker = look(variant, i)
        known = [p for p in points if p["low"] is not None]
        ts = [p["t"] for p in known]
        axes.fill_between(ts, [p["low"] for p in known], [p["high"] for p in known], color=colour, alpha=0.15, linewidth=0)
        axes.plot(ts, [p["preference"] for p in known], color=colour, marker=marker, markersize=4, label=_label(variant))
    axes.axhline(0, color=GREY, linewidth=1)
    _threshold_marks(axes, launch)
    axes.set_xlabel("queries whose smaller system has at least this qri_count")
    axes.set_ylabel("judged preference, A minus B")
    axes.legend(fontsize=8)
    _count_ticks(axes, next(iter(curves.values())))
    told = "; ".join(f"{v}: " + ", ".join(f"t {p['t']}: {short(p['preference'])}" for p in c[:12]) for v, c in curves.items())
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
            axes.annotate(f" {text} from {found[key]}", (found[key], 1 if key == "right_sign" else 0.92),
                          xycoords=("data", "axes fraction"), fontsize=8, color=ORANGE, va="top")  # fmt: skip


def _curve_title(launch: dict[str, Any]) -> str:
    found = launch["thresholds"].get("qri") or {}
    if found.get("significant") is not None:
        return f"Grounded points the right way beyond noise from qri_count {found['significant']}"
    if found.get("right_sign") is not None:
        return f"Grounded points the right way from qri_count {found['right_sign']}, within noise"
    return "Judged preference by evidence; " + (found.get("reason") or "no threshold yet")


def _propensity(report: dict[str, Any]) -> Iterator[Drawing]:
    curves = [c for c in report["propensity"] if c["ranks"]][:6]
    if not curves:
        return
    figure, (axes,) = _figure(7.2, 3.0)
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


def _counts(report: dict[str, Any]) -> Iterator[Drawing]:
    spread = report["evidence"]["qri_count"]
    if not spread:
        return
    figure, (axes,) = _figure(7.2, 2.0)
    axes.bar([k for k, _ in spread["histogram"]], [n for _, n in spread["histogram"]], color=ORANGE, width=0.85)
    axes.set_xlabel("card rows of a page (qri_count; 40 stands for 40 and more)")
    axes.set_ylabel("pages")
    share = 1 - spread["without"] / spread["n_pages"]
    title = f"{share:.0%} of {spread['n_pages']:,} pages carry evidence, half of them at least {spread['median']:g} rows"
    told = ", ".join(f"{k}: {n}" for k, n in spread["histogram"])
    yield Drawing(name="qri-count", title=title, description=told, figure=figure)
