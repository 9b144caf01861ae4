"""Knobs that a node would refuse are refused with their path, the nearest name and the range, before it boots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from blocklab.errors import StudyError
from blocklab.layers import drbd
from blocklab.layers.drbd import Drbd
from blocklab.layers.filesystem import Ext4, Xfs
from blocklab.layers.mysql import MariaDb, MySql
from blocklab.layers.postgres import Postgres, parse_settings
from blocklab.model import known, sysctls
from blocklab.model.ground import Topology
from blocklab.study.read import build
from tools import knobs

NOWHERE = Topology({}, {}, ())
TABLES = sorted(path.stem for path in Path(known.__file__).parent.glob("*.txt"))


def refused(small: dict[str, Any], stack: str, layer: int, field: str, value: Any) -> str:
    """The error of the small study with one field of a layer changed."""
    small["stacks"][stack]["layers"][layer][field] = value
    with pytest.raises(StudyError) as caught:
        build(small)
    return f"{caught.value.path}: {caught.value}"


@pytest.mark.parametrize(
    ("section", "options", "why"),
    [
        (
            "net",
            {"max-bufers": 8000},
            ".net.max-bufers: DRBD 8.4 has no such net option; did you mean max-buffers?",
        ),
        ("net", {"max-buffers": "lots"}, "'lots' is not a number"),
        ("net", {"max-buffers": -5}, "-5 is out of range: from 32 to 131072"),
        ("net", {"max-buffers": 10_000_000}, "10000000 is out of range: from 32 to 131072"),
        ("net", {"al-extents": 6433}, "is an option of DRBD's disk section; write it there"),
        ("net", {"cpu-mask": 1}, "is an option of DRBD's options section; a study does not set those"),
        ("net", {"protocol": "A"}, "as the layer's own field"),
        ("net", {"on-congestion": "pullahead"}, "did you mean pull-ahead?"),
        ("net", {"on-congestion": "pull-ahead"}, "only protocol A can pull ahead"),
        ("net", {"tcp-cork": "on"}, "'on' is neither true nor false"),
        ("net", {"sndbuf-size": "11M"}, "11M is out of range: from 0 to 10485760"),
        ("disk", {"max-buffers": 8000}, "is an option of DRBD's net section; write it there"),
        ("disk", {"al-extents": 1_000_000}, "1000000 is more than the activity log has room for: at most 6433"),
        ("disk", {"al-extents": 66}, "66 is out of range: from 67 to 65534"),
        ("disk", {"al-extents": 6434}, "6434 is more than the activity log has room for: at most 6433"),
        ("disk", {"resync-rate": "5G"}, "5G is out of range: from 1k to 4194304k"),
        ("disk", {"c-fill-target": 1_048_577}, "1048577 is out of range: from 0s to 1048576s"),
        ("disk", {"no-disk-flushes": True}, "no such disk option"),
        ("disk", {"fencing": "resource-only"}, "'resource-only' calls a handler of drbd.conf"),
        ("disk", {"fencing": "resource-and-stonith"}, "calls a handler of drbd.conf, and a node has none"),
        ("disk", {"on-io-error": "call-local-io-error"}, "calls a handler"),
        ("net", {"rr-conflict": "call-pri-lost"}, "calls a handler"),
        ("net", {"after-sb-1pri": "call-pri-lost-after-sb"}, "calls a handler"),
    ],
)
def test_options_of_drbd(small: dict[str, Any], section: str, options: dict[str, Any], why: str) -> None:
    error = refused(small, "mirror", 1, section, options)
    assert error.startswith(f"stacks.mirror.layers[1].{section}.{next(iter(options))}")
    assert why in error


def test_options_of_drbd_that_are_taken(small: dict[str, Any]) -> None:
    small["stacks"]["mirror"]["layers"][1] |= {
        "protocol": "A",
        "net": {
            "max-buffers": "128k", "on-congestion": "pull-ahead", "congestion-fill": "400k", "sndbuf-size": "10M",
            "verify-alg": "crc32c", "tcp-cork": False, "after-sb-0pri": "discard-zero-changes",
            "shared-secret": "call-me",
        },
        "disk": {
            "al-extents": 6433, "c-max-rate": "1G", "c-fill-target": "16M", "disk-flushes": False,
            "resync-rate": 10240, "read-balancing": "32K-striping", "fencing": "dont-care",
        },
    }  # fmt: skip
    build(small)


def test_the_units_of_bare_numbers_are_what_drbd_says() -> None:
    units = {name: knob.unit for section in ("net", "disk") for name, knob in known.table("drbd")[section].items()}
    assert {name: unit for name, unit in units.items() if unit} == drbd._BARE


@pytest.mark.parametrize(
    ("kind", "field", "value", "why"),
    [
        (Ext4, "mount", ["barier=0"], "mount[0]: 'barier' is no mount option of ext4 that a study can set; "
         "did you mean barrier?"),
        (Ext4, "mount", ["noatime", "barrier=0", "barrier=1"],
         "mount[2]: 'barrier=1' decides the same as 'barrier=0'"),
        (Ext4, "mount", ["noatime", "relatime"], "mount[1]: 'relatime' decides the same as 'noatime'"),
        (Ext4, "mount", ["ro"], "mount[0]: nothing could be written"),
        (Ext4, "mount", ["barrier=2"], "2 is out of range: from 0 to 1"),
        (Ext4, "mount", ["commit"], "'commit' needs a value: commit=NUMBER"),
        (Ext4, "mount", ["commit=soon"], "'soon' is not a whole number"),
        (Ext4, "mount", ["data=write-back"], "did you mean writeback?"),
        # The kernel takes it, and shows it nowhere.
        (Ext4, "mount", ["journal_ioprio=3"], "'journal_ioprio' is no mount option of ext4 that a study can set"),
        (Ext4, "mount", ["noatime=1"], "takes no value, but has '1'"),
        (Ext4, "mount", ["logbsize=256k"], "is an option of xfs, and this is ext4"),
        (Ext4, "mkfs", ["-Q"], "mkfs[0]: mkfs.ext4 has no option -Q"),
        (Ext4, "mkfs", ["-b", "1024", "-n"], "mkfs[2]: mkfs.ext4 has no option -n"),
        (Ext4, "mkfs", ["-qQ"], "mkfs[0]: mkfs.ext4 has no option -Q"),
        (Ext4, "mkfs", ["-b"], "mkfs[0]: -b of mkfs.ext4 needs a value"),
        (Ext4, "mkfs", ["-b", "big"], "mkfs[0]: -b of mkfs.ext4: 'big' is not a number"),
        (Ext4, "mkfs", ["-e", "ignore"], "mkfs[0]: -e of mkfs.ext4: 'ignore' is not one of its values"),
        (Ext4, "mkfs", ["-O", "^has_jurnal"], "did you mean has_journal?"),
        (Ext4, "mkfs", ["-Estrid=16"], "did you mean stride?"),
        (Xfs, "mkfs", ["-m", "crc=1,relink=0"], "did you mean reflink?"),
        (Ext4, "mkfs", ["1024"], "mkfs[0]: '1024' is no option"),
        (Xfs, "mount", ["data=writeback"], "mount[0]: 'data' is an option of ext4, and this is xfs"),
        (Xfs, "mount", ["nobarrier"], "mount[0]: xfs has no 'nobarrier' since Linux 4.19"),
        (Xfs, "mount", ["logbufs=9"], "9 is out of range: from 2 to 8"),
        (Xfs, "mount", ["logbsize=1m"], "1m is out of range"),
        (Xfs, "mkfs", ["-E", "nodiscard"], "mkfs[0]: mkfs.xfs has no option -E"),
    ],
)  # fmt: skip
def test_options_of_file_systems(kind: Any, field: str, value: list[str], why: str) -> None:
    found = kind(**{field: tuple(value)}).problems("a1", NOWHERE)
    assert why in f"{found[0][0]}: {found[0][1]}"


def test_options_of_file_systems_that_are_taken() -> None:
    ext4 = Ext4(
        mount=("noatime", "barrier=0", "data=writeback", "commit=30", "init_itable", "nodiscard", "barrier=0"),
        mkfs=("-E", "stride=16", "-O", "^metadata_csum", "-b1024", "-Fq", "-I", "256", "-m", "0.5"),
    )
    xfs = Xfs(
        mount=("allocsize=1m", "logbsize=262144", "strictatime", "uquota"), mkfs=("-m", "reflink=0", "-d", "su=4k")
    )
    assert ext4.problems("a1", NOWHERE) == [] and xfs.problems("a1", NOWHERE) == []


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"shared_bufers": "64MB"}, "settings.shared_bufers: PostgreSQL 17 has no such parameter; "
         "did you mean shared_buffers?"),
        ({"Shared_Buffers": "64MB", "shared_buffers": "32MB"}, "is set twice"),
        ({"server_version": "18"}, "the server only tells it"),
        ({"PORT": 1}, "is set by the layer itself"),
        ({"Archive_Command": "x"}, "run a command"),
        ({"fsync": "maybe"}, "'maybe' is neither true nor false"),
        ({"synchronous_commit": "remote"}, "'remote' is not one of its values"),
        ({"wal_level": "logica"}, "did you mean logical?"),
        ({"checkpoint_timeout": "2d"}, "2d is out of range: from 30s to 86400s"),
        ({"checkpoint_timeout": "5MB"}, "has no unit that it takes: us, ms, s, min, h or d"),
        ({"max_connections": 0}, "0 is out of range: from 1 to 262143"),
        ({"max_connections": "0x80000"}, "0x80000 is out of range"),
        ({"log_file_mode": "01000"}, "01000 is out of range: from 0 to 511"),
        ({"max_connections": "100kB"}, "has no unit that it takes: it has none"),
        ({"shared_buffers": "64kB"}, "64kB is out of range: from 16 x 8kB"),
        ({"shared_buffers": "much"}, "'much' is not a number"),
        ({"random_page_cost": -1}, "-1 is out of range: at least 0"),
        ({"a-b": 1}, "is not the name of a server parameter"),
    ],
)  # fmt: skip
def test_parameters_of_postgresql(settings: dict[str, Any], why: str) -> None:
    ((field, problem),) = Postgres(settings=settings).problems("a1", NOWHERE)
    assert why in f"{field}: {problem}"


def test_parameters_of_postgresql_that_are_taken() -> None:
    settings: dict[str, Any] = {
        "TimeZone": "UTC", "datestyle": "ISO", "SHARED_BUFFERS": 4096, "maintenance_work_mem": "0.03GB",
        "wal_buffers": -1, "wal_level": "hot_standby", "wal_compression": "yes", "log_min_messages": "debug",
        "fsync": 1, "synchronous_commit": "ON", "vacuum_cost_delay": "2ms", "cpu_tuple_cost": 1e-2,
        "max_connections": "0x80", "auto_explain.log_min_duration": 5, "checkpoint_timeout": "1 h",
        "log_file_mode": "0600",
        "log_rotation_size": "1GB", "effective_io_concurrency": 0,
    }  # fmt: skip
    assert Postgres(settings=settings).problems("a1", NOWHERE) == []


def test_a_parameter_is_read_back_by_the_name_that_the_study_has() -> None:
    shown = '{"TimeZone": ["UTC", "UTC", "string", "configuration file"]}'
    for name in ("TimeZone", "timezone", "TIMEZONE"):
        assert parse_settings(shown, {name: "utc"}) == {name: "utc"}
        assert parse_settings(shown, {name: "CET"}) == {name: "UTC"}


def test_kernel_parameters(small: dict[str, Any]) -> None:
    small["nodes"]["a1"]["sysctl"] = {"net.ipv4.tcp_rmem": "4096 131072 6291456", "net.ipv4.tcp_wmme": 1}
    with pytest.raises(StudyError, match=r"did you mean net\.ipv4.tcp_wmem") as caught:
        build(small)
    assert caught.value.path == "nodes.a1.sysctl[net.ipv4.tcp_wmme]"
    assert (
        sysctls.problem("net.ipv4.tcp_rmme")
        == "a node's kernel has no such parameter; did you mean net.ipv4.tcp_rmem?"
    )
    assert sysctls.problem("net.ipv4.conf.vec0.rp_filte") is not None
    for name in (
        "net.ipv4.tcp_rmem",
        "net.ipv4.conf.vec0.rp_filter",
        "net.ipv4.conf.all.rp_filter",
        "vm.dirty_ratio",
    ):
        assert sysctls.problem(name) is None


def test_a_stack_without_knobs_reads_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(program: str) -> known.Table:
        raise AssertionError(f"read the table of {program}")

    monkeypatch.setattr(known, "table", never)
    for layer in (Ext4(), Xfs(), Postgres(), MariaDb(), MySql()):
        assert layer.problems("a1", NOWHERE) == []
    Drbd(peer="a2", link="zone").problems("a1", NOWHERE)
    with pytest.raises(AssertionError):
        Postgres(settings={"fsync": True}).problems("a1", NOWHERE)


@pytest.mark.parametrize("program", TABLES)
def test_a_table_is_read_as_it_was_written(program: str) -> None:
    table = known.table(program)
    assert sum(map(len, table.values())) > 50
    assert known.parsed(knobs.written("once more", table)) == table


def test_a_table_with_a_word_that_nobody_knows_is_no_table() -> None:
    with pytest.raises(ValueError, match="kind"):
        known.parsed("max-buffers number 32..131072\n")


@pytest.mark.parametrize("option", ["data=writeback", "commit=60", "journal_checksum", "data_err=abort"])
def test_options_of_a_journal_need_one(option: str) -> None:
    plain = Ext4(mkfs=("-O", "^has_journal"), mount=("barrier=0", option))
    assert [where for where, _ in plain.problems("a1", Topology({}, {}, ()))] == ["mount[1]"]
    assert Ext4(mount=("barrier=0", option)).problems("a1", Topology({}, {}, ())) == []
    assert Ext4(mkfs=("-O", "^has_journal"), mount=("barrier=0",)).problems("a1", Topology({}, {}, ())) == []
