"""Which values are the lab's own and not the layout's: a cell's values against the floor that was measured.

====================  ======================================================================================
value                marked ``limited by the lab`` when
====================  ======================================================================================
read latency, mean    at queue depth 1, at most 1.5 x the raw volume's
write latency, mean   the same; on a mirror at most 1.5 x that of DRBD at RTT 0
read or write IOPS    at least 1/1.5 of the raw volume's, at queue depth 32 (at 1 for a workload of depth 1);
writes on
                      a mirror: of DRBD's at RTT 0. Reads and writes of one workload use up shares of one node
any latency or rate   the active node's CPU was 90 % busy or more
====================  ======================================================================================

The other values of a floor mark nothing. A system call and an empty I/O are parts of a raw volume's; the error of
an emulated delay says how true a round trip is, and steal how much of the machine others had.
"""

from __future__ import annotations

from collections.abc import Iterator

from blocklab.model.metrics import metric as metric_of
from blocklab.stats.format import percent, quantity
from blocklab.store.floor import EMPTY, METRICS, RTT, SYSCALL, Floor, mirror, volume

NEAR = 1.5
# From this share of a node's CPU time on (%), averaged over a phase, the CPU may be the limit.
BUSY = 90.0
LIMITED = "limited by the lab"
# Rounds further apart than this part of their median were not measured on a quiet machine.
UNSTEADY = 0.5
# What others may take of a machine's CPU time (%), its hypervisor (steal) or other programs: by so much an
# emulated time may be wrong, too (``model.stack_map.tolerance``), and a rate that CPUs limit loses as much.
OTHERS = 5.0
# Where nothing tells what others took, a program that waits for a CPU half of the time (%) does, since nodes that
# wait for each other run in turn.
PRESSURE = 50.0
# Units of what may be limited; shares, sizes and counts are not.
_SPEEDS = ("s", "1/s", "1/min", "B/s")


def limited(floor: Floor, kind: str, value: float) -> str | None:
    """Why a value is the lab's own, by the floor's value ``kind`` (a name of ``METRICS``); None when it is not.

    Of a latency (s) at most ``NEAR`` times the floor is, of a rate (1/s) at least the floor / ``NEAR``.
    """
    own = floor.values[kind]
    near = value <= NEAR * own.value if own.unit == "s" else value >= own.value / NEAR
    return _within(_quantity(value, own.unit), floor, kind) if near else None


def reasons(
    floor: Floor | None,
    metric: str,
    value: float,
    unit: str,
    *,
    mirrored: bool = False,
    depth: int | None = None,
    busy: float | None = None,
    other: float = 0.0,
) -> str:
    """Why a workload's own value is limited by the lab, without a full stop; empty if it is not.

    ``metric``, ``value`` and ``unit`` are the sample's; ``mirrored``: the stack has a mirror between two nodes;
    ``depth``: the workload's queue depth (``QueueDepths``), None when it is not known, so that nothing is
    compared; ``busy``: the active node's mean ``cpu.busy`` in that phase (%); ``other``: of a phase that reads and
    writes, the IOPS of the other direction. Without a floor only the CPU is looked at.
    """
    found = [] if floor is None else [_by_floor(floor, metric, value, mirrored, depth, other)]
    if busy is not None and busy >= BUSY and unit in _SPEEDS:
        found.append(f"the node's CPU was {percent(busy / 100)} busy")
    return "; ".join(reason for reason in found if reason)


def _by_floor(
    floor: Floor, metric: str, value: float, mirrored: bool, depth: int | None, other: float
) -> str | None:
    known = metric_of(metric)
    way, what = known.of, known.family
    if what == "latency.mean" and way in ("read", "write") and depth == 1:
        return limited(floor, _kind(way, "latency", 1, mirrored=mirrored), value)
    if what != "iops" or way not in ("read", "write") or depth is None:
        return None
    at = 1 if depth == 1 else 32
    kind = _kind(way, "iops", at, mirrored=mirrored)
    if not other:
        return limited(floor, kind, value)
    beside = _kind("read" if way == "write" else "write", "iops", at, mirrored=mirrored)
    used = value / floor.values[kind].value + other / floor.values[beside].value
    if NEAR * used < 1:
        return None
    here, there = quantity(value, "1/s", "iops"), quantity(other, "1/s", "iops")
    return _within(f"{here} beside {there} of the other direction", floor, kind, beside)


def _kind(way: str, what: str, depth: int, *, mirrored: bool) -> str:
    """The floor that holds. A mirror reads from its own disk."""
    return mirror(what, depth) if mirrored and way == "write" else volume(way, what, depth)


def _quantity(value: float, unit: str) -> str:
    """A value of a floor; all of its rates are of I/Os."""
    return quantity(value, unit, "iops" if unit == "1/s" else "")


def _within(said: str, floor: Floor, *kinds: str) -> str:
    own = " and ".join(
        f"{_quantity(floor.values[kind].value, floor.values[kind].unit)} ({METRICS[kind][0]})" for kind in kinds
    )
    return f"{said} is within {NEAR:g} times the lab's own {own}"


def table(floor: Floor) -> list[tuple[str, str, str]]:
    """What each value is, its value and its spread as people read them, in the order of ``METRICS``; a dash for
    the spread of a single round."""
    rows = []
    for name, (title, _) in METRICS.items():
        own = floor.values[name]
        # Of one round there is none.
        spread = _quantity(own.spread, own.unit) if own.rounds > 1 else "–"
        rows.append((title, _quantity(own.value, own.unit), spread))
    return rows


def caution(floor: Floor) -> str:
    """A sentence on a floor that was measured while others used the machine; empty for a good one."""
    steal = floor.values["steal.host"].value
    vague = [METRICS[name][0] for name in _vague(floor)]
    said = []
    if vague:
        said.append(f"the rounds of {len(vague)} values lie far apart, e.g. of: {vague[0]}")
    if steal > OTHERS:
        said.append(f"{percent(steal / 100)} of this machine's CPU time was taken from it")
    return f"Not measured on a quiet machine: {'; '.join(said)}. Calibrate again when it is idle." if said else ""


def _vague(floor: Floor) -> Iterator[str]:
    """The values that mark cells or are near them, whose rounds lie further apart than they should."""
    for name, own in floor.values.items():
        if (name in (SYSCALL, EMPTY, RTT) or name.startswith(("volume.", "mirror."))) and (
            own.spread > UNSTEADY * own.value
        ):
            yield name
