"""What hosts would say, enough for a whole study on the fake site; the tools' outputs are the goldens' own."""

from __future__ import annotations

import copy
import json
import re
import time
from collections.abc import Callable
from pathlib import Path

from blocklab.model.host import Result
from blocklab.model.node_programs import program
from blocklab.model.plan import Argv, Port, Run, Step
from blocklab.probes import sampler
from blocklab.sites.fake import FakeSite, Play
from blocklab.workloads.fio import JOBFILE, Fio
from blocklab_node.drbd import VERSION

GOLDEN = Path(__file__).parents[1] / "unit" / "golden"
SIZE = 512 * 2**20
SETTINGS = {
    "shared_buffers": ["64MB", "8192", "integer", "configuration file", "8kB"],
    "fsync": ["on", "on", "bool", "configuration file", ""],
}
SHOW = b"""resource mirror {
    net {
        protocol        	C; # default
        max-buffers     	8000;
    }
    _this_host {
        volume 0 {
            disk {
                disk-flushes    	no;
            }
        }
    }
}
"""


# No device of the stack among them: fio's values here are always the same, whatever the layers did.
COUNTERS = b"""==> /proc/uptime <==
5.68 0.99

==> /proc/diskstats <==
   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0

==> /proc/net/dev <==
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0

==> /proc/uptime <==
5.69 0.99
"""  # noqa: E501


# What the sampler prints of a node with a mirror, and the seconds of CPU that it takes.
SAMPLES = (GOLDEN / "disks" / "raw.jsonl").read_bytes()
PROBE_CPU = 0.25


LOAD = ("load-the-data",)


class FioWithData(Fio, frozen=True, tag="fio_with_data"):
    """fio as a workload with data of its own."""

    def data(self, port: Port) -> tuple[Step, ...]:
        return (Run(port.host, LOAD),)


class Answers:
    """An answer for each command; ``override`` maps a word of the command line to a ``Result``.

    ``ahead``: by how many seconds the nodes' clocks differ from ours.
    """

    def __init__(self) -> None:
        self.override: dict[str, Result] = {}
        self.ahead = 0.0
        self.mounted: dict[str, str] = {}
        self.delay = 350.0

    def __call__(self, host: str, argv: Argv) -> Result:
        line = " ".join(argv)
        for word, result in self.override.items():
            if word in line:
                return result
        if argv[0] == "mount":
            self.mounted[host] = f"{argv[-2]} {argv[-1]} {argv[2]} rw,noatime,relatime 0 0"
        if argv[:2] == ("tc", "qdisc") and argv[2] in ("add", "change", "replace") and "delay" in argv:
            self.delay = float(argv[argv.index("delay") + 1].removesuffix("us"))
        said = self._said(host, argv, line)
        # The probes print until they get SIGINT.
        return Play(0, said, b"", cpu=PROBE_CPU) if argv == sampler(1) else Result(0, said, b"")

    def _said(self, host: str, argv: Argv, line: str) -> bytes:  # noqa: C901  # one line for each command
        if argv[0] == "tail":
            return COUNTERS
        if argv[0] == "blockdev":
            return f"{SIZE}\n".encode()
        if argv[:2] == ("cat", "/proc/mounts"):
            return self.mounted.get(host, "").encode()
        if argv[:2] == ("drbdadm", "cstate"):
            return b"Connected\n"
        if argv[:2] == ("drbdadm", "dstate"):
            return b"UpToDate/UpToDate\n"
        if argv == ("cat", VERSION):
            return b"8.4.11\n"
        if argv[:2] == ("drbdadm", "get-gi"):
            return (GOLDEN / "knobs" / "drbdadm-get-gi").read_bytes()
        if argv[0] == "drbdsetup":
            return SHOW
        if argv[:3] == ("ip", "-j", "link"):
            return b'[{"ifname":"vec0","mtu":1500}]'
        if argv[:2] == ("tc", "-j"):
            delay = {"delay": self.delay / 1e6, "jitter": 0}
            return json.dumps([{"kind": "netem", "options": {"limit": 100000, "delay": delay}}]).encode()
        if argv[:4] == program("latency"):
            return b"452.1\n" * 40
        if argv[0] == "ping":
            took = 0.15 + self.delay / 1e3
            return b"".join(
                b"4104 bytes from 10.77.1.2: icmp_seq=%d ttl=64 time=%.3f ms\n" % (n, took) for n in range(20)
            )
        if "json_object_agg" in line:
            return json.dumps(SETTINGS).encode()
        if argv[0] == "date":
            return f"{time.time() + self.ahead:.9f}\n".encode()
        if "--output-format=json+" in argv:
            return (GOLDEN / "fio" / "stdout").read_bytes()
        if argv[0] == "ls":
            return "\n".join(log.name for log in sorted((GOLDEN / "fio").glob("*.log"))).encode()
        if argv[0] == "get":
            return (GOLDEN / "fio" / Path(argv[1]).name).read_bytes()
        if argv == sampler(1):
            return SAMPLES
        return b""


