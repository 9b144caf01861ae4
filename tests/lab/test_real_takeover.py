"""Takeovers on real nodes: the active node dies, the survivor goes on, the old one comes back, both are equal.

And the contrary of each: differences that are planted, sides that part.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pytest

from blocklab.errors import CommandError, NodeLost, SetupError
from blocklab.model import node_programs
from blocklab.model.access import mysql_client
from blocklab.model.dsn import Dsn
from blocklab.model.host import Host, must
from blocklab.model.plan import Power, undo_of
from blocklab.model.programs import AS_POSTGRES
from blocklab.model.spans import Comparison
from blocklab.runner.measure import not_in_force
from blocklab.runner.run import standing
from blocklab.runner.workshop import Standing
from blocklab.sites.uml.site import UmlLab, UmlSite
from blocklab.study import takeover as recipes
from blocklab.study.grid import plan_stack, topology
from blocklab.study.read import build
from blocklab.study.types import Study

pytestmark = pytest.mark.long

VOLUME = {"layer": "volume", "size": "512MiB"}
FAST = {"fsync": True, "shared_buffers": "32MB"}
DRBD: list[dict[str, Any]] = [
    VOLUME, {"layer": "drbd", "peer": "a2", "link": "zone"}, {"layer": "ext4"},
    {"layer": "postgres", "settings": FAST},
]  # fmt: skip
SHARED: list[dict[str, Any]] = [
    # The guard's holds and the stripe are mappings of the same kernel.
    {**VOLUME, "size": "256MiB", "count": 2}, {"layer": "shared", "peer": "a2"}, {"layer": "lvm-stripe"},
    {"layer": "xfs"}, {"layer": "postgres", "settings": FAST},
]  # fmt: skip
NET: list[dict[str, Any]] = [
    VOLUME, {"layer": "net-mirror", "peer": "a2", "link": "zone", "timeout": "2s"}, {"layer": "xfs"},
    {"layer": "mariadb", "settings": {"innodb_buffer_pool_size": "64M", "innodb_log_file_size": "16M"}},
]  # fmt: skip
# Without a database, and soon copied.
LITTLE = {
    name: [{**VOLUME, "size": "128MiB"}, layers[1], {"layer": "ext4"}]
    for name, layers in (("drbd", DRBD), ("net_mirror", NET))
}
DIRECT = [NET[0], {**NET[1], "direct": True}, *NET[2:]]
CRYPT = {"layer": "crypt"}
STACKS = {
    "drbd": DRBD, "shared": SHARED, "net_mirror": NET, "net_mirror_direct": DIRECT,
    "crypt_over_drbd": [*DRBD[:2], CRYPT, *DRBD[2:]], "drbd_over_crypt": [DRBD[0], CRYPT, *DRBD[1:]],
    "net_mirror_over_crypt": [NET[0], CRYPT, *NET[1:]],
}  # fmt: skip


class Drill:
    """A stack on its nodes, and which node it is active on now."""

    def __init__(self, study: Study, stand: Standing) -> None:
        self.study = study
        self.now = study
        self.stand = stand
        self.engine = stand.engine
        self.where = stand.ports["one"][-1].where
        self.shape = topology(study, ["one"])
        self.seconds: dict[str, float] = {}

    @property
    def active(self) -> str:
        return self.now.stacks["one"].on

    @property
    def host(self) -> Host:
        return self.stand.lab.hosts[self.active]

    @contextlib.contextmanager
    def timed(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - started, 2)
        print(f"{name}: {self.seconds[name]} s")

    def power(self, host: str, *whats: str) -> None:
        for what in whats:
            with self.timed(f"{what} {host}"):
                self.engine.carry_out([Power(host, what)], "drill")  # type: ignore[arg-type]

    def take_over(self) -> None:
        """The survivor's turn; what then has to hold, holds."""
        recipe = recipes.takeover(self.now, "one", 0, self.stand.ground)
        for stage in recipe.stages:
            with self.timed(stage.name):
                self.engine.carry_out(stage.steps, "takeover")
        self.now = recipes.failed_over(self.now, "one")
        assert self.active == recipe.survivor
        assert recipe.plan.ports[-1].where == self.where
        self.in_force(recipe.plan.facts)

    def in_force(self, facts: Any) -> None:
        knobs = self.engine.ask(facts)
        assert knobs and not not_in_force(knobs), not_in_force(knobs)
        assert self.engine.warnings == []

    def back(self, host: str) -> None:
        """A dead node boots, up to where it can be taken in."""
        self.power(host, "boot")
        steps = recipes.ground_steps(self.shape, self.stand.ground, host)
        self.engine.carry_out(steps + recipes.revive(self.now, "one", 0, self.stand.ground, host), "drill")

    def rejoin(self) -> None:
        with self.timed("rejoin"):
            self.engine.carry_out(recipes.rejoin(self.now, "one", 0, self.stand.ground), "drill")

    def whole(self) -> None:
        """All that the study says of the stack, as it is now, is in force again."""
        self.in_force(plan_stack(self.now, "one", 0, self.stand.ground).facts)

    def compared(self) -> tuple[int, int]:
        """How many bytes the mirror found to differ, and how many different copies there are."""
        twins = recipes.comparison(self.now, "one", 0, self.stand.ground)
        assert isinstance(twins, Comparison) and twins.differ
        with self.timed("verify"):
            self.engine.carry_out(twins.settle + twins.verify, "drill")
        host, argv = twins.differ
        differ = int(must(self.stand.lab.hosts[host], argv))
        with self.timed("checksums"):
            sums = {must(self.stand.lab.hosts[at], argv, timeout=120) for at, argv in twins.copies.items()}
        assert len(twins.copies) == 2 and all(len(each.strip()) == 64 for each in sums)
        return differ, len(sums)

    def parted(self) -> str:
        where = recipes.split_brain(self.now, "one", 0, self.stand.ground)
        assert where is not None
        return must(self.stand.lab.hosts[where[0]], where[1])

    # -- the database ------------------------------------------------------------------------------------------

    def sql(self, text: str) -> str:
        dsn = Dsn.of(self.where)
        if dsn.scheme == "postgresql":
            argv = [*AS_POSTGRES, "psql", "-X", "-q", "-A", "-t", "-d", self.where, "-c", text]
        else:
            argv = [*mysql_client(""), f"--user={dsn.user}", f"--socket={dsn.socket}", "--batch",
                    "--skip-column-names", f"--execute={text}", dsn.database]  # fmt: skip
        return must(self.host, argv).strip()

    def write(self, count: int = 200) -> None:
        """Rows, a commit each."""
        for _ in range(4):
            self.sql(f"INSERT INTO t SELECT i + {self.rows()} FROM s WHERE i <= {count // 4}")

    def rows(self) -> int:
        return int(self.sql("SELECT count(*) FROM t"))

    def prepare(self) -> None:
        self.sql("CREATE TABLE s (i int); CREATE TABLE t (i int PRIMARY KEY)")
        self.sql("INSERT INTO s VALUES " + ",".join(f"({i})" for i in range(1, 101)))
        self.write()

    def close(self) -> None:
        """Nothing above the mirror is in use any more."""
        stages = recipes.restart(self.now, "one", 0, self.stand.ground)
        steps = [step for stage in stages if stage.name in ("mount", "recovery") for step in stage.steps]
        for step in reversed(steps):
            if undo := undo_of(step):
                must(self.host, undo)


