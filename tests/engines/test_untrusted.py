"""Servers that are not trusted: what they send costs no memory, no time, no key, no terminal and no other answer."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
import time
import tracemalloc
import zlib
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import pytest
from asking import run_backend
from fake_server import RULES, FakeServer

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.engines.http import _LARGEST as LARGEST
from tempoloc_nb.engines.http import Client, Patience, UnreachableError, base_url, event_loop, get_json
from tempoloc_nb.engines.protocol import reason, row_seed
from tempoloc_nb.engines.server import CHAT, OpenAIBackend, list_served, read_reply
from tempoloc_nb.inference.run import RunSummary
from tempoloc_nb.inference.store import read_errors

QUICK = Patience(timeout=30.0, retries=1, first=0.02, longest=0.1, absence=20.0)
ONCE = replace(QUICK, retries=0)
KEY = "sk-4f9a/77b1+c2d3e8.Zq"
SIM = load_benchmark("sim").head(1)
BAD = SIM.clips[0].clip
GOOD = {"choices": [{"index": 0, "message": {"content": "x"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1}}  # fmt: skip


ASKED = {"messages": [{"role": "user", "content": [{"type": "video_url", "video_url": {"url": "data:"}}]}], "seed": 0}


def ask(answer: Callable[[Any], None], patience: Patience = ONCE) -> str:
    """The one line in which a request for a chat completion fails, after the server's name."""

    def wild(handler: Any, body: dict[str, Any]) -> bool:
        try:
            answer(handler)
        except OSError:  # the client has read enough
            handler.close_connection = True
        return True

    async def post() -> Any:
        async with Client([server.url], patience=patience) as client:
            return await client.post(CHAT, ASKED, read_reply)

    with FakeServer(wild=wild) as server, pytest.raises(TempolocError) as error:
        anyio.run(post)
    line = str(error.value)
    assert line.startswith(f"{server.url} ")
    assert len(line) < 500
    assert line.isprintable()
    return line.removeprefix(f"{server.url} ")


def one_is_wild(answer: Callable[[Any], None]) -> Callable[[Any, dict[str, Any]], bool]:
    """Lets the first clip's request be answered by `answer`, which is given the handler."""

    def wild(handler: Any, body: dict[str, Any]) -> bool:
        if body["seed"] != row_seed(0, BAD, 0):
            return False
        try:
            answer(handler)
        except OSError:  # the client has read enough
            handler.close_connection = True
        return True

    return wild


def run(server: FakeServer, out: Path, patience: Patience = QUICK) -> RunSummary:
    made = OpenAIBackend("fake", [server.url], rules=RULES, concurrency=2, patience=patience)
    return run_backend(made, SIM, out, fps=4, prompt="tiny")


def only_error(server: FakeServer, summary: RunSummary) -> str:
    """The one line about the one clip that failed; the others were answered."""
    assert summary.written == len(SIM.clips) - 1
    ((clip, line),) = summary.failed
    assert clip == BAD
    assert line.startswith(f"{BAD}: {server.url} ")
    assert len(line.splitlines()) == 1
    assert [row["error"] for row in read_errors(summary.output)] == [line]
    return line


def changed(path: str, value: Any) -> dict[str, Any]:
    """A good answer with another value at a path of keys."""
    made: dict[str, Any] = json.loads(json.dumps(GOOD))
    *keys, last = path.split(".")
    at: Any = made
    for key in keys:
        at = at[int(key) if key.isdigit() else key]
    at[last] = value
    return made


@pytest.mark.parametrize(
    "body",
    [
        changed("choices.0.message.content", None), changed("choices.0.message.content", ["x"]),
        changed("choices.0.message.content", 5), changed("choices.0.message", "x"), changed("choices.0.message", None),
        changed("choices.0.message.reasoning", {"a": 1}), changed("choices", []), changed("choices", None),
        changed("choices", {"0": 1}), changed("choices", [GOOD["choices"][0]] * 2), changed("choices", "x"),
        changed("choices.0.finish_reason", "abort"), changed("usage", None), changed("usage", []),
        changed("usage.prompt_tokens", -1), changed("usage.prompt_tokens", 10**12),
        changed("usage.prompt_tokens", "7"), changed("usage.completion_tokens", 1.5),
        changed("usage.completion_tokens", True), changed("usage.completion_tokens", None),
        {"error": "no"}, {"error": {"message": ["x"], "code": "y"}}, {"error": 5}, {}, [], None, 7, "text",
        b"", b"\xff\xfe\x00", b"[" * 100_000, b'{"choices": ' + b"1" * 5000 + b"}", b'{"a": NaN}',
    ],
    ids=lambda body: str(body)[:60],
)  # fmt: skip
def test_an_answer_of_another_shape_is_one_line(body: Any) -> None:
    line = ask(lambda handler: handler.send(200, body))
    assert line.startswith("failed with: an answer that is cut off or has another shape (")


