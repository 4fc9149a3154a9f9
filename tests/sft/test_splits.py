"""Demonstrations stay whole, whatever the plan."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tempoloc_nb.clips.manifest import Clip
from tempoloc_nb.clips.tasks import Event
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.sft.build import _assign, _check_leaks, _group, _read_plan, demonstration_of

EVENTS = (Event("a", 1.0),)


def clip(task: str, name: object, **fields: object) -> Clip:
    return Clip(f"{task}/{name}", task, EVENTS, **fields)  # type: ignore[arg-type]


@given(st.lists(st.sets(st.integers(0, 12), max_size=3), max_size=30))
def test_groups_are_the_connected_components(marks: list[set[int]]) -> None:
    groups = _group(marks)
    members = [{i for i, g in enumerate(groups) if g == root} for root in sorted(set(groups))]
    assert all(groups[g] == g for g in groups)  # named by a member
    for i, a in enumerate(members):
        for b in members[i + 1 :]:
            assert not set().union(*(marks[k] for k in a)) & set().union(*(marks[k] for k in b))
    for own in members:  # reachable from its first by shared marks
        reached, grown = {min(own)}, True
        while grown:
            more = {k for k in own if any(marks[k] & marks[r] for r in reached)} | reached
            grown, reached = more != reached, more
        assert reached == own


@given(
    st.lists(st.tuples(st.sampled_from("xyz"), st.integers(0, 25)), min_size=12, max_size=80, unique=True),
    st.integers(),
)
def test_fractions_keep_groups_whole_and_hold(made: list[tuple[str, int]], seed: int) -> None:
    clips = [clip(task, i, seed=i) for i, task in enumerate(t for t, _ in made)]
    clips = [Clip(c.clip, c.task, EVENTS, seed=s) for c, (_, s) in zip(clips, made, strict=True)]
    groups = _group([{demonstration_of(c)} for c in clips])
    try:
        splits = _assign(clips, groups, _read_plan("train=0.7,validation=0.3"), seed)
    except TempolocError as error:
        assert "would be empty" in str(error)  # noqa: PT017
        return
    _check_leaks(clips, groups, splits)
    largest = max(Counter(groups).values())
    assert abs(splits.count("train") - 0.7 * len(clips)) <= 2 * largest


def test_the_split_does_not_depend_on_the_order() -> None:
    clips = [clip(task, i) for task in "xy" for i in range(20)]
    plan = _read_plan("train=0.8,validation=0.2")

    def by_name(order: list[Clip], seed: int = 0) -> dict[str, str]:
        return {
            c.clip: s for c, s in zip(order, _assign(order, _group([{c.clip} for c in order]), plan, seed), strict=True)
        }

    assert by_name(clips) == by_name(clips[::-1])
    assert by_name(clips) != by_name(clips, seed=1)
    for task in "xy":
        assert Counter(s for c, s in by_name(clips).items() if c[0] == task) == {"train": 16, "validation": 4}


def test_small_tasks_share_what_rounding_leaves() -> None:
    clips = [clip(task, i) for task in "abcdefghij" for i in range(3)]
    splits = _assign(clips, list(range(30)), _read_plan("train=0.9,validation=0.1"))
    assert Counter(splits) == {"train": 27, "validation": 3}


def test_by_task_and_by_field() -> None:
    clips = [clip("x", 0), clip("x", 1), clip("y", 0, split="sft", robot="UR5e")]
    assert _assign(clips, [0, 1, 2], _read_plan("train=1,test=y")) == ["train", "train", "test"]
    with pytest.raises(TempolocError, match="x/0 has no 'split'"):
        _assign(clips, [0, 1, 2], _read_plan("split"))
    assert _assign(clips[2:], [0], _read_plan("split")) == ["sft"]
    assert _assign(clips[2:], [0], _read_plan("robot")) == ["UR5e"]


def test_leaks_are_found() -> None:
    extra = {"demonstration": "demo_0"}
    cameras = [clip("x", "0_front", split="train", extra=extra), clip("x", "0_wrist", split="test", extra=extra)]
    groups = _group([{demonstration_of(c)} for c in cameras])
    with pytest.raises(TempolocError, match=r"x/0_front \(train\) and x/0_wrist \(test\) come from one demonstration"):
        _assign(cameras, groups, _read_plan("split"))
    slow = [clip("x", 0, seed=5), clip("x-slow", 0, seed=5)]
    groups = _group([{demonstration_of(c)} for c in slow])
    with pytest.raises(TempolocError, match=r"x-slow/0 \(test\)"):
        _assign(slow, groups, _read_plan("train=1,test=x-slow"))
    with pytest.raises(TempolocError, match=r"x-slow/0 \(by fraction\)"):
        _assign(slow, groups, _read_plan("train=1,test=x"))
    assert _assign(slow, [0, 1], _read_plan("train=1,test=x")) == ["test", "train"]  # told otherwise


def test_what_tells_a_demonstration() -> None:
    assert demonstration_of(clip("x", 0)) == "x/0"
    assert demonstration_of(clip("x", 0, seed=0)) == "seed 0"
    told = Clip("x/0", "x", EVENTS, seed=1, extra={"demonstration": "d", "take": 0})
    assert demonstration_of(told) == "d"
    assert demonstration_of(told, "take") == "0"
    assert demonstration_of(told, "clip") == "x/0"
    with pytest.raises(TempolocError, match="x/0 has no 'camera'"):
        demonstration_of(told, "camera")


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ("train=0.5", "add up to 1"),
        ("train=0.5,validation=0.6", "add up to 1"),
        ("train=1.5,validation=-0.5", "above 0"),
        ("train=nan", "add up to 1"),
        ("train=inf,validation=0.1", "add up to 1"),
        ("test=y", "add up to 1"),
        ("../train=1", "cannot be called"),
        ("videos=1", "cannot be called"),
        ("=1", "cannot be called"),
        ("train=1,test=door", "no clip of the task 'door'"),
        ("train=0.5,validation=0.5", "of 1 demonstration the split 'validation' would be empty: give another --split"),
    ],
)
def test_bad_plans(plan: str, said: str) -> None:
    with pytest.raises(TempolocError, match=said):
        _assign([clip("x", 0)], [0], _read_plan(plan))


def test_a_field_that_is_no_folder() -> None:
    with pytest.raises(TempolocError, match=r"cannot be called '\.\./up'"):
        _assign([clip("x", 0, split="../up")], [0], _read_plan("split"))
