"""`tempoloc find`: from a stranger's video to boundaries, with no file but the video."""

from __future__ import annotations

import csv
import functools
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.engines.hf import HFBackend
from tempoloc_nb.formats.found import found_csv, found_vtt, write_found
from tempoloc_nb.inference.find import Found, FoundEvent

Run = Callable[..., tuple[int, str, str]]
EVENTS = ("-e", "grasping the green cube", "-e", "releasing the green cube", "-e", "grasping the blue cube")


@pytest.fixture
def video(tmp_path: Path) -> Path:
    """A shipped clip under another name."""
    benchmark = load_benchmark("sim")
    return Path(shutil.copy(benchmark.clips[0].video_path(benchmark.root), tmp_path / "demo.mp4"))


def test_a_video_and_events_are_enough(run: Run, video: Path, tmp_path: Path) -> None:
    code, out, err = run("find", video, *EVENTS, "--trials", 2, "-o", tmp_path / "b.csv")
    assert (code, err) == (0, "")
    assert out.startswith("demo.mp4 (8.5 s), tempoloc-tiny, 2 trials\n")
    assert [line.split("  ")[-1].split("   ")[0] for line in out.splitlines()[1:]]
    rows = list(csv.DictReader((tmp_path / "b.csv").read_text().splitlines()))
    truth = load_benchmark("sim").clips[0].boundaries
    assert [r["event"] for r in rows] == list(EVENTS[1::2])
    assert all(abs(float(r["boundary_s"]) - t) < 0.5 for r, t in zip(rows, truth, strict=True))


def test_a_folder_works_as_a_video_does(run: Run, video: Path, tmp_path: Path) -> None:
    """A file that is no video is a line on stderr and status 1; the other is answered."""
    (tmp_path / "torn.mp4").write_bytes(video.read_bytes()[:3000])
    code, out, err = run("find", tmp_path, *EVENTS, "--trials", 1, "--json", "-o", tmp_path / "b.json")
    assert code == 1
    assert err.startswith("tempoloc: ")
    assert "torn.mp4" in err
    demo, torn = json.loads(out)
    assert json.loads((tmp_path / "b.json").read_text()) == [demo, torn]
    assert [e["status"] for e in demo["events"]] == ["ok"] * 3
    assert (demo["error"], bool(torn["error"])) == ("", True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "say what to find: --event"),
        (("-e", "x", "--task", "stack-two"), "say what to find: --event"),
        (("--task", "stack-tow"), "unknown task 'stack-tow': did you mean stack-two?"),
        (("--task", "stack-two"), "leaves a place open"),
        (("-e", "x", "--model", "tempoloc-tinny"), "unknown model 'tempoloc-tinny': did you mean tempoloc-tiny?"),
        (("-e", "x", "--backend", "vlm"), "unknown backend 'vlm': did you mean vllm?"),
        (("-e", "x", "--prompt", "recipee"), "unknown prompt 'recipee': did you mean recipe?"),
        (("-e", "x", "--preset", "crad"), "unknown preset 'crad': did you mean card?"),
        (("-e", "x", "--constrain", "regexp"), "unknown constraint 'regexp'"),
        (("-e", "x", "--server", "http://localhost:1"), "--server is for the backend openai, not hf"),
        (("-e", "x", "--backend", "vllm", "--batch", 2), "--batch is for the backend hf, not vllm"),
        (("-e", "x", "-o", "b.xlsx"), "ends in .csv, .vtt, .json, not to b.xlsx"),
        (("-e", "x", "-o", "nowhere/b.csv"), "its folder is not there"),
        (("-e", "x", "--fps", "nan"), "--fps must be above 0, got nan"),
        (("-e", "x", "--temperature", "inf"), "--temperature must be 0 or more, got inf"),
        (("-e", "x", "--trials", 0), "--trials must be 1 or more, got 0"),
        (("-e", "x", "--seed", -1), "--seed must be 0 or more, got -1"),
    ],
)
def test_a_slip_is_one_line_before_a_model_is_loaded(
    run: Run, video: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[object, ...], message: str
) -> None:
    loads = functools.wraps(HFBackend.__init__)(lambda *_, **__: pytest.fail("a model was loaded"))
    monkeypatch.setattr(HFBackend, "__init__", loads)
    code, out, err = run("find", video, *arguments)
    assert (code, out) == (1, "")
    assert message in err
    assert len(err.splitlines()) == 1


# --- files ---


def found(*times: float | None, name: str = "a.mp4") -> Found:
    events = tuple(FoundEvent(f"event {i}", t, "ok" if t is not None else "missing") for i, t in enumerate(times, 1))
    return Found(Path(name), events, "m", 9.0, 8.0, ("…",))


def test_what_was_not_said_is_an_empty_cell() -> None:
    assert found_csv([found(1.23456, None)]).splitlines() == [
        "video,event,boundary_s,confidence,status", "a.mp4,event 1,1.2346,,ok", "a.mp4,event 2,,,missing",
    ]  # fmt: skip


def test_subtitles_are_of_one_video(tmp_path: Path) -> None:
    assert found_vtt([found(1.5, None, 3661.25)]).split("\n\n")[1:] == [
        "00:00:00.000 --> 00:00:01.500\nevent 1", "00:00:01.500 --> 01:01:01.250\nevent 3\n",
    ]  # fmt: skip
    with pytest.raises(TempolocError, match="subtitles are of one video, not of 2"):
        write_found([found(1.0), found(2.0, name="b.mp4")], tmp_path / "x.vtt")
    assert list(tmp_path.iterdir()) == []
