"""Writes docs/blocklab.1, the manual page, from the help of the command line.

    python -m tools.manpage

A wheel has it in share/man/man1. A test compares the page with what this makes.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from blocklab import __version__
from blocklab.cli import main as cli

FILE = Path(__file__).parents[1] / "docs" / "blocklab.1"


def page() -> str:
    """The page in the man macros of troff."""
    group = typer.main.get_command(cli.app)
    head = [
        '.\\" made by tools/manpage.py from the help',
        f'.TH BLOCKLAB 1 "" "blocklab {__version__}" "User Commands"',
        ".SH NAME",
        "blocklab \\- measure what a block\\-storage layout costs a database",
        ".SH SYNOPSIS",
        "\\fBblocklab\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR...] [\\fIARGUMENT\\fR...]",
        ".SH DESCRIPTION",
        *_text(str(group.help)),
        ".SH OPTIONS",
        *_parameters(group),
        ".SH COMMANDS",
        *(line for name, command in _commands("blocklab", group) for line in _command(name, command)),
        ".SH EXIT STATUS",
        *_text(str(cli.__doc__).partition("Exit codes: ")[2]),
    ]
    return "\n".join(head) + "\n"


def _commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Each command with its full name, those of groups too."""
    for word, below in sorted(command.commands.items()):
        if hasattr(below, "commands"):
            yield from _commands(f"{name} {word}", below)
        elif not below.hidden:
            yield f"{name} {word}", below


def _command(name: str, command: Any) -> Iterator[str]:
    arguments = " ".join(_arguments(command))
    yield f'.SS "{_plain(f"{name} [OPTIONS] {arguments}".strip())}"'
    yield from _text(command.help)
    yield from _parameters(command)


def _arguments(command: Any) -> list[str]:
    """What stands behind the name: ``['[OPTIONS]', '{study}']`` in typer's own words."""
    context = command.make_context(command.name, [], resilient_parsing=True)
    return [piece for piece in command.collect_usage_pieces(context) if piece != "[OPTIONS]"]


def _parameters(command: Any) -> Iterator[str]:
    context = command.make_context(command.name, [], resilient_parsing=True)
    for parameter in command.params:
        # ('--runs <path>', 'Keep runs in this folder.  [default: runs]'); None for a hidden one
        if record := parameter.get_help_record(context):
            yield from (".TP", f"\\fB{_plain(record[0])}\\fR", *(_text(record[1]) or ["\\&"]))


def _text(text: str) -> list[str]:
    """Paragraphs of Markdown; words in backquotes become bold."""
    found: list[str] = []
    for number, paragraph in enumerate(inspect.cleandoc(text).split("\n\n")):
        line = _plain(" ".join(paragraph.split()))
        found += [*([".PP"] if number else []), re.sub(r"`([^`]*)`", r"\\fB\1\\fR", line)]
    return [line for line in found if line]


def _plain(text: str) -> str:
    """A line that troff takes as it is."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


def main() -> None:
    """Write the page again."""
    FILE.write_text(page())


if __name__ == "__main__":
    main()
