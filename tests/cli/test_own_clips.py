"""From clips that nobody has labelled to a score: every command takes them as they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tempoloc_nb.clips.manifest import read_manifest
from tempoloc_nb.video.files import encode

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A manifest of two own videos without truth, and no task file."""
    monkeypatch.chdir(tmp_path)
    events = [{"label": "grasping the mug"}, {"label": "releasing the mug"}]
    for name in "ab":
        encode(tmp_path / f"{name}.mp4", np.zeros((40, 64, 64, 3), np.uint8), fps=10)
    lines = [{"clip": f"mugs/{n}", "task": "mugs", "events": events, "video": f"{n}.mp4", "duration": 4} for n in "ab"]
    Path("clips.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return Path("clips.jsonl")


def test_answers_become_truth_and_are_scored_against(run: Run, manifest: Path) -> None:
    code, _, err = run("localize", "--model", "constant", "--benchmark", manifest, "-o", "p.jsonl")
    assert (code, err) == (0, "")
    code, _, err = run("evaluate", "p.jsonl", "--benchmark", manifest)
    assert code == 1
    assert err.startswith(
        f"tempoloc: no truth here: no clip of {Path.cwd().name} is labelled. tempoloc dataset export csv"
    )
    assert len(err.splitlines()) == 1
    assert run("consensus", "p.jsonl", "--benchmark", manifest, "-o", "c.jsonl")[0] == 0
    assert run("dataset", "export", "csv", manifest, "--predictions", "p.jsonl", "-o", "t.csv")[0] == 0
    table = Path("t.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    Path("one.csv").write_text("".join(line for line in table if "mugs/b" not in line), encoding="utf-8")
    asked = ("--manifest", manifest, "--who", "me")
    assert run("dataset", "import", "csv", "one.csv", "-o", "one.jsonl", *asked)[0] == 0
    assert [c.labelled for c in read_manifest("one.jsonl")] == [True, False]
    code, out, _ = run("evaluate", "p.jsonl", "--benchmark", "one.jsonl", "--resamples", 5)
    assert code == 0
    assert "MAE 0.000" in out
    assert out.splitlines()[-1] == "1 clips have no truth and were not scored: mugs/b"


def test_what_needs_truth_says_which_clips_have_none(run: Run, manifest: Path) -> None:
    for name in ("vtt", "cosmos"):
        code, _, err = run("dataset", "export", name, manifest, "-o", "out.x")
        assert (code, len(err.splitlines())) == (1, 1)
        assert "mugs/a" in err
    code, _, err = run("dataset", "build", "--manifest", manifest, "-o", "built")
    assert (code, len(err.splitlines())) == (1, 1)
    assert "mugs/a: nobody has labelled its events" in err
    code, _, err = run("dataset", "export", "csv", manifest, "-o", "t.csv")
    assert (code, err) == (0, "")
    assert Path("t.csv").read_text(encoding="utf-8").count("mugs/") == 4
