"""Makes the tables of knobs in src/blocklab/model/known from what the programs of the image tell: `just knobs`.

It boots a node, twice where the image with MySQL is there; without that MySQL's table stays as it is.
``filesystems.txt`` is written by hand, since no program tells mount options.
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from blocklab.model import known, sysctls
from blocklab.model.dsn import Dsn
from blocklab.model.host import Host, must
from blocklab.model.known import Kind, Knob, Number
from blocklab.model.programs import AS_POSTGRES, MYSQL_CLIENT, MYSQL_HOME
from blocklab.runner.run import standing
from blocklab.sites.uml import image
from blocklab.sites.uml.site import UmlSite
from blocklab.study.read import build
from blocklab.study.types import Study
from blocklab.workloads.fio_jobs import ENGINES
from blocklab.workloads.fio_options import COMMON

FOLDER = Path(known.__file__).parent
DRBDSETUP = "/usr/lib/drbd/drbdsetup-84"
# The command that takes a section's options, and has beside them only flags of its own.
DRBD_SECTIONS = {"net": "net-options", "disk": "attach", "options": "resource-options"}
MARIADB = "/usr/sbin/mariadbd"
VOLUME = {"layer": "volume", "size": "512MiB"}
SERVERS = ("postgres", "mariadb")
# What a server's program ends with.
UNKNOWN_OPTION = 7
# What a program takes where it has no bound of its own: the largest double.
_ENDLESS = 1e300

Table = dict[str, dict[str, Knob]]


def study(*servers: str) -> Study:
    """One stack for each server, named as its layer, on the node ``a1``."""
    return build(
        {
            "blocklab": 1,
            "name": "knobs",
            "question": "What do the programs tell of their knobs?",
            "nodes": {"a1": {"memory": "1536MiB"}},
            "stacks": {
                name: {"on": "a1", "layers": [VOLUME, {"layer": "ext4"}, {"layer": name}]} for name in servers
            },
            "baseline": servers[0],
            # Never run; but a study has a load, and this one needs no table.
            "workloads": {"io": {"load": "dd", "mode": "none", "size": "16MiB"}},
        }
    )


# -- DRBD ------------------------------------------------------------------------------------------------------


def drbd(host: Host) -> Table:
    """The options that ``drbdsetup`` takes, by the sections of drbd.conf."""
    return {
        section: dict(drbd_options(must(host, [DRBDSETUP, "xml-help", command])))
        for section, command in DRBD_SECTIONS.items()
    }


def drbd_options(text: str) -> Iterator[tuple[str, Knob]]:
    """What ``drbdsetup xml-help COMMAND`` says of its options."""
    # <option name="c-fill-target" type="numeric"><min>0</min><max>1048576</max><default>100</default>
    #   <unit_prefix>s</unit_prefix><unit>bytes</unit></option>
    # <option name="on-congestion" type="handler"><handler>block</handler><handler>pull-ahead</handler></option>
    for option in ET.fromstring(text).iter("option"):
        name, kind = option.attrib["name"], option.attrib["type"]
        if kind == "numeric":
            prefix = option.findtext("unit_prefix", "1")
            unit = "" if prefix == "1" else prefix
            low, high = int(option.findtext("min", "")), int(option.findtext("max", ""))
            yield name, Knob("integer", low, high, unit=unit)
        elif kind == "handler":
            yield name, Knob("word", words=tuple(each.text or "" for each in option.iter("handler")))
        elif kind != "flag":
            yield name, Knob("truth" if kind == "boolean" else "text")


# -- fio -------------------------------------------------------------------------------------------------------


def fio_names(host: Host) -> dict[str, list[str]]:
    """The options of fio itself and of each engine that a study can have, without their aliases."""
    found = {COMMON: _names(must(host, ["fio", "--cmdhelp=all"]))}
    for engine in ENGINES:
        told = host.run(["fio", f"--enghelp={engine}"])
        if told.code == 0:
            found[engine] = _names(told.text)
        elif "has no options" not in told.said:
            raise ValueError(f"fio tells nothing of the engine {engine}: {told.said}")
    return found


def _names(text: str) -> list[str]:
    #   bs                    : Block size unit
    return re.findall(r"^ *([a-z][\w-]*) *:", text, re.MULTILINE)


def fio(host: Host) -> Table:
    """fio's options with their aliases."""
    found: Table = {}
    for section, names in fio_names(host).items():
        found[section] = {}
        for name in names:
            flag = f"--cmdhelp={name}" if section == COMMON else f"--enghelp={section},{name}"
            found[section] |= fio_option(name, must(host, ["fio", flag]))
    return found


# Of a flag fio takes any number.
_FIO_KINDS: Mapping[str, Kind] = {
    "boolean value": "truth", "empty or boolean value": "integer", "integer value": "integer",
}  # fmt: skip