@contextlib.contextmanager
def drill(small: dict[str, Any], layers: list[dict[str, Any]]) -> Iterator[Drill]:
    small["stacks"] = {"one": {"on": "a1", "layers": layers}}
    small["baseline"] = "one"
    small["workloads"] = {"io": {**small["workloads"]["io"], "size": "16MiB"}}
    study = build(small)
    with standing(UmlSite(), study, ["one"]) as stand:
        yield Drill(study, stand)


# -- takeovers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STACKS)
def test_the_survivor_takes_over_and_the_old_node_comes_back(small: dict[str, Any], name: str) -> None:
    with drill(small, STACKS[name]) as it:
        it.prepare()
        written = it.rows()
        it.power("a1", "crash")
        it.take_over()
        assert it.rows() == written
        it.write()
        it.back("a1")
        it.rejoin()
        it.whole()
        it.write()
        written = it.rows()
        # The other way round: the old node has what was written without it.
        it.power("a2", "crash")
        it.take_over()
        assert it.active == "a1" and it.rows() == written
        it.back("a2")
        it.rejoin()
        it.whole()
        if name != "shared":
            assert it.parted() == ""
            it.close()
            assert it.compared() == (0, 1)


@pytest.mark.parametrize("name", LITTLE)
def test_a_planted_difference_is_found(small: dict[str, Any], name: str) -> None:
    with drill(small, LITTLE[name]) as it:
        must(it.host, ["dd", "if=/dev/urandom", f"of={it.where}/file", "bs=1M", "count=4", "conv=fsync"])
        it.power("a1", "crash")
        it.take_over()
        it.back("a1")
        it.rejoin()
        it.close()
        # On the side that is not active, past the mirror.
        device = it.stand.ground.devices["one"]["a1"][0]
        planted = ["dd", "if=/dev/urandom", f"of={device}", "bs=4k", "count=1", "seek=20000", "oflag=direct"]
        must(it.stand.lab.hosts["a1"], planted)
        differ, copies = it.compared()
        assert differ >= 4096 and copies == 2


