"""The lab's own floor on the disk: what ``blocklab calibrate`` measured, one file per site and machine.

::

    <cache folder>/floors/<site>-<hash of the machine>.json
"""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from blocklab.errors import BlocklabError, StoreError, Unreadable
from blocklab.model import outside
from blocklab.model.cache import cache_folder
from blocklab.model.files import make_folder, write_whole
from blocklab.model.site import Site
from blocklab.rules.fit import SPEEDS

FORMAT = 3
_HINT = "`blocklab calibrate` measures it again"

SYSCALL = "syscall"
EMPTY = "empty.latency"
RTT = "link.rtt"
NOISE = "noise"
DELAYS_MS = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
WAYS = ("read", "write")


def delay(milliseconds: float) -> str:
    """The name of the error of an emulated round trip: ``delay.0.25ms``."""
    return f"delay.{milliseconds:g}ms"


def volume(way: str, what: str, depth: int = 1) -> str:
    """The name of a raw volume's value, e.g. ``volume.read.latency`` or ``volume.write.iops.qd32``.

    ``way`` is ``read`` or ``write``, ``what`` is ``latency`` or ``iops``, ``depth`` 1 or 32.
    """
    return f"volume.{way}.{what}" + (f".qd{depth}" if depth > 1 else "")


def mirror(what: str, depth: int = 1) -> str:
    """The name of a DRBD mirror's value (writes at RTT 0), e.g. ``mirror.write.latency``."""
    return f"mirror.write.{what}" + (f".qd{depth}" if depth > 1 else "")


# What each value is, in words, and its unit; every floor has all of them, and this is their order in tables.
METRICS: Mapping[str, tuple[str, str]] = {
    SYSCALL: ("system call in a node", "s"),
    EMPTY: ("empty I/O: 4 KiB read of a RAM disk, queue depth 1", "s"),
    **{volume(way, "latency"): (f"4 KiB {way} on a raw volume, queue depth 1", "s") for way in WAYS},
    **{volume(way, "iops"): (f"4 KiB {way}s on a raw volume, queue depth 1", "1/s") for way in WAYS},
    **{volume(way, "iops", 32): (f"4 KiB {way}s on a raw volume, queue depth 32", "1/s") for way in WAYS},
    mirror("latency"): ("4 KiB write on a DRBD mirror at RTT 0, queue depth 1", "s"),
    mirror("iops"): ("4 KiB writes on a DRBD mirror at RTT 0, queue depth 1", "1/s"),
    mirror("iops", 32): ("4 KiB writes on a DRBD mirror at RTT 0, queue depth 32", "1/s"),
    RTT: ("round trip of a link at 0 ms", "s"),
    **{delay(ms): (f"error of an emulated round trip of {ms:g} ms", "s") for ms in DELAYS_MS},
    NOISE: ("standard deviation of a rate, from one round of 4 s to the next", "%"),
    "steal.host": ("CPU time taken from this machine (steal)", "%"),
    "idle.host": ("CPU time that this machine was idle", "%"),
    "steal.node": ("CPU time taken from the node, as its kernel sees it", "%"),
    "idle.node": ("CPU time that the node was idle", "%"),
}


class Reading(msgspec.Struct, frozen=True):
    """One value of the floor: the median of the rounds, and the largest less the smallest of them (``spread``).

    ``unit`` is ``s``, ``1/s`` or ``%``, of both. With one round the spread is 0 and means nothing.
    """

    value: float
    unit: str
    spread: float
    rounds: int


