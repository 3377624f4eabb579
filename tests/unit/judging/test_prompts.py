"""Prompts: plain and grounded are the same bytes but for the evidence block; files are checked when loaded."""

import pytest

from jobs.core.errors import UsageError
from jobs.judging.inputs import CardRow, Item, Page
from jobs.judging.prompts import least_similar_left_out, load_prompts, render, rounded_count, rounded_share
from jobs.judging.views import SHOWN, shown_rows
from schemas.judgments import GROUNDED

PAGE = Page(
    page_id="p1",
    query="Déjà vu (en vivo)",
    locale="es-MX",
    context={"need": "the live recording"},
    items=(
        Item(item_id="a", rank=1, title="Déjà Vu", type="song", metadata={"artist": "Ana", "year": 1999}),
        Item(item_id="b", rank=2, title="《青花瓷》", metadata={"artist": "周杰伦"}),
    ),
)


def row(item_id, query, similarity, *, row=1, unfiltered=1):
    return CardRow(
        item_id=item_id, query=query, similarity=similarity, impressions=1234, ctr=0.123, relevance=0.347,
        row=row, row_unfiltered=unfiltered,
    )  # fmt: skip


ROWS = [
    row("b", "porcelain song", 0.6),
    row("a", "deja vu live", 0.8),
    row("a", "deja vu en vivo", 0.95, row=None, unfiltered=2),
    row("gone", "not on the page", 0.9),
]


def text(variant, *, prompts=None, rows=ROWS):
    return render(prompts or load_prompts(), PAGE, shown_rows(PAGE, rows, variant=variant), variant=variant)


@pytest.mark.parametrize("variant", GROUNDED)
def test_grounded_is_plain_plus_the_evidence_block(variant):
    plain, grounded = text("plain"), text(variant)
    assert grounded.endswith(plain)
    block = grounded.removesuffix(plain)
    assert "supporting context about the past, not ground truth" in block
    assert block.endswith("</evidence>\n\n")
    assert grounded != plain


def test_a_page_without_rows_is_plain_in_every_variant():
    assert {text(variant, rows=[]) for variant in SHOWN} == {text("plain")}


def test_page_is_last_and_complete():
    lines = text("qri", prompts=load_prompts(item_fields=("artist", "album"))).splitlines()
    assert lines[-1] == "</page>"
    assert 'query: "Déjà vu (en vivo)"' in lines
    assert 'locale: "es-MX"' in lines
    assert 'context: {"need":"the live recording"}' in lines
    assert 'result 1: {"title":"Déjà Vu","type":"song","artist":"Ana"}' in lines
    assert 'result 2: {"title":"《青花瓷》","artist":"周杰伦"}' in lines


@pytest.mark.parametrize(
    ("variant", "shown", "hidden"),
    [
        ("popularity", ['"shown": 1000'], ["relevance", "clicked_share"]),
        ("ctr", ['"shown": 1000', '"clicked_share": 0.10'], ["relevance"]),
        ("qri", ['"shown": 1000', '"relevance": 0.35'], ["clicked_share"]),
        ("qri_unfiltered", ['"earlier_query": "deja vu en vivo"'], ["clicked_share"]),
    ],
)
def test_each_variant_shows_its_numbers_and_no_others(variant, shown, hidden):
    block = text(variant).removesuffix(text("plain"))
    assert [part for part in shown if part not in block] == []
    assert [part for part in hidden if part in block] == []


def test_rows_are_numbered_by_item_then_place():
    numbered = [(s.number, s.item, s.row.query) for s in shown_rows(PAGE, ROWS, variant="qri_unfiltered")]
    assert numbered == [(1, 1, "deja vu live"), (2, 1, "deja vu en vivo"), (3, 2, "porcelain song")]


def test_the_rubric_holds_the_three_effects_and_no_page():
    rubric = load_prompts().rubric
    assert '"grade": 0, 1 or 2' in rubric
    assert all(word in rubric for word in ("intent", "cost", "Order matters", "not ground truth"))
    assert "{{" not in rubric
    assert '"grades"' in load_prompts(kind="item").rubric


def test_least_similar_rows_go_first_and_numbers_stay_without_gaps():
    shown = shown_rows(PAGE, ROWS, variant="qri_unfiltered")
    kept = least_similar_left_out(shown, keep=2)
    assert [(s.number, s.row.query) for s in kept] == [(1, "deja vu live"), (2, "deja vu en vivo")]
    assert least_similar_left_out(shown, keep=0) == ()


@pytest.mark.parametrize(
    ("value", "shown"), [(0.0, 0.0), (0.012, 0.01), (0.096, 0.1), (0.123, 0.1), (0.13, 0.15), (0.349, 0.35), (1.7, 1.0)]
)
def test_shares_are_rounded_in_prompts(value, shown):
    assert rounded_share(value) == pytest.approx(shown)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, 0), (1, 1), (3, 2), (4, 5), (14, 10), (15, 20), (740, 1000), (1234, 1000), (99_999, 100_000)],
)
def test_counts_are_rounded_in_prompts(value, shown):
    assert rounded_count(value) == shown


def test_a_nights_small_change_buys_no_new_label():
    changed = [
        CardRow(item_id=r.item_id, query=r.query, similarity=r.similarity, impressions=1260, ctr=0.124, relevance=0.352,
                row=r.row, row_unfiltered=r.row_unfiltered)
        for r in ROWS
    ]  # fmt: skip
    assert text("qri", rows=changed) == text("qri")


def test_own_files_replace_packaged_ones(tmp_path):
    (tmp_path / "rubric.md").write_text("Our rules. {{reply}}\n")
    assert load_prompts(folder=str(tmp_path)).rubric.startswith("Our rules. Reply\n")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rubric.md", "no placeholder", "{{reply}}"),
        ("rubric.md", "{{reply}} {{grade}}", "{{grade}}"),
        ("page.md", "{{page}}{{evidence}}", "in this order"),
        ("page.md", "{{evidence}}{{page}}{{page}}", "once each"),
        ("evidence.md", "{{rows}}", "{{legend}}"),
        ("reply-page.md", "  \n", "says nothing"),
        ("notes.txt", "x", "no prompt file"),
    ],
)
def test_wrong_files_are_refused_on_load(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(UsageError) as error:
        load_prompts(folder=str(tmp_path))
    assert message in str(error.value)


def test_a_missing_folder_is_named():
    with pytest.raises(UsageError, match="nowhere"):
        load_prompts(folder="nowhere")
