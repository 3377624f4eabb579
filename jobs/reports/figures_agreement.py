"""Figures of agreement: tiles of the first screen, truth by label, label shares, label drops (report.json alone)."""

from collections.abc import Iterator
from typing import Any

from jobs.reports.figure_kit import FAINT, GREY, Drawing, label_of, look, new_figure, tint
from jobs.reports.verdict import short


def tiles(report: dict[str, Any]) -> Iterator[Drawing]:
    for part, who in (("logs", "users"), ("human", "people")):
        section = report[part]
        rows = [(v, _cell(x["all"]["spearman"])) for v, x in section["variants"].items()]
        rows = _shown(rows, section["baseline"], section["main"])
        paper = report["paper"][part]["all"]["spearman"]
        cap = _ceiling(section)
        if rows:
            title = f"Agreement with {who}, Spearman"
            yield _tile(f"tile-{part}", title, rows, paper=paper, ceiling=cap, zero=0.0)
    yield from _launch_tile(report["launch"])


def _launch_tile(launch: dict[str, Any]) -> Iterator[Drawing]:
    """Alignment with the outcome where it is known, else the forecast's preference."""
    rows = [(v, (x["half_credit"], x["half_credit_low"], x["half_credit_high"])) for v, x in launch["variants"].items()]
    rows = _shown([r for r in rows if r[1][0] is not None], "plain", "qri")
    if rows:
        ceiling = launch["online"]["ceiling"]
        yield _tile(
            "tile-launch", "Same sign as the A/B test, half credit for ties", rows, paper={}, ceiling=ceiling, zero=0.5
        )
        return
    told = (launch["forecast"] or {}).get("variants") or {}
    rows = _shown([(v, (x["preference"], x["low"], x["high"])) for v, x in told.items()], "plain", "qri")
    if rows:
        yield _tile("tile-launch", "Forecast: preference A minus B", rows, paper={}, ceiling=None, zero=0.0)


def _ceiling(section: dict[str, Any]) -> float | None:
    """The cap of labels and truth together where the truth's errors are right on average, else that of the labels."""
    caps = section["ceilings"]
    if caps.get("errors_unbiased") and caps["both"]:
        return caps["both"]["spearman"]
    return (caps.get("labels", {}).get(section["main"]) or {}).get("spearman")


def _cell(cell: dict[str, Any]) -> tuple[float | None, float | None, float | None]:
    return cell["value"], cell["low"], cell["high"]


def _shown(rows: list, base: str | None, main: str | None) -> list:
    keep = {base, main, "evidence_only"}
    return [r for r in rows if r[0] in keep and r[1][0] is not None]


def _tile(name: str, title: str, rows: list, *, paper: dict, ceiling: float | None, zero: float) -> Drawing:
    figure, (axes,) = new_figure(3.9, 1.55)
    for place, (variant, (value, low, high)) in enumerate(reversed(rows)):
        colour, marker = look(variant, place)
        if low is not None:
            axes.plot([low, high], [place, place], color=colour, linewidth=2)
        axes.plot(value, place, marker=marker, color=colour, markersize=8)
        axes.annotate(
            short(value), (value, place), xytext=(0, 7), textcoords="offset points", ha="center", color=colour
        )
        if paper.get(variant) is not None:
            axes.plot(paper[variant], place, marker="|", color=GREY, markersize=14, alpha=0.6)
    axes.axvline(zero, color=FAINT, linewidth=1)
    if ceiling is not None:
        axes.axvline(ceiling, color=GREY, linewidth=1, linestyle=":")
    axes.set_yticks(range(len(rows)), [label_of(v) for v, _ in reversed(rows)])
    axes.set_ylim(-0.6, len(rows) - 0.1)
    axes.spines["left"].set_visible(False)
    axes.tick_params(left=False)
    told = "; ".join(f"{v}: {short(x[0])}, interval {short(x[1])} to {short(x[2])}" for v, x in rows)
    return Drawing(name=name, title=title, description=told, figure=figure)


def truth_by_label(report: dict[str, Any]) -> Iterator[Drawing]:
    for part, who in (("logs", "users"), ("human", "people")):
        boxes = report["distributions"][part]["truth_by_label"]
        if not boxes or not any(boxes["all"].values()):
            continue
        figure, both = new_figure(7.2, 3.0, 2)
        for axes, subset in zip(both, ("flipped", "all"), strict=True):
            _boxes(axes, boxes[subset], subset)
        both[0].set_ylabel("truth of " + who)
        title = _boxes_title(boxes["flipped"], who)
        yield Drawing(name=f"truth-by-label-{part}", title=title, description=_boxes_text(boxes), figure=figure)


