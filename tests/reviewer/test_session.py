"""What a person saves, and what is never lost or overwritten."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tempoloc_nb.clips.manifest import Clip, Clips, load_benchmark, read_manifest, write_manifest
from tempoloc_nb.clips.tasks import Event
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.formats.corrections import reviewed
from tempoloc_nb.inference.signals import Signal
from tempoloc_nb.reviewer.desk import Desk
from tempoloc_nb.reviewer.edits import Marked, history, places
from tempoloc_nb.reviewer.session import Conflict, Review, last_remark, remarks
from tempoloc_nb.reviewer.sources import open_review
from tempoloc_nb.video.files import encode

LABELS = ("grasp", "lift", "place")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two clips with videos and trials of which one lacks an event; the second clip has no truth."""
    for name in "ab":
        encode(tmp_path / f"{name}.mp4", np.zeros((40, 32, 32, 3), np.uint8), fps=10)
    events = tuple(Event(label, t, t, t + 1) for label, t in zip(LABELS, (1.0, 2.0, 3.0), strict=True))
    bare = tuple(map(Event, LABELS))
    clips = [Clip(f"t/{n}", "t", e, f"{n}.mp4", 10.0, duration=4.0) for n, e in (("a", events), ("b", bare))]
    write_manifest(tmp_path / "manifest.jsonl", clips)
    text = "Event 1: <1.1> <2.1> grasp\nEvent 2: <2.1> <3.0> lift\n"
    rows = [
        {"clip": f"t/{n}", "task": "t", "model": "m", "fps": 4.0, "trial": k, "text": text}
        for n in "ab"
        for k in (0, 1)
    ]
    (tmp_path / "predictions.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    return tmp_path


def marked(*times: float | None, why: str = "") -> list[Marked]:
    return [Marked(label, t, why) for label, t in zip(LABELS, times, strict=True)]


def test_a_save_is_a_manifest_that_says_who_and_why(folder: Path) -> None:
    review = open_review(folder, who="Ada")
    assert review.start(review.clip("t/a")) == ("manifest", (1.0, 2.0, 3.0))  # what somebody labelled goes first
    by, times = review.start(review.clip("t/b"))
    assert (by, times) == ("m at 4 fps, median of 2", (1.1, 2.1, None))
    review.save("t/b", 0, [*marked(1.1, 2.1, 3.3)[:2], Marked("place", 3.3, "seen late")])
    first, second = load_benchmark(folder / "reviewed.jsonl").clips
    assert first.events == read_manifest(folder / "manifest.jsonl")[0].events
    assert second.boundaries == (1.1, 2.1, 3.3)
    (entry,) = second.extra["corrections"]
    assert entry["who"] == "Ada"
    assert entry["from"] == by
    assert entry["changed"] == [{"label": "place", "new": 3.3, "why": "seen late"}]
    again = open_review(folder)
    assert again.start(again.clip("t/b")) == ("manifest", (1.1, 2.1, 3.3))


def test_what_is_accepted_as_it_is_counts_as_reviewed(folder: Path) -> None:
    review = open_review(folder, who="Ada")
    clip = review.save("t/a", 0, marked(1.0, 2.0, 3.0))
    assert [e["changed"] for e in history(clip)] == [[]]
    clip = review.save("t/a", 1, [*marked(1.0, 2.0, 3.0)[:2], Marked("place", 3.0, "checked twice")])
    assert history(clip)[1]["why"] == "place: checked twice"  # a reason is kept where nothing moved
    assert str(review).startswith("1 of 2 clips reviewed")


def test_a_clip_that_somebody_saved_meanwhile_is_not_overwritten(folder: Path) -> None:
    ours, theirs = (open_review(folder, who=who) for who in ("Ada", "Grace"))
    theirs.save("t/a", 0, marked(1.2, 2.0, 3.0))
    theirs.save("t/b", 0, marked(1.0, 2.0, 3.5))
    with pytest.raises(Conflict, match=r"Grace saved t/a \(\d+ \w+ \d{4}, \d\d:\d\d\): look at it"):
        ours.save("t/a", 0, marked(1.0, 2.5, 3.0))
    ours.save("t/a", 1, marked(1.2, 2.5, 3.0))
    first, second = load_benchmark(folder / "reviewed.jsonl").clips
    assert first.boundaries == (1.2, 2.5, 3.0)
    assert [e["who"] for e in history(first)] == ["Grace", "Ada"]
    assert second.boundaries == (1.0, 2.0, 3.5)


def test_a_clip_is_skipped_with_a_note_and_nothing_of_it_is_lost(folder: Path) -> None:
    review = open_review(folder, who="Ada")
    clip = review.save("t/b", 0, [], note=" blurred ", skip=True)  # it lacks an event, and needs none
    assert [(r.who, r.note, r.skip) for r in remarks(clip)] == [("Ada", "blurred", True)]
    assert review.start(clip)[0] == "m at 4 fps, median of 2"  # nobody has labelled it
    line = Desk(review).answer({"op": "queue"})["clips"][1]
    assert (line["skip"], line["saves"]) == (True, 0)
    with pytest.raises(Conflict, match="Ada saved t/b"):
        open_review(folder, who="Grace").save("t/b", 0, marked(1.0, 2.0, 3.0))
    clip = review.save("t/b", 1, marked(1.0, 2.0, 3.0))  # what is not said stays
    assert (last_remark(clip).note, last_remark(clip).skip) == ("blurred", True)
    clip = review.save("t/b", 2, marked(1.0, 2.0, 3.0), skip=False)
    assert [r.skip for r in remarks(clip)] == [True, False]
    assert len(history(open_review(folder).clip("t/b"))) == 2
    clip = review.save("t/a", 0, [], note="look again")  # a note alone
    assert (last_remark(clip).note, history(clip), clip.boundaries) == ("look again", (), (1.0, 2.0, 3.0))


def test_the_grippers_of_two_arms_are_two_curves(folder: Path) -> None:
    review, times = open_review(folder), np.arange(40) / 10
    opening = np.stack([np.where(times < 1, 8.0, 0.0), np.where(times < 2, 0.0, 4.0)], axis=1)
    review.signals = {"t/a": Signal(opening, times, arms=("left", "right"))}
    shown = Desk(review).answer({"op": "clip", "index": 0})["gripper"]
    assert [(curve[0], curve[-1]) for curve in shown["values"]] == [(1.0, 0.0), (0.0, 1.0)]
    assert shown["edges"] == [1.0, 2.0]


def test_remarks_of_another_shape_are_said(folder: Path) -> None:
    clips = [replace(c, extra={"review_remarks": "no"}) for c in load_benchmark(folder).clips]
    write_manifest(folder / "manifest.jsonl", clips)
    assert "t/a, review_remarks" in Desk(open_review(folder)).answer({"op": "queue"})["error"]


def test_an_event_that_is_not_in_the_video_is_absent_and_comes_back(folder: Path) -> None:
    review = open_review(folder, who="Ada")
    review.save("t/a", 0, marked(1.0, None, 3.0))
    saved = load_benchmark(folder / "reviewed.jsonl").clips[0]
    assert [(e.label, e.boundary, e.end) for e in saved.events] == [
        ("grasp", 1.0, 3.0), ("lift", None, None), ("place", 3.0, 4.0),
    ]  # fmt: skip
    assert saved.absent == ("lift",)
    assert history(saved)[0]["changed"] == [{"label": "lift", "old": 2.0, "missing": True}]
    assert review.start(review.clip("t/a"))[1] == (1.0, None, 3.0)
    review.save("t/a", 1, marked(1.0, 2.2, 3.0))
    assert load_benchmark(folder / "reviewed.jsonl").clips[0].boundaries == (1.0, 2.2, 3.0)
    assert review.save("t/a", 2, marked(None, None, None)).absent == tuple(LABELS)


def test_an_event_that_an_earlier_version_took_out_of_the_clip_can_come_back(folder: Path) -> None:
    first = load_benchmark(folder).clips
    entry = {"who": "Ada", "when": "2026-01-01", "from": "manifest",
             "changed": [{"label": "lift", "old": 2.0, "missing": True}]}  # fmt: skip
    old = replace(first[0], events=(first[0].events[0], first[0].events[2]), extra={"corrections": [entry]})
    write_manifest(folder / "reviewed.jsonl", [old, *first[1:]])
    review = open_review(folder, who="Ada")
    assert review.start(review.clip("t/a"))[1] == (1.0, None, 3.0)
    assert "t/a,lift,missing,2.0," in Desk(review).answer({"op": "export", "kind": "csv", "index": 0})["text"]
    assert review.save("t/a", 1, marked(1.0, 2.2, 3.0)).boundaries == (1.0, 2.2, 3.0)


def test_a_benchmark_with_absent_events_opens_and_is_saved(tmp_path: Path) -> None:
    events = (Event("grasp", 2.0), Event("lift", absent=True), Event("place", 1.0))
    (tmp_path / "t.toml").write_text('key = "t"\nevents = ["grasp", "lift", "place"]\n')
    write_manifest(tmp_path / "manifest.jsonl", [Clip("t/a", "t", events, duration=4.0, in_order=False)])
    desk = Desk(open_review(tmp_path, who="Ada"))
    assert desk.answer({"op": "queue"})["clips"][0]["missing"] == []
    shown = desk.answer({"op": "clip", "index": 0})
    assert (shown["truth"], shown["absent"], shown["in_order"]) == ([2.0, None, 1.0], [False, True, False], False)
    table = desk.answer({"op": "export", "kind": "csv", "index": 0})["text"]
    assert "t/a,lift,absent,,manifest" in table
    assert desk.answer({"op": "import", "kind": "csv", "text": table})["changed"] == []
    assert "'lift' is not in the video" in desk.answer({"op": "export", "kind": "vtt", "index": 0})["error"]
    sent = [{"label": "grasp", "boundary": 2.5}, {"label": "lift", "absent": True}, {"label": "place", "boundary": 1.0}]
    now = desk.answer({"op": "save", "index": 0, "revision": 0, "events": sent})["now"]
    assert (now["boundaries"], now["absent"]) == ((2.5, None, 1.0), [False, True, False])
    (saved,) = read_manifest(tmp_path / "reviewed.jsonl")
    assert [(e.boundary, e.absent) for e in saved.events] == [(2.5, False), (None, True), (1.0, False)]
    back = desk.answer({"op": "export", "kind": "csv", "index": 0})["text"].replace("t/a,lift,absent,", "t/a,lift,3.5,")
    assert desk.answer({"op": "import", "kind": "csv", "text": back})["changed"] == ["t/a"]
    assert desk.review.clip("t/a").boundaries == (2.5, 3.5, 1.0)


def test_what_a_model_says_is_absent_is_proposed_as_absent(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text('key = "t"\nevents = ["grasp", "lift"]\n')
    write_manifest(tmp_path / "manifest.jsonl", [Clip("t/a", "t", (Event("grasp"), Event("lift")), duration=4.0)])
    row = {"clip": "t/a", "task": "t", "model": "m", "fps": 8.0, "trial": 0,
           "text": "Event 1: <1.0> <2.0> grasp\nEvent 2: <absent> lift"}  # fmt: skip
    (tmp_path / "predictions.jsonl").write_text(json.dumps(row) + "\n")
    desk = Desk(open_review(tmp_path, who="Ada"))
    shown = desk.answer({"op": "clip", "index": 0})
    assert (shown["absent"], shown["missing"]) == ([False, True], [])
    assert [e["absent"] for e in shown["model"]["events"]] == [False, True]
    table = desk.answer({"op": "export", "kind": "csv", "index": 0})["text"]
    assert ",lift,absent,," in table
    assert desk.answer({"op": "import", "kind": "csv", "text": table})["changed"] == []
    sent = [{"label": "grasp", "boundary": 1.0}, {"label": "lift", "boundary": None, "absent": True}]
    desk.answer({"op": "save", "index": 0, "revision": 0, "events": sent})
    assert desk.review.clip("t/a").absent == ("lift",)
    assert load_benchmark(tmp_path / "reviewed.jsonl").clips[0].labelled


@pytest.mark.parametrize(
    ("times", "wrong"),
    [((2.0, 1.0, 3.0), "must come after"), ((1.0, 2.0, 9.0), "is outside"), ((0.0, 1.0, 2.0), "outside")],
)
def test_boundaries_that_cannot_be_change_nothing(folder: Path, times: Any, wrong: str) -> None:
    with pytest.raises(TempolocError, match=wrong):
        open_review(folder, who="Ada").save("t/a", 0, marked(*times))
    assert not (folder / "reviewed.jsonl").exists()


def test_an_output_that_is_something_else_is_refused(folder: Path) -> None:
    with pytest.raises(TempolocError, match="read and written"):
        open_review(folder, output=folder / "manifest.jsonl")
    write_manifest(folder / "other.jsonl", [Clip("t/z", "t", (Event("grasp"),))])
    with pytest.raises(TempolocError, match="no review of these clips"):
        open_review(folder, output=folder / "other.jsonl")


def test_a_table_goes_out_and_comes_back(folder: Path) -> None:
    desk = Desk(open_review(folder, who="Ada"))
    desk.review.save("t/b", 0, marked(1.0, None, 3.0))
    table = desk.answer({"op": "export", "kind": "csv", "index": 0})["text"]
    assert desk.answer({"op": "import", "kind": "csv", "text": table})["changed"] == []
    moved = table.replace("t/a,lift,2.0,", "t/a,lift,2.4,")
    assert desk.answer({"op": "import", "kind": "csv", "text": moved})["changed"] == ["t/a"]
    assert desk.review.clip("t/a").events[1].boundary == 2.4
    assert "was saved since the export" in desk.answer({"op": "import", "kind": "csv", "text": moved})["error"]
    cues = desk.answer({"op": "export", "kind": "vtt", "index": 0})["text"].replace("00:00:02.400", "00:00:02.600")
    assert desk.answer({"op": "import", "kind": "vtt", "text": cues})["changed"] == ["t/a"]


@pytest.mark.parametrize(
    ("asked", "wrong"),
    [
        ({}, "unknown request"), ({"op": "clip"}, "no clip number"), ({"op": "clip", "index": 2}, "no clip number"),
        ({"op": "clip", "index": True}, "no clip number"), ({"op": "save", "index": 0}, "needs events"),
        ({"op": "save", "index": 0, "revision": 0, "skip": 1}, "skip is true or false"),
        ({"op": "save", "index": 0, "revision": 0, "events": [3]}, "no label"),
        ({"op": "save", "index": 0, "revision": 0, "events": [{"label": "x", "boundary": None}]}, "mark it absent"),
        ({"op": "save", "index": 0, "revision": 0, "events": [{"label": "x", "boundary": "1"}]}, "no number"),
        ({"op": "save", "index": 0, "revision": 0, "events": [{"label": "x", "absent": True, "was": 3}]}, "was is no"),
        ({"op": "save", "index": 0, "revision": 0, "events": [{"label": "x", "absent": True, "was": "y"}]}, "'y'"),
        ({"op": "save", "index": 0, "revision": 0, "skip": True, "removed": "grasp"}, "removed is no list of labels"),
        ({"op": "export", "kind": "doc", "index": 0}, "kind of export"),
        ({"op": "import", "kind": "csv"}, "needs one column"),
    ],
)  # fmt: skip
def test_a_bad_request_is_told_what_is_wrong(folder: Path, asked: dict[str, Any], wrong: str) -> None:
    assert wrong in Desk(open_review(folder, who="Ada")).answer(asked)["error"]


def test_a_thousand_clips_open_at_once(tmp_path: Path) -> None:
    """The queue reads no video, and a save does not take longer with each clip that was saved."""
    events = tuple(Event(label, t) for label, t in zip(LABELS, (1.0, 2.0, 3.0), strict=True))
    clips = tuple(Clip(f"t/{n:04d}", "t", events, f"{n}.mp4", 10.0, duration=4.0) for n in range(1000))
    base = load_benchmark("recipe")
    task = next(iter(base.tasks.values()))
    review = Review(Clips("many", tmp_path, {"t": task}, clips), tmp_path / "reviewed.jsonl", who="Ada")
    answer = Desk(review).answer({"op": "queue"})
    assert len(answer["clips"]) == 1000
    for n in (999, 0):
        review.save(f"t/{n:04d}", 0, marked(1.0, 2.0, 3.2))
    assert len(read_manifest(review.output)) == 1000


def test_a_video_that_has_gone_is_said_and_the_clip_can_still_be_saved(folder: Path) -> None:
    (folder / "a.mp4").unlink()
    desk = Desk(open_review(folder, who="Ada"))
    shown = desk.answer({"op": "clip", "index": 0})
    assert "no such file" in shown["problem"]
    assert shown["times"] == []
    events = [{"label": label, "boundary": t} for label, t in zip(LABELS, (1.0, 2.0, 3.1), strict=True)]
    assert desk.answer({"op": "save", "index": 0, "revision": 0, "events": events})["line"]["saves"] == 1
    events[1]["absent"] = True  # whatever its boundary was
    assert desk.answer({"op": "save", "index": 0, "revision": 1, "events": events})["now"]["boundaries"][1] is None


def test_events_are_added_renamed_and_taken_out_and_the_history_says_so(folder: Path) -> None:
    review = open_review(folder, who="Ada")
    marks = [Marked("wipe", 0.5, was=None), Marked("grasp the cup", 1.2, was="grasp"), Marked("place", 3.0)]
    clip = review.save("t/b", 0, marks, removed=["lift"])
    saved = load_benchmark(folder / "reviewed.jsonl").clips[1]
    assert (saved.labels, saved.boundaries) == (("wipe", "grasp the cup", "place"), (0.5, 1.2, 3.0))
    assert history(clip)[0]["changed"] == [
        {"label": "grasp the cup", "old": 1.1, "new": 1.2, "was": "grasp"}, {"label": "place", "new": 3.0},
        {"label": "wipe", "new": 0.5, "added": True}, {"label": "lift", "old": 2.1, "removed": True},
    ]  # fmt: skip
    shown = Desk(open_review(folder)).answer({"op": "clip", "index": 1})  # another day
    assert (shown["labels"], shown["places"]) == (("wipe", "grasp the cup", "place"), (None, 0, 2))
    assert (shown["asked"], shown["boundaries"]) == (LABELS, (0.5, 1.2, 3.0))
    before = reviewed(saved)
    assert before is not None
    assert (before.first, before.gone) == ((None, 1.1, None), ())
    swapped = [Marked("place", 0.5, was="wipe"), Marked("grasp the cup", 1.2), Marked("wipe", 3.0, was="place")]
    assert Desk(review).answer({"op": "clip", "index": 1})["places"] == (None, 0, 2)
    clip = review.save("t/b", 1, swapped)
    assert places(review.original["t/b"], clip) == (None, 0, 2)
    back = [Marked("grasp", 1.2, was="grasp the cup"), Marked("lift", 2.0, was=None), Marked("place", 3.0, was="wipe")]
    clip = review.save("t/b", 2, back, removed=["place"])
    assert (clip.labels, places(review.original["t/b"], clip)) == (LABELS, (0, None, 2))


def test_a_changed_list_goes_out_as_a_table_and_comes_back(folder: Path) -> None:
    desk = Desk(open_review(folder, who="Ada"))
    desk.review.save("t/b", 0, marked(1.0, 2.0, 3.0))
    marks = [Marked("grasp", 1.0), Marked("wipe", 1.5, was=None), Marked("place", 3.0)]
    desk.review.save("t/a", 0, marks, removed=["lift"])
    table = desk.answer({"op": "export", "kind": "csv", "index": 0})["text"]
    assert "lift" not in table.partition("t/b")[0]
    assert desk.answer({"op": "import", "kind": "csv", "text": table})["changed"] == []
    moved = table.replace("t/a,wipe,1.5,", "t/a,wipe,1.7,")
    assert desk.answer({"op": "import", "kind": "csv", "text": moved})["changed"] == ["t/a"]
    assert desk.review.clip("t/a").boundaries == (1.0, 1.7, 3.0)


@pytest.mark.parametrize(
    ("marks", "removed", "wrong"),
    [
        ([Marked("grasp", 1.0), Marked("place", 3.0)], ["lift", "lift"], "no event 'lift'"),
        ([Marked("grasp", 1.0), Marked("place", 3.0, was="lift")], [], "'place' is neither kept nor taken out"),
        ([Marked("place", 1.0, was="grasp"), *marked(1.0, 2.0, 3.0)[1:]], [], "listed twice"),
        ([Marked("", 1.0, was="grasp"), *marked(1.0, 2.0, 3.0)[1:]], [], "label is empty"),
        ([*marked(1.0, 2.0, 3.0), Marked("wipe", 9.0, was=None)], [], "is outside"),
    ],
)
def test_a_list_that_cannot_be_changes_nothing(
    folder: Path, marks: list[Marked], removed: list[str], wrong: str
) -> None:
    with pytest.raises(TempolocError, match=wrong):
        open_review(folder, who="Ada").save("t/a", 0, marks, removed=removed)
    assert not (folder / "reviewed.jsonl").exists()


def test_a_clip_of_a_shipped_task_keeps_its_events(tmp_path: Path) -> None:
    review = open_review("sim", output=tmp_path / "r.jsonl", who="Ada")
    clip = review.clip(review.names[0])
    marks = [Marked(e.label, e.boundary) for e in clip.events]
    with pytest.raises(TempolocError, match="'wiping' is no event of the shipped task"):
        review.save(clip.clip, 0, [replace(marks[0], label="wiping", was=clip.labels[0]), *marks[1:]])
    assert not review.output.exists()
