"""The catalogues of messages, ``locale/LANGUAGE.po``, and the language of this process."""

from __future__ import annotations

import functools
import gettext
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from blocklab.model.cache import cache_folder
from blocklab.model.files import whole

# English is what stands in the source.
LANGUAGES = ("en", "ja")
_DOMAIN = "blocklab"
_chosen = "en"


def language() -> str:
    """The language of this process, one of ``LANGUAGES``."""
    return _chosen


def chosen(options: Sequence[str], environment: Mapping[str, str]) -> str:
    """The language that ``--lang`` asks for, which may be any text, else that of the first of ``LC_ALL``,
    ``LC_MESSAGES`` and ``LANG`` that is set (POSIX, 8.2); ``en`` for one without a catalogue."""
    for place, option in enumerate(options):
        if option == "--lang" and place + 1 < len(options):
            return options[place + 1]
        if option.startswith("--lang="):
            return option.removeprefix("--lang=")
    locale = next((found for name in ("LC_ALL", "LC_MESSAGES", "LANG") if (found := environment.get(name))), "")
    wanted = locale.split("_")[0].split(".")[0]
    return wanted if wanted in LANGUAGES else "en"


def choose(name: str) -> None:
    """Set the language of this process. Modules that are imported already stay as they are."""
    global _chosen
    _chosen = name


def source(name: str) -> Path:
    """The catalogue's file."""
    return Path(__file__).parent / "locale" / f"{name}.po"


def messages(context: str = "") -> Callable[[str], str | None]:
    """Gives the translation of a template, None where there is none. ``context`` is ``page`` for pages."""
    known = _known(_chosen)

    def found(template: str) -> str | None:
        other = known.pgettext(context, template) if context else known.gettext(template)
        return None if other == template else other

    return found


def term(word: str) -> str:
    """A word that programs know too (a verdict, a state), as a reader is shown it."""
    return word if _chosen == "en" else messages("term")(word) or word


@functools.cache
def _known(name: str) -> gettext.NullTranslations:
    return gettext.translation(_DOMAIN, _compiled(name), [name])


def _compiled(name: str) -> Path:
    """The folder of the compiled catalogue, as gettext wants it; compiled once for each state of its source."""
    text = source(name).read_bytes()
    folder = cache_folder() / "lang" / hashlib.sha256(text).hexdigest()[:16]
    made = folder / name / "LC_MESSAGES" / f"{_DOMAIN}.mo"
    if not made.exists():
        from babel.messages.mofile import write_mo
        from babel.messages.pofile import read_po

        made.parent.mkdir(parents=True, exist_ok=True)
        with source(name).open("rb") as file, whole(made) as half, half.open("wb") as out:
            write_mo(out, read_po(file))
    return folder
