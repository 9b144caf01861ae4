"""From a study file to a checked ``Study``: every error names the place in the file and the hint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError

from blocklab.errors import StudyError, Unreadable
from blocklab.model import outside
from blocklab.study import profiles, unread
from blocklab.study.bounded import parsed
from blocklab.study.check import check
from blocklab.study.decode import decoded, mistaken, parts, storable
from blocklab.study.old import modern, words
from blocklab.study.types import Study


def read(path: Path, *, quick: bool = False, first: Callable[[Study], None] = lambda study: None) -> Study:
    """Read, patch (with ``quick``) and check a study file. Raises ``StudyError``.

    ``first`` gets the study before its problems are looked for, which takes a while for thousands of levels.
    """
    raw = load_yaml(path)
    try:
        return build(raw, folder=path.parent, quick=quick, first=first)
    except StudyError as error:
        raise placed(path, error, quick=quick) from error


def placed(path: Path, error: StudyError, *, quick: bool = False) -> StudyError:
    """The same error with the file and the line that it speaks of; ``quick``: of the study's short form."""
    raw = load_yaml(path)
    found = [_placed(path, raw, each, quick=quick) for each in (error, *error.more)]
    return StudyError.of(sorted(found, key=lambda each: each.line))


def _placed(path: Path, raw: CommentedMap, error: StudyError, *, quick: bool) -> StudyError:
    problem, place = error.problem, error.path
    if quick and parts(place)[:1] != ["quick"]:
        problem = f"{problem} (with --quick)"
        place = f"quick.{place}" if _of_patch(raw, place) else place
    return StudyError(error.path, problem, hint=error.hint, file=str(path), line=line_of(raw, place))


def _of_patch(raw: CommentedMap, path: str) -> bool:
    """Whether what stands at a path comes from the short form: it has all of the path, or a list around it."""
    value: Any = raw.get("quick")
    for part in parts(path):
        if not isinstance(value, Mapping):
            return isinstance(value, CommentedSeq)
        if part not in value:
            return False
        value = value[part]
    return path != ""


def load_yaml(path: Path) -> CommentedMap:
    """The study as YAML 1.2 with line numbers. Raises ``StudyError``."""
    raw = yaml_of(path)
    if not isinstance(raw, CommentedMap):
        raise StudyError("", "a study is a map of fields", file=str(path), hint="start with: blocklab: 2")
    return raw


def yaml_of(path: Path) -> Any:
    """What any YAML file of the user's holds. Raises ``StudyError``."""
    try:
        text = outside.text(path)
    except Unreadable as error:
        raise unread.not_readable(path, error) from error
    try:
        raw = parsed(text)
    except Unreadable as error:
        raise of_file(path, error) from error
    except DuplicateKeyError as error:
        raise unread.twice(path, text, error) from error
    except MarkedYAMLError as error:
        raise unread.not_yaml(path, error) from error
    except Exception as error:
        # ruamel raises whatever its parts raise, a KeyError for !!bool x, an AttributeError for a map as a key.
        raise StudyError("", f"not YAML: {str(error) or type(error).__name__}", file=str(path)) from error
    if (odd := _odd_key(raw)) is not None:
        raise StudyError("", f"{odd} is no key: a key is a word, not a map or a list", file=str(path))
    return raw


def of_file(path: Path, error: Unreadable, field: str = "") -> StudyError:
    """What keeps a file of the user's from being read; ``field`` of a study names it."""
    return StudyError(field, f"cannot be read: {error.problem}", hint=error.hint, file=str(path), line=error.line)


def _odd_key(raw: Any) -> Any:
    """The first key that is a map or a list (``? {a: 1}``); None where there is none."""
    # An entry may refer to itself, or be nested deeply.
    open_, seen = [raw], set()
    while open_:
        each = open_.pop()
        if id(each) in seen or not isinstance(each, Mapping | list | tuple):
            continue
        seen.add(id(each))
        if isinstance(each, Mapping):
            if (odd := next((key for key in each if isinstance(key, Mapping | list | tuple)), None)) is not None:
                return dict(odd) if isinstance(odd, Mapping) else list(odd)
            each = list(each.values())
        open_ += each
    return None


def build(
    raw: Mapping[str, Any],
    *,
    folder: Path = Path(),
    quick: bool = False,
    imported: bool = False,
    first: Callable[[Study], None] = lambda study: None,
) -> Study:
    """A checked study from plain data. Raises ``StudyError`` with the path, without file and line.

    ``imported``: its values come from logs, so nothing of it has to be built.
    """
    study = unchecked(raw, folder=folder, quick=quick)
    first(study)
    check(study, imported=imported, quick=quick)
    return study


def unchecked(raw: Mapping[str, Any], *, folder: Path = Path(), quick: bool = False) -> Study:
    """A study from plain data that has its form, and may have problems. Raises ``StudyError`` like ``build``."""
    if "imported" in raw:
        hint = "blocklab import --study FILE --stack NAME=DIR"
        raise StudyError("imported", "this file describes logs to import, not a study to run", hint=hint)
    plain, _ = words(modern(plain_data(raw)))
    if quick and plain.get("quick", {}) == {}:
        hint = "leave out --quick, or add one, e.g. quick: {workloads: {tx: {time: 5s}}}"
        raise StudyError("quick", "the study has no quick variant", hint=hint)
    # What is no map is refused below, with and without --quick.
    if quick and isinstance(patch := plain.get("quick"), Mapping):
        plain = merge_patch(plain, patch)
    storable(plain)
    return _decoded(_with_files(plain, folder))


def _decoded(plain: dict[str, Any]) -> Study:
    try:
        filled = profiles.fill(plain)
    except StudyError as error:
        # Of the profiles it is one mistake, and what else is wrong does not depend on them.
        raise StudyError.of([error, *mistaken(plain)]) from error
    return decoded(filled)


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
            workload = {**workload, "jobtext": _job_text(f"workloads.{name}.jobfile", workload["jobfile"], folder)}
        filled[name] = workload
    return {**plain, "workloads": filled}


def _job_text(field: str, name: str, folder: Path) -> str:
    """The text of a file below the study's folder: a study of somebody else's shows no other one."""
    hint = "put the job file beside the study, or into a folder there"
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise StudyError(field, f"{name} is not below the study's folder", hint=hint)
    file = folder / name
    try:
        real = file.resolve(strict=True)
        if not real.is_relative_to(folder.resolve()):
            raise StudyError(field, f"{name} is a link out of the study's folder", hint=hint)
        return outside.text(real)
    except (OSError, RuntimeError, ValueError) as error:
        # resolve raises a RuntimeError for links in a circle, and a ValueError for a name with a NUL.
        why = error.problem if isinstance(error, Unreadable) else getattr(error, "strerror", "") or str(error)
        at = f", line {error.line}" if isinstance(error, Unreadable) and error.line else ""
        tip = error.hint if isinstance(error, Unreadable) else ""
        raise StudyError(field, f"{file}{at} cannot be read: {why}", hint=tip) from error


def line_of(raw: CommentedMap, path: str) -> int:
    """The line of a path, or of its nearest parent that stands in the file; 0 when nothing does."""
    line = 0
    value: Any = raw
    for part in parts(path):
        try:
            if isinstance(value, CommentedMap):
                line = value.lc.key(part)[0] + 1
            elif isinstance(value, CommentedSeq):
                line = value.lc.item(part)[0] + 1
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return line
    return line
