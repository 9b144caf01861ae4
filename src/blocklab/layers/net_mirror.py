"""A mirror of a block device on a peer by RAID-1 over the network: the kernel's MD and NBD."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import msgspec

from blocklab.layers import net_mirror_pair
from blocklab.layers.base import PROMOTION, WithPeer, copies_misplaced, link_problems, peer_problems
from blocklab.model import numbers, places
from blocklab.model.ground import Topology
from blocklab.model.layer import Layer, Place
from blocklab.model.node_programs import program
from blocklab.model.plan import Argv, Fact, Plan, Port, Put, Run, Step, Wait
from blocklab.model.spans import Comparison, Query, Stage
from blocklab.model.units import Duration

MOST_CONNECTIONS = 16
MOST_BEHIND = 16383
#        1      43        0        1      active sync writemostly   /dev/nbd0
#        -      43        0        -      faulty   /dev/nbd0
_MEMBER = re.compile(
    r"^ +\d+ +\d+ +\d+ +\d+ +(?P<state>[a-z-]+(?: [a-z-]+)*) +(?P<device>/dev/\S+)$", re.MULTILINE
)


class NetMirror(WithPeer, frozen=True, tag="net-mirror"):
    """A mirror of the block device below on another node: the kernel's RAID-1 over the local device and one by
    NBD.

    It is what volume managers call a network mirror, of parts that every Linux has: ``nbd-server`` on the peer,
    the kernel's ``nbd`` and ``md`` on the active node. A write is done when the local device has it and the server
    has acknowledged it. Without ``direct`` the server has it in the peer's page cache then; a flush (an fsync of
    the database) is passed on and brings it to the peer's device. What waits in that cache is written in pieces of
    4 KiB, each of which counts against an IOPS cap on the peer; all writes pause while there is too much of it,
    and while MD flushes its bitmap.

    Example::

        - {layer: net-mirror, peer: a2, link: zone, write_behind: 256, connections: 2}

    Both legs start as equal (``--assume-clean``), since both volumes are fresh and zero; over what is not, such as
    ``crypt``, the local one is copied first. MD takes the first MiB or
    more of both for its superblock, so the mirror is somewhat smaller than the volume.

    Read back before and after each workload: the array's state, both legs and the bitmap, by ``mdadm --detail``;
    ``write_behind`` and ``timeout``, in ``/sys/block``; the established connections and the program that serves,
    by ss(8). A mirror that lost
    its remote leg during the workload makes the cell invalid.
    """

    link: str
    """The link between the two."""
    write_mostly: bool = True
    """Reads stay on the local leg: ``--write-mostly`` of the remote one, see md(4). Without it they are spread
    over both."""
    bitmap: bool = True
    """A write-intent bitmap on both legs (``--bitmap=internal``), so that the leg of an active node that died is
    not copied whole when it comes back after a takeover."""
    write_behind: int = 0
    """So many writes, 0 to 16383, may be under way to the peer after they were acknowledged, which makes the
    mirror asynchronous: ``--write-behind``. Needs ``write_mostly`` and ``bitmap``."""
    direct: bool = False
    """The server goes past the peer's page cache (``O_DIRECT``): a write that it has acknowledged is on the peer's
    device, as with DRBD's protocol C. It is ``qemu-storage-daemon`` then, in the place of ``nbd-server``."""
    connections: int = 1
    """TCP connections of the NBD device, 1 to 16: ``nbd-client -connections``."""
    timeout: Duration = msgspec.field(default_factory=lambda: Duration("10s"))
    """A request that the peer leaves unanswered for so long fails, and RAID-1 goes on with the local leg alone:
    ``nbd-client -timeout``. Whole seconds, 1s to 3600s, and longer than the link's ``rtt``."""

    exact: ClassVar[bool] = True
    connected: ClassVar[bool] = True
    title: ClassVar[str] = "MD RAID-1 over NBD"

    @property
    def links(self) -> tuple[str, ...]:
        return (self.link,)

    def problems(self, host: str, lab: Topology) -> list[tuple[str, str]]:
        """A peer that is not another known node, a link that does not join the two, numbers out of range."""
        found = peer_problems(self.peer, host, lab) + link_problems(self.link, self.peer, host, lab)
        if not 0 <= self.write_behind <= MOST_BEHIND:
            found.append(("write_behind", f"must be from 0 (off) to {MOST_BEHIND}"))
        elif self.write_behind and not (self.write_mostly and self.bitmap):
            found.append(("write_behind", "needs the bitmap and a write-mostly leg; leave both at true"))
        if not 1 <= self.connections <= MOST_CONNECTIONS:
            found.append(("connections", f"must be from 1 to {MOST_CONNECTIONS}"))
        if not 1 <= self.timeout <= 3600 or self.timeout % 1:
            found.append(("timeout", "must be whole seconds, from 1s to 3600s"))
        elif self.link in lab.links and self.timeout <= (rtt := lab.links[self.link].rtt):
            said = f"no answer can come so soon over {self.link}, whose rtt is {rtt}; give it more than that"
            found.append(("timeout", said))
        return found

    def misplaced(self, below: Sequence[Layer]) -> list[tuple[str, str]]:
        """On what would not stay the same on both sides."""
        return copies_misplaced(below)

    def plan(self, place: Place, below: tuple[Port, ...]) -> Plan:
        """The peer's device served, connected, and joined with the local one."""
        here, sides = place.host, _sides(below)
        local, served = sides[here], sides[self.peer]
        remote, mirror = _devices(place)
        steps = (
            *self._server(place, served),
            # By itself the module makes 16 devices as soon as it is loaded.
            *(Run(here, ("modprobe", *module)) for module in (("nbd", "nbds_max=0"), ("raid1",))),
            Run(here, self._connect(place, remote), undo=("nbd-client", "-d", remote)),
            Run(
                here,
                self._create(mirror, local, remote, clean=place.alike),
                undo=("mdadm", "--stop", mirror),
                once=True,
                again=("mdadm", "--assemble", mirror, local, remote),
            ),
            *(() if place.alike else (net_mirror_pair.copied(here, mirror),)),
        )
        return Plan(steps, self._facts(place, mirror, remote), (Port(here, "block", mirror),))

    def takeover(self, place: Place, below: tuple[Port, ...], gone: Sequence[str]) -> tuple[Stage, ...]:
        """No longer served, but an array of one leg."""
        here, (_, mirror) = place.host, _devices(place)
        steps = net_mirror_pair.promoted(here, place.stack, mirror, _sides(below)[here], self._stop(place))
        return (Stage(PROMOTION, steps),)

    def restart(self, place: Place, below: tuple[Port, ...]) -> tuple[Stage, ...]:
        """The array of its local leg."""
        steps = net_mirror_pair.assembled(place.host, _devices(place)[1], _sides(below)[place.host])
        return (Stage(PROMOTION, steps),)

    def alone(self, place: Place, below: tuple[Port, ...]) -> tuple[Fact, ...]:
        """An array of its local leg."""
        wanted = {
            "state": "clean, degraded", "local leg": "active sync", "remote leg": "absent", "bitmap": self._bitmap,
        }  # fmt: skip
        detail = ("mdadm", "--detail", _devices(place)[1])
        return (Fact(place.host, "net-mirror", detail, parse_detail, wanted),)

    def rejoin(self, place: Place, below: tuple[Port, ...], back: Sequence[str]) -> tuple[Step, ...]:
        """Served again on the other node, connected, added, synchronised."""
        remote, mirror = _devices(place)
        # One that still serves may have requests of the old connection before it.
        served = (Run(self.peer, self._stop(place)), *self._server(place, _sides(below)[self.peer]))
        return net_mirror_pair.joined(
            place.host, place.stack, mirror, remote, self._connect(place, remote),
            served, mostly=self.write_mostly, bitmap=self.bitmap,
        )  # fmt: skip

    def split_brain(self, place: Place) -> Query:
        """What the other leg's superblock says, once ``rejoin`` has connected it."""
        remote, mirror = _devices(place)
        return place.host, program("net_mirror", "parted", mirror, remote)

    def comparison(self, place: Place, below: tuple[Port, ...]) -> Comparison | None:
        """MD's check, and checksums of the legs' data areas."""
        remote, mirror = _devices(place)
        return net_mirror_pair.compared(place.host, mirror, remote, _sides(below))

    @property
    def _bitmap(self) -> str:
        return "Internal" if self.bitmap else "none"

    def _address(self, place: Place) -> tuple[str, int]:
        return place.ground.ends[self.link][self.peer].address, numbers.NBD_PORT.of(place.number)

    def _server(self, place: Place, device: str) -> tuple[Step, ...]:
        address, port = self._address(place)
        # It goes on in the background before it has written its number or listens.
        listens = (
            Wait(self.peer, ("test", "-s", _pid(place)), seconds=10.0),
            Wait(self.peer, ("ss", "-Hltn", f"sport = :{port}"), until=f"{address}:{port}", seconds=10.0),
        )
        guarded, allowed = place.ground.guarded, places.run(f"{place.stack}-nbd.allow")
        if self.direct:
            # It has no list of addresses, but takes no more connections than the active node makes.
            most = f",max-connections={self.connections}" if guarded else ""
            argv = (
                "qemu-storage-daemon", "--daemonize", "--pidfile", _pid(place), "--blockdev",
                f"driver=host_device,node-name=leg,filename={device},cache.direct=on,aio=native,discard=unmap",
                "--nbd-server", f"addr.type=inet,addr.host={address},addr.port={port}{most}",
                "--export", f"type=nbd,id=leg,node-name=leg,name={place.stack},writable=on",
            )  # fmt: skip
            return Run(self.peer, argv, undo=self._stop(place)), *listens
        config = places.run(f"{place.stack}-nbd.conf")
        text = "\n".join([
            "[generic]", f"listenaddr = {address}", f"port = {port}",
            f"[{place.stack}]", f"exportname = {device}",
            # What the filesystem asks of a device: flushes, forced writes, discards. Without the last the two legs
            # would differ where it was told that nothing is needed any more.
            "flush = true", "fua = true", "trim = true",
            *((f"authfile = {allowed}", f"maxconnections = {self.connections}") if guarded else ()), "",
        ])  # fmt: skip
        active = place.ground.ends[self.link][place.host].address
        return (
            *((Put(self.peer, allowed, f"{active}\n"),) if guarded else ()),
            Put(self.peer, config, text),
            Run(self.peer, ("nbd-server", "-C", config, "-p", _pid(place)), undo=self._stop(place)),
            *listens,
        )

    @property
    def _program(self) -> str:
        """The server, as the kernel calls it."""
        return "qemu-storage-daemon"[:15] if self.direct else "nbd-server"

    def _stop(self, place: Place) -> Argv:
        """End the server, which has ended already or not."""
        return (
            "start-stop-daemon", "--stop", "--oknodo", "--pidfile", _pid(place), "--name", self._program,
            "--retry", "TERM/5/KILL/5", "--remove-pidfile",
        )  # fmt: skip

    def _connect(self, place: Place, remote: str) -> Argv:
        address, port = self._address(place)
        return (
            "nbd-client", address, str(port), remote, "-name", place.stack,
            "-timeout", str(round(self.timeout)), "-connections", str(self.connections),
        )  # fmt: skip

    def _create(self, mirror: str, local: str, remote: str, *, clean: bool) -> Argv:
        behind = (f"--write-behind={self.write_behind}",) if self.write_behind else ()
        return (
            "mdadm", "--create", mirror, "--run", "--level=1", "--raid-devices=2", "--metadata=1.2",
            *(("--assume-clean",) if clean else ()), f"--bitmap={'internal' if self.bitmap else 'none'}", *behind,
            local, *(("--write-mostly",) if self.write_mostly else ()), remote,
        )  # fmt: skip

    def _facts(self, place: Place, mirror: str, remote: str) -> tuple[Fact, ...]:
        here, name = place.host, remote.rpartition("/")[2]
        address, port = self._address(place)
        wanted = {
            "state": "clean",
            "local leg": "active sync",
            "remote leg": "active sync writemostly" if self.write_mostly else "active sync",
            "bitmap": self._bitmap,
        }
        facts = [
            Fact(here, "net-mirror", ("mdadm", "--detail", mirror), parse_detail, wanted),
            Fact(
                here, "net-mirror", ("ss", "-Htn", "state", "established", f"dst {address} and dport = :{port}"),
                _connections, {"connections": str(self.connections)},
            ),
            Fact(
                here, "net-mirror", ("cat", f"/sys/block/{name}/queue/io_timeout"),
                _timeout, {"timeout": str(self.timeout)},
            ),
            Fact(
                self.peer, "net-mirror", ("ss", "-Hltnp", f"sport = :{port}"), _serves, {"server": self._program},
            ),
        ]  # fmt: skip
        if self.bitmap:
            backlog = f"/sys/block/{mirror.rpartition('/')[2]}/md/bitmap/backlog"
            behind = {"write_behind": str(self.write_behind)}
            facts.append(Fact(here, "net-mirror", ("cat", backlog), partial(_one, "write_behind"), behind))
        return tuple(facts)


