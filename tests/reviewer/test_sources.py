"""Whatever people have can be reviewed."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tempoloc_nb as tl
from tempoloc_nb.clips.manifest import load_benchmark, write_manifest
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.formats.correction_files import export_csv
from tempoloc_nb.formats.found import write_found
from tempoloc_nb.formats.lerobot import read_info
from tempoloc_nb.formats.lerobot_rows import REST, read_annotations
from tempoloc_nb.formats.recordings import find_recordings
from tempoloc_nb.inference.found import Found, FoundEvent
from tempoloc_nb.reviewer.desk import Desk
from tempoloc_nb.reviewer.edits import Marked
from tempoloc_nb.reviewer.pages import reply, write_page
from tempoloc_nb.reviewer.sources import open_review
from tempoloc_nb.video.files import encode, read

LABELS = ("grasp", "lift")


def video(path: Path) -> Path:
    return encode(path, np.zeros((40, 32, 32, 3), np.uint8), fps=10)


def found(path: Path) -> Found:
    events = (FoundEvent("grasp", 1.1, "ok", 1.0, 0.1), FoundEvent("lift", None, "missing"))
    return Found(path, events, "m", 4.0, 4.0, ("Event 1: <1.1> <2.0> grasp", "Event 1: <1.2> <2.0> grasp"))


def test_what_was_found_is_reviewed_from_python_and_from_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    one = found(video(Path("videos/a.mp4")))
    write_found([one], Path("found.json"))
    for source in (one, [one], "found.json", tmp_path / "found.json"):
        review = open_review(source, who="Ada")
        assert review.start(review.clip("own/a")) == ("m at 4 fps, median of 2", (1.1, None))
        assert [t.text for t in review.answers["own/a"].trials] == list(one.texts)
    review.save("own/a", 0, [Marked("grasp", 1.1), Marked("lift", 2.0)])
    assert review.output == tmp_path / "found-reviewed.jsonl"
    (clip,) = tl.load_benchmark(review.output).clips
    assert clip.boundaries == (1.1, 2.0)
    assert clip.video_path(tmp_path).samefile("videos/a.mp4")
    monkeypatch.chdir("/")
    again = open_review(tmp_path / "found.json", output=tmp_path / "other.jsonl")  # it stands beside the videos
    assert again.source(again.clip("own/a")) == tmp_path / "videos" / "a.mp4"


def test_each_source_keeps_its_own_review(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two folders with videos of one name: nothing of one review is another's, and what to type is in the line."""
    for name in ("one", "two"):
        write_found([found(video(tmp_path / name / "a.mp4"))], tmp_path / f"{name}.json")
    write_manifest(tmp_path / "own.jsonl", load_benchmark("sim").clips[:1])
    monkeypatch.chdir(tmp_path)
    places = {}
    for source in ("one.json", "two.json", "one", "one/a.mp4", "own.jsonl"):
        marks = LABELS if source.startswith("one") and not source.endswith("json") else ()
        review = open_review(source, events=marks, who="Ada")
        if source != "own.jsonl":
            review.save("own/a", 0, [Marked("grasp", 1.1), Marked("lift", 2.0)])
        places[source] = str(review.output)
    assert places == {
        "one.json": "one-reviewed.jsonl", "two.json": "two-reviewed.jsonl",
        "one": str(tmp_path / "one/reviewed.jsonl"), "one/a.mp4": str(tmp_path / "one/a-reviewed.jsonl"),
        "own.jsonl": "own-reviewed.jsonl",
    }  # fmt: skip
    (tmp_path / "one-reviewed-2.jsonl").touch()
    before = Path("one-reviewed.jsonl").read_bytes()
    line = "one-reviewed.jsonl is no review of these clips: it holds own/a, but another video. Give another: -o "
    with pytest.raises(TempolocError) as told:
        open_review("two.json", output="one-reviewed.jsonl")
    assert str(told.value) == line + "one-reviewed-3.jsonl"
    assert Path("one-reviewed.jsonl").read_bytes() == before
    assert str(open_review("one.json")).startswith("1 of 1 clips reviewed")


