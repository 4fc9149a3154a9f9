"""The same clips shown to tempoloc-tiny in other ways: larger pictures, and stamps that are in the file already.

    python benchmarks/asked_otherwise.py [--clips 5] [--model tempoloc-tiny] [--output FILE.json]

Ways: `memory`, stamped in memory, 256 × 256 pixels; `memory, 512`, the same from a video enlarged to 512 × 512; `file`,
stamped as `tempoloc overlay --model` does; `file, 512`; `recipe's file`, with stamps of the recipe's size, which is
squeezed: the model gets fewer tokens a frame pair. Each clip is asked once a way, greedily. Recorded: tokens, the mean
relative error of each way, strictly scored, and its mean difference from `memory`, paired by clip, with p.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from engine_speed import enlarge, machine

from tempoloc_nb.clips.manifest import Clips, load_benchmark
from tempoloc_nb.core.files import write_json
from tempoloc_nb.engines.make import make_engine
from tempoloc_nb.engines.qwen import overlay_options
from tempoloc_nb.inference.record import read_rows
from tempoloc_nb.inference.run import answer_clips
from tempoloc_nb.models.locate import ask_config
from tempoloc_nb.scoring.evaluation import Evaluation, compare, evaluate
from tempoloc_nb.video.overlay import OverlayOptions, stamp_video

WAYS = {"memory": (256, ""), "memory, 512": (512, ""), "file": (256, "own"), "file, 512": (512, "own"),
        "recipe's file": (256, "recipe")}  # fmt: skip


def shown(clips: Clips, folder: Path, side: int, stamps: str, model: str) -> Path:
    """A folder with the clips' videos as a way shows them."""
    for clip in clips.clips:
        source, target = clip.video_path(clips.root), folder / f"{clip.clip}.mp4"
        target.parent.mkdir(parents=True, exist_ok=True)
        plain = target.with_suffix(".plain.mp4") if stamps else target
        if side == 256:
            plain.write_bytes(source.read_bytes())
        else:
            enlarge(source, plain, side)
        if stamps:
            stamp_video(plain, target, overlay_options(model) if stamps == "own" else OverlayOptions())
    return folder


def main() -> None:
    """Ask and print; `--output` keeps it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=5, help="of each family")
    parser.add_argument("--model", default="tempoloc-tiny")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    clips, engine = load_benchmark("sim").head(given.clips), make_engine("hf", given.model)
    ask = ask_config(given.model).changed(temperature=0.0, crops=False)
    runs: dict[str, Evaluation] = {}
    rows: list[dict[str, Any]] = []
    for way, (side, stamps) in WAYS.items():
        with tempfile.TemporaryDirectory() as name:
            videos, out = shown(clips, Path(name) / "videos", side, stamps, given.model), Path(name) / "answers.jsonl"
            answer_clips(clips, out, ask.changed(stamps="none" if stamps else "frame"), engine, video_root=videos)
            runs[way] = evaluate(out, clips, resamples=1000).run()
            tokens = median(row["vision_tokens"] for row in read_rows(out))
        whole = compare(runs[way], runs["memory"]).iloc[-1]
        mean = runs[way].estimate("mre_pct")
        rows.append({"way": way, "clips": len(clips.clips), "vision_tokens": tokens, "mre_pct": mean.value,
                     **whole[["difference", "low", "high", "p"]].to_dict()})  # fmt: skip
        print(json.dumps(rows[-1]), flush=True)
    if given.output:
        write_json(given.output, {"on": machine(), "model": given.model, "ways": rows})


if __name__ == "__main__":
    main()
