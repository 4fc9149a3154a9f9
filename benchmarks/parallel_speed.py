"""`tempoloc localize` with several engines: copies, a model on several GPUs, Ray's engines, servers; beside one engine.

    python benchmarks/parallel_speed.py --ways vllm vllm:dp2 vllm:tp2 ray:dp2 --output FILE.json

A way is a back end and how many copies of the model it has (`dp`) or GPUs a copy (`tp`). Each way runs in a process of
its own: once to warm up, and then `--repeats` times with other seeds. Seconds are wall time from the first clip to the
last answer; loading is told apart as `start`. `times_one` is answers a second beside the first way's.

How far two ways agree is measured beside how far one way agrees with itself under another seed: `same_answers`, the
share of equal texts, and `seconds_apart`, the mean distance of the times that two answers write at the same place, both
to the first way's answers of the same seed, and in `another_seed` of the first way to its own of the next seed.
Batches of other shapes round otherwise, so that texts of equal seeds part sooner or later; what is asked is that
they part no further than seeds do. `--random-weights` has vLLM draw the weights (random_7b.py), in each GPU of a
divided model its own, and is for speed alone.

`openai` is a server that runs already (`--server`). Clips, question and machine are those of engine_speed.py.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean, median
from typing import Any

from engine_speed import clips_of, machine, prepare

from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.engines.make import make_engine
from tempoloc_nb.inference.run import answer_clips
from tempoloc_nb.models.ask import AskConfig

WAY = re.compile(r"(hf|vllm|ray|openai)(?::dp(\d+))?(?::tp(\d+))?")


def engine_of(plan: dict[str, Any], way: str) -> Any:
    """The back end of a way."""
    found = WAY.fullmatch(way)
    if not found:
        raise SystemExit(f"{way} is no way: vllm, vllm:dp2, vllm:tp2, vllm:dp2:tp2, ray:dp2, hf:dp2, openai")
    name, copies, each = found[1], int(found[2] or 1), int(found[3] or 1)
    given: dict[str, Any] = {}
    if name in ("vllm", "ray"):
        random = {"load_format": "dummy"} if plan["random_weights"] else {}
        # a frame encoder whose heads cannot be divided is repeated
        whole = {"mm_encoder_tp_mode": "data"} if each > 1 else {}
        longest = {"max_model_len": plan["max_model_len"]}
        given = {"options": {**random, **whole, **longest, **json.loads(plan["options"])}}
        given |= {"dtype": plan["dtype"]} if plan["dtype"] else {}
    if name == "openai":
        given = {"servers": plan["server"], **({"media": plan["videos"]} if plan["videos"] else {})}
    return make_engine(name, plan["model"], data_parallel=copies, tensor_parallel=each, **given)


def measure(plan: dict[str, Any], way: str) -> dict[str, Any]:
    """Start of a way, its warm-up and its repeats: seconds, answers and files."""
    began = time.monotonic()
    backend = engine_of(plan, way)
    told: dict[str, Any] = {"start": time.monotonic() - began, "runs": []}
    for seed in range(plan["repeats"] + 1):
        out, began = Path(plan["folder"]) / f"{way.replace(':', '-')}-{seed}.jsonl", time.monotonic()
        ask = AskConfig(fps=plan["fps"], trials=plan["trials" if seed else "warm_trials"])
        ask = ask.changed(max_new_tokens=plan["max_tokens"], seed=1000 * seed)
        done = answer_clips(clips_of(plan["clips"]), out, ask, backend, video_root=plan["videos"])
        seconds = time.monotonic() - began
        if done.failed:
            raise SystemExit(f"{way} failed: {done.failed[:2]}")
        rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
        told["runs"].append({"seconds": seconds, "answers": len(rows), "file": str(out),
                             "tokens": sum(row["completion_tokens"] or 0 for row in rows)})  # fmt: skip
    if hasattr(backend, "close"):
        backend.close()
    return told


def apart(one: str, other: str) -> dict[str, float]:
    """Share of equal texts of two files, and the mean distance in seconds of the times that two answers write."""
    first, second = (
        {(row["clip"], row["trial"]): row["text"] for row in map(json.loads, Path(file).read_text().splitlines())}
        for file in (one, other)
    )
    times = [[[float(x) for x in re.findall(r"\d+\.\d+", text)] for text in (first[k], second[k])] for k in first]
    gaps = [abs(x - y) for a, b in times if len(a) == len(b) for x, y in zip(a, b, strict=True)]
    same = mean(first[k] == second[k] for k in first)
    return {"same_answers": round(same, 3), "seconds_apart": round(mean(gaps or [0.0]), 4)}


def compare(ways: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each way."""
    rows, first = [], next(iter(ways.values()))
    for way, told in ways.items():
        warm = told["runs"][1:]
        rate = median(r["answers"] / r["seconds"] for r in warm)
        one = median(r["answers"] / r["seconds"] for r in first["runs"][1:])
        row = {
            "way": way, "start": round(told["start"], 1), "first_seconds": round(told["runs"][0]["seconds"], 2),
            "seconds": [round(r["seconds"], 2) for r in warm], "answers": warm[0]["answers"],
            "answers_a_second": round(rate, 2), "tokens_a_second": round(rate * warm[0]["tokens"] / warm[0]["answers"]),
            "times_one": round(rate / one, 3),
        }  # fmt: skip
        if told is first:
            row["another_seed"] = apart(first["runs"][0]["file"], first["runs"][1]["file"])
        else:
            row["beside_the_first"] = apart(first["runs"][0]["file"], told["runs"][0]["file"])
        rows.append(row)
    return rows


