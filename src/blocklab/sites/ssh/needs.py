"""The programs and kernel modules that a study's commands need, and the packages that have them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from blocklab.model.ground import Ground
from blocklab.model.plan import Argv, Run, Wait
from blocklab.study.factors import variant
from blocklab.study.grid import cells, hosts_of, layouts, plan_stack, port_for
from blocklab.study.phases import Ask, Build, Do, Measure, Start, build, measurement
from blocklab.study.types import Study

# In front of another command.
WRAPPERS = frozenset({"setpriv", "env", "timeout", "nice"})
# Programs of systems by family: Debian and Ubuntu, RHEL and its like, SUSE, Amazon Linux. What has an entry for
# one only is called the same everywhere; what has none is in every system.
PACKAGES: Mapping[str, Mapping[str, str]] = {
    "blockdev": {"": "util-linux"},
    "fsfreeze": {"": "util-linux"},
    "lsblk": {"": "util-linux"},
    "setpriv": {"": "util-linux"},
    "wipefs": {"": "util-linux"},
    "cryptsetup": {"debian": "cryptsetup-bin", "": "cryptsetup"},
    "dmsetup": {"debian": "dmsetup", "": "device-mapper"},
    "drbdadm": {"debian": "drbd-utils", "suse": "drbd-utils", "rhel": "drbd9x-utils and kmod-drbd9x (ELRepo)",
                "amazon": "drbd-utils and the drbd module, both from LINBIT or from source"},
    "drbdsetup": {"": "drbd-utils"},
    "fio": {"": "fio"},
    "initdb": {"debian": "postgresql", "": "postgresql-server", "amazon": "postgresql16-server"},
    "pg_ctl": {"debian": "postgresql", "": "postgresql-server", "amazon": "postgresql16-server"},
    "pgbench": {"debian": "postgresql", "": "postgresql-contrib", "amazon": "postgresql16-contrib"},
    "psql": {"debian": "postgresql-client", "": "postgresql", "amazon": "postgresql16"},
    "pg_test_fsync": {"debian": "postgresql", "": "postgresql-contrib", "amazon": "postgresql16-contrib"},
    "ip": {"debian": "iproute2", "suse": "iproute2", "": "iproute"},
    "tc": {"debian": "iproute2", "suse": "iproute2", "": "iproute-tc"},
    "ping": {"debian": "iputils-ping", "": "iputils"},
    "lvcreate": {"": "lvm2"}, "pvcreate": {"": "lvm2"}, "vgchange": {"": "lvm2"}, "vgcreate": {"": "lvm2"},
    "mariadb": {"debian": "mariadb-client", "": "mariadb"},
    "mariadb-install-db": {"": "mariadb-server"},
    "mariadbd": {"": "mariadb-server"},
    "mdadm": {"": "mdadm"},
    "mkfs.ext4": {"": "e2fsprogs"},
    "mkfs.xfs": {"": "xfsprogs"},
    "modprobe": {"": "kmod"},
    "nbd-client": {"debian": "nbd-client", "": "nbd"},
    "nbd-server": {"debian": "nbd-server", "": "nbd"},
    "qemu-storage-daemon": {"debian": "qemu-utils", "": "qemu-img"},
    "start-stop-daemon": {"debian": "dpkg", "rhel": "dpkg (EPEL)", "": "dpkg"},
    "sysbench": {"rhel": "sysbench (EPEL)", "": "sysbench"},
}  # fmt: skip
# Claiming a disk and looking at links takes these, whatever the study.
ALWAYS = ("blockdev", "dmsetup", "ip", "lsblk", "ping", "wipefs")


def package(program: str, family: str) -> str:
    """The package that has a program on systems of a family (``facts.family``)."""
    known = PACKAGES.get(program, {})
    return known.get(family, known.get("", program))


def commands(study: Study, ground: Ground) -> Iterator[tuple[str, Argv]]:
    """Every command of the study's layouts and workloads with its host, drills left out."""
    for layout in layouts(study, cells(study)):
        what = layout.study
        built: Build = build(what, [layout.stack], ground)
        for phase in built.phases:
            yield from _of(phase)
        plan = plan_stack(what, layout.stack, 0, ground)
        for cell in layout.cells:
            workload = variant(study, cell.levels).workloads[cell.workload]
            port = port_for(workload, plan.ports, ground)
            for each in measurement(workload, port, plan.facts, hosts_of(what.stacks[layout.stack]), ()):
                yield from _of(each)


def _of(phase: object) -> Iterator[tuple[str, Argv]]:
    if isinstance(phase, Do):
        yield from ((step.host, step.argv) for step in phase.steps if isinstance(step, Run | Wait))
        yield from ((step.host, step.undo) for step in phase.steps if isinstance(step, Run) and step.undo)
    elif isinstance(phase, Ask):
        yield from ((fact.host, fact.argv) for fact in phase.facts)
    elif isinstance(phase, Measure):
        for start in phase.starts.values():
            yield from _started(start)


def _started(start: Start) -> Iterator[tuple[str, Argv]]:
    yield from _of(start.arm)
    yield start.command.host, start.command.argv


def programs(study: Study, ground: Ground) -> dict[str, tuple[str, ...]]:
    """The programs that each host needs, in alphabetical order."""
    found: dict[str, set[str]] = {}
    for host, argv in commands(study, ground):
        mine = found.setdefault(host, set(ALWAYS))
        mine.add(argv[0])
        if argv[0] in WRAPPERS:
            # setpriv --reuid=postgres --regid=postgres --init-groups initdb ...
            mine.update(next(([word] for word in argv[1:] if not word.startswith("-") and "=" not in word), []))
    return {host: tuple(sorted(names)) for host, names in found.items()}


def modules(study: Study, ground: Ground) -> dict[str, tuple[str, ...]]:
    """The kernel modules that each host needs, beside device mapper."""
    found: dict[str, dict[str, None]] = {}
    for host, argv in commands(study, ground):
        mine = found.setdefault(host, {"dm_mod": None})
        if argv[0] == "modprobe":
            mine[next(word for word in argv[1:] if not word.startswith("-"))] = None
    return {host: tuple(names) for host, names in found.items()}
