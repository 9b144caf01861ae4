"""Lines for people and JSON for programs, on standard output: without rich, which takes longer to import than a
command that prints a line."""

from __future__ import annotations

import sys
from typing import IO

import typer

from blocklab.model.shown import ascii_json, shown, shown_json


def echo(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print a line for people."""
    typer.echo(shown(text), err=err, nl=nl)


def echo_json(text: str | bytes) -> None:
    """Print JSON for programs."""
    text = json_for(sys.stdout, text.decode() if isinstance(text, bytes) else text)
    typer.echo(text, nl=not text.endswith("\n"))


def json_for(stream: IO[str], text: str) -> str:
    """The same data, as a terminal shows it and the stream's encoding has it."""
    text = shown_json(text)
    try:
        text.encode(getattr(stream, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return ascii_json(text)
    return text