def test_a_file_that_cannot_be_read_does_not_keep_the_others_closed(tmp_path: Path) -> None:
    video(tmp_path / "a.mp4")
    (tmp_path / "b.mp4").write_bytes(b"no video")
    lines = list[str]()
    desk = Desk(open_review(tmp_path, events=LABELS, who="Ada", say=lines.append))
    (line,) = lines
    assert "b.mp4: cannot be read as video" in line
    assert [c["clip"] for c in desk.queue()["clips"]] == ["own/a", "own/b"]
    problems = [desk.answer({"op": "clip", "index": i})["problem"] for i in (0, 1)]
    assert (problems[0], "b.mp4" in problems[1]) == ("", True)
    desk.review.save("own/a", 0, [Marked("grasp", 1.0), Marked("lift", 2.0)])
    assert str(open_review(tmp_path, events=LABELS)).startswith("1 of 2 clips reviewed")
    (tmp_path / "a.mp4").write_bytes(b"nor this")
    with pytest.raises(TempolocError, match=r"a\.mp4(.|\n)*b\.mp4"):
        open_review(tmp_path, events=LABELS)


def test_the_page_calls_a_share_what_it_is(tmp_path: Path) -> None:
    one, words = found(video(tmp_path / "a.mp4")), []
    log = (FoundEvent("grasp", 1.1, "ok", 1.0, 0.1, "unknown", 1),)
    for n, made in enumerate((one, replace(one, measured=True), replace(one, events=log))):
        path = tmp_path / f"{n}.json"
        write_found([made], path)
        for kept in ("measured", "earlier"):  # what earlier versions wrote does not say it
            desk = Desk(open_review(path, output=tmp_path / f"{n}{kept}.jsonl"))
            words.append(desk.answer({"op": "clip", "index": 0})["model"]["sure"])
            assert desk.queue()["sure"] == words[-1]
            path.write_text(
                path.read_text().replace('"measured": false', '"x": 0').replace('"measured": true', '"x": 0')
            )
    assert words == ["agreement", "confidence", "confidence", "confidence", "agreement", "agreement"]
    assert ["(agreement 100%)" in str(one), "(confidence 100%)" in str(replace(one, measured=True))] == [True, True]


def test_the_confidence_is_the_one_that_was_found(tmp_path: Path) -> None:
    """It is measured, or bound by control questions: not the share of trials that agree."""
    one = found(video(tmp_path / "a.mp4"))
    sure = (replace(one.events[0], confidence=0.28), one.events[1])
    write_found([replace(one, events=sure)], tmp_path / "found.json")
    desk = Desk(open_review(tmp_path / "found.json"))
    assert desk.answer({"op": "clip", "index": 0})["model"]["events"][0]["confidence"] == 0.28


def test_what_nobody_could_tell_is_not_proposed_as_absent(tmp_path: Path) -> None:
    """Each log alone may lack an event; where the logs have nothing in common, that says nothing of it."""
    one, log = found(video(tmp_path / "a.mp4")), "<think>\n0.50 grasping the can\n3.90 end\n</think>"
    events = (FoundEvent("grasping the nut", None, "missing"), FoundEvent("pushing the nut", None, "absent"))
    write_found([replace(one, events=events, texts=(log, log), form="log")], tmp_path / "found.json")
    shown = Desk(open_review(tmp_path / "found.json")).answer({"op": "clip", "index": 0})
    assert (shown["absent"], shown["missing"]) == ([False, True], ["grasping the nut"])
    assert [e["absent"] for e in shown["model"]["events"]] == [False, True]
    assert shown["confidence"] == 0.0


