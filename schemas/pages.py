"""Pages to judge: the Logs set, human labels, A/B pages and any others (formats.md, pages.jsonl)."""

from schemas.contract import Column, Table

SETS = ("logs", "human", "launch", "other")
CONFIGURATIONS = ("good", "omitted", "low", "substitute", "shown")

PAGES = Table(
    name="pages",
    meaning="one result page to judge",
    partition=("run", "set"),
    columns=(
        Column(name="run", type="string", key=True, meaning="run that built the page"),
        Column(name="set", type="string", key=True, meaning="which set it belongs to", allowed=SETS),
        Column(name="page_id", type="string", key=True, meaning="stable id of the page"),
        Column(name="corpus", type="string", meaning="document collection"),
        Column(name="locale", type="string", meaning="language or market"),
        Column(name="query_key", type="bigint", meaning="key of the page's query"),
        Column(name="query", type="string", meaning="query as shown to the judge"),
        Column(name="context", type="json", nullable=True, meaning="JSON text or object shown to every variant alike"),
        Column(name="system", type="string", nullable=True, meaning="a or b of a launch", allowed=("a", "b")),
        Column(name="instance", type="int", minimum=0, meaning="instance of a query and system, from 0"),
        Column(name="configuration", type="string", meaning="how the page was composed", allowed=CONFIGURATIONS),
        Column(name="items", type="json", meaning="JSON list of {item_id, rank, title, type, metadata}, by rank"),
        Column(name="truth", type="double", nullable=True, meaning="DCG-weighted relevance of the odd event days"),
        Column(name="truth_standard_error", type="double", nullable=True, minimum=0, meaning="its standard error"),
        Column(name="human_label", type="double", nullable=True, minimum=0, maximum=1, meaning="human grade in [0, 1]"),
        Column(
            name="human_label_source",
            type="string",
            nullable=True,
            allowed=("page", "derived"),
            meaning="given for the page, or derived from item labels",
        ),
        Column(name="made", type="json", meaning="JSON object: how the page and its truth were made"),
    ),
)

TABLES = (PAGES,)
