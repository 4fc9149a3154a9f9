"""The benchmark `real`: the list of public files, the truth of their clips, and what signals say about them.

    python benchmarks/real.py list CLONES        # files.jsonl.xz, from clones CLONES/OWNER+NAME/repo
    python benchmarks/real.py manifest DIR       # manifest.jsonl.xz, from what `tempoloc fetch real DIR` brought
    python benchmarks/real.py derive DIR RUNS    # signal rows and fusion, from DIR and the answers of models in RUNS
    python benchmarks/real.py cuts DIR           # motion-cuts.jsonl.xz, from those videos that are in DIR
    python benchmarks/real.py pack RUNS          # all of RUNS, packed

All but RUNS is written to data/benchmarks/real. The models' answers in RUNS are those of `tempoloc localize
--benchmark real --video-root DIR -o RUNS/NAME.jsonl`; data/benchmarks/real/README.md has the commands.

No file of the recordings comes into the repository. The truth of each family is made in its own way, and each clip's
line says how, and how uncertain it is:

- g1: from the fingers of the right hand (`finger_truth` below), within about 0.2 s;
- panda: by eye, from the pictures: the hand is at rest around the object, and then lifts it. Between the two the
  fingers close, which these pictures hardly show;
- droid: from the command to the gripper, as it crosses a half; closing takes it about a second. It closes five times
  on a plastic bag, and one of them, at 22.9 s, follows an opening by a half that lasts 0.1 s. Four closings have a name
  whether or not that one counts: the first, the second, the third and the last.
"""

from __future__ import annotations

import argparse
import hashlib
import lzma
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from tempoloc_nb.clips.manifest import Clip, Clips, load_benchmark, write_manifest
from tempoloc_nb.clips.public import HOST, cut_clips
from tempoloc_nb.clips.tasks import Event
from tempoloc_nb.core.errors import TempolocError, json_text
from tempoloc_nb.core.files import read_jsonl, write_jsonl
from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.formats.gripper import read_gripper
from tempoloc_nb.formats.lerobot import number_names, read_episodes, read_info
from tempoloc_nb.formats.lerobot_rows import read_numbers
from tempoloc_nb.inference.baselines import (
    BASELINES,
    GRIPPER_RULES,
    label_predictions,
    make_baseline,
    prediction_rows,
)
from tempoloc_nb.inference.fuse import fuse
from tempoloc_nb.inference.record import derive_record, pack_predictions
from tempoloc_nb.inference.run import answer_clips
from tempoloc_nb.inference.signals import Signal, pixel_motion, rests
from tempoloc_nb.models.ask import AskConfig
from tempoloc_nb.scoring.metrics import Floats
from tempoloc_nb.study.questions import LABELS
from tempoloc_nb.video.files import probe

PLACE = data_dir() / "benchmarks" / "real"
DROID = "cookbooks/cosmos3/generator/action/assets/droid_lerobot_example"
SOURCES = {  # family → repository, commit, licence, and where its files are there (folder or file → where they go)
    "g1": (
        "YifanTian07/G1-policy-train", "d1d3bb45f16a99eb3220c88b4f84f6c92d306f88", "MIT",
        {"data": "data", "meta": "meta", "videos": "videos", "LICENSE": "LICENSE", "README.md": "README.md"},
    ),
    "panda": (
        "ARISE-Initiative/robomimic", "d309eaecc18acf4152a830a895a6984b8ac71b05", "MIT",
        {"docs/images/task_lift_real.gif": "task_lift_real.gif", "docs/images/task_can_real.gif": "task_can_real.gif",
         "LICENSE": "LICENSE"},
    ),
    "droid": (
        "NVIDIA/cosmos", "aca7057200f0124dd306bf1d76a7602df6061cdc", "OpenMDW-1.1",
        {f"{DROID}/data": "data", f"{DROID}/meta": "meta", f"{DROID}/videos": "videos", "LICENSE": "LICENSE"},
    ),
}  # fmt: skip
BOTTLE = ("grasping the yellow bottle", "releasing the yellow bottle")
FINGERS = ("Pinky", "Ring", "Middle", "Index", "ThumbBend")  # kRightHand…; the thumb's rotation opens nothing
SMOOTH, CLOSED, STILL_CLOSED = 7, 0.2, 0.3  # frames; shares of the way between closed and open
# Franka: clip → first frame in its file, frames, boundary (s), uncertainty (s).
LIFTS = {
    0: (0, 33, 2.5, 0.2), 1: (33, 29, 2.3, 0.3), 2: (62, 29, 2.3, 0.2), 3: (91, 32, 2.4, 0.3), 4: (123, 33, 2.6, 0.2),
}  # fmt: skip
CANS = {0: (0, 51, 2.6, 0.2), 1: (51, 48, 2.3, 0.3), 2: (99, 45, 2.6, 0.3)}
BAG = {"first": 3.1, "second": 12.3, "third": 18.3, "last": 33.0}  # s


