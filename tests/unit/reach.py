"""Where a plan may reach on a host, and what a hostile study would write to get elsewhere: for each layer and
workload the fields that take texts, with what Hypothesis draws for them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args

from hypothesis import strategies as st
from msgspec import inspect

from blocklab.layers import AnyLayer, drbd_options, filesystem_options, mysql_settings, postgres_settings
from blocklab.model import sysctls
from blocklab.model.allowed import Allowed
from blocklab.workloads import AnyWorkload, fio_allowed, pgbench, sysbench, tpcc

# Folders and files of blocklab's own, what the kernel tells and takes, and programs at fixed places. To be
# extended where blocklab itself gets a new place.
GROUND = (
    r"/run/blocklab(/.*)?", r"/var/lib/blocklab(/.*)?",
    r"/etc/drbd\.d/{stack}\.res", r"/mnt/{stack}(/.*)?",
    r"/proc/(diskstats|drbd|meminfo|mounts|stat|net/(dev|bonding/\w+)|fs/ext4/[\w-]+/options|self/cgroup)",
    r"/sys/(class/block|block)/[\w-]+/.*", r"/sys/module/drbd/.*",
    r"/usr/bin/env", r"/opt/mysql(/.*)?",
)  # fmt: skip
# Devices are another test's; a database's address has "://user@/database?host=" before the folder of its socket.
_ADDRESS = re.compile(r"\b(?:postgresql|mysql)://\w*@/\w+\?")
_PATH = re.compile(r"(?<![\w.\]])/(?!dev\b)[^\s,;:\"'=&|]*|(?<![\w.])\.\./|/\.\.(?![\w.])")


def beyond(text: str, stack: str) -> list[str]:
    """The paths in a text that are not the ground's."""
    ground = "|".join(GROUND).replace("{stack}", re.escape(stack))
    found = (match[0].rstrip(").") for match in _PATH.finditer(_ADDRESS.sub(" ", text)))
    return [path for path in found if ".." in path or not re.fullmatch(ground, path)]


PATHS = (
    "/etc/victim", "/dev/sdb", "../victim", "../../dev/sdb", "/mnt/../etc/victim", "//etc/victim",
    "|/bin/victim %p", "'/etc/victim'", "mmapshared:/etc/victim", "mmap:/dev/sdb", "external:/victim.so",
    "$(/bin/victim)", "victim.img", "x=/etc/victim", "size=64m,logdev=/dev/sdb", "a:/etc/victim",
    "a\n/etc/victim", "-d/etc/victim", "/", "DATA DIRECTORY='/etc/victim'",
    "@@global.general_log_file='/etc/victim'", "ibdata1:12M;/etc/victim:12M",
)  # fmt: skip
PLAIN = (
    "1", "0", "64k", "4k/50:64k/50", "50:90", "on", "off", "none", "crc32c", "writeback", "randwrite", "internal",
    "", "zipf:1.2", "0-3", "5ms", "uniform", "0xff", "default", "256M", "a", "ROW_FORMAT=DYNAMIC", "prepared",
    "4096 8192 1", "autocommit=1", "stderr", "UTF8", "ibdata1:12M", "^has_journal", "0:0",
)  # fmt: skip
HOSTILE = st.sampled_from(PATHS)
VALUES = st.one_of(
    st.sampled_from(PLAIN), st.integers(0, 64), st.booleans(), HOSTILE,
    st.builds("{}{}{}".format, st.sampled_from(PLAIN), st.sampled_from([",", ":", "=", " ", "", "/"]), HOSTILE),
)  # fmt: skip
TEXTS = VALUES.map(str)

