"""Options that a program does not have are refused with their path, the nearest name and the range, once it was
asked; until then only what no program would have."""

from __future__ import annotations

from typing import Any

import pytest

from blocklab.campaign.needs import check_options, learn_options
from blocklab.errors import StudyError
from blocklab.layers import drbd_options
from blocklab.layers.drbd_options import BARE
from blocklab.layers.filesystem import Ext4, Xfs
from blocklab.layers.postgres import Postgres, parse_settings
from blocklab.model.ground import Topology
from blocklab.model.host import Result
from blocklab.model.knobs import HasKnobs, Question
from blocklab.model.site import KnownOptions
from blocklab.runner.events import AnyEvent, Preparing
from blocklab.sites.fake import FakeSite
from blocklab.study import knobs
from blocklab.study.read import build
from tests.unit.asked import QUESTIONS, asked, tables

NOWHERE = Topology({}, {}, ())


def problems(study: dict[str, Any]) -> list[str]:
    """What is wrong with the options of a study, once all programs were asked."""
    return [f"{path}: {why}" for path, why in knobs.problems(build(study), tables())]


def of(part: HasKnobs) -> list[str]:
    """The same of one layer or workload."""
    return [f"{field}: {why}" for field, why in part.unknown(tables()[part.question.program])]


def changed(small: dict[str, Any], stack: str, layer: int, field: str, value: Any) -> dict[str, Any]:
    """The small study with one field of a layer changed."""
    small["stacks"][stack]["layers"][layer][field] = value
    return small


@pytest.mark.parametrize(
    ("section", "options", "why"),
    [
        (
            "net",
            {"max-bufers": 8000},
            ".net.max-bufers: DRBD has no such net option; did you mean max-buffers?",
        ),
        ("net", {"max-buffers": -5}, "-5 is out of range: from 32 to 131072"),
        ("net", {"max-buffers": 10_000_000}, "10000000 is out of range: from 32 to 131072"),
        ("net", {"al-extents": 6433}, "is an option of DRBD's disk section; write it there"),
        ("net", {"cpu-mask": 1}, "is an option of DRBD's options section; write it there"),
        ("options", {"quorum": "majority"}, "needs DRBD 9, and the driver of the image is 8.4"),
        ("net", {"on-congestion": "pullahead"}, "did you mean pull-ahead?"),
        ("net", {"tcp-cork": "on"}, "'on' is neither true nor false"),
        ("net", {"sndbuf-size": "11M"}, "11M is out of range: from 0 to 10485760"),
        ("disk", {"max-buffers": 8000}, "is an option of DRBD's net section; write it there"),
        ("disk", {"al-extents": 66}, "66 is out of range: from 67 to 65534"),
        ("disk", {"resync-rate": "5G"}, "5G is out of range: from 1k to 4194304k"),
        ("disk", {"c-fill-target": 1_048_577}, "1048577 is out of range: from 0s to 1048576s"),
        ("disk", {"no-disk-flushes": True}, "no such disk option"),
    ],
)
def test_options_of_drbd(small: dict[str, Any], section: str, options: dict[str, Any], why: str) -> None:
    (error,) = problems(changed(small, "mirror", 1, section, options))
    assert error.startswith(f"stacks.mirror.layers[1].{section}.{next(iter(options))}")
    assert why in error


