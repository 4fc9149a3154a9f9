"""Validation prompts become structured captions: all of them, or none."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.formats.captions import _PROMPT_FOLDERS, rewrite_prompts

CAPTION = {"background_setting": "a café", "actions": [{"time": "0:01-0:02", "description": "an arm stirs"}], "fps": 5}


@pytest.fixture
def val(tmp_path: Path) -> Path:
    """Two episodes with prompts in all three folders, and their captions."""
    for episode in ("ep0", "ep1"):
        (tmp_path / "captions" / episode).mkdir(parents=True)
        (tmp_path / "captions" / episode / "caption.json").write_text(json.dumps({**CAPTION, "context": episode}))
        for folder in _PROMPT_FOLDERS:
            (tmp_path / folder).mkdir(exist_ok=True)
            (tmp_path / folder / f"{episode}.json").write_text(json.dumps(prompt(folder, episode)))
    return tmp_path


def prompt(folder: str, episode: str) -> dict[str, Any]:
    said = {"name": f"{folder}/{episode}", "prompt": "An arm stirs.", "resolution": "256", "aspect_ratio": "1,1"}
    return said | {"num_frames": 85, "fps": 5} | ({} if folder == _PROMPT_FOLDERS[0] else {"vision_path": "../x.jpg"})


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_prompts_become_captions_and_the_rest_stays(val: Path) -> None:
    done = rewrite_prompts(val)
    assert (len(done.changed), len(done.same)) == (6, 0)
    for folder in _PROMPT_FOLDERS:
        for episode in ("ep0", "ep1"):
            found = json.loads((val / folder / f"{episode}.json").read_text())
            before = prompt(folder, episode)
            assert list(found) == list(before)
            # their loader serialises a caption just so, and the prompt has to be the same text
            assert found.pop("prompt") == json.dumps({**CAPTION, "context": episode}, ensure_ascii=False)
            assert found == {k: v for k, v in before.items() if k != "prompt"}


def test_a_second_time_changes_nothing(val: Path) -> None:
    rewrite_prompts(val)
    before = contents(val)
    done = rewrite_prompts(val)
    assert (len(done.changed), len(done.same)) == (0, 6)
    assert contents(val) == before


def test_a_dry_run_writes_nothing(val: Path) -> None:
    before = contents(val)
    done = rewrite_prompts(val, dry_run=True)
    assert str(done) == "6 prompts would be rewritten, 0 have their structured caption already"
    assert contents(val) == before


def test_captions_elsewhere_and_one_folder_alone(val: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("elsewhere") / "captions"
    os.replace(val / "captions", other)
    for folder in _PROMPT_FOLDERS[1:]:
        for path in (val / folder).iterdir():
            path.unlink()
    assert len(rewrite_prompts(val, other).changed) == 2


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("captions/ep1/caption.json", None, r"3 of 6 .* none was: cannot read .*captions/ep1/caption\.json: No such"),
        ("captions/ep1/caption.json", "{", r"3 of 6 .*/captions/ep1/caption\.json is not JSON"),
        ("captions/ep1/caption.json", "[]", r"captions/ep1/caption\.json is not a JSON object"),
        ("captions/ep1/caption.json", "{}", r"captions/ep1/caption\.json is empty"),
        ("inference_prompt_v2v/ep1.json", "{", r"1 of 6 .*/inference_prompt_v2v/ep1\.json is not JSON"),
        ("inference_prompt_v2v/ep1.json", '{"name": "x"}', r"inference_prompt_v2v/ep1\.json lacks 'prompt'"),
        ("inference_prompt_v2v/ep1.json", '{"prompt": 3}', r"inference_prompt_v2v/ep1\.json: prompt = 3 is not text"),
        ("inference_prompt_v2v/ep9.json", '{"prompt": "x"}', r"1 of 7 .* cannot read .*captions/ep9/caption\.json"),
    ],
)
def test_what_is_wrong_with_one_stops_all(path: str, text: str | None, message: str, val: Path) -> None:
    if text is None:
        (val / path).unlink()
    else:
        (val / path).write_text(text)
    before = contents(val)
    for dry_run in (True, False):
        with pytest.raises(TempolocError, match=message) as error:
            rewrite_prompts(val, dry_run=dry_run)
        assert "\n" not in str(error.value)
        assert contents(val) == before


def test_a_folder_without_prompts_is_named(tmp_path: Path) -> None:
    with pytest.raises(TempolocError, match="has no prompts: inference_prompt, "):
        rewrite_prompts(tmp_path)
