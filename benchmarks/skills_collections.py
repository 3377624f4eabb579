"""Public collections as subjects of a skills evaluation; None where the data is not beside this checkout."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

from jobs.skills.collection import Subject
from jobs.skills.documents import Document, RetrievalQuery
from jobs.skills.labels import Qrels, read_qrels

SHARED = Path(__file__).resolve().parent.parent.parent / "shared" / "data"


def vaswani() -> Subject | None:
    """Vaswani NPL: 11,429 abstracts of physics, 93 queries, 2,083 labels."""
    folder = SHARED / "vaswani_npl"
    if not folder.is_dir():
        return None
    documents = _tagged(gzip.decompress((folder / "doc-text.trec.gz").read_bytes()).decode(), "DOC", "DOCNO")
    queries = _tagged((folder / "query-text.trec").read_text(), "top", "num")
    return Subject(
        name="vaswani",
        documents=tuple(Document(id=name, text=text) for name, text in documents),
        queries=tuple(RetrievalQuery(id=name, text=text.lower(), subject="vaswani") for name, text in queries),
        qrels=read_qrels(folder / "qrels"),
    )


def xquad(language: str) -> Subject | None:
    """XQuAD in one language: 240 paragraphs, the first question of each as a query with one relevant paragraph."""
    file = SHARED / "xquad" / f"xquad.{language}.json.gz"
    if not file.exists():
        return None
    data = json.loads(gzip.decompress(file.read_bytes()))["data"]
    paragraphs = [(article.get("title", ""), one) for article in data for one in article["paragraphs"]]
    name = f"xquad-{language}"
    asked = [(f"p{n}", one["qas"][0]) for n, (_, one) in enumerate(paragraphs)]
    return Subject(
        name=name,
        documents=tuple(
            Document(id=f"p{n}", title=title, text=one["context"]) for n, (title, one) in enumerate(paragraphs)
        ),
        queries=tuple(RetrievalQuery(id=one["id"], text=one["question"], subject=name) for _, one in asked),
        qrels=Qrels({one["id"]: {paragraph: 1} for paragraph, one in asked}),
    )


def tot_music() -> Subject | None:
    """Tip-of-the-tongue music needs: long vague posts; the catalogue is the titles that solved any of them."""
    file = SHARED / "tot_music_cc0" / "tot_music.jsonl.gz"
    if not file.exists():
        return None
    rows = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines() if line]
    catalogue: dict[str, Document] = {}
    grades: dict[str, dict[str, int]] = {}
    for row in rows:
        title = row["answer_title"]
        known = catalogue.setdefault(title, Document(id=f"song-{len(catalogue)}", title=title, text=_song(row)))
        grades[row["qid"]] = {known.id: 1}
    queries = tuple(
        RetrievalQuery(id=row["qid"], text=f"{row['title']} {row['text']}", subject="tot-music") for row in rows
    )
    return Subject(name="tot-music", documents=tuple(catalogue.values()), queries=queries, qrels=Qrels(grades))


def _song(row: dict) -> str:
    """Artists and albums of a song, as far as the post names them."""
    items = row.get("answer_items") or []
    artists = dict.fromkeys(artist for one in items for artist in one.get("artists") or [])
    albums = dict.fromkeys(one["album"] for one in items if one.get("album"))
    return f"by {', '.join(artists)} from {', '.join(albums)}" if artists else ""


def _tagged(text: str, tag: str, name: str) -> list[tuple[str, str]]:
    """(id, text) of each record of a TREC file, other tags taken out."""
    records = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    found = []
    for one in records:
        number = re.search(rf"<{name}>\s*(\S+?)\s*</{name}>", one)
        body = re.sub(r"<[^>]+>", " ", one.replace(number.group(0), " "))
        found.append((number.group(1), " ".join(body.split())))
    return found
