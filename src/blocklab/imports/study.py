"""The file that describes imported logs, and the study that it makes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from ruamel.yaml.comments import CommentedMap

from blocklab.errors import StudyError
from blocklab.study.read import build, line_of, load_yaml, plain_data
from blocklab.study.types import Name, Study

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,30}")
_LONGEST, _HASHED = 31, 6


class ImportedStack(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A layout: ``says`` in words what it was. ``host`` is the node whose workload and devices count, where the
    files name several; ``device`` the block device that it stood on, where there are several. ``began`` has the
    time at which a workload began whose logs have none, by its name; ``belongs_to`` the workload that a file
    watched, by the file's name or a pattern."""

    says: str = ""
    host: str = ""
    device: str = ""
    began: dict[Name, str] = {}
    belongs_to: dict[str, Name] = {}


class ImportedWorkload(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A workload: ``says`` in words what was run."""

    says: str = ""


class ImportFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file: what the logs themselves do not tell. ``expect`` is as in a study that runs."""

    imported: Literal[1]
    name: Name
    question: str
    stacks: dict[Name, ImportedStack]
    workloads: dict[Name, ImportedWorkload] = {}
    baseline: str = ""
    expect: tuple[Any, ...] = ()
    notes: tuple[str, ...] = ()


def read(path: Path, given: Iterable[str]) -> ImportFile:
    """The file; its stacks must be those ``given``. Raises ``StudyError`` with file and line."""
    raw = load_yaml(path)
    plain = plain_data(raw)
    if "imported" not in plain:
        problem = "this is no file about imported logs: it does not start with imported: 1"
        raise StudyError("", problem, file=str(path), hint="docs/import.md shows one; or leave --study out")
    try:
        found = msgspec.convert(plain, ImportFile)
    except msgspec.ValidationError as error:
        text, _, at = str(error).partition(" - at `$")
        place = at.removesuffix("`").lstrip(".")
        raise StudyError(place, text[:1].lower() + text[1:], file=str(path), line=line_of(raw, place)) from error
    _same_stacks(path, raw, found, list(given))
    return found


def _same_stacks(path: Path, raw: CommentedMap, found: ImportFile, given: Sequence[str]) -> None:
    for name in given:
        if name not in found.stacks:
            problem = f"there is no stack {name!r}, which --stack gives; there are {', '.join(found.stacks)}"
            raise StudyError("stacks", problem, file=str(path), line=line_of(raw, "stacks"))
    for name in found.stacks:
        if name not in given:
            place = f"stacks.{name}"
            hint = f"--stack {name}=DIR"
            raise StudyError(place, "has no logs", file=str(path), line=line_of(raw, place), hint=hint)


def minimal(names: Sequence[str]) -> ImportFile:
    """What can be said without a file: the stacks' names."""
    for name in names:
        if not _NAME.fullmatch(name):
            problem = f"--stack {name}=...: no name for a stack"
            raise StudyError("", problem, hint="lower-case letters, digits, - and _, a letter first (31 at most)")
    others = ", ".join(names[1:])
    question = f"How does {others} compare with {names[0]}?" if others else f"What do the logs of {names[0]} say?"
    return ImportFile(1, short(f"imported-{'-'.join(names)}"), question, {n: ImportedStack() for n in names})


def name_of(text: str) -> str:
    """A host's or a folder's name as a study may have it; ``x`` where nothing of it is left."""
    plain = re.sub(r"[^a-z0-9_-]+", "-", text.lower()).strip("-_")
    return short(plain if plain[:1].isalpha() else f"x{plain}")


def workload_name(folder: str, tool: str, *, alone: bool) -> str:
    """What a workload is called: by its folder, where that has one tool's logs ``alone``."""
    return folder if folder and alone else short(f"{folder}-{tool}") if folder else tool


def short(name: str) -> str:
    """A name of 31 characters at most: of a longer one the start, with a hash that keeps it apart from others."""
    if len(name) <= _LONGEST:
        return name
    kept = name[: _LONGEST - _HASHED - 1].rstrip("-_")
    return f"{kept}-{hashlib.sha256(name.encode()).hexdigest()[:_HASHED]}"


def study(
    file: ImportFile,
    path: Path | None,
    hosts: Mapping[str, Sequence[str]],
    workloads: Mapping[str, Mapping[str, Mapping[str, str]]],
    repeats: int,
) -> Study:
    """The study of what was found: ``hosts`` of each stack, the active one first; ``workloads`` by name, with the
    options of fio's jobs. Raises ``StudyError``."""
    known = list(workloads)
    for name in file.workloads:
        if name not in known:
            problem = f"no log is of a workload {name!r}; there are {', '.join(known)}"
            raise StudyError(f"workloads.{name}", problem, file=str(path or ""))
    ordered = [*file.workloads, *(name for name in known if name not in file.workloads)]
    nodes = dict.fromkeys(host for each in hosts.values() for host in each)
    plain = {
        "blocklab": 2, "name": file.name, "question": file.question, "repeats": repeats, "baseline": file.baseline,
        "nodes": {node: {} for node in nodes},
        "stacks": {
            name: {"on": hosts[name][0], "layers": [{"layer": "imported", "says": stack.says}]}
            for name, stack in file.stacks.items()
        },
        "workloads": {
            name: {
                "workload": "imported", "says": file.workloads[name].says if name in file.workloads else "",
                "jobs": workloads[name],
            }
            for name in ordered
        },
        "expect": file.expect, "notes": file.notes,
    }  # fmt: skip
    try:
        return build(plain, imported=True)
    except StudyError as error:
        line = line_of(load_yaml(path), error.path) if path is not None else 0
        raise StudyError(error.path, error.problem, hint=error.hint, file=str(path or ""), line=line) from error