@pytest.mark.parametrize(
    ("section", "options", "why"),
    [
        ("net", {"protocol": "A"}, "as the layer's own field"),
        ("net", {"on-congestion": "pull-ahead"}, "only protocol A can pull ahead"),
        ("disk", {"al-extents": 1_000_000}, "1000000 is more than the activity log has room for: at most 6433"),
        ("disk", {"al-extents": 6434}, "6434 is more than the activity log has room for: at most 6433"),
        ("disk", {"fencing": "resource-only"}, "'resource-only' calls a handler of drbd.conf"),
        ("disk", {"fencing": "resource-and-stonith"}, "calls a handler of drbd.conf, and a node has none"),
        ("disk", {"on-io-error": "call-local-io-error"}, "calls a handler"),
        ("net", {"rr-conflict": "call-pri-lost"}, "calls a handler"),
        ("net", {"after-sb-1pri": "call-pri-lost-after-sb"}, "calls a handler"),
        ("net", {"ping-timeout": "long"}, "'long' is not a number"),
        ("net", {"max-buffers": "seed"}, "'seed' is not a number"),
        ("net", {"verify-alg": "/x"}, "'/x' is not a word"),
        ("net", {"tls-keyring": "x"}, "'x' is not a number, true or false; words are only for options"),
        ("disk", {"on-io-errors": "detach"}, "did you mean on-io-error?"),
        ("net", {"shared-secret": "a b"}, "is not a value that drbd.conf can hold"),
        ("net", {"handlers": "{"}, "is not a value that drbd.conf can hold"),
        ("options", {"auto-promote": True}, "is always off"),
        ("net", {"shared-secret": "known"}, "is set by the layer itself"),
        ("net", {"cram-hmac-alg": "sha1"}, "is set by the layer itself"),
    ],
)
def test_options_of_drbd_that_no_node_can_have(
    small: dict[str, Any], section: str, options: dict[str, Any], why: str
) -> None:
    with pytest.raises(StudyError) as caught:
        build(changed(small, "mirror", 1, section, options))
    assert caught.value.path == f"stacks.mirror.layers[1].{section}.{next(iter(options))}"
    assert why in str(caught.value)


def test_options_of_drbd_that_are_taken(small: dict[str, Any]) -> None:
    small["stacks"]["mirror"]["layers"][1] |= {
        "protocol": "A",
        "net": {
            "max-buffers": "128k", "on-congestion": "pull-ahead", "congestion-fill": "400k", "sndbuf-size": "10M",
            "verify-alg": "crc32c", "tcp-cork": False, "after-sb-0pri": "discard-zero-changes",
        },
        "disk": {
            "al-extents": 6433, "c-max-rate": "1G", "c-fill-target": "16M", "disk-flushes": False,
            "resync-rate": 10240, "read-balancing": "32K-striping", "fencing": "dont-care",
        },
    }  # fmt: skip
    assert problems(small) == []


def test_the_units_of_bare_numbers_are_what_drbd_says() -> None:
    both = tables()["drbd"], asked(drbd_options.QUESTION, "9")
    units = {name: knob.unit for table in both for options in table.values() for name, knob in options.items()}
    assert {name: unit for name, unit in units.items() if unit} == BARE


@pytest.mark.parametrize(
    ("section", "options", "why"),
    [
        ("options", {"quorum": "majority", "on-no-quorum": "io-error"}, None),
        ("options", {"quorum": 2}, None),
        ("options", {"quorum": "majrity"}, "'majrity' is not a number, nor one of off, majority, all"),
        ("options", {"quorum": 33}, "33 is out of range: from 1 to 32"),
        ("options", {"on-no-quorum": "suspend"}, "did you mean suspend-io?"),
        ("net", {"unplug-watermark": 128}, "DRBD has no such net option"),
        ("disk", {"resync-rate": 10240, "al-extents": 6433}, None),
    ],
)
def test_options_of_drbd_9(section: str, options: dict[str, Any], why: str | None) -> None:
    table = asked(drbd_options.QUESTION, "9")
    found = list(drbd_options.unknown({section: options}, table))
    assert [name for name, said in found if why is None or why not in said] == []
    assert bool(found) == (why is not None)


