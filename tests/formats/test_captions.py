"""The captioning job against servers that answer, refuse, stall and talk nonsense: nothing is lost or asked twice."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from caption_server import DENSE, SCENE, CaptionServer
from video_clips import write_clip

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.engines.http import Patience, UnreachableError
from tempoloc_nb.engines.qwen import video_rules
from tempoloc_nb.formats import captions
from tempoloc_nb.formats.captions import (
    _FILES,
    CaptionOptions,
    _read_narrative,
    _read_scene,
    _scene_schema,
    caption_videos,
    caption_videos_of,
)
from tempoloc_nb.models.ask import Sampling
from tempoloc_nb.video.files import probe

QUICK = Patience(timeout=30.0, retries=2, first=0.02, longest=0.1, absence=2.0)


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("videos")
    return {f"ep{i}": write_clip(folder / f"ep{i}.mp4", 60 + 6 * i, seed=i) for i in range(5)}


def run(server: CaptionServer, videos: dict[str, Path], output: Path, **changes: Any) -> captions._CaptionSummary:
    return caption_videos(videos, output, [server.url], **({"patience": QUICK} | changes))


def together(count: int) -> Callable[[dict[str, Any], int], str]:
    """Lets a server answer the first so many requests only when it has them all."""
    gate = threading.Barrier(count, timeout=50)

    def fault(body: dict[str, Any], number: int) -> str:
        if number < count:
            gate.wait()
        return ""

    return fault


def size_of(body: dict[str, Any], folder: Path) -> int:
    """Frames of the video in a request."""
    url = body["messages"][-1]["content"][0]["video_url"]["url"]
    path = folder / "sent.mp4"
    path.write_bytes(base64.b64decode(url.partition(",")[2]))
    return probe(path).n_frames


def test_each_video_gets_its_three_files(videos: dict[str, Path], tmp_path: Path) -> None:
    with CaptionServer() as server:
        done = run(server, videos, tmp_path / "captions")
    assert (done.captioned, done.kept, dict(done.failed)) == (5, 0, {})
    for name, video in videos.items():
        folder = tmp_path / "captions" / name
        assert sorted(p.name for p in folder.iterdir()) == sorted(_FILES)
        caption = json.loads((folder / "caption.json").read_text())
        info = probe(video)
        assert caption == SCENE | {
            "temporal_caption": DENSE, "resolution": {"H": 96, "W": 128}, "aspect_ratio": "4,3",
            "duration": f"{round(info.duration)}s", "fps": 30,
        }  # fmt: skip
        assert (folder / "caption.txt").read_text().strip() == DENSE
        args = json.loads((folder / "sample_args.json").read_text())
        assert set(args) == {"name", "prompt", "vision_path"}
        assert (args["name"], args["prompt"]) == (name, DENSE)
        assert (folder / args["vision_path"]).resolve() == video.resolve()
        assert not Path(args["vision_path"]).is_absolute()


def test_what_is_asked_in_the_two_phases(videos: dict[str, Path], tmp_path: Path) -> None:
    options = CaptionOptions(fps=4, sampling=Sampling(0.5, 0.7, max_new_tokens=99, seed=3))
    with CaptionServer() as server:
        run(server, {"ep0": videos["ep0"]}, tmp_path / "c", options=options)
        scene, narrative = server.bodies
        assert size_of(scene, tmp_path) == 8
        assert scene["response_format"]["json_schema"]["schema"] == _scene_schema()
        assert scene["media_io_kwargs"]["video"]["num_frames"] == -1
        told = {k: scene[k] for k in ("model", "temperature", "top_p", "max_tokens")}
        assert told == {"model": "describer", "temperature": 0.5, "top_p": 0.7, "max_tokens": 99}
        assert scene["seed"] != narrative["seed"]
        assert isinstance(narrative["messages"][-1]["content"], str)
        assert '"a textured ground"' in narrative["messages"][-1]["content"]
        assert "response_format" not in narrative
        again = CaptionServer()
        with again:
            run(again, {"ep0": videos["ep0"]}, tmp_path / "again", options=options)
        assert [b["seed"] for b in again.bodies] == [scene["seed"], narrative["seed"]]


def test_videos_are_shown_as_the_report_has_it(videos: dict[str, Path], tmp_path: Path) -> None:
    """Cosmos 3's captioner (arXiv 2606.02800, appendix A.1): 8 frames a second, 25,165,824 pixels, temperature 0.7."""
    with CaptionServer() as server:
        run(server, {"ep0": videos["ep0"]}, tmp_path / "c")
        (scene, _) = server.bodies
        assert size_of(scene, tmp_path) == 8 * 2  # s
        assert scene["temperature"] == 0.7
    assert video_rules(CaptionOptions().rules).most == 25_165_824


