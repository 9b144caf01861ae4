"""A MariaDB or MySQL server on a file system."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import ClassVar

import msgspec

from blocklab.layers import mysql_settings
from blocklab.layers.base import START_SECONDS, LayerBase, max_connections_of
from blocklab.layers.mysql_settings import config, made_with, parse_variables, problem, query, text_of
from blocklab.model import access, numbers, places
from blocklab.model.dialect import Value, size
from blocklab.model.dsn import Dsn
from blocklab.model.ground import Topology
from blocklab.model.knobs import Question, Table
from blocklab.model.layer import Place
from blocklab.model.node_programs import program
from blocklab.model.plan import Argv, Fact, Kind, Plan, Port, Put, Run, Step, Wait
from blocklab.model.programs import MYSQL_HOME

DATABASE = "bench"
USER = "root"
LOOPBACK = ("127.0.0.1",)
_INIT_SECONDS = 600.0
_STOP_SECONDS = 30
# 2026-11-21  7:04:24 0 [Note] /usr/sbin/mariadbd: ready for connections.
_READY = "ready for connections"
# 2026-11-21  7:01:48 0 [ERROR] Aborting
# 261121  7:20:11 [ERROR] /usr/sbin/mariadbd got signal 11 ;
_ENDED = r"\] Aborting|got signal"


# MySQL makes keys for TLS even where it is off. That takes 5 s of a node's time.
_NO_KEYS: Mapping[str, Value] = {
    "auto_generate_certs": False,
    "caching_sha2_password_auto_generate_rsa_keys": False,
    # Deprecated, so a later server may not know it.
    "loose_sha256_password_auto_generate_rsa_keys": False,
}


class _Server(LayerBase, frozen=True):
    """What both servers have: ``settings`` are server variables, by their own names."""

    settings: dict[str, Value] = {}
    """Server variables by their own names, as SHOW GLOBAL VARIABLES spells them, in the server's own units.
    ``log_bin`` is ``true`` or ``false``. Refused are what the layer sets itself, where the server writes (all of
    it stays on the layer below), and what loads a library or runs a program. A number or a truth value is taken
    for any other; a word only for variables that name no file and no program. And, once the server was asked,
    variables that it does not have or does not take when it starts, and values out of their range."""

    takes: ClassVar[Kind | None] = "dir"
    gives: ClassVar[Kind] = "mysql"
    stage: ClassVar[str] = "recovery"
    name: ClassVar[str]
    title: ClassVar[str]
    program: ClassVar[str]
    question: ClassVar[Question]
    # Set by the layer, but a study may set them otherwise.
    usual: ClassVar[Mapping[str, Value]] = {}
    # Set by the layer where workloads have a password.
    secured: ClassVar[Mapping[str, Value]] = {}
    # What workloads need beside their own database: a bulk load sets global variables.
    rights: ClassVar[tuple[str, ...]] = ("SUPER", "PROCESS", "RELOAD", "REPLICATION CLIENT")
    # Set by the layer.
    fixed: ClassVar[Mapping[str, Value]] = {}

    @property
    def max_connections(self) -> int | None:
        return max_connections_of(self.settings, 151)

    def problems(self, host: str, lab: Topology) -> list[tuple[str, str]]:
        """Names that cannot be a variable's, those that the layer sets itself or that load libraries."""
        found = ((name, problem(name, value)) for name, value in self.settings.items())
        return [(f"settings.{name}", why) for name, why in found if why]

    def unknown(self, table: Table) -> Iterable[tuple[str, str]]:
        """Names that are no variable, and bad values."""
        found = mysql_settings.dialect(self.title).problems(self.settings, table[""])
        return ((f"settings.{name}", why) for name, why in found)

    def memory(self) -> dict[str, tuple[str, float]]:
        value = str(self.settings.get("innodb_buffer_pool_size", ""))
        return {"settings.innodb_buffer_pool_size": (value, float(size(value.lower()) or 0))}

    def plan(self, place: Place, below: tuple[Port, ...]) -> Plan:
        """System tables, configuration, start, the database ``bench``; undone by SIGKILL."""
        host, where = place.host, below[0].where
        data, scratch = f"{where}/{self.name}", f"{where}/{self.name}-tmp"
        run, port = places.run(place.stack), numbers.MYSQL_PORT.of(place.number)
        # What root reads, mysql must not write: it is not within ``run``.
        log, pid, own = places.log(place.stack), f"{run}-server.pid", f"{run}-server.conf"
        settings = {**self.usual, **self.settings, **self.fixed, **_places(data, scratch, run)}
        settings |= {"port": port, **_network(place), **(self.secured if place.ground.guarded else {})}
        steps = (
            Run(host, ("install", "-d", "-o", "mysql", "-m", "700", run), undo=("rm", "-rf", run)),
            Run(host, ("install", "-d", "-o", "mysql", "-m", "700", data, scratch)),
            Run(host, ("install", "-D", "-o", "mysql", "-m", "600", "/dev/null", log)),
            # Without a sync for each table, which over a mirror takes longer than all the rest; then one for all.
            Run(
                host, (*self._init(data, place), *made_with(self.settings)), once=True, timeout=_INIT_SECONDS
            ),
            Run(host, ("sync", "--file-system", data), once=True, timeout=_INIT_SECONDS),
            # The configuration is outside the data directory, so each build has its own.
            Put(host, own, config(settings)),
            *self._init_file(place, f"{run}/init.sql"),
            Run(
                host,
                (
                    "start-stop-daemon", "--start", "--background", "--pidfile", pid, "--make-pidfile",
                    # It starts as root and becomes mysql by itself, since it raises its limit of open files.
                    # env finds it, since start-stop-daemon asks for a path.
                    "--output", log, "--startas", "/usr/bin/env", "--", self.program,
                    f"--defaults-file={own}",
                ),
                # A clean stop would write the whole buffer pool through the mirror, for nothing.
                undo=(
                    "start-stop-daemon", "--stop", "--oknodo", "--pidfile", pid, "--remove-pidfile",
                    "--signal", "KILL", "--retry", f"KILL/{_STOP_SECONDS}",
                ),
            ),
            # It is ready or has given up; then its log is shown, and where it is not ready that is the error.
            Wait(host, ("grep", "-E", f"{_READY}|{_ENDED}", log), seconds=START_SECONDS),
            Run(host, program("verbs", "until", _READY, log)),
        )  # fmt: skip
        dsn = Dsn("mysql", USER, DATABASE, run, port)
        if place.ground.guarded:
            dsn = msgspec.structs.replace(dsn, user=access.USER, passfile=access.CLIENT)
        return Plan(steps, (self._fact(host, dsn),), (Port(host, "mysql", str(dsn)),))

    def _init(self, data: str, place: Place) -> Argv:
        """The command that makes the system tables."""
        raise NotImplementedError

    def _init_file(self, place: Place, path: str) -> tuple[Step, ...]:
        """What the server runs at each start, the file being its own where a password is in it."""
        if not place.ground.guarded:
            return (Put(place.host, path, init_file(place.listen)),)
        text = guarded_init_file(place, self.rights)
        put = Put(place.host, path, text, access.MODE, access.DATABASE)
        return put, access.given(place.host, path, "mysql")

    def _fact(self, host: str, dsn: Dsn) -> Fact:
        wanted = {name: text_of(value) for name, value in self.settings.items()}
        argv = (*mysql_settings.client(dsn), f"--execute={query(self.settings)}")
        return Fact(host, self.name, argv, lambda text: parse_variables(text, wanted), wanted)


