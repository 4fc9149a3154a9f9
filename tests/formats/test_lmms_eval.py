"""A task of lmms-eval: its files, and how its harness has answers scored."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tempoloc_nb.clips.manifest import Clip, write_manifest
from tempoloc_nb.clips.tasks import Event
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.formats.convert import export_dataset
from tempoloc_nb.formats.lmms_eval import process_results, share
from tempoloc_nb.models.ask import load_prompt
from tempoloc_nb.video.files import probe, read
from tests.helpers.video_clips import write_clip

EVENTS = (Event("grasp", 0.2), Event("drop", absent=True), Event("lift", 0.5))


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """Two questions about one video, one without truth, and one without its video."""
    write_clip(tmp_path / "a.mp4", 20, (64, 48))
    (tmp_path / "t.toml").write_text('key = "t"\nevents = ["grasp", "drop", "lift"]\nboundary_is = "end"\n')
    first = Clip("t/a", "t", EVENTS, "a.mp4", fps=30.0, duration=20 / 30)
    slow = replace(first, clip="t/b", label_fps=60.0, events=EVENTS[:1])
    bare = replace(first, clip="t/c", events=(Event("grasp"),))
    write_manifest(tmp_path / "m.jsonl", [first, slow, bare, replace(first, clip="t/gone", video="gone.mp4")])
    return tmp_path / "m.jsonl"


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "questions.jsonl").read_text().splitlines()]


def task(folder: Path) -> dict[str, Any]:
    """The task as lmms-eval reads it, functions by their names."""

    class Loader(yaml.SafeLoader):
        pass

    Loader.add_constructor("!function", lambda loader, node: loader.construct_scalar(node))  # type: ignore[arg-type]
    (path,) = folder.glob("*.yaml")
    found = yaml.load(path.read_text(), Loader)
    assert isinstance(found, dict)
    return found


def test_a_task_with_its_questions_and_stamped_videos(manifest: Path, tmp_path: Path) -> None:
    out = tmp_path / "my cups"
    done = export_dataset(manifest, out, "lmms-eval")
    assert "2 questions; 1 left out, without truth (t/c); 1 left out, without a video here (t/gone)" in str(done)
    first, slow = lines(out)
    assert first["question"].endswith(load_prompt("card-absent").question(["grasp", "drop", "lift"]))
    assert (first["labels"], first["boundaries"]) == (["grasp", "drop", "lift"], [0.2, None, 0.5])
    assert (slow["boundaries"], slow["boundary_is"]) == ([0.4], "end")  # seconds of the video
    assert first["video"] == slow["video"] == str(out / "videos" / "00000.mp4")
    assert probe(Path(first["video"])).n_frames == 20
    assert read(Path(first["video"])).images[0].shape[0] > 48  # the border with the time
    made = task(out)
    assert made["task"] == "tempoloc_my_cups"
    assert made["dataset_kwargs"] == {"data_files": {"test": "questions.jsonl"}}
    scores = process_results(first, [""])
    assert [m["metric"] for m in made["metric_list"]] == [*scores]
    assert {made[key] for key in ("doc_to_visual", "doc_to_text", "doc_to_target")} <= set(first)


def test_videos_as_they_are_and_another_prompt(manifest: Path, tmp_path: Path) -> None:
    export_dataset(manifest, tmp_path / "out", "lmms-eval", stamps=False, prompt="tiny-absent", tokens=77)
    assert lines(tmp_path / "out")[0]["video"] == str(tmp_path / "a.mp4")
    assert not (tmp_path / "out" / "videos").exists()
    assert task(tmp_path / "out")["generation_kwargs"]["max_new_tokens"] == 77


@pytest.mark.parametrize(
    ("text", "within", "absent", "denied"),
    [
        ("Event 1: <0.0> <0.3> grasp\nEvent 2: <absent> drop\nEvent 3: <0.3> <1.2> lift", 1, 1, 0),
        ("Event 1: <absent> grasp\nEvent 2: <0.3> <0.4> drop\nEvent 3: <0.4> <0.6> lift", 1, 0, 1),
        ("I do not know.", 0, 0, 0),
        ("", 0, 0, 0),
    ],
)
def test_each_event_counts_alone(
    manifest: Path, tmp_path: Path, text: str, within: int, absent: int, denied: int
) -> None:
    export_dataset(manifest, tmp_path / "out", "lmms-eval", stamps=False)
    scores = process_results(lines(tmp_path / "out")[0], [text])
    assert scores["within_0.25_s"] == (within, 2)
    assert scores["absent_said_absent"] == (absent, 1)
    assert scores["present_said_absent"] == (denied, 2)
    assert scores["in_the_form_asked_for"] == (int(text.startswith("Event")), 1)


def test_shares_are_of_all_events() -> None:
    assert share([(1, 2), (0, 0), [2, 2]]) == 75.0
    assert math.isnan(share([(0, 0)]))


def test_what_cannot_be_exported(manifest: Path, tmp_path: Path) -> None:
    with pytest.raises(TempolocError, match="t/a has an absent event, and prompt recipe leaves no way to say so"):
        export_dataset(manifest, tmp_path / "out", "lmms-eval", prompt="recipe")
    (tmp_path / "a.mp4").unlink()
    with pytest.raises(TempolocError, match=r"none of 4 clips has its video here, and a truth.*--video-root"):
        export_dataset(manifest, tmp_path / "out", "lmms-eval")
    assert not (tmp_path / "out").exists()
