"""Seconds to the first answer of `tempoloc find` with tempoloc-tiny on a CPU, beside another checkout of the package.

Fresh processes of both checkouts ask about one shipped clip in turn, five trials, with the defaults, so that both meet
the same machine and whatever else it does; medians count, and their ratio. The answers have to be the same. A first
call of each, which reads the libraries from the disk, does not count.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
from pathlib import Path
from typing import Any

from find_first_answer import run

from tempoloc_nb.core.settings import data_dir

HERE = Path(__file__).resolve().parent.parent
OUTPUT = HERE / "benchmarks" / "results" / "first_answer.json"


def medians(runs: list[dict[str, float]]) -> dict[str, Any]:
    """The median of each figure, and every first answer: what else the machine does shows in them."""
    found = {name: round(statistics.median(r[name] for r in runs), 2) for name in runs[0]}
    return {**found, "first_answers_s": [round(r["first_answer_s"], 2) for r in runs]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path, required=True, help="Another checkout.")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    clips = sorted((data_dir() / "benchmarks/sim/videos/stack-three").glob("*.mp4"))[:1]
    trees = {"here": HERE, "against": options.against.resolve()}
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in trees}
    answers: dict[str, list[str]] = {name: [] for name in trees}
    loads = [os.getloadavg()[0]]
    for number in range(options.runs + 1):
        for name, tree in trees.items():
            answers[name].clear()
            took = run(clips, options.threads, tree, answers[name])
            if number:
                runs[name].append(took)
                print(name, {k: round(v, 2) for k, v in took.items()}, flush=True)
        assert answers["here"] == answers["against"], answers
        loads.append(os.getloadavg()[0])
    rows = {name: medians(took) for name, took in runs.items()}
    ratios = {
        name: round(rows["against"][name] / rows["here"][name], 2) for name in ("first_answer_s", "cpu_s")
    }
    result = {
        "runs": options.runs, **rows, "ratio": ratios, "answers": "equal",
        "machine": {"cores": os.cpu_count(), "threads": options.threads, "platform": platform.platform(),
                    "processor": platform.machine(), "python": platform.python_version(),
                    "load": [round(min(loads), 1), round(max(loads), 1)]},
    }  # fmt: skip
    OUTPUT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
