"""Optional libraries: what is missing, and what brings it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from places import ROOT

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.optional import EXTRAS, import_optional


def test_what_is_there_is_given() -> None:
    assert import_optional("pandas.api").__name__ == "pandas.api"


BROUGHT = {"huggingface_hub": "datasets", "pyarrow": "datasets", "yaml": "pyyaml"}  # library: what brings it


def test_every_library_is_in_its_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for library, extra in EXTRAS.items():
        assert any(line.startswith(BROUGHT.get(library, library)) for line in extras[extra])


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        (None, {}, "vllm is not installed: pip install 'tempoloc_nb[vllm]'"),
        (None, {"need": "the engine", "way": ", or choose hf"},
         "vllm is not installed, which the engine needs: pip install 'tempoloc_nb[vllm]', or choose hf"),
        ("import absent_lib", {}, "absent_lib is not installed, which vllm needs: pip install 'tempoloc_nb[vllm]'"),
        ("raise ImportError('libcuda.so: no such file\\nmore')", {},
         "vllm cannot be imported (libcuda.so: no such file): pip install 'tempoloc_nb[vllm]'"),
    ],
)  # fmt: skip
def test_what_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, options: dict[str, str], said: str
) -> None:
    monkeypatch.delitem(__import__("sys").modules, "vllm", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    if text is not None:
        (tmp_path / "vllm.py").write_text(text)
    with pytest.raises(TempolocError) as told:
        import_optional("vllm", **options)
    assert str(told.value) == said
