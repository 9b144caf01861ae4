"""What the control channel costs: an empty command, and ten megabytes of output."""

from __future__ import annotations

import subprocess
import time

from bench.common import PLAIN, show, study
from blocklab.runner.run import standing
from blocklab.sites.uml.site import UmlSite


def main() -> None:
    """Beside the same on this machine itself, which is the floor."""
    floor, there, output = [], [], []
    with standing(UmlSite(), study({"v": [PLAIN]}, {}), ["v"]) as stand:
        host = stand.lab.hosts["a1"]
        for _ in range(200):
            started = time.perf_counter()
            host.run(["/bin/true"])
            there.append((time.perf_counter() - started) * 1e3)
            started = time.perf_counter()
            subprocess.run(["/bin/true"], check=True)
            floor.append((time.perf_counter() - started) * 1e3)
        host.run(["dd", "if=/dev/urandom", "of=/tmp/10M", "bs=1M", "count=10"])
        for _ in range(5):
            started = time.perf_counter()
            assert len(host.run(["cat", "/tmp/10M"]).out) == 10 * 2**20
            output.append(time.perf_counter() - started)
    show("/bin/true on this machine (the floor)", floor, "ms")
    show("/bin/true in a node", there, "ms", "bound: under 5 ms")
    show("10 MiB of output", output, "s", "bound: under 1 s")


if __name__ == "__main__":
    main()
