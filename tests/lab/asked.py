"""Databases on real nodes, asked and filled."""

from __future__ import annotations

from typing import Any

import msgspec

from blocklab.model.access import mysql_client
from blocklab.model.dsn import Dsn
from blocklab.model.host import Host, must
from blocklab.model.programs import AS_POSTGRES
from blocklab.runner.measure import not_in_force
from blocklab.runner.workshop import Standing
from blocklab.study.read import build
from blocklab.study.types import Study
from blocklab.workloads import Pgbench
from tests.lab.states import state
from tests.uml import uml


def study_of(small: dict[str, Any], stacks: dict[str, list[dict[str, Any]]], client: str = "a2") -> Study:
    """Stacks on a1, and a workload on ``client``."""
    small["nodes"]["a1"]["memory"] = "768MiB"
    small["stacks"] = {name: {"on": "a1", "layers": layers} for name, layers in stacks.items()}
    small["baseline"] = next(iter(stacks))
    small["workloads"] = {"io": small["workloads"]["io"]}
    del small["links"]["cross"]
    # A checked study has no workload that only one of its stacks can take.
    workloads = {"far": Pgbench(client=client)} if client else {}
    study = build(small)
    return msgspec.structs.replace(study, workloads={**study.workloads, **workloads})


def ask(host: Host, where: str, text: str) -> str:
    """What a database answers to one statement."""
    dsn = Dsn.of(where)
    if dsn.scheme == "postgresql":
        return must(host, [*AS_POSTGRES, "psql", "-X", "-A", "-t", "-d", where, "-c", text]).strip()
    reach = f"--socket={dsn.socket}" if dsn.socket else f"--host={dsn.host}"
    flags = ["--batch", "--skip-column-names", f"--user={dsn.user}", f"--port={dsn.port}", reach]
    return must(host, [*mysql_client(""), *flags, f"--execute={text}", dsn.database]).strip()


def seen_from_afar(stand: Standing, stack: str) -> str:
    """The database's address on the other node."""
    address = stand.ground.ends["zone"]["a1"].address
    return str(Dsn.of(stand.ports[stack][-1].where).at(address))


def filled(stand: Standing, stack: str) -> None:
    """A table is made on the node itself and filled from the other one, over TCP."""
    ask(stand.lab.hosts["a1"], stand.ports[stack][-1].where, "CREATE TABLE t (i INT PRIMARY KEY)")
    for i in range(3):
        ask(stand.lab.hosts["a2"], seen_from_afar(stand, stack), f"INSERT INTO t VALUES ({i})")


def built_again_over_their_data(stand: Standing, study: Study, stacks: list[str]) -> None:
    """Taken down without a residue, copied, wiped, put back: what was committed is there."""
    here = stand.lab.hosts["a1"]
    stand.engine.undo()
    assert stand.engine.warnings == []
    after = state(here)
    assert not [line for line in after["mounts"].splitlines() if line.split()[1] in map("/mnt/{}".format, stacks)]
    assert not [name for name in after["processes"].split() if name in ("mariadbd", "mysqld", "postgres")]
    uml(stand).save("data")
    uml(stand).restore("")
    uml(stand).restore("data")
    second = Standing(stand.lab, study, stacks, stand.ground, fresh=False)
    second.build(over_data=True)
    for name in stacks:
        assert ask(here, second.ports[name][-1].where, "SELECT sum(i) FROM t") == "3"
        ask(stand.lab.hosts["a2"], seen_from_afar(second, name), "INSERT INTO t VALUES (10)")
        assert not not_in_force(second.engine.ask(second.facts[name]))
    second.engine.undo()
    assert second.engine.warnings == []
