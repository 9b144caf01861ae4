"""MariaDB and MySQL: what a study may set, the plan, and what the servers' answers mean."""

from __future__ import annotations

import configparser

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from blocklab.layers import MariaDb, MySql, mysql_settings
from blocklab.model.dialect import Value
from blocklab.model.ground import Ground, Topology
from blocklab.model.layer import Equipped, Place
from blocklab.model.plan import Plan, Port, Put, Run, again, made_once
from tests.unit.asked import tables
from tests.unit.golden import FOLDER, Golden

SHOWN = (FOLDER / "knobs" / "mariadb-variables").read_text()
NOWHERE = Topology({}, {}, ())
BELOW = (Port("a1", "dir", "/mnt/db"),)
SETTINGS: dict[str, Value] = {"innodb_buffer_pool_size": "256M", "innodb_page_size": "8k", "log_bin": True}
SERVERS: dict[str, type[MariaDb] | type[MySql]] = {"mariadb": MariaDb, "mysql": MySql}


def plan(layer: MariaDb | MySql, *listen: str, number: int = 0) -> Plan:
    return layer.plan(Place("db", "a1", number, Ground({}, {}), listen), BELOW)


def config_of(made: Plan) -> str:
    return next(step.text for step in made.steps if isinstance(step, Put) and step.path.endswith("server.conf"))


@pytest.mark.parametrize("name", SERVERS)
def test_the_plan_of_a_server(golden: Golden, name: str) -> None:
    made = plan(SERVERS[name](settings=SETTINGS), "10.77.1.1")
    facts = [{"host": fact.host, "argv": fact.argv, "wanted": dict(fact.wanted)} for fact in made.facts]
    value = msgspec.to_builtins({"steps": made.steps, "facts": facts, "ports": made.ports})
    golden.check(f"plans/{name}.json", value)


@pytest.mark.parametrize("name", SERVERS)
def test_built_again_it_makes_no_system_tables_but_grants_what_is_asked_for_now(name: str) -> None:
    steps = again(plan(SERVERS[name](), "10.77.1.1", "10.77.3.2").steps)
    assert not any("mariadb-install-db" in step.argv or "--initialize-insecure" in step.argv
                   for step in steps if isinstance(step, Run))  # fmt: skip
    granted = next(step.text for step in steps if isinstance(step, Put) and step.path.endswith("init.sql"))
    for host in ("127.0.0.1", "10.77.1.%", "10.77.3.%"):
        assert f"TO 'root'@'{host}'" in granted
    assert granted.startswith("SET SESSION sql_log_bin = 0;\n") and all(
        line.endswith(";") for line in granted.splitlines()
    )


def test_data_made_with_another_page_size_are_other_data() -> None:
    """A copy of volumes is shared by all layouts whose commands that make data are the same."""

    def made(**settings: Value) -> object:
        return made_once(plan(MariaDb(settings=settings)).steps)

    assert made(innodb_page_size="8k") != made(innodb_page_size="16k")
    assert made(sync_binlog=1) == made()


def test_two_servers_on_a_node_share_no_port_and_no_socket() -> None:
    first, second = plan(MariaDb()), plan(MariaDb(), number=1)
    assert first.ports[0].where != second.ports[0].where
    assert "port = 3306\n" in config_of(first) and "port = 3307\n" in config_of(second)


def test_what_the_layer_decides_comes_after_what_it_only_prefers() -> None:
    text = config_of(plan(MySql(settings={"performance_schema": True})))
    assert "performance_schema = ON\n" in text and "performance_schema = OFF" not in text
    assert "performance_schema = OFF\n" in config_of(plan(MySql()))


