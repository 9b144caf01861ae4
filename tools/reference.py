"""Writes docs/reference/: a page for each layer, load and probe, and for each part of a study file.

    python -m tools.reference

All of it comes from the types and their docstrings: a page says what a reader of the source would find. A test
compares the pages with what this makes, and fails where a field has no text.
"""

from __future__ import annotations

import inspect
import re
import shutil
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from blocklab.layers import AnyLayer
from blocklab.model.describe import field_docs
from blocklab.model.ground import LinkSpec, NodeSpec
from blocklab.model.units import QUANTITIES, Bandwidth, BitRate, Duration, Size
from blocklab.probes import PROBES
from blocklab.study.types import Expectation, Factor, Stack, Study
from blocklab.workloads import AnyWorkload

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
MADE = "<!-- made by tools/reference.py from the source; edit the docstrings there -->"
PARTS: dict[str, type[msgspec.Struct]] = {
    "study": Study,
    "nodes": NodeSpec,
    "links": LinkSpec,
    "stacks": Stack,
    "factors": Factor,
    "expectations": Expectation,
}
UNITS = {
    Size: "size, e.g. `64KiB`", Duration: "time, e.g. `0.5ms`", Bandwidth: "bytes per second, e.g. `60MB/s`",
    BitRate: "bits per second, e.g. `100Mbit/s`",
}  # fmt: skip
PORTS = {"block": "a block device", "dir": "a folder", "postgresql": "a PostgreSQL database",
         "mysql": "a MySQL or MariaDB database"}  # fmt: skip


def pages() -> dict[str, str]:
    """Path below docs/reference -> text, of every page."""
    found = {}
    listed: dict[str, list[tuple[str, str]]] = {}
    for folder, kinds in (("layers", members(AnyLayer)), ("loads", members(AnyWorkload))):
        for tag, kind in kinds.items():
            found[f"{folder}/{tag}.md"] = "\n".join(struct_page(tag, kind, _stands(folder, kind)))
            listed.setdefault(folder, []).append((tag, _first(kind)))
    for probe in PROBES:
        found[f"probes/{probe.name}.md"] = "\n".join([*_head(probe.name), *prose(inspect.getdoc(probe) or ""), ""])
        listed.setdefault("probes", []).append((probe.name, _first(type(probe))))
    for name, part in PARTS.items():
        found[f"study/{name}.md"] = "\n".join(struct_page(name, part, []))
        listed.setdefault("study", []).append((name, _first(part)))
    found["README.md"] = "\n".join(index(listed))
    return found


def index(listed: dict[str, list[tuple[str, str]]]) -> Iterator[str]:
    """The page that leads to all others."""
    yield from _head("Reference")
    yield "Every layer, load and probe, and every field of a study: units, defaults, what the kernel gets."
    for folder, rows in listed.items():
        yield from ("", f"## {folder.capitalize()}", "", "| | |", "| --- | --- |")
        yield from (f"| [`{name}`]({folder}/{name}.md) | {text} |" for name, text in rows)
    yield ""


def _head(title: str) -> list[str]:
    return [MADE, "", f"# {title}", ""]


def _first(kind: type) -> str:
    return " ".join(_ticks(inspect.getdoc(kind) or "").split("\n\n")[0].split())


def _stands(folder: str, kind: Any) -> list[str]:
    if folder == "loads":
        return [
            "",
            f"Runs on {' or '.join(PORTS[each] for each in kind.takes)}, the first that the stack offers.",
            "",
        ]
    lower = PORTS[kind.takes] if kind.takes else "nothing: it is the lowest layer"
    return ["", f"Stands on {lower}. Gives {PORTS[kind.gives]}.", ""]


def struct_page(title: str, kind: type[msgspec.Struct], between: list[str]) -> Iterator[str]:
    """One struct: its docstring, then a table of its fields."""
    yield from _head(title)
    yield from prose(inspect.getdoc(kind) or "")
    yield from between or [""]
    texts = field_docs(kind)
    fields = msgspec.structs.fields(kind)
    if not fields:
        return
    yield "| field | value | default | meaning |"
    yield "| --- | --- | --- | --- |"
    for field in fields:
        name = field.encode_name
        if name not in texts:
            raise SystemExit(f"{kind.__name__}.{field.name} has no text: put a string below it in the source")
        kindly = _ticks(texts[name]).replace("|", "\\|")
        yield f"| `{name}` | {value_of(field.type)} | {_default(field)} | {kindly} |"
    yield ""


def prose(text: str) -> Iterator[str]:
    """A docstring as Markdown: double backquotes become single ones, indented blocks after ``::`` are YAML."""
    block = False
    for line in text.splitlines():
        if block and line and not line.startswith("    "):
            block = False
            yield from ("```", "")
        if line.endswith("::"):
            yield from (_ticks(line.removesuffix(":")), "", "```yaml")
            block = True
        elif not (block and not line):
            yield line.removeprefix("    ") if block else _ticks(line)
    if block:
        yield "```"


def _ticks(text: str) -> str:
    return text.replace("``", "`")


def value_of(kind: Any) -> str:
    """A field's type in a reader's words."""
    if kind in UNITS:
        return UNITS[kind]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return ", ".join(f"`{each}`" for each in arguments)
    if origin is typing.Annotated:
        return value_of(arguments[0])
    if origin in (typing.Union, types.UnionType):
        known = [value_of(each) for each in arguments if each is not type(None)]
        return " or ".join(dict.fromkeys(known))
    if origin in (tuple, list):
        inner = dict.fromkeys(value_of(each) for each in arguments if each is not Ellipsis)
        return f"list of {' or '.join(inner)}"
    if origin is dict:
        return f"map of names to {value_of(arguments[1])}"
    plain = {str: "text", int: "whole number", float: "number", bool: "`true`, `false`", Any: "anything"}
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind.__name__.lower()
    return plain[kind]


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    factory = field.default_factory
    value = field.default if factory is msgspec.NODEFAULT else factory()
    if value is None or value == "" or value == () or value == {}:
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{pretty(value)}`"


def pretty(value: Any) -> str:
    """A default as a study would write it."""
    if isinstance(value, Size):
        for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
            if value and value % factor == 0:
                return f"{int(value) // factor}{unit}"
    if isinstance(value, Duration) and value and value < 1:
        return f"{value * 1000:g}ms"
    return re.sub(r"\.0(?=[a-zA-Z])", "", str(value)) if isinstance(value, QUANTITIES) else str(value)


def members(union: Any) -> dict[str, type[Any]]:
    """Tag -> class, in the order of the union."""
    return {str(kind.__struct_config__.tag): kind for kind in typing.get_args(union)}


def main() -> None:
    """Write all pages anew."""
    made = pages()
    shutil.rmtree(FOLDER, ignore_errors=True)
    for path, text in made.items():
        file = FOLDER / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    print(f"{len(made)} pages in {FOLDER}")


if __name__ == "__main__":
    main()
