"""Which kernel parameters a node has, and which of them a study may set."""

from __future__ import annotations

import re

from blocklab.model.allowed import WORDS, Allowed, entries
from blocklab.model.knobs import Knob, Question, Table, Tell, nearest

# "net.ipv4.conf.vec0.rp_filter": there is one for each interface, and a node's links have theirs.
_OF_INTERFACES = re.compile(r"^(net\.ipv[46]\.(?:conf|neigh))\.[^.]+\.")

_PROGRAM = "it makes the kernel run a program, or weakens what guards the host"
ALLOWED = Allowed(
    "sysctl",
    entries(
        WORDS,
        """
        vm.dirty_* vm.dirtytime_expire_seconds vm.swappiness vm.vfs_cache_pressure vm.vfs_cache_pressure_denom
        vm.min_free_kbytes vm.watermark_* vm.overcommit_* vm.nr_hugepages vm.nr_hugepages_mempolicy
        vm.nr_overcommit_hugepages vm.hugetlb_optimize_vmemmap vm.max_map_count vm.page-cluster
        vm.page_lock_unfairness vm.zone_reclaim_mode vm.min_slab_ratio vm.min_unmapped_ratio vm.numa_stat
        vm.lowmem_reserve_ratio vm.extfrag_threshold vm.compaction_proactiveness vm.compact_unevictable_allowed
        vm.defrag_mode vm.stat_interval vm.laptop_mode vm.admin_reserve_kbytes vm.user_reserve_kbytes
        vm.percpu_pagelist_high_fraction
        net.core.rmem_* net.core.wmem_* net.core.optmem_max net.core.netdev_* net.core.somaxconn net.core.busy_*
        net.core.default_qdisc net.core.dev_weight* net.core.dev_weight net.core.flow_limit_*
        net.core.gro_normal_batch net.core.high_order_alloc_disable net.core.max_skb_frags net.core.mem_pcpu_rsv
        net.core.rps_* net.core.skb_defer_max net.core.txrehash net.core.tstamp_allow_data
        net.ipv4.tcp_* net.ipv4.udp_* net.ipv4.ip_local_port_range net.ipv4.ip_local_reserved_ports
        net.ipv4.ip_no_pmtu_disc net.ipv4.ip_early_demux net.ipv4.ipfrag_* net.ipv4.inet_peer_*
        net.ipv4.fib_multipath_* net.ipv4.neigh.*.* net.ipv6.neigh.*.*
        net.ipv4.conf.*.rp_filter net.ipv4.conf.*.arp_* net.netfilter.nf_conntrack_* net.unix.max_dgram_qlen
        fs.aio-max-nr fs.file-max fs.nr_open fs.pipe-max-size fs.pipe-user-pages-* fs.inotify.max_*
        fs.xfs.xfssyncd_centisecs fs.xfs.filestream_centisecs fs.xfs.rotorstep fs.xfs.inherit_*
        fs.xfs.speculative_prealloc_lifetime fs.xfs.speculative_cow_prealloc_lifetime
        dev.raid.speed_limit_min dev.raid.speed_limit_max
        kernel.sched_* kernel.numa_balancing kernel.numa_balancing_* kernel.timer_migration kernel.shmmax
        kernel.shmall kernel.shmmni kernel.sem kernel.msgmax kernel.msgmnb kernel.msgmni kernel.threads-max
        kernel.pid_max
        """,
    ),
    {"kernel.*": _PROGRAM, "fs.*": _PROGRAM, "fs.*.*": _PROGRAM},
    names=(r"[a-z0-9_]+(\.[A-Za-z0-9_-]+)+", "is not a kernel parameter; write it like net.ipv4.tcp_rmem"),
)


def generic(name: str) -> str:
    """A parameter of one interface by the name that all have: ``net.ipv4.conf.*.rp_filter``."""
    return _OF_INTERFACES.sub(r"\1.*.", name)


def ask(tell: Tell, where: str) -> Table:
    """The kernel's parameters, those of interfaces once."""
    # net.ipv4.tcp_rmem
    names = tell("sysctl", "-a", "-N").split()
    if "vm.dirty_ratio" not in names:
        raise ValueError(f"sysctl listed no parameters: {' '.join(names)[:200]}")
    return {"": dict.fromkeys(sorted(map(generic, names)), Knob())}


QUESTION = Question("sysctl", ask)


def unknown(name: str, table: Table) -> str | None:
    """Why a node's kernel would refuse to set this parameter; None where it has it."""
    if generic(name) in table[""]:
        return None
    return f"a node's kernel has no such parameter{nearest(generic(name), table[''])}"
