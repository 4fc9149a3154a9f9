"""What a reader meets first: README's commands, and `make lab`."""

from __future__ import annotations

import csv
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pasted import Shell, shell_blocks, shell_lines

from tempoloc_nb.clips.manifest import Clips, load_benchmark
from tempoloc_nb.core.settings import data_dir

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


MODEL = data_dir() / "models" / "tempoloc-tiny"


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A fresh folder after README's first shell lines; only the installation, the first of them, is not pasted."""
    shell = Shell.made(tmp_path_factory.mktemp("newcomer"), ".venv/bin/tempoloc")
    install, *lines = shell_lines(shell_blocks(README)[0])
    assert install == "python3 -m venv .venv && .venv/bin/pip install '.[hf]'"
    assert len(lines) == 4
    for line in lines:
        shell.paste(line)
    return shell


def truth(shell: Shell) -> Clips:
    return load_benchmark(shell.folder / "example" / "clips.jsonl")


@pytest.mark.skipif(not MODEL.is_dir(), reason="the model is not shipped yet")
def test_the_pasted_lines_lead_to_a_reviewed_table_of_the_true_times(shell: Shell) -> None:
    with (shell.folder / "boundaries.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    known = truth(shell)
    assert [row["label"] for row in rows] == [label for clip in known.clips for label in clip.labels]
    assert all(row["reviewed"].startswith("a newcomer, ") for row in rows)
    times = [time for clip in known.clips for time in clip.source_boundaries]
    for row, time in zip(rows, times, strict=True):
        assert abs(float(row["boundary"]) - time) < 0.25  # a frame pair


@pytest.mark.skipif(not MODEL.is_dir(), reason="the model is not shipped yet")
def test_the_first_example_runs_where_the_lines_were_pasted(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    *before, last = code.strip().splitlines()
    monkeypatch.chdir(shell.folder)
    names: dict[str, Any] = {}
    exec("\n".join([*before, f"found = {last}"]), names)
    assert names["found"].boundaries[:2] == pytest.approx(truth(shell).clips[0].source_boundaries, abs=0.25)
    assert all(event.status == "ok" for event in names["found"].events)


def test_what_the_example_prints_can_be_pasted(shell: Shell) -> None:
    """In another folder, whose name has a blank; the commands are found where a shell finds `tempoloc`."""
    printed = shell.paste("tempoloc example 'try it'").splitlines()
    lines = [line.strip() for line in printed[printed.index("next:") + 1 :]]
    assert [line.split()[:2] for line in lines] == [["tempoloc", n] for n in ("find", "review", "dataset")]
    place = shell.folder / "elsewhere"
    place.mkdir()
    (shell.folder / "try it").rename(place / "try it")
    for line in lines:
        replace(shell, folder=place).paste(line.replace(" -o found.json", " --trials 2 -o found.json"))
    assert (place / "boundaries.csv").is_file()


def notebooks() -> dict[Path, list[dict[str, Any]]]:
    """The cells of each notebook, by its path."""
    paths = [p for p in sorted((ROOT / "nbs").rglob("*.ipynb")) if ".ipynb_checkpoints" not in p.parts]
    return {path: json.loads(path.read_text(encoding="utf-8"))["cells"] for path in paths}


def prose(cells: list[dict[str, Any]]) -> str:
    """The text of the Markdown cells, without blocks of code."""
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


def test_jupyterlab_serves_what_the_notebooks_show() -> None:
    """Figures and videos of the Markdown cells lie below the root of the server of `make lab`."""
    line = re.search(r"^\t\$\(BIN\)/jupyter lab (.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert line is not None
    options = dict(word.lstrip("-").split("=", 1) for word in shlex.split(line[1]))
    root = (ROOT / options["ServerApp.root_dir"]).resolve()
    assert (root / options["LabApp.default_url"].removeprefix("/lab/tree/")).is_file()
    shown = 0
    for path, cells in notebooks().items():
        for link in re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)|<(?:video|img)[^>]* src=\"([^\"]+)\"", prose(cells)):
            file = (path.parent / next(filter(None, link))).resolve()
            assert file.is_file(), (path.name, link)
            assert file.is_relative_to(root), (path.name, link)
            shown += 1
    assert shown > 5


def test_a_picture_is_never_an_svg_alone() -> None:
    """JupyterLab shows no SVG of an output until its notebook is trusted, and nobody trusts a fresh clone's."""
    drawn = 0
    for path, cells in notebooks().items():
        for data in (output.get("data", {}) for cell in cells for output in cell.get("outputs", ())):
            drawn += "image/svg+xml" in data
            assert "image/svg+xml" not in data or "image/png" in data, path
    assert drawn


def test_a_link_names_a_place_as_jupyter_does() -> None:
    """By its heading with dashes for blanks; the site's pages have other names, which docs/site.py makes of these."""
    cells = notebooks()
    places = {
        path: {h.replace(" ", "-") for h in re.findall(r"^#+ +(.+)$", prose(c), re.MULTILINE)}
        for path, c in cells.items()
    }
    links = 0
    for path in cells:
        for other, place in re.findall(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)", prose(cells[path])):
            assert place in places[(path.parent / other).resolve() if other else path], (path.name, place)
            links += 1
    assert links > 10
