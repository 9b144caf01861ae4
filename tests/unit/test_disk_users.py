"""Who uses a disk without being its holder: loop devices, and targets of the kernel's. Real ones as far as this
machine has them, and sysfs as it looks with the others."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from blocklab.errors import SetupError
from blocklab.sites.ssh.disks import Taken, apart
from blocklab.sites.ssh.hosts import Disk
from blocklab_node import claims, disk_users, disks
from blocklab_node.disks import Asked, Facts

MIB = 1 << 20
SIZE = 64 * MIB


# -- real loop devices -------------------------------------------------------------------------------------------


class Loops:
    """Loop devices that end with the block."""

    def __init__(self, ends: ExitStack) -> None:
        self._ends = ends

    def attach(self, below: Path, *options: str) -> Path:
        argv = ["losetup", "--find", "--show", *options, str(below)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"no loop device can be made here: {done.stderr.strip()}")
        device = Path(done.stdout.strip())
        self._ends.callback(lambda: subprocess.run(["losetup", "--detach", device], check=False))
        return device

    def mount(self, device: Path, at: Path) -> None:
        at.mkdir()
        subprocess.run(["mount", device, at], check=True)
        self._ends.callback(lambda: subprocess.run(["umount", at], check=False, capture_output=True))


@pytest.fixture
def loops() -> Iterator[Loops]:
    if os.geteuid() != 0:
        pytest.skip("only root makes loop devices")
    if lacks := [name for name in ("losetup", "mkfs.ext4", "wipefs", "lsblk") if not shutil.which(name)]:
        pytest.skip(f"there is no {lacks[0]}")
    with ExitStack() as ends:
        yield Loops(ends)


@pytest.fixture
def disk(loops: Loops, tmp_path: Path) -> Path:
    """A "disk" with blocklab's stamp, and zero behind it."""
    file = tmp_path / "disk.img"
    with file.open("wb") as made:
        made.write(claims.stamp_text("S1", SIZE))
        made.truncate(SIZE)
    return loops.attach(file)


def facts(disk: Path) -> Facts:
    with disks.opened(disk.name) as (fd, busy):
        found = disks.facts_of(disks.look(), disk.name, fd, busy=busy)
    # A loop device has no serial of its own, and is no disk.
    return found._replace(serials=["S1"], others={}, kind="disk")


def reasons(disk: Path) -> list[str]:
    return disks.reasons(facts(disk), Asked("/dev/disk/by-id/x-S1", "S1", SIZE, 8 * MIB))


def test_a_file_system_on_a_loop_device_over_a_stamped_disk_is_seen(
    loops: Loops, disk: Path, tmp_path: Path
) -> None:
    assert reasons(disk) == []
    above = loops.attach(disk, "--offset", str(MIB))
    subprocess.run(["mkfs.ext4", "-q", "-F", above], check=True)
    loops.mount(above, tmp_path / "mounted")
    (said,) = reasons(disk)
    assert said == (f"{disk} is used by the loop device {above.name} ({disk}): losetup --detach {above}")
    # The kernel itself sees no user of it.
    found = facts(disk)
    assert not (found.busy or found.holders or found.mounts or found.writers)


