"""Tests against a real Ray with real vLLM engines: `make test-ray` runs them in the environment of `make test-vllm`."""

from __future__ import annotations

import sys
from pathlib import Path

_tests = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(_tests / "vllm"), str(_tests)]  # wide_models, asking; tiny_models, video_clips

import small_machine  # noqa: E402, F401
