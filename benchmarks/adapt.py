"""Adapt tempoloc-tiny to a hand that no training showed, with ten and with fifty labelled clips.

    python benchmarks/adapt.py OUT [--sim-python .venv-sim/bin/python] [--jobs 1]

Eighty clips of the family `which-ur5e-rethink` are simulated and rendered (OUT/clips): fifty to learn from, thirty to
ask about. Their labels are all that happens in them but arrivals, as a person would write it down. A model is trained
with what a user would type: `tempoloc dataset build --prompt log`, `sft config` and `sft launch`.

First, forty of the fifty are learned from with each setting of `CHOICES`, and the ten others asked about: the setting
with most events within 0.25 s is taken, for ten clips as for fifty. Nothing is chosen on the thirty. Then a model is
trained for each number of clips and each seed (OUT/NAME), on clips that the seed draws, and these and the shipped model
write one log, greedily, of each of the thirty clips, and of the shipped clips of `sim`, whose hands they know.

What study 12 reads goes to data/benchmarks/hand: the truth, the gripper's signals, the answers, packed, and
`adapt.json` with the machine, what each setting scored, and the seconds of each training. The same command goes on
where it stopped. `--jobs` processes train or answer side by side.

robosuite needs an environment of its own (`make test-sim` makes `.venv-sim`).
"""

from __future__ import annotations

import argparse
import math
import random
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine_speed import machine

from tempoloc_nb.clips.manifest import Clip, load_benchmark, read_manifest, write_manifest
from tempoloc_nb.clips.tasks import Event
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.files import read_object, write_json
from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.inference.record import pack_predictions
from tempoloc_nb.lab.sim.benchmark import write_clip_signals
from tempoloc_nb.lab.sim.which_questions import thing_label, which_questions
from tempoloc_nb.models.locate import ask_config
from tempoloc_nb.scoring.logs import true_log
from tempoloc_nb.sft.build import BuildOptions, build_dataset, from_manifest
from tempoloc_nb.sft.launch import launch_training
from tempoloc_nb.sft.training_file import make_config, write_config
from tempoloc_nb.study.questions import event_lines, said_by

MODEL, FAMILY = "tempoloc-tiny", "which-ur5e-rethink"
LEARNED, ASKED, WATCHED = 50, 30, 10  # clips; of those to learn from, ten choose the setting
SIZES, SEEDS = (10, 50), (0, 1, 2)
CHOICES = tuple({"rate": rate, "steps": steps} for steps in (100, 200) for rate in (1e-4, 3e-4, 1e-3))
BATCH = 4  # clips a step
SIMULATE = f"""
import sys
from pathlib import Path
from tempoloc_nb.lab.sim.make import simulate_clips
from tempoloc_nb.lab.sim.tasks import find_families
if __name__ == "__main__":
    (family,) = find_families("unseen", "{FAMILY}")
    print(simulate_clips(family, {LEARNED + ASKED}, Path(sys.argv[1]), states=False))
"""


@dataclass(frozen=True)
class Run:
    """A training: its folder, what it learns from, and how."""

    folder: Path
    clips: tuple[Clip, ...]
    seed: int
    setting: Mapping[str, float]

    @property
    def model(self) -> Path:
        return self.folder / "run" / "model"

    def build(self, videos: Path) -> None:
        """Write dataset and training file, unless the model is there."""
        if (self.model / "README.md").is_file():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        write_manifest(self.folder / "clips.jsonl", self.clips)
        ask = ask_config(MODEL)
        options = BuildOptions(ask.fps, "frame", "later", ask.prompt, split="train=1.0", link=True)
        build_dataset(from_manifest(self.folder / "clips.jsonl", videos), self.folder / "dataset", options, force=True)
        changes = {
            "custom.dataset.path": str(self.folder / "dataset"),
            "policy.model_name_or_path": MODEL,
            "train.output_dir": str(self.folder / "run"),
            "train.epoch": math.ceil(self.setting["steps"] / math.ceil(len(self.clips) / BATCH)),
            "train.max_num_steps": int(self.setting["steps"]),
            "train.train_batch_per_replica": BATCH,
            "train.optm_lr": self.setting["rate"],
            "train.optm_decay_type": "linear",
            "train.ckpt.save_freq": 100,
            "train.seed": self.seed,
        }
        write_config(self.folder / "sft.toml", make_config("transformers", changes=changes), force=True)

    def train(self) -> None:
        """Train, unless the model is there."""
        if (self.model / "README.md").is_file():
            return
        began = time.monotonic()
        run = launch_training(self.folder / "sft.toml", "transformers", echo=lambda line: None)
        if run.outcome != "finished":
            raise TempolocError(f"{self.folder}: {run}")
        noted = {"clips": len(self.clips), "seed": self.seed, **self.setting}
        write_json(self.folder / "seconds.json", {**noted, "seconds": round(time.monotonic() - began)})


