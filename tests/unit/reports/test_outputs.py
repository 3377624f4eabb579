"""Exports, comparison of runs, the site, the page's policy and the schema of report.json."""

import base64
import gzip
import hashlib
import html
import io
import itertools
import json
import re

import ir_measures
import numpy as np
import polars as pl
import pytest

from jobs.core.storage import Files
from jobs.reports.build import build
from jobs.reports.compare import compare, difference
from jobs.reports.data import RUN_HEAD, Options, ReportData
from jobs.reports.drawn import draw
from jobs.reports.explorer import explorer_data, merged, page_labels
from jobs.reports.exports import qrels, run_file, sidecar, strictly_falling, trec_rows, workbench
from jobs.reports.output import Rows, read_explorer, write_report
from jobs.reports.render import packed, render
from jobs.reports.rows import metric_rows
from jobs.reports.site import build_site, latest
from jobs.reports.summary import markdown, plain
from jobs.reports.svg import clean_svg
from schemas.metrics import METRICS
from schemas.report import problems
from tests.browser.hostile import HOSTILE
from tests.unit.reports.frames import judged, judgments, pages

FEW = Options(samples=100, min_slice=5)


def data(run="night-2026-11-20", n=40, seed=0):
    rng = np.random.default_rng(seed)
    truth = [float(t) for t in rng.random(n)]
    labels = {v: [float(np.clip(round(2 * (t + rng.normal(0, s))), 0, 2) / 2) for t in truth]
              for v, s in (("plain", 0.4), ("qri", 0.2))}  # fmt: skip
    labels["evidence_only"] = [float(np.clip(t + rng.normal(0, 0.2), 0, 1)) for t in truth]
    table, rows = judged(labels, truth, locale=["en", "de"] * (n // 2), human_label=[None, 0.5, None, 1.0] * (n // 4))
    return ReportData(run={**RUN_HEAD, "run": run, "judge": "offline-baseline"}, pages=table, judgments=rows)


def launch_data():
    rows = [{"page_id": f"l{q}{s}", "query_key": 900 + q, "system": s, "set": "launch", "variant": v,
             "label": (q % 3) / 2 if s == "a" else 0.5, "qri_count": q}
            for q in range(9) for s in "ab" for v in ("plain", "qri")]  # fmt: skip
    table = pages(
        *({"page_id": f"l{q}{s}", "query_key": 900 + q, "system": s, "set": "launch"} for q in range(9) for s in "ab")
    )
    return ReportData(run={**RUN_HEAD, "run": "launch-x"}, pages=table, judgments=judgments(*rows),
                      launch={"launch_id": "x", "start": "2026-12-01"})  # fmt: skip


def explorer(d):
    return explorer_data(run=d.run["run"], pages=d.pages, judgments=d.judgments, cards=d.cards)


@pytest.fixture(scope="module")
def report():
    return build(data(), FEW)


def test_reports_fit_their_schema(report):
    assert problems(report) == []
    assert problems(build(launch_data(), FEW)) == []
    assert problems(build(ReportData(run=RUN_HEAD), FEW)) == []
    assert problems({**report, "logs": {**report["logs"], "n_pages": "many"}})
    assert problems({k: v for k, v in report.items() if k != "leakage"})


def test_report_is_json_without_nan(report):
    assert json.loads(json.dumps(report, allow_nan=False)) == report


def test_metric_rows_fit_their_table(report):
    rows = metric_rows(report, run="night-2026-11-20")
    assert METRICS.problems(rows) == []
    cell = rows.filter(set="logs", subset="all", slice="all", variant="qri", statistic="spearman")
    assert cell["value"].item() == report["logs"]["variants"]["qri"]["all"]["spearman"]["value"]


def test_trec_files_are_read_by_ir_measures():
    table = pages(
        *({"page_id": p, "query_key": q, "query": f"text {q}"} for p, q in (("a", 1), ("b", 1), ("c", 1), ("d", 2)))
    )
    rows = judgments(
        *(
            {"page_id": p, "query_key": q, "label": x, "expected_label": e}
            for p, q, x, e in (("a", 1, 1.0, 0.9), ("b", 1, 0.5, 0.9), ("c", 1, 0.0, 0.95), ("d", 2, None, None))
        )
    )
    found = trec_rows(table, rows, variant="plain")
    assert qrels(found).splitlines() == [f"{1:016x} 0 a 2", f"{1:016x} 0 b 1", f"{1:016x} 0 c 0"]
    lines = [line.split() for line in run_file(found, tag="t").splitlines()]
    assert [(x[2], x[3]) for x in lines] == [("c", "1"), ("b", "2"), ("a", "3")], "ties by id, descending"
    sims = [float(x[4]) for x in lines]
    assert sims[0] > sims[1] > sims[2]
    read = ir_measures.calc_aggregate(
        [ir_measures.nDCG @ 10],
        ir_measures.read_trec_qrels(io.StringIO(qrels(found))),
        ir_measures.read_trec_run(io.StringIO(run_file(found, tag="t"))),
    )
    ideal, ours = (sum(g / np.log2(r + 2) for r, g in enumerate(x)) for x in ([2, 1, 0], [0, 1, 2]))
    assert read[ir_measures.nDCG @ 10] == pytest.approx(ours / ideal, abs=1e-4)
    assert json.loads(sidecar(found).splitlines()[0])["query"] == "text 1"


def test_similarities_fall_strictly():
    found = strictly_falling(np.array([1.0, 1.0, 1.0, 0.5, 0.5]))
    assert all(a > b for a, b in itertools.pairwise(found))


def test_workbench_import():
    table = pages({"page_id": "p", "items": [("x", "X"), ("y", "Y")]}, {"page_id": "q", "items": [("y", "Y")]})
    rows = judgments({"page_id": "p", "label": 1.0}, {"page_id": "q", "query_key": 1, "label": 0.0})
    table = table.with_columns(query=pl.lit("same"))
    found = workbench(trec_rows(table, rows, variant="plain"), name="n", description="d")
    assert found["type"] == "IMPORT_JUDGMENT"
    ratings = {r["docId"]: r["rating"] for r in found["judgmentRatings"][0]["ratings"]}
    assert ratings == {"x": "1", "y": f"{(1 / np.log2(3)) / (1 / np.log2(3) + 1):.4g}"}


def test_markdown_states_judge_and_verdict(report):
    text = markdown(report)
    assert "not an LLM" in text
    assert report["verdict"]["sentence"] in text
    assert "| `qri` |" in text


def marked(report, text):
    """The summary of a report in which every text that others wrote is `text`."""
    rows = [{**row, "variant": text} for row in report["ablation"]]
    run = {**report["run"], "judge": text, "problems": [text], "run": text}
    gates = {**report["gates"], "failed": [text]}
    return markdown({**report, "run": run, "ablation": rows, "gates": gates, "verdict": {"sentence": text}})


@pytest.mark.parametrize("hostile", [*HOSTILE, "gpt`4`", "a|b", "[x](http://evil)", "www.evil.example", "@everyone #1"])
def test_markdown_escapes_names_and_texts_of_others(report, hostile):
    text, tame = marked(report, hostile), marked(report, "tame")
    assert not re.search(r"[<>\\~@]|://|www\.|[\u2028\u202a-\u202e\u2066-\u2069\u200b\t\r]", text)
    for mark in ("`", "|", "[", "]", "*", "\n"):
        extra = 2 * tame.count("`tame`") if mark == "`" else 0
        assert text.count(mark) in (tame.count(mark), tame.count(mark) - extra), mark


def test_plain_text_keeps_its_meaning():
    assert html.unescape(plain("a_b [x](http://y) <i> & `z`\n| w")) == "a_b [x](http://y) <i> & `z` | w"


@pytest.mark.parametrize(
    ("why", "old", "new", "noise"),
    [
        ("far apart", (0.1, 0.05, 0.15), (0.4, 0.35, 0.45), False),
        ("overlapping", (0.1, 0.0, 0.2), (0.2, 0.1, 0.3), True),
        ("one undefined", (None, None, None), (0.2, 0.1, 0.3), True),
    ],
)
def test_differences_between_runs(why, old, new, noise):
    cells = [dict(zip(("value", "low", "high"), x, strict=True)) for x in (old, new)]
    assert difference(*cells)["within_noise"] == noise, why


def test_compare_names_flipped_pages(report):
    other = data(seed=5)
    after = build(other, FEW)
    labels = tuple(page_labels(explorer(d)) for d in (data(), other))
    found = compare(report, after, pages=labels)
    truly = sum(labels[0][p]["qri"] != labels[1][p]["qri"] for p in labels[0])
    assert found["pages"]["flips"]["qri"] == {
        "n": 40,
        "flipped": truly,
        "page_ids": found["pages"]["flips"]["qri"]["page_ids"],
    }
    assert len(found["pages"]["flips"]["qri"]["page_ids"]) == truly
    same = compare(report, report, pages=(labels[0], labels[0]))
    assert all(f["within_noise"] for f in same["figures"])
    assert same["pages"]["flips"]["qri"]["flipped"] == 0


def test_merged_explorers_keep_every_text():
    night, launch = data(), launch_data()
    both = merged(explorer(night), explorer(launch))
    assert len(both["pages"]) == 58
    place = {n: i for i, n in enumerate(both["columns"]["page"])}
    for page in both["pages"]:
        frame = launch.pages if page[place["run"]] == "launch-x" else night.pages
        row = frame.filter(pl.col("page_id") == page[place["page_id"]]).row(0, named=True)
        assert both["texts"][page[place["query"]]] == row["query"]
        assert [both["items"][i][0] for i, _, _ in page[place["items"]]] == [
            i["item_id"] for i in json.loads(row["items"])
        ]
    labels = page_labels(both)
    assert labels["l0a"] == {"plain": 0.0, "qri": 0.0}
    assert labels["p0"].keys() == {"plain", "qri", "evidence_only"}


def test_site_takes_the_latest_night_and_launch(tmp_path):
    files = Files(str(tmp_path))
    assert build_site(files) is None
    for d in (data(), data("night-2026-11-19", seed=3), launch_data()):
        write_report(files, f"reports/{d.run['run']}", build(d, FEW), explorer(d), Rows.of(d))
    files.write_json("launches/x/launch.json", {"start": "2026-12-01"})
    assert latest(files) == ("night-2026-11-20", "launch-x")
    assert build_site(files) == {"night": "night-2026-11-20", "launch": "launch-x"}
    site = files.read_json("site/report.json")
    assert (site["run"]["run"], site["launch"]["launch_id"]) == ("night-2026-11-20", "x")
    assert {r["variant"] for r in site["ablation"]} == {"plain", "qri", "evidence_only"}
    assert problems(site) == []
    assert len(read_explorer(files, "site")["pages"]) == 58
    assert files.exists("reports/night-2026-11-20/exports/rows.parquet")


def test_policy_allows_this_style_and_script_alone(report):
    page = render(report, explorer(data()), draw(report))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1].replace("&#39;", "'")
    for tag in ("style", "script"):
        body = re.search(rf"<{tag}>(.*?)</{tag}>", page, re.S)[1]
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert not re.search(r"<[^>]+\s(on\w+|style)=", re.sub(r"<script>.*?</script>", "", page, flags=re.S))
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", page)


def test_packed_data_cannot_end_its_block():
    text = packed({"pages": [], "x": "</script><script>alert(1)</script>\u2028"})
    assert "<" not in text
    assert json.loads(gzip.decompress(base64.b64decode(json.loads(text)["data"])))["x"].startswith("</script>")


def test_figures_carry_no_style_and_no_foreign_id(report):
    found = draw(report)
    assert {"tile-logs", "tile-human", "truth-by-label-logs", "label-share-logs", "qri-count"} <= set(found)
    for name, d in found.items():
        assert "style" not in re.sub(r">[^<]*<", "><", d.svg), name
        assert all(i.startswith(f"{name}-") for i in re.findall(r'\bid="([^"]*)"', d.svg)), name
        assert d.png.startswith(b"\x89PNG")


def test_svg_texts_stay_texts():
    raw = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 10 10"><g style="fill: #fff; background: url(x)"/></svg>'
    )
    found = clean_svg(raw, name="n", title="<script>alert(1)</script>", description="a & b")
    assert "&lt;script&gt;" in found
    assert 'fill="#fff"' in found
    assert "background" not in found
