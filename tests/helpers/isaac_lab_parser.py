"""Isaac Lab's own reading of annotated demonstrations, without Isaac Sim: its files are used as they are."""

from __future__ import annotations

import copy
import importlib.util
import inspect
import itertools
import sys
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np


def _bare(name: str, path: Path | None = None, **names: Any) -> types.ModuleType:
    """A module of this name that runs none of its package's code, only finds what lies below `path`."""
    made = types.ModuleType(name)
    if path is not None:
        made.__path__ = [str(path)]
    made.__dict__.update(names)
    sys.modules[name] = made
    parent, _, leaf = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], leaf, made)
    return made


def _configclass(cls: type) -> type:
    """The part of Isaac Lab's decorator that its configurations here use: each instance has its own defaults."""
    names = [n for k in reversed(cls.__mro__) for n in inspect.get_annotations(k) if hasattr(cls, n)]

    def init(self: Any, **given: Any) -> None:
        for n in names:
            setattr(self, n, copy.deepcopy(given.get(n, getattr(cls, n))))

    cls.__init__ = init  # type: ignore[misc]
    return cls


def isaac_lab() -> tuple[Any, Any, Any]:
    """The modules `isaaclab.envs.mimic_env_cfg`, `datagen_info_pool` and `data_generator` of Isaac Lab Mimic."""
    if "isaaclab_mimic.datagen" not in sys.modules:
        spec = importlib.util.find_spec("isaaclab")
        assert spec is not None
        assert spec.submodule_search_locations is not None
        root = Path(spec.submodule_search_locations[0]).parent
        import isaaclab.utils

        isaaclab.utils.configclass = _bare("isaaclab.utils.configclass", configclass=_configclass).configclass
        _bare("isaaclab.managers", root / "isaaclab/managers", TerminationTermCfg=object, EventTermCfg=object)
        _bare("isaaclab.managers.recorder_manager", RecorderManagerBaseCfg=object)
        base = {"ManagerBasedRLMimicEnv": object, "ManagerBasedEnv": object}
        envs = _bare("isaaclab.envs", root / "isaaclab/envs", **base)
        config = importlib.import_module("isaaclab.envs.mimic_env_cfg")
        envs.__dict__.update({k: v for k, v in vars(config).items() if not k.startswith("_")})
        _bare("isaaclab_mimic", root / "isaaclab_mimic")
        _bare("isaaclab_mimic.datagen", root / "isaaclab_mimic/datagen")
    names = ("isaaclab.envs.mimic_env_cfg", "datagen.datagen_info_pool", "datagen.data_generator")
    first, *others = (n if n.startswith("isaaclab") else f"isaaclab_mimic.{n}" for n in names)
    return importlib.import_module(first), *(importlib.import_module(n) for n in others)


def pool_of(subtasks: Mapping[str, Sequence[Mapping[str, Any]]], *, skillgen: bool = False) -> Any:
    """An empty `DataGenInfoPool` for these subtasks (fields of `SubTaskConfig`) of each end-effector."""
    config, pool, _ = isaac_lab()
    cfg = config.MimicEnvCfg()
    cfg.datagen_config.use_skillgen = skillgen
    for eef, parts in subtasks.items():
        cfg.subtask_configs[eef] = [config.SubTaskConfig(**part) for part in parts]
    grip = lambda actions: {eef: actions[:, -1:] for eef in subtasks}  # noqa: E731
    env = SimpleNamespace(cfg=cfg, device="cpu", actions_to_gripper_actions=grip)
    return pool.DataGenInfoPool(env, cfg, "cpu")


def accepts(pool: Any, episode: Mapping[str, Any]) -> bool:
    """Whether the parser takes an episode of one arm, and the generator could cut it, whatever offsets it drew."""
    _, _, generator = isaac_lab()
    try:
        pool._add_episode(SimpleNamespace(data=episode))
    except (IndexError, ValueError, AssertionError):
        return False
    made = generator.DataGenerator(pool.env, src_demo_datagen_info_pool=pool)
    (parts,) = pool.env.cfg.subtask_configs.values()
    draws = len(parts) * (2 if pool.env.cfg.datagen_config.use_skillgen else 1)
    for picked in itertools.product((0, 1), repeat=draws):
        rest = iter((0, *picked))
        ends = lambda low, high, size, rest=rest: np.full(size, high - 1 if next(rest) else low)  # noqa: E731
        with patch.object(generator.np.random, "randint", ends):
            try:
                made.randomize_subtask_boundaries()
            except AssertionError:
                return False
    return True