class MariaDb(_Server, frozen=True, tag="mariadb"):
    """A MariaDB 11.8 server whose data directory is on the folder below, with an empty database ``bench``.

    Example::

        - {layer: mariadb, settings: {innodb_buffer_pool_size: 256M, log_bin: true, sync_binlog: 1}}

    A server variable that ``settings`` does not name has [the server's
    default](https://mariadb.com/kb/en/server-system-variables/): ``log_bin`` is false and ``sync_binlog`` 0. The
    layer sets by itself: TLS off (``ssl``), ``skip_name_resolve``, the folders (all on the layer below), the
    addresses (a socket, 127.0.0.1, and the links that a workload comes over ``from`` another node), the user
    ``root`` without a password and the database; on hosts of your own a user with a password, and only where a
    workload comes from. It is taken down by SIGKILL and recovers at its next start.

    Read back: every variable in ``settings``, by ``SHOW GLOBAL VARIABLES``. Stored beside them: the version, and
    the variables that decide what a commit costs.
    """

    name: ClassVar[str] = "mariadb"
    title: ClassVar[str] = "MariaDB"
    program: ClassVar[str] = "mariadbd"
    question: ClassVar[Question] = Question(
        name, partial(mysql_settings.ask, program=program, query=mysql_settings.MARIADB_VARIABLES), server=True
    )
    # Without TLS no key is made at each start, and no workload pays for encryption, which some do not even ask
    # for.
    fixed: ClassVar[Mapping[str, Value]] = {"user": "mysql", "skip_name_resolve": True, "ssl": False}
    rights: ClassVar[tuple[str, ...]] = (*_Server.rights, "BINLOG ADMIN")

    def _init(self, data: str, place: Place) -> Argv:
        # By the socket, root is whoever is root of the system, and nobody by the network.
        root = "socket" if place.ground.guarded else "normal"
        return (
            "mariadb-install-db", "--no-defaults", "--user=mysql", f"--datadir={data}", "--skip-test-db",
            f"--auth-root-authentication-method={root}", "--skip-name-resolve", "--debug-no-sync",
        )  # fmt: skip


