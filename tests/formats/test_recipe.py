"""The recipe's pickles are read without running them, and nothing else is read."""

from __future__ import annotations

import contextlib
import json
import pickle
import re
import struct
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tempoloc_nb.clips.tasks import load_task
from tempoloc_nb.core import checks
from tempoloc_nb.core.checks import read_plain_pickle
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.formats.convert import import_recipe
from tempoloc_nb.scoring.answers import parse_recipe

ANSWER = "<answer>\nEvent 1: <0.6> <1.1> grasping the cube\nEvent 2: <1.1> <1.5> releasing the cube\n</answer>"


def read(tmp_path: Path, data: bytes) -> object:
    path = tmp_path / "results_demo0.pkl"
    path.write_bytes(data)
    return read_plain_pickle(path)


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner, inner) | st.tuples(inner)
    ),
    max_leaves=30,
)


@settings(max_examples=200)
@given(plain, st.integers(0, 5))
def test_plain_values_come_back(tmp_path_factory: pytest.TempPathFactory, value: object, protocol: int) -> None:
    assert read(tmp_path_factory.mktemp("p"), pickle.dumps(value, protocol)) == value


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_bytes_come_back(tmp_path: Path, protocol: int) -> None:
    assert read(tmp_path, pickle.dumps({b"a": b"b" * 300}, protocol)) == {b"a": b"b" * 300}


@pytest.mark.parametrize("protocol", range(6))
def test_results_of_every_protocol(tmp_path: Path, protocol: int) -> None:
    results = {
        "video_path": "/data/a.mp4",
        "prompt_type": "cube",
        "fps8": [ANSWER] * 3 + [None, ["x"]],
        "fps4": [ANSWER],
        "latency": 1.5,
    }
    assert read(tmp_path, pickle.dumps(results, protocol)) == results


class Reduced:
    def __reduce__(self) -> tuple[object, ...]:
        return (print, ("run!",))


class Stateful:
    def __init__(self) -> None:
        self.value = 1


def proto(body: bytes) -> bytes:
    return b"\x80\x04" + body


HARMFUL = {
    "REDUCE": pickle.dumps([Reduced()], 2),
    "STACK_GLOBAL": pickle.dumps([Reduced()], 4),
    "BUILD": pickle.dumps(Stateful(), 4),
    "GLOBAL": b"cbuiltins\nprint\n(S'run!'\ntR.",
    "INST": b"(S'run!'\nibuiltins\nprint\n.",
    "OBJ": b"(cbuiltins\nprint\nS'run!'\no.",
    "NEWOBJ": pickle.dumps(OrderedDict(a=1), 2),
    "EXT1": proto(b"\x82\x01."),
    "EXT2": proto(b"\x83\x01\x00."),
    "EXT4": proto(b"\x84\x01\x00\x00\x00."),
    "PERSID": b"Pmine\n.",
    "BINPERSID": b"S'mine'\nQ.",
    "BUILD alone": b"}}b.",
    "REDUCE alone": b"]]R.",
    "NEXT_BUFFER": b"\x80\x05\x97.",
    "numpy number": pickle.dumps({"fps8": [np.float64(1.5)]}),
    "numpy array": pickle.dumps({"fps8": np.zeros(3)}),
    "set": pickle.dumps({"fps8": {1, 2}}),
    "complex": pickle.dumps(1j),
    "path": pickle.dumps(Path("a")),
}


@pytest.mark.parametrize("name", HARMFUL)
def test_objects_are_refused(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(TempolocError, match=r"results_demo0\.pkl is not read: .*; only lists"):
        read(tmp_path, HARMFUL[name])
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("name", "word"), [("GLOBAL", "builtins.print"), ("STACK_GLOBAL", "builtins"), ("numpy number", "numpy")]
)
def test_the_object_is_named(tmp_path: Path, name: str, word: str) -> None:
    with pytest.raises(TempolocError, match=word):
        read(tmp_path, HARMFUL[name])


