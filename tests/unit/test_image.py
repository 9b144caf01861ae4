"""The recipe's keys, the shell texts, and what is made of the messages of mmdebstrap and apt (all real ones)."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pytest

from blocklab.errors import ImageError, StudyError
from blocklab.sites.uml import go_programs, image, kernel_program, modules, recipe, rootfs, tools, volume_program
from blocklab.sites.uml import sources as texts
from blocklab.sites.uml.processes import group_lives

# mmdebstrap 1.3.5 with apt 2.6; the mirror's name is changed.
EXPIRED = """\
I: running apt-get update...
Get:4 http://mirror.example/debian unstable InRelease [193 kB]
Reading package lists...
E: Release file for http://mirror.example/debian/dists/unstable/InRelease is expired (invalid since 14d 19h 40min 16s). Updates for this repository will not be applied.
E: apt-get update --error-on=any -oAPT::Status-Fd=<$fd> -oDpkg::Use-Pty=false failed
I: main() received signal PIPE: waiting for setup...
E: mmdebstrap failed to run
"""  # noqa: E501

REFUSED = """\
Ign:1 http://127.0.0.1:9/debian trixie InRelease
Err:1 http://127.0.0.1:9/debian trixie InRelease
  Could not connect to 127.0.0.1:9 (127.0.0.1). - connect (111: Connection refused)
