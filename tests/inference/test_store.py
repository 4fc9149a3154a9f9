"""The predictions file is right at every moment: cut off at any byte, killed, interrupted, full, opened twice."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from asking import run_backend
from fake_backend import Truthful
from places import HELPERS

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.files import sole_writer
from tempoloc_nb.inference import store
from tempoloc_nb.inference.store import PredictionStore, _Keys, _RowFile, errors_path, read_errors, read_keys

SHIPPED = replace(load_benchmark("sim"), clips=load_benchmark("sim").with_videos())
FEW = replace(SHIPPED, clips=SHIPPED.clips[:6])
TRIALS = 3


def row(number: int, trial: int = 0) -> dict[str, Any]:
    return {"clip": f"a/{number}", "request_id": f"{number:016x}", "trial": trial, "text": "über"}


def ask(out: Path, backend: Truthful | None = None, **options: Any) -> Any:
    return run_backend(backend or Truthful(), FEW, out, fps=8, trials=TRIALS, **options)


def whole_keys(path: Path) -> list[tuple[str, int]]:
    """The keys of a file as it is; every line but a last one without its end must be a whole row."""
    data = path.read_bytes() if path.exists() else b""
    lines = data[: data.rfind(b"\n") + 1].splitlines()
    return [(r["request_id"], r["trial"]) for r in map(json.loads, lines)]


# --- keys ---


def test_keys_are_those_of_the_file_in_any_order(tmp_path: Path) -> None:
    draw = random.Random(1)
    ids = [draw.getrandbits(64) for _ in range(50)] + [0, 1, 2**64 - 1]
    wanted = {f"{i:016x}": frozenset(draw.sample(range(400), draw.randint(1, 9))) for i in ids}
    rows = [{"request_id": i, "trial": t} for i, trials in wanted.items() for t in trials]
    draw.shuffle(rows)
    path = tmp_path / "p.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    keys, end = read_keys(path)
    assert (len(keys), end) == (len(rows), path.stat().st_size)
    assert {i: keys.trials_of(i) for i in wanted} == wanted
    assert keys.trials_of(f"{ids[0] ^ 1:016x}") == frozenset()


def test_large_trial_numbers_are_kept() -> None:
    keys = _Keys(np.array([7], np.uint64), np.array([0], np.uint64), np.array([2**32 - 1, 300], np.uint32))
    assert keys.trials_of(f"{7:016x}") == {2**32 - 1, 300}
    assert keys.trials_of(f"{8:016x}") == frozenset()


@pytest.mark.parametrize(
    "line",
    ["{}", "[]", "1", "", "no", '{"request_id": "xy", "trial": 0}', '{"request_id": "00000000000000zz", "trial": 0}',
     '{"request_id": "0000000000000000", "trial": "0"}', '{"request_id": "0000000000000000", "trial": -1}',
     '{"request_id": "0000000000000000", "trial": true}', '{"request_id": 1, "trial": 1}'],
)  # fmt: skip
def test_a_line_that_is_no_prediction_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps(row(1)) + "\n" + line + "\n")
    with pytest.raises(TempolocError, match=r"p\.jsonl:2 is not a prediction .*: delete such lines, and the same"):
        read_keys(path)
    path.write_text((json.dumps(row(1)) + "\n" + line + "\n") * 12)
    with pytest.raises(TempolocError, match=r"p\.jsonl:2 is not a .*, nor is line 4, 6, 8, .*, 20, 2 more: del"):
        read_keys(path)
    path.write_text(line + "\n")
    with pytest.raises(TempolocError, match=r"p\.jsonl:1 is not a prediction [^:]*: choose another file$"):
        read_keys(path)


def test_a_file_cut_at_any_byte_has_its_whole_rows(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    data = "".join(json.dumps(row(i), ensure_ascii=False) + "\n" for i in range(3)).encode()
    ends = [i + 1 for i, byte in enumerate(data) if byte == 10]
    for cut in range(len(data) + 1):
        for hole in (0, 50):  # zero bytes: the length was stored and the content was not
            path.write_bytes(data[:cut] + bytes(hole) + (b"\n" if hole else b""))
            keys, end = read_keys(path)
            assert len(keys) == sum(e <= cut for e in ends)
            assert end == max((e for e in ends if e <= cut), default=0)
    path.write_bytes(data[: ends[1] + 7])
    opened = _RowFile(path, ends[1])
    opened.append([row(9)])
    opened.close()
    assert path.read_bytes() == data[: ends[1]] + json.dumps(row(9), ensure_ascii=False).encode() + b"\n"


@pytest.mark.parametrize("torn", [0, 7])
def test_rows_behind_a_hole_are_kept_and_the_hole_is_set_aside(
    tmp_path: Path, torn: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """A machine loses power, the run goes on, and a later reader finds zeros in the middle."""
    whole, out = tmp_path / "whole.jsonl", tmp_path / "p.jsonl"
    ask(whole)
    lines = whole.read_bytes().splitlines(keepends=True)
    shutil.copy(tmp_path / "whole.run.json", tmp_path / "p.run.json")
    hole = lines[4][:torn] + bytes(4096)
    out.write_bytes(b"".join([*lines[:4], hole, *lines[6:9], bytes(50), b"\n", *lines[10:], lines[9][:30]]))
    capsys.readouterr()
    summary = ask(out)
    assert (summary.kept, summary.written) == (len(lines) - 3, 3)
    assert sorted(whole_keys(out)) == sorted(whole_keys(whole))
    notes = [json.loads(line) for line in (tmp_path / "p.damaged.jsonl").read_text().splitlines()]
    assert [(n["bytes"], n["rest"]) for n in notes] == [(4096 + torn, lines[4][:torn].decode()), (51, "\n")]
    (told,) = capsys.readouterr().err.splitlines()
    assert told.startswith(f"tempoloc: {out}:5 is damaged by zero bytes: all whole rows are kept; ")
    assert ask(out).kept == len(lines)
    assert capsys.readouterr().err == ""


# --- a disk that fails ---

WORKING = store.disk


class Killed(BaseException):
    """What happens to a process that is killed, as far as its file can tell."""


class Dying:
    """A disk until `byte` bytes were written or `sync` syncs begun; then nothing is done any more."""

    def __init__(self, byte: int | None = None, sync: int | None = None) -> None:
        self.byte, self.sync = byte, sync
        self.written, self.synced, self.dead = 0, 0, False

    def _die(self) -> None:
        self.dead = True
        raise Killed

    def write(self, fd: int, data: bytes) -> int:
        if self.dead:
            raise Killed
        if self.byte is not None and self.written + len(data) > self.byte:
            os.write(fd, data[: self.byte - self.written])
            self._die()
        self.written += len(data)
        return os.write(fd, data)

    def fsync(self, fd: int) -> None:
        self.synced += 1
        if self.dead or self.synced == self.sync:
            self._die()
        os.fsync(fd)

    def truncate(self, fd: int, size: int) -> None:
        if self.dead:
            raise Killed
        os.ftruncate(fd, size)


def use(monkeypatch: pytest.MonkeyPatch, disk: Any) -> None:
    monkeypatch.setattr(store, "disk", disk)


@pytest.mark.parametrize("seed", range(10))
def test_killed_at_any_byte_or_sync_every_key_is_there_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Four kills in a row, forty in all, of a run that syncs every answer."""
    monkeypatch.setattr(store, "_SYNC_S", 0.0)
    clips = replace(SHIPPED, clips=SHIPPED.clips[:20])
    all_there = tmp_path / "whole.jsonl"
    run_backend(Truthful(), clips, all_there, fps=8, trials=TRIALS)
    wanted, size = set(whole_keys(all_there)), all_there.stat().st_size
    out, draw = tmp_path / "p.jsonl", random.Random(seed)
    for kill in range(4):
        disk = Dying(byte=draw.randrange(size // 4)) if kill % 2 else Dying(sync=draw.randint(1, 4))
        use(monkeypatch, disk)
        with pytest.raises(Killed):
            run_backend(Truthful(), clips, out, fps=8, trials=TRIALS)
        found = whole_keys(out)
        assert len(set(found)) == len(found)
        assert set(found) <= wanted
    monkeypatch.setattr(store, "disk", WORKING)
    there, again = len(whole_keys(out)), Truthful()
    summary = run_backend(again, clips, out, fps=8, trials=TRIALS)
    assert (summary.kept, summary.written) == (there, len(wanted) - there)
    assert sum(len(r.trials) for r in again.asked) == len(wanted) - there
    found = whole_keys(out)
    assert set(found) == wanted
    assert len(found) == len(wanted)
    assert out.read_bytes().endswith(b"\n")


class Full:
    """A disk with room for `room` bytes, which it takes in pieces of at most `piece`."""

    def __init__(self, room: int, piece: int = 1000, sync_fails: int | None = None) -> None:
        self.room, self.piece, self.sync_fails, self.syncs = room, piece, sync_fails, 0

    def write(self, fd: int, data: bytes) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = os.write(fd, data[: min(self.room, self.piece)])
        self.room -= taken
        return taken

    def fsync(self, fd: int) -> None:
        self.syncs += 1
        if self.syncs == self.sync_fails:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(fd)

    truncate = staticmethod(os.ftruncate)


@pytest.mark.parametrize("room", [0, 1, 700, 2500, 4321])
@pytest.mark.parametrize("piece", [7, 10_000])
def test_a_full_disk_is_one_error_and_leaves_whole_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int, piece: int
) -> None:
    out, backend = tmp_path / "p.jsonl", Truthful()
    use(monkeypatch, Full(room, piece))
    with pytest.raises(TempolocError, match=r"cannot write .*p\.jsonl \(No space left on device\): free some"):
        ask(out, backend)
    assert backend.closed  # the engine does not go on working
    data = out.read_bytes()
    assert len(data) <= room
    assert not data or data.endswith(b"\n")
    there = len(whole_keys(out))
    assert there % TRIALS == 0  # an answer's rows together
    monkeypatch.setattr(store, "disk", WORKING)
    assert ask(out).kept == there
    assert len(set(whole_keys(out))) == len(whole_keys(out)) == len(FEW.clips) * TRIALS


def test_a_sync_that_fails_leaves_what_was_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After it nobody knows what of the newer rows is on the disk."""
    monkeypatch.setattr(store, "_SYNC_S", 0.0)
    use(monkeypatch, Full(10**6, sync_fails=4))  # one at the opening, one an answer
    out = tmp_path / "p.jsonl"
    with pytest.raises(TempolocError, match="No space left"):
        ask(out)
    assert len(whole_keys(out)) == 2 * TRIALS
    monkeypatch.setattr(store, "disk", WORKING)
    assert ask(out).written == 4 * TRIALS


def test_an_interrupt_between_two_parts_of_a_row_leaves_whole_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(Full):
        def write(self, fd: int, data: bytes) -> int:
            if self.room < 3000:
                raise KeyboardInterrupt
            return super().write(fd, data)

    use(monkeypatch, Interrupted(5000, 100))
    out = tmp_path / "p.jsonl"
    with pytest.raises(KeyboardInterrupt):
        ask(out)
    assert out.read_bytes().endswith(b"\n")
    assert 0 < len(whole_keys(out)) < 18


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 kB."""
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_real_full_disk(small_disk: Path) -> None:
    filler, out = small_disk / "filler", small_disk / "p.jsonl"
    filler.write_bytes(bytes(32 * 1024))
    with pytest.raises(TempolocError, match=r"No space left on device\): free some space"):
        run_backend(Truthful(), SHIPPED, out, fps=8, trials=5)
    there = whole_keys(out)
    assert 0 < len(there) == len(set(there)) < 175
    assert out.read_bytes().endswith(b"\n")
    filler.unlink()
    assert run_backend(Truthful(), SHIPPED, out, fps=8, trials=1).written == len(SHIPPED.clips) - len(there) // 5


def test_no_room_for_the_first_byte(small_disk: Path) -> None:
    with pytest.raises(OSError, match="No space"):
        (small_disk / "filler").write_bytes(bytes(2**17))
    with pytest.raises(TempolocError, match=r"cannot write .*p\.jsonl.*No space left"):
        ask(small_disk / "p.jsonl")


def test_a_file_size_limit_is_one_error(tmp_path: Path) -> None:
    """The kernel itself takes part of a row and refuses the rest."""
    out = tmp_path / "p.jsonl"
    limit = 5001
    done = subprocess.run(
        script(out), capture_output=True, text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )  # fmt: skip
    assert done.returncode == 1
    assert "TempolocError: cannot write" in done.stderr.splitlines()[-1]
    assert "File too large" in done.stderr
    data = out.read_bytes()
    assert limit - 4000 < len(data) <= limit
    assert data.endswith(b"\n")


def test_a_folder_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TempolocError, match=r"cannot write .*p\.jsonl: File exists"):
        ask(tmp_path / "file" / "p.jsonl")
    (tmp_path / "p.jsonl").mkdir()
    with pytest.raises(TempolocError, match=r"p\.jsonl: Is a directory"):
        ask(tmp_path / "p.jsonl")


