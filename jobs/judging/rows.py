"""Judgment rows (formats.md, judgments.jsonl): one place that fills every column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobs.judging.inputs import Page


def judgment(
    page: Page,
    *,
    variant: str,
    model: str,
    qri_count: int,
    label: float | None = None,
    expected_label: float | None = None,
    reason: str | None = None,
    sample: int = 0,
    rationale: str = "",
    cited: Sequence[int] = (),
    cited_invented: int = 0,
    evidence_rows: int = 0,
    evidence_cut: int = 0,
    prompt_sha256: str | None = None,
    tokens_in: int = 0,
    tokens_out: int = 0,
    latency_ms: float | None = None,
    cached: bool = False,
    reused_from_plain: bool = False,
    possibly_billed_twice: bool = False,
    members: Sequence[float | None] | None = None,
    spread: float | None = None,
) -> dict[str, Any]:
    """A judgment of `page` as JSON lines hold it; `corpus` stands beside the columns of formats.md."""
    return {
        "page_id": page.page_id,
        "query_key": page.query_key,
        "set": page.set,
        "corpus": page.corpus,
        "system": page.system,
        "instance": page.instance,
        "configuration": page.configuration,
        "qri_count": qri_count,
        "variant": variant,
        "model": model,
        "sample": sample,
        "label": label,
        "expected_label": expected_label,
        "reason": reason,
        "rationale": rationale,
        "cited": list(cited),
        "cited_invented": cited_invented,
        "evidence_rows": evidence_rows,
        "evidence_cut": evidence_cut,
        "prompt_sha256": prompt_sha256,
        "tokens_in": tokens_in,
        "tokens_out": tokens_out,
        "latency_ms": latency_ms,
        "cached": cached,
        "reused_from_plain": reused_from_plain,
        "possibly_billed_twice": possibly_billed_twice,
        "members": list(members) if members is not None else [],
        "spread": spread,
    }