def test_the_binary_log_has_one_name_on_every_node() -> None:
    assert "\nlog_bin = binlog\n" in config_of(plan(MariaDb(settings={"log_bin": True})))
    assert "\nskip_log_bin\n" in config_of(plan(MySql(settings={"log_bin": False})))
    assert "log_bin" not in config_of(plan(MySql()))


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("sync-binlog", 1, "is not the name of a server variable"),
        ("Sync_Binlog", 1, "is not the name of a server variable"),
        ("datadir", "/mnt/x", "set by the layer itself"),
        ("port", 3306, "set by the layer itself"),
        ("ssl_cert", "x", "set by the layer itself"),
        ("init_file", "/x", "set by the layer itself"),
        ("plugin_load_add", "ha_x", "load a library or run a program"),
        ("plugin_loa", "ha_x", "load a library or run a program"),
        ("wsrep_provider", "x.so", "load a library or run a program"),
        ("wsrep", "x", "load a library or run a program"),
        ("loose_sync_binlog", 1, "is an option's prefix and a variable"),
        ("innodb_log_group_home_dir", "/x", "stays on the layer below"),
        ("innodb_undo_directory", "/x", "stays on the layer below"),
        ("tmpdir", "/x", "stays on the layer below"),
        ("general_log_file", "/x", "stays on the layer below"),
        ("log_bin", "/x", "is true or false"),
        ("innodb_directories", "/x", "words are only for options that are known to name no file"),
        ("log_slow_query_file", "/x", "words are only for options that are known to name no file"),
        ("master_info_file", "/x", "words are only for options that are known to name no file"),
        ("relay_log_info_file", "x", "words are only for options that are known to name no file"),
        ("log_tc", "/x", "words are only for options that are known to name no file"),
        ("innodb_data_file_path", "/etc/x:12M", "is not files in the data directory"),
        ("innodb_temp_data_file_path", "../x:12M:autoextend", "is not files in the data directory"),
        ("innodb_buffer_pool_filename", "../../x", "is not words"),
        ("slow_query_log_file", "/x", "stays on the layer below"),
        ("init_connect", "SELECT 1", "runs SQL"),
        ("server_audit_file_path", "x", "words are only for options"),
        ("skip_grant_tables", True, "anybody could log in"),
        ("sync_binlog", "often", "is not a number, true or false"),
        ("innodb_file_per_table", "maybe", "is not a number, true or false"),
        ("sql_mode", "a\nplugin_load=x", "is not a value"),
        ("sql_mode", "'a'", "is not a value"),
        ("sql_mode", "a\n", "is not a value"),
        ("sql_mode", "a # b", "is not a value"),
        ("sync-binlog", 1, "write sync_binlog"),
    ],
)
@pytest.mark.parametrize("server", SERVERS)
def test_settings_that_are_refused(server: str, name: str, value: Value, why: str) -> None:
    ((field, problem),) = SERVERS[server](settings={name: value}).problems("a1", NOWHERE)
    assert field == f"settings.{name}" and why in problem


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("skip_log_bin", True, "has no such variable"),
        ("sync_binlogg", 1, "has no such variable; did you mean sync_binlog?"),
        ("hostname", 1, "does not accept it as a startup option"),
        ("sync_binlog", 0.5, "is not a whole number"),
        ("max_connections", 1_000_000, "is out of range"),
        ("innodb_flush_log_at_trx_commit", 4, "4 is out of range: from 0 to"),
        ("innodb_file_per_table", 7, "is neither true nor false"),
    ],
)
@pytest.mark.parametrize("server", SERVERS)
def test_settings_that_the_server_does_not_take(server: str, name: str, value: Value, why: str) -> None:
    layer = SERVERS[server](settings={name: value})
    assert layer.problems("a1", NOWHERE) == []
    ((field, problem),) = layer.unknown(tables()[server])
    assert field == f"settings.{name}" and why in problem


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sync_binlog", 1), ("innodb_flush_log_at_trx_commit", 2), ("innodb_buffer_pool_size", "256M"),
        ("innodb_doublewrite", False), ("log_bin", True), ("slow_query_log", True), ("general_log", 0),
        ("sql_mode", ""),
        ("innodb_data_file_path", "ibdata1:12M:autoextend"), ("optimizer_switch", "mrr=on,mrr_cost_based=off"),
        ("long_query_time", 0.5), ("skip_external_locking", True), ("transaction_isolation", "read-committed"),
        ("binlog_format", "row"), ("sql_mode", "ANSI,NO_ZERO_DATE"), ("optimizer_switch", "default"),
    ],
)  # fmt: skip
def test_settings_that_are_taken(name: str, value: Value) -> None:
    layer = MariaDb(settings={name: value})
    assert layer.problems("a1", NOWHERE) == [] and list(layer.unknown(tables()["mariadb"])) == []


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("binlog_format", "rows", "'rows' is not one of its values: MIXED, STATEMENT or ROW; did you mean row?"),
        ("binlog_format", 1, "'1' is not one of its values: MIXED, STATEMENT or ROW"),
        ("sql_mode", "ANSI,STRIKT_ALL_TABLES", "did you mean strict_all_tables?"),
        ("optimizer_switch", "mrrr=on", "'mrrr' is not one of its values"),
        ("time_zone", "+00:00", "does not accept it as a startup option"),
        ("binlog_group_commit_sync_delay", 100, "MariaDB has no such variable"),
    ],
)
def test_what_mariadb_alone_tells_of_its_variables(name: str, value: Value, why: str) -> None:
    ((_, problem),) = MariaDb(settings={name: value}).unknown(tables()["mariadb"])
    assert why in problem
    assert list(MySql(settings={"binlog_group_commit_sync_delay": 100}).unknown(tables()["mysql"])) == []


