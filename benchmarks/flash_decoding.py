"""Decoding in transformers on a GPU: all prompts at once (flash-attention) beside one prompt after another (float32).

    python benchmarks/flash_decoding.py [--model FOLDER] [--only PART ...] [--output FILE.json]

Four parts; the file is written after each measurement, and a later call adds to it:

- `exactness`: errors of one step's attention on random inputs against float64, in bfloat16 and float16, for the heads
  of tempoloc-tiny, of a 7B and of a Qwen3-VL, with short prompts and with those of a job. Beside them are the errors
  of torch's own attention over copies, whose ratio counts, and whether the check before the first use agrees.
- `tiny`: greedy texts of tempoloc-tiny, in bfloat16 and float32, of both ways and of transformers' own `generate`. It
  is asked one clip at a time; ours answer one clip at a time, and all together. The frame encoder is the same in all.
  In float32 no kernel is used: there `kernel` is false, and `packed` is `separate`.
- `speed`: answers a second, seconds of a step and memory, for jobs of clips × trials. Every answer has `--tokens`
  tokens: none ends. Prompts are made beforehand. Both ways run once unmeasured, then `--repeats` times in turn.
- `margins`: logits of both ways after the same tokens; where their choice differs, how far apart the two best were in
  the float32 way. Beside it the same of a row alone and in a batch, both in that way: rounding that is there anyway.

`speed` and `margins` ask the recipe's question about clips enlarged to squares of `--side`. Without `--model`, the
model is a Qwen2.5-VL of 7 billion parameters with random weights, drawn on the GPU and not written (`random_7b.py`).
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from engine_speed import clips_of, machine, write_all

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.clips.videos import find_videos
from tempoloc_nb.core.files import write_text
from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.inference.requests import plan_requests
from tempoloc_nb.models.ask import AskConfig, Sampling
from tempoloc_nb.models.locate import ask_config
from tempoloc_nb.video.budget import RECIPE_TOTAL_PIXELS

PARTS = ("exactness", "tiny", "speed", "margins")
WAYS = ("separate", "packed")
HEADS = {"tempoloc-tiny": ((4, 2), 64), "7B": ((28, 4), 128), "Qwen3-VL-8B": ((32, 8), 128), "size 32": ((8, 4), 32)}
LAYOUTS = {  # (prompts' lengths, trials, tokens of an answer)
    "check": ((300, 65, 128), (3, 1, 2), 5), "one prompt": ((6000,), (10,), 100), "one row": ((6000,), (1,), 1),
    "job": (tuple(range(4000, 7000, 200)), (10,) * 15, 100),
}  # fmt: skip
FIRST = 4  # tokens of the unmeasured run

device = "cuda"  # a test may say cpu


@contextmanager
def way(name: str) -> Iterator[None]:
    """Let prompts be attended to `separate` or `packed`, where packed can be."""
    from tempoloc_nb.engines import decoding

    kernel: Callable[[Any], Any] = (lambda model: None) if name == "separate" else decoding.flash_kernel
    with patch.object(decoding, "flash_kernel", kernel):
        yield


class Found:
    """What was measured, in a file that is written after each addition."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.parts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}

    def put(self, part: str, name: str, value: Any) -> None:
        self.parts.setdefault(part, {})[name] = value
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_text(self.path, json.dumps(self.parts) + "\n")
        print(f"{part}: {name}: {json.dumps(value)}", flush=True)


# --- exactness ---


def exactness(found: Found) -> bool:
    """Errors of the three ways, and whether the check agrees for all; heads of each model in both precisions."""
    import torch

    from tempoloc_nb.engines import prefix_cache

    agreed = True
    kernel, place = torch.ops.aten._flash_attention_forward, torch.device(device)
    for dtype in (torch.bfloat16, torch.float16):
        for name, (heads, size) in HEADS.items():
            fault = prefix_cache._fault(kernel, place, dtype, heads, size)
            agreed &= fault is None
            rows: dict[str, Any] = {"check": fault or "agrees"}
            for layout, (lengths, trials, answer) in LAYOUTS.items():
                try:
                    errors = prefix_cache.attention_errors(kernel, place, dtype, heads, size, lengths, trials, answer)
                except Exception as error:  # the other measurements are worth having
                    rows[layout] = f"{type(error).__name__}: {error}"[:300]
                    continue
                ratios = [round(a / b, 2) for a, b in zip(errors["packed"], errors["sdpa"], strict=True)]
                shown = {way: [float(f"{x:.3g}") for x in pair] for way, pair in errors.items()}
                rows[layout] = {"largest_and_rms_error": shown, "packed_by_sdpa": ratios}
            found.put("exactness", f"{name} {heads} × {size} {str(dtype).removeprefix('torch.')}", rows)
    return agreed


