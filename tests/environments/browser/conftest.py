"""Tests in a real browser, Debian's Chromium: `make test-browser`. Nothing here is skipped where it is missing."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from review_folder import make_folder

from tempoloc_nb.reviewer.pages import ReviewServer
from tempoloc_nb.reviewer.sources import open_review

ROOT = Path(__file__).resolve().parents[3]
expect.set_options(timeout=60_000)  # a busy machine's browser may take its time


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as play:
        path = os.environ.get("CHROMIUM", "/usr/bin/chromium")
        found = play.chromium.launch(executable_path=path, args=["--no-sandbox"])  # CI runs as root
        yield found
        found.close()


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it; mkdocs is strict about links between pages."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True)
    return folder


@pytest.fixture
def served(site: Path, tmp_path: Path) -> Iterator[str]:
    """The site under a path, as GitHub Pages shows a project's."""
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "project").symlink_to(site)
    handler = partial(Quiet, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/some/project"
        server.shutdown()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None: ...


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
