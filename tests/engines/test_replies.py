"""What servers say beside their answers: why one ended, whether to ask again, pages, proxies and certificates."""

from __future__ import annotations

import socket
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from fake_server import FakeServer

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.engines.http import (
    Client,
    Patience,
    RefusedError,
    _is_here,
    _may_pass,
    _retry_after,
    event_loop,
    get_json,
)
from tempoloc_nb.engines.server import CHAT, Reply, list_served, read_reply

QUICK = Patience(timeout=30.0, retries=2, first=0.02, longest=0.1, absence=20.0)
NO_REASON = object()
VIDEO = {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}}
ASKED = {"messages": [{"role": "user", "content": [VIDEO, {"type": "text", "text": "when?"}]}], "seed": 0}
Step = tuple[int, Any, dict[str, str]]


def completion(reason: Any = "stop", text: str = "<0.7> <2.9> pouring") -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": reason}
    if reason is NO_REASON:
        del choice["finish_reason"]
    return {"choices": [choice], "usage": {"prompt_tokens": 40, "completion_tokens": 8}}


def script(*steps: Step) -> Callable[[Any, dict[str, Any]], bool]:
    """Answers with these (status, body, headers) in turn, the last for ever."""
    left = list(steps)

    def wild(handler: Any, body: dict[str, Any]) -> bool:
        status, answer, headers = left.pop(0) if len(left) > 1 else left[0]
        handler.version_string = lambda: headers.get("Server", "")
        handler.send(status, answer, {k: v for k, v in headers.items() if k != "Server"})
        return True

    return wild


def ask(*steps: Step, patience: Patience = QUICK) -> tuple[Reply | str, int]:
    """(what comes of a question to a server that answers so, or the error without the server's name; the requests)."""

    async def post() -> Any:
        async with Client([server.url], patience=patience) as client:
            return (await client.post(CHAT, ASKED, read_reply))[0]

    with FakeServer(wild=script(*steps)) as server:
        try:
            with event_loop() as portal:
                found: Reply | str = portal.call(post)
        except TempolocError as error:
            found = str(error).replace(server.url, "it")
        return found, len(server.bodies)


GOOD: Step = (200, completion(), {})


@pytest.mark.parametrize(
    "reason",
    ["stop", "eos_token", "stop_sequence", "end_turn", "STOP", "eos", "tool_calls", "", None, NO_REASON, 2, True, [],
     {"type": "stop", "matched": 151645}],
    ids=lambda reason: "none" if reason is NO_REASON else str(reason),
)  # fmt: skip
def test_a_whole_answer_is_one_whatever_is_said_of_its_end(reason: Any) -> None:
    assert read_reply(completion(reason)) == Reply("<0.7> <2.9> pouring", "stop", 40, 8)


@pytest.mark.parametrize("reason", ["length", "MAX_TOKENS", "model_length", {"type": "length", "length": 8}], ids=str)
def test_an_answer_that_was_cut_off_stays_marked(reason: Any) -> None:
    assert read_reply(completion(reason)).finish_reason == "length"


@pytest.mark.parametrize("reason", ["abort", "error", "content_filter", "safety", "refusal"])
def test_an_answer_that_was_given_up_is_asked_for_again(reason: str) -> None:
    found, count = ask((200, completion(reason, "<0.7"), {}), GOOD)
    assert (found, count) == (read_reply(completion()), 2)
    with pytest.raises(TempolocError, match=f"gave the answer up .{reason}"):
        read_reply(completion(reason))
    with pytest.raises(TempolocError, match=r"answered with an error: .*overloaded"):
        read_reply({"error": {"message": "overloaded"}})


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 504, 520, 529])
def test_what_openais_client_repeats_is_repeated(status: int) -> None:
    assert ask((status, {}, {}), GOOD) == (read_reply(completion()), 2)


@pytest.mark.parametrize("status", [400, 404, 410, 422, 451])
def test_what_it_does_not_repeat_is_not(status: int) -> None:
    found, count = ask((status, {"error": "no"}, {}), GOOD)
    assert (found, count) == (f"it refuses: HTTP {status}, no", 1)


def test_a_server_says_itself_whether_to_ask_again() -> None:
    assert ask((400, {}, {"x-should-retry": "true"}), GOOD) == (read_reply(completion()), 2)
    assert ask((403, {}, {"X-Should-Retry": "True"}), GOOD) == (read_reply(completion()), 2)
    found, count = ask((503, {"error": "never"}, {"x-should-retry": "false"}), GOOD)
    assert (found, count) == ("it refuses: HTTP 503, never", 1)
    assert _may_pass(500, "perhaps")
    assert not _may_pass(400, "perhaps")


def test_it_is_given_up_after_the_last_try_and_says_why() -> None:
    found, count = ask((408, {"detail": "too slow"}, {}))
    assert (found, count) == ("it failed 3 times, at last with: HTTP 408, too slow", 3)


def test_waits_that_servers_ask_for() -> None:
    soon = datetime.now(UTC) + timedelta(seconds=90)
    assert _retry_after("7", "250") == 0.25
    assert _retry_after("7", "soon") == 7
    assert _retry_after("7", "nan") == 7
    assert (_retry_after("inf"), _retry_after("nan"), _retry_after(""), _retry_after("7 s")) == (None,) * 4
    assert 80 < (_retry_after(format_datetime(soon, usegmt=True)) or 0) <= 90
    assert 80 < (_retry_after(soon.strftime("%a %b %d %H:%M:%S %Y")) or 0) <= 90  # the form of C's asctime
    assert _retry_after("Sun, 06 Nov 1994 08:49:37 GMT") == 0


