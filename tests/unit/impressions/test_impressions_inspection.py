"""What inspect proposes is what ingest accepts, and what it saw is said."""

import json
import tomllib

import polars as pl
import pytest

from jobs.core.errors import InputError, UsageError
from jobs.core.settings import Settings
from jobs.impressions.guessing import SURE, guess, plain
from jobs.impressions.inspection import inspect
from jobs.impressions.proposal import block
from tests.unit.impressions.logs import event, ndjson, query


def write(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    return str(path)


def a_ubi_log():
    documents = [
        query(f"q{n}", hits=["a", "b"], application="web", query_attributes={"ranker": "x"}) for n in range(40)
    ]
    documents += [query(f"z{n}", application="app", at="2026-11-20T10:00:00") for n in range(40)]
    documents += [event("impression", f"z{n}", rank=n % 2, item=f"i{n % 2}", application="app") for n in range(40)]
    documents += [event("item_click", f"q{n}", item="b", rank=2, application="web") for n in range(10)]
    documents += [event("scroll", "q1", application="web"), event("item_click", "lost", application="web")]
    return ndjson(*documents)


def test_a_ubi_log_is_described_and_its_block_ingests(tmp_path, bench):
    path = write(tmp_path, "log.ndjson", a_ubi_log())
    seen = inspect(path)
    assert seen.format == "ubi" and seen.applications == {"web": 52, "app": 80}
    assert seen.bases == {"app": 0, "default": 1}
    assert seen.times == {"ISO with offset": 91, "ISO without offset": 40}
    assert seen.refused == {"unknown_search": 1}
    text = block(seen, corpus="tracks", name="web")
    assert "some times have no offset" in text and "1 orphans" in text and "scroll 1" in text
    settings = Settings.model_validate({**tomllib.loads(text), "store": bench.store.uri})
    (source,) = settings.sources
    summary = bench.ingest(source.model_copy(update={"time_zone": "UTC"}), paths=[path])
    assert summary["clicks"] == 10 and summary["ignored"] == 1 and summary["rejected"] == {"unknown_search": 1}
    assert set(bench.store.read("impressions")["ranker"]) == {"x", None}


def test_a_csv_without_times_and_users_says_so(tmp_path, bench):
    rows = b"serp_id,query_id,doc_id,position,clicked\n" + b"".join(
        b"%d,q%d,%d,1,0\n" % (n, n % 3, n) for n in range(50)
    )
    path = write(tmp_path, "log.csv", rows)
    seen = inspect(path)
    assert seen.mapped == {
        "page": "serp_id",
        "query": "query_id",
        "item": "doc_id",
        "rank": "position",
        "click": "clicked",
    }
    text = block(seen, corpus="web", name="log")
    assert "pass --day" in text and "no column tells users" in text
    (source,) = Settings.model_validate(tomllib.loads(text)).sources
    from jobs.impressions.ingest import ingest
    from jobs.impressions.inputs import list_files
    from jobs.impressions.work import Request

    request = Request(source=source, files=tuple(list_files(path)), day="2026-01-05")
    assert ingest([request], work=bench.work(bench.settings(source)))["impressions"] == 50


@pytest.mark.parametrize(
    ("columns", "mapped"),
    [
        (
            ["query_id", "user_query", "doc_id", "rank", "click", "timestamp"],
            {"page": "query_id", "query": "user_query"},
        ),
        (["search_id", "query", "item_id", "rank", "clicked", "shown_at"], {"page": "search_id", "query": "query"}),
        (["request_id", "q", "asin", "pos", "n_clicks", "ts"], {"page": "request_id", "query": "q", "item": "asin"}),
    ],
)
def test_columns_are_proposed_by_name_each_once(tmp_path, columns, mapped):
    row = dict(zip(columns, ["s1", "jazz", "a", 1, 0, "2026-11-20T10:00:00Z"], strict=True))
    seen = inspect(write(tmp_path, "log.jsonl", json.dumps(row).encode()))
    assert {f: seen.mapped[f] for f in mapped} == mapped and seen.missing == []
    assert len(set(seen.mapped.values())) == len(seen.mapped)


def test_what_is_not_recognised_is_named_and_can_be_given(tmp_path):
    frame = pl.DataFrame({"a": ["s1"], "b": ["jazz"], "c": ["x"], "rank": [1]})
    path = str(tmp_path / "log.parquet")
    frame.write_parquet(path)
    seen = inspect(path)
    assert seen.missing == ["page", "query", "item", "click"]
    assert "no column was recognised for page" in block(seen, corpus="c", name="n")
    assert inspect(path, columns={"page": "a", "query": "b", "item": "c"}).impressions == 1


def test_text_of_a_log_cannot_break_out_of_the_block(tmp_path):
    documents = [query(hits=["a"]), event('x"\n[[sources]]\nname = "evil', "q1")]
    text = block(inspect(write(tmp_path, "log.ndjson", ndjson(*documents))), corpus="tracks", name="web")
    assert [s["name"] for s in tomllib.loads(text)["sources"]] == ["web"]


def test_nothing_to_inspect_is_an_error(tmp_path):
    with pytest.raises(InputError, match="every file is empty"):
        inspect(write(tmp_path, "log.ndjson", b""))


USUAL = {
    "page": ["search_id", "serp", "serpId", "request_id", "qid", "session"],
    "query": ["query", "q", "search_query", "search_term", "SearchTerm", "term", "keywords"],
    "item": ["item", "doc", "document", "product", "sku", "listing", "video", "track", "productId"],
    "rank": ["position", "rank", "pos"],
    "click": ["clicked", "click", "is_click"],
    "time": ["ts", "timestamp", "event_time", "eventTime", "date"],
}


@pytest.mark.parametrize(("field", "name"), [(f, n) for f, names in USUAL.items() for n in names])
def test_the_usual_names_of_the_field_are_recognised(field, name):
    others = {f: names[0] for f, names in USUAL.items() if f != field}
    mapped, unsure = guess(list({**others, field: name}.values()), given={})
    assert {f: mapped[f] for f in USUAL} == {**others, field: name}
    assert (field in unsure) == (plain(name) not in SURE[field])


@pytest.mark.parametrize("columns", [["id", "text", "n"], ["a", "b"], []])
def test_nothing_is_made_up_where_names_say_little(columns):
    mapped, unsure = guess(columns, given={})
    assert set(mapped) == set(unsure) and "click" not in mapped


def test_a_log_without_clicks_is_never_proposed_as_one_without_any(tmp_path):
    rows = b"search_id,query,item_id,rank,shown_at\nq1,jazz,a,1,2026-11-20T10:00:00Z\n"
    seen = inspect(write(tmp_path, "log.csv", rows))
    text = block(seen, corpus="c", name="n")
    assert seen.missing == ["click"] and "--columns click=COLUMN" in text and "false" not in text


def test_what_is_uncertain_is_marked_and_what_was_seen_stands_beside(tmp_path):
    rows = b"session;q;doc;pos;click;date\n" + b"".join(b"s%d;jazz %d;d%d;%d;0;2026-11-20\n" % (n, n % 3, n, n % 5)
                                                        for n in range(20))  # fmt: skip
    seen = inspect(write(tmp_path, "log.csv", rows))
    assert set(seen.unsure) == {"page", "query", "item", "rank", "time"}
    text = block(seen, corpus="c", name="n")
    assert "uncertain: columns.page = 'session'" in text
    assert 'separator" = ";"' in text and "3 different in 20 rows" in text and "0 to 4, 20% at 0" in text
    assert tomllib.loads(text)["sources"][0]["columns"]["query"] == "q"


@pytest.mark.parametrize(
    ("columns", "message"),
    [({"querry": "q"}, "'querry' is no field: use page, query"), ({"query": "z"}, "has no 'z': it has q, doc")],
)
def test_columns_that_do_not_exist_are_wrong_use(tmp_path, columns, message):
    path = write(tmp_path, "log.csv", b"q,doc\njazz,a\n")
    with pytest.raises(UsageError, match=message) as caught:
        inspect(path, columns=columns)
    assert caught.value.exit_code == 2


def test_a_given_column_of_a_ubi_log_is_honoured_and_one_that_no_document_has_is_wrong_use(tmp_path):
    path = write(tmp_path, "log.ndjson", ndjson(query(hits=["a"], query_attributes={"lane": "x"})))
    seen = inspect(path, columns={"ranker": "query_attributes.lane"})
    assert 'ranker" = "query_attributes.lane"' in block(seen, corpus="c", name="n")
    with pytest.raises(UsageError, match=r"has no 'query_attributes\.bane'"):
        inspect(path, columns={"ranker": "query_attributes.bane"})


def test_nested_objects_and_tables_are_looked_into(tmp_path):
    from deltalake import write_deltalake

    row = {"search": {"id": 1, "query": "jazz"}, "doc": {"position": 1, "product_id": "a"}, "click": False,
           "serp_id": "s", "ts": 1795161600}  # fmt: skip
    seen = inspect(write(tmp_path, "log.jsonl", json.dumps(row).encode()))
    assert (seen.mapped["query"], seen.mapped["rank"], seen.impressions) == ("search.query", "doc.position", 1)
    flat = {"serp_id": "s", "query": "jazz", "product_id": "a", "rank": 1, "click": 0, "ts": 1795161600, "hour": "01"}
    write_deltalake(str(tmp_path / "searches"), pl.DataFrame([flat]).to_arrow(), partition_by=["hour"])
    assert (inspect(str(tmp_path / "searches")).format, inspect(str(tmp_path / "searches")).impressions) == ("delta", 1)
