"""report.json and explorer data to index.html: auto-escaped templates, one style, one script, nothing loaded."""

import base64
import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

from markupsafe import Markup

from jobs.pages.exclusions import counted
from jobs.reports.drawn import Drawn
from jobs.reports.verdict import short
from jobs.reports.words import WORDS, words

TEMPLATES = Path(__file__).parent / "templates"
STATISTIC_NAMES = {
    "spearman": "Spearman",
    "kendall_b": "Kendall tau-b",
    "kendall_c": "Kendall tau-c",
    "pairwise_accuracy": "pairwise accuracy",
}


def render(report: dict[str, Any], explorer: dict[str, Any], drawn: dict[str, Drawn]) -> str:
    """The whole page. Texts of logs and judges reach it only through auto-escaping or inside the packed data block."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        short=short, percent=percent, span=span, count=count, p_value=p_value, words=words, counted=counted
    )
    style, script = ((TEMPLATES / n).read_text("utf-8") for n in ("report.css", "explorer.js"))
    return environment.get_template("report.html.j2").render(
        r=report,
        plots={n: {"title": d.title, "svg": Markup(d.svg)} for n, d in drawn.items()},  # XML that clean_svg wrote
        badges=badges(report),
        statistics=STATISTIC_NAMES,
        csp=policy(style, script),
        style=Markup(style),
        script=Markup(script),
        explorer=Markup(packed({**explorer, "words": WORDS})),
        n_pages=len(explorer["pages"]),
    )


def policy(style: str, script: str) -> str:
    """The content-security policy: this very style and script by hash, nothing else, nothing loaded or sent."""
    style_hash, script_hash = (
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)
    )
    return (
        f"default-src 'none'; style-src 'sha256-{style_hash}'; script-src 'sha256-{script_hash}';"
        " base-uri 'none'; form-action 'none'"
    )


def packed(explorer: dict[str, Any]) -> str:
    """Explorer data as a JSON object that holds gzip in base64: small, and no character of it can end the block."""
    raw = json.dumps(explorer, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode(
        "utf-8", "surrogatepass"
    )
    body = base64.b64encode(gzip.compress(raw, 6, mtime=0)).decode()
    return json.dumps({"encoding": "gzip+base64", "bytes": len(raw), "data": body})


def percent(value: float | None) -> str:
    """A share as per cent with three significant digits at most; a dash for None."""
    if value is None:
        return "–"
    scaled = 100 * value
    return f"{scaled:.0f}%" if abs(scaled) >= 99.95 or scaled == 0 else f"{scaled:.1f}%" if scaled >= 0.1 else "<.1%"


def span(low: float | None, high: float | None) -> str:
    """An interval, or a dash."""
    if low is None or high is None:
        return "–"
    return f"{short(low)} to {short(high)}"


def p_value(value: float | None) -> str:
    """A p value; the smallest ones as a bound."""
    return "–" if value is None else "<.001" if value < 0.001 else short(value)


def count(value: float | None) -> str:
    """A whole number with thousands separated, or a dash."""
    return "–" if value is None else f"{value:,.0f}"


def badges(report: dict[str, Any]) -> list[dict[str, str]]:
    """What a reader must know before believing anything: text, tone (plain, good, warn) and the explanation."""
    run, leak = report["run"], report["leakage"]
    found = []
    if run.get("simulated"):
        found.append(
            _badge(
                "simulated log",
                "warn",
                "All impressions come from a simulation with planted truth. "
                "Figures show that the method works on it, not how any real service behaves.",
            )
        )
    judge = run.get("judge") or "no judge"
    offline = judge == "offline-baseline"
    text = f"judge: {judge}" + (", not an LLM" if offline else f" {run.get('model') or ''}".rstrip())
    why = (
        "A fixed formula over embeddings and card values. It is not an LLM and says nothing about one."
        if offline
        else "The model that graded the pages; its prompts and parameters are named by hash in the manifest."
    )
    found.append(_badge(text, "warn" if offline else "plain", why))
    found.append(_leakage_badge(leak))
    found += [_curve_badge(c) for c in report["propensity"]]
    found.append(_unscored_badge(report))
    found.append(_gates_badge(report["gates"]))
    short_of = report["evidence"].get("short") or []
    if short_of:
        why = "; ".join(short_of) + ". Figures of grounded judges rest on less history than the settings ask for."
        found.append(_badge("short evidence", "warn", why))
    if leak.get("arrival_guarded") is False:
        found.append(
            _badge(
                "arrival unguarded",
                "warn",
                "A source carries no arrival time, so rows that arrived late "
                "cannot be told from rows known at the time.",
            )
        )
    return [*found, *(_badge("note", "warn", p) for p in run.get("problems", []) if p not in short_of)]


def _badge(text: str, tone: str, why: str) -> dict[str, str]:
    return {"text": text, "tone": tone, "why": why}


def _leakage_badge(leak: dict[str, Any]) -> dict[str, str]:
    if leak["checked"] is None:
        return _badge("leakage not audited", "plain", leak["reason"])
    clean = leak["violations"] == 0
    why = (
        "An independent audit re-derives from the tables that no card row breaks the rules on time, arrival, "
        "near-duplicates, exact matches, shared impressions, sensitive queries and minimum users."
    )
    return _badge(f"leakage: {leak['violations']:,} of {leak['checked']:,} checked", "good" if clean else "warn", why)


def _curve_badge(c: dict[str, Any]) -> dict[str, str]:
    name = c["corpus"] if c["segment"] is None else f"{c['corpus']} {c['segment']}"
    text = f"{name}: curve {'identified' if c['identified'] else 'not identified'}"
    return _badge(text, "good" if c["identified"] else "warn", f"{c['estimator']}: {c['reason']}")


def _gates_badge(gates: dict[str, Any]) -> dict[str, str]:
    failed = gates["failed"]
    if failed:
        return _badge(f"{len(failed)} gate{'s' if len(failed) > 1 else ''} failed", "warn", "; ".join(failed))
    limits = [g for name in ("min_spearman", "max_unscored") if (g := gates[name])["limit"] is not None]
    if all(g["value"] is None for g in limits):
        why = (
            "A limit is configured, but its figure does not exist in this run." if limits else "No limit is configured."
        )
        return _badge("no gate applies", "plain", why)
    return _badge("gates passed", "good", "Every configured limit is met; one whose figure does not exist is skipped.")


def _unscored_badge(report: dict[str, Any]) -> dict[str, str]:
    """Over all pages that a judge was asked about; evidence_only asks none and is told apart."""
    variants = report["health"]["variants"]
    judged = {v: h for v, h in variants.items() if v != "evidence_only"}
    pages, lost = sum(h["pages"] for h in judged.values()), {}
    for reason, n in (pair for h in judged.values() for pair in h["unscored"].items()):
        lost[reason] = lost.get(reason, 0) + n
    told = ", ".join(f"{words(reason)}: {n:,}" for reason, n in lost.items())
    told = told or ("Every page has a label under every variant that was judged." if pages else "No page was judged.")
    alone = variants.get("evidence_only")
    without = alone["pages"] - alone["with_value"] if alone and alone.get("with_value") is not None else 0
    if without:
        told += (
            f" Apart from them, {without:,} pages have no card, so evidence_only, which no judge makes, is undefined."
        )
    if not pages:
        return _badge("nothing judged", "plain", told)
    share = sum(lost.values()) / pages
    return _badge(f"unscored {percent(share)}", "warn" if share > 0.02 else "good", told)
