"""Hosts with other users: no plan lets anybody in without a secret, and no secret is in what is kept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest

from blocklab.cli.plan import phases_of
from blocklab.layers import drbd
from blocklab.model import access
from blocklab.model.dsn import Dsn
from blocklab.model.ground import Ground, Topology
from blocklab.model.host import Result
from blocklab.model.plan import Argv, Fact, Put, Run
from blocklab.runner.engine import Engine, secret
from blocklab.sites.fake import FakeSite
from blocklab.study.grid import plan_stack, topology
from blocklab.study.phases import build as built
from blocklab.study.read import build
from blocklab.study.takeover import ground_steps, takeover
from blocklab.study.types import Study
from tests.unit.phase_fields import names_of

# Who may come in from where, before there was a password: anybody, from a whole network, at any address.
OPEN = re.compile(r"\btrust\b|/24\b|\b0\.0\.0\.0\b|%|insecure")
BY_SYSBENCH = {"workload": "sysbench", "tables": 1, "table_size": 100, "time": "2s"}
BY_TPCC = {"workload": "tpcc", "warehouses": 1, "time": "2s"}
BY_LEDGER = {"workload": "ledger", "from": "c1", "time": "2s"}


class GuardedSite(FakeSite):
    """Its hosts have other users."""

    def ground(self, topology: Topology) -> Ground:
        return msgspec.structs.replace(super().ground(topology), guarded=True)


def study_of(
    layer: str, workloads: Mapping[str, Any], mirror: Mapping[str, Any] | None = None, **more: Any
) -> Study:
    middle = [{"peer": "a2", "link": "zone", **mirror}] if mirror else []
    below = [{"layer": "volume", "size": "2GiB"}, *middle, {"layer": "crypt"}, {"layer": "ext4"}]
    return build(
        {
            "blocklab": 2, "name": "guarded", "question": "Who comes in?", "baseline": "db",
            "nodes": {name: {"memory": "1GiB"} for name in ("a1", "a2", "c1")},
            "links": {
                "zone": {"between": ["a1", "a2"]}, "front": {"between": ["c1", "a1"]},
                "back": {"between": ["c1", "a2"]},
            },
            "stacks": {"db": {"on": "a1", "layers": [*below, {"layer": layer}]}},
            "workloads": dict(workloads), **more,
        }
    )  # fmt: skip


def everything(layer: str, **more: Any) -> Study:
    """All workloads on a database, here and from another node, over DRBD."""
    found = {"here": BY_SYSBENCH, "far": {**BY_SYSBENCH, "from": "c1"}, "orders": BY_TPCC, "kept": BY_LEDGER}
    if layer == "postgres":
        found |= {"tx": {"workload": "pgbench", "scripts": {"own": "SELECT 1;"}, "transactions": 10}}
    return study_of(layer, found, {"layer": "drbd"}, **more)


def parts(value: Any) -> Iterator[Any]:
    """All steps and facts, and all command lines, in phases."""
    if isinstance(value, Put | Fact):
        yield value
    if isinstance(value, tuple) and value and all(isinstance(each, str) for each in value):
        yield value
    elif isinstance(value, Mapping):
        yield from (found for each in value.values() for found in parts(each))
    elif isinstance(value, tuple | list):
        yield from (found for each in value for found in parts(each))
    elif not isinstance(value, str):
        yield from (found for name in names_of(value) if name != "parse" for found in parts(getattr(value, name)))


def planned(study: Study) -> list[Any]:
    return list(parts([phases for _, phases in phases_of(study, "db", GuardedSite())]))


def config(study: Study, name: str) -> str:
    ground = GuardedSite().ground(topology(study, ["db"]))
    steps = plan_stack(study, "db", 0, ground).steps
    return next(step.text for step in steps if isinstance(step, Put) and step.path.endswith(name))


@pytest.mark.parametrize("layer", ["postgres", "mariadb", "mysql"])
def test_no_plan_lets_anybody_in(layer: str) -> None:
    found = planned(everything(layer))
    puts = [each for each in found if isinstance(each, Put)]
    lines = [each for each in found if isinstance(each, tuple)]
    configured = [
        each for each in puts if re.search(r"server\.conf|hba\.conf|init\.sql|\.res$|access/", each.path)
    ]
    assert len(configured) >= 6 and len(lines) > 40
    for put in configured:
        assert not OPEN.search(put.text), put
    for line in lines:
        assert not re.search(r"\btrust\b|--auth-root-authentication-method=normal", " ".join(line)), line
    # The secret is in files of root's or the server's own, and in no command line.
    assert not any(access.SECRET in word for line in lines for word in line)
    holders = [put for put in puts if access.SECRET in put.text]
    assert [put.path for put in holders if put.secret == access.ENCRYPTION] != []
    assert {put.mode for put in holders} == {0o600} and {put.secret for put in holders} == set(access.NAMES)
    assert {put.host for put in holders} == {"a1", "a2", "c1"}
    for put in puts:
        assert put in holders or put.secret is msgspec.UNSET


def test_in_the_lab_nothing_is_asked_for(small: dict[str, Any]) -> None:
    found = list(parts([phases for _, phases in phases_of(build(small), "mirror", FakeSite())]))
    assert not [each for each in found if isinstance(each, Put) and access.SECRET in each.text]
    assert not [each for each in found if isinstance(each, tuple) and any(access.FOLDER in word for word in each)]


@pytest.mark.parametrize(
    ("workloads", "listen", "hosts"),
    [
        ({"tx": BY_SYSBENCH}, "", []),
        ({"tx": BY_TPCC}, "127.0.0.1", ["127.0.0.1/32"]),
        ({"tx": BY_LEDGER}, "10.77.1.2", ["10.77.1.1/32"]),
        (
            {"tx": {**BY_SYSBENCH, "from": "c1"}, "o": BY_TPCC},
            "127.0.0.1,10.77.1.2",
            ["127.0.0.1/32", "10.77.1.1/32"],
        ),
    ],
)
def test_a_server_listens_only_where_a_workload_comes_from(
    workloads: dict[str, Any], listen: str, hosts: list[str]
) -> None:
    study = study_of("postgres", workloads)
    ends = GuardedSite().ground(topology(study, ["db"])).ends.get("front", {})
    # Whatever numbers the site gives them.
    real = {"10.77.1.2": ends["a1"].address, "10.77.1.1": ends["c1"].address} if ends else {}

    def named(text: str) -> str:
        return re.sub(r"10\.77\.1\.[12]", lambda match: real[match[0]], text)

    assert f"listen_addresses = '{named(listen)}'\n" in config(study, "server.conf")
    assert "superuser_reserved_connections = '0'" in config(study, "server.conf")
    lines = config(study, "hba.conf").splitlines()
    assert lines[:2] == ["local all postgres peer", "local bench bench scram-sha-256"]
    assert lines[2:] == [f"host bench bench {named(host)} scram-sha-256" for host in hosts]
    maria = study_of("mariadb", workloads)
    wanted = f"bind_address = {named(listen)}\n" if listen else "skip_networking = ON\n"
    assert wanted in config(maria, "server.conf")
    users = re.findall(r"CREATE USER IF NOT EXISTS 'bench'@'([^']*)' IDENTIFIED BY", config(maria, "init.sql"))
    assert users == ["localhost", *(named(host).removesuffix("/32") for host in hosts)]
    granted = config(maria, "init.sql")
    assert "FILE" not in granted and "ALL PRIVILEGES ON *.*" not in granted and "GRANT OPTION" not in granted


def test_what_a_study_sets_comes_after_what_the_layer_would_like() -> None:
    raw = study_of("postgres", {"tx": BY_SYSBENCH})
    layers = raw.stacks["db"].layers
    own = msgspec.structs.replace(layers[-1], settings={"superuser_reserved_connections": 2})
    stack = msgspec.structs.replace(raw.stacks["db"], layers=(*layers[:-1], own))
    text = config(msgspec.structs.replace(raw, stacks={"db": stack}), "server.conf")
    assert "superuser_reserved_connections = '2'" in text and "= '0'" not in text


def test_clients_get_the_password_by_files() -> None:
    texts = [" ".join(each) for each in planned(everything("mariadb")) if isinstance(each, tuple)]
    assert any(f"sysbench --db-driver=mysql --config-file={access.SYSBENCH}" in text for text in texts)
    assert any(f"{access.GO_TPC_FILE}={access.PASSWORD} /var/lib/blocklab/bin/go-tpc" in text for text in texts)
    assert any("blocklab-ledger --kind=mysql" in text and access.PASSWORD in text for text in texts)
    assert all(
        f"mariadb --defaults-file={access.CLIENT} " in text for text in texts if text.startswith("mariadb ")
    )
    texts = [" ".join(each) for each in planned(everything("postgres")) if isinstance(each, tuple)]
    assert any(f"PGPASSFILE={access.PGPASS} sysbench" in text for text in texts)
    by_uri = [text for text in texts if "postgresql://bench@" in text]
    assert by_uri and all(f"passfile={access.PGPASS}" in text for text in by_uri)
    assert any(text.startswith("setpriv --reuid=postgres") and "pgbench" in text for text in by_uri)


def test_the_file_stays_with_the_address() -> None:
    dsn = Dsn("postgresql", "bench", "bench", "/run/blocklab/x", 5532, access.PGPASS)
    assert Dsn.of(str(dsn)) == dsn and Dsn.of(str(dsn.at("10.0.0.1"))).passfile == access.PGPASS
    assert Dsn.of("mysql://root@/bench?host=/run/x&port=1").passfile == ""


def test_a_survivor_and_a_node_that_boots_again_have_the_files() -> None:
    study = everything("postgres", faults={"kill": {"fault": "crash", "at": "1s"}})
    shape = topology(study, ["db"])
    ground = GuardedSite().ground(shape)
    steps = [step for phase in built(study, ["db"], ground).phases for step in getattr(phase, "steps", ())]
    for host in ("a1", "a2", "c1"):
        put = {step.path for step in steps if isinstance(step, Put) and step.host == host}
        again = {step.path for step in ground_steps(shape, ground, host) if isinstance(step, Put)}
        assert {access.PASSWORD, access.PGPASS} <= put and {access.PASSWORD, access.PGPASS} <= again
    # A takeover asks nobody but the survivor, and makes no user again.
    taken = [step for stage in takeover(study, "db", 0, ground).stages for step in stage.steps]
    assert {step.host for step in taken} == {"a2"}
    assert not any("CREATE ROLE" in word for step in taken if isinstance(step, Run) for word in step.argv)
    hba = next(step.text for step in taken if isinstance(step, Put) and step.path.endswith("hba.conf"))
    assert ground.ends["back"]["c1"].address in hba and ground.ends["front"]["c1"].address not in hba


def test_a_mirror_s_two_sides_know_a_secret_and_a_network_mirror_one_address() -> None:
    study = everything("postgres")
    text = config(study, "db.res")
    assert f'    cram-hmac-alg sha256;\n    shared-secret "{access.SECRET}";\n' in text
    facts = plan_stack(study, "db", 0, GuardedSite().ground(topology(study, ["db"]))).facts
    assert any(fact.wanted.get("net.cram-hmac-alg") == "sha256" for fact in facts)
    shown = 'resource r {\n net {\n cram-hmac-alg "sha256";\n shared-secret "known";\n }\n}\n'
    assert drbd.parse_show(shown) == {"net.cram-hmac-alg": "sha256"}
    mirror = {"layer": "net-mirror", "connections": 2}
    study = study_of("postgres", {"tx": BY_SYSBENCH}, mirror)
    ends = GuardedSite().ground(topology(study, ["db"])).ends["zone"]
    assert config(study, "nbd.allow") == f"{ends['a1'].address}\n"
    served = config(study, "nbd.conf")
    assert f"listenaddr = {ends['a2'].address}\n" in served and "maxconnections = 2\n" in served
    assert "authfile = /run/blocklab/db-nbd.allow\n" in served
    lines = [each for each in planned(study_of("postgres", {"tx": BY_SYSBENCH}, {**mirror, "direct": True}))
             if isinstance(each, tuple) and each[0] == "qemu-storage-daemon"]  # fmt: skip
    assert lines and all(",max-connections=2" in " ".join(line) for line in lines)


def test_no_secret_is_in_what_is_kept_of_a_run() -> None:
    """Files have it, and so has what programs say of their configuration."""
    shown = f'shared-secret "{secret(access.MIRROR)}"; password {secret(access.DATABASE)}\n'.encode()

    def answer(host: str, argv: Argv) -> Result:
        return Result(int(argv[0] == "fails"), shown, shown)

    study = everything("mariadb")
    site = GuardedSite(answer)
    shape = topology(study, ["db"])
    engine = Engine(lab := site.start(shape))
    for phase in built(study, ["db"], site.ground(shape)).phases:
        steps = [step for step in getattr(phase, "steps", ()) if isinstance(step, Run | Put)]
        engine.carry_out(steps, "build")
    engine.ask([Fact("a1", "drbd", ("drbdsetup", "show"), lambda text: {"said": text})])
    with pytest.raises(Exception, match=f"password {access.SECRET}"):
        engine.carry_out([Run("a1", ("fails",))], "build")
    kept = msgspec.json.encode(engine.records).decode()
    assert access.SECRET in kept
    for name in access.NAMES:
        assert len(secret(name)) == 48 and secret(name) not in kept
    assert secret(access.DATABASE) != secret(access.MIRROR)
    files = [lab.hosts[host].get(access.PASSWORD).decode() for host in ("a1", "a2", "c1")]
    assert files == [f"{secret(access.DATABASE)}\n"] * 3
    assert secret(access.MIRROR) in lab.hosts["a2"].get("/etc/drbd.d/db.res").decode()