def _sides(below: tuple[Port, ...]) -> dict[str, str]:
    """The device below on each host, the active one first."""
    return {port.host: port.where for port in below}


def _devices(place: Place) -> tuple[str, str]:
    """The remote leg and the array, on the active node."""
    return numbers.NET_LEG.path(place.number), numbers.NET_MIRROR.path(place.number)


def _pid(place: Place) -> str:
    return places.run(f"{place.stack}-nbd.pid")


def parse_detail(text: str) -> dict[str, str]:
    """``mdadm --detail``: the state, both legs, the bitmap. Which leg is the remote one its device tells, not its
    number: after a takeover the legs have changed places."""
    #              State : clean
    #      Intent Bitmap : Internal
    fields = dict(line.strip().split(" : ", 1) for line in text.splitlines() if " : " in line)
    states = [word.strip() for word in fields.get("State", "absent").split(",")]
    # "active" only says that the last write is less than a fifth of a second ago.
    state = ", ".join("clean" if word == "active" else word for word in states)
    legs = {match["device"].startswith("/dev/nbd"): match["state"] for match in _MEMBER.finditer(text)}
    return {
        "state": state,
        "local leg": legs.get(False, "absent"),
        "remote leg": legs.get(True, "absent"),
        "bitmap": fields.get("Intent Bitmap", "none"),
    }


def _connections(text: str) -> dict[str, str]:
    # 0      0      10.77.1.1:43958 10.77.1.2:10809
    return {"connections": str(len(text.splitlines()))}


def _serves(text: str) -> dict[str, str]:
    # LISTEN 0      10         10.77.1.2:10809      0.0.0.0:*    users:(("nbd-server",pid=782,fd=3))
    found = re.search(r'users:\(\("(?P<program>[^"]+)"', text)
    return {"server": found["program"] if found else "absent"}


def _timeout(text: str) -> dict[str, str]:
    # "10000", in milliseconds
    return {"timeout": str(Duration(f"{int(text)}ms"))}


def _one(name: str, text: str) -> dict[str, str]:
    return {name: text.strip()}
