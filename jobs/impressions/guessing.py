"""Which column of a table is which field, by its name: a proposal for a person to check, never used by `ingest`."""

import re

SURE = {
    "page": ("search_id", "serp_id", "page_id", "page_view_id", "pageview_id", "request_id", "search_request_id"),
    "query": ("query", "user_query", "query_text", "search_query", "search_term", "search_text", "search_terms"),
    "item": ("item_id", "doc_id", "document_id", "product_id", "object_id", "listing_id", "video_id", "track_id",
             "article_id", "asin", "sku"),
    "rank": ("rank", "position", "ordinal"),
    "click": ("clicked", "click", "is_click", "is_clicked", "was_clicked"),
    "time": ("shown_at", "timestamp", "event_time", "event_timestamp", "ts"),
    "arrived": ("arrived_at", "ingested_at", "received_at", "inserted_at"),
    "click_arrived": ("click_arrived_at",),
    "locale": ("locale",),
    "segment": ("segment",),
    "ranker": ("ranker",),
    "randomised": ("randomised", "randomized", "is_random"),
    "user": ("user_id", "client_id", "visitor_id"),
    "session": ("session_id",),
    "event": ("event_id",),
    "interaction": ("interaction",),
}  # fmt: skip
"""Column names that mean a field wherever they were met in published logs, best first."""

LIKELY = {
    "page": ("serp", "search", "page", "request", "qid", "query_id", "search_uuid", "impression_id", "session_id",
             "session"),
    "query": ("q", "term", "terms", "keywords", "keyword", "query_string", "search_string", "search", "text",
              "query_id", "qid"),
    "item": ("item", "doc", "document", "product", "listing", "video", "track", "article", "object", "result",
             "result_id", "docno", "hit", "url", "link", "id"),
    "rank": ("pos", "place", "rnk", "index", "slot", "item_position", "result_position", "result_rank", "item_rank"),
    "click": ("clicks", "n_clicks", "num_clicks", "click_count", "clicked_at", "label"),
    "time": ("time", "date", "datetime", "day", "created_at", "created", "event_date", "search_time", "shown",
             "time_stamp", "logged_at", "epoch", "unixtime"),
    "arrived": ("ingestion_time", "arrival_time", "loaded_at"),
    "locale": ("language", "lang", "market", "country"),
    "segment": ("device", "device_class", "device_type", "platform"),
    "ranker": ("variant", "system", "algorithm", "bucket", "experiment", "model"),
    "user": ("user", "uid", "userid", "visitor", "customer_id", "customer", "account_id", "member_id", "cookie_id",
             "anonymous_id", "user_pseudo_id", "device_id"),
    "session": ("session", "sid", "visit_id"),
}  # fmt: skip
"""Names that often mean a field and sometimes something else: proposed, and marked for a look."""

AMOUNTS = (
    "dwell",
    "dwell_time",
    "watch_time",
    "play_time",
    "listen_time",
    "seconds_played",
    "play_seconds",
    "duration",
)
"""Names of amounts that an interaction may be scaled from."""

_ORDER = ("query", "page", *[n for n in SURE if n not in ("query", "page")])


def plain(column: str) -> str:
    """A column's name as the lists above write names: SearchQuery, search-query and `event.search_query` are one."""
    last = column.rsplit(".", 1)[-1].strip()
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", last)
    return re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")


def guess(columns: list[str], *, given: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    """Field to column, each column once, and the fields whose guess is uncertain; `given` ones are taken as they are.

    The query's own text wins over an id of it; an id of queries is the page where nothing better is there, and the
    query where the page has a column of its own and no text is there.
    """
    found, unsure = dict(given), []
    left = [c for c in columns if c not in given.values()]
    names = {c: plain(c) for c in left}
    texts = any(n in SURE["query"] or n in LIKELY["query"][:-2] for n in names.values()) or "query" in given
    for field in _ORDER:
        if field in found:
            continue
        likely = [n for n in LIKELY.get(field, ()) if not _unfit(field, n, names, texts=texts)]
        wanted = (*SURE.get(field, ()), *likely)
        fits = [c for want in wanted for c in left if names[c] == want]
        if not fits:
            continue
        found[field] = fits[0]
        left.remove(fits[0])
        if names[fits[0]] not in SURE.get(field, ()) or len([c for c in fits if names[c] in SURE[field]]) > 1:
            unsure.append(field)
    return found, unsure


def _unfit(field: str, name: str, names: dict[str, str], *, texts: bool) -> bool:
    """An id of queries is no query where it is needed as the page, and where the text is there."""
    if field == "query" and name in ("query_id", "qid"):
        pages = set(names.values()) & {*SURE["page"], "serp", "page", "request"}
        return texts or not pages
    return field == "query" and name == "search" and bool({"q", "term", "terms", "keywords"} & set(names.values()))
