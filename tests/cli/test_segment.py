"""`tempoloc segment`: recordings to logs of all that happens, on the screen and in files."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.engines.protocol import row_seed
from tempoloc_nb.engines.qwen import video_rules
from tempoloc_nb.formats.lerobot import read_episodes, read_info
from tempoloc_nb.formats.lerobot_rows import events_of, read_subtasks
from tempoloc_nb.inference import asking
from tempoloc_nb.inference.store import answers_path
from tempoloc_nb.reviewer.sources import open_review
from tempoloc_nb.video.files import Image, encode
from tests.helpers.demo_files import image_file
from tests.helpers.fake_server import FakeServer
from tests.helpers.lerobot_folders import small_dataset
from tests.helpers.logging_engine import Logging, begin_of
from tests.helpers.tiny_models import qwen25

Run = Callable[..., tuple[int, str, str]]
SCRIPT = (
    (0.5, "arriving at the red cube"), (1.0, "missing the red cube"), (2.0, "grasping the red cube"),
    (4.0, "releasing the red cube"), (5.0, "grasping the red cube"),
)  # fmt: skip


def images(seconds: float = 7.0) -> list[Image]:
    return [np.full((64, 64, 3), 40 + k % 160, np.uint8) for k in range(round(10 * seconds))]


@pytest.fixture
def video(tmp_path: Path) -> Path:
    return encode(tmp_path / "demo.mp4", images(), 10)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Logging:
    """An engine in the place of every model, and no model known not to write logs."""
    made = Logging(SCRIPT)
    monkeypatch.setattr(asking, "_loaded", lambda *_: made)
    monkeypatch.setattr("tempoloc_nb.inference.segment.asked_model", lambda *_: ("logging-model", None, None))
    return made


def test_the_log_is_shown_and_written(run: Run, video: Path, engine: Logging, tmp_path: Path) -> None:
    for suffix in ("json", "csv", "vtt"):
        code, out, err = run("segment", video, "--trials", 2, "-o", tmp_path / f"log.{suffix}")
        assert code == 0, err
    assert out.splitlines() == [
        "demo.mp4 (7.0 s), logging-model, 2 answers",
        "     1.00 s  grasping the red cube   (missed, agreement 100%)",
        "     2.00 s  grasping the red cube   (agreement 100%)",
        "     4.00 s  releasing the red cube   (agreement 100%)",
        "     5.00 s  grasping the red cube for the second time   (agreement 100%)",
    ]
    assert "that have an event, and no probability" in err
    (found,) = json.loads((tmp_path / "log.json").read_text())
    assert [(e["boundary"], e["outcome"], e["occurrence"]) for e in found["events"]] == [
        (1.0, "missed", 1), (2.0, "succeeded", 1), (4.0, "unknown", 1), (5.0, "unknown", 2),
    ]  # fmt: skip
    rows = list(csv.DictReader((tmp_path / "log.csv").read_text().splitlines()))
    assert [(r["event"], r["boundary_s"], r["outcome"], r["occurrence"]) for r in rows][::3] == [
        ("grasping the red cube", "1.0", "missed", "1"), ("grasping the red cube", "5.0", "unknown", "2"),
    ]  # fmt: skip
    assert "grasping the red cube (missed)" in (tmp_path / "log.vtt").read_text()
    assert not list(tmp_path.glob("*.answers.jsonl"))


def test_windows_and_chosen_events(run: Run, video: Path, engine: Logging) -> None:
    chosen = ("--event", "releasing the red cube", "--event", "waving")
    code, out, err = run("segment", video, "--trials", 2, "--window", 3, *chosen)
    assert code == 0
    assert "asking logging-model about 3 windows, 2 trials each" in err
    assert out.splitlines()[1:] == [
        "     4.00 s  releasing the red cube   (agreement 100%)",
        "  dropped, as --event names others: 3 grasping the red cube", "  not in the log: waving",
    ]  # fmt: skip
    code, out, _ = run("segment", video, "--trials", 2, "--moments")
    assert (code, "     0.50 s  arriving at the red cube" in out) == (0, True)


def test_a_dataset_gets_a_copy_without_failed_attempts(run: Run, engine: Logging, tmp_path: Path) -> None:
    root = small_dataset(tmp_path / "set", [images(), images()])
    code, _, err = run("segment", root, "--trials", 2, "--write", "-o", tmp_path / "log.json")
    assert code == 0, err
    lines = [line.removeprefix("tempoloc: ") for line in err.splitlines()]
    assert lines[-1] == "set: 2 failed attempts are left out, which subtasks cannot hold"
    info = read_info(tmp_path / "set-subtasks")
    episodes = read_episodes(info)
    spans = read_subtasks(info, episodes)
    events = events_of(spans[0], episodes[0].length, info.fps)
    assert [(e.label, e.boundary) for e in events][:3] == [
        ("grasping the red cube", 2.0), ("releasing the red cube", 4.0),
        ("grasping the red cube for the second time", 5.0),
    ]  # fmt: skip
    record = json.loads((tmp_path / "set-subtasks" / "meta" / "tempoloc.json").read_text())
    assert record["source"] == "tempoloc segment with logging-model"
    found = json.loads((tmp_path / "log.json").read_text())
    assert [f["episode"] for f in found] == ["episode_000000", "episode_000001"]
    review = open_review(tmp_path / "log.json", output=tmp_path / "reviewed.jsonl")
    assert [c.labels for c in review.benchmark.clips] == [tuple(e.label for e in events[:3])] * 2
    assert str(review).endswith("; 2 failed attempts are left out, which no manifest holds")
    by, times = review.start(review.benchmark.clips[0])
    assert (by.startswith("logging-model"), times) == (True, (2.0, 4.0, 5.0))


def test_an_episode_with_a_gap_is_not_written(run: Run, engine: Logging, tmp_path: Path) -> None:
    engine.odd = lambda request, _: "nonsense" if begin_of(request) > 3 else None
    root = small_dataset(tmp_path / "set", [images()])
    code, out, err = run("segment", root, "--trials", 2, "--window", 3, "--write")
    assert (code, (tmp_path / "set-subtasks").exists()) == (1, False)
    assert "episode_000000 has parts without a log" in err
    assert "no certain log from " in out


def test_fusing_moves_grasps_to_the_gripper_and_says_so(run: Run, engine: Logging, tmp_path: Path) -> None:
    path = image_file(tmp_path / "demos.hdf5", [[image for image in images() for _ in "ab"]])
    actions = np.full((140, 7), -1.0)  # 20 a second
    actions[round(2.25 * 20) : round(3.75 * 20), -1] = 1.0
    with h5py.File(path, "r+") as file:
        file["data/demo_0/actions"][:] = actions
    code, out, err = run("segment", path, "--trials", 2, "--fuse", "--json")
    assert code == 0, err
    (found,) = json.loads(out)
    times = [e["boundary"] for e in found["events"]]
    assert times[1:3] == pytest.approx([2.25, 3.75], abs=0.06)
    assert found["model"] == "logging-model/fused"
    assert "the gripper moved " in err
    assert " of 4 events" in err


def test_answers_that_tell_nothing_are_a_result_and_a_line_says_what_a_person_can_do(
    run: Run, video: Path, engine: Logging, tmp_path: Path
) -> None:
    engine.odd = lambda *_: "Event 1: <1.0> <2.0> grasping the cup"
    for suffix in ("json", "csv", "vtt"):
        code, out, err = run("segment", video, "--trials", 2, "-o", tmp_path / f"log.{suffix}")
        why = (
            "2 of 2 logs cannot be read for certain: 'Event 1: <1.0> <2.0> grasping the cup' has two times that differ"
        )
        assert (code, out.splitlines()[1:]) == (0, [f"  {why}"])
        file = tmp_path / "log.json" if suffix == "json" else "FILE.json (after -o FILE.json)"
        said = "nothing could be told for certain of demo.mp4, and the same command would say the same"
        ways = f"mark the events yourself with tempoloc review {file}, or ask another --model"
        assert err.splitlines()[-1] == f"tempoloc: {said}: {ways}"
    assert "answers so far" not in err
    assert not list(tmp_path.glob("*.answers.*"))
    (row,) = csv.DictReader((tmp_path / "log.csv").read_text().splitlines())
    assert (row["event"], row["boundary_s"], row["status"]) == ("", "", why)
    assert f"NOTE {why}" in (tmp_path / "log.vtt").read_text()
    review = open_review(tmp_path / "log.json")
    assert review.start(review.clip("own/demo")) == ("logging-model at 8 fps, median of 2", ())


def test_only_where_asking_again_may_help_a_line_says_so(
    run: Run, video: Path, engine: Logging, tmp_path: Path
) -> None:
    encode(tmp_path / "other.mp4", images(), 10)
    engine.odd = lambda request, _: TempolocError("the server is ill") if "other" in request.clip else "nothing"
    command = ("segment", video, tmp_path / "other.mp4", "--trials", 2, "-o", tmp_path / "log.json")
    code, _, err = run(*command)
    assert code == 1
    assert (
        f"{tmp_path / 'log.json'}.answers.jsonl has the answers so far: the same command with --force asks only" in err
    )
    assert "nothing could be told for certain of demo.mp4, and" in err
    engine.odd = lambda *_: None
    engine.asked.clear()
    code, out, _ = run(*command, "--force")
    assert (code, {r.clip for r in engine.asked}, "2.00 s  grasping the red cube" in out) == (0, {"own/other"}, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--model", "tempoloc-tiny-base"), "tempoloc-tiny-base was not trained to write logs of events"),
        (("--write",), "demo.mp4 is a video, which holds no boundaries"),
        (("--fuse",), "demo.mp4 is a video, which has no gripper"),
        (("--inverted",), "gripper and inverted say how the gripper is read: fuse, too"),
        (("--window", "0"), "--window must be above 0"),
        (("--event", " "), "events must be one or more texts"),
        (("--prompt", "recipe"), "prompt recipe asks for listed events"),
        (("-o", "b.xlsx"), "ends in .csv, .vtt, .json, not to b.xlsx"),
        (("--camera", "front"), "only LeRobot datasets and HDF5 files have episodes and a camera"),
    ],
)
def test_a_slip_is_one_line_before_a_model_is_loaded(
    run: Run, video: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.setattr(asking, "_loaded", lambda *_: pytest.fail("a model was loaded"))
    code, out, err = run("segment", video, *arguments)
    assert (code, out, len(err.splitlines())) == (1, "", 1)
    assert message in err


def test_a_file_of_demonstrations_takes_no_log(run: Run, engine: Logging, tmp_path: Path) -> None:
    path = image_file(tmp_path / "demos.hdf5", [images()])
    code, _, err = run("segment", path, "--write")
    assert (code, engine.asked) == (1, [])
    assert "the signals of demos.hdf5 stand for events known beforehand, and a log has any" in err


def test_a_server_is_asked_about_each_window(run: Run, video: Path) -> None:
    """Each window is sent as a video of its own, and any form of a log is read."""
    forms = ('[{"time": 1.0, "event": "grasping the cup"}]', "```json\n[]\n```", "- **0:02** pouring")
    texts = {row_seed(0, f"own/demo at {2 * k}.00 s", 0): text for k, text in enumerate(forms)}
    with FakeServer(qwen25().name, rules=video_rules(qwen25()), text=lambda body: texts[body["seed"]]) as server:
        engine = ("--model", qwen25(), "--backend", "openai", "--server", server.url)
        shown = ("--window", 3, "--fps", 4, "--trials", 1, "--seed", 0)
        code, out, err = run("segment", video, *engine, *shown)
    assert code == 0, err
    assert out.splitlines()[1:] == ["     1.00 s  grasping the cup", "     6.00 s  pouring"]
    questions = [part["text"] for body in server.bodies for part in body["messages"][-1]["content"] if "text" in part]
    assert questions == ["List every event in the video, in the order of time, each with its time."] * 3


def test_without_a_model_a_dataset_is_cut_by_its_gripper(run: Run, tmp_path: Path) -> None:
    assert run("example", tmp_path / "example")[0] == 0
    dataset = tmp_path / "example" / "my_dataset"
    code, out, err = run("segment", dataset, "--by", "gripper", "--write", "-o", tmp_path / "cuts.json")
    assert code == 0, err
    assert out.splitlines()[0].endswith("episode_000000 (8.6 s), gripper signal")
    found = json.loads((tmp_path / "cuts.json").read_text())
    assert [e["label"] for e in found[0]["events"]] == ["close", "open"] * 2
    truth = json.loads((tmp_path / "example" / "clips.jsonl").read_text().splitlines()[0])["events"]
    for cut, event in zip(found[0]["events"], truth, strict=False):
        assert abs(cut["boundary"] - event["boundary"]) < 0.15
    info = read_info(dataset.with_name("my_dataset-subtasks"))
    episodes = read_episodes(info)
    spans = read_subtasks(info, episodes)[0]
    assert [(first, name.partition(" ")[0]) for first, name in spans] == [  # the first frame of each: no frame has none
        (0, "close"), (13, "open"), (26, "close"), (52, "open"), (67, "finishing"),
    ]  # fmt: skip
    record = json.loads((info.root / "meta" / "tempoloc.json").read_text())
    assert record["source"] == "tempoloc segment with gripper signal"


def test_cuts_leave_the_kept_answers_of_a_model_alone(run: Run, video: Path, tmp_path: Path) -> None:
    kept = answers_path(tmp_path / "log.csv")
    kept.write_text("answers of a model that was stopped\n")
    assert run("segment", video, "--by", "motion", "-o", tmp_path / "log.csv")[0] == 0
    assert kept.read_text() == "answers of a model that was stopped\n"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--by", "gripper"), "demo.mp4 is a video, which has no gripper: cut videos by motion"),
        (("--by", "motion", "--model", "tempoloc-tiny"), "tempoloc-tiny was not trained to name spans"),
        (("--by", "motion", "--verbs", "grasp"), "--verbs is for a model that names the cuts: give --model, too"),
        (("--by", "motion", "--event", "x"), "cuts by motion do not read --event: leave it out, or leave out --by"),
        (("--verbs", "grasp"), "--verbs is for names of cuts: give --by and --model, too"),
        (("--by", "motion", "--trials", "3"), "cuts by motion do not read --trials"),
        (("--by", "motion", "--fuse"), "cuts by motion do not read --fuse"),
        (("--by", "motion", "--event", "waving"), "cuts by motion do not read --event"),
        (("--by", "motion", "--write"), "demo.mp4 is a video, which holds no boundaries"),
    ],
)
def test_a_cut_reads_no_option_of_a_model(run: Run, video: Path, options: tuple[str, ...], words: str) -> None:
    code, out, err = run("segment", video, *options)
    assert (code, out) == (1, "")
    assert words in err
    assert err.count("\n") == 1
