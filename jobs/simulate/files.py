"""Everything beside the log: catalogue, documents, labels, the A/B test, and under truth/ what was planted."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import polars as pl

from jobs.core.keys import key_hex
from jobs.simulate.config import launch_start
from jobs.simulate.dirt import KINDS as DIRT
from jobs.simulate.documents import make_library
from jobs.simulate.planted import LAUNCH_ID, Launch, human_pages, make_launch, page_rows, rater_labels
from jobs.simulate.sizes import CORPORA
from jobs.simulate.world import EXAMINATION, SEGMENTS, World
from jobs.simulate.write import UbiWriter


def write_catalogue(world: World, out: Path) -> dict[str, int]:
    """items/CORPUS.jsonl; returns the number of items by corpus."""
    for corpus, part in world.corpora.items():
        names = ("artist", "album", "market", "version")
        columns = ["item_id", "title", "type", *names]
        rows = (
            {
                "corpus": corpus,
                "item_id": i,
                "title": title,
                "type": type_,
                "metadata": dict(zip(names, rest, strict=True)),
            }
            for i, title, type_, *rest in part.items.select(columns).iter_rows()
        )
        write_lines(out / "items" / f"{corpus}.jsonl", rows)
    return {corpus: part.items.height for corpus, part in world.corpora.items()}


def write_documents(world: World, out: Path) -> dict[str, int]:
    """documents/, retrieval/ and truth/domains.json; returns the number of documents by corpus."""
    counts, domains = {}, {}
    for corpus in world.corpora:
        library = make_library(seed=world.seed, corpus=corpus, documents=world.size.documents)
        write_lines(out / "documents" / f"{corpus}.jsonl", library.documents)
        write_lines(out / "retrieval" / f"{corpus}.queries.jsonl", library.queries)
        write_lines(out / "retrieval" / f"{corpus}.qrels.jsonl", library.qrels)
        counts[corpus], domains[corpus] = len(library.documents), library.domain_of
    write_json(out / "truth" / "domains.json", domains)
    return counts


def write_labels(world: World, out: Path) -> int:
    """labels/CORPUS.jsonl, one line per page and rater, and truth/human.jsonl; returns the number of pages."""
    total, truth = 0, []
    for corpus in world.corpora:
        pages = human_pages(world, corpus=corpus, count=round(world.size.labels * CORPORA[corpus]))
        labels, raters = rater_labels(world, pages)
        rows = page_rows(world, pages, set_="human", prefix="human", system=None, instance=0)
        lines = [
            {"query": row["query"], "locale": row["locale"], "corpus": corpus, "context": None, "items": row["items"],
             "label": label, "rater": f"rater-{rater}"}
            for row, given, by in zip(rows, labels.tolist(), raters.tolist(), strict=True)
            for label, rater in zip(given, by, strict=True)
        ]  # fmt: skip
        write_lines(out / "labels" / f"{corpus}.jsonl", lines)
        truth += [
            {
                "corpus": corpus,
                "query_key": row["query_key"],
                "relevance": r,
                "items": [i["item_id"] for i in row["items"]],
            }
            for row, r in zip(rows, pages.relevance.tolist(), strict=True)
        ]
        total += len(rows)
    write_lines(out / "truth" / "human.jsonl", truth)
    return total


def write_launch(world: World, out: Path) -> dict[str, Any]:
    """launch/ with both systems' pages and the outcome, and truth/launch.json with the planted winner."""
    tests = [make_launch(world, corpus=c, queries=round(world.size.launch_queries * CORPORA[c])) for c in world.corpora]
    folder = out / "launch"
    for system in ("a", "b"):
        rows = [
            row for t in tests for (s, i), pages in sorted(t.pages.items()) if s == system
            for row in page_rows(world, pages, set_="launch", prefix=f"launch-{system}", system=system, instance=i)
        ]  # fmt: skip
        write_lines(folder / f"pages-{system}.jsonl", rows)
    write_lines(folder / "outcomes.jsonl", (row for t in tests for row in _outcomes(world, t)))
    write_json(folder / "launch.json", {
        "launch_id": LAUNCH_ID, "start": launch_start(), "pages_a": "launch/pages-a.jsonl",
        "pages_b": "launch/pages-b.jsonl", "outcomes": "launch/outcomes.jsonl", "simulated": True,
        "a": "ranker of text and fame, in use", "b": "ranker that has learnt from behaviour",
    })  # fmt: skip
    truth = _launch_truth(world, tests)
    write_json(out / "truth" / "launch.json", truth)
    return {"queries": sum(len(t.query) for t in tests), "winner": truth["winner"]}


