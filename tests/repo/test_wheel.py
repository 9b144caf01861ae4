"""The wheel and the sdist are complete: what is installed from them runs without the checkout, up to a report."""

from __future__ import annotations

import json
import shutil
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from blocklab import __version__
from blocklab.cli.setup import EXAMPLE
from blocklab.model.commit import commit
from blocklab.sites import image_key
from blocklab.study.shipped import shipped
from tests import wheel
from tests.fake.runs import io
from tests.repo import house


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    return wheel.built(house.ROOT, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def programs(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``bin`` of an environment with the wheel."""
    return wheel.installed(made, tmp_path_factory.mktemp("environment"))


@pytest.fixture
def outside(programs: Path, tmp_path: Path) -> Any:
    """Calls the installed blocklab from an empty folder, with a home of its own; gives its standard output."""

    def call(*argv: str, **env: str) -> str:
        words = [programs / "python", "-I", "-m", "blocklab.cli.main", *argv]
        own = {"HOME": str(tmp_path), "COLUMNS": "120", "BLOCKLAB_CACHE": str(tmp_path / "cache"), **env}
        return wheel.well(wheel.run(words, tmp_path, own))

    return call


def members(file: Path) -> dict[str, bytes]:
    """Name -> content of all files in a wheel; RECORD lists them in the order in which they were packed."""
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/RECORD")}


def test_the_wheel_of_the_sdist_is_that_of_the_checkout(made: Path, tmp_path: Path) -> None:
    with tarfile.open(wheel.built(house.ROOT, "sdist", tmp_path)) as archive:
        archive.extractall(tmp_path, filter="data")
    (tree,) = (path for path in tmp_path.iterdir() if path.is_dir())
    there = {path.relative_to(tree) for path in tree.rglob("*") if path.is_file()}
    missing = {path.relative_to(house.ROOT) for path in house.files()} - there
    assert missing == set(), "the sdist has all of the repository"
    assert members(wheel.built(tree, "wheel", tmp_path / "again")) == members(made)


def test_every_file_of_the_packages_is_in_the_wheel(made: Path) -> None:
    wanted = {str(path.relative_to(house.SRC)) for path in house.files() if path.is_relative_to(house.SRC)}
    there = set(members(made))
    assert wanted - there == set()
    more = {name for name in there - wanted if ".dist-info/" not in name}
    assert more == {"blocklab/commit.txt", f"blocklab-{__version__}.data/data/share/man/man1/blocklab.1"}


def test_it_tells_the_version_the_commit_and_the_image(outside: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the checkout: what an image is built of is the same."""
    monkeypatch.setenv("BLOCKLAB_CACHE", "none")
    assert outside("--version").splitlines() == [
        f"blocklab {__version__}", f"commit {commit() or 'unknown'}", f"image {image_key()}",
    ]  # fmt: skip


def test_it_brings_studies_schema_and_manual(outside: Any, programs: Path) -> None:
    assert [each["name"] for each in json.loads(outside("studies", "--json"))] == list(shipped())
    assert outside("schema") == (house.DOCS / "study.schema.json").read_text()
    assert "start-drbd" not in outside("plan", EXAMPLE, "--quick", "--cells")
    assert (programs.parent / "share/man/man1/blocklab.1").read_text().startswith('.\\" made by')


def test_it_runs_up_to_a_report(programs: Path, small: dict[str, Any], tmp_path: Path) -> None:
    """On the fake site. What its hosts answer are samples of the tests, which no user needs: a copy of them is the
    one thing of the checkout that is there."""
    shutil.copytree(house.ROOT / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    small["workloads"] = {"io": io(small)}
    del small["stacks"]["mirror"]
    YAML().dump(small, tmp_path / "study.yaml")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from tests.repo.installed import main; main()"
    said = wheel.well(wheel.run([programs / "python", "-I", "-c", code], tmp_path, {"HOME": str(tmp_path)}))
    assert Path(said.splitlines()[-1]).is_relative_to(programs.parent)
    assert "write-4k" in said or "fsync-4k" in said
    page = (tmp_path / "runs" / "small" / "report.html").read_text()
    assert "<svg" in page or "vega" in page.lower()


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (("qu",), ["query", "quickstart"]),
        (("run", "drb"), ["drbd-az"]),
        (("run", "drbd-az", "--stack", "drb"), ["drbd0", "drbd1"]),
        (("run", "drbd-az", "--qu"), ["--quick"]),
        (("run", "no-such-study", "--stack", ""), []),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete(
    programs: Path, tmp_path: Path, shell: str, typed: tuple[str, ...], offered: list[str]
) -> None:
    """By the installed program, since the shell's function calls that by its name."""
    line = " ".join(("blocklab", *typed))
    asked = {
        "bash": {"COMP_WORDS": line, "COMP_CWORD": str(len(typed))},
        "zsh": {"_TYPER_COMPLETE_ARGS": line},
        "fish": {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell]
    done = wheel.run([programs / "blocklab"], tmp_path, {**asked, "_BLOCKLAB_COMPLETE": f"complete_{shell}"})
    # zsh: _arguments '*: :(("drbd-az":""))'
    found = [
        word for word in ("query", "quickstart", "drbd-az", "drbd0", "drbd1", "--quick") if word in done.stdout
    ]
    print(done.stdout, done.stderr)
    assert found == offered
