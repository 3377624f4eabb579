"""The hindcast.toml beside a simulated log: ready to run, paths relative to its own folder."""

import json
from datetime import timedelta

from jobs.simulate.lines import RANK_BASE
from jobs.simulate.sizes import CORPORA, LAST_DAY, LOCALES, Size
from schemas.judgments import VARIANTS


def config_text(size: Size, *, log_format: str) -> str:
    """The settings of a simulated log of this size, read from its UBI or its Parquet files."""
    parts = [
        f'# Settings of a simulated log (size "{size.name}"), made by `hindcast simulate`.',
        'store = "store/"',
        "",
    ]
    parts += [_corpus(name) for name in CORPORA]
    parts += [_source(name, size, log_format) for name in CORPORA]
    parts.append(_windows(size))
    return "\n".join(parts)


def launch_start() -> str:
    """First day of the simulated A/B test: the day after the last simulated one."""
    return (LAST_DAY + timedelta(days=1)).isoformat()


def _corpus(name: str) -> str:
    return f"""[corpora.{name}]
locales = {json.dumps(list(LOCALES))}
items = "items/{name}.jsonl"
documents = "documents/{name}.jsonl"
retrieval = {{ queries = "retrieval/{name}.queries.jsonl", qrels = "retrieval/{name}.qrels.jsonl" }}
labels = "labels/{name}.jsonl"
"""


def _source(name: str, size: Size, log_format: str) -> str:
    return _ubi_source(name, size) if log_format == "ubi" else _parquet_source(name, size)


def _ubi_source(name: str, size: Size) -> str:
    segment = ', segment = "query_attributes.device"' if size.segments else ""
    bases = ", ".join(f'"{k}" = {v}' for k, v in RANK_BASE.items())
    return f"""[[sources]]
name = "{name}-ubi"
corpus = "{name}"
path = "logs/{name}/{{day}}/*.ndjson.gz"
format = "ubi"
columns = {{ ranker = "query_attributes.ranker", locale = "query_attributes.locale", \
randomised = "query_attributes.randomised", arrived = "arrived_at"{segment} }}
rank_base = {{ {bases} }}
shown = "auto"
time_zone = "UTC"
actions = {{ impression = "impression", click = "click" }}
max_rejected = 0.05
lateness_days = 3
max_impressions_per_session_hour = {_bot_limit(size)}
"""


def _bot_limit(size: Size) -> int:
    """Half of what the planted bot shows in an hour; a person sees a tenth of it at most."""
    return max(60, size.bot_pages * size.hits // 2)


def _parquet_source(name: str, size: Size) -> str:
    segment = ', segment = "segment"' if size.segments else ""
    return f"""[[sources]]
name = "{name}-parquet"
corpus = "{name}"
path = "parquet/{name}/{{day}}/*.parquet"
format = "parquet"
columns = {{ page = "search_id", query = "query", item = "item_id", rank = "rank", click = "clicked", \
time = "shown_at", arrived = "arrived_at", locale = "locale", ranker = "ranker", randomised = "randomised", \
user = "user_id", session = "session_id"{segment} }}
lateness_days = 3
"""


def _windows(size: Size) -> str:
    variants = f"variants = {json.dumps(list(VARIANTS))}\n" if size.every_variant else ""
    return f"""[windows]
evaluation_days = {size.evaluation_days}
gap_days = {size.gap_days}
evidence_days = {size.evidence_days}
min_evidence_days = {min(7, size.evidence_days)}

[evidence]
min_users = {size.min_users}

[pages]
users = {json.dumps(list(size.page_users))}
min_item_impressions = {size.min_item_impressions}
min_item_relevance = {size.min_item_relevance}
degraded_share = {size.degraded_share}

[judging]
judge = "offline-baseline"
{variants}
[report]
simulated = true
"""
