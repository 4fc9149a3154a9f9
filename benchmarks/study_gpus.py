"""The README's command for many GPUs, on as many as there are: rates beside one GPU, a copy that is killed, the plan.

    python benchmarks/random_7b.py MODEL --weights --answer 200
    python benchmarks/study_gpus.py --model MODEL --gpus 2 --jobs one all killed hf --output FILE.json

A job is `tempoloc study --profile gpu8 --only 04_zero_shot -p model MODEL -p benchmark recipe -p video_root DIR
-p data_parallel N -p backend vllm`, as a user types it, in a process of its own, with nothing kept of the job before:

- `one`: one copy of the model, on one GPU;
- `all`: a copy on each GPU;
- `killed`: the same, and once a third of the answers is there a copy is killed (SIGKILL). The study has to say that
  answers are lacking, and the same command is given again;
- `hf`: a copy on each GPU in transformers, about the first `--hf-clips` clips.

The 60 videos have the recipe's file names and show simulated clips: those that ship, and as many of them mirrored as
are missing, in squares of `--side` pixels. They say nothing about the recipe's tasks, and a model of random weights
says nothing of anything: what is measured is speed, and whether every answer is there.

`answering` is from the engine's being ready until the last answer, `loading` from the command to the engine's being
ready, `quarters` from the engine's being ready until a quarter, a half, three quarters and all answers are there. `of
linear` is the rate per GPU beside that of the job `one`. `planned` is what `--plan` says.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from statistics import mean
from typing import Any

import psutil
from engine_speed import machine, write_all

from tempoloc_nb.clips.manifest import Clip, load_benchmark
from tempoloc_nb.clips.videos import find_videos
from tempoloc_nb.core.files import write_json
from tempoloc_nb.core.settings import settings
from tempoloc_nb.study.models import plan_studies

STUDY, PROFILE = "04_zero_shot", "gpu8"
STEMS = {"cube": "cube_stacking", "nut": "nut_pouring", "bridge": "bridge"}


def name_of(clip: Clip) -> str:
    """A file name as the recipe has them."""
    place = Path(clip.clip).name
    return f"{place}.mp4" if place.startswith("cut_") else f"{STEMS[clip.task]}_demo{place}.mp4"


def recipe_videos(folder: Path, side: int) -> Path:
    """Simulated clips under the names of the recipe's 60 videos, in `folder`; what is there is kept."""
    recipe, shown = load_benchmark("recipe"), list(find_videos(load_benchmark("sim")).values())
    targets = [folder / name_of(clip) for clip in recipe.clips]
    write_all([(shown[n % len(shown)], target, n >= len(shown)) for n, target in enumerate(targets)], side)
    found = find_videos(recipe, folder)
    assert len(found) == len(recipe.clips), sorted({c.clip for c in recipe.clips} - set(found))
    return folder


def part_of(videos: Path, count: int) -> Path:
    """A folder beside `videos` with links to the first `count` clips' videos, of each task in turn."""
    recipe = load_benchmark("recipe")
    found, folder = find_videos(recipe, videos), videos.with_name(f"{videos.name}-{count}")
    folder.mkdir(exist_ok=True)
    of_task = [[c.clip for c in recipe.of_task(key)] for key in recipe.tasks]
    turns = [clips[i] for i in range(len(recipe.clips)) for clips in of_task if i < len(clips)]
    for clip in turns[:count]:
        link = folder / found[clip].name
        if not link.exists():
            link.symlink_to(found[clip].resolve())
    return folder


def kill_copy(pid: int) -> bool:
    """Kill a copy of the model that a study has started: a process that its kernel has spawned."""
    for process in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if "spawn_main" in " ".join(process.cmdline()):
                process.kill()
                return True
    return False


def answer_files(folder: Path) -> list[Path]:
    """The files of answers below a job's folder."""
    return [p for p in folder.glob("predictions/*/base-*.jsonl") if not p.name.endswith(".errors.jsonl")]


