"""The documentation site from notebooks, as a hook of mkdocs: each notebook becomes a page, which mkdocs then checks.

A notebook is Markdown, code and outputs; this writes it as one Markdown page, so that mkdocs resolves and checks its
links as it does all others. Directives of nbdev are left out, imports are folded, and in a study or the article all
code is. The notebook itself lies beside its page, for readers who want to run it.
"""

from __future__ import annotations

import base64
import html
import json
import os
import posixpath
import re
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from markdown.extensions.toc import slugify
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page
from PIL import Image

from tempoloc_nb.reviewer.pages import write_page
from tempoloc_nb.reviewer.sources import open_review
from tempoloc_nb.video.files import decode
from tempoloc_nb.video.view import jpeg

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "nbs"
STYLE = "docs/site.css"
REVIEWER = "reviewer"
# Pages that tell what was found: their code is folded.
STORIES = ("studies/", "article")
# The lighter one first, where an output has both.
PICTURES = {"image/svg+xml": "svg", "image/jpeg": "jpg", "image/png": "png"}
IMPORT = re.compile(r"(?:from|import|%matplotlib) ")
# How a package's face names what it loads on first use.
PLUMBING = ("if TYPE_CHECKING:", "__getattr__, __dir__, __all__ =")
DEFINED = re.compile(r"^(?:def|class) ([A-Za-z]\w*)", re.MULTILINE)
ALT = re.compile(r"^#\| fig-alt: (.+)$", re.MULTILINE)  # as Quarto has it
LINK = re.compile(r'(?:(?<=\]\()|(?<= src="))(?!https?:|#|mailto:|data:)([^)#\s"]+)')
# A notebook names a place as Jupyter does, by its heading with dashes for blanks: `#All-prompts-at-once`.
PLACE = re.compile(r"(?<=\]\()((?!https?:|mailto:|data:)[^)#\s\"]*)#([^)\s\"]+)")
BREAK = re.compile(r"_(?=[^<>]*</th>)")
# What a line of text must not end within: an option in code, an interval in a table, and "< 0.001" there.
CODE = re.compile(r"<code>[^<\n]*</code>")
OPTION = re.compile(r"(?<![\w-])--?[a-zA-Z][\w-]{,24}")
WHOLE = re.compile(r"(?<=[\[(])[-−\d.]+, [-−\d.]+(?=[\])])|&lt; (?=[\d.]+</td>)")
# A line of bold links alone: buttons. Of the reviewer, the site has more than its chapter.
BUTTONS = re.compile(r"^\*\*\[[^\]]+\]\([^)]+\)\*\*(?: · \*\*\[[^\]]+\]\([^)]+\)\*\*)+$", re.MULTILINE)
SHOWN_LIVE = {"80_reviewer/00_chapter.ipynb": f"{REVIEWER}/index.html"}
REPOSITORY = os.environ.get("REPOSITORY_URL")  # who publishes the site knows it
VIDEO = re.compile(r'<video(?=[^>]* src="([^"]+\.mp4)")')
TABLE = re.compile(r'<table\b(?: border="1")?(?: class="dataframe")?(.*?</table>)', re.DOTALL)

PRINTED = re.compile(r'(<div[^>]*class="(?:[\w-]+ )*output\b[^>]*><pre)')
WRAPS = re.compile(r'<div[^>]*class="(?:[\w-]+ )*output prose\b.*?</div>', re.DOTALL)
REACHED = ' tabindex="0"'  # of what scrolls where it is wide, or long: keys reach it

SEARCH = 'data-md-component="search" role="dialog"'  # as Material has it
# Browsers start no worker from a file; the search then runs in a hidden frame.
SHIM = f"<script>{(ROOT / 'docs/worker.js').read_text(encoding='utf-8')}</script>"

outputs: dict[str, str] = {}
"""What notebooks show as HTML, by the mark that stands for it while a page is Markdown."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The navigation names notebooks; their pages are Markdown."""
    config.nav = as_pages(config.nav)
    return config


def as_pages(nav: Any) -> Any:
    if isinstance(nav, str):
        return page_name(nav)
    return [as_pages(n) for n in nav] if isinstance(nav, list) else {title: as_pages(n) for title, n in nav.items()}


def page_name(notebook: str) -> str:
    return re.sub(r"\.ipynb$", ".md", notebook)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """A page for each notebook, its pictures, and the files that it links to outside the notebooks' folder."""
    outputs.clear()
    linked = {STYLE}
    for file in [f for f in files if f.src_uri.endswith(".ipynb")]:
        text, pictures, others = page_of(file.src_uri)
        files.append(File.generated(config, page_name(file.src_uri), content=text))
        for name, data in pictures.items():
            files.append(File.generated(config, name, content=data))
        linked |= others
    for name, data in reviewer().items():
        files.append(File.generated(config, f"{REVIEWER}/{name}", content=data))
    names = sorted(linked)
    for name in names:
        if name.endswith(".md"):
            further: set[str] = set()
            text = with_page_links((ROOT / name).read_text(encoding="utf-8"), name, further, root="")
            names += sorted(further.difference(names))
            files.append(File.generated(config, name, content=text))
        else:
            files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
        if name.endswith(".mp4"):
            files.append(File.generated(config, poster_name(name), content=poster(ROOT / name)))
    return files


