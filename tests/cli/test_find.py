"""`tempoloc find`: from a stranger's video to boundaries, with no file but the video."""

from __future__ import annotations

import csv
import functools
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import tempoloc_nb
from tempoloc_nb.cli import find as command
from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.engines import hf
from tempoloc_nb.engines.hf import HFBackend
from tempoloc_nb.engines.protocol import Request, Response
from tempoloc_nb.formats.found import _found_csv, _found_vtt, found_json, write_found
from tempoloc_nb.formats.hdf5 import read_signals
from tempoloc_nb.inference import asking as finding
from tempoloc_nb.inference.found import Found, FoundEvent
from tempoloc_nb.models.ask import Sampling
from tempoloc_nb.video.files import read
from tests.helpers.demo_files import image_file
from tests.helpers.lerobot_folders import small_dataset

Run = Callable[..., tuple[int, str, str]]
EVENTS = ("-e", "grasping the green cube", "-e", "releasing the green cube", "-e", "grasping the blue cube")


@pytest.fixture
def video(tmp_path: Path) -> Path:
    """A shipped clip under another name."""
    benchmark = load_benchmark("sim")
    return Path(shutil.copy(benchmark.clips[0].video_path(benchmark.root), tmp_path / "demo.mp4"))


def test_events_are_those_of_a_reviewed_manifest(run: Run, video: Path, tmp_path: Path) -> None:
    """What a few reviewed clips have in common is asked for; an event that a clip lacks is none of its own."""
    asked = [{"label": label, "boundary": t} for label, t in (("grasping the green cube", 1.2), ("releasing it", 2.6))]
    manifest = tmp_path / "log-reviewed.jsonl"

    def write(*clips: list[dict[str, Any]]) -> None:
        rows = [{"clip": f"own/{i}", "task": "own", "duration": 8.5, "events": own} for i, own in enumerate(clips)]
        manifest.write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    asked[1]["label"] = "releasing the green cube"
    write(asked, [*asked, {"label": "grasping the red cube", "absent": True}])
    code, out, err = run("find", video, "--task", manifest, "--trials", 2)
    assert code == 0, err
    assert [line[12:].partition("   ")[0].strip() for line in out.splitlines()[1:]] == [e["label"] for e in asked]
    write(asked, asked, asked[:1])
    code, _, err = run("find", video, "--task", manifest)
    assert (code, err.count("\n")) == (1, 1)
    assert "other events each, grasping the green cube, releasing the green cube (2 clips) but grasping" in err
    manifest.write_text("")
    assert run("find", video, "--task", manifest)[0] == 1


def test_a_video_and_events_are_enough(run: Run, video: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "_PATIENCE", 1e9)  # a slow machine says how far it is
    code, out, err = run("find", video, *EVENTS, "--trials", 2, "-o", tmp_path / "b.csv")
    assert code == 0
    loading, trained, caution, calibrated, asking = err.splitlines()
    assert trained.startswith("tempoloc: tempoloc-tiny was trained on simulated robot arms")
    assert trained.endswith("clips of at most 37 s")
    assert "what its training never shows" in caution
    assert calibrated.startswith('tempoloc: its confidence was measured on the benchmark "which": at most ')
    most = float(calibrated.split("at most ")[1].split("%")[0])
    shown = [float(part.split("%")[0]) for part in out.split("(confidence ")[1:]]
    assert len(shown) == len(EVENTS) // 2
    assert max(shown) <= most <= 100
    assert loading == "tempoloc: loading tempoloc-tiny"
    assert asking == "tempoloc: asking tempoloc-tiny about 1 video, 2 trials each"
    assert out.startswith("demo.mp4 (8.5 s), tempoloc-tiny, 2 trials\n")
    assert [line.split("  ")[-1].split("   ")[0] for line in out.splitlines()[1:]]
    rows = list(csv.DictReader((tmp_path / "b.csv").read_text().splitlines()))
    truth = load_benchmark("sim").clips[0].boundaries
    assert [r["event"] for r in rows] == list(EVENTS[1::2])
    assert all(abs(float(r["boundary_s"]) - t) < 0.5 for r, t in zip(rows, truth, strict=True))