def fio_option(name: str, text: str) -> dict[str, Knob]:
    """What ``fio --cmdhelp=NAME`` says of one option, by its name and by its alias."""
    #            rwmixread: Percentage of mixed workload that is reads
    #                 type: integer value (opt=100)
    #              default: 50
    #                range: min=0, max=100
    # or: alias: readwrite; valid values: read       Sequential read
    #                                   : write      Sequential write
    said = re.search(r"^ *type: ([^([]*)", text, re.MULTILINE)
    if said is None:
        raise ValueError(f"fio says no type of {name}: {text!r}")
    kind: Kind = _FIO_KINDS.get(said[1].strip(), "text")
    words = tuple(re.findall(r"^ *(?:valid values)?: (\S+)", text, re.MULTILINE))
    if words and said[1].strip() == "string":
        kind = "word"
    bounds = re.search(r"range: min=(-?\d+)(?:, max=(-?\d+))?", text) if kind == "integer" else None
    low = int(bounds[1]) if bounds else None
    # "min=1, max=-1": without an upper bound
    high = int(bounds[2]) if bounds and bounds[2] and int(bounds[2]) > int(bounds[1]) else None
    knob = Knob(kind, low, high, words=words if kind in ("integer", "word") else (), bare="empty" in said[1])
    alias = re.search(r"^ *alias: (\S+)", text, re.MULTILINE)
    return dict.fromkeys((name, *([alias[1]] if alias else [])), knob)


# -- databases -------------------------------------------------------------------------------------------------

PARAMETERS = "SELECT json_agg(p ORDER BY name) FROM pg_settings p"


def postgres(host: Host, where: str) -> Table:
    """The parameters of a PostgreSQL server."""
    text = must(host, [*AS_POSTGRES, "psql", "-X", "-A", "-t", "-d", where, "-c", PARAMETERS])
    return {"": {row["name"]: parameter(row) for row in json.loads(text)}}


_POSTGRES_KINDS: Mapping[str, Kind] = {
    "bool": "truth", "integer": "integer", "real": "real", "enum": "word", "string": "text",
}  # fmt: skip


def parameter(row: Mapping[str, Any]) -> Knob:
    """A row of pg_settings."""
    kind = _POSTGRES_KINDS[row["vartype"]]
    fixed = row["context"] == "internal"
    if kind in ("integer", "real"):
        return Knob(kind, _bound(row["min_val"]), _bound(row["max_val"]), unit=row["unit"] or "", fixed=fixed)
    return Knob(kind, words=tuple(row["enumvals"] or ()), fixed=fixed)


VARIABLES = (
    "SELECT LOWER(VARIABLE_NAME), VARIABLE_TYPE, NUMERIC_MIN_VALUE, NUMERIC_MAX_VALUE, NUMERIC_BLOCK_SIZE, "
    "ENUM_VALUE_LIST FROM information_schema.SYSTEM_VARIABLES ORDER BY VARIABLE_NAME"
)
METADATA = (
    # Of a fraction MySQL tells the bounds cut to whole numbers, or as the bits of a double.
    "SELECT VARIABLE_NAME, DATA_TYPE, IF(DATA_TYPE = 'Numeric', '', MIN_VALUE), "
    "IF(DATA_TYPE = 'Numeric', '', MAX_VALUE), 'NULL', 'NULL' "
    "FROM performance_schema.variables_metadata ORDER BY VARIABLE_NAME"
)
_MYSQL_KINDS: Mapping[str, Kind] = {
    "BOOLEAN": "truth", "ENUM": "word", "FLAGSET": "switches", "VARCHAR": "text", "DOUBLE": "real",
    "INTEGER": "integer", "NUMERIC": "real", "STRING": "text", "ENUMERATION": "word", "SET": "words",
}  # fmt: skip


def variables(host: Host, where: str, query: str, program: Iterable[str]) -> Table:
    """The variables of a MariaDB or MySQL server; what is no option of its program is ``fixed``."""
    dsn = Dsn.of(where)
    client = [*MYSQL_CLIENT, f"--user={dsn.user}", f"--socket={dsn.socket}", "--batch", "--skip-column-names"]
    rows = must(host, [*client, f"--execute={query}"]).splitlines()
    options = taken(must(host, [*program, "--verbose", "--help"]))
    # Each option may be taken away: --skip-external-locking.
    options |= {f"skip_{name}" for name in options}
    split = {name: fields for name, *fields in (row.split("\t") for row in rows)}
    # The engine's help leaves some of its options out.
    options |= {
        name for name in split.keys() - options if name.startswith("innodb_") and _takes(host, program, name)
    }
    return {"": {name: variable(fields, fixed=name not in options) for name, fields in split.items()}}


def _takes(host: Host, program: Iterable[str], name: str) -> bool:
    """Whether a server begins with this option, and then only prints its help."""
    told = host.run([*program, f"--{name.replace('_', '-')}=1", "--verbose", "--help"])
    if told.code not in (0, UNKNOWN_OPTION):
        raise ValueError(f"whether {name} is an option is not to be told: {told.said[-400:]}")
    return told.code == 0


