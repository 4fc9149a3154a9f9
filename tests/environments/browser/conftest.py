"""Tests in a real browser, Debian's Chromium: `make test-browser`. Nothing here is skipped where it is missing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from review_folder import make_folder

from tempoloc_nb.reviewer.pages import ReviewServer
from tempoloc_nb.reviewer.sources import open_review

expect.set_options(timeout=60_000)  # a busy machine's browser may take its time


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as play:
        path = os.environ.get("CHROMIUM", "/usr/bin/chromium")
        found = play.chromium.launch(executable_path=path, args=["--no-sandbox"])  # CI runs as root
        yield found
        found.close()


@pytest.fixture
def new_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a page; the test fails if it says something is wrong on its console."""
    said: list[str] = []
    contexts = []

    def make(width: int = 1440, height: int = 900, quiet: bool = True, **options: Any) -> Page:
        contexts.append(browser.new_context(viewport={"width": width, "height": height}, **options))
        page = contexts[-1].new_page()
        page.set_default_timeout(60_000)
        if quiet:
            page.on("console", lambda m: said.append(m.text) if m.type in ("error", "warning") else None)
            page.on("pageerror", lambda e: said.append(str(e)))
        return page

    yield make
    for context in contexts:
        context.close()
    assert said == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path)


@pytest.fixture
def server(folder: Path) -> Iterator[ReviewServer]:
    with ReviewServer(open_review(folder, who="Ada")) as serving:
        yield serving
