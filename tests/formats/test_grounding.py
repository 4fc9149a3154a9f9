"""Answers of TimeLens and lmms-eval, there and back; what cannot be told apart is refused in a line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tempoloc_nb.clips.manifest import Clip, load_benchmark, write_manifest
from tempoloc_nb.clips.tasks import Event
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.files import write_jsonl
from tempoloc_nb.formats.convert import export_dataset, import_dataset
from tempoloc_nb.scoring.answers import answer_text
from tempoloc_nb.scoring.evaluation import evaluate

TASK = 'key = "mug"\nevents = ["grasping the mug", "releasing the mug"]\nfps = 30.0\n'
LABELS = ("grasping the mug", "releasing the mug")


def mug(name: str, video: str | None, *times: float) -> Clip:
    events = tuple(Event(e, t, t, end) for e, t, end in zip(LABELS, times, times[1:], strict=False))
    return Clip(f"mug/{name}", "mug", events, video, fps=30.0, duration=5.0)


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    (tmp_path / "mug.toml").write_text(TASK)
    clips = (mug("a", "left/0.mp4", 1.0, 2.0, 3.0), mug("b", "right/0.mp4", 1.5, 2.5, 3.5), mug("c", "c.mp4", 2, 3, 4))
    write_manifest(tmp_path / "manifest.jsonl", clips)
    return tmp_path / "manifest.jsonl"


def read(manifest: Path, data: Any, **options: Any) -> list[dict[str, Any]]:
    """What a file of theirs becomes; a list is one object a line."""
    path, out = manifest.with_name("theirs.json"), manifest.with_name("ours.jsonl")
    path.write_text("\n".join(map(json.dumps, data)) if isinstance(data, list) else json.dumps(data, indent=4))
    import_dataset(path, out, "timelens", manifest=manifest, model="theirs", force=True, **options)
    return [json.loads(line) for line in out.read_text().splitlines()]


def key(video: str, label: str = LABELS[0], span: str = "[1.0, 2.0]") -> str:
    return f"{video}>>>{label}>>>{span}"


@pytest.mark.parametrize("name", ["timelens", "lmms-eval"])
def test_what_goes_out_comes_back(manifest: Path, tmp_path: Path, name: str) -> None:
    rows = [
        {"clip": c, "task": "mug", "model": "m", "fps": 8, "trial": 0, "text": answer_text(LABELS, times, 4.2)}
        for c, times in (("a", (1.25, 2.5)), ("b", (1.5, 2.25)))
    ]
    rows[1]["text"] = rows[1]["text"].replace("Event 2: <2.25>", "Event 2: <soon>")
    write_jsonl(tmp_path / "p.jsonl", rows)
    theirs, back = tmp_path / "theirs.json", tmp_path / "back.jsonl"
    export_dataset(manifest, theirs, name, predictions=[tmp_path / "p.jsonl"])
    text = theirs.read_text()
    assert "left/0.mp4>>>grasping the mug>>>[1.0, 2.0]" in text
    assert "The event happens in 1.25 - 2.50 seconds." in text
    done = import_dataset(theirs, back, name, manifest=manifest, model="m", fps=8)
    assert done.kept == 2
    benchmark = load_benchmark(manifest)
    before, after = (
        evaluate(p, benchmark, resamples=5).table.query("task == ''").set_index("score")["value"]
        for p in (tmp_path / "p.jsonl", back)
    )
    others = [name for name in before.index if name not in ("labelled", "compliance") and "status" not in name]
    assert before[others].equals(after[others])


def test_both_forms_are_read_whoever_wrote_them(manifest: Path) -> None:
    said = "The event happens in 1.5 - 2.5 seconds."
    span = {"timestamps": [[1.5, 2.5], [3.0, 4.0]], "answers": said, "duration": 5.0}
    for data in (
        {key("c.mp4"): said},
        [{key("c.mp4"): span}],
        {key("c"): {"answers": said}},
        {key("/data/c.mp4"): span},
    ):
        (row,) = read(manifest, data)
        assert (row["clip"], row["model"], row["fps"], row["answers"]) == ("mug/c", "theirs", 2.0, [said, None])
        assert row["text"] == "<answer>\nEvent 1: <1.500> <2.500> grasping the mug\n</answer>"
    (row,) = read(manifest, {key("c.mp4", "Releasing the mug."): "from 00:03 to 00:02"}, fps=4.0)
    assert row["text"] == "<answer>\nEvent 2: <3.000> <2.000> releasing the mug\n</answer>"  # reversed stays reversed
    (row,) = read(manifest, {key("c.mp4"): {"timestamps": []}})
    assert row["text"] == "<answer>\n</answer>"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"c.mp4": "1 - 2"}, "theirs.json: the key 'c.mp4' is not video>>>sentence>>>interval"),
        ({key("d.mp4"): "1 - 2"}, "is about the video 'd.mp4', which .* does not have"),
        ({key("c.mp4", "waving"): "1 - 2"}, "asks for 'waving' in c.mp4, which no clip has .events: grasping the mug"),
        ({key("0.mp4"): "1 - 2"}, "asks for 'grasping the mug' in 0.mp4, which 2 clips have"),
        ([{key("c.mp4"): "1 - 2"}] * 2, "theirs.json:2 answers 'grasping the mug' of mug/c once more"),
        ({key("c.mp4"): [1, 2]}, "theirs.json: mug/c, grasping the mug"),
        ({key("c.mp4"): {"duration": 5}}, "has neither timestamps nor answers"),
        ({key("c.mp4"): {"timestamps": [[1]]}}, "timestamps"),
        ([], "theirs.json holds no answer"),
        ([[1]], "theirs.json:1 is not a JSON object"),
    ],
)
def test_bad_files_are_refused_in_a_line(manifest: Path, data: Any, message: str) -> None:
    with pytest.raises(TempolocError, match=message) as caught:
        read(manifest, data)
    assert "\n" not in str(caught.value)
    assert not manifest.with_name("ours.jsonl").exists()


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    row = {"clip": "0", "task": "nut", "model": "m", "fps": 8, "trial": 0, "text": "Event 1: <1.0> <2.0>"}
    write_jsonl(tmp_path / "p.jsonl", [row])
    with pytest.raises(TempolocError, match=r"nut/.* has no true interval of"):
        export_dataset("recipe", tmp_path / "o.jsonl", "timelens", predictions=[tmp_path / "p.jsonl"])
    write_jsonl(tmp_path / "p.jsonl", [row, {**row, "model": "n"}])
    with pytest.raises(TempolocError, match="several runs"):
        export_dataset("recipe", tmp_path / "o.jsonl", "lmms-eval", predictions=[tmp_path / "p.jsonl"])
