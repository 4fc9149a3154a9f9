"""The commands of the command line, by the words that call them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from tempoloc_nb.cli.main import app

GROUP = typer.main.get_command(app)


def commands(group: Any = GROUP, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command by the words that call it."""
    for name in group.list_commands(None):
        command = group.made(name) if hasattr(group, "made") else group.get_command(None, name)
        if hasattr(command, "list_commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = dict(commands())
