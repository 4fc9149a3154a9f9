"""Another back end's answers about a benchmark, scored beside those that are shipped, which transformers gave.

    tempoloc study --profile full --only 05 -p backend vllm
    python benchmarks/beside_transformers.py runs/full/predictions/sim/sft-*.jsonl --experiment sft --output FILE.json

A row a task and one for their mean: MRE (%) of both, and the paired difference with its interval (`compare`). The file
keeps a table for each model; the answers themselves are not kept.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.core.files import write_json
from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.inference.record import read_record
from tempoloc_nb.scoring.evaluation import compare, evaluate


def table(answers: Path, record: Mapping[str, Any], experiment: str) -> dict[str, Any]:
    """How the answers, with their record, compare with an experiment's shipped ones."""
    benchmark = load_benchmark(record["settings"]["benchmark"])
    shipped = data_dir() / "predictions" / f"{experiment}.jsonl.xz"
    other, own = (evaluate(path, benchmark).run() for path in (answers, shipped))
    backend = record["settings"]["backend"]
    rows = [
        {"task": task or "mean", backend: round(a, 1), "transformers": round(b, 1), "value": round(difference, 1),
         "low": round(low, 1), "high": round(high, 1), "p": round(p, 4)}
        for task, _, a, b, difference, low, high, p in compare(other, own).itertuples(index=False)
    ]  # fmt: skip
    made = {name: record["versions"].get(name) for name in ("python", "torch", "transformers", "vllm")}
    told = {key: record[key] for key in ("answers", "seconds", "device")}
    return {**told, "versions": made, "rows": rows}


def main() -> None:
    """Compare, print, and add the table to the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("answers", type=Path)
    parser.add_argument("--experiment", default="sft")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    record = read_record(arguments.answers)
    found = table(arguments.answers, record, arguments.experiment)
    print(json.dumps(found, indent=1))
    if arguments.output:
        known = json.loads(arguments.output.read_text()) if arguments.output.is_file() else {}
        write_json(arguments.output, {**known, record["settings"]["model"]: found})


if __name__ == "__main__":
    main()
