"""What a reader meets first: README's commands, and `make lab`."""

from __future__ import annotations

import csv
import json
import re
import shlex
from pathlib import Path

import pytest

from tempoloc_nb.cli.main import main
from tempoloc_nb.clips.manifest import Clip, load_benchmark
from tempoloc_nb.core.settings import data_dir

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def shipped(video: str) -> Clip:
    """The clip of the simulated benchmark with this video."""
    sim = load_benchmark("sim")
    return next(clip for clip in sim.with_videos() if clip.video_path(sim.root).samefile(ROOT / video))


def find_command() -> list[str]:
    """The words of README's first `tempoloc find`."""
    line = re.search(r"^\S*tempoloc (find(?:.*\\\n)*.*)$", README, re.MULTILINE)
    assert line is not None
    return shlex.split(line[1].replace("\\\n", " "))


def test_the_first_example_asks_for_the_events_of_a_shipped_clip() -> None:
    video = re.search(r'^video = "(.+)"$', README, re.MULTILINE)
    events = re.search(r"^tl\.localize\(video, (\[.*\])\)$", README, re.MULTILINE)
    assert video is not None
    assert events is not None
    assert json.loads(events[1]) == list(shipped(video[1]).labels)


@pytest.mark.skipif(not (data_dir() / "models" / "tempoloc-tiny").is_dir(), reason="the model is not shipped yet")
def test_the_command_is_one_that_the_shipped_model_answers_rightly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = find_command()
    clip = shipped(words[1])
    words[words.index("-o") + 1] = str(tmp_path / "found.csv")
    monkeypatch.chdir(ROOT)
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 0
    with (tmp_path / "found.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["event"] for row in rows] == list(clip.labels)
    assert {row["status"] for row in rows} == {"ok"}
    for row, truth in zip(rows, clip.source_boundaries, strict=True):
        assert abs(float(row["boundary_s"]) - truth) < 0.13  # a frame pair is 0.25 s


def test_jupyterlab_serves_what_the_notebooks_show() -> None:
    """Figures and videos of the Markdown cells lie below the root of the server of `make lab`."""
    line = re.search(r"^\t\$\(BIN\)/jupyter lab (.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert line is not None
    options = dict(word.lstrip("-").split("=", 1) for word in shlex.split(line[1]))
    root = (ROOT / options["ServerApp.root_dir"]).resolve()
    assert (root / options["LabApp.default_url"].removeprefix("/lab/tree/")).is_file()
    shown = 0
    for path in (ROOT / "nbs").rglob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"] if ".ipynb_checkpoints" not in path.parts else []
        text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
        for link in re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)|<(?:video|img)[^>]* src=\"([^\"]+)\"", text):
            file = (path.parent / next(filter(None, link))).resolve()
            assert file.is_file(), (path.name, link)
            assert file.is_relative_to(root), (path.name, link)
            shown += 1
    assert shown > 5
