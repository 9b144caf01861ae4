"""DRBD's counters, from /proc/drbd of DRBD 8.4. https://linbit.com/drbd-user-guide/users-guide-drbd-8-4/"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import ClassVar

import msgspec

from blocklab.errors import ParseError
from blocklab.model.sample import Sample
from blocklab.probes.points import points, rate

# version: 8.4.11 (api:1/proto:86-101)
#  0: cs:SyncSource ro:Primary/Secondary ds:UpToDate/Inconsistent C r-----
#     ns:4420 nr:0 dw:4840 dr:60 al:12 bm:0 lo:0 pe:0 ua:0 ap:0 ep:1 wo:f oos:420
# 	[===================>] sync'ed:100.0% (420/480)K
# 	finish: 0:00:01 speed: 60 (60) K/sec
#  1: cs:Unconfigured
_DEVICE = re.compile(
    r"^ *(?P<minor>\d+): cs:(?P<cs>\w+) ro:(?P<ro>\w+/\w+) ds:(?P<ds>\w+/\w+) .*\n"
    r" *(?P<counters>ns:\d+ (?:\w+:\w+ )*oos:\d+)$",
    re.MULTILINE,
)
_ANY_DEVICE = re.compile(r"^ *\d+: cs:(?!Unconfigured)", re.MULTILINE)

# Counters since the device was configured, in KiB or in pieces.
_RATES = {
    "ns": ("net.send", 1024, "B/s"), "nr": ("net.receive", 1024, "B/s"),
    "dw": ("disk.write", 1024, "B/s"), "dr": ("disk.read", 1024, "B/s"),
    "al": ("al.updates", 1, "1/s"), "bm": ("bm.updates", 1, "1/s"),
}  # fmt: skip
# What is under way now, in pieces or KiB.
_GAUGES = {
    "lo": ("local", 1, "1"), "pe": ("pending", 1, "1"), "ua": ("unacknowledged", 1, "1"),
    "ap": ("application", 1, "1"), "ep": ("epochs", 1, "1"), "oos": ("out-of-sync", 1024, "B"),
}  # fmt: skip


class Device(msgspec.Struct, frozen=True):
    """One device as /proc/drbd shows it; ``ro`` and ``ds`` are local/peer, ``counters`` in its own units."""

    cs: str
    ro: str
    ds: str
    counters: dict[str, int]


class DrbdCounters:
    """DRBD's counters, from ``/proc/drbd`` of DRBD 8.4.

    The layer is the device's name (``drbd0``). There is nothing while the module is not loaded.

    | metric | unit | meaning |
    | --- | --- | --- |
    | ``net.send``, ``net.receive`` | B/s | To and from the peer. |
    | ``disk.write``, ``disk.read`` | B/s | On the local disk. |
    | ``al.updates``, ``bm.updates`` | 1/s | Writes of the activity log and the bitmap. |
    | ``local`` | 1 | Requests to the local disk under way. |
    | ``pending`` | 1 | Requests that the peer has not answered. |
    | ``unacknowledged`` | 1 | The peer's requests that this node has not answered. |
    | ``application`` | 1 | Blocks given to DRBD and not completed. |
    | ``epochs`` | 1 | Epochs of writes: between two of them order must be kept. |
    | ``out-of-sync`` | B | What the two sides do not have alike. |
    | ``connected``, ``primary``, ``uptodate``, ``peer.uptodate`` | 1 | 1 or 0. |

    See [its guide](https://linbit.com/drbd-user-guide/users-guide-drbd-8-4/).
    """

    name: ClassVar[str] = "drbd"
    path: ClassVar[str] = "/proc/drbd"

    def parse(self, text: bytes, host: str) -> tuple[Sample, ...]:
        """The series; nothing while the module is not loaded. Raises ``ParseError``."""
        times = [(point.t, devices(point.text)) for point in points(text, self.path) if point.text is not None]
        samples = []
        for time, found in times:
            for layer, device in found.items():
                samples += [Sample(metric, v, u, layer, host, time=time) for metric, v, u in _now(device)]
        for (start, before), (end, after) in pairwise(times):
            for layer in before.keys() & after.keys():
                for key, (metric, factor, unit) in _RATES.items():
                    value = rate(before[layer].counters[key], after[layer].counters[key], end - start)
                    if value is not None:
                        samples.append(Sample(metric, value * factor, unit, layer, host, time=end))
        return tuple(sorted(samples, key=lambda each: (each.time or 0.0, each.layer, each.metric)))


def devices(text: str) -> dict[str, Device]:
    """The configured devices in /proc/drbd's text, by their names (``drbd0``). Raises ``ParseError``."""
    found = {}
    for match in _DEVICE.finditer(text):
        pairs = (pair.split(":") for pair in match["counters"].split())
        # wo is a letter: how writes are kept in order
        counters = {key: int(value) for key, value in pairs if value.isdigit()}
        if missing := (_RATES.keys() | _GAUGES.keys()) - counters.keys():
            raise ParseError("/proc/drbd", f"without {', '.join(sorted(missing))}", match[0])
        found[f"drbd{match['minor']}"] = Device(match["cs"], match["ro"], match["ds"], counters)
    if not text.startswith("version: 8.") or len(found) != len(_ANY_DEVICE.findall(text)):
        raise ParseError(
            "/proc/drbd", "not the table of DRBD 8.4", text, hint="DRBD 9 has drbdsetup status instead"
        )
    return found


def _now(device: Device) -> list[tuple[str, float, str]]:
    role, peer_role = device.ro.split("/")
    disk, peer_disk = device.ds.split("/")
    return [
        *((metric, device.counters[key] * factor, unit) for key, (metric, factor, unit) in _GAUGES.items()),
        # In every state with a connection, syncing or not, the peer's role is known.
        ("connected", float(peer_role != "Unknown"), "1"),
        ("primary", float(role == "Primary"), "1"),
        ("uptodate", float(disk == "UpToDate"), "1"),
        ("peer.uptodate", float(peer_disk == "UpToDate"), "1"),
    ]
