"""The shorter control step leaves the simulation as robosuite's own does."""

from __future__ import annotations

import numpy as np
import pytest

from tempoloc_nb.lab.generate.scenes import LeanArm
from tempoloc_nb.lab.sim.scene import make_environment


@pytest.mark.parametrize("task", ["stack-two", "square", "pick-place"])
def test_the_state_is_that_of_robosuites_own_step(task: str) -> None:
    env = make_environment(task, "Panda")
    rng = np.random.default_rng(3)
    actions = np.concatenate([rng.uniform(-0.4, 0.4, (40, 6)), np.repeat([[-1.0], [1.0]], 20, axis=0)], axis=1)
    actions[:, 2] -= 0.3  # into the table, with contacts
    after = []
    for lean in (False, True):
        env.rng = np.random.default_rng(5)
        for sampler in (env.placement_initializer, *getattr(env.placement_initializer, "samplers", {}).values()):
            sampler.rng = env.rng
        env.reset()
        step = LeanArm(env).step if lean else env.step
        for action in actions:
            step(action)
        after.append(np.array(env.sim.get_state().flatten()))
    np.testing.assert_allclose(after[0], after[1], atol=1e-9)
