"""Other users of a host: what they cannot reach, and that workloads and mirrors work all the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from blocklab.model import access
from blocklab.model.ground import LinkSpec, NodeSpec, Profile, Topology, VolumeSpec
from blocklab.model.host import must
from blocklab.model.units import Duration, Size
from blocklab.store.folder import StudyFolder
from tests.lab.reached import Reached, blocklab, reached, residue

HEAD = """\
blocklab: 2
name: guarded
question: Who comes in?
baseline: own
nodes: {a1: {memory: 768MiB}, a2: {memory: 768MiB}}
links:
  zone: {between: [a1, a2], rtt: 0.2ms}
"""
POSTGRES = f"""{HEAD}
stacks:
  own: {{on: a1, layers: [{{layer: volume, size: 300MiB}}, {{layer: ext4}}, {{layer: postgres}}]}}
workloads:
  tx: {{workload: pgbench, scale: 1, clients: 2, transactions: 50}}
  far: {{workload: pgbench, scale: 1, clients: 2, transactions: 50, from: a2}}
  rows: {{workload: sysbench, tables: 1, table_size: 1000, clients: 2, time: 2s}}
  kept: {{workload: ledger, from: a2, clients: 2, time: 2s}}
"""
MARIADB = f"""{HEAD}
stacks:
  own:
    on: a1
    layers:
      - {{layer: volume, size: 300MiB}}
      - {{layer: ext4}}
      - {{layer: mariadb, settings: {{innodb_buffer_pool_size: 64M, log_bin: true}}}}
workloads:
  rows: {{workload: sysbench, tables: 1, table_size: 1000, clients: 2, time: 2s}}
  far: {{workload: sysbench, tables: 1, table_size: 1000, clients: 2, time: 2s, from: a2}}
  kept: {{workload: ledger, from: a2, clients: 2, time: 2s}}
"""
TPCC = f"""{HEAD}
stacks:
  own: {{on: a1, layers: [{{layer: volume, size: 700MiB}}, {{layer: ext4}}, {{layer: @}}]}}
workloads:
  orders: {{workload: tpcc, warehouses: 1, clients: 1, time: 5s}}
"""
MIRROR = f"""{HEAD}
stacks:
  own: {{on: a1, layers: [{{layer: volume, size: 256MiB}}, @]}}
workloads:
  io: {{workload: fio, size: 16MiB, options: {{runtime: 1}}, jobs: {{w: {{rw: randwrite}}}}}}
"""
NOBODY = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
# Prints each command line that holds a secret, until it is ended.
WATCH = """
import glob, time
seen = set()
while True:
    secrets = set()
    try:
        secrets.add(open("/run/blocklab/access/password").read().strip().encode())
    except OSError:
        pass
    for path in glob.glob("/proc/[0-9]*/cmdline") if secrets else ():
        try:
            line = open(path, "rb").read()
        except OSError:
            continue
        if any(secret in line for secret in secrets) and line not in seen:
            seen.add(line)
            print("shown", line, flush=True)
        elif any(word in line for word in (b"psql", b"mariadb", b"sysbench", b"pgbench", b"go-tpc", b"ledger")):
            if line not in seen:
                seen.add(line)
                print("looked at", line[:60], flush=True)
    time.sleep(0.05)
"""


@pytest.fixture(scope="module")
def there() -> Iterator[Reached]:
    nodes = {name: NodeSpec(memory=Size("768MiB")) for name in ("a1", "a2")}
    links = {"zone": LinkSpec(("a1", "a2"), Duration("0ms"))}
    volumes = tuple(VolumeSpec("any", (name,), Profile(size=Size("760MiB"))) for name in nodes)
    with reached(Topology(nodes, links, volumes)) as found:
        yield found


def as_nobody(there: Reached, host: str, *argv: str) -> str:
    """What another user of the host is refused with."""
    result = there.lab.nodes[host].run([*NOBODY, "env", "HOME=/", "PGCONNECT_TIMEOUT=10", *argv])
    assert result.code != 0, (argv, result.said)
    return result.said


def up(there: Reached, folder: Path, text: str, look: Callable[[], None]) -> None:
    """Look at the study's stack while it stands."""
    (folder / "study.yaml").write_text(text)
    hosts = there.write()
    code, said = blocklab("up", "study.yaml", "--hosts", hosts, folder=folder)
    try:
        assert code == 0, said
        look()
    finally:
        code, said = blocklab("down", "--hosts", hosts, folder=folder)
    assert code == 0, said


