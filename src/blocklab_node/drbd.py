"""Follows one mirror of DRBD 8.4 or 9, and does what the two want to be told in other words.

All commands take the device's minor number and the resource's name.

drbd.py fit           strikes out of the resource file what only DRBD 9 takes, where the driver is 8.4
drbd.py connected     until both sides know each other
drbd.py mark          ends the connection, where there is one; then a line in the kernel's log, from which on
                      "parted" looks
drbd.py met           until both sides have looked at each other, but for a few seconds at most
drbd.py again         connects once more where this side has refused the other one
drbd.py attached      takes the disk below back where it was given up for an I/O error
drbd.py hurry         copies and compares as fast as it can, until "drbdadm adjust"
drbd.py joined        until both sides are connected and up to date; else exit code 1 and the reason
drbd.py verified      until an online verification has ended
drbd.py differ        prints how many bytes are known to differ
drbd.py parted        prints what the kernel said of a split brain since the last mark, if anything
"""

from __future__ import annotations

import os
import sys
import time

# A takeover waits for this program: re, typing and subprocess take longer than the rest of its start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

# How long an active side waits for the other one to connect: DRBD tries every 10 s (connect-int).
CONNECT_SECONDS = 40
# A full copy, or a comparison, that takes longer than this is taken for stuck.
SYNC_SECONDS = 3600.0
MEET_SECONDS = 3
# By itself DRBD begins at 250 KiB/s, and waits 0.1 s after each request while there is other I/O. Nobody waits for
# anything else now: 132 MiB were copied in 4 s with these and in 20 s without.
QUICKLY = (
    "--c-plan-ahead=20", "--c-fill-target=16M", "--c-max-rate=1G", "--c-min-rate=0", "--resync-rate=200M",
)  # fmt: skip
# Ends the lines of a resource file that DRBD 8.4 does not know and can do without.
NEWER = "# DRBD 9"
VERSION = "/sys/module/drbd/version"
UNMET = {
    "Unconnected",
    "Timeout",
    "BrokenPipe",
    "NetworkFailure",
    "ProtocolError",
    "TearDown",
    "Connecting",
    "WFReportParams",
}
ABSENT = {"Unconfigured", "StandAlone", "Connecting"}


class Peer:
    """The other side of a mirror, as this one sees it.

    ``cs``: the connection's state, and what is copied over it where something is (``Connected``, ``SyncSource``,
    ``VerifyS``, ``Ahead``, ``Connecting``), as 8.4 has it, by 9's names.
    """

    def __init__(self, cs: str, role: str, disk: str) -> None:
        self.cs, self.role, self.disk = cs, role, disk


class Device:
    """One side of a mirror, whatever the driver.

    ``counters`` have 9's names, in KiB or pieces: ``sent``, ``received``, ``written``, ``read``, ``al-writes``,
    ``bm-writes``, ``lower-pending``, ``upper-pending``, ``pending``, ``unacked``, ``out-of-sync``; of several
    peers the sum. 8.4 has ``epochs`` too.
    """

    def __init__(self, role: str, disk: str, peers: tuple[Peer, ...], counters: dict[str, int]) -> None:
        self.role, self.disk, self.peers, self.counters = role, disk, peers, counters

    @property
    def cs(self) -> str:
        """The connection; of several the first that is not just connected."""
        states = [peer.cs for peer in self.peers]
        return next((state for state in states if state != "Connected"), states[0] if states else "StandAlone")

    @property
    def ds(self) -> str:
        """The disks, the local one first: ``UpToDate/UpToDate``."""
        return "/".join([self.disk, *(peer.disk for peer in self.peers)])


# No such device.
NONE = Device("Unknown", "Diskless", (Peer("Unconfigured", "Unknown", "DUnknown"),), {})

_COUNTERS = {
    "ns": "sent", "nr": "received", "dw": "written", "dr": "read", "al": "al-writes", "bm": "bm-writes",
    "lo": "lower-pending", "ap": "upper-pending", "pe": "pending", "ua": "unacked", "oos": "out-of-sync",
    "ep": "epochs",
}  # fmt: skip
# Of the device, and of each of its peers.
_OWN = ("written", "read", "al-writes", "bm-writes", "lower-pending", "upper-pending")
_SHARED = ("sent", "received", "pending", "unacked", "out-of-sync")
_RENAMED = {"WFConnection": "Connecting"}


