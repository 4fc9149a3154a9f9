"""An OpenAI-compatible server that needs no model: it reads the videos it is sent, and fails as it is told."""

from __future__ import annotations

import json
import socket
import struct
import time
from base64 import b64decode
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Event, Lock, Thread
from typing import Any
from urllib.parse import unquote, urlparse

from tempoloc_nb.engines.qwen import VideoRules
from tempoloc_nb.video.files import VideoInfo, probe

RULES = VideoRules("qwen2_5_vl", 28 * 28, 128 * 128, 14)


class FakeServer:
    """Answers "answer SEED" to each chat completion, in the manner of vLLM.

    `faults` are spent one a chat completion, in order of arrival: "500", "429 0.3" (with Retry-After), "400 reason",
    "reset", "cut", "garbage", "shapeless", "slow 2" (s, or until it is killed). `sick` may name one by the request's
    body. `trusting`: whether a request may say how videos are read; otherwise `fps` is taken, or `loader_fps`. `wild`
    may answer a request itself, through the handler; then it returns True.
    """

    def __init__(
        self, model: str = "fake", *, faults: list[str] | None = None, owner: str = "vllm", key: str | None = None,
        trusting: bool = True, loader_fps: float = 2.0, allowed: Path | None = None, delay: float = 0.0,
        rules: VideoRules = RULES, text: Callable[[dict[str, Any]], str] | None = None,
        sick: Callable[[dict[str, Any]], str | None] | None = None,
        wild: Callable[[Any, dict[str, Any]], bool] = lambda handler, body: False,
    ) -> None:  # fmt: skip
        self.model, self.faults, self.owner, self.key = model, list(faults or []), owner, key
        self.trusting, self.loader_fps, self.allowed, self.delay = trusting, loader_fps, allowed, delay
        self.rules, self.sick, self.wild = rules, sick or (lambda body: None), wild
        self.text = text or (lambda body: f"answer {body['seed']}")
        self.bodies: list[dict[str, Any]] = []  # of chat completions with a video, as they came
        self.times: list[float] = []
        self.headers: list[dict[str, str]] = []
        self.busy = self.most = 0
        self.lock = Lock()
        self.sockets: set[socket.socket] = set()
        self.killed = Event()
        self.place = socket.socket()  # keeps the port, so that it is nobody else's while this server is away
        self.place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self.place.bind(("127.0.0.1", 0))
        self.port = self.place.getsockname()[1]
        self.server: ThreadingHTTPServer | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> FakeServer:
        """Listen, again at the same port."""
        fake = self

        class Bound(_Handler):
            owner = fake

        self.server = _Server(("127.0.0.1", self.port), Bound)
        self.killed.clear()
        Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def kill(self) -> None:
        """Stop listening and break every connection."""
        self.killed.set()
        if self.server is not None:
            server, self.server = self.server, None
            server.shutdown()
            server.server_close()
            with self.lock:
                for connection in self.sockets:
                    _reset(connection)
                self.sockets.clear()

    def __enter__(self) -> FakeServer:
        return self

    def __exit__(self, *args: object) -> None:
        self.kill()
        self.place.close()


class _Server(ThreadingHTTPServer):
    daemon_threads, allow_reuse_address, allow_reuse_port, request_queue_size = True, True, True, 256
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone is no error of a test."""


def _reset(connection: socket.socket) -> None:
    """Close a connection so that its other end is told at once."""
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    connection.close()


class _Handler(BaseHTTPRequestHandler):
    owner: FakeServer
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        super().setup()
        with self.owner.lock:
            self.owner.sockets.add(self.connection)

    def log_message(self, *args: object) -> None:
        pass

    def send(self, status: int, body: Any, headers: dict[str, str] | None = None, cut: int | None = None) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data[:cut])
        if cut is not None:
            self.wfile.flush()
            _reset(self.connection)

    def refuse(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        self.send(status, {"error": {"message": message, "code": status}}, headers)

    def let_in(self) -> bool:
        self.owner.headers.append(dict(self.headers))
        sent = self.headers.get("Authorization", "")
        if self.owner.key is None or sent == f"Bearer {self.owner.key}":
            return True
        self.refuse(401, f"Incorrect API key provided: {sent.removeprefix('Bearer ')}")
        return False

    def do_GET(self) -> None:
        if self.let_in():
            entry = {"id": self.owner.model, "object": "model", "owned_by": self.owner.owner, "root": "/models/fake"}
            self.send(200, {"object": "list", "data": [entry]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.let_in():
            return
        owner = self.owner
        parts = body["messages"][-1]["content"]
        video = next((p["video_url"]["url"] for p in parts if p["type"] == "video_url"), None)
        words = 10 + sum(len(p["text"].split()) for p in parts if p["type"] == "text")
        if video is None:
            self.send(200, self.completion("", words))
            return
        with owner.lock:
            owner.bodies.append(body)
            owner.times.append(time.monotonic())
            owner.busy += 1
            owner.most = max(owner.most, owner.busy)
            fault = owner.sick(body) or (owner.faults.pop(0) if owner.faults else "")
        try:
            self.answer(body, video, words, fault)
        finally:
            with owner.lock:
                owner.busy -= 1

    def answer(self, body: dict[str, Any], video: str, words: int, fault: str) -> None:
        owner = self.owner
        time.sleep(owner.delay)
        if owner.wild(self, body):
            return
        kind, _, detail = fault.partition(" ")
        if kind == "reset":
            _reset(self.connection)
            return
        if kind.isdigit():
            headers = {"Retry-After": detail} if kind in ("429", "503") and detail else None
            self.refuse(int(kind), detail or "as it was told to", headers)
            return
        if kind == "garbage":
            self.send(200, b'{"choices": [{"mess')
            return
        if kind == "shapeless":
            self.send(200, {"object": "chat.completion", "choices": []})
            return
        if kind == "slow":
            owner.killed.wait(float(detail))
        if body["model"] != owner.model:
            self.refuse(404, f"The model `{body['model']}` does not exist.")
            return
        if body.get("media_io_kwargs") and not owner.trusting:
            self.refuse(400, "Per-request mm_processor_kwargs are disabled by default because they can change …")
            return
        try:
            info = self.load(video)
        except ValueError as error:
            self.refuse(400, str(error))
            return
        rate = body.get("media_io_kwargs", {}).get("video", {}).get("fps", owner.loader_fps)
        frames = min(info.n_frames, int(info.n_frames / info.fps * min(rate, 30))) // 2 * 2
        tokens = frames // 2 * owner.rules.pair_tokens(info.width, info.height, frames)
        made = self.completion(owner.text(body), words + 1 + tokens)  # "<|vision_start|>…<|vision_end|>" is a word
        self.send(200, made, cut=30 if kind == "cut" else None)

    def load(self, url: str) -> VideoInfo:
        """What a video holds; ValueError for one that may not be read."""
        if url.startswith("data:video/mp4;base64,"):
            with NamedTemporaryFile(suffix=".mp4") as file:
                file.write(b64decode(url.partition(",")[2], validate=True))
                file.flush()
                return probe(file.name)
        path = Path(unquote(urlparse(url).path))
        if self.owner.allowed is None or not path.is_relative_to(self.owner.allowed):
            raise ValueError(f"The file path {path} must be a subpath of `--allowed-local-media-path`.")
        return probe(path)

    def completion(self, text: str, tokens: int) -> dict[str, Any]:
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return {"choices": [choice], "usage": {"prompt_tokens": tokens, "completion_tokens": len(text.split())}}
