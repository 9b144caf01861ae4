"""Installs Debian packages on this machine, through sudo for users other than root."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

from blocklab.errors import SetupError, tail
from blocklab.model.plan import Argv


def installing(packages: Sequence[str]) -> list[Argv]:
    """The commands that install them. Raises ``SetupError`` without apt-get, and where there is neither root nor
    sudo."""
    install: Argv = ("apt-get", "install", "--no-install-recommends", "-y", *packages)
    if shutil.which("apt-get") is None:
        raise SetupError(
            "there is no apt-get here to install packages with",
            hint=f"install what corresponds to these Debian packages: {' '.join(packages)}",
        )
    if os.geteuid() == 0:
        return [("apt-get", "update"), install]
    if shutil.which("sudo") is None:
        raise SetupError(
            "packages are missing, and this user is not root and has no sudo",
            hint=f"ask an administrator for: {' '.join(install)}",
        )
    return [("sudo", "apt-get", "update"), ("sudo", *install)]


def install(packages: Sequence[str]) -> None:
    """Run these commands; sudo may ask for a password. Raises ``SetupError`` with what apt-get said."""
    update, last = installing(packages)
    # One source of packages may be down without being needed; what counts is that the install works.
    _run(update)
    code, said = _run(last)
    if code:
        raise SetupError(
            f"the packages could not be installed\n{tail(said)}",
            hint=f"ask an administrator for: {' '.join(last).removeprefix('sudo ')}",
        )


def _run(argv: Argv) -> tuple[int, str]:
    """Exit code and what it printed. Nothing may ask a question but sudo, which asks on the terminal."""
    done = subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"},
        check=False,
    )
    return done.returncode, done.stdout
