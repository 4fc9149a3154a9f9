"""Commands where a library is not installed: one line that says how to get it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from blocked import run_without

from tempoloc_nb.video.files import encode

FILE = """
[train]
output_dir = "out"
"""


@pytest.mark.parametrize(
    ("module", "command", "extra"),
    [
        ("pandas", "study --plan", "study"),
        ("papermill", "study --only 01", "study"),
        ("anyio", "dataset caption videos -o c --server http://127.0.0.1:9", "server"),
        ("httpx", "dataset caption videos -o c --server http://127.0.0.1:9", "server"),
        ("torch", "sft launch sft.toml --engine transformers", "hf"),
        ("torch", "find videos/a.mp4 -e x", "hf"),
        ("torch", "tiny train base --store x -o y", "hf"),
        ("pyarrow", "dataset stats built", "data"),
        ("robosuite", "simulate --task lift -o z", "sim"),
        ("vllm", "localize --model tempoloc-tiny --benchmark sim --backend vllm -o p.jsonl", "vllm"),
        ("starlette", "serve --port 0", "serve"),
        ("uvicorn", "serve --port 0", "serve"),
        ("ray", "localize --model tempoloc-tiny --benchmark sim --backend ray -o p.jsonl", "ray"),
    ],
)
def test_what_is_missing_is_said_in_a_line(tmp_path: Path, module: str, command: str, extra: str) -> None:
    (tmp_path / "videos").mkdir()
    encode(tmp_path / "videos" / "a.mp4", np.zeros((4, 32, 48, 3), np.uint8), fps=4)
    (tmp_path / "sft.toml").write_text(FILE, encoding="utf-8")
    (tmp_path / "built" / "train").mkdir(parents=True)
    code = f"from tempoloc_nb.cli.main import main; main({command.split()!r})"
    status, out, err = run_without([module], code, tmp_path)
    assert (status, out) == (1, "")
    *before, last = err.splitlines()
    assert module in last
    assert last.endswith(f"pip install 'tempoloc_nb[{extra}]'") or f"pip install 'tempoloc_nb[{extra}]' into" in last
    assert not before or before == ["tempoloc: loading tempoloc-tiny"]