def poster_name(video: str) -> str:
    return re.sub(r"\.mp4$", ".jpg", video)


def poster(video: Path) -> bytes:
    """A video's first frame: a browser shows it until it has the video, which a phone fetches only to play it."""
    _, first = next(decode(video))
    return jpeg(Image.fromarray(first), quality=50)


def reviewer() -> dict[str, bytes]:
    """The reviewer with eight clips and their videos, which needs no Python."""
    with tempfile.TemporaryDirectory() as folder:
        write_page(open_review("sim", [ROOT / "data/predictions/sft.jsonl.xz"]), folder, most=8, force=True)
        return {p.name: p.read_bytes() for p in Path(folder).iterdir()}


def page_of(notebook: str) -> tuple[str, dict[str, bytes], set[str]]:
    """A notebook as Markdown, with its pictures by name and the files outside `nbs` that it links to."""
    cells = json.loads((NOTEBOOKS / notebook).read_text(encoding="utf-8"))["cells"]
    story = notebook.startswith(STORIES)
    parts: list[str] = []
    held: list[str] = []  # a story's code since the last thing shown, and imports elsewhere: one fold for all of it
    title = "Code" if story else "Imports"
    pictures: dict[str, bytes] = {}
    linked: set[str] = set()
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts += [folded(held, title), with_page_links(BUTTONS.sub(buttons, source), notebook, linked)]
        elif cell["cell_type"] == "code" and not re.search(r"^#\| *hide", source, re.MULTILINE):
            lines = [line for line in source.splitlines() if not line.startswith("#|")]
            alt = "".join(ALT.findall(source))
            if story or only_imports(lines):
                held += [*lines, ""]
            else:
                parts += code_of(held, lines)
            for output in cell["outputs"]:
                text = as_markdown(output, notebook, linked)
                shown = mark(output, notebook, alt, pictures, linked) if text is None else text
                parts += [folded(held, title), shown]
    return "\n\n".join(p for p in [*parts, folded(held, title)] if p), pictures, linked


def folded(held: list[str], title: str) -> str:
    """The code that was held, which is then empty."""
    block = fence(held, "python")
    held.clear()
    return fold(title, block) if block else ""


def buttons(line: re.Match[str]) -> str:
    """Bold links as buttons, the first of them filled; the repository's link, where it is known, is one more."""
    links = re.findall(r"\[([^\]]+)\]\(([^)]+)\)", line[0])
    links += [("Repository", REPOSITORY)] * bool(REPOSITORY)
    looks = [".md-button .md-button--primary", *[".md-button"] * len(links)]
    return " ".join(f"[{t}]({SHOWN_LIVE.get(u, u)}){{ {look} }}" for (t, u), look in zip(links, looks, strict=False))


def with_page_links(text: str, notebook: str, linked: set[str], root: str = "nbs") -> str:
    """Links to notebooks lead to their pages, and links out of `nbs` to copies that lie in the site.

    `notebook` is a path in `root`, and a page's place in the site as well.
    """
    folder = posixpath.dirname(notebook)

    def target(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(root, folder, match[1]))
        if path.startswith("nbs/"):
            return page_name(posixpath.relpath(path.removeprefix("nbs/"), folder or "."))
        if (ROOT / path).is_file():
            linked.add(path)
        return posixpath.relpath(path, folder or ".")

    text = PLACE.sub(lambda found: f"{found[1]}#{slugify(unquote(found[2]), '-')}", text)
    page = f"{REVIEWER}/index.html"  # of the site alone: a notebook names it, and its page links to it
    return LINK.sub(target, text).replace(f"`{page}`", f"[`{page}`]({posixpath.relpath(page, folder or '.')})")


def only_imports(lines: list[str]) -> bool:
    """Whether a cell has nothing that a reader of a reference page looks for."""
    plumbing = any(line.startswith(PLUMBING) for line in lines)
    return plumbing or not any(line.strip() for line in lines[opening_imports(lines) :])


def code_of(held: list[str], lines: list[str]) -> list[str]:
    """A cell's code; imports that open it are folded, with what was `held` of cells before it."""
    end = opening_imports(lines)
    held += lines[:end]
    names = html.escape(" ".join(DEFINED.findall("\n".join(lines))))
    found_by = f'<p class="names">{names}</p>' if names else ""
    return [folded(held, "Imports"), found_by, fence(lines[end:], "python")]


def opening_imports(lines: list[str]) -> int:
    """How many lines from the top only import; brackets may go on over lines."""
    end, depth = 0, 0
    for number, line in enumerate(lines, start=1):
        if depth or IMPORT.match(line):
            depth += line.count("(") - line.count(")")
            end = number
        elif line.strip():
            break
    return end


