"""The benchmark of real recordings: its list, its truth and how that is made, and the answers that are kept."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tempoloc_nb.clips.manifest import Clips, load_benchmark
from tempoloc_nb.clips.public import public_files
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.files import read_jsonl
from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.inference.baselines import BASELINES
from tempoloc_nb.inference.record import read_rows
from tempoloc_nb.study.questions import LABELS
from tempoloc_nb.video.files import SUFFIXES, encode

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "real.py"
PLACE = data_dir() / "benchmarks" / "real"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("real", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def real() -> Clips:
    return load_benchmark("real")


def test_no_file_of_the_recordings_is_here() -> None:
    kept = {p.suffix for p in PLACE.rglob("*") if p.is_file()}
    assert kept <= {".jsonl", ".json", ".xz", ".toml", ".md"}
    assert not kept & {*SUFFIXES, ".gif", ".parquet", ".npz"}


def test_each_clip_has_its_files_in_the_list(real: Clips) -> None:
    listed = {file.path for file in public_files(real)}
    assert len(listed) == len(public_files(real))
    for clip in real.clips:
        assert clip.extra.get("cut", {}).get("file", clip.video) in listed, clip.clip
    families = Counter(clip.task for clip in real.clips)
    assert families == {"g1": 93, "panda": 8, "droid": 1}
    videos = Counter(file.family for file in public_files(real) if Path(file.path).suffix == ".mp4")
    assert videos == {"g1": 93, "droid": 1}
    for family in families:
        assert f"{family}/LICENSE" in listed
    for wanted in ("info.json", "episodes.jsonl", "tasks.jsonl", "episodes_stats.jsonl"):  # LeRobot v2.1
        assert f"g1/meta/{wanted}" in listed


def test_addresses_are_of_fixed_commits_and_licences_are_named(real: Clips) -> None:
    for file in public_files(real):
        assert re.fullmatch("[0-9a-f]{40}", file.commit)
        assert re.fullmatch("[0-9a-f]{64}", file.sha256)
        assert file.licence in ("MIT", "OpenMDW-1.1")
        assert file.size < 100_000_000  # what raw addresses serve


def test_each_clip_says_how_its_truth_was_made(real: Clips) -> None:
    ways = {clip.task: clip.extra["truth"] for clip in real.clips}
    assert ways == {"g1": "right hand's fingers", "panda": "eye", "droid": "command to the gripper"}
    for clip in real.clips:
        assert 0.2 <= clip.extra["uncertainty_s"] <= 0.5
        assert clip.duration is not None
        assert clip.boundaries[0] > 0
        assert clip.boundaries[-1] < clip.duration


def test_cuts_follow_one_another(real: Clips) -> None:
    ends: dict[str, int] = {}
    for clip in real.of_task("panda"):
        cut = clip.extra["cut"]
        assert cut["first"] == ends.get(cut["file"], 0)
        ends[cut["file"]] = cut["first"] + cut["count"]
        assert clip.duration == cut["count"] / 10
    assert ends == {"panda/task_lift_real.gif": 156, "panda/task_can_real.gif": 144}


def opening(*points: tuple[float, float], seconds: float = 10.0) -> tuple[np.ndarray, np.ndarray]:
    """A hand's opening through (s, opening) points, 30 times a second."""
    times = np.arange(0, seconds, 1 / 30)
    return np.interp(times, *zip(*points, strict=True)), times


def test_the_grasp_is_the_end_of_closing_and_the_release_the_start_of_opening(script: ModuleType) -> None:
    x, times = opening((1, 0.2), (2, 1.0), (4, 1.0), (5, 0.4), (7, 0.4), (8, 0.9), (9, 0.3))
    grasp, release = script.finger_truth(x, times)
    assert grasp == pytest.approx(4.8, abs=0.05)  # a fifth of the way is left
    assert release == pytest.approx(7.3, abs=0.05)  # three tenths of the way are gone


def test_a_hand_that_starts_and_ends_closed_holds_nothing_there(script: ModuleType) -> None:
    x, times = opening((1, 0.0), (2, 1.0), (4, 1.0), (5, 0.5), (7, 0.5), (8, 1.0), (9, 0.0))
    grasp, release = script.finger_truth(x, times)
    assert (grasp, release) == (pytest.approx(4.8, abs=0.05), pytest.approx(7.3, abs=0.05))


def test_a_firmer_grip_later_does_not_move_the_grasp(script: ModuleType) -> None:
    x, times = opening((2, 1.0), (4, 1.0), (5, 0.42), (5.5, 0.55), (6, 0.4), (7, 0.4), (8, 1.0))
    assert script.finger_truth(x, times)[0] == pytest.approx(4.83, abs=0.05)


def test_the_kept_answers_are_about_these_clips(real: Clips) -> None:
    clips = {clip.clip for clip in real.clips}
    trials = {"tempoloc-tiny": 5, "motion-minima": 1}
    for name, count in trials.items():
        rows = list(read_rows(PLACE / f"{name}.jsonl.xz"))
        assert {row["clip"] for row in rows} == clips
        assert len(rows) == count * len(clips)
    signals = {clip.clip for clip in real.clips if clip.task != "panda"}  # of its GIFs there is no signal
    ruled = [row["clip"] for row in read_rows(PLACE / "gripper-rule.jsonl.xz")]
    assert sorted(ruled) == sorted(signals)
    derived: dict[str, list[str]] = {}
    for row in read_rows(PLACE / "derived.jsonl.xz"):
        derived.setdefault(row["model"], []).append(row["clip"])
    few = [f"{labels}-label" for labels in LABELS]  # in three draws
    assert derived.keys() == {"signal/gripper-rule-backward", *(f"{name}/fused" for name in (*BASELINES, *few))}
    others = sorted(signals - {"droid/0"})  # a clip that is alone in its family has no others to learn from
    for name, fused in derived.items():
        wanted = sorted(3 * others) if name.partition("/")[0] in few else others if name.startswith("loo") else signals
        assert sorted(fused) == sorted(wanted), name


def test_the_kept_cuts_lie_in_their_clips(real: Clips) -> None:
    kept = {line["clip"]: line for _, line in read_jsonl(PLACE / "motion-cuts.jsonl.xz")}
    lengths = {clip.clip: clip.duration for clip in real.clips}
    assert Counter(name.partition("/")[0] for name in kept) == {"g1": 8, "panda": 4, "droid": 1}
    for name, line in kept.items():
        cuts = line["cuts"]
        assert cuts == sorted(cuts)
        assert all(0 <= cut <= lengths[name] for cut in cuts)
        assert (line["deepest"] >= 0.8) == bool(cuts)  # what a rest needs


def test_cuts_are_made_of_the_videos_that_are_there(
    script: ModuleType, real: Clips, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "PLACE", tmp_path)
    clip = real.of_task("panda")[0]
    places = 60 + 4 * np.cumsum([0] + [1] * 12 + [0] * 8 + [1] * 12)  # it moves, rests, and moves on after 2 s
    frames = [np.zeros((64, 256, 3), np.uint8) for _ in places]
    for frame, place in zip(frames, places, strict=True):
        frame[20:40, place : place + 20] = 255
    encode(clip.video_path(tmp_path), frames, 10.0)
    (line,) = (line for _, line in read_jsonl(script.motion_cuts(tmp_path)))
    assert line["clip"] == clip.clip
    assert line["cuts"] == [pytest.approx(2.0, abs=0.15)]
    clip.video_path(tmp_path).write_bytes(b"no video")
    with pytest.raises(TempolocError, match="lift_real_0"):
        script.motion_cuts(tmp_path)
