"""What DRBD's two sides do when one of them is gone, and when it comes back; and how they are compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from blocklab.layers import checksum
from blocklab.model.drill import Replicas
from blocklab.model.plan import Argv, Put, Run, Step

# How long an active side waits for the other one to connect: DRBD tries every 10 s (connect-int).
CONNECT_SECONDS = 40
# Of two sides that parted the one that finds it first drops the connection, often before the other one could find
# it; it is to be found on the active one.
MEETINGS = 4
# A full copy, or a comparison, that takes longer than this is taken for stuck.
SYNC_SECONDS = 3600.0
# The kernel has it built in, and it is the quickest one; an independent SHA-256 stands beside it.
VERIFY_ALG = "crc32c"

# By itself DRBD begins at 250 KiB/s, and waits 0.1 s after each request while there is other I/O. Nobody waits for
# anything else now: 132 MiB were copied in 4 s with these and in 20 s without.
QUICKLY: Argv = (
    "--c-plan-ahead=20", "--c-fill-target=16M", "--c-max-rate=1G", "--c-min-rate=0", "--resync-rate=200M",
)  # fmt: skip
RATES = frozenset({"c-plan-ahead", "c-fill-target", "c-max-rate", "c-min-rate", "resync-rate"})

# Runs on the node, so it is text here.
SCRIPT = '''\
"""Follows one DRBD device by /proc/drbd and the kernel's log.

    drbd.py mark MINOR NAME   ends the connection, where there is one; then a line in the kernel's log, from which
                              on "parted" looks
    drbd.py met MINOR         until both sides have looked at each other, but for a few seconds at most
    drbd.py again MINOR NAME  connects once more where this side has refused the other one
    drbd.py attached MINOR NAME  takes the disk below back where it was given up for an I/O error
    drbd.py joined MINOR      until both sides are connected and up to date; else exit code 1 and the reason
    drbd.py verified MINOR    until an online verification has ended
    drbd.py differ MINOR      prints how many bytes are known to differ
    drbd.py parted MINOR      prints what the kernel said of a split brain since the last mark, if anything
"""

import os
import re
import subprocess
import sys
import time

CONNECT_SECONDS = @CONNECT@
SYNC_SECONDS = @SYNC@
MEET_SECONDS = 3
UNMET = {"Unconnected", "Timeout", "BrokenPipe", "NetworkFailure", "ProtocolError", "TearDown", "WFConnection",
         "WFReportParams"}
ABSENT = {"Unconfigured", "StandAlone", "WFConnection"}


def state(minor):
    """{cs, ro, ds, oos} of a device; empty where there is none."""
    #  0: cs:Connected ro:Primary/Secondary ds:UpToDate/UpToDate C r-----
    #     ns:1048508 nr:0 dw:0 dr:1049236 al:0 bm:0 lo:0 pe:0 ua:0 ap:0 ep:1 wo:f oos:0
    with open("/proc/drbd") as file:
        text = file.read()
    part = re.search(rf"^ *{minor}: .*(\\n {{4}}.*)*", text, re.MULTILINE)
    return dict(re.findall(r"(cs|ro|ds|oos):(\\S+)", part[0])) if part else {}


def log():
    """The lines of the kernel's log."""
    # 6,1403,12345678,-;block drbd0: Split-Brain detected but unresolved, dropping connection!
    file = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    while True:
        try:
            yield os.read(file, 8192).decode(errors="replace").split("\\n")[0].partition(";")[2]
        except BlockingIOError:
            return
        except BrokenPipeError:
            # The oldest ones were overwritten meanwhile.
            continue


def mark(minor, name):
    # A connection to a node that is gone may still count as one. drbdadm fails where there is none.
    if state(minor).get("cs") not in ("StandAlone", "Unconfigured", None):
        subprocess.run(["drbdadm", "disconnect", "--force", name], check=True)
    with open("/dev/kmsg", "w") as file:
        file.write(f"blocklab: drbd{minor} is joined anew\\n")


def since_mark(minor):
    """The log's lines since the mark; None where it is not to be found."""
    found = None
    for line in log():
        if line == f"blocklab: drbd{minor} is joined anew":
            found = []
        elif found is not None:
            found.append(line)
    return found


def split(minor):
    return [line for line in since_mark(minor) or () if f"drbd{minor}: Split-Brain detected" in line]


def met(minor):
    begun = time.monotonic()
    while state(minor).get("cs") in UNMET and time.monotonic() < begun + MEET_SECONDS:
        time.sleep(0.02)


def again(minor, name):
    if state(minor).get("cs") == "StandAlone":
        subprocess.run(["drbdadm", "connect", name], check=True)


def attached(minor, name):
    if state(minor).get("ds", "").startswith("Diskless"):
        subprocess.run(["drbdadm", "attach", name], check=True)


def joined(minor):
    begun = moved = time.monotonic()
    while time.monotonic() < begun + SYNC_SECONDS:
        now = state(minor)
        if now.get("cs") == "Connected" and now.get("ds") == "UpToDate/UpToDate":
            return
        if now.get("cs") in ABSENT:
            if found := split(minor):
                sys.exit(f"split brain: {found[-1]}")
            # Connecting, too, begins alone; but then somebody waits for the other one.
            if now["cs"] != "WFConnection":
                reasons = [line for line in since_mark(minor) or () if "drbd" in line]
                sys.exit(f"drbd{minor} is {now['cs']}: the other node was refused\\n" + "\\n".join(reasons[-8:]))
            if time.monotonic() > begun + CONNECT_SECONDS:
                sys.exit(f"drbd{minor}: the other node did not connect in {CONNECT_SECONDS} s")
        if now.get("cs") != "Connected":
            moved = time.monotonic()
        elif time.monotonic() > moved + CONNECT_SECONDS:
            # Nothing is being copied, so nothing will change any more.
            sys.exit(f"drbd{minor} is connected, and its disks stay {now.get('ds')}")
        time.sleep(0.05)
    sys.exit(f"drbd{minor} is not in sync after {SYNC_SECONDS:g} s: {state(minor)}")


