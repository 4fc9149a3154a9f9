"""The gripper rule and `tempoloc fuse`: from the shipped signals to files that evaluate reads."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.core.files import write_jsonl
from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.inference.baselines import baseline_predictions, prediction_rows
from tempoloc_nb.scoring.evaluation import evaluate

Run = Callable[..., tuple[int, str, str]]


def test_the_gripper_rule_writes_predictions(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "s.jsonl"
    for counts in ("400 predictions written, 0 kept", "0 predictions written, 400 kept"):
        done = run("localize", "--model", "gripper-rule", "--benchmark", "sim", "-o", out)
        assert done == (0, f"{out}: {counts}\n", "")
    first = json.loads(out.read_text().splitlines()[0])
    assert (first["model"], first["backend"]) == ("signal/gripper-rule", "signal")
    told = ["--event-kind", "grasping the round nut=none"]
    other = tmp_path / "o.jsonl"
    code, said, err = run("localize", "--model", "gripper-rule", "--benchmark", "sim", "-o", other, *told)
    assert (code, said) == (0, f"{other}: 400 predictions written, 0 kept\n")
    assert err == "tempoloc: 100 events have no answer by gripper-rule\n"
    code, _, error = run("localize", "--model", "gripper-rule", "--benchmark", "recipe", "-o", tmp_path / "r.jsonl")
    assert code == 1
    assert "signals.npz is not there: give signals" in error
    code, _, error = run("localize", "--model", "gripper-rul", "--benchmark", "sim", "-o", "r.jsonl")
    assert code == 1
    assert "unknown model or no-video baseline 'gripper-rul': did you mean gripper-rule?" in error


def test_the_rule_reads_backward_where_attempts_come_first(run: Run, tmp_path: Path) -> None:
    folder = data_dir() / "benchmarks" / "detours"
    detours, right = load_benchmark(folder / "manifest.jsonl.xz"), {}
    for name in ("gripper-rule", "gripper-rule-backward"):
        out = tmp_path / f"{name}.jsonl"
        code, *_ = run("localize", "--model", name, "--benchmark", folder / "manifest.jsonl.xz", "-o", out)
        assert code == 0
        right[name] = evaluate(out, detours, resamples=10).estimate("hit@0.25s").value
    assert right["gripper-rule-backward"] > 0.99 > 0.7 > right["gripper-rule"]


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


def test_a_gripper_is_named_and_what_is_read_is_said(run: Run, tmp_path: Path) -> None:
    """Two arms in 14 actions: each event is moved to the transition of the hand that its label names."""
    h5py = pytest.importorskip("h5py")
    steps, actions = np.arange(120), np.zeros((120, 14))
    actions[:, 6] = np.where((steps >= 40) & (steps < 80), 1, -1)
    actions[:, 13] = np.where((steps >= 30) & (steps < 100), 1, -1)
    with h5py.File(tmp_path / "d.hdf5", "w") as file:
        file["data/demo_0/actions"] = actions
        file["data"].attrs["env_args"] = json.dumps({"env_kwargs": {"control_freq": 20}})
    labels = ["grasping with the right hand", "grasping with the left hand"]
    events = [{"label": label, "boundary": None} for label in labels]
    row = {"clip": "t/demo_0", "task": "t", "video": None, "duration": 6.0, "fps": 20, "events": events}
    (tmp_path / "m.jsonl").write_text(json.dumps(row) + "\n")
    (tmp_path / "t.toml").write_text(f'key = "t"\nevents = {json.dumps(labels)}\n')
    text = "\n".join(f"<{1.8 + 0.1 * i:.1f}> <2.0> {label}." for i, label in enumerate(labels))
    answer = {"clip": "t/demo_0", "task": "t", "model": "m", "fps": 8.0, "trial": 0, "text": text}
    (tmp_path / "p.jsonl").write_text(json.dumps(answer) + "\n")
    line = ["fuse", tmp_path / "p.jsonl", "--benchmark", tmp_path / "m.jsonl", "--signals", tmp_path / "d.hdf5"]
    code, _, error = run(*line, "-o", tmp_path / "f.jsonl")
    assert (code, "nothing says which of its numbers is the gripper: name it with --gripper" in error) == (1, True)
    arms = ["--gripper", "left=action[6]", "--gripper", "right=action[13]"]
    for more, want in (([], [1.5, 2.0]), (["--inverted"], [1.8, 4.0])):
        code, _, error = run(*line, *arms, *more, "-o", tmp_path / "f.jsonl", "--force")
        assert code == 0, error
        assert "d.hdf5: the gripper of the left arm is actions[6]; larger is more" in error
        assert json.loads((tmp_path / "f.jsonl").read_text())["boundary_s"] == want
    code, _, error = run("find", tmp_path / "d.hdf5", "-e", "grasping", "--gripper", "action[6]")
    assert (code, "gripper and inverted say how the gripper is read: fuse, too" in error) == (1, True)


def test_other_kinds_of_events_are_other_answers(run: Run, tmp_path: Path) -> None:
    ask = ("localize", "--model", "gripper-rule", "--benchmark", "sim", "-o", tmp_path / "s.jsonl")
    assert run(*ask)[0] == 0
    code, _, err = run(*ask, "--event-kind", "grasping the round nut=none")
    assert code == 1
    assert "was made with other settings (backend_settings)" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("train-median",), "--train says which clips train-median learns from: give --train, too"),
        (("uniform", "--train", "t"), "--train .*: leave it out, or give --model train-median"),
        (("tempoloc-tiny", "--train", "t"), "--train .*: leave it out, or give --model train-median"),
        (("uniform", "--signals", "s"), "--signals is for baselines that read the gripper, such as gripper-rule"),
        (("tempoloc-tiny", "--event-kind", "a=close"), "--event-kind is for baselines that read the gripper"),
        (("tempoloc-tiny", "--inverted"), "--inverted is for baselines that read the gripper"),
    ],
)
def test_an_option_of_other_baselines_is_refused(
    run: Run, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    code, out, err = run("localize", "--benchmark", "sim", "-o", tmp_path / "t.jsonl", "--model", *options)
    assert (code, out, len(err.splitlines())) == (1, "", 1)
    assert re.search(message, err)
    assert not [*tmp_path.iterdir()]


def test_a_baseline_that_can_answer_nothing_says_what_it_needs(run: Run, tmp_path: Path) -> None:
    manifest = tmp_path / "train.jsonl"
    manifest.write_text('{"clip": "other/0", "task": "other", "events": [{"label": "a", "boundary": 1}]}\n')
    asked = ("localize", "--model", "train-median", "--train", manifest, "--benchmark", "sim")
    code, out, err = run(*asked, "-o", tmp_path / "t.jsonl")
    assert (code, err) == (0, "")
    assert "0 predictions written, 0 kept, 400 clips without what train-median needs" in out
