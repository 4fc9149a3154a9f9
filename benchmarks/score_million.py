"""Score a million predictions: wall time and memory of parsing and scoring, on two cores.

The lines are made from a seed: 1,200 clips of the recipe's seven tasks with random truth, four models at three rates,
every dialect in turn, 5 % of the answers broken in some way. Every text is drawn anew, so that no cache of texts could
help. Making the file is not timed. A machine's speed is not ours: beside the seconds stands the processor time as a
multiple of that of reading the same lines with `json.loads`, and this ratio is what versions are compared by; `load`
tells how many processes were running beside it. Writes results/score_million.json beside this script.

    python benchmarks/score_million.py [--lines 1000000] [--clips 1200] [--workers 2] [--seed 0]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tempoloc_nb.clips.manifest import Clip, Clips, load_benchmark, write_manifest
from tempoloc_nb.clips.tasks import Event, list_tasks
from tempoloc_nb.scoring.evaluation import evaluate

LIMIT_S, LIMIT_GB = 30.0, 2.0
MODELS, RATES = ("model-a", "model-b", "model-c", "model-d"), (4, 8, 12)
Spans = Sequence[tuple[int, str, float, float]]
"""Number, label, start and end (s) of the events of an answer."""


def clock(t: float) -> str:
    """mm:ss.ff"""
    return f"{int(t // 60):02d}:{t % 60:05.2f}"


def tagged(lines: Sequence[str]) -> str:
    """Lines in <answer> tags."""
    return "<answer>\n" + "\n".join(lines) + "\n</answer>"


def asked(spans: Spans) -> list[str]:
    """The form that was asked for."""
    return [f"Event {n}: <{a:.2f}> <{b:.2f}> {label}" for n, label, a, b in spans]


def think(spans: Spans) -> str:
    """Thinking that names the events, with other times."""
    lines = [f"Event {n}: <{a + 0.3:.1f}> - <{b + 0.3:.1f}> - {label} | it moves" for n, label, a, b in spans]
    return "<think>\nI look at the stamps.\n" + "\n".join(lines) + "\n</think>\n"


DIALECTS: dict[str, Callable[[Spans], str]] = {
    "asked": lambda s: tagged(asked(s)),
    "no tags": lambda s: "\n".join(asked(s)),
    "explained": lambda s: tagged([line + ". | The gripper does it." for line in asked(s)]),
    "dashes": lambda s: tagged([line.replace("> <", "> - <") for line in asked(s)]),
    "think": lambda s: think(s) + tagged(asked(s)),
    "unclosed": lambda s: think(s) + "<answer>\n" + "\n".join(f"Event {n}: <{a:.2f}> - <{b:.2f}>" for n, _, a, b in s),
    "units": lambda s: tagged([f"Event {n}: <{a:.1f}s> - <{b:.1f}s> {label}" for n, label, a, b in s]),
    "bare": lambda s: "\n".join(f"Event {n}: {a:.2f} - {b:.2f} s {label}" for n, label, a, b in s),
    "clock": lambda s: "\n".join(f"Event {n}: {clock(a)} - {clock(b)} {label}" for n, label, a, b in s),
    "json list": lambda s: (
        "```json\n"
        + json.dumps([{"event": n, "label": label, "start": round(a, 2), "end": round(b, 2)} for n, label, a, b in s])
        + "\n```"
    ),
    "json by label": lambda s: json.dumps(
        {label: {"start_time": f"{a:.2f}s", "end_time": f"{b:.2f}s"} for _, label, a, b in s}
    ),
    "json pairs": lambda s: json.dumps(
        [{"event": label, "timestamp": [round(a, 2), round(b, 2)]} for _, label, a, b in s]
    ),
    "table": lambda s: (
        "| # | Event | Start | End |\n|---|---|---|---|\n"
        + "\n".join(f"| {n} | {label} | {a:.2f} | {b:.2f} |" for n, label, a, b in s)
    ),
    "bullets": lambda s: "\n".join(f"- **{label}**: {a:.2f}s to {b:.2f}s" for _, label, a, b in s),
    "numbered": lambda s: "\n".join(f"{n}. **{label}** ({a:.2f} s – {b:.2f} s)" for n, label, a, b in s),
    "spread": lambda s: "\n".join(
        f"**Event {n}: {label}**\n- Start: {a:.2f} s\n- End: {b:.2f} s" for n, label, a, b in s
    ),
    "one line": lambda s: " ".join(f"{line}." for line in asked(s)),
    "reordered": lambda s: tagged(asked(s)[::-1]),
    "two answers": lambda s: tagged([line.replace("<", "<1") for line in asked(s)]) + "\nWait.\n" + tagged(asked(s)),
}


def broken(text: str, spans: Spans, rng: random.Random) -> str:
    """A text with something wrong in it."""
    kind = rng.randrange(6)
    if kind == 0:
        return text[: rng.randrange(len(text))]
    if kind == 1:
        return "\n".join(asked(spans)[1:])
    if kind == 2:
        return "Event 1: <start> <end> I cannot see the timestamps."
    if kind == 3:
        return "\n".join([*asked(spans), f"Event 1: <{rng.random() * 9:.2f}> <9.90> {spans[0][1]}"])
    if kind == 4:
        return "\n".join(f"Event {n}: <{b:.2f}> <{a:.2f}> {label}" for n, label, a, b in spans)
    return "".join(c for c in text if rng.random() > 0.05)


def make_clips(count: int, rng: random.Random) -> list[Clip]:
    """Clips of the recipe's tasks with random truth."""
    tasks, clips = list_tasks("recipe"), []
    for i in range(count):
        task = tasks[i % len(tasks)]
        times = [rng.uniform(0.5, 2.0)]
        while len(times) < len(task.events):
            times.append(times[-1] + rng.uniform(0.6, 3.0))
        events = tuple(Event(label, round(t, 2)) for label, t in zip(task.events, times, strict=True))
        duration = round(times[-1] + 2, 2)
        clips.append(Clip(f"{task.key}/{i:05d}", task.key, events, fps=30.0, duration=duration))
    return clips