# --- processes ---


def script(out: Path, *options: str) -> list[str]:
    return [sys.executable, str(HELPERS / "fake_backend.py"), str(out), *options]


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Until `condition` holds or the process has ended."""
    until = time.monotonic() + 60
    while not condition() and process.poll() is None:
        assert time.monotonic() < until, "nothing happened for a minute"
        time.sleep(0.001)


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def test_killed_for_good_at_random_moments_every_key_is_there_once(tmp_path: Path) -> None:
    """Ten real kills, some while the run starts, most while it writes."""
    draw, kills, rounds, wanted = random.Random(0), 0, 0, len(SHIPPED.clips) * 5
    while kills < 10:
        out = tmp_path / f"{rounds}.jsonl"
        rounds += 1
        ended = False
        while kills < 10 and not ended:
            before = size(out)
            process = subprocess.Popen(script(out, "--delay", "0.02"), text=True, stderr=subprocess.PIPE)
            if kills % 5:
                wait_for(lambda out=out, before=before: size(out) > before, process)  # type: ignore[misc]
            time.sleep(draw.random() * 0.2)
            process.send_signal(signal.SIGKILL)
            _, said = process.communicate()
            assert process.returncode in (0, -signal.SIGKILL), said
            ended = process.returncode == 0
            kills += not ended
            found = whole_keys(out)
            assert len(set(found)) == len(found)
        subprocess.run(script(out), check=True)
        found = whole_keys(out)
        assert len(set(found)) == len(found) == wanted
        assert out.read_bytes().endswith(b"\n")
        assert not list(tmp_path.glob(".*.lock"))


def test_ctrl_c_while_rows_reach_the_disk_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A slow disk: most of the time that a person waits is a sync."""
    syncs = 0

    def interrupted(fd: int) -> None:
        nonlocal syncs
        syncs += 1
        if syncs == 4:  # one at the opening, one an answer
            raise KeyboardInterrupt
        os.fsync(fd)

    monkeypatch.setattr(store, "_SYNC_S", 0.0)
    monkeypatch.setattr(store.disk, "fsync", interrupted)
    out = tmp_path / "p.jsonl"
    with pytest.raises(KeyboardInterrupt):
        ask(out)
    assert len(whole_keys(out)) == 3 * TRIALS
    assert f"{out} has {3 * TRIALS} answers" in capsys.readouterr().err
    assert ask(out).kept == 3 * TRIALS


