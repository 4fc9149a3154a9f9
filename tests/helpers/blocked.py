"""Modules that cannot be imported, as on a machine without them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from places import ROOT

CODE = """
import sys

class Blocked:
    names = {names!r}

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
for name in Blocked.names:
    sys.modules.pop(name, None)
"""


def run_without(
    modules: Iterable[str], code: str, folder: Path, *, setup: str = "", **variables: str
) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of `code` in a fresh Python without `modules`; nor have those that it starts.

    `setup` is code that runs first in each of them.
    """
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(CODE.format(names=set(modules)) + setup, encoding="utf-8")
    paths = os.pathsep.join([str(folder), str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": paths, "HF_HUB_OFFLINE": "1"} | variables,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr
