"""All that is printed goes through here: whatever study, log, level or host it comes from, a terminal shows it and
does nothing else. No text is markup."""

from __future__ import annotations

from typing import Any

from rich import console as rich_console
from rich import text as rich_text
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.style import Style

from blocklab.model.echo import echo, echo_json, json_for
from blocklab.model.shown import acts, shown

__all__ = ["Console", "Text", "echo", "echo_json", "json_for"]


class Text(rich_text.Text):
    """Rich's text, of which every character is shown."""

    def __init__(self, text: str = "", style: str | Style = "", **more: Any) -> None:
        super().__init__(shown(text), style, **more)

    def append(self, text: rich_text.Text | str, style: str | Style | None = None) -> Text:
        """Add a text at the end."""
        super().append(shown(text) if isinstance(text, str) else text, style)
        return self


class Console(rich_console.Console):
    """Rich's console without markup, emoji and highlighting. What comes as another text is shown, too."""

    def __init__(self, **more: Any) -> None:
        """``more``: what rich's own takes."""
        super().__init__(**{**more, "markup": False, "emoji": False, "highlight": False})

    def render_str(self, text: str, **more: Any) -> rich_text.Text:
        """A plain string as text."""
        return super().render_str(shown(text), **{**more, "markup": False, "emoji": False})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Any:
        """The segments of anything that can be printed."""
        if isinstance(renderable, rich_text.Text) and acts(renderable.plain):
            renderable = _shown(renderable)
        for segment in super().render(renderable, options):
            # What is neither a string nor a text, such as a rule or a bar's label.
            plain = segment.control or not acts(segment.text)
            yield segment if plain else Segment(shown(segment.text), segment.style)


def _shown(text: rich_text.Text) -> rich_text.Text:
    """The same with its styles, each piece on its own."""
    made = text.blank_copy()
    for piece in text.divide(sorted({0, *(end for span in text.spans for end in (span.start, span.end))})):
        piece.plain, spans = shown(piece.plain), piece.spans
        made.append_text(Text(piece.plain, " ".join(str(span.style) for span in spans)))
    return made