Reading package lists...
E: Failed to fetch http://127.0.0.1:9/debian/dists/trixie/InRelease  Could not connect to 127.0.0.1:9 (127.0.0.1). - connect (111: Connection refused)
E: Some index files failed to download. They have been ignored, or old ones used instead.
E: mmdebstrap failed to run
"""  # noqa: E501

FAILURES = [
    (REFUSED, "mirror cannot be reached", "E: Failed to fetch http://127.0.0.1:9/"),
    (
        "Err:1 http://nosuchhost.invalid/debian trixie InRelease\n  Could not resolve 'nosuchhost.invalid'\n",
        "mirror cannot be reached",
        "Could not resolve 'nosuchhost.invalid'",
    ),
    (
        "E: You don't have enough free space in /tmp/t3/var/cache/apt/archives/.\nE: mmdebstrap failed to run\n",
        "no room left",
        "/tmp/t3/var/cache",
    ),
    (
        " cannot copy extracted data for './usr/bin/python3.13' to '/usr/bin/python3.13.dpkg-new': "
        "failed to write (No space left on device)\n",
        "no room left",
        "python3.13",
    ),
    (
        "W: no entry in /etc/subuid for nosub\nE: failed to parse /etc/subuid and /etc/subgid\n",
        "user namespaces",
        "failed to parse /etc/subuid",
    ),
    (
        'go: github.com/x/y@v1.0.0: Get "http://127.0.0.1:9/github.com/x/y/@v/v1.0.0.mod": '
        "dial tcp 127.0.0.1:9: connect: connection refused\nE: setup failed: E: command failed\n",
        "Go module proxy cannot be reached",
        "127.0.0.1:9: connect",
    ),
    (
        'go: github.com/x/y@v1.0.0: Get "https://no.invalid/github.com/x/y/@v/v1.0.0.mod": '
        "dial tcp: lookup no.invalid on 10.255.255.53:53: no such host\n",
        "Go module proxy cannot be reached",
        "no such host",
    ),
    (
        'go: github.com/x/y@v1.0.0: Get "https://proxy.example/github.com/x/y/@v/v1.0.0.mod": '
        "tls: failed to verify certificate: x509: certificate signed by unknown authority\n",
        "certificate of the Go module proxy",
        "x509",
    ),
    ("E: cannot find newuidmap\n", "user namespaces", "newuidmap"),
    ("E: unshare syscall failed: Operation not permitted\n", "user namespaces", "not permitted"),
]


@pytest.mark.parametrize(("output", "meaning", "shown"), FAILURES)
def test_a_known_failure_is_named_with_its_line_and_a_cure(output: str, meaning: str, shown: str) -> None:
    error = rootfs.ProgramFailed(["mmdebstrap", "trixie"], 25, output, "/x/build.log")
    assert meaning in error.message and shown in error.message
    assert error.hint and "/x/build.log" not in error.hint


def test_an_unknown_failure_shows_the_output_and_the_log() -> None:
    error = rootfs.ProgramFailed(["/usr/bin/mmdebstrap"], 3, "E: something new\n", "/x/build.log")
    assert "mmdebstrap ended with exit code 3" in error.message and "something new" in error.message
    assert "/x/build.log" in error.hint


def test_an_expired_source_is_named_with_its_date() -> None:
    now = datetime.datetime(2026, 11, 21, 3, 50, tzinfo=datetime.UTC)
    assert rootfs.stale_suites(EXPIRED, now) == {
        "unstable": "http://mirror.example/debian/dists/unstable/InRelease was valid until 2026-11-06 only"
    }
    assert rootfs.stale_suites(REFUSED, now) == {}


def bootstrap_with(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    outputs: list[str | None],
    part: recipe.Part | None = None,
) -> tuple[list[list[str]], list[str]]:
    """Bootstrap with a mmdebstrap that prints these in turn (None: success); its argvs, and what was said."""
    argvs: list[list[str]] = []
    said: list[str] = []

    def run(argv: list[str], *_: object, **__: object) -> str:
        argvs.append(argv)
        output = outputs[len(argvs) - 1]
        if output is not None:
            raise rootfs.ProgramFailed(argv, 25, output, "log")
        return ""

    monkeypatch.setattr(rootfs, "run", run)
    rootfs._bootstrap(tmp_path / "tree", io.StringIO(), said.append, part)
    return argvs, said


@pytest.mark.parametrize("part", [None, recipe.MYSQL])
def test_a_stale_source_is_tried_again_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, part: recipe.Part | None
) -> None:
    argvs, said = bootstrap_with(monkeypatch, tmp_path, [EXPIRED, None], part)
    calls = [[line for arg in argv for line in arg.splitlines() if line.startswith("stale ")] for argv in argvs]
    assert calls == [[], ["stale unstable"]]
    assert len(said) == 1 and said[0].startswith("warning: http://mirror.example/debian/dists/unstable/")


def test_a_source_that_stays_stale_ends_the_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="is expired"):
        bootstrap_with(monkeypatch, tmp_path, [EXPIRED, EXPIRED])


@pytest.mark.parametrize("option", ["", '[signed-by="/usr/share/keyrings/debian-archive-keyring.gpg"] '])
def test_the_hook_derives_the_kernels_source(tmp_path: Path, option: str) -> None:
    sources = tmp_path / "etc/apt/sources.list"
    sources.parent.mkdir(parents=True)
    own = f"deb {option}http://mirror.example/debian trixie main\n"
    more = f"deb {option}http://security.example/debian-security trixie-security main\n"
    sources.write_text(own + more)
    subprocess.run(["sh", "-c", recipe.setup_hook(["unstable"]), "exec", str(tmp_path)], check=True)
    flag = f"{option[:-2]} check-valid-until=no] " if option else "[check-valid-until=no] "
    assert sources.read_text() == f"{own}{more}deb {flag}http://mirror.example/debian unstable main\n"
    assert (tmp_path / "etc/apt/preferences.d/blocklab").read_text() == recipe.apt_pin(recipe.KERNEL_PACKAGE)


@pytest.mark.parametrize("option", ["", '[signed-by="/usr/share/keyrings/debian-archive-keyring.gpg"] '])
def test_the_hook_of_a_part_marks_its_own_source(tmp_path: Path, option: str) -> None:
    sources = tmp_path / "etc/apt/sources.list"
    sources.parent.mkdir(parents=True)
    sources.write_text(f"deb {option}http://mirror.example/debian unstable main\n")
    subprocess.run(["sh", "-c", recipe.setup_hook(["unstable"], recipe.MYSQL), "exec", str(tmp_path)], check=True)
    flag = f"{option[:-2]} check-valid-until=no] " if option else "[check-valid-until=no] "
    assert sources.read_text() == f"deb {flag}http://mirror.example/debian unstable main\n"
    assert (tmp_path / "lib64").readlink() == Path("usr/lib64") and (tmp_path / "proc").is_dir()


@pytest.mark.parametrize("part", recipe.parts(recipe.ADDONS), ids=lambda part: part.name)
def test_a_part_is_extracted_and_its_script_is_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, part: recipe.Part
) -> None:
    argvs, _ = bootstrap_with(monkeypatch, tmp_path, [None], part)
    assert {"--variant=extract", f"--include={','.join(part.packages)}", part.suite} <= set(argvs[0])
    (hook,) = (Path(each.partition("=")[2]) for each in argvs[0] if each.startswith("--extract-hook="))
    # A file: one word of a command line has 128 KiB at most.
    assert hook.read_text() == f"#!/bin/sh\n{part.script}" and os.access(hook, os.X_OK)
    subprocess.run(["sh", "-n", str(hook)], check=True)


def test_the_script_of_the_programs_in_go_builds_the_recorded_versions(tmp_path: Path) -> None:
    """With a chroot that notes its arguments, and makes the files that Go would make."""
    fake = tmp_path / "bin/chroot"
    fake.parent.mkdir()
    fake.write_text("""#!/bin/sh
