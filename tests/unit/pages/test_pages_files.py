"""Files of pages and the sample: what is accepted, what is refused and why."""

import gzip
import json

import polars as pl
import pytest
from deltalake import write_deltalake

from jobs.core.errors import InputError, NotThereError
from jobs.core.keys import key_hex, query_key
from jobs.pages.files import content_rows, is_table, parse_pages, read_pages, table_content, write_pages
from jobs.pages.model import page_dicts, pages_frame
from jobs.pages.sample import even_shares, sample_queries
from jobs.pages.show import page_text
from jobs.pages.shown import coverage, page_views, smallest
from schemas.pages import PAGES


def parsed(*rows, **defaults):
    return parse_pages(enumerate(rows, start=1), name="f", defaults=defaults)


PAGE = {"page_id": "p", "query": "Jazz  Piano", "items": [{"item_id": "a"}, {"item_id": 12345, "rank": 2}]}


def test_only_id_query_and_items_are_needed():
    (page,) = parsed(PAGE, corpus="c").pages
    assert [(i["item_id"], i["rank"], i["title"]) for i in page["items"]] == [("a", 1, ""), ("12345", 2, "")]
    assert page["query_key"] == key_hex(query_key("c", "", "jazz piano"))
    assert (page["set"], page["configuration"], page["system"], page["instance"]) == ("other", "shown", None, 0)


@pytest.mark.parametrize(
    ("change", "said", "why"),
    [
        ({"query": " "}, "query is empty", "no query"),
        ({"items": []}, "items", "no items"),
        ({"items": [{"item_id": "a"}, {"item_id": "a"}]}, "stands twice", "an item twice"),
        ({"items": [{"item_id": "a", "rank": 1}, {"item_id": "b", "rank": 1}]}, "stands twice", "a rank twice"),
        ({"items": [{"item_id": ""}]}, "item_id", "an empty id"),
        ({"items": [{"item_id": "a", "rank": 0}]}, "rank", "ranks start at 1"),
        ({"system": "c"}, "system", "a third system"),
        ({"human_label": 1.5}, "human_label", "a label outside [0, 1]"),
        ({"truth": float("nan")}, "truth", "no number"),
        ({"set": "mine"}, "set", "an unknown set"),
    ],
)
def test_refused_pages_say_why(change, said, why):
    got = parsed(PAGE, {**PAGE, "page_id": "q", **change})
    assert len(got.pages) == 1, why
    assert said in got.refused[0][1], why
    assert got.refused[0][0] == 2


def test_a_second_page_of_the_same_id_is_refused():
    assert "stands twice" in parsed(PAGE, PAGE).refused[0][1]


def test_no_page_at_all_is_an_error():
    with pytest.raises(InputError, match="holds no page"):
        parsed({**PAGE, "items": []})
    with pytest.raises(InputError, match="no lines"):
        parsed()


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(NotThereError, match=r"nope\.jsonl"):
        read_pages(tmp_path / "nope.jsonl", defaults={})


@pytest.mark.parametrize("name", ["p.jsonl", "p.parquet"])
def test_written_pages_are_read_again(tmp_path, name):
    pages = parsed({**PAGE, "context": {"need": "to dance"}}, {**PAGE, "page_id": "q"}).pages
    write_pages(pages, tmp_path / name)
    assert read_pages(tmp_path / name, defaults={}).pages == pages


FILES = {
    "p.jsonl": lambda rows: lines_of(rows),
    "p.jsonl.gz": lambda rows: gzip.compress(lines_of(rows)),
    "bom.jsonl": lambda rows: b"\xef\xbb\xbf" + lines_of(rows).replace(b"\n", b"\r\n"),
}


def lines_of(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def tables_of(rows, folder):
    """The same pages as a Delta table and a folder of Parquet, with nested columns and with JSON text."""
    nested = pl.DataFrame(rows)
    text = nested.with_columns(items=pl.Series([json.dumps(row["items"]) for row in rows]))
    for name, frame in (("nested", nested), ("text", text)):
        write_deltalake(str(folder / f"{name}-delta"), frame.to_arrow())
        (folder / f"{name}-parquet").mkdir()
        frame.write_parquet(folder / f"{name}-parquet" / "part-0.parquet")
    return [folder / f"{name}-{kind}" for name in ("nested", "text") for kind in ("delta", "parquet")]


def test_files_and_tables_hold_the_same_pages(tmp_path):
    rows = [
        {"page_id": str(i), "query": "Füße", "context": "c" if i else None,
         "items": [{"item_id": "a", "rank": 1, "title": "A", "type": None}, {"item_id": "b", "rank": 2, "title": None,
                                                                             "type": "track"}]} for i in range(3)
    ]  # fmt: skip
    bare = [{**row, "items": [{k: v for k, v in i.items() if v is not None} for i in row["items"]]} for row in rows]
    want = parsed(*bare).pages
    paths = []
    for name, written in FILES.items():
        (tmp_path / name).write_bytes(written(bare))
        paths.append(tmp_path / name)
        content = content_rows((tmp_path / name).read_bytes(), name=name)
        assert parse_pages(content, name=name, defaults={}).pages == want, name
    for path in [*paths, *tables_of(rows, tmp_path)]:
        assert read_pages(path, defaults={}).pages == want, path.name
        if is_table(str(path)):
            content = content_rows(table_content(str(path)), name=path.name)
            assert parse_pages(content, name="copy", defaults={}).pages == want, path.name


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("p.parquet", b"no", InputError),
        ("p.jsonl.gz", b"no", InputError),
        ("p.jsonl.gz", gzip.compress(lines_of([PAGE]))[:-9], InputError),
        ("p.jsonl", b"", InputError),
        ("empty", None, NotThereError),
    ],
)
def test_what_is_no_file_of_pages_is_named(tmp_path, name, content, error):
    path = tmp_path / name
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(error, match=name):
        read_pages(path, defaults={})


