"""Writes docs/reference/: a page for each layer, workload, fault and probe, and for each part of a study file.

    python -m tools.reference

All of it comes from the types and their docstrings: a page says what a reader of the source would find. A test
compares the pages with what this makes, and fails where a field has no text.
"""

from __future__ import annotations

import inspect
import re
import shutil
import textwrap
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from blocklab.faults import AnyFault, Takeover
from blocklab.layers import AnyLayer
from blocklab.model.describe import field_docs, summary
from blocklab.model.ground import CpuCost, Degrade, LinkSpec, NodeSpec, Performance, Slow
from blocklab.model.stop import Stop
from blocklab.model.units import QUANTITIES, Bandwidth, BitRate, Duration, Share, Size
from blocklab.probes import PROBES
from blocklab.study import offers, profiles
from blocklab.study.types import Expectation, Factor, Stack, Study, View
from blocklab.workloads import AnyWorkload

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
MADE = "<!-- made by tools/reference.py from the source; edit the docstrings there -->"
# The parts of a study file by the fields of the study that hold them.
PARTS: dict[str, type[msgspec.Struct]] = {
    "study": Study,
    "nodes": NodeSpec,
    "cpu": CpuCost,
    "links": LinkSpec,
    "stacks": Stack,
    "profiles": profiles.Entry,
    "factors": Factor,
    "stop": Stop,
    "takeover": Takeover,
    "expectations": Expectation,
    "report": View,
}
# Folder -> its title, and the document that says how its pages belong together.
FOLDERS = {
    "study": ("Study files", "study-file.md"),
    "layers": ("Layers", "layers.md"),
    "workloads": ("Workloads", "workloads.md"),
    "faults": ("Faults", "faults.md"),
    "probes": ("Probes", "probes.md"),
}
UNITS = {
    Size: "size", Duration: "time", Bandwidth: "bytes per second", BitRate: "bits per second", Share: "per cent",
}  # fmt: skip
PLAIN = {str: "text", int: "whole number", float: "number", bool: "truth value"}
# What a tool's option or a level may be.
ANY_VALUE = {str, int, float, bool}
WIDTH = 120
PORTS = {
    "block": "a block device", "dir": "a folder", "postgresql": "a PostgreSQL database",
    "mysql": "a MariaDB or MySQL database",
}  # fmt: skip


def members(union: Any) -> dict[str, type[Any]]:
    """Tag -> class, in the order of the union."""
    return {str(kind.__struct_config__.tag): kind for kind in typing.get_args(union)}


LAYERS, WORKLOADS, FAULTS = members(AnyLayer), members(AnyWorkload), members(AnyFault)
# What a name in a text leads to: not the probes, since ``net`` and ``drbd`` mean something else as well.
_PAGES = {name: f"study/{name}.md" for name in PARTS} | {
    name: f"{folder}/{name}.md"
    for folder, found in (("workloads", WORKLOADS), ("layers", LAYERS), ("faults", FAULTS))
    for name in found
}
# What an entry of the profiles has in it stands on the same page.
OFFERS: dict[str, type[msgspec.Struct]] = {
    "slow": Slow, "degrade": Degrade, "sold": offers.Sold, "credit": offers.Credit, "price": offers.Price,
}  # fmt: skip
_STRUCTS = {kind: f"study/{name}.md" for name, kind in PARTS.items()} | dict.fromkeys(
    (Performance, *OFFERS.values()), "study/profiles.md"
)


def pages() -> dict[str, str]:
    """Path below docs/reference -> text, of every page."""
    found: dict[str, Iterator[str]] = {}
    listed: dict[str, list[tuple[str, str]]] = {folder: [] for folder in FOLDERS}
    for folder, kinds in (("study", PARTS), ("layers", LAYERS), ("workloads", WORKLOADS), ("faults", FAULTS)):
        for name, kind in kinds.items():
            found[f"{folder}/{name}.md"] = struct_page(folder, name, kind)
            listed[folder].append((name, summary(kind)))
    for probe in PROBES:
        found[f"probes/{probe.name}.md"] = _page("probes", probe.name, type(probe))
        listed["probes"].append((probe.name, summary(type(probe))))
    found["README.md"] = index(listed)
    return {path: "\n".join(lines).rstrip() + "\n" for path, lines in found.items()}


