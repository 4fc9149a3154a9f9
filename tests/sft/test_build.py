"""A dataset holds every clip or says why not; the recipe's own way of loading finds its videos."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from typer.testing import CliRunner
from video_clips import write_audio, write_clip

from tempoloc_nb.cli import data as cli_dataset
from tempoloc_nb.clips.manifest import Clip, write_manifest
from tempoloc_nb.clips.tasks import Event
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.files import sole_writer
from tempoloc_nb.core.machine import file_hash
from tempoloc_nb.models.ask import load_prompt
from tempoloc_nb.sft import build as dataset_build
from tempoloc_nb.sft.build import (
    BuildOptions,
    Built,
    Source,
    _look_at,
    _read_response,
    build_dataset,
    from_manifest,
    from_recipe,
)
from tempoloc_nb.sft.dataset import Sample, chat_messages, dataset_stats, read_samples, stats_figure, stats_text
from tempoloc_nb.sft.learner import _sample_request
from tempoloc_nb.video.files import decode, probe, read
from tempoloc_nb.video.overlay import OverlayOptions, stamp_video

datasets = pytest.importorskip("datasets", reason="needs tempoloc_nb[data]")

TASK = 'key = "{}"\nevents = ["grasping the cube", "releasing the cube"]\nboundary_is = "{}"\n'
LATER = BuildOptions(stamping="later", split="train=1")


@pytest.fixture
def clips(tmp_path: Path) -> Path:
    """A manifest of six clips of two tasks, 2 s each, every video another."""
    folder = tmp_path / "clips"
    made = []
    for number in range(6):
        task = "mug" if number < 4 else "cup"
        name = f"videos/{number}.mp4"
        (folder / "videos").mkdir(parents=True, exist_ok=True)
        write_clip(folder / name, seed=number)
        events = (Event("grasping the cube", 0.5 + number / 10), Event("releasing the cube", 1.5))
        made.append(Clip(f"{task}/{number}", task, events, name, 30.0, duration=2.0, source="made", seed=number))
        (folder / f"{task}.toml").write_text(TASK.format(task, "start"))
    write_manifest(folder / "manifest.jsonl", made)
    return folder


def edit(folder: Path, number: int, **changed: Any) -> None:
    """Change fields of one line of the manifest."""
    lines = [json.loads(line) for line in (folder / "manifest.jsonl").read_text().splitlines()]
    lines[number] |= changed
    (folder / "manifest.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def build(folder: Path, options: BuildOptions = LATER, name: str = "out", **source: Any) -> Built:
    return build_dataset(from_manifest(folder, **source), folder.parent / name, options)


def refused(folder: Path, options: BuildOptions = LATER) -> str:
    """The one line with which a build stops; nothing is left where the dataset would be."""
    with pytest.raises(TempolocError) as caught:
        build(folder, options)
    assert not (folder.parent / "out").exists()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_recipes_script_finds_its_rows(clips: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `examples/post_training_hf/scripts/custom_sft.py` does: load, parse the JSON column, add vision settings."""
    built = build(clips, replace(LATER, split="train=0.5,validation=0.5"))
    monkeypatch.chdir(built.folder)
    for split, count in built.summary["splits"].items():
        dataset = datasets.load_from_disk(split)
        assert len(dataset) == count
        for index in range(count):
            conversation = json.loads(dataset[index]["conversations"])
            for message in conversation:
                for part in message["content"] if isinstance(message["content"], list) else []:
                    if part["type"] == "video":
                        part |= {"fps": 1, "max_pixels": 81920}
            system, user, assistant = conversation
            video, text = user["content"]
            assert os.path.isfile(video["video"]) and not os.path.isabs(video["video"])  # noqa: PT018
            assert isinstance(system["content"], str)
            assert text["text"] == load_prompt("recipe").question([e["label"] for e in dataset[index]["events"]])
            assert assistant["content"].startswith("<answer>\nEvent 1: <")


