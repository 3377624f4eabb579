"""The nightly step of one corpus: bring its skills up to date, rewrite its retrieval queries, measure what it brings.

The skills folder of a corpus stands in the store outside the runs, since people edit and pin skills there. An unchanged
corpus costs no embedding and no call: discovery and evaluation both know what they were made of.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from jobs.core.context import Context
from jobs.core.embedding import Encoder, embedder_for
from jobs.core.errors import UsageError
from jobs.core.storage import filesystem, is_object_store
from jobs.skills.artefacts import read_skills
from jobs.skills.bench import Bench, Extras
from jobs.skills.collection import read_subjects
from jobs.skills.discovery import Options, discover_skills
from jobs.skills.documents import Document, read_documents
from jobs.skills.evaluation import Evaluation, evaluate
from jobs.skills.examples import changed_most
from jobs.skills.llm import OFFLINE, Model
from jobs.skills.models import model_from_settings
from jobs.skills.retrieval import Retriever
from jobs.skills.rewriting import TEMPLATE
from jobs.skills.skill import GENERIC, Skill
from schemas.names import plain_name
from schemas.skills import REWRITES, SKILLS

METHODS = ("original", "generic", "skills", "skills-no-prf", "embedding-router", "random", "best-single", "oracle")
"""What a night measures where a corpus has retrieval queries and labels; the other methods cost calls for baselines."""


def run(ctx: Context, corpus: str) -> dict[str, Any]:
    """The step for one corpus; writes tables skills and rewrites, runs/RUN/skills/CORPUS.json, and the manifest."""
    declared = ctx.settings.corpora.get(corpus)
    if declared is None or not declared.documents:
        raise UsageError(f"corpus {corpus!r} has no documents in the settings: set corpora.{corpus}.documents")
    documents = read_documents(Path(ctx.settings.path(declared.documents)))
    with skills_folder(ctx, corpus) as folder:
        model = model_from_settings(ctx.settings, folder=folder, say=ctx.progress.say)
        encoder = embedder_for(ctx.settings, say=ctx.progress.say)
        discovery = discover_skills(
            documents, corpus=corpus, folder=folder, encoder=encoder, model=model, options=_options(ctx),
            say=ctx.progress.say,
        )
        skills = read_skills(folder).skills
        evaluation, rewrites = _measured(
            ctx, corpus, documents=documents, folder=folder, encoder=encoder, model=model, skills=skills
        )
    return _write(ctx, corpus, skills=skills, discovery=discovery, evaluation=evaluation, rewrites=rewrites)


@contextmanager
def skills_folder(ctx: Context, corpus: str) -> Iterator[Path]:
    """The corpus's skills folder on this machine; of an object store a copy, which is put back at the end."""
    uri = ctx.store.documents.uri(f"skills/{plain_name(corpus, kind='corpus')}")
    if not is_object_store(uri):
        yield Path(uri)
        return
    from pyarrow import fs

    remote, inner = filesystem(uri)
    with TemporaryDirectory(prefix="hindcast-skills-") as local:
        if remote.get_file_info(inner).type == fs.FileType.Directory:
            fs.copy_files(inner, local, source_filesystem=remote)
        yield Path(local)
        remote.create_dir(inner, recursive=True)
        remote.delete_dir_contents(inner)
        fs.copy_files(local, inner, destination_filesystem=remote)


def skills_frame(run: str, corpus: str, skills: Sequence[Skill], discovery: Mapping[str, Any]) -> pl.DataFrame:
    """Rows of the skills table."""
    rows = [
        {
            "run": run, "corpus": corpus, "version": discovery["version"], "skill_id": one.skill_id, "name": one.name,
            "description": one.description, "instruction": one.instruction, "domains": list(one.domains),
            "provenance": json.dumps({
                "model": discovery["model"], "embedding_model": discovery["embedding_model"], "version": one.version,
                "origin": one.origin, "clusters": list(one.clusters), "pinned": one.pinned, "edited": one.edited,
                "why": one.why,
            }, ensure_ascii=False),
        }
        for one in skills
    ]
    return pl.DataFrame(rows, schema=SKILLS.polars())


