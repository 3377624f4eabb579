"""Every prompt of the golden pages, byte for byte, and how the replies recorded for them are read.

HINDCAST_REBUILD_GOLDEN=1 writes the expected files anew; look at the difference before committing it.
"""

import json
import os
from pathlib import Path

from jobs.judging.files import CardFile, read_pages
from jobs.judging.prompts import load_prompts, render
from jobs.judging.replies import read_reply
from jobs.judging.views import shown_rows

HERE = Path(__file__).parent
VARIANTS = ("plain", "popularity", "ctr", "qri", "qri_unfiltered")
REBUILD = bool(os.environ.get("HINDCAST_REBUILD_GOLDEN"))


def check(name: str, text: str) -> None:
    """Compare with the expected file, or write it."""
    path = HERE / "expected" / name
    if REBUILD:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def prompts_of_all_pages() -> str:
    prompts = load_prompts(item_fields=("artist",))
    parts = []
    with CardFile(HERE / "cards.jsonl", top_k=10) as cards:
        for page in read_pages(HERE / "pages.jsonl"):
            rows = cards.rows(page.page_id)
            for variant in VARIANTS:
                text = render(prompts, page, shown_rows(page, rows, variant=variant), variant=variant)
                parts.append(f"=== {page.page_id} {variant}\n{text}\n")
    return "".join(parts)


def test_prompts_are_those_expected():
    check("prompts.txt", prompts_of_all_pages())


def test_rubrics_are_those_expected():
    check("rubric-page.txt", load_prompts(kind="page").rubric + "\n")
    check("rubric-item.txt", load_prompts(kind="item").rubric + "\n")


def test_recorded_replies_read_as_expected():
    """replies.jsonl: what models really wrote, each with the verdict that it must get."""
    wrong = []
    for line in (HERE / "replies.jsonl").read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        verdict = read_reply(case["body"], rows=case["rows"])
        found = [verdict.label, verdict.reason]
        if found != case["expected"]:
            wrong.append(f"{case['why']}: {found} instead of {case['expected']}")
    assert wrong == []
