"""Servers that fail in every way that servers do: what is asked again, what is said, and that nothing is lost."""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from asking import run_backend
from fake_server import RULES, FakeServer
from video_clips import write_clip

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.engines import http as http_client
from tempoloc_nb.engines.http import Patience, UnreachableError, _retry_after, base_url, get_json
from tempoloc_nb.engines.make import make_engine
from tempoloc_nb.engines.protocol import Backend, Request, Response, row_seed
from tempoloc_nb.engines.qwen import VideoRules, video_rules
from tempoloc_nb.engines.server import (
    OpenAIBackend,
    _around_patches,
    _constraint_body,
    _pairs_read,
    read_reply,
    write_video,
)
from tempoloc_nb.models.ask import Sampling, load_prompt
from tempoloc_nb.models.constraints import Constraint
from tempoloc_nb.models.registry import ModelInfo, load_registry
from tempoloc_nb.video.files import probe, read
from tempoloc_nb.video.view import View, clip_inputs

QUICK = Patience(timeout=30.0, retries=3, first=0.02, longest=0.1, absence=20.0)
SECRET = "sk-very-secret-93f1"
SIM = load_benchmark("sim").head(1)


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("videos")
    return [write_clip(folder / f"{i}.mp4", 30 + 6 * i, seed=i) for i in range(4)]


def requests(videos: list[Path], count: int = 4, trials: int = 2, **changes: Any) -> list[Request]:
    asked = [
        Request(f"lift/{i}", "lift", videos[i % len(videos)], ("grasping the cube",), load_prompt("tiny"), 8.0)
        for i in range(count)
    ]
    return [replace(r, trials=tuple(range(trials)), **changes) for r in asked]


def backend(*servers: FakeServer, **options: Any) -> OpenAIBackend:
    return OpenAIBackend(
        "fake", [s.url for s in servers], **({"rules": RULES, "concurrency": 4, "patience": QUICK} | options)
    )


def answers(made: OpenAIBackend, asked: list[Request]) -> dict[str, list[Response] | TempolocError]:
    return {r.clip: a for r, a in made.stream(asked, Sampling())}


def texts(found: dict[str, list[Response] | TempolocError]) -> dict[str, list[str]]:
    return {clip: [r.text for r in a] for clip, a in found.items() if not isinstance(a, TempolocError)}


def wanted(asked: list[Request]) -> dict[str, list[str]]:
    return {r.clip: [f"answer {row_seed(0, r.clip, t)}" for t in r.trials] for r in asked}


# --- what is asked and what is counted ---


