"""Zeros written straight out of the kernel's own page of zeros reach volumes with a latency or a cap.

The third fault in shim.c. MariaDB's first write to its log is such a write.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from blocklab.model.ground import NodeSpec, Profile, Topology, VolumeSpec
from blocklab.model.host import Host, must
from blocklab.model.units import Duration, Size
from blocklab.runner.run import standing
from blocklab.sites.uml import image
from blocklab.sites.uml.site import UmlLab, UmlSite
from tests.lab.asked import ask, built_again_over_their_data, filled, study_of

MIB = 2**20
SLOW = {"read_latency": "450us", "write_latency": "450us"}
DRBD = {"layer": "drbd", "peer": "a2", "link": "zone", "protocol": "C"}

# A page that was never written to, only read at most, is the kernel's page of zeros. One write of 512 bytes, as
# InnoDB's, and one of eight such pages.
WRITE = """
import mmap, os
disk = os.open("/dev/vda", os.O_RDWR | os.O_DIRECT)
pages = mmap.mmap(-1, 32768, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
assert not any(pages[:])
print(os.pwritev(disk, [memoryview(pages)[:512]], 0x3000), os.pwritev(disk, [pages], 0x10000))
"""


@pytest.fixture(autouse=True)
def _with_a_shim() -> None:
    if image.require().shim is None:
        pytest.skip("the image was built without a C compiler")


def volumes(*profiles: Profile) -> Topology:
    specs = (VolumeSpec("slow", ("a1",), profile, number) for number, profile in enumerate(profiles))
    return Topology({"a1": NodeSpec(memory=Size("256MiB"))}, {}, tuple(specs))


def profile(**limits: Any) -> Profile:
    return Profile(size=Size("64MiB"), **limits)


LATENT = profile(read_latency=Duration("450us"), write_latency=Duration("450us"))


@pytest.fixture(params=[LATENT, profile(iops=5000)], ids=["latency", "cap"])
def lab(request: pytest.FixtureRequest) -> Iterator[UmlLab]:
    lab = UmlSite().start(volumes(request.param))
    try:
        yield lab
    finally:
        lab.close()


def marked(lab: UmlLab) -> bytes:
    """The volume's file, after each of its bytes was made to differ from zero."""
    must(lab.hosts["a1"], ["python3", "-c", 'open("/dev/vda", "r+b").write(b"x" * (1 << 21))'])
    must(lab.hosts["a1"], ["sync"])
    return stored(lab)


def stored(lab: UmlLab) -> bytes:
    """The first 2 MiB of the volume's file."""
    file = lab.volume("slow", "a1")
    assert file is not None
    with file.open("rb") as data:
        return data.read(2 * MIB)


def test_untouched_memory_is_written_as_zeros(lab: UmlLab) -> None:
    assert marked(lab) == b"x" * 2 * MIB
    assert must(lab.hosts["a1"], ["python3", "-c", WRITE], timeout=60) == "512 32768\n"
    after = bytearray(b"x" * 2 * MIB)
    after[0x3000:0x3200] = bytes(512)
    after[0x10000:0x18000] = bytes(32768)
    assert stored(lab) == after


# An array cannot pass on the order to make zeros, so the kernel sends them; ext4's inode tables are made so. The
# metadata stand at the end.
ARRAY = ["mdadm", "--create", "/dev/md0", "--run", "--assume-clean", "--bitmap=none", "--metadata=1.0", "-n2"]
ZEROOUT = ["blkdiscard", "--zeroout", "--length", str(MIB), "/dev/md0"]


def mirrored(lab: UmlLab) -> Host:
    """A node with /dev/md0, a mirror over its two volumes."""
    here = lab.hosts["a1"]
    must(here, ["modprobe", "raid1"])
    must(here, [*ARRAY, "-l1", "/dev/vda", "/dev/vdb"])
    assert must(here, ["cat", "/sys/block/md0/queue/write_zeroes_max_bytes"]) == "0\n"
    return here


def test_the_kernel_zeroes_and_formats_an_array() -> None:
    lab = UmlSite().start(volumes(LATENT, LATENT))
    try:
        assert marked(lab) == b"x" * 2 * MIB
        here = mirrored(lab)
        must(here, ZEROOUT, timeout=60)
        assert stored(lab) == bytes(MIB) + b"x" * MIB
        must(here, ["mkfs.ext4", "-q", "-E", "nodiscard,lazy_itable_init=0", "/dev/md0"], timeout=60)
        must(here, ["e2fsck", "-f", "-n", "/dev/md0"], timeout=60)
    finally:
        lab.close()


def test_without_the_shim_such_writes_fail_and_the_volume_goes_on() -> None:
    lab = UmlSite(image=msgspec.structs.replace(image.require(), shim=None)).start(volumes(LATENT))
    try:
        assert marked(lab) == b"x" * 2 * MIB
        failed = lab.hosts["a1"].run(["python3", "-c", WRITE], timeout=60)
        assert failed.code == 1 and "Input/output error" in failed.said
        assert "outside of the node's memory" in (lab.folder / "a1-slow-0.volume.log").read_text()
        # Neither zeroes nor anything else was stored, and what comes next is.
        assert stored(lab) == b"x" * 2 * MIB
        must(lab.hosts["a1"], ["python3", "-c", 'open("/dev/vda", "r+b").write(b"y" * 4096)'])
        must(lab.hosts["a1"], ["sync"])
        assert stored(lab)[:8192] == b"y" * 4096 + b"x" * 4096
    finally:
        lab.close()


@pytest.mark.parametrize("drbd", [False, pytest.param(True, marks=pytest.mark.long)], ids=["alone", "drbd"])
def test_mariadb_works_on_a_slow_volume(small: dict[str, Any], drbd: bool) -> None:
    below: list[dict[str, Any]] = [
        {"layer": "volume", "size": "512MiB", "iops": 20000, **SLOW},
        *([DRBD] if drbd else []),
    ]
    layers = [*below, {"layer": "ext4"}, {"layer": "mariadb", "settings": {"innodb_log_file_size": "16M"}}]
    study = study_of(small, {"maria": layers})
    with standing(UmlSite(), study, ["maria"]) as stand:
        filled(stand, "maria")
        where = stand.ports["maria"][-1].where
        assert ask(stand.lab.hosts["a1"], where, "SELECT sum(i) FROM t") == "3"
        if not drbd:
            built_again_over_their_data(stand, study, ["maria"])
