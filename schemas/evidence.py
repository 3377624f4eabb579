"""Tables of debiased evidence: position curves and Query-Relevance-Impressions rows."""

from schemas.contract import Column, Table

_RUN = Column(name="run", type="string", key=True, meaning="run that computed the row")
_CORPUS = Column(name="corpus", type="string", key=True, meaning="document collection")

PROPENSITIES = Table(
    name="propensities",
    meaning="examination probability of one rank relative to rank 1",
    partition=("run", "corpus"),
    columns=(
        _RUN,
        _CORPUS,
        Column(name="curve_id", type="string", key=True, meaning="curve, named by what made it"),
        Column(name="segment", type="string", key=True, nullable=True, meaning="segment of the curve; null: all"),
        Column(name="rank", type="int", key=True, minimum=1, meaning="1-based place on the page"),
        Column(
            name="estimator",
            type="string",
            meaning="how the curve was made",
            allowed=("randomised", "allpairs", "pbm_em", "declared", "last_good"),
        ),
        Column(name="window_start", type="date", meaning="first event day that was used"),
        Column(name="window_end", type="date", meaning="day after the last event day that was used"),
        Column(name="propensity", type="double", minimum=0, meaning="the value to use, relative to rank 1"),
        Column(name="standard_error", type="double", nullable=True, minimum=0, meaning="bootstrap over queries"),
        Column(name="raw", type="double", nullable=True, minimum=0, meaning="before isotonic regression"),
        Column(name="isotonic", type="double", nullable=True, minimum=0, meaning="after isotonic regression"),
        Column(name="low", type="double", nullable=True, minimum=0, meaning="lower end of its 95% interval"),
        Column(name="high", type="double", nullable=True, minimum=0, meaning="upper end of its 95% interval"),
        Column(name="source", type="string", meaning="where the rank's value comes from",
               allowed=("estimated", "extrapolated", "declared")),
        Column(name="pairs", type="bigint", minimum=0, meaning="(query, item) pairs that informed the rank"),
        Column(name="impressions", type="bigint", minimum=0, meaning="impressions at the rank"),
        Column(name="clicks", type="bigint", minimum=0, meaning="clicks at the rank"),
        Column(name="identified", type="boolean", meaning="the data identify the curve"),
        Column(name="reason", type="string", meaning="why it is or is not identified, and why this estimator"),
    ),
)

EVIDENCE = Table(
    name="evidence",
    meaning="what one historical query says of one item",
    partition=("run", "corpus"),
    sorted_by=("query_key", "item_key"),
    columns=(
        _RUN,
        _CORPUS,
        Column(name="locale", type="string", key=True, meaning="language or market of the query"),
        Column(name="item_id", type="string", key=True, meaning="item"),
        Column(name="query_key", type="bigint", key=True, meaning="key of the historical query"),
        Column(name="item_key", type="bigint", meaning="key of the item"),
        Column(name="segment", type="string", key=True, nullable=True, meaning="null unless evidence is by segment"),
        Column(name="query", type="string", meaning="historical query, normalised"),
        Column(name="window_start", type="date", meaning="first event day of the evidence window"),
        Column(name="window_end", type="date", meaning="day after its last event day"),
        Column(name="curve_id", type="string", meaning="propensity curve that debiased the row"),
        Column(name="impressions", type="bigint", minimum=0, meaning="times shown"),
        Column(name="clicks", type="bigint", minimum=0, meaning="times clicked"),
        Column(name="interaction", type="bigint", minimum=0, unit="millionths", meaning="sum of interaction values"),
        Column(name="examined", type="double", minimum=0, meaning="sum of n p: examined exposure"),
        Column(name="examined_squared", type="double", minimum=0, meaning="sum of n p^2"),
        Column(name="ctr", type="double", minimum=0, meaning="clicks / impressions, biased by rank"),
        Column(name="relevance", type="double", minimum=0, meaning="debiased relevance, relative to rank 1, uncapped"),
        Column(name="relevance_low", type="double", minimum=0, meaning="lower end of its 95% interval"),
        Column(name="relevance_high", type="double", minimum=0, meaning="upper end of its 95% interval"),
        Column(name="relevance_shrunk", type="double", minimum=0, meaning="empirical-Bayes shrunk relevance"),
        Column(name="users", type="bigint", minimum=0, meaning="distinct issuers of the query in the window"),
        Column(
            name="users_exact", type="boolean", meaning="false where `users` is an estimate from 1,024 smallest hashes"
        ),
        Column(name="last_shown_day", type="date", meaning="last event day on which the item was shown for the query"),
        Column(name="ranks", type="list of bigint", meaning="ranks at which the item was shown, ascending"),
        Column(name="rank_impressions", type="list of bigint", meaning="times shown at each of `ranks`"),
        Column(name="rank_clicks", type="list of bigint", meaning="times clicked at each of `ranks`"),
    ),
)

TABLES = (PROPENSITIES, EVIDENCE)
