"""What packed files may unpack to, and the encodings in which texts come."""

from __future__ import annotations

import bz2
import errno
import gzip
import lzma
import os
import signal
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tempoloc_nb.clips.manifest import read_manifest
from tempoloc_nb.core import files
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.files import open_packed, read_jsonl, read_object, read_text, write_jsonl

MIB = 2**20
READERS: dict[str, Callable[[Path], object]] = {
    "text": lambda path: read_text(path, "x"),
    "object": lambda path: read_object(path, "x"),
    "lines": lambda path: list(read_jsonl(path)),
    "manifest": read_manifest,
}


def bomb(path: Path, mebibytes: int) -> Path:
    """A small file that unpacks to so much."""
    piece = {".gz": gzip.compress, ".xz": lambda data: lzma.compress(data, preset=0)}[path.suffix](bytes(MIB))
    path.write_bytes(piece * mebibytes)  # members one after the other, as both formats have them
    return path


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
@pytest.mark.parametrize("reader", READERS)
def test_what_is_read_whole_unpacks_to_a_limit(
    reader: str, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("core.files", "clips.manifest"):
        monkeypatch.setattr(f"tempoloc_nb.{module}.WHOLE", 4 * MIB)
    path = bomb(tmp_path / f"b.jsonl{suffix}", 64)
    tracemalloc.start()
    with pytest.raises(TempolocError, match=rf"b.jsonl{suffix} unpacks to more than 4 MiB: unpack it yourself"):
        READERS[reader](path)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 20 * MIB


def test_what_is_read_by_lines_has_a_limit_too(tmp_path: Path) -> None:
    assert (files.WHOLE, files._UNPACKED) == (256 * MIB, 1024 * MIB)
    path = bomb(tmp_path / "b.gz", 3)
    with open_packed(path, 3 * MIB) as source:
        assert len(source.read()) == 3 * MIB
    with pytest.raises(TempolocError, match="more than 2 MiB"), open_packed(path, 2 * MIB) as source:
        source.readline()


def test_an_interrupt_while_a_lock_is_taken_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    take = files._take

    def interrupted(*given: Any) -> None:
        take(*given)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(files, "_take", interrupted)
    with pytest.raises(KeyboardInterrupt), files.held(tmp_path / "p.jsonl"):
        pytest.fail("Ctrl-C was lost")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["p.jsonl", "p.jsonl.xz"])
def test_lines_are_packed_where_the_name_says_so(tmp_path: Path, name: str) -> None:
    rows = [{"n": i, "text": "Ünder"} for i in range(3)]
    assert write_jsonl(tmp_path / "new" / name, rows) == 3
    assert [row for _, row in read_jsonl(tmp_path / "new" / name)] == rows
    assert (tmp_path / "new" / name).read_bytes().startswith(b"\xfd7zXZ") is name.endswith(".xz")


def test_lines_of_a_packed_file_have_their_places(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl.xz"
    path.write_bytes(lzma.compress(b"one\ntwo\nthree"))
    with open_packed(path) as source:
        assert [(line, source.tell()) for line in iter(source.readline, b"")] == [
            (b"one\n", 4), (b"two\n", 8), (b"three", 13),
        ]  # fmt: skip
    path.write_bytes(lzma.compress(b"one\ntwo\n")[:-9])
    with pytest.raises(TempolocError, match="is damaged or cut off"):
        read_text(path, "x")
    plain = tmp_path / "p.bz2"  # not unpacked, so not limited, and no text
    plain.write_bytes(bz2.compress(b"\xff" * 9))
    with pytest.raises(TempolocError, match="is not UTF-8 text"):
        read_text(plain, "x")


@pytest.mark.parametrize("code", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_text_is_read_by_its_mark(code: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("Grün\r\n»x«".encode(code))
    assert read_text(path, "x") == "Grün\n»x«"
    assert read_text(path, "x", newline="") == "Grün\r\n»x«"


def test_a_text_without_its_mark_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    for data in (b"caf\xe9", b"\xff\xfea", b"\xff"):
        path.write_bytes(data)
        with pytest.raises(TempolocError, match=r"a.txt is not UTF-8 text, byte \d: save it as UTF-8"):
            read_text(path, "x")


def test_a_folder_that_takes_no_file_is_named_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a disk that is full, or that only reads, say: where, why, and the way out."""

    def full(_: Path) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files, "held", full)
    path = tmp_path / "p.jsonl"
    with pytest.raises(TempolocError) as told, files.sole_writer(path):
        pass
    assert str(told.value) == f"cannot write {path}: No space left on device ({tmp_path}); name another place"
    (tmp_path / "file").touch()
    with pytest.raises(TempolocError, match=r"file is no folder; name another place"):
        files.check_output(tmp_path / "file" / "p.jsonl")


def test_a_new_folder_has_no_files_name(tmp_path: Path) -> None:
    for name in ("x.jsonl", "x.VTT"):
        with pytest.raises(TempolocError, match=r"has a file's name, but what is written is a folder: leave out \."):
            files.check_folder(tmp_path / name, "meta.json")
    for name in ("v1.2", "data.d"):
        files.check_folder(tmp_path / name, "meta.json")
    (tmp_path / "old.jsonl").mkdir()
    files.check_folder(tmp_path / "old.jsonl", "meta.json")