def doubled(times: int) -> bytes:
    """A list that holds the previous list twice, and so on: 2^times leaves when it is walked."""
    body = b"]q\x00"
    for i in range(times):
        body += b"]q" + bytes([i + 1]) + b"(h" + bytes([i]) + b"h" + bytes([i]) + b"e"
    return proto(body + b".")


long_text = b"X" + struct.pack("<I", 2**20) + b"a" * 2**20
BROKEN = {
    "memo bomb of lists": doubled(40),
    "memo bomb of texts": proto(b"](" + long_text + b"q\x01" + b"h\x01" * 1000 + b"e."),
    "list in itself": b"]q\x00h\x00a.",
    "memo of nothing": b"h\x05.",
    "huge memo number": proto(b"]r\xff\xff\xff\x7f" + b"j\xff\xff\xff\x7fa."),
    "oversized text": proto(b"X\xff\xff\xff\x7fabc."),
    "oversized text, 8 bytes": proto(b"\x8d\xff\xff\xff\xff\xff\xff\xff\x7fabc."),
    "oversized bytes": proto(b"\x8e\xff\xff\xff\xff\xff\xff\xff\xffabc."),
    "oversized frame": proto(b"\x95\xff\xff\xff\xff\xff\xff\xff\x7f]."),
    "oversized number": proto(b"\x8b\xff\xff\xff\x7f\x00."),
    "negative length": proto(b"\x8b\xff\xff\xff\xff\x00."),
    "very long number": b"L" + b"9" * 10_000 + b"L\n.",
    "truncated": pickle.dumps({"fps8": [ANSWER]})[:-20],
    "no end": proto(b"]"),
    "empty": b"",
    "not a pickle": b"hello",
    "no mark": proto(b"]e."),
    "tuple of nothing": proto(b"\x87."),
    "pop through a mark": proto(b"](\x85."),
    "append to a dictionary": proto(b"}Na."),
    "items for a list": proto(b"](NNu."),
    "odd items": proto(b"}(Nu."),
    "list as key": proto(b"}(]Nu."),
    "end at once": proto(b"."),
    "undecodable text": proto(b"X\x02\x00\x00\x00\xff\xfe."),
    "unknown opcode": proto(b"\xff."),
}


@pytest.mark.parametrize("name", BROKEN)
def test_bombs_and_broken_files_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(TempolocError, match=r"results_demo0\.pkl is not read"):
        read(tmp_path, BROKEN[name])


def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = pickle.dumps(list(range(100)))
    monkeypatch.setattr(checks, "_MAX_OPCODES", 50)
    with pytest.raises(TempolocError, match="more than 50 opcodes"):
        read(tmp_path, data)
    monkeypatch.setattr(checks, "_MAX_BYTES", 60)
    with pytest.raises(TempolocError, match="more than the 60"):
        read(tmp_path, data)


def test_texts_by_reference_are_fine(tmp_path: Path) -> None:
    assert read(tmp_path, pickle.dumps({"fps8": [ANSWER] * 10})) == {"fps8": [ANSWER] * 10}


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(TempolocError, match=r"cannot read none\.pkl"):
        read_plain_pickle(tmp_path / "none.pkl")


@settings(max_examples=300)
@given(st.binary(max_size=200), st.sampled_from([b"", b"\x80\x04"]))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes, start: bytes) -> None:
    with contextlib.suppress(TempolocError):
        read(tmp_path_factory.mktemp("p"), start + data)


# --- the recipe's rule ---