def listed(clones: Path) -> Iterator[dict[str, str | int]]:
    """A line for each public file that a clone holds; a clone may lack large ones."""
    for family, (repository, commit, licence, places) in SOURCES.items():
        git = ["git", f"--git-dir={clones / repository.replace('/', '+') / 'repo'}"]
        for source, place in places.items():
            tree = [*git, "ls-tree", "-r", "--name-only", commit, source]
            for name in subprocess.run(tree, capture_output=True, check=True).stdout.decode().splitlines():
                shown = subprocess.run([*git, "show", f"{commit}:{name}"], capture_output=True, check=False)
                if shown.returncode:
                    print(f"{repository} lacks {name}")
                    continue
                if shown.stdout.startswith(b"version https://git-lfs"):
                    raise TempolocError(f"{repository}: {name} is a pointer of Git LFS, which another host serves")
                yield {
                    "path": f"{family}/{place}{name.removeprefix(source)}", "repository": repository, "commit": commit,
                    "source": name, "url": f"{HOST}/{repository}/{commit}/{name}", "size": len(shown.stdout),
                    "sha256": hashlib.sha256(shown.stdout).hexdigest(), "licence": licence,
                }  # fmt: skip


def finger_truth(opening: Floats, times: Floats) -> tuple[float, float]:
    """When a hand that opens, closes on an object, and opens again has closed, and when it begins to open (s).

    `opening` (F,) is the mean of the fingers' joints, larger is more open; it is smoothed over seven frames. The hold
    is its deepest valley: where the smaller of the widest openings before and after is farthest above it. The hand has
    closed at the first frame after the widest opening before, at which no more than a fifth of the way to the hold is
    left. It begins to open at the last frame before the widest opening after, at which it has gone no more than three
    tenths of the way. So a hand that grips tighter while it lifts has its grasp where the object does not move yet.
    """
    half = SMOOTH // 2
    x = np.convolve(np.pad(opening, half, mode="edge"), np.full(SMOOTH, 1 / SMOOTH), "valid")
    before, after = np.maximum.accumulate(x), np.maximum.accumulate(x[::-1])[::-1]
    hold = int(np.argmax(np.minimum(before, after) - x))
    first, last = int(np.argmax(x[: hold + 1])), hold + int(np.argmax(x[hold:]))
    closed = first + int(np.argmax(x[first : hold + 1] <= x[hold] + CLOSED * (x[first] - x[hold])))
    still = np.flatnonzero(x[: last + 1] <= x[hold] + STILL_CLOSED * (x[last] - x[hold]))
    return float(times[closed]), float(times[still[-1]])


def g1_clips(root: Path) -> Iterator[Clip]:
    """The G1's episodes whose video is there."""
    info = read_info(root / "g1")
    names, state = {f"kRightHand{finger}" for finger in FINGERS}, "observation.state"
    columns = [k for k, name in enumerate(number_names(info).get(state, ())) if name in names]
    if len(columns) != len(FINGERS):
        raise TempolocError(f"the G1's hand has {len(columns)} of the {len(FINGERS)} joints that its truth is made of")
    videos = {int(p.stem.rpartition("_")[2]): p for p in sorted((root / "g1" / "videos").rglob("*.mp4"))}
    for e, times, numbers in read_numbers(info, [e for e in read_episodes(info) if e.index in videos], [state]):
        truth, episode = finger_truth(numbers[state][:, columns].mean(axis=1), times), e.index
        more = {"episode_index": episode, "uncertainty_s": 0.2, "truth": "right hand's fingers"}
        yield clip_of(f"g1/{episode:06d}", videos[episode], root, BOTTLE, truth, "Unitree G1", more)


def panda_clips(root: Path) -> Iterator[Clip]:
    """The Franka's grasps: spans of two pictures that show several, one after the other, at ten frames a second."""
    for name, thing, spans in (("lift", "cube", LIFTS), ("can", "can", CANS)):
        for i, (first, count, boundary, uncertain) in spans.items():
            file, video = f"panda/task_{name}_real.gif", f"panda/task_{name}_real_{i}.mp4"
            yield Clip(
                f"panda/{name}-{i}", "panda", (Event(f"grasping the {thing}", boundary),), video, 10.0,
                duration=count / 10, source=SOURCES["panda"][0], robot="Franka Panda", split="test",
                extra={
                    "cut": {"file": file, "first": first, "count": count}, "uncertainty_s": uncertain, "truth": "eye",
                },
            )  # fmt: skip


def droid_clips(root: Path) -> Iterator[Clip]:
    """The one DROID episode, with the closings that can be named for certain."""
    video = next((root / "droid" / "videos").rglob("*.mp4"))
    labels = tuple(f"grasping the white plastic bag for the {which} time" for which in BAG)
    more = {"episode_index": 0, "uncertainty_s": 0.5, "truth": "command to the gripper"}
    yield clip_of("droid/0", video, root, labels, tuple(BAG.values()), "Franka Panda, Robotiq 2F-85", more)


