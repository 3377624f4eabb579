"""Human labels: scales, raters, item labels turned into page labels, and what is refused."""

import gzip
import json
from math import log2
from pathlib import Path

import pytest

from jobs.core.errors import InputError, NotThereError, SettingsError
from jobs.pages.agreement import agreement
from jobs.pages.labelmap import LabelMap, load_map
from jobs.pages.labels import derived_label, import_labels

W2, W3 = 1 / log2(3), 1 / log2(4)
GOLDEN = Path("tests/golden/pages")
QUEPID = Path("../shared/data/quepid_icecat_rating_party/judgements.csv.gz")
VASWANI = Path("../shared/data/vaswani_npl")


def write(folder, name, lines):
    path = folder / name
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n"
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


def imported(folder, lines, *, name="labels.jsonl", **label_map):
    path = write(folder, name, lines)
    return import_labels(path, label_map=LabelMap.model_validate(label_map), folder=folder)


def page(label, *, rater="r1", items=("x", "y"), query="Jazz", **more):
    listed = [{"item_id": i, "rank": n, "title": i.upper()} for n, i in enumerate(items, start=1)]
    return {"query": query, "locale": "en", "corpus": "c", "items": listed, "label": label, "rater": rater, **more}


def test_several_raters_of_one_page_are_averaged_with_their_agreement(tmp_path):
    got = imported(tmp_path, [page(1), page(0.5, rater="r2"), page(0, rater="r3", query="blues")])
    assert [(p["query"], p["human_label"]) for p in got.pages] == [("Jazz", 0.75), ("blues", 0.0)]
    assert {p["human_label_source"] for p in got.pages} == {"page"}
    assert got.summary["agreement"] == {"units": 1, "exact_pairs": 0.0, "alpha": 0.0, "reason": None}
    assert got.pages[0]["made"]["labels"] == {"r1": 1.0, "r2": 0.5}


@pytest.mark.parametrize(
    ("other", "pages", "why"),
    [
        (page(0, rater="r2"), 1, "the same page again"),
        (page(0, rater="r2", query=" jazz "), 1, "the same query once normalised"),
        (page(0, rater="r2", items=("y", "x")), 2, "another order is another page"),
        (page(0, rater="r2", context="to dance"), 2, "another context"),
        (page(0, rater="r2", locale="de"), 2, "another locale"),
        (page(0, rater="r2", corpus="d"), 2, "another corpus"),
    ],
)
def test_what_makes_a_page(tmp_path, other, pages, why):
    assert len(imported(tmp_path, [page(1), other]).pages) == pages, why


def test_a_page_keeps_its_id_whatever_else_the_file_holds(tmp_path):
    alone = imported(tmp_path, [page(1)]).pages[0]["page_id"]
    later = imported(tmp_path, [page(0, query="blues"), page(0.5)]).pages[1]["page_id"]
    assert alone == later


@pytest.mark.parametrize(
    ("line", "reason", "why"),
    [
        ("not json", "no_json", "a broken line"),
        ("[1]", "no_json", "JSON, but no object"),
        (page(1, query="  "), "no_query", "an empty query"),
        (page(1, items=()), "no_item", "no items"),
        (page(2), "label_off_scale", "above the scale"),
        (page(0.7), "label_off_scale", "between its steps: never rounded"),
        (page(True), "label_off_scale", "a truth value is no number"),
        (page("NaN"), "label_off_scale", "not a number"),
        (page(None), "no_label", "nothing to learn from"),
        (page(""), "no_label", "an empty label"),
    ],
)
def test_refused_rows_are_counted_by_reason(tmp_path, line, reason, why):
    got = imported(tmp_path, [page(1), line])
    assert got.summary["rejected"] == {reason: 1}, why
    assert got.summary["rows_in"] == 2
    assert len(got.pages) == 1


def test_nothing_usable_is_an_error_that_says_why(tmp_path):
    with pytest.raises(InputError, match="label_off_scale"):
        imported(tmp_path, [page(3)])


@pytest.mark.parametrize(
    ("label", "want", "why"),
    [(3, 1.0, "as written"), ("3", 1.0, "as text"), ("3.0", 1.0, "by value"), ("good", 0.5, "words")],
)
def test_declared_scales(tmp_path, label, want, why):
    got = imported(tmp_path, [page(label)], scale={"0": 0, "3": 1, "good": 0.5})
    assert got.pages[0]["human_label"] == want, why