@pytest.mark.parametrize(
    ("kind", "field", "value", "why"),
    [
        (Ext4, "mount", ["noatime", "barrier=0", "barrier=1"],
         "mount[2]: 'barrier=1' decides the same as 'barrier=0'"),
        (Ext4, "mount", ["noatime", "relatime"], "mount[1]: 'relatime' decides the same as 'noatime'"),
        (Ext4, "mount", ["ro"], "mount[0]: nothing could be written"),
        (Xfs, "mount", ["nobarrier"], "mount[0]: xfs has no 'nobarrier' since Linux 4.19"),
        (Ext4, "mkfs", ["1024"], "mkfs[0]: mkfs.ext4 would take '1024' for a device"),
        (Xfs, "mkfs", ["-m", "crc=1", "/dev/sda"], "mkfs[2]: mkfs.xfs would take '/dev/sda' for a device"),
        (Xfs, "mkfs", ["-l", "logdev=/dev/sdb,size=64m"], "mkfs[0]: -l logdev: refused: it names another device"),
        (Xfs, "mkfs", ["-llogdev=/dev/sdb"], "mkfs[0]: -l logdev: refused: it names another device"),
        (Xfs, "mkfs", ["-l", "internal,name=x"], "-l name: refused: it names another device"),
        (Xfs, "mkfs", ["-r", "rtdev=/dev/sdc"], "mkfs[0]: -r rtdev: refused: a realtime section"),
        (Xfs, "mkfs", ["-d", "file,name=x,size=1g"], "-d file: refused: it names another device"),
        (Xfs, "mkfs", ["-p", "/etc/proto"], "mkfs[0]: -p "),
        (Xfs, "mkfs", ["-c", "options=/etc/x"], "-c options: refused: it reads a file of the host"),
        (Xfs, "mkfs", ["-N"], "mkfs would make nothing"),
        (Xfs, "mkfs", ["-d", "suu=4k"], "is not an option of mkfs.xfs that a study may set; did you mean -d su?"),
        (Xfs, "mkfs", ["-L", "/x"], "mkfs[0]: -L: '/x' is not a name"),
        (Xfs, "mkfs", ["--"], "mkfs[0]: mkfs.xfs would take '--' for a device"),
        (Ext4, "mkfs", ["-J", "size=64,device=/dev/sdb"], "mkfs[0]: -J device: refused: it names another device"),
        (Ext4, "mkfs", ["-z", "/etc/undo"], "mkfs[0]: -z: refused: it writes a file"),
        (Ext4, "mkfs", ["-z/etc/undo"], "mkfs[0]: -z: refused: it writes a file"),
        (Ext4, "mkfs", ["-d", "/etc"], "mkfs[0]: -d: refused: it reads a file"),
        (Ext4, "mkfs", ["-FE", "offset=4096"], "mkfs[0]: -E: is not an option"),
        (Ext4, "mkfs", ["-E", "offset=4096"], "-E offset: is not an option"),
        (Ext4, "mkfs", ["-M", "/etc"], "mkfs[0]: -M: is not an option"),
        (Ext4, "mkfs", ["-e", "panic"], "-e: 'panic' is not one of continue, remount-ro"),
        (Xfs, "mount", ["logdev=/dev/sdb"], "mount[0]: logdev: refused: it names another device"),
        (Xfs, "mount", ["noatime", "rtdev=/dev/sdb"], "mount[1]: rtdev: refused: it names another device"),
        (Ext4, "mount", ["journal_path=/dev/sdb"], "mount[0]: journal_path: refused: it names another device"),
        (Ext4, "mount", ["journal_dev=0x810"], "mount[0]: journal_dev: refused: it names another device"),
        (Ext4, "mount", ["usrjquota=aquota.user"], "mount[0]: usrjquota: is not an option of ext4"),
        (Ext4, "mount", ["errors=panic"], "mount[0]: errors: 'panic' is not one of continue, remount-ro"),
        (Ext4, "mount", ["logbsize=256k"], "mount[0]: logbsize: is not an option of ext4"),
        (Xfs, "mount", ["loop"], "mount[0]: loop: refused"),
        (Xfs, "mount", ["noatme"], "is not an option of xfs that a study may set; did you mean noatime?"),
        (Xfs, "mount", ["noatime\n"], "mount[0]: 'noatime\\n' is not one mount option"),
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


@pytest.mark.parametrize("mkfs", [
    ("-b", "size=4096"), ("-s", "size=4k"), ("-m", "crc=1,finobt=1,reflink=0,rmapbt=0,bigtime=1,inobtcount=1"),
    ("-d", "su=64k,sw=4"), ("-dsunit=128,swidth=512",), ("-d", "agcount=16,noalign"), ("-i", "size=1024,maxpct=5"),
    ("-i", "sparse=1,nrext64"), ("-l", "size=64m,lazy-count=1,su=64k"), ("-l", "internal,version=2"),
    ("-n", "size=8k,ftype=1"), ("-L", "data_1", "-q"), ("-K", "-f"), ("-m", "uuid=0e6a3c6e-2f6b-4b9c-9a86"),
])  # fmt: skip
def test_what_people_make_xfs_with(mkfs: tuple[str, ...]) -> None:
    assert Xfs(mkfs=mkfs).problems("a1", NOWHERE) == []


@pytest.mark.parametrize("mkfs", [
    ("-b", "4096"), ("-E", "stride=16,stripe_width=64"), ("-E", "lazy_itable_init=1,lazy_journal_init"),
    ("-E", "discard"), ("-O", "^has_journal"), ("-O", "extent,bigalloc,^64bit,fast_commit"), ("-C", "65536"),
    ("-J", "size=1024"), ("-i", "65536", "-I", "256"), ("-m0",), ("-T", "largefile4"), ("-G", "4096"),
    ("-N", "1000000"), ("-L", "data"), ("-U", "random"), ("-E", "root_owner=0:0,nodiscard"), ("-Fqv",),
    ("-E", "packed_meta_blocks=1,num_backup_sb=0", "-O", "sparse_super2"), ("-t", "ext4"), ("-e", "remount-ro"),
])  # fmt: skip
def test_what_people_make_ext4_with(mkfs: tuple[str, ...]) -> None:
    assert Ext4(mkfs=mkfs).problems("a1", NOWHERE) == []


@pytest.mark.parametrize(("kind", "options"), [
    (Xfs, "noatime nodiratime inode64 allocsize=64m logbufs=8 logbsize=256k discard nouuid largeio swalloc wsync"),
    (Xfs, "lazytime noquota sunit=128 swidth=512 filestreams dax=never noalign ikeep"),
    (Xfs, "defaults relatime inode32 attr2 nolargeio prjquota"),
    (Ext4, "noatime barrier=0 data=writeback commit=60 journal_async_commit nodelalloc discard stripe=32"),
    (Ext4, "nobarrier data=journal journal_checksum inode_readahead_blks=64 max_batch_time=0 noauto_da_alloc"),
    (Ext4, "lazytime dioread_nolock data_err=abort errors=remount-ro noinit_itable user_xattr acl"),
    (Ext4, "journal_ioprio=0 min_batch_time=100 nombcache block_validity init_itable=20 dax=inode"),
])  # fmt: skip
def test_what_people_mount_with(kind: type[Xfs | Ext4], options: str) -> None:
    assert kind(mount=tuple(options.split())).problems("a1", NOWHERE) == []


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"shared_bufers": "64MB"}, "settings.shared_bufers: PostgreSQL has no such parameter; "
         "did you mean shared_buffers?"),
        ({"server_version": "18"}, "it is read-only"),
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
        ({"shared_buffers": "1e999"}, "1e999 is out of range"),
        ({"random_page_cost": -1}, "-1 is out of range: at least 0"),
    ],
)  # fmt: skip
def test_parameters_of_postgresql(settings: dict[str, Any], why: str) -> None:
    (problem,) = of(Postgres(settings=settings))
    assert why in problem


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"Shared_Buffers": "64MB", "shared_buffers": "32MB"}, "is set twice"),
        ({"PORT": 1}, "is set by the layer itself"),
        ({"Archive_Command": "x"}, "run a command"),
        ({"a-b": 1}, "is not the name of a server parameter"),
        # In lower case the sign of the kelvin is a k.
        ({"wor\u212a_mem": 1}, "is not the name of a server parameter"),
        ({"archive_library": "x"}, "run a command"),
        ({"shared_preload_libraries": "x"}, "run a command"),
        ({"jit_provider": "/x"}, "load another library"),
        ({"dynamic_library_path": "/x"}, "load other libraries"),
        ({"include": "/etc/passwd"}, "settings.include: refused: it names a file of the host"),
        ({"include_if_exists": "../x"}, "names a file of the host"),
        ({"log_directory": "/etc"}, "'/etc' is not a word"),
        ({"log_directory": "../../../etc"}, "is not a word"),
        ({"log_filename": "/etc/cron.d/x"}, "is not a word"),
        ({"external_pid_file": "/etc/x"}, "names a file of the host"),
        ({"ssl_key_file": "/etc/x"}, "names a file of the host"),
        ({"ssl_passphrase_command": "id"}, "run a command"),
        ({"data_directory": "/x"}, "is set by the layer itself"),
        ({"log_destination": "syslog"}, "is not one of stderr"),
        ({"stats_temp_directory": "/x"}, "is not a number, true or false; words are only for options"),
        ({"TimeZone": "/etc/passwd"}, "is not a time zone"),
        ({"TimeZone": "../../x"}, "is not a time zone"),
        ({"primary_conninfo": "host=x"}, "follow another"),
        ({"plperl.on_init": "x"}, "is not a number, true or false"),
        ({"fsync\n": True}, "is not the name of a server parameter"),
    ],
)  # fmt: skip
def test_parameters_that_no_server_may_be_given(settings: dict[str, Any], why: str) -> None:
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
    assert of(Postgres(settings=settings)) == []
    settings |= {
        "TimeZone": "Europe/Berlin", "log_line_prefix": "%m [%p] %q%u@%d ", "log_filename": "postgresql-%a.log",
        "default_transaction_isolation": "repeatable read", "wal_compression": "lz4", "io_method": "io_uring",
        "synchronous_standby_names": "", "search_path": "public", "lc_messages": "C.UTF-8", "huge_pages": "try",
        "wal_sync_method": "open_datasync", "debug_io_direct": "data,wal", "a_later_parameter": "64MB",
    }  # fmt: skip
    assert Postgres(settings=settings).problems("a1", NOWHERE) == []


