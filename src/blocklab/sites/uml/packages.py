"""Installs Debian packages on this machine, through sudo for users other than root."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Sequence

from blocklab.errors import SetupError, tail
from blocklab.model.echo import echo
from blocklab.model.plan import Argv

# On a machine that has just booted, unattended upgrades hold apt's locks for minutes. apt itself waits (s) for
# dpkg's only, and says nothing; for that of the lists, and for longer, a call is repeated.
LOCK_SECONDS = 30
WAIT_SECONDS = 900.0
AGAIN_SECONDS = 5.0
_WAIT: Argv = ("-o", f"DPkg::Lock::Timeout={LOCK_SECONDS}")
# "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 812 (apt-get)"; older ones: without who
_LOCKED = re.compile(r"^E: ((?:Could not get lock|Unable to (?:acquire|lock)) .*)$", re.MULTILINE)


def installing(packages: Sequence[str]) -> list[Argv]:
    """The commands that install them. Raises ``SetupError`` without apt-get, and where there is neither root nor
    sudo."""
    install: Argv = ("apt-get", "install", "--no-install-recommends", "-y", *_WAIT, *packages)
    if shutil.which("apt-get") is None:
        raise SetupError(
            "there is no apt-get here to install packages with",
            hint=f"install what corresponds to these Debian packages: {' '.join(packages)}",
        )
    if os.geteuid() == 0:
        return [("apt-get", "update", *_WAIT), install]
    if shutil.which("sudo") is None:
        raise SetupError(
            "packages are missing, and this user is not root and has no sudo",
            hint=f"ask an administrator for: {' '.join(install)}",
        )
    return [("sudo", "apt-get", "update", *_WAIT), ("sudo", *install)]


def install(packages: Sequence[str]) -> None:
    """Run these commands; sudo may ask for a password. Raises ``SetupError`` with what apt-get said."""
    update, last = installing(packages)
    # One source of packages may be down without being needed; what counts is that the install works.
    _run_unlocked(update)
    code, said = _run_unlocked(last)
    if code:
        raise SetupError(
            f"the packages could not be installed\n{tail(said)}",
            hint=f"ask an administrator for: {' '.join(last).removeprefix('sudo ')}",
        )


def _run_unlocked(argv: Argv) -> tuple[int, str]:
    """The same, again and again as long as another program holds a lock of apt's, and some time at most."""
    deadline, waits = time.monotonic() + WAIT_SECONDS, False
    while True:
        code, said = _run(argv)
        locked = _LOCKED.search(said) if code else None
        if locked is None or time.monotonic() > deadline:
            return code, said
        if not waits:
            waits = True
            text = (
                f"waiting, {WAIT_SECONDS / 60:.0f} minutes at most, for another program that uses apt: {locked[1]}"
            )
            echo(text, err=True)
        time.sleep(AGAIN_SECONDS)


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
