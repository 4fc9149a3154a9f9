"""`tempoloc localize --backend signal` and `tempoloc fuse`: from the shipped signals to files that evaluate reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.core.files import write_jsonl
from tempoloc_nb.inference.no_video import baseline_predictions, prediction_rows

Run = Callable[..., tuple[int, str, str]]


def test_the_gripper_rule_writes_predictions(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "s.jsonl"
    for asked in (["--backend", "signal"], ["--force"]):
        done = run("localize", "--model", "gripper-rule", "--benchmark", "sim", "-o", out, *asked)
        assert done == (0, f"{out}: 400 predictions\n", "")
    first = json.loads(out.read_text().splitlines()[0])
    assert (first["model"], first["backend"]) == ("signal/gripper-rule", "signal")
    told = ["--event-kind", "grasping the round nut=none"]
    code, said, _ = run("localize", "--model", "gripper-rule", "--benchmark", "sim", "-o", out, "--force", *told)
    assert (code, said) == (0, f"{out}: 400 predictions; 100 events are not in it\n")
    code, _, error = run("localize", "--model", "gripper-rule", "--benchmark", "recipe", "-o", tmp_path / "r.jsonl")
    assert code == 1
    assert "signals.npz is not there: give signals" in error
    code, _, error = run("localize", "--backend", "signal", "--model", "rule", "--benchmark", "sim", "-o", "r.jsonl")
    assert (code, error) == (1, "tempoloc: unknown signal row 'rule': choose one of gripper-rule, motion-minima\n")


def test_fuse_moves_a_files_events(run: Run, tmp_path: Path) -> None:
    sim = load_benchmark("sim").head(3)
    predictions, out = tmp_path / "p.jsonl", tmp_path / "f.jsonl"
    write_jsonl(predictions, prediction_rows(sim, baseline_predictions(sim, "loo-median"), "median", 8))
    code, said, _ = run("fuse", predictions, "--benchmark", "sim", "-o", out)
    assert code == 0
    assert said.startswith(f"{out}: 12 clips, events: ")
    assert json.loads(out.read_text().splitlines()[0])["model"] == "median/fused"
    code, said, _ = run("fuse", predictions, "--benchmark", "sim", "-o", out, "--force", "--reach", "0.01")
    assert code == 0
    assert " far" in said
    code, _, error = run("fuse", predictions, "--benchmark", "sim", "-o", out, "--force", "--event-kind", "x")
    assert (code, error) == (
        1, "tempoloc: 'x' is no kind of event: write LABEL=close, LABEL=open, LABEL=start or LABEL=none\n"
    )  # fmt: skip
