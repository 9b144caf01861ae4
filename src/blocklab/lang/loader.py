"""Modules are compiled with the messages of the chosen language; what was compiled once is kept."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.machinery
import marshal
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

from blocklab.lang import catalogue
from blocklab.model.cache import cache_folder
from blocklab.model.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

# What the library of the command line prints by itself: usage, panels, wrong options.
LIBRARY = frozenset(
    {f"typer._click.{name}" for name in ("core", "decorators", "exceptions", "formatting", "parser")}
    | {"typer._coercion", "typer._param_types", "typer.core", "typer.rich_utils"}
)


def install(language: str) -> None:
    """From now on modules are imported in this language."""
    catalogue.choose(language)
    sys.meta_path.insert(0, _Finder(language))


class _Finder(MetaPathFinder):
    def __init__(self, language: str) -> None:
        self.language = language
        source = Path(__file__).with_name("source.py").read_bytes()
        version = f"{sys.implementation.cache_tag} {sys.flags.optimize}".encode()
        self.state = hashlib.sha256(version + source + catalogue.source(language).read_bytes())

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        own = name.startswith("blocklab.") and not name.startswith("blocklab.lang.")
        if not own and name not in LIBRARY:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(self, name, spec.loader.path)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, finder: _Finder, name: str, path: str) -> None:
        super().__init__(name, path)
        self.finder = finder

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.path)
        key = self.finder.state.copy()
        key.update(f"{self.path}\n".encode() + source)
        kept = cache_folder() / "lang" / self.finder.language / key.hexdigest()[:32]
        # A half-written or foreign file is no code; then it is compiled again.
        with contextlib.suppress(OSError, ValueError, EOFError, TypeError):
            found = marshal.loads(kept.read_bytes())
            if isinstance(found, CodeType):
                return found
        code = self._compiled(source.decode())
        with contextlib.suppress(OSError):
            kept.parent.mkdir(parents=True, exist_ok=True)
            write_whole(kept, marshal.dumps(code))
        return code

    def _compiled(self, source: str) -> CodeType:
        from blocklab.lang.source import rewritten

        tree = rewritten(source, catalogue.messages())
        code: Any = compile(tree, self.path, "exec", dont_inherit=True)
        assert isinstance(code, CodeType)
        return code