def endless(handler: Any, head: str = "", piece: bytes = b" " * 65536) -> None:
    """An answer without end."""
    handler.wfile.write(f"HTTP/1.1 200 OK\r\n{head}Connection: close\r\n\r\n".encode())
    while True:
        handler.wfile.write(piece)


def bomb(window: int) -> bytes:
    """100 MB of zeros in 100 kB."""
    packer = zlib.compressobj(9, zlib.DEFLATED, window)
    return packer.compress(bytes(100 * 2**20)) + packer.flush()


def packed(coding: str, data: bytes) -> Callable[[Any], None]:
    return lambda handler: handler.send(200, data, {"Content-Encoding": coding})


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (endless, "answers with more than 2 MiB: the rest was not read"),
        (lambda h: h.send(200, changed("choices.0.message.content", "x" * LARGEST)), "answers with more than 2 MiB"),
        (lambda h: endless(h, "Content-Encoding: gzip\r\n", gzip.compress(b"")), "more than 2 MiB"),
        (packed("gzip", bomb(31)), "more than 2 MiB"), (packed("deflate", bomb(15)), "more than 2 MiB"),
        (packed("br", b"\x00" * 100), "an answer packed with br, which was not asked for"),
        (packed("zstd", b"\x00" * 100), "an answer packed with zstd"),
        (packed("gzip, gzip", gzip.compress(bomb(31))), "an answer packed with gzip, gzip"),
        (packed("gzip", b"no"), "cannot be unpacked"),
        (lambda h: endless(h, "X-Long: " + "y" * 200_000 + "\r\n"), "connection lost"),
        (lambda h: endless(h, "X: y\r\n" * 50_000), "connection lost"),
        (lambda h: h.wfile.write(b"\x00\x01 no HTTP\r\n\r\n"), "connection lost"),
    ],
)  # fmt: skip
def test_answers_are_read_to_a_limit(answer: Callable[[Any], None], said: str) -> None:
    tracemalloc.start()
    line = ask(answer)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert said in line
    assert most < 30 * 2**20


@pytest.mark.parametrize("body", [changed("usage.prompt_tokens", -1), b"x" * (LARGEST + 1)], ids=["shape", "size"])
def test_an_answer_that_cannot_be_used_costs_no_other(body: Any, tmp_path: Path) -> None:
    with FakeServer(wild=one_is_wild(lambda handler: handler.send(200, body))) as server:
        only_error(server, run(server, tmp_path / "p.jsonl"))


def test_a_trial_that_fails_is_noted_with_its_reason(tmp_path: Path) -> None:
    with FakeServer(wild=one_is_wild(lambda handler: handler.send(200, []))) as server:
        made = OpenAIBackend("fake", [server.url], rules=RULES, concurrency=2, patience=ONCE)
        summary = run_backend(made, SIM, tmp_path / "p.jsonl", fps=4, trials=2, prompt="tiny")
    ((_, line),) = summary.failed
    assert line.startswith(f"the back end gave no answer for trials [0]: {BAD}: {server.url} failed with: an answer")


def test_a_packed_answer_is_read(tmp_path: Path) -> None:
    data = json.dumps(changed("choices.0.message.content", "packed")).encode()
    for coding, body in (("gzip", gzip.compress(data)), ("deflate", zlib.compress(data))):
        with FakeServer(wild=one_is_wild(packed(coding, body))) as server:
            assert run(server, tmp_path / f"{coding}.jsonl").failed == ()
            assert '"packed"' in (tmp_path / f"{coding}.jsonl").read_text()


def drip(handler: Any) -> None:
    """A byte of a header now and then."""
    for byte in b"HTTP/1.1 200 OK\r\nX: " + b"y" * 1000:
        handler.wfile.write(bytes([byte]))
        time.sleep(0.1)


def test_an_answer_in_drops_ends_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(drip, replace(ONCE, timeout=1.0)) == "failed with: no answer within 1 s"
    with FakeServer() as server:
        monkeypatch.setattr("fake_server._Handler.do_GET", drip)
        began = time.monotonic()
        with pytest.raises(UnreachableError, match="no answer within 1 s"):
            get_json(server.url, "/v1/models", timeout=1.0)
        assert time.monotonic() - began < 60  # of 100


