"""The resident server: what our client and others may ask, what is refused, and that nobody else pays for it."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import signal
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from asking import ask as ask_engine
from starlette.testclient import TestClient
from video_clips import write_clip

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.engines import chat_request, serve
from tempoloc_nb.engines.chat_request import Conversation
from tempoloc_nb.engines.make import make_engine
from tempoloc_nb.engines.protocol import Answer, Request, Response, row_seed
from tempoloc_nb.engines.serve import ServeConfig, Server
from tempoloc_nb.engines.server import ALL_FRAMES
from tempoloc_nb.models.ask import Sampling, load_prompt
from tempoloc_nb.models.constraints import Constraint
from tempoloc_nb.models.locate import ask_config
from tempoloc_nb.video.files import encode, probe, read

MODEL, KEY = "tempoloc-tiny", "sk-a-key-of-mine"
CHAT = "/v1/chat/completions"


class Echo:
    """An engine that answers with what it was asked; `held` keeps it at its first batch until it is set."""

    name, model = "echo", MODEL

    def __init__(self, held: threading.Event | None = None) -> None:
        self.batches: list[list[Request]] = []
        self.samplings: list[Sampling] = []
        self.began, self.held = threading.Event(), held
        self.processor = SimpleNamespace(
            apply_chat_template=lambda messages, **_: "".join(p["text"] for m in messages for p in m["content"]),
            tokenizer=SimpleNamespace(encode=list),
        )

    def settings(self) -> dict[str, Any]:
        return {}

    def stream(self, requests: Iterable[Request], sampling: Sampling) -> Iterator[tuple[Request, Answer]]:
        batch = list(requests)
        self.batches.append(batch)
        self.samplings.append(sampling)
        self.began.set()
        if self.held is not None:
            assert self.held.wait(20)
        for request in batch:
            said = json.dumps(request.prompt.messages(()))
            if "explode" in said:
                raise RuntimeError("a fault of the engine's")
            if "refuse" in said:
                yield request, TempolocError(f"{request.clip}: {request.video}: too long")
                continue
            rate = min(request.fps, probe(request.video).fps)
            yield request, [
                Response(t, said, row_seed(0, request.clip, t), "stop", 9, 2, 4, rate, 0.1) for t in request.trials
            ]


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clip(tmp_path_factory.mktemp("media") / "a.mp4", 30, (64, 48))


@pytest.fixture
def engine() -> Echo:
    return Echo()


def started(engine: Any, clip: Path, **config: Any) -> Server:
    return Server(engine, ask_config(MODEL), ServeConfig(**{"media": clip.parent, **config}))


@pytest.fixture
def client(engine: Echo, clip: Path) -> Iterator[TestClient]:
    server = started(engine, clip, largest=1, longest=5.0)
    yield TestClient(server.app, raise_server_exceptions=False)
    assert list(Path(server.folder.name).iterdir()) == []  # nothing that was sent stays
    server.close()


def video(url: str) -> dict[str, Any]:
    return {"type": "video_url", "video_url": {"url": url}}


def data_url(path: Path) -> str:
    return "data:video/mp4;base64," + b64encode(path.read_bytes()).decode()


def body(*parts: Any, **more: Any) -> dict[str, Any]:
    content = [*parts, {"type": "text", "text": "When?"}]
    return {"model": MODEL, "messages": [{"role": "user", "content": content}]} | more


def refused(client: TestClient, sent: Any, status: int = 400, **headers: str) -> str:
    content = sent if isinstance(sent, bytes) else json.dumps(sent).encode()
    reply = client.post(CHAT, content=content, headers=headers)
    assert reply.status_code == status, reply.text
    error = reply.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return str(error["message"])


# --- what is answered ---


def test_a_sent_video_is_shown_as_the_card_says(client: TestClient, engine: Echo, clip: Path) -> None:
    reply = client.post(CHAT, json=body(video(data_url(clip)))).json()
    (request,), (sampling,) = engine.batches[0], engine.samplings
    card = ask_config(MODEL)
    assert (request.fps, request.view) == (card.fps, card.view)
    assert (sampling.temperature, sampling.max_new_tokens) == (card.sampling.temperature, card.sampling.max_new_tokens)
    said = [{"role": "user", "content": [{"type": "video"}, {"type": "text", "text": "When?"}]}]
    assert json.loads(reply["choices"][0]["message"]["content"]) == said
    assert reply["usage"] == {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
    assert reply["tempoloc"] == {"vision_tokens": 4, "fps": card.fps}


def test_what_our_client_sends_is_taken_as_it_is(client: TestClient, engine: Echo, clip: Path) -> None:
    sent = body(video(clip.as_uri()), **ALL_FRAMES, temperature=0.0, top_p=0.5, max_tokens=7, seed=11, top_k=-1,
                repetition_penalty=1.15, n=3, structured_outputs={"regex": "[0-9]"})  # fmt: skip
    reply = client.post(CHAT, json=sent).json()
    (request,) = engine.batches[0]
    assert (request.view.stamps, reply["tempoloc"]["fps"]) == ("none", pytest.approx(probe(clip).fps))
    assert engine.samplings == [Sampling(0.0, 0.5, 1.15, 7, 0)]
    assert (request.trials, request.clip, str(request.video)) == ((0, 1, 2), "seed 11", str(clip))
    assert request.constraint is not None
    assert (request.constraint.kind, request.constraint.text) == ("regex", "[0-9]")
    assert [c["index"] for c in reply["choices"]] == [0, 1, 2]


@pytest.mark.parametrize(
    ("more", "fps"),
    [
        ({"mm_processor_kwargs": {"fps": 4}}, 4.0),
        ({"mm_processor_kwargs": {"fps": 4}, "media_io_kwargs": {"video": {"fps": 2}}}, 2.0),
        ({"mm_processor_kwargs": {"do_sample_frames": False}}, 30.0),
        ({"mm_processor_kwargs": {}}, 8.0),
    ],
)
def test_a_request_may_say_the_rate(
    client: TestClient, engine: Echo, clip: Path, more: dict[str, Any], fps: float
) -> None:
    assert client.post(CHAT, json=body(video(clip.as_uri()), **more)).json()["tempoloc"]["fps"] == pytest.approx(fps)
    assert engine.batches[0][0].view.stamps == ("none" if fps != 8 else "frame")


def test_a_json_schema_is_a_form_too(client: TestClient, engine: Echo, clip: Path) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": True}}
    assert client.post(CHAT, json=body(video(clip.as_uri()), response_format=form)).status_code == 200
    assert engine.batches[0][0].constraint == Constraint("json", '{"type": "object"}')


def test_a_prompt_without_a_video_is_counted(client: TestClient, engine: Echo) -> None:
    reply = client.post(CHAT, json=body({"type": "text", "text": "12345"}, max_tokens=1, temperature=0)).json()
    assert reply["usage"] == {"prompt_tokens": 10, "completion_tokens": 0, "total_tokens": 10}
    assert reply["choices"][0] == {
        "index": 0, "message": {"role": "assistant", "content": ""}, "finish_reason": "length"
    }  # fmt: skip
    assert engine.batches == []


def test_models_are_listed(client: TestClient) -> None:
    (own,) = client.get("/v1/models").json()["data"]
    assert (own["id"], own["owned_by"], own["root"]) == (MODEL, "tempoloc", MODEL)


# --- what is refused ---


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"\xff{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "request"),
        (b'{"model": "tempoloc-tiny"}', "lacks 'messages'"),
        (body(n="3"), "n = \"3\" is not a whole number"),
        (body(n=65), "n = 65"),
        (body(temperature=-1), "temperature"),
        (body(max_tokens=0), "max_tokens"),
        (body(top_k=50), "top_k = 50"),
        (body(stream=True), "stream = true"),
        (body(stop=["x"]), "stop is not offered"),
        (body(temprature=1), "did you mean 'temperature'?"),
        (body(messages=[]), "messages"),
        (body({"type": "image_url", "image_url": {"url": "x"}}), "image_url"),
        (body({"type": "text"}), "needs the field text"),
        (body(), "one video, and its messages have none"),
        (body(structured_outputs={}), "structured_outputs needs regex or json"),
        (body(video("https://example.org/a.mp4")), "begins with 'https'"),
        (body(video("data:video/mp4;base64,AAA")), "base64 is damaged"),
        (body(video("data:video/mp4,AAA")), "data:video/mp4;base64"),
        (body(video("data:video/mp4;base64,AAAA")), "no mp4"),
        (body(video("data:video/mp4;base64,")), "no mp4"),
        (body(video("data:;base64," + b64encode(b"ffconcat version 1.0\nfile '/etc/x'").decode())), "no mp4"),
        (body(video("data:;base64," + b64encode(b"\0\0\0\x18ftypisom" + bytes(99)).decode())), "the video: "),
        (body(video("file:///etc/passwd")), "not in the folder"),
        (body(video("file:///nowhere\0.mp4")), "not in the folder"),
    ],
)
def test_a_request_that_is_wrong_has_one_error(client: TestClient, engine: Echo, sent: Any, said: str) -> None:
    message = refused(client, sent)
    assert said in message
    assert "/tempoloc-serve-" not in message
    assert engine.batches == []


def test_files_outside_of_the_folder_stay_unread(client: TestClient, clip: Path, tmp_path: Path) -> None:
    outside = write_clip(tmp_path / "outside.mp4", 4, (64, 48))
    link = clip.parent / "link.mp4"
    link.symlink_to(outside)
    places = [outside.as_uri(), link.as_uri(), f"file://{clip.parent}/../{tmp_path.name}/outside.mp4",
              f"file://elsewhere{clip}", f"file://{clip.parent}", f"file://{clip}x"]  # fmt: skip
    assert len({refused(client, body(video(url))) for url in places}) == 1
    link.unlink()


def test_no_file_is_read_without_a_folder(engine: Echo, clip: Path) -> None:
    server = started(engine, clip, media=None)
    assert "--media" in refused(TestClient(server.app), body(video(clip.as_uri())))
    server.close()


def test_limits_hold(client: TestClient, clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = clip.as_uri()
    assert "1 MiB" in refused(client, b" " * (2**20 + 1), 413)
    assert "1 MiB" in refused(client, b"{}", 413, **{"Content-Length": "9" * 30})
    assert "have 2" in refused(client, body(video(url), video(url)))
    slow = encode(clip.parent / "slow.mp4", read(clip).images[:6], fps=1)
    assert "lasts 6.0 s: this server takes up to 5 s" in refused(client, body(video(slow.as_uri())))
    monkeypatch.setattr(chat_request, "_MOST_PIXELS", 64 * 48 * 8 - 1)
    assert "too many" in refused(client, body(video(url)))


def test_another_model_and_other_places_are_not_here(client: TestClient) -> None:
    assert f"serves {MODEL}" in refused(client, body(model="gpt\x1b[2J"), 404)
    for reply in (client.get("/v1/nothing"), client.get(CHAT)):
        assert reply.json()["error"]["code"] == reply.status_code in (404, 405)


def test_the_key_is_wanted(engine: Echo, clip: Path) -> None:
    server = started(engine, clip, key=KEY)
    client, sent = TestClient(server.app), body(video(clip.as_uri()))
    for given in (None, f"Bearer {KEY[:-1]}", KEY, "Bearer \xff"):
        encoded = {} if given is None else {"Authorization": given.encode("latin-1")}
        assert client.get("/v1/models", headers=encoded).status_code == 401
        assert client.post(CHAT, json=sent, headers=encoded).json()["error"]["type"] == "authentication_error"
    right = {"Authorization": f"Bearer {KEY}"}
    assert client.get("/v1/models", headers=right).status_code == 200
    assert client.post(CHAT, json=sent, headers=right).status_code == 200
    assert KEY not in repr(server.config)
    server.close()


def test_web_pages_may_not_ask(client: TestClient, clip: Path) -> None:
    assert "web page" in refused(client, body(video(clip.as_uri())), 403, Origin="https://evil.example")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"host": "0.0.0.0"}, "give a key"), ({"host": "::"}, "give a key"), ({"host": "robot.local"}, "give a key"),
        ({"host": ""}, "no address"), ({"key": "a b"}, "no key has"), ({"key": ""}, "no key has"),
        ({"media": Path("no/where")}, "no such folder"),
    ],
)  # fmt: skip
def test_a_server_that_must_not_start_says_why(config: dict[str, Any], said: str) -> None:
    with pytest.raises(TempolocError, match=said):
        ServeConfig(**config).check()


@pytest.mark.parametrize("config", [{}, {"host": "localhost"}, {"host": "::1"}, {"host": "0.0.0.0", "key": KEY}])
def test_a_server_may_start(config: dict[str, Any]) -> None:
    ServeConfig(**config).check()


@pytest.mark.parametrize("host", ["x" * 300, "\udcff", "a\nb", "192.0.2.1", "::2"])
def test_an_address_of_no_machine_here_is_said(host: str) -> None:
    with pytest.raises(TempolocError, match="cannot listen on"):
        serve._listen(ServeConfig(host, 0, key=KEY))


# --- the engine's thread ---


def test_requests_that_wait_are_one_batch_per_sampling(clip: Path) -> None:
    held = threading.Event()
    engine = Echo(held)
    server = started(engine, clip, waiting=5)
    replies: list[int] = []

    def ask(**more: Any) -> threading.Thread:
        def post() -> None:
            replies.append(TestClient(server.app).post(CHAT, json=body(video(clip.as_uri()), **more)).status_code)

        thread = threading.Thread(target=post)
        thread.start()
        return thread

    threads = [ask(seed=0)]
    assert engine.began.wait(20)
    threads += [ask(seed=k, temperature=t) for k, t in ((1, 0.5), (2, 0.5), (1, 0.5), (3, 0.9))]
    while server.worker.jobs.qsize() < 4:
        pass
    full = TestClient(server.app).post(CHAT, json=body(video(clip.as_uri())))
    assert (full.status_code, full.headers["Retry-After"]) == (429, "1")
    held.set()
    for thread in threads:
        thread.join(20)
    assert replies == [200] * 5
    assert sorted(len(batch) for batch in engine.batches) == [1, 1, 3]
    assert server.answered == 5
    server.close()
    assert not server.worker.is_alive()


def test_one_that_harms_the_engine_harms_no_other(engine: Echo) -> None:
    worker = serve._Worker(engine)
    prompts = {text: Conversation("p", "", "", turns=({"said": text},)) for text in ("refuse a", "explode", "refuse b")}
    asked = [Request(text, "served", Path("x.mp4"), (), prompt, 8.0, id=text) for text, prompt in prompts.items()]
    futures = [worker.submit(request, Sampling()) for request in asked]
    worker.start()
    kinds = [type(future.exception(20)) for future in futures]
    assert kinds == [TempolocError, RuntimeError, TempolocError]
    worker.close()


def test_faults_of_the_engine_name_no_path_and_no_inside(client: TestClient, capsys: pytest.CaptureFixture[str],
                                                         clip: Path) -> None:  # fmt: skip
    place = video(data_url(clip))
    assert refused(client, body(place, {"type": "text", "text": "refuse"})) == "the video: too long"
    assert "fault" not in refused(client, body(place, {"type": "text", "text": "explode"}), 500)
    assert "a fault of the engine's" in capsys.readouterr().err


# --- over a socket ---


def test_our_client_gets_what_the_engine_itself_says() -> None:
    sim, ask = load_benchmark("sim"), ask_config(MODEL, temperature=0.0)
    clip = sim.with_videos()[1]
    asked = [Request(clip.clip, clip.task, clip.video_path(sim.root), clip.labels, load_prompt(ask.prompt), ask.fps,
                     ask.view, trials=(0, 1))]  # fmt: skip
    command = [sys.executable, "-m", "tempoloc_nb", "serve", "--port", "0", "--device", "cpu"]
    alone = os.environ | {"OMP_NUM_THREADS": "1"}
    alone.pop("TEMPOLOC_API_KEY", None)
    with subprocess.Popen(command, env=alone, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = [process.stderr.readline() for _ in range(2)]
        (url,) = re.findall(r"http://127\.0\.0\.1:\d+/v1", lines[1]) or [pytest.fail("".join(lines))]
        remote = make_engine("openai", MODEL, servers=(url,), total_pixels=ask.total_pixels)
        over = ask_engine(remote, asked, ask.sampling)[clip.clip]
        again = [*command[:5], url.rpartition(":")[2].removesuffix("/v1")]
        second = subprocess.run(again, env=alone, capture_output=True, text=True)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "2 requests answered\n", "")
    assert (second.returncode, second.stdout, len(second.stderr.splitlines())) == (1, "", 1)
    assert "choose another with --port" in second.stderr
    local = ask_engine(make_engine("hf", MODEL, device="cpu", total_pixels=ask.total_pixels), asked, ask.sampling)
    for here, there in zip(local[clip.clip], over, strict=True):
        assert (there.text, there.prompt_tokens, there.vision_tokens) == (
            here.text, here.prompt_tokens, here.vision_tokens
        )  # fmt: skip
        assert (there.finish_reason, there.effective_fps) == (here.finish_reason, pytest.approx(here.effective_fps))


@pytest.mark.parametrize("before", ["create_task", "run_until_complete"])
@pytest.mark.filterwarnings("error")
def test_an_interrupt_before_a_service_begins_leaves_no_complaint(before: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of a coroutine that nobody awaited, nor of one that was closed while a task had it."""
    complaints = list[dict[str, Any]]()

    def interrupted(*_: object, **__: object) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    async def service() -> None:
        raise AssertionError("it began")

    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        monkeypatch.setattr(loop, before, interrupted)
        with pytest.raises(KeyboardInterrupt):
            serve._run(runner, service())
    gc.collect()
    assert not complaints
