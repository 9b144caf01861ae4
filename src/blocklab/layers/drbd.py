"""A synchronous or asynchronous mirror of a block device on a peer: DRBD 8.4 or 9."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

from blocklab.layers import drbd_options, drbd_pair
from blocklab.layers.base import PROMOTION, WithPeer, copies_misplaced, link_problems, peer_problems
from blocklab.layers.drbd_options import BARE, PATIENCE, Value, canonical, text_of
from blocklab.model import access, numbers
from blocklab.model.ground import Topology
from blocklab.model.knobs import Question, Table
from blocklab.model.layer import Layer, Place
from blocklab.model.plan import UNCHANGED, Fact, Plan, Port, Run, Step, Wait
from blocklab.model.spans import Comparison, Query, Sign, Stage
from blocklab_node.drbd import NEWER, SYNC_SECONDS, VERSION

# What the primary's connection may be when it may run ahead of its peer (on-congestion: pull-ahead).
LAGGING = frozenset({"Connected", "Ahead", "SyncSource", "PausedSyncS"})
GENERATION = "data generation"
# By which the two sides prove that they know the secret, where hosts have other users.
HMAC = "sha256"
# Internal metadata of DRBD 8.4 in sectors: 8 for each 2^18 of the device (its bitmap), and 72.
_SECTOR, _BITMAP, _NOTES = 512, 2**18, 72


class Drbd(WithPeer, frozen=True, tag="drbd"):
    """A synchronous or asynchronous mirror of the block device below on another node: DRBD 8.4 or 9.

    The driver is the one that the host's kernel loads: 8.4 on a node of the lab, unless its image has modules of
    your own (``blocklab image build --modules``). Its version is stored with each run and stands in the report, as
    ``driver``. The metadata are internal: at the end of the volume. See the guides of
    [8.4](https://linbit.com/drbd-user-guide/users-guide-drbd-8-4/) and
    [9](https://linbit.com/drbd-user-guide/drbd-guide-9_0-en/).

    Example::

        - layer: drbd
          peer: a2
          link: zone
          protocol: C
          net: {max-buffers: 8000, max-epoch-size: 8000}
          disk: {disk-flushes: false, md-flushes: false, al-extents: 6433}

    Read back on both sides: the protocol and every option, by ``drbdsetup show``. An option that the kernel clamps
    makes the cell invalid, with the value that is in force; ``al-extents`` above 6433, for which the activity log
    has no room, is refused before. On the active side, before and after each workload: connected, and both disks
    up to date; and the data generation (``drbdadm get-gi``), which DRBD begins again when it goes on without its
    peer, be it for a moment. So a mirror that broke during the workload makes the cell invalid, also where it has
    healed since. With ``on-congestion: pull-ahead`` it may be ahead of its peer, or be catching up, and its
    generation is not looked at.

    A mirror has one peer and one connection, which is one TCP stream for the data and one for acknowledgements.
    Two links at once are only had below it, by ``lanes`` of a link: ``balance-rr`` spreads the packets of the one
    stream over all lanes, whereas ``balance-xor`` and ``active-backup`` send one stream over one lane, so that
    nothing is gained.

    What is other with DRBD 9: nodes have fixed ids, and ``auto-promote`` is off, so that opening the device never
    promotes it. There is no ``unplug-watermark`` and no ``max-bio-bvecs``; ``fencing`` is an option of ``net``.
    ``epochs`` are not counted, and DRBD's own totals of a workload are not read (its rates by the second are). An
    option that the driver of a host does not have ends the build with what ``drbdadm`` says of it.
    """

    link: str
    """The link between the two. Its ``rtt`` has to be shorter than the ``ping-timeout``: 0.5 s, unless ``net`` has
    another one, in tenths of a second."""
    protocol: Literal["A", "B", "C"] = "C"
    """When a write is acknowledged: ``C`` both disks have it, ``B`` the peer's memory has it, ``A`` it is in the
    local send buffer."""
    net: dict[str, Value] = {}
    """DRBD's options by their own names and units, the ``net`` section of drbd.conf(5): ``max-buffers``,
    ``max-epoch-size``, ``sndbuf-size``, ``rcvbuf-size``, ``unplug-watermark``; with protocol A ``on-congestion:
    pull-ahead``, ``congestion-fill`` and ``congestion-extents``. ``true`` and ``false`` become ``yes`` and
    ``no``. Refused are values that call a handler, of which there are none, and words for other options than those
    of policies and algorithms; and, once DRBD was asked, names that it does not have in this section and values
    that it would not take."""
    disk: dict[str, Value] = {}
    """The same of the ``disk`` section: ``disk-flushes``, ``md-flushes``, ``al-extents``, ..."""
    options: dict[str, Value] = {}
    """The same of the ``options`` section. With DRBD 9 ``quorum`` and ``on-no-quorum`` are among them. One of two
    nodes is no majority: alone it does not write, and takes over from nobody."""
    initial_sync: bool = False
    """Copy the whole device first. Without it both sides start as equal (``new-current-uuid --clear-bitmap``),
    since both volumes are fresh and zero. Over what is not, such as ``crypt``, it is always copied."""
    standalone: bool = False
    """Connected until both disks are up to date, then disconnected (``drbdadm disconnect``): the primary runs
    alone, as after the loss of its peer, and notes in its bitmap what the peer misses. The net options are then in
    force on the waiting peer only. A workload's data are loaded while it is still connected."""

    exact: ClassVar[bool] = True
    question: ClassVar[Question] = drbd_options.QUESTION

    def problems(self, host: str, lab: Topology) -> list[tuple[str, str]]:
        """A peer that is not another known node, a link that does not join the two, options DRBD cannot read."""
        found = peer_problems(self.peer, host, lab) + link_problems(self.link, self.peer, host, lab)
        found += drbd_options.problems(self._sections)
        if self.standalone and self.options.get("quorum", "off") not in ("off", False):
            found.append(("options.quorum", "a mirror that is run alone has none; leave it out"))
        if self.net.get("on-congestion") in ("pull-ahead", "disconnect") and self.protocol != "A":
            found.append(("net.on-congestion", "only protocol A can pull ahead; set protocol: A or leave it out"))
        return found or self._too_far(lab)

    def misplaced(self, below: Sequence[Layer]) -> list[tuple[str, str]]:
        """On what would not stay the same on both sides."""
        return copies_misplaced(below)

    def unknown(self, table: Table) -> Iterator[tuple[str, str]]:
        """Options that DRBD does not have, or not in this section, and bad values."""
        return drbd_options.unknown(self._sections, table)

    def _too_far(self, lab: Topology) -> list[tuple[str, str]]:
        """A link over which no answer comes in time."""
        rtt = lab.links[self.link].rtt if self.link in lab.links else 0.0
        waits = {name: int(canonical(text_of(self.net.get(name, usual)))) for name, usual in PATIENCE.items()}
        return [
            (
                "net",
                f"DRBD drops a connection without an answer for {tenths / 10:g} s, and {self.link} has an rtt of "
                f"{rtt}; give {name}: {int(rtt * 10) + 1} or more, or a shorter rtt",
            )
            for name, tenths in waits.items()
            if rtt * 10 >= tenths
        ]

    @property
    def links(self) -> tuple[str, ...]:
        return (self.link,)

    @property
    def connected(self) -> bool:
        return not self.standalone

    @property
    def title(self) -> str:
        """DRBD, and whether it is run alone."""
        return "DRBD mirror, disconnected" if self.standalone else "DRBD mirror"

    def details(self) -> dict[str, Any]:
        """The protocol too where it is the usual one: what a write waits for is the first thing to know."""
        return {"protocol": self.protocol} | {
            name: value for name, value in super().details().items() if name != "standalone"
        }

    def holds(self, below: Sequence[int]) -> list[int]:
        """All but the internal metadata at the end."""
        return [size - _SECTOR * (8 * -(-size // (_SECTOR * _BITMAP)) + _NOTES) for size in below]

    def plan(self, place: Place, below: tuple[Port, ...]) -> Plan:
        """Both sides up and connected, ``place.host`` primary, both disks up to date; then alone, if asked."""
        here, name, number = place.host, place.stack, _minor(place)
        sides = _sides(below)
        config = self.config(place, sides)
        steps: list[Step] = []
        for host in sides:
            steps += [
                *drbd_pair.loaded(host, number, name, config),
                Run(host, ("drbdadm", "create-md", "--force", name), once=True),
            ]
        up = {host: Run(host, ("drbdadm", "up", name), undo=("drbdadm", "down", name)) for host in sides}
        steps += [
            # The active side comes last, so that its undo comes first: nodes are taken down in turn.
            up[self.peer],
            # Both sides call and listen. Calls that cross on the way are thrown away, and the next one may be 10 s
            # later (connect-int), again and again: so the peer's call is refused before this side listens.
            self._there_and_back(place, self.peer, here),
            up[here],
            *(Run(host, drbd_pair.ask(number, "connected", name)) for host in sides),
            # The peer tells its state again once it is connected. If that came after the new UUID, this side would
            # take the peer for inconsistent for good.
            self._there_and_back(place, here, self.peer),
        ]
        promote: tuple[str, ...] = ("drbdadm", "primary", name)
        if self.initial_sync or not place.alike:
            # Over its data (``again``) both sides are up to date already, and so is whoever is forced.
            promote = ("drbdadm", "primary", "--force", name)
        else:
            steps.append(Run(here, ("drbdadm", "--", "--clear-bitmap", "new-current-uuid", name), once=True))
        steps.append(Run(here, promote, undo=("drbdadm", "secondary", name)))
        # What was not asked for is not to take longer than it has to.
        hurry = not place.alike and not self.initial_sync and self._quickly
        steps += [
            *drbd_pair.rates(sides, number, name, quickly=hurry, once=True),
            Wait(here, ("drbdadm", "dstate", name), until="UpToDate/UpToDate", seconds=SYNC_SECONDS),
            *drbd_pair.as_written(sides, name, quickly=hurry, once=True),
        ]
        if self.standalone:
            # No undo: "down" takes a mirror down in either state.
            steps.append(Run(here, ("drbdadm", "disconnect", name), late=True))
        return Plan(
            steps=tuple(steps),
            facts=(
                # Alone, the primary has no connection that could have options.
                *(
                    self._options(
                        name, host, net=host != here or not self.standalone, guarded=place.ground.guarded
                    )
                    for host in sides
                ),
                *(Fact(host, "drbd", ("cat", VERSION), parse_driver, lasting=True) for host in sides),
                *self._states(name, here),
            ),
            ports=(Port(here, "block", numbers.DRBD.path(place.number)),),
        )

    @property
    def survivors(self) -> tuple[str, ...]:
        """The peer; none for a mirror that is run alone, whose peer lacks what was written since."""
        return () if self.standalone else (self.peer,)

    def signs(self, place: Place, of: str) -> tuple[Sign, ...]:
        """DRBD's own news of its connection."""
        return (drbd_pair.connection(place.stack),)

    def takeover(self, place: Place, below: tuple[Port, ...], gone: Sequence[str]) -> tuple[Stage, ...]:
        """Cut off from the other side, primary."""
        return (Stage(PROMOTION, drbd_pair.promoted(place.host, place.stack)),)

    def restart(self, place: Place, below: tuple[Port, ...]) -> tuple[Stage, ...]:
        """Up and primary, without waiting for the other side."""
        here, name = place.host, place.stack
        steps = (
            *drbd_pair.loaded(here, _minor(place), name, self.config(place, _sides(below))),
            Run(here, ("drbdadm", "up", name), undo=("drbdadm", "down", name)),
            *drbd_pair.promoted(here, name),
        )
        return (Stage(PROMOTION, steps),)

    def alone(self, place: Place, below: tuple[Port, ...]) -> tuple[Fact, ...]:
        """No connection, so none of its options; the local disk up to date."""
        name, here = place.stack, place.host
        return (self._options(name, here, net=False, guarded=place.ground.guarded), *_alone(name, here))

    def rejoin(self, place: Place, below: tuple[Port, ...], back: Sequence[str]) -> tuple[Step, ...]:
        """Up on the other node, connected, synchronised; nothing for a mirror that is run alone."""
        if self.standalone:
            return ()
        config = self.config(place, _sides(below))
        name, number = place.stack, _minor(place)
        return drbd_pair.joined(place.host, self.peer, name, number, config, quickly=self._quickly)

    def split_brain(self, place: Place) -> Query:
        """What the kernel said when ``rejoin`` connected the two."""
        return place.host, drbd_pair.ask(_minor(place), "parted", place.stack)

    def comparison(self, place: Place, below: tuple[Port, ...]) -> Comparison | None:
        """``drbdadm verify``, and checksums of the devices below, but for DRBD's notes at their ends."""
        if self.standalone:
            return None
        algorithm = "" if "verify-alg" in self.net else drbd_pair.VERIFY_ALG
        return drbd_pair.compared(
            place.host, place.stack, _minor(place), _sides(below), algorithm=algorithm, quickly=self._quickly
        )

    @property
    def _quickly(self) -> bool:
        """The study's own rates are left as they are."""
        return not drbd_pair.RATES & set(self.disk)

    def config(self, place: Place, sides: Mapping[str, str]) -> str:
        """The resource file, the same on both sides, for either driver."""
        lines = [f"resource {place.stack} {{"]
        # Or whoever opens the device of 9 promotes it.
        given: dict[str, list[str]] = {"options": [f"auto-promote no; {NEWER}"]}
        given["net"], given["disk"] = [f"protocol {self.protocol};"], []
        if place.ground.guarded:
            given["net"] += [f"cram-hmac-alg {HMAC};", f'shared-secret "{access.SECRET}";']
        for section, values in self._sections.items():
            given[section] += [f"{name} {text_of(value)};" for name, value in values.items()]
        for section, each in given.items():
            lines += [f"  {section} {{", *(f"    {line}" for line in each), "  }"]
        for host, device in sides.items():
            address = place.ground.ends[self.link][host].address
            lines += [
                f"  on {place.ground.hostname(host)} {{",
                # The same whichever is the active one: the metadata have it too.
                f"    node-id {sorted(sides).index(host)}; {NEWER}",
                f"    device {numbers.DRBD.path(place.number)} minor {_minor(place)};",
                f"    disk {device};",
                f"    address {address}:{numbers.DRBD_PORT.of(place.number)};",
                "    meta-disk internal;",
                "  }",
            ]
        return "\n".join([*lines, "}", ""])

    def _there_and_back(self, place: Place, host: str, other: str) -> Wait:
        """What was sent over the link before it has arrived."""
        return Wait(host, ("ping", "-q", "-c", "1", "-W", "7", place.ground.ends[self.link][other].address))

    def _states(self, name: str, host: str) -> tuple[Fact, ...]:
        """Asked before and after each workload: a mirror that broke meanwhile was not measured."""
        if self.standalone:
            return _alone(name, host)
        if self.net.get("on-congestion", "block") == "block":
            return (
                _state(host, name, "cstate", "Connected"),
                _state(host, name, "dstate", "UpToDate/UpToDate"),
                # Between the two it may have been alone, and have caught up.
                Fact(
                    host, "drbd", ("drbdadm", "get-gi", name), parse_generation, {GENERATION: UNCHANGED},
                    steady=True,
                ),
            )  # fmt: skip
        # Asked to pull ahead, it may well be ahead, or be catching up.
        return (
            Fact(host, "drbd", ("drbdadm", "cstate", name), parse_lagging, {"connection": "kept"}),
            Fact(host, "drbd", ("drbdadm", "dstate", name), parse_local, {"local disk": "UpToDate"}),
        )

    @property
    def _sections(self) -> dict[str, dict[str, Value]]:
        return {"options": self.options, "net": self.net, "disk": self.disk}

    def _options(self, name: str, host: str, *, net: bool, guarded: bool) -> Fact:
        wanted: dict[str, str] = {"net.protocol": self.protocol} if net else {}
        if net and guarded:
            wanted["net.cram-hmac-alg"] = HMAC
        for section, options in self._sections.items():
            if section == "net" and not net:
                continue
            wanted |= {
                f"{section}.{option}": canonical(text_of(value), bare=BARE.get(option, ""))
                for option, value in options.items()
            }
        return Fact(host, "drbd", ("drbdsetup", "show", name, "--show-defaults"), parse_show, wanted)


def _minor(place: Place) -> int:
    return numbers.DRBD.of(place.number)


def _sides(below: tuple[Port, ...]) -> dict[str, str]:
    """The device below on each host, the active one first."""
    return {port.host: port.where for port in below}


def _alone(name: str, host: str) -> tuple[Fact, Fact]:
    # 9 knows that the other disk is outdated, 8.4 knows nothing of it.
    local = Fact(host, "drbd", ("drbdadm", "dstate", name), parse_local, {"local disk": "UpToDate"})
    return _state(host, name, "cstate", "StandAlone"), local


def _state(host: str, name: str, what: str, wanted: str) -> Fact:
    return Fact(host, "drbd", ("drbdadm", what, name), lambda text: {what: text.strip()}, {what: wanted})


def parse_driver(text: str) -> dict[str, str]:
    """The driver's version, of which there is nothing where it is not loaded."""
    return {"driver": text.strip()} if text.strip() else {}


def parse_generation(text: str) -> dict[str, str]:
    """The UUID of the present data generation, out of all that ``drbdadm get-gi`` tells."""
    # 7B1BB1C040069F29:0000000000000000:0000000000000000:0000000000000000:1:1:1:1:0:0:0
    generation, colon, _ = text.partition(":")
    return {GENERATION: generation.strip()} if colon else {}


def parse_lagging(text: str) -> dict[str, str]:
    """The connection of a mirror that may pull ahead of its peer: ``kept`` in each state that belongs to it. 9
    says ``Connected`` in all of them."""
    state = text.strip()
    return {"cstate": state, "connection": "kept" if state in LAGGING else state}


def parse_local(text: str) -> dict[str, str]:
    """The disk states, and the local one alone: ``UpToDate/Consistent`` while the peer is behind."""
    return {"dstate": text.strip(), "local disk": text.strip().partition("/")[0]}


def parse_show(text: str) -> dict[str, str]:
    """``drbdsetup show`` as ``section.option`` -> value; sections of the hosts (_this_host) are left out."""
    found: dict[str, str] = {}
    sections: list[str] = []
    for raw in text.splitlines():
        line = raw.split("#")[0].strip()
        if line.endswith("{"):
            sections.append(line.removesuffix("{").strip())
        elif line == "}":
            sections.pop()
        elif line.endswith(";") and line[0] != "_" and sections and sections[-1] in ("net", "disk", "options"):
            # "max-buffers \t8000", but "unplug-watermark\t128": a name of 16 letters leaves no blank
            option, *value = line.removesuffix(";").split(maxsplit=1)
            if option in drbd_options.SECRETS:
                continue
            found[f"{sections[-1]}.{option}"] = canonical("".join(value).strip('"'))
    return found
