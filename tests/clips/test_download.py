"""Downloads: a file has its name only when all of it is there and right, whatever the server does."""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tempoloc_nb.clips.public import Downloader, Remote
from tempoloc_nb.core.errors import TempolocError
from tests.helpers.file_server import FileServer, served

CONTENT = random.Random(1).randbytes(300_000)


@pytest.fixture
def server() -> Iterator[FileServer]:
    with served({"/a.bin": CONTENT}) as server:
        yield server


def remote_of(server: FileServer, content: bytes = CONTENT, path: str = "/a.bin") -> Remote:
    return Remote(server.address + path, len(content), hashlib.sha256(content).hexdigest())


def parts(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob(".*") if p.is_file())


@pytest.mark.parametrize(
    ("faults", "asked"),
    [
        ([], 1),
        (["cut"], 2),
        (["cut", "cut", "cut"], 4),
        (["unsaid end"], 2),
        (["503", "503 soon", "429"], 4),
        (["cut at once"], 2),
        (["cut", "503 soon"], 3),
        (["cut", "slow"], 2),
        (["moved"], 2),
        (["slow"], 1),
        (["hangs"], 2),
    ],
)
def test_a_file_comes_whole_whatever_happens_on_the_way(
    faults: list[str], asked: int, server: FileServer, tmp_path: Path
) -> None:
    server.faults["/a.bin"] = list(faults)
    path = tmp_path / "new" / "a.bin"
    with Downloader(wait=0.001, timeout=0.4) as downloader:
        assert downloader.fetch(remote_of(server), path) is True
    assert path.read_bytes() == CONTENT
    assert server.asked == ["/a.bin"] * asked
    assert parts(tmp_path) == []  # neither a part nor a lock stays


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        (["404"], "HTTP 404, Not Found"),
        (["403"], "HTTP 403, Forbidden"),
        (["longer"], f"has {len(CONTENT) + 1:,} bytes, not the {len(CONTENT):,} of the list"),
        (["unsaid and longer"], "has more than the 300,000 bytes of the list"),
        (["other content"], "is another file: its SHA-256 is not "),
        (["packed"], "the server packs it (gzip)"),
        (["in circles"], "Exceeded maximum allowed redirects"),
        (["503"] * 3, "HTTP 503, Service Unavailable, 3 times in a row; the files that have arrived stay"),
        (["cut at once"] * 3, "3 times in a row"),
    ],
)
def test_what_is_wrong_ends_in_one_line_and_leaves_no_file(
    faults: list[str], message: str, server: FileServer, tmp_path: Path
) -> None:
    server.faults["/a.bin"] = list(faults)
    with Downloader(tries=3, wait=0.001) as downloader, pytest.raises(TempolocError) as told:
        downloader.fetch(remote_of(server), tmp_path / "a.bin")
    assert message in str(told.value)
    assert "\n" not in str(told.value)
    assert remote_of(server).url in str(told.value)
    assert not (tmp_path / "a.bin").exists()
    assert parts(tmp_path) == []


def test_what_is_there_stays_and_what_is_another_file_is_not_replaced(server: FileServer, tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(CONTENT)
    with Downloader() as downloader:
        assert downloader.fetch(remote_of(server), path) is False
        assert server.asked == []
        path.write_bytes(own := CONTENT[:-1] + b"?")
        with pytest.raises(TempolocError, match="is another file than the list has: move it away, or --force"):
            downloader.fetch(remote_of(server), path)
        assert path.read_bytes() == own
        server.faults["/a.bin"] = ["404"]
        with pytest.raises(TempolocError, match="404"):
            downloader.fetch(remote_of(server), path, force=True)
        assert path.read_bytes() == own  # until the right one is here
        assert downloader.fetch(remote_of(server), path, force=True)
    assert path.read_bytes() == CONTENT


def test_a_folder_in_the_place_of_a_file_is_refused(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "a.bin").mkdir()
    with Downloader() as downloader, pytest.raises(TempolocError, match="is another file"):
        downloader.fetch(remote_of(server), tmp_path / "a.bin", force=True)


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    remote, told = Remote("http://127.0.0.1:9/a.bin", 5, "0" * 64), list[str]()
    with Downloader(tries=2, wait=0.001, say=told.append) as downloader, pytest.raises(TempolocError) as error:
        downloader.fetch(remote, tmp_path / "a.bin")
    assert "http://127.0.0.1:9/a.bin: " in str(error.value)
    assert "2 times in a row" in str(error.value)
    assert len(told) == 1
    assert told[0].endswith("; trying again in 0 s")


def test_two_at_once_do_not_mix_their_bytes(server: FileServer, tmp_path: Path) -> None:
    path, outcomes = tmp_path / "a.bin", list[str]()
    server.faults["/a.bin"] = ["waits"]

    def fetch() -> None:
        try:
            with Downloader() as downloader:
                outcomes.append(str(downloader.fetch(remote_of(server), path)))
        except TempolocError as error:
            outcomes.append(str(error))

    first = threading.Thread(target=fetch)
    first.start()
    while not server.asked:
        time.sleep(0.01)
    fetch()
    server.go_on.set()
    first.join()
    assert path.read_bytes() == CONTENT
    assert any("is being written by process" in outcome for outcome in outcomes)


def test_certificates_that_cannot_be_used_are_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    with pytest.raises(TempolocError, match="HTTPS_PROXY or SSL_CERT_FILE cannot be used"):
        Downloader()
