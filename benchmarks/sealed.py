"""Score models once on clips that nobody has seen: seeds drawn now, one scoring, a log that is committed.

The families are the splits `test`, `which` and `unseen` (a hand that nobody trains on), with seeds drawn when the
command is first given: after the last training. The log's first line holds the seeds and the models' hashes; it is
written before any clip exists. Then the clips are simulated and rendered, and the models answer as the card of
tempoloc-tiny says (about a clip of `which`, all its questions). Each model's strict score becomes a line of the log.
Given again, the command continues. A second scoring, or one of other weights, needs `--again`, and the log says so.

robosuite needs an environment of its own (`make test-sim` makes `.venv-sim`):

    python benchmarks/sealed.py MODEL... [--n 100] [--sim-python .venv-sim/bin/python]

The log is benchmarks/results/sealed.jsonl.xz. The list of clips and the answers go to data/benchmarks/sealed, where the
study reads them; commit all of it. The clips' videos are made again by their seeds.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import os
import secrets
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tempoloc_nb.clips.manifest import Clip, read_manifest, write_manifest
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.files import read_jsonl, write_jsonl
from tempoloc_nb.core.machine import gpu_count
from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.inference.record import pack_predictions
from tempoloc_nb.lab.sim.tasks import SEEDS, ClipFamily, families, find_families
from tempoloc_nb.lab.sim.which_questions import which_questions
from tempoloc_nb.models.locate import model_folder
from tempoloc_nb.models.registry import load_registry

LOG = Path(__file__).parent / "results" / "sealed.jsonl.xz"
SCORES = ("mre_pct", "p50_pct", "p50_s", "hit@0.25s", "hit@0.5s", "over_100pct", "bias_s", "compliance", "recall")
# What a line keeps; its seed makes the rest again.
LISTED = ("clip", "task", "fps", "duration", "source", "seed", "robot", "split", "in_order", "events")
ASKED = ("kind", "shown", "held_out")  # and of a question
ASKED_AS = "tiny"  # preset of data/models.toml
# Run in the simulator's environment, which has neither torch nor our command's other needs.
SIMULATE = """
import json, sys
from dataclasses import replace
from pathlib import Path
from tempoloc_nb.lab.sim.tasks import find_families
from tempoloc_nb.lab.sim.make import simulate_clips
n, out = int(sys.argv[2]), Path(sys.argv[3])
for split, key, seed in json.loads(sys.argv[1]):
    (family,) = find_families(split, key)
    named = "sealed" if split == "test" else split  # of `which`, the split says whether pairs are held out
    print(simulate_clips(replace(family, split=named, first_seed=seed), n, out, states=False))
"""


def sealed_families() -> list[ClipFamily]:
    """The families that are simulated, in their order."""
    return [family for split in ("test", "which", "unseen") for family in find_families(split)]


def questions(clips: Sequence[Clip]) -> list[Clip]:
    """What is asked about clips: of those with a log of what happened all of `which_questions`, else their events."""
    return [asked for clip in clips for asked in (which_questions(clip) if "log" in clip.extra else [clip])]


def weights_hash(folder: Path) -> str:
    """SHA-256 of a model folder's weights."""
    found = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        found.update(path.read_bytes())
    return found.hexdigest()


def find_models(names: Sequence[str]) -> dict[str, Path]:
    """The folder of each model. Raises `TempolocError` for one that has no weights here."""
    found = {name: model_folder(name) or Path(name) for name in names}
    for name, folder in found.items():
        if not list(folder.glob("*.safetensors")):
            raise TempolocError(f"{name} is no model folder with weights: give the folder")
    return found


def draw_seeds(keys: Sequence[str], taken: int) -> dict[str, int]:
    """The first seed of each family: drawn from the machine's entropy, above `taken`, no two ranges in common."""
    start = taken + SEEDS * secrets.randbelow(1000)
    return {key: start + (2 * i + secrets.randbelow(2)) * SEEDS for i, key in enumerate(keys)}


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def read_log(path: Path) -> list[dict[str, Any]]:
    return [line for _, line in read_jsonl(path)] if path.exists() else []


def note(path: Path, line: dict[str, Any]) -> None:
    write_jsonl(path, [*read_log(path), line])


def scored_since(lines: Sequence[dict[str, Any]], drawn: dict[str, Any]) -> list[str]:
    """The models that were scored on these seeds."""
    return [line["model"] for line in lines[lines.index(drawn) :] if line["what"] == "scored"]


def seal(log: Path, hashes: dict[str, str], keys: Sequence[str], n: int, again: bool) -> dict[str, Any]:
    """The line that says what is scored on what: the log's own, or a new one.

    Raises `TempolocError` if the log has a scoring, or seeds drawn for other weights or another number of clips.
    """
    lines = read_log(log)
    drawn = [line for line in lines if line["what"] == "drawn"]
    if drawn and not again:
        if set(scored_since(lines, drawn[-1])) == set(drawn[-1]["models"]):
            raise TempolocError(
                f"{log} says that these clips were scored on {lines[-1]['at']}: --again scores once more"
            )
        if (drawn[-1]["models"], drawn[-1]["n"]) != (hashes, n):
            raise TempolocError(
                f"{log} has seeds that were drawn for other models or another n: --again draws new ones"
            )
        return drawn[-1]
    seeds = draw_seeds(keys, (len(families()) + 100) * SEEDS)
    line = {"what": "drawn", "at": now(), "again": bool(drawn), "n": n, "seeds": seeds, "models": hashes}
    note(log, line)
    return line