class Job:
    """The command with some parameters, watched from outside."""

    def __init__(self, given: dict[str, Any], log: Path) -> None:
        self.given, self.log = given, log
        self.folder = settings().paths.runs / PROFILE

    def answers(self) -> int:
        """How many are written."""
        return sum(p.read_bytes().count(b"\n") for p in answer_files(self.folder))

    def ready(self, since: float) -> bool:
        """Whether the engine is loaded: the record of a run is written then."""
        return any(p.stat().st_mtime > since for p in self.folder.glob("predictions/*/base-*.run.json"))

    def run(self, kill_at: int | None = None) -> dict[str, Any]:
        """Give the command; kill a copy once `kill_at` answers are there."""
        parameters = [word for k, v in self.given.items() for word in ("-p", k, str(v))]
        command = [sys.executable, "-m", "tempoloc_nb", "study", "--profile", PROFILE, "--only", STUDY, *parameters]
        wall, began, before = time.time(), time.monotonic(), self.answers()
        at: dict[str, float] = {}
        times: list[float] = []  # when each answer was seen
        with self.log.open("a", encoding="utf-8") as log:
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=settings().root)
            while process.poll() is None:
                now, there = time.monotonic(), self.answers()
                if "ready" not in at and self.ready(wall):
                    at["ready"] = now
                times += [now] * (there - before - len(times))
                if kill_at is not None and there >= kill_at and kill_copy(process.pid):
                    kill_at, at["killed"] = None, there
                time.sleep(0.1)
        told = {
            "exit status": process.returncode,
            "seconds": round(time.monotonic() - began, 1),
            "answers": len(times),
        }
        if "ready" in at and times:
            quarters = [times[math.ceil(len(times) * q / 4) - 1] - at["ready"] for q in range(1, 5)]
            told |= {"loading": round(at["ready"] - began, 1), "answering": round(quarters[-1], 1),
                     "quarters": [round(seconds, 1) for seconds in quarters],
                     "answers a second": round(len(times) / quarters[-1], 2)}  # fmt: skip
        return told | ({"a copy killed after": at["killed"]} if "killed" in at else {})

    def keep(self, folder: Path) -> None:
        """Move what the job made to `folder`."""
        shutil.rmtree(folder, ignore_errors=True)
        shutil.move(self.folder, folder)


def lengths(folder: Path) -> dict[str, Any]:
    """Answers, clips, tokens, from what a job left."""
    rows = [json.loads(line) for path in answer_files(folder) for line in path.read_text(encoding="utf-8").splitlines()]
    twice = len(rows) - len({(row["clip"], row["trial"]) for row in rows})
    if not rows:
        return {"answers in the end": 0}
    return {"answers in the end": len(rows), "asked twice": twice,
            "tokens an answer": round(mean(row["completion_tokens"] for row in rows), 1),
            "tokens a prompt": round(mean(row["prompt_tokens"] for row in rows))}  # fmt: skip


def planned_hours(given: dict[str, Any]) -> float | None:
    """The hours that `--plan` tells for a job, about the clips that are here."""
    (plan,) = plan_studies(PROFILE, given, [STUDY])
    asked = plan.asked[0].job
    return None if asked is None else asked.hours(given["data_parallel"])


def do(job: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """One job: what it was, and what it took."""
    videos = recipe_videos(arguments.folder / "videos", arguments.side)
    videos = part_of(videos, arguments.hf_clips) if job == "hf" else videos
    backend, copies = ("hf" if job == "hf" else arguments.backend), 1 if job == "one" else arguments.gpus
    given = {"model": str(arguments.model), "benchmark": "recipe", "video_root": str(videos), "backend": backend,
             "data_parallel": copies}  # fmt: skip
    made, hours = Job(given, arguments.folder / f"{job}.log"), planned_hours(given)
    shutil.rmtree(made.folder, ignore_errors=True)
    clips = len(find_videos(load_benchmark("recipe"), videos))
    told: dict[str, Any] = {"job": job, "backend": backend, "copies": copies, "clips": clips}
    told["runs"] = [made.run(clips * 10 // 3 if job == "killed" else None)]
    if job == "killed":
        told["runs"].append(made.run())
    told |= {"planned (s)": round(3600 * hours, 1) if hours else None, **lengths(made.folder)}
    made.keep(arguments.folder / job)
    return told


def compare(jobs: list[dict[str, Any]]) -> None:
    """Add to the job `all` its rate per GPU beside that of the job `one`."""
    rates = {job["job"]: job["runs"][0].get("answers a second", 0.0) / job["copies"] for job in jobs}
    for job in jobs:
        if job["job"] == "all" and rates.get("one"):
            job["of linear"] = round(rates["all"] / rates["one"], 3)


def main() -> None:
    """Run the jobs, print and keep each as it ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="folder of the model")
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--jobs", nargs="+", default=["one", "all", "killed"], choices=["one", "all", "killed", "hf"])
    parser.add_argument("--backend", default="vllm")
    parser.add_argument("--side", type=int, default=512)
    parser.add_argument("--hf-clips", type=int, default=16)
    parser.add_argument("--folder", type=Path, required=True, help="where videos, logs and answers are kept")
    parser.add_argument("--output", type=Path, help="add the jobs to this JSON file")
    arguments = parser.parse_args()
    arguments.folder, arguments.model = arguments.folder.resolve(), arguments.model.resolve()
    known = json.loads(arguments.output.read_text())["jobs"] if arguments.output and arguments.output.is_file() else []
    for job in arguments.jobs:
        told = do(job, arguments)
        known = [k for k in known if k["job"] != job] + [told]
        compare(known)
        print(json.dumps(told), flush=True)
        if arguments.output:
            kept = {"model": arguments.model.name, "side": arguments.side, "trials": 10}
            write_json(arguments.output, {"on": machine(), "settings": kept, "jobs": known})


if __name__ == "__main__":
    main()
