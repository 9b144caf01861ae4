"""The SSH site: hosts that are there already, by a hosts file. Disks are claimed, links and systems stay as they
are, and every change has an undo in the host's own journal."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

from blocklab import __version__
from blocklab.errors import BlocklabError, SetupError, StudyError
from blocklab.model import node_programs, numbers
from blocklab.model.ground import End, Ground, Topology, VolumeSpec
from blocklab.model.host import Host, must
from blocklab.model.plan import Argv
from blocklab.model.site import (
    Doctor,
    EmulatedLinks,
    GivenGround,
    Journal,
    Lab,
    Leftovers,
    Power,
    Requirement,
    Room,
    Standing,
)
from blocklab.sites import standing_lab
from blocklab.sites.ssh import facts, power
from blocklab.sites.ssh.check import checks
from blocklab.sites.ssh.connect import Unreachable
from blocklab.sites.ssh.disks import FIRST_UNDO, Taken, apart, equip, looked_at, release, take
from blocklab.sites.ssh.facts import PREFIX
from blocklab.sites.ssh.host import SshHost, parallel, suits
from blocklab.sites.ssh.hosts import HostEntry, Hosts, known_hosts_of, load

T = TypeVar("T")

OFFERS = frozenset({Doctor, GivenGround, Journal, Leftovers, Room, Standing})
# An agent that is alone ends after 30 s.
PATIENCE = 45.0
# Below the numbers of disks' undos, above those of the engine's.
RESTORE = FIRST_UNDO - 1
# Bytes a second that a cloud's ordinary disk writes.
TYPICAL = 125e6


class SshLab:
    """Connected hosts with claimed disks. ``close`` lets go of the disks; the connections are the site's."""

    def __init__(self, site: SshSite, topology: Topology) -> None:
        self.offers = site.offers
        self._site = site
        self._topology = topology
        self._hosts = {name: site.connected()[name] for name in topology.nodes}
        self._taken: list[Taken] = []
        # Of hosts that were ended on purpose: the id of that boot.
        self._ended: dict[str, str] = {}
        try:
            for host in self._hosts.values():
                restored_later(host)
            self._check_free(site.hosts, topology)
            self._take(tuple(self._hosts), fresh=True)
        except BaseException:
            self.close()
            raise

    def _check_free(self, hosts: Hosts, topology: Topology) -> None:
        stacks = len({volume.stack for volume in topology.volumes})
        for name, host in self._hosts.items():
            texts = {what: host.run(argv).text for what, argv in facts.TAKEN.items()}
            found = [
                *facts.taken(texts, hosts.first, stacks),
                *facts.taken_minors(texts["blocks"], hosts.first, len(hosts.hosts[name].disks)),
            ]
            if found:
                raise SetupError(
                    f"{name}: {'; '.join(found)}",
                    hint="give the hosts file another `first`, or remove what is there; "
                    "what an earlier run has left goes with: blocklab down",
                )

    def _take(self, hosts: Sequence[str], *, fresh: bool) -> None:
        """Claim the volumes of these hosts; ``fresh``: whatever is on them may go."""
        for name in hosts:
            equip(self._hosts[name])

        def one(each: tuple[str, VolumeSpec]) -> Taken:
            name, spec = each
            index = self._site.disk(spec, name)
            disk = list(self._site.hosts.hosts[name].disks.values())[index]
            minor = numbers.DISK.of(self._site.hosts.first + index)
            return take(
                self._hosts[name], disk, minor, int(spec.profile.size), fresh=fresh, zero=fresh and spec.alike
            )

        # Writing zeroes takes a while: all at once.
        wanted = [(name, spec) for spec in self._topology.volumes for name in spec.nodes if name in hosts]
        new = parallel(one, wanted)
        self._taken += new
        # All of them are stamped before any is looked at: two hosts may have stamped one disk at the same time.
        looked = parallel(lambda each: looked_at(self._hosts[each.host], each), new)
        self._taken[-len(new) :] = looked
        apart(self._taken)

    @property
    def hosts(self) -> Mapping[str, Host]:
        """The hosts by name."""
        return self._hosts

    def shortage(self) -> str:
        """Nothing is known to be missing."""
        return ""

    def note(self, host: str, number: int, argv: Argv) -> None:
        """In the journal of that host."""
        self._hosts[host].note(number, argv)

    def done(self, host: str, numbers: Sequence[int]) -> None:
        """In the journal of that host; of one that was ended on purpose, ``boot`` does it."""
        if host not in self._ended:
            self._hosts[host].done(numbers)

    def crash(self, host: str) -> None:
        """By its power command or by sysrq, as the hosts file allows."""
        if host not in self._ended:
            self._ended[host] = power.end(self._hosts[host])
            self._taken = [each for each in self._taken if each.host != host]

    def boot(self, host: str) -> None:
        """Wait until it is back, undo what the boot did not, and claim its disks again, with what is on them."""
        if host not in self._ended:
            raise SetupError(f"{host} was not crashed, so it cannot be booted again")
        self._hosts[host] = new = power.wake(self._hosts[host], self._ended[host])
        self._site.replaced(new)
        del self._ended[host]
        new.replay()
        restored_later(new)
        self._take((host,), fresh=False)

    def close(self) -> None:
        """Let go of the disks; their content stays. Safe to call twice."""
        taken, self._taken = self._taken, []
        for each in reversed(taken):
            with contextlib.suppress(BlocklabError):
                release(self._hosts[each.host], each)
        for host in self._hosts.values():
            with contextlib.suppress(BlocklabError):
                must(host, node_programs.program("verbs", "restore"))
                host.done([RESTORE])


