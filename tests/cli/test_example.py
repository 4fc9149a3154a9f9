"""`tempoloc example`: what it prints can be pasted, and bad places are one line."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tempoloc_nb.cli.data import _program

Run = Callable[..., tuple[int, str, str]]


def test_a_program_reads_what_was_written_and_nothing_is_overwritten(run: Run, tmp_path: Path) -> None:
    status, out, err = run("example", tmp_path / "example", "--json")
    assert status == 0
    assert json.loads(out) == {"folder": str(tmp_path / "example"), "left_out": {}, "program": "tempoloc"}
    assert [line.rpartition("/")[2] for line in err.splitlines()] == ["my_dataset", "demos.hdf5"]
    before = (tmp_path / "example" / "clips.jsonl").stat().st_mtime_ns
    status, out, err = run("example", tmp_path / "example")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "is there already: give the name of a new folder, or --force" in err
    assert (tmp_path / "example" / "clips.jsonl").stat().st_mtime_ns == before
    asked = ("-e", "grasping the green cube", "--trials", "2")
    status, out, err = run("find", tmp_path / "example", *asked)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert f"holds the LeRobot dataset {tmp_path / 'example' / 'my_dataset'}, " in err
    status, out, err = run("review", tmp_path / "example", "-e", "grasping the green cube")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert f"holds the LeRobot dataset {tmp_path / 'example' / 'my_dataset'}, " in err


@pytest.mark.parametrize(
    ("called", "found", "program"),
    [
        ("/usr/bin/tempoloc", "/usr/bin/tempoloc", "tempoloc"),
        (".venv/bin/tempoloc", None, ".venv/bin/tempoloc"),
        ("my env/bin/tempoloc", None, "'my env/bin/tempoloc'"),
        ("/site/tempoloc_nb/__main__.py", None, f"{sys.executable} -m tempoloc_nb"),
        ("/bin/pytest", None, "tempoloc"),
    ],
)
def test_the_printed_commands_run_where_this_one_did(
    called: str, found: str | None, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: found)
    assert _program(called) == program
