"""What a study may write into a command line, a job file or a configuration: names of options, and what their
values may look like.

A study may come from somebody else, and its words reach programs that run as root on the user's hosts. So each
tool has a table of the options that are known to stay within what it was given. What stands in no table is
refused: also an option that a later version of the tool brings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from blocklab.model.knobs import nearest

# A part of a name that may be anything: "rmem_*", "*.rp_filter".
_ANY = r"[A-Za-z0-9_-]+"


class Shape(msgspec.Struct, frozen=True):
    """What a value may look like. None of them takes a path: no slash begins a part, and there is no ``..``."""

    what: str
    """For the message: "is not ..."."""
    form: str
    """A regular expression of the whole value."""

    def problem(self, value: str) -> str | None:
        """What is wrong with a value; None where it has this shape."""
        _what = self.what
        return None if re.fullmatch(self.form, value) else f"{value!r} is not {_what}"


def words(*known: str) -> Shape:
    """One of these."""
    return Shape(f"one of {', '.join(known)}", "|".join(map(re.escape, known)))


# "4096", "0x80", "1.5e3", "64k", "250us", "1 h", "50%"
_UNSIGNED = r"(?:0[xX][0-9A-Fa-f]+|(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?[ ]?[A-Za-z%]{0,7})"
_NUMBER = rf"[+-]?{_UNSIGNED}"
NOTHING = Shape("needed: it takes no value", r"")
NUMBER = Shape("a number", _NUMBER)
NUMBERS = Shape("a number, or several", rf"[,:]*{_NUMBER}(?:[,:-]+{_UNSIGNED})*[,:]*")
# "sync_binlog = 1" and "fsync = on": what is a number or a truth value names nothing, whatever the option.
PLAIN = Shape("a number, true or false", rf"{_NUMBER}|(?i:on|off|true|false|yes|no|t|f|y|n)")
WORD = Shape("a word of letters, digits and _ . : , + % -", r"[A-Za-z0-9_^+-](?:[A-Za-z0-9_:,+%-]|\.(?!\.))*")
LABEL = Shape("a name of letters, digits, _ and -", r"[A-Za-z0-9_][A-Za-z0-9_-]*")
TEXT = Shape("a text of letters, digits, blanks and _ . : , ( ) + % -", r"(?:[A-Za-z0-9_ :,()+%=-]|\.(?!\.))*")
# sysctl's "4096 131072 6291456"
WORDS = Shape("a number or a word, or several with blanks between", r"[A-Za-z0-9_+-]+(?:[ \t]+[A-Za-z0-9_+-]+)*")


class Allowed(msgspec.Struct, frozen=True):
    """The options of a tool that a study may set.

    ``shapes``: by their names; a ``*`` stands for any letters. An option without a value has the value ``""``.
    ``refused``: why some are not among them, for whoever asks for one. ``others``: what all that stand in neither
    may be set to, for a tool of which no option does harm by a number. ``names``: a regular expression of any
    name, and what is said of another. ``never``: by a regular expression of names, why no table can allow them.
    """

    tool: str
    shapes: Mapping[str, Shape]
    refused: Mapping[str, str] = {}
    others: Shape | None = None
    names: tuple[str, str] = (r"(?s:.*)", "")
    never: Mapping[str, str] = {}

    def problem(self, name: str, value: str) -> str | None:
        """Why a study may not set this option to this value; None where it may."""
        if not re.fullmatch(self.names[0], name):
            return self.names[1]
        if why := next((why for names, why in self.never.items() if re.fullmatch(names, name)), None):
            return why
        shape = self.shape(name)
        bad = shape.problem(value) if shape is not None else ""
        if bad is None:
            return None
        if why := next((why for other, why in self.refused.items() if _matches(other, name)), None):
            return f"refused: {why}"
        if bad:
            return bad
        if self.others is None:
            return f"is not an option of {self.tool} that a study may set{nearest(name, self.shapes)}"
        if bad := self.others.problem(value):
            _nearest = nearest(name, self.shapes)
            return f"{bad}; words are only for options that are known to name no file and no program{_nearest}"
        return None

    def shape(self, name: str) -> Shape | None:
        """What its value may look like; None for an option that is not in the table."""
        if "*" not in name and name in self.shapes:
            return self.shapes[name]
        return next(
            (shape for known, shape in self.shapes.items() if "*" in known and _matches(known, name)), None
        )


def _matches(known: str, name: str) -> bool:
    return known == name or (
        "*" in known and re.fullmatch(_ANY.join(map(re.escape, known.split("*"))), name) is not None
    )


def entries(shape: Shape, names: str) -> dict[str, Shape]:
    """A part of a table: these names, with blanks between, have this shape."""
    return dict.fromkeys(names.split(), shape)


def pairs(text: str) -> Iterator[tuple[str, str]]:
    """``size=64m,lazy-count=1,internal`` as (name, value); no value is ``""``."""
    for part in text.split(","):
        name, _, value = part.partition("=")
        yield name, value


def arguments(allowed: Allowed, given: Sequence[str], thing: str) -> Iterator[tuple[int, str]]:
    """(index, problem) of each argument of a command that a study may not have. ``thing`` is what the command
    takes an argument for that is no option.

    It reads them as getopt does, but for short flags: one with a value stands by itself. A suboption's name in the
    table is ``-l|size``.
    """
    rest = iter(enumerate(given))
    for index, word in rest:
        if not word.startswith("-") or word in ("-", "--"):
            yield index, f"{allowed.tool} would take {word!r} for a {thing}; leave it out"
            continue
        option, equals, value = word.partition("=") if word.startswith("--") else (word[:2], "", word[2:])
        if _takes_value(allowed, option):
            value = value if value or equals else next(rest, (index, ""))[1]
            names = list(_named(allowed, option, value))
        elif equals or option == word:
            names = [(option, value)]
        else:
            names = [(f"-{letter}", "") for letter in word[1:]]
        for name, text in names:
            if why := allowed.problem(name, text):
                # It is written "-l size=..."
                yield index, f"{name}: {why}".replace("|", " ")


def _takes_value(allowed: Allowed, option: str) -> bool:
    known = {**allowed.shapes, **allowed.refused}
    shape = allowed.shapes.get(option)
    return any(name.startswith(f"{option}|") for name in known) or (shape is not None and shape is not NOTHING)


def _named(allowed: Allowed, option: str, value: str) -> Iterator[tuple[str, str]]:
    """An option with its value, or each of its suboptions."""
    if option in allowed.shapes:
        yield option, value
    else:
        yield from ((f"{option}|{name}", text) for name, text in pairs(value))
