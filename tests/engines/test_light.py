"""The light model beside transformers: the same prompts, pixels and texts, and nothing that it does not know."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from asking import ask
from tiny_models import qwen3, qwen25

import tempoloc_nb.engines.light as light_engine
from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.clips.videos import find_videos
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.engines.decoding import _prefill
from tempoloc_nb.engines.hf import HFBackend, encode_request
from tempoloc_nb.engines.light import _LightModel, load_light
from tempoloc_nb.engines.make import make_engine
from tempoloc_nb.engines.protocol import Request, Response
from tempoloc_nb.engines.test_pattern import capture
from tempoloc_nb.inference.requests import plan_requests
from tempoloc_nb.models.ask import Sampling, load_prompt
from tempoloc_nb.models.constraints import Constraint
from tempoloc_nb.models.locate import ask_config

torch.set_num_threads(1)
SIM = load_benchmark("sim")
GREEDY = Sampling(temperature=0.0, max_new_tokens=60)
SAMPLINGS = {
    "greedy": GREEDY,
    "sampled": Sampling(temperature=0.8, top_p=0.9, max_new_tokens=60, seed=3),
    "penalised": Sampling(temperature=1.1, top_p=1.0, repetition_penalty=1.15, max_new_tokens=40),
}


def requests(count: int, trials: int) -> list[Request]:
    """The first clips of different tasks, as the shipped model's card says."""
    clips = SIM.head(1)
    return plan_requests(clips, find_videos(clips), replace(ask_config("tempoloc-tiny"), trials=trials))[:count]


@pytest.fixture(scope="module")
def light() -> HFBackend:
    backend = make_engine("hf", "tempoloc-tiny", device="cpu")
    assert isinstance(backend, HFBackend)
    assert isinstance(backend.net, _LightModel)
    return backend


@pytest.fixture(scope="module")
def stock() -> HFBackend:
    backend = make_engine("hf", "tempoloc-tiny", device="cpu", light=False)
    assert isinstance(backend, HFBackend)
    assert not isinstance(backend.net, _LightModel)
    return backend


def test_both_say_the_same_of_themselves(light: HFBackend, stock: HFBackend) -> None:
    """A run that was begun with one of them goes on with the other."""
    assert light.settings() == stock.settings()
    assert (light.model, light.ends, light.pad) == (stock.model, stock.ends, stock.pad)


def test_prompts_are_equal_and_logits_but_for_rounding(light: HFBackend, stock: HFBackend) -> None:
    for request in requests(2, 1):
        for budget in (None, 400_000):  # of pixels
            ours, theirs = (encode_request(request, b.net, b.processor, budget) for b in (light, stock))
            assert np.array_equal(ours.ids, theirs.ids)
            assert np.array_equal(ours.positions, theirs.positions)
            assert torch.equal(ours.pixels, theirs.pixels)
            assert torch.equal(ours.grid, theirs.grid)
        with torch.inference_mode():
            found, wanted = (_prefill(b.net, [ours], [0], GREEDY).logits for b in (light, stock))
        assert float((found - wanted).abs().max()) < 1e-4 * float(wanted.abs().max())


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=list(SAMPLINGS))
def test_texts_are_equal(light: HFBackend, stock: HFBackend, sampling: Sampling) -> None:
    def answers(backend: HFBackend) -> dict[str, list[Response]]:
        found = ask(backend, requests(2, 3), sampling)
        return {clip: [replace(r, latency_s=0) for r in answer] for clip, answer in found.items()}

    found = answers(light)
    assert found == answers(stock)
    assert len({r.text for answer in found.values() for r in answer}) > 1


def test_words_are_split_and_joined_alike(light: HFBackend, stock: HFBackend) -> None:
    ours, theirs = light.processor.tokenizer, stock.processor.tokenizer
    texts = (
        "grasping  the red cube\n\n", "Tür, naïve: e\u0301 ½ 12.50 s", "你好\t<|im_end|> it's\r\n", "<|video_pad|>" * 3
    )  # fmt: skip
    for text in texts:
        ids = theirs(text)["input_ids"]
        assert ours.encode(text) == ids
        for skipped in (True, False):
            assert ours.decode(ids, skip_special_tokens=skipped) == theirs.decode(ids, skip_special_tokens=skipped)


def test_a_video_s_place_in_a_label_is_one_error(light: HFBackend) -> None:
    request = replace(requests(1, 1)[0], labels=("grasping <|video_pad|>",), prompt=load_prompt("tiny-absent"))
    ((_, answer),) = light.stream([request], GREEDY)
    assert isinstance(answer, TempolocError)
    assert request.clip in str(answer)


def test_the_doctor_sees_what_the_model_is_given(light: HFBackend) -> None:
    (request,) = requests(1, 1)
    with capture(light) as inputs:
        ask(light, [request], replace(GREEDY, max_new_tokens=2))
    encoded = encode_request(request, light.net, light.processor, light.total_pixels)
    assert len(inputs) == 1
    assert np.array_equal(inputs[0].ids, encoded.ids)
    assert np.array_equal(inputs[0].positions, encoded.positions)


