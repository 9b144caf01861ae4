"""The base stage: Debian in one ext4 file, made by ``mmdebstrap`` with or without root.

An ordinary user's build happens in a user namespace whose root is one of the user's subordinate ids: it may write
nowhere but in the tree that it was given, and must be let through to it. So the tree grows in a work folder under
``$TMPDIR`` or ``/var/tmp`` (home folders are often closed to others, ``/tmp`` is often in memory), and whatever
has to see the true owners runs through ``mmdebstrap --unshare-helper``. That helper is taken instead of
``unshare`` because Ubuntu's AppArmor lets mmdebstrap make user namespaces, but not unshare.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

from blocklab.errors import ImageError, tail
from blocklab.sites.uml import recipe

Say = Callable[[str], None]

# I: downloading packages with apt...                                        (mmdebstrap 1.3.5)
PROGRESS = re.compile(r"I: ([a-z][a-z -]*)\.\.\.$")

# E: Release file for http://MIRROR/debian/dists/unstable/InRelease is expired (invalid since 14d 19h 40min 16s).
#    Updates for this repository will not be applied.                        (apt 2.6, all on one line)
# "is not valid anymore" is the wording of other versions of apt.
EXPIRED = re.compile(
    r"Release file for (?P<url>\S+/dists/(?P<suite>[a-z-]+)/(?:In)?Release) "
    r"(?:is expired|is not valid anymore)(?: \(invalid since (?P<since>[^)]+)\))?"
)

# What was said -> (what it means, the cure). The first one found wins; samples: tests/unit/test_image.py.
CAUSES: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (
        re.compile(r"No space left on device|You don't have enough free space|Could not allocate block in ext2"),
        "no room left on the disk",
        "the tree needs 2 GiB under $TMPDIR or /var/tmp, the image 2 GiB in the cache folder; "
        "$TMPDIR and $BLOCKLAB_CACHE choose other places",
    ),
    (
        re.compile(
            r"Could not resolve|Could not connect|Unable to connect|Temporary failure resolving"
            r"|Network is unreachable|[Cc]onnection timed out|Connection failed"
        ),
        "the package mirror cannot be reached",
        "check the network and http_proxy, or set BLOCKLAB_MIRROR to a Debian mirror that this machine reaches",
    ),
    (
        re.compile(r"NO_PUBKEY|couldn't be verified|is not signed"),
        "the package mirror's signature cannot be checked",
        "install the package debian-archive-keyring",
    ),
    (
        re.compile(r"/etc/sub[ug]id|new[ug]idmap|unshare the (user|mount) namespace|unshare (syscall )?failed"),
        "this user cannot make user namespaces",
        "`blocklab doctor` names the cure; a build as root does without them",
    ),
)


class ProgramFailed(ImageError):
    """A program that the build needs ended with an exit code other than 0; ``output`` is all that it printed."""

    def __init__(self, argv: Sequence[str], code: int, output: str, log: str) -> None:
        program = Path(argv[0]).name
        for sign, meaning, cure in CAUSES:
            if lines := [line.strip() for line in output.splitlines() if sign.search(line)]:
                # apt's own summary ("E: Failed to fetch ...") says more than the lines before it
                line = next((line for line in lines if line.startswith("E: ")), lines[0])
                super().__init__(f"the image cannot be built: {meaning}\n    {line}", hint=cure)
                break
        else:
            super().__init__(
                f"{program} ended with exit code {code}\n{tail(output)}", hint=f"the whole log: {log}"
            )
        self.output = output


def environment(**more: str) -> dict[str, str]:
    """The environment of every program started here: English messages, and the sbin folders in the path, which
    ordinary users on Debian do not have there although mke2fs and debugfs stand in them."""
    path = os.environ.get("PATH", "/usr/bin:/bin")
    return {**os.environ, "LC_ALL": "C.UTF-8", "PATH": f"{path}:/usr/sbin:/sbin", **more}


def run(argv: Sequence[str], log: IO[str], *, say: Say | None = None, cwd: Path = Path("/"), **env: str) -> str:
    """Run ``argv`` with ``env`` added to the environment; its output goes to ``log`` as it comes, and is returned.

    Raises ``ImageError`` when the program is missing, ``ProgramFailed`` when it ends with another code than 0.
    """
    log.write(f"+ {' '.join(argv)}\n")
    lines: list[str] = []
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment(**env),
            cwd=cwd,
            close_fds=False,  # for the lock of work_folder(); Python's other files are never inherited
            text=True,
            errors="replace",
        )
    except FileNotFoundError as error:
        raise ImageError(
            f"this machine has no {argv[0]}", hint="`blocklab doctor` names the packages to install"
        ) from error
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            log.write(line)
            log.flush()
            lines.append(line)
            if say and (progress := PROGRESS.match(line)):
                say(f"  {progress[1]}")
    if process.returncode:
        raise ProgramFailed(argv, process.returncode, "".join(lines), log.name)
    return "".join(lines)


def as_owner() -> tuple[str, ...]:
    """What to put before an argv so that it sees the tree with its true owners: nothing for root."""
    return () if os.geteuid() == 0 else ("mmdebstrap", "--unshare-helper")


def work_parent() -> Path:
    """Where work folders are made: ``$TMPDIR`` or ``/var/tmp``."""
    return Path(os.environ.get("TMPDIR") or "/var/tmp")


@contextlib.contextmanager
def work_folder(log: IO[str]) -> Iterator[Path]:
    """A folder for the tree, emptied and removed at the end. First removes those of builders that died."""
    prefix = f"blocklab-{os.geteuid()}-"
    for left in work_parent().glob(f"{prefix}*"):
        if left.is_dir() and not left.is_symlink() and left.stat().st_uid == os.geteuid():
            with (left / "lock").open("a") as lock, contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with contextlib.suppress(ImageError, OSError):  # the next build tries again
                    _empty(left, log)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=work_parent()))
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # A mmdebstrap whose parent was killed goes on to its end; as long as it does, the lock is held.
        os.set_inheritable(lock.fileno(), True)
        folder.chmod(0o755)  # the mapped root and apt's own user have to get through
        try:
            yield folder
        finally:
            _empty(folder, log)


def _empty(folder: Path, log: IO[str]) -> None:
    """Remove a work folder. The mapped root may empty the tree but not remove it; the user may do the rest."""
    tree = folder / "tree"
    if tree.is_dir():
        run([*as_owner(), "find", str(tree), "-xdev", "-mindepth", "1", "-delete"], log)
    shutil.rmtree(folder)


def stale_suites(output: str, now: datetime.datetime) -> dict[str, str]:
    """Suite -> a sentence with source and date, for each source that apt refused only for its age."""
    found: dict[str, str] = {}
    for match in EXPIRED.finditer(output):
        when = _days_ago(match["since"], now) if match["since"] else "an unknown date"
        found[match["suite"]] = f"{match['url']} was valid until {when} only"
    return found


def _days_ago(age: str, now: datetime.datetime) -> str:
    """The date of ``14d 19h 40min 16s`` before ``now``."""
    units = {"d": "days", "h": "hours", "min": "minutes", "s": "seconds"}
    parts = {units[unit]: int(n) for n, unit in re.findall(r"(\d+)(d|h|min|s)\b", age)}
    return (now - datetime.timedelta(**parts)).date().isoformat()


def _bootstrap(tree: Path, log: IO[str], say: Say) -> None:
    """Run mmdebstrap, again when a source is refused for its age, with the check off for that source only."""
    mirror = os.environ.get("BLOCKLAB_MIRROR")
    stale: dict[str, str] = {}
    while True:
        argv = [
            "mmdebstrap",
            f"--mode={'root' if os.geteuid() == 0 else 'unshare'}",
            "--variant=minbase",
            "--format=directory",
            "--skip=output/dev",
            *(f"--dpkgopt={option}" for option in recipe.DPKG_OPTIONS),
            f"--include={','.join(recipe.PACKAGES)}",
            f"--setup-hook={recipe.setup_hook(stale)}",
            recipe.SUITE,
            str(tree),
            *([mirror] if mirror else []),
        ]
        try:
            run(argv, log, say=say, TMPDIR=str(tree.parent))
            return
        except ProgramFailed as failure:
            refused = stale_suites(failure.output, datetime.datetime.now(datetime.UTC))
            fresh = {suite: why for suite, why in refused.items() if suite not in stale}
            if not fresh:
                raise
            for why in fresh.values():
                say(f"warning: {why}; taken all the same, its signature is checked, its freshness is not")
            stale |= fresh
            if tree.exists():
                run([*as_owner(), "find", str(tree), "-xdev", "-mindepth", "1", "-delete"], log)
                tree.rmdir()


def build(folder: Path, log: IO[str], say: Say) -> None:
    """Fill the existing, empty ``folder`` with ``root.ext4``, ``tools/`` (unpatched) and ``packages.json``."""
    with work_folder(log) as work:
        tree = work / "tree"
        say("base: Debian packages (about a minute)")
        _bootstrap(tree, log, say)
        say("base: file system")
        run([*as_owner(), "sh", "-c", recipe.FINISH, "sh", str(tree)], log)
        out = tree / ".out"
        copy_sparse(out / "root.ext4", folder / "root.ext4", log)
        shutil.copytree(out / "tools", folder / "tools")
        lines = (out / "packages").read_text().split("\n")
        packages = dict(line.split(" ", 1) for line in lines if line)
        (folder / "packages.json").write_text(json.dumps(packages, indent=1, sort_keys=True) + "\n")


def copy_sparse(source: Path, target: Path, log: IO[str]) -> None:
    """Copy a file; holes stay holes, and file systems that can share blocks share them."""
    run(["cp", "--sparse=always", "--reflink=auto", str(source), str(target)], log)
