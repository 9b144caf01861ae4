"""Golden files: what a parser or planner made of real input, kept beside the input and compared each time."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent / "golden"
ANEW = "pytest tests/unit --update-golden"


class Golden:
    """Compares with the files in ``tests/unit/golden``; ``pytest tests/unit --update-golden`` writes them
    again."""

    def __init__(self, update: bool) -> None:
        self.update = update

    def check(self, name: str, value: Any) -> None:
        """Fails unless ``value`` (JSON-able) is what the file ``name`` holds.

        A file that is missing is a failure: else nobody would see that nothing was compared.
        """
        path = FOLDER / name
        text = render(value)
        if not path.exists() and not self.update:
            pytest.fail(f"golden file {path} is missing; run {ANEW}, read it and commit it")
        if self.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            return
        known = path.read_text()
        if known != text:
            lines = difflib.unified_diff(known.splitlines(), text.splitlines(), str(path), "now", lineterm="", n=1)
            pytest.fail(
                "\n".join([*list(lines)[:60], f"if this is right: {ANEW}"]),
                pytrace=False,
            )


def render(value: Any) -> str:
    """JSON with one element of a list to a line, so that a difference shows the sample."""
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {render(each).rstrip()}" for key, each in value.items()]
        return "{\n" + ",\n".join(parts) + "\n}\n"
    if isinstance(value, list | tuple) and value:
        return "[\n" + ",\n".join(json.dumps(each) for each in value) + "\n]\n"
    return json.dumps(value) + "\n"


def read(folder: str) -> dict[str, bytes]:
    """The files of a golden folder by name: what the runner hands to a parser."""
    return {path.name: path.read_bytes() for path in sorted((FOLDER / folder).iterdir()) if path.is_file()}
