"""The house rules, each as a test: linters, floors, no shell, a complete catalogue, nothing of one machine."""

from __future__ import annotations

import ast
import functools
import graphlib
import importlib
import importlib.metadata
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import grimp
import pytest

from blocklab import faults, layers, workloads
from blocklab import probes as probe_package
from blocklab.sites import SITES
from tests.repo import house

DOWN = "imports go down only"
BY_EVENTS = "a study is measured without a word: by events, which the command line shows"
ONLY_SITES = "only sites start processes or open sockets"
PYTHON = [name for name in ("src", "tests", "bench", "tools") if (house.ROOT / name).is_dir()]


# -- linters --------------------------------------------------------------------------------------------------


def test_ruff_check() -> None:
    house.well(house.tool("ruff", "check", "--output-format=concise", *PYTHON))


def test_ruff_format() -> None:
    house.well(house.tool("ruff", "format", "--check", *PYTHON))


def test_mypy() -> None:
    house.well(house.tool("mypy"))


def test_import_contracts() -> None:
    house.well(house.tool("lint-imports"))


@pytest.mark.parametrize(("shell", "path"), house.shell_scripts(), ids=lambda value: str(value).rpartition("/")[2])
def test_shell_scripts_parse(shell: str, path: Path) -> None:
    done = subprocess.run([shell, "-n", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# -- who may start processes ------------------------------------------------------------------------------------


def project() -> dict[str, Any]:
    """What pyproject.toml says."""
    return tomllib.loads((house.ROOT / "pyproject.toml").read_text())


def contracts() -> list[dict[str, Any]]:
    """The import contracts."""
    found: list[dict[str, Any]] = project()["tool"]["importlinter"]["contracts"]
    return found


def layered() -> dict[str, Any]:
    """The contract about floors, the highest first."""
    return next(contract for contract in contracts() if contract["name"] == DOWN)


def floors() -> set[str]:
    """The packages and modules right below blocklab, ``blocklab.`` left out."""
    return {
        path.stem
        for path in house.PACKAGE.iterdir()
        if path.name != "__init__.py" and (path.suffix == ".py" or any(path.glob("*.py")))
    }


def test_the_contracts_know_every_package() -> None:
    """A new package must not slip past the contracts because nobody named it there."""
    named = {name.strip() for row in layered()["layers"] for name in row.split("|")}
    assert floors() == named
    guarded = next(contract for contract in contracts() if contract["name"] == ONLY_SITES)
    assert set(guarded["source_modules"]) == {f"blocklab.{name}" for name in floors() - {"sites"}}
    assert {"subprocess", "socket"} <= set(guarded["forbidden_modules"])


def test_the_contracts_can_fail(tmp_path: Path) -> None:
    """On a copy in which the statistics open a socket, and a function of a campaign prints by the command line."""
    shutil.copytree(house.SRC, tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(house.ROOT / "pyproject.toml", tmp_path)
    planted = {
        "stats": "import socket\n\nsocket.socket()\n",
        "campaign": "def shown() -> None:\n    from rich import print\n\n    from blocklab.cli import streams\n",
    }
    for floor, text in planted.items():
        (tmp_path / f"src/blocklab/{floor}/planted.py").write_text(f'"""Planted."""\n\n{text}')
    done = house.tool("lint-imports", "--no-cache", cwd=tmp_path, PYTHONPATH=str(tmp_path / "src"))
    assert done.returncode != 0
    broken = {line.removesuffix(" BROKEN") for line in done.stdout.splitlines() if line.endswith(" BROKEN")}
    assert broken == {ONLY_SITES, DOWN, BY_EVENTS}, done.stdout
    for arrow in ("stats.planted -> socket", "campaign.planted -> rich", "campaign.planted -> blocklab.cli"):
        assert f"blocklab.{arrow}" in done.stdout


def circle(*packages: str) -> list[str]:
    """The modules of a circle of imports, of those in functions too; none where there is none."""
    graph = grimp.build_graph(*packages, cache_dir=None)
    below = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        graphlib.TopologicalSorter(below).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def test_no_modules_import_each_other() -> None:
    assert circle("blocklab", "blocklab_node") == []


def test_the_search_for_circles_can_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "planted_circle"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "one.py").write_text("def late():\n    from planted_circle import two\n")
    (folder / "two.py").write_text("from planted_circle.one import late\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert set(circle("planted_circle")) == {"planted_circle.one", "planted_circle.two"}


def named_above(path: str, tree: ast.Module) -> list[tuple[int, str]]:
    """Modules of blocklab in strings of a file (its path below the package) that the file may not import."""
    rows = [{name.strip() for name in row.split("|")} for row in layered()["layers"]]
    rank = {name: number for number, row in enumerate(rows) for name in row}
    own = Path(path).with_suffix("").parts[0]
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            names = re.findall(r"(?<![\w.])blocklab\.(\w+)", node.value)
            if any(name != own and rank.get(name, 99) <= rank.get(own, -1) for name in names):
                found.append((node.lineno, node.value))
    return found


def test_no_string_names_a_module_from_below() -> None:
    """Beside the import contract: what is started or loaded by its name is on the same floor, or below."""
    found = [
        (path, line, name)
        for path, tree in house.trees(house.PACKAGE)
        for line, name in named_above(path.relative_to(house.PACKAGE).as_posix(), tree)
    ]
    house.none(found, "a module that this one may not import, by a string:")


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("cluster/far.py", 'MODULE = "blocklab.cli.unit"'),
        ("campaign/labs.py", "importlib.import_module(f'blocklab.cluster.{name}')"),
        ("runner/run.py", 'argv = ["python", "-m", "blocklab.imports"]'),
        ("errors.py", 'there = {"blocklab.model.host": 1}'),
    ],
)
def test_the_search_for_modules_in_strings_can_find(path: str, line: str) -> None:
    assert named_above(path, ast.parse(line))
    assert not named_above(path, ast.parse('"""Of blocklab.cli.main."""\nX = "blocklab.errors"'))


def test_only_sites_start_processes_open_sockets_or_start_threads() -> None:
    """Wider than the contract: threads too, and the functions of ``os`` that need no import of their own."""
    starts = re.compile(r"os\.(fork|forkpty|exec\w+|spawn\w+|posix_spawn\w*)$")
    found: list[house.Finding] = []
    for path, tree in house.trees(house.PACKAGE):
        if path.is_relative_to(house.PACKAGE / "sites"):
            continue
        calls = [(node.lineno, ast.unparse(node.func)) for node in ast.walk(tree) if isinstance(node, ast.Call)]
        found += [(path, line, name) for line, name in house.imports(tree) if name in house.STARTERS]
        found += [(path, line, name) for line, name in calls if starts.match(name)]
    house.none(found, "only blocklab/sites may start processes and threads or open sockets:")


def test_every_package_that_is_imported_is_declared() -> None:
    """Not only brought along by another one."""
    all_of_it = project()["project"]
    extras = [each for extra in all_of_it.get("optional-dependencies", {}).values() for each in extra]
    declared = {re.split(r"[<>=\[ ]", each)[0].lower() for each in (*all_of_it["dependencies"], *extras)}
    brings = importlib.metadata.packages_distributions()
    found = []
    for path, tree in house.trees(house.PACKAGE):
        for line, name in house.imports(tree):
            if name not in sys.stdlib_module_names | {"blocklab", "blocklab_node"} and not declared & {
                each.lower() for each in brings.get(name, ())
            }:
                found.append((path, line, name))
    house.none(found, "imported, but not among the dependencies in pyproject.toml:")


def test_no_shell_string_anywhere() -> None:
    found = []
    for path, tree in house.trees(*(house.ROOT / name for name in PYTHON)):
        found += [(path, line, call) for line, call in house.shell_calls(tree)]
    house.none(found, "a command is a list of arguments, never a shell's string:")


@pytest.mark.parametrize(
    "line",
    [
        "import subprocess; subprocess.run('ls', shell=True)",
        "import subprocess; subprocess.Popen('ls', shell=SHELL)",
        "import os; os.system('ls')",
        "from os import popen; popen('ls')",
        "import subprocess as s; s.getoutput('ls')",
    ],
)
def test_the_search_for_shell_strings_can_find(line: str) -> None:
    assert house.shell_calls(ast.parse(line))


# -- what comes from outside -------------------------------------------------------------------------------------

# Of sites, which speak with programs of ours, and keep images of their own.
OURS = ("sites", "model/outside.py")
# What Python packages, the kernel and blocklab's own cache hold, and what a run that goes on has just written.
NOT_FOREIGN = (
    "sites", "model", "lang", "runner", "report/bundle.py", "store/archive.py", "cluster/far.py",
    "study/profiles.py", "cli/catalogue.py",
)  # fmt: skip


@functools.cache
def calls() -> tuple[tuple[Path, int, str], ...]:
    """Every call in the package: file, line, what is called with what."""
    return tuple(
        (path, node.lineno, ast.unparse(node))
        for path, tree in house.trees(house.PACKAGE)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    )


def calls_of(*without: str) -> Iterator[tuple[Path, int, str]]:
    """Those but in these places."""
    places = ((path, path.relative_to(house.PACKAGE).as_posix(), line, call) for path, line, call in calls())
    return ((path, line, call) for path, place, line, call in places if not place.startswith(without))


def test_json_is_decoded_in_one_place() -> None:
    """Elsewhere one that is nested deeply, or has a number of 5,000 digits, would end in a traceback."""
    decode = re.compile(r"json\.(loads?|JSONDecoder|decode|Decoder)\(")
    found = [(path, line, call) for path, line, call in calls_of(*OURS) if decode.search(call)]
    house.none(found, "JSON from outside is read by blocklab.model.outside:")


def test_files_are_read_in_one_place() -> None:
    """Elsewhere a FIFO would hang, and /dev/zero take all memory."""
    read = re.compile(r"\.(read_text|read_bytes)\(|\.open\('r|YAML\(.*\)\.load\(")
    found = [(path, line, call) for path, line, call in calls_of(*NOT_FOREIGN) if read.search(call)]
    house.none(found, "files of the user's are read by blocklab.model.outside:")


def test_what_checks_a_name_sees_its_last_newline() -> None:
    """``$`` is before it, too."""
    ends = re.compile(r"re\.compile\('\^[^']*\$'\)|pattern='\^[^']*\$'")
    others = ("formats", "imports", "sizing", "workloads", "probes")
    found = [(path, line, call) for path, line, call in calls_of(*others) if ends.search(call)]
    house.none(found, "a pattern for a whole name ends in \\Z:")


def test_everything_is_printed_through_one_place() -> None:
    """Elsewhere a study, a log or a host could write to the terminal what it obeys, or markup."""
    # A lab in the background writes its log, and a process on a host what the one that started it reads.
    others = ("model/terminal.py", "model/echo.py", "sites/standing_lab.py", "sites/leashed.py", "cli/start.py")
    prints = re.compile(r"(print|typer\.s?echo|click\.echo|typer\.secho)\(|sys\.(stdout|stderr)\.write")
    found = [(path, line, call) for path, line, call in calls_of(*others) if prints.match(call)]
    for path, tree in house.trees(house.PACKAGE):
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and path.relative_to(house.PACKAGE).as_posix() not in others:
                made = {"rich.console": {"Console"}, "rich.text": {"Text"}, "rich": {"print", "get_console"}}
                names = made.get(node.module or "", set()) & {name.name for name in node.names}
                found += [(path, node.lineno, f"from {node.module} import {name}") for name in sorted(names)]
    house.none(found, "print through Console, Text, echo and echo_json of blocklab.model.terminal:")


# -- the catalogue ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("package", "union"),
    [(layers, layers.AnyLayer), (workloads, workloads.AnyWorkload), (faults, faults.AnyFault)],
    ids=["layers", "workloads", "faults"],
)
def test_every_layer_load_and_fault_is_in_its_union(package: ModuleType, union: object) -> None:
    assert house.tagged(package) == house.members(union)
    tags = [house.tag_of(kind) for kind in house.members(union)]
    assert len(set(tags)) == len(tags)
    assert {kind.__name__ for kind in house.members(union)} <= set(package.__all__)


