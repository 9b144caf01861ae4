"""The image that run-tests built: a clean file system with our files in it, and tools that work in place."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from blocklab.model.host import must
from blocklab.sites.uml import go_programs, recipe, rootfs, tools
from blocklab.sites.uml.image import Image, find, require
from blocklab.sites.uml.node import Node
from blocklab.sites.uml.site import UmlLab, UmlSite
from tests.lab.conftest import topology


@pytest.fixture(scope="module")
def image() -> Image:
    return require()


def said(*argv: str | Path) -> str:
    """What a program prints, when it ends well."""
    done = subprocess.run(argv, capture_output=True, text=True, env=rootfs.environment(), check=True)
    return done.stdout + done.stderr


def debugfs(image: Image, request: str) -> str:
    """What debugfs answers about the root file system."""
    return subprocess.run(
        ["debugfs", "-R", request, str(image.rootfs)],
        capture_output=True,
        text=True,
        env=rootfs.environment(),
        check=True,
    ).stdout


def test_the_root_is_a_clean_ext4_with_room_only_for_what_is_in_it(image: Image) -> None:
    said("e2fsck", "-fn", image.rootfs)
    header = dict(line.split(":", 1) for line in said("dumpe2fs", "-h", image.rootfs).splitlines() if ":" in line)
    assert "has_journal" not in header["Filesystem features"]
    assert int(header["Free blocks"]) < int(header["Block count"]) / 8


@pytest.mark.parametrize("name", recipe.node_files())
def test_our_files_are_in_the_root(image: Image, name: str) -> None:
    assert debugfs(image, f"cat {recipe.NODE_FOLDER}/{name}").encode() == recipe.node_files()[name]
    stat = debugfs(image, f"stat {recipe.NODE_FOLDER}/{name}")
    # Inode: 13599   Type: regular    Mode:  0755   Flags: 0x80000
    # User:     0   Group:     0   Project:     0   Size: 1061
    assert f"Mode:  {'0755' if name == 'init' else '0644'}" in stat and "User:     0   Group:     0" in stat


@pytest.mark.parametrize(("folder", "user"), [("/var/lib/postgresql", "postgres"), ("/var/lib/mysql", "mysql")])
def test_folders_of_databases_are_empty_and_their_owners_true(image: Image, folder: str, user: str) -> None:
    """No cluster was made at installation, and ids came through the build whether it ran as root or not."""
    users = dict(line.split(":")[0:3:2] for line in debugfs(image, "cat /etc/passwd").splitlines())
    stat = debugfs(image, f"stat {folder}").split()
    assert stat[stat.index("User:") + 1] == users[user] != "0"
    inside = [entry for entry in debugfs(image, f"ls -p {folder}").splitlines() if entry]
    # /13502/040755/102/105/./4096/
    assert {entry.split("/")[5] for entry in inside} <= {".", ".."}


def test_modules_are_where_modprobe_looks_and_the_kernel_is_not(image: Image) -> None:
    version = said(image.kernel, "--version").strip()
    assert f"uml/modules/{version}" in debugfs(image, f"stat /usr/lib/modules/{version}")
    assert "drbd.ko" in debugfs(image, f"ls /usr/lib/uml/modules/{version}/kernel/drivers/block/drbd")
    assert "linux.uml" not in debugfs(image, "ls /usr/bin")


def test_every_package_of_the_recipe_is_there(image: Image) -> None:
    assert set(recipe.PACKAGES) <= image.packages.keys()
    assert image.packages["mariadb-server"] and image.packages[recipe.KERNEL_PACKAGE] >= "7.2"


def test_the_tools_bring_their_own_libraries(image: Image) -> None:
    loader = image.folder / "tools" / tools.LOADER
    assert said("patchelf", "--print-interpreter", image.kernel).strip() == str(loader)
    foreign = [line for line in said(loader, "--list", image.kernel).splitlines()
               if "=>" in line and str(image.folder) not in line]  # fmt: skip
    assert foreign == []


def test_the_volume_server_needs_no_library_and_says_its_version(image: Image) -> None:
    assert b"/lib64/ld-linux" not in image.volume_server.read_bytes()
    version = said(image.volume_server, "--version").split()
    assert version == [tools.VOLUME_SERVER, image.packages[tools.VOLUME_SERVER]]
    copyright_file = f"/usr/share/doc/{tools.VOLUME_SERVER}/copyright"
    assert "Apache-2.0" in debugfs(image, f"cat {copyright_file}")


def test_the_tools_work(image: Image, tmp_path: Path) -> None:
    """The same trial as at the end of a build: serve a file, boot a kernel."""
    with (tmp_path / "log").open("w") as log:
        assert tools.verify(image.folder / "tools", image.rootfs, log) == ""


@pytest.fixture
def host(node: UmlLab) -> Node:
    return node.nodes["a1"]


def test_load_drivers_run_in_a_node(image: Image, host: Node) -> None:
    assert f"Release version: v{go_programs.GO_TPC_VERSION}" in must(host, ["go-tpc", "version"])
    assert image.packages["go-tpc"] == go_programs.GO_TPC_VERSION
    assert must(host, ["blocklab-ledger", "--version"]).split()[1] == image.packages["blocklab-ledger"]
    assert must(host, ["sysbench", "--version"]).startswith("sysbench 1.")
    assert host.run(["go", "version"]).code == 127


@pytest.mark.parametrize(
    "module", ["bonding", "dm-mod", "nbd", "raid0", "raid1", "raid10", "sch_netem", "tcp_yeah", "virtio_blk"]
)
def test_modules_for_layers_and_links_load(host: Node, module: str) -> None:
    must(host, ["modprobe", module])


def test_a_layer_may_cap_by_the_old_and_by_the_new_cgroups(host: Node) -> None:
    """blkio moves to a version 1 hierarchy as long as no group of version 2 uses it, and back."""
    must(host, ["modprobe", "loop"])
    must(host, ["truncate", "-s", "1M", "/run/disk"])
    loop = must(host, ["losetup", "--find", "--show", "/run/disk"]).strip()
    device = host.get(f"/sys/block/{loop.removeprefix('/dev/')}/dev").decode().strip()
    assert "io" in host.get("/sys/fs/cgroup/cgroup.controllers").decode().split()

    must(host, ["mkdir", "-p", "/run/blkio"])
    must(host, ["mount", "-t", "cgroup", "-o", "blkio", "blkio", "/run/blkio"])
    file = "/run/blkio/blkio.throttle.write_iops_device"
    host.put(file, f"{device} 1000\n".encode())
    assert host.get(file).decode().split() == [device, "1000"]
    host.put(file, f"{device} 0\n".encode())
    must(host, ["umount", "/run/blkio"])

    # Given back by a worker of the kernel's, some time after the unmount.
    given_back = "until grep -qw io /sys/fs/cgroup/cgroup.controllers; do sleep 0.01; done"
    must(host, ["timeout", "60", "sh", "-c", given_back])
    host.put("/sys/fs/cgroup/cgroup.subtree_control", b"+io\n")
    must(host, ["mkdir", "/sys/fs/cgroup/capped"])
    host.put("/sys/fs/cgroup/capped/io.max", f"{device} wiops=1000\n".encode())
    line = host.get("/sys/fs/cgroup/capped/io.max").decode().strip()
    assert line == f"{device} rbps=max wbps=max riops=max wiops=1000"
    must(host, ["rmdir", "/sys/fs/cgroup/capped"])
    host.put("/sys/fs/cgroup/cgroup.subtree_control", b"-io\n")
    must(host, ["losetup", "--detach", loop])


@pytest.fixture(scope="module")
def with_mysql() -> Iterator[Node]:
    """A node of an image with MySQL."""
    image = find(["mysql"])
    if image is None:
        pytest.skip("needs the image add-on mysql: `blocklab image build --with mysql`")
    lab = UmlSite(image=image).start(topology("a1"))
    try:
        yield lab.nodes["a1"]
    finally:
        lab.close()


def test_mysql_and_mariadb_stand_side_by_side(with_mysql: Node) -> None:
    mysql = recipe.MYSQL_FOLDER
    assert " 9." in must(with_mysql, [f"{mysql}/bin/mysqld", f"--defaults-file={mysql}/my.cnf", "--version"])
    assert " 9." in must(with_mysql, [f"{mysql}/bin/mysql", f"--defaults-file={mysql}/my.cnf", "--version"])
    assert "MariaDB" in must(with_mysql, ["mariadbd", "--version"])
    as_mysql = ["setpriv", "--reuid=mysql", "--regid=mysql", "--clear-groups"]
    check = [f"{mysql}/bin/mysqld", f"--defaults-file={mysql}/my.cnf", "--validate-config"]
    assert must(with_mysql, [*as_mysql, *check]) == ""
