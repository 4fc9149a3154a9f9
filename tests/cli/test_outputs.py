"""No command overwrites what somebody has: existing files, inputs, links and devices, command by command."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tempoloc_nb.clips.manifest import load_benchmark, write_manifest
from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.formats.correction_files import write_csv
from tempoloc_nb.formats.corrections import proposals

Run = Callable[..., tuple[int, str, str]]
ANSWER = "<0.5> <1.2> reaching the toaster"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the truth's manifest, predictions, a video, the recipe's pickles, and one's own files."""
    monkeypatch.chdir(tmp_path)
    write_manifest("truth.jsonl", load_benchmark("recipe").clips)
    row = {"clip": "nut/0", "task": "nut", "model": "m", "fps": 8.0, "trial": 0, "text": "none"}
    Path("p.jsonl").write_text(json.dumps(row) + "\n")
    shutil.copy(sorted((data_dir() / "benchmarks" / "sim" / "videos").rglob("*.mp4"))[0], "v.mp4")
    (tmp_path / "pickles").mkdir()
    (tmp_path / "pickles" / "results_demo0.pkl").write_bytes(pickle.dumps({"fps8": [ANSWER]}))
    write_csv(proposals(load_benchmark("sim").head(1).clips), Path("table.csv"))
    for ending in (".jsonl", ".csv", ".vtt", ".json", ".toml", ".svg"):
        Path(f"mine{ending}").write_text("mine")
    return tmp_path


COMMANDS = {
    "consensus": ["consensus", "p.jsonl", "--benchmark", "truth.jsonl", "-o", "mine.jsonl"],
    "import-recipe": ["import-recipe", "pickles", "--task", "bridge", "--model", "m", "-o", "mine.jsonl"],
    "export-csv": ["dataset", "export", "csv", "sim", "-o", "mine.csv"],
    "export-cosmos": ["dataset", "export", "cosmos", "sim", "-o", "mine.jsonl"],
    "sft-config": ["sft", "config", "-o", "mine.toml"],
    "import-csv": ["dataset", "import", "csv", "table.csv", "--manifest", "sim", "--who", "me", "-o", "mine.jsonl"],
}
NEVER = {
    "find": ["find", "v.mp4", "-e", "an event", "-o", "mine.csv"],
    "find-json": ["find", "v.mp4", "-e", "an event", "-o", "mine.json"],
}


@pytest.mark.parametrize("command", [*COMMANDS, *NEVER])
def test_what_is_there_stays(run: Run, place: Path, command: str) -> None:
    arguments = (COMMANDS | NEVER)[command]
    before = {p: p.read_bytes() for p in place.rglob("*") if p.is_file()}
    code, out, err = run(*arguments)
    assert (code, out, err.count("\n")) == (1, "", 1), err
    assert f"{arguments[-1]} is there already: give another name, or --force to replace it" in err
    assert {p: p.read_bytes() for p in place.rglob("*") if p.is_file()} == before


@pytest.mark.parametrize("command", COMMANDS)
def test_force_replaces_it_and_streams_take_it(run: Run, place: Path, command: str) -> None:
    arguments, target = COMMANDS[command][:-1], Path(COMMANDS[command][-1])
    link = target.with_stem("link")
    link.symlink_to(target)
    code, out, err = run(*arguments, link, "--force")
    assert code == 0, err
    assert link.is_symlink()
    assert str(link) in out
    text = target.read_text()
    assert text != "mine"
    there = sorted(p.name for p in place.iterdir())
    assert run(*arguments, "-")[:2] == (0, text)
    assert run(*arguments, "/dev/null")[0] == 0
    assert Path("/dev/null").is_char_device()
    assert sorted(p.name for p in place.iterdir()) == there


@pytest.mark.parametrize(
    "arguments",
    [
        ["consensus", "p.jsonl", "--benchmark", "truth.jsonl", "-o", "truth.jsonl"],
        ["consensus", "p.jsonl", "--benchmark", "truth.jsonl", "-o", "p.jsonl"],
    ],
)
def test_an_input_is_never_an_output(run: Run, place: Path, arguments: list[str]) -> None:
    before = Path(arguments[-1]).read_bytes()
    code, _, err = run(*arguments, "--force")
    assert code == 1
    assert "would be read and written at once" in err
    assert Path(arguments[-1]).read_bytes() == before


def test_subtitles_of_several_videos_are_refused_before_a_model_is_loaded(run: Run, place: Path) -> None:
    shutil.copy("v.mp4", "w.mp4")
    code, _, err = run("find", "v.mp4", "w.mp4", "-e", "an event", "-o", "x.vtt")
    assert (code, err) == (1, "tempoloc: subtitles are of one video, not of 2: write .csv or .json\n")


def test_a_baseline_adds_to_its_own_answers_and_to_no_other_file(run: Run, place: Path) -> None:
    ask = ["localize", "--model", "loo-median", "--benchmark", "truth.jsonl", "-o"]
    for name, message in (("mine.jsonl", "but not mine.run.json"), ("truth.jsonl", "read and written at once")):
        before = Path(name).read_bytes()
        code, _, err = run(*ask, name)
        assert (code, Path(name).read_bytes()) == (1, before)
        assert message in err
    assert run(*ask, "new.jsonl")[0] == 0
    assert "0 predictions written, 60 kept" in run(*ask, "new.jsonl")[1].replace("\n", " ")