KINDS = {kind.__name__ for union in (layers.AnyLayer, workloads.AnyWorkload) for kind in house.members(union)}


def test_no_other_module_names_a_layer_or_a_workload() -> None:
    """They ask for what it can do (``model.layer``, ``model.workload``)."""
    found = []
    for path, tree in house.trees(house.PACKAGE):
        if path.relative_to(house.PACKAGE).parts[0] not in ("layers", "workloads"):
            found += [(path, line, name) for line, name in house.named_kinds(tree, KINDS)]
    house.none(
        found,
        "a layer or a workload by its class, where a capability of model/layer.py or model/workload.py would do:",
    )


@pytest.mark.parametrize(
    "line", ["from blocklab.layers import Drbd", "from blocklab.workloads.fio import Fio, MIB"]
)
def test_the_search_for_names_of_layers_can_find(line: str) -> None:
    assert house.named_kinds(ast.parse(line), KINDS)


def test_every_probe_is_in_the_tuple() -> None:
    listed = [type(probe) for probe in probe_package.PROBES]
    assert house.probes(probe_package) == set(listed) and len(set(listed)) == len(listed)
    names = [probe.name for probe in probe_package.PROBES]
    assert len(set(names)) == len(names)
    assert {kind.__name__ for kind in listed} <= set(probe_package.__all__)


