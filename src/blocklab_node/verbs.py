"""Small verbs on files of a host, where no program of it does the same.

verbs.py write FILE TEXT [DEVICE]   writes TEXT; in it {number} is the device's major:minor, {sectors} its size in
                                    sectors of 512 bytes: a plan is made before the device has them
verbs.py adopt FILE                 writes the number of the process that started this: into a cgroup's
                                    cgroup.procs, so that all that it starts later is in that group
verbs.py until TEXT FILE            prints FILE; exit code 1 where it does not hold TEXT
verbs.py give FILE USER             makes FILE, a plain file, that user's, where this host has such a user
verbs.py lacking PROGRAM...         prints those that PATH does not have, a line each
verbs.py sysctl NAME VALUE          sets a kernel parameter, and keeps what it was
verbs.py restore                    sets all that were kept to what they were
"""

from __future__ import annotations

import os
import pwd
import shutil
import sys
from collections.abc import Callable, Sequence

KEPT = "/run/blocklab/sysctl"


def _of(device: str, name: str) -> str:
    # /sys/dev/block/254:0/dev: 254:0     /sys/dev/block/254:0/size: 131072
    # By its number, since the kernel does not know a mapping's name.
    number = os.stat(device).st_rdev
    with open(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/{name}") as file:
        return file.read().strip()


def write(path: str, text: str, device: str = "") -> None:
    """In one system call, as files of the kernel want it."""
    if device:
        text = text.replace("{number}", _of(device, "dev")).replace("{sectors}", _of(device, "size"))
    with open(path, "w") as file:
        file.write(text + "\n")


def adopt(path: str) -> None:
    """The caller moves itself."""
    write(path, str(os.getppid()))


def until(text: str, path: str) -> None:
    """What is there is shown in any case: it says why the text is not."""
    with open(path, errors="replace") as file:
        there = file.read()
    print(there, end="")
    if text not in there:
        sys.exit(1)


def give(path: str, user: str) -> None:
    """Its mode stays."""
    try:
        who = pwd.getpwnam(user)
    except KeyError:
        return
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        os.fchown(file, who.pw_uid, who.pw_gid)
    finally:
        os.close(file)


def lacking(*programs: str) -> None:
    """In the order in which they were asked for."""
    for program in programs:
        if shutil.which(program) is None:
            print(program)


def _parameter(name: str) -> tuple[str, str]:
    # net.ipv4.tcp_rmem; a name with a dot inside (of an interface) is written net/ipv4/conf/eth0.1/forwarding
    path = name if "/" in name else name.replace(".", "/")
    return f"/proc/sys/{path}", f"{KEPT}/{path.replace('/', '%')}"


def sysctl(name: str, value: str) -> None:
    """The first value that is kept stays: it is the host's own."""
    path, kept = _parameter(name)
    os.makedirs(KEPT, exist_ok=True)
    if not os.path.exists(kept):
        with open(path) as file, open(kept, "w") as copy:
            copy.write(file.read())
    write(path, value)


def restore() -> None:
    """Nothing where nothing was kept."""
    for name in os.listdir(KEPT) if os.path.isdir(KEPT) else ():
        path, kept = _parameter(name.replace("%", "/"))
        with open(kept) as file:
            write(path, file.read().rstrip("\n"))
        os.unlink(kept)


COMMANDS: dict[str, Callable[..., None]] = {
    "write": write, "adopt": adopt, "until": until, "give": give, "lacking": lacking, "sysctl": sysctl,
    "restore": restore,
}  # fmt: skip


def main(argv: Sequence[str]) -> int:
    """One verb; it ends with the reason where it fails."""
    try:
        COMMANDS[argv[1]](*argv[2:])
    except OSError as error:
        sys.exit(f"{error.filename}: {error.strerror}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