echo "$GOPROXY $GOTOOLCHAIN $SSL_CERT_FILE $*" >> "$1/../calls"
touch "$1/build/module/go-tpc" "$1/build/ledger/blocklab-ledger"
tpc="$1/build/path/pkg/mod/github.com/pingcap/go-tpc@v1.0.12/cmd/go-tpc"
mkdir -p "$tpc" && touch "$tpc/main.go"
""")
    fake.chmod(0o755)
    root = tmp_path / "root"
    root.mkdir()
    own = tmp_path / "own.crt"
    own.write_text("certificates")
    given = {
        "PATH": f"{fake.parent}:{os.environ['PATH']}",
        "GOPROXY": "http://proxy.example",
        "SSL_CERT_FILE": str(own),
    }
    subprocess.run(["sh", "-c", recipe.GO.script, "exec", str(root)], check=True, env=os.environ | given)
    calls = (tmp_path / "calls").read_text().splitlines()
    start = f"http://proxy.example local /build/ca.crt {root} /usr/lib/go/bin/go -C /build/"
    assert all(call.startswith(start) for call in calls)
    assert calls[0].endswith("-C /build/module mod download github.com/pingcap/go-tpc")
    assert calls[1].endswith("mod edit -replace github.com/pingcap/go-tpc=../go-tpc")
    added = (root / "build/go-tpc/cmd/go-tpc/password.go").read_text()
    assert "BLOCKLAB_PASSWORD_FILE" in added and (root / "build/go-tpc/cmd/go-tpc/main.go").exists()
    assert "-C /build/module build -mod=readonly" in calls[2] and "-X main.version=v1.0.12" in calls[2]
    assert calls[2].endswith("github.com/pingcap/go-tpc/cmd/go-tpc")
    for name, text in go_programs.go_tpc_sources().items():
        assert (root / "build/module" / name).read_text() == text
    assert (root / "build/ca.crt").read_text() == "certificates"
    sources = go_programs.ledger_sources()
    assert {"go.mod", "go.sum", "main.go"} <= set(sources)
    assert {name: (root / "build/ledger" / name).read_text() for name in sources} == sources
    version = texts.version(sources)
    assert "-C /build/ledger build -mod=readonly" in calls[3] and f"-X main.version={version}" in calls[3]
    assert (root / ".out/packages").read_text() == f"go-tpc 1.0.12\nblocklab-ledger {version}\n"
    for name in ("go-tpc", "blocklab-ledger"):
        assert (root / f".out/tree/usr/bin/{name}").stat().st_mode & 0o777 == 0o755


def test_the_writer_s_sources_decide_its_version_and_the_part_s_key(tmp_path: Path) -> None:
    sources = go_programs.ledger_sources()
    other = {**sources, "main.go": sources["main.go"] + "// another line\n"}
    assert texts.version(sources) != texts.version(other)
    part = recipe.GO._replace(script=go_programs.script("", other))
    assert recipe.part_key(part) != recipe.part_key(recipe.GO._replace(script=go_programs.script("", sources)))
    # One word of a command line takes no more.
    assert len(recipe.GO.script.encode()) < 2**17
    for text in ("END_OF_FILE_OF_BLOCKLAB\n", "no line end"):
        with pytest.raises(ValueError, match="a source has"):
            go_programs.script("", {"x.go": text})
    (tmp_path / "a_test.go").write_text("package main\n")
    assert go_programs.ledger_sources(tmp_path) == {}


def test_the_volume_server_s_sources_decide_its_part_s_key(tmp_path: Path) -> None:
    found = volume_program.sources()
    assert "main.rs" in found and not any(name.endswith("_tests.rs") for name in found)
    other = {**found, "main.rs": found["main.rs"] + "// another line\n"}
    part = recipe.VOLUME._replace(script=volume_program.script(recipe.PART_SCRIPT, other))
    assert recipe.part_key(part) != recipe.part_key(recipe.VOLUME)
    assert f"{volume_program.NAME} {texts.version(found)}" in recipe.VOLUME.script


def test_only_the_kernel_s_source_comes_from_where_the_kernel_does() -> None:
    hook = recipe.setup_hook((), recipe.VIRTUAL)
    assert recipe.apt_pin(*recipe.VIRTUAL.newer) in hook and "unstable main" in hook
    assert "unstable" not in recipe.setup_hook((), recipe.VOLUME)


def test_the_virtual_kernel_s_patches_are_ours_and_decide_its_part_s_key() -> None:
    found = kernel_program.patches()
    assert list(found) == ["cpu.patch", "host-cpu.patch", "random-seed.patch"]
    assert all(text.startswith("SPDX-License-Identifier: GPL-2.0\n") for text in found.values())
    assert all(text in recipe.VIRTUAL.script for text in found.values())


def test_the_hook_takes_only_names_of_suites() -> None:
    with pytest.raises(ValueError, match="not the name"):
        recipe.setup_hook(["unstable; rm -rf /"])


def test_the_key_is_stable_and_short() -> None:
    assert recipe.recipe_key() == recipe.recipe_key()
    assert len(recipe.recipe_key()) == len(recipe.base_key()) == 16
    assert recipe.recipe_key() != recipe.base_key()


def change_shim(folder: Path) -> dict[str, object]:
    (folder / "shim.c").write_text("int other;\n")
    return {"SHIM_SOURCE": folder / "shim.c"}


INGREDIENTS: dict[str, Callable[[Path], dict[str, object]]] = {
    "packages": lambda _: {"PACKAGES": (*recipe.PACKAGES, "hello")},
    "suite": lambda _: {"SUITE": "forky"},
    "layout": lambda _: {"LAYOUT": recipe.LAYOUT + 1},
    "dpkg options": lambda _: {"DPKG_OPTIONS": ()},
    "hook": lambda _: {"SETUP_HOOK": recipe.SETUP_HOOK + "true\n"},
    "finish": lambda _: {"FINISH": recipe.FINISH + "true\n"},
    "parts": lambda _: {"PARTS": ()},
    "shim": change_shim,
    "node files": lambda _: {"node_files": lambda: {"init": b"#!/bin/sh\n"}},
}


@pytest.mark.parametrize("name", INGREDIENTS)
def test_each_ingredient_changes_the_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    before = recipe.recipe_key(), recipe.base_key()
    for attribute, value in INGREDIENTS[name](tmp_path).items():
        monkeypatch.setattr(recipe, attribute, value)
    assert recipe.recipe_key() != before[0]
    # The base takes a minute: what does not go into it must not have it built again.
    assert (recipe.base_key() != before[1]) == (name not in ("parts", "shim", "node files"))


def test_each_set_of_addons_has_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    other = recipe.GO._replace(name="other")
    monkeypatch.setattr(recipe, "ADDONS", {"mysql": recipe.MYSQL, "other": other})
    sets: list[tuple[str, ...]] = [(), ("mysql",), ("other",), ("mysql", "other")]
    keys = [recipe.recipe_key(addons) for addons in sets]
    assert len(set(keys)) == 4 and recipe.recipe_key(("other", "mysql", "mysql")) == keys[3]
    assert recipe.recipe_keys() == keys
    assert recipe.recipe_keys(["other"]) == [keys[2], keys[3]]
    assert recipe.recipe_keys(["mysql", "other"]) == [keys[3]]


@pytest.mark.parametrize(
    ("change", "changes"),
    [
        ({"suite": "forky"}, True),
        ({"packages": ("hello",)}, True),
        ({"script": "true"}, True),
        ({"about": "something else"}, False),
    ],
)
def test_the_key_of_a_part_follows_from_what_goes_into_it(change: dict[str, Any], changes: bool) -> None:
    assert (recipe.part_key(recipe.MYSQL._replace(**change)) != recipe.part_key(recipe.MYSQL)) is changes


def test_the_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/x")
    monkeypatch.delenv("BLOCKLAB_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert image.cache_folder() == Path("/home/x/.cache/blocklab")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert image.cache_folder() == Path("/home/x/.cache/blocklab")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert image.cache_folder() == Path("/xdg/blocklab")
    monkeypatch.setenv("BLOCKLAB_CACHE", "/own")
    assert image.cache_folder() == Path("/own")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("BLOCKLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path / "cache"


def fake_base(folder: Path, *_: object) -> None:
    """The base stage without Debian: a file system with the one folder that the second stage needs."""
    (folder / "tools").mkdir()
    (folder / "tools" / tools.KERNEL).write_text("kernel")
    (folder / "packages.json").write_text('{"user-mode-linux": "7.2um1"}')
    tree = folder / "tree"
    (tree / recipe.NODE_FOLDER[1:]).mkdir(parents=True)
    disk = folder / "root.ext4"
    argv = ["mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-d", str(tree), str(disk), "4M"]
    subprocess.run(argv, check=True, env=rootfs.environment())


def fake_part(part: recipe.Part, folder: Path, *_: object) -> None:
    """A part without Debian: one program, and one file in a folder that the root does not have."""
    program = folder / "tree" / "usr/lib" / part.name
    program.parent.mkdir(parents=True)
    program.write_bytes(part.name.encode() * 100_000)
    program.chmod(0o711)
    (folder / "tree" / "opt" / part.name).mkdir(parents=True)
    (folder / "tree" / "opt" / part.name / "data").write_bytes(b"")
    if part is recipe.VOLUME:
        (folder / "tools").mkdir()
        (folder / "tools" / tools.VOLUME_SERVER).write_text("server")
    (folder / "packages.json").write_text(json.dumps({part.name: "1.0"}))


def fake_shim(target: Path, _: object) -> str:
    target.touch()
    return ""


@pytest.fixture
def fake_stages(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder where images are built from ``fake_base``, with tools that are not tried."""
    monkeypatch.setattr(rootfs, "build", fake_base)
    monkeypatch.setattr(rootfs, "build_part", fake_part)
    monkeypatch.setattr(tools, "install", lambda raw, folder, *_: shutil.copytree(raw, folder))
    monkeypatch.setattr(tools, "compile_shim", fake_shim)
    monkeypatch.setattr(tools, "verify", lambda *_: "")
    return cache