def test_texts_are_read_in_the_form_in_which_they_were_asked_for(tmp_path: Path) -> None:
    """A log is looked up; what answers say of parts has times of parts, which are nobody's here."""
    one, again = found(video(tmp_path / "a.mp4")), "grasping for the second time"
    text = f"<think>\n0.50 grasping 0.50\n1.10 {again} 1.10\n3.90 end\n</think>"
    events = (FoundEvent(again, 1.1, "ok"), FoundEvent("releasing", None, "absent"))
    log = replace(one, events=events, texts=(text,), form="log")
    for result, statuses in ((log, [("ok", "absent")]), (replace(log, form=None, texts=(text, text)), [])):
        write_found([result], file := tmp_path / f"{result.form}.json")
        for source in (result, file):
            review = open_review(source, output=tmp_path / "r.jsonl", who="Ada")
            assert [t.statuses for t in review.answers["own/a"].trials] == statuses
            assert review.start(review.clip("own/a"))[1] == (1.1, None)
    assert "form" not in json.loads(json.dumps(one.to_dict()))


def test_boundaries_that_the_gripper_moved_are_reviewed_not_the_models(tmp_path: Path) -> None:
    one = found(video(tmp_path / "a.mp4"))
    moved = replace(one, model="m/fused", events=(replace(one.events[0], boundary=1.37), one.events[1]))
    write_found([moved], tmp_path / "found.json")
    for source in (moved, tmp_path / "found.json"):
        review = open_review(source, output=tmp_path / "r.jsonl", who="Ada")
        assert review.start(review.clip("own/a")) == ("m/fused at 4 fps, median of 2", (1.37, None))


