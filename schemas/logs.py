"""Tables made from raw logs: impressions, what was refused, catalogues, and the daily counts that every window sums."""

from schemas.contract import Column, Table

_EVENT_DAY = Column(name="event_day", type="date", key=True, meaning="UTC date of the event time")
_CORPUS = Column(name="corpus", type="string", key=True, meaning="document collection that was searched")
_LOCALE = Column(name="locale", type="string", key=True, meaning="language or market of the search")
_SEGMENT = Column(
    name="segment", type="string", key=True, nullable=True, meaning="declared dimension, such as device class"
)
_QUERY_KEY = Column(name="query_key", type="bigint", key=True, meaning="key of corpus, locale and normalised query")
_ITEM_KEY = Column(name="item_key", type="bigint", key=True, meaning="key of corpus and item id")
_RANK = Column(name="rank", type="int", key=True, minimum=1, maximum=1000, meaning="1-based place on the page")
_ARRIVAL = Column(name="arrival_day", type="date", key=True, meaning="UTC date on which the row reached the log store")

IMPRESSIONS = Table(
    name="impressions",
    meaning="one shown item of one page view",
    partition=("event_day", "corpus", "source"),
    columns=(
        Column(name="event_day", type="date", meaning="UTC date of the event time"),
        Column(name="corpus", type="string", key=True, meaning="document collection that was searched"),
        Column(name="source", type="string", meaning="name of the declared source"),
        Column(name="search_id", type="string", key=True, meaning="one page view"),
        Column(name="item_id", type="string", key=True, meaning="shown item"),
        Column(name="rank", type="int", key=True, minimum=1, maximum=1000, meaning="1-based place on the page"),
        Column(name="locale", type="string", meaning="language or market of the search"),
        Column(name="segment", type="string", nullable=True, meaning="declared dimension, such as device class"),
        Column(name="query_raw", type="string", meaning="query as typed, personal data masked"),
        Column(name="query", type="string", meaning="normalised query"),
        Column(name="query_key", type="bigint", meaning="key of corpus, locale and normalised query"),
        Column(name="ranker", type="string", nullable=True, meaning="system that made the page"),
        Column(name="randomised", type="boolean", meaning="ranks were drawn at random"),
        Column(name="shown_at", type="timestamp", unit="UTC", meaning="when the item was shown"),
        Column(name="arrived_at", type="timestamp", unit="UTC", meaning="when the row reached the log store"),
        Column(name="click_arrived_at", type="timestamp", unit="UTC", nullable=True, meaning="when the click arrived"),
        Column(name="user_key", type="bigint", nullable=True, meaning="salted hash of the user id"),
        Column(name="salt_id", type="string", meaning="which salt hashed the user"),
        Column(name="session_key", type="bigint", nullable=True, meaning="salted hash of the session id"),
        Column(name="clicked", type="boolean", meaning="the item was clicked"),
        Column(
            name="interaction",
            type="bigint",
            minimum=0,
            maximum=1_000_000,
            unit="millionths",
            meaning="value of the strongest interaction in [0, 1], in millionths",
        ),
        Column(
            name="late_interaction_days",
            type="list of bigint",
            unit="days",
            nullable=True,
            meaning="days after the impression's arrival day on which a stronger interaction arrived; null if none did",
        ),
        Column(
            name="late_interaction",
            type="list of bigint",
            unit="millionths",
            nullable=True,
            meaning="what each of those days added to the interaction that was known before it",
        ),
        Column(name="excluded", type="string", nullable=True, meaning="why the row is not counted, such as bot"),
    ),
)

REJECTED = Table(
    name="rejected_impressions",
    meaning="one refused row of a source, kept for replay",
    partition=("run_day",),
    columns=(
        Column(name="run_day", type="date", meaning="arrival day whose ingestion refused the row"),
        Column(name="run_id", type="string", key=True, meaning="ingestion that refused the row"),
        Column(name="source", type="string", key=True, meaning="name of the declared source"),
        Column(name="path", type="string", key=True, meaning="file that held the row"),
        Column(name="line", type="bigint", key=True, minimum=1, meaning="1-based line or row of the file"),
        Column(
            name="byte_offset", type="bigint", nullable=True, minimum=0, unit="bytes", meaning="where the row starts"
        ),
        Column(name="reason", type="string", meaning="reason code"),
        Column(name="detail", type="string", meaning="what was wrong, naming the value"),
        Column(name="raw", type="string", nullable=True, meaning="row content, at most 4 KiB, masked"),
        Column(name="corpus", type="string", meaning="document collection of the source"),
    ),
)

ITEMS = Table(
    name="items",
    meaning="one version of a catalogue entry",
    partition=("corpus",),
    columns=(
        Column(name="corpus", type="string", key=True, meaning="document collection"),
        Column(name="item_id", type="string", key=True, meaning="item"),
        Column(name="valid_from", type="date", key=True, meaning="first UTC day of this version"),
        Column(name="title", type="string", meaning="title shown to users"),
        Column(name="type", type="string", meaning="kind of item, empty if unknown"),
        Column(name="metadata", type="json", meaning="further fields as a JSON object of texts"),
    ),
)

ITEM_KEYS = Table(
    name="item_keys",
    meaning="text of an item key that was ever shown",
    partition=("corpus",),
    sorted_by=("item_key",),
    columns=(
        Column(name="corpus", type="string", key=True, meaning="document collection"),
        _ITEM_KEY,
        Column(name="item_id", type="string", meaning="item"),
        Column(name="first_day", type="date", meaning="first event day on which it was seen"),
    ),
)

QUERIES = Table(
    name="queries",
    meaning="text of a query key that was ever issued",
    partition=("corpus",),
    sorted_by=("query_key",),
    columns=(
        Column(name="corpus", type="string", key=True, meaning="document collection"),
        _LOCALE,
        _QUERY_KEY,
        Column(name="query", type="string", meaning="normalised query"),
        Column(name="first_day", type="date", meaning="first event day on which it was seen"),
    ),
)

DAILY_COUNTS = Table(
    name="daily_counts",
    meaning="impressions and clicks of one day, by everything that estimation needs",
    partition=("event_day", "corpus"),
    sorted_by=("query_key", "item_key"),
    columns=(
        _EVENT_DAY,
        _CORPUS,
        _LOCALE,
        _SEGMENT,
        _QUERY_KEY,
        _ITEM_KEY,
        _RANK,
        Column(name="ranker", type="string", key=True, nullable=True, meaning="system that made the page"),
        Column(name="randomised", type="boolean", key=True, meaning="ranks were drawn at random"),
        _ARRIVAL,
        Column(name="impressions", type="bigint", minimum=0, meaning="times shown; 0 on rows of late clicks"),
        Column(name="clicks", type="bigint", minimum=0, meaning="times clicked"),
        Column(name="interaction", type="bigint", minimum=0, unit="millionths", meaning="sum of interaction values"),
    ),
)

DAILY_USERS = Table(
    name="daily_users",
    meaning="a user hash that issued a query on a day: the 1,024 smallest per query, event day and arrival day",
    partition=("event_day", "corpus"),
    sorted_by=("query_key", "user_hash"),
    columns=(
        _EVENT_DAY,
        _CORPUS,
        _LOCALE,
        _QUERY_KEY,
        _ARRIVAL,
        Column(name="salt_id", type="string", key=True, meaning="which salt hashed the user"),
        Column(name="user_hash", type="bigint", key=True, meaning="salted hash of the user id"),
    ),
)

TABLES = (IMPRESSIONS, REJECTED, ITEMS, ITEM_KEYS, QUERIES, DAILY_COUNTS, DAILY_USERS)
