"""Labels of rendered frames, and random scenes: checked against the model and against pixels."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import mujoco
import numpy as np
import pytest

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.lab.sim.demonstration import SavedEpisode, simulate_episode
from tempoloc_nb.lab.sim.episode import EpisodeFailed
from tempoloc_nb.lab.sim.frame_labels import (
    HOME,
    find_arm,
    find_gripper,
    find_things,
    image_points,
    in_frame,
    label_episode,
)
from tempoloc_nb.lab.sim.motion import Floats, spin
from tempoloc_nb.lab.sim.random_scenes import Scene, find_shape, random_scenes
from tempoloc_nb.lab.sim.render import EpisodeRenderer
from tempoloc_nb.lab.sim.scene import Randomizer, make_environment
from tempoloc_nb.lab.sim.tasks import find_families

PAINT = {"red cube": (0, (1, 2)), "green cube": (1, (0, 2)), "blue cube": (2, (0, 1))}  # channel, the others


def model_of(task: str, robot: str = "Panda") -> Any:
    return make_environment(task, robot).sim.model._model


@pytest.fixture(scope="module")
def stack() -> Any:
    return model_of("stack-three")


def fresh(model: Any) -> Any:
    """A copy in its own looks: scenes change the model."""
    raw = np.zeros(mujoco.mj_sizeModel(model), dtype=np.uint8)
    mujoco.mj_saveModel(model, None, raw)
    return mujoco.MjModel.from_binary_path("model.mjb", assets={"model.mjb": raw.tobytes()})


def scenes(model: Any, task: str, n: int, seed: int = 0) -> list[Scene]:
    return list(islice(random_scenes(fresh(model), task, np.random.default_rng(seed)), n))


def dressed(model: Any, scene: Scene) -> Any:
    for name, value in scene.looks.arrays.items():
        getattr(model, name)[:] = value
    return model


def states(model: Any, scene: Scene) -> Iterator[Any]:
    data = mujoco.MjData(model)
    for qpos in scene.qpos:
        data.qpos[:] = qpos
        mujoco.mj_kinematics(model, data)
        yield data


def test_projection_agrees_with_the_renderer(stack: Any) -> None:
    """Where a cube's middle is said to be and nothing is before it, the picture has the cube's colour."""
    model, checked, size = fresh(stack), 0, 200
    with EpisodeRenderer(model, size) as renderer:
        for scene in islice(random_scenes(model, "stack-three", np.random.default_rng(1)), 25):
            frames = list(renderer.frames(scene.episode(), 8))
            for name, positions in scene.labels.objects.items():
                index = scene.labels.names.index(name)
                for i in range(2):
                    if not scene.labels.visible[name][i] or scene.labels.held[i] == index:
                        continue  # a finger may be before a cube in hand
                    x, y = (positions[i] * size).astype(int)
                    pixel = frames[i][y, x].astype(float)
                    strong, weak = PAINT[name]
                    assert pixel[strong] > 1.2 * pixel[list(weak)].max(), (name, pixel)
                    checked += 1
    assert checked > 60


def test_what_is_behind_the_arm_is_not_visible(stack: Any) -> None:
    """Against a rendering of which object each pixel belongs to."""
    model, size = fresh(stack), 240
    agree: list[bool] = []
    hidden = 0
    with EpisodeRenderer(model, size) as renderer:
        renderer.renderer.enable_segmentation_rendering()
        for scene in islice(random_scenes(model, "stack-three", np.random.default_rng(5)), 80):
            for i, frame in enumerate(renderer.frames(scene.episode(), 8)):
                for thing in (t for t in find_things(model) if t.name in scene.labels.objects):
                    position = scene.labels.objects[thing.name][i]
                    if not in_frame(position) or scene.labels.held[i] == scene.labels.names.index(thing.name):
                        continue
                    x, y = np.minimum(position * size, size - 1).astype(int)
                    geom = int(frame[y, x, 0])
                    shown = geom >= 0 and int(model.geom_bodyid[geom]) == thing.body
                    agree.append(shown == bool(scene.labels.visible[thing.name][i]))
                    hidden += not shown
    assert hidden > 10
    assert np.mean(agree) > 0.97


@pytest.mark.parametrize(
    ("robot", "widest"), [("Panda", 0.08), ("UR5e", 0.108), ("Panda-robotiq140", 0.105), ("Sawyer", 0.045)]
)
def test_gap_runs_from_closed_to_open(robot: str, widest: float) -> None:
    gripper = find_gripper(model_of("stack-two", robot))
    assert gripper.gap(np.array(gripper.reach)).tolist() == [0.0, 1.0]
    assert gripper.gap(np.array([-1.0, 1.0])).tolist() == [0.0, 1.0]
    assert gripper.reach[1] - gripper.reach[0] == pytest.approx(widest, abs=0.002)


def test_unknown_gripper_and_arm() -> None:
    empty = mujoco.MjModel.from_xml_string("<mujoco/>")
    with pytest.raises(TempolocError, match="tempoloc simulate"):
        find_gripper(empty)
    with pytest.raises(TempolocError, match="made with a Panda"):
        next(random_scenes(model_of("stack-two", "UR5e"), "stack-two", np.random.default_rng(0)))


def test_cubes_are_called_by_the_colour_they_wear(stack: Any) -> None:
    model = fresh(stack)
    dress = Randomizer(model, "stack-three")
    for seed in range(4):
        looks = dress(np.random.default_rng(seed))
        assert [t.name for t in find_things(model)] == [f"{color} cube" for color in looks.colors]
    model.geom_matid[model.geom("cubeA_g0_vis").id] = model.material("floorplane").id
    with pytest.raises(TempolocError, match="floorplane"):
        find_things(model)


@pytest.fixture(scope="module")
def episode() -> SavedEpisode:
    """A demonstration of stack-two."""
    family = find_families("sft", "stack-two")[0]
    for seed in family.seeds[:5]:
        try:
            return simulate_episode(family, seed)
        except EpisodeFailed:
            continue
    raise AssertionError("none of 5 demonstrations succeeded")


def test_labels_of_an_episode(episode: SavedEpisode) -> None:
    model = model_of("stack-two")
    labels = label_episode(model, episode, stride=3)
    assert len(labels.hand) == len(labels.gap) == len(labels.held) == len(episode.qpos[::3])
    assert sorted(labels.names) == ["green cube", "red cube"]
    first = episode.meta["labels"][0][0].removeprefix("grasping the ")  # a cube's name
    begin, end = (episode.meta["instants"][f"{kind}:cubeA"] for kind in ("grasp", "release"))
    times = np.arange(len(labels.held)) * 3 / episode.rate
    wanted = np.where((times >= begin) & (times < end), labels.names.index(first), -1)
    assert labels.held.tolist() == wanted.tolist()
    assert (labels.held >= 0).any()
    carried = labels.held >= 0
    assert np.abs(labels.hand - labels.objects[first])[carried].max() < 0.05
    assert all(in_frame(positions).all() for positions in labels.objects.values())


def test_gap_agrees_with_the_recorded_aperture(episode: SavedEpisode) -> None:
    model = model_of("stack-two")
    gripper, labels = find_gripper(model), label_episode(model, episode)
    assert np.abs(labels.gap - gripper.gap(episode.aperture.astype(float))).max() < 0.02


def test_labels_follow_the_looks_of_the_episode(episode: SavedEpisode) -> None:
    model = model_of("stack-two")
    before = label_episode(model, episode, stride=30)
    Randomizer(model, "stack-two")(np.random.default_rng(3))
    after = label_episode(model, episode, stride=30)
    assert np.array_equal(before.hand, after.hand)


# random scenes


TASKS = ("stack-three", "nut-assembly", "pick-place", "lift", "door")


@pytest.fixture(scope="module", params=TASKS)
def staged(request: pytest.FixtureRequest) -> tuple[str, Any, list[Scene]]:
    model = model_of(request.param)
    return request.param, model, scenes(model, request.param, 60)


def hand_of(model: Any, data: Any) -> tuple[Floats, Floats]:
    site = model.site("gripper0_right_grip_site").id
    return np.array(data.site_xpos[site]), np.array(data.site_xmat[site]).reshape(3, 3)


def test_scenes_are_diverse(staged: tuple[str, Any, list[Scene]]) -> None:
    task, _, made = staged
    hands = np.array([scene.labels.hand[0] for scene in made])
    assert (hands.std(axis=0) > 0.04).all()
    assert np.std([scene.labels.gap[0] for scene in made]) > 0.1
    held = np.array([scene.labels.held[0] >= 0 for scene in made])
    assert 0.1 < held.mean() < 0.7
    numbers = {len(scene.labels.objects) for scene in made}
    assert numbers == {1} if task == "door" else len(numbers) > 1
    still = [np.array_equal(*scene.qpos) for scene in made]
    assert 0 < np.mean(still) < 0.6


def test_labels_of_scenes_are_those_of_their_states(staged: tuple[str, Any, list[Scene]]) -> None:
    _, model, made = staged
    for scene in made[:10]:
        dressed(model, scene)
        things = {thing.name: thing for thing in find_things(model)}
        data = mujoco.MjData(model)
        for i, qpos in enumerate(scene.qpos):
            data.qpos[:] = qpos
            mujoco.mj_forward(model, data)
            hand = image_points(model, data, "agentview", hand_of(model, data)[0])
            assert np.allclose(hand, scene.labels.hand[i])
            for name, positions in scene.labels.objects.items():
                thing = things[name]
                point = data.xpos[thing.body] + data.xmat[thing.body].reshape(3, 3) @ thing.offset
                assert np.allclose(image_points(model, data, "agentview", point), positions[i])


def test_what_is_held_is_between_the_fingers_and_moves_with_them(staged: tuple[str, Any, list[Scene]]) -> None:
    task, model, made = staged
    checked = 0
    for scene in made:
        if (index := int(scene.labels.held[0])) < 0:
            continue
        assert scene.labels.held.tolist() == [index, index]
        dressed(model, scene)
        thing = next(t for t in find_things(model) if t.name == scene.labels.names[index])
        seen = []
        for data in states(model, scene):
            position, _ = hand_of(model, data)
            body = data.xmat[thing.body].reshape(3, 3)
            seen.append(body.T @ (position - data.xpos[thing.body]))  # the grip, in the object's frame
        assert np.abs(seen[1] - seen[0]).max() < 0.004
        assert abs(scene.labels.gap[1] - scene.labels.gap[0]) < 1e-6
        if task != "door":
            shape = find_shape(model, thing.key)
            assert (np.abs(seen[0] - shape.grip) <= shape.play + 1e-6).all()
            assert 0.08 * scene.labels.gap[0] == pytest.approx(shape.width, abs=0.002)
        checked += 1
    assert checked > 5


def test_nothing_is_below_what_it_stands_on(staged: tuple[str, Any, list[Scene]]) -> None:
    task, model, made = staged
    if task == "door":
        pytest.skip("nothing stands there")
    top = 0.82 if task != "lift" and "stack" not in task else 0.80
    for scene in made:
        dressed(model, scene)
        for data in states(model, scene):
            assert hand_of(model, data)[0][2] > top + 0.008
            for thing in (t for t in find_things(model) if t.name in scene.labels.objects):
                assert data.xpos[thing.body][2] > top + 0.005
            for thing in (t for t in find_things(model) if t.name not in scene.labels.objects):
                assert data.xpos[thing.body][2] < -0.5


def test_the_same_seed_makes_the_same_scenes(stack: Any) -> None:
    one, two, other = (
        scenes(stack, "stack-three", 5),
        scenes(stack, "stack-three", 5),
        scenes(stack, "stack-three", 5, 1),
    )
    for a, b, c in zip(one, two, other, strict=True):
        assert np.array_equal(a.qpos, b.qpos)
        assert all(np.array_equal(a.looks.arrays[k], b.looks.arrays[k]) for k in a.looks.arrays)
        assert not np.array_equal(a.qpos, c.qpos)


def test_reaching(stack: Any) -> None:
    arm = find_arm(fresh(stack))
    arm.reach(np.zeros(3), np.eye(3), HOME, 0)
    position, rotation = arm.hand()
    wanted = position + np.array([0.05, -0.08, -0.1])
    turned = spin(np.array([0.05, 0.0, 0.4])) @ rotation
    assert arm.reach(wanted, turned, HOME, 30) < 2e-3
    assert np.abs(arm.hand()[0] - wanted).max() < 2e-3
    assert np.abs(arm.hand()[1] - turned).max() < 0.03
    assert arm.reach(np.array([3.0, 0.0, 1.0]), rotation, HOME, 30) > 1.0  # out of reach, and it says so
