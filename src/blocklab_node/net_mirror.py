"""Takes the remote leg of an MD mirror out and in.

net_mirror.py own MD DEVICE          MD, which was assembled of DEVICE alone, reads and writes it as its own
net_mirror.py leave MD NBD           takes NBD out where it is a leg, and disconnects it where it is connected
net_mirror.py join MD NBD PARTS...   adds NBD and waits until both legs are in sync; else exit code 1 and the
                                     reason. PARTS: "mostly" for a write-mostly leg; "bitmap" to copy only what
                                     the bitmap says, where the file MOVED is there too
net_mirror.py lone MD NBD            prints something where MD goes on without NBD, its remote leg
net_mirror.py parted MD NBD          prints something where both legs were written to apart from each other
net_mirror.py settle MD              waits until MD copies no more; exit code 1 where it lacks a leg
net_mirror.py copied MD              waits until an array that was just made has made its copies the same
net_mirror.py check MD               compares both legs, until the end
net_mirror.py differ MD              prints how many bytes the last check found to differ
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

# A full copy, or a comparison, that takes longer than this is taken for stuck.
SYNC_SECONDS = 3600.0
# KiB/s
QUICKLY = "1000000"


def path(md: str, *names: str) -> str:
    """In MD's part of /sys."""
    return os.path.join("/sys/class/block", os.path.basename(md), "md", *names)


def member(md: str, device: str, *names: str) -> str:
    """In a leg's part of it."""
    return path(md, f"dev-{os.path.basename(device)}", *names)


def read(file: str) -> str:
    """A file's text."""
    with open(file) as stream:
        return stream.read().strip()


def run(*argv: str) -> tuple[int, str]:
    """(exit code, what it said)."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def must(*argv: str) -> str:
    """What it said; our end where it fails."""
    code, said = run(*argv)
    if code:
        sys.exit(f"{' '.join(argv)}: exit code {code}\n{said}")
    return said


def own(md: str, device: str) -> None:
    with open(member(md, device, "state"), "w") as file:
        file.write("-writemostly")


def leave(md: str, nbd: str) -> None:
    if os.path.exists(member(md, nbd)):
        run("mdadm", "--manage", md, "--fail", nbd)
    if os.path.exists(f"/sys/class/block/{os.path.basename(nbd)}/pid"):
        # What was under way to it ends with an error now, not after the timeout.
        must("nbd-client", "-d", nbd)
    deadline = time.monotonic() + 15
    while os.path.exists(member(md, nbd)):
        code, said = run("mdadm", "--manage", md, "--remove", "failed")
        if code and time.monotonic() > deadline:
            sys.exit(f"{nbd} cannot be taken out of {md}\n{said}")
        time.sleep(0.05)


def gone(md: str, nbd: str) -> bool:
    """Whether it is no leg any more."""
    return not os.path.exists(member(md, nbd)) or "faulty" in read(member(md, nbd, "state"))


def lone(md: str, nbd: str) -> None:
    if int(read(path(md, "degraded"))) and gone(md, nbd):
        print(f"{md} goes on without {nbd}")


def superblock(nbd: str) -> dict[str, str]:
    """What a leg's superblock says; empty where it has none."""
    _, said = run("mdadm", "--examine", nbd)
    pairs = (line.strip().partition(" : ") for line in said.splitlines())
    return {name: value for name, colon, value in pairs if colon}


def alone(found: Mapping[str, str]) -> bool:
    """Whether a leg was written to while it knew that the other one was not there."""
    #   Array State : A. ('A' == active, '.' == missing, 'R' == replacing)
    return "." in found.get("Array State", "").partition(" ")[0]


def apart(md: str, nbd: str) -> dict[str, str]:
    """The other leg's superblock where both were in use without each other; empty else."""
    if not gone(md, nbd):
        return {}
    if not os.path.exists(f"/sys/class/block/{os.path.basename(nbd)}/pid"):
        sys.exit(f"{nbd} is not connected, so that nobody can tell")
    found = superblock(nbd)
    return found if alone(found) and int(read(path(md, "degraded"))) else {}


def join(md: str, nbd: str, *parts: str) -> None:
    if found := apart(md, nbd):
        sys.exit(f"split brain: {nbd} was used without {md} until {found.get('Update Time')}; nothing was changed")
    mostly = ["--write-mostly"] if "mostly" in parts else []
    moved = [part for part in parts if part.startswith("/") and os.path.exists(part)]
    if not ("bitmap" in parts and moved and run("mdadm", "--manage", md, "--re-add", *mostly, nbd)[0] == 0):
        if superblock(nbd):
            # Or mdadm would not have it as a fresh leg.
            must("mdadm", "--zero-superblock", nbd)
        must("mdadm", "--manage", md, "--add", *mostly, nbd)
    wait(md, nbd)
    for part in moved:
        os.remove(part)


def speed(md: str, least: str, most: str) -> None:
    for name, value in (("sync_speed_min", least), ("sync_speed_max", most)):
        with open(path(md, name), "w") as file:
            file.write(value)


def wait(md: str, nbd: str) -> None:
    # By itself MD lets any other I/O go first, down to 1 MB/s.
    speed(md, QUICKLY, QUICKLY)
    deadline = time.monotonic() + SYNC_SECONDS
    while int(read(path(md, "degraded"))) or read(path(md, "sync_action")) != "idle":
        if gone(md, nbd):
            sys.exit(f"{nbd} was lost while it was brought into sync with {md}")
        if time.monotonic() > deadline:
            sys.exit(f"{md} is not in sync after {SYNC_SECONDS:g} s: {read(path(md, 'sync_completed'))}")
        time.sleep(0.05)
    speed(md, "system", "system")


def idle(md: str, what: str) -> None:
    """Wait until it copies and compares no more."""
    deadline = time.monotonic() + SYNC_SECONDS
    while read(path(md, "sync_action")) != "idle":
        if time.monotonic() > deadline:
            sys.exit(f"{md}: the {what} did not end in {SYNC_SECONDS:g} s: {read(path(md, 'sync_completed'))}")
        time.sleep(0.05)


def settle(md: str) -> None:
    idle(md, "resync")
    if int(read(path(md, "degraded"))):
        sys.exit(f"{md} has one leg only, so that there is nothing to compare")


def copied(md: str) -> None:
    speed(md, QUICKLY, QUICKLY)
    idle(md, "resync")
    speed(md, "system", "system")


def check(md: str) -> None:
    speed(md, QUICKLY, QUICKLY)
    must("mdadm", "--action=check", md)
    idle(md, "check")
    speed(md, "system", "system")


def parted(md: str, nbd: str) -> None:
    if found := apart(md, nbd):
        print(f"{nbd} was used without {md} until {found.get('Update Time')}")


def differ(md: str) -> None:
    # in sectors
    print(int(read(path(md, "mismatch_cnt"))) * 512)


COMMANDS: dict[str, Callable[..., None]] = {
    "own": own, "leave": leave, "lone": lone, "join": join, "check": check, "parted": parted, "differ": differ,
    "settle": settle, "copied": copied,
}  # fmt: skip


def main(argv: Sequence[str]) -> int:
    """One command; it ends with the reason where it fails."""
    COMMANDS[argv[1]](*argv[2:])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
