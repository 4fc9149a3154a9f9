"""The page's server: who may ask, and for what."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
import pytest

import tempoloc_nb as tl
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.reviewer.desk import _is_played, _Media, strip_of
from tempoloc_nb.reviewer.pages import _WEB, PARTS, ReviewServer, reply, script, write_page
from tempoloc_nb.reviewer.sources import open_review
from tempoloc_nb.video.files import encode, probe

TIMES = (0.0, 0.1, 0.15, 0.4, 0.5, 1.0, 1.1)  # of no rate


@pytest.fixture
def videos(tmp_path: Path) -> Path:
    """An H.264 video of variable rate, and one that no browser plays."""
    frames = [np.full((32, 48, 3), 30 * k, np.uint8) for k in range(len(TIMES))]
    encode(tmp_path / "videos" / "a.mp4", frames, times=TIMES)
    with av.open(str(tmp_path / "videos" / "b.avi"), "w") as container:
        stream = container.add_stream("mjpeg", rate=10)
        stream.width, stream.height, stream.pix_fmt = 48, 32, "yuvj420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode(None))
    return tmp_path / "videos"


@pytest.fixture
def server(videos: Path) -> Iterator[ReviewServer]:
    review = open_review(videos, events=["grasp", "lift"], output=videos.parent / "r.jsonl", who="Ada")
    with ReviewServer(review) as serving:
        yield serving


def ask(server: ReviewServer, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=120)
    body = headers.pop("body", None)
    connection.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
    reply = connection.getresponse()
    found = reply.status, reply.read(), dict(reply.getheaders())
    connection.close()
    return found


def test_the_page_and_its_script_are_served(server: ReviewServer) -> None:
    home = f"/{server.token}/"
    for name, start in (
        ("", b"<!doctype"),
        ("page.js", b"import"),
        ("reviewer.js", b"const STYLE"),
        ("page.css", b"html"),
    ):
        status, body, headers = ask(server, home + name)
        assert (status, body[: len(start)]) == (200, start)
        assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert ask(server, home[:-1])[2]["Location"] == home


def test_who_has_no_token_or_another_name_gets_nothing(server: ReviewServer) -> None:
    home = f"/{server.token}/"
    for path in ("/", "/guess/", f"/{server.token[:-1]}/", f"/{server.token}x/video/0", "/video/0", "//", f"/x{home}"):
        assert ask(server, path)[0] == 403
    assert ask(server, home, Host="evil.example")[0] == 421
    assert ask(server, home, Host="")[0] == 421
    asked = {"method": "POST", "body": '{"op":"queue"}', "Content_Type": "application/json"}
    assert ask(server, f"{home}ask", Origin="http://evil.example", **asked)[0] == 403
    assert ask(server, f"{home}ask", **asked)[0] == 200
    assert ask(server, f"{home}ask", method="POST", body="{}", Content_Type="text/plain")[0] == 404


def test_no_path_leads_to_another_file(server: ReviewServer, videos: Path) -> None:
    (videos / "secret.txt").write_text("secret")
    home = f"/{server.token}"
    paths = [f"/video/{videos}/secret.txt", "/../secret.txt", "/video/../secret.txt", "/video/..%2fsecret.txt"]
    paths += ["/video/9", "/video/-1", "/video/0/../1", "/%2e%2e/secret.txt", "/video/0%00", "/strip/99999999999"]
    for path in [*paths, "/r.jsonl"]:
        status, body, _ = ask(server, home + path)
        assert status == 404, path
        assert b"secret" not in body


def test_a_video_comes_in_ranges(server: ReviewServer, videos: Path) -> None:
    whole, path = (videos / "a.mp4").read_bytes(), f"/{server.token}/video/0"
    assert ask(server, path)[1] == whole
    status, body, headers = ask(server, path, Range="bytes=5-9")
    assert (status, body, headers["Content-Range"]) == (206, whole[5:10], f"bytes 5-9/{len(whole)}")
    assert ask(server, path, Range="bytes=-4")[1] == whole[-4:]
    assert ask(server, path, Range=f"bytes={len(whole)}-")[0] == 416
    status, body, headers = ask(server, path, method="HEAD")
    assert (status, body, headers["Content-Length"]) == (200, b"", str(len(whole)))


def test_what_no_browser_plays_is_copied_frame_by_frame(server: ReviewServer, videos: Path) -> None:
    status, body, headers = ask(server, f"/{server.token}/video/1")
    assert (status, headers["Content-Type"]) == (200, "video/mp4")
    (videos / "copy.mp4").write_bytes(body)
    copy, first = probe(videos / "copy.mp4"), probe(videos / "b.avi")
    assert _is_played(videos / "copy.mp4", copy)
    assert copy.times == pytest.approx(first.times, abs=1e-4)
    shown = server.desk.answer({"op": "clip", "index": 1})
    assert "H.264 copy" in shown["note"]
    assert ask(server, f"/{server.token}/strip/1")[1][:2] == b"\xff\xd8"


def test_a_video_of_variable_rate_keeps_its_times(server: ReviewServer) -> None:
    assert server.desk.answer({"op": "clip", "index": 0})["times"] == pytest.approx(TIMES, abs=1e-4)


def test_a_large_or_broken_request_is_refused(server: ReviewServer) -> None:
    ways = {"method": "POST", "Content_Type": "application/json"}
    assert ask(server, f"/{server.token}/ask", Content_Length=str(2**40), **ways)[0] == 413
    status, body, _ = ask(server, f"/{server.token}/ask", body="{", **ways)
    assert status == 200
    assert "not JSON" in json.loads(body)["error"]


def test_a_port_that_is_taken_is_said(server: ReviewServer) -> None:
    with pytest.raises(TempolocError, match="cannot listen on port"):
        ReviewServer(server.review, server.server_address[1])


def test_the_script_is_one_module() -> None:
    assert sorted(p.stem for p in _WEB.glob("*.js")) == sorted(PARTS)
    assert 'from "./' not in script()
    assert script().count("\nexport ") == 2


def test_a_widget_gets_the_same_and_its_videos(server: ReviewServer, videos: Path) -> None:
    answer, buffers = reply(server.desk, {"id": 7, "request": {"op": "video", "index": 0}})
    assert (answer, buffers) == ({"id": 7, "answer": {"type": "video/mp4"}}, [(videos / "a.mp4").read_bytes()])
    assert reply(server.desk, {"id": 8, "request": {"op": "queue"}})[0]["answer"]["who"] == "Ada"
    assert "error" in reply(server.desk, {"id": 9, "request": {"op": "strip", "index": 5}})[0]["answer"]
    assert "error" in reply(server.desk, {"id": 9, "request": None})[0]["answer"]


def test_a_notebook_gets_a_widget(videos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TempolocError, match="unknown option 'event': did you mean events"):
        tl.review(videos, event=["grasp"])
    widget = tl.review(videos, events=["grasp", "lift"], output=videos.parent / "w.jsonl")
    sent = []
    monkeypatch.setattr(widget, "send", lambda answer, buffers: sent.append((answer["id"], len(buffers))))
    for number, op in enumerate(("queue", "clip", "video")):
        widget._handle_custom_msg({"id": number, "request": {"op": op, "index": 0}}, [])
    assert sent == [(0, 0), (1, 0), (2, 1)]
    assert widget._esm == script()


def test_a_page_to_show_holds_what_it_needs(server: ReviewServer, tmp_path: Path) -> None:
    shown = write_page(server.review, tmp_path / "page", most=1)
    assert (shown.clips, shown.videos) == (1, 1)
    assert {p.name for p in (tmp_path / "page").iterdir()} == {"index.html", "0.mp4"}
    with pytest.raises(TempolocError, match="is there already"):
        write_page(server.review, tmp_path / "page")
    write_page(server.review, tmp_path / "page", force=True)
    page = (tmp_path / "page" / "index.html").read_text()
    assert page.count("</script>") == 2


def test_copies_go_with_what_made_them(videos: Path) -> None:
    media = _Media()
    copy = media.file(videos / "b.avi")
    assert copy == media.file(videos / "b.avi")
    media.close()
    assert not copy.exists()
    assert strip_of(videos / "a.mp4")
