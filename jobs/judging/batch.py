"""The Batch API: hand questions over, find them again after a crash, read the replies by id, account for every one.

A batch's token is written down before anything is sent and travels in the batch's metadata. After a crash between the
provider's acceptance and our note of its id, the provider's list of batches is searched for the token; only where it is
not there is the batch submitted (again): nothing is bought twice.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import openai
import orjson

from jobs.judging.answering import MORE_OUTPUT, outcome_of
from jobs.judging.batch_ledger import Asked, BatchLedger, Handed
from jobs.judging.failures import EndpointRefused, failure_of
from jobs.judging.labels import LabelStore, Outcome
from jobs.judging.questions import Question

MAX_REQUESTS = 50_000  # OpenAI's limits for one file: requests, and 200 MB, of which some are left
MAX_BYTES = 190 * 10**6
POLL_S = 30.0  # a batch takes minutes to hours
ENDED = ("completed", "failed", "expired", "cancelled")
PATH = "/v1/chat/completions"
_DEFINITE = ("fatal", "unsupported", "refused", "too_long")  # nothing was created: the questions are free again


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How large one batch may be, and how often its state is asked for."""

    max_requests: int = MAX_REQUESTS
    max_bytes: int = MAX_BYTES
    poll_s: float = POLL_S


class Batches:
    """Batches of one endpoint, over the `openai` client. `folder` holds the request files until replies are kept."""

    def __init__(
        self,
        client: openai.AsyncOpenAI,
        store: LabelStore,
        *,
        base_url: str,
        folder: Path,
        limits: Limits | None = None,
        say: Callable[[str], None] = lambda text: None,
    ):
        self._client, self._patient = client, client.with_options(max_retries=6)
        self._store, self._ledger = store, BatchLedger(store)
        self._base_url, self._folder, self._say = base_url, folder, say
        self._limits = limits or Limits()

    def waiting(self, keys: Iterable[bytes]) -> set[bytes]:
        """Those of `keys` whose replies are still to come."""
        return self._ledger.waiting(keys)

    async def submit(self, questions: Iterable[Question]) -> int:
        """Hand questions over in as many batches as the limits ask for; returns how many questions were handed over."""
        handed = 0
        for requests, asked in self._files(questions):
            batch = Handed(token=requests.stem, base_url=self._base_url, requests=requests)
            with self._alone():
                mine = self._ledger.claim(batch, asked)
                if len(mine) < len(asked):
                    _keep_only(requests, mine)
                if mine:
                    await self._create(batch)
                    handed += len(mine)
        return handed

    async def attach(self) -> None:
        """Find batches again whose id was never written down; those that the provider does not know are submitted."""
        with self._alone():
            for batch in self._ledger.open(base_url=self._base_url):
                if batch.batch_id is None:
                    found = await self._find(batch.token)
                    if found is None:
                        await self._create(batch)
                    else:
                        self._ledger.submitted(batch.token, found)

    async def states(self) -> dict[str, str]:
        """Batch id to the provider's status, of all batches whose replies are not collected."""
        await self.attach()
        batches = self._ledger.open(base_url=self._base_url)
        return {b.batch_id: (await self._patient.batches.retrieve(b.batch_id)).status for b in batches}

    async def collect(self) -> int:
        """Keep the replies of every batch that has ended; returns how many batches are still under way.

        Every question ends as an outcome: ids are matched, strangers passed over, absent ones are `missing`, those that
        the provider did not get to are `deadline` and asked again next time. Raises EndpointRefused for a batch that
        the provider did not take.
        """
        await self.attach()
        under_way = 0
        for batch in self._ledger.open(base_url=self._base_url):
            remote = await self._patient.batches.retrieve(batch.batch_id)
            if remote.status not in ENDED:
                under_way += 1
                continue
            await self._keep(batch, remote)
        return under_way

    async def wait(self) -> None:
        """Collect until no batch is under way."""
        while under_way := await self.collect():
            self._say(f"{under_way} batches are under way")
            await asyncio.sleep(self._limits.poll_s)

    async def _keep(self, batch: Handed, remote: Any) -> None:
        asked = self._ledger.questions(batch.token)
        replies: dict[str, Outcome] = {}
        for name in (remote.output_file_id, remote.error_file_id):
            if name:
                lines = (await self._patient.files.content(name)).content.splitlines()
                replies = _outcomes(lines, asked) | replies
        absent = Outcome(reason="deadline" if remote.status in ("expired", "cancelled") else "missing")
        if remote.status != "failed":
            for name, question in asked.items():
                self._store.keep(question.key, _paid(replies.get(name, absent), question))
        self._ledger.close(batch)
        if remote.status == "failed":
            errors = [error.message or error.code for error in (remote.errors.data if remote.errors else None) or []]
            raise EndpointRefused(
                f"the endpoint refused batch {batch.batch_id} ({'; '.join(errors)[:300]}): nothing was paid"
            )

    async def _create(self, batch: Handed) -> None:
        """Upload the requests (free) and create the batch: once, since a second creation would be a second purchase."""
        try:
            with batch.requests.open("rb") as file:
                uploaded = await self._patient.files.create(file=(f"{batch.token}.jsonl", file), purpose="batch")
            created = await self._client.batches.create(
                completion_window="24h",
                endpoint=PATH,
                input_file_id=uploaded.id,
                metadata={"hindcast": batch.token},
            )
        except openai.APIError as error:
            failure = failure_of(error, secret=self._client.api_key)
            if failure.kind in _DEFINITE:
                self._ledger.close(batch)
            raise EndpointRefused(
                f"the endpoint did not take a batch ({failure.message}): run again to resume"
            ) from None
        self._ledger.submitted(batch.token, created.id)
        self._say(f"batch {created.id} submitted")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One process at a time submits: another one's unnoted batch must not look like a lost one."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    async def _find(self, token: str) -> str | None:
        async for remote in self._patient.batches.list(limit=100):
            if (remote.metadata or {}).get("hindcast") == token:
                return remote.id
        return None

    def _files(self, questions: Iterable[Question]) -> Iterator[tuple[Path, list[Asked]]]:
        """Request files of at most the allowed size, each of one model, with what they ask."""
        writers: dict[str, _Writer] = {}
        for question in questions:
            line = _request(question)
            model = question.asker.settings.model
            writer = writers.get(model)
            if writer is not None and not writer.takes(line, self._limits):
                yield writers.pop(model).done()
                writer = None
            if writer is None:
                writer = writers[model] = _Writer(self._folder)
            writer.add(line, self._asked(question))
        for writer in writers.values():
            yield writer.done()

    def _asked(self, question: Question) -> Asked:
        return Asked(
            key=question.key,
            payer=self._store.payer(page_id=question.page.page_id, variant=question.variant),
            rows=len(question.rows),
            items=question.item_count,
            cut=question.cut,
        )


