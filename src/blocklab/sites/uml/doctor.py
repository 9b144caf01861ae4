"""What this machine has and lacks. It changes nothing but its cache and asks no network."""

from __future__ import annotations

import json
import mmap
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from blocklab.model.cache import cache_folder
from blocklab.sites.uml import recipe
from blocklab.sites.uml.memory import available
from blocklab.sites.uml.pinning import pinning

State = Literal["ok", "warn", "fail"]
GIB = 1 << 30

RELEASES = {"debian 12", "debian 13", "ubuntu 24.04"}
"""What blocklab has been set up on (docs/install.md); others of the family should do."""

MEMORY = 8 * (1 << 30)
"""Two nodes and two full volumes of the example study."""


class Brings(NamedTuple):
    """The Debian packages that bring a program, and what blocklab needs it for."""

    packages: tuple[str, ...]
    why: str


PROGRAMS = {
    "mmdebstrap": Brings(("mmdebstrap",), "builds the node image from Debian packages"),
    "gpg": Brings(("gpg",), "checks the signatures of these packages"),
    "patchelf": Brings(("patchelf",), "lets the image's kernel run with its own libraries"),
    "mount": Brings(("mount",), "mounts folders while the image is built"),
    "mke2fs": Brings(("e2fsprogs",), "makes the image's file system"),
    "debugfs": Brings(("e2fsprogs",), "makes the image's file system"),
    "taskset": Brings(("util-linux",), "pins nodes to CPUs, and ends them with blocklab"),
    "setpriv": Brings(("util-linux",), "pins nodes to CPUs, and ends them with blocklab"),
    "cc": Brings(("gcc", "libc6-dev"), "compiles the idle shim, without which mirrors are slow and uneven"),
}
"""Program -> what brings it. Root or not, all of them are needed."""

SWITCHES = {
    "kernel.apparmor_restrict_unprivileged_userns": ("1", "0"),  # Ubuntu
    "kernel.unprivileged_userns_clone": ("0", "1"),  # Debian, older kernels
    "user.max_user_namespaces": ("0", "15000"),
}
"""Sysctl -> the value that forbids user namespaces, and one that allows them."""

PROGRAMS_OF_USERS = {"newuidmap": Brings(("uidmap",), "builds the image without root")}
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class Fact(msgspec.Struct, frozen=True):
    """One thing about this machine. ``hint`` is empty when there is nothing to hint."""

    name: str
    ok: State
    found: str
    hint: str = ""


def facts() -> list[Fact]:
    """All facts, in the order in which they are worth reading. Takes about 0.1 s."""
    return [
        architecture(),
        release(),
        packages(),
        namespaces(),
        seccomp(),
        cpus(),
        memory(),
        shared_memory(),
        room("room for images", cache_folder(), 4, "BLOCKLAB_CACHE"),
        *tree_room(),
        *image(),
        other_nodes(),
    ]


def _search_path() -> str:
    """The path with the sbin folders, which ordinary users on Debian do not have in theirs."""
    return f"{os.environ.get('PATH', '/usr/bin:/bin')}:/usr/sbin:/sbin"


def _has(program: str) -> bool:
    return shutil.which(program, path=_search_path()) is not None


def host_packages() -> dict[str, str]:
    """The Debian packages that are missing, sorted, each with what it is for; empty when all are there."""
    programs = PROGRAMS if os.geteuid() == 0 else PROGRAMS | PROGRAMS_OF_USERS
    lacking = [brings for program, brings in programs.items() if not _has(program)]
    missing = {package: brings.why for brings in lacking for package in brings.packages}
    if not KEYRING.exists():
        missing["debian-archive-keyring"] = "has the keys that sign Debian's packages"
    return dict(sorted(missing.items()))


def architecture() -> Fact:
    """x86-64 Linux: user-mode-linux exists for nothing else in Debian's 64-bit ports."""
    found = f"{platform.system()} {platform.machine()}"
    if found == "Linux x86_64":
        return Fact("architecture", "ok", found)
    return Fact("architecture", "fail", found, "nodes run on Linux on x86-64 only; use such a machine or VM")


