"""The lab's own floor: what nodes, raw volumes, links and a mirror take when nothing is asked of them.

One lab of two nodes with two stacks, a raw volume and a mirror, for all of it. Each round measures everything
once, so that a disturbance of the machine spoils one round of several and not one value; a value is the median.
"""

from __future__ import annotations

import contextlib
import math
import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from blocklab.errors import KnobError, ParseError
from blocklab.formats.load.fio import report
from blocklab.model.ground import Topology
from blocklab.model.host import must
from blocklab.model.plan import Fact, Run
from blocklab.model.site import Site
from blocklab.model.stop import EACH
from blocklab.model.units import Duration
from blocklab.runner.run import standing
from blocklab.runner.tune import tuned_link
from blocklab.runner.workshop import Standing
from blocklab.store import floor as names
from blocklab.store.floor import METRICS, Floor, machine_of, reading
from blocklab.study.grid import topology
from blocklab.study.links import plan_links
from blocklab.study.phases import TuneLink
from blocklab.study.read import build
from blocklab.study.types import Study

# How a rate differs is looked at over a link of so many ms, in so many runs.
_NOISE_MS, _NOISE_RUNS = 1.0, 6

ROUNDS = 3
SECONDS = 0.5
# No further round is begun that would end later than this: all of it, take-down included, is to take under 60 s.
BUDGET = 55.0

NODE, PEER, LINK = "a1", "a2", "link"
RAW, MIRROR = "raw", "mirror"
_SIZE = 64 * 2**20
# What is written before, and then read and written at random: less than a mirror's device, which is a little
# smaller than its volume. A hole of a sparse file would be faster.
_PART = 48 * 2**20
_RAMDISK = "/dev/ram0"
_RAMDISK_KIB = 16 * 2**10
# Each is two system calls of about 3 us; on a busy machine of 15 us, so that it takes longer than it has to.
_COPIES_PER_SECOND = 60_000

# 30000 bytes (30 kB, 29 KiB) copied, 0.658405 s, 45.6 kB/s
_COPIED = re.compile(r"^(\d+) bytes (?:\(.*\) )?copied, (\d+(?:\.\d+)?(?:e[+-]?\d+)?) s, ", re.MULTILINE)
# cpu  209 0 6 301 0 0 0 0 0 0
#      user nice system idle iowait irq softirq steal guest guest_nice,
# https://man7.org/linux/man-pages/man5/proc_stat.5.html
_CPU = re.compile(r"^cpu +(\d+(?: \d+){7,}) ?$", re.MULTILINE)
_IDLE, _STEAL = 3, 7


def calibrate(
    site: Site,
    *,
    rounds: int = ROUNDS,
    seconds: float = SECONDS,
    budget: float = BUDGET,
    say: Callable[[str], None] = lambda text: None,
) -> Floor:
    """Measure a site's floor on this machine: ``rounds`` times, each I/O pattern for ``seconds``.

    Fewer rounds where they would take longer than ``budget`` seconds together, at least one. ``say`` is told what
    happens. The nodes are taken down whatever happens. Raises ``SetupError``, ``ImageError``, ``HostError``,
    ``KnobError``, ``ParseError``.
    """
    study = _study()
    began, started = time.time(), time.monotonic()
    machine = machine_of(site.environment())
    found: list[dict[str, float]] = []
    say("starting two nodes, a raw volume and a mirror")
    with standing(site, study, [RAW, MIRROR]) as stand:
        ready = time.monotonic() - started
        bench = _Bench(stand, topology(study, [RAW, MIRROR]), seconds)
        bench.prepare()
        longest = 0.0
        while not found or (len(found) < rounds and time.monotonic() - started + longest < budget):
            say(f"round {len(found) + 1} of {rounds}")
            this = time.monotonic()
            found.append(bench.round())
            longest = max(longest, time.monotonic() - this)
    values = {name: reading([each[name] for each in found], unit) for name, (_, unit) in METRICS.items()}
    return Floor(machine, began, time.monotonic() - started, values, ready=ready)