@pytest.mark.parametrize("way", ["file", "base64"])
def test_each_trial_has_its_seed_and_each_row_the_truth(way: str, videos: list[Path], tmp_path: Path) -> None:
    folder = tmp_path if way == "file" else None
    with FakeServer(allowed=tmp_path) as server:
        made: Backend = backend(server, folder=folder)
        asked = requests(videos, trials=3)
        found = {r.clip: a for r, a in made.stream(asked, Sampling())}
        assert texts(found) == wanted(asked)
        for request in asked:
            shown = clip_inputs(request.video, RULES.processor, 8.0, request.view)
            h, w = shown.images.shape[1:3]
            width, height = RULES.resized(w + w % 2, h + h % 2, len(shown.images))
            for trial, r in enumerate(found[request.clip]):  # type: ignore[arg-type]
                assert (r.trial, r.finish_reason, r.effective_fps) == (trial, "stop", shown.fps)
                assert r.vision_tokens == shown.pairs * (width // 28) * (height // 28)
                assert r.prompt_tokens > r.vision_tokens
        assert len(server.bodies) == 12
        assert {b["messages"][-1]["content"][0]["video_url"]["url"][:5] for b in server.bodies} == {
            {"file": "file:", "base64": "data:"}[way]
        }
    assert list(tmp_path.iterdir()) == []


def test_what_a_request_says(videos: list[Path]) -> None:
    with FakeServer() as server:
        sampling = Sampling(0.3, 0.9, 1.15, 77, seed=5)
        (asked,) = requests(videos, 1, 1)
        list(backend(server).stream([asked], sampling))
        (body,) = server.bodies
    told = {k: body[k] for k in ("model", "temperature", "top_p", "repetition_penalty", "max_tokens", "seed", "top_k")}
    assert told == {
        "model": "fake", "temperature": 0.3, "top_p": 0.9, "repetition_penalty": 1.15, "max_tokens": 77, "top_k": -1,
        "seed": row_seed(5, "lift/0", 0),
    }  # fmt: skip
    assert body["media_io_kwargs"] == {"video": {"fps": 30, "num_frames": -1}}
    assert body["mm_processor_kwargs"] == {"do_sample_frames": False}
    assert body["messages"][-1]["content"][1]["text"] == asked.prompt.question(asked.labels)


def test_a_server_that_is_not_vllm_is_asked_in_plain_openai(videos: list[Path]) -> None:
    with FakeServer(owner="somebody", loader_fps=30.0) as server:
        list(backend(server).stream(requests(videos, 1, 1), Sampling()))
        (body,) = server.bodies
    assert set(body) == {"model", "messages", "temperature", "top_p", "max_tokens", "seed"}


def test_the_file_has_the_sampled_frames(videos: list[Path], tmp_path: Path) -> None:
    for view, total in ((View("pair"), None), (View("none"), None), (View("pair"), 4 * 56 * 56)):
        (asked,) = requests(videos, 1, 1, view=view)
        served = write_video(asked, RULES, tmp_path / "v.mp4", total)
        shown = clip_inputs(asked.video, RULES.processor, 8.0, view, total)
        seen, info = read(served.path), probe(served.path)
        assert (info.n_frames, served.n_frames, info.fps) == (len(shown.images), len(shown.images), shown.fps)
        assert (info.width, info.height) == (served.width, served.height)
        if total is None:
            h, w = shown.images.shape[1:3]
            assert np.abs(seen.images[:, :h, :w].astype(int) - shown.images).mean() < 4
        else:
            assert served.width * served.height <= shown.budget
            assert RULES.resized(served.width, served.height, served.n_frames) == (served.width, served.height)


def test_rules_come_from_a_folder_or_a_family(tmp_path: Path) -> None:
    def folder(kind: str, **files: dict[str, Any]) -> Path:
        made = tmp_path / str(len(list(tmp_path.iterdir())))
        made.mkdir()
        for name, content in ({"config": {"model_type": kind}} | files).items():
            (made / f"{name}.json").write_text(json.dumps(content))
        return made

    size = {"size": {"shortest_edge": 100, "longest_edge": 900}, "patch_size": 16}
    assert video_rules(folder("qwen3_vl_moe", video_preprocessor_config=size)) == VideoRules("qwen3_vl", 100, 900, 16)
    old = {"min_pixels": 3136, "max_pixels": 12845056, "patch_size": 14}
    assert video_rules(folder("qwen2_5_vl", preprocessor_config=old)) == video_rules("qwen2_5_vl")
    both = folder("qwen2_5_vl", preprocessor_config=old, processor_config={"video_processor": size})
    assert video_rules(both).most == 900
    with pytest.raises(TempolocError, match="is a llava model"):
        video_rules(folder("llava"))
    with pytest.raises(TempolocError, match="is not a model's folder"):
        video_rules(tmp_path / "absent")


@pytest.mark.parametrize("info", load_registry().models.values(), ids=list(load_registry().models))
def test_every_listed_model_can_be_asked_on_a_server_by_its_name(info: ModelInfo) -> None:
    assert video_rules(info.family).patch == info.patch
    with pytest.raises(UnreachableError):  # all else is known
        make_engine("openai", info.hub or info.name, servers=("http://127.0.0.1:9",))


# --- faults ---


@pytest.mark.parametrize(
    "fault", ["500", "502", "503", "503 0.05", "429", "429 0.2", "reset", "cut", "garbage", "shapeless", "slow 2"]
)
def test_what_can_pass_is_tried_again(fault: str, videos: list[Path]) -> None:
    with FakeServer(faults=[fault, "", fault, fault]) as server:
        asked = requests(videos)
        slow = replace(QUICK, timeout=1.0, retries=9)
        assert texts(answers(backend(server, patience=slow if "slow" in fault else QUICK), asked)) == wanted(asked)
        assert len(server.bodies) == 8 + 3 or ("slow" in fault and len(server.bodies) > 8 + 3)  # a busy machine
        assert not server.faults


def test_a_server_is_left_alone_as_long_as_it_asks(videos: list[Path]) -> None:
    with FakeServer(faults=["429 0.6"]) as server:
        asked = requests(videos, 1, 4)
        assert texts(answers(backend(server, concurrency=1), asked)) == wanted(asked)
        assert server.times[1] - server.times[0] >= 0.6


@pytest.mark.parametrize("status", [400, 404, 405, 422])
def test_what_cannot_pass_is_not(status: int, videos: list[Path]) -> None:
    bad = row_seed(0, "lift/1", 0)
    with FakeServer(sick=lambda body: f"{status} this one is bad" if body["seed"] == bad else None) as server:
        asked = requests(videos, 3, 1)
        found = answers(backend(server), asked)
        assert str(found.pop("lift/1")) == f"lift/1: {server.url} refuses: HTTP {status}, this one is bad"
        assert texts(found) == {k: v for k, v in wanted(asked).items() if k != "lift/1"}
        assert len(server.bodies) == 3


def test_a_trial_that_always_fails_costs_no_other(videos: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    bad = row_seed(0, "lift/0", 1)
    with FakeServer(sick=lambda body: "500" if body["seed"] == bad else None) as server:
        asked = requests(videos, 2, 3)
        found = answers(backend(server), asked)
        told = capsys.readouterr().err
        (alone,) = answers(backend(server), [replace(asked[0], trials=(1,))]).values()
    assert texts(found) == wanted([replace(asked[0], trials=(0, 2)), asked[1]])
    assert f"1 of 3 trials failed: lift/0: {server.url} failed 4 times, at last with: HTTP 500" in told
    assert isinstance(alone, TempolocError)


def test_an_unreadable_video_is_its_own_clips_error(videos: list[Path], tmp_path: Path) -> None:
    (tmp_path / "bad.mp4").write_bytes(b"no video")
    with FakeServer() as server:
        asked = requests(videos, 3, 1)
        asked[1] = replace(asked[1], video=tmp_path / "bad.mp4")
        found = answers(backend(server), asked)
        assert "lift/1: " in str(found["lift/1"])
        assert "bad.mp4" in str(found["lift/1"])
        assert sorted(texts(found)) == ["lift/0", "lift/2"]
        assert len(server.bodies) == 2


def test_a_path_outside_the_servers_folder(videos: list[Path], tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "ours").mkdir()
    with FakeServer(allowed=tmp_path / "theirs") as server:
        found = answers(backend(server, folder=tmp_path / "ours"), requests(videos, 1, 3))
        assert "must be a subpath of `--allowed-local-media-path`" in str(found["lift/0"])
        assert len(server.bodies) == 3
    with pytest.raises(TempolocError, match="no such folder for the server's videos"):
        OpenAIBackend("fake", ["http://127.0.0.1:9"], rules=RULES, folder=tmp_path / "absent")


# --- servers that come and go ---


def until(what: str, holds: Callable[[], bool]) -> None:
    """Wait until something holds, a minute at most."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, f"not in a minute: {what}"
        time.sleep(0.01)


def keys(path: Path) -> list[tuple[str, int]]:
    return [(row["request_id"], row["trial"]) for row in map(json.loads, path.read_text().splitlines())]


def ends_at(number: int, then: Callable[[FakeServer], None] = lambda server: None) -> Callable[[Any, Any], bool]:
    """Lets a server go away when it has been sent so many requests, and answer the last and later ones never.

    `then` may start it again.
    """
    over = threading.Event()

    def wild(handler: Any, body: dict[str, Any]) -> bool:
        server: FakeServer = handler.owner
        place = next(i for i, b in enumerate(server.bodies, 1) if b is body)
        if place == number:
            server.kill()
            then(server)
            over.set()
        elif place > number:
            over.wait(60)
        return place == number

    return wild


def together(count: int) -> Callable[[Any, Any], bool]:
    """Lets a server answer the first so many requests only when it has them all."""
    gate = threading.Barrier(count, timeout=50)

    def wild(handler: Any, body: dict[str, Any]) -> bool:
        if any(b is body for b in handler.owner.bodies[:count]):
            gate.wait()
        return False

    return wild


def test_killed_and_started_again_within_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, screen = tmp_path / "p.jsonl", io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)

    def again(server: FakeServer) -> None:
        until("its absence is told", lambda: "cannot be reached" in screen.getvalue())
        server.start()

    with FakeServer(delay=0.05, wild=ends_at(6, again)) as server:
        made = backend(server, concurrency=2)
        summary = run_backend(made, SIM, out, fps=4, trials=5, view=View("pair"), prompt="tiny")
    assert (summary.written, summary.failed) == (20, ())
    assert len(set(keys(out))) == len(keys(out)) == 20
    told = screen.getvalue()
    assert told.count(f"{server.url} cannot be reached") == 1
    assert told.count(f"{server.url} answers again") == 1


def test_a_server_gone_for_good_ends_the_run_and_the_same_command_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "p.jsonl"
    run = {"fps": 4, "trials": 5, "view": View("pair"), "prompt": "tiny"}
    with FakeServer(delay=0.02, wild=ends_at(12)) as server:
        made = backend(server, concurrency=2, patience=replace(QUICK, absence=0.3))
        with pytest.raises(TempolocError, match=r"could not be reached for .*the same command goes on"):
            run_backend(made, SIM, out, **run)  # type: ignore[arg-type]
        before = len(keys(out))
        assert 0 < before < 20
    with FakeServer() as other:  # another address, the same model
        summary = run_backend(backend(other), SIM, out, **run)  # type: ignore[arg-type]
        assert (summary.kept, summary.written, summary.failed) == (before, 20 - before, ())
        assert len(other.bodies) == 20 - before
    assert len(set(keys(out))) == len(keys(out)) == 20


def test_the_others_go_on(videos: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    with FakeServer(wild=together(3)) as one, FakeServer(wild=ends_at(7)) as two, FakeServer() as absent:
        absent.kill()
        asked = requests(videos, 12, 4)
        made = backend(one, absent, two, concurrency=3)
        assert absent.url in capsys.readouterr().err
        assert texts(answers(made, asked)) == wanted(asked)
        assert len(one.bodies) + len(two.bodies) <= 48 + 3  # what was under way when it fell is asked again
        assert 7 <= len(two.bodies) < len(one.bodies)
        assert max(one.most, two.most) == 3
    told = capsys.readouterr().err
    assert told.count(f"{two.url} cannot be reached") == 1
    assert told.count(f"{absent.url} cannot be reached") == 1


def test_a_server_that_fails_is_avoided(videos: list[Path]) -> None:
    with FakeServer(sick=lambda body: "500") as bad, FakeServer(delay=0.02) as good:
        asked = requests(videos, 4, 4)
        assert texts(answers(backend(bad, good, concurrency=4), asked)) == wanted(asked)
        assert len(good.bodies) == 16


def test_wrong_model_names_and_absent_servers_are_told_before_anything_is_asked() -> None:
    with FakeServer("right") as server, FakeServer("wrong") as other:
        with pytest.raises(TempolocError, match=f"{server.url} has no model fake: it serves right.*-name fake"):
            backend(server)
        with pytest.raises(TempolocError, match=f"{other.url} has no model right: it serves wrong"):
            OpenAIBackend("right", [server.url, other.url], rules=RULES)
        assert server.bodies == other.bodies == []
    with pytest.raises(TempolocError, match=r"cannot be reached .* --model right, or vllm serve right .*"):
        OpenAIBackend("right", [server.url], rules=RULES)
    with pytest.raises(TempolocError, match="at least one server"):
        OpenAIBackend("right", [], rules=RULES)


# --- the key ---


def test_the_key_is_sent_and_is_nowhere_else(
    videos: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    said = []
    with FakeServer(key=SECRET, faults=["500", f"400 your key {SECRET} is odd", "reset"]) as server:
        monkeypatch.setenv("TEMPOLOC_API_KEY", SECRET)
        made = backend(server, concurrency=1)
        summary = run_backend(made, SIM, tmp_path / "p.jsonl", fps=4, trials=1, prompt="tiny")
        assert (summary.written, len(summary.failed)) == (3, 1)
        assert all(h["Authorization"] == f"Bearer {SECRET}" for h in server.headers)
        said += [str(summary), repr(summary), repr(vars(made)), json.dumps(made.settings())]
        server.key = "another"
        one = requests([videos[0]], 1)
        for act in (lambda: backend(server), lambda: list(made.stream(one, Sampling()))):
            with pytest.raises(UnreachableError, match=r"refuses the key in \$TEMPOLOC_API_KEY") as error:
                act()
            said += [str(error.value), repr(error.value), str(error.getrepr(style="long"))]
        monkeypatch.delenv("TEMPOLOC_API_KEY")
        with pytest.raises(TempolocError, match=r"wants a key: set \$TEMPOLOC_API_KEY"):
            backend(server)
    said += [p.read_text() for p in tmp_path.iterdir()]
    said += [*capsys.readouterr(), caplog.text]
    assert any("your key … is odd" in line for line in said)
    assert not [line for line in said if SECRET in line]


@pytest.mark.parametrize("key", [f"{SECRET}\nX: y", f"{SECRET}é", f"{SECRET} x"])
def test_a_key_that_can_be_none_is_not_repeated(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", key)
    with FakeServer() as server, pytest.raises(TempolocError, match=r"the key in \$MY_KEY") as error:
        backend(server, key_variable="MY_KEY")
    assert SECRET not in str(error.value)


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://localhost:8000", "http://localhost:8000"), ("https://api.example.com/v1/", "https://api.example.com"),
        ("http://host/models/a/v1", "http://host/models/a"), ("http://[::1]:8000/", "http://[::1]:8000"),
    ],
)  # fmt: skip
def test_addresses(url: str, found: str) -> None:
    assert base_url(url) == found


@pytest.mark.parametrize(
    "url", ["localhost:8000", "http://", "ftp://x", "http://me:pass-word@host", "http://h?key=pass-word", "http://h:x"]
)
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(TempolocError) as error:
        base_url(url)
    assert "pass-word" not in str(error.value)


# --- what a server makes of its orders ---


@pytest.mark.parametrize("trusting", [True, False])
def test_all_frames_are_read_where_the_server_lets_them(
    trusting: bool, videos: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeServer(trusting=trusting, loader_fps=30.0) as server:
        asked = requests(videos)
        found = answers(backend(server), asked)
        assert texts(found) == wanted(asked)
        assert {r.effective_fps for a in found.values() for r in a} == {8.0}  # type: ignore[union-attr]
    assert capsys.readouterr().err == ""


def test_a_server_that_samples_by_itself_is_told_once_and_the_rows_say_so(
    videos: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeServer(trusting=False, loader_fps=2.0) as server:
        asked = requests(videos, fps=8.0)
        found = answers(backend(server), asked)
    wanted_lines = []
    for request in asked:
        frames = len(clip_inputs(request.video, RULES.processor, 8.0, request.view).images)
        taken = int(frames / 8.0 * 2) // 2 * 2
        for r in found[request.clip]:  # type: ignore[union-attr]
            assert r.effective_fps == pytest.approx(8.0 * taken / frames)
            assert r.vision_tokens % (taken // 2) == 0
        part = f"took {taken // 2} of {frames // 2} frame pairs of {request.clip}, {8.0 * taken / frames:.2g} fps"
        wanted_lines.append(f"tempoloc: the server {part} instead of 8, and the rows say so; ")
    (line,) = capsys.readouterr().err.splitlines()
    # several clips are on their way at once: whichever answer comes first is the one told of
    assert any(line.startswith(wanted) for wanted in wanted_lines), line
    assert "--media-io-kwargs" in line


def test_a_server_with_other_rules_is_told_once(videos: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    with FakeServer(rules=replace(RULES, most=84 * 84)) as server:
        found = answers(backend(server), requests(videos, 2, 2))
    assert {r.effective_fps for a in found.values() for r in a} == {8.0}  # type: ignore[union-attr]
    (line,) = capsys.readouterr().err.splitlines()
    assert "the server sizes frames by other rules than qwen" in line


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl"])
def test_the_pairs_read_are_found_from_the_tokens(family: str, videos: list[Path], tmp_path: Path) -> None:
    rules = video_rules(family)
    video = write_video(requests(videos, 1)[0], rules, tmp_path / "v.mp4")
    pair_text = 9.0 if family == "qwen3_vl" else 0.0
    for pairs in range(1, video.pairs + 1):
        tokens = 50 + pairs * (pair_text + rules.pair_tokens(video.width, video.height, 2 * pairs))
        text = 50 + round(video.pairs * pair_text)
        assert _pairs_read(rules, video, round(tokens), text, pair_text) == pairs
        assert _pairs_read(rules, video, round(tokens) + 7, text, pair_text) != pairs
    assert _around_patches(rules, 3, 4.0).count("<|vision_start|>") == (4 if family == "qwen3_vl" else 1)


def test_constraints_are_sent_and_looked_at(videos: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]}
    regex, js = Constraint("regex", r"answer \d+"), Constraint("json", json.dumps(schema))
    assert _constraint_body(None) == {}
    with FakeServer() as server:
        list(backend(server).stream(requests(videos, 1, 1, constraint=regex), Sampling()))
        assert capsys.readouterr().err == ""
        list(backend(server).stream(requests(videos, 2, 2, constraint=js), Sampling()))
        assert capsys.readouterr().err.count("the server ignored the json that answers had to match") == 1
        first, second = server.bodies[0], server.bodies[-1]
    assert first["structured_outputs"] == {"regex": r"answer \d+"}
    assert second["response_format"]["json_schema"]["schema"] == schema


@pytest.mark.parametrize(
    "bad",
    [
        [], {}, None, {"choices": [], "usage": {}}, {"choices": [{}, {}]},
        {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]},
        {"choices": [{"message": {"content": 5}, "finish_reason": "stop"}],
         "usage": {"prompt_tokens": 1, "completion_tokens": 1}},
        {"choices": [{"message": {"content": "x"}, "finish_reason": "abort"}],
         "usage": {"prompt_tokens": 1, "completion_tokens": 1}},
    ],
)  # fmt: skip
def test_other_shapes_are_no_answers(bad: Any) -> None:
    with pytest.raises((ValueError, TypeError, LookupError)):
        read_reply(bad)


# --- the stream itself ---


def test_requests_are_taken_as_answers_are(videos: list[Path]) -> None:
    taken = []

    def endless() -> Iterator[Request]:
        for i in range(100_000):
            taken.append(i)
            yield replace(requests(videos, 1, 1)[0], clip=f"lift/{i}")

    with FakeServer() as server:
        threads = threading.active_count()
        stream = backend(server, concurrency=3).stream(endless(), Sampling())
        for _ in range(5):
            next(stream)
        time.sleep(0.3)  # for more to be taken, if they were
        assert len(taken) <= 5 + 3 + 2
        stream.close()
        server.kill()
        until("its threads have ended", lambda: threading.active_count() <= threads)


def test_a_stream_that_is_left_leaves_nothing(videos: list[Path], tmp_path: Path) -> None:
    first = {row_seed(0, "lift/0", t) for t in range(8)}
    with FakeServer(allowed=tmp_path, sick=lambda body: None if body["seed"] in first else "slow 100") as server:
        made = backend(server, folder=tmp_path, concurrency=32)  # room for all: whichever clip is first
        stream = made.stream(requests(videos, 4, 8), Sampling())
        assert next(stream)[0].clip == "lift/0"
        assert list(tmp_path.iterdir())
        began = time.monotonic()
        stream.close()
        assert time.monotonic() - began < 20  # nobody waits 30 s for an answer
        assert list(tmp_path.iterdir()) == []


def test_requests_that_fail_themselves_end_the_stream_after_the_answers(videos: list[Path]) -> None:
    def broken() -> Iterator[Request]:
        yield from requests(videos, 2, 1)
        raise TempolocError("the third video is gone")

    with FakeServer(delay=0.1) as server:
        stream = backend(server).stream(broken(), Sampling())
        assert {next(stream)[0].clip, next(stream)[0].clip} == {"lift/0", "lift/1"}
        with pytest.raises(TempolocError, match="the third video is gone"):
            next(stream)


def test_settings_name_no_address_and_can_be_written() -> None:
    with FakeServer() as server:
        made = backend(server)
        assert (made.model, made.name, backend(server, title="mine").model) == ("fake", "openai", "mine")
        told = json.dumps(made.settings())
    assert "127.0.0.1" not in told
    assert "/models" not in told


# --- small things ---


def test_waits() -> None:
    patience = Patience(first=1, longest=10)
    assert all(0.5 * low <= patience.wait(n) <= low for n, low in ((1, 1), (2, 2), (4, 8), (5, 10), (500, 10)))
    assert len({patience.wait(3) for _ in range(20)}) > 1
    for bad in ({"timeout": 0}, {"retries": -1}, {"first": 0}, {"absence": -1}):
        with pytest.raises(TempolocError):
            Patience(**bad)  # type: ignore[arg-type]
    assert _retry_after("2") == 2
    assert _retry_after("-3") == 0
    assert _retry_after(None) is None
    assert _retry_after("later") is None
    assert (_retry_after("Fri, 01 Jan 2100 00:00:00 GMT") or 0) > 3000


def test_without_httpx_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(TempolocError, match=r"pip install .*tempoloc_nb\[server\]"):
        http_client.get_json("http://localhost:1", "/v1/models")


def test_what_is_no_openai_server(tmp_path: Path) -> None:
    from http.server import BaseHTTPRequestHandler, HTTPServer

    class Web(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if "models" in self.path else 404)
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, *args: object) -> None:
            pass

    web = HTTPServer(("127.0.0.1", 0), Web)
    threading.Thread(target=web.serve_forever, args=(0.01,), daemon=True).start()
    url = f"http://127.0.0.1:{web.server_port}"
    with pytest.raises(TempolocError, match="is not JSON: does it speak OpenAI's protocol"):
        OpenAIBackend("m", [url], rules=RULES)
    with pytest.raises(TempolocError, match="answers HTTP 404"):
        get_json(url, "/else")
    web.shutdown()
    web.server_close()