def release(file: Path = Path("/etc/os-release")) -> Fact:
    """The distribution; one that was never tried is a warning, since the rest may still fit."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return Fact(
            "system", "warn", "unknown (no /etc/os-release)", f"seen to work: {', '.join(sorted(RELEASES))}"
        )
    fields = {key: value.strip("\"'") for key, _, value in (line.partition("=") for line in lines)}
    name = f"{fields.get('ID', '?')} {fields.get('VERSION_ID', '')}".strip()
    shown = fields.get("PRETTY_NAME", name)
    if name in RELEASES:
        return Fact("system", "ok", shown)
    return Fact("system", "warn", f"{shown}, not tried yet", f"seen to work: {', '.join(sorted(RELEASES))}")


def packages() -> Fact:
    """What has to be installed from the distribution."""
    missing = host_packages()
    if not missing:
        return Fact("host packages", "ok", "complete")
    # Without a C compiler all works, but slower; without the others there is no image.
    state: State = "warn" if set(missing) <= {"gcc", "libc6-dev"} else "fail"
    sudo = "" if os.geteuid() == 0 else "sudo "
    hint = f"blocklab setup, or: {sudo}apt-get install --no-install-recommends {' '.join(missing)}"
    return Fact("host packages", state, f"missing: {' '.join(missing)}", hint)


def namespaces() -> Fact:
    """Whether the namespaces that an image build needs can really be made."""
    if os.geteuid() == 0:
        argv = ["unshare", "--mount", "true"]
    elif _has("mmdebstrap"):  # what the build will do; AppArmor may allow it to mmdebstrap alone
        argv = ["mmdebstrap", "--unshare-helper", "true"]
    else:
        argv = ["unshare", "--user", "--map-root-user", "true"]
    environment = {**os.environ, "PATH": _search_path(), "LC_ALL": "C.UTF-8"}
    try:
        tried = subprocess.run(argv, capture_output=True, text=True, timeout=20, cwd="/", env=environment)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Fact("namespaces", "fail", str(error), "install util-linux and mmdebstrap")
    if tried.returncode == 0:
        return Fact("namespaces", "ok", f"`{' '.join(argv)}` works")
    said = (tried.stderr.strip().splitlines() or ["it failed without a word"])[0]
    state: State = "warn" if image_there() else "fail"
    return Fact("namespaces", state, f"`{' '.join(argv)}`: {said}", namespace_hint(tried.stderr))


def namespace_hint(said: str, sysctls: Path = Path("/proc/sys")) -> str:
    """Why it may be refused, most particular first. ``said`` is what the trial printed on stderr."""
    if os.geteuid() == 0:
        return "a container needs to be started with more rights (docker: --privileged)"
    # W: no entry in /etc/subuid for USER                                    (mmdebstrap 1.3.5)
    # E: cannot find newuidmap
    if "/etc/sub" in said:
        ids = "100000-165535"
        return f"sudo usermod --add-subuids {ids} --add-subgids {ids} $USER"
    if "cannot find new" in said:
        return "sudo apt-get install uidmap"
    for switch, (bad, good) in SWITCHES.items():
        file = sysctls / switch.replace(".", "/")
        if file.exists() and file.read_text().strip() == bad:
            return f"sudo sysctl {switch}={good}, or build the image as root: {_as_root()}"
    return f"ask who runs this machine (a container?) to allow user namespaces, or build as root: {_as_root()}"


def _as_root() -> str:
    """sudo has a home of its own, where nobody else looks for the image, and does not know this environment."""
    return f'sudo env BLOCKLAB_CACHE={cache_folder()} "$(command -v blocklab)" image build'


def seccomp(status: Path = Path("/proc/self/status")) -> Fact:
    """A node's kernel keeps its programs apart by seccomp filters."""
    try:
        there = any(line.startswith("Seccomp:") for line in status.read_text().splitlines())
    except OSError:
        there = False
    if there:
        return Fact("seccomp", "ok", "available")
    hint = "no node starts without it: take a kernel with CONFIG_SECCOMP_FILTER (gVisor and WSL 1 have none)"
    return Fact("seccomp", "fail", "not available", hint)


def cpus() -> Fact:
    """Each node is pinned to one CPU: one of its own, unless waking another CPU takes too long here."""
    count = len(os.sched_getaffinity(0))
    if count >= 2:
        found = pinning()
        took = ", ".join(f"{name} {1e6 * trip:.0f} us" for name, trip in found.trips.items())
        where = "all nodes on one" if found.choice == "one" else f"nodes on {found.choice} of their own"
        return Fact("CPUs", "ok", f"{count}; {where} (a round trip between two processes: {took})")
    return Fact(
        "CPUs", "warn", str(count), "nodes will share one CPU and take turns; values are for comparison only"
    )


def memory(free: int | None = None) -> Fact:
    """Nodes and their volumes live in memory."""
    free = available() if free is None else free
    if free >= MEMORY:
        return Fact("memory", "ok", f"{_gib(free)} free")
    hint = f"the example study takes up to {_gib(MEMORY)}: end other programs, or use --volumes DIR"
    return Fact("memory", "warn", f"{_gib(free)} free", hint)


