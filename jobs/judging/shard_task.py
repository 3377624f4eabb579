"""One shard's pages with everything that judging them needs, and the checks of trust that ride on one of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from jobs.core.context import Context
from jobs.core.embedding import embedder_for
from jobs.core.settings import Judging, Settings
from jobs.core.storage import is_object_store
from jobs.judging import baseline
from jobs.judging.inputs import CardRow, Item, Page
from jobs.judging.local import serving
from jobs.judging.runner import Tally, Work
from jobs.judging.session import judge_works, submit_works
from jobs.judging.sitting import Sitting
from jobs.judging.store_pages import Cards
from jobs.judging.tonight import Shard
from jobs.judging.trust import check, check_anchors, sample

Row = dict[str, Any]
ANCHORS = "judging/anchors"


def labels_file(settings: Settings) -> Path:
    """The label store of a store: inside it where it is a folder, beside the settings where it is an object store."""
    uri = settings.store_uri
    return (Path(settings.root) / ".hindcast" if is_object_store(uri) else Path(uri)) / "judging" / "labels.sqlite3"


@dataclass(frozen=True, kw_only=True)
class ShardTask:
    """A shard ready to be judged. `checks_trust`: this shard also asks for repeats, orders and anchors."""

    ctx: Context
    judging: Judging
    shard: Shard
    pages: list[Page]
    cards: Cards
    budget_usd: float | None
    retry_unscored: bool
    checks_trust: bool

    def works(self) -> list[Work]:
        """The pages with their places and cards."""
        return [(n, page, self.cards.get(page.page_id, ())) for n, page in enumerate(self.pages)]

    def judge(self) -> tuple[list[Row], dict[str, Any]]:
        """Rows in the order of the pages, and the shard's summary."""
        return self._baseline() if self.judging.judge == baseline.MODEL else self._llm()

    def submit(self) -> dict[str, Any]:
        """Hand the questions to the Batch API and return."""
        return submit_works(self._sitting(self.judging), self.works)

    def _baseline(self) -> tuple[list[Row], dict[str, Any]]:
        embedder = embedder_for(self.ctx.settings, say=self.ctx.progress.say)
        fields = self.judging.item_fields
        rows = baseline.judge(self.pages, self.cards, self.shard.variant, embedder, item_fields=fields)
        tally = Tally()
        for row in rows:
            tally.add(row)
        return rows, {"model": baseline.MODEL, "rows": tally.rows, "labels": tally.labels, "calls": 0, "cost_usd": 0.0}

    def _llm(self) -> tuple[list[Row], dict[str, Any]]:
        with serving(self.judging, say=self.ctx.progress.say) as judging:
            sitting = self._sitting(judging)
            rows, summary = collected(sitting, self.works(), say=self._tick)
            if self.checks_trust and (self.judging.repeat_pages or self.judging.anchor_pages):
                found, spent = self._trust(sitting, {row["page_id"]: row["label"] for row in rows})
                summary = _with_spent(summary, spent) | {"trust": found}
        return rows, {"model": judging.model, **summary}

    def _tick(self, done: int) -> None:
        self.ctx.progress.tick(f"{self.shard.corpus} {self.shard.variant}", done, len(self.pages))

    def _sitting(self, judging: Judging) -> Sitting:
        return Sitting(
            judging=judging,
            labels=labels_file(self.ctx.settings),
            run=self.ctx.run.key,
            variants=(self.shard.variant,),
            budget_usd=self.budget_usd,
            retry_unscored=self.retry_unscored,
            say=self.ctx.progress.say,
        )

    def _trust(self, sitting: Sitting, labels: dict[str, float | None]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Repeats, orders and anchors, asked one by one even where the labels came from batches; and what it took."""
        asked = replace(sitting, judging=sitting.judging.model_copy(update={"batch": False}))
        spent: list[dict[str, Any]] = []

        def grade(works: Sequence[Work], salt: str) -> dict[str, float | None]:
            rows, summary = collected(replace(asked, salt=salt), works)
            spent.append(summary)
            return {row["page_id"]: row["label"] for row in rows}

        found = check(self.works(), labels, grade, pages=self.judging.repeat_pages)
        changed, n = found["repeat"]["changed"], found["repeat"]["n"]
        found["anchors"] = self._anchors(asked, grade, noise=changed / n if n else 0.0)
        return found, spent

    def _anchors(self, sitting: Sitting, grade: Callable[..., dict], *, noise: float) -> dict[str, Any]:
        store, run = self.ctx.store, self.ctx.run.key
        path = f"{ANCHORS}/{self.shard.corpus}-{identity(sitting)}.json"
        kept = store.read_json(path) if store.exists(path) else None
        works = _works(kept["works"]) if kept else sample(self.works(), most=self.judging.anchor_pages, salt="anchor")
        state, report = check_anchors(kept, grade(works, f"anchors of {run}"), run=run, noise=noise)
        store.write_json(path, {**state, "works": kept["works"] if kept else _plain(works)})
        return report


def collected(
    sitting: Sitting, works: Sequence[Work], *, say: Callable[[int], None] = lambda done: None
) -> tuple[list[Row], dict[str, Any]]:
    """Judge works of one variant and return their rows in order, with the summary."""
    rows: list[tuple[int, Row]] = []

    def sink(place: int, row: Row) -> None:
        rows.append((place, row))
        say(len(rows))

    summary = judge_works(sitting, lambda: works, sink)
    return [row for _, row in sorted(rows, key=lambda pair: pair[0])], summary


def _with_spent(summary: dict[str, Any], spent: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The summary with calls, tokens and cost of other askings added to its own."""
    added = {name: summary[name] + sum(one[name] for one in spent) for name in ("calls", "tokens_in", "tokens_out")}
    costs = [one["cost_usd"] for one in (summary, *spent)]
    return summary | added | {"cost_usd": None if None in costs else sum(costs)}


def identity(sitting: Sitting) -> str:
    """Hash of everything that makes this judge what it is: another judge on purpose has anchors of its own."""
    judging, prompts = sitting.judging, sitting.prompts()
    parts = [
        sitting.address, sitting.models, sitting.variants, asdict(prompts), judging.temperature,
        judging.max_output_tokens, judging.samples,
    ]  # fmt: skip
    return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def _plain(works: Sequence[Work]) -> list[dict[str, Any]]:
    return [{"page": asdict(page), "rows": [asdict(row) for row in rows]} for _, page, rows in works]


def _works(kept: Sequence[dict[str, Any]]) -> list[Work]:
    return [(n, _page(one["page"]), [CardRow(**row) for row in one["rows"]]) for n, one in enumerate(kept)]


def _page(body: dict[str, Any]) -> Page:
    return Page(**{**body, "items": tuple(Item(**item) for item in body["items"])})
