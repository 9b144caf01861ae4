"""The program's entry point: chooses the language before any other module is imported."""

from __future__ import annotations

import os
import sys

from blocklab.cli import streams
from blocklab.lang import catalogue, loader
from blocklab.model.shown import shown


def main() -> None:
    """Run the command line in the language that ``--lang`` or the environment asks for."""
    streams.prepare()
    options = sys.argv[1:]
    # What follows `sh NODE` is the node's.
    own = options[: options.index("sh")] if "sh" in options else options
    wanted = catalogue.chosen(own, os.environ)
    if wanted not in catalogue.LANGUAGES:
        print(f"error: --lang {shown(wanted)}: there is no such language", file=sys.stderr)
        print(f"  hint: give one of {', '.join(catalogue.LANGUAGES)}", file=sys.stderr)
        sys.exit(2)
    sys.argv[1:] = [*_without(own), *options[len(own) :]]
    if wanted != "en":
        loader.install(wanted)
    from blocklab.cli.main import main as command

    command()


def _without(options: list[str]) -> list[str]:
    """The options without ``--lang``, which may stand before or behind the command."""
    found: list[str] = []
    rest = iter(options)
    for option in rest:
        if option == "--lang":
            next(rest, None)
        elif not option.startswith("--lang="):
            found.append(option)
    return found
