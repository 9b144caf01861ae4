"""How a command is called in a test."""

from __future__ import annotations

import sys

import pytest

from blocklab.cli.main import main


class Shell:
    """Calls ``main`` as a user's shell would: (exit code, standard output, standard error)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *argv: str) -> tuple[int, str, str]:
        self._monkeypatch.setattr(sys, "argv", ["blocklab", *argv])
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = self._capsys.readouterr()
        return code, out, err
