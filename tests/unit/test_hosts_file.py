"""The hosts file, and what is read of hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from blocklab.errors import StudyError
from blocklab.model.ground import Ground
from blocklab.sites.ssh import facts, needs
from blocklab.sites.ssh.connect import ssh_argv
from blocklab.sites.ssh.hosts import HostEntry, known_hosts_of, load
from blocklab.sites.ssh.site import SshSite
from blocklab.study.grid import topology
from blocklab.study.read import read
from blocklab.study.shipped import shipped

DRBD_AZ = shipped()["drbd-az"]
DISK = {"id": "/dev/disk/by-id/virtio-one", "serial": "one", "size": "8GiB"}


def plain() -> dict[str, Any]:
    """Hosts for drbd-az."""
    ends = {name: {"interface": "ens5", "address": f"10.0.1.{n}"} for n, name in enumerate(("a1", "a2", "b1"), 1)}
    return {
        "hosts": {
            name: {"address": f"10.0.0.{n}", "disks": {"data": dict(DISK)}} for n, name in enumerate(ends, 1)
        },
        "links": {
            "zone": {"ends": {name: ends[name] for name in ("a1", "a2")}},
            "cross": {"ends": {name: ends[name] for name in ("a1", "b1")}},
        },
    }


def written(folder: Path, document: dict[str, Any]) -> Path:
    file = folder / "hosts.yaml"
    YAML().dump(document, file)
    return file


def changed(path: str, value: object) -> dict[str, Any]:
    document = plain()
    *parts, last = path.split(".")
    at = document
    for part in parts:
        at = at.setdefault(part, {})
    at[last] = value
    return document


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("hosts.a1.disks.data.id", "/dev/sdb", "hosts.a1.disks.data.id: /dev/sdb is not below /dev/disk/by-id/"),
        ("hosts.a1.disks.data.id", "/dev/disk/by-id/../../sda", "is not below"),
        ("hosts.a1.disks.data.serial", "", "hosts.a1.disks.data.serial: is empty"),
        ("hosts.a1.disks.other", dict(DISK), "hosts.a1.disks.other.serial: is that of data too"),
        ("hosts.a1.disks.data.size", "8", "hosts.a1.disks.data.size: '8' is not a number with a unit"),
        ("hosts.a1.address", "-oProxyCommand=reboot", "is no name or address of a host"),
        ("hosts.a1.user", "-l", "is no login"),
        ("hosts.a1.colour", "red", "colour"),
        ("hosts.a1.become", "su", "su"),
        ("links.zone.ends.c1", {"interface": "e", "address": "10.0.0.9"}, "a link has two ends; this one has 3"),
        ("links.zone.ends.a1", {"interface": "e/t", "address": "10.0.0.9"}, "'e/t' is no name of an interface"),
        ("links.zone.ends.a1", {"interface": "e", "address": "host"}, "'host' is no IPv4 address"),
        ("volumes.local.a1", ["data", "none"], "volumes.local.a1: there is no disk 'none' on a1"),
        ("volumes.local.a1", ["data", "data"], "names a disk twice"),
        ("first", 0, "first: must be from 1 to 1000"),
    ],
)
def test_what_is_wrong_is_said_with_its_field(tmp_path: Path, path: str, value: object, said: str) -> None:
    with pytest.raises(StudyError) as caught:
        load(written(tmp_path, changed(path, value)))
    assert said in str(caught.value) and "hosts.yaml" in str(caught.value)


def test_a_file_that_is_not_there_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="no such hosts file") as caught:
        load(tmp_path / "hosts.yaml")
    assert "blocklab hosts add" in caught.value.hint


def site(folder: Path, document: dict[str, Any] | None = None) -> SshSite:
    return SshSite(written(folder, document or plain()))


def test_the_ground_has_names_of_its_own(tmp_path: Path) -> None:
    study = read(DRBD_AZ)
    ground: Ground = site(tmp_path).ground(topology(study, ["drbd0"]))
    assert ground.devices == {"drbd0": {"a1": ("/dev/mapper/dm-700",), "a2": ("/dev/mapper/dm-700",)}}
    end = ground.ends["zone"]["a1"]
    assert (end.nic, end.address, end.given, end.shaped) == ("ens5", "10.0.1.1", True, False)
    assert (ground.prefix, ground.first) == ("blocklab-", 100)


def test_what_the_file_lacks_for_a_study_is_said(tmp_path: Path) -> None:
    study = read(DRBD_AZ)
    document = plain()
    del document["links"]["cross"]
    with pytest.raises(StudyError, match=r"links\.cross: .*hosts\.yaml has no link cross between a1 and b1"):
        site(tmp_path, document).ground(topology(study, ["drbd1"]))
    del document["hosts"]["b1"]
    with pytest.raises(StudyError, match=r"nodes\.b1: .*hosts\.yaml has no such host"):
        site(tmp_path, document).ground(topology(study, ["drbd1"]))
    document = plain()
    document["hosts"]["a2"]["disks"] = {}
    with pytest.raises(StudyError, match="needs volume 1 there; there is 0 disks") as caught:
        site(tmp_path, document).ground(topology(study, ["drbd0"]))
    assert "blocklab disks list" in caught.value.hint


def test_nothing_of_the_users_own_ssh_configuration_counts() -> None:
    argv = ssh_argv(HostEntry("10.0.0.1", "admin", identity="/k"), Path("/x/known hosts"))
    assert argv[:4] == ["ssh", "-T", "-F", "none"] and argv[-4:] == ["-l", "admin", "--", "10.0.0.1"]
    said = " ".join(argv)
    for option in ("BatchMode=yes", "StrictHostKeyChecking=yes", "ControlMaster=no", 'File="/x/known hosts"'):
        assert option in said
    assert known_hosts_of(Path("/x/hosts.yaml")) == Path("/x/hosts.known_hosts")


def test_programs_and_packages_of_a_study(tmp_path: Path) -> None:
    study = read(DRBD_AZ, quick=True)
    ground = site(tmp_path).ground(topology(study, list(study.stacks)))
    programs = needs.programs(study, ground)
    assert {"initdb", "pgbench", "fio", "drbdadm", "mkfs.xfs"} <= set(programs["a1"])
    assert "drbdadm" in programs["b1"] and "initdb" not in programs["b1"]
    assert needs.modules(study, ground)["a2"] == ("dm_mod", "drbd")
    found = [needs.package("initdb", family) for family in ("debian", "rhel", "suse", "amazon", "void")]
    assert found == [
        "postgresql", "postgresql-server", "postgresql-server", "postgresql16-server", "postgresql-server",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("ID=debian\n", "debian"),
        ("ID=ubuntu\nID_LIKE=debian\n", "debian"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "rhel"),
        ('ID="amzn"\nID_LIKE="fedora"\n', "amazon"),
        ('ID="sles"\nID_LIKE="suse"\n', "suse"),
        ('ID="opensuse-leap"\nID_LIKE="suse opensuse"\n', "suse"),
        ("ID=void\n", "void"),
    ],
)
def test_families_of_systems(text: str, family: str) -> None:
    assert facts.family(text) == family


TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1BBC 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1
   1: 0100007F:1539 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 2
"""