def shared_memory(folder: Path | None = None) -> Fact:
    """The kernel of a node maps its memory from a file there, with execute permission."""
    own = os.environ.get("BLOCKLAB_SCRATCH")
    folder = folder or Path(own or "/dev/shm")
    name, where = "/dev/shm", f" in {folder}" if own else ""
    try:
        size = shutil.disk_usage(folder).free
        with tempfile.TemporaryFile(dir=folder) as file:
            file.truncate(mmap.PAGESIZE)
            mmap.mmap(file.fileno(), mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_EXEC).close()
    except PermissionError:
        hint = f"sudo mount -o remount,exec {folder}, or set BLOCKLAB_SCRATCH to a folder of yours that allows it"
        return Fact(name, "fail", "mounted without exec, or not yours to write", hint)
    except OSError as error:
        hint = (
            "BLOCKLAB_SCRATCH has to be a folder that is there"
            if own
            else f"mount a tmpfs on {folder}, or set BLOCKLAB_SCRATCH to a folder of yours"
        )
        return Fact(name, "fail", str(error), hint)
    if size >= 2 * GIB:
        return Fact(name, "ok", f"{_gib(size)} free, exec allowed{where}")
    hint = f"sudo mount -o remount,size=4G {folder} (docker: --shm-size=4g), or set BLOCKLAB_SCRATCH"
    return Fact(name, "warn" if size >= GIB // 2 else "fail", f"{_gib(size)} free{where}", hint)


def room(name: str, folder: Path, gib: int, variable: str) -> Fact:
    """Room on the disk of a folder that may not exist yet."""
    # os.path: what lies below a closed folder is not there, and no error.
    there = next(path for path in (folder, *folder.parents) if os.path.exists(path))  # noqa: PTH110
    free = shutil.disk_usage(there).free
    if not os.access(there, os.W_OK):
        return Fact(name, "fail", f"{there} cannot be written", f"set {variable} to a folder of yours")
    if free >= gib * GIB:
        return Fact(name, "ok", f"{_gib(free)} in {folder}")
    hint = f"{gib} GiB are wanted: free some, or set {variable} to a folder on another disk"
    return Fact(
        name, "fail" if free < gib * GIB // 2 and not image_there() else "warn", f"{_gib(free)} in {folder}", hint
    )


def tree_room() -> list[Fact]:
    """Room for the tree while the image is built; of no interest afterwards."""
    if image_there():
        return []
    name, folder = "room while building", Path(os.environ.get("TMPDIR") or "/var/tmp")
    # Nobody makes it, unlike the cache folder.
    if not os.path.isdir(folder):  # noqa: PTH112
        return [Fact(name, "fail", f"{folder} is no folder", "TMPDIR has to be a folder that is there")]
    return [room(name, folder, 3, "TMPDIR")]


def _image_folder() -> Path:
    """That of this version's image, or of one with add-ons, which does as well; where it would be without any."""
    images = cache_folder() / "images"
    known = [images / key for key in recipe.recipe_keys()]
    return next((path for path in known if os.path.exists(path / "image.json")), known[0])  # noqa: PTH110


def image_there() -> bool:
    """Whether this version's node image is built."""
    return os.path.exists(_image_folder() / "image.json")  # noqa: PTH110


def image() -> list[Fact]:
    """The node image, and its shim when there is one."""
    folder = _image_folder()
    if not image_there():
        return [Fact("image", "warn", f"{folder.name} is not built", "blocklab image build")]
    stored = json.loads((folder / "image.json").read_text())
    if stored["folder"] != str(folder):
        return [Fact("image", "warn", f"{folder.name} was moved here", "blocklab image build")]
    if stored["shim"]:
        shim = Fact("idle shim", "ok", "present")
    else:
        hint = (
            "install gcc and libc6-dev, then `blocklab image build`; without it mirror writes are slower and "
            "uneven, and MariaDB and other I/O hang on volumes with a latency or a cap"
        )
        shim = Fact("idle shim", "warn", "missing", hint)
    return [Fact("image", "ok", f"{folder.name}, built {stored['built']}"), shim]


def other_nodes(proc: Path = Path("/proc")) -> Fact:
    """Other workload spoils values: nodes of another run, or anything that keeps the CPUs busy."""
    nodes = 0
    for file in proc.glob("[0-9]*/cmdline"):
        try:
            argv = file.read_bytes().split(b"\0")
        except OSError:  # it ended meanwhile
            continue
        nodes += argv[0].endswith(b"linux.uml") and any(arg.startswith(b"mem=") for arg in argv)
    load, count = os.getloadavg()[0], len(os.sched_getaffinity(0))
    found = f"{nodes} processes of other nodes, load {load:.2f} on {count} CPUs"
    if nodes == 0 and load < count / 2:
        return Fact("other load", "ok", found)
    return Fact("other load", "warn", found, "values taken now will be worse and noisier than they should be")


def _gib(size: float) -> str:
    return f"{size / GIB:.1f} GiB"