def index(listed: dict[str, list[tuple[str, str]]]) -> Iterator[str]:
    """The page that leads to all others."""
    yield from (MADE, "", "# Reference", "")
    yield "Every field of a study file, every layer, workload, fault and probe: units, defaults, what the kernel"
    yield "or the tool gets. In the tables a *value* is a text, a number, `true` or `false`, a *truth value* one"
    yield "of the two."
    for folder, rows in listed.items():
        title, overview = FOLDERS[folder]
        yield from ("", f"## {title}", "", f"How they belong together: [{title}](../{overview}).", "")
        yield from ("| page | what it is |", "| --- | --- |")
        yield from (f"| [{name}]({folder}/{name}.md) | {_ticks(text)} |" for name, text in rows)


def _page(folder: str, name: str, kind: type) -> Iterator[str]:
    title, overview = FOLDERS[folder]
    yield from (MADE, "", f"# {name}", "", f"[Reference](../README.md) · [{title}](../../{overview})", "")
    yield from prose(inspect.getdoc(kind) or "", name)


def struct_page(folder: str, name: str, kind: type[msgspec.Struct]) -> Iterator[str]:
    """One struct: its docstring, what it stands on, a table of its fields."""
    yield from _page(folder, name, kind)
    if folder in ("layers", "workloads"):
        yield from (_stands(kind), "")
    yield from _fields("Fields", name, kind)
    if kind is profiles.Entry:
        for field, part in OFFERS.items():
            yield from (f"## `{field}`", "", *prose(inspect.getdoc(part) or "", name))
            yield from _fields("", name, part)
        yield from _shipped()


def _fields(title: str, name: str, kind: type[msgspec.Struct]) -> Iterator[str]:
    if rows := list(_rows(name, kind)):
        yield from (f"## {title}", "") if title else ()
        yield from ("| field | value | default | meaning |", "| --- | --- | --- | --- |", *rows, "")


def _stands(kind: Any) -> str:
    if kind in WORKLOADS.values():
        return f"Runs on {', else on '.join(PORTS[each] for each in kind.takes)}."
    lower = f"Stands on {PORTS[kind.takes]}" if kind.takes else "Always the lowest layer"
    return f"{lower}. Gives {PORTS[kind.gives]}."


def _rows(page: str, kind: type[msgspec.Struct]) -> Iterator[str]:
    texts, own = field_docs(kind), inspect.get_annotations(kind)
    for field in sorted(
        msgspec.structs.fields(kind), key=lambda field: field.name not in own and not field.required
    ):
        name = field.encode_name
        if name in getattr(kind, "refused", ()):
            continue
        if name not in texts:
            raise SystemExit(f"{kind.__name__}.{field.name} has no text: put a string below it in the source")
        text = _ticks(texts[name], page).replace("|", "\\|")
        yield f"| `{name}` | {value_of(field.type)} | {_default(field)} | {text} |"


def _shipped() -> Iterator[str]:
    """A table of those that are from one source, with what they have in common told once."""
    yield from ("## Profiles that come with blocklab", "")
    groups: dict[str, list[str]] = {}
    for name, entry in profiles.shipped().items():
        groups.setdefault(entry.source, []).append(name)
    for source, names in groups.items():
        told = {name: _set_fields(profiles.shipped()[name]) for name in names}
        common = set.intersection(*(set(each) for each in told.values())) if len(names) > 1 else set()
        yield from (f"{source}", "")
        if common:
            yield from (f"All of them: {', '.join(each for each in told[names[0]] if each in common)}.", "")
        yield from ("| profile | values |", "| --- | --- |")
        for name in names:
            yield f"| `{name}` | {', '.join(each for each in told[name] if each not in common)} |"
        yield ""


def _set_fields(entry: profiles.Entry) -> list[str]:
    fields = msgspec.structs.fields(entry)
    return [
        f"`{field.name}: {pretty(value)}`"
        for field in fields
        if field.name != "source" and (value := getattr(entry, field.name)) != field.default
    ]


