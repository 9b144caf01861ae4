"""The tables of knobs are what the programs in the image tell; an image with other versions is told as skipped."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from blocklab.errors import ImageError
from blocklab.layers.filesystem import Ext4, Xfs, in_force, mounted
from blocklab.layers.mysql import MariaDb
from blocklab.layers.postgres import Postgres
from blocklab.model import known
from blocklab.model.dsn import Dsn
from blocklab.model.ground import Topology
from blocklab.model.host import Host, must
from blocklab.model.known import Knob
from blocklab.model.programs import AS_POSTGRES, MYSQL_CLIENT, MYSQL_HOME
from blocklab.runner.run import standing
from blocklab.runner.workshop import Standing
from blocklab.sites.uml import image
from blocklab.sites.uml.site import UmlSite
from tools import knobs

ANEW = "run `just knobs` and look at the difference"


@pytest.fixture(scope="module")
def stand() -> Iterator[Standing]:
    with standing(UmlSite(), knobs.study(*knobs.SERVERS), knobs.SERVERS) as found:
        yield found


@pytest.fixture
def host(stand: Standing) -> Host:
    return stand.lab.hosts["a1"]


def needs(program: str, version: str) -> None:
    """Skip where the image, which takes Debian's newest packages, has another version than the table is of."""
    made = (knobs.FOLDER / f"{program}.txt").read_text().partition("\n")[0]
    if f" {version}" not in made:
        pytest.skip(f"the image has {version}; {made.strip('# ')} {ANEW}")


def kernel(host: Host) -> str:
    return must(host, ["uname", "-r"]).strip()


@pytest.mark.parametrize("program", ["drbd", "postgres", "mariadb", "sysctl"])
def test_the_tables_are_what_the_programs_tell(stand: Standing, host: Host, program: str) -> None:
    where = {name: stand.ports[name][-1].where for name in knobs.SERVERS}
    mariadb = (knobs.MARIADB, "--no-defaults")
    packages = {"drbd": "drbd-utils", "postgres": "postgresql-17", "mariadb": "mariadb-server"}
    needs(program, knobs.package(host, packages[program]) if program in packages else kernel(host))
    ask: dict[str, Callable[[], knobs.Table]] = {
        "drbd": lambda: knobs.drbd(host),
        "postgres": lambda: knobs.postgres(host, where["postgres"]),
        "mariadb": lambda: knobs.variables(host, where["mariadb"], knobs.VARIABLES, mariadb),
        "sysctl": lambda: knobs.sysctl(host),
    }
    table, shipped = ask[program](), known.table(program)
    assert table.keys() == shipped.keys(), ANEW
    for section, told in table.items():
        assert set(told.items()) ^ set(shipped[section].items()) == set(), ANEW


SHOWN = "SELECT json_object_agg(name, current_setting(name)) FROM pg_settings"
# Of a value; other refusals are of the name.
OF_VALUES = re.compile("out of range|its values|neither true|not a (whole )?number|multiple|no unit")
# The server shows 0 of it, and takes 1 at least.
ODD = {"settings.innodb_lru_flush_size"}


def test_what_a_server_shows_of_itself_it_would_also_take(stand: Standing, host: Host) -> None:
    where = {name: stand.ports[name][-1].where for name in knobs.SERVERS}
    post = json.loads(must(host, [*AS_POSTGRES, "psql", "-X", "-A", "-t", "-d", where["postgres"], "-c", SHOWN]))
    dsn = Dsn.of(where["mariadb"])
    client = [*MYSQL_CLIENT, f"--user={dsn.user}", f"--socket={dsn.socket}", "--batch", "--skip-column-names"]
    rows = must(host, [*client, "--execute=SHOW GLOBAL VARIABLES"]).splitlines()
    maria: dict[str, Any] = dict(row.split("\t", 1) for row in rows)
    assert len(post) > 300 and len(maria) > 500
    layers = (Postgres(settings=post), MariaDb(settings=maria))
    found = [problem for layer in layers for problem in layer.problems("a1", Topology({}, {}, ()))]
    assert [(name, why) for name, why in found if OF_VALUES.search(why) and name not in ODD] == []


def test_the_options_of_fio_are_those_of_the_table(host: Host) -> None:
    needs("fio", must(host, ["fio", "--version"]).strip())
    shipped = known.table("fio")
    for section, names in knobs.fio_names(host).items():
        others = shipped[section].keys() - set(names)
        assert set(names) <= shipped[section].keys(), ANEW
        for alias in others:
            assert f" alias: {alias}\n" in must(host, ["fio", f"--cmdhelp={alias}"]), ANEW


def test_the_variables_of_mysql_are_those_of_the_table() -> None:
    try:
        site = UmlSite(image=image.require(("mysql",)))
    except ImageError as error:
        pytest.skip(str(error))
    with standing(site, knobs.study("mysql"), ["mysql"]) as stand:
        program = (f"{MYSQL_HOME}/bin/mysqld", "--no-defaults")
        needs("mysql", must(stand.lab.hosts["a1"], [program[0], "--version"]).split()[2])
        where = stand.ports["mysql"][-1].where
        told = knobs.variables(stand.lab.hosts["a1"], where, knobs.METADATA, program)
        assert told == known.table("mysql"), ANEW


def spelled(name: str, knob: Knob) -> str:
    """A mount option as a study could have it."""
    if knob.kind == "flag":
        return name
    # 1 is nothing to some of them: a stripe of one block.
    number = max(knob.least or 0, min(knob.most or 2, 2))
    return f"{name}={knob.words[0] if knob.words else number}"


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_the_kernel_knows_each_mount_option_of_the_table_and_tells_of_it(host: Host, kind: str) -> None:
    """Some need more than an empty file system; but none is unknown, and what was mounted is read back."""
    needs("sysctl", kernel(host))
    file, folder = f"/tmp/{kind}.img", f"/media/{kind}"
    must(host, ["truncate", "--size=320M", file])
    must(host, [f"mkfs.{kind}", "-q", file], timeout=60)
    must(host, ["mkdir", "-p", folder])
    must(host, ["modprobe", "loop"])
    device = must(host, ["losetup", "--find", "--show", file]).strip()
    tables = known.table("filesystems")
    ask = (Ext4() if kind == "ext4" else Xfs()).ask(device)

    def tried(option: str) -> str:
        told = host.run(["mount", "-t", kind, "-o", option, device, folder])
        if told.code:
            return "unknown" if "nknown parameter" in told.said else ""
        found = mounted(must(host, ask), folder)
        must(host, ["umount", folder])
        hidden = [name for name, value in in_force(option).items() if found.get(name, "absent") != value]
        return f"hidden: {', '.join(hidden)}" if hidden else ""

    try:
        assert tried("barier=0") == tried("metadata") == "unknown"
        options = {**tables["any"], **tables[kind]}
        said = {name: tried(spelled(name, knob)) for name, knob in options.items()}
        assert {name: why for name, why in said.items() if why} == {}
    finally:
        must(host, ["losetup", "--detach", device])
        must(host, ["rm", file])


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_mkfs_knows_each_option_of_the_table(host: Host, kind: str) -> None:
    def unknown(option: str, *value: str) -> bool:
        # There is no such device, so that nothing is made.
        return "invalid option" in host.run([f"mkfs.{kind}", option, *value, "/dev/nothing"]).err.decode()

    assert unknown("-Q")
    options: dict[str, Any] = dict(known.table("filesystems")[f"mkfs.{kind}"])
    found = [name for name, knob in options.items() if unknown(name, *(["1"] if knob.kind != "flag" else []))]
    assert found == []
