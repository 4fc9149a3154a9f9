"""The transformers back end against transformers itself: attention, positions, sampling, batches, errors."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from asking import run_backend
from replay import check_company, record, replay
from tiny_models import qwen3, qwen25
from video_clips import write_audio, write_clip

from tempoloc_nb.clips.manifest import Clips, load_benchmark
from tempoloc_nb.clips.videos import find_videos
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.optional import import_transformers
from tempoloc_nb.engines import frame_attention as vision_attention
from tempoloc_nb.engines.decoding import _pick, generate_tokens
from tempoloc_nb.engines.hf import HFBackend, encode_request
from tempoloc_nb.engines.make import make_engine
from tempoloc_nb.engines.protocol import Request
from tempoloc_nb.engines.qwen import mrope_positions, overlay_options, show, stock_positions
from tempoloc_nb.inference.requests import plan_requests
from tempoloc_nb.models.ask import AskConfig, Sampling, load_prompt
from tempoloc_nb.scoring.answers import parse_answer
from tempoloc_nb.video.overlay import stamp_video
from tempoloc_nb.video.view import View

transformers = import_transformers()
import torch  # noqa: E402

torch.set_num_threads(1)
SIM = load_benchmark("sim").head(1)
VIDEOS = find_videos(SIM)
GREEDY = Sampling(temperature=0.0, max_new_tokens=12)
FAMILIES = {"qwen2.5": qwen25, "qwen3": qwen3}


def requests(count: int = 2, trials: int = 1, fps: float = 4, view: View | None = None) -> list[Request]:
    ask = AskConfig(prompt="tiny", fps=fps, view=view or View("pair"), trials=trials)
    return plan_requests(SIM, VIDEOS, ask)[:count]


@pytest.fixture(scope="module", params=list(FAMILIES))
def backend(request: pytest.FixtureRequest) -> HFBackend:
    return HFBackend(FAMILIES[request.param](), device="cpu")


@pytest.fixture(scope="module")
def qwen() -> HFBackend:
    return HFBackend(qwen25(), device="cpu")


# --- vision attention ---


def encoder(window: int, full: Sequence[int], inner: int = 64) -> Any:
    config = transformers.Qwen2_5_VLConfig(
        vision_config={
            "depth": 3, "hidden_size": 48, "num_heads": 3, "intermediate_size": inner, "out_hidden_size": 48,
            "fullatt_block_indexes": list(full), "window_size": window, "patch_size": 14,
        },
        text_config={
            "hidden_size": 48, "num_hidden_layers": 1, "num_attention_heads": 3, "num_key_value_heads": 3,
            "intermediate_size": 64, "vocab_size": 64,
        },
    )  # fmt: skip
    torch.manual_seed(0)
    return transformers.Qwen2_5_VLForConditionalGeneration(config).eval()


@pytest.mark.parametrize(("window", "full"), [(112, (0, 1, 2)), (112, (2,)), (56, (1,)), (28, ())])
@pytest.mark.parametrize(
    "grid", [[[1, 2, 2]], [[5, 10, 8]], [[3, 8, 8], [3, 8, 8]], [[2, 10, 8], [3, 6, 14], [1, 34, 22]]]
)
def test_segments_at_once_give_what_one_by_one_give(
    window: int, full: Sequence[int], grid: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    real = vision_attention.attend_in_segments
    monkeypatch.setattr(vision_attention, "attend_in_segments", lambda *a, **k: calls.append(k) or real(*a, **k))
    model, sizes = encoder(window, full), torch.tensor(grid)
    pixels = torch.randn(int(sizes.prod(1).sum()), 3 * 2 * 14 * 14, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        stock = model.model.visual(pixels, grid_thw=sizes).pooler_output
        assert not calls
        vision_attention.use_batched_vision_attention(model)
        ours = model.model.visual(pixels, grid_thw=sizes).pooler_output
    assert len(calls) == 3  # once a layer
    assert all(k["cu_seq_lens_q"] is not None for k in calls)
    assert torch.allclose(stock, ours, atol=1e-5, rtol=1e-4)
    assert model.model.language_model.config._attn_implementation == "sdpa"


def test_flash_is_called_once_for_segments_of_several_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU torch has no such kernel: this one attends to one segment after another, as flash-attention does."""
    calls = []

    def kernel(*given: Any, scale: float | None) -> tuple[torch.Tensor]:
        query, key, value, places, same, longest, _, dropout, causal, debug = given
        assert places is same
        assert (dropout, causal, debug) == (0.0, False, False)
        assert longest == int(places.diff().max())
        calls.append(longest)
        parts = [[x[a:b].transpose(0, 1) for x in (query, key, value)] for a, b in pairwise(places.tolist())]
        ways = [torch.nn.functional.scaled_dot_product_attention(*part, scale=scale) for part in parts]
        return (torch.cat([way.transpose(0, 1) for way in ways]),)

    monkeypatch.setattr(torch.ops.aten, "_flash_attention_forward", kernel)
    dice = torch.Generator().manual_seed(0)
    query, key, value = torch.randn(3, 1, 4, 26, 8, generator=dice)
    for places, longest, times in (([0, 16, 20, 26], 16, 1), ([0, 13, 26], 13, 0)):
        given = {"cu_seq_lens_q": torch.tensor(places, dtype=torch.int32), "max_length_q": longest, "scaling": 0.3}
        ours, _ = vision_attention.attend_by_flash(None, query, key, value, None, **given)
        wanted, _ = vision_attention.attend_in_segments(None, query, key, value, None, **given)
        assert len(calls) == times
        calls.clear()
        assert ours.shape == wanted.shape
        assert torch.allclose(ours, wanted, atol=1e-6)
    assert not vision_attention.flash_does(torch.device("cpu"), torch.bfloat16, 4, 8)