def prose(text: str, page: str) -> Iterator[str]:
    """A docstring as Markdown: an indented block after ``::`` is YAML; names of pages become links to them."""
    block = False
    for paragraph in text.split("\n\n"):
        if block and not paragraph.startswith("    "):
            block = False
            yield from ("```", "")
        if paragraph.startswith("|"):
            yield from (*_ticks(paragraph, page).split("\n"), "")
        elif block:
            yield from textwrap.dedent(paragraph).split("\n")
        else:
            said = _ticks(" ".join(paragraph.split()), page)
            block = said.endswith("::")
            yield from textwrap.wrap(
                said.removesuffix(":") if block else said, WIDTH, break_long_words=False, break_on_hyphens=False
            )
            yield ""
            if block:
                yield "```yaml"
    if block:
        yield from ("```", "")


def _ticks(text: str, page: str | None = None) -> str:
    """Double backquotes as single ones. With ``page`` the names of other pages lead there."""

    def word(match: re.Match[str]) -> str:
        name = match[1]
        known = page is not None and name != page and name in _PAGES
        return f"[`{name}`](../{_PAGES[name]})" if known else f"`{name}`"

    return re.sub("``(.+?)``", word, text)


def value_of(kind: Any, s: str = "") -> str:
    """A field's type in a reader's words; with ``s`` in the plural."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in UNITS:
        return f"[{UNITS[kind]}](../../study-file.md#quantities), e.g. `{kind.example}`"
    if kind in _STRUCTS:
        return f"[{kind.__name__.lower().removesuffix('spec')}{s}](../{_STRUCTS[kind]})"
    if kind in PLAIN:
        return PLAIN[kind] + s
    if kind is Any:
        return "anything"
    if origin is Literal:
        return ", ".join(f"`{each}`" for each in arguments if each != "")
    if origin is typing.Annotated:
        return value_of(arguments[0], s)
    if origin in (typing.Union, types.UnionType):
        return _one_of(arguments, s)
    if origin is dict:
        return f"map{s} of names to {value_of(arguments[1], 's')}"
    assert origin in (tuple, list), kind
    count = "" if origin is list or Ellipsis in arguments else f"{len(arguments)} "
    return f"list{s} of {count}{value_of(arguments[0], 's')}"


def _one_of(kinds: tuple[Any, ...], s: str) -> str:
    for name, found in (("layer", LAYERS), ("workload", WORKLOADS), ("fault", FAULTS)):
        if set(kinds) == set(found.values()):
            return f"[{name}{s}](../README.md#{name}s)"
    left = [kind for kind in kinds if kind not in (type(None), msgspec.UnsetType)]
    words = []
    if set(left) >= ANY_VALUE:
        words.append(f"value{s}")
        left = [kind for kind in left if kind not in ANY_VALUE]
    return " or ".join([*words, *(value_of(kind, s) for kind in left)])


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    factory = field.default_factory
    value = field.default if factory is msgspec.NODEFAULT else factory()
    # The fields of a part have their defaults on its own page.
    plain = value not in (None, msgspec.UNSET, "", (), {}) and not isinstance(value, msgspec.Struct)
    return f"`{pretty(value)}`" if plain else ""


def pretty(value: Any) -> str:
    """A value as a study would write it: a quantity by the unit that makes it shortest."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, QUANTITIES) and value == 0:
        # In every unit it is as short.
        return f"0{value.base}"
    if isinstance(value, QUANTITIES):
        units = reversed(list(value.units.items()))
        written = [f"{value / factor:.9f}".rstrip("0").rstrip(".") + unit for unit, factor in units]
        exact = [text for text in written if type(value)(text) == value]
        return min(exact, key=lambda text: (text.startswith("0."), len(text), not text.isascii()))
    if isinstance(value, msgspec.Struct):
        fields = [(field, getattr(value, field.name)) for field in msgspec.structs.fields(value)]
        return (
            f"{{{', '.join(f'{field.name}: {pretty(each)}' for field, each in fields if each != field.default)}}}"
        )
    if isinstance(value, tuple):
        return f"[{', '.join(pretty(each) for each in value)}]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def main() -> None:
    """Write all pages again."""
    made = pages()
    shutil.rmtree(FOLDER, ignore_errors=True)
    for path, text in made.items():
        file = FOLDER / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    print(f"{len(made)} pages in {FOLDER}")


if __name__ == "__main__":
    main()
