"""Judgments: one row per page, variant and judge, with a label or a reason (formats.md, judgments.jsonl)."""

from schemas.contract import Column, Table
from schemas.pages import CONFIGURATIONS, SETS

VARIANTS = ("plain", "popularity", "ctr", "qri", "qri_unfiltered", "evidence_only")
"""`plain` sees the page alone, `evidence_only` is the card's own value, the rest see page and card."""

GROUNDED = ("popularity", "ctr", "qri", "qri_unfiltered")

REASONS = (
    "refusal", "malformed", "out_of_range", "cut_off", "too_long", "empty", "missing", "deadline", "endpoint", "budget",
)  # fmt: skip
"""Why a page has no label; `deadline`, `endpoint` and `budget` mean that it was not answered and is asked next time."""

NOT_ASKED = ("deadline", "endpoint", "budget")

LABELS = (0.0, 0.5, 1.0)

JUDGMENTS = Table(
    name="judgments",
    meaning="what one judge said about one page under one variant",
    partition=("run", "set", "corpus", "variant"),
    columns=(
        Column(name="run", type="string", key=True, meaning="run that judged"),
        Column(name="set", type="string", key=True, meaning="set of the page", allowed=SETS),
        Column(name="corpus", type="string", key=True, meaning="document collection"),
        Column(name="variant", type="string", key=True, meaning="what the judge saw", allowed=VARIANTS),
        Column(name="page_id", type="string", key=True, meaning="page"),
        Column(name="model", type="string", key=True, meaning="model, 'offline-baseline', or 'none' (evidence_only)"),
        Column(name="sample", type="int", key=True, minimum=0, meaning="sample of one model, from 0"),
        Column(name="query_key", type="bigint", meaning="key of the page's query"),
        Column(name="system", type="string", nullable=True, meaning="a or b of a launch", allowed=("a", "b")),
        Column(name="instance", type="int", minimum=0, meaning="instance of a query and system, from 0"),
        Column(name="configuration", type="string", meaning="how the page was composed", allowed=CONFIGURATIONS),
        Column(name="qri_count", type="int", minimum=0, meaning="rows of the filtered cards over the page's items"),
        Column(name="label", type="double", nullable=True, minimum=0, maximum=1, meaning="0, 0.5 or 1; null: unscored"),
        Column(name="expected_label", type="double", nullable=True, minimum=0, maximum=1,
               meaning="over grade tokens, item grades or the baseline's score; value of evidence_only"),
        Column(name="reason", type="string", nullable=True, meaning="why there is no label", allowed=REASONS),
        Column(name="rationale", type="string", meaning="the judge's own short reason, untrusted text"),
        Column(name="cited", type="list of bigint", meaning="evidence rows relied on that were really shown"),
        Column(name="cited_invented", type="int", minimum=0, meaning="evidence rows named that were not shown"),
        Column(name="evidence_rows", type="int", minimum=0, meaning="evidence rows shown to the judge"),
        Column(name="evidence_cut", type="int", minimum=0, meaning="least similar rows left out of too long a prompt"),
        Column(name="prompt_sha256", type="string", nullable=True, meaning="hash of all that was asked"),
        Column(name="tokens_in", type="bigint", minimum=0, unit="tokens", meaning="prompt tokens billed"),
        Column(name="tokens_out", type="bigint", minimum=0, unit="tokens", meaning="completion tokens billed"),
        Column(name="latency_ms", type="double", nullable=True, minimum=0, unit="ms", meaning="of the answering call"),
        Column(name="cached", type="boolean", meaning="answered by an earlier call, nothing paid now"),
        Column(name="reused_from_plain", type="boolean", meaning="no evidence: plain's label, equal by construction"),
        Column(name="possibly_billed_twice", type="boolean", meaning="more than one call for it may have been billed"),
        Column(name="members", type="list of double", meaning="labels of an ensemble's members, null: unscored member"),
        Column(name="spread", type="double", nullable=True, minimum=0, maximum=1,
               meaning="largest minus smallest label of an ensemble"),
    ),
)  # fmt: skip

TABLES = (JUDGMENTS,)
