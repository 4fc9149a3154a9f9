"""The linter of labels: a file without a fault gets no finding, and every fault that is planted is found and named."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from labelled_demos import NAMES, PLACE, label_file
from planted_faults import FAULTS, STARTS, Planted, moved

from tempoloc_nb.cli.main import main
from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.clips.tasks import Subtask, Task
from tempoloc_nb.core.checks import Finding, Report
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.formats.hdf5_rules import Layout, signal_of
from tempoloc_nb.inference.signals import Signal
from tempoloc_nb.labels.check import check_group, check_labels, label_figure
from tempoloc_nb.labels.demonstrations import DemoLabels, LabelGroup
from tempoloc_nb.labels.rules import GeneratorConfig, LabelLimits

h5py = pytest.importorskip("h5py", reason="h5py is not installed (extra data)")
LAYOUTS: tuple[Layout, ...] = ("isaaclab", "mimicgen")


def found_in(path: Path | str, *, inverted: bool = False, rate: float | None = None, **config: Any) -> Report:
    """What is found where a generator is configured so."""
    return check_labels(path, GeneratorConfig(**config), inverted=inverted, rate=rate).report


def demo_of(finding: Finding) -> str:
    return finding.about.partition(": ")[0]


def subtask_of(finding: Finding) -> str:
    return finding.about.partition(": ")[2]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    fault=st.sampled_from(sorted(FAULTS)), layout=st.sampled_from(LAYOUTS), name=st.sampled_from(NAMES),
    demo=st.integers(0, 4), sign=st.sampled_from([-1, 1]), seed=st.integers(0, 50),
)  # fmt: skip
def test_every_planted_fault_is_found_in_its_demonstration(
    tmp_path: Path, fault: str, layout: Layout, name: str, demo: int, sign: int, seed: int
) -> None:
    path = label_file(tmp_path / "d.hdf5", layout, demos=5, seed=seed)
    clean = found_in(path, signals=NAMES)
    assert clean.findings == ()
    plant, rule, severity = FAULTS[fault]
    if layout == "mimicgen" and fault in ("rises twice", "begins at 1"):
        name = NAMES[0]  # of the others MimicGen passes over what is before the previous end
    with h5py.File(path, "r+") as file:
        group = file[f"data/demo_{demo}"]
        plant(Planted(group, group[PLACE[layout]], name, layout, sign))
    report = found_in(path, signals=NAMES)
    found = {(demo_of(f), f.severity, f.check) for f in report.findings}
    assert (f"demo_{demo}", severity, rule) in found
    assert {d for d, *_ in found} == {f"demo_{demo}"}
    assert all(f.message and f.way_out for f in report.findings)
    assert bool(report.errors) == any(s == "error" for _, s, _ in found)


@pytest.mark.parametrize("skillgen", [True, False])
@pytest.mark.parametrize("fault", STARTS)
def test_start_signals_count_for_skillgen(tmp_path: Path, fault: str, skillgen: bool) -> None:
    path = label_file(tmp_path / "d.hdf5", demos=5, skillgen=True)
    plant, rule = STARTS[fault]
    assert found_in(path, skillgen=skillgen).findings == ()
    with h5py.File(path, "r+") as file:
        demo = file["data/demo_3"]
        plant(Planted(demo, demo[PLACE["isaaclab"]], "stack_1", "isaaclab", 1))
    found = found_in(path, signals=NAMES, skillgen=skillgen).findings
    severity = "error" if skillgen else "warning"
    assert ("demo_3", severity, rule) in {(demo_of(f), f.severity, f.check) for f in found}
    assert {(demo_of(f), f.severity) for f in found} == {("demo_3", severity)}


def test_skillgen_without_start_signals_and_offsets_that_do_not_fit(tmp_path: Path) -> None:
    path = label_file(tmp_path / "d.hdf5")
    assert {f.check for f in found_in(path, skillgen=True).findings} == {"missing-start"}
    report = found_in(path, offsets=((-40, 40),))
    assert {f.check for f in report.findings if f.severity == "error"} == {"order"}
    assert report.errors == 8
    short = found_in(path, offsets=((0, 25), (0, 0), (0, 0)))
    assert {(f.severity, f.check, subtask_of(f)) for f in short.findings if f.check == "short"} == {
        ("warning", "short", "stack_1")
    }
    with pytest.raises(TempolocError, match=r"3 signals .* need as many ranges of offsets, found 2"):
        found_in(path, offsets=((0, 0), (0, 0)))
    with pytest.raises(TempolocError, match="the range of offsets 5 to -5 is empty"):
        found_in(path, offsets=((5, -5),))


def test_a_file_without_env_args_or_signals_and_an_inverted_gripper(tmp_path: Path) -> None:
    path = label_file(tmp_path / "d.hdf5", "mimicgen")
    assert [f.check for f in found_in(path, inverted=True).findings] == ["inverted"]
    with h5py.File(path, "r+") as file:
        del file["data"].attrs["env_args"]
    assert [(f.severity, f.check) for f in found_in(path).findings] == [("error", "lacking"), ("note", "rate")]
    with h5py.File(path, "r+") as file:
        for demo in file["data"].values():
            del demo["datagen_info"]
    checked = check_labels(path, rate=20)
    assert {"missing-signal", "lacking"} == {f.check for f in checked.report.findings}
    assert "8 demonstrations: 10 errors" in str(checked).splitlines()[-1]


def test_links_that_lead_nowhere_are_findings(tmp_path: Path) -> None:
    path = label_file(tmp_path / "d.hdf5")
    with h5py.File(path, "r+") as file:
        demo = file["data/demo_1"]
        for name in ("obs/gripper_pos", f"{PLACE['isaaclab']}/eef_pose"):
            del demo[name]
            demo[name] = h5py.SoftLink(f"{demo.name}/{name}")
        file["data/demo_9"] = h5py.SoftLink("/data/demo_9")
    found = found_in(path).findings
    assert {(demo_of(f), f.check) for f in found} == {
        ("demo_1", "broken"), ("demo_1", "lacking"), ("demo_9", "lacking")
    }  # fmt: skip


def test_two_arms_are_checked_each_by_its_own_subtasks(tmp_path: Path) -> None:
    path = label_file(tmp_path / "d.hdf5")
    parts = [Subtask("grasp_1", end="grasp_1", eef="left"), Subtask("rest", eef="left")]
    parts += [Subtask("stack_1", end="open", eef="right"), Subtask("grasp_2", end="close", eef="right"),
              Subtask("lift", eef="right")]  # fmt: skip
    task = Task("two", ("grasp_1", "open", "close"), subtasks=tuple(parts))
    checked = check_labels(path, GeneratorConfig(task=task, told={"grasp_2": "close"}))
    assert [(g.group.name, g.plan.pieces, g.plan.kinds) for g in checked.groups] == [
        ("d.hdf5, left", ("grasp_1", "rest"), ("close",)),
        ("d.hdf5, right", ("stack_1", "grasp_2", "lift"), (None, "close")),
    ]
    assert checked.report.findings == ()
    with pytest.raises(TempolocError, match="the task bare says no subtasks"):
        found_in(path, task=Task("bare", ("a",)))


AUTODATA = """
name: stack
algo: skillgen
subtasks:
  arm:
  - {subtask_term_signal: grasp_1, description: Grasp the first cube, subtask_term_offset_range: [1, 2]}
  - {subtask_term_signal: stack_1, description: Stack it, algo_params: {subtask_start_offset_range: [-1, 1]}}
  - {subtask_term_signal: grasp_2, description: Grasp the other, subtask_term_offset_range: [0, 30]}
  - {subtask_term_signal: lift_2, description: Lift it}