def item(item_id, label, *, position=None, rater="r1", query="jazz"):
    return {"query": query, "doc": item_id, "position": position, "grade": label, "rater": rater}


ITEMS = {
    "kind": "items", "scale": {"0": 0, "1": 0.5, "2": 1},
    "columns": {"item": "doc", "rank": "position", "label": "grade"},
}  # fmt: skip


def test_item_labels_become_a_page_label(tmp_path):
    rows = [item("b", 0, position=2), item("a", 2, position=1), item("a", 1, position=1, rater="r2"), item("c", None)]
    got = imported(tmp_path, rows, **ITEMS)
    (one,) = got.pages
    assert [i["item_id"] for i in one["items"]] == ["a", "b", "c"], "by position; without one last"
    assert one["human_label"] == pytest.approx((0.75 * 1 + 0 * W2) / (1 + W2))
    assert one["human_label_source"] == "derived"
    assert one["made"]["rated_share"] == pytest.approx((1 + W2) / (1 + W2 + W3), abs=1e-6)


@pytest.mark.parametrize(
    ("items", "label", "why"),
    [
        ([(1, 1.0), (2, 0.0)], 1 / (1 + W2), "DCG weights"),
        ([(1, 1.0), (2, None), (3, None)], None, "under half of the weight is rated"),
        ([(1, None), (2, 0.5), (3, 0.5)], 0.5, "just over half is rated"),
        ([(1, 1.0), (2, None)], 1.0, "more than half is rated"),
        ([(1, None), (2, None)], None, "nothing is rated"),
    ],
)
def test_derived_label(items, label, why):
    assert derived_label(items, min_rated_share=0.5)[0] == (None if label is None else pytest.approx(label)), why


def test_positions_that_repeat_keep_the_order_of_the_file(tmp_path):
    rows = [item("late", 0, position=2), item("first", 0, position=1), item("second", 0, position=1)]
    assert [i["item_id"] for i in imported(tmp_path, rows, **ITEMS).pages[0]["items"]] == ["first", "second", "late"]


def test_skipped_ratings_leave_their_item_on_the_page(tmp_path):
    rows = [{**item("a", 2), "odd": "True"}, {**item("b", 2), "odd": "False"}]
    (one,) = imported(tmp_path, rows, **ITEMS, skip=[{"column": "odd", "value": "True"}]).pages
    assert one["made"]["item_labels"] == {"b": 1.0}
    assert len(one["items"]) == 2


def test_page_labels_from_csv_with_ids_in_one_cell(tmp_path):
    lines = ["query,locale,items,label", "jazz,en,x|y|x,0.5"]
    (one,) = imported(tmp_path, lines, name="l.csv.gz", corpus="c").pages
    assert [i["item_id"] for i in one["items"]] == ["x", "y"], "an item stands once"


def test_trec_qrels_with_a_run(tmp_path):
    write(tmp_path, "run", ["1 Q0 d1 9 0.5 t", "1 Q0 d2 1 0.9 t", "1 Q0 d3 2 0.5 t", "2 Q0 d9 1 1 t"])
    write(tmp_path, "topics", ["1\tjazz piano", "3\tnever asked"])
    label_map = {"kind": "trec", "ranking": "run", "queries": "topics", "scale": {"0": 0, "2": 1}}
    got = imported(tmp_path, ["1 0 d2 2", "1 0 d1 0"], name="qrels", **label_map)
    (one,) = got.pages
    assert [i["item_id"] for i in one["items"]] == ["d2", "d3", "d1"], "by similarity, ties by id descending"
    assert one["made"]["item_labels"] == {"d2": 1.0, "d1": 0.0}
    assert got.summary["rejected"] == {"no_query": 1}, "a topic without text cannot be judged"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('kind = "page"', "a kind that does not exist"),
        ("colums = 1", "an unknown key"),
        ('[scale]\n"1" = 2', "a value outside [0, 1]"),
        ("kind = ", "no TOML"),
    ],
)
def test_maps_that_are_wrong(tmp_path, text, why):
    (tmp_path / "m.toml").write_text(text)
    with pytest.raises(SettingsError):
        load_map(tmp_path / "m.toml")