# --- tempoloc-tiny beside generate ---


def generated(net: Any, backend: Any, requests: Sequence[Any], sampling: Sampling) -> list[str]:
    """Greedy texts of transformers' own `generate`, a clip at a time, with the positions that it computes."""
    import torch

    from tempoloc_nb.engines.hf import encode_request

    texts = []
    for request in requests:
        e = encode_request(request, net, backend.processor, backend.total_pixels)
        ids = torch.from_numpy(e.ids)[None].to(net.device)
        with torch.inference_mode():
            made = net.generate(
                input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False, eos_token_id=backend.ends,
                mm_token_type_ids=2 * (ids == net.config.video_token_id).int(), pad_token_id=backend.pad,
                pixel_values_videos=e.pixels.to(net.device, net.dtype), video_grid_thw=e.grid.to(net.device),
                second_per_grid_ts=torch.tensor([2 / e.fps]), max_new_tokens=sampling.max_new_tokens,
                repetition_penalty=sampling.repetition_penalty,
            )[0, ids.shape[1] :]  # fmt: skip
        texts.append(backend.processor.tokenizer.decode(made, skip_special_tokens=True))
    return texts


def difference(ours: Sequence[str], theirs: Sequence[str]) -> dict[str, Any]:
    """How many texts are equal, and the first character at which each of the others differs."""
    first = [next((i for i, (a, b) in enumerate(zip(x, y, strict=False)) if a != b), min(len(x), len(y)))
             for x, y in zip(ours, theirs, strict=True) if x != y]  # fmt: skip
    return {"equal": len(ours) - len(first), "of": len(ours), "first_difference_at": first}


def tiny(found: Found, count: int) -> None:
    """Greedy texts of both ways and of `generate`, in both precisions."""
    from tempoloc_nb.engines.frame_attention import use_batched_vision_attention
    from tempoloc_nb.engines.hf import HFBackend
    from tempoloc_nb.engines.prefix_cache import flash_kernel
    from tempoloc_nb.models.locate import load_model

    folder = data_dir() / "models" / "tempoloc-tiny"
    ask = replace(ask_config("tempoloc-tiny"), trials=1)
    greedy = replace(ask.sampling, temperature=0.0)
    benchmark = load_benchmark("sim")
    benchmark = replace(benchmark, clips=benchmark.with_videos()[:count])
    requests = plan_requests(benchmark, find_videos(benchmark), ask)
    for dtype in ("float32", "bfloat16"):
        net, _, _ = load_model(folder, device, dtype)
        use_batched_vision_attention(net)
        backend = HFBackend(folder, device=device, dtype=dtype, batch=1, total_pixels=RECIPE_TOTAL_PIXELS)
        texts = {"generate": generated(net, backend, requests, greedy)}
        for name in WAYS:
            for label, batch in (("alone", 1), ("together", len(requests))):
                backend.batch = batch
                with way(name):
                    texts[f"{name} {label}"] = [a[0].text for a in backend.generate(requests, greedy)]
        rows = {name: difference(texts[name], texts["generate"]) for name in texts if name != "generate"}
        labels = ("alone", "together")
        pairs = {label: difference(texts[f"packed {label}"], texts[f"separate {label}"]) for label in labels}
        found.put("tiny", dtype, {
            "kernel": flash_kernel(backend.net) is not None, "beside_generate": rows, "packed_beside_separate": pairs,
            "separate_alone_beside_together": difference(texts["separate alone"], texts["separate together"]),
            "example": texts["generate"][0],
        })  # fmt: skip


# --- a large model ---


