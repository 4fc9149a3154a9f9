"""What LeRobot records is read here, and what is written here LeRobot's own loader reads (`make test-lerobot`).

LeRobot wants other versions of PyAV and NumPy than this package, and has an environment of its own; LEROBOT_PYTHON is
its Python.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tempoloc_nb.clips.manifest import Clip
from tempoloc_nb.clips.tasks import Subtask, Task
from tempoloc_nb.formats.correction_files import read_csv, write_csv
from tempoloc_nb.formats.corrections import apply_rows, proposals
from tempoloc_nb.formats.lerobot_convert import _read_lerobot, write_lerobot_subtasks
from tempoloc_nb.formats.lerobot_rows import REST
from tempoloc_nb.video.files import probe, read

LENGTHS = (23, 31, 17)
LABELS = ["grasping the cup", "releasing the cup"]
TIMES = [(0.52, 1.18), (0.9, 2.95), (0.31, 0.86)]

if "LEROBOT_PYTHON" not in os.environ:
    pytest.skip("LEROBOT_PYTHON is not set: make test-lerobot", allow_module_level=True)


def lerobot(*arguments: object) -> str:
    script = Path(__file__).with_name("with_lerobot.py")
    command = [os.environ["LEROBOT_PYTHON"], str(script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def load(root: Path) -> list[dict[str, Any]]:
    return list(json.loads(lerobot("load", root).splitlines()[-1]))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("recorded") / "cups"
    lerobot("make", root)
    return root


@pytest.fixture(scope="module")
def before(recorded: Path) -> list[dict[str, Any]]:
    return load(recorded)


@pytest.fixture(scope="module")
def labelled(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Clip, ...]:
    """The recorded episodes, with the boundaries that a person put in."""
    folder = tmp_path_factory.mktemp("clips")
    clips = _read_lerobot(recorded, folder, labels=LABELS)
    lines = [f"{c.clip},{n},{t}" for c, row in zip(clips, TIMES, strict=True) for n, t in zip(LABELS, row, strict=True)]
    table = folder / "labels.csv"
    write_csv(proposals(clips), table)
    table.write_text("\n".join(["clip,label,boundary", *lines]))
    return apply_rows(clips, read_csv(table), who="a person").clips


def expected(time: float, episode: int) -> str:
    """The subtask at a frame's time, boundaries at the nearest frames."""
    ends = [round(t * 10) for t in TIMES[episode]]
    return next((n for n, end in zip(LABELS, ends, strict=True) if round(time * 10) < end), REST)


def test_a_recorded_episode_is_cut_to_its_frames(recorded: Path, tmp_path: Path) -> None:
    clips = _read_lerobot(recorded, tmp_path)
    assert [(c.events, c.duration, c.extra["instruction"]) for c in clips] == [
        ((), n / 10, "put the cup down") for n in LENGTHS
    ]
    for e, clip in enumerate(clips):
        images = read(clip.video_path(tmp_path)).images
        bits = images.reshape(len(images), 64, 8, 8, 3).mean(axis=(1, 3, 4)) > 128
        assert (bits * [2**i for i in range(8)]).sum(axis=1).tolist() == [e * 64 + k for k in range(LENGTHS[e])]
        assert probe(clip.video_path(tmp_path)).codec == "h264"


@pytest.mark.parametrize("annotation", ["language", "index"])
def test_lerobot_reads_what_is_written(
    recorded: Path, before: list[dict[str, Any]], labelled: tuple[Clip, ...], tmp_path: Path, annotation: Any
) -> None:
    files = {p: p.read_bytes() for p in recorded.rglob("*") if p.is_file()}
    assert [f["picture"] for f in before] == [e * 64 + k for e, n in enumerate(LENGTHS) for k in range(n)]
    new = write_lerobot_subtasks(recorded, labelled, tmp_path / "new", annotation=annotation).output
    frames = load(new)
    kept = [{k: v for k, v in f.items() if k not in ("subtask", "index")} for f in frames]
    assert kept == before  # pictures, states, times and instructions
    wanted = [expected(f["time"], f["episode"]) for f in frames]
    if annotation == "index":
        assert [f["index"] for f in frames] == [[*LABELS, REST].index(name) for name in wanted]
        if frames[0]["subtask"] is not None:  # LeRobot 0.4.4 to 0.5 name them
            assert [f["subtask"] for f in frames] == wanted
    else:
        assert [f["subtask"] for f in frames] == wanted
    back = _read_lerobot(new, tmp_path / "clips")
    assert [c.boundaries for c in back] == [tuple(round(t * 10) / 10 for t in row) for row in TIMES]
    assert {c.labels for c in back} == {tuple(LABELS)}
    assert {p: p.read_bytes() for p in recorded.rglob("*") if p.is_file()} == files


def test_sarm_reads_the_stages(recorded: Path, labelled: tuple[Clip, ...], tmp_path: Path) -> None:
    task = Task("cups", tuple(LABELS), subtasks=(Subtask("grasp", end=LABELS[0]), Subtask("place", end=LABELS[1])))
    new = write_lerobot_subtasks(recorded, labelled, tmp_path / "new", sarm=True, tasks={"cups": task}).output
    said = json.loads(lerobot("sarm", new).splitlines()[-1])
    ends = [[round(t * 10) for t in row] for row in TIMES]
    assert list(said["sparse"]["proportions"]) == ["grasp", "place"]
    assert list(said["dense"]["proportions"]) == [*LABELS, REST]
    share = sum(grasp / n for (grasp, _), n in zip(ends, LENGTHS, strict=True)) / 3
    for kind in ("sparse", "dense"):
        assert sum(said[kind]["proportions"].values()) == pytest.approx(1)
        assert next(iter(said[kind]["proportions"].values())) == pytest.approx(share)
    for (grasp, release), n, sparse, dense in zip(
        ends, LENGTHS, said["sparse"]["targets"], said["dense"]["targets"], strict=True
    ):
        assert [stage for stage, _ in sparse] == [int(k >= grasp) for k in range(n)]
        assert [stage for stage, _ in dense] == [int(k >= grasp) + int(k >= release) for k in range(n)]
        assert [sparse[k][1] for k in (0, grasp - 1, grasp, n - 1)] == [0, 1, 0, 1]