@pytest.mark.parametrize("bad", [b"{", b"[" * 100_000, b'{"page_id": "\xff", "query": "q"}', b"7", b'"\\ud800"'])
def test_one_bad_line_is_refused_and_the_others_are_read(tmp_path, bad):
    path = tmp_path / "p.jsonl"
    path.write_bytes(lines_of([PAGE]) + bad + b"\n" + lines_of([{**PAGE, "page_id": "q"}]))
    read = read_pages(path, defaults={})
    assert [p["page_id"] for p in read.pages] == ["p", "q"]
    assert [line for line, _ in read.refused] == [2]


def test_table_rows_and_file_rows_are_the_same_pages():
    pages = parsed({**PAGE, "context": "line\u2028separator"}).pages
    frame = pages_frame(pages, run="night-2024-03-20", set_name="other")
    assert PAGES.problems(frame) == []
    assert page_dicts(frame) == pages
    assert PAGES.problems(pages_frame([], run="night-2024-03-20", set_name="other")) == []


def test_show_has_a_line_for_everything():
    text = page_text({**parsed(PAGE).pages[0], "truth": 0.5, "truth_standard_error": 0.1, "made": {"from": "here"}})
    for said in ("Jazz  Piano", "12345", "0.500, 95% interval 0.304 to 0.696", "from: here", "human label: -"):
        assert said in text


def queries(n, *, start=0, users=50, locale="en"):
    keys = pl.int_range(start, start + n, eager=True).cast(pl.Int64) * 7_919_317_523_411
    return pl.DataFrame({"query_key": keys}).with_columns(users=pl.lit(users), locale=pl.lit(locale))


def test_tomorrows_sample_is_todays_plus_news():
    today, tomorrow = queries(2000), queries(2000, start=40)
    one, two = (set(sample_queries(q, size=500)["query_key"]) for q in (today, tomorrow))
    gone = one - set(tomorrow["query_key"])
    assert len(one) == len(two) == 500
    assert len(one - two) <= len(gone) + 40, "only what left, or was pushed out by what came"
    assert one == set(sample_queries(today.sample(fraction=1, shuffle=True, seed=2), size=500)["query_key"])


@pytest.mark.parametrize(
    ("sizes", "total", "want", "why"),
    [
        ([100, 100], 50, [25, 25], "even"),
        ([5, 100], 50, [5, 45], "what one lacks the other gives"),
        ([5, 5], 50, [5, 5], "all there is"),
        ([1, 2, 100], 6, [1, 2, 3], "shares grow as small groups run out"),
        ([], 5, [], "no strata"),
    ],
)
def test_even_shares(sizes, total, want, why):
    assert even_shares(sizes, total) == want, why


def test_strata_are_sampled_alike():
    many = pl.concat([queries(1000), queries(30, start=5000, locale="de"), queries(500, start=9000, users=300)])
    got = sample_queries(many, size=150, strata=("locale", "popularity"))
    assert got.group_by("locale", "users").len().sort("len")["len"].to_list() == [30, 60, 60]
    assert got.columns == many.columns


def views(n, *, query=1, ranker="old"):
    rows = [
        {"corpus": "c", "locale": "en", "query": "q", "query_key": query, "ranker": ranker, "search_id": f"{ranker}{i}",
         "item_id": f"i{place}", "rank": place}
        for i in range(n) for place in (2, 1)
    ]  # fmt: skip
    return pl.DataFrame(rows)


def test_page_views_are_whole_and_their_sample_is_stable():
    rows = pl.concat([views(50), views(2, ranker="new"), views(5, query=2)])
    found = page_views(rows)
    assert set(found["items"].to_list()[0]) == {"i1", "i2"}
    assert found["items"].to_list()[0] == ["i1", "i2"], "in rank order"
    some = smallest(found, instances=3)
    assert some.group_by("query_key", "ranker").len().sort("query_key", "ranker")["len"].to_list() == [2, 3, 3]
    halves = pl.concat([smallest(page_views(rows[:60]), instances=3), smallest(page_views(rows[60:]), instances=3)])
    assert set(smallest(halves, instances=3)["search_id"]) == set(some["search_id"]), "files apart give the same"


def test_coverage_tells_where_systems_differ():
    made = [{"system": s, "query_key": k} for s, k in [("a", "1"), ("a", "1"), ("a", "2"), ("b", "1")]]
    got = coverage(made)
    assert (got["queries_both"], got["queries_a_only"], got["queries_b_only"]) == (1, 1, 0)
    assert got["instances"] == {"a": {"1": 1, "2": 1}, "b": {"1": 1}}
