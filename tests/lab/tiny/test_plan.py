"""Training plans: the shipped ones, the words of the first edition, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.lab.sim.tasks import find_families
from tempoloc_nb.lab.tiny.plan import Stage, TrainOptions, load_plan

GOOD = '[[stages]]\nname = "a"\nsteps = 3\ntasks = { walk = 1 }\npairs = [1, 2]\n'


def test_both_editions_words_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("[task_options]\nrelist = true\n" + GOOD)
    (tmp_path / "b.toml").write_text("[lesson_options]\nrelist = true\n" + GOOD.replace("tasks", "lessons"))
    new, old = (load_plan(tmp_path / f"{name}.toml", seed=2).options for name in "ab")
    assert new == old
    assert new.task_options.relist
    assert new.stages == (Stage("a", 3, {"walk": 1.0}, (1, 2)),)
    assert new.seed == 2


def test_the_order_of_tasks_is_the_files() -> None:
    """Which task a batch has is drawn by their places."""
    stages = load_plan("sft").options.stages
    assert list(stages[0].tasks) == ["frame", "scenes", "walk", "look_up_log", "log", "answer", "still"]


def test_a_step_belongs_to_a_stage() -> None:
    options = TrainOptions(tuple(Stage(name, 2, {"walk": 1.0}, (1, 2)) for name in "ab"))
    assert [options.stage_at(step).name for step in (1, 2, 3, 4)] == ["a", "a", "b", "b"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"a\.toml has no \[\[stages\]\]"),
        ("leaning = 1\n" + GOOD, "unknown key 'leaning'"),
        (GOOD.replace("steps = 3", ""), "stages.0 lacks 'steps'"),
        (GOOD.replace("steps = 3", "steps = 3.5"), "steps = 3.5 is not a whole number"),
        (GOOD.replace("walk", "walks"), "did you mean walk?"),
        (GOOD.replace("pairs = [1, 2]", "pairs = [1]"), "pairs"),
        ("[task_options]\nspede = [1, 2]\n" + GOOD, "unknown key 'spede'"),
        ("stages = 3", r"stages = 3 is not a list"),
    ],
)
def test_what_is_wrong_in_a_plan_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(TempolocError, match=said):
        load_plan(tmp_path / "a.toml")


def test_a_plan_that_is_not_there() -> None:
    with pytest.raises(TempolocError, match="no training plan bass: choose one of base, sft, or give"):
        load_plan("bass")


def test_a_plan_that_reads_the_question_learns_from_no_test_split() -> None:
    plan = load_plan("sft")
    assert plan.init == "tempoloc-tiny-base"
    splits = {split for stage in plan.options.stages for split in stage.splits}
    learned = [f for split in splits for f in find_families(split) if not plan.options.leaves_out(split, f.key)]
    robots = {f.robot for f in learned}
    assert not any(split in ("test", "unseen") or "validation" in split or split == "which" for split in splits)
    assert not any("UR5e" in robot or robot.endswith("robotiq85") or robot == "Kinova3" for robot in robots)
    assert not any("rethink" in robot for robot in robots)
    assert len(learned) == 31
