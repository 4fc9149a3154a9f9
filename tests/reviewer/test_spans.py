"""A span that begins, or ends, on its own: saved, written to every format that holds it, and read back equal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tempoloc_nb.clips.manifest import Clip, Clips, load_benchmark, own_edges
from tempoloc_nb.clips.tasks import Event, Task
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.formats.correction_files import read_vtt, write_vtt
from tempoloc_nb.formats.corrections import apply_rows, proposals
from tempoloc_nb.formats.lerobot_convert import write_lerobot_subtasks
from tempoloc_nb.inference.found import Found, FoundEvent
from tempoloc_nb.reviewer.desk import Desk
from tempoloc_nb.reviewer.edits import Marked, history
from tempoloc_nb.reviewer.session import Review
from tempoloc_nb.reviewer.sources import open_review
from tempoloc_nb.scoring.scores import task_truth
from tempoloc_nb.video.files import encode

LABELS, TIMES = ("grasp", "lift", "place"), (1.0, 2.0, 3.0)
COVER = Clip("t/a", "t", tuple(map(Event, LABELS, TIMES)), fps=10.0, duration=4.0, extra={"episode_index": 0})
GAP = replace(COVER, events=(COVER.events[0], Event("lift", 2.0, 1.4, 2.0), COVER.events[2]))
ANSWERS = replace(COVER, events=tuple(Event(e, t, t, t + 1) for e, t in zip(LABELS, (1.0, 2.0, 2.9), strict=True)))


def review(folder: Path, clip: Clip) -> Review:
    return Review(Clips("t", folder, {"t": Task("t", LABELS)}, (clip,)), folder / "reviewed.jsonl", who="Ada")


def marks(*edges: float | None, times: tuple[float, ...] = TIMES) -> list[Marked]:
    return [Marked(e, t, edge=edge) for e, t, edge in zip(LABELS, times, edges, strict=True)]


def test_a_span_without_a_gap_has_no_edge_of_its_own() -> None:
    assert own_edges(COVER) == ("start", (None, None, None))
    assert own_edges(GAP) == ("start", (None, 1.4, None))
    assert own_edges(ANSWERS) == ("end", (None, 3.0, 3.9))  # the first lasts to the next boundary
    assert own_edges(replace(GAP, label_fps=20.0))[1] == (None, 2.8, None)  # in seconds of the video


def test_both_sides_are_saved_and_come_back_equal(tmp_path: Path) -> None:
    one = review(tmp_path, COVER)
    one.save("t/a", 0, marks(None, 1.4, None))
    (clip,) = load_benchmark(tmp_path / "reviewed.jsonl").clips
    assert clip.events == GAP.events
    assert clip == review(tmp_path, COVER).clip("t/a")
    assert history(clip)[0]["changed"] == [{"label": "lift", "old": 2.0, "new": 2.0, "edges": [None, 1.4]}]
    assert review(tmp_path, COVER).save("t/a", 1, marks(None, None, None)).events == GAP.events  # nothing is said of it
    both = one.save("t/a", 2, marks(None, 1.6, None, times=(1.5, 2.2, 3.0)))
    assert both.events[:2] == (Event("grasp", 1.5), Event("lift", 2.2, 1.6, 2.2))
    joined = one.save("t/a", 3, marks(None, 1.5, None, times=(1.5, 2.2, 3.0)))
    assert own_edges(joined) == ("start", (None, None, None))
    assert history(joined)[-1]["changed"] == [{"label": "lift", "old": 2.2, "new": 2.2, "edges": [1.6, None]}]


def test_the_ends_of_intervals_as_answers_write_them_move_too(tmp_path: Path) -> None:
    clip = review(tmp_path, ANSWERS).save("t/a", 0, marks(1.5, 2.9, 3.5, times=(1.0, 2.0, 2.9)))
    assert [(e.start, e.end) for e in clip.events] == [(1.0, 1.5), (2.0, 2.9), (2.9, 3.5)]
    assert own_edges(clip)[1] == (1.5, None, 3.5)


@pytest.mark.parametrize(("edge", "times"), [(0.9, TIMES), (2.0, TIMES), (2.1, TIMES), (None, (1.5, 2.0, 3.0))])
def test_what_reaches_beyond_its_neighbour_changes_nothing(
    tmp_path: Path, edge: float | None, times: tuple[float, ...]
) -> None:
    one = review(tmp_path, GAP)
    with pytest.raises(TempolocError, match=r"t/a: the start of 'lift', .* s, is not between .* and 2 s"):
        one.save("t/a", 0, marks(None, edge, None, times=times))
    assert not one.output.exists()


def test_the_page_is_told_and_tells(tmp_path: Path) -> None:
    desk = Desk(review(tmp_path, GAP))
    details = desk.answer({"op": "clip", "index": 0})
    assert (details["side"], details["edges"]) == ("start", (None, 1.4, None))
    events: list[dict[str, Any]] = [{"label": e, "boundary": t} for e, t in zip(LABELS, TIMES, strict=True)]
    events[0]["edge"] = 0.3
    save = {"op": "save", "index": 0, "revision": 0, "events": events}
    assert desk.answer(save)["now"]["edges"] == (0.3, 1.4, None)
    events[0]["edge"] = "early"
    assert "the edge of 'grasp' is no number" in desk.answer({**save, "revision": 1})["error"]


def test_what_segment_wrote_gets_starts(tmp_path: Path) -> None:
    video = encode(tmp_path / "a.mp4", np.zeros((40, 32, 32, 3), np.uint8), fps=10)
    events = tuple(FoundEvent("close", t, "ok", occurrence=k) for k, t in enumerate((1.0, 2.0), 1))
    one = open_review(Found(video, events, "gripper signal", 4.0, 10.0), output=tmp_path / "r.jsonl", who="Ada")
    clip, desk = one.clip("own/a"), Desk(one)
    assert one.start(clip) == ("gripper signal at 10 fps", (1.0, 2.0))
    details = desk.answer({"op": "clip", "index": 0})
    assert [e["boundary"] for e in details["model"]["events"]] == [1.0, 2.0]
    assert {e["confidence"] for e in details["model"]["events"]} == {None}  # nobody was asked, so nothing agrees
    assert [line["confidence"] for line in desk.queue()["clips"]] == [None]
    assert own_edges(clip)[1] == (None, None)  # cuts cover the clip
    saved = one.save("own/a", 0, [Marked(clip.labels[0], 1.0, edge=0.4), Marked(clip.labels[1], 2.0)])
    assert saved.events[0] == Event("close", 1.0, 0.4, 1.0)
    assert [c.events for c in load_benchmark(tmp_path / "r.jsonl").clips] == [saved.events]


def test_subtitles_hold_starts_which_an_editor_may_move(tmp_path: Path) -> None:
    (path,) = write_vtt(proposals([GAP]), tmp_path)
    assert "00:00:01.400 --> 00:00:02.000\nlift" in path.read_text()
    assert apply_rows([GAP], read_vtt(tmp_path), who="me").clips == (GAP,)
    path.write_text(path.read_text().replace("00:00:01.400", "00:00:01.700"))
    done = apply_rows([GAP], read_vtt(tmp_path), who="me")
    assert own_edges(done.clips[0])[1] == (None, 1.7, None)
    desk = Desk(review(tmp_path, GAP))
    assert desk.answer({"op": "import", "kind": "vtt", "text": path.read_text(), "who": ""})["changed"] == ["t/a"]
    assert desk.answer({"op": "clip", "index": 0})["edges"] == (None, 1.7, None)


def test_an_interval_before_the_boundary_is_not_scored_as_an_answers() -> None:
    task = Task("t", LABELS)
    assert np.isnan(task_truth([GAP], task, "strict").start).all()
    assert not np.isnan(task_truth([ANSWERS], task, "strict").start).all()
    assert task_truth([GAP], replace(task, boundary_is="end"), "strict").start[0, 1] == 1.4


@pytest.mark.parametrize("annotation", ["language", "index"])
def test_a_gap_in_a_lerobot_dataset_is_opened_moved_written_and_read(tmp_path: Path, annotation: Any) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra data)")
    from lerobot_folders import small_dataset

    root = small_dataset(tmp_path / "cups", [[np.full((48, 64, 3), 40, np.uint8)] * 40])
    copy = write_lerobot_subtasks(root, [GAP], tmp_path / "copy", annotation=annotation).output
    one = open_review(copy, who="Ada", output=tmp_path / "r.jsonl")
    (name,) = one.names
    assert own_edges(one.clip(name)) == own_edges(GAP)
    clip = one.save(name, 0, marks(0.5, 1.6, None))
    if annotation == "language":
        with pytest.raises(TempolocError, match="SARM's stages have none"):
            write_lerobot_subtasks(root, [clip], tmp_path / "stages", sarm=True)
    assert "1 episodes written" in Desk(one).answer({"op": "export", "kind": "annotations", "index": 0})["note"]
    again = open_review(copy, output=tmp_path / "again.jsonl")  # with what the visualizer's file says
    assert again.clip(name).events == clip.events
    early = replace(GAP, events=(COVER.events[0], Event("lift", 2.0, 0.6, 2.0)))
    with pytest.raises(TempolocError, match="'lift' begins before what comes before it ends, at 1 s"):
        write_lerobot_subtasks(root, [early], tmp_path / "new")
