"""What the study notebooks define, without running them."""

from __future__ import annotations

import ast
import json
from types import SimpleNamespace

from places import ROOT


def study_functions(number: str) -> SimpleNamespace:
    """The functions of a study (by its number), with what its cells import and its constants in capitals."""
    (path,) = (ROOT / "nbs" / "studies").glob(f"{number}_*.ipynb")
    cells = [c for c in json.loads(path.read_text(encoding="utf-8"))["cells"] if c["cell_type"] == "code"]
    kept: list[ast.stmt] = []
    for source in ("".join(c["source"]) for c in cells):
        for node in ast.parse(source).body if not source.startswith("%%") else []:
            first = node.targets[0] if isinstance(node, ast.Assign) else None
            names = first.elts if isinstance(first, ast.Tuple) else [first]
            named = all(isinstance(name, ast.Name) and name.id.isupper() for name in names)
            if named or isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef):
                kept.append(node)
    defined: dict[str, object] = {}
    exec(compile(ast.Module(kept, []), path.name, "exec"), defined)
    return SimpleNamespace(**defined)