def _boxes(axes: Any, by_variant: dict[str, list[dict[str, Any]]], subset: str) -> None:
    levels = sorted({b["label"] for boxes in by_variant.values() for b in boxes})
    for i, (variant, boxes) in enumerate(by_variant.items()):
        colour, _ = look(variant, i)
        stats = [
            {"whislo": b["low"], "q1": b["q1"], "med": b["median"], "q3": b["q3"], "whishi": b["high"]} for b in boxes
        ]
        places = [levels.index(b["label"]) + (i - 0.5) * 0.38 for b in boxes]
        if stats:
            drawn = axes.bxp(stats, positions=places, widths=0.3, showfliers=False, patch_artist=True)
            for box in drawn["boxes"]:
                box.set(facecolor=tint(colour, 0.3 if i == 0 else 0.55), edgecolor=colour, hatch=None if i else "///")
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
    face = tint(colour, 0.3 if place == 0 else 0.55)
    return Patch(facecolor=face, edgecolor=colour, hatch=None if place else "///", label=label_of(variant))


def _boxes_title(flipped: dict[str, list[dict[str, Any]]], who: str) -> str:
    rises = {v: [b["median"] for b in boxes] for v, boxes in flipped.items() if len(boxes) > 1}
    if not rises:
        return f"Truth of {who} by label: no page flipped"
    grew = [v for v, medians in rises.items() if medians[-1] > medians[0]]
    names = " and ".join(label_of(v) for v in grew)
    return (
        f"On flipped pages the truth rises with the label of {names}"
        if grew
        else "On flipped pages no label tracks the truth"
    )


def _boxes_text(boxes: dict[str, dict[str, list[dict[str, Any]]]]) -> str:
    return "; ".join(
        f"{subset}, {v}: " + ", ".join(f"label {b['label']:g} median {short(b['median'])} (n {b['n']})" for b in rows)
        for subset, by in boxes.items()
        for v, rows in by.items()
    )


def label_share(report: dict[str, Any]) -> Iterator[Drawing]:
    for part, what in (("logs", "truth bucket of users"), ("human", "human label")):
        section, shares = report[part], report["distributions"][part]["label_share"]
        chosen = {v: shares[v] for v in (section["baseline"], section["main"]) if shares.get(v)}
        if not chosen:
            continue
        figure, both = new_figure(7.2, 2.6, len(chosen))
        for i, (axes, (variant, buckets)) in enumerate(zip(both, chosen.items(), strict=True)):
            _stack(axes, buckets, look(variant, i)[0], label_of(variant))
        both[0].set_ylabel("share of pages")
        told = "; ".join(f"{v}: " + _share_text(b) for v, b in chosen.items())
        yield Drawing(
            name=f"label-share-{part}", title=f"Share of each label by {what}", description=told, figure=figure
        )


def _stack(axes: Any, buckets: list[dict[str, Any]], colour: str, title: str) -> None:
    levels = list(buckets[0]["shares"])
    base = [0.0] * len(buckets)
    for i, level in enumerate(levels):
        heights = [b["shares"][level] for b in buckets]
        strength = 0.15 + 0.75 * i / max(1, len(levels) - 1)
        axes.bar(
            range(len(buckets)),
            heights,
            bottom=base,
            color=colour,
            alpha=strength,
            width=0.85,
            edgecolor="white",
            label=f"label {level}",
        )
        base = [x + y for x, y in zip(base, heights, strict=True)]
    names = [short(b["from"]) if b["from"] == b["to"] else f"{short(b['from'])}–{short(b['to'])}" for b in buckets]
    axes.set_xticks(
        range(len(buckets)), [f"{n}\nn {b['n']:,}" for n, b in zip(names, buckets, strict=True)], fontsize=7.5
    )
    axes.set_ylim(0, 1)
    axes.set_title(title, pad=16)
    axes.legend(fontsize=7, ncols=len(levels), loc="lower left", bbox_to_anchor=(0, 0.98), borderaxespad=0)


def _share_text(buckets: list[dict[str, Any]]) -> str:
    return ", ".join(
        f"{short(b['from'])} to {short(b['to'])}: " + " ".join(f"{k} {short(s)}" for k, s in b["shares"].items())
        for b in buckets
    )


def drops(report: dict[str, Any]) -> Iterator[Drawing]:
    found = report["logs"]["configurations"]
    if not found:
        return
    figure, (axes,) = new_figure(7.2, 2.6)
    variants = [v for v in next(iter(found.values())) if v != "evidence_only"]
    for i, variant in enumerate(variants):
        colour, marker = (GREY, "*") if variant == "truth" else look(variant, i)
        for place, drops in enumerate(found.values()):
            cell, x = drops[variant], place + (i - (len(variants) - 1) / 2) * 0.11
            if cell["value"] is not None:
                axes.plot([x, x], [cell["low"], cell["high"]], color=colour, linewidth=1.6)
                label = label_of(variant) if place == 0 else None
                axes.plot(x, cell["value"], marker=marker, color=colour, markersize=6, linestyle="none", label=label)
    axes.axhline(0, color=FAINT)
    axes.set_xticks(range(len(found)), [f"{k}\n{v['truth']['n']:,} pairs" for k, v in found.items()])
    axes.set_ylabel("good minus degraded")
    axes.legend(fontsize=8, ncols=6, loc="upper left", bbox_to_anchor=(0, 1.2))
    told = "; ".join(f"{k}: " + ", ".join(f"{v} {short(c['value'])}" for v, c in d.items()) for k, d in found.items())
    yield Drawing(
        name="label-drops",
        title="What a spoilt page costs it, by variant and on truth",
        description=told,
        figure=figure,
    )