@pytest.mark.parametrize("inner", [90, 96])
def test_zeros_widen_a_frame_encoder_and_change_nothing(inner: int) -> None:
    model, sizes = encoder(56, (1,), inner), torch.tensor([[2, 10, 8]])
    pixels = torch.randn(int(sizes.prod(1).sum()), 3 * 2 * 14 * 14, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        before = model.model.visual(pixels, grid_thw=sizes).pooler_output
        vision_attention.widen_frame_layers(model)
        after = model.model.visual(pixels, grid_thw=sizes).pooler_output
    down = model.model.visual.blocks[0].mlp.down_proj
    assert (down.in_features, down.weight.shape[1]) == (96, 96)
    assert torch.allclose(before, after, atol=1e-6)
    assert not torch.equal(after, torch.zeros_like(after))


def test_it_can_be_trained_through() -> None:
    grid = torch.tensor([[2, 10, 8], [1, 6, 6]])
    pixels = torch.randn(int(grid.prod(1).sum()), 3 * 2 * 14 * 14)
    gradients = []
    for batched in (False, True):
        model = encoder(56, (1,))
        if batched:
            vision_attention.use_batched_vision_attention(model)
        model.model.visual(pixels, grid_thw=grid).pooler_output.square().sum().backward()
        gradients.append(model.model.visual.blocks[0].attn.qkv.weight.grad)
    assert torch.allclose(*gradients, atol=1e-4, rtol=1e-3)


# --- positions ---


@pytest.mark.parametrize("seconds", [1.0, 2.0])
@pytest.mark.parametrize("grid", [[1, 4, 4], [2, 8, 6], [3, 10, 20]])
def test_positions_equal_transformers_where_it_truncates_nothing(
    qwen: HFBackend, grid: list[int], seconds: float
) -> None:
    """Whole seconds a pair. What follows the video is compared where time does not outgrow the frame (5.17 differs)."""
    config = qwen.net.config
    t, h, w = grid
    ids = np.array([9, 8, 7, *[config.video_token_id] * (t * h * w // 4), 6, 5])
    ours = mrope_positions(ids, config, grid, seconds)
    stock = stock_positions(qwen.net, torch.from_numpy(ids)[None], torch.tensor([grid]), seconds)
    inside = slice(0, len(ids) - 2)
    assert np.array_equal(ours[:, inside], stock[:, inside])
    if (t - 1) * config.vision_config.tokens_per_second * seconds < max(h, w) // 2:
        assert np.array_equal(ours, stock)


def test_time_goes_on_in_fractions_of_a_second(qwen: HFBackend) -> None:
    """Floor of the exact product, for every whole rate."""
    config = qwen.net.config
    pairs, rate = 200, config.vision_config.tokens_per_second
    ids = np.array([1, *[config.video_token_id] * (4 * pairs), 2])
    for fps in range(1, 61):
        time = mrope_positions(ids, config, (pairs, 4, 4), 2 / fps)[0, 1:-1:4]
        assert (time - 1).tolist() == [i * rate * 2 // fps for i in range(pairs)]


# --- answers ---


def test_greedy_answers_are_those_of_generate(backend: HFBackend) -> None:
    """Against `generate` of transformers, its own positions, one clip at a time; with penalties too."""
    stock = HFBackend(backend.net.name_or_path, device="cpu", stock_positions=True)
    for penalty in (1.0, 1.15, 5.0):
        sampling = replace(GREEDY, repetition_penalty=penalty)
        for request in requests():
            e = encode_request(request, stock.net, stock.processor)
            ids = torch.from_numpy(e.ids)[None]
            kinds = 2 * (ids == stock.net.config.video_token_id).int()
            extra = {} if "qwen3" in stock.net.config.model_type else {"second_per_grid_ts": torch.tensor([2 / e.fps])}
            made = stock.net.generate(
                input_ids=ids, attention_mask=torch.ones_like(ids), mm_token_type_ids=kinds,
                pixel_values_videos=e.pixels, video_grid_thw=e.grid, do_sample=False, max_new_tokens=12,
                repetition_penalty=penalty, **extra,
            )[0, ids.shape[1] :]  # fmt: skip
            (response,) = replay(stock, request, sampling, {(request.clip, 0): made.tolist()})
            assert response.text == stock.processor.tokenizer.decode(made, skip_special_tokens=True)
            assert response.completion_tokens == len(made)


def test_an_answer_does_not_depend_on_its_company(backend: HFBackend) -> None:
    """Longer and shorter clips together, against each alone, and against its last trial alone."""
    sampling = Sampling(temperature=0.8, max_new_tokens=12, repetition_penalty=1.15)
    asked = [*requests(2, 3), *(replace(r, fps=2) for r in requests(3, 3)[2:])]
    last = [replace(r, trials=(2,)) for r in asked]
    together = check_company(backend, asked, sampling, [*asked, *last])
    assert len({r.text for answer in together for r in answer}) == 9
    for request, answer in zip(last, together, strict=True):
        ((alone,),) = backend.generate([request], sampling)
        assert (alone.trial, alone.seed) == (2, answer[2].seed)
    other = backend.generate(asked[:1], replace(sampling, seed=1))[0]
    assert [r.text for r in other] != [r.text for r in together[0]]


def test_a_replay_finds_answers_of_another_draw(backend: HFBackend) -> None:
    """That `check_company` can fail: a trial's tokens under another trial's seed, another clip's under this one's."""
    sampling = Sampling(temperature=0.8, max_new_tokens=12)
    asked = requests(2, 2)
    _, tokens = record(backend, asked, sampling)
    (one, other), trials = (r.clip for r in asked), (0, 1)
    for wrong in (
        {(one, t): tokens[one, 1 - t] for t in trials}, {(one, t): tokens[other, t] for t in trials},
    ):  # fmt: skip
        with pytest.raises(AssertionError, match=f"token . of {one}, trial 0 was .* alone"):
            replay(backend, asked[0], sampling, wrong)


def test_each_clip_is_encoded_once_for_all_trials(qwen: HFBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    patches = []
    real = qwen.net.model.visual.forward
    monkeypatch.setattr(qwen.net.model.visual, "forward", lambda x, *a, **k: patches.append(len(x)) or real(x, *a, **k))
    answers = qwen.generate(requests(2, 5), replace(GREEDY, max_new_tokens=3))
    assert sum(patches) == 4 * sum(a[0].vision_tokens for a in answers)
    assert [len(a) for a in answers] == [5, 5]


def test_counts_and_rates_are_those_of_the_prompt(backend: HFBackend) -> None:
    for fps, view in ((4, View("pair")), (8, View()), (3, View("none"))):
        (request,) = requests(1, fps=fps, view=view)
        ((response,),) = backend.generate([request], replace(GREEDY, max_new_tokens=2))
        e = encode_request(request, backend.net, backend.processor)
        assert response.effective_fps == fps
        assert response.vision_tokens == int(e.grid.prod()) // 4
        assert response.prompt_tokens == len(e.ids)
        assert int(e.grid[0, 0]) == -(-int(np.ceil(SIM.clips[0].duration * fps - 1e-6)) // 2)


def test_pixels_are_those_that_the_processor_alone_makes(backend: HFBackend) -> None:
    for request in [*requests(2), *requests(1, view=View("none"))]:
        shown, video = show(request, backend.processor), backend.processor.video_processor
        images = shown.images.transpose(0, 3, 1, 2)
        stock = video([images], size=shown.size, do_sample_frames=False, return_tensors="pt")
        assert torch.equal(stock["pixel_values_videos"], encode_request(request, backend.net, backend.processor).pixels)


def test_a_processor_that_cannot_take_a_video_is_one_error(backend: HFBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend.processor.video_processor, "image_mean", ["x", "y", "z"])
    (request,) = requests(1)
    with pytest.raises(TempolocError, match=rf"{request.clip}: the model's processor does not take it .*_config\.json"):
        backend.generate([request], GREEDY)


def test_qwen3_is_told_the_true_times(tmp_path: Path) -> None:
    net = HFBackend(qwen3(), device="cpu")
    ticks = [0, 3, 4, 12, 20, 21, 40, 41]  # a variable frame rate, in 1/30 s
    video = write_clip(tmp_path / "vfr.mp4", 8, (256, 256), pts=ticks)
    request = Request("t/0", "t", video, ("grasping",), load_prompt("tiny"), 100.0, View("none"))
    text = net.processor.tokenizer.decode(encode_request(request, net.net, net.processor).ids)
    means = [(a + b) / 60 for a, b in zip(ticks[::2], ticks[1::2], strict=True)]
    assert [part.split(" seconds")[0] for part in text.split("<")[1:] if " seconds" in part] == [
        f"{t:.1f}" for t in means
    ]


# --- sampling ---


def test_tokens_are_drawn_as_often_as_they_should_be() -> None:
    """An even grid of draws against the probabilities after temperature and top-p, computed by hand."""
    logits = torch.tensor([0.3, 2.0, -1.0, 1.2, 0.0, -4.0])
    for temperature, top_p in ((1.0, 1.0), (0.6, 0.95), (1.5, 0.8), (0.6, 0.01)):
        chance = (logits / temperature).softmax(-1).numpy()
        order = np.argsort(-chance)
        count = 1 + int((np.cumsum(chance[order]) < top_p).sum())
        expected = np.zeros(6)
        expected[order[:count]] = chance[order[:count]] / chance[order[:count]].sum()
        n = 20_000
        uniform = (torch.arange(n) + 0.5) / n
        tokens = _pick(logits.expand(n, -1), uniform, Sampling(temperature=temperature, top_p=top_p))
        assert np.allclose(np.bincount(tokens.numpy(), minlength=6) / n, expected, atol=2e-4)


def test_the_last_draw_picks_a_token() -> None:
    logits = torch.randn(200, 5000, generator=torch.Generator().manual_seed(0))
    tokens = _pick(logits, torch.full((200,), float(np.nextafter(np.float32(1), np.float32(0)))), Sampling(top_p=0.9))
    assert int(tokens.max()) < 5000


def test_a_row_that_has_ended_stays_ended(qwen: HFBackend) -> None:
    """Ends at tokens that an untrained model says early; the other rows go on."""
    batch = [encode_request(r, qwen.net, qwen.processor) for r in requests(2)]
    sampling = Sampling(temperature=1.0, top_p=1.0, max_new_tokens=20)
    free = generate_tokens(qwen.net, batch, [0, 1], [1, 2], sampling, [], qwen.pad)
    end = int(free[0, 3])
    cut = generate_tokens(qwen.net, batch, [0, 1], [1, 2], sampling, [end], qwen.pad)
    first = int(np.flatnonzero(free[0] == end)[0])
    assert cut[0, : first + 1].tolist() == free[0, : first + 1].tolist()
    assert set(cut[0, first + 1 :].tolist()) <= {qwen.pad}
    stop = np.flatnonzero(free[1] == end)
    kept = int(stop[0]) + 1 if len(stop) else cut.shape[1]
    assert cut[1, :kept].tolist() == free[1, :kept].tolist()


def test_rows_that_have_ended_are_dropped(backend: HFBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others' tokens are those that they would be without: the model is asked for fewer and fewer rows."""
    batch = [encode_request(r, backend.net, backend.processor) for r in requests(2)]
    sampling = Sampling(temperature=1.0, top_p=1.0, max_new_tokens=24, repetition_penalty=1.1)
    rows, seeds = [0] * 4 + [1] * 4, list(range(8))
    free = generate_tokens(backend.net, batch, rows, seeds, sampling, [], backend.pad)
    ends = sorted({int(t) for row, n in zip(free, (2, 3, 4, 6, 9, 9, 12), strict=False) for t in row[n : n + 1]})
    until = [int(np.flatnonzero(np.isin(row, ends))[0]) + 1 if np.isin(row, ends).any() else 24 for row in free]
    asked: list[int] = []
    real = backend.net.forward
    monkeypatch.setattr(backend.net, "forward", lambda *a, **k: asked.append(len(k["input_ids"])) or real(*a, **k))
    cut = generate_tokens(backend.net, batch, rows, seeds, sampling, ends, backend.pad)
    for row, whole, n in zip(cut, free, until, strict=True):
        assert row[:n].tolist() == whole[:n].tolist()
        assert set(row[n:].tolist()) <= {backend.pad}
    steps = asked[2:]  # after the two prompts
    assert steps[0] == 8
    assert steps == sorted(steps, reverse=True)
    assert 8 not in (steps[-1], len(set(steps)))
    assert len(steps) + 1 == max(until)


# --- what cannot be done ---


def test_clips_that_do_not_fit_together_are_asked_in_halves(qwen: HFBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory for one prompt's rows, and for one clip not even that: the others are answered."""
    asked, sizes, real = requests(4, 2), [], generate_tokens

    def small(model: Any, batch: Sequence[Any], *rest: Any) -> Any:
        sizes.append(len(batch))
        if len(batch) > 1 or batch[0].request.clip == asked[2].clip:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return real(model, batch, *rest)

    monkeypatch.setattr(qwen, "batch", 4)
    monkeypatch.setattr("tempoloc_nb.engines.hf.generate_tokens", small)
    answers = {request.clip: answer for request, answer in qwen.stream(asked, replace(GREEDY, max_new_tokens=3))}
    assert sizes == [4, 2, 1, 1, 2, 1, 1]
    assert list(answers) == [r.clip for r in asked]
    error = answers.pop(asked[2].clip)
    assert isinstance(error, TempolocError)
    assert re.search(r"a prompt of \d+ tokens and 2 answers do not fit the GPU's memory: lower", str(error))
    assert all(isinstance(answer, list) and len(answer) == 2 for answer in answers.values())


def test_a_file_stamped_for_the_model_is_read_as_one_stamped_in_memory(tmp_path: Path) -> None:
    sim = load_benchmark("sim")
    clip = sim.with_videos()[8]
    source, target = clip.video_path(sim.root), tmp_path / "stamped.mp4"
    stamp_video(source, target, overlay_options("tempoloc-tiny"))
    memory = Request(clip.clip, clip.task, source, clip.labels, load_prompt("tiny"), 8.0, View("frame"), (0,))
    asked = [memory, replace(memory, clip="file", video=target, view=View("none"))]
    engine = make_engine("hf", "tempoloc-tiny")
    found = {r.clip: a[0] for r, a in engine.stream(asked, Sampling(temperature=0.0, max_new_tokens=400))}
    times = [[e.start for e in parse_answer(a.text, clip.labels, clip.duration).events] for a in found.values()]
    assert found["file"].prompt_tokens == found[clip.clip].prompt_tokens
    assert times[0] == times[1] == pytest.approx(clip.boundaries, abs=0.3)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(qwen25(), tmp_path / "model"))


def test_a_model_that_cannot_be_loaded_is_named_with_a_way_out(folder: Path, tmp_path: Path) -> None:
    def fails(match: str, name: str | Path = folder) -> None:
        with pytest.raises(TempolocError, match=match) as caught:
            HFBackend(name, device="cpu")
        assert "\n" not in str(caught.value)
        assert str(name) in str(caught.value)

    weights, config = folder / "model.safetensors", folder / "config.json"
    whole, values = weights.read_bytes(), json.loads(config.read_text())
    for cut in (whole[:-1], whole[: len(whole) // 2], whole[:100], whole[:4], b"", whole + b"x"):
        weights.write_bytes(cut)
        fails(r"model\.safetensors is (damaged|cut off).*download the model again")
    weights.unlink()
    fails(r"no model\.safetensors: copy or download")
    weights.write_bytes(whole)
    for name in ("tokenizer_config.json", "config.json"):
        kept = (folder / name).read_bytes()
        (folder / name).unlink()
        fails(f"no {name}")
        (folder / name).write_bytes(kept)
    config.write_text(json.dumps(values | {"model_type": "llama"}))
    fails("'llama' is none of qwen2_5_vl, qwen3_vl")
    config.write_text("{")
    fails("is not JSON")
    config.write_text(json.dumps(values))
    for name in ("processor_config.json", "preprocessor_config.json"):
        (folder / name).unlink()
    fails(r"no preprocessor_config\.json")
    fails("no such folder", tmp_path / "absent")


def test_a_clip_that_cannot_be_answered_does_not_stop_the_others(qwen: HFBackend, tmp_path: Path) -> None:
    good, *_ = requests(1)
    bad = {
        "frames": (write_audio(tmp_path / "sound.mp4"), "no video stream"),
        "file": (tmp_path / "absent.mp4", "no such file"),
        "length": (write_clip(tmp_path / "long.mp4", 450, (256, 256), options={"preset": "ultrafast"}), "exceed"),
    }
    asked = [replace(good, clip=f"bad/{k}", video=path, fps=30.0) for k, (path, _) in bad.items()]
    found = list(qwen.stream([asked[0], good, *asked[1:]], GREEDY))
    answers = {request.clip: answer for request, answer in found}
    assert len(answers[good.clip]) == 1
    for key, (_, why) in bad.items():
        error = answers[f"bad/{key}"]
        assert isinstance(error, TempolocError)
        assert why in str(error)
        assert f"bad/{key}" in str(error)
    assert "4096: lower fps, pixels or max_new_tokens" in str(answers["bad/length"])
    with pytest.raises(TempolocError, match="bad/frames"):
        qwen.generate(asked, GREEDY)


# --- the recipe's job ---


def cube(root: Path, count: int) -> Clips:
    """The recipe's first cube-stacking clips, their videos in `root` under the recipe's file names."""
    recipe = load_benchmark("recipe")
    for k in range(count):
        write_clip(root / f"cube_stacking_demo{k}.mp4", 60, (512, 512), seed=k, options={"preset": "ultrafast"})
    clips = tuple(c for c in recipe.clips if c.clip in [f"cube/{k}" for k in range(count)])
    return replace(recipe, tasks={"cube": recipe.tasks["cube"]}, clips=clips)


def test_the_recipes_clips_and_settings_run_end_to_end(backend: HFBackend, tmp_path: Path) -> None:
    benchmark, out = cube(tmp_path, 2), tmp_path / "out" / "p.jsonl"
    sampling = Sampling(0.6, 0.95, 1.15, 20)
    summary = run_backend(
        backend, benchmark, out, fps=8, trials=2, prompt="recipe", sampling=sampling, video_root=tmp_path
    )
    assert (summary.written, summary.failed, summary.missing) == (4, (), ())
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert {(r["clip"], r["trial"]) for r in rows} == {(f"cube/{k}", t) for k in (0, 1) for t in (0, 1)}
    assert {(r["task"], r["backend"], r["fps"], r["effective_fps"]) for r in rows} == {("cube", "hf", 8, 8)}
    assert run_backend(
        backend, benchmark, out, fps=8, trials=2, prompt="recipe", sampling=sampling, video_root=tmp_path
    ).kept == 4  # fmt: skip


def test_the_command_runs_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tempoloc_nb.cli.main import main

    cube(tmp_path, 1)
    out = tmp_path / "p.jsonl"
    arguments = [
        "localize", "--model", str(qwen25()), "--benchmark", "recipe", "--video-root", str(tmp_path), "--fps", "4",
        "--trials", "2", "--stamps", "pair", "--prompt", "tiny", "--max-new-tokens", "8", "-o", str(out),
    ]  # fmt: skip
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
    shown = capsys.readouterr()
    assert "2 predictions written, 0 kept, 59 clips without video" in shown.out
    assert "59 of 60 clips have no video" in shown.err
    assert len(out.read_text().splitlines()) == 2
