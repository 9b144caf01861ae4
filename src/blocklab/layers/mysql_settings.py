"""The variables of a MariaDB or MySQL server: which a study may set, which there are, what is the same value."""

from __future__ import annotations

import re
from collections.abc import Mapping

from blocklab.model.access import mysql_client
from blocklab.model.allowed import PLAIN, Allowed, Shape, entries
from blocklab.model.dialect import Dialect, Value, size
from blocklab.model.dsn import Dsn
from blocklab.model.knobs import Knob, KnobKind, Number, Table, Tell, number
from blocklab.model.plan import Argv

# "sync_binlog", "innodb_buffer_pool_size": a system variable as SHOW GLOBAL VARIABLES spells it.
_NAME = re.compile(r"[a-z][a-z0-9_]*")
# Neither quotes, backslashes and comment signs, which option files treat in ways of their own, nor line breaks.
_HOLDS = Shape(
    "a value that the server's configuration file can hold",
    r"[A-Za-z0-9_.,:;=+/@%*~\x20-]*",
)
# Where the layer itself decides.
_OURS = (
    "auto_generate_certs|basedir|bind_address|caching_sha2_password_auto_generate_rsa_keys|character_sets_dir|chroot|"
    "datadir|extra_port|init_file|lc_messages_dir|log_basename|log_error|mysqlx|named_pipe|pid_file|port|"
    "require_secure_transport|secure_file_priv|sha256_password_auto_generate_rsa_keys|skip_name_resolve|"
    "skip_networking|socket|ssl|tls_version|user|ssl_.*"
)
# What the server writes would go past the layers below, so it would not be measured. These are switches.
_ELSEWHERE = (
    "(?!(general_log|slow_query_log|relay_log_recovery|log_slow_query)$)"
    "(.*(_dir|_directory|_dir_path|_tmpdir|_log_file|_log_index|_log)|tmpdir|log_bin_index)"
)
# Options with these beginnings load a library or start a program. The server takes the beginning of an option's
# name for the whole, so a name that one of these starts with is refused as well.
_PROGRAMS = "|".join(
    "|".join((f"{start}.*", *(start[:end] for end in range(1, len(start)))))
    for start in ("plugin_load", "plugin_dir", "early_plugin_load", "wsrep_", "gdb", "log_error_services")
)
# "mrr=on,mrr_cost_based=off", "ANSI,NO_ZERO_DATE", "+00:00", ""
_WORDS = Shape(
    "words of letters, digits and _ . : , = + -",
    r"(?:[A-Za-z0-9_+-](?:[A-Za-z0-9_:,=+ -]|\.(?!\.))*)?",
)
# "ibdata1:12M:autoextend:max:1G;ibdata2:10M": files in the data directory
_ONE_FILE = r"[A-Za-z0-9_]+:\d+[KMG]?(?::autoextend(?::max:\d+[KMG]?)?)?"
_FILES = Shape("files in the data directory like ibdata1:12M:autoextend", rf"{_ONE_FILE}(?:;{_ONE_FILE})*")
# MariaDB 12, MySQL 9 and before. All other variables take numbers and truth values: none of these names a file or
# a program.
ALLOWED = Allowed(
    "the server",
    {
        **entries(_WORDS, """
            alter_algorithm aria_group_commit aria_log_purge_type aria_recover_options aria_stats_method
            aria_sync_log_dir binlog_checksum binlog_format binlog_row_image binlog_row_metadata
            binlog_row_value_options binlog_transaction_dependency_tracking block_encryption_mode
            character_set_filesystem character_set_server character_set_client collation_server
            column_compression_zlib_strategy completion_type concurrent_insert default_regex_flags
            default_storage_engine default_tmp_storage_engine default_time_zone delay_key_write
            enforce_gtid_consistency enforce_storage_engine event_scheduler explain_format gtid_mode
            gtid_pos_auto_engines histogram_type innodb_buffer_pool_filename innodb_change_buffering
            innodb_checksum_algorithm innodb_compression_algorithm innodb_deadlock_report innodb_default_row_format
            innodb_doublewrite innodb_encrypt_tables innodb_flush_method innodb_instant_alter_column_allowed
            innodb_linux_aio innodb_monitor_disable innodb_monitor_enable innodb_stats_method
            internal_tmp_disk_storage_engine internal_tmp_mem_storage_engine lc_messages lc_time_names
            log_disabled_statements log_output log_slow_disabled_statements log_slow_filter log_slow_verbosity
            log_timestamps myisam_recover_options myisam_stats_method note_verbosity old_alter_table old_mode
            optimizer_adjust_secondary_key_costs optimizer_switch optimizer_trace optimizer_trace_features
            performance_schema_instrument query_cache_type rbr_exec_mode replica_exec_mode replica_parallel_type
            rpl_semi_sync_master_wait_point rpl_semi_sync_source_wait_point session_track_gtids
            session_track_transaction_info slave_exec_mode slave_parallel_mode slave_parallel_type
            slave_type_conversions sql_mode system_versioning_alter_history tc_heuristic_recover
            terminology_use_previous thread_handling thread_pool_priority transaction_isolation
            transaction_write_set_extraction tx_isolation updatable_views_with_limit use_secondary_engine
            use_stat_tables
        """),
        **entries(_FILES, "innodb_data_file_path innodb_temp_data_file_path"),
        **entries(_WORDS, """
            binlog_do_db binlog_ignore_db character_set_collations mhnsw_default_distance new_mode
        """),
    },
    {
        "skip_grant_tables": "anybody could log in to the server",
        "allow_suspicious_udfs": "it lets the server load other libraries",
        "init_connect": "it runs SQL at each connection; use a workload",
        "ft_stopword_file": "it names a file of the host", "des_key_file": "it names a file of the host",
    },
    PLAIN,
    never={
        _OURS: "is set by the layer itself; leave it out",
        _PROGRAMS: "would make the server load a library or run a program; not allowed in a study",
        # "loose_x" is ignored where x is unknown: other spellings of a variable's name.
        "(loose|enable|disable|maximum|autoset)_.*":
        "is an option's prefix and a variable; write the variable's own name, with true or false",
        _ELSEWHERE: "is where the server writes; all of it stays on the layer below, so leave it out",
    },
)  # fmt: skip
# They decide what the files look like once tables are made, so they go into the command that makes them.
MADE_WITH = frozenset(
    {
        "character_set_server", "collation_server", "default_storage_engine", "innodb_checksum_algorithm",
        "innodb_compression_algorithm", "innodb_compression_default", "innodb_data_file_path",
        "innodb_default_row_format", "innodb_file_per_table", "innodb_page_size", "innodb_undo_tablespaces",
        "lower_case_table_names",
    }
)  # fmt: skip
# Stored with each run beside what the study set: which server it was, and what decides the cost of a commit.
ALWAYS = (
    "version", "innodb_buffer_pool_size", "innodb_doublewrite", "innodb_flush_log_at_trx_commit",
    "innodb_flush_method", "log_bin", "sync_binlog",
)  # fmt: skip
BINLOG = "binlog"
_REFUSED_BINLOG = (
    "is true or false; the files are called binlog.000001 and so on, in the data directory, whatever the node"
)

