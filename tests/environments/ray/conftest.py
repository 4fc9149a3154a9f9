"""Tests against a real Ray with real vLLM engines: `make test-ray` runs them in the environment of `make test-vllm`."""

from __future__ import annotations

import small_machine  # noqa: F401