class Machine(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a floor holds for: the site, the CPU and how many of them, the kernel, the image and its idle shim, the
    machine itself (``id``), and where nodes run on it (``pinning``).

    An empty text is something that the site does not tell.
    """

    site: str
    cpu: str
    cpus: int
    kernel: str
    image: str
    shim: bool
    id: str = ""
    pinning: str = ""

    @property
    def known(self) -> bool:
        """Whether all of it is known, so that the machine can be told from others."""
        return bool(self.site and self.cpu and self.cpus and self.kernel and self.image)


class Floor(msgspec.Struct, frozen=True):
    """What the lab takes by itself. ``when`` is seconds since the epoch, ``seconds`` how long measuring took.

    ``values`` has all names of ``METRICS``; ``ready``: after so many seconds two nodes were booted and their
    stacks stood, None where nobody looked.
    """

    machine: Machine
    when: float
    seconds: float
    values: dict[str, Reading]
    format: int = FORMAT
    ready: float | None = None

    @property
    def noise(self) -> float:
        """By what part a rate differs from one round to the next (standard deviation)."""
        return self.values[NOISE].value / 100


class _Head(msgspec.Struct):
    format: int


def reading(values: Sequence[float], unit: str) -> Reading:
    """The value of at least one round."""
    return Reading(statistics.median(values), unit, max(values) - min(values), len(values))


def machine_of(environment: Mapping[str, Any]) -> Machine:
    """The machine in a site's or a run's environment (``Site.environment``); what it lacks is empty."""
    host = environment.get("host", {})
    return Machine(
        str(environment.get("site", "")), str(host.get("cpu", "")), int(host.get("cpus", 0)),
        str(host.get("kernel", "")), str(environment.get("image", "")), bool(environment.get("shim", False)),
        str(environment.get("machine", "")), str(host.get("pinning", "")),
    )  # fmt: skip


def floor_file(folder: Path, machine: Machine) -> Path:
    """Where a machine's floor is; ``folder`` is the cache folder."""
    key = hashlib.sha256(msgspec.json.encode(machine)).hexdigest()[:12]
    return folder / "floors" / f"{machine.site or 'unknown'}-{key}.json"


def save_floor(folder: Path, floor: Floor) -> Path:
    """Store a floor in the cache folder, over an older one of that machine; its file. Raises ``StoreError``."""
    if not floor.machine.known:
        raise StoreError(
            f"the floor cannot be stored: site {floor.machine.site!r} does not say what machine and image it is of"
        )
    path = floor_file(folder, floor.machine)
    try:
        make_folder(path.parent)
        write_whole(path, msgspec.json.format(msgspec.json.encode(floor), indent=1) + b"\n")
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}", hint="is that folder yours?") from error
    return path


def load_floor(folder: Path, machine: Machine) -> Floor | None:
    """The floor of exactly that machine and image in the cache folder; None when it was never measured.

    Raises ``StoreError`` for a file of another format, or one that cannot be read.
    """
    path = floor_file(folder, machine)
    try:
        data = outside.data(path)
        # A newer blocklab's file may hold what this one's structs do not take: the number comes first.
        if (found := outside.typed_json(data, _Head, str(path)).format) != FORMAT:
            raise StoreError(f"{path}: format {found}, but this blocklab reads format {FORMAT}", hint=_HINT)
        floor = outside.typed_json(data, Floor, str(path))
    except Unreadable as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise StoreError(f"{path} cannot be read: {error.problem}", hint=_HINT) from error
    if missing := METRICS.keys() - floor.values.keys():
        raise StoreError(f"{path} lacks the value {min(missing)}", hint=_HINT)
    # A file may have been copied from another machine under this one's name.
    return floor if machine.known and floor.machine == machine else None


def keep_floor(folder: Path, environment: Mapping[str, Any], *, again: bool = True) -> str:
    """Copy this machine's floor from the cache folder to a study's, so that its report marks the same values
    anywhere. One that is there already stays unless ``again``. What to say where one cannot be read or written:
    a study runs without."""
    machine = machine_of(environment)
    try:
        if (again or load_floor(folder, machine) is None) and (floor := load_floor(cache_folder(), machine)):
            save_floor(folder, floor)
    except StoreError as error:
        return f"the lab's floor is left out: {error}"
    return ""


def with_floor(environment: Mapping[str, Any]) -> dict[str, Any]:
    """An environment with the machine's ``floor``, as far as it is known: the values that tell whether figures of
    two machines belong together (``judge.fit.fits``), name -> value in its unit of ``METRICS``."""
    try:
        floor = load_floor(cache_folder(), machine_of(environment))
    except StoreError:
        floor = None
    if floor is None:
        return dict(environment)
    return {**environment, "floor": {name: floor.values[name].value for name in (*SPEEDS, NOISE)}}


def known_floor(site: Site, addons: tuple[str, ...] = ()) -> Floor | None:
    """What this site's floor is known to be on this machine; None where it was not measured, or without an
    image."""
    try:
        return load_floor(cache_folder(), machine_of(site.environment(addons)))
    except BlocklabError:
        return None
