"""What is on a node."""

from __future__ import annotations

from blocklab.model.host import Host, must


def state(host: Host) -> dict[str, str]:
    """What a take-down must leave as it was: mounts, configured mirrors, files, processes."""
    return {
        "mounts": must(host, ["cat", "/proc/mounts"]),
        "mirrors": "\n".join(line for line in must(host, ["cat", "/proc/drbd"]).splitlines() if " cs:" in line)
        if host.run(["test", "-e", "/proc/drbd"]).code == 0 else "",
        "resources": must(host, ["ls", "/etc/drbd.d"]),
        # "ubdb", "dm-0", "md0"
        "devices": "\n".join(
            name for name in must(host, ["ls", "/sys/block"]).split() if name.startswith(("dm-", "md"))
        ),
        "processes": "\n".join(sorted(programs(host))),
    }  # fmt: skip


def programs(host: Host) -> list[str]:
    """The names of all processes that are not the kernel's own (children of kthreadd, 2)."""
    rows = [line.split() for line in must(host, ["ps", "-e", "-o", "ppid=,pid=,comm="]).splitlines()]
    return [name for parent, number, name, *_ in rows if "2" not in (parent, number) and name != "ps"]