def test_no_image(cache: Path) -> None:
    assert image.find() is None and image.listing() == []
    with pytest.raises(ImageError, match="not built") as caught:
        image.require()
    assert "blocklab image build" in caught.value.hint
    with pytest.raises(ImageError, match="no image 'abc'"):
        image.remove("abc")
    with pytest.raises(ImageError, match="no image"):
        image.remove("../..")
    assert not cache.exists()


def test_build_find_list_remove(fake_stages: Path) -> None:
    said: list[str] = []
    built = image.build(said.append)
    assert image.find() == built == image.require() and image.listing() == [built]
    assert built.packages == {"user-mode-linux": "7.2um1", "go": "1.0", "volume": "1.0"} and built.shim
    assert built.addons == ()
    assert built.rootfs.read_bytes()[1080:1082] == b"\x53\xef"  # the magic number of ext4
    assert built.volume_server.read_text() == "server"
    assert image.build(lambda _: pytest.fail("built again")) == built
    image.remove(built.key)
    assert image.find() is None and image.listing() == []
    image.build(said.append)
    assert image.prune(everything=False) == []
    assert image.prune(everything=True) == [built.key]
    assert [list((fake_stages / name).iterdir()) for name in ("bases", "parts", "images")] == [[], [], []]


def debugfs(disk: Path, request: str) -> str:
    """What debugfs answers about a file system."""
    argv = ["debugfs", "-R", request, str(disk)]
    return subprocess.run(argv, capture_output=True, text=True, env=rootfs.environment(), check=True).stdout


