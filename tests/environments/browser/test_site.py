"""The documentation site as a reader sees it: built once, opened as files and under a path of a server."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pytest
from PIL import Image
from playwright.sync_api import Locator, Page, expect

ROOT = Path(__file__).resolve().parents[3]
NewPage = Callable[..., Page]
# A run leaves their pictures, for a person to look at, in runs/browser.
SHOWN = (
    "index.html", "00_quickstart.html", "studies/01_published_results.html", "studies/05_fine_tuned.html",
    "guides/10_your_own_videos.html", "40_scoring/10_metrics.html",
)  # fmt: skip
# What a page refers to, what it is called by, and what is too wide for the screen.
LOOK = """() => ({
  links: [...document.querySelectorAll("a[href], img[src], script[src], link[rel=stylesheet], source[src], video[src]")]
    .map(e => e.currentSrc || e.src || e.href),
  ids: [...document.querySelectorAll("[id], a[name]")].map(e => e.id || e.name),
  unnamed: [...document.querySelectorAll("article img:not([alt]), article img[alt='']")].map(e => e.src),
  directives: [...document.querySelectorAll("article code")].filter(e => /^#\\|/m.test(e.textContent)).length,
})"""
WIDE = """() => [...document.querySelectorAll("article .table, article .shown, html")]
  .filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.className || e.tagName)"""


def test_every_page_opens_as_a_file_and_all_that_it_refers_to_is_there(site: Path, new_page: NewPage) -> None:
    page = new_page()
    pages = sorted(p for p in site.rglob("*.html") if p.name != "404.html" and "reviewer" not in p.parts)
    looked = {}
    problems = []
    for path in pages:
        page.set_viewport_size({"width": 1440, "height": 900})
        page.goto(path.as_uri())
        looked[path] = page.evaluate(LOOK)
        problems += [f"{path.relative_to(site)}: too wide at 1440: {w}" for w in page.evaluate(WIDE)]
        page.set_viewport_size({"width": 390, "height": 844})
        problems += [f"{path.relative_to(site)}: too wide at 390"] * ("HTML" in page.evaluate(WIDE))
    for path, found in looked.items():
        problems += [f"{path.relative_to(site)}: no text for {u}" for u in found["unnamed"]]
        problems += [f"{path.relative_to(site)}: a directive of nbdev is shown"] * found["directives"]
        for link in set(found["links"]):
            target, anchor = urldefrag(link)
            if not target.startswith("file:"):
                problems += [f"{path.relative_to(site)}: {link}"] * (not target.startswith(("https://", "data:")))
                continue
            there = Path(unquote(urlsplit(target).path))
            if not there.is_file() or not there.is_relative_to(site):
                problems.append(f"{path.relative_to(site)}: {link} is not there")
            elif anchor and there in looked and unquote(anchor) not in looked[there]["ids"]:
                problems.append(f"{path.relative_to(site)}: {link}: no such place in the page")
    assert problems == []
    notebooks = [p for p in (ROOT / "nbs").rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts]
    assert len(pages) == len(notebooks) + 3  # changelog, contributing, security


@pytest.mark.parametrize("width", [1440, 390])
def test_pages_under_a_path_of_a_server(served: str, new_page: NewPage, width: int) -> None:
    folder = ROOT / "runs" / "browser"
    folder.mkdir(parents=True, exist_ok=True)
    page = new_page(width=width, height=844)
    failed: list[str] = []
    page.on("response", lambda r: failed.append(r.url) if r.status >= 400 else None)
    for name in SHOWN:
        page.goto(f"{served}/{name}", wait_until="networkidle")
        assert page.evaluate("[...document.images].every(i => i.loading == 'lazy' || i.naturalWidth > 0)")
        page.screenshot(path=folder / f"{name.replace('/', '_')[:-5]}_{width}.png", full_page=True)
    assert failed == []


def test_a_reader_goes_on_searches_and_reads_at_night(site: Path, new_page: NewPage) -> None:
    page = new_page()
    page.goto((site / "index.html").as_uri())
    for tab in ("Start", "Findings", "Guides", "Chapters", "Reference"):
        expect(page.get_by_role("link", name=tab, exact=True).first).to_be_visible()
    page.locator(".md-footer__link--next").click()
    expect(page).to_have_url(re.compile("00_quickstart.html$"))
    page.locator(".md-footer__link--prev").click()
    expect(page).to_have_url(re.compile("index.html$"))
    page.wait_for_load_state()
    search, result = page.locator(".md-search__input"), page.locator(".md-search-result__item").first
    for _ in range(30):  # keys that are pressed before the page listens are lost
        if result.is_visible():
            break
        search.fill("")
        search.press_sequentially("gripper aperture")
        page.wait_for_timeout(2000)
    expect(result).to_be_visible()
    page.keyboard.press("Escape")
    ground = "getComputedStyle(document.body).backgroundColor"
    by_day = page.evaluate(ground)
    page.locator("label[title=Dark]").click()
    page.wait_for_function(f"day => {ground} != day", arg=by_day)


def test_code_is_folded_and_a_first_column_stays(site: Path, new_page: NewPage) -> None:
    page = new_page(width=390, height=844)
    page.goto((site / "studies" / "01_published_results.html").as_uri())
    expect(page.locator("details.code + details.code")).to_have_count(0)
    code = page.locator("details.code").first
    expect(code.locator("code")).to_be_hidden()
    code.locator("summary").click()
    expect(code.locator("code")).to_be_visible()
    table = page.locator(".table").first
    first, second = (table.locator("tbody tr").first.locator("td, th").nth(i) for i in (0, 1))
    before = first.bounding_box(), second.bounding_box()
    table.evaluate("e => e.scrollLeft = 100")
    after = first.bounding_box(), second.bounding_box()
    assert before[0] == after[0]
    assert before[1] != after[1]
    expect(page.get_by_role("link", name="This page as a notebook")).to_have_attribute(
        "href", "01_published_results.ipynb"
    )


def ground_at_the_right(element: Locator) -> int:
    """The grey of most pixels at an element's right edge, 0 to 255."""
    picture = Image.open(io.BytesIO(element.screenshot())).convert("L")
    greys = picture.crop((picture.width - 2, 0, picture.width - 1, picture.height)).histogram()
    return greys.index(max(greys))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_wider_than_a_phone_is_in_shade_until_its_end(site: Path, new_page: NewPage, scheme: str) -> None:
    page = new_page(width=390, height=844, color_scheme=scheme)
    shown = (("index", "pre > code"), ("index", "p:has(> img)"), ("studies/01_published_results", ".table"))
    for name, selector in shown:
        page.goto((site / f"{name}.html").as_uri())
        page.wait_for_function("[...document.images].every(i => i.loading == 'lazy' || i.complete)")
        element = page.locator(selector).first
        cut = ground_at_the_right(element)
        element.evaluate("e => e.scrollLeft = e.scrollWidth")
        assert abs(cut - ground_at_the_right(element)) > 30, selector
    page.goto((site / "index.html").as_uri())
    fits = page.locator(".table").last
    assert fits.evaluate("e => e.scrollWidth == e.clientWidth && e.scrollHeight == e.clientHeight")
    assert abs(ground_at_the_right(fits) - ground_at_the_right(page.locator("h1"))) <= 2


