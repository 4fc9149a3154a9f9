"""The example folder: what is in it is read by the package's own readers, and what a user has is never overwritten."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.clips.tasks import load_task
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.formats import example
from tempoloc_nb.formats.example import EVENTS, Example, write_example
from tempoloc_nb.formats.gripper import Reading, read_gripper, recording_signals
from tempoloc_nb.formats.lerobot import read_episodes, read_info
from tempoloc_nb.formats.recordings import Choice, find_recordings
from tempoloc_nb.inference.signals import find_transitions
from tempoloc_nb.video.files import probe


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Example:
    return write_example(tmp_path_factory.mktemp("newcomer") / "example")


def test_the_manifest_has_the_truth_of_the_videos(made: Example) -> None:
    found, sim = load_benchmark(made.folder / "clips.jsonl"), load_benchmark("sim")
    assert [c.labels for c in found.clips] == [EVENTS] * 3
    assert {key: task.events for key, task in found.tasks.items()} == {"green-cube": EVENTS}
    for clip in found.with_videos():
        (source,) = [c for c in sim.with_videos() if c.seed == clip.seed and c.task == "stack-three"]
        assert clip.boundaries == source.boundaries[:2]
        assert clip.video_path(found.root).read_bytes() == source.video_path(sim.root).read_bytes()
    assert len(found.with_videos()) == 3
    skills = load_task(made.folder / "skills.toml")
    assert skills.events[1::2] == EVENTS
    assert [s.end for s in skills.subtasks] == list(EVENTS)


@pytest.mark.parametrize(("name", "rate"), [("my_dataset", 10), ("demos.hdf5", 20)])
def test_the_gripper_of_dataset_and_file_moves_at_the_true_times(made: Example, name: str, rate: float) -> None:
    recordings = find_recordings([made.folder / name])
    truth = load_benchmark(made.folder / "clips.jsonl").clips
    signals = recording_signals(recordings, Reading())
    assert len(recordings) == len(truth) == 3
    for recording, clip in zip(recordings, truth, strict=True):
        assert clip.duration is not None
        assert probe(recording).duration == pytest.approx(clip.duration, abs=1.5 / rate)
        moves = [t.time for t in find_transitions(signals[recording])]
        for boundary in clip.boundaries:
            assert min(abs(time - boundary) for time in moves) < 0.15


@pytest.mark.parametrize("name", ["my_dataset", "demos.hdf5"])
def test_the_manifest_says_which_recording_each_clip_is(made: Example, name: str) -> None:
    truth = load_benchmark(made.folder / "clips.jsonl").clips
    signals = read_gripper(made.folder / name, truth)
    for clip in truth:
        moves = [t.time for t in find_transitions(signals[clip.clip])]
        assert all(min(abs(time - boundary) for time in moves) < 0.15 for boundary in clip.boundaries)


def test_an_episode_shows_what_the_video_shows(made: Example) -> None:
    """The episodes lie one after another in one file, each with as many rows as frames."""
    parts = find_recordings([made.folder / "my_dataset"], Choice(episode=(1,)))
    (shown,) = [next(iter(p.images([20]))) for p in parts if not isinstance(p, Path)]
    video = made.folder / "recordings" / "demo_02.mp4"
    from tempoloc_nb.video.files import read

    true = read(video, fps=10).images[20]
    assert np.abs(shown.astype(float) - true).mean() < 3
    info = read_info(made.folder / "my_dataset")
    rows = pd.read_parquet(made.folder / "my_dataset" / "data" / "chunk-000" / "file-000.parquet")
    assert rows.groupby("episode_index").size().tolist() == [e.length for e in read_episodes(info)]
    tasks = pd.read_parquet(made.folder / "my_dataset" / "meta" / "tasks.parquet")
    assert (tasks.index.name, tasks["task_index"].tolist()) == ("task", [0])


def test_a_demonstration_has_an_image_for_each_step(made: Example) -> None:
    with h5py.File(made.folder / "demos.hdf5") as file:
        assert list(file["data"]) == ["demo_0", "demo_1", "demo_2"]
        for demo in file["data"].values():
            assert demo["obs/agentview_image"].shape == (demo.attrs["num_samples"], 128, 128, 3)
            assert len(demo["actions"]) == demo.attrs["num_samples"]


def test_a_folder_with_a_dataset_in_it_is_no_folder_of_videos(made: Example) -> None:
    dataset = made.folder / "my_dataset"
    with pytest.raises(TempolocError) as told:
        find_recordings([made.folder])
    assert str(told.value).startswith(f"{made.folder} holds the LeRobot dataset {dataset}, whose video files may show")
    assert "\n" not in str(told.value)
    with pytest.raises(TempolocError, match=rf"is in the LeRobot dataset {dataset}, .*: give {dataset}$"):
        find_recordings([dataset / "videos"])
    assert len(find_recordings([made.folder / "recordings", dataset])) == 6


def test_what_is_there_is_kept(made: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    with pytest.raises(TempolocError, match="notes is there already: give the name of a new folder, or --force"):
        write_example(folder)
    with pytest.raises(TempolocError, match=r"notes holds mine\.txt, which would be lost"):
        write_example(folder, force=True, say=lambda line: pytest.fail(f"{line} before all was checked"))
    assert [p.name for p in folder.iterdir()] == ["mine.txt"]
    with pytest.raises(TempolocError, match=r"mine\.txt is no folder"):
        write_example(folder / "mine.txt")
    monkeypatch.chdir(folder)
    with pytest.raises(TempolocError, match="is the folder that you are in"):
        write_example(".", force=True)
    assert not list(tmp_path.glob("*.part*"))


def test_an_example_is_written_anew_unless_somebody_added_to_it(made: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    added = made.folder / "recordings" / "found.json"
    added.write_text("{}")
    with pytest.raises(TempolocError, match=r"holds recordings.found\.json, which would be lost"):
        write_example(made.folder, force=True)
    added.unlink()
    (made.folder / "clips.jsonl").write_text("")
    written = {p.relative_to(made.folder).as_posix() for p in made.folder.rglob("*") if p.is_file()}
    assert written == example._files(example._demos(), ())
    assert write_example(made.folder, force=True) == made
    assert len(load_benchmark(made.folder / "clips.jsonl").clips) == 3


def test_a_part_without_its_library_is_left_out_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str, *_: str) -> Any:
        raise TempolocError(f"{name} is not installed: pip install 'tempoloc_nb[data]'")

    monkeypatch.setattr(example, "import_optional", missing)
    done = write_example(tmp_path / "it's new")
    assert {p.name for p in done.folder.iterdir()} == {"recordings", "green-cube.toml", "skills.toml", "clips.jsonl"}
    assert done.left_out["demos.hdf5"] == (
        "left out: h5py is not installed: pip install 'tempoloc_nb[data]', then --force"
    )
    assert "my_dataset       left out: pyarrow is not installed" in str(done)
    assert shlex.split(done.commands[0])[:3] == ["tempoloc", "find", str(done.folder / "recordings")]
    json.dumps(dict(done.left_out))
    (done.folder / "demos.hdf5").write_text("of another time, with the library")
    with pytest.raises(TempolocError, match=r"holds demos\.hdf5, which would be lost"):
        write_example(done.folder, force=True)
