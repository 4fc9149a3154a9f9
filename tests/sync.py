"""Notebooks, modules and README in step: checks by default, `--write` regenerates.

A check, not a test: it must see the notebooks as they are committed, before anything else touches them.
"""

from __future__ import annotations

import base64
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "figures" / "00_quickstart" / "found.jpg"


def readme_from_index() -> str:
    """`nbs/index.ipynb` as Markdown: hidden cells left out, directives stripped, links made relative to the root."""
    import nbformat
    from nbconvert import MarkdownExporter

    notebook = nbformat.read(ROOT / "nbs" / "index.ipynb", as_version=4)
    kept = []
    for cell in notebook.cells:
        lines = cell.source.splitlines()
        directives = [line for line in lines if line.startswith("#|")]
        if any("hide" in d for d in directives):
            continue
        cell.source = "\n".join(line for line in lines if not line.startswith("#|"))
        kept.append(cell)
    notebook.cells = kept
    notebook.metadata["language_info"] = {"name": "python"}
    text, _ = MarkdownExporter().from_notebook_node(notebook)
    # The notebook stands in nbs/, the README above it.
    text = re.sub(r"\]\((?!https?:|#|\.\./)", "](nbs/", text).replace("](../", "](").replace('src="../', 'src="')
    text = re.sub(r"\n{3,}", "\n\n", text).strip()
    return "<!-- Written from nbs/index.ipynb by `make export`; edit that. -->\n\n" + text + "\n"


def quickstart_picture() -> bytes:
    """The picture that the README shows first: what the quickstart's first example displays."""
    import nbformat

    notebook = nbformat.read(ROOT / "nbs" / "00_quickstart.ipynb", as_version=4)
    shown = (o.get("data", {}).get("image/jpeg") for c in notebook.cells for o in c.get("outputs", ()))
    return base64.b64decode(next(data for data in shown if data))


def module_names() -> dict[str, list[str]]:
    """Notebook names by the module that they declare with `default_exp`."""
    found: dict[str, list[str]] = {}
    nbs = ROOT / "nbs"
    for path in sorted(nbs.rglob("*.ipynb")):
        if ".ipynb_checkpoints" in path.parts:
            continue
        for name in re.findall(r'"#\| *default_exp +([\w.]+)', path.read_text(encoding="utf-8")):
            found.setdefault(name, []).append(path.relative_to(nbs).as_posix())
    return found


def modules_here() -> set[str]:
    """Exported modules by their dotted names; a package's own module is `package.__init__`."""
    package = ROOT / "tempoloc_nb"
    paths = [p.relative_to(package) for p in package.rglob("*.py") if p.stat().st_size]  # nbdev makes empty __init__
    return {".".join(p.with_suffix("").parts) for p in paths} - {"__init__", "_modidx"}


def problems() -> list[str]:
    """One line for each thing that is out of step."""
    found = []
    declared = module_names()
    for name, notebooks in declared.items():
        if len(notebooks) > 1:
            found.append(f"{' and '.join(notebooks)} both export {name}: one would overwrite the other")
    modules = modules_here()
    found += [f"tempoloc_nb/{m.replace('.', '/')}.py has no notebook" for m in sorted(modules - set(declared))]
    found += [f"{declared[m][0]} was never exported" for m in sorted(set(declared) - modules - {"__init__"})]
    readme = readme_from_index()
    if (ROOT / "README.md").read_text(encoding="utf-8") != readme:
        found.append("README.md differs from nbs/index.ipynb: run `make export`")
    if not PICTURE.is_file() or PICTURE.read_bytes() != quickstart_picture():
        found.append(f"{PICTURE.relative_to(ROOT)} is not the quickstart's picture: run `make export`")
    links = re.findall(r"\]\((?!https?:|#)([^)]+)\)", readme)
    found += [f"README.md links to {link}, which is not there" for link in links if not (ROOT / link).exists()]
    return found + export_differences()


def export_differences() -> list[str]:
    """Files that `nbdev-export` and `nbdev-clean` would change, in a copy of the tree."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        ignore = "cp -r pyproject.toml README.md nbs tempoloc_nb"
        copy.mkdir()
        subprocess.run([*ignore.split(), str(copy)], cwd=ROOT, check=True)
        for command in ("nbdev-export", "nbdev-clean"):
            program = Path(sys.executable).parent / command
            subprocess.run([str(program)], cwd=copy, check=True, capture_output=True)
        changed = []
        for part, pattern in (("nbs", "**/*.ipynb"), ("tempoloc_nb", "**/*.py")):
            paths = {p.relative_to(copy) for p in (copy / part).glob(pattern) if ".ipynb_checkpoints" not in p.parts}
            for path in sorted(paths - {Path("tempoloc_nb/_modidx.py")}):  # which git ignores
                original = ROOT / path
                if not original.is_file() or original.read_bytes() != (copy / path).read_bytes():
                    changed.append(f"{path} is not as exported and cleaned: run `make export`")
        return changed


def main() -> int:
    if "--write" in sys.argv:
        (ROOT / "README.md").write_text(readme_from_index(), encoding="utf-8")
        PICTURE.parent.mkdir(exist_ok=True)
        PICTURE.write_bytes(quickstart_picture())
        return 0
    found = problems()
    for line in found:
        print(line, file=sys.stderr)
    print(f"sync: {len(module_names())} notebooks and modules, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
