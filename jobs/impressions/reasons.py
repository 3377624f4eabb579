"""Why a row is refused: one code a reason, stored with the row in rejected_impressions."""

MALFORMED = "malformed"
BAD_QUOTES = "bad_quotes"
FIELD_COUNT = "field_count"
UNDECODABLE = "undecodable"
TOO_LONG = "too_long"
UNKNOWN_DOCUMENT = "unknown_document"
MISSING_SEARCH = "missing_search"
MISSING_QUERY = "missing_query"
MISSING_ITEM = "missing_item"
MISSING_ACTION = "missing_action"
MISSING_RANK = "missing_rank"
MISSING_TIME = "missing_time"
BAD_ITEM = "bad_item"
BAD_RANK = "bad_rank"
BAD_TIME = "bad_time"
BAD_CLICK = "bad_click"
BAD_INTERACTION = "bad_interaction"
BAD_LOCALE = "bad_locale"
BAD_FLAG = "bad_flag"
NO_TIME_ZONE = "no_time_zone"
FUTURE = "future"
CONFLICT = "conflict"
UNKNOWN_SEARCH = "unknown_search"
NOT_SHOWN = "not_shown"
TOO_LATE = "too_late"

MEANING = {
    MALFORMED: "not a JSON object, or no row of a table",
    BAD_QUOTES: "a quote that is never closed, or text after a closing quote",
    FIELD_COUNT: "more or fewer fields than the header has",
    UNDECODABLE: "bytes that are not UTF-8",
    TOO_LONG: "a row longer than a row may be",
    UNKNOWN_DOCUMENT: "neither a query row nor an event",
    MISSING_SEARCH: "no id of the page view",
    MISSING_QUERY: "no query text",
    MISSING_ITEM: "no item id",
    MISSING_ACTION: "an event without an action name",
    MISSING_RANK: "no place on the page",
    MISSING_TIME: "no time",
    BAD_ITEM: "an item id that is neither text nor an integer",
    BAD_RANK: "a place that is no whole number between the declared base and 1000 places after it",
    BAD_TIME: "a time that no calendar has, or no declared format reads",
    BAD_CLICK: "a click value that is neither true nor false nor a count",
    BAD_INTERACTION: "an interaction value outside 0 to 1",
    BAD_LOCALE: "a locale that is no language tag or is not declared for the corpus",
    BAD_FLAG: "a randomised flag that is neither true nor false",
    NO_TIME_ZONE: "a time without offset from a source that declares no time zone",
    FUTURE: "shown after it arrived, or in the future",
    CONFLICT: "one id with different contents",
    UNKNOWN_SEARCH: "an event whose search has no query row (yet)",
    NOT_SHOWN: "an interaction with an item that its search did not show",
    TOO_LATE: "arrived more than lateness_days after its search",
}
"""Reason code to what it means, as `inspect`, the report and the data dictionary print it."""
