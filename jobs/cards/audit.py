"""The leakage audit: from the daily tables up, does any card row break a rule? Independent of the builder.

Nothing of the windows' filters, the evidence step or the card builder is used: dates come from the run's manifest,
counts and users are summed again from the daily tables, cosines are computed again from the texts.
"""

from collections import Counter
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import polars as pl

from jobs.cards.thresholds import thresholds
from jobs.core.context import Context
from jobs.core.embedding import Encoder, embedder_for
from jobs.core.errors import InputError, LeakageError
from jobs.core.keys import key_hex, with_item_key
from jobs.core.normalise import normalise_query
from jobs.core.sensitive import is_sensitive, sensitive_patterns
from jobs.core.tables import DataFile, scan_files
from schemas.logs import DAILY_COUNTS, DAILY_USERS

KINDS = ("time", "arrival", "shared_impression", "unexplained", "near_duplicate", "exact_match", "sensitive", "rare")
"""What may be wrong with a row; `unexplained`: its counts, similarity or page are not in the tables."""

EXAMPLES = 20
TOLERANCE = 1e-4  # of a stored similarity: models may run on another processor than the one that stored it
SET_SIZE = 1024  # user hashes that the daily sets hold at most: a union of that size has at least as many users


@dataclass(frozen=True, kw_only=True)
class Dates:
    """The run's windows as its manifest states them; evaluation is empty for a launch."""

    evidence: tuple[date, date]
    evaluation: tuple[date, date] | None
    cut: date
    as_of: date

    @classmethod
    def of(cls, manifest: dict[str, Any]) -> "Dates":
        """Read from a manifest."""
        day = date.fromisoformat
        windows = manifest["windows"]
        pair = windows["evaluation"]
        return cls(
            evidence=(day(windows["evidence"][0]), day(windows["evidence"][1])),
            evaluation=(day(pair[0]), day(pair[1])) if pair else None,
            cut=day(manifest["cut"]),
            as_of=day(manifest["as_of"]),
        )


def run(ctx: Context) -> dict[str, Any]:
    """Audit the run's cards, write audit.json, record it; LeakageError (exit code 1) if a row breaks a rule."""
    cards = _cards(ctx)
    pages = ctx.read("pages", run=ctx.run.key)
    found = violations(ctx, cards, pages, encoder=embedder_for(ctx.settings))
    result = summary(ctx, cards, found)
    ctx.store.write_json(f"{ctx.folder}/cards/audit.json", result)
    ctx.record("cards.audit", {name: result[name] for name in ("checked", "violations", "kinds")})
    if result["violations"]:
        kinds = ", ".join(f"{n} {kind}" for kind, n in result["kinds"].items() if n)
        raise LeakageError(
            f"{result['violations']} of {result['checked']} card rows of {ctx.run.key} leak ({kinds}):"
            f" nothing is judged; see {ctx.store.documents.uri(ctx.folder)}/cards/audit.json"
        )
    return result


def _cards(ctx: Context) -> pl.DataFrame:
    """The run's cards, unless they are more rows than this process may hold."""
    files = ctx.store.files("cards", version=ctx.table_version("cards"), where={"run": ctx.run.key})
    rows, most = sum(file.rows for file in files), ctx.settings.spark.max_collected_rows
    if rows > most:
        raise InputError(
            f"the audit of {ctx.run.key} would gather {rows:,} card rows, more than spark.max_collected_rows ="
            f" {most:,}: lower pages.queries or evidence.top_k, or raise that setting"
        )
    return ctx.read("cards", run=ctx.run.key)


def violations(ctx: Context, cards: pl.DataFrame, pages: pl.DataFrame, *, encoder: Encoder) -> pl.DataFrame:
    """Every broken rule: kind, set, page_id, item_id, query_key, one row each.

    Rows that no card shows (`dropped`) are held to the same rules: the table is read by people and explains itself.
    """
    texts = _page_texts(pages)
    rows = with_item_key(cards).join(texts, on=["set", "page_id"], how="inner", maintain_order="left")
    strangers = cards.join(texts, on=["set", "page_id"], how="anti")
    checks = [*_texts_of(ctx, rows, encoder), *_counts_of(ctx, rows), *_users_of(ctx, rows)]
    hidden = cards.filter(is_sensitive(sensitive_patterns(ctx.settings)))
    found = [_marked(rows.filter(broken), kind) for kind, broken in checks]
    return pl.concat([*found, _marked(hidden, "sensitive"), _marked(strangers, "unexplained")])