# Name, type, least, most, step, words; NULL where there is none.
MARIADB_VARIABLES = (
    "SELECT LOWER(VARIABLE_NAME), VARIABLE_TYPE, NUMERIC_MIN_VALUE, NUMERIC_MAX_VALUE, NUMERIC_BLOCK_SIZE, "
    "ENUM_VALUE_LIST FROM information_schema.SYSTEM_VARIABLES ORDER BY VARIABLE_NAME"
)
MYSQL_VARIABLES = (
    # Of a fraction MySQL tells the bounds cut to whole numbers, or as the bits of a double.
    "SELECT VARIABLE_NAME, DATA_TYPE, IF(DATA_TYPE = 'Numeric', NULL, MIN_VALUE), "
    "IF(DATA_TYPE = 'Numeric', NULL, MAX_VALUE), NULL, NULL "
    "FROM performance_schema.variables_metadata ORDER BY VARIABLE_NAME"
)
_KINDS: Mapping[str, KnobKind] = {
    "BOOLEAN": "truth", "ENUM": "word", "FLAGSET": "words", "SET": "words", "DOUBLE": "real", "NUMERIC": "real",
}  # fmt: skip
#   --aria-block-size=# Block size to be used for Aria index pages
#   -a, --ansi          Use ANSI SQL syntax instead of MariaDB syntax. This mode
_OPTION = re.compile(r"^ +(?:-\w, )?--([a-z][\w-]*)", re.MULTILINE)


def ask(tell: Tell, where: str, program: str, query: str) -> Table:
    """Every variable of the server that stands at ``where``; what is no option of its program is ``fixed``."""
    text = tell(*client(Dsn.of(where)), f"--execute={query}")
    options = {
        name.replace("-", "_") for name in _OPTION.findall(tell(program, "--no-defaults", "--verbose", "--help"))
    }
    # Each option may be taken away: --skip-external-locking.
    options |= {f"skip_{name}" for name in options}
    found = {}
    for line in text.splitlines():
        # innodb_page_size	BIGINT UNSIGNED	4096	65536	0	NULL
        name, *fields = line.split("\t")
        if len(fields) != 5:
            raise ValueError(f"{line!r} is no variable of {program}")
        # The help leaves some of the engine's options out.
        found[name] = _variable(*fields, fixed=name not in options and not name.startswith("innodb_"))
    return {"": found}


def client(dsn: Dsn) -> Argv:
    """The client's command line, without what it is to do."""
    return (
        *mysql_client(dsn.passfile), f"--user={dsn.user}", f"--socket={dsn.socket}", "--batch",
        "--skip-column-names",
    )  # fmt: skip


