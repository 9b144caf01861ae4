"""The programs that run on the outer machine but come out of the image: kernel, volume server, shim.

The kernel brings its own loader and libraries, so that every host has the same versions and an old libc does not
matter. Interpreter and rpath are patched into the file, since starting it *through* a loader fails: it re-executes
``/proc/self/exe``. Both are absolute: a folder of tools works in one place only. The volume server is static.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from blocklab.errors import ImageError, tail
from blocklab.sites.uml import kernel_program, modules, recipe, volume_program
from blocklab.sites.uml.processes import scratch, separator
from blocklab.sites.uml.rootfs import environment, run

Argv = list[str | Path]

LOADER = "ld-linux-x86-64.so.2"
KERNEL = Path(recipe.KERNEL).name
VIRTUAL_KERNEL = kernel_program.NAME
VOLUME_SERVER = volume_program.NAME
SHIM = "umlidle.so"
BOOTED = "Attempted to kill init! exitcode=0x00000000"
"""What a kernel prints at the end when its first process, ``/bin/true`` here, ran and ended well:
``Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000000``."""

REPORT = "UMLIDLE_REPORT"
ZERO_PAGE = "umlidle: found the page of zeros"
"""What the shim prints when ``REPORT`` is set and it can share that page with a volume's daemon."""


def install(raw: Path, folder: Path, final: Path, log: IO[str]) -> None:
    """Copy the tools of ``raw`` to ``folder``, patched to work once ``folder`` has been renamed to ``final``."""
    if bad := separator(final):
        raise ImageError(
            f"tools cannot work in {final}: their loader or the kernel treats {bad!r} in a path as a separator",
            hint="set BLOCKLAB_CACHE to a path of plain ASCII",
        )
    shutil.copytree(raw, folder)
    patch(folder / KERNEL, final, log)


def patch(kernel: Path, final: Path, log: IO[str]) -> None:
    """Have a kernel take its loader and libraries from ``final``."""
    # DT_RPATH (not DT_RUNPATH) also holds for the libraries of libraries.
    run(["patchelf", "--set-interpreter", str(final / LOADER), str(kernel)], log)
    run(["patchelf", "--force-rpath", "--set-rpath", str(final), str(kernel)], log)


def compile_shim(target: Path, log: IO[str]) -> str:
    """Compile the shim with the host's ``cc``; returns why there is none, empty when all went well."""
    if shutil.which("cc", path=environment()["PATH"]) is None:
        return "this machine has no C compiler (cc)"
    argv = ["cc", "-O2", "-Wall", "-shared", "-fPIC", "-o", str(target), str(recipe.SHIM_SOURCE)]
    try:
        run(argv, log)
    except ImageError as error:
        target.unlink(missing_ok=True)
        return f"the C compiler failed: {error.message.splitlines()[-1].strip()}"
    return ""


def verify(tools: Path, rootfs: Path, log: IO[str]) -> str:
    """Run every tool once, in the way it will be used; returns what the shim cannot do, empty when all went well.

    Raises ``ImageError`` naming the tool that fails.
    """
    for name in (KERNEL, VOLUME_SERVER, VIRTUAL_KERNEL):
        if name != VIRTUAL_KERNEL or (tools / name).exists():
            run([str(tools / name), "--version"], log)
    # Where nodes live: the kernel and the daemons take every path there.
    with tempfile.TemporaryDirectory(prefix="blocklab-verify-", dir=scratch()) as folder:
        _serve(tools, Path(folder), log)
        console = _boot(tools, rootfs, Path(folder), log, "ro", "/bin/true")
    if ZERO_PAGE in console or not (tools / SHIM).exists():
        return ""
    return "the shim does not know this kernel's page of zeros"


def fit_modules(tools: Path, rootfs: Path, log: IO[str]) -> None:
    """Move the user's modules to where modprobe finds them first, and index them: in a node, by the image's own
    programs and for its own kernel. Raises ``ImageError`` for one that is made for another kernel."""
    with tempfile.TemporaryDirectory(prefix="blocklab-modules-", dir=scratch()) as folder:
        _boot(tools, rootfs, Path(folder), log, "rw", modules.FIT)


def _serve(tools: Path, folder: Path, log: IO[str]) -> None:
    """A small file, opened by the volume server, which then listens for its node."""
    disk, socket = folder / "disk", folder / "node"
    with disk.open("wb") as file:
        file.truncate(1 << 20)
    config = {"file": str(disk), "sockets": [str(socket)], "profile": {"iops": 100}}
    with _running([tools / VOLUME_SERVER, json.dumps(config)], log) as server:
        _until(socket, server, VOLUME_SERVER)


def _boot(tools: Path, rootfs: Path, folder: Path, log: IO[str], mode: str, init: str) -> str:
    """A kernel with ``init`` as its first process and the image mounted ``ro`` or ``rw``; returns what it printed.

    What kills it on a CPU it does not know shows here."""
    disk = f"ubd0{'r' if mode == 'ro' else ''}={rootfs}"
    argv: Argv = [tools / KERNEL, "mem=64M", disk, "root=/dev/ubda", mode, f"init={init}"]
    argv += ["seccomp=on", "con=null", "con0=null,fd:1", f"uml_dir={folder}/", "panic=0"]
    shim = tools / SHIM
    preload = {"LD_PRELOAD": str(shim), REPORT: "1"} if shim.exists() else {}
    # Where nodes have their memory, too.
    preload["TMPDIR"] = str(scratch())
    with (folder / "console").open("w+", errors="replace") as console:
        with _running(argv, console, **preload) as kernel, contextlib.suppress(subprocess.TimeoutExpired):
            kernel.wait(30)
        console.seek(0)
        text = console.read()
    log.write(text)
    modules.check(text)
    if BOOTED not in text:
        message = f"the image's kernel does not start on this machine; its last lines:\n{tail(text)}"
        raise ImageError(message, hint="`blocklab doctor` may know why")
    return text


@contextlib.contextmanager
def _running(argv: Argv, log: IO[str], **env: str) -> Iterator[subprocess.Popen[bytes]]:
    log.write(f"+ {' '.join(map(str, argv))}\n")
    log.flush()
    # Whatever becomes of blocklab, they end with it, as nodes do.
    bound: Argv = ["setpriv", "--pdeathsig", "KILL", "--", *argv]
    with subprocess.Popen(
        bound,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        env=environment(**env),
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            # The whole group: a kernel has helper processes.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)


def _until(path: Path, process: subprocess.Popen[bytes], name: str) -> None:
    """Wait until ``process`` has made ``path``."""
    deadline = time.monotonic() + 20
    while not path.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise ImageError(f"{name} of the image does not work on this machine", hint="the build log says more")
        time.sleep(0.02)