def fresh(way: str, plan: dict[str, Any]) -> dict[str, Any]:
    """The measurement of a way in a process of its own."""
    folder = Path(plan["folder"])
    (folder / "plan.json").write_text(json.dumps(plan))
    log, told = folder / f"{way.replace(':', '-')}.log", folder / f"{way.replace(':', '-')}.json"
    with log.open("w") as file:
        done = subprocess.run(
            [sys.executable, "-u", __file__, "--as", way, str(folder / "plan.json"), str(told)], stdout=file,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
    if done.returncode:
        print(f"{way} failed:\n{log.read_text()[-3000:]}", file=sys.stderr)
        return {}
    return dict(json.loads(told.read_text()))


def keep(rows: list[dict[str, Any]], plan: dict[str, Any], output: Path | None) -> None:
    """Print the last row; put all of them into the file `output`, with the machine."""
    print(", ".join(f"{k} {v}" for k, v in rows[-1].items()), flush=True)
    if output:
        told = ("clips", "trials", "warm_trials", "fps", "side", "max_tokens", "random_weights")
        settings = {k: plan[k] for k in told}
        old = json.loads(output.read_text())["models"] if output.is_file() else {}
        kept = {**old, Path(plan["model"]).name: {"settings": settings, "ways": rows}}
        output.write_text(json.dumps({"on": machine(), "models": kept}, indent=1) + "\n")


def main() -> None:
    """Measure and print; `--output` keeps it."""
    if sys.argv[1:2] == ["--as"]:
        told = measure(json.loads(Path(sys.argv[3]).read_text()), sys.argv[2])
        Path(sys.argv[4]).write_text(json.dumps(told))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ways", nargs="+", default=["vllm", "vllm:dp2", "vllm:tp2", "ray:dp2"])
    parser.add_argument("--model", default=str(data_dir() / "models" / "tempoloc-tiny"))
    parser.add_argument("--random-weights", action="store_true", help="vLLM draws the weights (random_7b.py)")
    parser.add_argument("--options", default="{}", help="more of vllm.LLM's, as JSON")
    parser.add_argument("--dtype", help="the engine's choice by default")
    parser.add_argument("--server", nargs="+", default=[])
    parser.add_argument("--clips", type=int, default=15)
    parser.add_argument("--side", type=int, help="enlarge the clips to squares of this many pixels")
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--warm-trials", type=int, help="trials of the run that warms up, --trials by default")
    parser.add_argument("--fps", type=int, default=8)
    parser.add_argument("--max-tokens", type=int, default=200)
    parser.add_argument("--max-model-len", type=int)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where videos, logs and answers are kept")
    parser.add_argument("--output", type=Path, help="add the rows to this JSON file, each when it is there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = (arguments.folder or Path(name)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        plan = {k: v for k, v in vars(arguments).items() if k not in ("output", "ways")} | {
            "warm_trials": arguments.warm_trials or arguments.trials, "folder": str(folder),
            "videos": str(folder / "videos"), "stamped": str(folder / "stamped"),
        }  # fmt: skip
        prepare(plan)
        found: dict[str, dict[str, Any]] = {}
        for way in arguments.ways:
            if told := fresh(way, plan):
                found[way] = told
                keep(compare(found), plan, arguments.output)
    if len(found) < len(arguments.ways):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
