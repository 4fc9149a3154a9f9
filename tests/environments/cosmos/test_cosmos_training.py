"""cosmos-rl itself trains tempoloc-tiny-base on shipped clips, is interrupted and goes on, beside our own engine.

There is no GPU here: helpers/cpu_as_gpu has the processor answer in its place. All samples are in every step, so that
both engines learn from the same ones whatever order they are in. The losses before the first change agree. After it
they lie some per cent apart: each engine reads videos in its own way, a frame pair more or less, and Adam's first step
goes by the signs of gradients, which then are alike in most weights, not in all.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sft_data import make_dataset

from tempoloc_nb.clips.manifest import load_benchmark, write_manifest
from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.sft.cosmos.adapters import merge_adapters
from tempoloc_nb.sft.launch import Progress, _TrainingRun, launch_training
from tempoloc_nb.sft.training_file import make_config, write_config

BASE = data_dir() / "models" / "tempoloc-tiny-base"
HELPERS = Path(__file__).parents[2] / "helpers"
STEPS, KILLED = 4, 3  # a checkpoint every two steps, so that step 3 is done twice
LISTING = '#!/bin/sh\ncase "$*" in *memory*) echo "0, 100" ;; *) echo "0" ;; esac\n'  # nvidia-smi's of one GPU


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("training") / "set"
    make_dataset(folder, 5, prompt="tiny")
    return folder


@pytest.fixture(scope="module", autouse=True)
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What cosmos-rl's processes take for a GPU."""
    listing = tmp_path_factory.mktemp("bin") / "nvidia-smi"
    listing.write_text(LISTING)
    listing.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(listing.parent), prepend=os.pathsep)
        patch.setenv("PYTHONPATH", str(HELPERS / "cpu_as_gpu"), prepend=os.pathsep)
        yield


class Training(NamedTuple):
    """A run, the loss of each of its steps, and its log."""

    run: _TrainingRun
    losses: dict[int, float]
    log: str


def train(
    folder: Path, samples: Path, engine: str, kill: int | None = None, presets: tuple[str, ...] = (), **changes: Any
) -> Training:
    """Train with an engine. `kill` interrupts the run after so many steps, as Ctrl-C does; else it has to finish."""
    flat = {
        "custom.dataset.path": str(samples), "policy.model_name_or_path": str(BASE), "policy.model_max_length": 8192,
        "train.output_dir": str(folder / "output"), "train.epoch": STEPS, "train.train_batch_per_replica": 4,
        "train.train_policy.mini_batch": 4, "train.optm_lr": 3e-4, "train.optm_warmup_steps": 2,
        "policy.parallelism.dp_shard_size": 1, "train.ckpt.save_freq": 2, "train.param_dtype": "float32",
    }  # fmt: skip
    losses, lines = dict[int, float](), list[str]()

    def report(told: Progress) -> None:
        if told.loss is not None:
            losses.setdefault(told.step, told.loss)
        if told.step == kill:
            os.kill(os.getpid(), signal.SIGINT)

    folder.mkdir(exist_ok=True)
    config = folder / f"{engine}-{len(list(folder.glob('*.toml')))}.toml"
    write_config(config, make_config(engine, presets=presets, changes=flat | changes))
    run = launch_training(config, engine, cosmos=Path(sys.executable), echo=lines.append, report=report)
    log = "\n".join(lines)
    assert run.outcome == ("interrupted" if kill else "finished"), log[-3000:]
    return Training(run, losses, log)


def loss_at_start(model: Path, samples: Path, folder: Path) -> float:
    """The loss of a model on all samples, by our engine."""
    changes: dict[str, Any] = {"policy.model_name_or_path": str(model), "train.epoch": 1}
    return train(folder, samples, "transformers", **changes).losses[1]


@pytest.fixture(scope="module")
def interrupted(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Training, Training]:
    """A training by cosmos-rl that is interrupted, and the one that goes on from its checkpoint."""
    folder = tmp_path_factory.mktemp("cosmos-rl")
    first, resume = train(folder, samples, "cosmos-rl", KILLED), dict[str, Any]({"train.resume": True})
    return first, train(folder, samples, "cosmos-rl", **resume)


def exported(output: Path, step: int) -> Path:
    """What cosmos-rl exported after a step."""
    (found,) = output.glob(f"**/safetensors/step_{step}")
    return found


@pytest.fixture(scope="module")
def trained(interrupted: tuple[Training, Training]) -> Path:
    return exported(interrupted[1].run.folder.parents[1], STEPS)


def test_an_interrupted_training_goes_on_from_its_checkpoint(interrupted: tuple[Training, Training]) -> None:
    first, second = interrupted
    assert sorted(first.losses)[:KILLED] == list(range(1, KILLED + 1))
    assert sorted(second.losses) == list(range(KILLED, STEPS + 1))
    assert second.losses[KILLED] == pytest.approx(first.losses[KILLED], rel=0.01)  # the same step from the same weights
    assert "torch's own attention is in its place" in first.log


def test_its_losses_are_those_of_our_engine(
    interrupted: tuple[Training, Training], samples: Path, tmp_path: Path
) -> None:
    first, second = interrupted
    ours, theirs = train(tmp_path, samples, "transformers").losses, second.losses | first.losses
    assert theirs[1] == pytest.approx(ours[1], rel=0.01)
    assert theirs == pytest.approx(ours, rel=0.15)
    assert theirs[STEPS] < 0.8 * theirs[1]


def test_it_exports_the_weights_that_it_trained(
    trained: Path, interrupted: tuple[Training, Training], samples: Path, tmp_path: Path
) -> None:
    assert loss_at_start(trained, samples, tmp_path) < interrupted[1].losses[STEPS]  # one step further


def test_what_it_exports_is_asked_and_scored(trained: Path, tmp_path: Path) -> None:
    sim = load_benchmark("sim")
    clip = next(c for c in sim.clips if c.video)
    manifest, answers = tmp_path / "manifest.jsonl", tmp_path / "answers.jsonl"
    write_manifest(manifest, [replace(clip, video=str(clip.video_path(sim.root)))])
    asked = ["--prompt", "tiny", "--stamps", "none", "--fps", "8", "--temperature", "0", "--max-new-tokens", "200"]
    tempoloc("localize", "--model", trained, "--benchmark", manifest, *asked, "-o", answers)
    answer = json.loads(answers.read_text())
    assert (answer["finish_reason"], "answer>" in answer["text"]) == ("stop", True)  # four steps teach little more
    assert f"step_{STEPS} at 8 fps" in tempoloc("evaluate", answers, "--benchmark", manifest)


def test_adapters_are_trained_and_added_to_their_model(samples: Path, tmp_path: Path) -> None:
    changes: dict[str, Any] = {"train.epoch": 3, "train.optm_lr": 3e-3}
    losses = train(tmp_path, samples, "cosmos-rl", presets=("lora",), **changes).losses
    assert losses[3] < 0.95 * losses[1]
    assert merge_adapters(exported(tmp_path / "output", 3), tmp_path / "merged") > 0
    assert loss_at_start(tmp_path / "merged", samples, tmp_path / "ours") < losses[3]


def tempoloc(*arguments: object) -> str:
    """What a command prints."""
    command = [sys.executable, "-m", "tempoloc_nb", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout
