"""Cards: one item's Query-Relevance-Impressions rows for one page. Every variant is a view of this one table."""

from schemas.contract import Column, Table

DROPPED = ("near_duplicate", "exact_match", "beyond_k")

CARDS = Table(
    name="cards",
    meaning="one historical query of one item of one page, kept or dropped with its reason",
    partition=("run", "set"),
    columns=(
        Column(name="run", type="string", key=True, meaning="run that built the card"),
        Column(name="set", type="string", key=True, meaning="set of the page"),
        Column(name="page_id", type="string", key=True, meaning="page"),
        Column(name="item_id", type="string", key=True, meaning="item"),
        Column(name="query_key", type="bigint", key=True, meaning="key of the historical query"),
        Column(name="corpus", type="string", meaning="document collection"),
        Column(name="query", type="string", meaning="historical query"),
        Column(name="similarity", type="double", minimum=-1.01, maximum=1.01, meaning="cosine to the page's query"),
        Column(name="impressions", type="bigint", minimum=0, meaning="times shown"),
        Column(name="clicks", type="bigint", minimum=0, meaning="times clicked"),
        Column(name="ctr", type="double", minimum=0, meaning="clicks / impressions"),
        Column(name="examined", type="double", minimum=0, meaning="examined exposure"),
        Column(name="relevance", type="double", minimum=0, meaning="debiased relevance, relative to rank 1"),
        Column(name="relevance_low", type="double", minimum=0, meaning="lower end of its interval"),
        Column(name="relevance_high", type="double", minimum=0, meaning="upper end of its interval"),
        Column(name="relevance_shrunk", type="double", minimum=0, meaning="shrunk relevance"),
        Column(name="users", type="bigint", minimum=0, meaning="distinct issuers in the window"),
        Column(name="last_shown_day", type="date", meaning="last event day on which it was shown"),
        Column(name="row", type="int", nullable=True, minimum=1, meaning="place in the filtered card, or null"),
        Column(
            name="row_unfiltered",
            type="int",
            nullable=True,
            minimum=1,
            meaning="place in the card that keeps near-duplicates, or null",
        ),
        Column(name="dropped", type="string", nullable=True, allowed=DROPPED, meaning="why it is not in the card"),
        Column(name="embedding_model", type="string", meaning="model and revision behind the similarity"),
    ),
)

TABLES = (CARDS,)