# Options that the tools really have, beside those of our own tables.
_XFS = "-l|logdev -l|name -d|name -d|file -r|rtdev -r|name -r|extsize -p -p|file -c|options -N -V -q|x -l|internal"
_EXT4 = "-J|device -J|size -d -z -l -M -n -S -E|offset -E|android_sparse -E|root_selinux -c -o -V"
_MOUNT = """
    logdev rtdev journal_path journal_dev loop offset sizelimit bind remount context fscontext usrjquota grpjquota
    jqfmt helper user x-mount.mkdir X-mount.subdir test_dummy_encryption uuid errors data noatime
"""
_FIO = """
    filename directory filename_format opendir read_iolog write_iolog merge_blktrace_file replay_redirect
    exec_prerun exec_postrun program arguments include ioscheduler cgroup cgroup_weight verify_state_load
    verify_dump mem iomem ioengine aux_path trigger_file write_bw_log write_hist_log log_compression dp_scheme uid
    profile spdk_conf namenode http_host chunk_size libname buffer_pattern random_distribution bssplit description
    wait_for per_job_logs
"""
_POSTGRES = """
    archive_command restore_command archive_library shared_preload_libraries session_preload_libraries include
    include_dir include_if_exists log_directory log_filename data_directory dynamic_library_path jit_provider
    hba_file ident_file external_pid_file ssl_key_file ssl_cert_file stats_temp_directory krb_server_keyfile
    TimeZone primary_conninfo promote_trigger_file unix_socket_directories extension_control_path plperl.on_init
    local.x
"""
_MYSQL = """
    general_log_file slow_query_log_file log_slow_query_file log_error init_file init_connect plugin_load
    plugin_load_add plugin_dir secure_file_priv tmpdir innodb_tmpdir slave_load_tmpdir innodb_directories
    innodb_undo_directory innodb_data_home_dir innodb_data_file_path innodb_temp_data_file_path datadir basedir
    log_tc master_info_file relay_log relay_log_info_file ft_stopword_file des_key_file ssl_ca ssl_key
    innodb_doublewrite_dir aria_log_dir_path innodb_buffer_pool_filename lc_messages_dir pid_file socket log_bin
    log_bin_index loose_plugin_load server_audit_x wsrep_provider wsrep_notify_cmd feedback_url chroot
    keyring_file_data
"""
_DRBD = """
    handlers fence-peer before-resync-target shared-secret tls-keyring on-io-error fencing resync-after meta-disk
    disk
"""
_SYSCTL = """
    kernel.core_pattern kernel.modprobe kernel.hotplug kernel.poweroff_cmd fs.binfmt_misc.register
    kernel.usermodehelper.x kernel.acpi_video_flags vm.drop_caches net.core.x dev.scsi.logging_level
    fs.suid_dumpable kernel.sysrq
"""
_PGBENCH = """
    file builtin log-prefix host port dbname username define log initialize tablespace index-tablespace show-script
"""
_SYSBENCH = """
    config-file luajit-cmd mysql-socket mysql-ssl-cipher pgsql-host create_table_options mysql_storage_engine
"""


def names(allowed: Allowed, more: str = "") -> st.SearchStrategy[str]:
    """Names of options: those of a table, those that it refuses, and others of the tool."""
    known = [name.replace("*", "x") for name in (*allowed.shapes, *allowed.refused)]
    return st.sampled_from([*dict.fromkeys([*known, *more.split()])])


def options(found: st.SearchStrategy[str], most: int = 2) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(found, VALUES, max_size=most)


def arguments(allowed: Allowed, more: str) -> st.SearchStrategy[list[str]]:
    """``-l|size`` as ``-l size=VALUE``, ``-lsize=VALUE`` or two at once; others as ``--name=VALUE``, or two
    words."""

    def written(name: str, value: str, way: int) -> list[str]:
        option, several, sub = name.partition("|")
        text = f"{sub}={value}" if several else value
        ways = (
            [option, text],
            [f"{option}{text}"],
            [f"{option}={text}"],
            [option, f"size=64m,{text}"],
            [option],
            [text],
        )
        return ways[way]

    one = st.builds(written, names(allowed, more), TEXTS, st.integers(0, 5))
    return st.lists(one, max_size=2).map(lambda each: [word for words in each for word in words])


def mounts(allowed: Allowed) -> st.SearchStrategy[list[str]]:
    one = st.builds(lambda name, value: f"{name}={value}" if value else name, names(allowed, _MOUNT), TEXTS)
    return st.lists(one, max_size=2)