def verified(minor):
    begun = time.monotonic()
    while (now := state(minor)).get("cs") in ("VerifyS", "VerifyT"):
        if time.monotonic() > begun + SYNC_SECONDS:
            sys.exit(f"drbd{minor}: the comparison did not end in {SYNC_SECONDS:g} s")
        time.sleep(0.05)
    if now.get("cs") != "Connected":
        sys.exit(f"drbd{minor}: the comparison did not end, the connection did: {now.get('cs')}")


def differ(minor):
    if state(minor).get("cs") != "Connected":
        sys.exit(f"drbd{minor} is not connected, so that nothing was compared")
    # in KiB
    print(int(state(minor)["oos"]) * 1024)


def parted(minor):
    if since_mark(minor) is None:
        sys.exit(f"the kernel's log has nothing of drbd{minor} being joined, so that nobody can tell")
    print("".join(f"{line}\\n" for line in split(minor)), end="")


COMMANDS = {
    "mark": mark, "met": met, "again": again, "attached": attached, "joined": joined, "verified": verified,
    "differ": differ, "parted": parted,
}
COMMANDS[sys.argv[1]](*sys.argv[2:])
'''.replace("@CONNECT@", str(CONNECT_SECONDS)).replace("@SYNC@", str(SYNC_SECONDS))


def ask(stack: str, minor: int, what: str, *words: str) -> Argv:
    """The program's command ``what``."""
    return ("python3", "-I", "-S", _path(stack), what, str(minor), *words)


def put(host: str, stack: str) -> Put:
    """The program on its node."""
    return Put(host, _path(stack), SCRIPT)


def module(host: str) -> Run:
    """There are no handlers; asking drbdadm for them at each change only takes the node's time."""
    return Run(host, ("modprobe", "drbd", "usermode_helper=disabled"))


def promoted(host: str, stack: str) -> tuple[Step, ...]:
    """Active without the other side, of which nothing is awaited any more."""
    return (
        # Without --force it would wait for the silent peer, for seconds.
        Run(host, ("drbdadm", "disconnect", "--force", stack)),
        Run(host, ("drbdadm", "primary", stack), undo=("drbdadm", "secondary", stack)),
    )


def joined(
    here: str, there: str, stack: str, minor: int, config: str, *, quickly: bool
) -> tuple[Step, ...]:  # fmt: skip
    """The node ``there``, just booted, taken in again; at the end both sides are up to date.

    Where both were written to, DRBD refuses to connect them: that is an error here, and ``parted`` says it.
    """
    return (
        put(here, stack),
        put(there, stack),
        # Before the other side is up: nothing is to happen before the mark.
        Run(here, ask(stack, minor, "mark", stack)),
        module(there),
        Put(there, f"/etc/drbd.d/{stack}.res", config),
        # Like "up", also where it was never taken down: on a node that was only cut off.
        Run(there, ("drbdadm", "adjust", stack), undo=("drbdadm", "down", stack)),
        *_rates((here, there), stack, quickly=quickly),
        Run(here, ("drbdadm", "connect", stack)),
        Run(here, ask(stack, minor, "met")),
        *(
            Run(host, ask(stack, minor, *words))
            for _ in range(1, MEETINGS)
            for host, *words in ((there, "again", stack), (here, "met"))
        ),
        Run(here, ask(stack, minor, "joined"), timeout=SYNC_SECONDS + 60.0),
        *_as_written((here, there), stack, quickly=quickly),
    )


def compared(
    here: str, stack: str, minor: int, sides: Mapping[str, str], *, algorithm: str, quickly: bool
) -> Replicas:
    """Both sides compared by DRBD, and by checksums of the devices below. ``algorithm``: empty where one is set
    already. What is chosen for it is taken back: each time anew, since a new connection would forget it."""
    chosen = (Run(here, ("drbdadm", "net-options", f"--verify-alg={algorithm}", stack)),) if algorithm else ()
    return Replicas(
        verify=(
            *(checksum.put(host, stack) for host in sides),
            *(put(host, stack) for host in sides),
            # After an I/O error a side goes on with the other one's disk, for good.
            *(Run(host, ask(stack, minor, "attached", stack)) for host in sides),
            *_rates(sides, stack, quickly=quickly),
            # A fault that has just been mended may have parted them; then they find each other by themselves.
            Run(here, ask(stack, minor, "joined"), timeout=SYNC_SECONDS + 60.0),
            *chosen,
            Run(here, ("drbdadm", "verify", stack)),
            Run(here, ask(stack, minor, "verified"), timeout=SYNC_SECONDS + 60.0),
            *_as_written(sides, stack, quickly=quickly),
        ),
        differ=(here, ask(stack, minor, "differ")),
        copies={host: checksum.of_beginning(stack, device, f"drbd{minor}") for host, device in sides.items()},
    )


def _rates(hosts: Iterable[str], stack: str, *, quickly: bool) -> tuple[Step, ...]:
    options = ("drbdadm", "disk-options", *QUICKLY, stack)
    return tuple(Run(host, options) for host in hosts) if quickly else ()


def _as_written(hosts: Iterable[str], stack: str, *, quickly: bool) -> tuple[Step, ...]:
    """The options that the resource file has."""
    return tuple(Run(host, ("drbdadm", "adjust", stack)) for host in hosts) if quickly else ()


def _path(stack: str) -> str:
    return f"/run/blocklab/{stack}-drbd.py"