def fence(lines: list[str], language: str) -> str:
    """A block of code, fenced with more backticks than it holds."""
    text = "\n".join(lines).strip("\n")
    if not text.strip():
        return ""
    ticks = "`" * max(3, 1 + max((len(t) for t in re.findall(r"`+", text)), default=0))
    return f"{ticks}{language}\n{text}\n{ticks}"


def fold(title: str, block: str) -> str:
    return f'??? code "{title}"\n' + "\n".join(f"    {line}" if line else "" for line in block.splitlines())


def as_markdown(output: dict[str, Any], notebook: str, linked: set[str]) -> str | None:
    """What was printed, and Markdown; None for HTML and pictures."""
    if output["output_type"] == "stream":
        return printed("".join(output["text"]))
    data = output["data"]
    if any(kind in data for kind in ("text/html", *PICTURES)):
        return None
    if "text/markdown" in data:
        return with_page_links("".join(data["text/markdown"]), notebook, linked)
    return printed("".join(data["text/plain"]))


def printed(text: str) -> str:
    """What code says; columns keep their spaces, and lines of prose may wrap."""
    columns = re.search(r"\S {2,}\S|^ ", text, re.MULTILINE)
    return fence(text.splitlines(), "{ .text .output }" if columns else "{ .text .output .prose }")


def mark(output: dict[str, Any], notebook: str, alt: str, pictures: dict[str, bytes], linked: set[str]) -> str:
    """A mark in the page where HTML or a picture comes back once its Markdown has become HTML."""
    key, data = f"shown-{len(outputs)}", output["data"]
    if "text/html" in data:
        shown = re.sub(r"<style scoped>.*?</style>", "", "".join(data["text/html"]), flags=re.DOTALL)
        outputs[key] = with_page_links(shown, notebook, linked)
    else:
        kind = next(k for k in PICTURES if k in data)
        name = f"{notebook.removesuffix('.ipynb')}-{len(pictures) + 1}.{PICTURES[kind]}"
        picture = "".join(data[kind])
        pictures[name] = picture.encode() if kind == "image/svg+xml" else base64.b64decode(picture)
        alt = alt or alt_text(output["metadata"], kind)
        outputs[key] = f'<img src="{posixpath.basename(name)}" alt="{html.escape(alt)}" loading="lazy">'
    return f'<div class="shown" id="{key}"></div>'


def alt_text(metadata: dict[str, Any], kind: str) -> str:
    """The text that a notebook has for those who cannot see a picture, wherever it is: a PNG's is its SVG's, too."""
    kinds = [metadata.get(k, {}) for k in (kind, *PICTURES)]
    return str(next((found["alt"] for found in [*kinds, metadata] if found.get("alt")), ""))


def scrolling(match: re.Match[str]) -> str:
    """A table that scrolls by itself; names in its head may break after an underscore, so that it seldom has to."""
    head, body, rest = match[1].partition("</thead>")
    rest = WHOLE.sub(lambda found: found[0].replace(" ", "\N{NO-BREAK SPACE}"), rest)
    return f'<div class="table" tabindex="0"><table class="data"{BREAK.sub("_<wbr>", head)}{body}{rest}</div>'


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    """The logo leads to the first page, which stands in a section."""
    nav.homepage = nav.pages[0]
    return nav


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Outputs come back where their marks stand, tables can scroll, and the page links to its notebook.

    The search knows prose and the names that code defines; with all code its index would be six times as large.
    """

    def output(match: re.Match[str]) -> str:
        shown = outputs[match[1]]
        return f'<div class="shown"{REACHED * shown.startswith("<img")}>{shown}</div>'

    content = re.sub(r'(?=class="(?:[\w-]+ )*highlight")', "data-search-exclude ", content)
    content = re.sub(r'<div class="shown" id="(shown-\d+)"></div>', output, content)
    content = VIDEO.sub(lambda found: f'{found[0]} poster="{poster_name(found[1])}"', content)
    content = TABLE.sub(scrolling, content)
    for code in (CODE, WRAPS):
        content = code.sub(lambda found: OPTION.sub(r'<span class="option">\g<0></span>', found[0]), content)
    content = PRINTED.sub(rf"\1{REACHED}", content.replace("<p><img", f"<p{REACHED}><img"))
    notebook = page.file.src_uri.removesuffix(".md") + ".ipynb"
    if (NOTEBOOKS / notebook).is_file():
        link = f'<a href="{posixpath.basename(notebook)}" download>This page as a notebook</a>'
        content += f'<p class="source">{link}</p>'
    return content


def on_post_page(page_html: str, page: Page, config: MkDocsConfig) -> str:
    """The search works in a page that was opened as a file without asking another site for a script, and has a name."""
    page_html = page_html.replace(SEARCH, f'{SEARCH} aria-label="Search"')
    return re.sub(r'<script src="https://unpkg.com/iframe-worker/shim"></script>', SHIM, page_html)
