"""The recipe's job by vLLM or by transformers, on one GPU: answers a second, cold and warm.

    python benchmarks/recipe_job.py vllm --folder WORK -o benchmarks/results/recipe_job_h200.json
    python benchmarks/recipe_job.py hf --folder WORK -o benchmarks/results/recipe_job_h200.json

60 clips × 10 trials × 200 tokens, at 8 fps, in squares of 512 pixels, of a model of 7B sizes with random weights,
drawn on the GPU. The clips are those that ship as video, and as many of them mirrored as are lacking. Each engine has a
process of its own, so that one's memory is gone when the other begins. The first run is cold: vLLM has answered the few
questions with which it rehearses, transformers none. A row is written after each of its runs, so that a machine that is
taken away leaves it.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine_speed import clips_of, machine, write_all
from flash_decoding import large
from random_7b import main as write_folder

from tempoloc_nb.clips.manifest import Clips, load_benchmark
from tempoloc_nb.clips.videos import find_videos
from tempoloc_nb.inference.run import answer_clips
from tempoloc_nb.models.ask import AskConfig, Sampling
from tempoloc_nb.video.budget import RECIPE_TOTAL_PIXELS

CLIPS, TRIALS, TOKENS, SIDE, FPS = 60, 10, 200, 512, 8


def job(folder: Path) -> Clips:
    """The clips, whose videos are written below `folder`."""
    there = len(load_benchmark("sim").with_videos())
    base = clips_of(min(CLIPS, there))
    mirrored = tuple(replace(clip, clip=f"{clip.clip}m") for clip in base.clips[: max(0, CLIPS - there)])
    source = find_videos(base)
    wanted = [(video, folder / f"{clip}.mp4", False) for clip, video in source.items()]
    write_all(wanted + [(source[c.clip[:-1]], folder / f"{c.clip}.mp4", True) for c in mirrored], SIDE)
    return replace(base, clips=base.clips + mirrored)


def engine(name: str, folder: Path) -> tuple[Any, dict[str, float]]:
    """The back end, and the seconds of its start."""
    began = time.monotonic()
    if name == "hf":
        return large(None, folder), {"start": round(time.monotonic() - began, 1)}
    from tempoloc_nb.engines.vllm_offline import VLLMBackend

    write_folder(folder / "random-7b", False, None)
    options = {"load_format": "dummy"}
    backend = VLLMBackend(folder / "random-7b", total_pixels=RECIPE_TOTAL_PIXELS, options=options)
    return backend, {part: round(seconds, 1) for part, seconds in backend.seconds.items()}


def measure(name: str, folder: Path, output: Path, note: str, repeats: int) -> None:
    """Answer the job `repeats` times after the cold run, with other seeds."""
    clips = job(folder / "videos")
    backend, seconds = engine(name, folder)
    ask = AskConfig(fps=FPS, trials=TRIALS, sampling=Sampling(0.6, 0.95, 1.15, TOKENS))
    row: dict[str, Any] = {"engine": name, "note": note, "on": machine(), "seconds_to_start": seconds, "runs": []}
    told = json.loads(output.read_text(encoding="utf-8")) if output.is_file() else {"rows": []}
    told["job"] = {"clips": CLIPS, "trials": TRIALS, "tokens": TOKENS, "side": SIDE, "fps": FPS}
    told["rows"].append(row)
    for run in range(repeats + 1):
        out, began = folder / f"{name}-{time.time_ns()}.jsonl", time.monotonic()
        answer_clips(clips, out, ask.changed(seed=1000 * run), backend, video_root=folder / "videos")
        took, answers = time.monotonic() - began, len(out.read_text(encoding="utf-8").splitlines())
        row["runs"].append({"seconds": round(took, 2), "answers_a_second": round(answers / took, 2)})
        output.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
        print(name, "cold" if run == 0 else "warm", row["runs"][-1], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=("vllm", "hf"))
    parser.add_argument("--folder", type=Path, required=True, help="for videos and answers")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--note", default="", help="what a row is about")
    parser.add_argument("--repeats", type=int, default=1)
    given = parser.parse_args()
    measure(given.engine, given.folder, given.output, given.note, given.repeats)


if __name__ == "__main__":  # vLLM's processes import this file
    main()