@pytest.mark.parametrize(
    ("initdb", "why"),
    [
        (("--waldir=/x",), "initdb[0]: --waldir: refused"),
        (("-X", "/x"), "initdb[0]: -X: refused"),
        (("-k", "-L", "/x"), "initdb[1]: -L: is not an option"),
        (("--pwfile", "/x"), "initdb[0]: --pwfile: is not an option"),
        (("--set", "shared_preload_libraries=x"), "initdb[0]: --set: is not an option"),
        (("-c", "archive_command=id"), "initdb[0]: -c: is not an option"),
        (("-cjit_provider=x",), "initdb[0]: -c: is not an option"),
        (("/x",), "initdb[0]: initdb would take '/x' for a folder"),
        (("--pgdata=/x",), "initdb[0]: --pgdata: is not an option"),
        (("--wald=/x",), "initdb[0]: --wald: is not an option"),
        (("--locale=/x",), "initdb[0]: --locale: '/x' is not a word"),
    ],
)
def test_arguments_of_initdb_that_are_refused(initdb: tuple[str, ...], why: str) -> None:
    found = Postgres(initdb=initdb).problems("a1", NOWHERE)
    assert why in f"{found[0][0]}: {found[0][1]}"


def test_arguments_of_initdb_that_are_taken() -> None:
    for initdb in (("-k",), ("--data-checksums", "--wal-segsize=64"), ("--wal-segsize", "16", "-E", "SQL_ASCII"),
                   ("--locale-provider=icu", "--icu-locale=en-US"), ("--no-locale", "-g")):  # fmt: skip
        assert Postgres(initdb=initdb).problems("a1", NOWHERE) == []


