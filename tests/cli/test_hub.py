"""Datasets of the Hub by name: fetched as far as they are needed, copies uploaded; against a Hub on this machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.formats.hub import HubName, _hub_name, fetch, fetched
from tempoloc_nb.formats.lerobot import read_info
from tempoloc_nb.formats.recordings import Choice
from tempoloc_nb.formats.recordings import segment as segment_videos
from tempoloc_nb.video.files import Image
from tests.helpers.hub_server import TOKEN, Hub, Repo, serving
from tests.helpers.lerobot_folders import CAMERA, small_dataset

constants = pytest.importorskip("huggingface_hub.constants", reason="huggingface_hub is not installed (extra data)")
Run = Callable[..., tuple[int, str, str]]
NAME = "someone/stacking"


def moving() -> list[Image]:
    """A square that moves, rests, and moves on."""
    frames = []
    for place in [*range(0, 30, 2), *[30] * 15, *range(30, 60, 2)]:
        image = np.full((64, 96, 3), 90, np.uint8)
        image[20:44, place : place + 24] = 230
        frames.append(image)
    return frames


def dataset(root: Path, version: str = "v3.0", cameras: int = 1) -> Path:
    """Two episodes, each in a file of its own."""
    small_dataset(root, [moving(), moving()], per_file=1, version=version)
    if cameras == 2:
        path = root / "meta" / "info.json"
        info = json.loads(path.read_text())
        info["features"]["observation.images.wrist"] = info["features"][CAMERA]
        path.write_text(json.dumps(info))
        shutil.copytree(root / "videos" / CAMERA, root / "videos" / "observation.images.wrist")
    (root / "README.md").write_text("---\nlicense: cc-by-4.0\n---\n\nCubes.\n")
    return root


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A Hub with nothing on it, its cache and where commands run."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with serving(Hub()) as served:
        monkeypatch.setattr(constants, "ENDPOINT", served.address)
        template = "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", served.address + template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
        monkeypatch.setattr("time.sleep", lambda _: None)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield served


def test_a_dataset_is_found_by_its_name(hub: Hub, run: Run, tmp_path: Path) -> None:
    sha = hub.add(NAME, dataset(tmp_path / "made", cameras=2)).sha
    code, out, err = run("segment", NAME, "--by", "motion", "-o", "cuts.json")
    assert code == 0, err
    assert f"tempoloc: {NAME}: revision {sha} of the Hub, in {tmp_path / 'cache'}" in err
    assert "tempoloc: stacking: 2 of 2 episodes, 10 frames a second, camera observation.images.front" in err
    assert "episode_000001" in out
    assert {name.split("/")[1] for name in hub.downloads() if name.startswith("videos/")} == {CAMERA}
    assert "README.md" not in hub.downloads()
    rows = json.loads(Path("cuts.json").read_text())
    assert [row["episode"] for row in rows] == ["episode_000000", "episode_000001"]
    before = len(hub.downloads())
    assert run("segment", f"{NAME}@{sha}", "--by", "motion")[0] == 0
    assert len(hub.downloads()) == before


@pytest.mark.parametrize("version", ["v3.0", "v2.1"])
def test_of_one_episode_only_its_video_is_fetched(hub: Hub, tmp_path: Path, version: str) -> None:
    hub.add(NAME, dataset(tmp_path / "made", version))
    (found,) = segment_videos(NAME, by="motion", episode=1)
    assert found.episode == "episode_000001"
    videos = [name for name in hub.downloads() if name.startswith("videos/")]
    assert len(videos) == 1
    assert "1.mp4" in videos[0]


def test_a_revision_is_pinned(hub: Hub, tmp_path: Path) -> None:
    repo = hub.add(NAME, dataset(tmp_path / "made"))
    repo.tags.append("v3.0")
    assert fetch(HubName(NAME, "v3.0"), Choice()).name == repo.sha
    with pytest.raises(TempolocError, match=r"someone/stacking: has no such revision: see http://.*/tree/main"):
        fetch(HubName(NAME, "v9"), Choice())


def test_paths_are_no_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "user" / "data").mkdir(parents=True)
    for given in ("user/data", "demo.mp4", "a/demo.mp4", "a/b/c", "./a/b", "/a/b", "data", "x/found.json", "a/b.hdf5"):
        assert _hub_name(given) is None, given
    assert _hub_name("user/other@main") == HubName("user/other", "main")
    assert _hub_name(Path("user/other")) == HubName("user/other")


@pytest.mark.parametrize(
    ("ill", "said"),
    [
        ("nothing", ": is no path here, and is no dataset on the Hub; for a private one log in with hf auth login"),
        ("private", ": is no path here, and is no dataset on the Hub; for a private one log in with hf auth login"),
        ("gated", ": is gated: ask for access at http://"),
        ("other", " on the Hub is not a LeRobot dataset: it has no meta/info.json"),
        ("down", ": is no path here, and the Hub fails ("),
        ("offline", ": is no path here, and HF_HUB_OFFLINE forbids to ask the Hub: unset it; or give"),
        ("away", ": is no path here, and the Hub cannot be reached ("),
    ],
)
def test_what_cannot_be_fetched_is_one_line(
    hub: Hub, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ill: str, said: str
) -> None:
    if ill != "nothing":
        repo = hub.add(NAME, dataset(tmp_path / "made"))
        repo.private, repo.gated = ill == "private", ill == "gated"
        repo.files = {"README.md": b"of another kind"} if ill == "other" else repo.files
    if ill == "down":
        hub.faults["/api/datasets"] += ["500"] * 20
    if ill == "offline":
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    if ill == "away":
        monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    code, out, err = run("find", NAME, "-e", "grasping it")
    assert (code, out) == (1, "")
    assert err.startswith(f"tempoloc: {NAME}{said}"), err
    assert err.count("\n") == 1


def test_what_has_come_is_read_offline_and_what_has_not_is_named(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(NAME, dataset(tmp_path / "made", cameras=2))
    root = fetch(HubName(NAME), Choice())
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert fetch(HubName(NAME), Choice()) == root
    with pytest.raises(TempolocError, match="someone/stacking: is no path here"):
        fetch(HubName(NAME), Choice(camera="wrist"))


@pytest.mark.parametrize("fault", ["500", "cut"])
def test_a_hub_that_stumbles_is_asked_again(hub: Hub, tmp_path: Path, fault: str) -> None:
    made = dataset(tmp_path / "made")
    hub.add(NAME, made)
    hub.faults["file-001.mp4"].append(fault)
    root = fetch(HubName(NAME), Choice())
    video = f"videos/{CAMERA}/chunk-000/file-001.mp4"
    assert (root / video).read_bytes() == (made / video).read_bytes()
    assert not hub.faults["file-001.mp4"]


def test_without_huggingface_hub_one_line_says_what_to_install(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    code, _, err = run("find", NAME, "-e", "grasping it")
    assert code == 1
    assert "huggingface_hub" in err
    assert "pip install 'tempoloc_nb[data]'" in err
    assert err.count("\n") == 1


def test_the_endpoint_of_the_environment_is_asked(tmp_path: Path) -> None:
    with serving(Hub()) as hub:
        hub.add(NAME, dataset(tmp_path / "made"))
        done = subprocess.run(
            [sys.executable, "-m", "tempoloc_nb", "segment", NAME, "--by", "motion"], cwd=tmp_path, text=True,
            capture_output=True, check=False,
            env=os.environ | {"HF_ENDPOINT": hub.address, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "0"},
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "episode_000001" in done.stdout
    assert str(tmp_path / "home") in done.stderr


# --- uploading ---


def push(run: Run, *more: object, source: object = NAME) -> tuple[int, str, str]:
    return run("segment", source, "--by", "motion", "--write", "--push-to", "me/cuts", *more)


@pytest.fixture
def logged_in(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> Hub:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    return hub


@pytest.mark.parametrize("public", [False, True])
def test_the_copy_goes_up_and_its_source_stays(logged_in: Hub, run: Run, tmp_path: Path, public: bool) -> None:
    source = logged_in.add(NAME, dataset(tmp_path / "made", cameras=2))
    before = dict(source.files)
    code, _, err = push(run, *["--public"] * public)
    assert code == 0, err
    assert source.files == before
    repo = logged_in.repos["me/cuts"]
    assert (repo.private, repo.tags) == (not public, ["v3.0"])
    shown = "public" if public else "private"
    assert f"/datasets/me/cuts: uploaded, {shown}; its card leaves the licence to you" in err
    copy = Path("stacking-subtasks")  # here, not in the cache
    assert set(repo.files) == {p.relative_to(copy).as_posix() for p in copy.rglob("*") if p.is_file()}
    assert set(before) < set(repo.files)
    card = repo.files["README.md"].decode()
    assert "license: unknown" in card
    assert "The source's card says `cc-by-4.0`" in card
    assert f"`{NAME}` (revision `{source.sha}`)" in card
    assert "tempoloc segment with" in card
    assert card.rstrip().endswith("Cubes.")
    again = fetch(HubName("me/cuts", "v3.0"), Choice(), whole=True)  # as others get it
    assert read_info(again).cameras == (CAMERA, "observation.images.wrist")
    assert str(tmp_path) not in card


def test_what_is_there_is_replaced_only_by_force(logged_in: Hub, run: Run, tmp_path: Path) -> None:
    made = dataset(tmp_path / "made")
    old = logged_in.repos["me/cuts"] = Repo({"old.txt": b"old", "meta/info.json": b"{}"}, private=True, tags=["v3.0"])
    code, out, err = push(run, source=made)
    assert (code, out) == (1, "")
    assert "me/cuts is on the Hub already: name another, or --force to replace its files" in err
    assert not (tmp_path / "made-subtasks").exists()
    old.private = False
    assert "me/cuts is public on the Hub: give --public, too" in push(run, "--force", source=made)[2]
    old.private = True
    assert set(old.files) == {"old.txt", "meta/info.json"}
    assert push(run, "--force", source=made)[0] == 0
    assert "old.txt" not in old.files
    assert b"codebase_version" in old.files["meta/info.json"]
    assert old.tags == ["v3.0"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--push-to", "me/cuts"), "--push-to uploads the copy that --write writes: give --write, too"),
        (("--public", "--write"), "--public is about the copy that --push-to uploads"),
        (("--push-to", "cuts", "--write"), "'cuts' cannot be a dataset of the Hub: name it as user/name"),
        (("--push-to", "me/cuts", "--write"), "me/cuts: needs a token of the Hub: log in with hf auth login"),
    ],
)
def test_what_cannot_go_up_is_said_before_anything_is_done(
    hub: Hub, run: Run, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    made = dataset(tmp_path / "made")
    code, out, err = run("segment", made, "--by", "motion", *arguments)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert said in err
    assert not (tmp_path / "made-subtasks").exists()


def test_a_copy_without_a_cameras_videos_does_not_go_up(logged_in: Hub, run: Run, tmp_path: Path) -> None:
    made = dataset(tmp_path / "made", cameras=2)
    shutil.rmtree(made / "videos" / "observation.images.wrist")
    code, _, err = push(run, source=made)
    assert code == 1
    assert "made has no videos of observation.images.wrist here" in err
    assert "me/cuts" not in logged_in.repos


def test_a_failed_upload_leaves_the_copy_and_says_how_it_goes_up(logged_in: Hub, run: Run, tmp_path: Path) -> None:
    made = dataset(tmp_path / "made")
    logged_in.faults["/commit/"] += ["403"] * 20
    code, _, err = push(run, source=made)
    assert code == 1
    assert "me/cuts: is not for your token (403)" in err
    assert f"the copy is in {made}-subtasks: hf upload me/cuts {made}-subtasks . --repo-type dataset &&" in err
    assert read_info(f"{made}-subtasks").version == 3


def test_a_manifest_is_exported_into_a_dataset_of_the_hub_and_goes_up(
    logged_in: Hub, run: Run, tmp_path: Path
) -> None:
    logged_in.add(NAME, dataset(tmp_path / "made"))
    clips = [
        {"clip": f"own/episode_00000{i}", "task": "own", "video": None, "episode_index": i,
         "events": [{"label": "moving", "boundary": 2.0}]} for i in range(2)
    ]  # fmt: skip
    (tmp_path / "manifest.jsonl").write_text("".join(json.dumps(clip) + "\n" for clip in clips))
    told: Any = ("dataset", "export", "lerobot", tmp_path / "manifest.jsonl", "--dataset", NAME, "-o", tmp_path / "out")
    code, out, err = run(*told, "--push-to", "me/cuts")
    assert code == 0, err
    assert "uploaded, private" in out
    assert b"the manifest manifest.jsonl" in logged_in.repos["me/cuts"].files["README.md"]


def test_a_dataset_of_the_hub_is_reviewed(hub: Hub, run: Run, tmp_path: Path) -> None:
    hub.add(NAME, dataset(tmp_path / "made"))
    code, _, err = run("review", NAME, "-e", "moving", "--export", tmp_path / "page")
    assert code == 0, err
    assert f"{NAME}: revision" in err
    assert any((tmp_path / "page").iterdir())
    assert fetched([tmp_path], Choice()) == [tmp_path]
