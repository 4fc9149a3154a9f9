"""What the README shows, with the shipped model: each cube gets its own time, and what does not happen gets none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tempoloc_nb.clips.manifest import Clip, load_benchmark
from tempoloc_nb.formats.recordings import localize

SIM = load_benchmark("sim")
SHIPPED = SIM.of_task("stack-three")[:3]  # the recordings that `tempoloc example` writes
NEAR_S = 0.25


def video(clip: Clip) -> Path:
    return clip.video_path(SIM.root)


@pytest.mark.parametrize("clip", SHIPPED, ids=[clip.clip for clip in SHIPPED])
def test_the_model_answers_about_the_object_that_is_named(clip: Clip) -> None:
    """One log answers all: swapped against the order of the clip, and with an object that is not there."""
    first, release, second = clip.labels
    truth = dict(zip(clip.labels, clip.source_boundaries, strict=True))
    for event in localize(video(clip), (second, "grasping the milk carton", first, release), trials=2).events:
        assert event.status == ("ok" if event.label in truth else "absent")
        if event.boundary is not None:
            assert abs(event.boundary - truth[event.label]) <= NEAR_S, event
