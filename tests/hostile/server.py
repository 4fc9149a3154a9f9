"""A hostile server: the first part of a URL's path says how it behaves. Run as a script, it prints its port.

`http://127.0.0.1:PORT/MANNER/NUMBER/v1/…`: `NUMBER` keeps the tries apart. It needs the standard library and the
grammar of answers alone.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import random
import re
import socket
import struct
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "helpers"))

from answer_grammar import make_case
from spoilt_logs import spoilt_log

MODEL = "nvidia/Cosmos-Reason1-7B"
ESCAPE = "\x1b]0;taken\x07"
ANSWER = "Event 1: <0.50> <0.90> grasping the mug\nEvent 2: <0.90> <1.50> releasing the mug"
LOG = "0.50 s: grasping the mug\n1.25 s: releasing the mug\n1.90 s: end"


def names(count: int) -> str:
    """Names of so many spans."""
    spans = [{"span": i, "verb": ("release", "grasp")[i % 2], "object": "mug"} for i in range(1, count + 1)]
    return json.dumps({"spans": spans})


SCENE = {
    "subjects": [{"description": "an arm", "action": "moves"}], "background_setting": "a ground",
    "actions": [{"time": "0:00-0:01", "description": "the arm waits"}],
}  # fmt: skip
ENTRY = {"id": MODEL, "object": "model", "owned_by": "vllm", "root": MODEL}
BIG = 10**400


def completion(text: Any = ANSWER, **usage: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return {"choices": [choice], "usage": {"prompt_tokens": 100, "completion_tokens": 9, **usage}}


def changed(**choice: Any) -> dict[str, Any]:
    made = completion()
    made["choices"][0].update(choice)
    return made


def nested(depth: int = 100_000) -> bytes:
    return b'{"choices": ' + b"[" * depth + b"]" * depth + b"}"


# What a chat completion is answered with: JSON, bytes, or a function of the handler.
ANSWERS: dict[str, Any] = {
    "choices-null": {"choices": None, "usage": {}},
    "choices-none": {"choices": [], "usage": {}},
    "choices-two": {**completion(), "choices": completion()["choices"] * 2},
    "choices-text": {"choices": "abc", "usage": {"prompt_tokens": 1, "completion_tokens": 1}},
    "list": [1, 2, 3],
    "number": 7,
    "null": None,
    "text": "a text",
    "content-null": completion(None),
    "content-list": completion([{"type": "text", "text": ANSWER}]),
    "content-number": completion(7),
    "content-table": completion({"a": 1}),
    "content-false": completion(False),
    "message-text": changed(message="hello"),
    "message-null": changed(message=None),
    "reasoning-table": changed(message={"content": ANSWER, "reasoning": {"a": [1]}}),
    "finish-null": changed(finish_reason=None),
    "finish-table": changed(finish_reason={"a": 1}),
    "finish-length": changed(finish_reason="length"),
    "finish-eos": changed(finish_reason=f"eos_token{ESCAPE}"),
    "finish-abort": changed(finish_reason="abort"),
    "usage-null": {**completion(), "usage": None},
    "usage-text": completion(prompt_tokens="many"),
    "usage-digits": completion(prompt_tokens="100"),
    "usage-negative": completion(prompt_tokens=-5, completion_tokens=-7),
    "usage-huge": completion(prompt_tokens=BIG, completion_tokens=BIG),
    "usage-long": completion(prompt_tokens=2**63, completion_tokens=2**64),
    "usage-infinity": b'{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1e999,'
    b'"completion_tokens":Infinity}}',
    "usage-nan": b'{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":NaN,'
    b'"completion_tokens":1}}',
    "usage-true": completion(prompt_tokens=True, completion_tokens=False),
    "usage-list": completion(prompt_tokens=[1], completion_tokens={}),
    "surrogate": completion("Event 1: <0.5> <0.9> \ud800 grasping\udfff"),
    "surrogate-finish": changed(finish_reason="st\ud800op"),
    "separators": completion("Event 1: <0.5> <0.9> a\u2028b\u2029c\x85d\x0b\x0ce\x1cf\nEvent 2: <0.9> <1.5> b"),
    "controls": completion(f"{ESCAPE}Event 1: <0.5> <0.9> {ESCAPE}a\0b\r\nEvent 2: <0.9> <1.5> \x7f\x9b31m"),
    "empty-text": completion(""),
    "numbers": completion("Event 1: <1e999> <nan> a\nEvent 2: <" + "9" * 5000 + "> <-1> b"),
    "json-answer": completion('{"events": [{"start": NaN}]}'),
    "deep-answer": completion("[" * 100_000),
    "events-many": completion("\n".join(f"Event {i}: <{i}> <{i}> x" for i in range(20_000))),
    "words": completion("x" * 3_000_000),
    "empty": b"",
    "garbage": b'{"choices": [{"mess',
    "binary": bytes(range(256)) * 20,
    "html": b"<html><body>Bad gateway</body></html>",
    "nested": nested(),
    "bom": b"\xef\xbb\xbf" + json.dumps(completion()).encode(),
    "utf-16": json.dumps(completion()).encode("utf-16"),
    "latin-1": json.dumps(completion("é"), ensure_ascii=False).encode("latin-1"),
    "duplicate-keys": b'{"choices":[],"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":1,"completion_tokens":1}}',
}

# What the list of models is answered with.
MODELS: dict[str, Any] = {
    "models-null": None,
    "models-list": [ENTRY],
    "models-data-null": {"data": None},
    "models-data-text": {"data": "abc"},
    "models-data-numbers": {"data": [1, 2]},
    "models-entry-null": {"data": [None]},
    "models-id-number": {"data": [{"id": 7}]},
    "models-other": {"data": [{"id": "other"}]},
    "models-many": {"data": [{"id": f"model-{i}"} for i in range(50_000)]},
    "models-escape": {"data": [{"id": f"{ESCAPE}\nfake line\u2028x"}]},
    "models-surrogate": {"data": [{"id": "\ud800"}]},
    "models-root-table": {"data": [{**ENTRY, "root": {"a": 1}, "owned_by": [1]}]},
    "models-root-escape": {"data": [{**ENTRY, "root": f"../../{ESCAPE}\nx", "owned_by": ESCAPE}]},
    "models-root-surrogate": {"data": [{**ENTRY, "root": "a\ud800b", "owned_by": "\udfff"}]},
    "models-root-long": {"data": [{**ENTRY, "root": "x" * 100_000}]},
    "models-garbage": b'{"data": [',
    "models-nested": nested(),
    "models-empty": b"",
}

STATUSES = (204, 301, 307, 400, 401, 403, 404, 408, 413, 418, 422, 429, 500, 502, 503, 599)
RETRIES = ("0", "nan", "1e999", "-5", "99999999999", "soon", "Wed, 21 Oct 1815 07:28:00 GMT", "9" * 5000, "\xff")
AGAIN = {400: "true", 403: "true", 429: "false", 503: "false", 500: "x" * 5000}  # status → x-should-retry
PAGE = f"<!DOCTYPE html><html><title>{ESCAPE}&#27;]0;x&#7;\nno</title><h1>Bad</h1>".encode() + b"<title" * 9000
ECHOES: dict[str, Callable[[str], str]] = {
    "plain": lambda key: key,
    "base64": lambda key: base64.b64encode(key.encode()).decode(),
    "base64-within": lambda key: base64.b64encode(f"Bearer {key} x".encode()).decode(),
    "base64-url": lambda key: base64.urlsafe_b64encode(key.encode()).decode(),
    "quoted": lambda key: quote(key, safe=""),
    "hexadecimal": lambda key: key.encode().hex(),
    "half": lambda key: key[: len(key) // 2 + 4],
    "other-half": lambda key: "…" + key[len(key) // 2 - 4 :],
    "json": lambda key: json.dumps({"headers": {"authorization": f"Bearer {key}"}}),
    "lines": lambda key: f"no\nkey: {key}\n{ESCAPE}",
}

WIRE = (
    "reset", "cut", "short", "drip", "bomb-gzip", "bomb-deflate", "bomb-nested", "endless", "chunked", "header", "huge",
    "redirect", "redirect-loop", "redirect-away", "no-length", "not-http", "models-drip", "models-bomb", "models-huge",
    "models-reset", "models-redirect",
)  # fmt: skip

MANNERS = (
    *ANSWERS, *MODELS, *WIRE, *(f"status-{n}" for n in STATUSES), *(f"retry-{i}" for i in range(len(RETRIES))),
    *(f"page-{n}" for n in STATUSES), *(f"again-{n}" for n in AGAIN),
    *(f"echo-{way}-{n}" for way in ECHOES for n in (200, 400, 401, 429, 500)),
    *(f"echo-{way}-models" for way in ECHOES),
)  # fmt: skip
"""All manners that are worse than "good", "slow" and "flaky"."""

LONG = 100_000_000


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    counts: ClassVar[Counter[str]] = Counter()
    lock = threading.Lock()
    timeout = 20

    def log_message(self, *args: object) -> None:
        pass

    def send(self, status: int, body: Any, headers: dict[str, str] | None = None, length: int | None = None) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(data) if length is None else length))
        self.end_headers()
        self.wfile.write(data)

    def reset(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()
        self.close_connection = True

    def place(self) -> tuple[str, str, str]:
        """(manner, number, what is asked for)."""
        parts = self.path.split("/", 3)
        return (parts[1], parts[2], "/" + parts[3]) if len(parts) == 4 else ("status-404", "", "")

    @property
    def key(self) -> str:
        return self.headers.get("Authorization", "").removeprefix("Bearer ")

    def do_GET(self) -> None:
        with contextlib.suppress(OSError):
            manner, _, _ = self.place()
            if manner in MODELS:
                self.send(200, MODELS[manner])
            elif manner.startswith("echo-") and manner.endswith("-models"):
                self.send(401, {"error": {"message": ECHOES[manner[5:-7]](self.key)}})
            elif manner.startswith("models-"):
                self.wire(manner.removeprefix("models-"))
            else:
                self.send(200, {"object": "list", "data": [ENTRY]})

    def do_POST(self) -> None:
        with contextlib.suppress(OSError):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            manner, number, _ = self.place()
            self.chat(body, manner, number)

    def chat(self, body: dict[str, Any], manner: str, number: str) -> None:
        with self.lock:
            self.counts[number] += 1
            count = self.counts[number]
        if manner == "slow":
            time.sleep(0.03)
        if manner == "flaky" and count % 3 == 0:
            (self.reset if count % 2 else lambda: self.send(500, {"error": {"message": "not now"}}))()
        elif manner in ANSWERS:
            self.send(200, ANSWERS[manner])
        elif manner in WIRE:
            self.wire(manner)
        elif manner.startswith("status-"):
            self.send(int(manner[7:]), {"error": {"message": f"as told{ESCAPE}\nsecond line"}})
        elif manner.startswith("page-"):
            self.send(int(manner[5:]), PAGE, {"Content-Type": "text/html", "Server": f"{ESCAPE} nginx"})
        elif manner.startswith("again-"):
            self.send(int(manner[6:]), {"error": "told"}, {"x-should-retry": AGAIN[int(manner[6:])]})
        elif manner.startswith("retry-"):
            self.send(429, {"error": "later"}, {"Retry-After": RETRIES[int(manner[6:])]})
        elif manner.startswith("echo-") and not manner.endswith("-models"):
            way, _, status = manner[5:].rpartition("-")
            text = ECHOES[way](self.key)
            self.send(int(status), completion(text) if status == "200" else {"error": {"message": f"got {text}"}})
        else:
            self.send(200, completion(self.good(body, manner)))

    def good(self, body: dict[str, Any], manner: str) -> str:
        """An answer of the wanted kind: a scene, a caption, a log, names, two events, or a text of a grammar."""
        if manner.startswith("grammar-"):
            return make_case(random.Random(manner)).text
        if manner.startswith("log-"):
            return spoilt_log(random.Random(manner)).text
        text = json.dumps(body)
        if "json_schema" in text and "background_setting" in text:
            return json.dumps(SCENE)
        if "List every event" in text:
            return LOG
        if "Name each span" in text:
            return names(text.count("\\nSpan "))
        return ANSWER if re.search(r"[Ee]vent|video_url", text) else "An arm waits."

    def wire(self, manner: str) -> None:
        """What is wrong below JSON."""
        whole = json.dumps(completion()).encode()
        if manner in PACKED:
            data, encoding = PACKED[manner]
            self.send(200, data, {"Content-Encoding": encoding})
        elif manner in LENGTHS:
            kept, length = LENGTHS[manner]
            self.send(200, whole[:kept], length=len(whole) + length)
            self.reset()
        elif manner in RAW:
            self.wfile.write(RAW[manner])
            self.close_connection = True
        elif manner == "reset":
            self.reset()
        elif manner == "header":
            self.send(200, whole, {f"X-{i}": "y" * 900 for i in range(150)})
        elif manner in ("drip", "huge", "endless"):
            self.drop_by_drop(manner, whole)
        else:
            base = {"redirect-loop": self.path, "redirect-away": "http://127.0.0.1:1/elsewhere"}
            self.send(307, b"", {"Location": base.get(manner, "/good/0/v1/chat/completions")})

    def drop_by_drop(self, manner: str, whole: bytes) -> None:
        """An answer that does not end soon: slow, large, or without an end that is said."""
        self.send_response(200)
        name, value = {"drip": ("Content-Length", str(len(whole))), "huge": ("Content-Length", str(LONG))}.get(
            manner, ("Transfer-Encoding", "chunked")
        )
        self.send_header(name, value)
        self.end_headers()
        pieces = {"drip": [bytes([b]) for b in whole[:40]], "huge": [b"x" * (LONG // 100)] * 100}
        for piece in pieces.get(manner, [b"10000\r\n" + b" " * 65536 + b"\r\n"] * 3000):
            self.wfile.write(piece)
            time.sleep(0.5 if manner == "drip" else 0)
        self.reset()


BOMB = gzip.compress(b" " * LONG, 9)
PACKED = {
    "bomb": (BOMB, "gzip"), "bomb-gzip": (BOMB, "gzip"), "bomb-nested": (gzip.compress(BOMB), "gzip, gzip"),
    "bomb-deflate": (zlib.compress(b" " * LONG, 9), "deflate"),
}  # fmt: skip
LENGTHS = {"cut": (30, 0), "short": (None, 10)}  # what is sent, and how much more is promised
RAW = {
    "no-length": b"HTTP/1.0 200 OK\r\n\r\n" + json.dumps(completion()).encode(), "not-http": b"SSH-2.0-OpenSSH_9.6\r\n",
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
}  # fmt: skip


class Server(ThreadingHTTPServer):
    daemon_threads, allow_reuse_address, request_queue_size, block_on_close = True, True, 256, False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone is no error."""


if __name__ == "__main__":
    server = Server(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    sys.stdin.read()  # until whoever started it goes
