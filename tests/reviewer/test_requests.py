"""What is wrong with a request, or has gone from the disk, is one error in JSON, and the server goes on."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.reviewer import pages as serving
from tempoloc_nb.reviewer.desk import _TILES, Desk, _tiles_of
from tempoloc_nb.reviewer.edits import Marked
from tempoloc_nb.reviewer.pages import ReviewServer
from tempoloc_nb.reviewer.sources import open_review
from tempoloc_nb.video.files import encode


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "disk"
    encode(place / "cup.mp4", np.zeros((30, 32, 32, 3), np.uint8), fps=10)
    return place


@pytest.fixture
def server(folder: Path) -> Iterator[ReviewServer]:
    with ReviewServer(open_review(folder, events=["reach", "hold"], output=folder / "r.jsonl", who="Eve")) as found:
        yield found


def send(server: ReviewServer, data: bytes, ends: bool = False) -> tuple[int, dict[str, Any]]:
    """The status and the JSON that answer these bytes; `ends` if nothing more is sent."""
    with socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=60) as connection:
        connection.sendall(data)
        if ends:
            connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as answer:
            status = int(answer.readline().split()[1])
            size = 0
            while (line := answer.readline().strip()) != b"":
                name, _, value = line.partition(b":")
                size = int(value) if name == b"Content-Length" else size
            found: dict[str, Any] = json.loads(answer.read(size))
    return status, found


def asked(server: ReviewServer, body: bytes, *headers: str, method: str = "POST", path: str = "ask") -> bytes:
    lines = [f"{method} /{server.token}/{path} HTTP/1.1", f"Host: 127.0.0.1:{server.server_address[1]}", *headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def post(server: ReviewServer, body: bytes) -> tuple[int, dict[str, Any]]:
    return send(server, asked(server, body, "Content-Type: application/json", f"Content-Length: {len(body)}"))


def alive(server: ReviewServer) -> bool:
    return "clips" in post(server, b'{"op": "queue"}')[1]


EVENTS = '[{"label": "reach", "boundary": 1.0}, {"label": "hold", "boundary": %s}]'
SAVE = '{"op": "save", "index": 0, "revision": %s, "events": ' + EVENTS + "%s}"


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "3",
        "null",
        '"op"',
        "{",
        "{}",
        "NaN",
        "\ufeff{}",
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"op": ["x"]}',
        '{"op": {"clip": 1}}',
        '{"op": null}',
        '{"op": 1e999}',
        '{"op": "\\ud800"}',
        '{"op": true}',
        '{"op": "clip"}',
        '{"op": "clip", "index": "0"}',
        '{"op": "clip", "index": 0.0}',
        '{"op": "clip", "index": [0]}',
        '{"op": "clip", "index": %s}' % 10**400,
        '{"op": "clip", "index": -1}',
        '{"op": "clip", "index": 1%s}' % ("0" * 5000),
        '{"op": "clip", "index": false}',
        '{"op": "clip", "index": NaN}',
        SAVE % (0, 10**400, ""),
        SAVE % (0, -(10**400), ""),
        SAVE % (0, "NaN", ""),
        SAVE % (0, "1e308", ""),
        SAVE % (0, '"2"', ""),
        SAVE % (0, "[2]", ""),
        SAVE % (0, "true", ""),
        SAVE % (0, "{}", ""),
        SAVE % (0, "null", ""),
        SAVE % ("true", 2, ""),
        SAVE % ("0.0", 2, ""),
        SAVE % ("null", 2, ""),
        SAVE % ("[]", 2, ""),
        SAVE % (0, 2, ', "who": ["Eve"]'),
        SAVE % (0, 2, ', "who": 7'),
        SAVE % (0, 2, ', "why": {"a": 1}'),
        SAVE % (0, '2, "absent": "no"', ""),
        SAVE % (0, '2, "why": 3', ""),
        SAVE % (0, '2, "label": ["hold"]', ""),
        '{"op": "save", "index": 0, "revision": 0, "events": []}',
        '{"op": "save", "index": 0, "revision": 0, "events": {}}',
        '{"op": "save", "index": 0, "revision": 0, "events": [[], [], []]}',
        '{"op": "save", "index": 0, "revision": 0, "events": [{"label": "reach", "boundary": 1}]}',
        '{"op": "save", "index": 0, "revision": 0, "events": ['
        + ",".join(['{"label": "a", "boundary": 1}'] * 9)
        + "]}",
        '{"op": "export", "index": 0}',
        '{"op": "export", "index": 0, "kind": ["csv"]}',
        '{"op": "export", "index": 0, "kind": "annotations"}',
        '{"op": "export", "kind": "csv", "index": 4}',
        '{"op": "import"}',
        '{"op": "import", "kind": "csv", "text": 5}',
        '{"op": "import", "kind": "vtt", "text": "a"}',
        '{"op": "import", "kind": "csv", "text": "\\u0000,\\u0000\\n\\u0000"}',
        '{"op": "import", "kind": "csv", "text": "clip,label,boundary\\nmine/cup,reach,nan\\n"}',
        '{"op": "import", "kind": ["csv"], "text": "a"}',
    ],
)
def test_a_request_that_cannot_be_is_one_error(server: ReviewServer, folder: Path, body: str) -> None:
    status, answer = post(server, body.encode())
    assert status == 200
    assert list(answer) == ["error"]
    assert len(answer["error"]) < 300
    assert "\n" not in answer["error"]
    assert alive(server)
    assert not (folder / "r.jsonl").exists()


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (["Content-Length: " + "9" * 5000], 413),
        (["Content-Length: -5"], 400),
        (["Content-Length: 1e3"], 400),
        (["Content-Length: x"], 400),
        (["Content-Length:"], 400),
        ([], 400),
        (["Content-Length: 5", "Content-Length: 2"], 400),
        (["Transfer-Encoding: chunked"], 400),
        (["Content-Length: 2", "Transfer-Encoding: chunked"], 400),
        (["Content-Length: \u00b2"], 400),
        (["Content-Length: 99999999999999999999999"], 413),
        (["X: " + "a" * 70_000], 431),
        ([f"X{k}: a" for k in range(200)], 431),
    ],
)
def test_a_length_that_cannot_be_is_one_error(server: ReviewServer, lines: list[str], status: int) -> None:
    found, answer = send(server, asked(server, b"{}", "Content-Type: application/json", *lines))
    assert (found, list(answer)) == (status, ["error"])
    assert alive(server)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "get", "X" * 500])
def test_another_method_is_one_error(server: ReviewServer, method: str) -> None:
    status, answer = send(server, asked(server, b"", method=method))
    assert (status, list(answer)) == (501, ["error"])
    assert alive(server)


@pytest.mark.parametrize(
    "data", [b"hello\r\n\r\n", b"GET / HTTP/x\r\n\r\n", b"\x16\x03\x01\x00\r\n\r\n", b"GET / a b HTTP/1.1\r\n\r\n"]
)
def test_what_is_no_request_leaves_the_server_as_it_was(server: ReviewServer, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=60) as connection:
        connection.sendall(data)
        connection.makefile("rb").read()
    assert alive(server)


def test_bytes_that_are_no_text_are_not_saved_as_others(server: ReviewServer) -> None:
    body = (SAVE % (0, 2, ', "who": "Zo\u00eb"')).encode("latin-1")
    assert "not UTF-8" in post(server, body)[1]["error"]
    assert (
        "was cut off"
        in send(server, asked(server, b"{}", "Content-Type: application/json", "Content-Length: 9"), ends=True)[1][
            "error"
        ]
    )


def test_a_request_that_does_not_end_is_not_waited_for(server: ReviewServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving._Handler, "timeout", 0.05)
    status, answer = send(server, asked(server, b"{", "Content-Type: application/json", "Content-Length: 9"))
    assert (status, list(answer)) == (408, ["error"])
    for begun in (b"", b"GE", b"GET / HTTP/1.1\r\nHost: a"):
        with socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=60) as connection:
            connection.sendall(begun)
            assert connection.recv(1) == b""
    assert alive(server)


def test_a_range_that_cannot_be_is_the_whole() -> None:
    assert serving._byte_range(f"bytes={'9' * 5000}-", 10) == (0, 9)
    assert serving._byte_range("bytes=-1-", 10) == (0, 9)
    assert serving._byte_range(f"bytes={'9' * 18}-", 10) is None


def marks(*times: float) -> list[Marked]:
    return [Marked(label, t) for label, t in zip(("reach", "hold"), times, strict=True)]


def test_a_video_that_has_gone_is_said(server: ReviewServer, folder: Path) -> None:
    (folder / "cup.mp4").unlink()
    for path in ("video/0", "strip/0"):
        status, answer = send(server, asked(server, b"", method="GET", path=path))
        assert status == 404
        assert "cup.mp4" in answer["error"]
    assert "cup.mp4" in post(server, b'{"op": "clip", "index": 0}')[1]["problem"]


def test_a_reviewed_file_that_has_gone_is_not_begun_anew(server: ReviewServer, folder: Path) -> None:
    server.review.save(server.review.names[0], 0, marks(1.0, 2.0))
    whole = (folder / "r.jsonl").read_bytes()
    (folder / "r.jsonl").unlink()
    for body in (b'{"op": "queue"}', b'{"op": "clip", "index": 0}', (SAVE % (1, 2, "")).encode()):
        assert "r.jsonl has gone" in post(server, body)[1]["error"]
    assert not (folder / "r.jsonl").exists()
    (folder / "r.jsonl").write_bytes(whole)  # back again
    assert post(server, (SAVE % (1, 2.5, "")).encode())[1]["line"]["saves"] == 2


def test_a_folder_that_has_gone_is_not_made_again(server: ReviewServer, folder: Path) -> None:
    shutil.move(folder, folder.with_name("taken"))
    answer = post(server, (SAVE % (0, 2, "")).encode())[1]
    assert "disk has gone" in answer["error"]
    assert not folder.exists()
    with pytest.raises(TempolocError, match="nothing is saved"):
        server.review.save(server.review.names[0], 0, marks(1.0, 2.0))
    shutil.move(folder.with_name("taken"), folder)
    assert post(server, (SAVE % (0, 2, "")).encode())[1]["line"]["saves"] == 1


def test_a_file_that_cannot_be_read_is_named(server: ReviewServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise OSError(5, "Input/output error", "/mnt/r.jsonl")

    monkeypatch.setattr(Desk, "clip", broken)
    assert post(server, b'{"op": "clip", "index": 0}')[1] == {"error": "/mnt/r.jsonl: Input/output error"}


def test_a_strip_says_which_frames_it_has() -> None:
    assert _tiles_of(1) == [0]
    assert _tiles_of(5) == [0, 1, 2, 3, 4]
    assert (len(_tiles_of(900)), _tiles_of(900)[0], _tiles_of(900)[-1]) == (_TILES, 0, 899)