def _variable(kind: str, low: str, high: str, step: str, words: str, *, fixed: bool) -> Knob:
    known = _KINDS.get(kind.upper(), "integer" if "INT" in kind.upper() else "text")
    if known in ("integer", "real"):
        return Knob(known, number(low), number(high), step=int(number(step) or 1), fixed=fixed)
    several = () if words == "NULL" or known == "truth" else tuple(words.split(","))
    return Knob(known, words=several, fixed=fixed)


def problem(name: str, value: Value) -> str | None:
    """Why a study may not set ``name`` to ``value``, whatever the server; None where it may."""
    if not _NAME.fullmatch(name):
        meant = name.lower().replace("-", "_")
        example = meant if _NAME.fullmatch(meant) else "it as SHOW GLOBAL VARIABLES does, e.g. sync_binlog"
        return f"is not the name of a server variable; write {example}"
    if name == "log_bin":
        return None if isinstance(value, bool) else _REFUSED_BINLOG
    return _HOLDS.problem(text_of(value)) or ALLOWED.problem(name, text_of(value).strip())


def _amount(value: str, knob: Knob) -> Number:
    text = value.lower()
    if (found := size(text)) is not None:
        return found
    if not _REAL.fullmatch(text):
        raise ValueError(f"{value!r} is not a number")
    if knob.kind == "integer":
        raise ValueError(f"{value!r} is not a whole number")
    return float(text)


def dialect(title: str) -> Dialect:
    """That of the server called ``title``."""
    return Dialect(
        f"{title} has no such variable",
        _amount,
        _BOOLEAN,
        f"{title} does not accept it as a startup option; leave it out",
        true="ON",
        false="OFF",
        usual=frozenset({"", "default"}),
    )


def text_of(value: Value) -> str:
    """A value as both servers take it."""
    return dialect("").text(value)


def config(settings: Mapping[str, Value]) -> str:
    """The server's configuration file. The binary log has the same name on each node: by default that follows
    the host, so that a server that takes over would not find the log of the one that died."""
    lines = ["[mysqld]"]
    for name, value in settings.items():
        if name == "log_bin":
            lines.append(f"log_bin = {BINLOG}" if value else "skip_log_bin")
        else:
            lines.append(f"{name} = {text_of(value)}")
    return "\n".join([*lines, ""])


def made_with(settings: Mapping[str, Value]) -> tuple[str, ...]:
    """The settings that decide what the files look like, as options for the command that makes them."""
    return tuple(f"--{name}={text_of(value)}" for name, value in settings.items() if name in MADE_WITH)


def query(settings: Mapping[str, Value]) -> str:
    """Asks the running server for its variables."""
    names = dict.fromkeys((*settings, *ALWAYS))
    return f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({', '.join(repr(name) for name in names)})"


def parse_variables(text: str, wanted: Mapping[str, str]) -> dict[str, str]:
    """What SHOW GLOBAL VARIABLES printed, without headings, as name -> value.

    A value that is the same as the wanted one comes in the study's spelling (256M for 268435456); another one,
    as the server shows it: one that it could not take as it was and clamped, for instance.
    """
    found = {}
    for line in text.splitlines():
        # innodb_buffer_pool_size	67108864
        name, tab, value = line.partition("\t")
        if not tab or not _NAME.fullmatch(name):
            raise ValueError(f"{line!r} is no server variable")
        found[name] = wanted[name] if name in wanted and alike(wanted[name], value) else value
    return found


# "10.000000" is how the server shows 10 s.
_REAL = re.compile(r"-?(\d+|\d*\.\d+)(e[-+]?\d+)?")
_BOOLEAN = {"on": "1", "true": "1", "1": "1", "off": "0", "false": "0", "0": "0"}
# "utf8", "utf8_general_ci": today's name has the number of bytes in it.
_UTF8 = re.compile(r"^utf8(?=_|$)")
# Modes of sql_mode that stand for several, which the server shows beside them.
_SEVERAL = frozenset({"ansi", "traditional", "oracle", "mssql", "db2", "maxdb", "postgresql"})


def canonical(text: str) -> str:
    """One spelling for each value: 1G is 1073741824, ON is true and 1, and a list has no order."""
    value = text.strip().lower()
    if (number := size(value)) is not None:
        return str(number)
    if _REAL.fullmatch(value):
        return f"{round(float(value), 9) + 0.0:.9f}".rstrip("0").rstrip(".")
    if "," in value:
        return ",".join(sorted(part.strip() for part in value.split(",")))
    return _UTF8.sub("utf8mb3", _BOOLEAN.get(value, value))


def alike(wanted: str, value: str) -> bool:
    """Whether the server's ``value`` is what a study meant by ``wanted``.

    Of a set of switches (optimizer_switch) a study names some, and the server shows all; ``sql_mode: ANSI`` it
    shows with all that it stands for.
    """
    ours, theirs = canonical(wanted), canonical(value)
    named = set(ours.split(","))
    if "=" in ours or named & _SEVERAL:
        return named - {"default"} <= set(theirs.split(","))
    return ours == theirs