def rewrites_frame(run: str, corpus: str, version: str, rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Rows of the rewrites table, from the rows that an evaluation kept."""
    full = [{"run": run, "corpus": corpus, "version": version, **row} for row in rows]
    return pl.DataFrame(full, schema=REWRITES.polars())


def rewrite_rows(evaluation: Evaluation, benches: Sequence[Bench], method: str) -> list[dict[str, Any]]:
    """What one method wrote for each query: skill (or generic), text, who wrote it, and why it fell back.

    The oracle wrote nothing for a query without labels: it has no row.
    """
    rows = []
    for bench in benches:
        outcome = evaluation.rows[method].outcomes.get(bench.subject.name)
        for query in bench.subject.queries if outcome else ():
            if query.id not in outcome.rewrites:
                continue
            made = outcome.rewrites[query.id]
            rows.append({
                "query_id": query.id, "query": query.text, "skill_id": outcome.choices.get(query.id, GENERIC),
                "rewrite": made.text, "model": bench.name, "fallback": made.fallback,
            })
    return rows


def _options(ctx: Context) -> Options:
    settings = ctx.settings.skills
    return Options(
        max_skills=settings.max_skills, max_rounds=settings.max_rounds, clusters=settings.clusters, seed=settings.seed
    )


def _measured(
    ctx: Context, corpus: str, *, documents: list[Document], folder: Path, encoder: Encoder, model: Model | None,
    skills: tuple[Skill, ...],
) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """The evaluation's summary and the rewrites; None and nothing where the corpus has no retrieval queries."""
    retrieval = ctx.settings.corpora[corpus].retrieval
    if not retrieval.queries or not retrieval.qrels or not skills:
        return None, []
    queries, qrels = Path(ctx.settings.path(retrieval.queries)), Path(ctx.settings.path(retrieval.qrels))
    source = Path(ctx.settings.path(ctx.settings.corpora[corpus].documents))
    key = _key(documents, queries, qrels, skills, encoder.name, encoder.revision, model.name if model else OFFLINE)
    kept = folder / "state" / "evaluation.json"
    if kept.exists() and (known := json.loads(kept.read_text(encoding="utf-8")))["key"] == key:
        return known["summary"], known["rewrites"]
    retriever = Retriever(documents, encoder)
    benches = [
        Bench(one, retriever, skills, encoder=encoder, model=model, extras=Extras(seed=ctx.settings.skills.seed))
        for one in read_subjects(source, queries, qrels)
    ]
    found = evaluate(benches, METHODS, seed=ctx.settings.skills.seed, say=ctx.progress.say)
    summary = {**found.summary, "examples": changed_most(found, benches)}
    body = {"key": key, "summary": summary, "rewrites": rewrite_rows(found, benches, "skills")}
    kept.write_text(json.dumps(body, ensure_ascii=False, allow_nan=False), encoding="utf-8")
    return body["summary"], body["rewrites"]


def _key(documents: Sequence[Document], queries: Path, qrels: Path, skills: Sequence[Skill], *names: str) -> str:
    """Hash of everything that an evaluation depends on."""
    digest = hashlib.sha256(json.dumps([METHODS, names, TEMPLATE]).encode())
    for one in documents:
        digest.update(f"{one.id}\0{one.hash}\n".encode())
    for path in (queries, qrels):
        digest.update(path.read_bytes())
    for one in sorted(skills, key=lambda skill: skill.skill_id):
        digest.update(json.dumps([one.skill_id, one.card, one.instruction]).encode())
    return digest.hexdigest()


def _write(
    ctx: Context, corpus: str, *, skills: tuple[Skill, ...], discovery: dict[str, Any],
    evaluation: dict[str, Any] | None, rewrites: list[dict[str, Any]],
) -> dict[str, Any]:
    where = {"run": ctx.run.key, "corpus": corpus}
    ctx.store.replace("skills", skills_frame(ctx.run.key, corpus, skills, discovery), where=where)
    frame = rewrites_frame(ctx.run.key, corpus, discovery["version"], rewrites)
    ctx.store.replace("rewrites", frame, where=where)
    summary = {"corpus": corpus, "discovery": discovery, "evaluation": evaluation, "rewrites": len(rewrites)}
    ctx.store.write_json(f"{ctx.folder}/skills/{corpus}.json", summary)
    return ctx.record(f"skills.{corpus}", summary, tables=("skills", "rewrites"))