def real_clips(root: Path) -> list[Clip]:
    """All clips of the files in `root`."""
    franka = list(panda_clips(root))
    cut_clips(franka, root)
    return [*franka, *g1_clips(root), *droid_clips(root)]


def clip_of(
    name: str, video: Path, root: Path, labels: tuple[str, ...], truth: tuple[float, ...], robot: str,
    more: dict[str, object],
) -> Clip:
    """A clip of a video in `root`, with what its file says of rate and length."""
    info, task = probe(video), name.partition("/")[0]
    events = tuple(Event(label, round(time, 3)) for label, time in zip(labels, truth, strict=True))
    return Clip(
        name, task, events, video.relative_to(root).as_posix(), round(info.fps, 6), duration=round(info.duration, 4),
        source=SOURCES[task][0], robot=robot, split="test", extra=more,
    )  # fmt: skip


def derive(root: Path, runs: Path) -> None:
    """Write what follows from signals: `gripper-rule.jsonl`, and `derived.jsonl` with a baseline a row.

    NAME/fused are a baseline's times, moved to the signal where the clip has one; of few labels, a draw is a trial. The
    gripper rule read backward is there, too. The G1's signal is the mean of the right hand's six joints, as a user
    names them (`--gripper kRightHand`), the DROID episode's the command.
    """
    real = load_benchmark("real")
    signals = read_gripper(root / "g1", real.of_task("g1"), gripper=("kRightHand",), say=print)
    droid = {"gripper": ("action.gripper_position",), "inverted": True}
    signals |= read_gripper(root / "droid", real.of_task("droid"), **droid, say=print)
    (parts := runs / "parts").mkdir(parents=True, exist_ok=True)
    for rule, place in zip(GRIPPER_RULES, (runs, parts), strict=True):
        backend = make_baseline(rule, real, signals=signals)
        answer_clips(real, place / f"{rule}.jsonl", AskConfig(rule, fps=8.0), backend)
    sources = [parts / f"{GRIPPER_RULES[1]}.jsonl"]
    rows = [row for _, row in read_jsonl(sources[0])]
    for name in BASELINES:
        sources.append(path := parts / f"{name}.jsonl")
        answer_clips(real, path, AskConfig(name, fps=8.0), make_baseline(name, real))
        rows += fused(path, real, signals, f"{name}/fused")
    for labels in LABELS:
        for draw, predictions in enumerate(label_predictions(real, labels, draws=3)):
            write_jsonl(path := parts / "labels.jsonl", prediction_rows(real, predictions, "guess", 8.0), force=True)
            rows += fused(path, real, signals, f"{labels}-label/fused", draw)
    write_jsonl(runs / "derived.jsonl", rows)
    derive_record(runs / "derived.jsonl", *sources, derived={"rows": sorted({row["model"] for row in rows})})


def fused(
    path: Path, real: Clips, signals: Mapping[str, Signal], model: str, trial: int = 0
) -> Iterator[dict[str, object]]:
    """The rows of a file, moved to the signal of those clips that have one, as a trial of `model`."""
    print(fuse(path, out := path.with_suffix(".fused.jsonl"), benchmark=real, signals=signals, force=True))
    for _, row in read_jsonl(out):
        if row["clip"] in signals:
            yield {**row, "model": model, "trial": trial}


def motion_cuts(root: Path) -> Path:
    """Write when (s) the pixels of each recording in `root` move on, as `tempoloc segment --by motion` has it.

    `deepest` is by which share the motion falls in its deepest rest, whether or not that is enough for a cut. A clip
    whose video is missing is left out, and counted. The gripper cuts none of them: the truth of the G1 and of DROID is
    made from what it would read, and the Franka's pictures have no signal.
    """
    real, rows = replace(load_benchmark("real"), root=root), []
    for clip in real.with_videos():
        motion = pixel_motion(clip.video_path(root))
        cuts, deepest = [round(t, 3) for t, _ in rests(*motion)], max(d for _, d in rests(*motion, least=0.0))
        rows.append({"clip": clip.clip, "cuts": cuts, "deepest": round(deepest, 3)})
    print(f"{len(rows)} of {len(real.clips)} clips")
    write_jsonl(path := PLACE / "motion-cuts.jsonl.xz", rows, force=True)
    return path


def main() -> None:
    """Do what the command says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("list", "manifest", "derive", "cuts", "pack"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("runs", type=Path, nargs="?")
    given = parser.parse_args()
    if given.what == "list":
        lines = sorted(listed(given.folder), key=lambda line: str(line["path"]))
        text = "".join(json_text(line) + "\n" for line in lines)
        (PLACE / "files.jsonl.xz").write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    elif given.what == "manifest":
        write_manifest(PLACE / "manifest.jsonl.xz", real_clips(given.folder))
    elif given.what == "derive":
        derive(given.folder, given.runs)
    elif given.what == "cuts":
        print(motion_cuts(given.folder))
    else:
        for path in sorted(given.folder.glob("*.jsonl")):
            print(pack_predictions(path, PLACE, force=True))


if __name__ == "__main__":
    main()
