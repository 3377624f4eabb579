"""The report in a real browser: safe, self-contained, usable by keyboard and on a phone."""

import json
import time

import pytest

from jobs.reports.agreement import agree
from tests.browser.hostile import HOSTILE

READY = "document.documentElement.dataset.ready === 'true'"


def opened(page, uri: str):
    page.goto(uri)
    page.wait_for_function(READY)
    return page


def count(page) -> str:
    return page.locator("#count").inner_text()


def test_nothing_runs_and_nothing_leaves(page, hostile):
    opened(page, hostile)
    for i in range(len(HOSTILE)):
        page.keyboard.press("j")
        assert page.locator("#page h3").count() == 1, i
    page.locator("details").evaluate_all("all => all.forEach(d => d.open = true)")
    assert page.evaluate("window.pwned") is None
    assert page.errors == []
    assert [r for r in page.requests if not r.startswith("file:") and not r.startswith("blob:")] == []
    foreign = "script[src],link[rel=stylesheet],iframe,object,embed,img,base,form[action],[onload],[onerror],[onclick]"
    assert page.locator(foreign).count() == 0
    assert page.locator("script").count() == 2
    assert page.locator("style").count() == 1


@pytest.mark.parametrize("place", range(len(HOSTILE)))
def test_hostile_text_is_shown_as_text(page, hostile, place):
    page.goto(hostile)
    page.wait_for_function(READY)
    text = HOSTILE[place]
    page.evaluate("id => { location.hash = new URLSearchParams({ page: id }).toString(); }", f"page {place} {text}")
    page.wait_for_selector("#page h3")
    assert page.locator("#page h3").evaluate("e => e.textContent") == f"{text} {place}"
    assert page.locator("#page .item b").first.evaluate("e => e.textContent") == f"1. {text} 0"
    assert text in page.locator("#page .cards th").nth(9).evaluate("e => e.textContent")
    assert text in page.locator("#page td.why").first.evaluate("e => e.textContent")
    assert page.evaluate("window.pwned") is None


def test_first_screen_needs_no_scrolling(page, small):
    opened(page, small)
    assert page.locator(".first").evaluate("e => e.getBoundingClientRect().bottom") <= 800


def test_filters_and_deep_links(page, small):
    opened(page, small)
    assert count(page).startswith("60 of 60")
    page.select_option("select[name=flip]", "up")
    up = count(page)
    assert 0 < int(up.split()[0]) < 60
    assert "flip=up" in page.url
    page.select_option("select[name=configuration]", "low")
    page.keyboard.press("Escape")
    page.locator("#list").focus()
    page.keyboard.press("j")
    assert "page=" in page.url
    link = page.url
    shown = page.locator("#page h3").inner_text()
    page.goto("about:blank")
    opened(page, link)
    assert page.locator("#page h3").inner_text() == shown
    assert page.locator("select[name=flip]").input_value() == "up"
    page.click("#clear")
    assert count(page).startswith("60 of 60")


def test_a_number_is_two_clicks_from_its_pages(page, small):
    opened(page, small)
    page.click("text=Open the flips in the explorer")
    assert "flip=any" in page.url
    page.locator("#list .row").first.click()
    assert page.locator("#page .item").count() == 3


def test_filters_by_reason_and_text(page, small):
    opened(page, small)
    page.select_option("select[name=reason]", "refusal")
    assert count(page).startswith("6 of 60")
    page.fill("input[name=text]", "BLUE moon 14")
    assert count(page).startswith("1 of 60")
    page.fill("input[name=text]", "nothing like it")
    assert page.locator("#page").inner_text().startswith("No page fits these filters")


def test_cited_rows_are_marked_and_dropped_ones_folded(page, small):
    opened(page, small)
    page.keyboard.press("j")
    assert page.locator("#page tr.cited").count() == 1
    assert "← cited" in page.locator("#page tr.cited").inner_text()
    assert page.locator("#page .item details").count() == 3
    assert not page.locator("#page tr.gone").first.is_visible()
    page.locator("#page .item details summary").first.click()
    assert "near-duplicate" in page.locator("#page tr.gone").first.inner_text()


def test_marks_by_keyboard_are_exported_and_read(page, small, tmp_path):
    opened(page, small)
    for key in ("j", "a", "j", "d", "j", "u", "j", "a", "a"):
        page.keyboard.press(key)
    assert "3 marked" in count(page)
    page.reload()
    page.wait_for_function(READY)
    assert "3 marked" in count(page), "marks stay in the browser"
    with page.expect_download() as download:
        page.click("#export")
    path = tmp_path / "anna.json"
    download.value.save_as(path)
    assert sorted(m["mark"] for m in json.loads(path.read_text())["marks"].values()) == ["agree", "disagree", "unsure"]
    assert agree([path, path])["cohen_kappa"][0]["kappa"] == pytest.approx(1.0)


def test_usable_at_360_pixels(page, small):
    page.set_viewport_size({"width": 360, "height": 740})
    opened(page, small)
    page.keyboard.press("j")
    page.wait_for_selector("#page h3")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator("#page h3").evaluate("e => e.getBoundingClientRect().right") <= 360


def test_every_control_has_a_name_and_every_plot_a_title(page, small):
    opened(page, small)
    unnamed = (
        "all => all.filter(e => !(e.labels?.length || e.getAttribute('aria-label') || e.textContent.trim())).length"
    )
    assert page.locator("select, input, button, a").evaluate_all(unnamed) == 0
    assert page.locator("svg.plot").count() > 2
    assert page.locator("svg.plot").evaluate_all("all => all.every(s => s.querySelector('title').textContent)")


def test_six_thousand_pages_within_two_seconds(page, large):
    begun = time.monotonic()
    opened(page, large)
    page.keyboard.press("j")
    page.wait_for_selector("#page .item")
    assert time.monotonic() - begun < 2.0
    assert count(page).startswith("6,000 of 6,000")
    assert page.locator("#list .row").count() < 60, "only visible rows exist"
