"""From a study file to a checked ``Study``: every error names the place in the file and the cure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from blocklab.errors import StudyError
from blocklab.model.units import dec_hook
from blocklab.study import profiles
from blocklab.study.check import check
from blocklab.study.types import Study

# msgspec ends its messages with "... - at `$.stacks[...].layers[1].protocol`" ([...] stands for any key),
# and with "- at `key` in `$.stacks`" for a bad key.
_AT = re.compile(r"^(?P<problem>.*?)(?: - at `(?P<path>\$[^`]*)`| - at `key` in `(?P<parent>\$[^`]*)`)?$", re.S)
_PART = re.compile(r"\.(?P<field>[^.\[]+)|\[(?P<index>\d+)\]|(?P<any>\[\.\.\.\])")


def read(path: Path, *, quick: bool = False) -> Study:
    """Read, patch (with ``quick``) and check a study file. Raises ``StudyError``."""
    raw = load_yaml(path)
    try:
        return build(raw, folder=path.parent, quick=quick)
    except StudyError as error:
        raise placed(path, error) from error


def placed(path: Path, error: StudyError) -> StudyError:
    """The same error with the file and the line that it speaks of."""
    line = line_of(load_yaml(path), error.path)
    return StudyError(error.path, error.problem, hint=error.hint, file=str(path), line=line)


def load_yaml(path: Path) -> CommentedMap:
    """The file as YAML 1.2 with line numbers. Raises ``StudyError``."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise StudyError("", "no such study file", file=str(path), hint="blocklab run STUDY.yaml") from error
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError("", f"cannot be read: {error}", file=str(path)) from error
    try:
        raw = YAML().load(text)
    except DuplicateKeyError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        problem = str(error.problem).split("\n")[0]
        raise StudyError("", problem, file=str(path), line=line, hint="give each one a name of its own") from error
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise StudyError("", f"not YAML: {error.problem}", file=str(path), line=line) from error
    except YAMLError as error:
        raise StudyError("", f"not YAML: {error}", file=str(path)) from error
    if not isinstance(raw, CommentedMap):
        raise StudyError("", "a study is a map of fields", file=str(path), hint="start with: blocklab: 1")
    return raw


def build(raw: Mapping[str, Any], *, folder: Path = Path(), quick: bool = False, imported: bool = False) -> Study:
    """A checked study from plain data. Raises ``StudyError`` with the path, without file and line.

    ``imported``: its figures come from logs, so nothing of it has to be built.
    """
    if "imported" in raw:
        hint = "blocklab import --study FILE --stack NAME=DIR"
        raise StudyError("imported", "this file describes logs to import, not a study to run", hint=hint)
    plain = plain_data(raw)
    if quick and plain.get("quick", {}) == {}:
        hint = "leave out --quick, or add one, e.g. quick: {workloads: {tx: {time: 5s}}}"
        raise StudyError("quick", "the study has no short form", hint=hint)
    # What is no map is refused below, with and without --quick.
    if quick and isinstance(patch := plain.get("quick"), Mapping):
        plain = merge_patch(plain, patch)
    plain = _with_files(plain, folder)
    study = _convert(profiles.fill(plain))
    check(study, imported=imported, quick=quick)
    return study


def plain_data(value: Any) -> Any:
    """Without what YAML's types remember of how they were written."""
    if isinstance(value, Mapping):
        return {key: plain_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_data(item) for item in value]
    # ruamel's ScalarInt, ScalarFloat and string types keep how they were written; msgspec wants the bare ones.
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return value


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7396: maps merge, null removes, anything else replaces."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def _with_files(plain: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Put the text of files that a workload names beside the name: a cell's key must change with the text."""
    workloads = plain.get("workloads")
    if not isinstance(workloads, dict):
        return plain
    filled = {}
    for name, workload in workloads.items():
        if isinstance(workload, dict) and isinstance(workload.get("jobfile"), str):
            file = folder / workload["jobfile"]
            try:
                workload = {**workload, "jobtext": file.read_text(encoding="utf-8")}
            except (OSError, UnicodeDecodeError) as error:
                raise StudyError(f"workloads.{name}.jobfile", f"{file} cannot be read: {error}") from error
        filled[name] = workload
    return {**plain, "workloads": filled}


def _convert(plain: dict[str, Any]) -> Study:
    try:
        return msgspec.convert(plain, Study, dec_hook=dec_hook)
    except msgspec.ValidationError as error:
        problem, path = _locate(plain, str(error))
        raise StudyError(path, problem, hint=_cure(problem, path)) from error


def _locate(plain: dict[str, Any], text: str) -> tuple[str, str]:
    """Message and path, with each ``[...]`` replaced by the key that fails.

    The key is found by leaving the others out: the one whose map alone gives the same message is it.
    """
    match = _AT.match(text)
    assert match is not None
    problem, path = match["problem"], match["path"] or match["parent"] or "$"
    while "[...]" in path:
        parent = path[: path.index("[...]")]
        items = _at(plain, _parts(parent))
        for key in items:
            alone = _replace(plain, _parts(parent), {key: items[key]})
            try:
                msgspec.convert(alone, Study, dec_hook=dec_hook)
            except msgspec.ValidationError as error:
                if str(error) == text:
                    path = path.replace("[...]", f".{key}", 1)
                    break
        else:
            break
    return problem[:1].lower() + problem[1:], path.removeprefix("$").removeprefix(".")


def _cure(problem: str, path: str) -> str:
    if "unknown field" in problem:
        return "blocklab schema prints every field that a study may have"
    if "missing required field" in problem:
        return "add the field"
    if path == "report.y":
        return "a metric's name or its last parts, like latency.p99"
    if "matching regex" in problem:
        return "names start with a lower-case letter and hold only a-z, 0-9, - and _ (31 at most)"
    if "enum value" in problem:
        return "docs/study-file.md and `blocklab schema` list the values that are allowed"
    if path.endswith((".layer", ".load")):
        return "blocklab schema prints the known layers and loads"
    return ""


def _parts(path: str) -> list[str | int]:
    return [int(m["index"]) if m["index"] else m["field"] for m in _PART.finditer(path) if not m["any"]]


def _at(value: Any, parts: list[str | int]) -> Any:
    for part in parts:
        value = value[part]
    return value


def _replace(value: Any, parts: list[str | int], new: Any) -> Any:
    if not parts:
        return new
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[parts[0]] = _replace(value[parts[0]], parts[1:], new)
    return copy


def line_of(raw: CommentedMap, path: str) -> int:
    """The line of a path, or of its nearest parent that stands in the file; 0 when nothing does."""
    line = 0
    value: Any = raw
    for part in _parts("." + path if path else ""):
        try:
            if isinstance(value, CommentedMap):
                line = value.lc.key(part)[0] + 1
            elif isinstance(value, CommentedSeq):
                line = value.lc.item(part)[0] + 1
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return line
    return line
