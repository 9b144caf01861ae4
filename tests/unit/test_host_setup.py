"""``blocklab setup``: what it installs, what it asks, and what it says where it may not."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from blocklab.cli.setup import set_up
from blocklab.errors import SetupError
from blocklab.model.plan import Argv
from blocklab.model.site import Doctor, Setup
from blocklab.model.terminal import Console
from blocklab.sites.fake import FakeSite
from blocklab.sites.uml import packages
from blocklab.sites.uml.doctor import Fact

INSTALL = ("apt-get", "install", "--no-install-recommends", "-y", "gpg", "patchelf")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Puts programs in place of all others; each notes how it was called, and does what it is told."""
    folder, log = tmp_path / "bin", tmp_path / "log"
    folder.mkdir()
    log.touch()
    monkeypatch.setenv("PATH", str(folder))

    def put(**scripts: str) -> Path:
        for name, script in scripts.items():
            file = folder / name.replace("_", "-")
            file.write_text(f'#!/bin/sh\necho "${{0##*/}} $*" >> {log}\n{script}\n')
            file.chmod(0o755)
        return log

    return put


@pytest.fixture(params=[0, 1000], ids=["root", "user"])
def uid(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Root, or an ordinary user."""
    found = int(request.param)
    monkeypatch.setattr(os, "geteuid", lambda: found)
    return found


def test_root_installs_and_users_take_sudo(programs: Callable[..., Path], uid: int) -> None:
    programs(apt_get="exit 0", sudo='exec "$@"')
    sudo = () if uid == 0 else ("sudo",)
    assert packages.installing(INSTALL[4:]) == [(*sudo, "apt-get", "update"), (*sudo, *INSTALL)]


def test_without_sudo_the_administrators_command_is_said(
    programs: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    programs(apt_get="exit 0")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SetupError) as caught:
        packages.install(INSTALL[4:])
    assert caught.value.hint == f"ask an administrator for: {' '.join(INSTALL)}"


def test_another_distribution_is_told_the_packages(programs: Callable[..., Path]) -> None:
    with pytest.raises(SetupError) as caught:
        packages.installing(["gpg"])
    assert "no apt-get" in caught.value.message and "gpg" in caught.value.hint


def test_a_source_of_packages_that_is_down_does_not_matter(programs: Callable[..., Path], uid: int) -> None:
    log = programs(apt_get='[ "$1" != update ]', sudo='exec "$@"')
    packages.install(INSTALL[4:])
    ran = [line for line in log.read_text().splitlines() if not line.startswith("sudo")]
    assert ran == ["apt-get update", " ".join(INSTALL)]


def test_what_cannot_be_installed_says_why_and_what_to_do(programs: Callable[..., Path], uid: int) -> None:
    programs(apt_get='echo "E: Unable to locate package patchelf"; exit 100', sudo='exec "$@"')
    with pytest.raises(SetupError, match="Unable to locate package patchelf") as caught:
        packages.install(INSTALL[4:])
    assert caught.value.hint == f"ask an administrator for: {' '.join(INSTALL)}"


# -- the command ----------------------------------------------------------------------------------------------


class Bare(FakeSite):
    """A site whose machine lacks a package; what is done is in ``did``."""

    def __init__(self, *commands: Argv, state: str = "ok") -> None:
        super().__init__()
        self.offers |= {Setup, Doctor}
        self.did: list[str] = []
        self.lacks = {"gpg": "checks signatures"} if commands else {}
        self.commands = commands
        self.state = state

    def missing_packages(self) -> dict[str, str]:
        return self.lacks

    def installing(self, names: Sequence[str]) -> Sequence[Argv]:
        return self.commands

    def install(self, names: Sequence[str]) -> None:
        self.did.append(f"install {' '.join(names)}")

    def prepare(self, say: Callable[[str], None]) -> None:
        self.did.append("prepare")

    def requirements(self) -> list[Fact]:
        return [Fact("seccomp", self.state, "as it is", "" if self.state == "ok" else "another kernel")]  # type: ignore[arg-type]


def called(site: Bare, *, yes: bool = False) -> str:
    """What was printed; what was raised comes last."""
    said = io.StringIO()
    try:
        set_up(site, Console(file=said, width=200), yes=yes)
    except SetupError as error:
        said.write(f"{error.message} ({error.hint})")
    return said.getvalue()


SUDO = ("sudo", "apt-get", "install", "gpg")


def test_nothing_is_said_of_a_machine_that_is_set_up() -> None:
    site = Bare()
    assert called(site) == "" and site.did == ["prepare"]


def test_sudo_is_asked_for_and_without_a_terminal_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    site = Bare(SUDO)
    said = called(site)
    assert site.did == []
    assert "gpg" in said and "checks signatures" in said and "$ sudo apt-get install gpg" in said
    assert "nothing was installed" in said and "--yes" in said
    assert called(site, yes=True) and site.did == ["install gpg", "prepare"]


@pytest.mark.parametrize(("answer", "did"), [("y", ["install gpg", "prepare"]), ("n", [])])
def test_on_a_terminal_it_asks(monkeypatch: pytest.MonkeyPatch, answer: str, did: list[str]) -> None:
    keyboard = io.StringIO(f"{answer}\n")
    monkeypatch.setattr(keyboard, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", keyboard)
    site = Bare(SUDO)
    called(site)
    assert site.did == did


def test_root_is_not_asked() -> None:
    site = Bare(SUDO[1:])
    called(site)
    assert site.did == ["install gpg", "prepare"]


def test_where_blocklab_cannot_work_no_image_is_built() -> None:
    site = Bare(state="fail")
    said = called(site)
    assert site.did == [] and "seccomp" in said and "another kernel" in said and "cannot work here" in said
    site = Bare(state="warn")
    assert "seccomp" in called(site) and site.did == ["prepare"]
