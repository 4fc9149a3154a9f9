"""Outputs: whole or not at all, links followed, devices written to, and nothing overwritten."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.files import all_or_nothing, check_folder, check_output, folder_or_nothing, write_text, writing


def test_a_link_stays_and_leads_to_the_new_text(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    real, link, dangling = tmp_path / "disk" / "a.csv", tmp_path / "a.csv", tmp_path / "b.csv"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    dangling.symlink_to(tmp_path / "disk" / "b.csv")
    write_text(link, "new")
    write_text(dangling, "first", force=False)
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert dangling.is_symlink()
    assert (tmp_path / "disk" / "b.csv").read_text() == "first"
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a.csv", "a.csv", "b.csv", "b.csv", "disk"]


def test_the_folder_of_an_output_is_made(tmp_path: Path) -> None:
    for folder in ("a", "with space/ü'\"/-b"):
        write_text(tmp_path / folder / "c.txt", "x")
        assert (tmp_path / folder / "c.txt").read_text() == "x"


def test_devices_and_pipes_are_written_to(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    pipe, got = tmp_path / "pipe", list[bytes]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    for path in (pipe, Path("/dev/null"), Path("/dev/stdout"), Path("-"), Path("/dev/fd/2")):
        write_text(check_output(path), "text\n", force=False)
    reader.join()
    assert got == [b"text\n"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    said = capfdbinary.readouterr()
    assert (said.out, said.err) == (b"text\ntext\n", b"text\n")
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        write_text(Path("/dev/full"), "text")


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_came_meanwhile_is_kept(tmp_path: Path, links: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not links:
        monkeypatch.delattr(os, "link")
    path = check_output(tmp_path / "a.csv")

    def write() -> None:
        with all_or_nothing(path, force=False) as partial:
            partial.write_text("ours")
            path.write_text("theirs")

    with pytest.raises(TempolocError, match=r"a\.csv is there already: .*--force"):
        write()
    assert path.read_text() == "theirs"
    assert os.listdir(tmp_path) == ["a.csv"]
    write_text(tmp_path / "b.csv", "new", force=False)
    assert (tmp_path / "b.csv").read_text() == "new"


def test_two_writers_of_a_file_share_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    with all_or_nothing(path) as one, all_or_nothing(path) as two:
        one.write_text("one")
        two.write_text("two")
    assert path.read_text() == "one"
    assert os.listdir(tmp_path) == ["a.csv"]


def test_a_full_disk_leaves_nothing_and_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("old")

    def write() -> None:
        with all_or_nothing(path) as partial:
            partial.write_text("ne")
            raise OSError(errno.ENOSPC, "full")

    with pytest.raises(OSError, match="No space left") as caught:
        write()
    assert caught.value.filename == str(path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.csv"]

    class Fixed(OSError):  # as PyAV's
        filename = property(lambda self: None)  # type: ignore[assignment]

    with pytest.raises(OSError, match="No space left") as caught, all_or_nothing(path):
        raise Fixed(errno.ENOSPC, "full")
    assert caught.value.filename == str(path)
    with pytest.raises(OSError, match="File exists") as caught:
        write_text(path / "b.csv", "text")
    assert caught.value.filename == str(path / "b.csv")


def test_a_folder_that_cannot_be_copied_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "from" / "inner").mkdir(parents=True)
    (tmp_path / "from" / "gone").symlink_to(tmp_path / "nothing")
    with pytest.raises(TempolocError) as told, writing(tmp_path / "to"):
        shutil.copytree(tmp_path / "from", tmp_path / "to")
    assert str(told.value).startswith(f"cannot write {tmp_path / 'to'}: [Errno 2] No such file or directory")


def test_an_output_is_neither_there_nor_read(tmp_path: Path) -> None:
    mine, link, loop = tmp_path / "mine.csv", tmp_path / "link.csv", tmp_path / "loop"
    mine.write_text("corrected")
    link.symlink_to(mine)
    loop.symlink_to(loop)
    for path in (mine, link):
        with pytest.raises(TempolocError, match="is there already"):
            check_output(path)
        assert check_output(path, force=True, inputs=["recipe", None]) == path
        with pytest.raises(TempolocError, match="read and written at once"):
            check_output(path, force=True, inputs=["recipe", mine])
    with pytest.raises(TempolocError, match=r"mine\.csv is there already"):
        check_output(tmp_path / "new.csv", beside=[mine])
    long = tmp_path / ("x" * 300)
    for bad, why in ((tmp_path, "a folder"), (mine / "x.csv", "no folder"), (loop, "links"), (long, "long")):
        with pytest.raises(TempolocError, match=why):
            check_output(bad)


def test_a_folder_is_replaced_whole_and_only_where_it_was_made_here(tmp_path: Path) -> None:
    out, source = tmp_path / "made", tmp_path / "made" / "videos" / "a.mp4"
    with folder_or_nothing(check_folder(out, "summary.json")) as partial:
        (partial / "summary.json").write_text("1")
        with pytest.raises(TempolocError, match="is being written"), folder_or_nothing(out):
            raise AssertionError("two at once")
    source.parent.mkdir()
    source.touch()
    with pytest.raises(TempolocError, match="is there already"):
        check_folder(out, "summary.json")
    with pytest.raises(TempolocError, match=r"is or holds .*a\.mp4"):
        check_folder(out, "summary.json", force=True, inputs=[source])
    with folder_or_nothing(check_folder(out, "summary.json", force=True), force=True) as partial:
        (partial / "summary.json").write_text("2")
    assert [p.name for p in tmp_path.rglob("*")] == ["made", "summary.json"]
    with pytest.raises(TempolocError, match=r"has no summary\.json"):
        check_folder(tmp_path, "summary.json", force=True)

    def write() -> None:
        with folder_or_nothing(tmp_path / "late") as partial:
            (partial / "a").touch()
            (tmp_path / "late").mkdir()
            (tmp_path / "late" / "theirs").touch()

    with pytest.raises(TempolocError, match="is there already"):
        write()
    assert sorted(p.name for p in (tmp_path / "late").iterdir()) == ["theirs"]
    assert not list(tmp_path.glob("*.part*"))
    assert not list(tmp_path.glob(".*"))
    with pytest.raises(TempolocError, match="is there already"):
        check_folder(Path("/"), "summary.json")


def killed_within(code: str, *arguments: Path) -> None:
    """Run `code` in a process of its own, which is to kill itself."""
    done = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr


def test_what_a_killed_writer_left_goes_and_what_a_living_one_writes_stays(tmp_path: Path) -> None:
    killed_within(
        "import os, sys, signal\n"
        "from pathlib import Path\n"
        "from tempoloc_nb.core.files import all_or_nothing\n"
        "with all_or_nothing(Path(sys.argv[1])) as partial:\n"
        "    partial.write_text('half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n",
        tmp_path / "demos.hdf5",
    )
    left = os.listdir(tmp_path)
    assert sorted(name.rpartition(".")[2] for name in left) == ["lock", "part"]
    for name in (".notes.part", ".demos.hdf5.17.part", "..demos.hdf5.lock"):  # somebody else's
        (tmp_path / name).touch()
    with all_or_nothing(tmp_path / "b.csv") as living:
        assert not set(left) & set(os.listdir(tmp_path))
        living.write_text("b")
        killed_within(
            "import os, sys, signal\n"
            "from pathlib import Path\n"
            "from tempoloc_nb.core.files import write_text\n"
            "write_text(Path(sys.argv[1]), 'c')\n"
            "os.kill(os.getpid(), signal.SIGKILL)\n",
            tmp_path / "c.csv",
        )
        assert living.read_text() == "b"
    assert sorted(os.listdir(tmp_path)) == ["..demos.hdf5.lock", ".demos.hdf5.17.part", ".notes.part", "b.csv", "c.csv"]


def test_bytes_are_on_the_disk_before_the_name_and_the_name_before_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []
    fsync, replace = os.fsync, os.replace

    def synced(fd: int) -> None:
        happened.append(f"sync {Path(os.readlink(f'/proc/self/fd/{fd}')).suffix or 'folder'}")
        fsync(fd)

    def renamed(source: Path, target: Path) -> None:
        happened.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    write_text(tmp_path / "a.csv", "text")
    assert happened == ["sync .part", "rename", "sync folder"]
    happened.clear()
    with folder_or_nothing(tmp_path / "set") as partial:
        (partial / "a.txt").write_text("a")
    assert happened == ["sync .txt", "sync .part", "rename", "sync folder"]


def test_a_folder_set_aside_by_a_killed_writer_comes_back(tmp_path: Path) -> None:
    write = (
        "import os, sys, signal\n"
        "from pathlib import Path\n"
        "from tempoloc_nb.core.files import folder_or_nothing\n"
        "renames, replace = [], Path.replace\n"
        "def then_killed(self, target):\n"
        "    replace(self, target)\n"
        "    renames.append(target)\n"
        "    if len(renames) == int(sys.argv[2]): os.kill(os.getpid(), signal.SIGKILL)\n"
        "Path.replace = then_killed\n"
        "with folder_or_nothing(Path(sys.argv[1]), force=True) as partial:\n"
        "    (partial / 'a.txt').write_text('new')\n"
    )
    out = tmp_path / "set"
    out.mkdir()
    (out / "a.txt").write_text("old")
    killed_within(write, out, Path("1"))
    assert not out.exists()
    with pytest.raises(TempolocError, match="is there already"):
        check_folder(out, "a.txt")
    assert (out / "a.txt").read_text() == "old"
    killed_within(write, out, Path("1"))
    with pytest.raises(TempolocError, match="is there already"), folder_or_nothing(out) as partial:
        (partial / "a.txt").write_text("newer")
    assert (out / "a.txt").read_text() == "old"
    killed_within(write, out, Path("2"))
    assert (out / "a.txt").read_text() == "new"
    with folder_or_nothing(out, force=True) as partial:
        (partial / "a.txt").write_text("newest")
    assert (out / "a.txt").read_text() == "newest"
    assert os.listdir(tmp_path) == ["set"]
    killed_within(write, out, Path("1"))
    out.mkdir()
    (out / "mine.txt").touch()  # nobody knows which of the two is wanted
    for _ in range(2):
        with pytest.raises(TempolocError, match=r"set\.part\.old holds what was at"), folder_or_nothing(out):
            raise AssertionError("something would be lost")
    assert (tmp_path / "set.part.old" / "a.txt").read_text() == "newest"
