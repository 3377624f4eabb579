"""Documents, queries and labels as they come: JSON lines, Parquet, Delta, TREC, BEIR, BRIGHT and R2MED."""

import gzip
import json

import polars as pl
import pytest

from jobs.core.errors import InputError, NotThereError
from jobs.skills.collection import find_subjects, read_subjects
from jobs.skills.documents import Document, RetrievalQuery, read_documents, read_queries
from jobs.skills.labels import read_qrels

DOCUMENTS = [
    {"id": "a", "title": "A", "text": "first", "metadata": {"k": 1}},
    {"id": "b", "title": "", "text": "second"},
]
QUERIES = [{"id": "q1", "text": "one", "excluded_ids": ["b"]}, {"id": "q2", "text": "two"}]
QRELS = [{"query_id": "q1", "document_id": "a", "grade": 2}, {"query_id": "q2", "document_id": "b", "grade": 0}]


def lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def parquet(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(rows).write_parquet(path)
    return path


def delta(path, rows):
    pl.DataFrame(rows).write_delta(str(path))
    return path


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".parquet", ""], ids=["lines", "gzip", "parquet", "delta"])
def test_documents_read_alike_from_every_format(tmp_path, suffix):
    write = {".parquet": parquet, "": delta}.get(suffix, lines)
    found = read_documents(write(tmp_path / f"documents{suffix}", [{"id": "a", "title": "A", "text": "first"}]))
    assert [(one.id, one.content) for one in found] == [("a", "A\nfirst")]


@pytest.mark.parametrize(
    ("row", "want"),
    [
        ({"_id": 7, "text": "t"}, Document(id="7", text="t")),
        ({"id": "x", "content": "long"}, Document(id="x", text="long")),
        (
            {"item_id": "i", "title": "Song", "type": "track", "metadata": {"artist": "X"}},
            Document(id="i", title="Song", text="track X", metadata={"artist": "X"}),
        ),
        ({"id": "empty", "title": " ", "text": ""}, None),
    ],
    ids=["BEIR", "BRIGHT", "an item of a catalogue", "no text: left out"],
)
def test_names_of_columns(tmp_path, row, want):
    assert read_documents(lines(tmp_path / "d.jsonl", [row])) == ([want] if want else [])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"id": "a", "text": "x"}\n{"id": "a", "text": "y"}\n', "'a' stands twice"),
        ('{"text": "x"}\n', "line 1 has no id"),
        ('{"id": "a", "text": 3}\n', "text is 3"),
        ('{"id": "a"\n', "line 1 is no JSON"),
        ("[1]\n", "holds list"),
    ],
)
def test_bad_documents_are_named(tmp_path, content, message):
    (tmp_path / "d.jsonl").write_text(content)
    with pytest.raises(InputError, match=message):
        read_documents(tmp_path / "d.jsonl")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("d.parquet", b"PAR1 and no more", "no readable Parquet"),
        ("d.parquet", b"", "no readable Parquet"),
        ("d.jsonl.gz", gzip.compress(b'{"id": "a", "text": "b"}\n')[:-9], "no whole gzip"),
        ("d.jsonl.gz", b'{"id": "a", "text": "b"}\n', "no whole gzip"),
        ("d.jsonl.gz", b"\x1f\x8b", "no whole gzip"),
        ("d.jsonl", b"[" * 100_000, "no JSON"),
        ("d.jsonl", '{"id": "a", "text": "ü"}'.encode("latin-1"), "not UTF-8"),
        ("_delta_log/0.json", b"{}", "no readable Delta"),
    ],
    ids=["parquet", "nothing", "cut off", "not zipped", "two bytes", "brackets", "encoding", "delta"],
)
def test_files_that_are_broken_are_named(tmp_path, name, content, message):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_documents(tmp_path if "/" in name else tmp_path / name)


def test_a_byte_order_mark_is_no_part_of_the_first_row(tmp_path):
    (tmp_path / "d.jsonl").write_bytes(b'\xef\xbb\xbf{"id": "a", "text": "b"}\n')
    assert [one.id for one in read_documents(tmp_path / "d.jsonl")] == ["a"]


def test_other_files_are_refused(tmp_path):
    with pytest.raises(NotThereError, match="does not exist"):
        read_documents(tmp_path / "none.jsonl")
    (tmp_path / "d.csv").write_text("id,text\n")
    with pytest.raises(InputError, match=r"'\.csv'"):
        read_documents(tmp_path / "d.csv")
    (tmp_path / "d.jsonl").write_bytes(b'{"id": "\xff"}\n')
    with pytest.raises(InputError, match="not UTF-8"):
        read_documents(tmp_path / "d.jsonl")