def run(there: Reached, folder: Path, text: str) -> str:
    """Run the study while somebody looks at each command line of both hosts; all that was stored of it."""
    (folder / "study.yaml").write_text(text)
    hosts, before = there.write(), residue(there)
    procs = [
        there.lab.nodes[name].spawn(["python3", "-c", WATCH], folder / f"{name}.out", folder / f"{name}.err")
        for name in there.lab.nodes
    ]
    try:
        code, said = blocklab("run", "study.yaml", "--hosts", hosts, folder=folder)
    finally:
        for proc in procs:
            proc.signal(9)
            proc.wait(30.0)
    assert code == 0, said
    assert residue(there) == before
    seen = "".join((folder / f"{name}.out").read_text() for name in there.lab.nodes)
    assert "looked at" in seen and "shown" not in seen, seen
    # Any secret is 48 hex digits; so are palettes of the page, which is made of the rest.
    texts = [
        path.read_bytes() for path in (folder / "runs").rglob("*") if path.is_file() and path.suffix != ".html"
    ]
    assert texts and not any(re.search(rb"\b[0-9a-f]{48}\b", text) for text in texts)
    assert {each.outcome.status for each in StudyFolder(folder / "runs/guarded").runs()} == {"ok"}
    return said


def password(there: Reached, host: str) -> str:
    return there.lab.nodes[host].get(access.PASSWORD).decode().strip()


def listening(there: Reached, host: str, port: int) -> set[str]:
    """At which addresses."""
    lines = must(there.lab.nodes[host], ["ss", "-Hltn", f"sport = :{port}"]).splitlines()
    return {line.split()[3] for line in lines}


def closed_files(there: Reached) -> None:
    """Nobody else can read a file with the password."""
    for name, node in there.lab.nodes.items():
        files = must(node, ["grep", "-rlsI", password(there, name), "/run", "/etc", "/var/log", "/tmp"]).split()
        assert set(files) >= {access.PASSWORD, access.PGPASS, access.CLIENT, access.SYSBENCH}
        for file in files:
            assert must(node, ["stat", "-c", "%a", file]).strip() == "600", file
            assert "Permission denied" in as_nobody(there, name, "cat", file)


@pytest.mark.long
def test_postgresql_on_a_host_with_other_users(there: Reached, tmp_path: Path) -> None:
    psql = "/usr/lib/postgresql/17/bin/psql"
    program = "COPY (SELECT 1) TO PROGRAM 'id'"

    def look() -> None:
        assert listening(there, "a1", 5532) == {"10.77.1.1:5532"}
        folder = "/run/blocklab/blocklab-own"
        for host, user, said in (
            (folder, "postgres", "Permission denied"),
            ("127.0.0.1", "postgres", "Connection refused"),
            ("10.77.1.1", "postgres", "no pg_hba.conf entry"),
            ("10.77.1.1", "bench", "no password supplied|no pg_hba.conf entry"),
        ):
            argv = (psql, "-w", "-h", host, "-p", "5532", "-U", user, "-d", "bench", "-c", program)
            assert any(each in as_nobody(there, "a1", *argv) for each in said.split("|")), (host, user)
        argv = (psql, "-w", "-h", "10.77.1.1", "-p", "5532", "-U", "bench", "-d", "bench", "-c", "SELECT 1")
        assert "no password supplied" in as_nobody(there, "a2", *argv)
        assert "password authentication failed" in as_nobody(there, "a2", "env", "PGPASSWORD=guessed", *argv)
        # With the password one comes in, but runs no programs.
        where = f"postgresql://bench@/bench?host=10.77.1.1&port=5532&passfile={access.PGPASS}"
        assert must(there.lab.nodes["a2"], [psql, "-A", "-t", "-d", where, "-c", "SELECT 7"]) == "7\n"
        refused = there.lab.nodes["a2"].run([psql, "-d", where, "-c", program])
        assert refused.code != 0 and "permission denied" in refused.said
        closed_files(there)

    up(there, tmp_path, POSTGRES, look)
    run(there, tmp_path, POSTGRES)