def labelled(clip: Clip) -> Clip:
    """A clip of `which` with all that happens in it as its events, but arrivals."""
    log = true_log([(kind, thing_label(thing), time) for kind, thing, time in clip.extra["log"]])
    events = tuple(Event(e.numbered, e.time) for e in log.events)
    return replace(clip, events=events, in_order=True, extra={})


def answer(model: Path | str, about: Path | str, videos: Path | None, out: Path) -> Path:
    """Ask a model for one log of each clip, with what a user would type."""
    command = [sys.executable, "-m", "tempoloc_nb", "localize", "--model", model, "--benchmark", about]
    command += ["--trials", 1, "--batch", 50, "-o", out, *(["--video-root", videos] if videos else [])]
    subprocess.run([str(word) for word in command], check=True)
    return out


def share_right(answers: Path, about: Path) -> float:
    """The share of events that a file of answers has within 0.25 s."""
    benchmark = load_benchmark(about)
    return float(event_lines(said_by(answers, benchmark), benchmark)["right"].mean())


def train_all(runs: Sequence[Run], videos: Path, jobs: int) -> None:
    for run in runs:
        run.build(videos)
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(Run.train, runs))


def choose(learned: Sequence[Clip], out: Path, jobs: int) -> list[dict[str, Any]]:
    """What each setting has right of the clips that are watched, the best first."""
    runs = [Run(out / f"choose-{n}", tuple(learned[:-WATCHED]), 0, way) for n, way in enumerate(CHOICES)]
    train_all(runs, out / "clips", jobs)
    watched = out / "watched.jsonl"
    write_manifest(watched, [replace(c, extra={"kind": "all", "shown": c.clip}) for c in learned[-WATCHED:]])
    with ThreadPoolExecutor(jobs) as pool:
        paths = pool.map(lambda run: answer(run.model, watched, out / "clips", run.folder / "answers.jsonl"), runs)
        shares = [round(share_right(path, watched), 3) for path in paths]
    told = [{**run.setting, "right": share} for run, share in zip(runs, shares, strict=True)]
    return sorted(told, key=lambda line: -line["right"])


def keep(learned: Sequence[Clip], asked: Sequence[Clip], out: Path, folder: Path) -> Path:
    """Write the truth and the signals of the clips to `folder`; returns the questions with their videos."""
    folder.mkdir(parents=True, exist_ok=True)
    questions = [question for clip in asked for question in which_questions(clip)]
    write_manifest(out / "questions.jsonl", questions)
    write_manifest(folder / "manifest.jsonl.xz", [replace(question, video=None) for question in questions])
    write_manifest(folder / "train.jsonl.xz", [replace(labelled(clip), video=None) for clip in learned])
    episodes = [(clip, out / f"clips/episodes/{FAMILY}/{clip.seed:09d}.npz") for clip in asked]
    write_clip_signals(folder / "signals.npz", episodes, "none")
    return out / "questions.jsonl"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--keep", type=Path, default=data_dir() / "benchmarks" / "hand")
    parser.add_argument("--sim-python", default=".venv-sim/bin/python")
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    out, videos = args.out, args.out / "clips"
    subprocess.run([args.sim_python, "-c", SIMULATE, str(videos)], check=True)
    made = read_manifest(videos / "manifest.jsonl")
    learned, asked = made[:LEARNED], made[LEARNED : LEARNED + ASKED]
    labels = [labelled(clip) for clip in learned]
    settings = choose(labels, out, args.jobs)
    best = {key: settings[0][key] for key in ("rate", "steps")}
    runs = [
        Run(out / f"adapted-{size}-seed{seed}", tuple(random.Random(seed).sample(labels, size)), seed, best)
        for size in SIZES
        for seed in SEEDS
    ]
    train_all(runs, videos, args.jobs)
    questions, sim = keep(learned, asked, out, args.keep), load_benchmark("sim")
    write_manifest(out / "known.jsonl", sim.with_videos())
    models: dict[str, Path | str] = {MODEL: MODEL, **{run.folder.name: run.model for run in runs}}
    asks = [
        (model, about, where, out / f"{before}{name}.jsonl")
        for name, model in models.items()
        for before, about, where in (("", questions, videos), ("sim-", out / "known.jsonl", sim.root))
    ]
    with ThreadPoolExecutor(args.jobs) as pool:
        for path in pool.map(lambda ask: answer(*ask), asks):
            pack_predictions(path, args.keep, force=True)
    times = [read_object(run.folder / "seconds.json", "note") for run in runs]
    write_json(args.keep / "adapt.json", {"machine": machine(), "settings": settings, "trainings": times})
    return 0


if __name__ == "__main__":
    sys.exit(main())
