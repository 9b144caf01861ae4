"""Which disks of a host may be used: the decisions, and the parsers of what hosts print. Reading is tried in the
lab."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocklab.model import node_programs
from blocklab_node import claims, disk_users, disks
from blocklab_node.disks import Asked, Facts

SIZE = 64 * disks.MIB
ID = "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0a1b"
ASKED = Asked(ID, "vol0a1b", SIZE, 62 * disks.MIB)
CLEAN = Facts(
    "/dev/nvme1n1", "nvme1n1", SIZE, "disk", ids=[ID], serials=["vol0a1b", "nvme.1d0f-766f6c"],
    others={"nvme0n1": ["vol0c2d"]}, numbers={"nvme1n1": "259:1"}, first=bytes(8192), last=bytes(8192), zero=True,
)  # fmt: skip


def stamp(serial: str = "vol0a1b", size: int = SIZE) -> bytes:
    return claims.stamp_text(serial, size) + bytes(4096)


def with_bytes(at: int, data: bytes) -> bytes:
    return bytes(at) + data + bytes(8192 - at - len(data))


# Each by itself: what was found, and the one reason that is said of it.
REASONS: list[tuple[dict[str, Any], str]] = [
    ({"serials": []}, "has no serial number"),
    ({"others": {"sdc": ["x", "vol0a1b"]}}, "has the same serial as sdc"),
    ({"size": SIZE * 2}, f"has {SIZE * 2} bytes, not {SIZE}"),
    ({"read_only": True}, "is read-only"),
    ({"kind": "rom"}, "is no disk, but a rom"),
    ({"signatures": ["PMBR", "gpt"]}, "has a partition table (gpt)"),
    ({"signatures": ["dos"], "first": with_bytes(510, b"\x55\xaa")}, "has a partition table (dos)"),
    ({"first": with_bytes(510, b"\x55\xaa")}, "has a partition table (dos)"),
    ({"first": with_bytes(512, b"EFI PART")}, "has a partition table (gpt)"),
    ({"first": with_bytes(4096, b"EFI PART")}, "has a partition table (gpt)"),
    ({"last": with_bytes(7680, b"EFI PART")}, "has a partition table (gpt)"),
    ({"numbers": {"nvme1n1": "259:1", "nvme1n1p1": "259:2"}, "types": {"nvme1n1p1": "xfs"}},
     "has partitions: nvme1n1p1 (xfs)"),
    ({"holders": {"dm-3": "vg-data"}, "busy": True}, "is held by dm-3 (vg-data)"),
    ({"holders": {"dm-600": "blocklab-600-77"}}, "is held by dm-600 (blocklab-600-77): end blocklab's run there"),
    ({"holders": {"md127": ""}, "arrays": ["md127"]}, "is held by md127: take md127 down"),
    ({"mounts": ["/srv/a b"], "busy": True}, "is mounted at /srv/a b: umount"),
    ({"swaps": ["nvme1n1"], "busy": True}, "is swap in use (nvme1n1): swapoff"),
    ({"arrays": ["md1"]}, "is in the MD array md1"),
    ({"writers": ["qemu-kvm (process 7)"]}, "is open for writing in qemu-kvm (process 7)"),
    ({"exports": [["is used by the loop device loop3 (/dev/nvme1n1)", "losetup --detach /dev/loop3"]]},
     "is used by the loop device loop3 (/dev/nvme1n1): losetup --detach /dev/loop3"),
    ({"signatures": ["LVM2_member"]}, "is an LVM physical volume"),
    ({"signatures": ["linux_raid_member"]}, "is a member of an MD array"),
    ({"signatures": ["zfs_member"]}, "belongs to a ZFS pool"),
    ({"signatures": ["crypto_LUKS"]}, "is encrypted by LUKS"),
    ({"signatures": ["swap"]}, "is formatted as swap"),
    ({"signatures": ["ext4"], "types": {"nvme1n1": "ext4"}}, "has the signature of ext4"),
    ({"types": {"nvme1n1": "btrfs"}}, "has the signature of btrfs"),
    ({"signatures": ["drbd"], "last": with_bytes(4096 + 60, b"\x83\x74\x02\x6b")}, "has DRBD metadata"),
    ({"last": with_bytes(4096 + 60, b"\x83\x74\x02\x6c")}, "has DRBD metadata"),
    ({"last": with_bytes(60, b"\x83\x74\x02\x6d")}, "has DRBD metadata"),
    ({"first": with_bytes(60, b"\x83\x74\x02\x6d")}, "has DRBD metadata"),
    ({"busy": True, "zero": None}, "is in use, for it cannot be opened exclusively"),
    ({"zero": False}, "is not zero: if nobody needs its data: blocklab disks claim"),
    ({"first": stamp(), "zero": False}, "was written to since it was claimed"),
    ({"first": stamp("vol0c2d"), "zero": None}, "has the stamp of another disk (serial vol0c2d"),
    ({"first": stamp(size=SIZE - 512), "zero": None}, f"another disk (serial vol0a1b, {SIZE - 512} bytes)"),
    ({"first": stamp()[:200].ljust(8192, b"\0"), "zero": None}, "has a damaged stamp"),
    ({"unknown": ["lsblk is missing on this host"]}, "lsblk is missing"),
]  # fmt: skip


def test_a_blank_disk_may_be_used_and_one_with_its_own_stamp() -> None:
    assert disks.reasons(CLEAN, ASKED) == []
    assert disks.reasons(CLEAN._replace(first=stamp(), zero=None), ASKED) == []
    assert disks.reasons(CLEAN, ASKED._replace(serial="nvme.1d0f-766f6c")) == []
    assert disks.uses(CLEAN) == []


@pytest.mark.parametrize(("changes", "said"), REASONS, ids=lambda value: value if isinstance(value, str) else "")
def test_each_thing_is_one_reason(changes: dict[str, Any], said: str) -> None:
    (reason,) = disks.reasons(CLEAN._replace(**changes), ASKED)
    assert reason.startswith("/dev/nvme1n1") and said in reason
    # A stamp of its own excuses nothing but what is not zero.
    if "first" not in changes and "zero" not in changes:
        changed = CLEAN._replace(**changes, first=stamp(), zero=None)
        assert reason in disks.reasons(changed, ASKED)


def test_claiming_excuses_what_is_not_zero_and_nothing_else() -> None:
    for changes, _ in REASONS:
        facts = CLEAN._replace(**changes)
        assert bool(disks.reasons(facts, ASKED, claim=True)) == (changes.get("zero") is not False)


@given(st.lists(st.integers(0, len(REASONS) - 1), min_size=1, max_size=5), st.booleans())
def test_no_thing_hides_another_one(numbers: list[int], stamped: bool) -> None:
    found = [REASONS[number] for number in numbers]
    changes: dict[str, Any] = {"first": stamp(), "zero": None} if stamped else {}
    for each, _ in found:
        changes |= each
    facts = CLEAN._replace(**changes)
    said = "\n".join(disks.reasons(facts, ASKED))
    for each, reason in found:
        # Not overwritten by a later one; and two are only said where nothing else says more.
        if {name: changes[name] for name in each} == each and not {"zero", "busy"} & set(each) and facts.serials:
            assert reason in said
    assert said


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"serial": "vol0zz"}, "has the serial vol0a1b, not 'vol0zz': correct the hosts file"),
        ({"id": "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0c2d"}, "vol0c2d names another"),
        ({"size": SIZE - 1}, f"has {SIZE} bytes, not {SIZE - 1}"),
        ({"need": 62 * disks.MIB + 4096}, "2 MiB more are needed"),
        ({"need": 4096 + 512}, "cannot give 4608 bytes"),
    ],
)
def test_a_disk_that_is_not_the_one_that_was_asked_for(asked: dict[str, Any], said: str) -> None:
    (reason,) = disks.reasons(CLEAN, ASKED._replace(**asked))
    assert said in reason


def test_a_held_disk_is_held_by_one_map_alone() -> None:
    held = CLEAN._replace(first=stamp(), busy=True, zero=None)
    mine, other = {"dm-600": "blocklab-600-7"}, {"dm-3": "x"}
    assert disks.reasons(held._replace(holders=mine), ASKED, held="dm-600") == []
    assert disks.reasons(held._replace(holders=mine), ASKED, held="dm-601")
    assert disks.reasons(held._replace(holders={**mine, **other}), ASKED, held="dm-600")
    assert disks.reasons(held, ASKED, held="dm-600")


@pytest.mark.parametrize(
    ("name", "serial", "same"),
    [
        ("nvme-Amazon_Elastic_Block_Store_vol0a1b", "vol0a1b", True),
        ("scsi-0QEMU_QEMU_HARDDISK_drive-scsi1", "drive-scsi1", True),
        ("wwn-0x600508b1001c5e1f", "naa.600508b1001c5e1f", True),
        ("scsi-3600508b1001c5e1f", "naa.600508b1001c5e1f", True),
        ("nvme-eui.0025385b71b0a1c2", "eui.0025385b71b0a1c2", True),
        ("ata-Samsung_SSD_860_S3Z9NB0K123456A", "S3Z9NB0K123456A", True),
        ("virtio-blocklab-a1-0", "blocklab-a1-0", True),
        ("lvm-pv-uuid-0a1b", "vol0a1b", False),
        ("md-uuid-c0ffee", "S3Z9NB0K123456A", False),
        ("anything", "--", False),
    ],
)
def test_the_name_of_an_id_holds_the_serial_in_udevs_spelling(name: str, serial: str, same: bool) -> None:
    assert disks.named_by(disks.BY_ID + name, [serial]) is same


# -- what hosts print --------------------------------------------------------------------------------------------

# What util-linux 2.41 printed on nodes, some rows left out. Without the column NAME there is no tree.
LSBLK = """{
   "blockdevices": [
      {
         "kname": "sda",
         "type": "disk",
         "serial": "2000",
         "model": "scsi_debug",
         "fstype": null
      },{
         "kname": "ubda",
         "type": "disk",
         "serial": null,
         "model": null,
         "fstype": "ext4"
      },{
         "kname": "ubdb",
         "type": "disk",
         "serial": "S0000",
         "model": null,
         "fstype": null
      },{
         "kname": "ubdb1",
         "type": "part",
         "serial": null,
         "model": null,
         "fstype": null
      },{
         "kname": "dm-0",
         "type": "lvm",
         "serial": null,
         "model": null,
         "fstype": null
      }
   ]
}
"""
# Made by hand after what 2.32 (RHEL 8) prints: a row in a line, numbers as texts, and the tree that its -J has.
LSBLK_8 = """{
   "blockdevices": [
      {"kname": "nvme0n1", "type": "disk", "serial": "vol0a1b", "model": "Amazon Elastic Block Store              ", "fstype": null,
         "children": [
            {"kname": "nvme0n1p1", "type": "part", "serial": null, "model": null, "fstype": "xfs"}
         ]
      },
      {"kname": "nvme1n1", "type": "disk", "serial": "vol0c2d", "model": "Amazon Elastic Block Store              ", "fstype": null}
   ]
}
"""  # noqa: E501


def test_lsblk() -> None:
    found = disks.parse_lsblk(LSBLK)
    assert found["sda"] == {
        "kname": "sda", "type": "disk", "serial": "2000", "model": "scsi_debug", "fstype": "",
    }  # fmt: skip
    assert {name: row["type"] for name, row in found.items()} == {
        "sda": "disk", "ubda": "disk", "ubdb": "disk", "ubdb1": "part", "dm-0": "lvm",
    }  # fmt: skip
    old = disks.parse_lsblk(LSBLK_8)
    assert old["nvme1n1"]["serial"] == "vol0c2d" and old["nvme0n1p1"]["fstype"] == "xfs"


@pytest.mark.parametrize(
    "text",
    [
        "", "lsblk: unknown column: SERIAL", "[]", "{}", "null", '{"blockdevices": null}', '{"blockdevices": [3]}',
        '{"blockdevices": [{"name": "sda"}]}', LSBLK.replace('"kname"', '"name"'),
        LSBLK.replace('"ext4"', "7"), LSBLK.replace("fstype", "FSTYPE"), LSBLK[:200],
    ],
)  # fmt: skip
def test_lsblk_that_is_not_understood_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        disks.parse_lsblk(text)


# util-linux 2.41, of a GPT
WIPEFS = """{
   "signatures": [
      {
         "device": "ubdb",
         "offset": "0x200",
         "type": "gpt",
         "uuid": null,
         "label": null
      },{
         "device": "ubdb",
         "offset": "0x3fffe00",
         "type": "gpt",
         "uuid": null,
         "label": null
      },{
         "device": "ubdb",
         "offset": "0x1fe",
         "type": "PMBR",
         "uuid": null,
         "label": null
      }
   ]
}
"""
# Made by hand: a row in a line, as 2.32 (RHEL 8) prints it.
WIPEFS_8 = """{
   "signatures": [
      {"device": "sdb", "offset": "0x438", "type": "ext4", "uuid": "c389184c-3cae-4efe-a3fc-b24c89777ca1", "label": null}
   ]
}
"""  # noqa: E501
NOTHING = '{\n   "signatures": [\n\n   ]\n}\n'


def test_wipefs() -> None:
    assert disks.parse_wipefs(WIPEFS) == ["PMBR", "gpt"]
    assert disks.parse_wipefs(WIPEFS_8) == ["ext4"]
    assert disks.parse_wipefs(NOTHING) == disks.parse_wipefs("") == []


@pytest.mark.parametrize(
    "text",
    [
        "offset  type", "[]", "{}", "null", '{"signatures": null}', '{"signatures": ["ext4"]}',
        WIPEFS_8.replace('"type"', '"TYPE"'), WIPEFS_8.replace('"ext4"', "null"), WIPEFS[:100],
    ],
)  # fmt: skip
def test_wipefs_that_is_not_understood_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        disks.parse_wipefs(text)


SOME_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["blockdevices", "signatures", "kname", "type", "serial", "model", "fstype", "children"]),
        inner, max_size=6,
    ),
)  # fmt: skip


@given(SOME_JSON.map(json.dumps) | st.text())
def test_whatever_they_print_is_read_or_an_error(text: str) -> None:
    for parse in (disks.parse_lsblk, disks.parse_wipefs):
        with contextlib.suppress(ValueError):
            parse(text)


MOUNTINFO = r"""22 1 259:2 / / rw,relatime shared:1 - xfs /dev/nvme0n1p1 rw,attr2
36 22 8:17 / /srv/my\040data rw,noatime shared:29 - ext4 /dev/sdb1 rw
37 22 0:45 /@home /home rw,relatime shared:30 - btrfs /dev/sdc rw,space_cache
38 36 8:17 /sub /srv/again rw,noatime master:29 - ext4 /dev/sdb1 rw
39 22 0:22 / /sys rw - sysfs sysfs rw
"""


def test_mounts_are_found_by_number_and_those_of_btrfs_by_name() -> None:
    assert disk_users.mounts_of(MOUNTINFO, {"sdb": "8:16", "sdb1": "8:17"}) == ["/srv/my data", "/srv/again"]
    assert disk_users.mounts_of(MOUNTINFO, {"sdc": "8:32"}) == ["/home"]
    assert disk_users.mounts_of(MOUNTINFO, {"sdd": "8:48"}) == disk_users.mounts_of("", {"sdb": "8:16"}) == []


SWAPS = r"""Filename				Type		Size		Used		Priority
/dev/sdb2                               partition	1048572		0		-2
/my\040swap                             file		4096		0		-3
"""
MDSTAT = """Personalities : [raid1]
md127 : active raid1 sdc[1] sdb1[0](F)
      64512 blocks super 1.2 [2/2] [UU]