def test_a_parameter_is_read_back_by_the_name_that_the_study_has() -> None:
    shown = '{"TimeZone": ["UTC", "UTC", "string", "configuration file", ""]}'
    for name in ("TimeZone", "timezone", "TIMEZONE"):
        assert parse_settings(shown, {name: "utc"}) == {name: "utc"}
        assert parse_settings(shown, {name: "CET"}) == {name: "UTC"}


def test_kernel_parameters(small: dict[str, Any]) -> None:
    small["nodes"]["a1"]["sysctl"] = {
        "net.ipv4.tcp_rmem": "4096 131072 6291456", "net.ipv4.conf.vec7.rp_filter": 0, "vm.dirty_ratio": 10,
    }  # fmt: skip
    assert problems(small) == []
    small["nodes"]["a1"]["sysctl"] = {"net.ipv4.tcp_wmme": 1, "net.ipv4.conf.vec0.arp_filter": 1}
    first, second = problems(small)
    assert first.startswith("nodes.a1.sysctl[net.ipv4.tcp_wmme]: a node's kernel has no such parameter; ")
    assert first.endswith("; did you mean net.ipv4.tcp_wmem?")
    assert "did you mean net.ipv4.conf.*.rp_filter?" in second


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("kernel.core_pattern", "|/prog %p", "refused: it makes the kernel run a program"),
        ("kernel.modprobe", "/prog", "refused: it makes the kernel run a program"),
        ("kernel.hotplug", "/prog", "refused"),
        ("kernel.poweroff_cmd", "/prog", "refused"),
        ("kernel.usermodehelper.bset", 0, "is not an option of sysctl that a study may set"),
        ("fs.binfmt_misc.register", ":x:M::x::/prog:", "refused"),
        ("fs.suid_dumpable", 2, "refused"),
        ("fs.protected_symlinks", 0, "refused"),
        ("vm.panic_on_oom", 2, "is not an option of sysctl that a study may set"),
        ("net.ipv4.ip_forward", 1, "is not an option of sysctl that a study may set"),
        ("net.ipv4.tcp_x.core_pattern", 1, "is not an option of sysctl that a study may set"),
        ("net.ipv4.conf.vec0.rp_filte", 1, "did you mean net.ipv4.conf.*.rp_filter?"),
        ("vm.dirty_ratio", "|/prog", "is not a number or a word"),
        ("vm.dirty_ratio\n", 1, "is not a kernel parameter"),
    ],
)
def test_kernel_parameters_that_no_study_may_set(small: dict[str, Any], name: str, value: Any, why: str) -> None:
    small["nodes"]["a1"]["sysctl"] = {name: value}
    with pytest.raises(StudyError) as caught:
        build(small)
    assert caught.value.path == f"nodes.a1.sysctl[{name}]" and why in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("vm.swappiness", 1), ("vm.dirty_background_bytes", 16777216), ("vm.nr_hugepages", 64),
        ("vm.overcommit_memory", 2), ("net.core.rmem_max", 67108864), ("net.core.default_qdisc", "fq"),
        ("net.ipv4.tcp_congestion_control", "bbr"), ("net.ipv4.tcp_mem", "4096 131072\t6291456"),
        ("net.ipv4.ip_local_port_range", "1024 65535"), ("fs.aio-max-nr", 1048576), ("fs.file-max", 100000),
        ("kernel.sched_migration_cost_ns", 5000000), ("kernel.sem", "250 32000 100"), ("kernel.shmmax", 2048),
        ("dev.raid.speed_limit_max", 200000), ("net.ipv4.conf.eth0.rp_filter", 0),
    ],
)  # fmt: skip
def test_kernel_parameters_that_people_tune(small: dict[str, Any], name: str, value: Any) -> None:
    small["nodes"]["a1"]["sysctl"] = {name: value}
    build(small)


