"""The hostile tries can fail: each of their counters notices a fault that is planted."""

from __future__ import annotations

import base64
import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import case as hostile
from kinds import check_answers
from reads import check_events, check_log
from uses import missing

KEY = hostile.SECRETS["TEMPOLOC_API_KEY"]
Planted = Callable[[list[str]], None]


def crash(argv: list[str]) -> None:
    raise KeyError("x")


def bare(argv: list[str]) -> None:
    sys.exit("tempoloc: KeyError: 'x'")


def overwrite(argv: list[str]) -> None:
    Path("kept.txt").write_text("another")


def replace_link(argv: list[str]) -> None:
    Path("link").unlink()
    Path("link").write_text("a file now")


def leak(argv: list[str]) -> None:
    print(base64.b64encode(f"Bearer {KEY}".encode()).decode())


def leak_part_into_file(argv: list[str]) -> None:
    Path("log.txt").write_text(f"…{KEY[9:21]}…")


def odd_status(argv: list[str]) -> None:
    sys.exit(7)


def silent(argv: list[str]) -> None:
    sys.exit(1)


def chatter(argv: list[str]) -> None:
    print("tempoloc: a line\n" * 40, file=sys.stderr)


def report(argv: list[str]) -> None:
    print(json.dumps(list(range(40)), indent=2), file=sys.stderr)


def hang(argv: list[str]) -> None:
    time.sleep(60)


def die(argv: list[str]) -> None:
    import os
    import signal

    os.kill(os.getpid(), signal.SIGKILL)  # no library's handler tells of it


def half(argv: list[str]) -> None:
    Path("out.csv.part").write_text("half")


def good(argv: list[str]) -> None:
    Path("new.txt").write_text("new")
    print("done")


@pytest.fixture
def case(tmp_path: Path) -> hostile.Case:
    made = hostile.Case(0, "planted", "none", "0", tmp_path / "try", tmp_path / "made", "http://127.0.0.1:1")
    (made.here / "kept.txt").write_text("precious")
    (made.here / "link").symlink_to("kept.txt")
    return made


@pytest.mark.parametrize(
    ("planted", "counters"),
    [
        (crash, {"tracebacks", "manners"}), (bare, {"tracebacks"}), (overwrite, {"overwritten"}),
        (replace_link, {"overwritten"}), (leak, {"leaked"}), (leak_part_into_file, {"leaked"}),
        (odd_status, {"manners"}), (silent, {"manners"}), (chatter, {"manners"}), (hang, {"manners"}),
        (die, {"manners"}), (half, {"manners"}),
        (good, set()), (report, {"manners"}),
    ],
)  # fmt: skip
def test_a_planted_fault_is_counted(
    case: hostile.Case, monkeypatch: pytest.MonkeyPatch, planted: Planted, counters: set[str]
) -> None:
    monkeypatch.setattr(hostile, "command_line", planted)
    case.run("planted", limit=1.0 if planted is hang else 60.0)
    assert {counter for counter, _ in case.faults} == counters


def test_a_report_that_was_asked_for_is_no_chatter(case: hostile.Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostile, "command_line", report)
    case.run("planted", "--json")
    assert not case.faults


def test_a_video_that_the_harness_left_open_does_not_hang_a_command(
    case: hostile.Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    import av

    from tempoloc_nb.core.settings import data_dir

    def collect(argv: list[str]) -> None:
        gc.collect()
        print("done")

    monkeypatch.setattr(hostile, "command_line", collect)
    container = av.open(str(data_dir() / "benchmarks/sim/videos/stack-three/000.mp4"))
    stream = container.streams.video[0]
    stream.thread_type, stream.codec_context.thread_count = "AUTO", 4
    ring: list[object] = [container, next(container.decode(stream))]
    ring.append(ring)  # only a collection ends it
    gc.disable()
    try:
        del ring, container, stream
        case.run("planted", limit=20.0)
    finally:
        gc.enable()
    assert not case.faults


@pytest.mark.parametrize(
    ("trials", "faults"),
    [((0, 1), 0), ((0,), 1), ((0, 1, 1), 1), ((), 1)],
    ids=["all", "one lost", "one twice", "all lost"],
)
def test_lost_and_doubled_answers_are_counted(case: hostile.Case, trials: tuple[int, ...], faults: int) -> None:
    out = case.here / "out.jsonl"
    out.write_text("".join(json.dumps({"clip": "mug/a", "trial": t}) + "\n" for t in trials))
    check_answers(case, out, 1, 2)
    assert [counter for counter, _ in case.faults] == ["lost"] * faults


@pytest.mark.parametrize(("told", "faults"), [(1.8, 0), (None, 0), (4.3, 1)], ids=["right", "none", "wrong"])
def test_a_wrong_time_is_counted(case: hostile.Case, told: float | None, faults: int) -> None:
    out = json.dumps([{"events": [{"label": "grasping", "boundary": told}]}])
    check_events(case, out, [1.8])
    assert [counter for counter, _ in case.faults] == ["misread"] * faults


@pytest.mark.parametrize(
    ("right", "faults"),
    [(((1.8, "grasping"),), 0), (((1.9, "grasping"),), 1), (((1.8, "releasing"),), 1), ((), 1), (None, 1)],
    ids=["right", "time", "name", "too many", "not certain"],
)
def test_a_wrong_log_is_counted(
    case: hostile.Case, right: tuple[tuple[float, str], ...] | None, faults: int
) -> None:
    check_log(case, json.dumps([{"error": "", "events": [{"label": "grasping", "boundary": 1.8}]}]), right)
    assert [counter for counter, _ in case.faults] == ["misread"] * faults


def test_every_command_is_tried() -> None:
    assert not missing()


def test_keys_are_found_in_any_form() -> None:
    for text in (KEY, KEY[3:16], f"x{base64.b64encode(b'ab' + KEY.encode()).decode()}", KEY.encode().hex()):
        assert hostile.leaks(text.encode()) == ["TEMPOLOC_API_KEY"], text
    assert hostile.leaks(b"sk-9Hv4Tn, so do keys begin, and 9+Lm3~ is too short") == []