def test_a_folder_works_as_a_video_does(run: Run, video: Path, tmp_path: Path) -> None:
    """A file that is no video is a line on stderr and status 1; the other is answered."""
    (tmp_path / "torn.mp4").write_bytes(video.read_bytes()[:3000])
    code, out, err = run("find", tmp_path, *EVENTS, "--trials", 2, "--json", "-o", tmp_path / "b.json")
    assert code == 1
    assert all(line.startswith("tempoloc: ") for line in err.splitlines())
    assert len([line for line in err.splitlines() if "torn.mp4" in line]) == 1
    demo, torn = json.loads(out)
    assert json.loads((tmp_path / "b.json").read_text()) == [demo, torn]
    assert [e["status"] for e in demo["events"]] == ["ok"] * 3
    assert (demo["error"], bool(torn["error"])) == ("", True)
    assert demo["warnings"] == []
    assert demo["trained_on"] == torn["trained_on"]
    assert demo["trained_on"].endswith("clips of at most 37 s")


def test_a_file_of_demonstrations_goes_in_and_back(run: Run, video: Path, tmp_path: Path) -> None:
    """What is taken is told on stderr; the file's signals are the boundaries at its own control rate."""
    path = image_file(tmp_path / "demos.hdf5", [list(read(video, fps=20).images[:115])] * 2)
    signals = ("--signal", "grasp_1", "--signal", "release_1")
    code, out, err = run("find", path, *EVENTS, "--trials", 2, "--json", "--write", *signals, "-o", tmp_path / "b.csv")
    assert code == 0
    told = [line.removeprefix("tempoloc: ") for line in err.splitlines()]
    assert told[0].startswith("demos.hdf5: 2 of 2 demonstrations, 20 frames a second, camera agentview_image; not")
    assert told[-1].startswith("demos.hdf5: grasp_1, release_1 in 2 demonstrations")
    found = json.loads(out)
    assert [(f["video"], f["episode"], f["camera"]) for f in found] == [
        (str(path), f"demo_{k}", "agentview_image") for k in (0, 1)
    ]
    rows = list(csv.DictReader((tmp_path / "b.csv").read_text().splitlines()))
    assert [r["episode"] for r in rows] == ["demo_0"] * 3 + ["demo_1"] * 3
    for f, written in zip(found, read_signals(path), strict=True):
        times = [e["boundary"] for e in f["events"]][:2]
        assert written.boundaries == pytest.approx(times, abs=0.5 / 20)
    code, _, err = run("find", path, *EVENTS, "--episode", "demo_2")
    assert (code, len(err.splitlines())) == (1, 1)
    assert "has no episode 'demo_2'" in err


