"""What axe-core finds wrong with pages of the site, and with the reviewer, for people who cannot see them well."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tempoloc_nb.reviewer.pages import ReviewServer

NewPage = Callable[..., Page]
# Twelve pages of all kinds, and the reviewer that the site shows.
PAGES = (
    "index", "00_quickstart", "article", "glossary", "CHANGELOG", "studies/01_published_results",
    "studies/05_fine_tuned", "guides/10_your_own_videos", "guides/20_generate", "45_inference/00_chapter",
    "90_cli/00_chapter", "80_reviewer/30_desk", "reviewer/index",
)  # fmt: skip


def serious(page: Page) -> list[str]:
    """The findings of axe that keep people out: the rule, the element, and what is wrong with it."""
    found: list[dict[str, Any]] = Axe().run(page).response["violations"]
    return [
        f"{rule['id']}: {' '.join(node['html'].split())[:120]}: {' '.join(node['failureSummary'].split())[:240]}"
        for rule in found
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]


def test_axe_finds_what_is_wrong(new_page: NewPage) -> None:
    page = new_page()
    page.set_content('<html lang="en"><title>t</title><p style="color: #999">faint</p><button></button>')
    assert [line.partition(":")[0] for line in serious(page)] == ["button-name", "color-contrast"]


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (1440, "dark"), (390, "light")])
def test_pages_have_no_serious_finding(served: str, new_page: NewPage, width: int, scheme: str) -> None:
    page = new_page(width=width, color_scheme=scheme)
    found = list[str]()
    for name in PAGES:
        page.goto(f"{served}/{name}.html")
        if name == "reviewer/index":
            expect(page.locator(".handle").first).to_be_visible()
        found += [f"{name}: {line}" for line in serious(page)]
    assert found == []


def states(page: Page) -> Iterator[str]:
    """The reviewer as it opens; asking for a name; with an absent event, its keys, its menu, and an empty list."""
    yield "opened"
    page.locator(".app").press("a")
    expect(page.get_by_label("Name of the event")).to_be_focused()
    yield "naming"
    page.get_by_label("Name of the event").press("Enter")
    page.locator(".app").press("1")
    page.locator(".app").press("x")
    yield "absent"
    page.locator(".app").press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    yield "keys"
    page.keyboard.press("Escape")
    page.get_by_label("Export and import").click()
    yield "menu"
    page.get_by_label("Export and import").click()
    page.get_by_label("Status").select_option("done")
    expect(page.locator(".empty")).to_be_visible()
    yield "empty"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_reviewer_has_no_serious_finding(server: ReviewServer, new_page: NewPage, scheme: str) -> None:
    page = new_page(color_scheme=scheme)
    page.goto(server.url)
    expect(page.locator(".handle").first).to_be_visible()
    expect(page.locator(".message")).to_be_hidden()
    assert [f"{state}: {line}" for state in states(page) for line in serious(page)] == []