@pytest.mark.long
def test_mariadb_on_a_host_with_other_users(there: Reached, tmp_path: Path) -> None:
    def look() -> None:
        assert listening(there, "a1", 3406) == {"10.77.1.1:3406"}
        client = ("mariadb", "--no-defaults", "--skip-ssl", "--connect-timeout=10")
        for user in ("root", "bench", "mysql", ""):
            reach = (*client, f"--user={user}", "--execute=SELECT 1")
            assert "(13)" in as_nobody(there, "a1", *reach, "--socket=/run/blocklab/blocklab-own/mysqld.sock")
            for host in ("a1", "a2"):
                said = as_nobody(there, host, *reach, "--host=10.77.1.1", "--port=3406")
                assert "Access denied" in said or "is not allowed to connect" in said, said
        files = [
            "mariadb",
            f"--defaults-file={access.CLIENT}",
            "--skip-ssl",
            "--user=bench",
            "-N",
            "--host=10.77.1.1",
        ]
        bench = [*files, "--port=3406", "bench"]
        assert must(there.lab.nodes["a2"], [*bench, "--execute=SELECT 7"]) == "7\n"
        refused = there.lab.nodes["a2"].run([*bench, "--execute=SELECT 1 INTO OUTFILE '/tmp/written'"])
        assert refused.code != 0 and "Access denied" in refused.said
        closed_files(there)

    up(there, tmp_path, MARIADB, look)
    run(there, tmp_path, MARIADB)


@pytest.mark.long
@pytest.mark.parametrize("layer", ["postgres", "mariadb"])
def test_tpcc_by_a_password_that_no_command_line_shows(there: Reached, tmp_path: Path, layer: str) -> None:
    run(there, tmp_path, TPCC.replace("@", layer))


def test_the_two_sides_of_drbd_know_a_secret(there: Reached, tmp_path: Path) -> None:
    text = MIRROR.replace("@", "{layer: drbd, peer: a2, link: zone}")
    file = "/etc/drbd.d/blocklab-own.res"

    def look() -> None:
        here, there_ = there.lab.nodes["a1"], there.lab.nodes["a2"]
        for host, node in there.lab.nodes.items():
            assert must(node, ["stat", "-c", "%a %U", file]) == "600 root\n"
            assert "Permission denied" in as_nobody(there, host, "cat", file)
        assert must(here, ["drbdadm", "cstate", "blocklab-own"]) == "Connected\n"
        # Somebody else's DRBD at the peer's address.
        must(there_, ["drbdadm", "disconnect", "blocklab-own"])
        must(there_, ["sed", "-i", 's/shared-secret .*;/shared-secret "guessed";/', file])
        must(there_, ["drbdadm", "connect", "blocklab-own"])
        refused = (
            "for n in $(seq 60); do dmesg | grep -i 'Authentication of peer failed' && exit 0; "
            "drbdadm connect blocklab-own 2> /dev/null; sleep 0.5; done; dmesg | tail; exit 1"
        )
        must(here, ["sh", "-c", refused])
        assert "Connected" not in must(here, ["drbdadm", "cstate", "blocklab-own"])

    up(there, tmp_path, text, look)
    (tmp_path / "study.yaml").write_text(text)
    code, said = blocklab("run", "study.yaml", "--hosts", there.write(), folder=tmp_path)
    assert code == 0, said
    [found] = StudyFolder(tmp_path / "runs/guarded").runs()
    knobs = {knob.name: knob.value for knob in found.knobs if knob.host == "a2"}
    assert knobs["net.cram-hmac-alg"] == "sha256" and "net.shared-secret" not in knobs
    put = next(each for each in found.records if each.argv == ("put", file))
    assert f'shared-secret "{access.SECRET}";' in put.said


@pytest.mark.long
@pytest.mark.parametrize("direct", ["false", pytest.param("true", marks=pytest.mark.long)])
def test_a_network_mirror_serves_the_active_node_alone(there: Reached, tmp_path: Path, direct: str) -> None:
    text = MIRROR.replace("@", f"{{layer: net-mirror, peer: a2, link: zone, connections: 2, direct: {direct}}}")

    def look() -> None:
        assert listening(there, "a2", 10909) == {"10.77.1.2:10909"}
        for host in ("a1", "a2"):
            # nbd-server refuses whoever is not the active node, and even that node a further connection;
            # qemu-storage-daemon lets all of them wait.
            said = as_nobody(there, host, "timeout", "5", "qemu-img", "info", "nbd://10.77.1.2:10909/blocklab-own")
            assert "Access denied by server" in said or (direct == "true" and not said), said

    up(there, tmp_path, text, look)
    (tmp_path / "study.yaml").write_text(text)
    code, said = blocklab("run", "study.yaml", "--hosts", there.write(), folder=tmp_path)
    assert code == 0, said
