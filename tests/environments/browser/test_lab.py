"""The article and the studies as `make lab` opens them: JupyterLab, on a computer that has never opened them.

JupyterLab then trusts no output: it shows no SVG of one, and only harmless HTML. Nothing is run here.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urlsplit
from urllib.request import Request, urlopen

import nbformat
import pytest
from nbformat import v4
from playwright.sync_api import Locator, Page, expect

ROOT = Path(__file__).resolve().parents[3]
NewPage = Callable[..., Page]
SHOWN = [ROOT / "nbs" / "article.ipynb", *sorted((ROOT / "nbs" / "studies").glob("*.ipynb"))]
PICTURED = ("article", "09_examples")  # a run leaves pictures of them, for a person to look at, in runs/browser
# JupyterLab draws the cells in sight; here it draws all, and asks neither for news nor for updates.
SETTINGS = {
    "notebook-extension/tracker": {"windowingMode": "none"},
    "apputils-extension/notification": {"checkForUpdates": False, "fetchNews": "false"},
}
# What did not load, and what a page shows instead of an output.
LOOK = r"""async panel => {
  const shown = what => [...panel.querySelectorAll(what)], problems = [];
  for (const image of shown("img")) {
    await image.decode().catch(() => {});
    if (!image.naturalWidth) problems.push(`no picture: ${image.alt} ${image.src.slice(0, 200)}`);
  }
  for (const video of shown("video")) {
    for (let i = 0; i < 600 && !video.readyState && !video.error; i++) await new Promise(f => setTimeout(f, 100));
    if (!video.readyState || video.error) problems.push(`no video: ${video.currentSrc}`);
  }
  const instead = /could not be rendered|javascript error|<[\w.]+ (object|at 0x)|error displaying|error rendering/i;
  for (const output of shown(".jp-OutputArea-output"))
    if (instead.test(output.textContent)) problems.push(output.textContent.trim().slice(0, 200));
  return {
    problems, images: shown("img").length, videos: shown("video").length,
    links: shown(".jp-RenderedMarkdown a:not(.jp-InternalAnchorLink)").map(a => a.getAttribute("href")),
  };
}"""


@dataclass(frozen=True, slots=True)
class Lab:
    """A JupyterLab that runs, and opens notebooks."""

    url: str
    token: str

    def ask(self, path: str, method: str = "GET") -> Any:
        """An answer of the server's interface, read from JSON; None where it is empty."""
        request = Request(f"{self.url}api/{path}", method=method, headers={"Authorization": f"token {self.token}"})
        with urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or "null")

    def open(self, page: Page, notebook: Path) -> Locator:
        """The panel of a notebook, in which all cells have been drawn; kernels of those opened before are ended."""
        for session in self.ask("sessions"):
            self.ask(f"sessions/{session['id']}", "DELETE")
        cells = nbformat.read(notebook, as_version=4).cells
        page.goto(f"{self.url}lab/tree/{notebook.relative_to(ROOT).as_posix()}?reset&token={self.token}")
        panel = page.locator(".jp-NotebookPanel")
        expect(panel.locator(".jp-Cell")).to_have_count(len(cells))
        expect(panel.locator(".jp-MarkdownCell:not(.jp-mod-rendered), .jp-Cell-Placeholder")).to_have_count(0)
        written = sum(cell["cell_type"] == "markdown" and bool(cell["source"].strip()) for cell in cells)
        expect(panel.locator(".jp-MarkdownCell .jp-MarkdownOutput:not(:empty)")).to_have_count(written)
        shown = sum(bool(cell.get("outputs")) for cell in cells)
        expect(panel.locator(".jp-CodeCell:has(.jp-OutputArea-output)")).to_have_count(shown)
        expect(panel.locator(".jp-OutputArea-output:empty")).to_have_count(0)
        # JupyterLab asks its server where each link leads
        expect(panel.locator(".jp-RenderedMarkdown a:not([href*=':'], [href^='#'])")).to_have_count(0)
        # one that is ended while it starts keeps the server waiting
        expect(panel.locator(".jp-Notebook-ExecutionIndicator")).to_have_attribute("data-status", "idle")
        return panel


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """JupyterLab with the Makefile's options, for this machine alone, with settings and a memory of its own."""
    home = tmp_path_factory.mktemp("lab")
    for name, setting in SETTINGS.items():
        path = home / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(setting), encoding="utf-8")
    places = {f"JUPYTER_{name}_DIR": str(home / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    places |= {f"JUPYTERLAB_{name}_DIR": str(home / name.lower()) for name in ("SETTINGS", "WORKSPACES")}
    line = re.search(r"^\t\$\(BIN\)/jupyter lab (.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert line is not None
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}"]
    options.append(f"--FileCheckpoints.checkpoint_dir={home / 'checkpoints'}")  # else beside each notebook
    with (home / "log").open("wb") as log:
        command = [sys.executable, "-m", "jupyterlab", *shlex.split(line[1]), *options]
        server = subprocess.Popen(command, cwd=ROOT, env=os.environ | places, stdout=log, stderr=log)
    try:
        yield once_it_answers(server, home)
    finally:
        server.terminate()
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:  # a kernel that is starting ends with its server
            server.kill()
            server.wait()


def once_it_answers(server: subprocess.Popen[bytes], home: Path) -> Lab:
    for _ in range(300):
        for path in (home / "runtime").glob("jpserver-*.json"):
            noted = json.loads(path.read_text(encoding="utf-8") or "{}")
            if noted:
                return Lab(noted["url"], noted["token"])
        if server.poll() is not None:
            break
        time.sleep(0.2)
    raise RuntimeError((home / "log").read_text(encoding="utf-8"))


def held_by(cells: list[Any]) -> dict[str, int]:
    """How many pictures and videos the cells of a notebook have."""
    outputs = [output["data"] for cell in cells for output in cell.get("outputs", ()) if "data" in output]
    texts = [cell["source"] for cell in cells if cell["cell_type"] == "markdown"]
    text = "\n".join([*texts, *(data.get(kind, "") for data in outputs for kind in ("text/html", "text/markdown"))])
    drawn = sum(any(kind.startswith("image/") for kind in data) for data in outputs)
    return {"images": drawn + len(re.findall(r"!\[|<img ", text)), "videos": text.count("<video ")}


def astray(lab: Lab, links: list[str]) -> list[str]:
    """Links that lead neither to a file of the repository nor to another site."""
    wrong = []
    for link in links:
        target = urldefrag(link).url
        path = unquote(urlsplit(target).path)
        if target.startswith(lab.url):
            there = ROOT / path.removeprefix("/files/")
            wrong += [f"{path} is not there"] * (not path.startswith("/files/") or not there.is_file())
        elif not target.startswith("https://"):
            wrong.append(f"{link} leads to no file")
    return wrong


def test_pictures_and_videos_load_and_links_lead_to_files(lab: Lab, new_page: NewPage) -> None:
    folder = ROOT / "runs" / "browser"
    folder.mkdir(parents=True, exist_ok=True)
    page = new_page(quiet=False)
    problems = []
    for notebook in SHOWN:
        panel = lab.open(page, notebook)
        found = panel.evaluate(LOOK)
        wrong = found["problems"] + astray(lab, found["links"])
        problems += [f"{notebook.stem}: {problem}" for problem in wrong]
        held = held_by(nbformat.read(notebook, as_version=4).cells)
        shown = {kind: found[kind] for kind in held}
        problems += [f"{notebook.stem}: shows {shown} of {held}"] * (shown != held)
        if notebook.stem in PICTURED:
            height = panel.locator(".jp-WindowedPanel-outer").evaluate("e => e.scrollHeight")
            page.set_viewport_size({"width": 1440, "height": min(height + 200, 16_000)})
            panel.screenshot(path=folder / f"lab_{notebook.stem}.png")
            page.set_viewport_size({"width": 1440, "height": 900})
    assert problems == []
    assert len(SHOWN) > 15


def test_what_does_not_load_is_found(lab: Lab, new_page: NewPage) -> None:
    text = "![a](none.png) [b](none.ipynb)\n\n<video src='none.mp4'></video>"
    drawing = v4.new_output("display_data", {"image/svg+xml": "<svg/>", "text/plain": "<a.SVG object>"})
    cells = [v4.new_markdown_cell(text), v4.new_code_cell(outputs=[drawing])]
    notebook = ROOT / "runs" / "browser" / "planted.ipynb"
    notebook.parent.mkdir(parents=True, exist_ok=True)
    notebook.write_text(nbformat.writes(v4.new_notebook(cells=cells)), encoding="utf-8")
    found = lab.open(new_page(quiet=False), notebook).evaluate(LOOK)
    notebook.unlink()
    assert [problem[:8] for problem in found["problems"]] == ["no pictu", "no video", "<a.SVG o"]
    assert (found["images"], held_by(cells)["images"]) == (1, 2)
    assert astray(lab, found["links"]) == ["/files/runs/browser/none.ipynb is not there"]


def test_a_link_leads_to_a_place_in_another_notebook(lab: Lab, new_page: NewPage) -> None:
    """JupyterLab finds the place once the other notebook is open; the first click opens it at its top."""
    page = new_page(quiet=False)
    link = lab.open(page, ROOT / "nbs" / "guides" / "00_which.ipynb").locator(
        "a[href*='14_mimicgen_skillgen'][href*='#']"
    )
    link.click()
    place = page.get_by_role("heading", name="SkillGen: the start, too")
    expect(place).to_be_attached()
    expect(place).not_to_be_in_viewport()
    page.locator(".lm-TabBar-tab", has_text="00_which").first.click()
    link.click()
    expect(place).to_be_in_viewport()
