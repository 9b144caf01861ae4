"""Text as people see it: in a terminal, on a page, in a spreadsheet. No character of it does anything but show
itself."""

from __future__ import annotations

import json
import re

# All of C0 but tab and newline, DEL and C1, which a terminal obeys; what turns the direction of the text behind
# it; what ends a line elsewhere than people see; and halves of characters, which cannot be written.
_ACTS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)  # fmt: skip
# By what a spreadsheet takes a cell for a formula.
_BEGINS = tuple("=+-@\t＝＋－＠")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")


def shown(text: str) -> str:
    """The text with ``\\x1b`` or ``\\u202e`` in place of each character that would act. Lines and tabs stay."""
    if not _ACTS.search(text):
        return text
    return _ACTS.sub(_name, text.replace("\r\n", "\n"))


def acts(text: str) -> bool:
    """Whether a text has a character that ``shown`` replaces."""
    return _ACTS.search(text) is not None


def shown_json(text: str) -> str:
    """The same JSON, with escapes in place of the characters that would act."""
    return _ACTS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def ascii_json(text: str) -> str:
    """The same JSON in ASCII."""
    return re.sub(r"[^\x00-\x7f]", lambda found: json.dumps(found[0])[1:-1], text)


def cell(text: str) -> str:
    """A text as a cell of CSV. One that a spreadsheet would take for a formula has a ``'`` before it."""
    text = shown(text)
    formula = text.startswith(_BEGINS) and len(text) > 1 and not _NUMBER.fullmatch(text)
    return f"'{text}" if formula else text


def _name(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
