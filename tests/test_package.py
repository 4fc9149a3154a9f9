"""The package as others use it: light to import, complete when installed, small in the repository."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.version import Version

import tempoloc_nb

ROOT = Path(__file__).resolve().parent.parent
HEAVY = (
    "torch", "vllm", "ray", "transformers", "datasets", "robosuite", "mujoco", "h5py", "pandas", "matplotlib",
    "IPython",
)  # fmt: skip
# Tables and figures are what these are for.
PLOTTING = ("study.", "lab.study.", "lab.tiny.plan", "core.plots", "scoring.evaluation")
MODEL = "tempoloc_nb.engines.light"  # a class of torch's, imported where a folder is loaded; the last of all


def imported_by(*modules: str) -> dict[str, set[str]]:
    """What each of these modules brings with it, imported one after the other in one process."""
    code = "import sys\nfor name in sys.argv[1:]:\n    before = set(sys.modules); __import__(name)\n"
    code += "    print(name, *(set(sys.modules) - before))"
    command = [sys.executable, "-c", code, *modules]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return {line.split()[0]: set(line.split()) for line in done.stdout.splitlines()}


def test_the_changelog_the_citation_and_the_package_agree_on_the_version() -> None:
    """What is cited is the last release, the newest dated section; the package is of the newest section of all."""
    sections = re.findall(r"^## (\S+) \((.+)\)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    released = next((v, when) for v, when in sections if re.fullmatch(r"\d{4}-\d\d-\d\d", when))
    cited = dict(re.findall(r"^(\S+): (\S+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE))
    assert (cited["version"], cited["date-released"]) == released
    version = Version(tempoloc_nb.__version__)
    assert version.base_version == sections[0][0]
    assert version.is_devrelease == (sections[0] != released)  # a closed section is a release, not what leads to it


def test_importing_the_package_is_light() -> None:
    found = imported_by("tempoloc_nb")["tempoloc_nb"]
    assert not found.intersection([*HEAVY, "numpy", "av"])


def modules() -> list[str]:
    """Every module by its dotted name below the package."""
    package = ROOT / "tempoloc_nb"
    names = [".".join(p.relative_to(package).with_suffix("").parts) for p in package.rglob("*.py")]
    return sorted(n.removesuffix(".__init__") for n in names if n not in {"__init__", "_modidx"})


@pytest.mark.parametrize("plotting", [False, True])
def test_no_module_imports_more_than_its_purpose(plotting: bool) -> None:
    """What nobody may import is never there, so that the first to bring it is named."""
    names = sorted((f"tempoloc_nb.{m}" for m in modules() if m.startswith(PLOTTING) == plotting), key=MODEL.__eq__)
    found = imported_by(*names)
    assert list(found) == names
    heavy = set(HEAVY) - ({"pandas", "matplotlib", "IPython"} if plotting else set())
    more = {name: own & heavy - ({"torch"} if name == MODEL else set()) for name, own in found.items()}
    assert not {name: own for name, own in more.items() if own}


def test_an_installed_wheel_finds_its_data(tmp_path: Path) -> None:
    """Built without network, unpacked elsewhere, run from there."""
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(tmp_path)]
    subprocess.run([*command, str(ROOT)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    code = (
        "import tempoloc_nb; from tempoloc_nb.clips.manifest import load_benchmark;"
        "from tempoloc_nb.models.locate import check_folder; from tempoloc_nb.models.locate import get_model;"
        "from tempoloc_nb.models.ask import list_prompts, load_prompt;"
        "from tempoloc_nb.reviewer.pages import script; assert 'render' in script();"
        "print(tempoloc_nb.__file__, len(load_benchmark('recipe').clips), len(load_benchmark('sim').with_videos()));"
        "tiny = get_model('tempoloc-tiny'); check_folder(tiny.folder); print(tiny.path, tiny.card.prompt);"
        "print(*(f'{p.name}:{p.form}' for p in map(load_prompt, list_prompts())))"
    )
    environment = {k: v for k, v in os.environ.items() if k != "TEMPOLOC_SETTINGS"} | {"PYTHONPATH": str(site)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path, env=environment
    )
    data, model, prompts = (line.split() for line in done.stdout.splitlines())
    assert Path(data[0]).is_relative_to(site)
    assert data[1:] == ["60", "35"]
    assert Path(model[0]).is_relative_to(site)
    assert model[1] == "log"
    assert {"tiny:lines", "recipe:lines", "recipe-json:json"} <= set(prompts)
    video = next((site / "tempoloc_nb" / "_data").rglob("stack-three/000.mp4"))
    find = [sys.executable, "-m", "tempoloc_nb", "find", str(video), "-e", "grasping the green cube", "--trials", "2"]
    done = subprocess.run(find, capture_output=True, text=True, check=True, cwd=tmp_path, env=environment)
    assert done.stdout.splitlines()[0] == "000.mp4 (8.5 s), tempoloc-tiny, 2 trials"
    example = [sys.executable, "-m", "tempoloc_nb", "example", "example"]
    done = subprocess.run(example, capture_output=True, text=True, check=True, cwd=tmp_path, env=environment)
    there = {p.name for p in (tmp_path / "example").iterdir()}
    assert {"recordings", "my_dataset", "demos.hdf5", "clips.jsonl"} <= there
    assert " find example/recordings -e" in done.stdout


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_the_tree_is_small() -> None:
    sizes = {p: p.stat().st_size for p in tracked_files()}
    models = sum(s for p, s in sizes.items() if p.is_relative_to(ROOT / "data" / "models"))
    assert 0 < sum(sizes.values()) - models < 16 * 2**20  # 12 is the aim: notebooks with their outputs are 6 of it
    assert sum(sizes.values()) <= 47 * 2**20
    pictures = {p: s for p, s in sizes.items() if p.suffix == ".png"}
    assert all(s <= 200_000 for s in pictures.values())


def test_no_function_takes_more_than_ten_parameters() -> None:
    for path in (ROOT / "tempoloc_nb").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                taken = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                assert len([a for a in taken if a.arg != "self"]) <= 10, (path.name, node.name)


def test_notebooks_hold_no_errors_or_heavy_outputs() -> None:
    import json

    for path in tracked_files():
        if path.suffix != ".ipynb":
            continue
        for cell in json.loads(path.read_text())["cells"]:
            for output in cell.get("outputs", []):
                assert output["output_type"] != "error", path.name
                for kind, value in output.get("data", {}).items():
                    assert not kind.startswith("video/"), path.name
                    # base64 takes four characters for three bytes
                    assert len("".join(value)) <= 280_000, (path.name, kind)


def test_the_navigation_has_every_notebook_once() -> None:
    listed = re.findall(r": (\S+\.ipynb)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    here = {p.relative_to(ROOT / "nbs").as_posix() for p in tracked_files() if p.suffix == ".ipynb"}
    assert sorted(listed) == sorted(here)


def test_no_link_in_the_repository_is_dead() -> None:
    link = re.compile(r"\]\((?!https?:|#|mailto:|attachment:)([^)#\s]+)")
    code = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
    dead = []
    for path in tracked_files():
        if path.suffix == ".ipynb":
            cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
            text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
        elif path.suffix == ".md":
            text = path.read_text(encoding="utf-8")
        else:
            continue
        dead += [(path.name, to) for to in link.findall(code.sub("", text)) if not (path.parent / to).exists()]
    assert dead == []


def exported() -> list[tuple[str, ast.Module]]:
    """Every module by its dotted name, parsed."""
    package = ROOT / "tempoloc_nb"
    paths = [p for p in sorted(package.rglob("*.py")) if p.name != "_modidx.py" and p.stat().st_size]
    names = [".".join(p.relative_to(package).with_suffix("").parts) for p in paths]
    return [(name, ast.parse(p.read_text(encoding="utf-8"))) for name, p in zip(names, paths, strict=True)]


def test_every_public_name_and_module_has_a_docstring() -> None:
    bare = []
    for module, tree in exported():
        bare += [] if ast.get_docstring(tree) else [module]
        owners = [tree, *(n for n in tree.body if isinstance(n, ast.ClassDef) and not n.name.startswith("_"))]
        for owner in owners:
            for node in owner.body:
                if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
                    continue
                overload = any(isinstance(d, ast.Name) and d.id == "overload" for d in node.decorator_list)
                if not ast.get_docstring(node) and not overload:
                    bare.append(f"{module}.{getattr(owner, 'name', '')}.{node.name}")
    assert bare == []


def faces() -> list[str]:
    return [name.removesuffix("__init__").rstrip(".") for name, _ in exported() if name.endswith("__init__")]


@pytest.mark.parametrize("name", faces())
def test_a_face_offers_what_it_says(name: str) -> None:
    """Each name of a face loads, type checkers see the same names, and no module is hidden by one."""
    face = importlib.import_module(f"tempoloc_nb.{name}".rstrip("."))
    assert face.__file__ is not None
    tree = ast.parse(Path(face.__file__).read_text(encoding="utf-8"))
    typed = [a.name for n in ast.walk(tree) if isinstance(n, ast.If) for i in n.body for a in getattr(i, "names", ())]
    assert sorted(typed) == sorted(face.__all__)
    assert 5 <= len(face.__all__) <= (25 if not name else 10)
    inside = {p.stem for p in Path(face.__file__).parent.iterdir()}
    assert not inside.intersection(face.__all__)
    for offered in face.__all__:
        assert getattr(face, offered) is not None