@pytest.mark.parametrize("name", LITTLE)
def test_the_peer_dies_and_returns(small: dict[str, Any], name: str) -> None:
    with drill(small, LITTLE[name]) as it:
        must(it.host, ["dd", "if=/dev/urandom", f"of={it.where}/file", "bs=1M", "count=4", "conv=fsync"])
        # Not flushed, so perhaps in the memory only of the node that dies.
        must(it.host, ["dd", "if=/dev/urandom", f"of={it.where}/more", "bs=1M", "count=4", "oflag=direct"])
        it.power("a2", "crash")
        must(it.host, ["dd", "if=/dev/urandom", f"of={it.where}/alone", "bs=1M", "count=4", "conv=fsync"])
        it.back("a2")
        it.rejoin()
        it.whole()
        assert it.parted() == ""
        must(it.host, ["sync"])
        assert it.compared() == (0, 1)
        it.engine.undo()
        assert it.engine.warnings == []


@pytest.mark.parametrize("name", LITTLE)
def test_sides_that_were_written_to_apart_are_told(small: dict[str, Any], name: str) -> None:
    with drill(small, LITTLE[name]) as it:
        old = it.stand.lab.hosts["a1"]
        it.power("a1", "freeze")
        it.take_over()
        # Nobody fenced it.
        it.power("a1", "thaw")
        for host in (it.host, old):
            host.put(f"{it.where}/apart", host.name.encode() * 50_000)
            must(host, ["sync", "--file-system", it.where], timeout=60)
        with pytest.raises(CommandError, match="split brain"):
            it.rejoin()
        assert it.parted() != ""
        # Nothing was discarded.
        for host in (it.host, old):
            must(host, ["umount", it.where])
            must(host, ["mount", ("/dev/drbd0" if name == "drbd" else "/dev/md300"), it.where])
            assert host.get(f"{it.where}/apart") == host.name.encode() * 50_000


@pytest.mark.parametrize("name", STACKS)
def test_all_nodes_lose_their_power_and_start_again(small: dict[str, Any], name: str) -> None:
    with drill(small, STACKS[name]) as it:
        it.prepare()
        written = it.rows()
        for host in ("a1", "a2"):
            it.power(host, "crash")
        for host in ("a1", "a2"):
            it.power(host, "boot")
            it.engine.carry_out(recipes.ground_steps(it.shape, it.stand.ground, host), "drill")
        for stage in recipes.restart(it.study, "one", 0, it.stand.ground):
            with it.timed(stage.name):
                it.engine.carry_out(stage.steps, "restart")
            if stage.name == "recovery":
                assert it.rows() == written
        it.whole()
        if name != "shared":
            assert it.parted() == ""
            it.close()
            assert it.compared() == (0, 1)
        it.write() if name == "shared" else None


# -- nodes that die and boot again -----------------------------------------------------------------------------

CAPPED = {**VOLUME, "write_latency": "450us", "iops": 3000}


@pytest.mark.parametrize("volume", [VOLUME, CAPPED], ids=["ubd", "vhost-user"])
def test_a_crashed_node_boots_again_with_its_volumes_and_links(
    small: dict[str, Any], volume: dict[str, Any]
) -> None:
    with drill(small, [volume, {"layer": "drbd", "peer": "a2", "link": "zone"}, {"layer": "ext4"}]) as it:
        lab = it.stand.lab
        assert isinstance(lab, UmlLab)
        with pytest.raises(SetupError, match="was not crashed"):
            lab.boot("a1")
        for node in ("a1", "a2", "a1"):
            dead = lab.nodes[node]
            lab.crash(node)
            it.engine.forget(node)
            with pytest.raises(NodeLost):
                must(dead, ["true"])
            assert str(dead.process.pid) in groups(lab)
            it.power(node, "boot")
            assert str(dead.process.pid) not in groups(lab)
            assert str(lab.nodes[node].process.pid) in groups(lab)
            assert lab.hosts[node].run(["test", "-e", node_programs.FOLDER]).code == 1, "they went with its memory"
            it.engine.carry_out(recipes.ground_steps(it.shape, it.stand.ground, node), "drill")
            assert must(lab.hosts[node], ["cat", node_programs.path("verbs")]) == node_programs.text("verbs")
            other = "a2" if node == "a1" else "a1"
            for here, there in ((node, other), (other, node)):
                address = it.stand.ground.ends["zone"][there].address
                must(lab.hosts[here], ["ping", "-c", "3", "-i", "0.1", "-W", "2", address])
            device = it.stand.ground.devices["one"][node][0]
            must(lab.hosts[node], ["dd", "if=/dev/urandom", f"of={device}", "bs=4k", "count=64", "oflag=direct"])
            assert lab.hosts[node].run(["test", "-d", it.where]).code == 1


def groups(lab: UmlLab) -> list[str]:
    """What the janitor would end."""
    return (lab.folder / "groups").read_text().split()