def test_a_loop_device_is_seen_by_the_kernels_word_and_by_its_path(
    loops: Loops, disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "link"
    link.symlink_to(disk)
    above = loops.attach(link, "--read-only")
    assert above.name in str(disk_users.users([disk.name], [])["exports"])
    # Without its node in /dev.
    monkeypatch.setattr(disk_users, "DEV", str(tmp_path))
    assert above.name in str(disk_users.users([disk.name], [])["exports"])


def test_a_loop_device_over_a_file_on_the_disk_is_seen_after_a_lazy_unmount(loops: Loops, tmp_path: Path) -> None:
    file = tmp_path / "disk.img"
    with file.open("wb") as made:
        made.truncate(SIZE)
    disk = loops.attach(file)
    subprocess.run(["mkfs.ext4", "-q", "-F", disk], check=True)
    loops.mount(disk, tmp_path / "mounted")
    inner = tmp_path / "mounted" / "inner.img"
    with inner.open("wb") as made:
        made.truncate(MIB)
    above = loops.attach(inner)
    found = disk_users.users([disk.name], [])
    assert found["mounts"] and above.name in str(found["exports"])
    subprocess.run(["umount", "--lazy", tmp_path / "mounted"], check=True)
    found = disk_users.users([disk.name], [])
    assert not found["mounts"] and above.name in str(found["exports"])


def test_loop_devices_of_others_say_nothing(loops: Loops, disk: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.img"
    with other.open("wb") as made:
        made.truncate(MIB)
    loops.attach(other)
    assert reasons(disk) == [] and disk_users.users([disk.name], [])["exports"] == []


# -- targets of the kernel's, in a sysfs of the test's -----------------------------------------------------------


@pytest.fixture
def sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(disk_users, "SYS", str(tmp_path / "sys"))
    monkeypatch.setattr(disk_users, "DEV", str(tmp_path / "dev"))
    (tmp_path / "sys" / "block").mkdir(parents=True)
    return tmp_path / "sys"


def put(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.fixture
def backing(tmp_path: Path) -> tuple[Path, str]:
    """A file, and the number of the file system that it is on: it stands for a disk's."""
    file = tmp_path / "a disk.img"
    file.touch()
    return file, disk_users.number_of(file.stat().st_dev)


NVMET = "kernel/config/nvmet/subsystems/nqn.x/namespaces/1/device_path"
LIO = "kernel/config/target/core"
INFO = (
    "Status: ACTIVATED  Max Queue Depth: 128  SectorSize: 512  HwMaxSectors: 16384\n"
    "        TCM FILEIO ID: 0        File: {path}  Size: 1048576  Mode: O_DSYNC Async: 0\n"
)


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        (NVMET, "{path}\n", "is used by an NVMe target: config/nvmet/subsystems/nqn.x/namespaces/1"),
        (NVMET, '"{path}"\n', "is used by an NVMe target"),
        (
            f"{LIO}/iblock_0/data/udev_path",
            "{path}\n",
            "is used by a SCSI target (LIO): config/target/core/iblock_0",
        ),
        (f"{LIO}/fileio_1/data/info", INFO, "is used by a SCSI target (LIO): config/target/core/fileio_1/data"),
        ("kernel/config/usb_gadget/g/functions/mass_storage.0/lun.0/file", "{path}", "is used by a USB gadget"),
        ("kernel/scst_tgt/devices/d/filename", "{path}\n[key]\n", "is used by a SCSI target (SCST)"),
        ("block/loop7/loop/backing_file", "{path}\n", "is used by the loop device loop7"),
    ],
)
def test_targets_are_seen(sysfs: Path, backing: tuple[Path, str], file: str, text: str, said: str) -> None:
    path, number = backing
    put(sysfs / file, text.format(path=path))
    ((what, fix, doubt),) = disk_users.exports_of([number])
    assert what.startswith(said) and fix and not doubt
    assert list(disk_users.exports_of(["1:99"])) == []


def test_a_target_that_has_nothing_or_is_disabled_says_nothing(sysfs: Path) -> None:
    put(sysfs / NVMET, "(null)\n")
    put(sysfs / Path(NVMET).parent / "enable", "0\n")
    put(sysfs / f"{LIO}/rd_mcp_0/ram/udev_path", "\n")
    put(sysfs / f"{LIO}/rd_mcp_0/ram/info", "Status: ACTIVATED\n        TCM RAMDISK: 2 ID: 0  PAGES/PAGE_SIZE\n")
    put(sysfs / "block/loop3/size", "0\n")
    assert list(disk_users.exports_of(["8:16"])) == []


def test_what_cannot_be_found_out_is_a_reason(sysfs: Path) -> None:
    put(sysfs / NVMET, "/nowhere/sdb\n")
    put(sysfs / Path(NVMET).parent / "enable", "1\n")
    put(sysfs / "block/loop3/loop/backing_file", "/nowhere/x.img (deleted)\n")
    doubts = [doubt for _, _, doubt in disk_users.exports_of(["8:16"])]
    assert len(doubts) == 2 and "loop3" in doubts[0] and "/nowhere/sdb" in doubts[1]
    assert disk_users.users(["sdb"], [])["unknown"] == [f"cannot be found out: {doubt}" for doubt in doubts]


def test_who_cannot_be_asked_is_no_disk_to_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disks, "USERS", "/nowhere/disk_users.py")
    with pytest.raises(ValueError, match="disk_users"):
        disks.users_of(["sdb"])


# -- one disk on two hosts ---------------------------------------------------------------------------------------


def test_one_stamp_on_two_hosts_is_one_disk() -> None:
    one, two = (Disk(f"/dev/disk/by-id/virtio-{name}", name, SIZE) for name in ("x", "y"))  # type: ignore[arg-type]
    taken = [Taken("a1", 600, one, "11"), Taken("a2", 600, two, "22")]
    apart(taken)
    with pytest.raises(
        SetupError, match=r"a2: .*virtio-y is the same disk as .*virtio-x on a1.*stamp 11"
    ) as caught:
        apart([taken[0], Taken("a2", 600, two, "11")])
    assert "of its own" in caught.value.hint
