"""Where a page is written: what ``-o`` of ``report`` and ``compare`` takes."""

from __future__ import annotations

from pathlib import Path

from blocklab.errors import StudyError

_ENDINGS = (".html", ".htm")


def page_file(output: Path | None, name: str) -> Path | None:
    """``output`` as it is; ``name`` is what the hint calls a file in a folder.

    Raises ``StudyError`` for a folder, and for a file that is no HTML."""
    if output is None:
        return None
    if output.is_dir():
        raise StudyError("", f"-o {output} is a folder", hint=f"name a file: -o {output / name}")
    if output.suffix.lower() not in _ENDINGS:
        raise StudyError("", f"-o {output}: the page is HTML", hint=f"-o {output.with_suffix('.html')}; or --json")
    return output