def write_lines(path: Path, clips: Sequence[Clip], count: int, rng: random.Random) -> None:
    """`count` predictions: clip by clip, then rate, model and trial."""
    makers = list(DIALECTS.values())
    with path.open("w", encoding="utf-8") as out:
        for i in range(count):
            clip, rest = clips[i % len(clips)], i // len(clips)
            rest, model = divmod(rest, len(MODELS))
            trial, rate = divmod(rest, len(RATES))
            times = [b + rng.gauss(0, 0.3) for b in clip.boundaries]
            times = sorted(max(0.0, t) for t in [*times, times[-1] + 1.5])
            spans = [(n, e.label, times[n - 1], times[n]) for n, e in enumerate(clip.events, 1)]
            text = makers[i % len(makers)](spans)
            if rng.random() < 0.05:
                text = broken(text, spans, rng)
            row = {"clip": clip.clip, "task": clip.task, "model": MODELS[model], "fps": RATES[rate], "trial": trial}
            out.write(json.dumps({**row, "text": text, "finish_reason": "stop", "latency_s": 1.5}) + "\n")


def peak_gb(workers: int) -> float:
    """An upper bound of the memory of all processes at once: own peak and `workers` times the largest worker's."""
    own, child = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return (own + workers * child) * 1024 / 1e9


def json_s(path: Path) -> float:
    """Processor time (s) of reading the lines as JSON and nothing else."""
    began = time.process_time()
    with path.open("rb") as lines:
        for line in lines:
            json.loads(line)
    return time.process_time() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--clips", type=int, default=1200)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "predictions.jsonl"
        write_manifest(Path(folder) / "manifest.jsonl", make_clips(args.clips, rng))
        benchmark: Clips = load_benchmark(Path(folder) / "manifest.jsonl")
        write_lines(path, benchmark.clips, args.lines, rng)
        size = path.stat().st_size
        began, cpu = time.perf_counter(), os.times()
        result = evaluate(path, benchmark, workers=args.workers)
        wall, spent = time.perf_counter() - began, os.times()
        plain = json_s(path)
    user, system = (sum(spent[i] - cpu[i] for i in kind) for kind in ((0, 2), (1, 3)))  # own, and the workers'
    whole = result.table[result.table["task"] == ""].groupby("score", sort=False)["value"].sum()
    statuses = {name[7:]: int(n) for name, n in whole.items() if str(name).startswith("status_")}
    report = {
        "lines": int(whole["trials"]),
        "clips": args.clips,
        "runs": len(result.runs),
        "dialects": len(DIALECTS),
        "file_mb": round(size / 1e6),
        "statuses": statuses,
        "workers": args.workers,
        "wall_s": round(wall, 1),
        "user_s": round(user, 1),
        "sys_s": round(system, 1),
        "load": round(os.getloadavg()[0], 1),
        "times_json": round((user + system) / plain, 1),
        "peak_memory_gb": round(peak_gb(args.workers), 2),
        "limit_s": LIMIT_S,
        "limit_gb": LIMIT_GB,
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
    }
    print(json.dumps(report, indent=1))
    if args.lines == 1_000_000:
        target = Path(__file__).parent / "results" / "score_million.json"
        target.parent.mkdir(exist_ok=True)
        target.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0 if report["lines"] == args.lines and wall < LIMIT_S and report["peak_memory_gb"] < LIMIT_GB else 1


if __name__ == "__main__":
    sys.exit(main())
