"""The report on one page of Markdown, for chat and pull requests; names and texts of others are escaped."""

import re
import unicodedata
from collections.abc import Iterator
from typing import Any

from jobs.reports.verdict import short


def markdown(report: dict[str, Any], *, link: str = "index.html") -> str:
    """The report on one page of Markdown, for chat and pull requests."""
    return "\n".join(_markdown_lines(report, link)) + "\n"


def _markdown_lines(report: dict[str, Any], link: str) -> Iterator[str]:
    run = report["run"]
    simulated = "**Simulated log.** " if run.get("simulated") else ""
    offline = " (not an LLM)" if run.get("judge") == "offline-baseline" else ""
    yield f"## Hindcast {plain(run.get('run') or 'report')}"
    yield ""
    yield f"{simulated}**{plain(report['verdict']['sentence'])}**"
    yield ""
    yield f"Judge: {_code(run.get('judge') or 'none')}{offline}. Leakage: {_leaks(report['leakage'])}. [Report]({link})"
    yield ""
    yield "| variant | users: Spearman | people: Spearman | A/B: half credit |"
    yield "|---|---|---|---|"
    for row in report["ablation"]:
        cells = (_code(row["variant"]), _interval(row["logs"]), _interval(row["human"]), _half_credit(row["launch"]))
        yield f"| {' | '.join(cells)} |"
    yield ""
    for failed in report["gates"]["failed"]:
        yield f"- Gate failed: {plain(failed)}"
    for problem in [*run["problems"], *(c for c in report["launch"].get("cautions", []) if c not in run["problems"])]:
        yield f"- Note: {plain(problem)}"
    for part, title in (("logs", "users"), ("human", "people")):
        s = report[part]
        if s["variants"]:
            rate = short(s["flip_rate"])
            yield f"- {title}: {s['n_pages']:,} pages, {s['n_queries']:,} queries, flip rate {rate}"
    yield f"- Intervals: 95%, bootstrap over queries ({run['samples']:,} samples, seed {run['seed']})"


def _interval(cell: dict[str, Any] | None) -> str:
    if cell is None or cell["value"] is None:
        return "–"
    return f"{short(cell['value'])} ({short(cell['low'])} to {short(cell['high'])})"


def _half_credit(launch: dict[str, Any] | None) -> str:
    if launch is None or launch.get("half_credit") is None:
        return "–"
    return f"{short(launch['half_credit'])} ({short(launch['half_credit_low'])} to {short(launch['half_credit_high'])})"


def _leaks(leakage: dict[str, Any]) -> str:
    if leakage["checked"] is None:
        return "not audited"
    return f"{leakage['violations']:,} violations of {leakage['checked']:,} rows checked"


def _code(text: str) -> str:
    """A name as code where it looks like one, else as plain text: a code span cannot hold a backtick."""
    return f"`{text}`" if _NAME.fullmatch(text) else plain(text)


def plain(text: str) -> str:
    """Text of others on one line, in which no Markdown, HTML or bare address is left: such characters as entities."""
    line = " ".join("".join(" " if unicodedata.category(c) in _UNSEEN else c for c in text).split())
    return _MARKUP.sub(lambda found: "".join(f"&#{ord(c)};" for c in found[0]), line)


_NAME = re.compile(r"(?!.*www)[A-Za-z0-9][A-Za-z0-9 .+_-]*")
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
_MARKUP = re.compile(r"[\\`*_\[\]<>|#~&@$]|:(?=//)|(?<=www)\.", re.IGNORECASE)