class SshSite(standing_lab.ByDoor):
    """The hosts of a hosts file. They are connected when the first lab starts, until the site is closed."""

    name = "ssh"

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.hosts = load(path)
        self._connected: dict[str, SshHost] = {}
        entries = self.hosts.hosts.values()
        self.offers = OFFERS
        if all(entry.crash or entry.power is not None for entry in entries):
            self.offers |= {Power}
        if self.hosts.links and all(link.emulate for link in self.hosts.links.values()):
            self.offers |= {EmulatedLinks}

    def replaced(self, host: SshHost) -> None:
        """A host that was booted has a new connection."""
        self._connected[host.name] = host

    def connected(self) -> Mapping[str, SshHost]:
        """All hosts of the file, connected, and cleaned of what an earlier run has left. Raises ``SetupError``."""
        if not self._connected:
            atexit.register(self.close)
        missing = [name for name in self.hosts.hosts if name not in self._connected]
        gone = [name for name, host in self._connected.items() if host.channel.lost]
        for name in gone:
            self._connected.pop(name).close()
        if not missing and not gone:
            return self._connected
        found = self._made([*missing, *gone], gone)
        self._connected |= {host.name: host for host in found}
        return self._connected

    def _made(self, names: Sequence[str], gone: Sequence[str]) -> list[SshHost]:
        """New connections; ``gone``: to hosts that were lost."""
        known = known_hosts_of(self.path)
        errors: list[BlocklabError] = []

        def one(name: str) -> SshHost | None:
            try:
                return connected_host(name, self.hosts.hosts[name], known, patient=name in gone)
            except BlocklabError as error:
                errors.append(error)
                return None

        found = [host for host in parallel(one, names) if host is not None]
        try:
            if errors:
                rest = f" (and {len(errors) - 1} more hosts)" if len(errors) > 1 else ""
                raise SetupError(f"{errors[0].message}{rest}", hint=errors[0].hint)
            for problem, hint in (each for host in found for each in suits(host, self.path, self.hosts)):
                raise SetupError(problem, hint=hint)
            if failed := [text for host in found if (text := host.replay())]:
                raise SetupError(
                    f"an earlier run cannot be undone: {failed[0]}", hint=f"blocklab down --hosts {self.path}"
                )
        except BaseException:
            for host in found:
                host.close()
            raise
        return found

    def disk(self, spec: VolumeSpec, host: str) -> int:
        """Which of a host's disks a volume is, by its place in the file. Raises ``StudyError``."""
        disks = list(self.hosts.hosts[host].disks)
        named = self.hosts.volumes.get(spec.stack, {}).get(host, tuple(disks))
        if spec.index >= len(named):
            has = f"{len(named)} disk{'s' if len(named) != 1 else ''}"
            raise StudyError(
                f"hosts.{host}.disks", f"stack {spec.stack} needs volume {spec.index + 1} there; there is {has}",
                file=str(self.path), hint="blocklab disks list shows those that could be used",
            )  # fmt: skip
        return disks.index(named[spec.index])

    def lacking(self, topology: Topology) -> list[tuple[str, str]]:
        """Nodes and links that the file does not have."""
        found = [
            (f"nodes.{name}", f"{self.path} has no such host") for name in topology.nodes - self.hosts.hosts.keys()
        ]
        for name, link in topology.links.items():
            ends = self.hosts.links[name].ends if name in self.hosts.links else {}
            if set(ends) != set(link.between):
                found.append(
                    (f"links.{name}", f"{self.path} has no link {name} between {' and '.join(link.between)}")
                )
        return found

    def ground(self, topology: Topology) -> Ground:
        """The names that ``start`` will give. Raises ``StudyError`` for what the file lacks."""
        for path, problem in self.lacking(topology):
            raise StudyError(path, problem, hint="add it there")
        ends = {
            name: {
                host: End(
                    end.interface, end.address, (end.interface,), given=True, shaped=self.hosts.links[name].emulate
                )
                for host in link.between
                for end in (self.hosts.links[name].ends[host],)
            }
            for name, link in topology.links.items()
        }
        devices: dict[str, dict[str, tuple[str, ...]]] = {}
        for spec in topology.volumes:
            for host in spec.nodes:
                mine = devices.setdefault(spec.stack, {})
                device = numbers.DISK.path(self.hosts.first + self.disk(spec, host))
                mine[host] = (*mine.get(host, ()), device)
        called = {name: entry.hostname for name, entry in self.hosts.hosts.items() if entry.hostname}
        return Ground(
            ends, devices, prefix=PREFIX, first=self.hosts.first, hostnames=called, guarded=True, mapped=True
        )

    def start(self, topology: Topology) -> SshLab:
        """Connect, clean, claim the disks. Raises ``SetupError``, ``NodeLost``."""
        return SshLab(self, topology)

    def environment(self, addons: tuple[str, ...] = ()) -> dict[str, Any]:
        """Each host's kernel, CPU, memory and system. ``machine`` stands for all of them together."""
        found, ids = {}, []
        for name, host in self.connected().items():
            texts = {what: host.run(argv).text for what, argv in facts.MACHINE.items()}
            ids.append(f"{name} {texts['id'].strip()}")
            found[name] = facts.machine(texts)
        first = next(iter(found.values()))
        return {
            "blocklab": __version__,
            "site": self.name,
            "machine": hashlib.sha256("\n".join(["blocklab", *sorted(ids)]).encode()).hexdigest()[:12],
            "name": ", ".join(found),
            "host": {name: first[name] for name in ("kernel", "cpu", "cpus")},
            "hosts": found,
        }

    def room(self, topology: Topology, copies: int, labs: int = 1) -> str:
        """How much has to be zero before a mirror stands, and about how long that takes; the disks' sizes are
        looked at when they are claimed."""
        alike = [int(spec.profile.size) for spec in topology.volumes if spec.alike]
        if not alike:
            return ""
        most = max(alike)
        return (
            f"the volumes of a mirror get zeroes before each build ({most / 2**30:.3g} GiB on each host): "
            f"{most / TYPICAL:.0f} s at {TYPICAL / 1e6:.0f} MB/s"
        )

    def requirements(self) -> Sequence[Requirement]:
        """What the hosts have and lack."""
        return checks(self.path, self.hosts, {}, {})

    def clean(self) -> list[str]:
        """Undo what an earlier run has left on the hosts."""
        known = known_hosts_of(self.path)
        failed: list[str] = []
        for name, entry in self.hosts.hosts.items():
            try:
                with contextlib.closing(connected_host(name, entry, known, patient=True)) as host:
                    failed += filter(None, [host.replay()])
            except BlocklabError as error:
                failed.append(error.message)
        return failed

    def stand(self, build: Callable[[], AbstractContextManager[Lab]], about: Mapping[str, Any]) -> None:
        """In a process of its own, which makes its own connections."""

        @contextlib.contextmanager
        def built() -> Iterator[Lab]:
            try:
                with build() as lab:
                    yield lab
            finally:
                self.close()

        self.close()
        super().stand(built, about)

    def close(self) -> None:
        """End the agents."""
        hosts, self._connected = self._connected, {}
        # All at once, and without threads: at the interpreter's end there are no new ones.
        for host in hosts.values():
            host.dismiss()
        for host in hosts.values():
            host.close()


def restored_later(host: SshHost) -> None:
    """Have the kernel parameters that a study will set be the host's own again, whatever happens."""
    host.note(RESTORE, host.verb("restore"))


def connected_host(name: str, entry: HostEntry, known_hosts: Path, *, patient: bool) -> SshHost:
    """Connect to a host. ``patient``: wait for the end of an agent that lost its connection. Raises
    ``Unreachable``."""
    until = time.monotonic() + (PATIENCE if patient else 0.0)
    while True:
        try:
            return SshHost(name, entry, known_hosts)
        except Unreachable as error:
            if not (error.busy or error.again) or time.monotonic() > until:
                raise
        time.sleep(1.0)
