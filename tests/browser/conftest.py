"""A headless Chromium of the system, driven by playwright; nothing is downloaded and no request leaves the page."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from jobs.reports.data import Options
from jobs.reports.job import build_files
from tests.browser.hostile import HOSTILE

CHROMIUM = os.environ.get("HINDCAST_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="session")
def browser() -> Iterator:
    from playwright.sync_api import sync_playwright

    if not CHROMIUM:
        pytest.fail("there is no Chromium: install it (apt-get install chromium) or set HINDCAST_CHROMIUM")
    # Chromium puts a socket below TMPDIR, and a socket's path holds 107 bytes: a deep checkout would be too long.
    with sync_playwright() as p, TemporaryDirectory(dir="/tmp") as short:
        found = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], env={**os.environ, "TMPDIR": short})
        yield found
        found.close()


@pytest.fixture
def page(browser) -> Iterator:
    """A fresh page of 1280 x 800; requests that leave the file and messages of the console are kept on it."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, accept_downloads=True)
    found = context.new_page()
    found.requests, found.errors = [], []
    found.on("request", lambda r: found.requests.append(r.url))
    found.on("console", lambda m: found.errors.append(m.text) if m.type == "error" else None)
    found.on("pageerror", lambda e: found.errors.append(str(e)))
    yield found
    context.close()


def write(path: Path, rows: list[dict]) -> str:
    path.write_text("".join(json.dumps(r) + "\n" for r in rows), "utf-8")
    return str(path)


def report(folder: Path, *, pages: int, texts: list[str], rows: int = 2, items: int = 3) -> str:
    """A report from files; `texts` are used in turn as query, title, type, card query, context, rationale and id."""
    text = [texts[i % len(texts)] for i in range(pages)]
    shown, cards, judged, truth = [], [], [], []
    for i, t in enumerate(text):
        page_id = f"page {i} {t}" if len(texts) > 1 else f"page-{i:05d}"
        titles = [{"item_id": f"item {k} {t}", "rank": k + 1, "title": f"{t} {k}", "type": t} for k in range(items)]
        shown.append({"page_id": page_id, "query": f"{t} {i}", "locale": ("en", "de")[i % 2], "context": t,
                      "items": titles, "made": {"note": t}})  # fmt: skip
        truth.append({"page_id": page_id, "query_key": f"q{i}", "truth": (i * 37 % 101) / 100,
                      "truth_standard_error": 0.1,
                      "configuration": ("good", "omitted", "low", "substitute")[i % 4]})  # fmt: skip
        for item in titles:
            lines = [{"query": f"{t} past {r}", "similarity": 0.8 - r / 50, "impressions": 100 + r, "clicks": 9,
                      "relevance": 0.3, "examined": 30.5, "users": 40, "relevance_low": 0.1, "relevance_high": 0.5,
                      "near_duplicate": r == rows} for r in range(rows + 1)]  # fmt: skip
            cards.append({"page_id": page_id, "item_id": item["item_id"], "rows": lines})
        for variant, label in (("plain", (i % 3) / 2), ("qri", (i % 5 % 3) / 2)):
            lost = i % 11 == 3 and variant == "qri"
            judged.append({"page_id": page_id, "variant": variant, "label": None if lost else label, "rationale": t,
                           "reason": "refusal" if lost else None, "cited": [1], "qri_count": 6})  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    files = {"judgments": judged, "truth": truth, "pages": shown, "cards": cards}
    paths = {n: Path(write(folder / f"{n}.jsonl", rows)) for n, rows in files.items()}
    build_files({**paths, "outcomes": None}, out=str(folder / "out"), before="", options=Options(samples=100))
    return (folder / "out" / "index.html").as_uri()


@pytest.fixture(scope="session")
def small(tmp_path_factory) -> str:
    return report(tmp_path_factory.mktemp("small"), pages=60, texts=["blue moon"])


@pytest.fixture(scope="session")
def hostile(tmp_path_factory) -> str:
    return report(tmp_path_factory.mktemp("hostile"), pages=2 * len(HOSTILE), texts=HOSTILE)


@pytest.fixture(scope="session")
def large(tmp_path_factory) -> str:
    return report(tmp_path_factory.mktemp("large"), pages=6000, texts=["a query"], rows=10, items=4)