def devices(text: str) -> dict[int, Device]:
    """The configured devices by their minor numbers. ``text``: /proc/drbd of 8.4; with 9 its first line, and what
    ``drbdsetup status --json`` prints. Raises ``ValueError``."""
    if text.startswith("version: 8."):
        return _of_8(text)
    head, bracket, status = text.partition("\n[")
    if not (head.startswith("version: ") and bracket):
        raise ValueError("neither the table of DRBD 8.4 nor the status of DRBD 9")
    import json  # takes 30 ms of a node's CPU

    try:
        return dict(_of_9(json.loads(f"[{status}")))
    except (KeyError, TypeError) as error:
        raise ValueError(f"not the status of DRBD 9: {error!r}") from error


def _of_8(text: str) -> dict[int, Device]:
    # version: 8.4.11 (api:1/proto:86-101)
    #  0: cs:SyncSource ro:Primary/Secondary ds:UpToDate/Inconsistent C r-----
    #     ns:4420 nr:0 dw:4840 dr:60 al:12 bm:0 lo:0 pe:0 ua:0 ap:0 ep:1 wo:f oos:420
    # 	[===================>] sync'ed:100.0% (420/480)K
    # 	finish: 0:00:01 speed: 60 (60) K/sec
    #  1: cs:Unconfigured
    found = {}
    lines = [*text.splitlines(), ""]
    for number, line in enumerate(lines):
        minor, colon, state = line.partition(": cs:")
        if not colon or not minor.strip().isdecimal() or state.startswith("Unconfigured"):
            continue
        words = dict(word.split(":", 1) for word in f"cs:{state} {lines[number + 1]}".split() if ":" in word)
        try:
            (role, peer), (disk, other) = words["ro"].split("/"), words["ds"].split("/")
            counters = {name: int(words[key]) for key, name in _COUNTERS.items()}
        except (KeyError, ValueError) as error:
            raise ValueError(f"not a device of DRBD 8.4 ({error}): {line.strip()}") from error
        cs = _RENAMED.get(words["cs"], words["cs"])
        found[int(minor)] = Device(role, disk, (Peer(cs, peer, other),), counters)
    return found


def _of_9(resources: list[Any]) -> Iterator[tuple[int, Device]]:
    """Of one device, without what nobody reads:

    [{"name": "m", "role": "Primary", "devices": [{"volume": 0, "minor": 0, "disk-state": "UpToDate", "read": 0}],
      "connections": [{"name": "a2", "connection-state": "Connected", "peer-role": "Secondary", "peer_devices":
      [{"volume": 0, "replication-state": "Established", "peer-disk-state": "UpToDate", "sent": 0}]}]}]
    """
    for resource in resources:
        for own in resource["devices"]:
            both = [
                (link, each)
                for link in resource["connections"]
                for each in link["peer_devices"]
                if each["volume"] == own["volume"]
            ]
            peers = (Peer(_state(link, each), link["peer-role"], each["peer-disk-state"]) for link, each in both)
            counters = {name: int(own[name]) for name in _OWN}
            counters |= {name: sum(int(each[name]) for _, each in both) for name in _SHARED}
            yield own["minor"], Device(resource["role"], own["disk-state"], tuple(peers), counters)


def _state(link: dict[str, str], each: dict[str, str]) -> str:
    copied = each["replication-state"]
    return link["connection-state"] if copied in ("Off", "Established") else copied


def driver() -> str:
    """The version of the driver that is loaded: ``8.4.11``, ``9.3.3``."""
    with open(VERSION) as file:
        return file.read().strip()


def seen() -> str:
    """What the driver says of all its devices, for ``devices``."""
    version = driver()
    if version.startswith("8."):
        with open("/proc/drbd") as file:
            return file.read()
    return f"version: {version}\n{called('drbdsetup', 'status', '--json')}"


def state(minor: str) -> Device:
    """One of them."""
    return devices(seen()).get(int(minor), NONE)


def called(*argv: str, meaning: str = "") -> str:
    """What a command prints; its failure ends this program."""
    import subprocess

    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(argv)} ended with exit code {done.returncode}{meaning}")
    return done.stdout


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


def fit(minor: str, name: str) -> None:
    path = f"/etc/drbd.d/{name}.res"
    if driver().startswith("8."):
        with open(path) as file:
            known = [line for line in file if not line.rstrip().endswith(NEWER)]
        with open(path, "w") as file:
            file.writelines(known)
    unread = f": the driver here is DRBD {driver()}, and its drbdadm does not take {path}"
    called("drbdadm", "dump", name, meaning=unread)


