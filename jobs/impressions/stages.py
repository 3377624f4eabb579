"""Reading and joining as Spark tasks: specs out, results in, and the checks on what came back."""

import json
from datetime import UTC, date, datetime, time, timedelta

from jobs.core.errors import InputError
from jobs.core.keys import key_hex, key_of
from jobs.core.spark import run_tasks
from jobs.impressions.answers import raise_error
from jobs.impressions.inputs import InputFile
from jobs.impressions.tasks import events_task, join_task, raw_task, read_task
from jobs.impressions.work import Ingestion, Part

TASK_BYTES = {"ubi": 24 << 20, "csv": 24 << 20, "jsonl": 24 << 20, "parquet": 64 << 20, "delta": 64 << 20}
"""Bytes of input a reading task gets: 5 to 15 s of work, so that tasks neither cost more than they do nor pile up."""

MIXED_BASE = 0.01
"""Share of an application's rows one below its declared rank base that can still be dirt; above, the base is wrong."""

DOUBTED_BASE, WRONG_BASE = 20, 100
"""Searches with a rank 1 and none anywhere with the declared 0 at which the base is doubted, and refused. Even where
the first place takes only a tenth of what the first two take, .9**100 = 3e-5 of right declarations look so; where it
takes half, .5**20 = 1e-6."""


def read(parts: list[Part], work: Ingestion) -> None:
    specs, owners = [], []
    for part in parts:
        for i, files in enumerate(_by_size(part.request.files, TASK_BYTES[part.source.format])):
            specs.append(_read_spec(part, files, work, f"{part.source.name}-read-{i}"))
            owners.append(part)
    for part, result in zip(owners, run_tasks(work.spark, read_task, specs, label="impressions: read"), strict=True):
        raise_error(result)
        part.read.append(result)
        part.refused += result["refused"]
        part.notes += result["notes"]
    for part in parts:
        _check_bases(part)
        for note in part.notes:
            work.say(f"  warning: {note}")


def _read_spec(part: Part, files: list[InputFile], work: Ingestion, name: str) -> dict:
    files_key = key_hex(key_of(*sorted(f.uri for f in part.request.files)))
    folder = f"ingested/{part.source.name}/documents/{work.run_id}-{files_key}" if part.keep else work.stage
    return {
        "layout": part.layout.as_dict(),
        "salt": {"secret": work.salt.secret.hex(), "name": work.salt.name},
        "files": [_file_spec(f) for f in files],
        "buckets": part.buckets,
        "out": work.store.documents.uri(f"{folder}/{name}"),
        "scratch": work.out(name),
        "latest": work.latest.isoformat(),
        "size": sum(f.size for f in files),
    }


def _file_spec(file: InputFile) -> dict:
    return {
        "uri": file.uri,
        "key": file.key,
        "arrival_day": file.arrival_day,
        "numbers": file.numbers,
        "constants": file.constants,
    }


def _by_size(files: tuple[InputFile, ...], limit: int) -> list[list[InputFile]]:
    groups: list[list[InputFile]] = []
    size = limit
    for file in files:
        if size + file.size > limit or not groups:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.size
    return groups


def _check_bases(part: Part) -> None:
    """Refuse a source whose applications count ranks from another base than declared; few ranks only raise a doubt."""
    totals: dict[str, list[int]] = {}
    for result in part.read:
        for application, found in result["bases"].items():
            held = totals.get(application, [0, 0, 0, 0])
            totals[application] = [a + b for a, b in zip(held, found, strict=True)]
    for application, (n, below, first, second) in sorted(totals.items()):
        base = part.layout.base(application)
        told = f"source {part.source.name}: application {application!r} is declared with rank base {base}, but"
        if below > MIXED_BASE * n:
            raise InputError(f"{told} {below} of its {n} ranks are {base - 1}: {_declare(application, base - 1)}")
        if base != 0 or first or second < DOUBTED_BASE or part.layout.values.get("first_place") == "never":
            continue
        told = f"{told} none of its {n} ranks is 0 while {second} searches have a rank 1: {_declare(application, 1)}"
        if second >= WRONG_BASE and not part.request.replay:
            raise InputError(
                f'{told}, or values = {{ first_place = "never" }} if the first place is really never logged'
            )
        part.notes.append(told)