def test_queries_keep_their_excluded_ids(tmp_path):
    rows = [*QUERIES, {"id": "q3", "query": "three", "excluded_ids": ["N/A"]}]
    found = read_queries(lines(tmp_path / "q.jsonl", rows))
    assert [one.excluded_ids for one in found] == [("b",), (), ()]
    with pytest.raises(InputError, match="excluded_ids is 'b'"):
        read_queries(lines(tmp_path / "q.jsonl", [{"id": "q", "text": "t", "excluded_ids": "b"}]))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("qrels.jsonl", '{"query_id": "q1", "document_id": "a", "grade": 2}\n'),
        ("qrels", "q1 0 a 2\n"),
        ("qrels.tsv", "query-id\tcorpus-id\tscore\nq1\ta\t2\n"),
        ("r2med.jsonl", '{"q_id": "q1", "p_id": "a", "score": 2.0}\n'),
    ],
    ids=["lines", "TREC", "BEIR", "R2MED"],
)
def test_labels_read_alike_from_every_format(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert read_qrels(tmp_path / name).grades == {"q1": {"a": 2}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q1 0 a 1\nq1 a\n", "line 2 has 2 fields"),
        ("q1 0 a high\n", "'high' is no number"),
        ("q1 0 a 0.5\n", "not whole"),
        ("", "holds no label"),
    ],
)
def test_bad_labels_are_named(tmp_path, text, message):
    (tmp_path / "qrels").write_text(text)
    with pytest.raises(InputError, match=message):
        read_qrels(tmp_path / "qrels")


def test_three_files_are_subjects_by_their_queries(tmp_path):
    queries = [{**QUERIES[0], "subject": "x"}, {**QUERIES[1], "subject": "y"}]
    found = read_subjects(
        lines(tmp_path / "d.jsonl", DOCUMENTS), lines(tmp_path / "q.jsonl", queries), lines(tmp_path / "r.jsonl", QRELS)
    )
    assert [(one.name, len(one.documents), [q.id for q in one.queries]) for one in found] == [
        ("x", 2, ["q1"]),
        ("y", 2, ["q2"]),
    ]


def test_a_beir_folder_is_read_as_it_is(tmp_path):
    lines(tmp_path / "corpus.jsonl", [{"_id": "a", "title": "A", "text": "first"}])
    lines(tmp_path / "queries.jsonl", [{"_id": "of-training", "text": "none"}, {"_id": "q1", "text": "one"}])
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\ta\t1\n")
    (one,) = read_subjects(tmp_path, tmp_path, tmp_path)
    assert (one.documents[0].content, one.queries[0].text, one.qrels.relevant("q1")) == ("A\nfirst", "one", {"a"})
    assert len(one.queries) == 1
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nother\ta\t1\n")
    with pytest.raises(InputError, match="labels no query"):
        read_subjects(tmp_path, tmp_path, tmp_path)


@pytest.mark.parametrize("nested", [False, True], ids=["files", "folders"])
def test_bright_is_read_as_it_is(tmp_path, nested):
    for name in ("biology", "economics"):
        tail = f"{name}/0000.parquet" if nested else f"{name}-00000-of-00001.parquet"
        parquet(
            tmp_path / "documents" / tail,
            [{"id": f"{name}/a", "content": "first"}, {"id": f"{name}/b", "content": "second"}],
        )
        parquet(
            tmp_path / "examples" / tail,
            [
                {"query": "one", "reasoning": "r", "id": "0", "excluded_ids": [f"{name}/b"], "gold_ids": [f"{name}/a"]},
                {
                    "query": "two",
                    "reasoning": "r",
                    "id": "1",
                    "excluded_ids": ["N/A"],
                    "gold_ids": [f"{name}/a", f"{name}/b"],
                },
            ],
        )
    found = read_subjects(tmp_path, tmp_path, tmp_path)
    assert [one.name for one in found] == ["biology", "economics"]
    assert found[0].queries == (
        RetrievalQuery(id="0", text="one", excluded_ids=("biology/b",), subject="biology"),
        RetrievalQuery(id="1", text="two", subject="biology"),
    )
    assert found[1].qrels.relevant("1") == {"economics/a", "economics/b"}


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_r2med_is_read_as_it_is(tmp_path, kind):
    write = lines if kind == "jsonl" else parquet
    for name in ("Biology", "PMC-Clinical"):
        write(tmp_path / name / f"corpus.{kind}", [{"id": "a", "text": "first"}])
        write(tmp_path / name / f"query.{kind}", [{"id": "q1", "text": "one"}])
        write(tmp_path / name / f"qrels.{kind}", [{"q_id": "q1", "p_id": "a", "score": 1}])
    found = read_subjects(tmp_path, tmp_path, tmp_path)
    assert [(one.name, one.qrels.relevant("q1")) for one in found] == [("Biology", {"a"}), ("PMC-Clinical", {"a"})]
    with pytest.raises(InputError, match="several subjects"):
        read_subjects(tmp_path, lines(tmp_path / "q.jsonl", QUERIES), tmp_path)


def test_an_incomplete_collection_is_named(tmp_path):
    parquet(tmp_path / "documents" / "x.parquet", [{"id": "a", "content": "t"}])
    (tmp_path / "examples").mkdir()
    with pytest.raises(InputError, match="'x' has documents and no examples"):
        find_subjects(tmp_path)
    lines(tmp_path / "beir" / "corpus.jsonl", [{"_id": "a", "text": "t"}])
    with pytest.raises(InputError, match="no queries or no qrels"):
        read_subjects(tmp_path / "beir", tmp_path / "beir", tmp_path / "beir")
