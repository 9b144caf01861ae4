"""What a network mirror's two sides do when one is gone, and when it comes back; and how they are compared."""

from __future__ import annotations

from collections.abc import Mapping

from blocklab.layers import checksum
from blocklab.model.drill import Replicas
from blocklab.model.plan import Argv, Put, Run, Step

# A full copy, or a comparison, that takes longer than this is taken for stuck.
SYNC_SECONDS = 3600.0

# Runs on the node, so it is text here.
SCRIPT = '''\
"""Takes the remote leg of an MD mirror out and in.

    net_mirror.py own MD DEVICE          MD, which was assembled of DEVICE alone, reads and writes it as its own
    net_mirror.py leave MD NBD           takes NBD out where it is a leg, and disconnects it where it is connected
    net_mirror.py join MD NBD PARTS...   adds NBD and waits until both legs are in sync; else exit code 1 and the
                                         reason. PARTS: "mostly" for a write-mostly leg; "bitmap" to copy only what
                                         the bitmap says, where the file MOVED is there too
    net_mirror.py lone MD NBD            prints something where MD goes on without NBD, its remote leg
    net_mirror.py parted MD NBD          prints something where both legs were written to apart from each other
    net_mirror.py check MD               compares both legs, until the end
    net_mirror.py differ MD              prints how many bytes the last check found to differ
"""

import os
import re
import subprocess
import sys
import time

SYNC_SECONDS = @SYNC@
# KiB/s
QUICKLY = "1000000"


def path(md, *names):
    return os.path.join("/sys/class/block", os.path.basename(md), "md", *names)


def member(md, device, *names):
    return path(md, f"dev-{os.path.basename(device)}", *names)


def read(file):
    with open(file) as stream:
        return stream.read().strip()


def run(*argv):
    done = subprocess.run(argv, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def must(*argv):
    code, said = run(*argv)
    if code:
        sys.exit(f"{' '.join(argv)}: exit code {code}\\n{said}")
    return said


def own(md, device):
    with open(member(md, device, "state"), "w") as file:
        file.write("-writemostly")


def leave(md, nbd):
    if os.path.exists(member(md, nbd)):
        run("mdadm", "--manage", md, "--fail", nbd)
    if os.path.exists(f"/sys/class/block/{os.path.basename(nbd)}/pid"):
        # What was under way to it ends with an error now, not after the timeout.
        must("nbd-client", "-d", nbd)
    deadline = time.monotonic() + 15
    while os.path.exists(member(md, nbd)):
        code, said = run("mdadm", "--manage", md, "--remove", "failed")
        if code and time.monotonic() > deadline:
            sys.exit(f"{nbd} cannot be taken out of {md}\\n{said}")
        time.sleep(0.05)


def gone(md, nbd):
    """Whether it is no leg any more."""
    return not os.path.exists(member(md, nbd)) or "faulty" in read(member(md, nbd, "state"))


def lone(md, nbd):
    if int(read(path(md, "degraded"))) and gone(md, nbd):
        print(f"{md} goes on without {nbd}")


def superblock(nbd):
    """What a leg's superblock says; empty where it has none."""
    code, said = run("mdadm", "--examine", nbd)
    return dict(line.strip().split(" : ", 1) for line in said.splitlines() if " : " in line)


def alone(found):
    """Whether a leg was written to while it knew that the other one was not there."""
    #   Array State : A. ('A' == active, '.' == missing, 'R' == replacing)
    return "." in found.get("Array State", "").partition(" ")[0]


def apart(md, nbd):
    """The other leg's superblock where both were in use without each other; empty else."""
    if not gone(md, nbd):
        return {}
    if not os.path.exists(f"/sys/class/block/{os.path.basename(nbd)}/pid"):
        sys.exit(f"{nbd} is not connected, so that nobody can tell")
    found = superblock(nbd)
    return found if alone(found) and int(read(path(md, "degraded"))) else {}


def join(md, nbd, *parts):
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


def speed(md, least, most):
    for name, value in (("sync_speed_min", least), ("sync_speed_max", most)):
        with open(path(md, name), "w") as file:
            file.write(value)


def wait(md, nbd):
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


def check(md):
    speed(md, QUICKLY, QUICKLY)
    must("mdadm", "--action=check", md)
    deadline = time.monotonic() + SYNC_SECONDS
    while read(path(md, "sync_action")) != "idle":
        if time.monotonic() > deadline:
            sys.exit(f"{md}: the check did not end in {SYNC_SECONDS:g} s: {read(path(md, 'sync_completed'))}")
        time.sleep(0.05)
    speed(md, "system", "system")


def parted(md, nbd):
    if found := apart(md, nbd):
        print(f"{nbd} was used without {md} until {found.get('Update Time')}")


def differ(md):
    if int(read(path(md, "degraded"))):
        sys.exit(f"{md} has one leg only, so that nothing was compared")
    # in sectors
    print(int(read(path(md, "mismatch_cnt"))) * 512)


COMMANDS = {
    "own": own, "leave": leave, "lone": lone, "join": join, "check": check, "parted": parted, "differ": differ,
}
COMMANDS[sys.argv[1]](*sys.argv[2:])
'''.replace("@SYNC@", str(SYNC_SECONDS))


