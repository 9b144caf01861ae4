"""Brings the catalogues of messages to what the source says: src/blocklab/lang/locale/*.po.

    python -m tools.messages

New messages come without a translation, those that are gone go. A test fails while a message has none; one that is to
stay as it is has itself.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from babel.messages.catalog import Catalog
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
    "ok", "failed", "unknown", "invalid", "suspect", "missing", "void", "lost", "unreadable", "differs",
    "no difference shown", "too noisy to say", "unlike machines", "one build", "one build: inside",
    "one build: outside", "carried", "not carried", "keeps", "has",
    "verdict", "drills", "acknowledged a second", "gone", "RPO, most", "RTO, median", "90 % of the rate, median",
    "in doubt", "binary log", "mirror", "why", "fault", "fault seed", "survivor", "took over", "attempted",
    "acknowledged", "refused", "in doubt found", "unexpected", "torn", "newest lost", "came back", "recovered",
    "behind", "ahead", "stages", "detection", "fencing", "promotion", "mount", "recovery", "first commit", "resync",
    "reads", "writes", "MB read", "MB written", "written per byte above", "flushes", "flushes per transaction",
    "stack", "workload", "phase", "metric", "unit", "host", "layer", "level",
)  # fmt: skip
# Words by which the program finds texts, or has a library colour them, in places where `vocabulary` does not see it.
KEYS = frozenset({
    "no values", "one layout", "no pair", "p99, at least", "crashes, at most", "newest lost", "not recovered",
    "metric, unit, layer, host, phase", "\"end\", latency", "coalesce(phase, '')",
    "bold red", "bold yellow", "bold green", "bold cyan", "bold magenta", "dim red", "dim yellow",
})  # fmt: skip


def template() -> Catalog:
    """Every message that is shown to a user, with the files that it stands in."""
    made = Catalog(project="blocklab", charset="utf-8")
    sources = {path: path.read_text() for path in sorted((ROOT / "blocklab").rglob("*.py"))}
    known = KEYS.union(*map(vocabulary, sources.values()))
    for path, text in sources.items():
        at = path.relative_to(ROOT)
        if at.parts[1] == "lang":
            continue
        for message, shown in collect(text):
            # A single word is looked up only where it is shown.
            if message not in known or (shown and " " not in message):
                made.add(message, locations=[(str(at), 1)])
    for docstring in _helps(typer.main.get_command(app)):
        made.add(documentation(docstring))
    for path in sorted((ROOT / "blocklab/report/page").glob("*.j2")):
        for message in _of_page(path):
            made.add(message, locations=[(str(path.relative_to(ROOT)), 1)], context="page")
    for term in TERMS:
        made.add(term, context="term")
    for module in sorted(LIBRARY):
        for message in {message for message, _ in collect(_file_of(module).read_text())} - KEYS:
            made.add(message, locations=[(f"{module.replace('.', '/')}.py", 1)])
    return made


def _helps(command: Any) -> Iterator[str]:
    """The docstrings of a command and of those below it."""
    if command.callback is not None and command.callback.__doc__:
        yield command.callback.__doc__
    for below in getattr(command, "commands", {}).values():
        yield from _helps(below)


def _of_page(path: Path) -> Iterator[str]:
    found: list[str] = []
    replaced(path.read_text(), found.append)
    yield from found


def _file_of(module: str) -> Path:
    spec = importlib.util.find_spec(module)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin)


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


def write(catalogue: Catalog, path: Path) -> None:
    """Write a catalogue without dates and line numbers, so that a change shows what was changed."""
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        write_po(file, catalogue, width=0, omit_header=False, include_lineno=False, sort_by_file=True)


def main() -> None:
    """Update each catalogue; say what lacks a translation."""
    wanted = template()
    for language in LANGUAGES:
        if language == "en":
            continue
        found = updated(language, wanted)
        write(found, catalogue_of(language))
        missing = [each.id for each in found if each.id and not each.string]
        print(f"{language}: {len(found)} messages, {len(missing)} without a translation", file=sys.stderr)


if __name__ == "__main__":
    main()