def test_a_dataset_goes_in_and_each_answer_comes_at_once(
    run: Run, video: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = list(read(video, fps=10).images[:20])
    root = small_dataset(tmp_path / "set", [frames] * 3)
    shown: list[str] = []
    monkeypatch.setattr(command, "show", lambda text, _: shown.append(text))
    answer, seen = hf._answer, list[int]()
    monkeypatch.setattr(hf, "_answer", lambda *a: (seen.append(len(shown)), answer(*a))[1])
    chosen = ("--episode", 0, "--episode", 2, "--camera", "front")
    code, _, err = run("find", root, *EVENTS, "--trials", 2, "--batch", 2, *chosen)
    assert code == 0, err
    assert [text.partition(" ")[0] for text in shown] == ["set/episode_000000", "set/episode_000002"]
    assert seen == [0, 1]


OUT_OF_ORDER = ("0.50 s: releasing the green cube", "1.00 s: grasping the green cube", "3.00 s: grasping the blue cube")


@dataclass
class Stopping:
    """An engine that says 1 s, 2 s and 3 s of every video, until one whose name it cannot do; each model is counted."""

    stop: str = ""
    error: BaseException = field(default_factory=KeyboardInterrupt)
    name: str = "fake"
    model: str = "tempoloc-tiny"
    asked: list[str] = field(default_factory=list)

    def settings(self) -> dict[str, Any]:
        return {}

    def stream(self, requests: Sequence[Request], _: Sampling) -> Iterator[tuple[Request, list[Response]]]:
        for request in requests:
            if request.clip == self.stop:
                raise self.error
            self.asked.append(request.clip)
            text = "\n".join(f"{i}.00 s: {label}" for i, label in enumerate(EVENTS[1::2], 1))
            yield request, [Response(t, text, 7, "stop", 9, 9, 9, request.fps, 0.25) for t in request.trials]


@pytest.fixture
def four(video: Path, tmp_path: Path) -> Path:
    """A folder of four videos."""
    folder = tmp_path / "recordings"
    folder.mkdir()
    for name in "abcd":
        shutil.copy(video, folder / f"{name}.mp4")
    return folder


def test_times_out_of_order_are_one_line_and_are_not_written_back(
    run: Run, video: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Backwards(Stopping):
        def stream(self, requests: Sequence[Request], _: Sampling) -> Iterator[tuple[Request, list[Response]]]:
            for request, responses in super().stream(requests, _):
                yield request, [replace(r, text="\n".join(OUT_OF_ORDER)) for r in responses]

    monkeypatch.setattr(finding, "_loaded", lambda *_: Backwards())
    path = image_file(tmp_path / "demos.hdf5", [list(read(video, fps=10).images)], signals=("grasp", "release"))
    before = path.read_bytes()
    code, out, err = run("find", path, *EVENTS, "--write", "--json")
    line = "the times are not in the order asked: releasing the green cube (0.50 s) is before grasping the green cube"
    assert (code, path.read_bytes() == before) == (1, True)
    assert [f["warnings"][0].startswith(line) for f in json.loads(out)] == [True]
    assert len([text for text in err.splitlines() if text.startswith(f"tempoloc: demos.hdf5/demo_0: {line}")]) == 1
    assert "demos.hdf5: nothing was written" in err
    root = small_dataset(tmp_path / "set", [list(read(video, fps=10).images)])
    code, out, err = run("find", root, *EVENTS, "--write")
    assert (code, (tmp_path / "set-subtasks").exists(), out.count(line)) == (1, False, 1)
    assert "set: nothing written, 1 of 1 episodes are not whole" in err


@pytest.mark.parametrize("error", [KeyboardInterrupt(), TempolocError("the engine is gone")])
def test_a_run_that_ends_early_goes_on(
    run: Run, four: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    out = tmp_path / "out.csv"
    command = ("find", four, *EVENTS, "--trials", 2, "-o", out)
    engines = iter([Stopping("own/c", error), second := Stopping(), third := Stopping()])
    monkeypatch.setattr(finding, "_loaded", lambda *_: next(engines))
    code, _, err = run(*command)
    assert code == (130 if isinstance(error, KeyboardInterrupt) else 1)
    assert f"{out}.answers.jsonl has the answers so far: the same command asks only for the others" in err
    assert not out.exists()
    code, _, err = run(*command, "--seed", 5)
    assert (code, err.count("\n")) == (1, 1)
    assert "other settings (sampling)" in err
    code, _, err = run(*command)
    assert (code, [*dict.fromkeys(second.asked)]) == (0, ["own/c", "own/d"])
    assert "2 of 4 videos are answered already" in err
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [(Path(r["video"]).name, r["boundary_s"]) for r in rows] == [
        (f"{v}.mp4", t) for v in "abcd" for t in ("1.0", "2.0", "3.0")
    ]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["demo.mp4", "out.csv", "recordings"]
    assert run(*command, "--force")[0] == 0
    assert len({*third.asked}) == 4


def test_answers_outlive_an_output_that_cannot_be_written(
    run: Run, four: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines = iter([Stopping(), again := Stopping()])
    monkeypatch.setattr(finding, "_loaded", lambda *_: next(engines))
    out = tmp_path / "out.json"

    def full(*_: object, **__: object) -> None:
        raise TempolocError("cannot write out.json: No space left on device")

    monkeypatch.setattr("tempoloc_nb.formats.found.write_found", full)
    code, _, err = run("find", four, *EVENTS, "-o", out)
    assert (code, err.splitlines()[-1]) == (1, "tempoloc: cannot write out.json: No space left on device")
    monkeypatch.setattr("tempoloc_nb.formats.found.write_found", write_found)
    assert run("find", four, *EVENTS, "-o", out)[0] == 0
    assert again.asked == []
    assert [Path(f["video"]).name for f in json.loads(out.read_text())] == ["a.mp4", "b.mp4", "c.mp4", "d.mp4"]


def test_only_what_failed_is_asked_again(run: Run, four: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engines = iter([Stopping(), again := Stopping()])
    monkeypatch.setattr(finding, "_loaded", lambda *_: next(engines))
    good = (four / "b.mp4").read_bytes()
    (four / "b.mp4").write_bytes(good[:2000])
    code, out, err = run("find", four, *EVENTS, "-o", tmp_path / "out.csv")
    assert (code, "b.mp4" in out) == (1, False)
    assert len([line for line in err.splitlines() if "b.mp4" in line]) == 1
    assert err.splitlines()[-1].endswith("the same command with --force asks only for the others")
    (four / "b.mp4").write_bytes(good)
    assert run("find", four, *EVENTS, "-o", tmp_path / "out.csv", "--force")[0] == 0
    assert {*again.asked} == {"own/b"}


def test_what_is_no_video_loads_no_model(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "_loaded", lambda *_: pytest.fail("a model was loaded"))
    (tmp_path / "notes.mp4").write_text("no video")
    code, out, err = run("find", tmp_path / "notes.mp4", *EVENTS, "-o", tmp_path / "out.csv")
    assert (code, out, len(err.splitlines())) == (1, "", 1)
    assert "notes.mp4" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "say what to find: --event"),
        (("-e", "x", "--task", "stack-two"), "say what to find: --event"),
        (("--task", "stack-tow"), "unknown task 'stack-tow': did you mean stack-two?"),
        (("--task", "stack-two"), "leaves a place open"),
        (("-e", "x", "--model", "tempoloc-tinny"), "unknown model 'tempoloc-tinny': did you mean tempoloc-tiny?"),
        (("-e", "x", "--backend", "vlm"), "unknown backend 'vlm': did you mean vllm?"),
        (("-e", "x", "--prompt", "recipee"), "unknown prompt 'recipee': did you mean recipe?"),
        (("-e", "x", "--preset", "crad"), "unknown preset 'crad': did you mean card?"),
        (("-e", "x", "--structured", "regexp"), "unknown structured output 'regexp'"),
        (("-e", "x", "--server", "http://localhost:1"), "servers is an option of openai, not of hf"),
        (("-e", "x", "--backend", "vllm", "--batch", 2), "batch is an option of hf, not of vllm"),
        (("-e", "x", "-o", "b.xlsx"), "ends in .csv, .vtt, .json, not to b.xlsx"),
        (("-e", "x", "-o", "nowhere/b.csv"), "its folder is not there"),
        (("-e", "x", "--fps", "nan"), "--fps must be above 0, got nan"),
        (("-e", "x", "--temperature", "inf"), "--temperature must be 0 or more, got inf"),
        (("-e", "x", "--trials", 0), "--trials must be 1 or more, got 0"),
        (("-e", "x", "--seed", -1), "--seed must be 0 or more, got -1"),
        (("-e", "x", "--camera", "front"), "only LeRobot datasets and HDF5 files have episodes and a camera"),
        (("-e", "x", "--write"), "demo.mp4 is a video, which holds no boundaries: write them with -o FILE.csv"),
        (("-e", "x", "--signal", "grasp"), "--signal names what --write writes: give --write, too"),
    ],
)
def test_a_slip_is_one_line_before_a_model_is_loaded(
    run: Run, video: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[object, ...], message: str
) -> None:
    loads = functools.wraps(HFBackend.__init__)(lambda *_, **__: pytest.fail("a model was loaded"))
    monkeypatch.setattr(HFBackend, "__init__", loads)
    code, out, err = run("find", video, *arguments)
    assert (code, out) == (1, "")
    assert message in err
    assert len(err.splitlines()) == 1


# --- files ---


def found(*times: float | None, name: str = "a.mp4") -> Found:
    events = tuple(FoundEvent(f"event {i}", t, "ok" if t is not None else "missing") for i, t in enumerate(times, 1))
    return Found(Path(name), events, "m", 9.0, 8.0, ("…",))


def test_what_was_not_said_is_an_empty_cell() -> None:
    assert _found_csv([found(1.23456, None)]).splitlines() == [
        "video,event,boundary_s,confidence,status", "a.mp4,event 1,1.2346,,ok", "a.mp4,event 2,,,missing",
    ]  # fmt: skip


def test_what_is_not_in_the_video_is_told_from_what_is_missing() -> None:
    one = found(1.5, None)
    one = replace(one, events=(*one.events, FoundEvent("lifting", None, "absent", 0.8)))
    assert _found_csv([one]).splitlines()[2:] == ["a.mp4,event 2,,,missing", "a.mp4,lifting,,0.8,absent"]
    assert "NOTE event 2: missing\n\nNOTE lifting: not in the video\n\n" in _found_vtt([one])
    assert json.loads(found_json([one]))[0]["events"][2]["status"] == "absent"
    assert "     absent  lifting   (not in the video, agreement 80%)" in str(one)
    assert one.to_pandas()["status"].tolist() == ["ok", "missing", "absent"]
    whole = replace(one, events=(one.events[0], one.events[2]))
    assert whole.clip.absent == ("lifting",)
    with pytest.raises(TempolocError, match="has no boundary for event 2:"):
        _ = one.clip


def test_subtitles_are_of_one_video(tmp_path: Path) -> None:
    assert _found_vtt([found(1.5, None, 3661.25)]).split("\n\n")[1:] == [
        "NOTE event 2: missing",
        "00:00:00.000 --> 00:00:01.500\nevent 1", "00:00:01.500 --> 01:01:01.250\nevent 3\n",
    ]  # fmt: skip
    with pytest.raises(TempolocError, match="subtitles are of one video, not of 2"):
        write_found([found(1.0), found(2.0, name="b.mp4")], tmp_path / "x.vtt")
    assert list(tmp_path.iterdir()) == []


def test_fusing_moves_each_event_to_the_gripper_of_the_file(run: Run, tmp_path: Path) -> None:
    """The command closes and opens between two frame pairs of the model, and says when to a control step."""
    sim = load_benchmark("sim")
    clip = sim.clips[0]
    images = read(clip.video_path(sim.root), fps=20).images[:115]  # to half a second after its third event
    path = image_file(tmp_path / "demos.hdf5", [images])
    closed, opened, again = (round(20 * t) for t in clip.boundaries)
    with h5py.File(path, "r+") as file:
        actions = np.full((len(images), 7), -1.0)
        actions[closed:opened, -1] = actions[again:, -1] = 1.0
        file["data/demo_0/actions"][:] = actions
    code, out, err = run("find", path, *EVENTS, "--trials", 2, "--fuse", "--json")
    assert (code, "the gripper moved 3 of 3 events" in err) == (0, True)
    (found,) = json.loads(out)
    assert found["model"] == "tempoloc-tiny/fused"
    assert [e["boundary"] for e in found["events"]] == pytest.approx([closed / 20, opened / 20, again / 20], abs=0.051)
    again_found = tempoloc_nb.localize(path, EVENTS[1::2], trials=2, fuse=True)
    assert [e["boundary"] for e in found["events"]] == pytest.approx(again_found[0].boundaries, abs=1e-3)


def test_fusing_what_has_no_gripper_is_one_line(run: Run, video: Path) -> None:
    code, _, err = run("find", video, *EVENTS, "--fuse")
    assert (code, "demo.mp4 is a video, which has no gripper" in err) == (1, True)


@pytest.mark.parametrize(
    "command",
    [
        ("find", "demo.mp4", "-e", "grasping", "the", "red", "cube"),
        ("find", "demo.mp4", "-e", "grasping the red cube", "releasing the red cube"),
        ("segment", "demo.mp4", "--event", "grasping", "the", "red", "cube"),
        ("review", "demo.mp4", "-e", "grasping", "the", "red", "cube"),
    ],
)
def test_forgotten_quotes_are_named(run: Run, video: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    monkeypatch.chdir(video.parent)
    code, out, err = run(*command)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.endswith('write each event in quotes and with its own --event, as --event "grasping the red cube"\n')