Rate = Callable[[str, int], float]
"""A fio job's name, and which of its runs it is (from 1) -> its IOPS."""


class Fios(Answers):
    """Hosts with a fio that obeys its job file: each job writes 4 KiB blocks at the ``rate`` given for its run.

    ``runs`` is what it was asked to run, each as (job, seconds). ``instead`` maps a job and the number of its run
    to another answer. ``counters`` names the golden files that the kernels print before and after each run.
    """

    def __init__(self, rate: Rate = lambda job, number: 1000.0) -> None:
        super().__init__()
        self.site = FakeSite(self)
        self.rate = rate
        self.runs: list[tuple[str, int]] = []
        self.instead: dict[tuple[str, int], Result | Callable[[], Result]] = {}
        self.counters: tuple[str, str] | None = None
        self._asked: dict[str, int] = {}

    def __call__(self, host: str, argv: Argv) -> Result:
        if "--output-format=json+" in argv:
            return self._fio(host)
        if argv[0] == "tail" and self.counters and not self.override.get("tail"):
            self._asked[host] = self._asked.get(host, 0) + 1
            name = self.counters[(self._asked[host] - 1) % 2]
            return Result(0, (GOLDEN / "counters" / f"{name}.{host}").read_bytes(), b"")
        # It leaves no logs.
        return Result(0, b"", b"") if argv[0] == "ls" else super().__call__(host, argv)

    def jobs(self) -> list[str]:
        """The names of the jobs that were run, in order."""
        return [job for job, _ in self.runs]

    def _fio(self, host: str) -> Result:
        made = self.site.labs[-1].hosts[host].get(JOBFILE).decode()
        found = []
        shared: dict[str, str] = {}
        # [randwrite-4k-qd8]
        for job, text in re.findall(r"^\[(.+)\]\n((?:[^\[].*\n)*)", made, re.MULTILINE):
            options = shared | dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
            if job == "global":
                shared = options
                continue
            self.runs.append((job, int(options["runtime"])))
            number = self.jobs().count(job)
            if (job, number) in self.instead:
                other = self.instead[job, number]
                return other if isinstance(other, Result) else other()
            found.append(job_output(job, self.rate(job, number), int(options["runtime"])))
        return Result(0, json.dumps({"jobs": found}).encode(), b"")


_WROTE = json.loads((GOLDEN / "fio" / "stdout").read_bytes())["jobs"][2]


def job_output(job: str, iops: float, seconds: int) -> dict[str, object]:
    """The golden output of a job that writes 4 KiB blocks, at another rate."""
    output: dict[str, object] = copy.deepcopy(_WROTE) | {"jobname": job}
    ios = round(iops * seconds)
    output["write"] = {
        **_WROTE["write"], "iops": iops, "total_ios": ios, "io_bytes": 4096 * ios, "bw_bytes": 4096 * iops,
        "runtime": 1000 * seconds,
    }  # fmt: skip
    return output
