"""A device-mapper device with a minor of our own, so that a plan can name it before it is there.

Its name is the kernel's own for that minor, so that iostat, /proc/diskstats, /sys and /proc/mounts speak of the
same device. A program that makes a mapping and lets the kernel choose the minor gets one of these on top.
"""

from __future__ import annotations

from functools import partial

from blocklab.model import places
from blocklab.model.node_programs import program
from blocklab.model.numbers import Range
from blocklab.model.plan import Fact, Port, Run, Step, Wait

FOLDER = "/dev/mapper"


def fact(upper: Port, layer: str, suffix: str) -> Fact:
    """That the kernel has it as it was made."""
    ask = ("dmsetup", "table", upper.where.rpartition("/")[2])
    return Fact(upper.host, layer, ask, partial(parse_table, suffix), {f"target{suffix}": "linear"})


def parse_table(suffix: str, text: str) -> dict[str, str]:
    """The target that the kernel has for the device."""
    # "0 131072 linear 98:16 0"; after wipe_table "0 131072 error "
    return {f"target{suffix}": text.split()[2]}


def minor(device: str) -> str:
    """The minor number in such a name."""
    return device.removeprefix("dm-")


def table(device: str) -> str:
    """The file on the node that holds the device's table while it is whole."""
    return places.run(f"{device}.table")


def module(host: str, name: str = "dm-mod") -> Run:
    """The kernel module. Without udev, names of devices that are gone stay: the last thing to be undone is to look
    after them."""
    return Run(host, ("modprobe", name), undo=("dmsetup", "mknodes"))


def linear(lower: Port, upper: Range, number: int, index: int) -> tuple[tuple[Step, ...], Port]:
    """The whole of a device, as a stack's ``index``-th mapping of a range; undone by removing it."""
    host, device = lower.host, upper.path(number, index)
    name = device.rpartition("/")[2]
    # dmsetup wants a major number beside the minor; the kernel has its own, which only a table in the same command
    # would have to know.
    create = ("dmsetup", "create", name, "--notable", "--major", "1", "--minor", minor(name))
    steps = (
        Run(
            host,
            program("verbs", "write", table(name), f"0 {{sectors}} linear {lower.where} 0", lower.where),
            undo=("rm", "-f", table(name)),
        ),
        Run(host, (*create, "--noudevsync"), undo=("dmsetup", "remove", "--noudevsync", name)),
        Run(host, ("dmsetup", "load", name, table(name))),
        Run(host, ("dmsetup", "resume", "--noudevsync", name)),
        # Without udev a name may be missing, and a workload would write to a plain file of that name.
        Run(host, ("dmsetup", "mknodes", name)),
        Wait(host, ("test", "-b", device), seconds=5.0),
    )
    return steps, Port(host, "block", device)
