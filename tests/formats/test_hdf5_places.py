"""What a write-back may touch, and what a damaged file may claim: no other file, and no shape is believed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tempoloc_nb.clips.manifest import Clip, load_benchmark
from tempoloc_nb.clips.tasks import Event
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.formats.found import plan_write
from tempoloc_nb.formats.gripper import read_gripper
from tempoloc_nb.formats.hdf5 import import_hdf5, read_signals
from tempoloc_nb.formats.hdf5_frames import DemoFrames, read_demo_file
from tempoloc_nb.formats.hdf5_rules import signal_of
from tempoloc_nb.formats.hdf5_write import SignalOptions, write_signals
from tempoloc_nb.labels.check import check_labels
from tempoloc_nb.video.files import Footage

h5py = pytest.importorskip("h5py")
T = 40
PLACE = "datagen_info/subtask_term_signals"
CLIPS = [Clip(f"mug/demo_{i}", "mug", (Event("grasp", 0.4), Event("release", 1.1)), duration=2.0) for i in range(2)]


def write(path: Path, demos: int = 2) -> Path:
    with h5py.File(path, "w") as file:
        file.create_group("data").attrs["env_args"] = json.dumps({"env_kwargs": {"control_freq": 20}})
        for i in range(demos):
            file[f"data/demo_{i}/actions"] = np.zeros((T, 7))
            file[f"data/demo_{i}/obs/front_image"] = np.full((T, 16, 16, 3), 9, np.uint8)
            for name, step in (("grasp", 10), ("release", 25)):
                file[f"data/demo_{i}/{PLACE}/{name}"] = signal_of(step, T)
    return path


def index_of(tmp_path: Path, kind: str) -> tuple[Path, str]:
    """A file whose demo_1 is kept in another one, in one of several ways, and what an error must name."""
    other, path = write(tmp_path / "other.hdf5"), write(tmp_path / "index.hdf5")
    places = {"demonstration": "", "group": f"/{PLACE}", "signal": f"/{PLACE}/release", "soft": f"/{PLACE}/release",
              "lost": f"/{PLACE}/release", "virtual": f"/{PLACE}/release", "external": f"/{PLACE}/release"}  # fmt: skip
    at = f"data/demo_1{places[kind]}"
    with h5py.File(path, "a") as file:
        del file[at]
        if kind == "virtual":
            layout = h5py.VirtualLayout((T,), np.int64)
            layout[:] = h5py.VirtualSource(str(other), at, (T,))
            file.create_virtual_dataset(at, layout)
        elif kind == "external":
            (tmp_path / "raw.bin").write_bytes(signal_of(25, T).tobytes())
            raw = [(str(tmp_path / "raw.bin"), 0, h5py.h5f.UNLIMITED)]
            file.create_dataset(at, (T,), np.int64, external=raw)
        elif kind == "soft":
            file["link"] = h5py.ExternalLink("other.hdf5", "/data/demo_1")
            file[at] = h5py.SoftLink(f"/link/{PLACE}/release")
        else:
            file[at] = h5py.ExternalLink("gone.hdf5" if kind == "lost" else "other.hdf5", f"/{at}")
    return path, "raw.bin" if kind == "external" else "gone.hdf5" if kind == "lost" else "other.hdf5"


@pytest.mark.parametrize("kind", ["demonstration", "group", "signal", "soft", "lost", "virtual", "external"])
def test_nothing_is_written_into_another_file(tmp_path: Path, kind: str) -> None:
    path, target = index_of(tmp_path, kind)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    frames: list[Footage] = [DemoFrames(path, "demo_1", "front_image", 20.0, False)]
    with pytest.raises(TempolocError, match=rf"index\.hdf5: demo_1.* leads to .*{target}.*no backup"):
        write_signals(path, CLIPS, ["grasp", "release"], options=SignalOptions(create=True))
    with pytest.raises(TempolocError, match=rf"demo_1.* leads to .*{target}"):
        plan_write(frames, ["grasping", "releasing"], ["grasp", "release"])
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
    some = SignalOptions(some=True)
    one = write_signals(path, CLIPS[:1], ["grasp", "release"], options=some)  # its own signals may be written
    assert (one.demos, one.moved) == (1, 2)
    assert all(before[p.name] == p.read_bytes() for p in tmp_path.iterdir() if p.name in before and p != path)


def test_links_that_stay_in_the_file_are_written_unless_they_are_shared(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5")
    with h5py.File(path, "a") as file:
        file.move(f"data/demo_1/{PLACE}", "kept")
        file[f"data/demo_1/{PLACE}"] = h5py.SoftLink("/kept")
    write_signals(path, CLIPS, ["grasp", "release"])
    assert [d.boundaries for d in read_signals(path)] == [(0.4, 1.1), (0.4, 1.1)]
    with h5py.File(path, "a") as file:
        del file[f"data/demo_1/{PLACE}"]
        file[f"data/demo_1/{PLACE}"] = file[f"data/demo_0/{PLACE}"]
    before = path.read_bytes()
    with pytest.raises(TempolocError, match=r"demo_0 and demo_1 share the signal .*grasp: give each its own"):
        write_signals(path, CLIPS[:1], ["grasp", "release"], options=SignalOptions(some=True))
    assert path.read_bytes() == before


def claim(path: Path, kind: str) -> None:
    """A shape or type that no demonstration has, in the place of what demo_1 had."""
    with h5py.File(path, "a") as file:
        demo = file["data/demo_1"]
        at = f"{PLACE}/grasp" if kind.startswith("signal") else "actions"
        del demo[at]
        pair = np.dtype([("a", "f8"), ("b", "i4")])
        made: dict[str, Any] = {
            "actions of 10^12 rows": {"shape": (10**12, 7), "dtype": "f4", "chunks": (1024, 7)},
            "no actions": {"shape": (0, 7), "dtype": "f4"},
            "one number": {"data": 1.0},
            "nothing": {"data": h5py.Empty("f4")},
            "signal of 10^12": {"shape": (10**12,), "dtype": "i1", "chunks": (1024,)},
            "signal of pairs": {"data": np.zeros(T, pair)},
            "signal of text": {"data": np.full(T, b"1")},
        }
        if kind == "a group":
            demo.create_group(at)
        else:
            demo.create_dataset(at, **made[kind])


CLAIMS = {
    "actions of 10^12 rows": "demo_1 claims 1000000000000 actions", "no actions": "demo_1 has no actions",
    "one number": "demo_1 has no actions", "nothing": "demo_1 has no actions", "a group": "demo_1 has no actions",
    "signal of 10^12": "'grasp' has 1000000000000 values for 40 actions",
    "signal of pairs": "grasp' is no row of numbers", "signal of text": "grasp' is no row of numbers",
}  # fmt: skip


@pytest.mark.parametrize("kind", CLAIMS)
def test_what_a_file_claims_is_checked_before_it_is_read(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path / "a.hdf5")
    claim(path, kind)
    with pytest.raises(TempolocError, match=CLAIMS[kind]):
        read_signals(path)
    with pytest.raises(TempolocError, match=CLAIMS[kind]):
        write_signals(path, CLIPS, ["grasp", "release"])
    if not kind.startswith("signal"):
        frames = DemoFrames(path, "demo_1", read_demo_file(path).cameras[0], 20.0, False)
        with pytest.raises(TempolocError, match=CLAIMS[kind]):
            frames.info()
        with pytest.raises(TempolocError, match=CLAIMS[kind]):
            read_gripper(path, CLIPS[1:])
    assert any(f.about.startswith("demo_1") and f.severity == "error" for f in check_labels(path).report.findings)


@pytest.mark.parametrize("duration", [1e7, 1e300])
def test_labels_are_not_laid_out_by_a_claimed_duration(tmp_path: Path, duration: float) -> None:
    row = {"clip": "mug/0", "task": "mug", "video": None, "duration": duration,
           "events": [{"label": "grasping it", "boundary": 0.4}]}  # fmt: skip
    (tmp_path / "m.jsonl").write_text(json.dumps(row) + "\n")
    (tmp_path / "mug.toml").write_text('key = "mug"\nevents = ["grasping it"]\n')
    assert load_benchmark(tmp_path / "m.jsonl").clips[0].duration == duration
    with pytest.raises(TempolocError, match=r"mug/0 lasts 1e\+\d+ s, 2e\+\d+ steps: the most are 1000000"):
        check_labels(tmp_path / "m.jsonl")


def two_hands(path: Path, moments: dict[str, tuple[int, int]], hands: tuple[str, ...]) -> Path:
    with h5py.File(path, "w") as file:
        args = {"sim_args": {"dt": 0.01, "decimation": 5}}
        file.create_group("data").attrs["env_args"] = json.dumps(args)
        demo = file.create_group("data/demo_0")
        demo["actions"] = np.zeros((T, 14))
        for hand in hands:
            demo[f"obs/datagen_info/eef_pose/{hand}"] = np.tile(np.eye(4), (T, 1, 1))
        for name, (start, end) in moments.items():
            demo[f"obs/datagen_info/subtask_start_signals/{name}"] = signal_of(start, T, np.bool_)
            demo[f"obs/datagen_info/subtask_term_signals/{name}"] = signal_of(end, T, np.bool_)
    return path


def test_each_hand_keeps_its_subtasks(tmp_path: Path) -> None:
    moments = {"pick_right": (3, 10), "leftReach": (5, 14), "left_hold": (16, 30)}
    for i, hands in enumerate((("left", "right"), ("left_hand", "right_hand"))):
        path = two_hands(tmp_path / f"{i}.hdf5", moments, hands)
        import_hdf5(path, tmp_path / str(i) / "m.jsonl", task="two")
        found = load_benchmark(tmp_path / str(i) / "m.jsonl").tasks["two"].subtasks
        want = {"pick_right": hands[1], "leftReach": hands[0], "left_hold": hands[0]}
        assert {s.name: s.eef for s in found} == want
    path = two_hands(tmp_path / "a.hdf5", {"left_grasp": (3, 10), "hold": (12, 30)}, ("left", "right"))
    with pytest.raises(TempolocError, match="hands left, right, and nothing says whose subtask 'hold' is"):
        import_hdf5(path, tmp_path / "no" / "m.jsonl", task="two")
    assert not (tmp_path / "no").exists()


def test_an_order_that_a_manifest_cannot_have_is_not_written(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5")
    with h5py.File(path, "a") as file:
        file[f"data/demo_1/{PLACE}/grasp"][:] = signal_of(33, T)
    hands = ("grasp", "release")
    with pytest.raises(TempolocError, match=r"come as grasp, release in demo_0, .* one hand's at a time"):
        import_hdf5(path, tmp_path / "m.jsonl", task="mug")
    with h5py.File(path, "a") as file:  # as Isaac Lab has them, where no signal waits for the one before
        for demo in file["data"].values():
            demo.move("datagen_info", "obs/datagen_info")
    with pytest.raises(TempolocError, match="demo_1: 'release' does not rise after the signal before it"):
        import_hdf5(path, tmp_path / "m.jsonl", task="mug", signal=hands)
    for hand, times in zip(hands, ((0.5, 1.65), (1.25, 1.25)), strict=True):
        import_hdf5(path, tmp_path / hand / "m.jsonl", task="mug", signal=[hand])
        assert [c.boundaries[0] for c in load_benchmark(tmp_path / hand / "m.jsonl").clips] == list(times)
