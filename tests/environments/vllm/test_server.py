"""The back end for servers against a real vLLM server: what the fake one in tests/ is an image of."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from asking import SHORT, SIM, ask, check_nearly_all, requests, run_backend
from vllm_server import VLLMServer
from wide_models import qwen3 as qwen3_folder
from wide_models import qwen25 as qwen25_folder

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.clips.videos import find_videos
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.engines.doctor import examine
from tempoloc_nb.engines.hf import HFBackend, encode_request
from tempoloc_nb.engines.http import Patience
from tempoloc_nb.engines.protocol import row_seed
from tempoloc_nb.engines.server import ALL_FRAMES, OpenAIBackend
from tempoloc_nb.inference.requests import plan_requests
from tempoloc_nb.models.ask import AskConfig, Sampling
from tempoloc_nb.models.constraints import answer_constraint, obeys
from tempoloc_nb.models.locate import ask_config
from tempoloc_nb.video.files import probe
from tempoloc_nb.video.view import View

PATIENT = Patience(timeout=300, retries=3, first=0.5, longest=5, absence=400)
# The options with which a server takes all frames of a file.
ALL = tuple(text for field, value in ALL_FRAMES.items() for text in (f"--{field.replace('_', '-')}", json.dumps(value)))


def serve(model: Path, tmp: pytest.TempPathFactory, *options: str) -> Iterator[VLLMServer]:
    server = VLLMServer(model, tmp.mktemp("videos"), tmp.mktemp("log") / "server.log", *options)
    try:
        yield server.start().wait()
    finally:
        server.kill()


@pytest.fixture(scope="module")
def qwen25(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VLLMServer]:
    """Takes all frames of every video; requests may not say how videos are read."""
    yield from serve(qwen25_folder(), tmp_path_factory, *ALL)


@pytest.fixture(scope="module")
def qwen3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VLLMServer]:
    """Samples at its own rate where a request says nothing."""
    yield from serve(qwen3_folder(), tmp_path_factory, "--trust-request-mm-kwargs")


@pytest.fixture(params=["qwen25", "qwen3"])
def server(request: pytest.FixtureRequest) -> VLLMServer:
    made = request.getfixturevalue(request.param)
    assert isinstance(made, VLLMServer)
    return made


def backend(server: VLLMServer, **options: object) -> OpenAIBackend:
    given = {"rules": server.model, "concurrency": 8, "patience": PATIENT} | options
    return OpenAIBackend("tiny", [server.url], **given)  # type: ignore[arg-type]


def test_frames_and_tokens_are_those_of_transformers(server: VLLMServer, capsys: pytest.CaptureFixture[str]) -> None:
    """As files and as base64, whether the server or the request says that all frames be read."""
    twin = HFBackend(server.model, device="cpu")
    for fps, folder in ((2, None), (4, server.folder), (8, None), (12, server.folder)):
        (request,) = requests(1, fps=fps)
        (response,) = ask(backend(server, folder=folder), [request])[request.clip]
        encoded = encode_request(request, twin.net, twin.processor)
        counted = (response.prompt_tokens, response.vision_tokens, response.effective_fps)
        assert counted == (len(encoded.ids), encoded.vision_tokens, encoded.fps)
    assert capsys.readouterr().err == ""
    assert list(server.folder.iterdir()) == []


def test_a_trial_alone_is_what_it_was_among_others(server: VLLMServer) -> None:
    made = backend(server, folder=server.folder)
    asked = requests(2, trials=4)
    first = ask(made, asked)
    for request in asked:
        responses = first[request.clip]
        assert [(r.trial, r.seed) for r in responses] == [(t, row_seed(0, request.clip, t)) for t in range(4)]
        assert len({r.text for r in responses}) > 1
    last = ask(backend(server), [replace(r, trials=(2, 3)) for r in asked])  # base64, after the others
    assert [r.seed for r in last[asked[0].clip]] == [row_seed(0, asked[0].clip, t) for t in (2, 3)]
    check_nearly_all(
        {clip: [r.text for r in answer] for clip, answer in last.items()},
        {clip: [r.text for r in answer[2:]] for clip, answer in first.items()},
    )


@pytest.mark.parametrize("kind", ["regex", "json"])
def test_answers_keep_to_their_constraint(server: VLLMServer, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = [
        replace(r, constraint=answer_constraint(kind, r.labels, probe(r.video).duration))  # type: ignore[arg-type]
        for r in requests(2, trials=3)
    ]
    found = ask(backend(server), asked, Sampling(temperature=1.0, max_new_tokens=1000))
    whole = 0
    for request in asked:
        assert request.constraint is not None
        for response in found[request.clip]:
            if response.finish_reason == "stop":  # untrained models may write digits or blanks for ever where they can
                assert obeys(request.constraint, response.text)
                whole += 1
    assert whole == 6 if kind == "regex" else whole
    assert capsys.readouterr().err == ""


WAY = ask_config("tempoloc-tiny").changed(fps=4)


def test_the_doctor_infers_what_a_server_does_not_show(server: VLLMServer, capsys: pytest.CaptureFixture[str]) -> None:
    found = examine(backend(server), server.model, WAY)
    assert found.faults == (), str(found)
    assert sum(f.severity == "unseen" for f in found.findings) == 13
    assert "by the prompt's tokens" in next(f.message for f in found.findings if f.check == "rate reported")
    assert capsys.readouterr().err == ""


def test_a_path_outside_the_allowed_folder_is_an_error_of_its_clip(qwen25: VLLMServer, tmp_path: Path) -> None:
    ((_, answer),) = backend(qwen25, folder=tmp_path).stream(requests(1), SHORT)
    assert isinstance(answer, TempolocError)
    assert "must be a subpath of `--allowed-local-media-path" in str(answer)
    assert requests(1)[0].clip in str(answer)


def test_a_wrong_name_lists_the_right_one(qwen25: VLLMServer) -> None:
    with pytest.raises(TempolocError, match=f"{qwen25.url} has no model small: it serves tiny"):
        OpenAIBackend("small", [qwen25.url], rules=qwen25.model)


def test_greedy_answers_are_those_of_transformers(
    trained: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    """The trained model, 12 shipped clips: equal counts, nearly all answers equal in spite of H.264."""
    shipped = load_benchmark("sim").head(3)
    greedy = Sampling(temperature=0, max_new_tokens=400)
    asked = plan_requests(shipped, find_videos(shipped), AskConfig(prompt="tiny", fps=8, view=View("pair"), trials=1))
    own = {r.clip: a for r, a in HFBackend(trained, device="cpu").stream(asked, greedy)}
    for server in serve(trained, tmp_path_factory, *ALL):
        served = ask(backend(server, folder=server.folder), asked, greedy)
    same = 0
    for clip, (theirs,) in served.items():
        ours = own[clip]
        assert not isinstance(ours, TempolocError)
        assert (theirs.prompt_tokens, theirs.vision_tokens) == (ours[0].prompt_tokens, ours[0].vision_tokens)
        same += theirs.text == ours[0].text
    with capsys.disabled():
        print(f"\nserver and transformers, greedy: {same} of {len(asked)} answers equal")
    assert len(served) == len(asked) == 12
    assert same >= 10


def test_killed_within_a_run_and_started_with_other_settings(
    qwen25: VLLMServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Last, for it leaves the server sampling at its own rate: every key once, then one warning and true rows."""
    out, trials = tmp_path / "p.jsonl", 12
    made = backend(qwen25, folder=qwen25.folder, concurrency=2)

    def fate() -> None:
        while not out.exists() or out.read_text().count("\n") < trials:
            time.sleep(0.02)
        qwen25.kill()
        qwen25.start("--max-log-len", "10").wait()

    killer = threading.Thread(target=fate)
    killer.start()
    sampling = Sampling(temperature=1.0, max_new_tokens=64)
    summary = run_backend(made, SIM, out, fps=8, trials=trials, view=View("pair"), prompt="tiny", sampling=sampling)
    killer.join()
    assert (summary.written, summary.failed) == (4 * trials, ())
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len({(r["request_id"], r["trial"]) for r in rows}) == len(rows) == 4 * trials
    told = capsys.readouterr().err
    assert told.count("cannot be reached") == told.count("answers again") == 1
    assert told.count("frame pairs of") == 1
    assert {r["effective_fps"] for r in rows[:trials]} == {8.0}
    again = run_backend(made, SIM, out, fps=8, trials=trials, view=View("pair"), prompt="tiny", sampling=sampling)
    assert (again.written, again.kept) == (0, 4 * trials)

    (clip,) = requests(1, fps=8)
    (response,) = ask(backend(qwen25), [clip])[clip.clip]  # vLLM's own rate is 2 fps
    duration = probe(clip.video).duration
    assert response.effective_fps == pytest.approx(2.0, abs=2 / duration)
    assert examine(backend(qwen25), qwen25.model, WAY).faults == ("rate reported",)