def test_a_folder_that_the_server_reads(videos: dict[str, Path], tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    seen = []

    def fault(body: dict[str, Any], number: int) -> str:
        content = body["messages"][-1]["content"]
        if isinstance(content, list):
            path = Path(content[0]["video_url"]["url"].removeprefix("file://"))
            seen.append(path.is_relative_to(shared) and path.stat().st_mode & 0o044 == 0o044)
        return ""

    with CaptionServer(fault) as server:
        run(server, videos, tmp_path / "c", folder=shared)
    assert seen == [True] * 5
    assert list(shared.iterdir()) == []


def test_what_is_finished_is_kept_and_what_failed_is_tried_again(videos: dict[str, Path], tmp_path: Path) -> None:
    output = tmp_path / "captions"
    sick = {0}

    def refuse(body: dict[str, Any], number: int) -> str:
        content = body["messages"][-1]["content"]
        return "400 no such video" if isinstance(content, list) and number in sick else ""

    with CaptionServer(refuse) as server:
        done = run(server, {"ep1": videos["ep1"]}, output)
        assert done.failed == {"ep1": f"{server.url.removesuffix('/v1')} refuses: HTTP 400, no such video"}
        assert not (output / "ep1").exists()
        assert json.loads((output / "run.json").read_text())["failed"] == done.failed
        sick.clear()
        first = run(server, {"ep0": videos["ep0"]}, output)
        stamp = (output / "ep0" / "caption.json").stat().st_mtime_ns
        asked = len(server.bodies)
        again = run(server, videos, output)
        assert (first.captioned, again.captioned, again.kept, dict(again.failed)) == (1, 4, 1, {})
        assert len(server.bodies) - asked == 8
        assert (output / "ep0" / "caption.json").stat().st_mtime_ns == stamp
        asked = len(server.bodies)
        assert str(run(server, videos, output)) == f"{output}: 0 videos captioned, 5 kept"
        assert len(server.bodies) == asked
        assert json.loads((output / "run.json").read_text())["failed"] == {}


def test_a_half_written_folder_is_made_again(videos: dict[str, Path], tmp_path: Path) -> None:
    half, dead = tmp_path / "c" / "ep0", tmp_path / "c" / "ep0.part"
    for folder in (half, dead):
        folder.mkdir(parents=True)
        (folder / "caption.txt").write_text("half of a capt")
    with CaptionServer() as server:
        assert run(server, {"ep0": videos["ep0"]}, tmp_path / "c").captioned == 1
    assert (half / "caption.txt").read_text().strip() == DENSE
    assert not dead.exists()


@pytest.mark.parametrize(
    ("nonsense", "reason"),
    [
        ("text I see an arm.", "the scene is no JSON object"),
        ("text {}", "lacks 'subjects'"),
        ('text {"subjects": [], "actions": []}', "the scene is empty"),
        ("cut", "cut off after 9 tokens"),
        ('text {"subjects": [], "actions": [{"description": "x", "time": "1:00-2:00"}]}', "no time within 2.0 s"),
        ('text {"subjects": [], "actions": [{"description": "x", "time": 3}]}', "time = 3 is not text"),
        ("text {" + '"a":[' * 5000, "the scene is no JSON object"),
    ],
)
def test_nonsense_is_asked_again_with_another_seed(
    nonsense: str, reason: str, videos: dict[str, Path], tmp_path: Path
) -> None:
    with CaptionServer(lambda body, number: nonsense if number < 2 else "") as server:
        assert run(server, {"ep0": videos["ep0"]}, tmp_path / "good").captioned == 1
        assert len({b["seed"] for b in server.shown}) == 3
    with CaptionServer(lambda body, number: nonsense) as server:
        done = run(server, {"ep0": videos["ep0"]}, tmp_path / "bad")
        assert "no caption in 3 attempts: " in done.failed["ep0"]
        assert reason in done.failed["ep0"]
        assert len(server.bodies) == 3
    assert not (tmp_path / "bad" / "ep0").exists()


def test_an_empty_paragraph_is_no_caption(videos: dict[str, Path], tmp_path: Path) -> None:
    def mute(body: dict[str, Any], number: int) -> str:
        return "" if isinstance(body["messages"][-1]["content"], list) else "text <think>so</think> "

    with CaptionServer(mute) as server:
        done = run(server, {"ep0": videos["ep0"]}, tmp_path / "c")
    assert "the dense caption is empty" in done.failed["ep0"]


def test_a_server_that_fails_now_and_then(videos: dict[str, Path], tmp_path: Path) -> None:
    with CaptionServer(lambda body, number: ("503", "", "shapeless", "")[number % 4]) as server:
        done = run(server, videos, tmp_path / "c", concurrency=1)
    assert (done.captioned, dict(done.failed)) == (5, {})


def test_a_slow_server_is_given_up_per_video(videos: dict[str, Path], tmp_path: Path) -> None:
    impatient = Patience(timeout=1.5, retries=1, first=0.02, longest=0.05, absence=20.0)

    def fault(body: dict[str, Any], number: int) -> str:
        return "hang" if number < 2 else ""

    with CaptionServer(fault) as server:
        two = {name: videos[name] for name in ("ep0", "ep1")}
        done = run(server, two, tmp_path / "c", patience=impatient, concurrency=1)
    assert done.captioned == 1
    assert [*done.failed.values()] == [
        f"{server.url.removesuffix('/v1')} failed 2 times, at last with: no answer within 1.5 s"
    ]


def test_a_slow_server_does_not_hold_up_the_others(videos: dict[str, Path], tmp_path: Path) -> None:
    """The first is answered when all five are asked."""
    with CaptionServer(together(5)) as server:
        run(server, videos, tmp_path / "c", concurrency=5, patience=replace(QUICK, timeout=60.0))
        assert server.most == 5


def test_no_more_are_asked_at_a_time_than_told(videos: dict[str, Path], tmp_path: Path) -> None:
    with CaptionServer(together(2)) as server:
        run(server, videos, tmp_path / "c", concurrency=2, patience=replace(QUICK, timeout=60.0))
        assert server.most == 2


def test_a_server_that_goes_ends_the_job_and_keeps_what_is_done(videos: dict[str, Path], tmp_path: Path) -> None:
    output, server = tmp_path / "c", CaptionServer(lambda body, number: "hang" if number >= 4 else "")
    gone = Patience(timeout=20.0, retries=2, first=0.02, longest=0.1, absence=0.3)

    def close() -> None:
        while len(server.bodies) < 5:
            time.sleep(0.01)
        server.__exit__()

    closer = threading.Thread(target=close)
    closer.start()
    with pytest.raises(UnreachableError, match="the same command goes on"):
        run(server, videos, output, patience=gone, concurrency=1)
    closer.join()
    assert sorted(p.name for p in output.iterdir() if p.is_dir()) == ["ep0", "ep1"]
    with CaptionServer() as other:
        assert run(other, videos, output).captioned == 3


def test_wishes_that_a_server_refuses_are_left_out(videos: dict[str, Path], tmp_path: Path) -> None:
    def picky(body: dict[str, Any], number: int) -> str:
        wishes = ("response_format", "media_io_kwargs", "mm_processor_kwargs")
        return next((f"400 {w} is not supported" for w in wishes if w in body), "")

    with CaptionServer(picky) as server:
        done = run(server, videos, tmp_path / "c", concurrency=1)
        assert done.captioned == 5
        assert len(server.bodies) == 10 + 3
    with CaptionServer(owner="somebody") as server:
        run(server, {"ep0": videos["ep0"]}, tmp_path / "d")
        assert "media_io_kwargs" not in server.bodies[0]


def test_other_settings_need_another_folder(videos: dict[str, Path], tmp_path: Path) -> None:
    one = {"ep0": videos["ep0"]}
    with CaptionServer() as server:
        run(server, one, tmp_path / "c")
        with pytest.raises(TempolocError, match=r"were made with fps 8\.0, not 4\.0: choose another folder"):
            run(server, videos, tmp_path / "c", options=CaptionOptions(fps=4.0))
        with pytest.raises(TempolocError, match=r"were made with fps 8\.0, not 4\.0"):  # also when all is done
            run(server, one, tmp_path / "c", options=CaptionOptions(fps=4.0))
        with pytest.raises(TempolocError, match=r"has no model other: it serves describer"):
            run(server, videos, tmp_path / "c", model="other")
    assert sorted(p.name for p in (tmp_path / "c").iterdir()) == ["ep0", "run.json"]


def test_own_prompts(videos: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "scene.txt").write_text("Say what you see.")
    (tmp_path / "narrative.txt").write_text("Rewrite it.")
    options = CaptionOptions(prompts=str(tmp_path))
    one = {"ep0": videos["ep0"]}
    with CaptionServer() as server:
        with pytest.raises(TempolocError, match=r"narrative\.txt has no \{scene\}"):
            run(server, one, tmp_path / "c", options=options)
        (tmp_path / "narrative.txt").write_text("Rewrite {scene}.")
        run(server, one, tmp_path / "c", options=options)
        assert server.bodies[0]["messages"][-1]["content"][1]["text"] == "Say what you see."


def test_an_unreadable_video_is_one_of_the_failures(videos: dict[str, Path], tmp_path: Path) -> None:
    broken = tmp_path / "broken.mp4"
    broken.write_text("no video")
    with CaptionServer() as server:
        done = run(server, {"ep0": videos["ep0"], "broken": broken}, tmp_path / "c")
    assert done.captioned == 1
    assert "cannot be read as video" in done.failed["broken"]


def test_absent_servers_and_wrong_options(videos: dict[str, Path], tmp_path: Path) -> None:
    server = CaptionServer()
    server.__exit__()
    with pytest.raises(UnreachableError, match="cannot be reached"):
        run(server, videos, tmp_path / "c")
    assert not (tmp_path / "c").exists()
    with pytest.raises(TempolocError, match="at least one server"):
        caption_videos(videos, tmp_path / "c", [])
    with pytest.raises(TempolocError, match="no such folder"):
        caption_videos(videos, tmp_path / "c", [server.url], folder=tmp_path / "nowhere")
    with pytest.raises(TempolocError, match="1 attempt or more"):
        caption_videos(videos, tmp_path / "c", [server.url], options=CaptionOptions(attempts=0))


def test_which_videos(videos: dict[str, Path], tmp_path: Path) -> None:
    folder = next(iter(videos.values())).parent
    assert caption_videos_of(folder) == videos
    assert caption_videos_of(videos["ep2"]) == {"ep2": videos["ep2"]}
    listed = tmp_path / "list.jsonl"
    listed.write_text("".join(json.dumps({"uuid": f"x{n}", "vision_path": str(v)}) + "\n" for n, v in videos.items()))
    assert caption_videos_of(listed) == {f"x{n}": v for n, v in videos.items()}
    assert "stack-three__000" in caption_videos_of("sim")
    assert len(caption_videos_of("sim")) == len(load_benchmark("sim").with_videos())


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"vision_path": "gone.mp4"}], r"list\.jsonl:1: no video at"),
        ([{"vision_path": "a.mp4"}, {"vision_path": "b/a.mp4"}], r"list\.jsonl:2: a is in list\.jsonl:1 already"),
        ([{"vision_path": "a.mp4"}, {"name": "x"}], r"list\.jsonl:2 lacks 'vision_path'"),
        ([{"vision_path": "a.mp4", "name": "../x"}], r"list\.jsonl:1: '\.\./x' cannot be a folder's name"),
    ],
)
def test_bad_lists_are_named(rows: list[dict[str, str]], message: str, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    write_clip(tmp_path / "a.mp4", 8)
    write_clip(tmp_path / "b" / "a.mp4", 8)
    (tmp_path / "list.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    with pytest.raises(TempolocError, match=message):
        caption_videos_of(tmp_path / "list.jsonl")


def test_a_folder_without_videos_is_named(tmp_path: Path) -> None:
    with pytest.raises(TempolocError, match="no videos"):
        caption_videos_of(tmp_path)
    with pytest.raises(TempolocError, match=r"x\.mp4: no video at"):
        caption_videos_of(tmp_path / "x.mp4")


def test_reading_what_models_write() -> None:
    text = "Sure!\n```json\n" + json.dumps(SCENE) + "\n```\nAnything else?"
    assert _read_scene(text, 2.0) == SCENE
    assert _read_scene(f"<think>{{}} hmm</think>{json.dumps(SCENE)}", 2.0) == SCENE
    assert _read_narrative("<think>…</think>\nAn  arm\nmoves. ") == "An arm moves."
