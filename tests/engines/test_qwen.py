"""What Qwen-VL models are told: sizes of the published models, tested versions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sizes_7b import SIZES, clip_request, tokens_made
from tiny_models import qwen3, qwen25

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.optional import import_transformers
from tempoloc_nb.engines import qwen
from tempoloc_nb.engines.qwen import TESTED, Shown, check_version, fit, show
from tempoloc_nb.engines.vllm_offline import vllm_prompt
from tempoloc_nb.video.view import View

FAMILIES = {"qwen25": qwen25, "qwen3": qwen3}


@pytest.fixture(scope="module", params=list(FAMILIES))
def processor(request: pytest.FixtureRequest) -> Any:
    """A processor with the sizes of the published models."""
    made = import_transformers().AutoProcessor.from_pretrained(FAMILIES[request.param]())
    made.video_processor.size = SIZES[request.param]
    return made


@pytest.mark.parametrize("total", [None, 6_422_528])
@pytest.mark.parametrize(("n", "size"), [(70, (512, 512)), (9, (640, 360)), (24, (96, 128)), (2, (1280, 720))])
def test_frames_become_the_tokens_that_our_rule_says(
    processor: Any, n: int, size: tuple[int, int], total: int | None, tmp_path: Path
) -> None:
    """At the sizes of a model of 7 billion parameters, where untrained ones would not show a mistake."""
    shown = show(clip_request(tmp_path, n, size), processor, total)
    assert tokens_made(shown, processor) == (shown.pairs, shown.vision_tokens)
    assert shown.pairs == (n + 1) // 2


@pytest.mark.parametrize("total", [None, 6_422_528, 100_000])  # at last: less than a frame's least
@pytest.mark.parametrize(("n", "size"), [(16, (512, 512)), (9, (640, 360)), (24, (96, 128)), (2, (1280, 720))])
def test_fitted_frames_give_a_processor_the_same_numbers(
    processor: Any, n: int, size: tuple[int, int], total: int | None, tmp_path: Path
) -> None:
    shown = show(clip_request(tmp_path, n, size), processor, total)
    fitted = fit(shown, processor)
    assert fit(fitted, processor) is fitted

    def numbers(clip: Shown) -> Any:
        made = processor.video_processor(
            [clip.images.transpose(0, 3, 1, 2)], size=clip.size, do_sample_frames=False, return_tensors="pt"
        )
        return made["pixel_values_videos"], made["video_grid_thw"].tolist()

    (theirs, grid), (ours, same) = numbers(shown), numbers(fitted)
    assert grid == same
    assert bool((theirs == ours).all())


def test_a_clip_of_the_recipe_as_vllm_takes_it(tmp_path: Path) -> None:
    """35 pairs of 512×512 and a stamp: 18 × 19 tokens each, and 14 × 15 of the recipe's 6,422,528 pixels."""
    processor = import_transformers().AutoProcessor.from_pretrained(qwen25())
    processor.video_processor.size = SIZES["qwen25"]
    request = clip_request(tmp_path, 70, (512, 512), View("pair"))
    assert show(request, processor, 6_422_528).vision_tokens == 35 * 14 * 15
    shown = show(request, processor)
    assert (shown.pairs, shown.vision_tokens) == (35, 35 * 18 * 19)
    prompt = vllm_prompt(shown)
    assert prompt["mm_processor_kwargs"] == {"do_sample_frames": False, "size": SIZES["qwen25"]}
    ((images, metadata),) = prompt["multi_modal_data"]["video"]
    assert (len(images), metadata["fps"], metadata["total_num_frames"]) == (70, 8.0, 70)


def test_releases_that_are_too_old_or_new_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    for name, (lowest, newest) in TESTED.items():
        library, _, beside = name.partition(" ")
        check_version(name, lowest)
        check_version(name, newest)
        check_version(name, f"{newest}+cpu")
        assert capsys.readouterr().err == ""
        for _ in range(2):
            check_version(name, "99.0.1")
        told = f"tempoloc: {library} 99.0.1 is newer than {newest}, the last that was tested {beside}".strip()
        assert capsys.readouterr().err == f"{told}\n"
    with pytest.raises(TempolocError, match=r"transformers 4\.49\.0 is too old: pip install 'transformers>=4\.57\.1'"):
        check_version("transformers", "4.49.0")
    with pytest.raises(TempolocError, match=r"transformers 5\.2\.0 is too old beside vllm: pip install"):
        check_version("transformers beside vllm", "5.2.0")


def test_an_old_transformers_stops_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    class Old:
        __version__ = "4.50.1"

    monkeypatch.setattr(qwen, "import_transformers", Old)
    with pytest.raises(TempolocError, match=r"transformers 4\.50\.1 is too old"):
        qwen.tested_transformers()