def test_names_that_are_taken_are_found() -> None:
    texts = {
        "blocks": "dm-0\nmd100\nsda\n", "tcp": TCP, "drbd": "global_common.conf\nblocklab-drbd0.res\n",
        "mounts": "/dev/sda1 / ext4 rw 0 0\n/dev/sdb /mnt/blocklab-local xfs rw 0 0\n",
    }  # fmt: skip
    assert list(facts.taken(texts, 100, 1)) == [
        "/dev/md100 is there already",
        "something listens on port 7100, which would be DRBD's",
        "/mnt/blocklab-local is a mount point already",
        "/etc/drbd.d/blocklab-drbd0.res is there already",
    ]
    assert list(facts.taken({**texts, "drbd": "", "mounts": ""}, 200, 1)) == []
    # Of every layer, not of the first that were written.
    others = {"blocks": "md400 dm-600 dm-1807 dm-10800 nbd100 md401", "tcp": "", "drbd": "", "mounts": ""}
    assert [said.split()[0] for said in facts.taken(others, 100, 1)] == [
        "/dev/dm-10800", "/dev/dm-1807", "/dev/dm-600", "/dev/md400",
    ]  # fmt: skip
    assert list(facts.taken_minors("dm-700\ndm-701\n", 100, 1)) == ["/dev/dm-700 is there already"]


def test_what_a_mirror_overwrites_is_said_before(tmp_path: Path) -> None:
    study = read(DRBD_AZ)
    there = site(tmp_path)
    said = there.room(topology(study, ["drbd0"]), 1)
    assert said == ("the volumes of a mirror get zeroes before each build (3 GiB on each host): 26 s at 125 MB/s")
    assert there.room(topology(study, ["local"]), 1) == ""


WWID = "naa.600508b1001c4d41a9d2a3f7d2f5c001"
EBS = "Amazon_Elastic_Block_Store_vol01"


@pytest.mark.parametrize(
    ("one", "two", "refused"),
    [
        (("wwn-0x" + WWID[4:], WWID), ("wwn-0x" + WWID[4:], WWID), True),
        (("wwn-0x" + WWID[4:], WWID), ("scsi-3" + WWID[4:], "0x" + WWID[4:].upper()), True),
        ((f"nvme-{EBS}", "vol01"), (f"nvme-{EBS}", "vol-01"), True),
        (("virtio-" + WWID[4:], WWID), ("wwn-0x" + WWID[4:], WWID), True),
        (("wwn-0x" + WWID[4:], WWID), ("wwn-0x" + WWID[4:-1] + "2", WWID[:-1] + "2"), False),
        (("virtio-data", "data"), ("virtio-data", "data"), False),
        (("scsi-0QEMU_QEMU_HARDDISK_data", "data"), ("scsi-0QEMU_QEMU_HARDDISK_data", "data"), False),
    ],
)  # fmt: skip
def test_one_disk_is_not_two_of_two_hosts(
    tmp_path: Path, one: tuple[str, str], two: tuple[str, str], refused: bool
) -> None:
    document = plain()
    for name, (path, serial) in (("a1", one), ("a2", two)):
        document["hosts"][name]["disks"]["data"] |= {"id": f"/dev/disk/by-id/{path}", "serial": serial}
    file = written(tmp_path, document)
    if refused:
        with pytest.raises(StudyError, match=r"hosts\.a2\.disks\.data\.serial: is that of data on a1 too"):
            load(file)
    else:
        load(file)