def random_7b(folder: Path) -> tuple[Any, Any, str]:
    """A 7B model with random weights on the GPU, what reads its prompts, and a name for its revision."""
    import torch
    from random_7b import main as write_folder

    from tempoloc_nb.core.optional import import_transformers

    transformers = import_transformers()
    write_folder(folder, False, None)
    with torch.device(device):
        config = transformers.AutoConfig.from_pretrained(folder)
        net = transformers.AutoModelForImageTextToText.from_config(config, dtype=torch.bfloat16)
    return net.to(device).eval(), transformers.AutoProcessor.from_pretrained(folder), "random"


def large(folder: Path | None, work: Path) -> Any:
    """The back end of a folder's model, or of a random 7B."""
    from tempoloc_nb.engines import hf

    options = {"device": device, "dtype": "bfloat16", "total_pixels": RECIPE_TOTAL_PIXELS}
    if folder is not None:
        return hf.HFBackend(folder, **options)
    with patch.object(hf, "load_model", lambda *given: random_7b(work / "random-7b")):
        return hf.HFBackend(work / "random-7b", title="random 7B", **options)


def prompts(backend: Any, count: int, side: int, work: Path) -> list[Any]:
    """So many clips' prompts as tensors, made beforehand."""
    from tempoloc_nb.engines.hf import encode_request

    benchmark = clips_of(count)
    write_all([(source, work / f"{clip}.mp4", False) for clip, source in find_videos(benchmark).items()], side)
    requests = plan_requests(benchmark, find_videos(benchmark, work), AskConfig(fps=8))
    return [encode_request(r, backend.net, backend.processor, RECIPE_TOTAL_PIXELS) for r in requests]


def wait() -> float:
    """Seconds of a clock, when the GPU has done what it was given."""
    import torch

    if device == "cuda":
        torch.cuda.synchronize()
    return time.monotonic()


def job(backend: Any, batch: Sequence[Any], trials: int, tokens: int) -> dict[str, Any]:
    """One run: seconds of it and of reading the prompts within it, and the GPU's memory at most."""
    import torch

    from tempoloc_nb.engines import decoding

    rows = [i for i, _ in enumerate(batch) for _ in range(trials)]
    read: list[float] = []
    prefill = decoding._prefill

    def timed(*given: Any) -> Any:
        began = wait()
        state = prefill(*given)
        read.append(wait() - began)
        return state

    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    with patch.object(decoding, "_prefill", timed):
        began = wait()
        made = decoding.generate_tokens(
            backend.net, batch, rows, list(range(len(rows))), Sampling(0.6, 0.95, 1.15, tokens), [], backend.pad
        )
        seconds = wait() - began
    assert made.shape == (len(rows), tokens), made.shape
    memory = torch.cuda.max_memory_allocated() if device == "cuda" else 0
    return {"seconds": seconds, "prefill": read[0], "memory": memory}


def speed(found: Found, backend: Any, ready: Sequence[Any], options: argparse.Namespace) -> None:
    """Both ways in turn, for each job."""
    for shape in options.jobs:
        clips, trials = (int(n) for n in shape.split("x"))
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in WAYS}
        for name in WAYS:
            with way(name):
                job(backend, ready[:clips], trials, FIRST)
        for _ in range(options.repeats):
            for name in WAYS:
                with way(name):
                    runs[name].append(job(backend, ready[:clips], trials, options.tokens))
                row = {}
                for each in (n for n in WAYS if runs[n]):
                    seconds, first = (median(r[k] for r in runs[each]) for k in ("seconds", "prefill"))
                    row[each] = {
                        "answers_a_second": round(clips * trials / seconds, 3), "seconds": round(seconds, 3),
                        "prefill_seconds": round(first, 3),
                        "step_ms": round(1000 * (seconds - first) / max(1, options.tokens - 1), 2),
                        "memory_gib": round(max(r["memory"] for r in runs[each]) / 2**30, 2),
                        "seconds_of_repeats": [round(r["seconds"], 3) for r in runs[each]],
                    }  # fmt: skip
                found.put("speed", f"{clips} clips × {trials} trials × {options.tokens} tokens", row)


# --- margins ---


def forced(backend: Any, batch: Sequence[Any], rows: Sequence[int], tokens: Any) -> Any:
    """(steps + 1, rows, vocabulary) logits, on the processor, after each of `tokens` (steps, rows)."""
    import torch

    from tempoloc_nb.engines import decoding

    with torch.inference_mode():
        state = decoding._prefill(backend.net, batch, rows, Sampling(0.0))
        logits = [state.logits.float().cpu()]
        for token in tokens:
            logits.append(decoding._step(backend.net, state, token.to(device)).float().cpu())
    return torch.stack(logits)