def summary(ctx: Context, cards: pl.DataFrame, found: pl.DataFrame) -> dict[str, Any]:
    """What audit.json says: counts, the first examples by key (never by text), and what filters dropped before."""
    manifest = ctx.manifest()
    kinds = Counter(found["kind"].to_list())
    steps = manifest["steps"]
    corpora = steps.get("evidence", {}).get("corpora", {}).values()
    examples = [{**row, "query_key": key_hex(row["query_key"])} for row in found.head(EXAMPLES).to_dicts()]
    return {
        "run": ctx.run.key,
        "checked": cards.height,
        "violations": found.select("set", "page_id", "item_id", "query_key").n_unique() if found.height else 0,
        "kinds": {kind: kinds.get(kind, 0) for kind in KINDS},
        "examples": examples,
        "dropped_near_duplicates": steps.get("cards", {}).get("near_duplicate"),
        "dropped_exact_matches": steps.get("cards", {}).get("exact_match"),
        "dropped_rare": _sum_of(corpora, "dropped_rare"),
        "dropped_sensitive": _sum_of(corpora, "dropped_sensitive"),
        "arrival_guarded": _arrival_guarded(ctx, steps),
        "windows": manifest["windows"],
        "cut": manifest["cut"],
    }


def _texts_of(ctx: Context, rows: pl.DataFrame, encoder: Encoder) -> list[tuple[str, pl.Series]]:
    """Near-duplicates and exact matches in the filtered card, and stored similarities that the texts do not give."""
    limits = thresholds(ctx.store, model=encoder.name, revision=encoder.revision, settings=ctx.settings.evidence)
    texts = pl.concat([rows["query"], rows["page_query"]]).unique().sort()
    vectors = encoder.encode(texts.to_list(), kind="query")
    place = {text: n for n, text in enumerate(texts)}
    left, right = ([place[text] for text in rows[name]] for name in ("query", "page_query"))
    cosine = _cosines(vectors, np.array(left, dtype=int), np.array(right, dtype=int))
    limit = np.array([limits.of(locale) for locale in rows["locale"]])
    kept = rows["row"].is_not_null()
    same = rows["query"] == rows["page_query"]
    near = pl.Series(cosine > limit + TOLERANCE) & kept & ~same
    other = pl.Series(np.abs(cosine - rows["similarity"].to_numpy()) > TOLERANCE)
    return [("exact_match", same & kept), ("near_duplicate", near), ("unexplained", other)]


def _cosines(vectors: np.ndarray, left: np.ndarray, right: np.ndarray, *, block: int = 20_000) -> np.ndarray:
    parts = [
        np.einsum("ij,ij->i", vectors[left[i : i + block]], vectors[right[i : i + block]], dtype=np.float64)
        for i in range(0, len(left), block)
    ]
    return np.concatenate(parts) if parts else np.empty(0)


def _counts_of(ctx: Context, rows: pl.DataFrame) -> list[tuple[str, pl.Series]]:
    """Impressions and clicks that the evidence window does not hold: where the surplus comes from names the kind.

    Columns of the recount: own (evidence days that arrived before the cut), late (evidence days that arrived from the
    cut on), judged (impressions of the evaluation window that truth may use).
    """
    dates = Dates.of(ctx.manifest())
    recount = _recount(ctx, rows.select("query_key", "item_key").unique(), dates)
    both = rows.join(recount, on=["query_key", "item_key"], how="left", maintain_order="left").fill_null(0)
    differs = (both["impressions"] != both["own"]) | (both["clicks"] != both["own_clicks"])
    surplus = (both["impressions"] > both["own"]) | (both["clicks"] > both["own_clicks"])
    late = surplus & (both["impressions"] <= both["own"] + both["late"]) & (both["late"] + both["late_clicks"] > 0)
    last, judged_days = both["last_shown_day"], dates.evaluation or (dates.cut, dates.cut)
    last_judged = (last >= judged_days[0]) & (last < judged_days[1])
    judged = (both["judged"] > 0) & (both["impressions"] - both["own"] >= both["judged"])
    shared = (surplus & ~late & judged) | last_judged
    outside = ((last < dates.evidence[0]) | (last >= dates.evidence[1])) & ~last_judged
    return [
        ("arrival", late),
        ("shared_impression", shared),
        ("time", (surplus & ~late & ~shared) | outside),
        ("unexplained", differs & ~surplus),
    ]