def test_rows_hold_what_is_in_the_files(clips: Path) -> None:
    built = build(clips)
    samples = read_samples(built.folder)
    assert [s.clip for s in samples] == ["mug/0", "mug/1", "mug/2", "mug/3", "cup/4", "cup/5"]
    for s in samples:
        path = built.folder / s.video
        info = probe(path)
        assert (s.duration, s.source_fps, s.fps) == (info.duration, info.fps, 8.0)
        assert s.video_sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
        assert Path(chat_messages(s, built.folder)[1]["content"][0]["video"]) == path
    assert built.summary == json.loads((built.folder / "summary.json").read_text())
    assert built.summary["tasks"] == {"mug": 4, "cup": 2}
    assert str(clips.parent) not in (built.folder / "summary.json").read_text()
    moved = built.folder.rename(clips.parent / "moved")
    assert all((moved / s.video).is_file() for s in read_samples(moved))


@pytest.mark.parametrize("stamps", ["frame", "pair", "alternate"])
def test_videos_are_stamped_as_inference_stamps(clips: Path, stamps: Any) -> None:
    built = build(clips, BuildOptions(fps=4, stamps=stamps, split="train=1"))
    first = read_samples(built.folder)[0]
    stamped, target = built.folder / first.video, clips / "expected.mp4"
    stamp_video(clips / "videos/0.mp4", target, OverlayOptions(fps=4, stamps=stamps))
    assert first.stamped
    assert _sample_request(first, built.folder).view.stamps == "none"
    assert first.video_sha256 == file_hash(stamped)
    assert stamped.read_bytes() == target.read_bytes()
    assert read(stamped, 4).images.shape[1] > 96


def test_stamped_once_and_as_told(clips: Path) -> None:
    plain = clips / "videos/0.mp4"
    stamp_video(plain, clips / "once.mp4", OverlayOptions(fps=8, stamps="pair"))
    (clips / "once.mp4").replace(plain)
    assert "mug/0: the video is stamped already" in refused(clips, BuildOptions(split="train=1"))
    assert "stamped already" in refused(clips, BuildOptions(split="train=1", stamps="none"))
    done = BuildOptions(split="train=1", stamping="done")
    assert "stamps are by pair, not frame" in refused(clips, done)
    assert "those at 8 fps, not at 4" in refused(clips, replace(done, stamps="pair", fps=4))
    assert build(clips, replace(done, stamps="pair")).summary["stamped"] is True


def test_alternating_stamps_fit_one_rate(clips: Path) -> None:
    plain, done = clips / "videos/0.mp4", BuildOptions(split="train=1", stamping="done")
    stamp_video(plain, clips / "once.mp4", OverlayOptions(fps=8, stamps="alternate"))
    (clips / "once.mp4").replace(plain)
    for other in ("frame", "pair"):
        assert f"stamps are by alternate, not {other}" in refused(clips, replace(done, stamps=other))
    assert "those at 8 fps, not at 4" in refused(clips, replace(done, stamps="alternate", fps=4))
    built = build(clips, replace(done, stamps="alternate"))
    assert built.summary["stamps"] == "alternate"
    assert {s.stamps for s in read_samples(built.folder)} == {"alternate"}


def test_labels_in_another_base_want_the_rate_of_their_video(clips: Path) -> None:
    edit(clips, 0, fps=5.0, label_fps=30.0, events=[{"label": "grasping the cube", "boundary": 0.2}])
    assert "converted for 5 fps and its video runs at 30: correct its fps" in refused(clips)
    edit(clips, 0, label_fps=None)
    assert build(clips).summary["kept"] == 6  # seconds of the video need no rate


def test_stamps_in_another_time_base(clips: Path) -> None:
    edit(clips, 0, label_fps=60.0, events=[{"label": "grasping the cube", "boundary": 0.5}])
    assert "labels count at 60 fps and its video runs at 30" in refused(clips, replace(LATER, stamping="done"))
    assert read_samples(build(clips, name="stamped-later").folder)[0].events[0].boundary == 1.0
    stamp_video(clips / "videos/1.mp4", clips / "odd.mp4", OverlayOptions(assume_fps=25))
    (clips / "odd.mp4").replace(clips / "videos/1.mp4")
    edit(clips, 0, label_fps=30.0)
    assert "stamps count frames at 25" in refused(clips, replace(LATER, stamping="done"))


