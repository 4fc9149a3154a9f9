"""What Isaac Lab's own parser says of our signals, poses and rules."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch
from isaac_lab_parser import accepts, pool_of

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.formats.hdf5_rules import Ranges, check_order, check_skills, signal_of

TRIES = 3000


def episode(length: int, ends: Sequence[int], starts: Sequence[int] = ()) -> dict[str, Any]:
    """A demonstration of one arm with the signals s0, s1, ..."""
    poses = torch.eye(4).repeat(length, 1, 1)

    def signals(steps: Sequence[int]) -> dict[str, Any]:
        return {f"s{i}": torch.tensor(signal_of(step, length, bool)) for i, step in enumerate(steps)}

    info = {"eef_pose": {"arm": poses}, "object_pose": {}, "target_eef_pose": {"arm": poses}}
    info |= {"subtask_term_signals": signals(ends)} | ({"subtask_start_signals": signals(starts)} if starts else {})
    return {"actions": torch.zeros(length, 7), "obs": {"datagen_info": info}}


def offset(rng: random.Random, most: int = 3) -> tuple[int, int]:
    low = rng.randint(-most, most)
    return low, low + rng.randint(0, most)


def test_the_order_check_is_isaac_labs() -> None:
    rng, taken = random.Random(0), 0
    for _ in range(TRIES):
        count, length = rng.randint(1, 4), rng.randint(4, 30)
        steps = [rng.randint(-1, length + 1) for _ in range(count)]
        steps = sorted(steps) if rng.random() < 0.8 else steps
        offsets = tuple(offset(rng) for _ in range(count))
        names = [f"s{i}" for i in range(count)]
        try:
            check_order("demo", steps, length, names, offsets)
            ours = True
        except TempolocError:
            ours = False
        named = zip(names, offsets, strict=True)
        parts = [{"subtask_term_signal": n, "subtask_term_offset_range": o} for n, o in named]
        theirs = accepts(pool_of({"arm": [*parts, {}]}), episode(length, steps))
        assert ours == theirs, (steps, length, offsets)
        taken += theirs
    assert taken > TRIES // 10


def test_the_check_of_skills_is_isaac_labs_and_keeps_starts_at_0_or_later() -> None:
    rng, taken, stricter = random.Random(1), 0, 0
    for _ in range(TRIES):
        count, length = rng.randint(1, 3), rng.randint(6, 40)
        steps = [rng.randint(0, length) for _ in range(2 * count)]
        steps = sorted(steps) if rng.random() < 0.9 else steps
        starts, ends = steps[::2], steps[1::2]
        ranges = [Ranges(offset(rng, 2), offset(rng, 2)) for _ in range(count)]
        ranges[-1] = Ranges(ranges[-1].start)  # the generator moves no last end
        names = [f"s{i}" for i in range(count)]
        try:
            check_skills("demo", names, starts, ends, length, ranges)
            ours = True
        except TempolocError:
            ours = False
        if any(s + r.start[0] < 0 for s, r in zip(starts, ranges, strict=True)) or not 0 < ends[-1] < length:
            assert not ours  # the parser looks at neither
            stricter += 1
            continue
        parts = [
            {"subtask_term_signal": n, "subtask_start_offset_range": r.start, "subtask_term_offset_range": r.end}
            for n, r in zip(names, ranges, strict=True)
        ]
        theirs = accepts(pool_of({"arm": parts}, skillgen=True), episode(length, ends, starts))
        assert ours == theirs, (starts, ends, length, ranges)
        taken += theirs
    assert taken > TRIES // 20
    assert stricter < TRIES // 2