def test_the_list_of_models_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = [503, 429]

    def let_in(handler: Any) -> bool:
        if busy:
            handler.refuse(busy.pop(), "starting", {"Retry-After": "0"})
            return False
        return True

    monkeypatch.setattr("fake_server._Handler.let_in", let_in)
    with FakeServer() as server:
        assert [*list_served(server.url, "NO_KEY")] == ["fake"]
        busy += [400, 503]
        with pytest.raises(TempolocError, match="answers HTTP 400, starting: does it speak OpenAI's protocol"):
            list_served(server.url, "NO_KEY")


PAGES = [
    ("<html><head><title>502 Bad Gateway</title></head><body>…</body></html>", "nginx/1.27", 404,
     "HTTP 404, Not Found (a web page of nginx/1.27: 502 Bad Gateway)"),
    ("\ufeff\n <!DOCTYPE html><TITLE lang=en>Access &amp; more\n denied</TITLE>", "", 451,
     "HTTP 451, Unavailable For Legal Reasons (a web page: Access & more denied)"),
    ("<html><body>no title", "cloudflare", 499, "HTTP 499, a web page of cloudflare"),
    ("<?xml version='1.0'?><Error><Code>NoSuchKey</Code></Error>", "store", 404,
     "HTTP 404, Not Found (a web page of store)"),
    ("<html><title>404 Not Found</title>", "", 404, "HTTP 404, Not Found (a web page)"),
    ("", "nginx", 404, "HTTP 404, Not Found"),
    ("<title" * 5000, "x", 404, "HTTP 404, Not Found (a web page of x)"),
    ("not for you", "x", 400, "HTTP 400, not for you"),
]  # fmt: skip


@pytest.mark.parametrize(("page", "server", "status", "said"), PAGES)
def test_a_web_page_is_said_in_words(page: str, server: str, status: int, said: str) -> None:
    headers = {"Content-Type": "text/html", "Server": server}
    assert ask((status, page.encode(), headers)) == (f"it refuses: {said}", 1)


def test_a_web_page_in_place_of_an_answer_is_one_line() -> None:
    found, count = ask((200, b"<!doctype html><title>Sign in</title>", {}))
    assert count == 3
    assert str(found).endswith("with: an answer that is cut off or has another shape (a web page)")


def test_a_video_that_is_too_large_says_what_to_change() -> None:
    found, count = ask((413, b"<html><title></title>", {"Server": "nginx"}))
    assert count == 1
    assert isinstance(found, str)
    assert "(a web page of nginx): the video is too large for it (a request of 0.0 MiB)" in found
    assert "lower fps or with fewer total_pixels (--fps, --total-pixels)" in found
    assert "<html>" not in found


HERE = (
    "http://localhost:8000", "http://LOCALHOST", "https://vlm.localhost:1", "http://127.0.0.1:8000", "http://127.9.8.7",
    "http://127.1:80", "http://[::1]:8000", "http://[::ffff:127.0.0.1]", "http://0.0.0.0:8000", "http://localhost.:80",
)  # fmt: skip


def test_which_servers_are_here() -> None:
    assert all(_is_here(url) for url in HERE)
    elsewhere = ("http://10.0.0.1", "http://127.0.0.1.example.org", "http://localhost.example.org", "http://128.0.0.1",
                 "http://[::2]:8000", "http://notlocalhost")  # fmt: skip
    assert not any(_is_here(url) for url in elsewhere)


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """A proxy in the environment that answers nothing but notes what comes."""
    heard = list[bytes]()
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            connection, _ = listener.accept()
            heard.append(connection.recv(4096))
            connection.sendall(b"HTTP/1.1 502 Bad Gateway\r\nx-should-retry: false\r\nContent-Length: 0\r\n\r\n")
            connection.close()

    Thread(target=serve, daemon=True).start()
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{listener.getsockname()[1]}")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    return heard


def test_a_server_on_this_machine_is_asked_without_a_proxy(
    proxy: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeServer() as server:
        for host in ("127.0.0.1", "localhost", "127.0.0.1"):
            assert "fake" in list_served(f"http://{host}:{server.port}", "NO_KEY")
        assert ask(GOOD)[0] == read_reply(completion())
        assert proxy == []
        with pytest.raises(TempolocError, match="HTTP 502"):
            get_json("http://vlm.example.org:8000", "/v1/models", "NO_KEY")
        assert proxy[0].startswith(b"GET http://vlm.example.org:8000/v1/models ")
        monkeypatch.setenv("ALL_PROXY", "nonsense that is no proxy")  # is nothing to a server here
        assert "fake" in list_served(server.url, "NO_KEY")


def test_servers_here_and_elsewhere_in_one_run(proxy: list[bytes]) -> None:
    async def both() -> list[int]:
        async with Client([server.url, "http://vlm.example.org:8000"], patience=QUICK) as client:
            counts = []
            for place in client.servers:
                client.servers, kept = [place], client.servers
                try:
                    await client.post(CHAT, ASKED, read_reply)
                    counts.append(200)
                except RefusedError as error:
                    counts.append(error.status)
                client.servers = kept
            return counts

    with FakeServer(wild=script(GOOD)) as server, event_loop() as portal:
        assert portal.call(both) == [200, 502]
    assert len(proxy) == 1


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_certificates_that_are_not_there_are_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(other, raising=False)
    empty = tmp_path / "empty.pem"
    empty.write_text("no certificate")
    with FakeServer() as server:
        for place, wrong in ((tmp_path / "gone.pem", "is not there"), (empty, "holds no certificates")):
            monkeypatch.setenv(name, str(place))
            with pytest.raises(TempolocError) as error:
                list_served(server.url, "NO_KEY")
            assert f"${name} names {place}, which {wrong}" in str(error.value)
        monkeypatch.setenv(name, str(tmp_path) if name == "SSL_CERT_DIR" else "")
        assert "fake" in list_served(server.url, "NO_KEY")
