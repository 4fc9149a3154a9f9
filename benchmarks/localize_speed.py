"""Speed and memory of `tempoloc localize` on a CPU with the shipped model.

The 12 clips of the quick profile (the first three of each family that are shipped as video), at 8 fps, asked once and
ten times each, every setting in a fresh process. Seconds a clip are wall time of the answers, videos read and encoded
included; loading the model is a column of its own. Memory is the process's peak resident set.

`--reading` measures the part before the model alone: from a request to the processor's tensors, by so many threads.
Processor time a clip is what counts where many clips are read at once; a thread that costs nothing leaves it as it is.
`--against CHECKOUT` does the same with the package in another folder, in turns, and prints how many times as much it
takes there.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.clips.videos import find_videos
from tempoloc_nb.core.settings import data_dir, settings
from tempoloc_nb.engines.protocol import Request
from tempoloc_nb.inference.requests import plan_requests
from tempoloc_nb.models.ask import AskConfig, Sampling
from tempoloc_nb.video.view import View

TARGETS = {"seconds a clip, one trial": 4.0, "peak memory, GB": 1.5}


def requests_of(clips: int, trials: int) -> list[Request]:
    """The first `clips` of each task that are shipped as video."""
    benchmark = load_benchmark("sim")
    found = find_videos(benchmark)
    ask = AskConfig(prompt="tiny", fps=settings().study.fps, view=View("pair"), trials=trials)
    return plan_requests(benchmark.only(found).head(clips), found, ask)


def measure_reading(model: str, clips: int, threads: int) -> dict[str, float | int | str]:
    """Make tensors of the requests by `threads` threads; the second time counts, when all is imported and cached."""
    import torch

    from tempoloc_nb.engines.hf import HFBackend, encode_request

    torch.set_num_threads(1)
    backend, requests = HFBackend(model, device="cpu"), requests_of(clips, 1)
    for _ in range(2):
        began = time.process_time()
        with ThreadPoolExecutor(threads) as pool:
            for _ in pool.map(lambda request: encode_request(request, backend.net, backend.processor), requests):
                pass
        spent = time.process_time() - began
    return {"threads": threads, "cpu_ms_a_clip": 1000 * spent / len(requests)}


def measure(model: str, trials: int, clips: int, threads: int) -> dict[str, float | int | str]:
    """Ask this process's own back end; returns what it took."""
    began = time.monotonic()
    import torch

    from tempoloc_nb.core.errors import TempolocError
    from tempoloc_nb.engines.hf import HFBackend

    torch.set_num_threads(threads)
    backend = HFBackend(model, device="cpu")
    loaded = time.monotonic()
    requests = requests_of(clips, trials)
    tokens = 0
    for _, answer in backend.stream(requests, Sampling(max_new_tokens=400)):
        if isinstance(answer, TempolocError):
            raise answer
        tokens += sum(r.completion_tokens for r in answer)
    seconds = time.monotonic() - loaded
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {
        "model": Path(model).name, "trials": trials, "threads": threads, "clips": len(requests),
        "seconds_to_load": round(loaded - began, 2), "seconds_a_clip": round(seconds / len(requests), 3),
        "seconds_an_answer": round(seconds / len(requests) / trials, 3),
        "tokens_an_answer": round(tokens / len(requests) / trials, 1), "peak_gb": round(peak / 1e9, 3),
    }  # fmt: skip


def fresh(arguments: argparse.Namespace, *more: str, checkout: Path | None = None) -> dict[str, float | int | str]:
    """A measurement in a process of its own, with this package or that of another `checkout`."""
    command = [
        sys.executable, __file__, "--model", arguments.model, "--clips", str(arguments.clips), "--one", *more
    ]  # fmt: skip
    place = {"PYTHONPATH": str(checkout.resolve())} if checkout else {}
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **place}, cwd=checkout
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def compare_reading(arguments: argparse.Namespace) -> None:
    """Print processor time a clip by the number of threads, here and in another checkout."""
    for threads in (1, 4, 8, 16):
        more = ("--reading", "--threads", str(threads))
        here = fresh(arguments, *more)
        line = f"{threads:2} threads: {here['cpu_ms_a_clip']:.1f} ms of processor time a clip"
        if arguments.against:
            there = fresh(arguments, *more, checkout=arguments.against)
            ratio = float(there["cpu_ms_a_clip"]) / float(here["cpu_ms_a_clip"])
            line += f"; {arguments.against}: {there['cpu_ms_a_clip']:.1f} ms, {ratio:.2f} times as much"
        print(line, flush=True)


def main() -> None:
    """Measure and print a table; `--output` keeps it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(data_dir() / "models" / "tempoloc-tiny"))
    parser.add_argument("--trials", type=int, nargs="+", default=[1, 10])
    parser.add_argument("--clips", type=int, default=settings().profile("quick").clips_per_task, help="of each task")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--output", type=Path, help="write the rows as JSON")
    parser.add_argument("--reading", action="store_true", help="measure only what is done before the model")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="with --reading: another one's package")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one and arguments.reading:
        print(json.dumps(measure_reading(arguments.model, arguments.clips, arguments.threads)))
        return
    if arguments.reading:
        compare_reading(arguments)
        return
    if arguments.one:
        print(json.dumps(measure(arguments.model, arguments.trials[0], arguments.clips, arguments.threads)))
        return
    threads = ("--threads", str(arguments.threads))
    rows = [fresh(arguments, *threads, "--trials", str(trials)) for trials in arguments.trials]
    for name in rows[0]:
        print(f"{name:18}" + "".join(f"{row[name]!s:>16}" for row in rows))
    one = next((row for row in rows if row["trials"] == 1), None)
    measured = {"peak memory, GB": max(float(row["peak_gb"]) for row in rows)}
    if one is not None:
        measured["seconds a clip, one trial"] = float(one["seconds_a_clip"])
    for name, value in measured.items():
        print(f"target: {name} < {TARGETS[name]:g}: {value:g}, {'met' if value < TARGETS[name] else 'NOT met'}")
    if arguments.output:
        machine = {"machine": platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()}
        arguments.output.write_text(json.dumps({"on": machine, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