def test_the_search_for_layers_and_probes_can_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "planted_catalogue"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "mirror.py").write_text(
        "import msgspec\n"
        "class Base(msgspec.Struct, tag_field='layer'): pass\n"
        "class _Joined(Base): pass\n"
        "class Mirror(_Joined, tag='mirror'): pass\n"
        "class Helper(msgspec.Struct): pass\n"
    )
    (folder / "watch.py").write_text(
        "class Watch:\n    name = 'watch'\n    path = '/proc/watch'\n    def parse(self): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    package = importlib.import_module("planted_catalogue")
    assert [kind.__name__ for kind in house.tagged(package)] == ["Mirror"]
    assert [kind.__name__ for kind in house.probes(package)] == ["Watch"]


# -- text -------------------------------------------------------------------------------------------------------


def test_everything_public_has_a_docstring() -> None:
    known = house.protocol_methods()
    found = []
    for path, tree in house.trees(house.PACKAGE):
        found += [(path, line, name) for line, name in house.undocumented(tree, known)]
    house.none(found, "public, but without a docstring:")


# Documentation, licences and names that are reserved for examples (RFC 2606); nothing that packages come from.
HOSTS = {
    "127.0.0.1", "MIRROR", "dev.mysql.com", "distributed.dask.org", "docs.aws.amazon.com", "docs.kernel.org",
    "jobqueue.dask.org", "kubernetes.dask.org",
    "fio.readthedocs.io", "hdrhistogram.org", "jfly.uni-koeln.de", "json-schema.org", "keepachangelog.com",
    "learn.microsoft.com", "lemire.me", "linbit.com", "man7.org", "manpages.debian.org", "mariadb.com",
    "semver.org",
    # Of the measurements that studies repeat.
    "github.com", "qiita.com", "sh2.hatenablog.jp",
    "vega.github.io", "www.apache.org", "www.postgresql.org", "www.tpc.org", "www.w3.org",
}  # fmt: skip
RESERVED = (".example", ".invalid", ".test", "example.com", "example.org")
# uv writes these into every lock.
LOCKED = {"pypi.org", "files.pythonhosted.org"}
_HOST = re.compile(r"\b(?:https?|ftp)://([^/\s\"'`<>()\[\]{},;\\]+)")


def test_urls_lead_to_documentation_only() -> None:
    """Which mirror a machine takes its packages from is that machine's affair."""
    found = []
    for path, text in house.texts():
        for line, where in house.numbered(text, _HOST):
            host = where.rpartition("@")[2].partition(":")[0]
            allowed = HOSTS | LOCKED if path.name == "uv.lock" else HOSTS
            if host not in allowed and not host.endswith(RESERVED):
                found.append((path, line, host))
    house.none(found, "an unknown host; if it is documentation, add it to HOSTS in test_house.py:")


def test_nothing_points_into_the_folders_of_one_machine() -> None:
    # /home/x is nobody's.
    places = rf"(?:home/(?!x\b)|work/|root/|Users/|tmp/img)|{re.escape(str(house.ROOT).lstrip('/'))}\b"
    pattern = re.compile(rf"(?<![\w.*}})$~-])(/(?:{places})\S*)")
    found = [(path, line, what) for path, text in house.texts() for line, what in house.numbered(text, pattern)]
    house.none(found, "a path of one machine:")


# -- one seam to machines -----------------------------------------------------------------------------------------


def sites_named(tree: ast.Module) -> list[tuple[int, str]]:
    """String constants that are a site's name."""
    return [(each.lineno, str(each.value)) for each in ast.walk(tree)
            if isinstance(each, ast.Constant) and each.value in SITES]  # fmt: skip


def test_no_module_outside_sites_names_a_site() -> None:
    """Beside the import contract: by no string either."""
    found = [
        (path, line, what)
        for path, tree in house.trees(house.PACKAGE)
        if "sites" not in path.relative_to(house.PACKAGE).parts
        for line, what in sites_named(tree)
    ]
    house.none(found, "only blocklab/sites may name a site:")
    assert sites_named(ast.parse('site = "uml"\n')), "the search can find one"


# -- programs for nodes are files ---------------------------------------------------------------------------------


def programs_in_strings(tree: ast.Module) -> list[tuple[int, str]]:
    """Long strings that are Python programs, and commands that edit files by sed or awk or hand a text to a shell.
    Docstrings are none."""
    documents = {id(each.body[0].value) for each in ast.walk(tree) if isinstance(each, DOCUMENTED) and each.body
                 and isinstance(each.body[0], ast.Expr)}  # fmt: skip
    found = []
    for each in ast.walk(tree):
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in documents:
            if each.value.count("\n") > 3 and re.search(r"^(import|from) \w+", each.value, re.MULTILINE):
                found.append((each.lineno, "a program in a string"))
        elif isinstance(each, ast.Tuple | ast.List):
            words = [word.value if isinstance(word, ast.Constant) else None for word in each.elts]
            first = str(words[0]).rpartition("/")[2] if words else ""
            if first in EDITORS:
                found.append((each.lineno, f"{first} as an editor"))
            elif first in SHELLS and any(FLAG.fullmatch(str(word)) for word in words[1:]):
                found.append((each.lineno, f"a text for {first}"))
    return found


EDITORS = ("sed", "awk", "gawk", "mawk", "perl")
SHELLS = ("sh", "bash", "dash")
# "-c", "-ec", "-lc"
FLAG = re.compile(r"-[a-z]*c")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)


