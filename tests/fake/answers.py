"""What hosts would say, enough for a whole study on the fake site; the tools' outputs are the goldens' own."""

from __future__ import annotations

import json
from pathlib import Path

from blocklab.model.host import Result
from blocklab.model.plan import Argv

GOLDEN = Path(__file__).parents[1] / "unit" / "golden"
SIZE = 512 * 2**20
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


# No device of the stack among them: fio's figures here are always the same, whatever the layers did.
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
"""


class Answers:
    """An answer for each command; ``override`` maps a word of the command line to a ``Result``."""

    def __init__(self) -> None:
        self.override: dict[str, Result] = {}
        self.mounted: dict[str, str] = {}
        self.delay = 350.0

    def __call__(self, host: str, argv: Argv) -> Result:
        line = " ".join(argv)
        for word, result in self.override.items():
            if word in line:
                return result
        if argv[0] == "mount":
            self.mounted[host] = f"{argv[-2]} {argv[-1]} {argv[2]} rw,noatime,relatime 0 0"
        if argv[:3] == ("tc", "qdisc", "add") and "delay" in argv:
            self.delay = float(argv[argv.index("delay") + 1].removesuffix("us"))
        return Result(0, self._said(host, argv, line), b"")

    def _said(self, host: str, argv: Argv, line: str) -> bytes:  # noqa: C901  # one line for each command
        if argv[0] == "tail":
            return COUNTERS
        if argv[0] == "blockdev":
            return f"{SIZE}\n".encode()
        if line == "cat /proc/mounts":
            return self.mounted.get(host, "").encode()
        if argv[:2] == ("drbdadm", "role"):
            return b"Secondary/Secondary\n"
        if argv[:2] == ("drbdadm", "cstate"):
            return b"Connected\n"
        if argv[:2] == ("drbdadm", "dstate"):
            return b"UpToDate/UpToDate\n"
        if argv[0] == "drbdsetup":
            return SHOW
        if argv[:3] == ("ip", "-j", "link"):
            return b'[{"ifname":"vec0","mtu":1500}]'
        if argv[:2] == ("tc", "-j"):
            delay = {"delay": self.delay / 1e6, "jitter": 0}
            return json.dumps([{"kind": "netem", "options": {"limit": 100000, "delay": delay}}]).encode()
        if argv[0] == "ping":
            return b"rtt min/avg/max/mdev = 0.450/0.501/0.611/0.020 ms\n"
        if "json_object_agg" in line:
            return json.dumps({"shared_buffers": "64MB", "fsync": "on"}).encode()
        if argv[0] == "date":
            return b"1700000000.0\n"
        if "--output-format=json" in argv:
            return (GOLDEN / "fio" / "stdout").read_bytes()
        if argv[0] == "ls":
            return "\n".join(log.name for log in sorted((GOLDEN / "fio").glob("*.log"))).encode()
        if argv[0] == "get":
            return (GOLDEN / "fio" / Path(argv[1]).name).read_bytes()
        if "iostat" in argv:
            return (GOLDEN / "iostat" / "stopped.json").read_bytes()
        return b""
