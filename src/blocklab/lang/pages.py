"""The messages in the templates of pages: what stands between two tags, and titles and labels."""

from __future__ import annotations

import re
from collections.abc import Callable

from jinja2.ext import Extension

from blocklab.lang import catalogue

# <h2>Cells without results</h2>{{ gap_table(analysis.unmeasured) }}{% endif %}: the text is parted by comments,
# statements, tags and what is in <style> or <script>; <b>, <code>, <a ...> and values stay in it.
_PART = re.compile(
    r"(\{#.*?#\}|\{%.*?%\}|<(style|script)\b.*?</\2>|<(?!/?(?:a|b|code|em|i|abbr)\b)"
    r"(?:\{%.*?%\}|\{\{.*?\}\}|[^>{]|\{(?![%{]))*>)",
    re.S,
)
# <nav aria-label="on this page">
_LABEL = re.compile(r'(?<=\s)((?:title|aria-label|alt)=")([^"{]*[A-Za-z]{2}[^"{]*)(")')
# {{ analysis.cells | length }}
_VALUE = re.compile(r"\{\{(.*?)\}\}", re.S)
# A call of a macro or a function is no value of a sentence; <code>x</code> alone is no message.
_LETTERS = re.compile(r"[A-Za-z]{2,}")
_INLINE = re.compile(r"<code>.*?</code>|<[^>]*>|\{\w+\}|&\w+;", re.S)

Translate = Callable[[str], str | None]


def replaced(source: str, translate: Translate) -> str:
    """The template with every message that ``translate`` has another one for."""
    pieces: list[str] = []
    place = 0
    for found in _PART.finditer(source):
        pieces.append(_text(source[place : found.start()], translate))
        pieces.append(_labels(found.group(), translate))
        place = found.end()
    pieces.append(_text(source[place:], translate))
    return "".join(pieces)


def _labels(tag: str, translate: Translate) -> str:
    if tag.startswith(("{", "<style", "<script")):
        return tag
    return _LABEL.sub(lambda found: found[1] + (translate(found[2]) or found[2]) + found[3], tag)


def _text(text: str, translate: Translate) -> str:
    values: list[str] = []
    named: list[str] = []

    def name(found: re.Match[str]) -> str:
        words = re.findall(r"[a-z_]\w*", found[1].partition("|")[0].partition(" if ")[0].partition("(")[0])
        base = words[-1] if words else "value"
        same = sum(known.rstrip("0123456789") == base for known in named)
        named.append(f"{base}{same + 1}" if same else base)
        values.append(found[0])
        return f"{{{named[-1]}}}"

    template = _VALUE.sub(name, text)
    before, middle, after = _stripped(template)
    if not _LETTERS.search(_INLINE.sub("", middle)):
        return text
    other = translate(" ".join(middle.split()))
    if other is None:
        return text
    known = dict(zip(named, values, strict=True))
    return re.sub(r"\{(\w+)\}", lambda found: known[found[1]], before + other + after)


def _stripped(text: str) -> tuple[str, str, str]:
    middle = text.strip()
    if not middle:
        return text, "", ""
    start = text.index(middle)
    return text[:start], middle, text[start + len(middle) :]


class Translated(Extension):
    """Templates in the language of this process."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        """The template's text, with other words."""
        if catalogue.language() == "en":
            return source
        return replaced(source, catalogue.messages("page"))
