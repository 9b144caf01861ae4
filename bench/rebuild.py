"""Between two cells: the layout of three nodes and two mirrors built again, and ten warehouses of TPC-C put back.

The ten warehouses take minutes to load, once.
"""

from __future__ import annotations

import sys
import time

from bench.common import PLAIN, mirror, show, study
from blocklab.model.workload import WithData
from blocklab.runner.run import standing
from blocklab.runner.workshop import Standing
from blocklab.sites.uml.site import UmlLab, UmlSite
from blocklab.study.grid import port_for
from blocklab.study.read import build

ROUNDS = 5
SERVER = {
    "layer": "mariadb",
    "settings": {
        "innodb_buffer_pool_size": "1280M", "innodb_log_file_size": "512M", "innodb_flush_method": "O_DIRECT",
    },
}  # fmt: skip


def uml(stand: Standing) -> UmlLab:
    """The lab, with all that it offers."""
    assert isinstance(stand.lab, UmlLab)
    return stand.lab


def mirrors() -> None:
    """Two mirrors of one active node with file systems: undone, volumes emptied, built again."""
    stacks = {
        "near": [PLAIN, mirror("a2", "zone"), {"layer": "xfs"}],
        "far": [PLAIN, mirror("b1", "cross"), {"layer": "xfs"}],
    }
    what = study(stacks, {"zone": ("a2", 0.5), "cross": ("b1", 2.7)})
    whole = []
    with standing(UmlSite(), what, list(stacks)) as stand:
        for _ in range(ROUNDS):
            started = time.monotonic()
            stand.engine.undo()
            uml(stand).restore("")
            again = Standing(stand.lab, what, list(stacks), stand.ground, fresh=False)
            # What was built last is what the end of the block takes down.
            stand.engine = again.engine
            again.build()
            whole.append(time.monotonic() - started)
    show("three nodes, two mirrors with xfs: down and up again", whole, "s", "bound: under 3 s")


def data(warehouses: int) -> None:
    """A database loaded once; its volumes put back and the stack built over them."""
    what = build(
        {
            "blocklab": 2, "name": "bench", "question": "How fast is a restore?",
            "nodes": {"a1": {"memory": "2GiB"}, "a2": {"memory": "384MiB"}},
            "links": {"zone": {"between": ["a1", "a2"], "rtt": "0.5ms"}},
            "stacks": {"m": {"on": "a1", "layers": [
                {"layer": "volume", "size": "3GiB"}, mirror("a2", "zone"), {"layer": "xfs"}, SERVER,
            ]}},
            "workloads": {"tpcc": {"workload": "tpcc", "warehouses": warehouses, "time": "1s"}},
        }
    )  # fmt: skip
    workload = what.workloads["tpcc"]
    assert isinstance(workload, WithData)
    with standing(UmlSite(), what, ["m"]) as stand:
        started = time.monotonic()
        stand.engine.carry_out(workload.data(port_for(workload, stand.ports["m"], stand.ground)), "data")
        show(f"{warehouses} warehouses on MariaDB over a mirror: loaded", [time.monotonic() - started], "s")
        stand.engine.undo()
        started = time.monotonic()
        uml(stand).save("loaded")
        show("copied", [time.monotonic() - started], "s")
        restores, builds = [], []
        for _ in range(ROUNDS):
            started = time.monotonic()
            uml(stand).restore("loaded")
            restores.append(time.monotonic() - started)
            again = Standing(stand.lab, what, ["m"], stand.ground, fresh=False)
            stand.engine = again.engine
            started = time.monotonic()
            again.build(over_data=True)
            builds.append(time.monotonic() - started)
            again.engine.undo()
        show("restored", restores, "s", "bound: under 5 s")
        show("stack built over it (mirror, xfs, MariaDB's recovery)", builds, "s")


if __name__ == "__main__":
    mirrors()
    data(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
