"""Values that the kernel or a server shows in other words than a study has them: found in force on real nodes."""

from __future__ import annotations

import re
from typing import Any

from blocklab.model.access import mysql_client
from blocklab.model.host import Host, must
from blocklab.model.programs import AS_POSTGRES
from blocklab.runner.measure import not_in_force
from blocklab.runner.run import standing
from blocklab.runner.workshop import Standing
from blocklab.sites.uml.site import UmlSite
from blocklab.study.read import build
from blocklab.study.types import Study

VOLUME = {"layer": "volume", "size": "512MiB"}
EXT4 = {
    "layer": "ext4",
    "mkfs": ["-E", "stride=16,stripe_width=32", "-O", "^metadata_csum", "-Eroot_owner=0:0"],
    "mount": [
        "nofail", "diratime", "commit=0", "auto_da_alloc=0", "data_err=ignore", "barrier=1", "nojournal_checksum",
        "init_itable", "nodiscard", "stripe=32", "mb_optimize_scan=0",
    ],
}  # fmt: skip
XFS = {
    "layer": "xfs",
    "mount": [
        "allocsize=1m",
        "logbsize=262144",
        "nolargeio",
        "nodiscard",
        "strictatime",
        "bsdgroups",
        "attr2",
        "uquota",
    ],
}
POSTGRES = {
    "checkpoint_timeout": 300, "work_mem": 4096, "shared_buffers": 4096, "random_page_cost": 1.0, "fsync": 1,
    "maintenance_work_mem": "0.03GB", "vacuum_cost_delay": 2, "synchronous_commit": "ON", "wal_compression": "yes",
    "wal_buffers": -1, "transaction_buffers": 0, "cpu_tuple_cost": 0.0123456789, "client_encoding": "utf8",
    "timezone": "utc", "log_min_messages": "debug",
}  # fmt: skip
MARIADB = {
    "innodb_buffer_pool_size": "48M", "long_query_time": 5e-05, "character_set_server": "utf8",
    "collation_server": "utf8_bin", "sql_mode": "ANSI", "innodb_max_dirty_pages_pct": 75,
    "concurrent_insert": "always", "binlog_format": "STATEMENT", "optimizer_switch": "mrr=on,default",
}  # fmt: skip


def study_of(small: dict[str, Any], stacks: dict[str, list[dict[str, Any]]]) -> Study:
    small["nodes"]["a1"]["memory"] = "768MiB"
    small["stacks"] = {name: {"on": "a1", "layers": layers} for name, layers in stacks.items()}
    small["baseline"] = next(iter(stacks))
    small["workloads"] = {"io": small["workloads"]["io"]}
    return build(small)


def wrong(stand: Standing, stack: str) -> dict[str, str]:
    """What is not in force."""
    return {knob.name: knob.value for knob in not_in_force(stand.engine.ask(stand.facts[stack]))}


def test_values_in_other_words_are_in_force_and_their_neighbours_are_not(small: dict[str, Any]) -> None:
    stacks: dict[str, list[dict[str, Any]]] = {
        "post": [VOLUME, XFS, {"layer": "postgres", "settings": POSTGRES}],
        "maria": [VOLUME, EXT4, {"layer": "mariadb", "settings": MARIADB}],
    }
    with standing(UmlSite(), study_of(small, stacks), list(stacks)) as stand:
        host = stand.lab.hosts["a1"]
        assert wrong(stand, "post") == {} and wrong(stand, "maria") == {}
        made_whole(host, stand.ports["maria"][0].where)
        must(host, ["mount", "-o", "remount,commit=6,auto_da_alloc=1", "/mnt/maria"])
        ask = [*mysql_client(""), "--user=root", "--socket=/run/blocklab/maria/mysqld.sock"]
        must(host, [*ask, "--execute=SET GLOBAL long_query_time = 5e-06, GLOBAL sql_mode = 'ANSI_QUOTES'"])
        assert wrong(stand, "maria") == {
            "mount.commit=5": "absent", "mount.noauto_da_alloc": "absent",
            "long_query_time": "0.000005", "sql_mode": "ANSI_QUOTES",
        }  # fmt: skip
        must(host, ["mount", "-o", "remount,relatime", "/mnt/post"])
        psql = [*AS_POSTGRES, "psql", "-X", "-q", "-d", stand.ports["post"][-1].where]
        must(host, [*psql, "-c", "ALTER DATABASE bench SET work_mem = 4097",
                    "-c", "ALTER DATABASE bench SET random_page_cost = 1.1"])  # fmt: skip
        assert wrong(stand, "post") == {
            "mount.relatime": "yes", "work_mem": "4097kB", "random_page_cost": "1.1",
        }  # fmt: skip


def test_numbers_without_a_unit_are_in_force_on_a_mirror_and_its_link(small: dict[str, Any]) -> None:
    mirror = {
        "layer": "drbd", "peer": "a2", "link": "zone",
        "disk": {"resync-rate": 10240, "c-max-rate": 20480, "c-min-rate": 512, "c-fill-target": 200},
        "net": {"congestion-fill": 4096, "sndbuf-size": "1M"},
    }  # fmt: skip
    # tc keeps whole bytes; a round trip of 0.1 ms leaves nothing for netem to delay.
    small["links"]["zone"] = {"between": ["a1", "a2"], "rtt": "0.1ms", "rate": "99.999999Mbit/s"}
    small["nodes"]["a1"]["sysctl"] = {"net.ipv4.tcp_rmem": "4096  131072\t6291456"}
    with standing(UmlSite(), study_of(small, {"one": [{**VOLUME, "size": "64MiB"}, mirror]}), ["one"]) as stand:
        assert wrong(stand, "one") == {}
        must(stand.lab.hosts["a1"], ["drbdadm", "disk-options", "--resync-rate=10241", "one"])
        must(stand.lab.hosts["a1"], ["tc", "qdisc", "change", "dev", "vec0", "root", "netem", "limit", "100000",
                                     "delay", "1ms", "rate", "99999992bit"])  # fmt: skip
        assert wrong(stand, "one") == {"disk.resync-rate": str(10241 * 1024), "delay": "1000us"}


def made_whole(host: Host, device: str) -> None:
    """One -E reached mke2fs, with the study's words and the layer's, which keep it from discarding."""
    text = must(host, ["dumpe2fs", "-h", device])
    assert re.search(r"^RAID stride: +16$", text, re.MULTILINE)
    # Of /sys/block/*/stat: reads, merges, sectors, ms, write ..., in flight, ms, ms, discards
    assert host.get(f"/sys/block/{device.rpartition('/')[2]}/stat").split()[11] == b"0"
