"""Every metric: its unit, what kind of value it is, how several values become one, and how it is shown.

A metric's name is ``FAMILY`` or ``OF.FAMILY``: ``tps``, ``read.latency.p99``, ``new_order.count``. Only this
module takes names apart.
"""

from __future__ import annotations

import functools
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import msgspec

MetricKind = Literal["rate", "mean", "percentile", "extreme", "deviation", "counter", "share", "gauge"]
"""``rate``: events or bytes in a time. ``mean``: of a time that events took. ``extreme``: the least or the most.
``counter``: events or bytes of the whole phase. ``share``: in %. ``gauge``: any other value, a queue's length."""

LAYER = "layer"
"""What the kernel's counts at the layers of a stack are of: ``layer.write.bytes``. See ``judge.crosscheck``."""
STEADY = ".steady"
"""Behind the name of a rate: that of its time series without the warm-up, where somebody else's tool has counted a
total that is another number: ``tps.steady``. See ``stats.values``."""
WAYS = ("read", "write", "trim", "sync")
NETWORK = ("rx", "tx")
# iostat prints the time of a report without its fraction of a second. In run folders of before the probe disks it
# was started just after a whole second, and drifted by a few ms a second.
IOSTAT_SLACK = 0.2
_PERCENTILE = re.compile(r"latency\.p\d+(\.\d+)?")  # latency.p99.9


class Metric(msgspec.Struct, frozen=True):
    """What is known of a metric. ``of`` is what ``family`` is a value of: a direction (``read``), a type of
    transaction (``new_order``), or empty; ``before`` is what it may be, None for anything.

    ``label``: what users call its values (``TPS``); empty for that of the unit. ``title`` heads a table's column.
    ``headline``: the rank of a workload's metrics that users quote, 1 first; 0 for all others. ``late``: by how
    many seconds at most a point of its time series may be later than it says. ``weight``: the family whose values
    weigh those of a time series. ``amount``: the family that counts what this is a rate of. ``share_of``: the
    metric of which it is a fixed share. ``goes_with``: the family that it follows within one run.
    """

    family: str
    unit: str
    kind: MetricKind
    before: tuple[str, ...] | None = ("",)
    label: str = ""
    title: str = ""
    headline: int = 0
    late: float = 0.0
    weight: str = ""
    amount: str = ""
    share_of: str = ""
    goes_with: str = ""
    of: str = ""

    @property
    def name(self) -> str:
        """Its whole name."""
        return self.beside(self.family)

    @property
    def transactions(self) -> bool:
        """Whether it is a database's throughput."""
        return self.headline in (1, 2)

    @property
    def averaged(self) -> bool:
        """Whether it is the mean of its time series."""
        return self.kind in ("rate", "mean", "share", "gauge")

    @property
    def countable(self) -> bool:
        """Whether a run without it had 0 of it: nothing was read, so there is no rate of reads."""
        return self.kind in ("rate", "counter")

    @property
    def together(self) -> Callable[[Sequence[float]], float]:
        """Makes one value of those of several rounds, which take equally long. A percentile is the mean of the
        rounds' percentiles where nothing better is known (``judge.rounds``)."""
        if self.kind == "counter":
            return sum
        if self.kind == "extreme":
            return min if self.family.endswith("min") else max
        return statistics.fmean

    @property
    def counted(self) -> bool:
        """Whether the kernel counted it at a layer, rather than the workload itself."""
        return self.of == LAYER

    @property
    def words(self) -> str:
        """Its name in words: ``new order latency p99``."""
        return self.name.replace(".", " ").replace("_", " ")

    def beside(self, family: str) -> str:
        """The name of another family's metric of the same: of ``read.iops`` that of ``read.latency.p99``."""
        return f"{self.of}.{family}" if self.of else family