"""


def test_a_descriptor_of_autodata_says_signals_and_offsets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, spec = label_file(tmp_path / "d.hdf5", skillgen=True), tmp_path / "auto.yaml"
    spec.write_text(AUTODATA)
    run(str(path), "--task-spec", str(spec), "--skillgen", "--json", status=1)  # 30 steps reach into the next skill
    found = json.loads(capsys.readouterr().out)["findings"]
    assert {(f["check"], f["about"].partition(": ")[2]) for f in found} == {("gap", "grasp_2")}
    spec.write_text(AUTODATA.replace("30", "3"))
    run(str(path), "--task-spec", str(spec), "--skillgen")
    assert capsys.readouterr().out.endswith("nothing found\n")


def test_true_boundaries_of_the_simulated_benchmark_raise_one_warning_in_400() -> None:
    report = found_in("sim")
    assert [(demo_of(f), f.check) for f in report.findings] == [("stack-three-ur5e/075", "delay")]


def test_an_event_that_differs_between_clips_is_told_by_the_name_that_is_shown() -> None:
    (group,) = check_labels("detours", GeneratorConfig(told={"grasping the first cube": None})).groups
    assert group.plan.names == ("grasping the first cube", "releasing the first cube", "grasping the second cube")
    assert group.plan.kinds == (None, "open", "close")


def test_failed_grasps_and_regrasps_are_found_in_each_clip_that_has_them() -> None:
    detours = found_in(data_dir() / "benchmarks" / "detours" / "manifest.jsonl.xz")
    assert {f.check for f in detours.findings} == {"attempt"}
    assert len({demo_of(f) for f in detours.findings}) == 24


@pytest.mark.parametrize(
    ("opening", "signals", "told", "expected"),
    [
        ("oooccccccccoooo", {"grasp_1": 3, "stack_1": 11}, None, None),
        ("oooccoocccccooo", {"grasp_1": 7, "stack_1": 12}, None, ("grasp_1", "closes at 2.9")),  # on air
        ("oooccooccooccooo", {"grasp_1": 11, "stack_1": 13}, None, ("grasp_1", "closes at 2.93, 6.93 s")),
        ("ooocccoocccoooo", {"grasp_1": 3, "stack_1": 11}, None, ("stack_1", "opens at 5.0")),  # it was let go
        ("ooohhccccccoooo", {"grasp_1": 5, "stack_1": 11}, None, None),  # closes in two goes
        ("oooccccoocccooo", {"grasp_1": 9, "stack_1": 12}, {"grasp_1": None, "stack_1": None}, None),
        ("ooocccoocccoooo", {"stack_1": 11}, None, None),  # a subtask that holds its own grasp
    ],
)
def test_a_try_that_failed_within_a_subtask_is_a_warning(
    opening: str, signals: dict[str, int], told: dict[str, None] | None, expected: tuple[str, str] | None
) -> None:
    """One letter a second: open, closed, or half."""
    rate, wide = 20, {"o": 1.0, "c": 0.0, "h": 0.5}
    times = np.arange(len(opening) * rate) / rate
    x = np.interp(times, np.arange(len(opening)), [wide[c] for c in opening])
    ends = {n: int(np.argmin(np.abs(times - t))) for n, t in signals.items()}
    rows = {n: signal_of(step, len(times)).astype(float) for n, step in ends.items()}
    demo = DemoLabels("demo_0", len(times), float(rate), rows, gripper=Signal(x, times))
    group = LabelGroup("t", None, (demo,))
    plan = GeneratorConfig(signals=tuple(signals), told=told).plan(group)
    found = [f for f in check_group(group, plan).report.findings if f.check == "attempt"]
    assert [subtask_of(f) for f in found] == ([expected[0]] if expected else [])
    assert all(expected and expected[1] in f.message for f in found)


def test_a_demonstration_unlike_the_others_is_an_outlier_without_any_gripper() -> None:
    ends = [(40 + i % 3, 80 + i % 4) for i in range(9)] + [(70, 82)]
    rows = [{n: signal_of(s, 120).astype(float) for n, s in zip("ab", e, strict=True)} for e in ends]
    group = LabelGroup("t", None, tuple(DemoLabels(f"demo_{i}", 120, 20.0, r) for i, r in enumerate(rows)))
    plan = GeneratorConfig().plan(group)
    found = check_group(group, plan).report.findings
    assert {(demo_of(f), subtask_of(f), f.check) for f in found} == {("demo_9", n, "outlier") for n in "ab"}
    assert check_group(group, plan, LabelLimits(outlier=100)).report.findings == ()
    assert check_group(replace(group, demos=group.demos[-4:]), plan).report.findings == ()  # too few to compare


def run(*line: str, status: int = 0) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["check-labels", *line])
    assert ended.value.code == status


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    path = label_file(tmp_path / "d.hdf5")
    run("d.hdf5", "--figure", "labels.svg")
    assert capsys.readouterr().out.endswith("8 demonstrations: nothing found\n")
    assert (tmp_path / "labels.svg").read_text().count("demo_7") >= 1
    run("d.hdf5", "--figure", "labels.svg", status=1)
    assert "labels.svg" in capsys.readouterr().err
    with h5py.File(path, "r+") as file:
        at = file["data/demo_2/obs/datagen_info"]
        moved(Planted(file["data/demo_2"], at, "stack_1", "isaaclab", 1), 0.3)
    run("d.hdf5")
    out = capsys.readouterr().out
    assert "warning: demo_2: stack_1: rises at " in out
    run("d.hdf5", "--gripper-within", "0.5", "--json")
    assert [f["check"] for f in json.loads(capsys.readouterr().out)["findings"]] == ["delay"]
    run("d.hdf5", "--signal", "grasp", "--json", status=1)
    found = json.loads(capsys.readouterr().out)
    assert (found["errors"], found["findings"][0]["check"]) == (8, "missing-signal")
    for line, said in (
        (("none.hdf5",), "cannot read none.hdf5"),
        (("d.hdf5", "--figure", "a.pdf"), "written as .png or .svg"),
        (("d.hdf5", "--figure", "-"), "--figure wants a file"),
        (("d.hdf5", "--signals", "x.npz"), "has its own gripper"),
        (("d.hdf5", "--task-spec", "s.json", "--signal", "a"), "--task-spec says signals and offsets"),
        (("recipe2",), "recipe2"),
    ):
        run(*line, status=1)
        shown = capsys.readouterr()
        assert said in shown.err
        assert shown.err.count("\n") == 1
        assert not shown.out


def test_the_figure_marks_what_was_found() -> None:
    benchmark = load_benchmark(data_dir() / "benchmarks" / "detours" / "manifest.jsonl.xz")
    figure = label_figure(check_labels(benchmark.file or ""))
    left, right = figure.axes
    assert len(left.patches) == 4 * len(benchmark.clips)
    assert right.get_xlabel() == "s after the gripper"