def write_truth(world: World, out: Path) -> None:
    """truth/examination.json, relevance.parquet and world.json."""
    write_json(out / "truth" / "examination.json", {
        corpus: {
            "eta": EXAMINATION[corpus],
            "ranks": part.examination[0].astype(float).round(6).tolist(),
            "segments": _segments(world, part.examination),
        }
        for corpus, part in world.corpora.items()
    })  # fmt: skip
    frames = [planted_relevance(world, corpus=corpus) for corpus in world.corpora]
    pl.concat(frames).write_parquet(out / "truth" / "relevance.parquet", compression="zstd")
    write_json(out / "truth" / "world.json", {
        "seed": world.seed, "size": world.size.name, "simulated": True,
        "rankers": [vars(r) for r in world.rankers],
        "kinds": {c: dict(sorted(p.queries.group_by("kind").len().iter_rows())) for c, p in world.corpora.items()},
    })  # fmt: skip


def planted_relevance(world: World, *, corpus: str) -> pl.DataFrame:
    """corpus, locale, query, query_key, item_id, item_key, relevance: one row per query and candidate item."""
    part = world.corpora[corpus]
    pool = part.pool[part.intent_of]
    places = np.repeat(np.arange(len(pool)), pool.shape[1])
    queries = part.queries.select("locale", "query", "query_key", "kind")[places]
    items = part.items.select("item_id", "item_key")[pool.ravel()]
    values = pl.Series("relevance", part.relevance.ravel().astype(np.float64))
    return pl.concat([queries, items], how="horizontal").select(pl.lit(corpus).alias("corpus"), pl.all(), values)


def write_dirt(writers: dict[str, UbiWriter], out: Path, *, hits: int) -> dict[str, Any]:
    """truth/dirty.json: exact counts of every kind of line that reached the log, by corpus."""
    body = {corpus: _dirt(writer, hits) for corpus, writer in writers.items()}
    write_json(out / "truth" / "dirty.json", body)
    return body


def write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """JSON lines, folders made as needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))


def write_json(path: Path, body: Any) -> None:
    """One JSON document, indented."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(orjson.dumps(body, option=orjson.OPT_INDENT_2) + b"\n")


def _segments(world: World, curves: np.ndarray) -> dict[str, list[float]]:
    if not world.size.segments:
        return {}
    return {name: curve.astype(float).round(6).tolist() for name, curve in zip(SEGMENTS, curves, strict=True)}


def _dirt(writer: UbiWriter, hits: int) -> dict[str, Any]:
    kinds = writer.kinds
    return {
        "documents": sum(kinds.values()),
        "dirty": {name: {"lines": kinds[name], "expected": d.expected} for name, d in DIRT.items()},
        "valid_in_unusual_form": dict(sorted(writer.forms.items())),
        "arrived_on_a_later_day": dict(sorted(writer.late.items())),
        "listed_and_displayed": kinds["query_displayed"],
        "bot_impressions": kinds["bot_query"] * hits,
        "impressions": kinds["query"] * hits + kinds["impression"],
        "clicks": kinds["click"],
        "days": len(writer.days),
        "not_yet_arrived": writer.not_arrived,
    }


def _outcomes(world: World, test: Launch) -> list[dict[str, Any]]:
    keys = world.corpora[test.corpus].queries["query_key"].gather(test.query)
    columns = zip(keys, test.measured["a"].tolist(), test.measured["b"].tolist(), test.views.tolist(), strict=True)
    return [
        {"query_key": key_hex(key), "system_a": a, "system_b": b, "n_a": n, "n_b": n,
         "standard_error_a": _error(a, n), "standard_error_b": _error(b, n)}
        for key, a, b, n in columns
    ]  # fmt: skip


def _error(share: float, n: int) -> float:
    """Of a share, with one success and one failure more than seen: no success is no certainty."""
    shrunk = (share * n + 1) / (n + 2)
    return (shrunk * (1 - shrunk) / n) ** 0.5


def _launch_truth(world: World, tests: list[Launch]) -> dict[str, Any]:
    rows = [
        {"corpus": t.corpus, "query_key": key_hex(key), "a": a, "b": b}
        for t in tests
        for key, a, b in zip(
            world.corpora[t.corpus].queries["query_key"].gather(t.query),
            t.planted["a"].tolist(), t.planted["b"].tolist(), strict=True,
        )
    ]  # fmt: skip
    difference = sum(r["b"] - r["a"] for r in rows) / len(rows)
    wins = sum(r["b"] > r["a"] for r in rows)
    return {
        "launch_id": LAUNCH_ID, "winner": "b" if difference > 0 else "a", "mean_difference": difference,
        "queries": len(rows), "queries_on_which_b_is_better": wins, "by_query": rows,
    }  # fmt: skip
