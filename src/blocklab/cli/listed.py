"""Commands by name: a command's module is imported when it is called, a list of them takes their docstrings."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from importlib.abc import InspectLoader
from types import CodeType
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

MARKUP: Final = "markdown"


@dataclass(frozen=True)
class Entry:
    """Where a command is: a function of a module, or a typer application, which needs ``help``."""

    module: str
    name: str
    help: str = ""
    hidden: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)

    def listed(self, word: str) -> TyperCommand:
        """What a list of commands shows of it."""
        text = self.help or _docstring(self.module, self.name)
        return TyperCommand(word, help=text, hidden=self.hidden, rich_markup_mode=MARKUP)

    def loaded(self, word: str) -> Any:
        """The command itself."""
        target = getattr(importlib.import_module(self.module), self.name)
        app = typer.Typer(rich_markup_mode=MARKUP)
        if isinstance(target, typer.Typer):
            app.add_typer(target, name=word, help=self.help, hidden=self.hidden)
        else:
            app.command(word, hidden=self.hidden, context_settings=dict(self.settings))(target)
        return get_group(app).commands[word]


class Commands(MutableMapping[str, Any]):
    """Name -> command, loaded when it is taken."""

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self.entries = entries
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, word: str) -> Any:
        if word not in self._loaded:
            self._loaded[word] = self.entries[word].loaded(word)
        return self._loaded[word]

    def __setitem__(self, word: str, command: Any) -> None:
        self._loaded[word] = command

    def __delitem__(self, word: str) -> None:
        del self._loaded[word]

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


def group(entries: Mapping[str, Entry]) -> type[TyperGroup]:
    """The class of a group with these commands."""

    class Listed(TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            self.commands = Commands(entries)

        def list_commands(self, ctx: Any) -> list[str]:
            return list(entries)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            # Lists of commands ask here, and so does the one that is called, which is loaded below.
            return entries[cmd_name].listed(cmd_name) if cmd_name in entries else None

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            word, command, rest = super().resolve_command(ctx, args)
            return word, self.commands[word] if word else command, rest

    return Listed


def _docstring(module: str, name: str) -> str | None:
    """That of a function, from its module's compiled code, which is not run."""
    spec = importlib.util.find_spec(module)
    if spec is None or not isinstance(spec.loader, InspectLoader):
        return None
    code = spec.loader.get_code(module)
    constants = code.co_consts if code is not None else ()
    function = next((each for each in constants if isinstance(each, CodeType) and each.co_name == name), None)
    # A function without one has None, or another constant, in its place.
    text = function.co_consts[0] if function is not None and function.co_consts else None
    return inspect.cleandoc(text) if isinstance(text, str) else None