@pytest.mark.parametrize(
    ("job", "why"),
    [
        ({"rw": "randread", "rate_cycle": 4}, "jobs.a: [a] fio has no option rate_cycle"),
        ({"rw": "randred"}, "'randred' is not one of its values"),
        ({"rw": "randread", "bs": "0"}, "bs: 0 is out of range: at least 1"),
        ({"rw": "randread", "direct": 2}, "direct: '2' is neither 1 nor 0"),
        ({"rw": "randread", "fixedbufs": 1}, "fixedbufs is an option of ioengine io_uring; this job has psync"),
        ({"rw": "randrw", "rwmixread": 101}, "rwmixread: 101 is out of range: from 0 to 100"),
    ],
)
def test_options_of_fio(small: dict[str, Any], job: dict[str, Any], why: str) -> None:
    small["workloads"]["io"] = {"workload": "fio", "size": "16MiB", "options": {"runtime": 5}, "jobs": {"a": job}}
    (error,) = problems(small)
    assert error.startswith("workloads.io.jobs.a: [a] ") and why in error


def test_options_of_fio_that_are_taken(small: dict[str, Any]) -> None:
    small["workloads"]["io"] = {
        "workload": "fio", "size": "16MiB",
        "options": {"ioengine": "io_uring", "fixedbufs": 1, "direct": True, "readwrite": "rw:8", "bs": "4k,64k"},
        "jobs": {"a": {"runtime": 5, "random_distribution": "zipf:1.2", "fallocate": 0, "sync": "dsync"}},
    }  # fmt: skip
    assert problems(small) == []