def connected(minor: str, name: str) -> None:
    begun = time.monotonic()
    # Not the connection's state: over data that were written alone it begins with a resync.
    while not (now := state(minor)).peers or any(peer.role == "Unknown" for peer in now.peers):
        if time.monotonic() > begun + CONNECT_SECONDS:
            sys.exit(f"drbd{minor}: the two sides did not connect in {CONNECT_SECONDS} s; this one is {now.cs}")
        time.sleep(0.05)


def mark(minor: str, name: str) -> None:
    # A connection to a node that is gone may still count as one. drbdadm of 8.4 fails where there is none.
    if state(minor).cs not in ("StandAlone", "Unconfigured"):
        called("drbdadm", "disconnect", "--force", name)
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
    # 8.4: block drbd0: Split-Brain detected but unresolved, dropping connection!
    # 9: drbd m/0 drbd0 a2: Split-Brain detected but unresolved, dropping connection!
    lines = ((line, *line.partition(": Split-Brain detected")) for line in since_mark(minor) or ())
    return [line for line, where, found, _ in lines if found and f"drbd{minor}" in where.split()[-2:]]


def met(minor: str, name: str) -> None:
    begun = time.monotonic()
    while state(minor).cs in UNMET and time.monotonic() < begun + MEET_SECONDS:
        time.sleep(0.02)


def again(minor: str, name: str) -> None:
    if state(minor).cs == "StandAlone":
        called("drbdadm", "connect", name)


def attached(minor: str, name: str) -> None:
    if state(minor).disk == "Diskless":
        called("drbdadm", "attach", name)


def hurry(minor: str, name: str) -> None:
    # 9 has these options for each peer.
    kind = "disk-options" if driver().startswith("8.") else "peer-device-options"
    called("drbdadm", kind, *QUICKLY, name)


def joined(minor: str, name: str) -> None:
    begun = moved = time.monotonic()
    while time.monotonic() < begun + SYNC_SECONDS:
        now = state(minor)
        if now.cs == "Connected" and set(now.ds.split("/")) == {"UpToDate"}:
            return
        if now.cs in ABSENT:
            if found := split(minor):
                sys.exit(f"split brain: {found[-1]}")
            # Connecting, too, begins alone; but then somebody waits for the other one.
            if now.cs != "Connecting":
                reasons = [line for line in since_mark(minor) or () if "drbd" in line]
                sys.exit(f"drbd{minor} is {now.cs}: the other node was refused\n" + "\n".join(reasons[-8:]))
            if time.monotonic() > begun + CONNECT_SECONDS:
                sys.exit(f"drbd{minor}: the other node did not connect in {CONNECT_SECONDS} s")
        if now.cs != "Connected":
            moved = time.monotonic()
        elif time.monotonic() > moved + CONNECT_SECONDS:
            # Nothing is being copied, so nothing will change any more.
            sys.exit(f"drbd{minor} is connected, and its disks stay {now.ds}")
        time.sleep(0.05)
    sys.exit(f"drbd{minor} is not in sync after {SYNC_SECONDS:g} s: {state(minor).cs}")


def verified(minor: str, name: str) -> None:
    begun = time.monotonic()
    while (now := state(minor)).cs in ("VerifyS", "VerifyT"):
        if time.monotonic() > begun + SYNC_SECONDS:
            sys.exit(f"drbd{minor}: the comparison did not end in {SYNC_SECONDS:g} s")
        time.sleep(0.05)
    if now.cs != "Connected":
        sys.exit(f"drbd{minor}: the comparison did not end, the connection did: {now.cs}")


def differ(minor: str, name: str) -> None:
    now = state(minor)
    if now.cs != "Connected":
        sys.exit(f"drbd{minor} is not connected, so that nothing was compared")
    print(now.counters["out-of-sync"] * 1024)


def parted(minor: str, name: str) -> None:
    if since_mark(minor) is None:
        sys.exit(f"the kernel's log has nothing of drbd{minor} being joined, so that nobody can tell")
    print("".join(f"{line}\n" for line in split(minor)), end="")


COMMANDS: dict[str, Callable[[str, str], None]] = {
    "fit": fit, "connected": connected, "mark": mark, "met": met, "again": again,
    "attached": attached, "hurry": hurry, "joined": joined, "verified": verified, "differ": differ,
    "parted": parted,
}  # fmt: skip


def main(argv: Sequence[str]) -> int:
    """One command; it ends with the reason where it fails."""
    COMMANDS[argv[1]](*argv[2:])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