@settings(max_examples=500)
@given(
    st.lists(
        st.sampled_from(
            [
                "<answer>",
                "</answer>",
                "<ANSWER>",
                "Event 1: ",
                "event 2",
                "Event",
                "<1.5>",
                "<2>",
                "<.5>",
                "<-1.25>",
                "<1.>",
                "<+3>",
                "<1.2.3>",
                "<1.9s>",
                " - ",
                "\n",
                "\r\n",
                "<",
                ">",
                "00",
                "<think>",
            ]
        ),
        max_size=30,
    ).map("".join),
    st.integers(1, 3),
)
def test_rule_is_the_recipes(text: str, events: int) -> None:
    """Against the rule as the recipe states it, with its own pattern."""
    tagged = re.search(r"<answer>(.*?)</answer>", text, re.DOTALL | re.IGNORECASE)
    lines = [line for line in (tagged.group(1) if tagged else text).split("\n") if "Event" in line]
    found = [re.findall(r"<([+-]?\d*\.?\d+)>", line)[:2] for line in lines]
    wanted = [(float(f[0]), float(f[1])) for f in found if len(f) == 2]
    assert parse_recipe(text, events) == (wanted if len(wanted) == len(lines) == events else None)


@pytest.mark.parametrize("text", ["<" + "1" * 100_000, "<answer>" * 12_000, "Event <1> " * 10_000])
def test_hostile_texts_end(text: str) -> None:
    assert parse_recipe(text, 3) is None


# --- import ---


def test_import(tmp_path: Path) -> None:
    task = load_task("bridge")
    for demo, texts in {"demo0": [ANSWER, None], "demo1": [[ANSWER], []]}.items():
        (tmp_path / f"results_{demo}.pkl").write_bytes(
            pickle.dumps({"fps8": texts, "fps4": [ANSWER], "prompt_type": "cube"})
        )
    done = import_recipe(tmp_path, task, tmp_path / "out.jsonl", model="m")
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert (done.kept, done.what) == (6, "predictions from 2 files, 2 of them empty")
    assert {(r["clip"], r["fps"], r["trial"]) for r in rows} == {
        (f"bridge/{d}", fps, t) for d in (0, 1) for fps, t in ((8.0, 0), (8.0, 1), (4.0, 0))
    }
    assert {r["time_base"] for r in rows} == {"label"}
    assert [r["text"] for r in rows if r["fps"] == 8.0] == [ANSWER, "", ANSWER, ""]


def test_import_takes_the_model_from_the_file(tmp_path: Path) -> None:
    (tmp_path / "results_demo0.pkl").write_bytes(pickle.dumps({"fps8": [ANSWER], "model": "qwen-8b"}))
    import_recipe(tmp_path, load_task("bridge"), tmp_path / "out.jsonl")
    assert json.loads((tmp_path / "out.jsonl").read_text())["model"] == "qwen-8b"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("results_demo0.pkl", {"fps8": [ANSWER]}, "give --model"),
        ("results_demo0.pkl", {"model": "m"}, "no lists named fps4"),
        ("results_demo0.pkl", ["x"], "no lists named fps4"),
        ("results_demo0.pkl", {"model": "m", "fps8": "x"}, "fps8 is a str"),
        ("results_demo0.pkl", {"model": "m", "fps8": [1]}, "trial 0 of fps8 is a int"),
        ("results_kitchen.pkl", {"model": "m", "fps8": [ANSWER]}, "does not fit"),
        ("other.pkl", {}, "no results_"),
    ],
)
def test_import_refuses(tmp_path: Path, name: str, value: object, message: str) -> None:
    (tmp_path / name).write_bytes(pickle.dumps(value))
    with pytest.raises(TempolocError, match=message):
        import_recipe(tmp_path, load_task("bridge"), tmp_path / "out.jsonl")
    assert not list(tmp_path.glob("out*"))


def test_import_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "results_demo0.pkl").write_bytes(pickle.dumps({"fps8": [ANSWER]}))
    (tmp_path / "out.jsonl").write_text("mine")
    with pytest.raises(TempolocError, match="is there already"):
        import_recipe(tmp_path, load_task("bridge"), tmp_path / "out.jsonl", model="m")
    assert (tmp_path / "out.jsonl").read_text() == "mine"
