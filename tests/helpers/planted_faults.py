"""Faults of labels, planted into the files of `labelled_demos`: what the linter must name, and Isaac Lab may refuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from labelled_demos import LAST, NAMES, RATE

from tempoloc_nb.formats.hdf5_rules import Layout, signal_of


@dataclass(frozen=True)
class Planted:
    """Where a fault is planted: the group of a demonstration, its datagen_info, and one of its signals."""

    demo: Any
    info: Any
    name: str
    layout: Layout
    sign: int

    @property
    def signals(self) -> Any:
        return self.info["subtask_term_signals"]

    @property
    def steps(self) -> int:
        return len(self.demo["actions"])

    def write(self, values: Any, group: str = "subtask_term_signals") -> None:
        del self.info[group][self.name]
        self.info[group][self.name] = values

    @property
    def target(self) -> str:
        return "target_eef_pose" if self.layout == "isaaclab" else "target_pose"

    def part(self, hand: bool = False) -> str:
        if hand:
            return "eef_pose/arm" if self.layout == "isaaclab" else "eef_pose"
        return ("object_pose" if self.layout == "isaaclab" else "object_poses") + "/cubeA"


def moved(at: Planted, seconds: float) -> None:
    step = int(np.argmax(at.signals[at.name]))
    at.write(signal_of(step + round(seconds * RATE), at.steps))


def replaced(at: Planted, path: str, change: Callable[[Any], Any]) -> None:
    values = change(np.array(at.info[path]))
    del at.info[path]
    at.info[path] = values


def jumped(poses: Any) -> Any:
    poses[40:, 0, 3] += 0.5
    return poses


def far(poses: Any) -> Any:
    poses[:, 1, 3] += 0.6
    return poses


def bent(poses: Any) -> Any:
    poses[3, 0, 0] = 2
    return poses


def twice(at: Planted) -> None:
    values = np.array(at.signals[at.name])
    values[10:14] = 1
    at.write(values)


def grouped(at: Planted) -> None:
    del at.signals[at.name]
    at.signals.create_group(at.name)


def unmoved(at: Planted) -> None:
    for cube in "ABC":
        replaced(at, at.part()[:-1] + cube, lambda p: np.repeat(p[:1], len(p), 0))


# Fault → (how it is planted, the rule that names it, its severity).
FAULTS: dict[str, tuple[Callable[[Planted], Any], str, str]] = {
    "missing signal": (lambda at: at.signals.__delitem__(at.name), "missing-signal", "error"),
    "never rises": (lambda at: at.write(np.zeros(at.steps)), "never-rises", "error"),
    "always 1": (lambda at: at.write(np.ones(at.steps)), "never-rises", "error"),
    "begins at 1": (lambda at: at.write(1 - signal_of(50, at.steps)), "falls", "error"),
    "flickers": (lambda at: at.write(np.arange(at.steps) == 70), "falls", "warning"),
    "rises twice": (twice, "rises-again", "warning"),
    "too short": (lambda at: at.write(at.signals[at.name][:-3]), "length", "error"),
    "column of two": (lambda at: at.write(np.zeros((at.steps, 2))), "length", "error"),
    "shares": (lambda at: at.write(np.linspace(0, 1, at.steps)), "values", "error"),
    "NaN": (lambda at: at.write(np.full(at.steps, np.nan)), "broken", "error"),
    "texts": (lambda at: at.write(np.full(at.steps, b"1")), "broken", "error"),
    "a group": (grouped, "missing-signal", "error"),
    "at the end": (lambda at: at.write(signal_of(at.steps - 1, at.steps)), "order", "error"),
    "0.25 s off": (lambda at: moved(at, at.sign * 0.25), "gripper", "warning"),
    "0.15 s off": (lambda at: moved(at, at.sign * 0.15), "delay", "warning"),
    "no actions": (lambda at: at.demo.__delitem__("actions"), "lacking", "error"),
    "no hand": (lambda at: at.info.__delitem__("eef_pose"), "lacking", "error"),
    "no target": (lambda at: at.info.__delitem__(at.target), "lacking", "error"),
    "no objects": (lambda at: at.info.__delitem__(at.part().partition("/")[0]), "lacking", "error"),
    "short poses": (lambda at: replaced(at, at.part(), lambda p: p[:-2]), "broken", "error"),
    "no poses": (lambda at: replaced(at, at.part(), bent), "broken", "error"),
    "flat poses": (lambda at: replaced(at, at.part(True), lambda p: p[:, 0]), "broken", "error"),
    "object jumps": (lambda at: replaced(at, at.part(), jumped), "jump", "warning"),
    "objects still": (unmoved, "still", "warning"),
    "hand far": (lambda at: replaced(at, at.part(True), far), "start", "warning"),
}  # fmt: skip


def plant_starts(at: Planted, shift: int) -> None:
    """SkillGen's start of a skill, `shift` steps after the end of the subtask before it."""
    before = NAMES[NAMES.index(at.name) - 1]
    step = int(np.argmax(at.signals[before])) + 1 + shift
    at.write(signal_of(step, at.steps), "subtask_start_signals")


STARTS: dict[str, tuple[Callable[[Planted], Any], str]] = {
    "missing": (lambda at: at.info["subtask_start_signals"].__delitem__(at.name), "missing-start"),
    "last missing": (lambda at: at.info["subtask_start_signals"].__delitem__(LAST), "missing-start"),
    "never": (lambda at: at.write(np.zeros(at.steps), "subtask_start_signals"), "never-rises"),
    "without a gap": (lambda at: plant_starts(at, 0), "gap"),
    "too early": (lambda at: plant_starts(at, -3), "gap"),
    "after its end": (lambda at: at.write(np.roll(at.signals[at.name], 4), "subtask_start_signals"), "gap"),
}