def _declare(application: str, base: int) -> str:
    return f"declare rank_base = {{ {json.dumps(application or 'default', ensure_ascii=False)} = {base} }}"


def join(parts: list[Part], work: Ingestion) -> None:
    _find_doubted(parts, work)
    specs, owners = [], []
    for part in parts:
        context, between = _context(part)
        for bucket in range(part.buckets):
            documents = [d for r in part.read for d in r["documents"] if d["bucket"] == bucket]
            if documents:
                specs.append(_join_spec(part, documents, context, between, work.out(f"{part.source.name}-{bucket}")))
                owners.append(part)
    for part, result in zip(owners, run_tasks(work.spark, join_task, specs, label="impressions: join"), strict=True):
        raise_error(result)
        part.joined.append(result)


def _find_doubted(parts: list[Part], work: Ingestion) -> None:
    """Events whose id stands for two things; with one bucket the join itself sees them."""
    specs, owners = [], []
    for part in parts:
        events = [e for r in part.read for e in r["events"]]
        for bucket in sorted({e["bucket"] for e in events}):
            uris = [e["uri"] for e in events if e["bucket"] == bucket]
            specs.append({"events": uris, "out": work.out(f"{part.source.name}-doubted-{bucket}.parquet")})
            owners.append(part)
    for part, result in zip(
        owners, run_tasks(work.spark, events_task, specs, label="impressions: event ids"), strict=True
    ):
        raise_error(result)
        part.doubted += [result["doubted"]] if result["doubted"] else []


def _join_spec(part: Part, documents: list[dict], context: list[str], between: list[str], out: str) -> dict:
    return {
        "documents": [d["uri"] for d in documents],
        "size": sum(d["rows"] for d in documents),
        "doubted": part.doubted,
        "context": context,
        "between": between,
        "files": [f.key for f in part.request.files],
        "shown": part.source.shown,
        "lateness_days": part.source.lateness_days,
        "out": out,
    }


def _context(part: Part) -> tuple[list[str], list[str]]:
    """Kept documents that may belong to this ingestion's searches, and the times between which they arrived."""
    first, last = part.span()
    if not part.keep or not first:
        part.replace = part.keep
        return [], ["", ""]
    allowed = timedelta(days=2 * part.source.lateness_days)
    start, end = date.fromisoformat(first) - allowed, date.fromisoformat(last) + allowed
    part.replace = part.ledger.complete(first=start)
    between = [_midnight(start).isoformat(), _midnight(end + timedelta(days=1)).isoformat()]
    return part.ledger.context(first=start, last=end), between


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), tzinfo=UTC)


def recover_raw(parts: list[Part], work: Ingestion) -> None:
    """Fetch the content of documents that were refused when they were joined."""
    specs, owners = [], []
    for part in parts:
        refused = [j["refused"] for j in part.joined if j["refused"]]
        if refused:
            for i, files in enumerate(_by_size(part.request.files, TASK_BYTES[part.source.format])):
                spec = _read_spec(part, files, work, "") | {"refused": refused}
                specs.append(spec | {"out": work.out(f"{part.source.name}-raw-{i}")})
                owners.append(part)
    for part, result in zip(
        owners, run_tasks(work.spark, raw_task, specs, label="impressions: quarantine"), strict=True
    ):
        raise_error(result)
        part.refused.append(result["refused"])


def check_share(part: Part) -> None:
    rejected, rows = part.rejected(), part.total("rows_in")
    if not part.request.replay and rejected.total() > part.source.max_rejected * rows:
        top = ", ".join(f"{reason} {n}" for reason, n in rejected.most_common(3))
        raise InputError(
            f"source {part.source.name}: {rejected.total()} of {rows} rows were refused ({top}), more than"
            f" max_rejected = {part.source.max_rejected}: mend them or their declaration (see rejected_impressions);"
            " nothing was published"
        )