class MySql(_Server, frozen=True, tag="mysql"):
    """A MySQL 9 server whose data directory is on the folder below, with an empty database ``bench``.

    It needs a node image with an add-on: ``blocklab image build --with mysql``.

    Example::

        - {layer: mysql, settings: {innodb_buffer_pool_size: 256M, sync_binlog: 1}}

    A server variable that ``settings`` does not name has [the server's
    default](https://dev.mysql.com/doc/refman/en/server-system-variables.html): ``log_bin`` is true and
    ``sync_binlog`` 1. Two are off unless a study sets them: ``performance_schema`` (with it a start takes three
    times as long, and more memory than a small node has) and ``innodb_numa_interleave`` (a node has no NUMA). The
    layer sets by itself: TLS and the X plugin off (``tls_version``, ``mysqlx``), ``skip_name_resolve``, the
    folders (all on the layer below), the addresses (a socket, 127.0.0.1, and the links that a workload comes over
    ``from`` another node), the user ``root`` without a password and the database; on hosts of your own a user with
    a password, and only where a workload comes from. It is taken down by SIGKILL and recovers at its next start.

    Read back: every variable in ``settings``, by ``SHOW GLOBAL VARIABLES``. Stored beside them: the version, and
    the variables that decide what a commit costs.
    """

    name: ClassVar[str] = "mysql"
    title: ClassVar[str] = "MySQL"
    program: ClassVar[str] = f"{MYSQL_HOME}/bin/mysqld"
    question: ClassVar[Question] = Question(
        name, partial(mysql_settings.ask, program=program, query=mysql_settings.MYSQL_VARIABLES), server=True
    )
    needs: ClassVar[tuple[str, ...]] = ("mysql",)
    usual: ClassVar[Mapping[str, Value]] = {"performance_schema": False, "innodb_numa_interleave": False}
    fixed: ClassVar[Mapping[str, Value]] = {
        "user": "mysql",
        "skip_name_resolve": True,
        "mysqlx": False,
        "tls_version": "",
        **_NO_KEYS,
        "secure_file_priv": "NULL",
        "basedir": MYSQL_HOME,
        "lc_messages_dir": f"{MYSQL_HOME}/share",
        "character_sets_dir": f"{MYSQL_HOME}/share/charsets",
    }

    # Without TLS a password comes over the network by the server's key.
    secured: ClassVar[Mapping[str, Value]] = {"caching_sha2_password_auto_generate_rsa_keys": True}

    def _init(self, data: str, place: Place) -> Argv:
        settings: dict[str, Value] = {**self.usual, **_NO_KEYS, "innodb_flush_method": "nosync"}
        return (
            self.program, f"--defaults-file={MYSQL_HOME}/my.cnf", "--initialize-insecure", f"--datadir={data}",
            *(f"--{name}={text_of(value)}" for name, value in settings.items()),
        )  # fmt: skip


def _places(data: str, scratch: str, run: str) -> dict[str, Value]:
    return {
        "datadir": data,
        # Sorted runs of a CREATE INDEX would fill the node's memory.
        "tmpdir": scratch,
        "socket": f"{run}/mysqld.sock",
        "pid_file": f"{run}/mysqld.pid",
        "init_file": f"{run}/init.sql",
    }


def _network(place: Place) -> dict[str, Value]:
    """Where it listens beside its socket."""
    if at := ((*LOOPBACK, *place.listen) if place.loopback else place.listen):
        return {"bind_address": ",".join(at)}
    return {"skip_networking": True}


def guarded_init_file(place: Place, rights: tuple[str, ...]) -> str:
    """The same where hosts have other users: a user with a password, for the hosts that a workload comes from. No
    root that anybody else could be, and no right to read or write files of the system."""
    lines = [
        "SET SESSION sql_log_bin = 0;", f"CREATE DATABASE IF NOT EXISTS {DATABASE};",
        f"ALTER USER IF EXISTS '{USER}'@'localhost' ACCOUNT LOCK;",
        "DROP USER IF EXISTS ''@'localhost';",
    ]  # fmt: skip
    for host in ("localhost", *(LOOPBACK if place.loopback else ()), *place.callers):
        who = f"'{access.USER}'@'{host}'"
        lines += [
            f"CREATE USER IF NOT EXISTS {who} IDENTIFIED BY '{access.SECRET}';",
            f"GRANT ALL PRIVILEGES ON {DATABASE}.* TO {who};",
            f"GRANT {', '.join(rights)} ON *.* TO {who};",
        ]
    return "\n".join([*lines, ""])


def init_file(listen: tuple[str, ...]) -> str:
    """What the server runs at each start, one statement a line: the database, and who may come over which link (a
    /24 each). None of it goes into the binary log, which belongs to the workload."""
    hosts = ["127.0.0.1", *(f"{address.rpartition('.')[0]}.%" for address in listen)]
    lines = ["SET SESSION sql_log_bin = 0;", f"CREATE DATABASE IF NOT EXISTS {DATABASE};"]
    for host in hosts:
        lines += [
            f"CREATE USER IF NOT EXISTS '{USER}'@'{host}';",
            f"GRANT ALL PRIVILEGES ON *.* TO '{USER}'@'{host}' WITH GRANT OPTION;",
        ]
    return "\n".join([*lines, ""])
