"""Writing a report: one folder with HTML, JSON, figures and exports, on disk or in a store."""

import gzip
import io
import json
from dataclasses import dataclass
from typing import Any

import polars as pl

from jobs.core.storage import Files
from jobs.reports import exports, figures
from jobs.reports.data import ReportData
from jobs.reports.render import render
from jobs.reports.svg import inline_svg

PNG_DPI = 160


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
    files: Files, folder: str, report: dict[str, Any], explorer: dict[str, Any], rows: Rows | None = None
) -> None:
    """Write index.html, report.json, explorer.json.gz, summary.md, figures/ and, with `rows`, exports/."""
    base = f"{folder}/" if folder else ""
    files.write_json(f"{base}report.json", report)
    files.write_bytes(f"{base}explorer.json.gz", _packed(explorer))
    files.write_bytes(f"{base}summary.md", exports.markdown(report).encode("utf-8", "surrogatepass"))
    _write_figures(files, base, report)
    if rows is not None:
        _write_exports(files, base, report, rows)
    files.write_bytes(f"{base}index.html", render(report, explorer).encode("utf-8", "replace"))


def read_explorer(files: Files, folder: str) -> dict[str, Any]:
    """explorer.json.gz of a report's folder."""
    base = f"{folder}/" if folder else ""
    return json.loads(gzip.decompress(files.read_bytes(f"{base}explorer.json.gz")))


def _packed(explorer: dict[str, Any]) -> bytes:
    body = json.dumps(explorer, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return gzip.compress(body.encode("utf-8", "surrogatepass"), 6, mtime=0)


def _write_figures(files: Files, base: str, report: dict[str, Any]) -> None:
    for d in figures.drawings(report):
        svg = inline_svg(d.figure, name=d.name, title=d.title, description=d.description)
        files.write_bytes(f"{base}figures/{d.name}.svg", svg.encode("utf-8", "replace"))
        image = io.BytesIO()
        d.figure.savefig(image, format="png", dpi=PNG_DPI, metadata={"Title": d.title, "Software": None})
        files.write_bytes(f"{base}figures/{d.name}.png", image.getvalue())


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
