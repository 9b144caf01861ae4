"""Everything that a run on hosts will need, in one pass: one line for each fact, with a hint."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from blocklab.errors import BlocklabError, HostError
from blocklab.model import node_programs, places
from blocklab.model.clock import EXCHANGES, clock
from blocklab.sites.ssh import facts, needs
from blocklab.sites.ssh.disks import ask, equip
from blocklab.sites.ssh.host import PORTABLE, SshHost, damage, parallel, suits
from blocklab.sites.ssh.hosts import Disk, HostEntry, Hosts, LinkEntry, known_hosts_of

# Two clocks that are further apart (s) are not kept by anything.
CLOCK_SECONDS = 0.1
# Raw output, histories and databases' logs go there.
PLACES = {places.STATE: 272 << 20, places.RUN: 16 << 20}
PINGS = 20
# 4104 bytes from 10.0.1.11: icmp_seq=1 ttl=64 time=0.604 ms
_ANSWER = re.compile(r"^\d+ bytes from .* time=(\d+(?:\.\d+)?) ms$", re.MULTILINE)


class Line(msgspec.Struct, frozen=True):
    """One fact, as a ``Requirement`` of the doctor."""

    host: str
    about: str
    ok: Literal["ok", "warn", "fail"]
    found: str
    hint: str = ""

    @property
    def name(self) -> str:
        """Host and fact."""
        return f"{self.host} {self.about}".strip()


def checks(
    path: Path, hosts: Hosts, programs: Mapping[str, Sequence[str]], modules: Mapping[str, Sequence[str]]
) -> list[Line]:
    """All of them, host by host, then the links. ``programs`` and ``modules`` by host: what a study needs."""
    known = known_hosts_of(path)
    connected: dict[str, SshHost] = {}

    def one(name: str) -> list[Line]:
        started = time.monotonic()
        try:
            host = SshHost(name, hosts.hosts[name], known)
        except BlocklabError as error:
            return [Line(name, "connection", "fail", error.message, error.hint)]
        connected[name] = host
        took = time.monotonic() - started
        lines = [Line(name, "connection", "ok", f"as root with Python, in {took:.1f} s")]
        try:
            lines += _of_host(host, path, hosts, programs.get(name, needs.ALWAYS), modules.get(name, ()))
        except (BlocklabError, ValueError, KeyError) as error:
            lines.append(Line(name, "", "fail", f"cannot be looked at: {error}"))
        return lines

    try:
        found = [line for lines in parallel(one, list(hosts.hosts)) for line in lines]
        for name, link in hosts.links.items():
            found += _of_link(name, link, connected)
        return found
    finally:
        parallel(SshHost.close, list(connected.values()))


def _of_host(
    host: SshHost, path: Path, hosts: Hosts, programs: Sequence[str], modules: Sequence[str]
) -> Iterator[Line]:
    name, entry = host.name, hosts.hosts[host.name]
    texts = {what: host.run(argv).text for what, argv in facts.MACHINE.items()}
    about = facts.machine(texts)
    gib = about["memory"] / 2**30
    yield Line(
        name,
        "system",
        "ok",
        f"{about['system']}, Linux {about['kernel']}, {about['cpus']} x {about['cpu']}, {gib:.1f} GiB",
    )
    problems = list(suits(host, path, hosts))
    yield from (Line(name, "hosts file", "fail", problem, hint) for problem, hint in problems)
    yield _clock(host)
    yield from _programs(host, programs, facts.family(texts["system"]))
    yield from _modules(host, modules, about["kernel"])
    yield from _room(host)
    taken = {what: host.run(argv).text for what, argv in facts.TAKEN.items()}
    busy = [
        *facts.taken(taken, hosts.first, 1),
        *facts.taken_minors(taken["blocks"], hosts.first, len(entry.disks)),
    ]
    yield Line(name, "names", "fail" if busy else "ok", "; ".join(busy) or f"those from {hosts.first} on are free",
               "give the hosts file another `first`" if busy else "")  # fmt: skip
    left = host.left()
    if left:
        yield Line(
            name,
            "journal",
            "warn",
            f"{len(left)} steps of an earlier run are not undone",
            f"blocklab down --hosts {path}",
        )
    if host.damaged:
        yield Line(name, "journal", "warn", damage(host.damaged), f"blocklab down --hosts {path}")
    yield from _disks(host, entry)
    yield _own(host, entry)


def _own(host: SshHost, entry: HostEntry) -> Line:
    """blocklab there, which only ``--dask`` needs."""
    found = host.run(["env", entry.blocklab, "--version"])
    if found.code == 0:
        # blocklab 0.4.0
        return Line(host.name, "blocklab", "ok", found.text.splitlines()[0])
    hint = "for --dask: pip install 'blocklab[dask]' there, and `blocklab: PATH` in the hosts file"
    return Line(host.name, "blocklab", "ok", f"it has no {entry.blocklab}, which only --dask needs", hint)


def _clock(host: SshHost) -> Line:
    found = min((clock(host) for _ in range(EXCHANGES)), key=lambda each: each.error)
    by = f"{found.offset:+,.0f} s" if abs(found.offset) >= 10 else f"{found.offset * 1e3:+,.1f} ms"
    apart = f"{by} from this machine's, known to {found.error * 1e3:.1f} ms"
    if abs(found.offset) > CLOCK_SECONDS + found.error:
        return Line(
            host.name, "clock", "warn", apart, "let chrony or systemd-timesyncd keep it; times are corrected by it"
        )
    return Line(host.name, "clock", "ok", apart)


def _programs(host: SshHost, wanted: Sequence[str], family: str) -> Iterator[Line]:
    missing = [each for each in host.lacking(wanted) if each.rpartition("/")[2] not in PORTABLE]
    if not missing:
        yield Line(host.name, "programs", "ok", f"all {len(wanted)} are there")
    for program in missing:
        yield Line(
            host.name, "programs", "fail", f"there is no {program}", f"install {needs.package(program, family)}"
        )


def _modules(host: SshHost, wanted: Sequence[str], kernel: str) -> Iterator[Line]:
    missing = [name for name in wanted if host.run(("modprobe", "-n", "-q", name)).code != 0]
    for name in missing:
        hint = "install it for this kernel; Ubuntu has some in linux-modules-extra, Debian none in -cloud kernels"
        yield Line(host.name, "modules", "fail", f"the kernel {kernel} has no module {name}", hint)
    if wanted and not missing:
        said = f"{', '.join(wanted)}"
        if "drbd" in wanted:
            version = host.run(("modinfo", "-F", "version", "drbd")).text.strip()
            said += f" (DRBD {version})" if version else ""
        yield Line(host.name, "modules", "ok", said)


def _room(host: SshHost) -> Iterator[Line]:
    # Mounted on         Avail
    # /            7424524288
    for place, needed in PLACES.items():
        result = host.run(("df", "--output=avail", "-B1", place))
        room = int(result.text.split()[-1]) if result.code == 0 else 0
        if room < needed:
            said = f"{place} has {room / 2**20:,.0f} MiB free, and {needed >> 20} are needed"
            yield Line(host.name, "room", "fail", said, "make room there")
            return
    yield Line(host.name, "room", "ok", f"enough in {', '.join(PLACES)}")


def _disks(host: SshHost, entry: HostEntry) -> Iterator[Line]:
    if not entry.disks:
        yield Line(
            host.name,
            "disks",
            "warn",
            "the hosts file names none",
            "blocklab disks list shows those that could be used",
        )
        return
    equip(host)
    for label, disk in entry.disks.items():
        try:
            check(host, disk)
            yield Line(host.name, f"disk {label}", "ok", f"{disk.id}, {disk.size}")
        except BlocklabError as error:
            yield Line(host.name, f"disk {label}", "fail", error.message, error.hint)


def check(host: SshHost, disk: Disk) -> None:
    """Whether a disk may be used. Raises ``SetupError`` with every reason why not."""
    argv = node_programs.program(
        "disks", "check", disk.id, "--serial", disk.serial, "--size", str(int(disk.size)), "--need", "0"
    )
    ask(host, argv, timeout=120.0)


def _of_link(name: str, link: LinkEntry, connected: Mapping[str, SshHost]) -> Iterator[Line]:
    here, there = link.ends
    about = f"link {name}"
    if here not in connected or there not in connected:
        yield Line("", about, "fail", f"not tried: {here} or {there} is not connected")
        return
    argv = (
        "ping",
        "-A",
        "-c",
        str(PINGS),
        "-s",
        "4096",
        "-n",
        "-W",
        "2",
        "-I",
        link.ends[here].interface,
        link.ends[there].address,
    )
    try:
        result = connected[here].run(argv, timeout=60.0)
    except HostError as error:
        yield Line("", about, "fail", error.message)
        return
    times = [float(match[1]) for match in _ANSWER.finditer(result.text)]
    if not times:
        yield Line(
            "",
            about,
            "fail",
            f"no answer from {link.ends[there].address} to {here}",
            "is ICMP allowed between them, and DRBD's port?",
        )
        return
    yield Line(
        "",
        about,
        "ok",
        f"{statistics.median(times):.3g} ms from {here} to {there} ({len(times)} of {PINGS} answers)",
    )
