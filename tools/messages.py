"""Brings the catalogues of messages to what the source says: src/blocklab/lang/locale/*.po.

    python -m tools.messages

New messages come without a translation, and are shown in English until they have one; those that are gone go. What
lacks one is listed, and counted in a warning of the tests. A message that is to stay as it is has itself.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from babel.messages.catalog import Catalog, Message
from babel.messages.pofile import read_po, write_po

from blocklab.cli.main import app
from blocklab.lang import LANGUAGES
from blocklab.lang.catalogue import source as catalogue_of
from blocklab.lang.loader import LIBRARY
from blocklab.lang.pages import replaced
from blocklab.lang.source import collect, documentation, vocabulary

ROOT = Path(__file__).parents[1] / "src"
# Words of the program that are shown through lang.term, so that files and --json have them in English.
TERMS = (
    "ok", "failed", "unknown", "invalid", "suspect", "missing", "void", "lost", "unreadable", "differs", "differ",
    "no difference shown", "too noisy to say", "unlike machines", "one build", "one build: inside",
    "one build: outside", "carried", "not carried", "keeps", "has", "confirmed", "undecided", "fails", "passes",
    "smallest", "largest", "read", "write", "never",
    "no write accepted again", "binary log differs from the tables",
    "split brain", "replicas differ after the resync", "loss not known, so not counted",
    "not counted, since the cell is not ok", "not counted, but something was lost",
    "verdict", "drills", "acknowledged a second", "gone", "RPO, most", "RTO, median", "90 % of the rate, median",
    "in doubt", "binary log", "mirror", "why", "fault", "fault seed", "survivor", "took over", "attempted",
    "acknowledged", "refused", "in doubt found", "unexpected", "torn", "newest lost", "came back", "recovered",
    "behind", "ahead", "stages", "detection", "fencing", "promotion", "mount", "recovery", "first commit",
    "resync", "reads", "writes", "MB read", "MB written", "written per byte above", "flushes",
    "flushes per transaction", "cell", "agree", "stack", "workload", "phase", "metric", "unit", "host", "layer",
    "level",
)  # fmt: skip
# Words by which the program finds texts, or has a library colour them, where `vocabulary` does not see it.
KEYS = frozenset({
    "no values", "one layout", "no pair", "one build: {_inside}", "p99, at least", "crashes, at most",
    "newest lost", "not recovered", "scheduler lost", "left out",
    "metric, unit, layer, host, phase", '"end", latency', "coalesce(phase, '')",
    "bold red", "bold yellow", "bold green", "bold cyan", "bold magenta", "dim red", "dim yellow",
})  # fmt: skip


def template() -> Catalog:
    """Every message that is shown to a user, with the files that it stands in."""
    made = Catalog(project="blocklab", charset="utf-8")
    for message, context, at in (*_of_sources(), *_of_pages(), *_of_library()):
        made.add(message, locations=[(at, 1)], context=context)
    for docstring in _helps(typer.main.get_command(app)):
        made.add(documentation(docstring))
    for term in TERMS:
        made.add(term, context="term")
    return made


def _of_sources() -> Iterator[tuple[str, str | None, str]]:
    sources = {path: path.read_text() for path in sorted((ROOT / "blocklab").rglob("*.py"))}
    known = KEYS.union(*map(vocabulary, sources.values()))
    for path, text in sources.items():
        if path.parent.name != "lang":
            for message, shown in collect(text):
                # A single word is looked up only where it is shown.
                if message not in known or (shown and " " not in message):
                    yield message, None, str(path.relative_to(ROOT))


def _of_pages() -> Iterator[tuple[str, str | None, str]]:
    for path in sorted((ROOT / "blocklab/data/page").glob("*.j2")):
        found: list[str] = []
        replaced(path.read_text(), found.append)
        yield from ((message, "page", str(path.relative_to(ROOT))) for message in found)


def _of_library() -> Iterator[tuple[str, str | None, str]]:
    for module in sorted(LIBRARY):
        spec = importlib.util.find_spec(module)
        assert spec is not None and spec.origin is not None
        for message, _ in collect(Path(spec.origin).read_text()):
            if message not in KEYS:
                yield message, None, f"{module.replace('.', '/')}.py"


def _helps(command: Any) -> Iterator[str]:
    """The docstrings of a command and of those below it."""
    if command.callback is not None and command.callback.__doc__:
        yield command.callback.__doc__
    for below in getattr(command, "commands", {}).values():
        yield from _helps(below)


def updated(language: str, wanted: Catalog) -> Catalog:
    """The language's catalogue with the messages that are wanted, and no others."""
    path = catalogue_of(language)
    found = Catalog(locale=language, project="blocklab", charset="utf-8")
    if path.exists():
        with path.open("rb") as file:
            found = read_po(file, locale=language)
    found.update(wanted, no_fuzzy_matching=True, update_creation_date=False)
    found.obsolete.clear()
    return found


def untranslated(catalogue: Catalog, wanted: Catalog) -> list[Message]:
    """The messages that are wanted and that the catalogue has no translation of: they are shown in English."""
    found = {(each.id, each.context) for each in catalogue if each.string}
    return [each for each in wanted if each.id and (each.id, each.context) not in found]


def write(catalogue: Catalog, path: Path) -> None:
    """Write a catalogue without dates and line numbers, so that a change shows what was changed."""
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        write_po(file, catalogue, width=0, omit_header=False, include_lineno=False, sort_by_file=True)


def main() -> None:
    """Update each catalogue; list what lacks a translation."""
    wanted = template()
    for language in LANGUAGES:
        if language == "en":
            continue
        found = updated(language, wanted)
        write(found, catalogue_of(language))
        missing = untranslated(found, wanted)
        for each in missing:
            print(f"{', '.join(file for file, _ in each.locations) or 'help'}: {each.id}")
        print(f"{language}: {len(found)} messages, {len(missing)} without a translation", file=sys.stderr)


if __name__ == "__main__":
    main()
