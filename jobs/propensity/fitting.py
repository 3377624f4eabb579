"""Curves of one corpus of a run: Spark tasks gather sums by key range, the driver fits, thin segments borrow."""

import math
from dataclasses import replace
from datetime import date
from typing import Any

import polars as pl

from jobs.core.context import Context
from jobs.core.errors import InputError
from jobs.core.spark import run_tasks
from jobs.core.tables import DataFile
from jobs.propensity.curve import Curve, from_file
from jobs.propensity.estimate import MIN_QUERIES, Options, fit_summary, pairs_for, with_window
from jobs.propensity.estimators import PairCounts
from jobs.propensity.reading import days_of, deepest_rank, evidence_rows, window_files
from jobs.propensity.sample import LOWEST, Sample, sample_of, split
from jobs.propensity.segments import borrowed
from jobs.propensity.summary import COLUMNS, Summary, summarise

ROWS_A_FIT = 400_000  # rows of daily_counts that a task pairs up: each row may meet several ranks of its pair
_ALL = ""  # key of the pooled summary among those of the segments


def options_of(ctx: Context) -> Options:
    """The settings of [propensity] as fitting options."""
    s = ctx.settings.propensity
    return Options(
        estimator=s.estimator,
        eta=s.declared_eta,
        table=tuple(s.declared_table.items()),
        max_rank=s.max_rank,
        replicates=s.bootstrap,
        max_queries=s.sample_queries,
        floor=s.floor,
    )


def fit_corpus(ctx: Context, corpus: str) -> list[Curve]:
    """The corpus's curve, then one per segment where propensity.by_segment is set; each with its window."""
    files = window_files(ctx, "daily_counts", corpus)
    options = options_of(ctx)
    sample = sample_of(ctx, corpus, most=options.max_queries)
    start, end = _window(ctx, files)
    fitted = {}
    for segment, summary in _gather(ctx, corpus, files, sample, options).items():
        previous = last_good(ctx, corpus, segment or None) if options.estimator != "declared" else None
        pairs = _pairs(ctx, files, sample, options, segment)
        curve = with_note(fit_summary(summary, pairs=pairs, options=options, previous=previous), sample.note)
        fitted[segment] = with_window(curve, start=start, end=end, segment=segment or None)
    pooled = fitted.pop(_ALL)
    return [pooled, *borrowed(pooled, list(fitted.values()), floor=options.floor)]


def with_note(curve: Curve, note: str | None) -> Curve:
    """The curve with a note behind its reason."""
    return replace(curve, reason=f"{curve.reason}; {note}") if note else curve


def gather_range(spec: dict[str, Any]) -> dict[str, Any]:
    """Spark task: the summary of one key range, pooled and per segment, as text."""
    columns = [*COLUMNS, *(["segment"] if spec["by_segment"] else [])]
    rows = evidence_rows(spec, "daily_counts", columns=columns).collect()
    by = [c for c in columns if c not in ("impressions", "clicks")]
    rows = rows.group_by(by).agg(pl.sum("impressions"), pl.sum("clicks"))
    parts = {_ALL: rows}
    if spec["by_segment"]:
        named = rows.filter(pl.col("segment").is_not_null())
        parts |= {str(key[0]): part for key, part in named.partition_by("segment", as_dict=True).items()}
    return {name: _text(part, spec) for name, part in parts.items()}


def _text(rows: pl.DataFrame, spec: dict[str, Any]) -> str:
    pooled = rows.group_by(COLUMNS[:-2]).agg(pl.sum("impressions"), pl.sum("clicks"))
    few = spec["whole"] and pooled["query_key"].n_unique() < MIN_QUERIES
    found = summarise(pooled, max_rank=spec["max_rank"], replicates=spec["replicates"], unit="pair" if few else "query")
    return found.to_text()


def _gather(ctx: Context, corpus: str, files: list[DataFile], sample: Sample, options: Options) -> dict[str, Summary]:
    ranges = split(sample.high, tasks=math.ceil(sample.share * sum(file.rows for file in files) / ROWS_A_FIT))
    common = {
        "run": ctx.run,
        "daily_counts": files,
        "whole": len(ranges) < 2,
        "max_rank": options.max_rank,
        "replicates": options.replicates,
        "by_segment": ctx.settings.propensity.by_segment,
    }
    specs = [{**common, "range": part} for part in ranges]
    total: dict[str, Summary] = {}
    for result in run_tasks(ctx.spark, gather_range, specs, label=f"propensity of {corpus}"):
        for name, text in result.items():
            part = Summary.from_text(text)
            total[name] = total[name] + part if name in total else part
    return dict(sorted(total.items()))