def _job_file(lines: Iterable[tuple[str, Any]]) -> str:
    return "[a]\nrw=write\nsize=1m\n" + "".join(f"{name}={value}\n" for name, value in lines)


_OF_FIO = names(fio_allowed.ALLOWED, _FIO)
_SQL = st.sampled_from(
    ["SELECT 1;\n", "\\shell touch /etc/victim\n", "\\setshell a touch /etc/victim\n", "SELECT :x;\n"]
)
_DRBD_SECTION = options(names(drbd_options.ALLOWED, _DRBD))
_PEER = st.sampled_from(["a2", "a2", "../a2", "/etc/victim"])
_MYSQL_SETTINGS = options(names(mysql_settings.ALLOWED, _MYSQL))
_QUANTILES = st.sampled_from([{"p50": "1ms"}, {"/etc/victim": "1ms"}])
_PROFILE = st.sampled_from(["", "gp3", "../gp3", "/etc/victim"])

# Layer or workload -> field -> what is drawn for it. "" is a node.
DRAWN: Mapping[str, Mapping[str, st.SearchStrategy[Any]]] = {
    "volume": {"profile": _PROFILE, "read_quantiles": _QUANTILES, "write_quantiles": _QUANTILES},
    "cap": {"profile": _PROFILE},
    "shared": {"peer": _PEER},
    "drbd": {
        "peer": _PEER, "link": st.sampled_from(["zone", "zone", "/etc/victim"]), "net": _DRBD_SECTION,
        "disk": _DRBD_SECTION, "options": _DRBD_SECTION,
    },
    "net-mirror": {"peer": _PEER, "link": st.sampled_from(["zone", "/etc/victim"])},
    "xfs": {
        "mkfs": arguments(filesystem_options.MKFS_XFS, _XFS), "mount": mounts(filesystem_options.MOUNT_XFS),
    },
    "ext4": {
        "mkfs": arguments(filesystem_options.MKFS_EXT4, _EXT4), "mount": mounts(filesystem_options.MOUNT_EXT4),
    },
    "postgres": {
        "settings": options(names(postgres_settings.ALLOWED, _POSTGRES)),
        "initdb": arguments(postgres_settings.INITDB, "-X --waldir --pwfile -L -c --set -D --pgdata -A -U"),
    },
    "mariadb": {"settings": _MYSQL_SETTINGS},
    "mysql": {"settings": _MYSQL_SETTINGS},
    "fio": {
        "options": options(_OF_FIO).map(lambda found: {"runtime": 1} | found),
        "jobs": st.dictionaries(st.sampled_from(["a", "b", "/etc/victim", "../a"]), options(_OF_FIO), max_size=1),
        "matrix": st.dictionaries(_OF_FIO, st.lists(VALUES, min_size=1, max_size=2), max_size=1),
        "jobtext": st.lists(st.tuples(_OF_FIO, TEXTS), max_size=2).map(_job_file),
    },
    "pgbench": {
        "script": st.sampled_from(["simple-update", "/etc/victim"]),
        "scripts": st.dictionaries(st.sampled_from(["a", "../victim", "/etc/victim"]), _SQL, max_size=1),
        "options": options(names(pgbench._OPTIONS, _PGBENCH)), "init": options(names(pgbench._INIT, _PGBENCH)),
    },
    "sysbench": {
        "script": st.sampled_from(["oltp_insert", "/etc/victim.lua", "../victim"]),
        "options": options(names(sysbench._OPTIONS, _SYSBENCH)),
    },
    "tpcc": {
        "options": options(names(tpcc.OPTIONS, "password output"))
        | st.builds(lambda name, value: {"conn-params": f"{name}={value}"}, names(tpcc.PARAMETERS, "host"), TEXTS),
    },
    "": {"sysctl": options(names(sysctls.ALLOWED, _SYSCTL))},
}  # fmt: skip
# Texts that reach no host: a name that is looked up, a rule that is parsed, a file that is read here, values that
# were measured elsewhere, what blocklab fills in.
ON_NO_HOST = {
    "stop": "parsed", "jobfile": "read here", "from": "a node's name", "performance": "blocklab fills it in",
}  # fmt: skip
IMPORTED = "imported"


