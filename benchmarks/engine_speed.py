"""`tempoloc localize` on vLLM against the recipe's own inference script: same engine, clips, question and trials.

    python benchmarks/engine_speed.py --recipe-script process_video_vllm_uni.py

The script is `process_video_vllm_uni.py` of nvidia-cosmos/cosmos-cookbook (scripts/examples/reason1/
temporal_localization); its path is given here or in TEMPOLOC_RECIPE_VLLM_SCRIPT. It needs the vLLM environment of
`make env-vllm`, or a GPU host's, with qwen-vl-utils and decord beside. Not a line of it is changed. Two functions that
it imports are wrapped from outside, the first because of vLLM 0.32, the second so that both have the same engine:

- `qwen_vl_utils.process_vision_info` is called with `return_video_metadata=True`: vLLM wants the metadata of a video,
  and fails on the list of frame rates that the script passes on instead;
- `vllm.LLM` gets the `dtype` that ours gets, and `enforce_eager=True` on a CPU: the recipe leaves both to vLLM, which
  on a CPU chooses bfloat16, several times slower where the processor has no instructions for it, and compiles.

Both ask the script's own prompt about the same clips of three cubes, with its own sampling (temperature 0.6, top-p
0.95, repetition penalty 1.15) and `--max-tokens`. The script is given videos that are stamped already, as it wants
them; ours stamps them as it reads. Caches are vLLM's defaults, but that ours keeps fewer processed videos (0.5 GB).
Seconds are wall time from the first clip to the last answer, both read from outside the engine; loading the model is
left out. Ours runs through `run_backend`, which writes every answer; what that costs beside the engine is a row of its
own. The memory over many requests is measured by `runner_memory.py --engine`.
"""

from __future__ import annotations

import argparse
import ast
import functools
import json
import os
import platform
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tempoloc_nb.clips.manifest import Benchmark, load_benchmark
from tempoloc_nb.clips.videos import find_videos
from tempoloc_nb.core.pickles import read_plain_pickle
from tempoloc_nb.core.settings import data_dir, settings
from tempoloc_nb.engines.protocol import Request
from tempoloc_nb.inference.run import run_backend
from tempoloc_nb.prompting.prompts import Prompt
from tempoloc_nb.prompting.sampling import Sampling
from tempoloc_nb.video.overlay import OverlayOptions, stamp_video

TASK, PROMPT = "stack-three", "cube"  # the recipe's question about these clips
CPU = {
    "OMP_NUM_THREADS": "1", "VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "TORCHDYNAMO_DISABLE": "1",
}  # fmt: skip
TARGETS = {"speed": "≥ 5 on a CPU, ≥ 10 on a GPU", "overhead": "< 2 %"}


def on_cpu() -> bool:
    """Whether vLLM computes on the processor."""
    from vllm.platforms import current_platform

    return bool(current_platform.is_cpu())


def clips_of(count: int) -> Benchmark:
    """The first `count` clips of the task that are shipped as video."""
    benchmark = load_benchmark("sim")
    clips = [c for c in benchmark.with_videos() if c.task == TASK]
    if len(clips) < count:
        raise SystemExit(f"{TASK} has {len(clips)} videos here, not {count}")
    return replace(benchmark, clips=tuple(clips[:count]))


def script_prompt(script: Path) -> Prompt:
    """The texts that the recipe's script asks, read and not run."""
    found = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(script.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id in ("SYSTEM_PROMPT", "USER_PROMPTS")
    }  # fmt: skip
    return Prompt("recipe-script", found["SYSTEM_PROMPT"], found["USER_PROMPTS"][PROMPT])


# The recipe's script, in a process of its own.


def run_script(script: str, dtype: str, arguments: Sequence[str]) -> None:
    """Run the script in this process with the two functions wrapped."""
    import qwen_vl_utils
    import vllm

    qwen_vl_utils.process_vision_info = functools.partial(qwen_vl_utils.process_vision_info, return_video_metadata=True)
    eager = {"enforce_eager": True} if on_cpu() else {}
    vllm.LLM = functools.partial(vllm.LLM, dtype=dtype, **eager)
    sys.argv = [script, *arguments]
    runpy.run_path(script, run_name="__main__")