def _pairs(ctx: Context, files: list[DataFile], sample: Sample, options: Options, segment: str):
    """Reads the pairs of pbm_em on call, of the sampled queries, summed over days."""

    def read() -> PairCounts:
        spec = {"run": ctx.run, "daily_counts": files, "range": (LOWEST, sample.high)}
        rows = evidence_rows(spec, "daily_counts", columns=[*COLUMNS, "segment"])
        rows = rows.filter(pl.col("segment") == segment) if segment else rows
        most = ctx.settings.spark.max_collected_rows
        sums = rows.group_by(COLUMNS[:-2]).agg(pl.sum("impressions"), pl.sum("clicks"))
        counts = sums.head(most + 1).collect()
        if counts.height > most:
            raise InputError(
                f"pbm_em would gather more rows than spark.max_collected_rows = {most:,}: lower"
                " propensity.sample_queries or raise that setting"
            )
        return pairs_for(counts, options)

    return read


def _window(ctx: Context, files: list[DataFile]) -> tuple[date, date]:
    """The evidence window, shortened to the first day that has data (a cold start)."""
    days = days_of(files)
    return (
        max(ctx.run.evidence.start, date.fromisoformat(days[0])) if days else ctx.run.evidence.start
    ), ctx.run.evidence.end


def last_good(ctx: Context, corpus: str, segment: str | None) -> Curve | None:
    """The newest identified curve of an earlier night, by the end of its window; None if there is none.

    Only windows that end no later than this run's count, so that a backfill never sees a later night.
    """
    rows = (
        ctx.store.read("propensities", where={"corpus": corpus})
        if ctx.store.version("propensities") is not None
        else None
    )
    if rows is None:
        return None
    same = pl.col("segment").is_null() if segment is None else pl.col("segment") == segment
    good = rows.filter(
        pl.col("identified"), same, pl.col("run") != ctx.run.key, pl.col("window_end") <= ctx.run.evidence.end
    ).sort("window_end", "run", descending=True)
    for key in good["run"].unique(maintain_order=True):
        path = f"runs/{key}/propensity/{corpus}.json"
        if ctx.store.exists(path):
            return _of_segment(ctx.store.read_json(path), segment)
    return None


def read_curves(ctx: Context, corpus: str) -> list[Curve]:
    """The curves that this run's propensity step wrote for a corpus: the pooled one first, then the segments'."""
    body = ctx.store.read_json(f"{ctx.folder}/propensity/{corpus}.json")
    segments = body.pop("segments", [])
    return [from_file(body), *map(from_file, segments)]


def _of_segment(body: dict[str, Any], segment: str | None) -> Curve | None:
    segments = body.pop("segments", [])
    found = [c for c in [body, *segments] if c["segment"] == segment]
    return from_file(found[0]) if found else None


def rows_of(ctx: Context, corpus: str, curves: list[Curve]) -> pl.DataFrame:
    """Rows of the propensities table: every rank to the deepest that was shown, so that no reader lacks one."""
    from schemas.catalog import table

    deepest = deepest_rank(window_files(ctx, "daily_counts", corpus))
    rows = [row for curve in curves for row in _curve_rows(ctx, corpus, curve, deepest)]
    return pl.DataFrame(rows, schema=table("propensities").polars())


def _curve_rows(ctx: Context, corpus: str, curve: Curve, deepest: int) -> list[dict[str, Any]]:
    common = {
        "run": ctx.run.key, "corpus": corpus, "curve_id": curve.curve_id, "segment": curve.segment,
        "estimator": curve.estimator, "window_start": curve.window[0], "window_end": curve.window[1],
        "identified": curve.identified, "reason": curve.reason,
    }  # fmt: skip
    deeper = range(len(curve.ranks) + 1, deepest + 1)
    none = {"raw": None, "isotonic": None, "standard_error": None, "low": None, "high": None, "pairs": 0,
    "impressions": 0, "clicks": 0, "source": "extrapolated"}  # fmt: skip
    more = [{**common, **none, "rank": k, "propensity": curve.at(k)} for k in deeper]
    return [{**common, **vars(rank)} for rank in curve.ranks] + more
