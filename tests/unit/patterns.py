"""The package's patterns, how each is used, and texts that a pattern which goes back and forth is slow on."""

from __future__ import annotations

import ast
import functools
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import blocklab
import blocklab_node

GOLDEN = Path(__file__).parent / "golden"
# These go through a text; the others look at its start.
THROUGH = {"search", "finditer", "findall", "sub", "split"}
# Of our own source and pages, which nobody else writes.
OWN = ("blocklab.lang", "blocklab.sites.uml")
UNITS = (
    "\n", " ", "\t", "0", "1,", "1 ", "1.", ".", ",", "a", "A", "a ", "-", "=", "+", "|", ":", "[", "{", '"', '" ',
    "<", "<td>", "/", "\\", "(", "# ", "\n ", "1:1:1 ", "%", "a=1, ", "1.00 1 ", "_", "x_", "a: ",
)  # fmt: skip


def modules() -> Iterator[ModuleType]:
    """Every module of the two packages but those of ``OWN``."""
    for package in (blocklab, blocklab_node):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.startswith(OWN) and not found.name.endswith("__main__"):
                yield importlib.import_module(found.name)


def patterns() -> dict[tuple[Any, int], tuple[str, set[str]]]:
    """Every pattern of a module, by its text and flags: where it is, and the methods that are called of it."""
    found: dict[tuple[Any, int], tuple[str, set[str]]] = {}
    for module in modules():
        called = calls(module)
        for name, value in vars(module).items():
            # What comes out of a table is called by another name.
            own = isinstance(value, re.Pattern)
            methods = called.get(name, set()) if own else set().union(*called.values()) if called else set()
            for pattern in _patterns(value):
                _, before = found.setdefault(
                    (pattern.pattern, pattern.flags), (f"{module.__name__}.{name}", set())
                )
                before |= methods
    return found


def calls(module: ModuleType) -> dict[str, set[str]]:
    """The methods of patterns that a module calls, by the name of what they are called of."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse(Path(module.__file__ or "").read_text())):
        if isinstance(node, ast.Attribute) and node.attr in {*THROUGH, "match", "fullmatch"}:
            name = node.value.id if isinstance(node.value, ast.Name) else ""
            found.setdefault(name, set()).add("search" if node.attr in THROUGH else node.attr)
    found.pop("re", None)
    return found


def _patterns(value: Any, depth: int = 0) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth > 3 or isinstance(value, type | str | bytes):
        return
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _patterns(key, depth + 1)
            yield from _patterns(each, depth + 1)
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from _patterns(each, depth + 1)
    elif isinstance(fields := getattr(type(value), "__struct_fields__", None), tuple):
        for field in fields:
            yield from _patterns(getattr(value, field), depth + 1)


@functools.cache
def lines() -> tuple[str, ...]:
    """Lines of real output, one of each shape."""
    shapes: dict[str, str] = {}
    for path in sorted(path for path in GOLDEN.rglob("*") if path.is_file() and path.suffix != ".bin"):
        with path.open(errors="replace") as file:
            for line in file.read(200_000).split("\n"):
                if 0 < len(line) < 400:
                    shapes.setdefault(re.sub(r"[\d.,]+", "0", line), line)
    return tuple(shapes.values())


def pumped(line: str, times: int) -> Iterator[str]:
    """The line with one of its pieces repeated so often, and with an end that no pattern has."""
    for piece in re.finditer(r"\s+|\d+|[A-Za-z]+|\d[\d.,]*|\S+\s+", line):
        for unit in {piece[0], piece[0][:1]}:
            text = line[: piece.start()] + unit * (times // len(unit)) + line[piece.end() :]
            yield text
            yield f"{text}\0"
            yield f"{text[: piece.start() + times]}\0"