def put(host: str, stack: str) -> Put:
    """The program on its node."""
    return Put(host, _path(stack), SCRIPT)


def ask(stack: str, what: str, *words: str) -> Argv:
    """The program's command ``what``."""
    return ("python3", "-I", "-S", _path(stack), what, *words)


def assembled(host: str, mirror: str, local: str) -> tuple[Step, ...]:
    """The array of its local leg alone."""
    return (
        Run(host, ("modprobe", "raid1")),
        Run(host, ("mdadm", "--assemble", "--run", mirror, local), undo=("mdadm", "--stop", mirror)),
    )


def promoted(host: str, stack: str, mirror: str, local: str, stop: Argv) -> tuple[Step, ...]:
    """The leg that ``nbd-server`` has served, until ``stop`` ends it, as an array of its own."""
    return (
        Run(host, stop),
        # The server wrote to memory, past which the array reads and writes.
        Run(host, ("blockdev", "--flushbufs", local)),
        *assembled(host, mirror, local),
        put(host, stack),
        Run(host, ask(stack, "own", mirror, local)),
        # From now on the other leg can be told by the bitmap: see joined().
        Put(host, _moved(stack), "taken over\n"),
    )


def joined(
    here: str, stack: str, mirror: str, remote: str, connect: Argv, served: tuple[Step, ...], *,
    mostly: bool, bitmap: bool,
) -> tuple[Step, ...]:  # fmt: skip
    """The leg of the other node, which has just booted or was only given up, served, connected and brought into
    sync.

    By the bitmap only where the other node was the active one when it went: its own kernel then wrote to the
    volume. Of a leg that was served what the server had in memory is lost, which no bitmap knows, so it is copied
    whole. Where both legs were in use without each other nothing is copied: an error here, and ``parted`` says it.
    """
    parts = (*(("mostly",) if mostly else ()), *(("bitmap", _moved(stack)) if bitmap else ()))
    # As an undo it brings its program along: that of a later step may be removed by then.
    left = _program("leave", mirror, remote)
    return (
        *served,
        put(here, stack),
        Run(here, ("modprobe", "nbd", "nbds_max=0")),
        Run(here, ask(stack, "leave", mirror, remote)),
        Run(here, connect, undo=left),
        Run(here, ask(stack, "join", mirror, remote, *parts), timeout=SYNC_SECONDS + 60.0),
    )


def compared(here: str, stack: str, mirror: str, remote: str, sides: Mapping[str, str]) -> Replicas:
    """Both legs compared by MD, and by checksums of their data areas."""
    return Replicas(
        verify=(
            *(checksum.put(host, stack) for host in sides),
            put(here, stack),
            Run(here, ask(stack, "check", mirror), timeout=SYNC_SECONDS + 60.0),
        ),
        differ=(here, ask(stack, "differ", mirror)),
        copies={host: checksum.of_member(stack, device) for host, device in sides.items()},
        lone=(here, _program("lone", mirror, remote)),
    )


def _program(what: str, *words: str) -> Argv:
    """The program's command ``what``, where the program may not be on the node."""
    return ("python3", "-I", "-S", "-c", SCRIPT, what, *words)


def _path(stack: str) -> str:
    return f"/run/blocklab/{stack}-net-mirror.py"


def _moved(stack: str) -> str:
    return f"/run/blocklab/{stack}-moved"