def fields() -> Iterator[tuple[str, str]]:
    """(layer or workload, field) of all that take texts."""
    for kind in (*get_args(AnyLayer), *get_args(AnyWorkload)):
        described = inspect.type_info(kind)
        assert isinstance(described, inspect.StructType)
        if described.tag != IMPORTED:
            yield from ((str(described.tag), each.encode_name) for each in described.fields if _free(each.type))


def _free(kind: inspect.Type) -> bool:
    """Whether a text of the study's own choice may be in it; a time or a size is none."""
    if isinstance(kind, inspect.StrType):
        return True
    if isinstance(kind, inspect.UnionType):
        return any(map(_free, kind.types))
    if isinstance(kind, inspect.TupleType):
        return any(map(_free, kind.item_types))
    if isinstance(kind, inspect.DictType):
        return _free(kind.key_type) or _free(kind.value_type)
    if isinstance(kind, inspect.StructType):
        return any(_free(each.type) for each in kind.fields)
    if isinstance(kind, inspect.Metadata):
        return _free(kind.type)
    return isinstance(kind, inspect.ListType | inspect.VarTupleType) and _free(kind.item_type)


BELOW: Mapping[str, list[dict[str, Any]]] = {
    "shared": [], "drbd": [], "net-mirror": [], "cap": [], "xfs": [], "ext4": [],
    "postgres": [{"layer": "xfs"}], "mariadb": [{"layer": "ext4"}], "mysql": [{"layer": "ext4"}],
}  # fmt: skip
NEEDS: Mapping[str, dict[str, Any]] = {
    "cap": {"write_iops": 500}, "shared": {"peer": "a2"}, "drbd": {"peer": "a2", "link": "zone"},
    "net-mirror": {"peer": "a2", "link": "zone"}, "fio": {"size": "16MiB"},
    "pgbench": {"clients": 2, "time": "5s"}, "sysbench": {"time": "5s"}, "tpcc": {"time": "5s"},
}  # fmt: skip


@st.composite
def hostile(draw: st.DrawFn, part: str) -> dict[str, Any]:
    """A study that is plain but for one layer, workload or node."""
    given = {field: draw(value) for field, value in DRAWN[part].items() if draw(st.booleans())}
    size: dict[str, Any] = {"layer": "volume", "size": "1GiB"}
    layers, workload = [size], {"workload": "dd", "size": "1MiB", "mode": "direct"}
    nodes: dict[str, Any] = {"a1": {"memory": "1GiB"}, "a2": {"memory": "1GiB"}}
    if part == "":
        nodes["a1"] |= given
    elif part == "volume":
        layers = [size | given]
    elif part in BELOW:
        layers = [size, *BELOW[part], {"layer": part, **NEEDS.get(part, {}), **given}]
    else:
        database = {
            "pgbench": "postgres",
            "sysbench": "mariadb",
            "tpcc": draw(st.sampled_from(["postgres", "mysql"])),
        }
        layers = [size, {"layer": "ext4"}, *([{"layer": database[part]}] if part in database else [])]
        workload = {"workload": part, **NEEDS[part], **_of_fio(part, given, draw)}
    if layers[-1]["layer"] in ("postgres", "mariadb", "mysql") and workload["workload"] == "dd":
        workload = {"workload": "ledger", "from": "a2", "time": "5s"}
    return {
        "blocklab": 2, "name": "drawn", "question": "Which?", "nodes": nodes,
        "links": {"zone": {"between": ["a1", "a2"], "rtt": "0.5ms"}},
        "stacks": {"one": {"on": "a1", "layers": layers}}, "workloads": {"w": workload},
    }  # fmt: skip


def _of_fio(part: str, given: dict[str, Any], draw: st.DrawFn) -> dict[str, Any]:
    """A job file excludes jobs."""
    if part != "fio":
        return given
    if "jobtext" in given and draw(st.booleans()):
        return {"jobtext": given["jobtext"]}
    given.pop("jobtext", None)
    jobs = {"w": {"rw": "randwrite"}, **given.get("jobs", {})}
    return {"options": {"runtime": 1}} | given | {"jobs": jobs}