class _Writer:
    """One request file being written, under its batch's token."""

    def __init__(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"{uuid.uuid4().hex}.jsonl"
        self._file = self._path.open("wb")
        self._asked: list[Asked] = []
        self._bytes = 0

    def takes(self, line: bytes, limits: Limits) -> bool:
        return len(self._asked) < limits.max_requests and self._bytes + len(line) <= limits.max_bytes

    def add(self, line: bytes, asked: Asked) -> None:
        self._bytes += self._file.write(line)
        self._asked.append(asked)

    def done(self) -> tuple[Path, list[Asked]]:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return self._path, self._asked


def _request(question: Question) -> bytes:
    """A line of the request file. The output budget is the large one at once: a batch is billed by what it uses."""
    body = question.asker.body(question, more_output=MORE_OUTPUT)
    line = {"custom_id": question.key.hex(), "method": "POST", "url": PATH, "body": body}
    return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)


def _keep_only(requests: Path, keys: set[bytes]) -> None:
    """Leave out the requests that another process was quicker to claim."""
    names = {key.hex() for key in keys}
    lines = requests.read_bytes().splitlines(keepends=True)
    requests.write_bytes(b"".join(line for line in lines if orjson.loads(line)["custom_id"] in names))
    if not names:
        requests.unlink()


def _outcomes(lines: Iterable[bytes], asked: Mapping[str, Asked]) -> dict[str, Outcome]:
    """Outcome by id, of the first line of each id that was asked; lines that are no JSON count as absent."""
    found: dict[str, Outcome] = {}
    for line in lines:
        try:
            body = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        name = body.get("custom_id") if isinstance(body, dict) else None
        if name in asked and name not in found:
            found[name] = _outcome(body, asked[name])
    return found


def _outcome(line: Mapping[str, Any], asked: Asked) -> Outcome:
    response = line.get("response") or {}
    if response.get("status_code") == 200 and isinstance(response.get("body"), dict):
        return outcome_of(response["body"], rows=asked.rows, items=asked.items, cut=asked.cut)
    error = line.get("error") or (response.get("body") or {}).get("error") or {}
    text = f"{error.get('code')} {error.get('message')}".lower()
    if "expired" in text:
        return Outcome(reason="deadline")
    if "context" in text or "too long" in text or "too many tokens" in text:
        return Outcome(reason="too_long", evidence_cut=asked.cut)
    return Outcome(reason="refusal" if "content_filter" in text else "endpoint")


def _paid(outcome: Outcome, asked: Asked) -> Outcome:
    return replace(outcome, paid_by=asked.payer)