md1 : inactive sdd[0](S)
      64512 blocks

unused devices: <none>
"""


def test_swaps_and_arrays() -> None:
    assert disk_users.swaps_of(SWAPS, ["sdb", "sdb2"]) == ["sdb2"] and disk_users.swaps_of(SWAPS, ["sdc"]) == []
    assert disk_users.arrays_of(MDSTAT, ["sdb", "sdb1"]) == ["md127"] and disk_users.arrays_of(
        MDSTAT, ["sdd"]
    ) == ["md1"]
    assert disk_users.arrays_of(MDSTAT, ["sdb"]) == disk_users.arrays_of("", ["sdb"]) == []


def test_device_mapper() -> None:
    text = "600|dm-600|blocklab-600-3f0c\n0|vg-data|LVM-xyz\n1|held|\n"
    assert claims.parse_maps(text) == {
        600: ("dm-600", "blocklab-600-3f0c"),
        0: ("vg-data", "LVM-xyz"),
        1: ("held", ""),
    }
    assert claims.parse_maps("No devices found\n") == {}
    with pytest.raises(ValueError, match=r"."):
        claims.parse_maps("something else\n")


# -- the stamp ---------------------------------------------------------------------------------------------------


def test_a_stamp_is_read_as_it_was_written_and_no_two_are_alike() -> None:
    one, two = (disks.stamped(stamp("S 1", 10**12)) for _ in range(2))
    assert one and two and one.id != two.id and (one.serial, one.size) == ("S 1", 10**12)
    assert one.claimed.endswith("Z") and disks.stamped(bytes(8192)) is None
    # A crash leaves a sector whole or not written.
    assert not any(stamp()[disks.SECTOR :])
    with pytest.raises(claims.Refused, match="too long"):
        claims.stamp_text("x" * 400, SIZE)


WRITTEN = stamp()
LENGTH = len(WRITTEN.rstrip(b"\0"))


@given(st.integers(0, LENGTH - 1), st.integers(1, 255))
def test_a_stamp_with_a_changed_byte_is_never_taken_for_a_stamp(at: int, change: int) -> None:
    data = bytearray(WRITTEN)
    data[at] ^= change
    with contextlib.suppress(ValueError):
        assert disks.stamped(bytes(data)) is None


def test_a_stamp_of_another_version_is_no_stamp() -> None:
    text = json.dumps({"id": "x", "who": "y"}).encode()
    digest = hashlib.sha256(text).hexdigest().encode()
    with pytest.raises(ValueError, match="another version"):
        disks.stamped(disks.MAGIC + text + b"\n" + digest + b"\n")


@given(st.integers(0, 2047), st.sampled_from(disks.DRBD))
def test_drbds_magic_is_found_wherever_it_stands(word: int, magic: int) -> None:
    assert disks.drbd_metadata(with_bytes(4 * word, struct.pack(">I", magic)))
    assert not disks.drbd_metadata(with_bytes(4 * word, struct.pack(">I", magic + 3)))


# -- the programs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["disks", "disk_users", "claims"])
def test_they_are_of_python_3_9(name: str) -> None:
    ast.parse(node_programs.text(name), feature_version=(3, 9))


WRITES = {
    "write", "pwrite", "pwritev", "sendfile", "truncate", "ftruncate", "unlink", "remove", "O_RDWR", "O_WRONLY",
}  # fmt: skip


@pytest.mark.parametrize("name", ["disks", "disk_users"])
def test_the_programs_that_decide_open_nothing_for_writing(name: str) -> None:
    tree = ast.parse(node_programs.text(name))
    names = {each.attr for each in ast.walk(tree) if isinstance(each, ast.Attribute)}
    assert not names & WRITES
    # The one order to a device is a question.
    orders = [each for each in ast.walk(tree) if isinstance(each, ast.Call) and "ioctl" in ast.unparse(each.func)]
    assert [ast.unparse(each.args[1]) for each in orders] == ["LOOP_GET_STATUS64"] * (name == "disk_users")
    opens = [each for each in ast.walk(tree) if isinstance(each, ast.Call) and ast.unparse(each.func) == "open"]
    assert [ast.unparse(each.args[1]) for each in opens] == ["'rb'"]