def test_parts_are_written_into_the_root(fake_stages: Path) -> None:
    """A root file system of 4 MiB grows to take what is larger than it."""
    disk = image.build(lambda _: None, ["mysql"]).rootfs
    subprocess.run(["e2fsck", "-fn", str(disk)], check=True, env=rootfs.environment(), capture_output=True)
    for name in ("go", "mysql"):
        assert debugfs(disk, f"cat /usr/lib/{name}") == name * 100_000
        program, data = debugfs(disk, f"stat /usr/lib/{name}"), debugfs(disk, f"stat /opt/{name}/data")
        assert "Mode:  0755" in program and "User:     0   Group:     0" in program
        assert "Mode:  0644" in data and "User:     0   Group:     0" in data
    assert "Mode:  0755" in debugfs(disk, f"stat {recipe.NODE_FOLDER}/init")
    assert not list(fake_stages.rglob("blocklab-debugfs-*"))


def test_a_file_that_does_not_fit_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "base").mkdir()
    fake_base(tmp_path / "base")
    tree = tmp_path / "new"
    tree.mkdir()
    (tree / "large").write_bytes(b"x" * 8_000_000)
    run = rootfs.run
    monkeypatch.setattr(rootfs, "run", lambda argv, *a, **k: argv[0] == "resize2fs" or run(argv, *a, **k))
    with pytest.raises(ImageError, match="did not write large"):
        rootfs.add_tree(tmp_path / "base/root.ext4", tree, io.StringIO())
    (tree / "two words").touch()
    with pytest.raises(ImageError, match="misread"):
        rootfs.add_tree(tmp_path / "base/root.ext4", tree, io.StringIO())


