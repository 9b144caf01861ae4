"""A PostgreSQL server on a file system."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import ClassVar

import msgspec

from blocklab.layers import postgres_settings
from blocklab.layers.base import START_SECONDS, LayerBase, max_connections_of
from blocklab.layers.postgres_settings import DIALECT, alike, amount
from blocklab.model import access, numbers, outside, places
from blocklab.model.allowed import arguments
from blocklab.model.dialect import Value
from blocklab.model.dsn import Dsn
from blocklab.model.ground import Topology
from blocklab.model.knobs import Question, Table
from blocklab.model.layer import Place
from blocklab.model.plan import Fact, Kind, Plan, Port, Put, Run
from blocklab.model.programs import AS_POSTGRES

DATABASE = "bench"
LOOPBACK = ("127.0.0.1",)
# The workloads' user on guarded hosts. The server reads the password itself, so that no statement has it. The
# roles are what a superuser was needed for: CHECKPOINT, VACUUM of all tables, all counters; older servers lack
# some.
_MADE = (
    "-X", "-q", "-v", "ON_ERROR_STOP=1", "-c",
    "SET password_encryption = 'scram-sha-256'; DO $$ DECLARE granted text; BEGIN EXECUTE format("
    f"'CREATE ROLE {access.USER} LOGIN PASSWORD %L', "
    f"split_part(rtrim(pg_read_file('{access.PGPASS}'), E'\\n'), ':', 5)); "
    "FOR granted IN SELECT rolname FROM pg_roles WHERE rolname IN ('pg_checkpoint', 'pg_maintain', 'pg_monitor') "
    f"LOOP EXECUTE format('GRANT %I TO {access.USER}', granted); END LOOP; END $$",
)  # fmt: skip
# "512MB", "1.5 GB", 16384 (blocks of 8 KiB): a memory parameter
_SIZE = re.compile(r"\s*\d+(?:\.\d+)?(?:\s*(?:B|kB|MB|GB|TB))?\s*")


class Postgres(LayerBase, frozen=True, tag="postgres"):
    """A PostgreSQL 17 server whose data directory is on the folder below, with an empty database ``bench``.

    Example::

        - {layer: postgres, settings: {shared_buffers: 512MB, fsync: true}, initdb: [--data-checksums]}

    It listens on a Unix socket and on 127.0.0.1, and on the links that a workload comes over ``from`` another
    node. There is no password. On hosts of your own there is one: workloads are no superuser there, and the server
    listens only where a workload comes from. All that ``settings`` does not name is PostgreSQL's default. It is
    taken down by an immediate stop, as in a crash: a clean one would write all buffers through the layers below,
    for nothing.

    Read back: every parameter in ``settings``, by ``pg_settings``. A value may be spelled as the server takes it:
    300, 300s and 5min are the same ``checkpoint_timeout``. All parameters that are not at their default are
    stored.
    """

    settings: dict[str, Value] = {}
    """Server parameters by their own names and in their own units, as in postgresql.conf. Refused are what the
    layer sets itself (``port``, ``unix_socket_directories``, ``data_directory``, ``listen_addresses``,
    ``config_file``, ``hba_file``), and names that end in ``_command`` or ``_libraries``, since they would make the
    server run programs. A number or a truth value is taken for any other; a word only for parameters that name no
    file and no program. And, once the server was asked, names and values that it does not take are refused (a name
    with a dot is an extension's, and is left to it)."""
    initdb: tuple[str, ...] = ()
    """Arguments of initdb, one list item each: checksums, the WAL's segment size, encoding and locale."""

    takes: ClassVar[Kind | None] = "dir"
    gives: ClassVar[Kind] = "postgresql"
    stage: ClassVar[str] = "recovery"
    title: ClassVar[str] = "PostgreSQL"
    question: ClassVar[Question] = postgres_settings.QUESTION

    def problems(self, host: str, lab: Topology) -> list[tuple[str, str]]:
        """Names that cannot be a parameter's, those that the layer sets itself or that start a shell."""
        found = [(f"settings.{name}", why) for name, why in postgres_settings.problems(self.settings)]
        of_initdb = arguments(postgres_settings.INITDB, self.initdb, "folder")
        return found + [(f"initdb[{index}]", why) for index, why in of_initdb]

    def unknown(self, table: Table) -> Iterable[tuple[str, str]]:
        """Names that are no parameter, and bad values."""
        return ((f"settings.{name}", why) for name, why in postgres_settings.unknown(self.settings, table))

    @property
    def max_connections(self) -> int | None:
        """``max_connections``, of which workloads may have all: they are a superuser, or none are reserved."""
        return max_connections_of({name.lower(): value for name, value in self.settings.items()}, 100)

    def memory(self) -> dict[str, tuple[str, float]]:
        value = str(self.settings.get("shared_buffers", ""))
        pages = amount(value, "8kB") if _SIZE.fullmatch(value) else 0.0
        return {"settings.shared_buffers": (value, pages * 8192)}

    def plan(self, place: Place, below: tuple[Port, ...]) -> Plan:
        """initdb, configuration, start, the database ``bench``; undone by an immediate stop."""
        host = place.host
        data = f"{below[0].where}/postgres"
        run, port = places.run(place.stack), numbers.POSTGRES_PORT.of(place.number)
        log = places.log(place.stack)
        control = (*AS_POSTGRES, "pg_ctl", "-D", data, "-w")
        server = ("-h", run, "-p", str(port), "-U", "postgres")
        guarded = place.ground.guarded
        steps = (
            Run(host, ("install", "-d", "-o", "postgres", "-m", "700", data, run)),
            Run(host, ("install", "-D", "-o", "postgres", "-m", "600", "/dev/null", log)),
            Run(
                host,
                (*AS_POSTGRES, "initdb", "-D", data, "-A", "peer" if guarded else "trust", "-U", "postgres",
                 "--no-instructions", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8", *self.initdb),
                once=True,
            ),
            Put(host, f"{run}/server.conf", self.config(run, port, place), mode=0o644),
            Put(host, f"{run}/hba.conf", hba(place), mode=0o644),
            # The configuration is outside the data directory, whose own file stays as initdb left it.
            Run(
                host,
                (*control, "-t", f"{START_SECONDS:.0f}", "-l", log, "-o", f"-c config_file={run}/server.conf",
                 "start"),
                # immediate: a clean stop would write all of the buffers through the mirror, for nothing.
                undo=(*control, "-m", "immediate", "stop"),
                timeout=START_SECONDS + 20,
            ),
            *((Run(host, (*AS_POSTGRES, "psql", *server, *_MADE, "postgres"), once=True),) if guarded else ()),
            Run(
                host,
                (*AS_POSTGRES, "createdb", *server, *(("-O", access.USER) if guarded else ()), DATABASE),
                once=True,
            ),
            # Or the server writes the new database back little by little, under whatever load comes first.
            Run(
                host,
                (*AS_POSTGRES, "psql", *server, "-X", "-q", "-c", "CHECKPOINT", DATABASE),
                once=True,
            ),
            # initdb was told not to sync. A crash would leave files without content, which no checkpoint mends.
            Run(host, ("sync", "--file-system", data), once=True, timeout=600.0),
        )  # fmt: skip
        theirs = own = Dsn("postgresql", "postgres", DATABASE, run, port)
        if guarded:
            # Not where a study's scripts may have left functions that a superuser's queries would call.
            own = msgspec.structs.replace(own, database="postgres")
            theirs = msgspec.structs.replace(theirs, user=access.USER, passfile=access.PGPASS)
        return Plan(steps, (self._fact(host, str(own)),), (Port(host, "postgresql", str(theirs)),))

    def config(self, run: str, port: int, place: Place) -> str:
        """The text of postgresql.conf: the study's settings, then the layer's own."""
        settings: dict[str, Value] = {
            # Workloads are no superuser, and may have all connections just as well.
            **({"superuser_reserved_connections": 0} if place.ground.guarded else {}),
            **self.settings,
            "port": port,
            # Loopback for workloads that only speak TCP.
            "listen_addresses": ",".join((*LOOPBACK, *place.listen) if place.loopback else place.listen),
            "unix_socket_directories": run,
            "hba_file": f"{run}/hba.conf",
        }
        return "".join(f"{name} = {quoted(value)}\n" for name, value in settings.items())

    def _fact(self, host: str, dsn: str) -> Fact:
        query = (
            "SELECT json_object_agg(name, json_build_array(current_setting(name), setting, vartype, source, "
            "coalesce(unit, ''))) FROM pg_settings WHERE source <> 'default'"
        )
        wanted = {name: DIALECT.text(value) for name, value in self.settings.items()}
        argv = (*AS_POSTGRES, "psql", "-X", "-A", "-t", "-d", dsn, "-c", query)
        return Fact(host, "postgres", argv, partial(parse_settings, wanted=wanted), wanted)


def hba(place: Place) -> str:
    """pg_hba.conf: everybody on the node itself, and on the links (a /24 each) that a workload comes over. On
    guarded hosts the workloads' user with a password, from where a workload comes; and the superuser, who has
    none, as PostgreSQL's own system user."""
    if not place.ground.guarded:
        lines = ["local all all trust", "host all all 127.0.0.1/32 trust"]
        lines += [f"host all all {address}/24 trust" for address in place.listen]
        return "\n".join([*lines, ""])
    who = f"{DATABASE} {access.USER}"
    lines = ["local all postgres peer", f"local {who} scram-sha-256"]
    reached = (*LOOPBACK, *place.callers) if place.loopback else place.callers
    lines += [f"host {who} {address}/32 scram-sha-256" for address in reached]
    return "\n".join([*lines, ""])


def quoted(value: Value) -> str:
    """A value as postgresql.conf takes it: in single quotes, a quote doubled, no line break."""
    text = DIALECT.text(value).replace("\\", "\\\\").replace("'", "''").replace("\n", " ")
    return f"'{text}'"


def parse_settings(text: str, wanted: Mapping[str, str]) -> Mapping[str, str]:
    """pg_settings as one JSON object -> name -> value.

    A value that is the same as the wanted one comes in the study's spelling; another one as SHOW has it.
    """
    # {"checkpoint_timeout" : ["5min", "300", "integer", "configuration file", "s"], ...}
    # The server has TimeZone, DateStyle and IntervalStyle; a study has any name as it likes.
    spelled = {name.lower(): name for name in wanted}
    found = {
        spelled.get(name.lower(), name.lower()): shown for name, shown in outside.as_json(text, "psql").items()
    }
    return {
        name: wanted[name] if name in wanted and alike(name, wanted[name], shown) else shown[0]
        for name, shown in found.items()
    }