def test_programs_for_nodes_are_files() -> None:
    """What a node runs is linted, typed and tried like all else: ``blocklab_node``."""
    found = [
        (path, line, what) for path, tree in house.trees(house.PACKAGE) for line, what in programs_in_strings(tree)
    ]
    house.none(found, "belongs to src/blocklab_node:")


@pytest.mark.parametrize(
    "text",
    [
        'A = """\nimport os\n\n\nprint(1)\n"""\n',
        'A = ("sed", "-n")\n',
        'def f():\n    return ("awk", "1")\n',
        'A = ["/usr/bin/perl", "-pe", "1"]\n',
        'def f(path):\n    return ["sh", "-ec", f"echo 1 > {path}"]\n',
        'A = ("bash", "-c", "true")\n',
    ],
)
def test_the_search_for_programs_can_find(text: str) -> None:
    assert programs_in_strings(ast.parse(text))
    assert not programs_in_strings(ast.parse('"""\nimport os\n\n\nprint(1)\n"""\n'))
    assert not programs_in_strings(ast.parse('A = ["bash", "-l"], ("SELECT", "sed"), [], x[0]\n'))


def test_no_test_module_imports_another_one() -> None:
    """What tests share stands in modules of its own."""
    found = [
        (path, each.lineno, str(each.module))
        for path, tree in house.trees(house.ROOT / "tests")
        for each in ast.walk(tree)
        if isinstance(each, ast.ImportFrom) and re.search(r"^tests\..*\btest_", str(each.module))
    ]
    house.none(found, "move what both need to a module without test_ in its name:")