def test_variables_of_a_real_server() -> None:
    wanted = {
        "innodb_buffer_pool_size": "64M", "skip_name_resolve": "1", "long_query_time": "10", "log_bin": "ON",
        "optimizer_switch": "mrr=off,index_merge=on", "binlog_format": "mixed", "innodb_page_size": "16K",
        "sql_mode": "NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_CREATE_USER,STRICT_TRANS_TABLES",
        "innodb_io_capacity": "50", "transaction_isolation": "READ-COMMITTED", "sync_binlog": "1",
    }  # fmt: skip
    found = mysql_settings.parse_variables(SHOWN, wanted)
    wrong = {name: found[name] for name in wanted if found[name] != wanted[name]}
    # The last three differ: shown as the server has them.
    assert wrong == {"innodb_io_capacity": "200", "transaction_isolation": "REPEATABLE-READ", "sync_binlog": "0"}
    assert found["version"].startswith("11.8") and found["innodb_flush_method"] == "O_DIRECT"


def test_an_answer_that_is_no_list_of_variables_is_an_error() -> None:
    with pytest.raises(ValueError, match="is no server variable"):
        mysql_settings.parse_variables("ERROR 2002 (HY000): Can't connect to local server\n", {})


@pytest.mark.parametrize(
    ("one", "same"),
    [
        ("1G", "1073741824"), ("256m", "268435456"), ("ON", "1"), ("true", "ON"), ("off", "0"),
        ("0.5", "0.500000"),
        ("10", "10.000000"), ("ROW", "row"), ("a,b", "b,a"), ("", ""), ("-1", "-1"),
        ("5e-05", "0.000050"), ("1e2", "100.000000"), ("utf8", "utf8mb3"), ("utf8_bin", "utf8mb3_bin"),
    ],
)  # fmt: skip
def test_values_have_one_spelling(one: str, same: str) -> None:
    assert mysql_settings.alike(one, same) and mysql_settings.alike(same, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1G", "1000000000"), ("ON", "OFF"), ("mrr=on", "mrr=off"), ("a", "a,b"), ("utf8", "utf8mb4"),
        ("ANSI", "ANSI_QUOTES,IGNORE_SPACE"), ("1e-05", "0.000000"),
    ],
)  # fmt: skip
def test_different_values_stay_different(one: str, other: str) -> None:
    assert not mysql_settings.alike(one, other)


def test_a_mode_that_stands_for_several_is_shown_with_them() -> None:
    shown = "REAL_AS_FLOAT,PIPES_AS_CONCAT,ANSI_QUOTES,IGNORE_SPACE,ANSI"
    assert mysql_settings.alike("mrr=on,default", "mrr=on,mrr_sort_keys=off")
    assert mysql_settings.alike("ANSI", shown) and not mysql_settings.alike("ANSI,NO_ZERO_DATE", shown)


@given(st.text() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans())
def test_a_value_that_is_taken_is_one_line_and_stays_what_it_is(value: Value) -> None:
    assume(mysql_settings.problem("sql_mode", value) is None)
    text = mysql_settings.config({"sql_mode": value})
    read = configparser.RawConfigParser(delimiters="=", comment_prefixes=("#",), inline_comment_prefixes=("#",))
    read.read_string(text)
    assert len(text.splitlines()) == 2
    assert dict(read["mysqld"]) == {"sql_mode": mysql_settings.text_of(value).strip()}


@given(st.text())
def test_the_one_spelling_is_its_own_spelling(text: str) -> None:
    once = mysql_settings.canonical(text)
    assert mysql_settings.canonical(once) == once


def test_only_one_of_them_needs_more_than_the_usual_image() -> None:
    assert MySql.needs == ("mysql",) and not isinstance(MariaDb(), Equipped)