_BLOCK = ("", *WAYS, "flush", "disk.read", "disk.write")
_FAMILIES: tuple[Metric, ...] = (
    # what workloads report, the headlines first
    Metric("tpmc", "1/min", "rate", label="tpmC", title="tpmC", headline=1, share_of="tps"),
    Metric("nopm", "1/min", "rate", label="NOPM", title="NOPM", headline=1),
    Metric("tps", "1/s", "rate", label="TPS", title="TPS", headline=2),
    Metric("iops", "1/s", "rate", _BLOCK, label="IOPS", title="IOPS", headline=3, amount="ios", late=IOSTAT_SLACK),
    Metric("bandwidth", "B/s", "rate", _BLOCK, title="MB/s", headline=4, amount="bytes", goes_with="iops",
           late=IOSTAT_SLACK),
    Metric("qps", "1/s", "rate"),
    Metric("latency.mean", "s", "mean", None, title="latency, mean, ms"),
    *(Metric(f"{part}.mean", "s", "mean", WAYS) for part in ("clat", "slat")),
    Metric("latency.stddev", "s", "deviation", None),
    Metric("latency.min", "s", "extreme", None),
    Metric("latency.max", "s", "extreme", None),
    Metric("bytes", "B", "counter", WAYS),
    Metric("ios", "1", "counter", WAYS),
    Metric("count", "1", "counter", None),
    Metric("transactions", "1", "counter"),
    Metric("errors", "1", "counter"),
    Metric("failed", "1", "counter", title="failed transactions"),
    *(Metric(name, "1", "counter") for name in (
        "skipped", "retried", "retries", "reconnects", "unfinished", "acknowledged", "refused", "in_doubt",
        "deadlocks", "checkpoints",
    )),
    Metric("connect", "s", "mean"),
    Metric("lag.mean", "s", "mean"),
    Metric("lag.max", "s", "extreme"),
    Metric("late.max", "s", "extreme"),
    Metric("seconds", "s", "gauge"),
    Metric("dirty", "B", "gauge"),
    # database servers
    Metric("commit.group", "1", "gauge", title="commits in a group"),
    Metric("lock.waits", "1/s", "rate", title="lock waits"),
    Metric("lock.wait.time", "s", "mean"),
    *(Metric(name, "1/s", "rate") for name in ("commits", "fsyncs", "log.syncs")),
    Metric("log.bytes", "B/s", "rate"),
    # probes
    Metric("await", "s", "mean", _BLOCK, title="await", weight="iops", late=IOSTAT_SLACK),
    Metric("queue", "1", "gauge", late=IOSTAT_SLACK),
    Metric("util", "%", "share", late=IOSTAT_SLACK),
    *(Metric(f"cpu.{name}", "%", "share") for name in (
        "user", "system", "softirq", "iowait", "steal", "idle", "busy", "own",
    )),
    Metric("bandwidth", "B/s", "rate", NETWORK),
    Metric("packets", "1/s", "rate", NETWORK),
    Metric("drops", "1/s", "rate", NETWORK),
    *(Metric(name, "B/s", "rate") for name in ("net.send", "net.receive", "disk.read", "disk.write")),
    *(Metric(name, "1/s", "rate") for name in ("al.updates", "bm.updates")),
    *(Metric(name, "1", "gauge") for name in (
        "local", "pending", "unacknowledged", "application", "epochs", "connected", "primary", "uptodate",
        "peer.uptodate",
    )),
    Metric("out-of-sync", "B", "gauge"),
    # what the kernel counted at each layer
    *(Metric(name, "B", "counter", (LAYER,)) for name in (
        "read.bytes", "write.bytes", "discard.bytes", "net.sent.bytes", "net.received.bytes", "disk.read.bytes",
        "disk.write.bytes", "rx.bytes", "tx.bytes",
    )),
    *(Metric(name, "1", "counter", (LAYER,)) for name in (
        "reads", "writes", "flushes", "al.updates", "bm.updates", "rx.packets", "tx.packets",
    )),
    *(Metric(name, "1", "gauge", (LAYER,)) for name in (
        "wire.per.byte", "write.amplification", "flushes.per.transaction",
    )),
)  # fmt: skip
_TITLES = {f"latency.p{rank}": f"latency, p{rank}, ms" for rank in ("50", "95", "99")}


@functools.cache
def known(name: str) -> Metric | None:
    """The metric of that name; None for one that this registry does not have."""
    if name.endswith(STEADY):
        whole = known(name.removesuffix(STEADY))
        return _steady(whole) if whole is not None and whole.kind == "rate" else None
    for of, family in _splits(name):
        for each in _FAMILIES:
            if each.family == family and (each.before is None or of in each.before):
                return msgspec.structs.replace(each, of=of)
        if _PERCENTILE.fullmatch(family):
            return Metric(family, "s", "percentile", None, title=_TITLES.get(family, ""), of=of)
    return None


def families() -> frozenset[str]:
    """The last parts of metrics' names, whatever they are of: ``latency.p99``, ``bandwidth``."""
    return frozenset({each.family for each in _FAMILIES} | {f"latency.p{rank}" for rank in ("50", "95", "99")})


def each_of(ways: Iterable[str], names: Iterable[str]) -> tuple[str, ...]:
    """The families ``names`` of each of these ways: ``read.iops``, ``write.iops``."""
    listed = tuple(names)
    return tuple(f"{way}.{family}" for way in ways for family in listed)


def _steady(whole: Metric) -> Metric:
    """It goes beside the whole, in whose place it is never quoted."""
    return msgspec.structs.replace(
        whole, family=f"{whole.family}{STEADY}", title="", headline=0, amount="", share_of="", goes_with=""
    )


def _splits(name: str) -> Iterable[tuple[str, str]]:
    """(of, family): the longest family first, so that ``disk.read`` is no ``read``."""
    yield "", name
    parts = name.split(".")
    for at in range(1, len(parts)):
        yield ".".join(parts[:at]), ".".join(parts[at:])


@functools.cache
def metric(name: str) -> Metric:
    """The metric of that name. One that this registry does not have, of a workload that is not blocklab's, is a
    gauge, whose unit its samples know."""
    return known(name) or Metric(name, "", "gauge")


def quoted(names: Iterable[str]) -> list[str]:
    """Of a workload's metrics those that users quote: tpmC or TPS, else IOPS, else MB/s, of every direction."""
    found = [metric(name) for name in dict.fromkeys(names)]
    first = min((each.headline for each in found if each.headline), default=0)
    return [each.name for each in found if first and each.headline == first]
