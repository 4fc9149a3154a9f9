"""One release of transformers against the pinned one: `make test-transformers` runs this with the lowest, the pinned
and the newest. Untrained models of both families are made by the pinned release, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import ill_engines as ill
import numpy as np
import pytest
from asking import requests
from places import HELPERS, ROOT
from replay import replay
from sizes_7b import SIZES, clip_request, tokens_made
from version_facts import FAMILIES, GREEDY, measure

from tempoloc_nb.core.optional import import_transformers
from tempoloc_nb.engines import hf
from tempoloc_nb.engines.doctor import examine
from tempoloc_nb.engines.hf import HFBackend
from tempoloc_nb.engines.qwen import TESTED, check_version, show
from tempoloc_nb.models.locate import ask_config

VERSION: str = import_transformers().__version__
NUMBERS = tuple(map(int, VERSION.split(".")[:2]))
pytestmark = pytest.mark.filterwarnings("error:.past_key_values:FutureWarning")  # a user would see it at each start


def test_the_release_is_one_of_those_named(capsys: pytest.CaptureFixture[str]) -> None:
    pinned = (ROOT / "constraints" / "core.txt").read_text()
    assert VERSION in TESTED["transformers"] or f"\ntransformers=={VERSION}\n" in pinned
    check_version("transformers", VERSION)
    with capsys.disabled():
        print(f"\ntransformers {VERSION} from {Path(import_transformers().__file__).parent}")


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models, and what the pinned release makes of a clip."""
    out = tmp_path_factory.mktemp("pinned")
    program = [sys.executable, str(HELPERS / "version_facts.py"), str(out)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, HELPERS)))}
    done = subprocess.run(program, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return out


@cache
def backend_of(folder: Path) -> HFBackend:
    return HFBackend(folder, device="cpu")


@cache
def facts_of(folder: Path) -> dict[str, Any]:
    return measure(backend_of(folder))


def need_equal_prompts(family: str) -> None:
    if family == "qwen3" and NUMBERS < (5, 10):
        pytest.skip(f"transformers {VERSION} writes no vision tokens around a whole video: see the test of that")


@pytest.mark.parametrize("family", FAMILIES)
def test_tokens_positions_pixels_and_logits_are_those_of_the_pinned_release(made: Path, family: str) -> None:
    need_equal_prompts(family)
    found, pinned = facts_of(made / family), np.load(made / f"{family}.npz")
    assert f"\ntransformers=={pinned['version']}\n" in (ROOT / "constraints" / "core.txt").read_text()
    for name in ("ids", "positions", "grid"):
        assert np.array_equal(found[name], pinned[name]), name
    assert np.allclose(found["pixels"], pinned["pixels"], atol=1e-4)
    assert np.allclose(found["logits"], pinned["logits"], atol=1e-4, rtol=1e-4)
    assert np.abs(found["logits"]).max() > 0.05  # the comparison is not of zeros


@pytest.mark.parametrize("family", FAMILIES)
def test_a_greedy_answer_is_that_of_the_pinned_release(made: Path, family: str) -> None:
    need_equal_prompts(family)
    pinned = np.load(made / f"{family}.npz")["tokens"].tolist()
    (request,) = requests(1, fps=8)
    (answer,) = replay(backend_of(made / family), request, GREEDY, {(request.clip, 0): pinned})
    assert answer.completion_tokens == len(pinned) > 1


def test_where_the_models_own_positions_differ_from_ours(made: Path) -> None:
    """The table in the notebook of engines.qwen: what a release rounds, and where its text goes on after a video."""
    found, net = facts_of(made / "qwen25"), backend_of(made / "qwen25").net
    ours, stock = found["positions"], found["stock"]
    inside = np.flatnonzero(found["ids"] == net.config.video_token_id)
    first, last = inside[0], inside[-1]
    pairs, rows, columns = found["grid"][0] // (1, 2, 2)
    rate = net.config.vision_config.tokens_per_second / 4  # ids a frame pair at 8 fps
    times = ours[0, inside].reshape(pairs, rows * columns)[:, 0] - first
    assert times.tolist() == [int(k * rate) for k in range(pairs)]
    assert ours[0, last + 1] == ours[:, : last + 1].max() + 1
    rounds, side = NUMBERS < (5, 18), NUMBERS >= (5, 3)
    assert np.array_equal(stock[:, inside], ours[:, inside]) == (not rounds)
    assert len(set(stock[0, inside])) == (1 if rounds else len(set(times.tolist())))
    begins = max(rows, columns) if side else stock[:, : last + 1].max() + 1 - first
    assert stock[0, last + 1] - first == begins


def test_qwen3_has_the_same_positions_everywhere(made: Path) -> None:
    found = facts_of(made / "qwen3")
    assert np.array_equal(found["positions"], found["stock"])


def test_a_qwen3_prompt_has_vision_tokens_around_each_pair_and_perhaps_around_all(made: Path) -> None:
    """Up to 5.3 the video's own two tokens are replaced with it, later they stay; nothing else differs."""
    found, pinned = facts_of(made / "qwen3"), np.load(made / "qwen3.npz")
    config = backend_of(made / "qwen3").net.config
    edges = [config.vision_start_token_id, config.vision_end_token_id]
    first, last = (np.flatnonzero(pinned["ids"] == token)[k] for token, k in zip(edges, (0, -1), strict=True))
    without = np.delete(pinned["ids"], [first, last])
    assert np.array_equal(found["ids"], pinned["ids"] if NUMBERS >= (5, 10) else without)
    assert np.allclose(found["pixels"], pinned["pixels"], atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("n", "size"), [(70, (512, 512)), (9, (640, 360)), (24, (96, 128))])
def test_frames_become_the_tokens_that_our_rule_says(
    made: Path, family: str, n: int, size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processor = backend_of(made / family).processor
    monkeypatch.setattr(processor.video_processor, "size", SIZES[family])
    for total in (None, 6_422_528):
        shown = show(clip_request(tmp_path, n, size), processor, total)
        assert tokens_made(shown, processor) == (shown.pairs, shown.vision_tokens)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_doctor_finds_nothing_but_what_is_planted(made: Path, family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    way, backend = ask_config("tempoloc-tiny").changed(fps=4), backend_of(made / family)
    assert examine(backend, made / family, way).faults == ()
    sick = ill.plant(ill.without_metadata, hf, backend, monkeypatch)
    assert examine(sick, made / family, way).faults == ("seconds a pair",)


def test_the_doctor_knows_the_releases_own_positions(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """5.18 repaired the seconds; from 5.3 on the text begins by a frame's side, which rounded seconds hide."""
    backend, way = backend_of(made / "qwen25"), ask_config("tempoloc-tiny").changed(fps=4)
    (note,) = (f for f in examine(backend, made / "qwen25", way).findings if f.severity == "note")
    assert note.check == "plain transformers"
    monkeypatch.setattr(backend, "stock", True)
    faults = examine(backend, made / "qwen25", way).faults
    assert faults == (("seconds a pair",) if NUMBERS < (5, 18) else ("text begins",))
