"""What the disks and links of hosts do by themselves, for a study of the lab that has volumes and links like
them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from blocklab.errors import ParseError
from blocklab.model import outside
from blocklab.model.host import Host, must
from blocklab.model.plan import Argv
from blocklab.model.site import Site
from blocklab.study.grid import topology
from blocklab.study.links import plan_links
from blocklab.study.types import Study

SECONDS = 5
# With more requests under way a cloud's disk does no more.
DEPTH = 64


class Disk(msgspec.Struct, frozen=True):
    """A disk: medians at queue depth 1 (s), I/Os of 4 KiB a second at a high one, bytes a second in MiBs."""

    read_latency: float
    write_latency: float
    read_iops: float
    write_iops: float
    read_bandwidth: float
    write_bandwidth: float


class Likeness(msgspec.Struct, frozen=True):
    """``disks`` by stack: the first one of its active host; ``links``: the median round trip (s) of a mirror's
    write."""

    disks: Mapping[str, Disk]
    links: Mapping[str, float]


def measured(site: Site, study: Study, say: Callable[[str], None]) -> Likeness:
    """Measure the volumes and the links of a study's stacks. What was on the volumes is lost; the rest of the
    layers is not built. Raises ``SetupError``, ``HostError``, ``ParseError``."""
    disks: dict[str, Disk] = {}
    links: dict[str, float] = {}
    for name, stack in study.stacks.items():
        say(f"measuring volumes and links of {name}, for {6 * SECONDS} s")
        shape = topology(study, [name])
        volumes = tuple(msgspec.structs.replace(each, alike=False) for each in shape.volumes)
        ground = site.ground(shape)
        with contextlib.closing(site.start(msgspec.structs.replace(shape, volumes=volumes))) as lab:
            disks[name] = Disk(*_disk(lab.hosts[stack.on], ground.devices[name][stack.on][0]))
            for fact in plan_links(shape, ground).facts:
                found = fact.parse(must(lab.hosts[fact.host], fact.argv)) if fact.timed else {}
                if found:
                    links[fact.layer.removeprefix("link ")] = float(found["median"])
    return Likeness(disks, links)


def _disk(host: Host, device: str) -> Iterator[float]:
    """The fields of ``Disk`` in their order."""
    for size, depth in (("4k", 1), ("4k", DEPTH), ("1M", 16)):
        for way in ("read", "write"):
            job = _job(must(host, _fio(device, f"rand{way}", size, depth), timeout=SECONDS + 60.0), way)
            if depth == 1:
                yield job["clat_ns"]["percentile"]["50.000000"] / 1e9
            else:
                yield job["iops"] if size == "4k" else job["bw_bytes"]


def _fio(device: str, rw: str, size: str, depth: int) -> Argv:
    return (
        "fio", "--name=like", f"--filename={device}", f"--rw={rw}", f"--bs={size}", f"--iodepth={depth}",
        "--ioengine=libaio", "--direct=1", f"--runtime={SECONDS}", "--time_based", "--output-format=json",
    )  # fmt: skip


def _job(text: str, way: str) -> Mapping[str, Any]:
    # {"fio version": "fio-3.39", "jobs": [{"jobname": "like", "write": {"iops": 2412.5, "bw_bytes": 9881600,
    #   "clat_ns": {"percentile": {"50.000000": 410624, ...}}}}]}; a warning may stand before it
    try:
        found: Mapping[str, Any] = outside.as_json(text[text.index("{") :], "fio")["jobs"][0][way]
    except (ValueError, KeyError, IndexError) as error:
        raise ParseError("fio", f"no report: {error}", text) from error
    return found
