"""A server that describes videos without looking at them, and fails as it is told."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SCENE = {
    "subjects": [{"description": "a robot arm", "action": "moves discs"}],
    "background_setting": "a textured ground",
    "actions": [{"time": "0:00-0:01", "description": "the arm waits"}],
}
DENSE = "A robot arm moves discs over a textured ground."


class CaptionServer:
    """Answers chat completions: SCENE where a video is shown, DENSE where there is only text.

    `fault` is asked for each request's body and number (from 0) and may name a fault: "503", "400 reason", "slow 2"
    (s), "text …" (that text), "cut" (finish_reason "length"), "shapeless", "hang" until the server is closed.
    """

    def __init__(
        self,
        fault: Callable[[dict[str, Any], int], str] = lambda body, number: "",
        owner: str = "vllm",
        scene: Callable[[dict[str, Any]], Any] = lambda body: SCENE,
    ) -> None:
        self.fault, self.owner, self.scene = fault, owner, scene
        self.bodies: list[dict[str, Any]] = []
        self.busy = self.most = 0
        self.lock, self.closed = threading.Lock(), threading.Event()
        outer = self

        class Bound(_Handler):
            owner = outer

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Bound)
        self.server.daemon_threads, self.server.block_on_close = True, False
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def __enter__(self) -> CaptionServer:
        return self

    def __exit__(self, *args: object) -> None:
        self.closed.set()
        self.server.shutdown()
        self.server.server_close()

    @property
    def shown(self) -> list[dict[str, Any]]:
        """The requests that had a video."""
        return [b for b in self.bodies if isinstance(b["messages"][-1]["content"], list)]


class _Handler(BaseHTTPRequestHandler):
    owner: CaptionServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        pass

    def send(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        self.send(200, {"data": [{"id": "describer", "owned_by": self.owner.owner}]})

    def do_POST(self) -> None:
        body, owner = json.loads(self.rfile.read(int(self.headers["Content-Length"]))), self.owner
        with owner.lock:
            number = len(owner.bodies)
            owner.bodies.append(body)
            owner.busy += 1
            owner.most = max(owner.most, owner.busy)
        try:
            self.answer(body, owner.fault(body, number))
        except OSError:  # the client has gone
            pass
        finally:
            with owner.lock:
                owner.busy -= 1

    def answer(self, body: dict[str, Any], fault: str) -> None:
        kind, _, detail = fault.partition(" ")
        if kind.isdigit():
            self.send(int(kind), {"error": {"message": detail or "as it was told to"}})
            return
        if kind == "hang":
            self.owner.closed.wait(30)
            self.close_connection = True
            return
        if kind == "slow":
            time.sleep(float(detail))
        if kind == "shapeless":
            self.send(200, {"choices": []})
            return
        shown = isinstance(body["messages"][-1]["content"], list)
        text = detail if kind == "text" else json.dumps(self.owner.scene(body)) if shown else DENSE
        choice = {
            "message": {"role": "assistant", "content": text}, "finish_reason": "length" if kind == "cut" else "stop"
        }  # fmt: skip
        self.send(200, {"choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 9}})