def apart(found: Any, wanted: Any) -> dict[str, Any]:
    """How far logits are from `wanted`, how often the choice is the same, and the wanted's margins where it is not."""
    off = (found - wanted).abs()
    best = wanted.topk(2, dim=-1).values
    gap = (best[..., 0] - best[..., 1]).flatten()
    other = (found.argmax(-1) != wanted.argmax(-1)).flatten()
    margins = sorted((round(float(x), 4) for x in gap[other]), reverse=True)
    return {
        "largest_difference": round(float(off.max()), 4), "mean_difference": round(float(off.mean()), 5),
        "spread_of_logits": round(float(wanted.std()), 3), "choices": len(gap), "other_choices": len(margins),
        "margins_there": margins[:20], "median_margin": round(float(gap.median()), 4),
    }  # fmt: skip


def margins(found: Found, backend: Any, ready: Sequence[Any], steps: int) -> None:
    """Logits after the same tokens: those that the float32 way draws from fixed seeds, so that rows differ."""
    import torch

    from tempoloc_nb.engines import decoding

    batch, rows = ready[:4], [i for i, _ in enumerate(ready[:4]) for _ in range(2)]
    with way("separate"):
        sampling = Sampling(0.6, 0.95, 1.0, steps)
        drawn = decoding.generate_tokens(backend.net, batch, rows, list(range(len(rows))), sampling, [], backend.pad)
        tokens = torch.from_numpy(drawn).T
        wanted = forced(backend, batch, rows, tokens)
        alone = forced(backend, batch[:1], [0], tokens[:, :1])
    with way("packed"):
        ours = forced(backend, batch, rows, tokens)
    # the prompts' own logits are those of one reading, equal in all
    found.put("margins", f"{len(rows)} rows × {steps} tokens", {
        "packed_beside_separate": apart(ours[1:], wanted[1:]),
        "separate_alone_beside_batch": apart(alone[1:], wanted[1:, :1]),
        "packed_beside_separate_same_row": apart(ours[1:, :1], wanted[1:, :1]),
    })  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a model's folder, for speed and margins")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART")
    parser.add_argument("--jobs", nargs="+", default=["15x10", "1x1", "1x10"], metavar="CLIPSxTRIALS")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--side", type=int, default=512)
    parser.add_argument("--tiny-clips", type=int, default=12)
    parser.add_argument("--steps", type=int, default=60, help="tokens of the rows whose margins are measured")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/flash_decoding.json"))
    options = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        raise SystemExit("flash_decoding.py measures on a GPU, and torch finds none here")
    measure(options, Found(options.output))


def measure(options: argparse.Namespace, found: Found) -> None:
    """The parts that are wanted, in order; the seconds of each."""
    from tempoloc_nb.engines.prefix_cache import flash_kernel

    began = time.monotonic()

    def done(part: str) -> None:
        nonlocal began
        found.put("seconds", part, round(time.monotonic() - began, 1))
        began = time.monotonic()

    found.put("machine", "here", machine())
    if "exactness" in options.only:
        agreed = exactness(found)
        done("exactness")
        if not agreed:
            print("the check refuses the kernel for some heads (see above)", flush=True)
    if "tiny" in options.only:
        tiny(found, options.tiny_clips)
        done("tiny")
    if not {"speed", "margins"} & {*options.only}:
        return
    with TemporaryDirectory(prefix="flash-decoding-") as name:
        backend = large(options.model, Path(name))
        if device == "cuda" and flash_kernel(backend.net) is None:
            raise SystemExit("the kernel is refused for this model: there is nothing to compare")
        count = max(4, *(int(shape.split("x")[0]) for shape in options.jobs))
        ready = prompts(backend, count, options.side, Path(name) / "videos")
        lengths = [len(e.ids) for e in ready]
        model = {"name": str(backend.model), "prompt_tokens": lengths, "settings": backend.settings()}
        found.put("machine", "model", model)
        done("model and prompts")
        if "margins" in options.only:
            margins(found, backend, ready, options.steps)
            done("margins")
        if "speed" in options.only:
            speed(found, backend, ready, options)
            done("speed")


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    main()
