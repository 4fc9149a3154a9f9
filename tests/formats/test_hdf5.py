"""Subtask termination signals in real HDF5 files, as MimicGen and Isaac Lab Mimic lay them out."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tempoloc_nb.clips.manifest import Clip
from tempoloc_nb.clips.tasks import Event
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.formats import hdf5_write as demo_signals
from tempoloc_nb.formats.hdf5 import _signal_clips, demos_of, opened_demos, read_signals
from tempoloc_nb.formats.hdf5_rules import SIGNALS, check_order, read_task_spec, rise_of, signal_of
from tempoloc_nb.formats.hdf5_write import SignalOptions, write_signals
from tempoloc_nb.lab.sim import make as sim_states
from tempoloc_nb.lab.sim.demonstration import SavedEpisode
from tempoloc_nb.lab.sim.tasks import families

h5py = pytest.importorskip("h5py", reason="h5py is not installed (extra data)")

NAMES = ("grasp", "release")
STEPS = ((20, 50), (25, 55), (30, 60))
LENGTH = 100
ISAAC = {"env_name": "Isaac-Stack", "type": 2, "sim_args": {"dt": 0.01, "decimation": 5, "num_envs": 1}}


def demo_file(path: Path, layout: str = "mimicgen", steps: Sequence[Sequence[int]] = STEPS, bare: bool = False) -> Path:
    group, kind = SIGNALS[layout]  # type: ignore[index]
    args = {"env_name": "Stack_D0", "env_kwargs": {"control_freq": 20}} if layout == "mimicgen" else ISAAC
    with h5py.File(path, "w") as file:
        file.create_group("data").attrs["env_args"] = json.dumps(args)
        file["mask/train"] = np.array([b"demo_0"])
        for i, rises in enumerate(steps):
            demo = file.create_group(f"data/demo_{i}")
            demo.create_dataset("actions", data=np.random.default_rng(i).random((LENGTH, 7)), compression="gzip")
            demo[group.rpartition("/")[0] + "/eef_pose"] = np.ones((LENGTH, 4, 4))
            for name, step in zip(NAMES, rises, strict=True):
                values = signal_of(step, LENGTH, kind)
                if not bare:  # Isaac Lab's recorder keeps a column
                    demo[f"{group}/{name}"] = values if layout == "mimicgen" else values[:, None]
    return path


def clips_of(steps: Sequence[Sequence[float]], rate: float = 20) -> list[Clip]:
    events = [tuple(Event(n, s / rate) for n, s in zip(NAMES, row, strict=False)) for row in steps]
    return [Clip(f"stack/d0_demo{i}", "stack", found, duration=5.0) for i, found in enumerate(events)]


def everything(path: Path) -> dict[str, Any]:
    """All values of a file but the signals."""
    found: dict[str, Any] = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, o: found.update({name: o[()].tobytes()} if isinstance(o, h5py.Dataset) else {}))
        found["env"] = file["data"].attrs["env_args"]
    return {k: v for k, v in found.items() if "term_signals" not in k}


@pytest.mark.parametrize("layout", ["mimicgen", "isaaclab"])
def test_signals_are_read_and_written_in_both_layouts(tmp_path: Path, layout: str) -> None:
    path = demo_file(tmp_path / "demos.hdf5", layout)
    before, bytes_before = everything(path), path.read_bytes()
    found = read_signals(path)
    assert [d.boundaries for d in found] == [(a / 20, b / 20) for a, b in STEPS]
    assert {(d.signals, d.rate, d.steps, d.duration) for d in found} == {(NAMES, 20.0, LENGTH, 5.0)}
    moved = [(a + 3, b - 2) for a, b in STEPS]
    when = datetime(2026, 1, 2, tzinfo=UTC)
    done = write_signals(path, clips_of(moved), NAMES, source="sft.jsonl, median of 10", when=when)
    assert (done.demos, done.moved, done.largest_s) == (3, 6, pytest.approx(0.15))
    assert str(done).endswith("in 3 demonstrations, 6 moved by up to 0.150 s; the file as it was: demos.hdf5.bak")
    assert [d.boundaries for d in read_signals(path, signals=NAMES)] == [(a / 20, b / 20) for a, b in moved]
    assert everything(path) == before
    assert done.backup is not None
    assert done.backup.read_bytes() == bytes_before
    group, kind = SIGNALS[layout]  # type: ignore[index]
    with h5py.File(path) as file:
        signals = file["data/demo_1"][group]
        assert signals["grasp"].dtype == kind
        assert signals["grasp"].shape == ((LENGTH,) if layout == "mimicgen" else (LENGTH, 1))
        assert signals["grasp"][()].reshape(-1).astype(int).tolist() == [0] * 28 + [1] * 72
        record = json.loads(signals.attrs["tempoloc"])
    assert record["tool"].startswith("tempoloc_nb ")
    assert {k: v for k, v in record.items() if k != "tool"} == {
        "when": "2026-01-02T00:00:00+00:00", "source": "sft.jsonl, median of 10", "control_rate": 20.0,
        "clip": "stack/d0_demo1", "steps": {"grasp": 28, "release": 53}, "before": {"grasp": 25, "release": 55},
    }  # fmt: skip
    assert not list(tmp_path.glob("*.part"))


def test_a_second_write_keeps_the_first_backup(tmp_path: Path) -> None:
    path = demo_file(tmp_path / "demos.hdf5")
    first = path.read_bytes()
    write_signals(path, clips_of(STEPS), NAMES)
    second = path.read_bytes()
    done = write_signals(path, clips_of(STEPS), NAMES)
    assert (tmp_path / "demos.hdf5.bak").read_bytes() == first
    assert done.backup == tmp_path / "demos.hdf5.bak1"
    assert done.backup.read_bytes() == second
    assert done.moved == 0
    assert write_signals(path, clips_of(STEPS), NAMES, options=SignalOptions(backup=False)).backup is None
    assert len(list(tmp_path.iterdir())) == 3


def test_a_backup_that_differs_stops_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = demo_file(tmp_path / "demos.hdf5")
    before = path.read_bytes()
    monkeypatch.setattr(demo_signals.shutil, "copy2", lambda a, b: Path(b).write_bytes(Path(a).read_bytes()[:-1]))
    with pytest.raises(TempolocError, match=r"the backup of demos.hdf5 differs"):
        write_signals(path, clips_of(STEPS), NAMES)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_while_writing_leaves_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = demo_file(tmp_path / "demos.hdf5")
    before = path.read_bytes()
    real, calls = demo_signals._write, []

    def fail(*args: Any) -> None:
        calls.append(real(*args))
        if len(calls) == 2:
            raise OSError("no space left")

    monkeypatch.setattr(demo_signals, "_write", fail)
    with pytest.raises(OSError, match="no space"):
        write_signals(path, clips_of([(21, 51)] * 3), NAMES)
    assert path.read_bytes() == before
    monkeypatch.setattr(demo_signals, "_write", lambda *args: None)  # a disk that forgets
    with pytest.raises(TempolocError, match=r"demo_0 reads back as \(20, 50\), not \(21, 51\)"):
        write_signals(path, clips_of([(21, 51)] * 3), NAMES)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("steps", "how", "message"),
    [
        ([*STEPS[:2], (30, 30)], {}, "demo_2: the boundary of 'release' is at step 30, it must be from 31 to 99"),
        ([*STEPS[:2], (30, 40)], {"ranges": ((0, 10), (0, 5))}, "demo_2: 'grasp' .* at the latest at 41"),
        ([*STEPS[:2], (30, 40)], {"ranges": ((0, 5), (-5, 5))}, "demo_2: .*at the earliest at 36"),
        ([*STEPS[:2], (30, 89)], {"ranges": ((0, 0), (0, 10))}, "'release' ends at step 90 .* 'the end' at 100"),
        ([*STEPS[:2], (30, 100)], {}, "the boundary of 'release' is at step 100, it must be from 31 to 99"),
        ([*STEPS[:2], (0.4, 60)], {}, "the boundary of 'grasp' is at step 0"),
        (STEPS[:2], {}, r"1 of 3 demonstrations in demos.hdf5 lack a clip \(demo_2"),
        ([*STEPS, (1, 2)], {}, r"has no demo_3 \(stack/d0_demo3\); it has demo_0 to demo_2 \(3\)"),
        ([(20,), (20,), (20,)], {}, "demo_0: stack/d0_demo0 has 1 events for the signals grasp, release"),
        (STEPS, {"options": SignalOptions("robomimic")}, "unknown layout 'robomimic'"),
        (STEPS, {"options": SignalOptions(rate=0.0)}, "rate must be a positive number"),
        (STEPS, {"ranges": ((0, 0),)}, "2 signals need distinct names and 2 offsets, found 1"),
        (STEPS, {"options": SignalOptions("isaaclab")}, "no signal 'grasp' in obs/datagen_info"),
    ],
)
def test_what_does_not_fit_is_refused_before_a_byte_is_written(
    tmp_path: Path, steps: Any, how: dict[str, Any], message: str
) -> None:
    path = demo_file(tmp_path / "demos.hdf5")
    before, stamp = path.read_bytes(), path.stat().st_mtime_ns
    with pytest.raises(TempolocError, match=message):
        write_signals(path, clips_of(steps), NAMES, **how)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (before, stamp)
    assert list(tmp_path.iterdir()) == [path]


def test_a_demonstration_of_another_length_takes_no_signals(tmp_path: Path) -> None:
    """A clip's number may count from 1 where the file's counts from 0."""
    path = demo_file(tmp_path / "demos.hdf5")
    clips = [replace(clip, duration=7.0) for clip in clips_of(STEPS)]
    with pytest.raises(TempolocError, match=r"demo_0 lasts 5\.0 s, and stack/d0_demo0 7\.0 s: is it another clip's\?"):
        write_signals(path, clips, NAMES)


def test_other_names_missing_signals_and_damaged_files(tmp_path: Path) -> None:
    path = demo_file(tmp_path / "demos.hdf5")
    with pytest.raises(TempolocError, match=r"demo_0 has no signal 'grasp_1' in datagen_info.*, but grasp, release"):
        write_signals(path, clips_of(STEPS), ("grasp_1", "release"))
    with pytest.raises(TempolocError, match="demo_0 has no signal 'lift'; it has grasp, release"):
        read_signals(path, signals=["lift"])
    named = [replace(c, clip=c.clip.replace("demo", "x_") + "b") for c in clips_of(STEPS)]
    with pytest.raises(TempolocError, match="does not end in a demonstration's number"):
        write_signals(path, named, NAMES)
    with pytest.raises(TempolocError, match="are both demo_0: choose the clips of one file"):
        write_signals(path, [*clips_of(STEPS), replace(clips_of(STEPS)[0], clip="stack/d1_demo0")], NAMES)
    with pytest.raises(TempolocError, match="has no truth"):
        write_signals(path, [replace(c, events=tuple(map(Event, NAMES))) for c in clips_of(STEPS)], NAMES)
    cut = tmp_path / "cut.hdf5"
    cut.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(TempolocError, match=r"cut.hdf5 is not an HDF5 file, or it is cut off"):
        read_signals(cut)
    with pytest.raises(TempolocError, match=r"cannot read none.hdf5: No such file"):
        read_signals(tmp_path / "none.hdf5")
    with h5py.File(cut, "w") as file:
        file["x"] = 1
    with pytest.raises(TempolocError, match=r"cut.hdf5 holds no demonstrations"):
        read_signals(cut)
    with h5py.File(path, "r+") as file:
        file["data/demo_1/datagen_info/subtask_term_signals/grasp"][...] = 0
    with pytest.raises(TempolocError, match="demo_1: the signal 'grasp' never goes from 0 to 1"):
        read_signals(path)
    with h5py.File(path, "r+") as file:
        del file["data/demo_1/actions"]
    with pytest.raises(TempolocError, match="demo_1 has no actions"):
        write_signals(path, clips_of(STEPS), NAMES)


def test_what_is_no_group_is_no_demonstration(tmp_path: Path) -> None:
    for value, said in ((3, "demo_1 is not a demonstration"), (h5py.SoftLink("/gone"), "is damaged: ")):
        with h5py.File(path := demo_file(tmp_path / "demos.hdf5"), "r+") as file:
            del file["data/demo_1"]
            file["data/demo_1"] = value
        with pytest.raises(TempolocError, match=rf"demos\.hdf5:? {said}"):
            read_signals(path)


def test_links_in_a_circle_are_damage(tmp_path: Path) -> None:
    path = demo_file(tmp_path / "demos.hdf5")
    with h5py.File(path, "r+") as file:
        del file["data/demo_1/actions"]
        file["data/demo_1/actions"] = h5py.SoftLink("/data/demo_1/actions")
    with pytest.raises(TempolocError, match=r"^demos.hdf5 is damaged: .*"):
        write_signals(path, clips_of(STEPS), NAMES)


def test_objects_that_cannot_be_opened_are_damage(tmp_path: Path) -> None:
    path = demo_file(tmp_path / "demos.hdf5")
    with pytest.raises(TempolocError, match=r"^demos.hdf5 is damaged: "), opened_demos(path):
        raise KeyError("Unable to synchronously open object (message not aligned)")
    with pytest.raises(KeyError), opened_demos(path):
        raise KeyError("a name of ours")


def test_the_rate_is_told_where_the_file_does_not_say_it(tmp_path: Path) -> None:
    path = demo_file(tmp_path / "demos.hdf5")
    with h5py.File(path, "r+") as file:
        file["data"].attrs["env_args"] = json.dumps({"env_name": "Isaac", "type": 2})
    with pytest.raises(TempolocError, match="does not say its control rate"):
        read_signals(path)
    assert read_signals(path, rate=10)[0].boundaries == (2.0, 5.0)
    with h5py.File(path, "r+") as file:
        file["data"].attrs["env_args"] = json.dumps({"env_kwargs": {"control_freq": True}})
    with pytest.raises(TempolocError, match="control rate must be a positive number"):
        read_signals(path)


@pytest.mark.parametrize(("args", "message"), [
    ({"env_kwargs": {"control_freq": 50}, "sim_args": {"dt": 0.01, "decimation": 5}},
     r"demos.hdf5 says two control rates, 50 \(control_freq\) and 20 \(dt × decimation\): give it with --rate"),
    ({"env_kwargs": {"control_freq": 20000}}, r"control_freq makes 20000 .* not 0.5 to 1000: give it with --rate"),
    ({"env_kwargs": {"control_freq": 0.02}}, r"control_freq makes 0.02 .* not 0.5 to 1000: give it with --rate"),
    ({"sim_args": {"dt": 1e-5, "decimation": 2}}, r"dt × decimation makes 50000 .* not 0.5 to 1000: give it with"),
    ({"env_kwargs": {"control_freq": 20}, "sim_args": {"dt": 0, "decimation": 2}}, r"does not say its control rate"),
])  # fmt: skip
def test_rates_that_disagree_or_that_no_robot_has_are_refused(tmp_path: Path, args: Any, message: str) -> None:
    path = demo_file(tmp_path / "demos.hdf5")
    with h5py.File(path, "r+") as file:
        file["data"].attrs["env_args"] = json.dumps(args)
    with pytest.raises(TempolocError, match=message):
        read_signals(path)
    assert read_signals(path, rate=10)[0].boundaries == (2.0, 5.0)  # what is told decides


def test_two_rates_that_agree_are_one(tmp_path: Path) -> None:
    path = demo_file(tmp_path / "demos.hdf5")
    with h5py.File(path, "r+") as file:
        args = {"env_kwargs": {"control_freq": 30}, "sim_args": {"dt": 0.01667, "decimation": 2}}
        file["data"].attrs["env_args"] = json.dumps(args)
    assert {d.rate for d in read_signals(path)} == {30.0}


def test_signals_in_other_orders_want_an_order(tmp_path: Path) -> None:
    path = demo_file(tmp_path / "demos.hdf5", steps=[(20, 50), (50, 20), (20, 50)])
    with pytest.raises(TempolocError, match="come as grasp, release in demo_0, but as release, grasp in demo_1"):
        read_signals(path)
    with pytest.raises(TempolocError, match="demo_1: the signal 'release' never goes from 0 to 1"):
        read_signals(path, signals=NAMES)  # not after the grasp: MimicGen's rule


def test_only_some_demonstrations_and_new_signals_if_told(tmp_path: Path) -> None:
    path = demo_file(tmp_path / "demos.hdf5")
    write_signals(path, clips_of([(22, 52)]), NAMES, options=SignalOptions(some=True))
    assert [d.boundaries[0] for d in read_signals(path)] == [1.1, 1.25, 1.5]
    bare = demo_file(tmp_path / "bare.hdf5", bare=True)
    assert {d.boundaries for d in read_signals(bare)} == {()}
    with pytest.raises(TempolocError, match="but none: prepare the file with MimicGen"):
        write_signals(bare, clips_of(STEPS), NAMES)
    write_signals(bare, clips_of(STEPS), NAMES, options=SignalOptions(create=True))
    assert [d.boundaries for d in read_signals(bare)] == [d.boundaries for d in read_signals(demo_file(path))]
    three = [replace(c, events=(*c.events, Event("done", 4.9))) for c in clips_of(STEPS)]
    write_signals(bare, three, NAMES)  # the end of the last subtask has no signal


HOLD = "import h5py, sys, time\nf = h5py.File(sys.argv[1], sys.argv[2])\nprint('open', flush=True)\nsys.stdin.read()"


@pytest.mark.skipif(sys.platform == "win32", reason="no such locks on Windows")
@pytest.mark.parametrize("mode", ["r", "r+"])
def test_a_file_open_elsewhere_is_left_alone(tmp_path: Path, mode: str) -> None:
    path = demo_file(tmp_path / "demos.hdf5")
    before = path.read_bytes()
    command = [sys.executable, "-c", HOLD, str(path), mode]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(TempolocError, match=r"demos.hdf5 is open in another process: close it there and try again"):
            write_signals(path, clips_of(STEPS), NAMES)
        if mode == "r":
            assert len(read_signals(path)) == 3  # two may read
        else:
            with pytest.raises(TempolocError, match="open in another process"):
                read_signals(path)
        other.communicate("")
    assert path.read_bytes() == before
    assert write_signals(path, clips_of(STEPS), NAMES).demos == 3


def test_a_link_to_a_file_stays_a_link(tmp_path: Path) -> None:
    path = demo_file(tmp_path / "demos.hdf5")
    link = tmp_path / "link.hdf5"
    link.symlink_to(path)
    write_signals(link, clips_of([(22, 52)] * 3), NAMES)
    assert link.is_symlink()
    assert read_signals(path)[0].boundaries == (1.1, 2.6)


def test_clips_from_signals_and_names_of_demonstrations(tmp_path: Path) -> None:
    clips = _signal_clips(read_signals(demo_file(tmp_path / "d.hdf5")), "stack", ["grasping a", "releasing a"])
    assert clips[2].clip == "stack/demo_2"
    assert clips[2].events == (Event("grasping a", 1.5), Event("releasing a", 3.0))
    assert [*demos_of(clips)] == ["demo_0", "demo_1", "demo_2"]
    assert [*demos_of([Clip("stack/012", "stack", ())])] == ["demo_12"]
    assert [*demos_of([Clip("stack/7", "stack", (), extra={"demo": "demo_3"})])] == ["demo_3"]
    with pytest.raises(TempolocError, match="demo_0 needs one signal for each of 1 events"):
        _signal_clips(read_signals(tmp_path / "d.hdf5"), "stack", ["grasping a"])


def test_the_simulators_files_take_signals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    family = next(f for f in families() if f.key == "stack-three")
    labels = ["grasping the red cube", "releasing the red cube", "grasping the green cube"]
    times = {"grasp:A": 0.99, "release:A": 1.862, "grasp:B": 3.326}
    demo = {"actions": np.zeros((LENGTH, 7)), "states": np.ones((LENGTH, 9)), "model_file": "<mujoco/>"}
    meta = {"seed": 5, "labels": list(zip(labels, times, strict=True)), "instants": times}
    none = np.zeros(0)
    monkeypatch.setattr(sim_states, "load_episode", lambda path: SavedEpisode(meta, none, {}, none, none, demo))
    events = tuple(Event(n, t) for n, t in zip(labels, times.values(), strict=True))
    named = [Clip(f"stack-three/{i:03d}", "stack-three", events, duration=5.0) for i in (0, 1)]
    clips = [replace(clip, seed=i, instants=times) for i, clip in enumerate(named)]
    sim_states._write_states(tmp_path, family, clips)
    path = tmp_path / "hdf5" / "stack-three.hdf5"
    names = ("grasp_1", "release_1", "grasp_2")
    with pytest.raises(TempolocError, match="has no datagen_info yet: say the layout"):
        write_signals(path, clips, names)
    write_signals(path, clips, names, options=SignalOptions(layout="mimicgen", create=True))
    for d in read_signals(path):  # at its own control rate, which the file says
        assert np.abs(np.subtract(d.boundaries, tuple(times.values()))).max() <= 0.5 / 20
        assert (d.signals, d.rate) == (names, 20.0)


def test_a_mimicgen_configuration_gives_signals_and_offsets(tmp_path: Path) -> None:
    parts = [("grasp_1", [10, 20]), ("insert_1", [0, 5]), (None, None)]
    spec = {
        f"subtask_{i}": {"object_ref": "a", "subtask_term_signal": s, "subtask_term_offset_range": o}
        for i, (s, o) in enumerate(parts, 1)
    }
    path = tmp_path / "stack.json"
    path.write_text(json.dumps({"name": "stack", "task": {"name": None, "task_spec": spec}}))
    assert read_task_spec(path) == (("grasp_1", "insert_1"), ((10, 20), (0, 5)))
    path.write_text("{}")
    with pytest.raises(TempolocError, match="is not a MimicGen configuration"):
        read_task_spec(path)


def generators_accept(steps: Sequence[int], length: int, offsets: Sequence[tuple[int, int]]) -> bool:
    """MimicGen's own reading of signals, by its documentation: segments, then the worst offsets; Isaac Lab's, too.

    `make test-mimic` holds the rule against Isaac Lab's parser itself.
    """
    ends, before = [], 0
    for step in steps:
        found = rise_of(signal_of(step, length), before)
        if found is None:
            return False
        before = found + 1
        ends.append(before)
    ends.append(length)
    ranges = [*offsets, (0, 0)]
    if ends[0] + offsets[0][0] <= 0 or ends[-2] >= length:  # a subtask without a step: Isaac Lab's parser and generator
        return False
    return all(ends[i - 1] + ranges[i - 1][1] < ends[i] + ranges[i][0] for i in range(1, len(ends)))


@settings(max_examples=400)
@given(st.data(), st.integers(1, 4), st.integers(4, 30))
def test_the_rule_is_the_generators(data: st.DataObject, count: int, length: int) -> None:
    steps = data.draw(st.lists(st.integers(-1, length + 1), min_size=count, max_size=count))
    low = st.integers(-3, 3)
    lows = data.draw(st.lists(low, min_size=count, max_size=count))
    offsets = tuple((a, a + data.draw(st.integers(0, 3))) for a in lows)
    try:
        check_order("demo", steps, length, [str(i) for i in range(count)], offsets)
        accepted = True
    except TempolocError:
        accepted = False
    assert accepted == generators_accept(steps, length, offsets)


def test_without_h5py_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = demo_file(tmp_path / "demos.hdf5")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(TempolocError, match=r"h5py is not installed, which .* needs: pip install '.*\[data\]'"):
        read_signals(path)
