"""The rows of study 17: single frames decoded, and what the words of a question alone give away."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
from study_cells import study_functions

from tempoloc_nb.clips.manifest import Clip, load_benchmark
from tempoloc_nb.clips.tasks import Event
from tempoloc_nb.core.files import read_jsonl

PAGE = study_functions("17")
WHICH = load_benchmark("which")


def question(shown: str, kind: str, *events: Event) -> Clip:
    return Clip(f"{kind}/{shown}", kind, events, extra={"kind": kind, "shown": shown})


def test_frames_that_name_what_is_held_give_its_grasps_and_releases() -> None:
    """One frame pair alone is noise; the second of two stretches is the second time; a push is in no frame."""
    labels = (
        "grasping the can for the first time", "grasping the can for the second time",
        "releasing the can for the second time", "grasping the milk carton", "pushing the can",
    )  # fmt: skip
    clip = question("a/0", "all", *(Event(label, 1.0) for label in labels))
    held = [["nothing", 2], ["can", 3], ["nothing", 4], ["milk carton", 1], ["can", 1], ["nothing", 2], ["can", 4]]
    lines = [{"clip": "a/0", "fps": 8.0, "held": [*held, ["nothing", 3]]}]
    times = [e.boundary for e in PAGE.by_frames([clip], lines)[clip.clip]]
    assert times == [0.5, 3.25, 4.25, None, None]


def test_the_kept_frames_are_as_many_as_their_clips_have() -> None:
    lines = [line for _, line in read_jsonl(WHICH.root / "frames.jsonl.xz")]
    lengths = {c.extra["shown"]: c.duration for c in WHICH.clips}
    assert len({line["clip"] for line in lines}) == len(lines) == 59
    for line in lines:
        pairs = sum(count for _, count in line["held"])
        assert 2 * pairs / line["fps"] == pytest.approx(lengths[line["clip"]], abs=0.5), line["clip"]


def test_a_network_is_asked_for_a_clip_once_and_its_times_are_looked_up() -> None:
    """Each question about the clip gets them in its own order; what the network was not told of is an error."""
    lines = [{"clip": "a/0", "seed": 0, "events": [["grasping the can", 1.0], ["releasing the can", 2.5]]}]
    grasp, release = Event("grasping the can", 1.2), Event("releasing the can", 2.4)
    clip = question("a/0", "swapped", release, grasp)
    assert [(e.label, e.boundary) for e in PAGE.by_network([clip], lines, 0)[clip.clip]] == [
        ("releasing the can", 2.5), ("grasping the can", 1.0),
    ]  # fmt: skip
    with pytest.raises(KeyError):
        PAGE.by_network([question("a/0", "alone", Event("pushing the can", 1.0))], lines, 0)


def test_the_networks_kept_answers_are_three_for_each_clip_in_the_order_that_they_were_told() -> None:
    told = {c.extra["shown"]: c for c in WHICH.clips if c.extra["kind"] == "all"}
    lines = [line for _, line in read_jsonl(WHICH.root / "segmentation.jsonl.xz")]
    assert sorted({(line["clip"], line["seed"]) for line in lines}) == [
        (clip, seed) for clip in sorted({line["clip"] for line in lines}) for seed in range(3)
    ]
    assert len(lines) == 3 * 79
    for line in lines:
        labels, times = zip(*line["events"], strict=True)
        assert labels == told[line["clip"]].labels
        assert [0.0, *times, told[line["clip"]].duration] == sorted([0.0, *times, told[line["clip"]].duration])


def test_words_deny_what_the_other_clips_never_have() -> None:
    """A label's own clip does not count: what only it denies, nothing is known of."""
    gone = [question(f"a/{n}", "verb", Event("pouring the can", absent=True)) for n in range(3)]
    there = [question(f"a/{n}", "alone", Event("grasping the can", 1.0)) for n in range(3)]
    own = [question("a/0", "elsewhere", Event("grasping the cup", absent=True))]
    denied = PAGE.denied_by_words(replace(WHICH, clips=(*gone, *there, *own)))
    assert isinstance(denied, pd.Series)
    assert denied.to_dict() == {"verb": 1.0, "alone": 0.0, "elsewhere": 0.0}
