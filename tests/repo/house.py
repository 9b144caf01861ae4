"""What the tests of the repository share: its files, its source as syntax trees, its catalogue, its documents."""

from __future__ import annotations

import ast
import fnmatch
import functools
import importlib
import inspect
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"
PACKAGE = SRC / "blocklab"
DOCS = ROOT / "docs"

# Functions that hand a string to a shell, and modules that start processes or threads or open sockets.
SHELLS = {
    "os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput",
    "asyncio.create_subprocess_shell",
}  # fmt: skip
STARTERS = {
    "subprocess", "socket", "socketserver", "multiprocessing", "asyncio", "threading", "concurrent", "pty",
    "_thread",
}  # fmt: skip

Finding = tuple[Path, int, str]


def tool(name: str, *argv: str, cwd: Path = ROOT, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a tool of the virtual environment that the tests run in."""
    program = Path(sys.executable).with_name(name)
    found = str(program) if program.exists() else shutil.which(name)
    assert found, f"there is no {name} in this environment; uv sync brings it"
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "120", **env}
    return subprocess.run([found, *argv], cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def well(done: subprocess.CompletedProcess[str]) -> None:
    """Fail with what the tool said, not with a traceback of ours."""
    if done.returncode:
        pytest.fail(f"{done.stdout}{done.stderr}", pytrace=False)


def none(found: Iterable[Finding], why: str) -> None:
    """Fail with one finding a line."""
    rows = [
        f"{path.relative_to(ROOT) if path.is_absolute() else path}:{line}: {what}" for path, line, what in found
    ]
    if rows:
        pytest.fail("\n".join([why, *rows]), pytrace=False)


# -- files ----------------------------------------------------------------------------------------------------


def files() -> list[Path]:
    """Every file of the repository, those that .gitignore names left out."""
    ignored = [line.strip("/") for line in (ROOT / ".gitignore").read_text().split() if line[0] != "#"]
    ignored.append(".git")
    found = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if not _matches(name, ignored)]
        found += [Path(folder) / name for name in names if not _matches(name, ignored)]
    return sorted(found)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def texts() -> Iterator[tuple[Path, str]]:
    """Every text file of the repository with its content."""
    for path in files():
        data = path.read_bytes()
        if b"\0" not in data:
            yield path.relative_to(ROOT), data.decode(errors="replace")


def shell_scripts() -> list[tuple[str, Path]]:
    """Every shell script with the shell that runs it."""
    found = []
    for path, text in texts():
        first = text.partition("\n")[0]
        if match := re.match(r"#!(?:/usr/bin/env |/bin/|/usr/bin/)(bash|sh)\b", first):
            found.append((match[1], ROOT / path))
        elif path.suffix == ".sh":
            found.append(("bash", ROOT / path))
    return found


def numbered(text: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """(line number, first group or the whole match) of each match."""
    for match in pattern.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match[match.lastindex or 0]


# -- source as trees --------------------------------------------------------------------------------------------


def trees(*folders: Path) -> Iterator[tuple[Path, ast.Module]]:
    """Every Python file below the folders, as a tree."""
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            yield path, _tree(path)


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def shell_calls(tree: ast.Module) -> list[tuple[int, str]]:
    """(line, call) of everything in it that hands a string to a shell."""
    found = []
    imported = _imported_names(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        head, _, rest = called.partition(".")
        name = imported.get(head, head) + (f".{rest}" if rest else "")
        shell = any(
            word.arg == "shell" and not (isinstance(word.value, ast.Constant) and word.value.value is False)
            for word in node.keywords
        )
        if shell or name in SHELLS:
            found.append((node.lineno, called))
    return found


def _imported_names(tree: ast.Module) -> dict[str, str]:
    """Name in this module -> what it stands for: ``{"run": "subprocess.run"}``."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return names


def imports(tree: ast.Module) -> list[tuple[int, str]]:
    """(line, top-level module) of every absolute import."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name.partition(".")[0]) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.append((node.lineno, node.module.partition(".")[0]))
    return found


def undocumented(tree: ast.Module, known: Iterable[str]) -> list[tuple[int, str]]:
    """(line, name) of the module, public classes, functions and methods without a docstring.

    ``known`` are names of methods that a Protocol of the model describes once for all that have them. The ``do_``
    methods of the agent carry out the orders that its module's docstring draws.
    """
    found = [] if ast.get_docstring(tree) or not tree.body else [(1, "the module")]
    found += [
        (node.lineno, name)
        for name, node in _public(tree, "")
        if ast.get_docstring(node) is None
        and not ("." in name and (node.name in known or node.name.startswith("do_")))
    ]
    return found


Named = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _public(tree: ast.Module | ast.ClassDef, prefix: str) -> Iterator[tuple[str, Named]]:
    for node in tree.body:
        if isinstance(node, Named) and not node.name.startswith("_"):
            yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from _public(node, f"{prefix}{node.name}.")


def protocol_methods() -> set[str]:
    """The methods that the model's Protocols describe."""
    found = set()
    for _, tree in trees(PACKAGE / "model"):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "Protocol" for base in node.bases):
                found |= {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
    return found


# -- the catalogue ----------------------------------------------------------------------------------------------


def classes(package: ModuleType) -> Iterator[type]:
    """The public classes that the package's modules define."""
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        loaded = importlib.import_module(module.name)
        for name, value in vars(loaded).items():
            if inspect.isclass(value) and value.__module__ == module.name and not name.startswith("_"):
                yield value


def tag_of(kind: type) -> str | None:
    """The tag of a tagged Struct."""
    config = getattr(kind, "__struct_config__", None)
    return None if config is None or config.tag is None else str(config.tag)


def tagged(package: ModuleType) -> set[type]:
    """The classes with a tag: a layer or a workload. What others of the package derive from is none."""

    def derived(kind: type) -> bool:
        below: list[type] = type.__subclasses__(kind)
        return any(each.__module__.startswith(f"{package.__name__}.") for each in below)

    return {kind for kind in classes(package) if tag_of(kind) is not None and not derived(kind)}


def named_kinds(tree: ast.Module, names: Collection[str]) -> list[tuple[int, str]]:
    """(line, name) of the imports of these names from the layers and the workloads."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
            ("blocklab.layers", "blocklab.workloads")
        ):
            found += [(node.lineno, each.name) for each in node.names if each.name in names]
    return found


def probes(package: ModuleType) -> set[type]:
    """The classes that look like a ``Probe``."""
    return {kind for kind in classes(package) if all(hasattr(kind, name) for name in ("name", "path", "parse"))}


def members(union: object) -> set[type]:
    """The classes of a union, or the one class that stands in its place."""
    found = typing.get_args(union) or (union,)
    return {kind for kind in found if isinstance(kind, type)}


# -- documents ----------------------------------------------------------------------------------------------------

_FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!\\)\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(?P<title>.+?) *$", re.MULTILINE)


def documents() -> list[Path]:
    """Every Markdown file of the repository."""
    return [path for path in files() if path.suffix == ".md"]


def blocks(text: str, language: str, before: str = "") -> list[str]:
    """The fenced blocks of a language, only those right below the line ``before`` when it is given."""
    return [
        match["text"]
        for match in _FENCE.finditer(text)
        if match["language"] == language and text[: match.start()].endswith(f"{before}\n" if before else "")
    ]


def links(text: str) -> list[tuple[int, str]]:
    """(line, target) of every link outside of fenced blocks."""
    bare = _FENCE.sub(lambda match: "\n" * match[0].count("\n"), text)
    return list(numbered(bare, _LINK))


def anchors(text: str) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    bare = _FENCE.sub("", text)
    titles = (re.sub(r"[`*]", "", match["title"]).lower() for match in _HEADING.finditer(bare))
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


def broken_links(path: Path, text: str) -> list[str]:
    """The relative links of a document that lead nowhere."""
    broken = []
    for line, target in links(text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        there = (path.parent / name).resolve() if name else path
        wrong = not there.exists() or (
            anchor and there.suffix == ".md" and anchor not in anchors(there.read_text() if name else text)
        )
        if wrong:
            broken.append(f"line {line}: {target}")
    return broken


def sections(text: str, level: int = 2) -> Mapping[str, str]:
    """Heading -> text, of the headings of one level; backquotes are left out of the heading."""
    parts = re.split(rf"^{'#' * level} +(.+?) *$", text, flags=re.MULTILINE)
    return {title.replace("`", ""): body for title, body in zip(parts[1::2], parts[2::2], strict=True)}