def test_a_slider_shows_what_its_table_has(site: Path, new_page: NewPage) -> None:
    """By keys alone, through every stop of each choice; a script that filled a gap would say what no row does."""
    page = new_page(width=390, height=844)
    page.goto((site / "article.html").as_uri())
    figure = page.locator(".trial-success")
    slider, status = figure.get_by_label("Early or late by"), figure.get_by_role("status")
    expect(figure.locator("table")).to_be_hidden()
    rows = figure.locator("tbody tr").evaluate_all(
        "rows => rows.map(r => [...r.cells].map(c => c.textContent))"
    )
    told = set()
    for offset in sorted({row[1] for row in rows}):
        for kind in ("in seconds", "in % of the subtask"):
            figure.get_by_label(offset).check()
            figure.get_by_label(kind).check()
            slider.press("Home")
            for _ in range(int(slider.get_attribute("max") or 0) + 1):
                error = slider.get_attribute("aria-valuetext")
                (row,) = [r for r in rows if r[:2] == [error, offset]]
                assert status.locator(".which").inner_text() == f"Boundaries: {error}. Offsets: {offset}."
                assert status.locator(".number").all_inner_texts() == row[2:]
                told.add((offset, error))
                slider.press("ArrowRight")
    assert len(told) == len(rows) == 22


def test_paper_has_whole_tables_and_no_folded_code(site: Path, new_page: NewPage) -> None:
    page = new_page(width=640)  # what A4 leaves between the margins
    page.goto((site / "studies" / "05_fine_tuned.html").as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")  # Material does, before it prints
    page.emulate_media(media="print")
    expect(page.locator("details.code").first).to_be_hidden()
    assert page.evaluate(WIDE) == []


def test_without_scripts_the_slider_is_a_table(site: Path, new_page: NewPage) -> None:
    page = new_page(java_script_enabled=False)
    page.goto((site / "article.html").as_uri())
    figure = page.locator(".trial-success")
    expect(figure.locator("table")).to_be_visible()
    expect(figure.locator("input")).to_have_count(0)


def test_the_start_page_leads_on(site: Path, new_page: NewPage) -> None:
    page = new_page()
    targets = {"Try it": "00_quickstart", "Read the article": "article", "See the reviewer": "reviewer/index"}
    for name, target in targets.items():
        page.goto((site / "index.html").as_uri())
        page.get_by_role("link", name=name, exact=True).click()
        expect(page).to_have_url((site / f"{target}.html").as_uri())
