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

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence

# How long an active side waits for the other one to connect: DRBD tries every 10 s (connect-int).
CONNECT_SECONDS = 40
# A full copy, or a comparison, that takes longer than this is taken for stuck.
SYNC_SECONDS = 3600.0
MEET_SECONDS = 3
UNMET = {
    "Unconnected",
    "Timeout",
    "BrokenPipe",
    "NetworkFailure",
    "ProtocolError",
    "TearDown",
    "WFConnection",
    "WFReportParams",
}
ABSENT = {"Unconfigured", "StandAlone", "WFConnection"}


def state(minor: str) -> dict[str, str]:
    """{cs, ro, ds, oos} of a device; empty where there is none."""
    #  0: cs:Connected ro:Primary/Secondary ds:UpToDate/UpToDate C r-----
    #     ns:1048508 nr:0 dw:0 dr:1049236 al:0 bm:0 lo:0 pe:0 ua:0 ap:0 ep:1 wo:f oos:0
    with open("/proc/drbd") as file:
        text = file.read()
    part = re.search(rf"^ *{minor}: .*(\n {{4}}.*)*", text, re.MULTILINE)
    return dict(re.findall(r"(cs|ro|ds|oos):(\S+)", part[0])) if part else {}


def log() -> Iterator[str]:
    """The lines of the kernel's log."""
    # 6,1403,12345678,-;block drbd0: Split-Brain detected but unresolved, dropping connection!
    file = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    while True:
        try:
            yield os.read(file, 8192).decode(errors="replace").split("\n")[0].partition(";")[2]
        except BlockingIOError:
            return
        except BrokenPipeError:
            # The oldest ones were overwritten meanwhile.
            continue


def mark(minor: str, name: str) -> None:
    # A connection to a node that is gone may still count as one. drbdadm fails where there is none.
    if state(minor).get("cs") not in ("StandAlone", "Unconfigured", None):
        subprocess.run(["drbdadm", "disconnect", "--force", name], check=True)
    with open("/dev/kmsg", "w") as file:
        file.write(f"blocklab: drbd{minor} is joined again\n")


def since_mark(minor: str) -> list[str] | None:
    """The log's lines since the mark; None where it is not to be found."""
    found: list[str] | None = None
    for line in log():
        if line == f"blocklab: drbd{minor} is joined again":
            found = []
        elif found is not None:
            found.append(line)
    return found


def split(minor: str) -> list[str]:
    return [line for line in since_mark(minor) or () if f"drbd{minor}: Split-Brain detected" in line]


def met(minor: str) -> None:
    begun = time.monotonic()
    while state(minor).get("cs") in UNMET and time.monotonic() < begun + MEET_SECONDS:
        time.sleep(0.02)


def again(minor: str, name: str) -> None:
    if state(minor).get("cs") == "StandAlone":
        subprocess.run(["drbdadm", "connect", name], check=True)


def attached(minor: str, name: str) -> None:
    if state(minor).get("ds", "").startswith("Diskless"):
        subprocess.run(["drbdadm", "attach", name], check=True)


def joined(minor: str) -> None:
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
                sys.exit(f"drbd{minor} is {now['cs']}: the other node was refused\n" + "\n".join(reasons[-8:]))
            if time.monotonic() > begun + CONNECT_SECONDS:
                sys.exit(f"drbd{minor}: the other node did not connect in {CONNECT_SECONDS} s")
        if now.get("cs") != "Connected":
            moved = time.monotonic()
        elif time.monotonic() > moved + CONNECT_SECONDS:
            # Nothing is being copied, so nothing will change any more.
            sys.exit(f"drbd{minor} is connected, and its disks stay {now.get('ds')}")
        time.sleep(0.05)
    sys.exit(f"drbd{minor} is not in sync after {SYNC_SECONDS:g} s: {state(minor)}")


def verified(minor: str) -> None:
    begun = time.monotonic()
    while (now := state(minor)).get("cs") in ("VerifyS", "VerifyT"):
        if time.monotonic() > begun + SYNC_SECONDS:
            sys.exit(f"drbd{minor}: the comparison did not end in {SYNC_SECONDS:g} s")
        time.sleep(0.05)
    if now.get("cs") != "Connected":
        sys.exit(f"drbd{minor}: the comparison did not end, the connection did: {now.get('cs')}")


def differ(minor: str) -> None:
    if state(minor).get("cs") != "Connected":
        sys.exit(f"drbd{minor} is not connected, so that nothing was compared")
    # in KiB
    print(int(state(minor)["oos"]) * 1024)


def parted(minor: str) -> None:
    if since_mark(minor) is None:
        sys.exit(f"the kernel's log has nothing of drbd{minor} being joined, so that nobody can tell")
    print("".join(f"{line}\n" for line in split(minor)), end="")


COMMANDS: dict[str, Callable[..., None]] = {
    "mark": mark, "met": met, "again": again, "attached": attached, "joined": joined, "verified": verified,
    "differ": differ, "parted": parted,
}  # fmt: skip


def main(argv: Sequence[str]) -> int:
    """One command; it ends with the reason where it fails."""
    COMMANDS[argv[1]](*argv[2:])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
