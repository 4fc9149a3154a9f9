"""Launching: real processes that stand in for cosmos-rl, ended in every way that a run can end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent, indent

import pytest
import tiny_models
from sft_data import make_dataset
from typer.testing import CliRunner

from tempoloc_nb.cli.sft import app
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.sft.cosmos.env import VARIABLE
from tempoloc_nb.sft.launch import Progress, _run_processes, launch_command, launch_training
from tempoloc_nb.sft.training_file import make_config, nest, write_config

linux = pytest.mark.skipif(not Path("/proc/self/environ").is_file(), reason="processes are found through /proc")


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def stand_in(folder: Path, body: str) -> Path:
    """An environment whose `cosmos-rl` runs `body`, which may call `step(number, of)`."""
    programs = folder / "env" / "bin"
    programs.mkdir(parents=True)
    head = f"""\
        #!{sys.executable}
        import os, signal, subprocess, sys, time
        def step(number, of=5):
            print(f"[cosmos] - INFO - Step: {{number}}/{{of}}, Loss: {{1 / number:.5f}}, Grad norm: 1.0", flush=True)
        """
    (programs / "cosmos-rl").write_text(dedent(head) + dedent(body))
    (programs / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    for program in programs.iterdir():
        program.chmod(0o755)
    write_config(folder / "sft.toml", make_config(changes={"train.output_dir": str(folder / "out")}))
    return folder / "env"


def record(folder: Path) -> dict[str, object]:
    """The `run.json` of the one run below a folder."""
    (found,) = folder.glob("**/run.json")
    read: dict[str, object] = json.loads(found.read_text())
    return read


def test_a_run_is_followed_and_recorded(tmp_path: Path) -> None:
    env = stand_in(tmp_path, """\
        for number in range(1, 6):
            step(number)
        print(os.environ["COSMOS_REDIS_NO_TLS"], os.environ["PATH"].split(":")[0], sys.argv[1:])
        print("a word to the other stream", file=sys.stderr)
        """)  # fmt: skip
    lines: list[str] = []
    steps: list[Progress] = []
    run = launch_training(tmp_path / "sft.toml", cosmos=env, echo=lines.append, report=steps.append)
    assert (run.outcome, run.status, run.progress) == ("finished", 0, Progress(5, 5, 0.2))
    assert [s.step for s in steps] == [1, 2, 3, 4, 5]
    arguments = ["--config", str(tmp_path / "sft.toml"), "tempoloc_nb.sft.cosmos.entry"]
    assert f"1 {env / 'bin'} {arguments}" in lines
    assert (run.folder / "log.txt").read_text().splitlines() == lines
    assert run.folder.parent == tmp_path / "out" / "launches"
    told = record(tmp_path / "out")
    assert told["outcome"] == "finished"
    assert (told["step"], told["steps"], told["loss"]) == (5, 5, 0.2)
    assert told["command"] == [str(env / "bin" / "cosmos-rl"), *arguments]
    assert told["config"] == nest(make_config(changes={"train.output_dir": str(tmp_path / "out")}))
    assert {"started", "ended", "seconds", "versions", "tempoloc_nb"} <= set(told)
    assert told["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))  # type: ignore[index]
    assert (run.folder / "config.toml").read_text() == (tmp_path / "sft.toml").read_text()


@pytest.mark.parametrize(
    ("body", "outcome", "status"),
    [
        ("step(1); sys.exit(3)", "failed", 3),
        ("step(5); sys.exit(3)", "failed", 3),
        ("step(1); os.kill(os.getpid(), 9)", "failed", -9),
        ("step(3)", "incomplete", 0),
        ("pass", "incomplete", 0),
        ("os.write(1, bytes(range(256))); step(5)", "finished", 0),
        ("[step(n, 2000) for n in range(1, 2001)]", "finished", 0),
    ],
)
def test_how_a_run_can_end(tmp_path: Path, body: str, outcome: str, status: int) -> None:
    env = stand_in(tmp_path, body)
    run = launch_training(tmp_path / "sft.toml", cosmos=env, echo=lambda line: None)
    assert (run.outcome, run.status) == (outcome, status)
    told = record(tmp_path / "out")
    assert (told["outcome"], told["status"]) == (outcome, status)


def test_the_command_has_the_runs_exit_status(tmp_path: Path) -> None:
    env = stand_in(tmp_path, "step(1); sys.exit(3)")
    result = CliRunner().invoke(app, ["launch", str(tmp_path / "sft.toml"), "--cosmos", str(env)])
    assert result.exit_code == 1
    assert "failed after" in result.output
    assert "step 1 of 5, exit status 3" in result.output


# A child in a session of its own, as torchrun's workers are, that ignores every polite signal from here on.
STUBBORN = """\
    ready, tell = os.pipe()
    child = "import os, signal, sys, time; [signal.signal(s, signal.SIG_IGN) for s in (2, 15)];"
    child += "os.close(int(sys.argv[1])); time.sleep(600)"
    subprocess.Popen([sys.executable, "-c", child, str(tell)], start_new_session=True, pass_fds=[tell])
    os.close(tell)
    os.read(ready, 1)
    """


@linux
def test_what_is_left_after_the_end_is_ended(tmp_path: Path) -> None:
    """A server that the program leaves behind holds its output open: the launch neither waits for it nor leaves it."""
    env = stand_in(tmp_path, dedent(STUBBORN) + "step(5)\n")
    began = time.monotonic()
    run = launch_training(tmp_path / "sft.toml", cosmos=env, echo=lambda line: None)
    assert run.outcome == "finished"
    assert time.monotonic() - began < 300  # the server's 600
    assert _run_processes(str(run.folder.resolve())) == []


@linux
def test_a_run_that_ends_leaves_one_alone_that_began_in_the_same_moment(tmp_path: Path) -> None:
    """Their folders have the same name, which is the time, and so had what marked their processes."""
    for name in ("short", "long"):
        (tmp_path / name).mkdir()
    begun, over = tmp_path / "begun", tmp_path / "over"
    wait = "while not os.path.exists({!r}): time.sleep(0.05)\n"
    bodies = {
        "long": f"step(1)\nopen({str(begun)!r}, 'w').close()\n" + wait.format(str(over)),
        "short": wait.format(str(begun)) + "step(5)\n",
    }
    envs = {name: stand_in(tmp_path / name, body) for name, body in bodies.items()}

    def launch(name: str) -> str:
        folder, config = tmp_path / name / "20261129-162459-701", tmp_path / name / "sft.toml"
        run = launch_training(config, cosmos=envs[name], folder=folder, echo=lambda line: None)
        over.touch()
        return run.outcome

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(launch, ("long", "short"))) == ["incomplete", "finished"]


def interrupted(
    tmp_path: Path, body: str, grace: float, *signals: signal.Signals, hears: bool = True
) -> tuple[int, str, float]:
    """Send signals to a launch that has taken its first step: exit status, output, seconds until the end.

    The second is sent when the first was heard. Unless it `hears` SIGINT it ignores that from its start, as what a
    script starts in the background does.
    """
    env = stand_in(tmp_path, body)
    code = "import sys; from tempoloc_nb.cli.sft import app; app(sys.argv[1:])"
    line = ["launch", str(tmp_path / "sft.toml"), "--cosmos", str(env), "--grace", str(grace)]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *line], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL if hears else signal.SIG_IGN),
    )  # fmt: skip
    assert process.stdout is not None
    said, began = "", 0.0
    try:
        for number, heard in zip(signals, ("Step: 1/5", "interrupted: ending the training"), strict=False):
            while heard not in said:
                text = process.stdout.readline()
                assert text, said
                said += text
            began = began or time.monotonic()
            process.send_signal(number)
        said += process.communicate(timeout=300)[0]
    finally:
        process.kill()
    return process.returncode, said, time.monotonic() - began


def left_of(tmp_path: Path) -> list[int]:
    (folder,) = (tmp_path / "out" / "launches").iterdir()
    return _run_processes(str(folder.resolve()))


def test_a_failed_worker_ends_the_run_though_cosmos_rl_would_wait(tmp_path: Path) -> None:
    body = """\
        step(1)
        print("[cosmos] 2026-11-21 15:02:12,976 - cosmos - ERROR - Process 7588 failed with return code 1", flush=True)
        time.sleep(600)
        """
    env = stand_in(tmp_path, body)
    began = time.monotonic()
    run = launch_training(tmp_path / "sft.toml", cosmos=env, echo=lambda line: None)
    assert run.outcome == "failed"
    assert "a worker failed" in str(run)
    assert time.monotonic() - began < 300
    assert record(tmp_path / "out")["outcome"] == "failed"


def test_another_replica_may_go_on(tmp_path: Path) -> None:
    env = stand_in(tmp_path, "print('Process 7588 failed with return code 1', flush=True); time.sleep(1); step(5)")
    changes = {"train.output_dir": str(tmp_path / "out"), "policy.parallelism.n_init_replicas": 2}
    write_config(tmp_path / "sft.toml", make_config(changes=changes), force=True)
    assert launch_training(tmp_path / "sft.toml", cosmos=env, echo=lambda line: None).outcome == "finished"


@linux
@pytest.mark.parametrize(("number", "hears"), [(signal.SIGINT, True), (signal.SIGTERM, True), (signal.SIGTERM, False)])
def test_an_interrupt_lets_the_training_save(tmp_path: Path, number: signal.Signals, hears: bool) -> None:
    """It ends by itself, and what it says meanwhile, more than a pipe holds, is in the log."""
    status, _, seconds = interrupted(tmp_path, """\
        try:
            step(1)
            time.sleep(600)
        except KeyboardInterrupt:
            print("saving " * 30000)
            print("saved")
            sys.exit(0)
        """, 400, number, hears=hears)  # fmt: skip
    told = record(tmp_path / "out")
    assert (status, told["outcome"], told["status"]) == (130, "interrupted", 0)
    assert seconds < 300
    assert "saved" in next((tmp_path / "out").glob("**/log.txt")).read_text()
    assert left_of(tmp_path) == []


@linux
def test_a_training_that_ignores_the_interrupt_is_killed_with_its_children(tmp_path: Path) -> None:
    body = f"signal.signal(2, signal.SIG_IGN)\n{dedent(STUBBORN)}step(1)\ntime.sleep(600)\n"
    status, said, seconds = interrupted(tmp_path, body, 2, signal.SIGINT)
    told = record(tmp_path / "out")
    assert (status, told["outcome"], told["status"]) == (130, "interrupted", -9)
    assert 2 <= seconds < 300
    assert "interrupted after" in said
    assert left_of(tmp_path) == []


@linux
def test_a_second_interrupt_does_not_wait(tmp_path: Path) -> None:
    body = "signal.signal(2, signal.SIG_IGN)\nstep(1)\ntime.sleep(600)\n"
    status, _, seconds = interrupted(tmp_path, body, 500, signal.SIGINT, signal.SIGINT)
    assert status == 130
    assert seconds < 300
    assert record(tmp_path / "out")["outcome"] == "interrupted"
    assert left_of(tmp_path) == []


def test_dry_run_prints_the_exact_command_and_starts_nothing(tmp_path: Path) -> None:
    env = stand_in(tmp_path, "open('started', 'w')")
    line = ["launch", str(tmp_path / "sft.toml"), "--cosmos", str(env), "--dry-run"]
    shown = CliRunner().invoke(app, line)
    assert shown.exit_code == 0
    assert shown.output.strip() == str(launch_command(tmp_path / "sft.toml", cosmos=env))
    assert not (tmp_path / "out").exists()
    told = subprocess.run(["sh", "-c", shown.output], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert told.returncode == 0, told.stderr
    assert (tmp_path / "started").is_file()


def test_several_gpus_of_the_engine_transformers_are_several_processes(tmp_path: Path) -> None:
    changes = {"policy.parallelism.dp_shard_size": 4}
    write_config(tmp_path / "a.toml", make_config("transformers", changes=changes))
    arguments = launch_command(tmp_path / "a.toml", "transformers").arguments
    assert arguments[1:5] == ("-m", "torch.distributed.run", "--nproc-per-node", "4")
    assert arguments[-3:] == ("-m", "tempoloc_nb.sft.train", str(tmp_path / "a.toml"))


def test_what_cannot_be_started(tmp_path: Path) -> None:
    env = stand_in(tmp_path, "pass")
    config = tmp_path / "sft.toml"
    with pytest.raises(TempolocError, match=rf"make env-cosmos-rl.*{VARIABLE}"):
        launch_training(config)
    with pytest.raises(TempolocError, match="no Python there"):
        launch_training(config, cosmos=tmp_path / "nothing")
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "run.json").write_text("{}")
    with pytest.raises(TempolocError, match="is not empty"):
        launch_training(config, cosmos=env, folder=tmp_path / "used")
    (env / "bin" / "cosmos-rl").write_text("no program")
    with pytest.raises(TempolocError, match="cannot be started"):
        launch_training(config, cosmos=env, folder=tmp_path / "run")
    assert record(tmp_path / "run")["outcome"] == "failed"
    (env / "bin" / "cosmos-rl").unlink()
    with pytest.raises(TempolocError, match="no such program"):
        launch_training(config, cosmos=env)


@pytest.mark.parametrize(
    ("line", "progress"),
    [
        ("Step: 12/1680, Loss: nan, Grad norm: 1", (12, 1680, "nan")),
        ("step 3 of 40: loss 1.5e-05, lr 0.0001", (3, 40, "1.5e-05")),
        ("step 40 of 40: validation_loss 0.2", (40, 40, "None")),
        ("Validation at step 3/40...", (3, 40, "None")),
        ("Replica step: 7/9", (7, 9, "None")),
    ],
)
def test_progress_is_read_from_both_engines_logs(line: str, progress: tuple[int, int, str]) -> None:
    found = Progress.read(line)
    assert found is not None
    assert (found.step, found.steps, str(found.loss)) == progress


@pytest.mark.parametrize("line", ["", "epoch 3/4", "stepping 3/4", "3/4 steps", "footstep: 3/4"])
def test_other_lines_are_no_progress(line: str) -> None:
    assert Progress.read(line) is None


def test_the_engine_transformers_for_real(tmp_path: Path) -> None:
    """Two steps of an untrained model, in a process of its own."""
    make_dataset(tmp_path / "set", 3)
    changes = {
        "custom.dataset.path": str(tmp_path / "set"), "policy.model_name_or_path": str(tiny_models.qwen25()),
        "train.output_dir": str(tmp_path / "out"), "train.max_num_steps": 2, "train.train_batch_per_replica": 2,
        "train.optm_warmup_steps": 1,
    }  # fmt: skip
    write_config(tmp_path / "a.toml", make_config("transformers", changes=changes))
    lines: list[str] = []
    run = launch_training(tmp_path / "a.toml", "transformers", echo=lines.append)
    assert run.outcome == "finished", indent("\n".join(lines), "| ")
    assert run.progress is not None
    assert (run.progress.step, run.progress.steps) == (2, 2)
    assert (tmp_path / "out" / "model" / "config.json").is_file()


def test_a_screen_that_is_gone_and_a_full_disk_do_not_stop_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = stand_in(tmp_path, """\
        for number in range(1, 2001):
            step(number, 2000)
    """)  # more than a pipe holds

    def gone(line: str) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    def full(self: object, raw: bytes) -> None:
        raise OSError(28, "No space left on device")

    run = launch_training(tmp_path / "sft.toml", cosmos=env, echo=gone, folder=tmp_path / "a")
    assert (run.outcome, run.lost) == ("finished", "")
    assert (tmp_path / "a" / "log.txt").read_text().count("Step:") == 2000
    monkeypatch.setattr("tempoloc_nb.sft.launch._Follower._keep", full)
    run = launch_training(tmp_path / "sft.toml", cosmos=env, echo=lambda line: None, folder=tmp_path / "b")
    assert run.outcome == "finished"
    assert str(run).endswith("(log.txt is not whole: [Errno 28] No space left on device)")


def test_the_record_is_a_folder(tmp_path: Path) -> None:
    env = stand_in(tmp_path, "step(5)")
    with pytest.raises(TempolocError, match=r"sft\.toml is no folder: give the name of a folder"):
        launch_training(tmp_path / "sft.toml", cosmos=env, folder=tmp_path / "sft.toml")
