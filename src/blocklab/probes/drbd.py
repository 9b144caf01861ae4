"""DRBD's counters, from /proc/drbd of DRBD 8.4 or the status of DRBD 9."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

from blocklab.errors import ParseError
from blocklab.model.sample import Sample
from blocklab.probes.points import points, rate
from blocklab_node import drbd
from blocklab_node.drbd import Device

# Counters since the device was configured, in KiB or in pieces.
_RATES = {
    "sent": ("net.send", 1024, "B/s"), "received": ("net.receive", 1024, "B/s"),
    "written": ("disk.write", 1024, "B/s"), "read": ("disk.read", 1024, "B/s"),
    "al-writes": ("al.updates", 1, "1/s"), "bm-writes": ("bm.updates", 1, "1/s"),
}  # fmt: skip
# What is under way now, in pieces or KiB.
_GAUGES = {
    "lower-pending": ("local", 1, "1"), "pending": ("pending", 1, "1"), "unacked": ("unacknowledged", 1, "1"),
    "upper-pending": ("application", 1, "1"), "epochs": ("epochs", 1, "1"),
    "out-of-sync": ("out-of-sync", 1024, "B"),
}  # fmt: skip


class DrbdCounters:
    """DRBD's counters, from ``/proc/drbd`` of DRBD 8.4 and ``drbdsetup status --json`` of DRBD 9.

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
    | ``epochs`` | 1 | Epochs of writes: between two of them order must be kept. Of 8.4 only. |
    | ``out-of-sync`` | B | What the two sides do not have alike. |
    | ``connected``, ``primary``, ``uptodate``, ``peer.uptodate`` | 1 | 1 or 0; of several peers all are. |
    """

    name: ClassVar[str] = "drbd"
    path: ClassVar[str] = "/proc/drbd"
    device: ClassVar[bool] = True
    metrics: ClassVar[tuple[str, ...]] = (
        *(metric for metric, *_ in (*_RATES.values(), *_GAUGES.values())), "connected", "primary", "uptodate",
        "peer.uptodate",
    )  # fmt: skip

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
    """The configured devices by their names (``drbd0``). Raises ``ParseError``."""
    try:
        return {f"drbd{minor}": device for minor, device in drbd.devices(text).items()}
    except ValueError as error:
        raise ParseError("/proc/drbd", str(error), text, hint="are DRBD's driver and drbd-utils whole?") from error


def _now(device: Device) -> list[tuple[str, float, str]]:
    peers = device.peers
    return [
        *(
            (metric, device.counters[key] * factor, unit)
            for key, (metric, factor, unit) in _GAUGES.items()
            if key in device.counters
        ),
        # In every state with a connection, syncing or not, the peer's role is known.
        ("connected", float(bool(peers) and all(peer.role != "Unknown" for peer in peers)), "1"),
        ("primary", float(device.role == "Primary"), "1"),
        ("uptodate", float(device.disk == "UpToDate"), "1"),
        ("peer.uptodate", float(bool(peers) and all(peer.disk == "UpToDate" for peer in peers)), "1"),
    ]
