"""The base stage and the parts: Debian in one ext4 file, programs in folders; by ``mmdebstrap``, root or not.

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
import filecmp
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
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

# What was said -> (what it means, the hint). The first one found wins; samples: tests/unit/test_image.py.
CAUSES: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (
        re.compile(r"No space left on device|You don't have enough free space|Could not allocate block in ext2"),
        "no room left on the disk",
        "the tree needs 3 GiB under $TMPDIR or /var/tmp, the image 4 GiB in the cache folder; "
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
        # go: ...: Get "https://p.example/...mod": dial tcp 127.0.0.1:9: connect: connection refused
        # go: ...: Get "https://p.example/...mod": dial tcp: lookup p.example on 192.0.2.53:53: no such host
        re.compile(r"^go: .*(dial tcp|no such host|i/o timeout)", re.MULTILINE),
        "the Go module proxy cannot be reached",
        "check the network and https_proxy, or set GOPROXY to a Go module proxy that this machine reaches",
    ),
    (
        # go: ...: Get "https://p.example/...mod": tls: failed to verify certificate: x509:
        # certificate signed by unknown authority
        re.compile(r"^go: .*x509: ", re.MULTILINE),
        "the certificate of the Go module proxy is not trusted",
        "set SSL_CERT_FILE to a file with the certificates of your network's proxy",
    ),
    (
        re.compile(r"NO_PUBKEY|couldn't be verified|is not signed"),
        "the package mirror's signature cannot be checked",
        "install the package debian-archive-keyring",
    ),
    (
        re.compile(r"/etc/sub[ug]id|new[ug]idmap|unshare the (user|mount) namespace|unshare (syscall )?failed"),
        "this user cannot make user namespaces",
        "`blocklab doctor` shows how to allow them; a build as root does not need them",
    ),
)


class ProgramFailed(ImageError):
    """A program that the build needs ended with an exit code other than 0; ``output`` is all that it printed."""

    def __init__(self, argv: Sequence[str], code: int, output: str, log: str) -> None:
        program = Path(argv[0]).name
        for sign, meaning, hint in CAUSES:
            if lines := [line.strip() for line in output.splitlines() if sign.search(line)]:
                # apt's own summary ("E: Failed to fetch ...") says more than the lines before it
                line = next((line for line in lines if line.startswith("E: ")), lines[0])
                super().__init__(f"the image cannot be built: {meaning}\n    {line}", hint=hint)
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
            pass_fds=_lock.get(),
            text=True,
            errors="replace",
        )
    except FileNotFoundError as error:
        raise ImageError(
            f"this machine has no {argv[0]}", hint="`blocklab doctor` names the packages to install"
        ) from error
    with process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                log.write(line)
                log.flush()
                lines.append(line)
                if say and (progress := PROGRESS.match(line)):
                    say(f"  {progress[1]}")
        except BaseException:
            # What it writes can be removed when it has come to its end; mmdebstrap waits for its own children.
            process.terminate()
            process.communicate()
            raise
    if process.returncode:
        raise ProgramFailed(argv, process.returncode, "".join(lines), log.name)
    return "".join(lines)


def as_owner() -> tuple[str, ...]:
    """What to put before an argv so that it sees the tree with its true owners: nothing for root."""
    return () if os.geteuid() == 0 else ("mmdebstrap", "--unshare-helper")


# A folder that another thread has made but not yet locked would look like a dead builder's.
_making = threading.Lock()
# The lock of this thread's work_folder(), which its programs hold as well: a mmdebstrap whose parent was killed
# goes on to its end. No other file is handed on: mmdebstrap 1.3.5 runs "cat >&N" by dash, which takes one digit.
# /bin/sh: 1: Syntax error: Bad fd number
_lock: ContextVar[tuple[int, ...]] = ContextVar("_lock", default=())


def work_parent() -> Path:
    """Where work folders are made: ``$TMPDIR`` or ``/var/tmp``."""
    return Path(os.environ.get("TMPDIR") or "/var/tmp")


@contextlib.contextmanager
def work_folder(log: IO[str]) -> Iterator[Path]:
    """A folder for the tree, emptied and removed at the end. First removes those of builders that died. Raises
    ``ImageError`` where it cannot be made."""
    if not os.access(work_parent(), os.W_OK | os.X_OK):
        raise ImageError(
            f"the image cannot be built: {work_parent()} is not a writable folder",
            hint="set TMPDIR to one with room for 3 GiB",
        )
    prefix = f"blocklab-{os.geteuid()}-"
    with contextlib.ExitStack() as stack:
        with _making:
            for left in work_parent().glob(f"{prefix}*"):
                if left.is_dir() and not left.is_symlink() and left.stat().st_uid == os.geteuid():
                    with (left / "lock").open("a") as lock, contextlib.suppress(BlockingIOError):
                        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        with contextlib.suppress(ImageError, OSError):  # the next build tries again
                            _empty(left, log)
            folder = Path(tempfile.mkdtemp(prefix=prefix, dir=work_parent()))
            mine = stack.enter_context((folder / "lock").open("a"))
            fcntl.flock(mine, fcntl.LOCK_EX)
        folder.chmod(0o755)  # the mapped root and apt's own user have to get through
        token = _lock.set((mine.fileno(),))
        try:
            yield folder
        finally:
            _empty(folder, log)
            _lock.reset(token)


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


def _bootstrap(tree: Path, log: IO[str], say: Say, part: recipe.Part | None = None) -> None:
    """Run mmdebstrap, again when a source is refused for its age, with the check off for that source only."""
    mirror = os.environ.get("BLOCKLAB_MIRROR")
    stale: dict[str, str] = {}
    hook = tree.parent / "hook"
    if part:
        # A program of its own: an argument may have 128 KiB at most.
        hook.write_text(f"#!/bin/sh\n{part.script}")
        hook.chmod(0o755)
    while True:
        argv = [
            "mmdebstrap",
            f"--mode={'root' if os.geteuid() == 0 else 'unshare'}",
            f"--variant={'extract' if part else 'minbase'}",
            "--format=directory",
            "--skip=output/dev",
            *(f"--dpkgopt={option}" for option in recipe.DPKG_OPTIONS),
            f"--include={','.join(part.packages if part else recipe.PACKAGES)}",
            f"--setup-hook={recipe.setup_hook(stale, part)}",
            *([f"--extract-hook={hook}"] if part else []),
            part.suite if part else recipe.SUITE,
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
        _write_packages(out / "packages", folder)


def build_part(part: recipe.Part, folder: Path, log: IO[str], say: Say) -> None:
    """Fill the empty ``folder`` with ``tree/`` (what the part adds to the root), ``packages.json`` and, if the
    part has programs for the outer machine, ``tools/``."""
    with work_folder(log) as work:
        tree = work / "tree"
        say(f"{part.name}: {part.about}")
        _bootstrap(tree, log, say, part)
        shutil.copytree(tree / ".out" / "tree", folder / "tree")
        if (tree / ".out" / "tools").is_dir():
            shutil.copytree(tree / ".out" / "tools", folder / "tools")
        _write_packages(tree / ".out" / "packages", folder)


def _write_packages(listed: Path, folder: Path) -> None:
    """Lines of name and version become ``packages.json`` in ``folder``."""
    packages = dict(line.split(" ", 1) for line in listed.read_text().split("\n") if line)
    (folder / "packages.json").write_text(json.dumps(packages, indent=1, sort_keys=True) + "\n")


def copy_sparse(source: Path, target: Path, log: IO[str]) -> None:
    """Copy a file; holes stay holes, and file systems that can share blocks share them."""
    run(["cp", "--sparse=always", "--reflink=auto", str(source), str(target)], log)


def add_tree(disk: Path, tree: Path, log: IO[str]) -> None:
    """Make the root file system ``disk`` larger and write the files of ``tree`` into it, owned by root.

    By debugfs, since it needs neither root nor a mount. It always ends with exit code 0, so what was written is
    read back. Raises ``ImageError``.
    """
    inside = sorted(path.relative_to(tree) for path in tree.rglob("*"))
    if odd := [path for path in inside if not re.fullmatch(r"[\w.+/-]+", str(path), re.ASCII)]:
        raise ImageError(f"debugfs would misread this name: {str(odd[0])!r}")
    files = [path for path in inside if (tree / path).is_file()]
    folders = [path for path in inside if (tree / path).is_dir()]
    # Whole blocks; a block for each folder; a thirtieth for extents and the inode tables of more block groups.
    size = sum((tree / path).stat().st_size // 4096 * 4 + 4 for path in files) + 4 * len(folders)
    run(["resize2fs", str(disk), f"{disk.stat().st_size // 1024 + size + size // 30 + 64}K"], log)
    with tempfile.TemporaryDirectory(prefix="blocklab-debugfs-", dir=disk.parent) as scratch:
        script, back = Path(scratch, "commands"), Path(scratch, "back")
        back.mkdir()
        commands: list[str] = []
        for path in folders:
            # Inode: 6531   Type: directory    Mode:  0755   Flags: 0x80000
            if "Type: directory" not in run(["debugfs", "-R", f"stat /{path}", str(disk)], log):
                commands += [f"mkdir /{path}", *_owned_by_root(path, "040755")]
        for path in files:
            mode = "0100755" if (tree / path).stat().st_mode & 0o100 else "0100644"
            commands += [f"write {path} /{path}", *_owned_by_root(path, mode)]
        script.write_text("\n".join(commands) + "\n")
        said = run(["debugfs", "-w", "-f", str(script), str(disk)], log, cwd=tree)
        script.write_text("".join(f"dump /{path} {number}\n" for number, path in enumerate(files)))
        run(["debugfs", "-f", str(script), str(disk)], log, cwd=back)
        for number, path in enumerate(files):
            copy = back / str(number)
            if not (copy.is_file() and filecmp.cmp(copy, tree / path, shallow=False)):
                raise ImageError(f"debugfs did not write {path} into the image:\n{tail(said)}")


def _owned_by_root(path: Path, mode: str) -> list[str]:
    """What debugfs has to be told after it made a file or folder."""
    return [f"sif /{path} mode {mode}", f"sif /{path} uid 0", f"sif /{path} gid 0"]