def ask_about(out: Path) -> None:
    """Write the questions about the simulated clips of a folder."""
    write_manifest(out / "questions.jsonl", questions(read_manifest(out / "manifest.jsonl")))


def answer(model: Path, out: Path, predictions: Path, place: int, batch: int) -> None:
    """Ask a model every question, as the preset asks, on the GPU with number `place` where there are any."""
    ask = load_registry().presets[ASKED_AS]
    asked = ["--prompt", ask.prompt, "--stamps", ask.view.stamps, "--fps", ask.fps, "--batch", batch, "-o", predictions]
    for key, value in asdict(ask.sampling).items():
        asked += [f"--{key.replace('_', '-')}", value]
    command = [sys.executable, "-m", "tempoloc_nb", "localize", "--model", model]
    command += ["--benchmark", out / "questions.jsonl", "--trials", 1, *asked]
    gpus = gpu_count()
    where = {"CUDA_VISIBLE_DEVICES": str(place % gpus)} if gpus else {}
    subprocess.run([str(word) for word in command], check=True, env={**os.environ, **where})


def answers_name(model: str) -> str:
    """The name of a model's answers: `tempoloc-tiny`, and `sft-seed1` for the folder `runs/sft-seed1/model`."""
    parts = [part for part in model.replace("\\", "/").split("/") if part not in ("", ".", "model")]
    if not parts:
        raise TempolocError(f"{model!r} names no model: give its folder")
    return parts[-1]


def score(predictions: Path, out: Path) -> dict[str, Any]:
    """Task → score → value and interval, as `tempoloc evaluate` says of answers, strictly."""
    command = [sys.executable, "-m", "tempoloc_nb", "evaluate", str(predictions)]
    command += ["--benchmark", str(out / "questions.jsonl"), "--json"]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {task["task"]: {name: task["scores"][name] for name in SCORES} for task in told["runs"][0]["tasks"]}


def keep(out: Path, answers: Sequence[Path], folder: Path) -> None:
    """Put the list of questions and each model's answers into `folder`, packed; what is there is replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [line for _, line in read_jsonl(out / "questions.jsonl")]
    order = [family.key for family in sealed_families()]
    lines.sort(key=lambda line: order.index(line.get("shown", line["clip"]).partition("/")[0]))  # else as they are
    clips = "".join(json.dumps({key: line[key] for key in (*LISTED, *ASKED) if key in line}) + "\n" for line in lines)
    (folder / "manifest.jsonl.xz").write_bytes(lzma.compress(clips.encode(), preset=9 | lzma.PRESET_EXTREME))
    for path in answers:
        pack_predictions(path, folder, force=True)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--n", type=int, default=100, help="clips a family")
    parser.add_argument("--task", action="append", help="these families alone; repeatable")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--out", type=Path, default=Path("runs/sealed"))
    parser.add_argument("--log", type=Path, default=LOG)
    parser.add_argument("--keep", type=Path, default=data_dir() / "benchmarks" / "sealed")
    parser.add_argument("--sim-python", default=".venv-sim/bin/python")
    parser.add_argument("--again", action="store_true", help="draw and score once more; the log says so")
    args = parser.parse_args(argv)
    try:
        folders = find_models(args.models)
        hashes = {name: weights_hash(folder) for name, folder in folders.items()}
        keys = args.task or [family.key for family in sealed_families()]
        line = seal(args.log, hashes, keys, args.n, args.again)
    except TempolocError as error:
        print(error, file=sys.stderr)
        return 1
    out = args.out / line["at"].replace(":", "")
    seeds = [(f.split, f.key, line["seeds"][f.key]) for f in sealed_families() if f.key in line["seeds"]]
    subprocess.run([args.sim_python, "-c", SIMULATE, json.dumps(seeds), str(args.n), str(out)], check=True)
    ask_about(out)
    done = scored_since(read_log(args.log), line)
    answers = {name: out / f"{answers_name(name)}.jsonl" for name in folders}
    left = [name for name in folders if name not in done]
    with ThreadPoolExecutor(max(1, gpu_count())) as pool:
        told = [pool.submit(answer, folders[n], out, answers[n], k, args.batch) for k, n in enumerate(left)]
    for name, ended in zip(left, told, strict=True):
        ended.result()
        found = score(answers[name], out)
        note(args.log, {"what": "scored", "at": now(), "model": name, "asked": ASKED_AS, "result": found})
        print(name, json.dumps({task: scores["mre_pct"] for task, scores in found.items()}))
    keep(out, list(answers.values()), args.keep)
    return 0


if __name__ == "__main__":
    sys.exit(main())