@pytest.mark.parametrize(
    ("units", "alpha", "exact", "why"),
    [
        ([[0, 0], [1, 1]], 1.0, 1.0, "perfect"),
        ([[0, 1], [1, 0]], -0.5, 0.0, "always opposed: worse than chance"),
        ([[1], [0]], None, None, "nobody rated twice"),
        ([[1, 1], [1, 1]], None, 1.0, "no variation: undefined, with a reason"),
        ([[0, 0.5], [1, 1], [0.5, 0.5, 1]], 0.5, 0.4, "by hand, unequal raters"),
    ],
)
def test_agreement(units, alpha, exact, why):
    got = agreement(units)
    assert got["alpha"] == (None if alpha is None else pytest.approx(alpha)), why
    assert got["exact_pairs"] == (None if exact is None else pytest.approx(exact)), why
    assert (got["alpha"] is None) == (got["reason"] is not None)


@pytest.mark.skipif(not QUEPID.exists(), reason="the shared sample of Quepid ratings is not beside this checkout")
def test_quepid_ratings():
    got = import_labels(QUEPID, label_map=load_map(GOLDEN / "quepid.toml"), folder=GOLDEN)
    s = got.summary
    assert (s["pairs"], s["rated_units"], s["ratings"], s["skipped_ratings"]) == (2420, 1358, 1920, 22)
    assert (s["pages"], s["labelled"], s["unlabelled"]) == (137, 107, {"too_little_rated": 30})
    assert s["agreement"]["units"] == 562
    assert all(len({i["item_id"] for i in p["items"]}) == len(p["items"]) for p in got.pages)
    assert sum(p["context"] is not None for p in got.pages) == 2, "all that the file has"


@pytest.mark.skipif(not VASWANI.exists(), reason="the shared Vaswani collection is not beside this checkout")
def test_topics_of_a_trec_collection():
    from jobs.pages.trec import read_qrels, read_topics

    topics = read_topics(VASWANI / "query-text.trec")
    assert len(topics) == 93
    assert {q for q, _ in read_qrels(VASWANI / "qrels")} <= set(topics)


@pytest.mark.parametrize(
    ("why", "row", "reason"),
    [
        ("bytes that are no UTF-8", b'{"query": "\xff", "items": ["a"], "label": 1}', "no_json"),
        ("half a list of items", b'{"query": "q", "items": "[1, 2", "label": 1}', "no_item"),
        ("items that are a number", b'{"query": "q", "items": 7, "label": 1}', "no_item"),
        ("an item without an id", b'{"query": "q", "items": [{"title": "t"}], "label": 1}', "no_item"),
        ("a label that is no number", b'{"query": "q", "items": ["a"], "label": "NaN"}', "label_off_scale"),
        ("an infinite label", b'{"query": "q", "items": ["a"], "label": 1e999}', "label_off_scale"),
        ("a list", b"[1]", "no_json"),
        ("nested beyond reason", b"[" * 100_000, "no_json"),
    ],
)
def test_unreadable_label_rows_are_counted_with_their_reason(tmp_path, why, row, reason):
    path = write(tmp_path, "labels.jsonl", [page(1)])
    path.write_bytes(path.read_bytes() + row + b"\n")
    got = import_labels(path, label_map=LabelMap(), folder=tmp_path)
    assert (len(got.pages), got.summary["rejected"]) == (1, {reason: 1}), why


@pytest.mark.parametrize("gone", ["qrels", "run", "topics"])
def test_missing_trec_files_are_named(tmp_path, gone):
    files = {"qrels": "1 0 d 1", "run": "1 Q0 d 1 0.5 t", "topics": "1\tblue moon"}
    for name, text in files.items():
        if name != gone:
            write(tmp_path, name, [text])
    label_map = LabelMap(kind="trec", ranking="run", queries="topics", scale={"0": 0, "1": 1})
    with pytest.raises(NotThereError, match=gone):
        import_labels(tmp_path / "qrels", label_map=label_map, folder=tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("run", "1 Q0 d 1 nan t", "similarity 'nan'"),
        ("run", "1 Q0 d", "line 1 has 3 fields"),
        ("qrels", "1 0 d", "line 1 has 3 fields"),
        ("topics", '{"id": 1}', "line 1: is no topic"),
        ("topics", "{no", "line 1: is no topic"),
    ],
)
def test_bad_trec_lines_are_named(tmp_path, name, text, said):
    files = {"qrels": "1 0 d 1", "run": "1 Q0 d 1 0.5 t", "topics": "1\tblue moon", name: text}
    for one, body in files.items():
        write(tmp_path, one, [body])
    label_map = LabelMap(kind="trec", ranking="run", queries="topics", scale={"0": 0, "1": 1})
    with pytest.raises(InputError, match=said):
        import_labels(tmp_path / "qrels", label_map=label_map, folder=tmp_path)
