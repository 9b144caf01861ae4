"""Which options mount(8) and the mkfs programs take for ext4 and xfs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from blocklab.model import known

# "1m", "262144"
_SIZE = re.compile(r"(?P<number>\d+)(?P<unit>[kmg]?)", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3}
# These decide the same; of two the last one would hold.
_SAME = {
    "atime": "atime", "noatime": "atime", "relatime": "atime", "strictatime": "atime",
    "sync": "sync", "async": "sync", "dioread_lock": "dioread_nolock",
    "bsdgroups": "grpid", "sysvgroups": "grpid", "inode32": "inode64", "no_mbcache": "mbcache",
    "minixdf": "bsddf",
}  # fmt: skip


def problems(name: str, options: Sequence[str]) -> Iterator[tuple[int, str]]:
    """``(index, problem)`` of each mount option that the file system ``name`` would refuse, that leaves nothing
    to write to, or that contradicts an earlier one."""
    decided: dict[str, str] = {}
    for index, option in enumerate(options):
        earlier = decided.setdefault(_subject(option), option)
        if problem := _problem(name, option):
            yield index, problem
        elif earlier != option:
            yield index, f"{option!r} decides the same as {earlier!r}; give one of the two"


def _subject(option: str) -> str:
    bare = option.partition("=")[0]
    return _SAME.get(bare) or bare.removeprefix("no")


def _problem(name: str, option: str) -> str | None:
    if name == "xfs" and _subject(option) == "barrier":
        return f"xfs has no {option!r} since Linux 4.19; leave it out, or take ext4"
    if option == "ro":
        return "nothing could be written to a file system that is mounted with 'ro'; leave it out"
    tables = known.table("filesystems")
    mine = {**tables["any"], **tables[name]}
    bare, equals, value = option.partition("=")
    knob = mine.get(bare)
    if knob is None:
        for other in {"ext4", "xfs"} - {name}:
            if bare in tables[other]:
                return f"{bare!r} is an option of {other}, and this is {name}"
        return f"{bare!r} is no mount option of {name} that a study can set{known.nearest(bare, mine)}"
    if not equals:
        return None if knob.kind == "flag" or knob.bare else f"{bare!r} needs a value: {bare}={_example(knob)}"
    why = _value(knob, value)
    return f"{bare}: {why}" if why else None


def _example(knob: known.Knob) -> str:
    return knob.words[0] if knob.words else "NUMBER"


def _value(knob: known.Knob, value: str) -> str | None:
    if knob.kind == "flag":
        return f"takes no value, but has {value!r}"
    if knob.kind == "word" and value not in knob.words:
        return known.not_among(value, knob.words)
    if knob.kind == "integer" and not value.isdigit():
        return f"{value!r} is not a whole number"
    return _count(knob, value) if knob.kind in ("integer", "size") else None


def mkfs_problems(name: str, words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """``(index, problem)`` of each argument that ``mkfs.NAME`` does not know, or would take for a device."""
    options = known.table("filesystems")[f"mkfs.{name}"]
    for index, option, value in _read(options, words):
        knob = options.get(option)
        if not option:
            yield index, f"{value!r} is no option, so that mkfs.{name} would take it for a device; leave it out"
        elif knob is None:
            yield index, f"mkfs.{name} has no option {option} that a study can set"
        elif knob.kind != "flag" and value is None:
            yield index, f"{option} of mkfs.{name} needs a value, as one list item more"
        elif wrong := _argument(knob, value or ""):
            yield index, f"{option} of mkfs.{name}: {wrong}"


def _argument(knob: known.Knob, value: str) -> str | None:
    """Of several words each may have a value, or a sign that takes the feature away: ``^has_journal``."""
    if knob.kind == "integer":
        return _count(knob, value)
    parts = [value]
    if knob.kind == "words":
        parts = [part.lstrip("^+-").partition("=")[0] for part in value.split(",")]
    for part in parts:
        if knob.words and part not in knob.words:
            return known.not_among(part, knob.words)
    return None


def _count(knob: known.Knob, value: str) -> str | None:
    match = _SIZE.fullmatch(value)
    if match is None:
        return f"{value!r} is not a number"
    return known.outside(knob, int(match["number"]) * 1024 ** _POWERS[match["unit"].lower()], value)


def _read(options: Mapping[str, known.Knob], words: Sequence[str]) -> Iterator[tuple[int, str, str | None]]:
    """``(index, option, value)`` as getopt(3) reads them; without an option the word stands by itself."""
    rest = iter(enumerate(words))
    for index, word in rest:
        if len(word) < 2 or word[0] != "-":
            yield index, "", word
            continue
        if word.startswith("--"):
            # mkfs.xfs has one such option, which takes no value.
            yield index, word, None
            continue
        for at, letter in enumerate(word[1:], 2):
            option = f"-{letter}"
            if option not in options or options[option].kind != "flag":
                # "-b1024", or "-b" and "1024"
                following = word[at:] or (next(rest, (0, None))[1] if option in options else None)
                yield index, option, following
                break
            yield index, option, None