def test_an_option_of_all_jobs_is_said_once(small: dict[str, Any]) -> None:
    jobs = {"a": {"rw": "read"}, "b": {"rw": "write"}}
    small["workloads"]["io"] = {"workload": "fio", "size": "16MiB", "options": {"runtime": 5}, "jobs": jobs}
    small["workloads"]["io"]["options"] |= {"thinktime_spin": 5}
    assert problems(small) == ["workloads.io.options: fio has no option thinktime_spin; did you mean thinktime?"]


def test_an_option_at_a_level_of_a_factor_is_said_with_the_level(small: dict[str, Any]) -> None:
    small["factors"] = {"pool": {"field": "stacks.local.layers[2].settings.shared_bufers", "values": ["1MB"]}}
    (error,) = problems(small)
    assert error.startswith("factors.pool: with the level 1MB: stacks.local.layers[2].settings.shared_bufers: ")
    assert "did you mean shared_buffers?" in error


def test_what_was_not_asked_is_not_judged_and_said_to_be_so(small: dict[str, Any]) -> None:
    study = build(changed(small, "local", 2, "settings", {"shared_bufers": "64MB"}))
    site = FakeSite()
    assert list(knobs.problems(study, {})) == []
    note = check_options(study, site)
    assert "postgres" in note and "fio" in note and "not checked yet" in note
    assert check_options(study, FakeSite(without={KnownOptions})) == ""
    assert site.labs == []
    site.keep_options(tables())
    with pytest.raises(StudyError, match="did you mean shared_buffers") as caught:
        check_options(study, site)
    assert caught.value.path == "stacks.local.layers[2].settings.shared_bufers"


def test_a_program_is_asked_once_and_only_where_the_study_sets_its_options(small: dict[str, Any]) -> None:
    small["stacks"] = {"local": {"on": "a1", "layers": [{"layer": "volume", "size": "64MiB"}]}}
    small["workloads"] = {"io": {"workload": "fio", "size": "16MiB", "jobs": {"a": {"rw": "read"}}}}
    small |= {"links": {}, "nodes": {"a1": {"memory": "256MiB"}}}
    study, said = build(small), list[AnyEvent]()
    site = FakeSite(lambda host, argv: Result(0, b"rw    : IO direction\n", b""))
    for _ in range(2):
        learn_options(study, site, said.append)
    assert said == [Preparing("asking fio for their options, once")] and len(site.labs) == 1
    assert site.tables.keys() == {"fio"} and "rw" in site.tables["fio"]["common"]


def test_a_program_that_tells_nothing_stops_nothing(small: dict[str, Any]) -> None:
    study, site, said = build(small), FakeSite(), list[AnyEvent]()
    learn_options(study, site, said.append)
    assert any("fio does not tell its options, so they are not checked" in str(event) for event in said)
    assert check_options(study, site) == ""


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.program)
def test_an_answer_that_is_none_is_an_error(question: Question) -> None:
    where = "mysql://root@/bench?host=/run/x&port=3306"
    with pytest.raises(ValueError):
        question.ask(lambda *argv: "bash: command not found\n", where)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.program)
def test_what_programs_tell(question: Question, golden: Any) -> None:
    table = asked(question)
    golden.check(
        f"asked/{question.program}.table.json",
        {f"{section}.{name}": repr(knob) for section, each in table.items() for name, knob in each.items()},
    )


@pytest.mark.parametrize("option", ["data=writeback", "commit=60", "journal_checksum", "data_err=abort"])
def test_options_of_a_journal_need_one(option: str) -> None:
    plain = Ext4(mkfs=("-O", "^has_journal"), mount=("barrier=0", option))
    assert [where for where, _ in plain.problems("a1", Topology({}, {}, ()))] == ["mount[1]"]
    assert Ext4(mount=("barrier=0", option)).problems("a1", Topology({}, {}, ())) == []
    assert Ext4(mkfs=("-O", "^has_journal"), mount=("barrier=0",)).problems("a1", Topology({}, {}, ())) == []
