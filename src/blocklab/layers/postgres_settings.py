"""The parameters of a PostgreSQL server: which a study may set, which there are, and what is the same value."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from blocklab.model.allowed import NOTHING, NUMBER, PLAIN, TEXT, WORD, Allowed, Shape, entries, words
from blocklab.model.dialect import Dialect, Value
from blocklab.model.knobs import Knob, KnobKind, Question, Table, Tell, listed, number
from blocklab.model.outside import as_json
from blocklab.model.programs import AS_POSTGRES

# "shared_buffers", "TimeZone", "auto_explain.log_min_duration": a parameter, or an extension's parameter.
_NAME = r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)?"
# Where the layer itself decides.
_OURS = "port|unix_socket_directories|data_directory|listen_addresses|config_file|hba_file"
_FILE = "it names a file of the host"
# "Europe/Berlin", "+02:00"
_ZONE = Shape("a time zone like UTC or Europe/Berlin", r"[A-Za-z0-9_+:-]+(?:/[A-Za-z0-9_+-]+){0,2}")
_PREFIX = Shape("a text without quotes and slashes", r"[^/'\\\n]*")
_WHERE = words("stderr", "csvlog", "jsonlog", "stderr,csvlog", "stderr,jsonlog", "csvlog,jsonlog")
# PostgreSQL 18 and before. All other parameters take numbers and truth values: none of these names a file or a
# program.
ALLOWED = Allowed(
    "PostgreSQL",
    {
        **entries(WORD, """
            archive_mode backslash_quote bytea_output client_min_messages compute_query_id huge_pages
            constraint_exclusion default_toast_compression default_table_access_method io_method
            dynamic_shared_memory_type shared_memory_type log_error_verbosity log_min_error_statement
            log_min_messages log_statement log_connections plan_cache_mode recovery_init_sync_method
            recovery_prefetch session_replication_role stats_fetch_consistency synchronous_commit track_functions
            wal_compression wal_level wal_sync_method xmlbinary xmloption file_copy_method force_parallel_mode
            debug_parallel_query debug_logical_replication_streaming intervalstyle icu_validation_level
            client_encoding cluster_name application_name default_tablespace default_text_search_config lc_messages
            lc_monetary lc_numeric lc_time password_encryption
        """),
        # Below the data directory.
        **entries(WORD, "log_directory log_filename"),
        **entries(TEXT, """
            datestyle default_transaction_isolation search_path temp_tablespaces debug_io_direct
            synchronous_standby_names wal_consistency_checking
        """),
        **entries(_PREFIX, "log_line_prefix"),
        **entries(_ZONE, "timezone log_timezone"),
        **entries(_WHERE, "log_destination"),
    },
    {
        **dict.fromkeys(("include", "include_dir", "include_if_exists", "ident_file", "external_pid_file"), _FILE),
        **dict.fromkeys(("krb_server_keyfile", "ssl_*_file", "ssl_crl_dir", "extension_control_path"), _FILE),
        "dynamic_library_path": "the server would load other libraries",
        "extension_destdir": "the server would load other libraries",
        "jit_provider": "the server would load another library",
        "primary_conninfo": "the server would follow another one",
    },
    PLAIN,
    names=(_NAME, "is not the name of a server parameter"),
    never={
        _OURS: "is set by the layer itself; leave it out",
        r".*(_command|_librar(y|ies))": "would make the server run a command; not allowed in a study",
    },
)  # fmt: skip
INITDB = Allowed(
    "initdb",
    {
        **entries(
            NOTHING,
            """
            -k --data-checksums --no-data-checksums -N --no-sync -g --allow-group-access --no-locale
            """,
        ),
        **entries(NUMBER, "--wal-segsize"),
        **entries(
            WORD,
            """
            -E --encoding --locale --lc-collate --lc-ctype --lc-messages --lc-monetary --lc-numeric --lc-time
            --locale-provider --icu-locale --builtin-locale -T --text-search-config --sync-method
            """,
        ),
    },
    dict.fromkeys(("-X", "--waldir"), "the log would be past the layers below"),
)
_BOOLEAN = {
    "on": "on", "off": "off",
    "true": "on", "yes": "on", "1": "on", "t": "on", "y": "on",
    "false": "off", "no": "off", "0": "off", "f": "off", "n": "off",
}  # fmt: skip
# Where the server shows another word than it was given.
_ALIASES = {
    ("wal_compression", "on"): "pglz",
    ("wal_level", "archive"): "replica", ("wal_level", "hot_standby"): "replica",
    ("log_min_messages", "debug"): "debug2", ("client_min_messages", "debug"): "debug2",
}  # fmt: skip
# With these values the server chooses, shows what it chose, and calls its source "override".
_CHOSEN = {
    "wal_buffers": "-1",
    "commit_timestamp_buffers": "0", "subtransaction_buffers": "0", "transaction_buffers": "0",
}  # fmt: skip
# "128MB", "1 GB", "-1", "0.5", "200ms", "1e3".
_NUMBER = re.compile(r"^(?P<number>[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?)\s*(?P<unit>[A-Za-z]*)\Z")
# "0x80", "0600": by another base, as in C.
_BASED = {re.compile(r"^0[xX][0-9a-fA-F]+\Z"): 16, re.compile(r"^0[0-7]+\Z"): 8}
BYTES = {"B": 1, "kB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
_TIMES = {"us": 1, "ms": 10**3, "s": 10**6, "min": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6}

_PARAMETERS = (
    "SELECT json_agg(json_build_array(name, vartype, coalesce(unit, ''), min_val, max_val, enumvals, context) "
    "ORDER BY name) FROM pg_settings"
)
_KINDS: Mapping[str, KnobKind] = {
    "bool": "truth", "integer": "integer", "real": "real", "enum": "word", "string": "text",
}  # fmt: skip


def ask(tell: Tell, where: str) -> Table:
    """Every parameter of the server that stands at ``where``."""
    # [["wal_buffers", "integer", "8kB", "-1", "262143", null, "postmaster"], ...
    rows = as_json(tell(*AS_POSTGRES, "psql", "-X", "-A", "-t", "-d", where, "-c", _PARAMETERS), "psql")
    return {"": {name: _parameter(*fields) for name, *fields in rows}}


QUESTION = Question("postgres", ask, server=True)


def _parameter(kind: str, unit: str, low: Any, high: Any, words: Sequence[str] | None, context: str) -> Knob:
    return Knob(
        _KINDS[kind], number(low), number(high), unit=unit, words=tuple(words or ()), fixed=context == "internal"
    )


def problems(settings: Mapping[str, Value]) -> Iterator[tuple[str, str]]:
    """``(name, problem)`` of each setting that a study may not have, whatever the server."""
    spelled: dict[str, str] = {}
    for name, value in settings.items():
        other = spelled.setdefault(name.lower(), name)
        if other != name:
            yield name, f"is set twice: it is the same parameter as {other}"
        # A letter like the sign of the kelvin becomes another's in lower case.
        elif why := ALLOWED.problem(name.lower() if name.isascii() else name, DIALECT.text(value).strip()):
            yield name, why


def unknown(settings: Mapping[str, Value], table: Table) -> Iterator[tuple[str, str]]:
    """``(name, problem)`` of each setting that the server would not take as it is."""
    parameters = {name.lower(): knob for name, knob in table[""].items()}
    for name, value in settings.items():
        # An extension's the server takes, whatever it is.
        if "." not in name and (why := DIALECT.problem(name.lower(), DIALECT.text(value), parameters)):
            yield name, why


def _amount(value: str, knob: Knob) -> float:
    found = amount(value, knob.unit)
    return round(found) if knob.kind == "integer" and math.isfinite(found) else found


def amount(value: str, unit: str) -> float:
    """A number in the parameter's own unit (``8kB``, ``ms``), as the server reads it. Raises ``ValueError``."""
    text = value.strip()
    for form, base in _BASED.items():
        if form.match(text):
            return int(text, base)
    match = _NUMBER.match(text)
    if match is None:
        raise ValueError(f"{value!r} is not a number")
    if not match["unit"]:
        return float(match["number"])
    own = unit.lstrip("0123456789")
    units = next((each for each in (BYTES, _TIMES) if own in each), {})
    if match["unit"] not in units:
        raise ValueError(f"{value!r} has no unit that it takes: {listed(units) if units else 'it has none'}")
    factor = units[match["unit"]]
    # The server rounds a fraction to a whole number of the next smaller unit: 0.3GB is 307MB.
    smaller = max((each for each in units.values() if each < factor), default=1)
    return round(float(match["number"]) * factor / smaller) * smaller / (units[own] * int(unit[: -len(own)] or 1))


DIALECT = Dialect(
    "PostgreSQL has no such parameter",
    _amount,
    _BOOLEAN,
    "cannot be set: it is read-only",
    aliases=_ALIASES,
)


def alike(name: str, wanted: str, shown: Sequence[str]) -> bool:
    """Whether a parameter is what a study meant by ``wanted``.

    ``shown``: as SHOW has it, as a bare number in the parameter's own unit, its type, its source and its unit.
    """
    name = name.lower()
    current, bare, kind, source, unit = shown
    if source == "override" and name in _CHOSEN:
        return wanted == _CHOSEN[name]
    if kind in ("integer", "real"):
        try:
            found = amount(wanted, unit)
        except ValueError:
            return False
        # Of a real number the server shows six digits.
        return round(found) == int(bare) if kind == "integer" else f"{found:g}" == f"{float(bare):g}"
    word = wanted.strip().lower()
    if kind in ("bool", "enum"):
        word = _BOOLEAN.get(word, word)
    return _ALIASES.get((name, word), word) == current.lower()