def _recount(ctx: Context, pairs: pl.DataFrame, dates: Dates) -> pl.DataFrame:
    """The pairs' counts by where they come from, file by file, so that memory does not grow with the window."""
    files = ctx.store.files("daily_counts", version=ctx.table_version("daily_counts"), where={"corpus": ctx.corpora})
    first, last = dates.evidence[0].isoformat(), dates.as_of.isoformat()
    mine = [file for file in files if first <= file.partition["event_day"] <= last]
    kinds = {"query_key": pl.Int64, "item_key": pl.Int64}
    parts = [pl.DataFrame(schema={**kinds, **dict.fromkeys(_RECOUNT, pl.Int64)})]
    parts += [_recount_file(file, pairs, dates) for file in mine]
    return pl.concat(parts).group_by("query_key", "item_key").agg(pl.col(_RECOUNT).sum())


_RECOUNT = ["own", "own_clicks", "late", "late_clicks", "judged"]


def _recount_file(file: DataFile, pairs: pl.DataFrame, dates: Dates) -> pl.DataFrame:
    columns = ["query_key", "item_key", "event_day", "arrival_day", "impressions", "clicks"]
    event, arrival = pl.col("event_day"), pl.col("arrival_day")
    of_evidence = (event >= dates.evidence[0]) & (event < dates.evidence[1])
    own, late = of_evidence & (arrival < dates.cut), of_evidence & (arrival >= dates.cut)
    judged = pl.lit(value=False)
    if dates.evaluation:
        judged = (event >= dates.evaluation[0]) & (event < dates.evaluation[1]) & (arrival <= dates.as_of)
    keys = pairs["query_key"].unique().implode()
    rows = scan_files(DAILY_COUNTS, [file], columns=columns).filter(pl.col("query_key").is_in(keys)).collect()
    shown, clicked = pl.col("impressions"), pl.col("clicks")
    return (
        rows.join(pairs, on=["query_key", "item_key"], how="semi")
        .group_by("query_key", "item_key")
        .agg(
            own=shown.filter(own).sum(),
            own_clicks=clicked.filter(own).sum(),
            late=shown.filter(late).sum(),
            late_clicks=clicked.filter(late).sum(),
            judged=shown.filter(judged).sum(),
        )
    )


def _users_of(ctx: Context, rows: pl.DataFrame) -> list[tuple[str, pl.Series]]:
    """Rows whose historical query too few people issued: distinct hashes of the daily sets, a salt at a time.

    No more hashes of a query are held than the threshold asks for, however many days and people the window has.
    """
    enough = min(ctx.settings.evidence.min_users, SET_SIZE)
    dates = Dates.of(ctx.manifest())
    files = ctx.store.files("daily_users", version=ctx.table_version("daily_users"), where={"corpus": ctx.corpora})
    start, end = dates.evidence[0].isoformat(), dates.evidence[1].isoformat()
    mine = [file for file in files if start <= file.partition["event_day"] < end]
    keys = rows["query_key"].unique()
    columns = ["query_key", "salt_id", "user_hash", "arrival_day"]
    known = pl.DataFrame(schema={"query_key": pl.Int64, "salt_id": pl.String, "user_hash": pl.Int64})
    for file in mine:
        scan = scan_files(DAILY_USERS, [file], columns=columns)
        wanted = pl.col("query_key").is_in(keys.implode()) & (pl.col("arrival_day") < dates.cut)
        more = scan.filter(wanted).select(known.columns).collect()
        known = pl.concat([known, more]).unique(maintain_order=True).group_by("query_key", "salt_id").head(enough)
        known = known.select("query_key", "salt_id", "user_hash")
    counted = known.group_by("query_key", "salt_id").len("n").group_by("query_key").agg(pl.col("n").max())
    seen = rows.join(counted, on="query_key", how="left", maintain_order="left")["n"].fill_null(0)
    return [("rare", seen < enough)]


def _page_texts(pages: pl.DataFrame) -> pl.DataFrame:
    texts = [normalise_query(query, locale=locale) for query, locale in pages.select("query", "locale").iter_rows()]
    return pages.select("set", "page_id", "locale").with_columns(page_query=pl.Series(texts, dtype=pl.String))


def _marked(rows: pl.DataFrame, kind: str) -> pl.DataFrame:
    return rows.select(pl.lit(kind).alias("kind"), "set", "page_id", "item_id", "query_key")


def _sum_of(parts: Any, name: str) -> int | None:
    values = [part[name] for part in parts if name in part]
    return sum(values) if values else None


def _arrival_guarded(ctx: Context, steps: dict[str, Any]) -> bool | None:
    """False if a source carries no arrival time, so that late rows cannot be told; None where nothing says."""
    night = steps.get("launch", {}).get("reads_night")
    path = f"runs/{night}/manifest.json"
    if night and ctx.store.exists(path):
        steps = ctx.store.read_json(path)["steps"]
    sources = steps.get("impressions", {}).get("sources", {}).values()
    known = [source["arrival_guarded"] for source in sources if "arrival_guarded" in source]
    return all(known) if known else None
