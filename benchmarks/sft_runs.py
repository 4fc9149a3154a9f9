"""Fine-tuning in cosmos-rl and in this package's own engine on the same data and steps, beside what `check` said.

    python benchmarks/sft_runs.py DATASET --runs cosmos-rl transformers cosmos-rl+lora transformers+lora cosmos-rl:2

A run is an engine, presets of `tempoloc sft config` after `+`, and after `:` the GPUs over which the weights are
divided (`dp_shard_size`). Each is `config`, `check` and `launch` as a user has them, with the same samples, samples a
step, learning rate and steps; with one seed both draw the samples in the same order, so that the curves can be compared
step by step. `--set KEY=VALUE` changes a key of every file.

Recorded: the loss of each step, the median of the seconds between two steps, tokens a second (those that `check`
counts), what each GPU held at most beyond what others held before (nvidia-smi, twice a second, so a peak between two
looks is missed; torch keeps what it once took), and the estimate of `check` beside it. `--kill STEP` interrupts each
run once it has taken that step and starts it again with `train.resume`, from the checkpoint before. `--figure` draws
the curves.

cosmos-rl's environment is `--cosmos` or TEMPOLOC_COSMOS_RL. Without flash-attn it computes with torch's own attention
(sft.cosmos.entry), and the file says so.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from typing import Any

from engine_speed import machine

from tempoloc_nb.core.files import write_json
from tempoloc_nb.core.plots import house_style
from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.sft.check import check_config
from tempoloc_nb.sft.cosmos.env import ask, cosmos_python
from tempoloc_nb.sft.launch import Progress, launch_training
from tempoloc_nb.sft.training_file import make_config, write_config


def held() -> dict[int, float]:
    """What each GPU holds, in GiB, by nvidia-smi; nothing where there is none."""
    query = ["nvidia-smi", "--query-gpu=index,memory.used", "--format=csv,noheader,nounits"]
    try:
        lines = subprocess.run(query, capture_output=True, text=True).stdout.splitlines()
        return {int(index): int(used) / 1024 for index, used in (line.split(",") for line in lines)}
    except (OSError, ValueError):
        return {}


class Memory:
    """What each GPU held `before` this ran, and at `most` while it ran, in GiB."""

    def __init__(self) -> None:
        self.before = held()
        self.most = dict(self.before)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(0.5):
            for index, used in held().items():
                self.most[index] = max(self.most.get(index, 0.0), used)

    def told(self) -> dict[str, Any]:
        """Both, as the file has them: of the run itself, and of others."""
        own = {str(k): round(v - self.before.get(k, 0.0), 1) for k, v in sorted(self.most.items())}
        return {"memory at most (GiB)": own, "held before (GiB)": {str(k): round(v, 1) for k, v in self.before.items()}}


class Curve:
    """The losses that a run told, and when."""

    def __init__(self, kill: int | None) -> None:
        self.losses: dict[int, float] = {}
        self.times: dict[int, float] = {}
        self.kill = kill

    def __call__(self, told: Progress) -> None:
        if told.loss is not None and told.step not in self.times:
            self.losses[told.step], self.times[told.step] = told.loss, time.monotonic()
        if self.kill is not None and told.step >= self.kill:
            self.kill = None
            os.kill(os.getpid(), signal.SIGINT)

    @property
    def seconds(self) -> float | None:
        """The median of the seconds between two neighbouring steps after the second."""
        steps = sorted(self.times)[1:]
        each = [self.times[b] - self.times[a] for a, b in pairwise(steps) if b == a + 1]
        return round(median(each), 3) if each else None


def file_of(plan: argparse.Namespace, run: str, folder: Path, resume: bool) -> Path:
    """The training file of a run."""
    engine, _, shards = run.partition(":")
    engine, *presets = engine.split("+")
    same: dict[str, Any] = {
        "custom.dataset.path": str(plan.dataset.resolve()), "policy.model_name_or_path": plan.model,
        "policy.model_max_length": plan.max_length, "train.output_dir": str(folder / "output"),
        "train.epoch": plan.epochs, "train.train_batch_per_replica": plan.batch // int(shards or 1),
        "train.train_policy.mini_batch": plan.mini_batch, "train.optm_lr": plan.lr,
        "train.optm_warmup_steps": plan.warmup, "policy.parallelism.dp_shard_size": int(shards or 1),
        "train.ckpt.save_freq": plan.save, "train.resume": resume,
    }  # fmt: skip
    if plan.steps:
        same["train.max_num_steps"] = plan.steps
    if engine == "transformers":
        del same["train.resume"]  # it goes on by itself
    for line in plan.set:
        key, _, value = line.partition("=")
        with suppress(ValueError):
            value = json.loads(value)
        same[key] = value
    path = folder / f"config{'-resumed' if resume else ''}.toml"
    write_config(path, make_config(engine, presets=presets, changes=same), force=True)
    return path


def train(plan: argparse.Namespace, run: str) -> dict[str, Any]:
    """config, check and launch of a run, and what it showed."""
    folder, engine = plan.folder / run.replace(":", "-"), run.partition(":")[0].partition("+")[0]
    folder.mkdir(parents=True, exist_ok=True)
    path, shards = file_of(plan, run, folder, False), int(run.partition(":")[2] or 1)
    report = check_config(path, engine, cosmos=plan.cosmos, gpus=shards if plan.gpus is None else plan.gpus)
    print(f"{run}:", *str(report).splitlines(), sep="\n  ", flush=True)
    told: dict[str, Any] = {"run": run, "errors of check": report.errors, "estimates": dict(report.facts)}
    if report.errors:
        return told
    curve, quiet = Curve(plan.kill), (folder / "seen.log").open("a")
    with Memory() as memory, quiet:
        done = launch_training(path, engine, cosmos=plan.cosmos, report=curve, echo=lambda x: print(x, file=quiet))
        told["outcome"] = [done.outcome]
        if plan.kill:
            curve.times.clear()
            again = file_of(plan, run, folder, True)
            done = launch_training(again, engine, cosmos=plan.cosmos, report=curve,
                                   echo=lambda x: print(x, file=quiet))  # fmt: skip
            told["outcome"].append(done.outcome)
            told["went on from step"] = min(curve.times, default=0) - 1
    told |= {"seconds": round(done.seconds, 1), "seconds a step": curve.seconds, "reason": done.reason,
             "losses": [curve.losses[step] for step in sorted(curve.losses)], **memory.told()}  # fmt: skip
    tokens, steps = report.facts.get("tokens of the run"), report.facts.get("steps")
    if curve.seconds and tokens and steps:
        told["tokens a second"] = round(tokens / steps / curve.seconds)
    exported = sorted(folder.glob("output/**/safetensors/*/config.json"), key=lambda p: p.stat().st_mtime)
    told["exported"] = str((exported[-1].parent if exported else folder / "output" / "model").relative_to(plan.folder))
    return told


def draw(runs: list[dict[str, Any]], path: Path) -> None:
    """The curves, each with its running mean."""
    with house_style():
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(figsize=(7, 4))
        for run in runs:
            losses = run.get("losses") or []
            smooth = [mean(losses[max(0, i - 4) : i + 1]) for i in range(len(losses))]
            (line,) = axes.plot(range(1, len(smooth) + 1), smooth, label=run["run"])
            axes.plot(range(1, len(losses) + 1), losses, color=line.get_color(), alpha=0.25)
        axes.set(xlabel="step", ylabel="loss of a step, and the mean of five")
        axes.legend()
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
        plt.close(figure)


def main() -> None:
    """Train and print; `--output` keeps it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=Path, help="folder that `tempoloc dataset build` wrote")
    parser.add_argument("--runs", nargs="+", default=["cosmos-rl", "transformers"])
    parser.add_argument("--model", default=str(data_dir() / "models" / "tempoloc-tiny-base"))
    parser.add_argument("--cosmos", type=Path)
    parser.add_argument("--gpus", type=int, help="what `check` is told; the run's by default")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--steps", type=int, help="no more steps than these")
    parser.add_argument("--batch", type=int, default=8, help="samples a step, of all GPUs")
    parser.add_argument("--mini-batch", type=int, default=2)
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--save", type=int, default=20, help="steps between two checkpoints")
    parser.add_argument("--max-length", type=int, default=8192)
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE")
    parser.add_argument("--kill", type=int, metavar="STEP", help="interrupt after this step, and go on")
    parser.add_argument("--folder", type=Path, required=True, help="where files, logs, checkpoints and models are kept")
    parser.add_argument("--output", type=Path, help="add the runs to this JSON file")
    parser.add_argument("--figure", type=Path)
    plan = parser.parse_args()
    plan.folder = plan.folder.resolve()
    name, python = Path(plan.model).name, cosmos_python(plan.cosmos)
    theirs = ask(python, "describe") if python else None
    known = json.loads(plan.output.read_text())["runs"] if plan.output and plan.output.is_file() else []
    for run in plan.runs:
        told = {"model": name, **train(plan, run), "killed at": plan.kill}
        known = [k for k in known if (k["model"], k["run"], k["killed at"]) != (name, run, plan.kill)] + [told]
        print(json.dumps({k: v for k, v in told.items() if k != "losses"}), flush=True)
        if plan.output:
            settings = {k: getattr(plan, k) for k in ("epochs", "steps", "batch", "mini_batch", "lr", "warmup", "set")}
            on = {**machine(), "cosmos-rl": theirs}
            write_json(plan.output, {"on": on, "settings": settings, "runs": known})
    if plan.figure:
        draw([k for k in known if k.get("losses")], plan.figure)


if __name__ == "__main__":
    main()
