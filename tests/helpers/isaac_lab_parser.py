"""Isaac Lab's own reading of annotated demonstrations: its files as they are, without Isaac Sim."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

from tempoloc_nb.lab.generate.generators import isaac_mimic


def pool_of(subtasks: Mapping[str, Sequence[Mapping[str, Any]]], *, skillgen: bool = False) -> Any:
    """An empty `DataGenInfoPool` for these subtasks (fields of `SubTaskConfig`) of each end-effector."""
    lab = isaac_mimic()
    cfg = lab.MimicEnvCfg()
    cfg.datagen_config.use_skillgen = skillgen
    for eef, parts in subtasks.items():
        cfg.subtask_configs[eef] = [lab.SubTaskConfig(**part) for part in parts]
    grip = lambda actions: {eef: actions[:, -1:] for eef in subtasks}  # noqa: E731
    env = SimpleNamespace(cfg=cfg, device="cpu", actions_to_gripper_actions=grip)
    return lab.DataGenInfoPool(env, cfg, "cpu")


def accepts(pool: Any, episode: Mapping[str, Any]) -> bool:
    """Whether the parser takes an episode of one arm, and the generator could cut it, whatever offsets it drew."""
    try:
        pool._add_episode(SimpleNamespace(data=episode))
    except (IndexError, ValueError, AssertionError):
        return False
    generator = isaac_mimic().DataGenerator
    made = generator(pool.env, src_demo_datagen_info_pool=pool)
    (parts,) = pool.env.cfg.subtask_configs.values()
    draws = len(parts) * (2 if pool.env.cfg.datagen_config.use_skillgen else 1)
    for picked in itertools.product((0, 1), repeat=draws):
        rest = iter((0, *picked))
        ends = lambda low, high, size, rest=rest: np.full(size, high - 1 if next(rest) else low)  # noqa: E731
        with patch.object(sys.modules[generator.__module__].np.random, "randint", ends):
            try:
                made.randomize_subtask_boundaries()
            except AssertionError:
                return False
    return True
