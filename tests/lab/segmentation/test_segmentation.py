"""An action segmentation network: its features, its cuts, and the way from a frame store to answers."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.optional import import_transformers
from tempoloc_nb.lab.segmentation.network import (
    REST,
    NetworkShape,
    SeenClip,
    SegmentTraining,
    best_cuts,
    build_network,
    first_clips,
    frame_classes,
    label_scores,
    load_segmenter,
    segmentation_loss,
    stage_logits,
    train_segmenter,
)
from tempoloc_nb.lab.segmentation.run import (
    ENCODER,
    FrameEncoder,
    encode_store,
    read_clips,
    run_segmentation,
    segmenter_rows,
)
from tempoloc_nb.lab.tiny.batches import Batch, PatchMaker
from tempoloc_nb.lab.tiny.frame_store import MAX_OBJECTS, Recording, write_part
from tempoloc_nb.models.locate import model_folder
from tempoloc_nb.scoring.answers import parse_answer

SIM = load_benchmark("sim")


def part(path: Path, recordings: list[Recording], seed: int = 0) -> None:
    n = sum(one.count for one in recordings)
    rng = np.random.default_rng(seed)
    arrays = {
        "frames": rng.integers(0, 255, (n, 112, 112, 3), np.uint8), "hand": np.zeros((n, 2), np.float32),
        "gap": np.zeros(n, np.float32), "objects": np.zeros((n, MAX_OBJECTS, 2), np.float32),
        "seen": np.zeros((n, MAX_OBJECTS), np.bool_), "held": np.full(n, -1, np.int8),
    }  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    write_part(path, recordings, arrays)


def recording(name: str, split: str, first: int = 0, count: int = 20, **more: object) -> Recording:
    events = (("grasping the can", 0.4), ("releasing the can", 0.9))
    one = Recording(name, "clip", split, name.partition("/")[0], "Panda", 15.0, first, count, ("can",), events)
    return replace(one, **more)  # type: ignore[arg-type]


def test_the_encoder_reads_patches_as_the_model_was_trained_on_them() -> None:
    """Still pairs above an empty strip: what `PatchMaker` makes of a frame twice, without a stamp."""
    frames = np.random.default_rng(0).integers(0, 255, (3, 112, 112, 3), np.uint8)
    encoder = FrameEncoder(device="cpu")
    maker = PatchMaker(
        torch.from_numpy(frames), import_transformers().AutoProcessor.from_pretrained(model_folder(ENCODER))
    )
    rows = np.repeat(np.arange(3), 2)
    empty = np.zeros((0, 0), np.int64)
    batch = Batch(empty, empty, empty, rows, np.full(6, -1), rows, (10, 8), "", 0)
    assert torch.allclose(encoder._patches(torch.from_numpy(frames)), maker(batch, False, torch.float32), atol=1e-6)
    together = encoder(frames)
    assert together.shape == (3, 4096)
    assert np.abs(together - np.concatenate([encoder(frames[k : k + 1]) for k in range(3)])).max() < 0.02


@given(st.integers(1, 4), st.integers(0, 4), st.integers(0, 10_000))
def test_cuts_are_the_best_of_all(pieces: int, more: int, seed: int) -> None:
    scores = np.random.default_rng(seed).integers(-5, 5, (pieces + more, pieces)).astype(float)
    frames = len(scores)

    def worth(cuts: tuple[int, ...]) -> float:
        edges = [0, *cuts, frames]
        return float(sum(scores[a:b, k].sum() for k, (a, b) in enumerate(itertools.pairwise(edges))))

    cuts = best_cuts(scores)
    assert (np.diff([0, *cuts, frames]) > 0).all()
    assert worth(tuple(cuts)) == max(map(worth, itertools.combinations(range(1, frames), pieces - 1)))


def test_too_few_frames_are_refused() -> None:
    with pytest.raises(TempolocError, match="2 frames cannot be cut into 3"):
        best_cuts(np.zeros((2, 3)))


def test_an_unknown_event_is_any_with_its_verb() -> None:
    p = np.array([[0.1, 0.2, 0.3, 0.4]])
    vocabulary = ("grasping the can", "grasping the square nut", "inserting the square nut", REST)
    labels = ("grasping the square nut", "grasping the round nut", "painting the door")
    found = np.exp(label_scores(np.log(p), vocabulary, labels))
    assert found[0] == pytest.approx([0.2, 0.1, 0.25, 0.4])


def test_padding_changes_nothing_and_a_clip_sees_itself_alone() -> None:
    network = build_network(NetworkShape(3, features=5, filters=8, layers=3, stages=2), seed=1).eval()
    x, there = torch.randn(2, 5, 9), torch.ones(2, 1, 9)
    there[0, :, 6:] = 0
    with torch.no_grad():
        both = stage_logits(network, x * there, there)
        alone = stage_logits(network, x[:1, :, :6], torch.ones(1, 1, 6))
        classes = torch.randint(0, 3, (2, 9))
        classes[0, 6:] = -1
        loss = segmentation_loss(both, classes)
    assert torch.allclose(both[-1][:1, :, :6], alone[-1], atol=1e-5)
    expected = 0.0
    for logits in both:  # the paper's formulas, frame by frame
        log_p = torch.log_softmax(logits, dim=1)
        frames = [(b, t) for b in range(2) for t in range(9) if classes[b, t] >= 0]
        expected += float(np.mean([-log_p[b, classes[b, t], t] for b, t in frames]))
        jumps = [min(4.0, abs(float(log_p[b, c, t] - log_p[b, c, t - 1]))) ** 2
                 for b, t in frames if t for c in range(3)]  # fmt: skip
        expected += 0.15 * float(np.mean(jumps))
    assert float(loss) == pytest.approx(expected, rel=1e-5)


def test_frames_have_the_class_of_the_next_event() -> None:
    vocabulary = ("grasping", "releasing", REST)
    classes = frame_classes(np.array([0.0, 0.9, 1.0, 1.9, 2.0]), (("grasping", 1.0), ("releasing", 2.0)), vocabulary)
    assert classes.tolist() == [0, 0, 1, 1, 2]


def test_fewer_clips_are_the_first_of_each_task() -> None:
    names = ("a/000", "a/001", "a/002", "b/000", "b/001")
    clips = [SeenClip(recording(name, "sft"), np.zeros((20, 4), np.float16)) for name in reversed(names)]
    assert [c.recording.name for c in first_clips(clips, 4)] == ["a/000", "b/000", "a/001", "b/001"]
    assert len(first_clips(clips, 99)) == 5


def test_from_a_frame_store_to_answers_and_on(tmp_path: Path) -> None:
    clip = SIM.clips[0]
    events = tuple(zip(clip.labels, clip.boundaries, strict=True))
    asked = recording(f"{clip.task}/{clip.seed:09d}", "test", count=int((clip.duration or 0) * 15), events=events)
    part(tmp_path / "store" / "sft" / "a.npz", [recording("a/000", "sft"), recording("a/001", "sft", 20)])
    part(tmp_path / "store" / "test" / "a.npz", [asked], seed=1)
    part(tmp_path / "store" / "other.npz", [recording("x/000", "base")])
    told: list[str] = []
    plan = SegmentTraining(steps=2, clips_a_step=2)
    run = (tmp_path / "store", tmp_path / "out", (1, None))
    written = run_segmentation(*run, plan=plan, device="cpu", tell=told.append)
    assert [p.relative_to(tmp_path / "out").as_posix() for p in written] == ["1-seed0/sim.jsonl", "all-seed0/sim.jsonl"]
    assert sorted(p.name for p in (tmp_path / "out" / "features").iterdir()) == ["sft-a.npz", "test-a.npz"]
    row = json.loads(written[1].read_text())
    assert (row["clip"], row["model"], row["trial"]) == (clip.clip, "MS-TCN, 2 clips", 0)
    times = [e.boundary() for e in parse_answer(row["text"], clip.labels).events]
    assert times == sorted(times)
    assert all(0 < t < clip.duration for t in times)
    before = [p.read_bytes() for p in written]
    assert [p.read_bytes() for p in run_segmentation(*run, plan=plan, device="cpu", tell=told.append)] == before
    assert sum("step" in line for line in told) == 2  # trained once each
    with pytest.raises(TempolocError, match=r"1-seed0 holds what was made with .*\"steps\": 2.*\"steps\": 3"):
        run_segmentation(*run, plan=replace(plan, steps=3), device="cpu", tell=told.append)
    part(tmp_path / "changed" / "sft" / "a.npz", [recording("a/002", "sft")])
    with pytest.raises(TempolocError, match=r"sft-a\.npz has other clips than .*a\.npz: choose another folder"):
        run_segmentation(tmp_path / "changed", tmp_path / "out", plan=plan, device="cpu", tell=told.append)
    with pytest.raises(TempolocError, match="no clips of hands"):
        encode_store(tmp_path / "store", tmp_path / "none", ("hands",))
    (seen,) = read_clips(sorted((tmp_path / "out" / "features").iterdir()), "test")
    moved = replace(seen, recording=replace(seen.recording, events=tuple((n, t + 1) for n, t in seen.events)))
    segmenter = load_segmenter(tmp_path / "out" / "all-seed0" / "network.safetensors")
    with pytest.raises(TempolocError, match="is not the clip of the benchmark"):
        list(segmenter_rows(segmenter, [moved], SIM, "m"))
    with pytest.raises(TempolocError, match="no segmentation network"):
        load_segmenter(written[0])


def test_the_same_seed_trains_the_same_network() -> None:
    rng = np.random.default_rng(0)
    clips = [SeenClip(recording(f"a/{i:03d}", "sft"), rng.normal(size=(20, 6)).astype(np.float16)) for i in range(2)]
    one, same, other = (
        train_segmenter(clips, SegmentTraining(steps=2, clips_a_step=2, seed=seed)).network.state_dict()
        for seed in (3, 3, 4)
    )
    assert all(torch.equal(one[k], same[k]) for k in one)
    assert not all(torch.equal(one[k], other[k]) for k in one)


def test_frames_are_read_on_the_device_that_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    devices = []

    def encoder(device: str) -> Callable[[np.ndarray], np.ndarray]:
        devices.append(device)
        return lambda frames: np.zeros((len(frames), 4), np.float16)

    monkeypatch.setattr("tempoloc_nb.lab.segmentation.run.FrameEncoder", encoder)
    part(tmp_path / "store" / "a.npz", [recording("a/000", "sft"), recording("a/001", "sft", 20)])
    plan = SegmentTraining(steps=1, clips_a_step=2)
    run_segmentation(tmp_path / "store", tmp_path / "out", plan=plan, device="cpu:0", tell=lambda _: None)
    assert devices == ["cpu:0"]


def test_a_damaged_part_or_file_of_features_is_one_line(tmp_path: Path) -> None:
    part(tmp_path / "store" / "part.npz", [recording("a/1", "sft")])
    write_part(tmp_path / "sft-part.npz", [recording("a/1", "sft")], {"features": np.zeros((20, 4), np.float16)})
    reads: dict[Path, Callable[[], object]] = {
        tmp_path / "store" / "part.npz": lambda: encode_store(tmp_path / "store", tmp_path / "out", ("sft",)),
        tmp_path / "sft-part.npz": lambda: read_clips([tmp_path / "sft-part.npz"], "sft"),
    }
    for path, read in reads.items():
        whole = path.read_bytes()
        for bad in (whole[: len(whole) // 2], b"", b"no zip"):
            path.write_bytes(bad)
            with pytest.raises(TempolocError, match=f"{path.name} is not a part of a frame store"):
                read()
