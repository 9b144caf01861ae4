"""What is said of a study file that cannot be read as YAML at all, with the line and what to do."""

from __future__ import annotations

import re
from pathlib import Path

from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError

from blocklab.errors import StudyError, Unreadable
from blocklab.model.knobs import nearest
from blocklab.study.shipped import shipped

# found duplicate key "local" with value ...
_TWICE = re.compile(r'found duplicate key "(?P<key>[^"]*)"')
_OPEN = {"while parsing a flow mapping": "{", "while parsing a flow sequence": "["}


def not_there(path: Path) -> StudyError:
    """No file of that name."""
    hint = "blocklab new NAME writes one to start from; blocklab studies lists those that come with blocklab"
    problem = f"no such study file{nearest(path.stem, shipped())}"
    return StudyError("", problem, file=str(path), hint=hint)


def not_readable(path: Path, error: Unreadable) -> StudyError:
    """A file that is not there, or is none, or is in another encoding."""
    if isinstance(error.__cause__, FileNotFoundError):
        return not_there(path)
    if isinstance(error.__cause__, UnicodeDecodeError):
        return not_text(path, error.__cause__)
    if path.is_dir():
        return StudyError("", "is a folder", file=str(path), hint=f"give a study file, e.g. {path / 'NAME.yaml'}")
    return StudyError("", error.problem, file=str(path), line=error.line, hint=error.hint)


def not_text(path: Path, error: UnicodeDecodeError) -> StudyError:
    """A file in another encoding."""
    line = bytes(error.object)[: error.start].count(b"\n") + 1
    odd = error.object[error.start]
    hint = "save it as UTF-8; from Latin-1: iconv -f latin1 -t utf-8 OLD > NEW"
    return StudyError("", f"is not UTF-8: byte 0x{odd:02x}", file=str(path), line=line, hint=hint)


def twice(path: Path, text: str, error: DuplicateKeyError) -> StudyError:
    """A key that a map has twice, with the lines of both."""
    mark, begun = error.problem_mark, error.context_mark
    match = _TWICE.search(str(error.problem))
    if mark is None or match is None:
        return StudyError("", str(error.problem).split("\n")[0], file=str(path), hint="keep one of them")
    key, lines = match["key"], text.splitlines()
    pattern = re.compile(rf"^.{{{mark.column}}}['\"]?{re.escape(key)}['\"]?\s*:")
    before = range(0 if begun is None else begun.line, min(mark.line, len(lines)))
    first = next((number for number in before if pattern.match(lines[number])), None)
    where = "" if first is None else f", first in line {first + 1}"
    problem = f'found duplicate key "{key}"{where}'
    hint = "give each one a name of its own, or remove one"
    return StudyError("", problem, file=str(path), line=mark.line + 1, hint=hint)


def not_yaml(path: Path, error: MarkedYAMLError) -> StudyError:
    """What is no YAML, with where it begins."""
    line = error.problem_mark.line + 1 if error.problem_mark else 0
    problem, hint = str(error.problem), ""
    if r"'\t'" in problem:
        return StudyError(
            "", "not YAML: a tab", file=str(path), line=line, hint="indent with blanks, not with tabs"
        )
    if (bracket := _OPEN.get(str(error.context))) and error.context_mark:
        hint = f"is the {bracket} in line {error.context_mark.line + 1} closed, with commas between its items?"
    return StudyError("", f"not YAML: {problem}", file=str(path), line=line, hint=hint)