def test_every_clip_left_out_is_counted(clips: Path) -> None:
    (clips / "videos/0.mp4").unlink()
    (clips / "videos/1.mp4").write_bytes(b"no video")
    write_audio(clips / "sound.mp4").replace(clips / "videos/2.mp4")
    edit(clips, 3, events=[{"label": "grasping the cube", "boundary": 1.5, "end": 2.5}])
    edit(clips, 4, events=[{"label": "grasping at <0.9>", "boundary": 0.9}])
    assert refused(clips).startswith(
        "5 of 6 samples cannot be used (--drop leaves them out): mug/0: videos/0.mp4 is not"
    )
    built = build(clips, replace(LATER, drop=True))
    assert {reason: sorted(found) for reason, found in built.summary["dropped"].items()} == {
        "no video": ["mug/0"], "video cannot be read": ["mug/1", "mug/2"], "boundary after the video": ["mug/3"],
        "question or name": ["cup/4"],
    }  # fmt: skip
    assert built.summary["kept"] + 5 == built.summary["candidates"] == 6
    assert "2 video cannot be read" in str(built)
    assert str(clips) not in json.dumps(built.summary)
    assert [p.name for p in (built.folder / "videos").rglob("*.mp4")] == ["5.mp4"]
    edit(clips, 5, video="gone.mp4")
    with pytest.raises(TempolocError, match="none of 6 clips can be used, such as mug/0"):
        build(clips, replace(LATER, drop=True), "again")


def test_a_damaged_middle_is_found_by_decoding(clips: Path) -> None:
    path = clips / "videos/0.mp4"
    write_clip(path, 60, (256, 192), options={"g": "10"})
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 1500] = np.random.default_rng(0).bytes(1500)
    path.write_bytes(data)
    with pytest.raises(TempolocError):
        list(decode(path))
    assert "mug/0" in refused(clips, replace(LATER, check_frames=True))
    built = build(clips, replace(LATER, check_frames=True, drop=True))
    assert list(built.summary["dropped"]["video cannot be read"]) == ["mug/0"]


def test_duplicates_are_found_by_content(clips: Path) -> None:
    copied = clips / "videos/1.mkv"
    with av.open(str(clips / "videos/0.mp4")) as old, av.open(str(copied), "w") as new:
        stream = new.add_stream_from_template(old.streams.video[0])
        for packet in old.demux(old.streams.video[0]):
            if packet.dts is not None:
                packet.stream = stream
                new.mux(packet)
    assert copied.read_bytes() != (clips / "videos/0.mp4").read_bytes()
    assert _look_at(copied).pictures == _look_at(clips / "videos/0.mp4").pictures
    truth = [{"label": "grasping the cube", "boundary": 0.5}, {"label": "releasing the cube", "boundary": 1.5}]
    edit(clips, 1, video="videos/1.mkv", events=truth)
    edit(clips, 2, video="videos/0.mp4")
    edit(clips, 3, video="videos/0.mp4", events=[{"label": "lifting the cube", "boundary": 0.7}])
    built = build(clips)
    assert built.summary["dropped"] == {
        "duplicate": {"mug/1": "has the pictures and the truth of mug/0"},
        "contradiction": {"mug/2": "has the pictures of mug/0 and other boundaries"},
    }
    assert [s.clip for s in read_samples(built.folder)] == ["mug/0", "mug/3", "cup/4", "cup/5"]


def test_one_video_is_never_in_two_splits(clips: Path) -> None:
    edit(clips, 1, video="videos/0.mp4", events=[{"label": "lifting the cube", "boundary": 0.7}], split="test")
    for number in (0, 2, 3, 4, 5):
        edit(clips, number, split="train")
    said = refused(clips, replace(LATER, split="split"))
    assert "mug/0 (train) and mug/1 (test) come from one demonstration or show one video" in said
    for number in range(6):
        split = {s.clip: s.split for s in read_samples(
            build(clips, replace(LATER, split="train=0.5,test=0.5", seed=number), f"out{number}").folder
        )}  # fmt: skip
        assert split["mug/0"] == split["mug/1"]


