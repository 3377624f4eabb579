"""Pages without titles in file mode: filled from a catalogue, and counted where they stay without."""

import json

import pytest
from typer.testing import CliRunner

from jobs.core.errors import InputError
from jobs.judging.inputs import page_from
from jobs.judging.job import app
from jobs.judging.titles import Titles
from tests.unit.judging.scripted import endpoint


def page(page_id, *ids, corpus=None, **titles):
    items = [{"item_id": i, **({"title": titles[i]} if i in titles else {})} for i in ids]
    return page_from({"page_id": page_id, "query": "q", "items": items, **({"corpus": corpus} if corpus else {})})


def catalogue(folder, *rows):
    path = folder / "items.jsonl"
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


A = {"corpus": "tracks", "item_id": "a", "title": "Blue Moon", "type": "track", "metadata": {"year": 1934}}
OTHER = {"corpus": "podcasts", "item_id": "a", "title": "A Podcast"}
B = {"corpus": "tracks", "item_id": 7, "title": "Seven"}


@pytest.mark.parametrize(
    ("why", "rows", "corpus", "titles", "untitled"),
    [
        ("by corpus and id", [A, OTHER, B], "tracks", ["Blue Moon", "Seven"], 0),
        ("an id of several corpora means nothing by itself", [A, OTHER, B], None, ["", "Seven"], 1),
        ("an id of one corpus does", [A, B], None, ["Blue Moon", "Seven"], 0),
        ("another corpus is another item", [A, B], "podcasts", ["", ""], 2),
        ("an item that the catalogue has without a title", [{"item_id": "a"}, B], None, ["", "Seven"], 1),
        ("an empty catalogue", [], "tracks", ["", ""], 2),
    ],
)
def test_items_are_found_by_corpus_and_id(tmp_path, why, rows, corpus, titles, untitled):
    given = [page("p", "a", "7", corpus=corpus)]
    found = Titles(catalogue(tmp_path, *rows), lambda: given)
    (filled,) = found.pages(given)
    assert [item.title for item in filled.items] == titles, why
    assert (found.untitled.items, found.untitled.pages) == (untitled, int(untitled > 0))


def test_what_a_page_says_itself_stays(tmp_path):
    given = [page("p", "a", corpus="tracks", a="My Title")]
    found = Titles(catalogue(tmp_path, A), lambda: given)
    assert list(found.pages(given)) == given
    assert found.sentence() == ""


def test_a_second_reading_counts_anew():
    given = [page("p", "a", "b"), page("q", "a", a="A")]
    found = Titles(None, lambda: given)
    for _ in range(2):
        assert list(found.pages(given)) == given
    assert found.sentence() == "2 items on 1 pages have no title, so the judge sees none: give a catalogue with --items"


@pytest.mark.parametrize("row", ["{", "[]", '{"title": "t"}', '{"item_id": "a", "metadata": 3}', '{"item_id": true}'])
def test_bad_lines_of_a_catalogue_are_named(tmp_path, row):
    with pytest.raises(InputError, match=r"items\.jsonl, line 2"):
        Titles(catalogue(tmp_path, B, row), lambda: [page("p", "a")])


def call(folder, verb, *more, judge):
    paths = ["--pages", str(folder / "pages.jsonl"), "--out", str(folder / "out.jsonl"), *judge, *more]
    return CliRunner().invoke(app, [verb, *paths, "--variants", "plain", "--json"])


@pytest.mark.parametrize("verb", ["run", "plan"])
@pytest.mark.parametrize("kind", ["openai", "offline-baseline"])
def test_both_verbs_say_how_many_items_have_no_title_and_take_a_catalogue(tmp_path, verb, kind):
    rows = [{"page_id": str(n), "corpus": "tracks", "query": "q", "items": [{"item_id": "a"}]} for n in range(3)]
    (tmp_path / "pages.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with endpoint() as (url, calls):
        judge = ["--base-url", url, "--model", "m"] if kind == "openai" else ["--judge", kind]
        bare = call(tmp_path, verb, judge=judge)
        whole = call(tmp_path, verb, "--items", str(catalogue(tmp_path, A)), judge=judge)
        sent = "\n".join(calls.prompts)
    summaries = [json.loads(done.stdout.splitlines()[-1]) for done in (bare, whole)]
    assert [s["items_without_title"] for s in summaries] == [3, 0]
    assert "3 items on 3 pages have no title" in bare.stderr
    assert "no title" not in whole.stderr
    assert ("Blue Moon" in sent) == (verb == "run" and kind == "openai")


def test_a_catalogue_belongs_to_pages_from_a_file():
    done = CliRunner().invoke(app, ["run", "--items", "items.jsonl"])
    assert (done.exit_code, "--items items.jsonl is for --pages" in done.stderr) == (2, True)
