"""No disk that holds anything is touched: planted on real volumes of a real kernel, each is refused for its reason
and is byte by byte what it was; a blank one is taken, written through its map, given back and taken again."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from blocklab.model import node_programs
from blocklab.model.ground import Profile, VolumeSpec
from blocklab.model.host import Host, must
from blocklab.model.units import Size
from blocklab.sites.uml.site import UmlLab, UmlSite
from tests.lab import planted_disks
from tests.lab.bare_disks import BY_ID, BareDisk, ask, plug
from tests.lab.conftest import topology
from tests.lab.planted_disks import (
    CASES,
    LVM,
    MIB,
    SIZE,
    Plant,
    drbd,
    last_bytes,
    lvm_alone,
    lvm_inactive,
    mbr,
    md_inactive,
    md_stopped,
    mounted_elsewhere,
    stamp_of_another_size,
    swap_on,
)

NEED = 32 * MIB


@pytest.fixture(scope="module")
def lab() -> Iterator[UmlLab]:
    volumes = tuple(VolumeSpec("s", ("a1",), Profile(size=Size("64MiB")), index) for index in range(3))
    lab = UmlSite().start(msgspec.structs.replace(topology("a1"), volumes=volumes))
    try:
        host = lab.hosts["a1"]
        for name in node_programs.OF_DISKS:
            host.put(node_programs.path(name), node_programs.text(name).encode())
        for module in ("dm-mod", "raid1", "ext4", "xfs"):
            host.run(["modprobe", module])
        yield lab
    finally:
        lab.close()


@pytest.fixture
def host(lab: UmlLab) -> Host:
    return lab.hosts["a1"]


@pytest.fixture
def disks(lab: UmlLab, host: Host, tmp_path: Path) -> Iterator[list[BareDisk]]:
    """All zero, and nothing stands on them; so again at the end."""
    found = []
    for index in range(3):
        file, device, serial = lab.volume("s", "a1", index), f"/dev/ubd{'bcd'[index]}", f"S000{index}"
        assert file is not None
        found.append(BareDisk(host, device, file, serial, plug(host, device, serial), tmp_path))
    yield found
    for minor in must(host, ["dmsetup", "info", "-c", "--noheadings", "-o", "name"]).split():
        if minor.startswith("dm-"):
            must(host, ["dmsetup", "remove", "--retry", minor])
    must(host, ["rm", "-r", BY_ID])
    for disk in found:
        disk.empty()


@pytest.fixture
def disk(disks: list[BareDisk]) -> BareDisk:
    return disks[0]


@contextlib.contextmanager
def planted(plant: Plant, disk: BareDisk, other: BareDisk) -> Iterator[None]:
    undo = plant(disk, other)
    try:
        yield
    finally:
        for each in undo:
            each()


def refused(disk: BareDisk, program: str, verb: str, *more: str, **changes: Any) -> list[str]:
    code, found = ask(disk.host, program, verb, *disk.words(**changes), *more)
    assert code == 1 and found["refused"], found
    return [str(reason) for reason in found["refused"]]


def surveyed(disk: BareDisk) -> dict[str, Any]:
    code, found = ask(disk.host, "disks", "survey")
    assert code == 0
    (mine,) = (each for each in found["disks"] if each["name"] == disk.name)
    return dict(mine)


def maps(host: Host) -> list[str]:
    """The names of blocklab's."""
    names = must(host, ["dmsetup", "info", "-c", "--noheadings", "-o", "name"]).split()
    return [name for name in names if name.startswith("dm-")]


# Of each kind one is tried each time, and its kin by `just long`.
KIN = (mbr, mounted_elsewhere, lvm_inactive, lvm_alone, md_stopped, md_inactive, swap_on, drbd, last_bytes,
       stamp_of_another_size)  # fmt: skip


