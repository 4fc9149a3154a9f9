"""`tempoloc dataset export|import|caption`, and the formats that are other modules' work."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from caption_server import CaptionServer
from places import ROOT
from typer.testing import CliRunner
from video_clips import scene, write_clip

from tempoloc_nb.cli.data import _HELP, app
from tempoloc_nb.clips.manifest import Clip, load_benchmark, write_manifest
from tempoloc_nb.clips.tasks import Event
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.formats.convert import FORMATS

TASK = 'key = "mug"\nevents = ["grasping the mug", "releasing the mug"]\nfps = 30.0\ntitle = "Mugs"\n'


def run(*arguments: str | Path, status: int = 0) -> str:
    """What a command prints; a `TempolocError` is raised as it is."""
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    if isinstance(done.exception, TempolocError):
        raise done.exception
    assert done.exit_code == status, (done.output, done.exception)
    return done.output


def mugs(folder: Path, times: tuple[tuple[float, float], ...] = ((1.0, 2.5), (1.2, 3.0))) -> Path:
    labels = ("grasping the mug", "releasing the mug")
    clips = [
        Clip(f"mug/demo_{i}", "mug", tuple(Event(*e) for e in zip(labels, pair, strict=True)), fps=30.0, duration=5.0)
        for i, pair in enumerate(times)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mug.toml").write_text(TASK)
    write_manifest(folder / "manifest.jsonl", clips)
    return folder / "manifest.jsonl"


# --- the commands ---


def test_there_and_back(tmp_path: Path) -> None:
    said = run("export", "cosmos", "sim", "-o", tmp_path / "t.jsonl", "--num-video-frames", "93", "--copy-videos")
    assert "30 clips; 365 left out, no video (stack-three/010, " in said
    assert "5 left out, fewer than 93 frames" in said
    said = run("import", "cosmos", tmp_path / "t.jsonl", "-o", tmp_path / "m.jsonl")
    assert said == f"{tmp_path / 'm.jsonl'}: 30 clips\n"
    assert len(load_benchmark(tmp_path / "m.jsonl").with_videos()) == 30


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("export", "cosmos", "nowhere", "-o", "x"), "unknown benchmark 'nowhere'"),
        (("export", "avi", "sim", "-o", "x"), "unknown format 'avi'"),
        (("export", "cosmos-reasoner", "nowhere", "-o", "x"), "nowhere: no such dataset"),
        (("import", "cosmos-reasoner", "sim", "-o", "x"), "unknown format 'cosmos-reasoner'"),
        (("import", "cvs", "sim", "-o", "x"), "unknown format 'cvs': did you mean csv?"),
        (("export", "sim", "-f", "csv", "-o", "x"), "as in tempoloc dataset export cosmos SOURCE -o OUTPUT"),
        (("export", "hdf5", "sim", "-o", "x"), "say the signals in order"),
        (("import", "cosmos", "nowhere.jsonl", "-o", "x"), "cannot read the cosmos file nowhere.jsonl"),
        (("import", "lerobot", "nowhere", "-o", "x"), "nowhere is not a LeRobot dataset"),
        (("import", "hdf5", "nowhere.hdf5", "-o", "x", "--task", "t"), "cannot read nowhere.hdf5"),
        (("export", "csv", "sim", "-o", "."), "is a folder: give the name of a file"),
        (("export", "cosmos", "sim", "-o", "/dev/null/x"), "cannot write /dev/null/x: /dev/null is no folder"),
        (("caption", "nowhere.mp4", "-o", "x", "--server", "http://localhost:1"), "no video at nowhere.mp4"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TempolocError) as error:
        run(*arguments)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("export", "cosmos", "sim", "-o", "x", "--style", "trl"), "No such option: --style"),
        (("export", "lerobot", "sim", "-o", "x"), "Missing option '--dataset'"),
        (("import", "csv", "x.csv", "-o", "x", "--manifest", "m"), "Missing option '--who'"),
        (("import", "hdf5", "x", "-o", "x", "--task", "t", "--layout", "robocasa"), "'--layout'"),
    ],
)
def test_a_format_has_its_own_options(arguments: tuple[str, ...], message: str) -> None:
    assert message in run(*arguments, status=2)


SIDES = {"export": "write", "import": "read"}
WAYS = [(name, side, command) for name in FORMATS for command, side in SIDES.items() if getattr(FORMATS[name], side)]


@pytest.mark.parametrize("command", SIDES)
def test_the_help_names_every_format(command: str) -> None:
    said = run(command, "--help")
    assert [name for name, _, way in WAYS if way == command and name not in said] == []


@pytest.mark.parametrize(("name", "side", "command"), WAYS)
def test_every_option_of_a_format_is_described(name: str, side: str, command: str) -> None:
    for option in FORMATS[name].options(side):
        assert _HELP[option]
    assert "--output" in run(command, name, "--help")


# --- captions ---


def test_captions_and_lines(tmp_path: Path) -> None:
    (tmp_path / "videos").mkdir()
    for name in ("ep0", "ep1"):
        write_clip(tmp_path / "videos" / f"{name}.mp4", 70)
    captions = tmp_path / "captions"
    with CaptionServer() as server:
        said = run("caption", tmp_path / "videos", "-o", captions, "--server", server.url, "--fps", "4", "--seed", "5")
        assert said == f"{captions}: 2 videos captioned, 0 kept\n"
        assert len(server.bodies) == 4
    run("export", "cosmos", captions, "-o", tmp_path / "t.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert [r["vision_path"] for r in rows] == ["videos/ep0.mp4", "videos/ep1.mp4"]


def test_failures_are_listed_and_the_status_says_so(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_clip(tmp_path / f"{name}.mp4", 20)
    with CaptionServer(lambda body, number: "400 no") as server:
        said = run("caption", tmp_path, "-o", tmp_path / "c", "--server", server.url, status=1)
    assert "tempoloc: a: " in said
    assert "0 videos captioned, 0 kept, 2 failed (see run.json)" in said


def test_ctrl_c_keeps_what_is_done(tmp_path: Path) -> None:
    for i in range(3):
        write_clip(tmp_path / f"v{i}.mp4", 20)
    code = f"from tempoloc_nb.cli.data import _HELP, app; app({['caption', str(tmp_path), '-o', str(tmp_path / 'c')]!r}"
    with CaptionServer(lambda body, number: "hang" if number >= 2 else "") as server:
        arguments = f" + ['--server', {server.url!r}, '--concurrency', '1'])"
        job = subprocess.Popen([sys.executable, "-c", code + arguments], cwd=ROOT, stderr=subprocess.DEVNULL)
        while len(server.bodies) < 3 and job.poll() is None:
            time.sleep(0.02)
        job.send_signal(signal.SIGINT)
        assert job.wait(timeout=120) != 0
    assert [p.name for p in sorted((tmp_path / "c").iterdir()) if p.is_dir()] == ["v0"]
    assert not list((tmp_path / "c").glob("*.lock"))
    with CaptionServer() as server:
        assert "2 videos captioned, 1 kept" in run("caption", tmp_path, "-o", tmp_path / "c", "--server", server.url)


# --- corrections ---


@pytest.mark.parametrize("form", ["csv", "vtt"])
def test_corrections_go_into_a_copy(form: str, tmp_path: Path) -> None:
    manifest = mugs(tmp_path / "in")
    labels = tmp_path / ("labels.csv" if form == "csv" else "labels")
    run("export", form, manifest, "-o", labels)
    changed = labels if form == "csv" else labels / "mug" / "demo_1.vtt"
    text = changed.read_text()
    changed.write_text(text.replace("1.2,", "1.4,", 1) if form == "csv" else text.replace("00:01.200", "00:01.400", 1))
    assert changed.read_text() != text
    said = run("import", form, labels, "-o", tmp_path / "out" / "m.jsonl", "--manifest", manifest, "--who", "Ada",
               "--why", "late")  # fmt: skip
    assert "1 boundaries of 1 clips changed" in said
    back = load_benchmark(tmp_path / "out" / "m.jsonl")
    assert [c.boundaries for c in back.clips] == [(1.0, 2.5), (1.4, 3.0)]
    assert back.clips[1].extra["corrections"][0]["who"] == "Ada"
    assert back.tasks["mug"].title == "Mugs"
    assert load_benchmark(manifest).clips[1].boundaries == (1.2, 3.0)


def test_a_models_answers_are_corrected(tmp_path: Path) -> None:
    manifest = mugs(tmp_path / "in")
    text = "<answer>Event 1: <1.1> <2.0> grasping the mug\nEvent 2: <2.0> <3.0> releasing the mug</answer>"
    row = {"clip": "mug/demo_0", "task": "mug", "model": "m", "fps": 8.0, "trial": 0, "text": text}
    (tmp_path / "p.jsonl").write_text(json.dumps(row) + "\n")
    said = run("export", "csv", manifest, "-o", tmp_path / "l.csv", "--predictions", tmp_path / "p.jsonl")
    assert "1 clips with their boundaries" in said
    assert "mug/demo_0,grasping the mug,1.1," in (tmp_path / "l.csv").read_text()


# --- demonstrations ---


def demo_file(path: Path) -> Path:
    h5py = pytest.importorskip("h5py", reason="h5py is not installed (extra data)")
    with h5py.File(path, "w") as file:
        file.create_group("data").attrs["env_args"] = json.dumps({"env_kwargs": {"control_freq": 20}})
        for i in range(2):
            demo = file.create_group(f"data/demo_{i}")
            demo["actions"] = np.zeros((100, 7))
            demo["datagen_info/subtask_term_signals/grasp"] = (np.arange(100) >= 10).astype(int)
    return path


def test_boundaries_into_a_file_of_demonstrations_and_out_again(tmp_path: Path) -> None:
    manifest, demos = mugs(tmp_path / "in"), demo_file(tmp_path / "demos.hdf5")
    before = demos.read_bytes()
    said = run("export", "hdf5", manifest, "-o", demos, "--signal", "grasp")
    assert "2 demonstrations; demos.hdf5: grasp in 2 demonstrations, 2 moved by up to 0.700 s" in said
    assert (tmp_path / "demos.hdf5.bak").read_bytes() == before
    run("import", "hdf5", demos, "-o", tmp_path / "out" / "m.jsonl", "--task", "jug", "--label", "grasping a jug")
    back = load_benchmark(tmp_path / "out" / "m.jsonl")
    assert [(c.clip, c.boundaries) for c in back.clips] == [("jug/demo_0", (1.0,)), ("jug/demo_1", (1.2,))]
    assert back.tasks["jug"].events == ("grasping a jug",)
    with pytest.raises(TempolocError, match="cup is a known task without the event 'grasp': choose another name"):
        run("import", "hdf5", demos, "-o", tmp_path / "m.jsonl", "--task", "cup")
    assert not (tmp_path / "m.jsonl").exists()


def test_mimicgens_own_configuration_names_signals_and_offsets(tmp_path: Path) -> None:
    manifest, demos = mugs(tmp_path / "in"), demo_file(tmp_path / "demos.hdf5")
    parts = {f"subtask_{i}": {"subtask_term_signal": name, "subtask_term_offset_range": [0, high]}
             for i, (name, high) in enumerate([("grasp", 10), ("release", 60), (None, 0)], 1)}  # fmt: skip
    (tmp_path / "core.json").write_text(json.dumps({"task": {"task_spec": parts}}))
    before = demos.read_bytes()
    with pytest.raises(TempolocError, match=r"demos\.hdf5: demo_0"):
        run("export", "hdf5", manifest, "-o", demos, "--task-spec", tmp_path / "core.json", "--create")
    assert demos.read_bytes() == before
    parts["subtask_2"]["subtask_term_offset_range"] = [0, 5]
    (tmp_path / "core.json").write_text(json.dumps({"task": {"task_spec": parts}}))
    run("export", "hdf5", manifest, "-o", demos, "--task-spec", tmp_path / "core.json", "--create", "--no-backup")
    assert not (tmp_path / "demos.hdf5.bak").exists()
    run("import", "hdf5", demos, "-o", tmp_path / "m.jsonl", "--task", "mug2", "--signal", "grasp", "--signal",
        "release")  # fmt: skip
    assert [c.boundaries for c in load_benchmark(tmp_path / "m.jsonl").clips] == [(1.0, 2.5), (1.2, 3.0)]


def test_demonstrations_without_signals_are_named(tmp_path: Path) -> None:
    demos = demo_file(tmp_path / "demos.hdf5")
    import h5py

    def bare(demo: str) -> str:
        with h5py.File(demos, "r+") as file:
            del file[f"data/{demo}/datagen_info/subtask_term_signals/grasp"]
        return run("import", "hdf5", demos, "-o", tmp_path / "m.jsonl", "--task", "jug")

    assert "2 clips; new tasks jug, see their .toml files; 1 without truth (jug/demo_0): find" in bare("demo_0")
    assert [c.labelled for c in load_benchmark(tmp_path / "m.jsonl").clips] == [False, True]
    (tmp_path / "m.jsonl").unlink()
    with pytest.raises(TempolocError, match="no demonstration has signals: name the events to be found with --label"):
        bare("demo_1")
    assert not (tmp_path / "m.jsonl").exists()


# --- LeRobot ---


def lerobot(root: Path, names: list[list[str]] | None = None) -> Path:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra data)")
    from lerobot_folders import small_dataset

    pictures: list[Any] = [list(scene(n, 64, 48, seed=n)) for n in (40, 50)]
    return small_dataset(root, pictures, names or [])


def test_subtasks_into_a_lerobot_dataset_and_out_again(tmp_path: Path) -> None:
    root = lerobot(tmp_path / "theirs")
    said = run("import", "lerobot", root, "-o", tmp_path / "clips", "--label", "grasping the mug", "--label",
               "releasing the mug", "--task", "mug")  # fmt: skip
    assert said == f"{tmp_path / 'clips' / 'manifest.jsonl'}: 2 clips\n"
    found = load_benchmark(tmp_path / "clips")
    assert [c.duration for c in found.with_videos()] == [4.0, 5.0]
    manifest = mugs(tmp_path / "in", ((1.0, 2.5), (1.2, 3.0)))
    text = manifest.read_text(encoding="utf-8")
    manifest.write_text(text.replace('"duration": 5.0', '"duration": 4.0', 1), encoding="utf-8")  # as the episode lasts
    said = run("export", "lerobot", manifest, "-o", tmp_path / "ours", "--dataset", root)
    assert "2 episodes; 6 subtasks (language)" in said
    run("import", "lerobot", tmp_path / "ours", "-o", tmp_path / "back", "--task", "mug")
    assert [c.boundaries for c in load_benchmark(tmp_path / "back").clips] == [(1.0, 2.5), (1.2, 3.0)]


def test_episodes_without_subtasks_are_told(tmp_path: Path) -> None:
    root = lerobot(tmp_path / "theirs")
    said = run("import", "lerobot", root, "-o", tmp_path / "clips", "--episode", "1")
    assert "1 clips; 1 without subtasks (theirs/episode_000001): name the events to be found with --label" in said
    assert os.listdir(tmp_path / "clips" / "videos" / "theirs") == ["episode_000001.mp4"]