def taken(text: str) -> frozenset[str]:
    """The options in ``mysqld --verbose --help``, by the names that variables have."""
    #   --aria-block-size=# Block size to be used for Aria index pages
    #   -a, --ansi          Use ANSI SQL syntax instead of MariaDB syntax. This mode
    names = re.findall(r"^ +(?:-\w, )?--([a-z][\w-]*)", text, re.MULTILINE)
    return frozenset(name.replace("-", "_") for name in names)


def variable(fields: list[str], *, fixed: bool) -> Knob:
    """A row of the server's list: type, least, most, step, words; ``NULL`` where there is none."""
    kind, low, high, step, words = fields
    known_as = _MYSQL_KINDS.get(kind.upper(), "integer" if "INT" in kind.upper() else "text")
    if known_as in ("integer", "real"):
        multiple = int(step) if step not in ("NULL", "0") else 1
        return Knob(known_as, _bound(low), _bound(high), step=multiple, fixed=fixed)
    several = tuple(words.split(",")) if words != "NULL" and known_as != "truth" else ()
    return Knob(known_as, words=several, fixed=fixed)


def _bound(text: str | None) -> Number | None:
    if text in (None, "", "NULL"):
        return None
    assert text is not None
    if text.lstrip("-").isdigit():
        return int(text)
    number = float(text)
    return None if abs(number) > _ENDLESS else number


# -- the kernel ------------------------------------------------------------------------------------------------


def sysctl(host: Host) -> Table:
    """The kernel's parameters, those of interfaces once."""
    names = must(host, ["sysctl", "-a", "-N"]).split()
    return {"": {name: Knob() for name in sorted({sysctls.generic(name) for name in names})}}


# -- files -----------------------------------------------------------------------------------------------------


def written(made: str, table: Mapping[str, Mapping[str, Knob]]) -> str:
    """A table as the text of its file. ``made``: what the knobs are of, with its version."""
    lines = [f"# {made}, by tools/knobs.py; not for editing."]
    for section, knobs in table.items():
        lines += ["", f"[{section}]"] if section else [""]
        lines += [" ".join((name, *_words(knob))) for name, knob in knobs.items()]
    return "\n".join([*lines, ""])


def _words(knob: Knob) -> Iterator[str]:
    yield knob.kind
    if knob.least is not None or knob.most is not None:
        yield f"{'' if knob.least is None else knob.least}..{'' if knob.most is None else knob.most}"
    if knob.step > 1:
        yield f"step={knob.step}"
    if knob.unit:
        yield f"unit={knob.unit}"
    yield from (name for name in ("bare", "fixed") if getattr(knob, name))
    if knob.words:
        yield f"words={','.join(knob.words)}"


def tables(say: Callable[[str], None]) -> dict[str, str]:
    """Program -> the text of its table, from nodes."""
    found: dict[str, str] = {}
    with standing(UmlSite(), study(*SERVERS), SERVERS) as stand:
        host = stand.lab.hosts["a1"]
        ports = {name: stand.ports[name][-1].where for name in SERVERS}
        found["drbd"] = written(f"Options of DRBD 8.4 as {package(host, 'drbd-utils')} tells them", drbd(host))
        found["fio"] = written(f"Options of {must(host, ['fio', '--version']).strip()}", fio(host))
        found["postgres"] = written(
            f"Parameters of {package(host, 'postgresql-17')}", postgres(host, ports["postgres"])
        )
        found["mariadb"] = written(
            f"Variables of {package(host, 'mariadb-server')}",
            variables(host, ports["mariadb"], VARIABLES, (MARIADB, "--no-defaults")),
        )
        found["sysctl"] = written(f"Parameters of Linux {must(host, ['uname', '-r']).strip()}", sysctl(host))
    if image.find(("mysql",)) is None:
        say("mysql.txt stays as it is: `blocklab image build --with mysql` builds the image with that server")
        return found
    with standing(UmlSite(image=image.require(("mysql",))), study("mysql"), ["mysql"]) as stand:
        host = stand.lab.hosts["a1"]
        program = f"{MYSQL_HOME}/bin/mysqld"
        version = must(host, [program, "--version"]).split()[2]
        listed = variables(host, stand.ports["mysql"][-1].where, METADATA, (program, "--no-defaults"))
        found["mysql"] = written(f"Variables of MySQL {version}", listed)
    return found


def package(host: Host, name: str) -> str:
    """Name and version of a package of Debian."""
    version = must(host, ["dpkg-query", "--showformat=${Version}", "--show", name])
    return f"{name} {version.strip()}"


def main() -> None:
    """Write all tables anew."""
    for name, text in tables(print).items():
        (FOLDER / f"{name}.txt").write_text(text, encoding="utf-8")
        print(f"{name}.txt: {sum(1 for line in text.splitlines() if line and line[0] not in '#[')} knobs")


if __name__ == "__main__":
    main()
