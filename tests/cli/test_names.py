"""`tempoloc segment --by` with a model: a server names the cuts, and every writer has the names."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tempoloc_nb.engines.qwen import video_rules
from tempoloc_nb.formats.example import write_example
from tempoloc_nb.formats.lerobot import read_episodes, read_info
from tempoloc_nb.formats.lerobot_rows import read_subtasks
from tempoloc_nb.inference.store import answers_path
from tempoloc_nb.reviewer.sources import open_review
from tests.helpers.fake_server import FakeServer
from tests.helpers.tiny_models import qwen25

Run = Callable[..., tuple[int, str, str]]
NAMES = ("grasp cube", "release cube", "grasp cube for the second time", "release cube for the second time")


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A LeRobot dataset whose gripper closes and opens twice an episode."""
    root = tmp_path_factory.mktemp("named") / "example"
    write_example(root)
    return root / "my_dataset"


@pytest.fixture
def dataset(example: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(example, tmp_path / "set"))


def question(body: dict[str, Any]) -> str:
    return str(next(part["text"] for part in body["messages"][-1]["content"] if "text" in part))


def answer(body: dict[str, Any], **first: str) -> str:
    """Names of the spans in a question; `first` changes those of the first."""
    count = question(body).count("\nSpan ")
    spans: list[dict[str, Any]] = [
        {"span": i, "verb": ("release", "grasp")[i % 2], "object": "cube"} for i in range(1, count + 1)
    ]
    spans[0] |= first
    return json.dumps({"spans": spans})


@contextmanager
def asked(dataset: Path, text: Callable[[dict[str, Any]], str], **more: Any) -> Iterator[tuple[FakeServer, list[Any]]]:
    """A server that answers with `text`, and a command that asks it about a dataset."""
    with FakeServer(qwen25().name, rules=video_rules(qwen25()), text=text, **more) as server:
        engine = ("--model", qwen25(), "--backend", "openai", "--server", server.url, "--fps", 4, "--trials", 1)
        yield server, ["segment", dataset, "--by", "gripper", *engine]


def test_every_writer_has_the_names(run: Run, dataset: Path, tmp_path: Path) -> None:
    words = ("--verbs", "grasp,release", "--objects", "cube", "--structured", "json")
    with asked(dataset, answer) as (server, command):
        for suffix in ("json", "csv"):
            code, out, err = run(*command, *words, "-o", tmp_path / f"names.{suffix}")
            assert code == 0, err
        code, _, err = run(*command, *words, "--episode", 0, "-o", tmp_path / "names.vtt")
        assert code == 0, err
        code, _, err = run(*command, *words, "--write")
        assert code == 0, err
    assert "how often such names are right was not measured" in err
    assert f"names by {qwen25().name}, 1 answer" in out.splitlines()[0]
    body = server.bodies[0]
    assert "Take each verb from this list: grasp, release." in question(body)
    assert body["response_format"]["json_schema"]["schema"]["properties"]["spans"]["minItems"] == 4
    found = json.loads((tmp_path / "names.json").read_text())
    assert [e["label"] for e in found[0]["events"]] == ["grasp cube", "release cube"] * 2
    assert [e["occurrence"] for e in found[0]["events"]] == [1, 1, 2, 2]
    rows = list(csv.DictReader((tmp_path / "names.csv").read_text().splitlines()))
    assert [r["event"] for r in rows[:4]] == ["grasp cube", "release cube"] * 2
    assert [line for line in (tmp_path / "names.vtt").read_text().splitlines() if "cube" in line] == [*NAMES]
    info = read_info(dataset.with_name("set-subtasks"))
    spans = read_subtasks(info, read_episodes(info))[0]
    assert [(first, name) for first, name in spans][:4] == [
        *zip((0, 13, 26, 52), NAMES, strict=True)
    ]  # the frames of the cuts themselves
    record = json.loads((info.root / "meta" / "tempoloc.json").read_text())
    assert record["source"] == f"tempoloc segment with gripper signal, names by {qwen25().name}"
    review = open_review(tmp_path / "names.json", output=tmp_path / "reviewed.jsonl")
    assert {c.labels for c in review.benchmark.clips} == {NAMES}


def test_an_odd_word_keeps_the_signals_name_in_files(run: Run, dataset: Path, tmp_path: Path) -> None:
    with asked(dataset, lambda body: answer(body, verb="juggle")) as (_, command):
        code, out, err = run(*command, "--verbs", "grasp,release", "--write", "-o", tmp_path / "names.json")
    assert code == 0, err
    assert "  span 1 (close) keeps the signal's name: its verb 'juggle' is not among those allowed" in out.splitlines()
    info = read_info(dataset.with_name("set-subtasks"))
    names = [name for _, name in read_subtasks(info, read_episodes(info))[0]]
    assert names[:4] == ["close", "release cube", "grasp cube", "release cube for the second time"]


def test_a_run_that_failed_goes_on(run: Run, dataset: Path, tmp_path: Path) -> None:
    out = tmp_path / "names.json"
    with asked(dataset, answer, faults=["", "400 not now"]) as (server, command):
        code, _, err = run(*command, "--write", "-o", out)
        assert (code, "not now" in err, dataset.with_name("set-subtasks").exists()) == (1, True, False)
        failed = [f["error"] for f in json.loads(out.read_text()) if f["error"]]
        assert (len(failed), "not now" in failed[0]) == (1, True)
        assert answers_path(out).exists()
        first = len(server.bodies)
        code, _, err = run(*command, "--write", "-o", out, "--force")
        assert code == 0, err
        assert f"{first - 1} of {first} videos are answered already" in err
    assert len(server.bodies) == first + 1
    labels = [e["label"] for f in json.loads(out.read_text()) for e in f["events"]]
    assert labels == ["grasp cube", "release cube"] * 2 * first
    assert (answers_path(out).exists(), dataset.with_name("set-subtasks").exists()) == (False, True)