def test_an_addon_makes_another_image_of_the_same_base(fake_stages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = image.build(lambda _: None)
    assert image.find(["mysql"]) is None
    with pytest.raises(ImageError, match="this study needs the image add-on mysql") as caught:
        image.require(addons=("mysql",))
    assert "`blocklab image build --with mysql`" in caught.value.hint
    monkeypatch.setattr(rootfs, "build", lambda *_: pytest.fail("the base was built again"))
    more = image.build(lambda _: None, addons=["mysql"])
    assert more.key != plain.key and more.addons == ("mysql",) and more.packages["mysql"] == "1.0"
    assert image.find() == plain == image.require() and image.require(["mysql"]) == more
    assert image.listing() in ([plain, more], [more, plain])  # built within the same second
    assert image.prune(everything=False) == []
    # A superset serves too, and then nothing is built.
    image.remove(plain.key)
    assert image.find() == more == image.build(lambda _: pytest.fail("built again"))
    assert sorted(image.prune(everything=True)) == [more.key]
    assert not list((fake_stages / "parts").iterdir())


def test_an_unknown_addon_is_refused(cache: Path) -> None:
    for call in (image.find, image.require, lambda addons: image.build(lambda _: None, addons)):
        with pytest.raises(StudyError, match="no image add-on 'oracle'") as caught:
            call(["mysql", "oracle"])
        assert "mysql" in caught.value.hint
    assert not cache.exists()


def test_without_any_image_the_hint_names_the_whole_command(cache: Path) -> None:
    with pytest.raises(ImageError, match="is not built") as caught:
        image.require(["mysql"])
    assert "`blocklab image build --with mysql`" in caught.value.hint and not cache.exists()


def test_a_part_that_fails_ends_the_build_and_the_base_is_kept(
    fake_stages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ImageError("no such module")

    monkeypatch.setattr(rootfs, "build_part", fail)
    with pytest.raises(ImageError, match="no such module"):
        image.build(lambda _: None)
    assert [len(list((fake_stages / name).iterdir())) for name in ("bases", "parts", "images")] == [1, 0, 0]


def test_a_moved_image_is_none(fake_stages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image.build(lambda _: None)
    fake_stages.rename(fake_stages.with_name("elsewhere"))
    monkeypatch.setenv("BLOCKLAB_CACHE", str(fake_stages.with_name("elsewhere")))
    assert image.find() is None
    assert image.build(lambda _: None).folder.parent.parent.name == "elsewhere"


def test_kernel_modules_of_ones_own_are_in_every_image_until_they_are_taken_out(
    fake_stages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted: list[Path] = []
    monkeypatch.setattr(tools, "fit_modules", lambda tools, rootfs, log: fitted.append(rootfs))
    plain = image.build(lambda _: None)
    own = tmp_path / "own"
    own.mkdir()
    with pytest.raises(ImageError, match=r"has no kernel modules \(\*\.ko\)"):
        image.build(lambda _: None, own=str(own))
    (own / "drbd.ko").write_bytes(b"drbd 9")
    built = image.build(lambda _: None, own=str(own))
    assert built.key != plain.key and not plain.modules and fitted == [built.rootfs]
    assert built.modules == {"drbd.ko": hashlib.sha256(b"drbd 9").hexdigest()}
    assert debugfs(built.rootfs, f"cat {modules.FOLDER}/drbd.ko") == "drbd 9"
    # Nobody has to name them again; another build of them is another image.
    assert image.require() == built == image.build(lambda _: pytest.fail("built again"))
    (own / "drbd.ko").write_bytes(b"drbd 9 again")
    again = image.build(lambda _: None, own=str(own))
    assert again.key not in (plain.key, built.key)

    # One that is refused changes nothing.
    console = "boot\nblocklab: drbd.ko is made for kernel 6.12.1, and nodes run 7.2.7\r\npanic"
    monkeypatch.setattr(tools, "fit_modules", lambda *_: modules.check(console))
    (own / "drbd.ko").write_bytes(b"drbd 8")
    with pytest.raises(ImageError, match=r"^drbd.ko is made for kernel 6.12.1, and nodes run 7.2.7\n"):
        image.build(lambda _: None, own=str(own))
    assert image.require() == again
    assert image.build(lambda _: pytest.fail("built again"), own=modules.NONE) == plain == image.require()
    image.build(lambda _: None, own=None)
    assert {each.key for each in image.listing()} == {plain.key, built.key, again.key}


@pytest.mark.parametrize("stage", ["build", "install", "verify"])
def test_a_failed_build_leaves_nothing_half_built(
    fake_stages: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(rootfs if stage == "build" else tools, stage, fail)
    with pytest.raises(ImageError, match="no room left"):
        image.build(lambda _: None)
    assert list((fake_stages / "images").iterdir()) == []
    assert len(list((fake_stages / "bases").iterdir())) == (stage != "build")
    assert image.find() is None


NO_ZERO_PAGE = "the shim does not know this kernel's page of zeros"


@pytest.mark.parametrize(
    ("shim", "console", "why"), [(True, tools.ZERO_PAGE, ""), (True, "", NO_ZERO_PAGE), (False, "", "")]
)
def test_a_trial_says_when_the_shim_cannot_share_the_page_of_zeros(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shim: bool, console: str, why: str
) -> None:
    monkeypatch.setattr(tools, "run", lambda *_: None)
    monkeypatch.setattr(tools, "_serve", lambda *_: None)
    monkeypatch.setattr(tools, "_boot", lambda *_: f"{console}\n{tools.BOOTED}")
    if shim:
        (tmp_path / tools.SHIM).touch()
    assert tools.verify(tmp_path, tmp_path / "root.ext4", io.StringIO()) == why


def test_a_build_warns_of_what_the_trial_said(fake_stages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "verify", lambda *_: NO_ZERO_PAGE)
    said: list[str] = []
    image.build(said.append)
    assert f"warning: {NO_ZERO_PAGE}: {image.ZEROS_COST}" in said


def test_what_a_dead_builder_left_is_removed(fake_stages: Path) -> None:
    left = fake_stages / "images" / ".tmp-0123"
    left.mkdir(parents=True)
    (left / "root.ext4").write_text("half")
    unfinished = fake_stages / "images" / recipe.recipe_key()
    unfinished.mkdir()  # renamed, but never tried: no image.json
    assert image.find() is None
    image.build(lambda _: None)
    assert not left.exists() and image.find()


@pytest.mark.usefixtures("cache")
def test_a_dead_builders_work_folder_is_removed_and_a_live_ones_kept() -> None:
    log = io.StringIO()
    parent = rootfs.work_parent()
    dead = parent / f"blocklab-{os.geteuid()}-dead"
    dead.mkdir()
    with rootfs.work_folder(log) as first:
        assert not dead.exists()
        with rootfs.work_folder(log) as second:
            assert first.is_dir() and second.is_dir()
        assert first.is_dir() and not second.exists()
    assert not first.exists()


SLOW = """
trap 'sleep 0.5; touch ended; exit 1' TERM
echo 'I: working...'
for i in $(seq 200); do sleep 0.1; done
"""


def test_what_was_interrupted_has_ended_before_what_it_left_is_removed(tmp_path: Path) -> None:
    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    with (tmp_path / "log").open("w") as log, pytest.raises(KeyboardInterrupt):
        rootfs.run(["sh", "-c", SLOW], log, say=interrupt, cwd=tmp_path)
    assert (tmp_path / "ended").exists()


def test_a_temporary_folder_that_is_not_there_is_named(
    fake_stages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))

    def build(folder: Path, log: IO[str], say: rootfs.Say) -> None:
        with rootfs.work_folder(log):
            pytest.fail("there is one")

    monkeypatch.setattr(rootfs, "build", build)
    with pytest.raises(ImageError, match=f"{tmp_path / 'none'} is not a writable folder") as caught:
        image.build(lambda _: None)
    assert "TMPDIR" in caught.value.hint and list((fake_stages / "bases").iterdir()) == []


# blocklab is killed while it tries a tool, which by then is what it is to be.
TRIED = """
import os, signal, sys, time
from pathlib import Path
from blocklab.sites.uml import modules, tools
with tools._running(["sleep", "600"], sys.stderr) as process:
    while Path(f"/proc/{process.pid}/comm").read_text() != "sleep\\n":
        time.sleep(0.01)
    print(process.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_tool_that_is_tried_does_not_outlive_blocklab() -> None:
    done = subprocess.run([sys.executable, "-c", TRIED], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    tool, deadline = int(done.stdout), time.monotonic() + 30
    try:
        while group_lives(tool):
            assert time.monotonic() < deadline, "it runs on"
            time.sleep(0.01)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(tool, signal.SIGKILL)


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as log, pytest.raises(ImageError, match="no blocklab-nothing") as caught:
        rootfs.run(["blocklab-nothing"], log)
    assert "doctor" in caught.value.hint


def test_without_a_compiler_there_is_no_shim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools.shutil, "which", lambda *_, **__: None)  # type: ignore[attr-defined]
    assert "no C compiler" in tools.compile_shim(tmp_path / "shim.so", io.StringIO())


@pytest.mark.parametrize(("place", "said"), [("/a:b", "':'"), ('/a"b', "'\"'"), ("/Attivit\u00e0", "'\u00e0'")])
def test_a_path_that_the_loader_or_the_kernel_would_misread_is_refused(
    place: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(ImageError, match=said):
        tools.install(tmp_path, tmp_path / "tools", Path(place, "tools"), io.StringIO())


def test_all_that_go_tpc_is_built_from_has_a_checksum_of_ours() -> None:
    sources = go_programs.go_tpc_sources()
    assert sorted(sources) == ["go.mod", "go.sum"]
    required = dict(re.findall(r"^\s+(\S+) (v\S+)", sources["go.mod"], re.MULTILINE))
    assert required[go_programs.GO_TPC_MODULE] == f"v{go_programs.GO_TPC_VERSION}"
    known = {tuple(line.split()[:2]) for line in sources["go.sum"].splitlines()}
    lacking = {name for name, version in required.items() if (name, f"{version}/go.mod") not in known}
    # Which is for Windows.
    assert lacking == {"github.com/inconshreveable/mousetrap"}
    assert (go_programs.GO_TPC_MODULE, required[go_programs.GO_TPC_MODULE]) in known
    script = go_programs.script("", {"go.mod": "module x\n"})
    assert sources["go.sum"] in script and sources["go.mod"] in script
    # Nothing adds to them, whatever the user's environment says.
    assert script.count(" build -mod=readonly ") == 2 and "GOFLAGS= GOSUMDB=sum.golang.org" in script
    assert not re.search(r"go module (get|mod (tidy|init)) ", script)
