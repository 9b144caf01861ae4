"""A PostgreSQL server on a file system."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import ClassVar

from blocklab.layers import postgres_settings
from blocklab.layers.base import START_SECONDS, Base, max_connections_of
from blocklab.layers.postgres_settings import BYTES, Value, alike, text_of
from blocklab.model import outside
from blocklab.model.dsn import Dsn
from blocklab.model.ground import Topology
from blocklab.model.knobs import Question, Table
from blocklab.model.layer import Place
from blocklab.model.plan import Fact, Kind, Plan, Port, Put, Run
from blocklab.model.programs import AS_POSTGRES

FIRST_PORT = 5432
DATABASE = "bench"
# "512MB", "1.5 GB", 16384 (blocks of 8 KiB): a memory parameter
_SIZE = re.compile(r"^\s*(?P<number>\d+(?:\.\d+)?)(?:\s*(?P<unit>B|kB|MB|GB|TB))?\s*\Z")


class Postgres(Base, frozen=True, tag="postgres"):
    """A PostgreSQL 17 server whose data directory is on the folder below, with an empty database ``bench``.

    Example::

        - {layer: postgres, settings: {shared_buffers: 512MB, fsync: true}, initdb: [--data-checksums]}

    It listens on a Unix socket and on 127.0.0.1, and on the links that a workload comes over ``from`` another
    node. There is no password. All that ``settings`` does not name is PostgreSQL's default. It is taken down by an
    immediate stop, as in a crash: a clean one would write all buffers through the layers below, for nothing.

    Read back: every parameter in ``settings``, by ``pg_settings``. A value may be spelled as the server takes it:
    300, 300s and 5min are the same ``checkpoint_timeout``. All parameters that are not at their default are
    stored.
    """

    settings: dict[str, Value] = {}
    """Server parameters by their own names and in their own units, as in postgresql.conf. Refused are what the
    layer sets itself (``port``, ``unix_socket_directories``, ``data_directory``, ``listen_addresses``,
    ``config_file``, ``hba_file``), and names that end in ``_command`` or ``_preload_libraries``, since they would
    make the server run programs; and, once the server was asked, names and values that it does not take (a name
    with a dot is an extension's, and is left to it)."""
    initdb: tuple[str, ...] = ()
    """Arguments of initdb, one list item each."""

    takes: ClassVar[Kind | None] = "dir"
    gives: ClassVar[Kind] = "postgresql"
    title: ClassVar[str] = "PostgreSQL"
    question: ClassVar[Question] = postgres_settings.QUESTION

    def problems(self, host: str, lab: Topology) -> list[tuple[str, str]]:
        """Names that cannot be a parameter's, those that the layer sets itself or that start a shell."""
        return [(f"settings.{name}", why) for name, why in postgres_settings.problems(self.settings)]

    def unknown(self, table: Table) -> Iterable[tuple[str, str]]:
        """Names that are no parameter, and bad values."""
        return ((f"settings.{name}", why) for name, why in postgres_settings.unknown(self.settings, table))

    @property
    def max_connections(self) -> int | None:
        """``max_connections``, of which blocklab's user, a superuser, may have all."""
        return max_connections_of({name.lower(): value for name, value in self.settings.items()}, 100)

    def memory(self) -> dict[str, tuple[str, float]]:
        value = str(self.settings.get("shared_buffers", ""))
        match = _SIZE.match(value)
        size = float(match["number"]) * BYTES.get(match["unit"] or "", 8192) if match else 0.0
        return {"settings.shared_buffers": (value, size)}

    def plan(self, place: Place, below: tuple[Port, ...]) -> Plan:
        """initdb, configuration, start, the database ``bench``; undone by an immediate stop."""
        host = place.host
        data = f"{below[0].where}/postgres"
        run, port = f"/run/blocklab/{place.stack}", FIRST_PORT + place.number
        log = f"/var/log/blocklab-{place.stack}.log"
        control = (*AS_POSTGRES, "pg_ctl", "-D", data, "-w")
        server = ("-h", run, "-p", str(port), "-U", "postgres")
        steps = (
            Run(host, ("install", "-d", "-o", "postgres", "-m", "700", data, run)),
            Run(host, ("install", "-o", "postgres", "-m", "600", "/dev/null", log)),
            Run(
                host,
                (*AS_POSTGRES, "initdb", "-D", data, "-A", "trust", "-U", "postgres", "--no-instructions",
                 "--no-sync", "-E", "UTF8", "--locale=C.UTF-8", *self.initdb),
                once=True,
            ),
            Put(host, f"{run}/server.conf", self.config(run, port, place.listen), mode=0o644),
            Put(host, f"{run}/hba.conf", hba(place.listen), mode=0o644),
            # The configuration is outside the data directory, whose own file stays as initdb left it.
            Run(
                host,
                (*control, "-t", f"{START_SECONDS:.0f}", "-l", log, "-o", f"-c config_file={run}/server.conf",
                 "start"),
                # immediate: a clean stop would write all of the buffers through the mirror, for nothing.
                undo=(*control, "-m", "immediate", "stop"),
                timeout=START_SECONDS + 20,
            ),
            Run(
                host,
                (*AS_POSTGRES, "createdb", *server, DATABASE),
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
        dsn = str(Dsn("postgresql", "postgres", DATABASE, run, port))
        return Plan(steps, (self._fact(host, dsn),), (Port(host, "postgresql", dsn),))

    def config(self, run: str, port: int, listen: tuple[str, ...]) -> str:
        """The text of postgresql.conf: the study's settings, then the layer's own."""
        settings: dict[str, Value] = {
            **self.settings,
            "port": port,
            # Loopback for workloads that only speak TCP.
            "listen_addresses": ",".join(("127.0.0.1", *listen)),
            "unix_socket_directories": run,
            "hba_file": f"{run}/hba.conf",
        }
        return "".join(f"{name} = {quoted(value)}\n" for name, value in settings.items())

    def _fact(self, host: str, dsn: str) -> Fact:
        query = (
            "SELECT json_object_agg(name, json_build_array(current_setting(name), setting, vartype, source, "
            "coalesce(unit, ''))) FROM pg_settings WHERE source <> 'default'"
        )
        wanted = {name: text_of(value) for name, value in self.settings.items()}
        argv = (*AS_POSTGRES, "psql", "-X", "-A", "-t", "-d", dsn, "-c", query)
        return Fact(host, "postgres", argv, partial(parse_settings, wanted=wanted), wanted)


def hba(listen: tuple[str, ...]) -> str:
    """pg_hba.conf: everybody on the node itself, and on the links (a /24 each) that a workload comes over."""
    lines = ["local all all trust", "host all all 127.0.0.1/32 trust"]
    lines += [f"host all all {address}/24 trust" for address in listen]
    return "\n".join([*lines, ""])


def quoted(value: Value) -> str:
    """A value as postgresql.conf takes it: in single quotes, a quote doubled, no line break."""
    text = text_of(value).replace("\\", "\\\\").replace("'", "''").replace("\n", " ")
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