def test_what_was_found_in_a_dataset_goes_back_to_it(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from lerobot_folders import small_dataset

    root = small_dataset(tmp_path / "cups", [[np.zeros((32, 48, 3), np.uint8)] * 30] * 2)
    recordings = find_recordings([root])
    write_found([replace(found(tmp_path), video=r, duration=3.0) for r in recordings], tmp_path / "found.json")
    desk = Desk(open_review(tmp_path / "found.json", output=tmp_path / "r.jsonl", who="Ada"))
    desk.review.save("own/episode_000001", 0, [Marked("grasp", 1.0), Marked("lift", 2.0)])
    assert "1 episodes written" in desk.answer({"op": "export", "kind": "annotations", "index": 0})["note"]
    assert read_annotations(read_info(root)) == {1: [(0, "grasp"), (10, "lift"), (20, REST)]}


def test_a_log_is_reviewed_with_its_outcomes_and_what_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names, outcomes = ("grasping", "grasping", "releasing", "grasping"), ("missed", "succeeded", "unknown", "unknown")
    events = tuple(
        FoundEvent(label, t, "ok", 0.9, 0.1, outcome, k)
        for label, t, outcome, k in zip(names, (0.5, 1.0, 2.0, 3.0), outcomes, (1, 2, 1, 3), strict=True)
    )
    log = Found(video(Path("a.mp4")), events, "m", 4.0, 4.0, ("a log",), gaps=((3.2, 3.9),))
    nothing = Found(video(Path("b.mp4")), (), "m", 4.0, 4.0, ("nothing happens",))
    failed = Found(video(Path("c.mp4")), (), "m", 4.0, 0.0, error="no certain log")
    write_found([log, nothing, failed], Path("log.json"))
    for source in ([log, nothing, failed], "log.json"):
        desk = Desk(open_review(source, who="Ada"))
        shown = desk.answer({"op": "clip", "index": 0})
        assert shown["labels"] == ("grasping", "releasing", "grasping for the second time")
        assert [e["outcome"] for e in shown["model"]["events"]] == ["succeeded", "unknown", "unknown"]
        assert shown["model"]["failed"] == [{"label": "grasping", "boundary": 0.5, "outcome": "missed"}]
        assert [*map(tuple, shown["model"]["gaps"])] == [(3.2, 3.9)]
    for index in (1, 2):
        assert desk.answer({"op": "clip", "index": index})["labels"] == ()
        sent = [{"label": " a  push ", "boundary": 1.0, "was": None}]
        saved = desk.answer({"op": "save", "index": index, "revision": 0, "events": sent})
        assert saved["now"]["labels"] == ("a push",)
    clips = tl.read_manifest("log-reviewed.jsonl")
    assert [c.labels for c in clips[1:]] == [("a push",)] * 2
    write_found([log], Path("log.csv"))
    with pytest.raises(TempolocError, match=r"log\.csv says too little .* -o FILE\.json"):
        open_review("log.csv")


def test_a_file_that_find_did_not_write_is_named(tmp_path: Path) -> None:
    for text in ("{}", "[1]", '[{"video": "a.mp4"}]', "["):
        (tmp_path / "found.json").write_text(text)
        with pytest.raises(TempolocError, match=r"found\.json"):
            open_review(tmp_path / "found.json")
    with pytest.raises(TempolocError, match="two videos are called a"):
        open_review([found(tmp_path / "1" / "a.mp4"), found(tmp_path / "2" / "a.mp4")])


def test_videos_need_events_and_manifests_have_them(tmp_path: Path) -> None:
    video(tmp_path / "videos" / "a.mp4")
    for source in (tmp_path / "videos", tmp_path / "videos" / "a.mp4"):
        with pytest.raises(TempolocError, match="-e EVENT"):
            open_review(source)
        assert len(open_review(source, events=LABELS).names) == 1
    with pytest.raises(TempolocError, match="leave -e out"):
        open_review("sim", events=LABELS)


def test_a_shipped_benchmark_is_saved_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_review("sim").output == Path("sim-reviewed.jsonl")


def test_demonstrations_with_images_are_reviewed(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "demos.hdf5", "w") as file:
        file.create_group("data").attrs["env_args"] = json.dumps({"env_kwargs": {"control_freq": 20}})
        file["data/demo_0/actions"] = np.tile(np.repeat([-1.0, 1.0], 15)[:, None], (1, 7))
        file["data/demo_0/obs/agentview_image"] = np.zeros((30, 32, 32, 3), np.uint8)
    with pytest.raises(TempolocError, match="no events yet"):
        open_review(tmp_path / "demos.hdf5")
    review = open_review(tmp_path / "demos.hdf5", events=LABELS, who="Ada")
    review.save("demos/demo_0", 0, [Marked("grasp", 0.5), Marked("lift", 1.0)])
    (clip,) = tl.read_manifest(tmp_path / "demos-reviewed.jsonl")
    assert (clip.boundaries, clip.extra["demo"]) == ((0.5, 1.0), "demo_0")
    assert review.signals["demos/demo_0"].opening.shape == (30,)


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_until_it_is_ended(tmp_path: Path, ending: Any) -> None:
    video(tmp_path / "a.mp4")
    line = ["review", str(tmp_path), "-e", "grasp", "-e", "lift", "--no-open", "--who", "Ada"]
    run = [sys.executable, "-m", "tempoloc_nb", *line]
    with subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{20,}/", url)
        asked = {"op": "save", "index": 0, "revision": 0, "events": [
            {"label": "grasp", "boundary": 1.0}, {"label": "lift", "boundary": 2.0}]}  # fmt: skip
        request = urllib.request.Request(f"{url}ask", json.dumps(asked).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            assert json.load(answer)["line"]["saves"] == 1
        process.send_signal(ending)
        _, told = process.communicate(timeout=120)
    assert process.returncode == 0
    unsaved = f"tempoloc: 0 of 1 clips reviewed: nothing is saved, and a save will make {tmp_path}/reviewed.jsonl"
    assert told.splitlines()[0] == unsaved
    assert told.splitlines()[-1] == f"tempoloc: 1 of 1 clips reviewed: {tmp_path}/reviewed.jsonl"
    assert tl.read_manifest(tmp_path / "reviewed.jsonl")[0].boundaries == (1.0, 2.0)
    assert {p.name for p in tmp_path.iterdir()} == {"a.mp4", "reviewed.jsonl"}


def test_a_review_that_ends_without_a_save_says_so_and_so_does_the_next_command(tmp_path: Path) -> None:
    video(tmp_path / "a.mp4")
    line = ["review", str(tmp_path), "-e", "grasp", "--no-open", "--who", "Ada"]
    command = [sys.executable, "-m", "tempoloc_nb", *line]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=120)
    unsaved = f"tempoloc: {tmp_path}/reviewed.jsonl is not there: no clip was saved. Open the review again"
    assert told.splitlines()[-1].startswith(unsaved)
    with pytest.raises(TempolocError, match="tempoloc review makes it when the first clip is saved"):
        export_csv(tmp_path / "reviewed.jsonl", tmp_path / "boundaries.csv")


def second_camera(root: Path, name: str) -> None:
    """Give a small LeRobot dataset of version 3 another camera, which shows what the first does upside down."""
    import av
    import pyarrow.parquet as pq
    from lerobot_folders import CAMERA, FPS

    (first,) = root.glob(f"videos/{CAMERA}/*/*.mp4")
    with av.open(str(first)) as video:
        frames = [f.to_ndarray(format="rgb24")[::-1] for f in video.decode(video=0)]
    encode(root / "videos" / name / first.relative_to(root / "videos" / CAMERA), frames, FPS)
    info = json.loads((root / "meta/info.json").read_text())
    info["features"][name] = info["features"][CAMERA]
    (root / "meta/info.json").write_text(json.dumps(info))
    (path,) = root.glob("meta/episodes/*/*.parquet")
    table = pq.read_table(path)
    for column in [c for c in table.column_names if c.startswith(f"videos/{CAMERA}/")]:
        table = table.append_column(column.replace(CAMERA, name), table.column(column))
    pq.write_table(table, path)


@pytest.mark.parametrize("kind", ["hdf5", "lerobot"])
def test_a_recording_has_its_other_cameras(tmp_path: Path, kind: str) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra data)")
    pytest.importorskip("h5py", reason="h5py is not installed (extra data)")
    from demo_files import image_file
    from lerobot_folders import small_dataset

    dark_above = np.concatenate([np.full((24, 64, 3), 30, np.uint8), np.full((24, 64, 3), 220, np.uint8)])
    if kind == "hdf5":
        source, other = image_file(tmp_path / "demos.hdf5", [[dark_above] * 20] * 2), "robot0_eye_in_hand_image"
    else:
        source, other = small_dataset(tmp_path / "cups", [[dark_above] * 20] * 2), "observation.images.wrist"
        second_camera(source, other)
    review = open_review(source, events=LABELS, output=tmp_path / "r.jsonl")
    desk = Desk(review)
    assert desk.clip({"index": 1})["cameras"] == (other,)
    for camera, dark in (("", 0), (other, -1)):
        images = read(desk.footage({"index": 1, "camera": camera})).images
        assert images.shape == (20, 48, 64, 3)
        assert images[7, dark].mean() < 60 < 180 < images[7, -1 - dark].mean()
    files = [reply(desk, {"request": {"op": "video", "index": 1, "camera": c}})[1][0] for c in ("", other)]
    assert files[0] != files[1]
    with pytest.raises(TempolocError, match=f"did you mean {other}"):
        desk.footage({"index": 1, "camera": other[:-1]})
    write_page(review, tmp_path / "page")
    assert other not in (tmp_path / "page" / "index.html").read_text()  # one video of each clip goes along
    desk.media.close()


def test_a_video_has_no_other_camera(tmp_path: Path) -> None:
    desk = Desk(open_review(video(tmp_path / "a.mp4"), events=LABELS, output=tmp_path / "r.jsonl"))
    assert desk.clip({"index": 0})["cameras"] == ()
    with pytest.raises(TempolocError, match="unknown camera 'top'"):
        desk.footage({"index": 0, "camera": "top"})


@pytest.mark.parametrize("odd", [None, 3, ["a.mp4", "b.mp4"]])
def test_what_cannot_be_reviewed_is_named(odd: Any) -> None:
    with pytest.raises(TempolocError, match="a review is of one path, of clips, or of what localize found, not"):
        open_review(odd)
