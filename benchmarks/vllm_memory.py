"""What a GPU holds while vLLM answers about the recipe's 60 clips, in pieces and in memory that is extended.

    python benchmarks/random_7b.py MODEL --answer 200
    python benchmarks/vllm_memory.py MODEL --videos DIR --output FILE.json

`plain` has PyTorch take its memory in pieces, as it does by itself, and `segments` as `engines.vllm_offline` sets it:
PYTORCH_ALLOC_CONF=expandable_segments:True. Each way is an engine in a process of its own, on a GPU of its own where
there are two. vLLM draws the weights. `DIR` holds videos with the recipe's file names; study_gpus.py makes some.
`most` is the largest reading of nvidia-smi, which is asked twice a second, in MiB.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from engine_speed import machine
from sft_runs import held

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.core.files import write_json
from tempoloc_nb.engines.make import make_engine
from tempoloc_nb.inference.run import answer_clips
from tempoloc_nb.models.ask import AskConfig, Sampling

WAYS = {"plain": "backend:native", "segments": "expandable_segments:True"}


def ask(model: str, videos: str, out: Path) -> None:
    """Ask once about all clips, as the study asks another's model."""
    backend = make_engine("vllm", model, options={"load_format": "dummy"})
    began, ask_ = time.monotonic(), AskConfig(model, sampling=Sampling(0.6, 0.95, 1.05, 4096), trials=10)
    done = answer_clips(load_benchmark("recipe"), out, ask_, backend, video_root=videos)
    told = {"answers": done.written, "failed": len(done.failed), "seconds": round(time.monotonic() - began, 1)}
    write_json(out.with_suffix(".told"), told | {"start": {k: round(v, 1) for k, v in backend.seconds.items()}})


def measure(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Both ways, beside each other where there are two GPUs."""
    running: dict[str, tuple[subprocess.Popen[bytes], int]] = {}
    found: dict[str, Any] = {way: {"most": 0} for way in WAYS}
    waiting, count = list(WAYS), len(held())
    while waiting or running:
        for gpu in range(count):
            if waiting and gpu not in {taken for _, taken in running.values()}:
                way = waiting.pop(0)
                line = [
                    sys.executable,
                    __file__,
                    arguments.model,
                    "--videos",
                    arguments.videos,
                    "--as",
                    str(folder / way),
                ]
                given = {"CUDA_VISIBLE_DEVICES": str(gpu), "PYTORCH_ALLOC_CONF": WAYS[way]}
                running[way] = subprocess.Popen(line, env={**os.environ, **given}), gpu
        time.sleep(0.5)
        now = held()
        for way, (process, gpu) in list(running.items()):
            found[way]["most"] = max(found[way]["most"], round(1024 * now[gpu]))
            if process.poll() is not None:
                del running[way]
                told = folder / f"{way}.told"
                found[way] |= json.loads(told.read_text()) if told.is_file() else {"exit status": process.returncode}
    return found


def main() -> None:
    """Measure and print; `--output` keeps it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--videos", required=True)
    parser.add_argument("--as", dest="out", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    if arguments.out:
        ask(arguments.model, arguments.videos, arguments.out.with_suffix(".jsonl"))
        return
    with tempfile.TemporaryDirectory() as folder:
        found = measure(arguments, Path(folder))
    print(json.dumps(found))
    if arguments.output:
        write_json(arguments.output, {"on": machine(), "model": Path(arguments.model).name, "ways": found})


if __name__ == "__main__":
    main()
