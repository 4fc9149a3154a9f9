"""The shell lines of a page, pasted one after another into a fresh folder, as a newcomer does."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

ROOT = Path(__file__).resolve().parents[2]


def shell_lines(block: str) -> list[str]:
    """The commands of a block of shell lines: continued ones in one piece, comments left out."""
    joined = block.replace("\\\n", " ")
    return [line for line in (re.sub(r"(^|\s)#.*$", "", line).strip() for line in joined.splitlines()) if line]


def shell_blocks(markdown: str) -> list[str]:
    """The ```sh blocks of a text."""
    return re.findall(r"^```sh\n(.*?)^```$", markdown, re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Shell:
    """A folder in which lines are pasted, with `tempoloc` where an installation by the page would have put it."""

    folder: Path
    program: Path

    @classmethod
    def made(cls, folder: Path, program: str) -> Shell:
        path = folder / program
        path.parent.mkdir(parents=True)
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tempoloc_nb "$@"\n')
        path.chmod(0o755)
        return cls(folder, path)

    @property
    def environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(self.program.parent), os.environ["PATH"]])
        return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "BROWSER": "true"}

    def paste(self, line: str, status: int = 0) -> str:
        """What a line prints on stdout; a `review` is looked at, each clip accepted as it is, and ended by Ctrl-C."""
        if re.match(r"\S*tempoloc review ", line) and "--export" not in line:
            return self._review(line)
        done = subprocess.run(
            ["bash", "-c", line], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == status, f"{line}\n{done.stderr}"
        return done.stdout

    def _review(self, line: str) -> str:
        process = subprocess.Popen(
            ["bash", "-c", f"exec {line}"], cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            assert url.startswith("http"), line
            _accept_all(url)
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0, line
        finally:
            process.kill()
        return url


def _ask(url: str, **request: Any) -> dict[str, Any]:
    body = json.dumps(request).encode()
    with urlopen(Request(f"{url}ask", body, {"Content-Type": "application/json"}), timeout=60) as answer:
        found: dict[str, Any] = json.loads(answer.read())
    assert not {"error", "conflict"} & set(found), found
    return found


def _accept_all(url: str) -> None:
    """Save each clip as it is shown: what Enter does on the page."""
    for index in range(len(_ask(url, op="queue")["clips"])):
        clip = _ask(url, op="clip", index=index)
        each = zip(clip["labels"], clip["boundaries"], clip["absent"], strict=True)
        events = [{"label": label, "boundary": time, "absent": gone} for label, time, gone in each]
        _ask(url, op="save", index=index, revision=clip["revision"], events=events, who="a newcomer")