def _study() -> Study:
    """A raw volume, and a mirror with the options that make it fastest, over a link without delay."""
    raw = {"layer": "volume", "size": f"{_SIZE}B"}
    fast = {"disk-flushes": False, "md-flushes": False, "al-extents": 6433}
    mirror = {"layer": "drbd", "peer": PEER, "link": LINK, "disk": fast}
    return build(
        {
            "blocklab": 2, "name": "calibrate", "question": "What does the lab take by itself?",
            "nodes": {NODE: {"memory": "512MiB"}, PEER: {"memory": "256MiB"}},
            "links": {LINK: {"between": [NODE, PEER]}},
            "stacks": {RAW: {"on": NODE, "layers": [raw]}, MIRROR: {"on": NODE, "layers": [raw, mirror]}},
            "workloads": {"io": {"workload": "fio", "size": "16MiB", "jobs": {"w": {"rw": "write"}}}},
        }
    )  # fmt: skip


class _Bench:
    """What is measured on the standing stacks."""

    def __init__(self, stand: Standing, shape: Topology, seconds: float) -> None:
        self._stand = stand
        self._shape = shape
        self._seconds = seconds
        self._host = stand.lab.hosts[NODE]
        self._raw = stand.ports[RAW][-1].where
        self._mirror = stand.ports[MIRROR][-1].where

    def prepare(self) -> None:
        """The knobs checked, a RAM disk made, the devices written once."""
        self._in_force(self._stand.facts[RAW])
        self._in_force(self._stand.facts[MIRROR])
        ram = ("modprobe", "brd", "rd_nr=1", f"rd_size={_RAMDISK_KIB}")
        steps = [Run(NODE, ram, undo=("modprobe", "-r", "brd")), Run(NODE, ("test", "-b", _RAMDISK))]
        for device in (self._raw, self._mirror):
            fill = (f"of={device}", "bs=1M", f"count={_PART // 2**20}", "oflag=direct")
            steps += [Run(NODE, ("test", "-b", device)), Run(NODE, ("dd", "if=/dev/zero", *fill))]
        self._stand.engine.carry_out(steps, "prepare")

    def round(self) -> dict[str, float]:
        """Every value once, by its name, in its unit."""
        before = self._ticks()
        found = {names.SYSCALL: self._system_call()}
        found[names.EMPTY] = self._fio(_RAMDISK, ("read",), (1,))["read.latency"]
        for what, value in self._fio(self._raw, names.WAYS, (1, 32)).items():
            found[f"volume.{what}"] = value
        for what, value in self._fio(self._mirror, ("write",), (1, 32)).items():
            found[f"mirror.{what}"] = value
        found[names.RTT] = self._round_trip()
        for ms in names.DELAYS_MS:
            with self._delayed(ms / 1e3) as taken:
                found[names.delay(ms)] = taken - ms / 1e3
                if ms == _NOISE_MS:
                    found[names.NOISE] = 100 * self._noise()
        for who, after in self._ticks().items():
            found[f"steal.{who}"] = _share(before[who], after, _STEAL)
            found[f"idle.{who}"] = _share(before[who], after, _IDLE)
        return found

    # -- one value ----------------------------------------------------------------------------------------

    def _system_call(self) -> float:
        """Seconds for one: dd reads and writes a byte at a time, and nothing else happens."""
        count = max(1000, round(self._seconds * _COPIES_PER_SECOND))
        argv = ("env", "LC_ALL=C", "dd", "if=/dev/zero", "of=/dev/null", "bs=1", f"count={count}")
        result = self._host.run(argv)
        match = _COPIED.search(result.said)
        if match is None or int(match[1]) != count:
            raise ParseError("dd", f"did not say how long {count} bytes took", result.said)
        return float(match[2]) / count / 2

    def _fio(self, device: str, ways: Sequence[str], depths: Sequence[int]) -> dict[str, float]:
        """``read.latency`` (s), ``read.iops``, ``read.iops.qd32`` (1/s), ... of 4 KiB at random, one by one.

        The engine is that of most studies, so that fio's own part is in both.
        """
        wanted = {f"{way}{depth}": (way, depth) for way in ways for depth in depths}
        found = {}
        for name, done in self._jobs(device, wanted).items():
            way, depth = wanted[name]
            found[f"{way}.iops" + (f".qd{depth}" if depth > 1 else "")] = done.iops
            if depth == 1:
                found[f"{way}.latency"] = done.lat_ns.mean / 1e9
        return found

    def _jobs(self, device: str, wanted: Mapping[str, tuple[str, int]]) -> dict[str, report.Direction]:
        """What fio says of each job, (way, queue depth) by its name, one after the other."""
        size = _RAMDISK_KIB * 2**10 if device == _RAMDISK else _PART
        argv = ["env", "LC_ALL=C", "fio", "--output-format=json", "--eta=never"]
        for name, (way, depth) in wanted.items():
            argv += [
                f"--name={name}", f"--filename={device}", f"--size={size}", f"--rw=rand{way}", "--bs=4k",
                f"--iodepth={depth}", "--ioengine=libaio", "--direct=1", "--time_based",
                f"--runtime={round(self._seconds * 1000)}ms", "--ramp_time=100ms", "--stonewall",
            ]  # fmt: skip
        said = must(self._host, argv)
        jobs = {job.jobname: job for job in report.decode(said).jobs}
        found: dict[str, report.Direction] = {}
        for name, (way, _) in wanted.items():
            done = getattr(jobs[name], way) if name in jobs else None
            if done is None or not done.total_ios:
                raise ParseError("fio", f"job {name} on {device} did no I/O", said)
            found[name] = done
        return found

    def _round_trip(self) -> float:
        """Seconds: the median of the pings that a study's links get."""
        engine = self._stand.engine
        engine.times.clear()
        engine.ask([fact for fact in plan_links(self._shape, self._stand.ground).facts if fact.timed])
        if not engine.times:
            raise ParseError("ping", "no reply", "")
        return next(iter(engine.times.values()))[-1].median

    @contextlib.contextmanager
    def _delayed(self, rtt: float) -> Iterator[float]:
        """The round trip in seconds while the link is asked for ``rtt``, as a study's link is."""
        engine = self._stand.engine
        slow = msgspec.structs.replace(self._shape.links[LINK], rtt=Duration(f"{rtt * 1e3:g}ms"))
        shape, ground = msgspec.structs.replace(self._shape, links={LINK: slow}), self._stand.ground
        plan = plan_links(shape, ground)
        mark = engine.mark()
        try:
            engine.carry_out(plan.steps, "prepare")
            (pings,) = (fact for fact in plan.facts if fact.timed)
            found = tuned_link(engine, ground, TuneLink(LINK, slow, pings)).get(pings.timed)
            if found is None:
                raise ParseError("ping", "no reply", "")
            delays = {LINK: found.added}
            self._in_force(plan_links(shape, msgspec.structs.replace(ground, delays=delays)).facts)
            yield found.reached.median
        finally:
            engine.undo(mark)

    def _noise(self) -> float:
        """By what part the rate of single writes to the mirror differs from one round of a study to the next.

        Of short runs, whose own dice (the spread of n latencies, by root n) are taken off and put back as those
        of a round."""
        runs = [f"write{number}" for number in range(_NOISE_RUNS)]
        jobs = self._jobs(self._mirror, dict.fromkeys(runs, ("write", 1)))
        rates = [job.iops for job in jobs.values()]
        dice = statistics.fmean(
            (job.lat_ns.stddev / job.lat_ns.mean) ** 2 / job.total_ios for job in jobs.values()
        )
        seen = statistics.variance(rates) / statistics.fmean(rates) ** 2
        return math.sqrt(max(0.0, seen - dice) + dice * min(1.0, self._seconds / EACH))

    def _in_force(self, facts: Sequence[Fact]) -> None:
        """Raises ``KnobError`` when something was not set as asked. What is only recorded is not asked for."""
        for knob in self._stand.engine.ask([fact for fact in facts if fact.wanted]):
            if not knob.in_force:
                raise KnobError(knob.host, f"{knob.layer} {knob.name}", str(knob.wanted), knob.value)

    def _ticks(self) -> Mapping[str, tuple[int, ...]]:
        """The CPU's time so far of this machine, all its CPUs together, and of the node."""
        here = Path("/proc/stat").read_text()
        return {"host": _cpu(here), "node": _cpu(must(self._host, ("cat", "/proc/stat")))}


def _cpu(text: str) -> tuple[int, ...]:
    """The first eight fields of the ``cpu`` line, in ticks. Raises ``ParseError``."""
    match = _CPU.search(text)
    if match is None:
        raise ParseError("/proc/stat", "no cpu line of at least 8 numbers", text)
    return tuple(int(field) for field in match[1].split()[:8])


def _share(before: Sequence[int], after: Sequence[int], part: int) -> float:
    """One field's share of the time between two readings, in per cent; 0 where it went back, as iowait may."""
    total = sum(after) - sum(before)
    if total <= 0:
        raise ParseError("/proc/stat", "the CPU time did not advance", f"{before} {after}")
    return 100 * max(0, after[part] - before[part]) / total