def test_ctrl_c_is_one_line_and_a_valid_file(tmp_path: Path) -> None:
    out = tmp_path / "p.jsonl"
    process = subprocess.Popen(script(out, "--delay", "0.5"), text=True, stderr=subprocess.PIPE)
    wait_for(lambda: len(whole_keys(out)) > 5, process)  # the answer being written is dropped: one before it stays
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode != 0
    there = len(whole_keys(out))
    (line,) = (s for s in said.splitlines() if s.startswith("tempoloc: "))
    assert line == f"tempoloc: interrupted; {out} has {there} answers, and the same command goes on"
    assert 0 < there < 175
    assert out.read_bytes().endswith(b"\n")
    subprocess.run(script(out), check=True)
    assert len(set(whole_keys(out))) == len(whole_keys(out)) == 175


def test_two_processes_do_not_write_one_file_and_a_dead_one_does_not_matter(tmp_path: Path) -> None:
    out = tmp_path / "p.jsonl"
    process = subprocess.Popen(script(out, "--delay", "5"), text=True)
    lock = tmp_path / ".p.jsonl.lock"
    wait_for(lambda: size(lock) > 0, process)
    with pytest.raises(TempolocError, match=rf"p\.jsonl is being written by process {process.pid} on "):
        ask(out)
    assert not Truthful().asked
    process.kill()
    process.wait()
    assert lock.exists()
    assert ask(out).written == 18
    assert not lock.exists()


