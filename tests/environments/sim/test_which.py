"""The benchmark `which` is made again from its seeds, equal to what ships."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

from tempoloc_nb.clips.manifest import Clips, load_benchmark, read_manifest
from tempoloc_nb.formats.gripper import read_gripper
from tempoloc_nb.lab.sim import benchmark
from tempoloc_nb.lab.sim.benchmark import build_which
from tempoloc_nb.lab.sim.make import simulate
from tempoloc_nb.scoring.logs import read_true_logs


@pytest.mark.parametrize(("split", "family"), [("which", "which-panda"), ("which-validation", "which-kinova3")])
def test_shipped_clips_are_made_again(split: str, family: str, tmp_path: Path) -> None:
    (summary,) = build_which(split, tmp_path / "work", tmp_path, clips={family: 2}, videos=0, workers=2)
    assert summary.clips == 2
    made, shipped = read_manifest(tmp_path / "manifest.jsonl.xz"), load_benchmark(split)
    own = [c for c in shipped.clips if c.extra["shown"] in (f"{family}/000", f"{family}/001")]
    assert [replace(c, video=None) for c in own] == list(made)
    if split == "which":
        old, new = (read_gripper(root / "signals.npz", made) for root in (shipped.root, tmp_path))
        assert all(np.array_equal(old[c.clip].opening, new[c.clip].opening) for c in made)


def test_a_clip_that_comes_out_otherwise_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a processor whose last digits differ: the name would be the shipped clip's, the video another."""

    def moved(split: str) -> Clips:
        whole = load_benchmark(split)
        late = [
            replace(c, events=tuple(replace(e, boundary=e.time + 1.0) for e in c.events))
            if c.extra["shown"] == "which-panda/001" and not c.absent else c for c in whole.clips
        ]  # fmt: skip
        return replace(whole, clips=tuple(late))

    monkeypatch.setattr(benchmark, "load_benchmark", moved)
    (summary,) = build_which("which", tmp_path / "work", tmp_path, clips={"which-panda": 2}, videos=0, workers=2)
    assert (summary.clips, summary.failed["is another clip than the shipped"]) == (1, 1)
    assert {c.extra["shown"] for c in read_manifest(tmp_path / "manifest.jsonl.xz")} == {"which-panda/000"}
    assert [*read_true_logs(tmp_path / "logs.jsonl.xz")] == ["which-panda/000"]


def test_own_clips_of_any_order_have_states_with_their_own_events(tmp_path: Path) -> None:
    assert simulate("which", 1, tmp_path, seed=10, render=False, workers=1).clips == 1
    (clip,) = read_manifest(tmp_path / "manifest.jsonl")
    with h5py.File(tmp_path / "hdf5" / "which.hdf5") as file:
        attributes = file["data/demo_0"].attrs
        assert json.loads(attributes["events"]) == [[e.label, e.boundary] for e in clip.events]
        assert len(clip.events) >= 4
        assert "instants" not in attributes