def test_position_ids_of_transformers_are_there_for_the_doctor(light: HFBackend, stock: HFBackend) -> None:
    (request,) = requests(1, 1)
    found, wanted = (encode_request(request, b.net, b.processor, stock=True).positions for b in (light, stock))
    assert np.array_equal(found, wanted)


def test_an_answer_keeps_to_a_form(light: HFBackend) -> None:
    pytest.importorskip("xgrammar")
    (request,) = requests(1, 2)
    found = ask(light, [replace(request, constraint=Constraint("regex", "(yes|no)!"))], Sampling(max_new_tokens=9))
    assert {r.text for r in found[request.clip]} <= {"yes!", "no!"}


# --- what is left to transformers ---


def edit(name: str, change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def on(folder: Path) -> None:
        given = json.loads((folder / name).read_text(encoding="utf-8"))
        change(given)
        (folder / name).write_text(json.dumps(given), encoding="utf-8")

    return on


def template(text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / "chat_template.jinja").open("a", encoding="utf-8").write(text) and None


OTHERWISE: dict[str, Callable[[Path], None]] = {
    "no tokenizer": lambda folder: (folder / "tokenizer.json").unlink(),
    "no ends": lambda folder: (folder / "generation_config.json").unlink(),
    "no template": lambda folder: (folder / "chat_template.jinja").unlink(),
    "a template with a clock": template("{{ strftime_now('%d') }}"),
    "a template with tools": template("{% if tools %}tools{% endif %}"),
    "a cut file": lambda folder: (folder / "model.safetensors").write_bytes(b"cut") and None,
    "adapters": lambda folder: (folder / "adapter_config.json").write_text("{}") and None,
    "windows": edit("config.json", lambda c: c["vision_config"].update(fullatt_block_indexes=[0])),
    "another activation": edit("config.json", lambda c: c["text_config"].update(hidden_act="gelu")),
    "another size": edit("config.json", lambda c: c["text_config"].update(intermediate_size=64)),
    "another head": edit("config.json", lambda c: c.update(tie_word_embeddings=False)),
    "quantized": edit("config.json", lambda c: c.update(quantization_config={"quant_method": "fp8"})),
    "another resizing": edit("processor_config.json", lambda c: c["video_processor"].update(resample=2)),
    "another tokenizer": edit("tokenizer_config.json", lambda c: c.update(tokenizer_class="LlamaTokenizer")),
    "another pad": edit("tokenizer_config.json", lambda c: c.update(pad_token="<pad>")),
}


@pytest.mark.parametrize("change", OTHERWISE.values(), ids=list(OTHERWISE))
def test_what_it_does_not_know_is_left_to_transformers(change: Callable[[Path], None], tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(data_dir() / "models" / "tempoloc-tiny", folder)
    assert load_light(folder) is not None
    change(folder)
    assert load_light(folder) is None


@pytest.mark.parametrize("light", [True, False])
def test_four_colours_are_one_line(light: bool, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(data_dir() / "models" / "tempoloc-tiny", folder)
    edit("processor_config.json", lambda c: c["video_processor"].update(image_std=[0.5] * 4))(folder)
    with pytest.raises(TempolocError, match=r"image_std .0\.5, 0\.5, 0\.5, 0\.5. must be three numbers"):
        HFBackend(folder, device="cpu", light=light)


def test_other_families_types_and_positions_are_left_to_transformers() -> None:
    assert load_light(qwen3()) is None
    folder = qwen25()
    assert isinstance(HFBackend(folder, device="cpu", light=True).net, _LightModel)
    for options in ({"dtype": "bfloat16"}, {"stock_positions": True}, {"light": False}):
        made = make_engine("hf", folder, device="cpu", **options)
        assert isinstance(made, HFBackend)
        assert not isinstance(made.net, _LightModel)


def test_find_imports_neither_transformers_nor_torchvision() -> None:
    clip = data_dir() / "benchmarks/sim/videos/stack-three/000.mp4"
    program = (
        "import sys\n"
        "from tempoloc_nb.cli.main import main\n"
        "try:\n    main()\n"
        "finally:\n    print(*sys.modules, file=sys.stderr)\n"
    )
    given = ["find", str(clip), "-e", "grasping the green cube", "-e", "releasing the green cube", "--trials", "2"]
    done = subprocess.run([sys.executable, "-c", program, *given], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "grasping the green cube" in done.stdout
    loaded = {name.partition(".")[0] for name in done.stderr.splitlines()[-1].split()}
    assert "torch" in loaded
    assert not loaded & {"transformers", "torchvision", "scipy", "pandas", "huggingface_hub", "starlette", "uvicorn"}


def test_a_torch_without_the_packing_operators_multiplies_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise AttributeError("no such operator")

    monkeypatch.setattr(light_engine._Packed, "__call__", missing)
    light_engine._packs.cache_clear()
    weight = torch.eye(2)
    assert light_engine._packed(weight) is weight
    monkeypatch.undo()
    light_engine._packs.cache_clear()