def test_sizes_conventions_digits(clips: Path) -> None:
    sizes = sorted((clips / f"videos/{n}.mp4").stat().st_size for n in range(6))
    built = build(clips, replace(LATER, max_bytes=sizes[3]))
    assert len(built.summary["dropped"]["too large"]) == 2
    (clips / "cup.toml").write_text(TASK.format("cup", "end"))
    with pytest.raises(TempolocError, match="choose one with --convention"):
        build(clips, LATER, "mixed")
    built = build(clips, replace(LATER, convention="end", digits=1, prompt="tiny"), "end")
    sample = read_samples(built.folder)[0]
    assert sample.answer == (
        "<answer>\nEvent 1: <0.0> <0.5> grasping the cube\nEvent 2: <0.5> <1.5> releasing the cube\n</answer>"
    )
    assert sample.system == load_prompt("tiny").system == built.summary["system"]


def test_rows_that_cannot_be_read_are_damage(clips: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte of a file that pyarrow maps into memory was changed."""

    class Rows:
        def __iter__(self) -> Any:
            raise SystemError("Negative size passed to PyUnicode_New")

    out = build(clips).folder
    monkeypatch.setattr("tempoloc_nb.sft.dataset.load_splits", lambda folder: {"train": Rows()})
    with pytest.raises(TempolocError, match=r"is damaged \(Negative size .*\): build it again"):
        read_samples(out)


def test_links_and_foreign_folders(clips: Path) -> None:
    (clips / "videos").rename(clips.parent / "elsewhere")
    with pytest.raises(TempolocError, match="6 of 6"):
        build(clips)
    (clips.parent / "elsewhere").rename(clips.parent / "root")
    (clips.parent / "root" / "videos").mkdir()
    for path in (clips.parent / "root").glob("*.mp4"):
        path.rename(path.parent / "videos" / path.name)
    built = build(clips, replace(LATER, link=True), video_root=clips.parent / "root")
    link = built.folder / "videos/mug/0.mp4"
    assert link.is_symlink()
    assert not os.path.isabs(os.readlink(link))
    assert link.read_bytes() == (clips.parent / "root/videos/0.mp4").read_bytes()
    with pytest.raises(TempolocError, match="cannot be links"):
        BuildOptions(link=True)


@pytest.mark.parametrize("name", ["mug/../../escaped", "mug/../0", "mug//etc/x"])
def test_a_clip_cannot_be_written_elsewhere(clips: Path, name: str) -> None:
    edit(clips, 0, clip=name)
    before = sorted(clips.parent.rglob("*"))
    if ".." in name:
        assert "not a path within" in refused(clips)
        assert sorted(clips.parent.rglob("*")) == before
    else:
        built = build(clips)
        assert {p for p in clips.parent.rglob("*.mp4") if p not in before} == set(built.folder.rglob("*.mp4"))


def test_fields_of_a_manifest(clips: Path) -> None:
    edit(clips, 1, durration=2.0)
    said = refused(clips)
    assert "clip mug/1: unknown field 'durration'" in said
    assert "--allow durration" in said
    assert build(clips, allowed=["durration"]).summary["kept"] == 6
    edit(clips, 1, placeholder=True)
    with pytest.raises(TempolocError, match="mug/1: nobody has labelled its events"):
        build(clips, name="more", allowed=["durration"])
    edit(clips, 1, placeholder=False, events=[])  # those of the task, without times
    with pytest.raises(TempolocError, match="mug/1: nobody has labelled its events"):
        build(clips, name="more", allowed=["durration"])


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([{"label": "a", "boundary": 1.5}, {"label": "b", "boundary": 0.5}], "boundaries must increase"),
        ([{"label": "a", "boundary": 0.5, "when": 3}], "has the unknown key 'when'"),
        ([{"label": "a", "boundary": float("nan")}], "NaN is not a JSON number"),
        ([{"label": "a", "boundary": "0.5"}], "is not a number"),
    ],
)
def test_wrong_truth(clips: Path, events: list[dict[str, Any]], said: str) -> None:
    edit(clips, 2, events=events)
    assert said in refused(clips)


def test_an_interrupted_build_goes_on(clips: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stamped: list[str] = []
    original = dataset_build.stamp_video

    def stop_at_third(source: Path, target: Path, *rest: Any, **named: Any) -> bool:
        if len(stamped) == 2:
            raise KeyboardInterrupt
        done = original(source, target, *rest, **named)
        stamped.extend([target.name] if done else [])
        return done

    monkeypatch.setattr(dataset_build, "cores", lambda: 1)
    monkeypatch.setattr(dataset_build, "stamp_video", stop_at_third)
    with pytest.raises(KeyboardInterrupt):
        build(clips, BuildOptions(split="train=1"))
    assert not (clips.parent / "out").exists()
    (clips.parent / "out.part/videos/old.mp4").touch()
    (clips.parent / "out.part/test").mkdir()
    monkeypatch.setattr(dataset_build, "stamp_video", original)
    times = {p: p.stat().st_mtime_ns for p in (clips.parent / "out.part").rglob("[01].mp4")}
    built = build(clips, BuildOptions(split="train=1"))
    assert len(times) == 2
    assert all(
        (built.folder / p.relative_to(clips.parent / "out.part")).stat().st_mtime_ns == t for p, t in times.items()
    )
    assert sorted(p.name for p in built.folder.iterdir()) == ["dataset_dict.json", "summary.json", "train", "videos"]
    assert not (clips.parent / "out.part").exists()
    assert not (built.folder / "videos/old.mp4").exists()


def test_a_full_disk_leaves_nothing(clips: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(dataset_build, "save_samples", full)
    with pytest.raises(TempolocError, match="No space left"):
        build(clips, BuildOptions(split="train=1"))
    assert not list(clips.parent.glob("out*"))


def test_a_full_disk_is_no_clips_fault(clips: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise TempolocError("a.mp4: cannot be encoded") from OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(dataset_build, "stamp_video", full)
    for drop in (False, True):
        with pytest.raises(TempolocError, match=r"^a\.mp4: cannot be encoded"):
            build(clips, BuildOptions(split="train=1", drop=drop))


def test_nothing_is_overwritten(clips: Path) -> None:
    (clips.parent / "out").mkdir()
    with sole_writer(clips.parent / "out"), pytest.raises(TempolocError, match="out is being written by process"):
        build(clips)
    first = build(clips).folder  # an empty folder is nothing
    (first / "mine").touch()
    with pytest.raises(TempolocError, match="out is there already: give another name, or --force to replace it"):
        build(clips)
    assert (first / "mine").is_file()


def test_a_disk_that_is_full(clips: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(dataset_build.shutil, "copyfile", full)
    assert "No space left on device" in refused(clips)


# The recipe's own files

SYSTEM = load_prompt("recipe").system


@pytest.fixture
def recipe(tmp_path: Path) -> tuple[Path, Path]:
    videos = tmp_path / "videos_ts"
    videos.mkdir()
    answers = {
        "coffee_d0_demo_2": "Event 1: <0.9> <1.5> grasping the pod\n",
        "nut_assembly_d0_demo_0": "Event 1: <0.4> <0.8> grasping the square nut\nEvent 2: <0.9> <1.2> inserting it",
        "wipe_demo_11": "Event 1: <0.5> <1.2> touching the table. | the sponge is down",
    }
    for number, demo in enumerate(answers):
        write_clip(videos / f"{demo.replace('demo_', 'demo')}_agentview.mp4", seed=number)
    stored = tmp_path / "formatted_prompts_and_responses.pkl"
    stored.write_bytes(pickle.dumps({"system_prompt": SYSTEM, "responses": answers}))
    return videos, stored


def change(stored: Path, **answers: Any) -> None:
    data = pickle.loads(stored.read_bytes())
    data["responses"] |= answers
    stored.write_bytes(pickle.dumps(data))


def samples_of(source: Source, out: Path, **changed: Any) -> list[Sample]:
    options = BuildOptions(**{"stamping": "done", "split": "train=1"} | changed)
    return read_samples(build_dataset(source, out, options).folder)


def test_the_recipes_files(recipe: tuple[Path, Path], tmp_path: Path) -> None:
    samples = samples_of(from_recipe(*recipe), tmp_path / "out")
    assert [s.clip for s in samples] == ["mimicgen-coffee/d0_demo2", "mimicgen-nut-assembly/d0_demo0", "wipe/demo11"]
    assert samples[0].answer == "<answer>\nEvent 1: <0.9> <1.5> grasping the pod\n</answer>"
    assert samples[1].events[0] == Event("grasping the square nut", 0.4, 0.4, 0.8)
    assert samples[2].labels == ("touching the table",)
    assert all(s.stamped and s.stamps == "frame" for s in samples)
    assert "<" not in samples[1].question
    assert json.loads((tmp_path / "out/summary.json").read_text())["source_system"] == "same"


def test_what_the_recipe_skips_in_silence(recipe: tuple[Path, Path], tmp_path: Path) -> None:
    videos, stored = recipe
    change(stored, square_d0_demo_1="Event 1: <1> <2> grasping", stack_d1_demo_3="Event 1: grasping it")
    write_clip(videos / "stack_d1_demo3_agentview.mp4", seed=9)
    write_clip(videos / "threading_d0_demo0_agentview.mp4", seed=10)
    source = from_recipe(*recipe)
    with pytest.raises(TempolocError, match="2 of 5 samples cannot be used"):
        samples_of(source, tmp_path / "out")
    samples_of(source, tmp_path / "out", drop=True)
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    assert summary["dropped"] == {
        "no video": {"mimicgen-square/d0_demo1": "square_d0_demo1_agentview.mp4 is not here"},
        "answer cannot be read": {
            "mimicgen-stack/d1_demo3": "stack_d1_demo_3: 'Event 1: grasping it' is not 'Event 1: <start> <end> label'"
        },
    }
    assert summary["unused_videos"] == ["threading_d0_demo0_agentview.mp4"]


@pytest.mark.parametrize(
    "text",
    [
        "", "grasping", "Event 1: 0.5 1.5 grasping", "Event 2: <0.5> <1.5> grasping", "Event 1: <0.5> <1.5>",
        "Event 1: <0.5> <1.5> a\nEvent 1: <1.5> <2> b", "Event 1: <0.9> <1.5> a\nEvent 2: <0.5> <1> b",
        "Event 1: <1.5> <0.5> a", "Event 1: <0.0> <0.5> a", "Event 1: <nan> <1> a",
    ],
)  # fmt: skip
def test_answers_that_are_none(text: str) -> None:
    with pytest.raises(TempolocError):
        _read_response(text)


def test_a_time_left_in_a_label(recipe: tuple[Path, Path], tmp_path: Path) -> None:
    change(recipe[1], coffee_d0_demo_2="Event 1: <0.9> <1.5> <0.9> grasping the pod")
    with pytest.raises(TempolocError, match=r"mimicgen-coffee/d0_demo2: the question holds the time '<0\.9>'"):
        samples_of(from_recipe(*recipe), tmp_path / "out")


class Hostile:
    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.made),)


def test_a_hostile_pickle_is_refused_and_runs_nothing(recipe: tuple[Path, Path], tmp_path: Path) -> None:
    made = tmp_path / "ran"
    pickle.loads(pickle.dumps(Hostile(made)))  # the weapon works
    made.rmdir()
    for data in (Hostile(made), {"system_prompt": SYSTEM, "responses": {"coffee_d0_demo_2": Hostile(made)}}):
        recipe[1].write_bytes(pickle.dumps(data))
        result = tempoloc("build", "--recipe-videos", recipe[0], "--recipe-pickle", recipe[1], "-o", tmp_path / "out")
        assert isinstance(result.exception, TempolocError)
        assert "it asks for posix.mkdir" in str(result.exception)
        assert not made.exists()
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("value", [[], {}, {"responses": {}}, {"responses": ["a"]}, "text"])
def test_pickles_of_another_shape(recipe: tuple[Path, Path], value: Any) -> None:
    recipe[1].write_bytes(pickle.dumps(value))
    with pytest.raises(TempolocError, match="has no answers"):
        from_recipe(*recipe)


def test_other_recipe_input(recipe: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(TempolocError, match="no such folder of videos"):
        from_recipe(tmp_path / "none", recipe[1])
    with pytest.raises(TempolocError, match=r"cannot read none\.pkl"):
        from_recipe(recipe[0], tmp_path / "none.pkl")
    change(recipe[1], coffee_d0_demo2="Event 1: <0.9> <1.5> grasping the pod")
    with pytest.raises(TempolocError, match="two answers for the clip mimicgen-coffee/d0_demo2"):
        from_recipe(*recipe)


# The command


def tempoloc(*arguments: Any) -> Any:
    return CliRunner().invoke(cli_dataset.app, [str(a) for a in arguments])


def test_build_and_stats(clips: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = tempoloc(
        "build", "--manifest", clips / "manifest.jsonl", "-o", out, "--fps", 4, "--stamps", "pair",
        "--stamping", "later", "--prompt", "tiny", "--split", "train=0.5,validation=0.5", "--seed", 3, "--digits", 1,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "6 samples (train 3, validation 3); left out: none" in result.output
    assert {(s.fps, s.stamps, s.stamped) for s in read_samples(out)} == {(4.0, "pair", False)}
    shown = tempoloc("stats", out, "--figure", tmp_path / "f.png").output
    assert shown.splitlines()[0].split()[:3] == ["split", "task", "clips"]
    assert (tmp_path / "f.png").stat().st_size > 1000
    failed = tempoloc("stats", out, "--figure", tmp_path / "f.png/none.png")
    assert str(failed.exception).startswith(f"cannot write {tmp_path}/f.png/none.png: ")
    told = json.loads(tempoloc("stats", out, "--json", "--split", "train").output)
    assert sum(row["clips"] for row in told) == 3
    assert told[0]["frames"] == {"least": 8, "median": 8, "most": 8}


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--manifest", "sim", "--recipe-videos", "v", "--recipe-pickle", "p"],
        ["--recipe-videos", "v"],
        ["--recipe-pickle", "p"],
        ["--recipe-videos", "v", "--recipe-pickle", "p", "--allow", "mine"],
        ["--manifest", "no-such-benchmark"],
        ["--manifest", "sim", "--fps", "0"],
        ["--manifest", "sim", "--digits", "9"],
        ["--manifest", "sim", "--prompt", "no-such-prompt", "--drop"],
        ["--manifest", "sim", "--split", "train=2"],
        ["--manifest", "sim", "--max-bytes", "0"],
    ],
)
def test_one_line_for_bad_options(arguments: list[str], tmp_path: Path) -> None:
    result = tempoloc("build", "-o", tmp_path / "out", *arguments)
    assert isinstance(result.exception, TempolocError)
    assert "\n" not in str(result.exception)


def test_stats_of_nothing(tmp_path: Path) -> None:
    assert "no such dataset" in str(tempoloc("stats", tmp_path / "none").exception)
    assert "not as f.jpg" in str(tempoloc("stats", tmp_path, "--figure", "f.jpg").exception)
    with pytest.raises(TempolocError, match="no samples"):
        dataset_stats([])


def test_stats_count_right(clips: Path) -> None:
    samples = read_samples(build(clips).folder)
    rows = dataset_stats(samples)
    assert [(r["task"], r["clips"], r["events"]["most"], r["duration"]["median"]) for r in rows] == [
        ("mug", 4, 2, 2.0),
        ("cup", 2, 2, 2.0),
    ]
    assert (rows[0]["subtask"]["least"], rows[0]["subtask"]["most"]) == (0.5, 1.0)
    assert stats_text(rows).splitlines()[1].split() == [
        "train",
        "mug",
        "4",
        "2",
        "2",
        "0.5",
        "/",
        "0.75",
        "/",
        "1",
        "16",
    ]
    figure = io.BytesIO()
    stats_figure(samples).savefig(figure, format="png")
    assert figure.tell() > 1000


@pytest.mark.parametrize("odd", ["clips.jsonl", Path("clips.jsonl"), None])
def test_what_is_no_source_is_named(tmp_path: Path, odd: Any) -> None:
    with pytest.raises(TempolocError, match="a source is what from_manifest or from_recipe gives, not"):
        build_dataset(odd, tmp_path / "out")


def test_folders_and_files_may_be_texts(tmp_path: Path) -> None:
    none = str(tmp_path / "none")
    for make in (lambda: from_manifest("sim", none), lambda: from_recipe(none, "p.pkl")):
        with pytest.raises(TempolocError, match="none: no such folder of videos"):
            make()
