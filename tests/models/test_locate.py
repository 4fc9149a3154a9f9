"""Where a model is: one answer for every name."""

from __future__ import annotations

import builtins
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from places import ROOT
from tiny_models import cache_model, qwen25

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.engines.make import make_engine
from tempoloc_nb.models.locate import (
    Place,
    ask_config,
    cached_folder,
    check_hub,
    find_model,
    find_place,
    load_model,
    locate_model,
    model_folder,
)
from tempoloc_nb.models.registry import load_registry

LISTED = load_registry().models["Cosmos-Reason1-7B"]


def test_a_copy_of_a_shipped_model_is_asked_as_what_it_is(tmp_path: Path) -> None:
    """Its card names the model that it was made from, which is asked in another way."""
    copy = tmp_path / "mine"
    shutil.copytree(ROOT / "data" / "models" / "tempoloc-tiny", copy)
    ours, found = find_model("tempoloc-tiny"), find_model(copy)
    assert ours is not None
    assert found is not None
    assert found.trained is not None
    assert (found.card, found.trained) == (ours.card, ours.trained)
    assert ask_config(copy).changed(model="tempoloc-tiny") == ask_config("tempoloc-tiny")
    weights = (copy / "model.safetensors").read_bytes()
    (copy / "model.safetensors").write_bytes(weights[:-1] + bytes([weights[-1] ^ 1]))
    other = find_model(copy)
    assert other is not None
    assert (other.base, other.trained) == ("tempoloc-tiny-base", None)


def test_folders_go_first(project: Path) -> None:
    (project / "data" / "models" / "tempoloc-tiny").mkdir(parents=True)
    assert locate_model("tempoloc-tiny") == Place(project / "data" / "models" / "tempoloc-tiny")
    mine = project / "runs" / "mine" / "model"
    mine.mkdir(parents=True)
    assert locate_model("runs/mine/model").folder == Path("runs/mine/model")
    assert locate_model(mine) == locate_model(str(mine)) == Place(mine)
    assert locate_model(mine).path == str(mine)
    assert locate_model(mine).weights() == mine
    assert model_folder("") is None
    assert model_folder(".") == Path()


def test_a_folder_of_the_study_is_found_from_elsewhere(
    project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "runs" / "mine" / "model").mkdir(parents=True)
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert locate_model("runs/mine/model").folder == project / "runs" / "mine" / "model"


def test_models_of_the_list_and_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (LISTED.name, LISTED.hub):
        assert locate_model(str(name)) == Place(hub=LISTED.hub, revision=LISTED.revision)
    assert locate_model("someone/their-own") == Place(hub="someone/their-own")
    assert locate_model("someone/their-own").path == "someone/their-own"
    assert find_place("tempoloc-tinny") is None
    assert find_place("") is None


def test_what_is_nowhere_is_said_to_be(project: Path) -> None:
    with pytest.raises(TempolocError, match=r"the model tempoloc-tiny is not in .*models: it comes with the study's"):
        locate_model("tempoloc-tiny")
    for name in ("runs/sft-seed1/model", "runs/mine"):
        with pytest.raises(TempolocError, match=rf"{name} is not shipped, only its answers are: train it"):
            locate_model(name)
    said = r"unknown model '{}': did you mean {}\? choose one of .*, a folder written by save_pretrained, or a hub id"
    with pytest.raises(TempolocError, match=said.format("tempoloc-tinny", "tempoloc-tiny")):
        locate_model("tempoloc-tinny")
    shutil.copy(ROOT / "data" / "models.toml", project / "data")
    with pytest.raises(TempolocError, match=said.format("cosmos-reason1-7B", "Cosmos-Reason1-7B")):
        locate_model("cosmos-reason1-7B")
    with pytest.raises(TempolocError, match=r"models/of/Cosmos-Reason1-7B: no such folder; give a folder written by"):
        locate_model("models/of/Cosmos-Reason1-7B")


def test_the_cache_is_read_as_the_hubs_client_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert cached_folder("someone/surprise") is None
    snapshot = cache_model(tmp_path, "someone/surprise", "a" * 40)
    assert cached_folder("someone/surprise") == cached_folder("someone/surprise", "a" * 40) == snapshot
    assert cached_folder("someone/surprise", "b" * 40) == snapshot  # that commit is not here: what is, is near it
    assert Place(hub="someone/surprise").weights() == snapshot
    (snapshot / "model.safetensors").unlink()
    assert cached_folder("someone/surprise") == snapshot
    assert Place(hub="someone/surprise").weights() is None
    assert cached_folder("no hub id") is None
    pinned = cache_model(tmp_path, str(LISTED.hub), str(LISTED.revision), main="c" * 40)
    assert locate_model(LISTED.name).weights() == pinned
    assert cached_folder(str(LISTED.hub)) is None


def test_without_the_hubs_client_nothing_is_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] == "huggingface_hub":
            raise ModuleNotFoundError(name=name)
        return found(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    assert cached_folder("someone/surprise") is None
    assert locate_model(qwen25()).weights() == qwen25()


def test_a_hub_that_cannot_be_asked_is_one_line_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its library would try every file again for a minute, and print each try; what is in the cache is enough."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    begun = time.monotonic()
    for offline, why in ((False, r"http://127\.0\.0\.1:9 does not answer: "), (True, "HF_HUB_OFFLINE is set")):
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", offline)
        for load in (lambda: load_model("someone/model", "cpu", "float32"), lambda: make_engine("hf", "someone/model")):
            with pytest.raises(
                TempolocError, match=rf"someone/model is not in .* \({why}.*\): run hf download someone/m"
            ):
                load()
    assert time.monotonic() - begun < 20
    snapshot = cache_model(tmp_path, "someone/model", "a" * 40, main="a" * 40)
    (snapshot / "model.safetensors").touch()
    assert not check_hub("someone/model")
    assert capfd.readouterr().err == ""
