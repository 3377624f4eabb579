"""Writing a report: one folder with HTML, JSON, figures and exports, on disk or in a store."""

import gzip
import json
from dataclasses import dataclass
from typing import Any

import polars as pl

from jobs.core.storage import Files
from jobs.reports import exports
from jobs.reports.data import ReportData
from jobs.reports.drawn import Drawn, draw, write_figures
from jobs.reports.render import render
from jobs.reports.summary import markdown


@dataclass(frozen=True, kw_only=True)
class Rows:
    """What the exports are made from; kept beside the report so that the site can be put together later."""

    pages: pl.DataFrame
    judgments: pl.DataFrame

    @classmethod
    def of(cls, data: ReportData) -> "Rows":
        """Pages and judgments of a report's data."""
        return cls(pages=data.pages, judgments=data.judgments)


def write_report(
    files: Files,
    folder: str,
    report: dict[str, Any],
    explorer: dict[str, Any],
    rows: Rows | None = None,
    drawn: dict[str, Drawn] | None = None,
) -> None:
    """Write index.html, report.json, explorer.json.gz, summary.md, figures/ and, with `rows`, exports/.

    `drawn` are figures that were drawn before; without it they are drawn here.
    """
    plots = draw(report) if drawn is None else drawn
    base = f"{folder}/" if folder else ""
    files.write_json(f"{base}report.json", report)
    files.write_bytes(f"{base}explorer.json.gz", _packed(explorer))
    files.write_bytes(f"{base}summary.md", markdown(report).encode("utf-8", "surrogatepass"))
    write_figures(files, f"{base}figures", plots)
    if rows is not None:
        _write_exports(files, base, report, rows)
    files.write_bytes(f"{base}index.html", render(report, explorer, plots).encode("utf-8", "replace"))


def read_explorer(files: Files, folder: str) -> dict[str, Any]:
    """explorer.json.gz of a report's folder."""
    base = f"{folder}/" if folder else ""
    return json.loads(gzip.decompress(files.read_bytes(f"{base}explorer.json.gz")))


def _packed(explorer: dict[str, Any]) -> bytes:
    body = json.dumps(explorer, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return gzip.compress(body.encode("utf-8", "surrogatepass"), 6, mtime=0)


def _write_exports(files: Files, base: str, report: dict[str, Any], rows: Rows) -> None:
    known = list({**report["logs"]["variants"], **report["human"]["variants"], **report["launch"]["variants"]})
    name = report["run"].get("run") or "files"
    listed = None
    for variant in known:
        table = exports.trec_rows(rows.pages, rows.judgments, variant=variant)
        listed = table if listed is None else pl.concat([listed, table])
        token = "".join(c if c.isalnum() or c in "-_" else "_" for c in variant)
        if variant != "evidence_only":
            files.write_bytes(f"{base}exports/qrels.{token}.txt", exports.qrels(table).encode())
            body = exports.workbench(
                table, name=f"hindcast {name} {variant}", description=_description(report, variant)
            )
            files.write_bytes(f"{base}exports/workbench.{token}.json", json.dumps(body, ensure_ascii=False).encode())
        files.write_bytes(f"{base}exports/run.{token}.txt", exports.run_file(table, tag=f"hindcast-{token}").encode())
    if listed is not None:
        files.write_bytes(
            f"{base}exports/ids.jsonl", exports.sidecar(listed.unique("page_id").sort("qid", "page_id")).encode()
        )
    files.write_bytes(f"{base}exports/rows.parquet", exports.all_rows(rows.pages, rows.judgments))


def _description(report: dict[str, Any], variant: str) -> str:
    run = report["run"]
    simulated = "simulated log, " if run.get("simulated") else ""
    return f"{simulated}variant {variant}, judge {run.get('judge')}, labels of whole pages spread over their items"