def measure_script(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Seconds from the script's first clip to its end, and what it wrote."""
    videos, results = folder / "stamped", folder / "results"
    benchmark = clips_of(arguments.clips)
    for clip, source in find_videos(benchmark).items():
        videos.mkdir(exist_ok=True)
        stamp_video(source, videos / f"{Path(clip).name}.mp4", OverlayOptions(fps=arguments.fps))
    command = [
        sys.executable, "-u", __file__, "--as-script", str(arguments.recipe_script), arguments.dtype, "--",
        "--model_path", arguments.model, "--prompt", PROMPT, "--video_dir", str(videos), "--output_dir", str(results),
        "--num_trials", str(arguments.trials), "--fps_list", str(arguments.fps), "--max_tokens",
        str(arguments.max_tokens), "--max_model_len", str(arguments.max_model_len),
    ]  # fmt: skip
    began = ended = None
    errors = []
    with (folder / "script.log").open("w+") as log:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                began = began or (time.monotonic() if line.startswith("Processing:") else None)
                ended = time.monotonic() if "All processing completed" in line else ended
                errors += [line.strip()] if "Error in trial" in line else []
        log.seek(0)
        if process.returncode or errors or began is None or ended is None:
            raise SystemExit(f"the recipe's script failed: {errors[:1]}\n{log.read()[-3000:]}")
    texts = [t for path in results.glob("*.pkl") for t in read_plain_pickle(path)[f"fps{arguments.fps}"]]
    return {"seconds": ended - began, "answers": len(texts), "texts": texts}


# Ours, in a process of its own.


class Timed:
    """A back end, and the seconds that were spent inside it."""

    def __init__(self, backend: Any) -> None:
        self.backend, self.name, self.model, self.inside = backend, backend.name, backend.model, 0.0

    def settings(self) -> dict[str, Any]:
        return dict(self.backend.settings())

    def stream(self, requests: Sequence[Request], sampling: Sampling) -> Iterator[Any]:
        stream = iter(self.backend.stream(requests, sampling))
        while True:
            began = time.monotonic()
            found = next(stream, None)
            self.inside += time.monotonic() - began
            if found is None:
                return
            yield found


def make_engine(arguments: argparse.Namespace) -> Any:
    from tempoloc_nb.engines.vllm_offline import VLLMBackend

    return VLLMBackend(
        arguments.model, dtype=arguments.dtype, total_pixels=settings().pixels.total_pixels,
        max_model_len=arguments.max_model_len,
    )  # fmt: skip


def measure_ours(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Seconds of a run, of them in the back end, and its answers."""
    sampling = Sampling(0.6, 0.95, 1.15, arguments.max_tokens)
    prompt, backend = script_prompt(arguments.recipe_script), Timed(make_engine(arguments))
    out = folder / "ours.jsonl"
    began = time.monotonic()
    run_backend(
        backend, clips_of(arguments.clips), out, fps=arguments.fps, trials=arguments.trials, prompt=prompt,
        sampling=sampling,
    )  # fmt: skip
    seconds = time.monotonic() - began
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    backend.backend.close()
    return {
        "seconds": seconds, "inside": backend.inside, "answers": len(rows), "texts": [r["text"] for r in rows],
        "prompt_tokens": rows[0]["prompt_tokens"], "vision_tokens": rows[0]["vision_tokens"],
    }  # fmt: skip


def fresh() -> dict[str, Any]:
    """The measurement of ours in a process of its own."""
    done = subprocess.run([sys.executable, __file__, *sys.argv[1:], "--ours"], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"ours failed:\n{done.stderr[-3000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def table(script: dict[str, Any], ours: dict[str, Any], tokenizer: Any) -> list[dict[str, Any]]:
    """Both as rows: answers a second, and tokens a second."""
    rows = []
    for name, found in (("recipe's script", script), ("tempoloc localize", ours)):
        tokens = sum(len(tokenizer(t)["input_ids"]) for t in found["texts"])
        rows.append({
            "what": name, "answers": found["answers"], "seconds": round(found["seconds"], 2),
            "answers_a_second": round(found["answers"] / found["seconds"], 3),
            "tokens_an_answer": round(tokens / found["answers"], 1),
            "tokens_a_second": round(tokens / found["seconds"], 1),
        })  # fmt: skip
    return rows


def main() -> None:
    """Measure and print; `--output` keeps it."""
    if sys.argv[1:2] == ["--as-script"]:
        run_script(sys.argv[2], sys.argv[3], sys.argv[5:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe-script", type=Path, default=os.environ.get("TEMPOLOC_RECIPE_VLLM_SCRIPT"))
    parser.add_argument("--model", default=str(data_dir() / "models" / "tempoloc-tiny"))
    parser.add_argument("--dtype", default="float32" if on_cpu() else "auto")
    parser.add_argument("--clips", type=int, default=4)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--fps", type=int, default=8)
    parser.add_argument("--max-tokens", type=int, default=400)
    parser.add_argument("--max-model-len", type=int, default=8192)
    parser.add_argument("--output", type=Path, help="write the rows as JSON")
    parser.add_argument("--ours", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if on_cpu():
        os.environ.update({name: os.environ.get(name, value) for name, value in CPU.items()})
    if not arguments.recipe_script:
        raise SystemExit("this benchmark compares with the recipe's script: give --recipe-script")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.ours:
            print(json.dumps(measure_ours(arguments, folder)))
            return
        script = measure_script(arguments, folder)
        shutil.rmtree(folder / "stamped")
    report(arguments, script, fresh())


def report(arguments: argparse.Namespace, script: dict[str, Any], ours: dict[str, Any]) -> None:
    """Print the rows and the targets; write them where asked."""
    from transformers import AutoTokenizer

    rows = table(script, ours, AutoTokenizer.from_pretrained(arguments.model))
    for row in rows:
        print(", ".join(f"{k} {v}" for k, v in row.items()))
    ratio, token_ratio = (rows[1][key] / rows[0][key] for key in ("answers_a_second", "tokens_a_second"))
    overhead = ours["seconds"] / ours["inside"] - 1
    print(f"clips·trials a second: {ratio:.1f} times the recipe's script (target {TARGETS['speed']})")
    print(f"tokens a second: {token_ratio:.1f} times, which counts where one writes shorter answers than the other")
    print(f"runner: {overhead:.2%} beside the engine's time (target {TARGETS['overhead']})")
    if arguments.output:
        engine = "vllm-cpu" if on_cpu() else "vllm"
        packages = (engine, "torch", "transformers", "qwen-vl-utils", "av")
        found = {
            "on": {"machine": platform.machine(), "cores": os.cpu_count(), "python": platform.python_version(),
                   "load": round(os.getloadavg()[0], 1), "versions": {p: version(p) for p in packages}},
            "settings": {k: getattr(arguments, k) for k in ("dtype", "clips", "trials", "fps", "max_tokens")}
            | {"model": Path(arguments.model).name},
            "rows": rows, "ratio": round(ratio, 2), "token_ratio": round(token_ratio, 2),
            "runner_overhead": round(overhead, 5),
        }  # fmt: skip
        arguments.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