def test_nobody_is_followed_to_another_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPOLOC_API_KEY", KEY)
    with FakeServer() as other:
        place = f"{other.url}/v1/chat/completions?key={KEY}"
        line = ask(lambda handler: handler.send(307, b"", {"Location": place}))
        assert line.startswith(f"refuses: HTTP 307, it sends on to {other.url}/v1/chat/completions?key=…: give that")
        assert other.headers == []
    assert ask(lambda handler: handler.send(301, {"error": "gone"})) == "refuses: HTTP 301, gone"


def test_lists_of_models_are_not_trusted_either(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = [
        {"data": [{"id": 5}]}, {"data": [{"id": "m", "owned_by": 5}]}, {"data": None}, {"data": {"id": "m"}}, [], None,
        {"data": [{"id": "\x1b[2Jm"}]}, {"data": [{"id": "m", "root": "r\u202e"}]}, {"data": [{"id": "m" * 2000}]},
        b"[" * 100_000, b" " * (LARGEST + 1), b"\xff",
    ]  # fmt: skip
    with FakeServer() as server:
        for body in said:
            monkeypatch.setattr("fake_server._Handler.do_GET", lambda handler, body=body: handler.send(200, body))
            with pytest.raises(TempolocError, match="does it speak OpenAI's protocol") as error:
                list_served(server.url, "TEMPOLOC_API_KEY")
            assert len(str(error.value)) < 500
            assert str(error.value).isprintable()


def test_what_a_server_says_is_shown_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = "no\x1b[2J\x07 \x9b1A \u202e \ud800\rmore"
    with FakeServer(wild=one_is_wild(lambda h: h.send(400, {"error": {"message": said}}))) as server:
        summary = run(server, tmp_path / "p.jsonl")
        assert only_error(server, summary).endswith(r"HTTP 400, no\x1b[2J\x07 \x9b1A \u202e �")
    with FakeServer(text=lambda body: said) as server:
        assert run(server, tmp_path / "q.jsonl").failed == ()
    rows = [json.loads(line) for line in (tmp_path / "q.jsonl").read_text().splitlines()]
    assert {row["text"] for row in rows} == {said.replace("\ud800", "�")}
    summary.tell_failures()
    told = capsys.readouterr()
    assert (told.out + told.err).replace("\n", "").isprintable()


# --- the key, in any writing ---


def bare(text: str, encode: Callable[[bytes], bytes] = b64encode) -> str:
    return encode(text.encode()).decode().rstrip("=")


ECHOES = {  # and what of it must not be seen
    "plain": (KEY, "77b1"), "capitals": (KEY.upper(), "77b1"), "a part": (KEY[4:15], "77b1"),
    "URL": (f"/?api_key={quote(KEY, safe='')}", "77b1"), "hex": (KEY.encode().hex(), "37376231"),
    "every byte": ("".join(f"%{b:02X}" for b in KEY.encode()), "%37%37%62%31"),
    "JSON in JSON": (json.dumps({"key": f"Bearer {KEY}"}).replace("/", "\\/").replace("k", "\\u006b"), "77b1"),
    "HTML": (KEY.replace("/", "&#x2F;").replace("-", "&#45;"), "77b1"), "repr": (repr({"k": KEY.encode()}), "77b1"),
    "base64": (bare(KEY), bare(KEY)[10:16]), "Bearer": (bare(f"Bearer {KEY}"), bare(f"Bearer {KEY}")[20:26]),
    "user": (bare(f"user:{KEY}"), bare(f"user:{KEY}")[20:26]),
    "within": (bare(f"x{KEY}yz", urlsafe_b64encode), bare(f"x{KEY}yz", urlsafe_b64encode)[10:16]),
}  # fmt: skip


def test_an_echoed_key_is_blotted_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TEMPOLOC_API_KEY", KEY)
    for name, (echo, piece) in ECHOES.items():
        line = ask(lambda handler, echo=echo: handler.send(400, {"error": {"message": f"the key {echo} is odd"}}))
        assert line.startswith("refuses: HTTP 400, the key "), name
        assert "…" in line, name
        assert piece.lower() not in line.lower(), name
    everything = " ".join(echo for echo, _ in ECHOES.values())
    with FakeServer(text=lambda body: f"Event 1: <1.0> {everything}", owner=f"somebody {KEY}") as server:
        summary = run(server, tmp_path / "p.jsonl")
    texts = [json.loads(line)["text"] for line in summary.output.read_text().splitlines()]
    assert [text[:18] for text in texts] == ["Event 1: <1.0> … …"] * len(SIM.clips)
    said = [*capsys.readouterr(), *texts, *(p.read_text() for p in tmp_path.iterdir())]
    assert not [piece for _, piece in ECHOES.values() for text in said if piece.lower() in text.lower()]


def test_a_short_key_is_blotted_out_as_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPOLOC_API_KEY", "a1")
    with FakeServer(text=lambda body: "a1: cobra1, a1.") as server:
        run(server, tmp_path / "p.jsonl")
    assert '"…: cobra1, …."' in (tmp_path / "p.jsonl").read_text()


@pytest.mark.parametrize(
    "url",
    ["me:pass-word@host:8000", "ws://me:pass-word@host", "http:/me:pass-word@host", "host?api_key=pass-word",
     "localhost:8000?api_key=pass-word", "https://h/v1;key=pass-word", "https://h/v1&key=pass-word",
     "foo:bar:pass-word@x", "//me:pass-word@host", "http://h/#pass-word", "mailto:pass-word@h", "http://[pass-word"],
)  # fmt: skip
def test_no_address_repeats_a_key(url: str) -> None:
    with pytest.raises(TempolocError) as error:
        base_url(url)
    assert "pass-word" not in str(error.value)


@pytest.mark.parametrize(
    "url",
    ["http://h\x1b2J", "http://\u202eh", "http://h\ud800", "http://xn--0", "http://h/\0", f"http://h/{'x' * 10**5}"],
)
def test_an_address_that_can_be_none_is_one_line(url: str) -> None:
    with pytest.raises(TempolocError, match="is not a server's URL") as error:
        get_json(url, "/v1/models")
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 300


def test_the_key_of_the_environment_is_in_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPOLOC_API_KEY", KEY)
    url = f"http://127.0.0.1:9/{quote(KEY, safe='')}"
    for act in (lambda: Client([url]), lambda: get_json(url, "/v1/models")):
        with pytest.raises(TempolocError, match="holds no keys") as error:
            act()
        assert "77b1" not in str(error.value)


def test_a_proxy_that_cannot_be_used_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for proxy in ("socks9://me:pass-word@h:1", "http://me:pass-word@[h", "nonsense pass-word"):
        monkeypatch.setenv("ALL_PROXY", proxy)
        with pytest.raises(TempolocError) as error:
            get_json("http://192.0.2.1:9", "/v1/models", timeout=0.5)
        assert "pass-word" not in str(error.value)


def test_what_the_system_says_names_the_file() -> None:
    assert reason(OSError(28, "No space left on device", "a.mp4")) == "a.mp4: No space left on device"
    assert reason(ValueError("too small")) == "ValueError: too small"


INTERRUPTED_AT_EACH_LINE = """
import faulthandler, signal, sys
from tempoloc_nb.engines.http import event_loop

async def nothing(): pass

def is_past_the_end(number, fails):
    left = number
    def trace(frame, event, _):
        nonlocal left
        if event == "return" and frame.f_code is use.__code__:
            sys.settrace(None)
        left -= event == "line"
        if not left and event == "line":
            signal.raise_signal(signal.SIGINT)
        return trace
    def leave():
        sys.settrace(trace)
        sys._getframe(1).f_trace = trace
        if fails:
            raise ValueError
    def use():
        with event_loop() as portal:
            portal.call(nothing)
            leave()
    try:
        use()
    except (KeyboardInterrupt, ValueError):
        pass
    sys.settrace(None)
    return left > 0

faulthandler.dump_traceback_later(60, exit=True)
for fails in (False, True):
    number = 1
    while not is_past_the_end(number, fails):
        number += 1
    print(number)
"""


def test_an_interrupt_at_any_line_while_the_loop_ends_ends_it() -> None:
    ran = subprocess.run([sys.executable, "-c", INTERRUPTED_AT_EACH_LINE], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert all(int(lines) > 100 for lines in ran.stdout.split()), "the loop's end was not traced"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_the_loop_starts_ends_it(monkeypatch: pytest.MonkeyPatch, number: signal.Signals) -> None:
    import anyio.from_thread

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    ended: list[bool] = []

    @contextmanager
    def slow() -> Iterator[str]:
        signal.raise_signal(number)  # the loop runs, and nobody knows it yet
        try:
            yield "portal"
        finally:
            ended.append(True)

    monkeypatch.setattr(anyio.from_thread, "start_blocking_portal", slow)
    before = signal.signal(number, end)
    try:
        with pytest.raises(KeyboardInterrupt), event_loop():
            pytest.fail("Ctrl-C was lost")
        assert ended == [True]
        assert signal.getsignal(number) is end
    finally:
        signal.signal(number, before)