@pytest.mark.parametrize(
    ("plant", "said"),
    [pytest.param(*case, marks=pytest.mark.long) if case[0] in KIN else case for case in CASES],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_disk_that_holds_something_is_refused_and_left_as_it_is(
    disks: list[BareDisk], plant: Plant, said: list[str]
) -> None:
    disk, other, _ = disks
    with planted(plant, disk, other):
        before = [each.settle() for each in disks]
        answers = {
            "check": refused(disk, "disks", "check", need=NEED),
            "take": refused(disk, "claims", "take", "--zero", need=NEED, minor=600),
            "survey": surveyed(disk)["refused"],
        }
        if said != ["is not zero"]:
            answers["claim"] = refused(disk, "claims", "claim")
        assert [each.settle() for each in disks] == before
        assert maps(disk.host) == []
    for verb, reasons in answers.items():
        assert len(reasons) == len(said), (verb, reasons)
        assert all(part in reason for part, reason in zip(said, reasons, strict=True)), (verb, reasons)
        assert all(reason.startswith(disk.device) for reason in reasons)


def test_a_disk_that_is_not_the_one_in_the_hosts_file_is_refused(disks: list[BareDisk]) -> None:
    disk, other, _ = disks
    before = [each.settle() for each in disks]

    def said(**changes: Any) -> list[str]:
        found = refused(disk, "disks", "check", **{"need": NEED, **changes})
        assert refused(disk, "claims", "take", **{"need": NEED, "minor": 600, **changes}) == found
        return found

    assert said(size=SIZE - 512) == [f"/dev/ubdb has {SIZE} bytes, not {SIZE - 512}: correct the hosts file"]
    assert said(serial="S0009") == ["/dev/ubdb has the serial S0000, not 'S0009': correct the hosts file"]
    (one, two) = said(id=other.id)
    assert "/dev/ubdc has the serial S0001, not 'S0000'" in one + two
    must(disk.host, ["ln", "-sfn", disk.device, f"{BY_ID}/virtio-S0777"])
    assert "virtio-S0777 names another" in said(id=f"{BY_ID}/virtio-S0777")[0]
    assert "2 MiB more are needed" in said(need=SIZE - MIB)[0]
    plug(disk.host, other.device, disk.serial)
    assert "has the same serial as" in " ".join(said(id=disk.id))
    assert [each.settle() for each in disks] == before


def test_an_id_that_is_no_link_to_a_whole_disk_is_refused(disks: list[BareDisk]) -> None:
    disk, other, _ = disks
    host = disk.host
    planted_disks.mbr(other, disk)
    planted_disks.holder(disk, other)
    number = must(host, ["cat", f"/sys/block/{disk.name}/dev"]).strip().split(":")
    must(host, ["mknod", f"{BY_ID}/node-S0000", "b", *number])
    for name, target in (
        ("part-S0000", "/dev/ubdc1"), ("map-S0000", "/dev/mapper/theirs"), ("file-S0000", "/etc/passwd"),
        ("gone-S0000", "/dev/ubdz"), ("null-S0000", "/dev/null"),
    ):  # fmt: skip
        must(host, ["ln", "-sfn", target, f"{BY_ID}/{name}"])
    before = [each.settle() for each in disks]
    cases = {
        f"{BY_ID}/node-S0000": "is no link as udev makes them",
        f"{BY_ID}/part-S0000": "is the partition ubdc1 of ubdc",
        f"{BY_ID}/map-S0000": "stands on something else",
        f"{BY_ID}/file-S0000": "is no block device",
        f"{BY_ID}/gone-S0000": "No such file or directory",
        f"{BY_ID}/null-S0000": "is no block device",
        f"{BY_ID}/absent": "is no link",
        disk.device: "is no name below /dev/disk/by-id/",
        f"{BY_ID}/../../ubdb": "is no name below",
    }
    try:
        for path, said in cases.items():
            (reason,) = refused(disk, "disks", "check", id=path, need=NEED)
            assert said in reason and path in reason, reason
            (reason,) = refused(disk, "claims", "take", id=path, need=NEED, minor=600)
            assert said in reason, reason
        assert [each.settle() for each in disks] == before
    finally:
        must(host, ["dmsetup", "remove", "--noudevsync", "theirs"])


@pytest.mark.parametrize("tool", [pytest.param("lsblk", marks=pytest.mark.long), "wipefs"])
def test_a_tool_that_says_something_else_or_nothing_is_a_reason(disk: BareDisk, tool: str) -> None:
    host, path = disk.host, must(disk.host, ["sh", "-c", f"readlink -f $(command -v {tool})"]).strip()
    for text, said in (
        ("#!/bin/sh\necho '{\"other\": []}'\n", f"{tool} prints what blocklab does not know"),
        ("#!/bin/sh\nexit 3\n", "exit status 3"),
        ("no program", f"{tool} cannot be run"),
    ):
        host.put("/run/other", text.encode(), 0o755)
        must(host, ["mount", "--bind", "/run/other", path])
        try:
            reasons = refused(disk, "disks", "check", need=NEED)
            assert any(said in reason for reason in reasons), reasons
            assert refused(disk, "claims", "take", need=NEED, minor=600) == reasons
            assert not surveyed(disk)["usable"]
        finally:
            must(host, ["umount", path])
    assert ask(host, "disks", "check", *disk.words(need=NEED))[0] == 0


def taken(disk: BareDisk, minor: int = 600, *more: str) -> dict[str, Any]:
    code, found = ask(disk.host, "claims", "take", *disk.words(need=NEED, minor=minor), *more)
    assert code == 0, found
    return found


def released(host: Host, minor: int = 600) -> bool:
    code, found = ask(host, "claims", "release", "--minor", str(minor))
    assert code == 0, found
    return bool(found["was_there"])


def test_a_blank_disk_is_taken_written_given_back_and_taken_again(disk: BareDisk) -> None:
    host = disk.host
    before = disk.settle()
    code, found = ask(host, "disks", "check", *disk.words(need=NEED))
    assert code == 0 and found["zero"] is True and found["stamp"] is None and found["uses"] == []
    assert surveyed(disk)["usable"] is True and disk.settle() == before

    first = taken(disk)
    assert (first["path"], first["name"], first["bytes"]) == ("/dev/mapper/dm-600", "dm-600", NEED)
    assert must(host, ["cat", "/sys/block/dm-600/size"]).strip() == str(NEED // 512)
    assert must(host, ["ls", f"/sys/block/{disk.name}/holders"]).split() == ["dm-600"]
    data = os.urandom(MIB)
    host.run(["dd", "of=/dev/mapper/dm-600", "bs=1M", "oflag=direct"], input=data)
    host.run(["dd", "of=/dev/mapper/dm-600", "bs=1M", f"seek={NEED // MIB - 1}", "oflag=direct"], input=data)
    # Nothing else gets it.
    assert host.run(["mkfs.ext4", "-q", "-F", disk.device]).code != 0
    (reason,) = refused(disk, "disks", "check", need=NEED)
    assert "is held by dm-600 (blocklab-600-" in reason
    (reason,) = refused(disk, "claims", "take", need=NEED, minor=601)
    assert "is held by dm-600" in reason

    assert released(host) is True and released(host) is False
    assert disk.read(MIB, MIB) == disk.read(NEED, MIB) == data
    stamp = disk.read(0, MIB)
    assert stamp.startswith(b"blocklab-disk-stamp 1\n") and not any(stamp[512:])
    assert not any(disk.read(MIB + NEED, SIZE)) and surveyed(disk)["stamp"] == first["stamp"]

    again = taken(disk, 601)
    assert again["stamp"] == first["stamp"] and again["name"] == "dm-601"
    assert released(host, 601) and disk.read(0, MIB) == stamp and disk.read(MIB, MIB) == data
    assert taken(disk, 600, "--zero")["zeroed"] is True
    assert released(host) and disk.read(0, MIB) == stamp and not any(disk.read(MIB, SIZE))


def test_what_a_layout_leaves_behind_does_not_pass_for_the_disks_own(disk: BareDisk) -> None:
    """Its metadata stand between the first and the last MiB, where nobody looks for a disk's."""
    host, most = disk.host, SIZE - 2 * MIB
    for argv in (
        ["drbdmeta", "--force", "0", "v08", "/dev/mapper/dm-600", "internal", "create-md"],
        ["pvcreate", *LVM, "-ff", "--yes", "/dev/mapper/dm-600"],
        ["mkfs.ext4", "-q", "-F", "/dev/mapper/dm-600"],
        ["mkswap", "--force", "/dev/mapper/dm-600"],
        ["mdadm", "--create", "/dev/md77", "--run", "--level=1", "--force", "--raid-devices=1", "--metadata=1.0",
         "/dev/mapper/dm-600"],
    ):  # fmt: skip
        code, found = ask(host, "claims", "take", *disk.words(need=most, minor=600))
        assert code == 0, found
        must(host, argv)
        host.run(["mdadm", "--stop", "/dev/md77"])
        assert released(host)


def test_a_claim_takes_a_disk_that_is_not_zero(disk: BareDisk) -> None:
    for at in (0, 800_000, 5 * MIB, SIZE - 1000):
        disk.write(at, os.urandom(400))
    before = disk.read(MIB, SIZE - 2 * MIB)
    code, found = ask(disk.host, "claims", "claim", *disk.words())
    assert code == 0 and found["stamp"]["serial"] == "S0000" and found["stamp"]["size"] == SIZE
    assert disk.read(MIB, SIZE - 2 * MIB) == before
    assert not any(disk.read(512, MIB - 512)) and not any(disk.read(SIZE - MIB, MIB))
    code, again = ask(disk.host, "claims", "claim", *disk.words())
    assert code == 0 and again["stamp"] == found["stamp"]
    taken(disk)
    assert released(disk.host) and disk.read(MIB, SIZE - 2 * MIB) == before
    for at in (600, MIB - 1, SIZE - MIB, SIZE - 1):
        disk.write(at, b"x")
        (reason,) = refused(disk, "claims", "take", need=NEED, minor=600)
        assert "was written to since it was claimed" in reason
        disk.write(at, b"\0")
    disk.write(600, b"x")
    code, third = ask(disk.host, "claims", "claim", *disk.words())
    assert code == 0 and third["stamp"]["id"] != found["stamp"]["id"]


def test_a_stamp_excuses_no_later_use(disks: list[BareDisk]) -> None:
    disk, other, _ = disks
    taken(disk)
    released(disk.host)
    stamp = disk.read(0, 4096)
    for plant, said in (
        (planted_disks.drbd, "has DRBD metadata"), (planted_disks.holder, "(theirs)"),
        (planted_disks.md_at_the_end, "MD array"),
    ):  # fmt: skip
        with planted(plant, disk, other):
            assert disk.read(0, 4096) == stamp
            reasons = refused(disk, "claims", "take", need=NEED, minor=600)
            assert len(reasons) == 1 and said in reasons[0]
        disk.write(4096, bytes(SIZE - 4096))
        other.empty()
    taken(disk)
    assert released(disk.host)


def test_a_minor_that_is_somebody_elses_stays(disks: list[BareDisk]) -> None:
    disk, other, _ = disks
    host = disk.host
    table = f"0 8 linear {other.device} 0"
    must(host, ["dmsetup", "create", "dm-600", "--noudevsync", "--table", table])
    (reason,) = refused(disk, "claims", "take", need=NEED, minor=600)
    assert "device-mapper has dm-600 (UUID none)" in reason
    must(host, ["dmsetup", "remove", "dm-600"])
    taken(other)
    (reason,) = refused(disk, "claims", "take", need=NEED, minor=600)
    assert "device-mapper has dm-600 (UUID blocklab-600-" in reason
    must(host, ["dmsetup", "create", "theirs", "--noudevsync", "--notable", "--major", "1", "--minor", "605"])
    code, found = ask(host, "claims", "release", "--minor", "605")
    assert code == 1 and "not blocklab's" in found["refused"][0]
    must(host, ["dmsetup", "remove", "theirs"])
    assert not any(disk.read(0, SIZE)) and released(host)


def test_of_two_that_take_a_disk_at_once_one_gets_it_or_none(disk: BareDisk) -> None:
    won = 0
    with ThreadPoolExecutor(2) as pool:
        for _ in range(4):
            words = [disk.words(need=NEED, minor=minor) for minor in (600, 601)]
            both = list(pool.map(lambda each: ask(disk.host, "claims", "take", *each), words))
            codes = [code for code, _ in both]
            assert len(maps(disk.host)) == codes.count(0) <= 1, both
            won += codes.count(0)
            for minor in (600, 601):
                released(disk.host, minor)
    assert taken(disk) and released(disk.host)


@pytest.mark.parametrize(
    ("act", "said", "undo"),
    [
        ("mkfs.ext4 -q -F $DISK", ["has the signature of ext4"], "true"),
        ("$REAL create theirs --noudevsync --table '0 8 linear '$DISK' 8'",
         ["(theirs)", "is not held by dm-600 alone"], "dmsetup remove --noudevsync theirs"),
        ("echo x | dd of=$DISK bs=1 seek=700000", ["was written to since it was claimed"], "true"),
        ("mkfs.ext4 -q -F $DISK; mkdir -p /mnt/gap; mount $DISK /mnt/gap",
         ["dmsetup load dm-600"], "umount /mnt/gap"),
    ],
    ids=["mkfs", "map", "write", "mount"],
)  # fmt: skip
def test_who_comes_between_the_check_and_the_map_is_seen(
    disk: BareDisk, act: str, said: list[str], undo: str
) -> None:
    """Played by a dmsetup that does something else before it loads the map's table."""
    host, real = disk.host, "/run/dmsetup.real"
    must(host, ["cp", "/usr/sbin/dmsetup", real])
    script = f'#!/bin/sh\nDISK={disk.device} REAL={real}\n[ $1 != load ] || {{ {act}; }}\nexec {real} "$@"\n'
    host.put("/run/gap", script.encode(), 0o755)
    must(host, ["mount", "--bind", "/run/gap", "/usr/sbin/dmsetup"])
    try:
        reasons = refused(disk, "claims", "take", need=NEED, minor=600)
    finally:
        must(host, ["umount", "/usr/sbin/dmsetup"])
    assert len(reasons) == len(said) and all(part in reason for part, reason in zip(said, reasons, strict=True))
    assert maps(host) == []
    must(host, ["sh", "-c", undo])


@pytest.mark.parametrize(
    "alone", [False, pytest.param(True, marks=pytest.mark.long)], ids=["with its children", "alone"]
)
def test_a_take_that_is_killed_is_taken_again(disk: BareDisk, alone: bool) -> None:
    """At any moment: the disk is blank or stamped, and what is left of the map is ours."""
    host = disk.host
    whole = taken(disk)["seconds"]
    released(host)
    disk.empty()
    moments = 6
    for number in range(moments):
        argv = node_programs.program("claims", "take", *disk.words(need=NEED, minor=600), "--zero")
        seconds = whole * (number + 1) / moments
        flags = ["--foreground"] if alone else []
        host.run(["timeout", *flags, "--signal", "KILL", f"{seconds:.3f}", *argv])
        first = disk.read(0, MIB)
        assert not any(first) or (first.startswith(b"blocklab-disk-stamp 1\n") and not any(first[512:]))
        # What it had started may still be ending.
        must(host, ["sh", "-c", "while pgrep -f '[d]isks.py|[d]msetup' > /dev/null; do sleep 0.05; done"])
        taken(disk)
        assert must(host, ["dmsetup", "table", "dm-600"]).split()[1] == str(NEED // 512)
        assert released(host)
        if number % 2:
            disk.empty()


@pytest.fixture
def scsi(host: Host, disks: list[BareDisk]) -> Iterator[dict[str, Any]]:
    """Two SCSI disks of 16 MiB, as the kernel's own debug driver makes them; udev names them."""
    must(host, ["/usr/lib/systemd/systemd-udevd", "--daemon"])
    must(host, ["modprobe", "sd_mod"])
    must(host, ["modprobe", "scsi_debug", "dev_size_mb=16", "num_tgts=2", "per_host_store=1"])
    try:
        must(host, ["udevadm", "settle"])
        code, found = ask(host, "disks", "survey")
        assert code == 0
        yield {each["name"]: each for each in found["disks"]}
    finally:
        released(host)
        must(host, ["udevadm", "settle"])
        must(host, ["modprobe", "-r", "scsi_debug"])
        must(host, ["udevadm", "control", "--exit"])


def test_real_disks_with_a_real_udev(host: Host, scsi: dict[str, Any]) -> None:
    """Serial and WWID are the kernel's, names below by-id are udev's, and so is the map's."""
    one, two = scsi["sda"], scsi["sdb"]
    assert one["usable"] and two["usable"] and one["size"] == 16 * MIB and one["model"] == "scsi_debug"
    assert len(one["serials"]) == 2 and not set(one["serials"]) & set(two["serials"])
    assert {Path(path).name.partition("-")[0] for path in one["ids"]} == {"scsi", "wwn"}
    for serial, path in zip(one["serials"], one["ids"], strict=True):
        words = (path, "--serial", serial, "--size", str(16 * MIB), "--need", str(8 * MIB))
        assert ask(host, "disks", "check", *words)[0] == 0
        code, found = ask(host, "claims", "take", *words, "--minor", "600")
        assert code == 0 and found["path"] == "/dev/mapper/dm-600", found
        numbers = must(host, ["lsblk", "-dno", "KNAME,MAJ:MIN", found["path"]]).split()
        assert numbers[0] == "dm-600" and numbers[1].endswith(":600")
        assert released(host)
    words = (two["ids"][0], "--serial", two["serial"], "--size", str(16 * MIB), "--need", str(8 * MIB))
    must(host, ["mkfs.ext4", "-q", "/dev/sdb"])
    must(host, ["udevadm", "settle"])
    code, found = ask(host, "disks", "check", *words)
    assert code == 1 and [reason.partition(":")[0] for reason in found["refused"]] == [
        "/dev/sdb has the signature of ext4"
    ]
