"""How far the trials of a model agree about `which`: the committed medians, shares of agreement and spreads.

    tempoloc localize --model tempoloc-tiny --benchmark which-validation --video-root VIDEOS --trials 5 -o p.jsonl
    python benchmarks/which_agreement.py which-validation p.jsonl [more.jsonl] [--output FILE.jsonl.xz]

Of the questions that the predictions answer, a line each: `boundary_s`, `confidence` (the share of trials within a
frame pair of it) and `spread_s` of every event, without the texts. Study 14 reads it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.core.files import write_jsonl
from tempoloc_nb.inference.consensus import combine_trials, combined_row

KEPT = ("clip", "boundary_s", "confidence", "spread_s")


def main() -> None:
    """Combine, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmark")
    parser.add_argument("predictions", nargs="+", type=Path)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    benchmark = load_benchmark(given.benchmark)
    rows = [combined_row(a, 0.0) for path in given.predictions for a in combine_trials(path, benchmark)]
    rounded = [
        {k: [v if v is None else round(v, 2) for v in row[k]] if isinstance(row[k], list) else row[k] for k in KEPT}
        for row in rows
    ]
    out = given.output or benchmark.root / "tempoloc-tiny-agreement.jsonl.xz"
    write_jsonl(out, sorted(rounded, key=lambda row: str(row["clip"])), force=True)
    print(f"{out}: {len(rounded)} questions")


if __name__ == "__main__":
    main()
