"""`hindcast skills`: discover rewriting skills of a corpus, route queries to them, and measure what they bring."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from jobs.core import cli
from jobs.core.context import Context
from jobs.core.errors import HindcastError, UsageError
from jobs.core.progress import Progress

app = typer.Typer(help="Query-rewriting skills of a corpus.", no_args_is_help=True)

DocumentsOption = Annotated[
    str, typer.Option("--documents", help="Documents: .jsonl, .parquet, Delta, BEIR, BRIGHT, R2MED.")
]
QueriesOption = Annotated[str, typer.Option("--queries", help="Retrieval queries, with excluded_ids.")]
QrelsOption = Annotated[str, typer.Option("--qrels", help="Labels: TREC qrels, .jsonl, .tsv, or a collection.")]
SkillsOption = Annotated[str, typer.Option("--skills", help="Skills folder, as `discover` wrote it.")]
OutOption = Annotated[str, typer.Option("--out", help="Where to write.")]
BaseUrlOption = Annotated[str, typer.Option("--base-url", help="OpenAI-compatible endpoint; none: offline-baseline.")]
ModelOption = Annotated[str, typer.Option("--model", help="Model that the endpoint serves.")]
RetrieverOption = Annotated[str, typer.Option("--retriever", help="sentence-transformers model, by name or folder.")]
TemperatureOption = Annotated[float, typer.Option("--temperature", help="Of rewrites; 0.7 with --samples 2.")]
SamplesOption = Annotated[int, typer.Option("--samples", help="Rewrites a query, joined to it when more than one.")]
JoinOption = Annotated[bool, typer.Option("--join/--replace", help="Join a rewrite to its query, or replace it.")]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of clustering and tests.")]

PACKAGED = "all-MiniLM-L6-v2"
_say = Progress().say
OFFLINE_METHODS = "original,generic,skills,embedding-router,random,best-single,oracle"


def run(ctx: Context, corpus: str) -> dict[str, Any]:
    """The nightly step of one corpus (see nightly.py)."""
    from jobs.skills.nightly import run as nightly

    return nightly(ctx, corpus)


TASKS = {"discover": run}


@cli.command(app, "discover", example="hindcast skills discover --documents docs.jsonl --corpus tracks --out skills/")
def discover(
    documents: DocumentsOption = "",
    corpus: Annotated[str, typer.Option("--corpus", help="Name of the corpus.")] = "corpus",
    out: OutOption = "",
    base_url: BaseUrlOption = "",
    model: ModelOption = "",
    retriever: RetrieverOption = PACKAGED,
    max_skills: Annotated[int, typer.Option("--max-skills", help="At most so many skills.")] = 5,
    max_rounds: Annotated[int, typer.Option("--max-rounds", help="At most so many rounds.")] = 3,
    clusters: Annotated[int, typer.Option("--clusters", help="0: about sqrt(documents).")] = 0,
    seed: SeedOption = 0,
    json_: cli.JsonOption = False,
) -> None:
    """Discover skills from documents alone; again on a changed corpus it looks only at what moved."""
    from jobs.skills.commands import Endpoint, discover_files
    from jobs.skills.discovery import Options

    options = Options(max_skills=max_skills, max_rounds=max_rounds, clusters=clusters, seed=seed)
    done = discover_files(
        _path(documents, "--documents"), corpus=corpus, out=_path(out, "--out"), retriever=retriever, options=options,
        endpoint=Endpoint(base_url=base_url, model=model), say=_say,
    )
    cli.finish(done, as_json=json_, text=_discovery_text(done))


@cli.command(app, "rewrite", example="hindcast skills rewrite --queries q.jsonl --skills skills/ --out rewrites.jsonl")
def rewrite(
    queries: QueriesOption = "",
    skills: SkillsOption = "",
    out: OutOption = "",
    documents: DocumentsOption = "",
    method: Annotated[str, typer.Option("--method", help="A method of `evaluate` that needs no labels.")] = "skills",
    base_url: BaseUrlOption = "",
    model: ModelOption = "",
    retriever: RetrieverOption = PACKAGED,
    temperature: TemperatureOption = 0.0,
    samples: SamplesOption = 1,
    join: JoinOption = False,
    json_: cli.JsonOption = False,
) -> None:
    """Rewrite a batch of queries; with --documents the first results of each query are shown to the writer."""
    from jobs.skills.commands import Endpoint, rewrite_file
    from jobs.skills.rewriting import RewriteOptions

    done = rewrite_file(
        _path(queries, "--queries"), skills=_path(skills, "--skills"), out=_path(out, "--out"), method=method,
        documents=Path(documents) if documents else None, endpoint=Endpoint(base_url=base_url, model=model),
        rewriting=RewriteOptions(temperature=temperature, samples=samples, join=join), retriever=retriever, say=_say,
    )
    cli.finish(done, as_json=json_)


@cli.command(
    app, "evaluate",
    example="hindcast skills evaluate --documents d.jsonl --queries q.jsonl --qrels qrels.jsonl --skills skills/"
    " --out evaluation/",
)
def evaluate(
    documents: DocumentsOption = "",
    queries: QueriesOption = "",
    qrels: QrelsOption = "",
    skills: SkillsOption = "",
    methods: Annotated[str, typer.Option("--methods", help="By comma; a wrong name lists all.")] = OFFLINE_METHODS,
    out: OutOption = "",
    human_skills: Annotated[str, typer.Option("--human-skills", help="Folder of skills written by people.")] = "",
    other_skills: Annotated[str, typer.Option("--other-skills", help="Skills of another corpus, as a control.")] = "",
    feedback: Annotated[bool, typer.Option("--feedback", help="Let `calibrated` use stored outcomes.")] = False,
    sensitivity: Annotated[
        bool, typer.Option("--sensitivity", help="Also with half and twice the clusters, and ten skills.")
    ] = False,
    base_url: BaseUrlOption = "",
    model: ModelOption = "",
    retriever: Annotated[list[str] | None, typer.Option("--retriever", help="Model; repeat to compare.")] = None,
    exact_up_to: Annotated[int, typer.Option("--exact-up-to", help="Documents up to which search is exact.")] = 200_000,
    temperature: TemperatureOption = 0.0,
    samples: SamplesOption = 1,
    join: JoinOption = False,
    seed: SeedOption = 0,
    json_: cli.JsonOption = False,
) -> None:
    """nDCG@10 of each method, with costs, tests, router accuracy and calibration."""
    from jobs.skills.commands import Endpoint, Plan, evaluate_files
    from jobs.skills.rewriting import RewriteOptions
    from jobs.skills.sensitivity import vary

    plan = Plan(
        documents=_path(documents, "--documents"), queries=_path(queries, "--queries"), qrels=_path(qrels, "--qrels"),
        skills=_path(skills, "--skills"), methods=tuple(one.strip() for one in methods.split(",") if one.strip()),
        retrievers=tuple(retriever or [PACKAGED]), exact_up_to=exact_up_to, feedback=feedback, seed=seed,
        human=Path(human_skills) if human_skills else None, other=Path(other_skills) if other_skills else None,
    )
    endpoint, rewriting = Endpoint(base_url=base_url, model=model), RewriteOptions(
        temperature=temperature, samples=samples, join=join
    )
    target = _path(out, "--out")
    done = evaluate_files(plan, out=target, endpoint=endpoint, rewriting=rewriting, say=_say)
    if sensitivity:
        done["sensitivity"] = vary(plan, out=target, endpoint=endpoint, rewriting=rewriting, say=_say)
    cli.finish(done, as_json=json_, text=_evaluation_text(done))


@cli.command(app, "run", example="hindcast skills run --config hindcast.toml --day 2026-11-20 --corpus tracks")
def run_command(
    config: cli.ConfigOption = "",
    day: cli.DayOption = "",
    launch: cli.LaunchOption = "",
    run_: cli.RunOption = "",
    corpus: cli.CorpusOption = "",
    json_: cli.JsonOption = False,
) -> None:
    """The nightly step: of one corpus, or of each corpus that has documents."""
    with cli.context(config=config, day=day, launch=launch, run=run_) as ctx:
        corpora = [corpus] if corpus else [name for name in ctx.corpora if ctx.settings.corpora[name].documents]
        done = {name: run(ctx, name) for name in corpora}
    cli.finish(done, as_json=json_, text="\n".join(_discovery_text(one["discovery"]) for one in done.values()))


@cli.command(app, "feedback", example="hindcast skills feedback --skills skills/ --outcomes outcomes.jsonl")
def feedback(
    skills: SkillsOption = "",
    outcomes: Annotated[str, typer.Option("--outcomes", help='{"query","skill_id","outcome","source"} a line.')] = "",
    json_: cli.JsonOption = False,
) -> None:
    """Store graded outcomes of rewrites for the calibrated router; nothing else reads them."""
    from jobs.skills.artefacts import read_index
    from jobs.skills.feedback import gains_of, read_outcomes, store_outcomes

    folder = _path(skills, "--skills")
    read_index(folder)
    count = store_outcomes(folder, read_outcomes(_path(outcomes, "--outcomes")))
    cli.finish({"outcomes": count, "mean_by_skill": dict(gains_of(folder))}, as_json=json_)


@cli.command(app, "replay", example="hindcast skills replay --transcript skills/transcripts/0001.jsonl")
def replay(
    transcript: Annotated[str, typer.Option("--transcript", help="A file of FOLDER/transcripts.")] = "",
    json_: cli.JsonOption = False,
) -> None:
    """Run a kept discovery again from its transcript; exit code 1 if it would come out differently."""
    from jobs.skills.transcript import replay as again

    state, differences = again(_path(transcript, "--transcript"))
    done = {"skills": [one.skill_id for one in state.skills], "stopped": state.stopped, "differences": differences}
    cli.finish(done, as_json=json_)
    if differences:
        raise HindcastError(f"{transcript} replays with {len(differences)} differences: {differences[0]}")


@cli.command(
    app, "pages",
    example="hindcast skills pages --documents items.jsonl --queries q.jsonl --skills skills/ --corpus tracks"
    " --locale en --out pages/",
)
def pages(
    documents: DocumentsOption = "",
    queries: QueriesOption = "",
    skills: SkillsOption = "",
    corpus: Annotated[str, typer.Option("--corpus", help="Corpus of the pages.")] = "",
    locale: Annotated[str, typer.Option("--locale", help="Locale of the queries.")] = "",
    out: OutOption = "",
    method: Annotated[str, typer.Option("--method", help="How system b rewrites.")] = "skills",
    depth: Annotated[int, typer.Option("--depth", help="Items on a page.")] = 10,
    base_url: BaseUrlOption = "",
    model: ModelOption = "",
    retriever: RetrieverOption = PACKAGED,
    json_: cli.JsonOption = False,
) -> None:
    """Pages of original (a) and rewritten (b) queries, ready for `hindcast launch forecast`."""
    from jobs.skills.commands import Endpoint
    from jobs.skills.launch_pages import write_pages

    done = write_pages(
        _path(documents, "--documents"), _path(queries, "--queries"), skills=_path(skills, "--skills"), corpus=corpus,
        locale=locale, out=_path(out, "--out"), method=method, depth=depth, retriever=retriever, say=_say,
        endpoint=Endpoint(base_url=base_url, model=model),
    )
    cli.finish(done, as_json=json_)


def _path(text: str, option: str) -> Path:
    if not text:
        raise UsageError(f"{option} is missing: give its path")
    return Path(text)


def _discovery_text(done: dict[str, Any]) -> str:
    if "subjects" in done:
        return "\n".join(_discovery_text(one) for one in done["subjects"].values())
    state = "unchanged" if done["unchanged"] else done["stopped"]
    lines = [
        f"{done['corpus']}: {len(done['skills'])} skills by {done['model']} from {done['documents']:,} documents in"
        f" {done['clusters']} clusters, {done['covered']} covered ({state}); {done['calls']} calls of at most"
        f" {done['call_bound']}, {done['seconds']['all']:.1f} s"
    ]
    lines += [f"  {one['skill_id']}: {one['description']}" for one in done["skills"]]
    if done["unchanged"]:
        return "\n".join(lines)
    lines += [
        f"  round {one['round']}: {one['covered']} of {one['clusters']} clusters covered,"
        f" {one['document_coverage']:.0%} of the documents" for one in done["rounds"]
    ]
    moved = done["movement"]
    lines.append(
        f"  documents: {moved['documents_added']:,} added, {moved['documents_changed']:,} changed,"
        f" {moved['documents_deleted']:,} deleted; {moved['clusters_moved']} clusters looked at"
    )
    return "\n".join(lines + [f"  {one['change']} {one['skill_id']}: {one['why']}" for one in done["changes"]])


def _evaluation_text(done: dict[str, Any]) -> str:
    if "retrievers" in done:
        return "\n".join(_evaluation_text(one) for one in done["retrievers"].values())
    recall = done["index"]["recall"]
    search = "exact search" if recall is None else f"inverted lists, recall {recall:.3f} of exact search"
    lines = [f"{done['n_queries']} queries, nDCG@10, {done['model']}, {done['retriever']}, {search}"]
    for name, one in done["methods"].items():
        reason = one.get("reason") or "no labelled query"
        value = f"-  {reason}" if one["ndcg10"] is None else f"{one['ndcg10']:.4f}"
        lines.append(f"  {name:18} {value}  {one.get('note', '')}".rstrip())
    return "\n".join(lines)