def test_a_lock_removed_by_its_owner_meanwhile_is_taken_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between opening and locking the file, its owner ended: a third process must not get a second lock."""
    out, lock, times = tmp_path / "p.jsonl", tmp_path / ".p.jsonl.lock", []
    real = fcntl.flock

    def flock(fd: int, operation: int) -> None:
        times.append(fd)
        if len(times) == 1:
            lock.unlink()
        real(fd, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    with sole_writer(out):
        assert len(times) == 2
        with pytest.raises(TempolocError, match="being written"), sole_writer(out):
            pass


def test_a_file_system_without_locks_still_has_one_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(fd: int, operation: int) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", flock)
    out = tmp_path / "p.jsonl"
    with pytest.warns(UserWarning, match="flock not supported"):
        assert ask(out).written == 18
    refused = pytest.raises(TempolocError, match="is being written by")
    with pytest.warns(UserWarning, match="flock not supported"), sole_writer(out), refused, sole_writer(out):
        pass
    assert not list(tmp_path.glob(".*.lock"))


# --- failures ---


def test_failures_stay_until_they_are_over(tmp_path: Path) -> None:
    out = tmp_path / "p.jsonl"

    def names() -> list[tuple[str, str]]:
        return [(r["clip"], r["error"]) for r in read_errors(out)]

    first = PredictionStore(out)
    for number in range(4):
        first.fail(f"a/{number}", f"{number:016x}", [0], "no good")
    first.close(whole=True)
    assert len(names()) == 4
    second = PredictionStore(out)  # interrupted: one answered, one failed again, two not reached
    second.write([row(0)])
    second.fail("a/1", f"{1:016x}", [0], "still no good")
    second.close(whole=False)
    assert sorted(names()) == [("a/1", "still no good"), ("a/2", "no good"), ("a/3", "no good")]
    third = PredictionStore(out)  # all asked: what did not fail now is over
    third.fail("a/3", f"{3:016x}", [0], "no good")
    third.close(whole=True)
    assert names() == [("a/3", "no good")]
    PredictionStore(out).close(whole=True)
    assert not errors_path(out).exists()


def test_a_failure_that_was_cut_off_does_not_spoil_the_next(tmp_path: Path) -> None:
    out = tmp_path / "p.jsonl"
    errors_path(out).write_text('{"clip": "a/0", "error": "x"}\nnot one\n{"clip": "a/1", "er')
    opened = PredictionStore(out)
    opened.fail("a/2", f"{2:016x}", [0], "y")
    opened.close(whole=False)
    assert [r["clip"] for r in read_errors(out)] == ["a/0", "a/2"]
