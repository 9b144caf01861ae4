"""Facts about machines of all kinds, from what their files say."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from blocklab.sites.uml import doctor, memory, recipe

RELEASE = """\
PRETTY_NAME="{name} 99 (example)"
ID={id}
VERSION_ID="{version}"
"""


@pytest.mark.parametrize(
    ("id_", "version", "ok"),
    [("debian", "13", "ok"), ("ubuntu", "24.04", "ok"), ("ubuntu", "99.04", "warn")],
)
def test_the_release_is_named_and_an_untried_one_is_a_warning(
    tmp_path: Path, id_: str, version: str, ok: str
) -> None:
    file = tmp_path / "os-release"
    file.write_text(RELEASE.format(name=id_.title(), id=id_, version=version))
    fact = doctor.release(file)
    assert fact.ok == ok and id_.title() in fact.found
    assert doctor.release(tmp_path / "none").ok == "warn"


def test_another_architecture_cannot_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.platform, "machine", lambda: "aarch64")  # type: ignore[attr-defined]
    fact = doctor.architecture()
    assert fact.ok == "fail" and "aarch64" in fact.found and fact.hint


@pytest.mark.parametrize(
    ("lacking", "packages", "ok"),
    [
        ({"mmdebstrap", "mke2fs", "debugfs"}, ["e2fsprogs", "mmdebstrap"], "fail"),
        ({"newuidmap"}, ["uidmap"], "fail"),
        ({"cc"}, ["gcc", "libc6-dev"], "warn"),
        (set(), [], "ok"),
    ],
)
def test_missing_host_packages(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lacking: set[str], packages: list[str], ok: str
) -> None:
    monkeypatch.setattr(doctor, "KEYRING", tmp_path)
    monkeypatch.setattr(doctor, "_has", lambda program: program not in lacking)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    found = doctor.host_packages()
    assert list(found) == packages and all(found.values())
    fact = doctor.packages()
    assert fact.ok == ok
    command = f"sudo apt-get install --no-install-recommends {' '.join(packages)}"
    assert fact.hint == (f"blocklab setup, or: {command}" if packages else "")


def test_root_needs_no_uidmap_and_no_sudo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "KEYRING", tmp_path / "none")
    monkeypatch.setattr(doctor, "_has", lambda program: program != "newuidmap")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert list(doctor.host_packages()) == ["debian-archive-keyring"]
    assert doctor.packages().hint.startswith("blocklab setup, or: apt-get install ")


@pytest.mark.parametrize(
    ("said", "sysctl", "hint"),
    [
        (
            "W: no entry in /etc/subuid for nosub\nE: failed to parse /etc/subuid and /etc/subgid",
            "",
            "--add-subuids",
        ),
        ("E: cannot find newuidmap", "", "uidmap"),
        ("E: denied", "kernel/apparmor_restrict_unprivileged_userns=1", "apparmor_restrict_unprivileged_userns=0"),
        ("E: denied", "kernel/unprivileged_userns_clone=0", "unprivileged_userns_clone=1"),
        ("E: denied", "user/max_user_namespaces=0", "max_user_namespaces=15000"),
        ("E: denied", "user/max_user_namespaces=96365", "container"),
    ],
)
def test_the_cure_for_user_namespaces(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str, sysctl: str, hint: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    if sysctl:
        name, value = sysctl.split("=")
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(f"{value}\n")
    assert hint in doctor.namespace_hint(said, tmp_path)


@pytest.mark.parametrize(("kib", "ok"), [(24_219_196, "ok"), (1_048_576, "warn")])
def test_memory(tmp_path: Path, kib: int, ok: str) -> None:
    file = tmp_path / "meminfo"
    file.write_text(f"MemTotal:       24684084 kB\nMemFree:        22906996 kB\nMemAvailable:   {kib} kB\n")
    assert doctor.memory(memory.available(tmp_path, tmp_path)).ok == ok
    assert doctor.memory().found.endswith("GiB free")


def test_seccomp(tmp_path: Path) -> None:
    file = tmp_path / "status"
    file.write_text("NoNewPrivs:\t0\nSeccomp:\t0\nSeccomp_filters:\t0\n")
    assert doctor.seccomp(file).ok == "ok"
    file.write_text("NoNewPrivs:\t0\n")
    lacks = doctor.seccomp(file)
    assert lacks.ok == "fail" and "CONFIG_SECCOMP_FILTER" in lacks.hint


def test_shared_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BLOCKLAB_SCRATCH", raising=False)
    fact = doctor.shared_memory(tmp_path / "none")
    assert fact.ok == "fail" and "tmpfs" in fact.hint and "BLOCKLAB_SCRATCH" in fact.hint


def test_a_temporary_folder_that_is_not_there_is_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLOCKLAB_CACHE", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    (fact,) = doctor.tree_room()
    assert fact.ok == "fail" and str(tmp_path / "none") in fact.found and "TMPDIR" in fact.hint


def test_another_place_for_nodes_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLOCKLAB_SCRATCH", str(tmp_path))
    assert doctor.shared_memory().found.endswith(f" in {tmp_path}")
    monkeypatch.setenv("BLOCKLAB_SCRATCH", str(tmp_path / "none"))
    assert "BLOCKLAB_SCRATCH" in doctor.shared_memory().hint


def test_an_image_with_more_is_an_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLOCKLAB_CACHE", str(tmp_path))
    assert not doctor.image_there()
    folder = tmp_path / "images" / recipe.recipe_key(["mysql"])
    folder.mkdir(parents=True)
    (folder / "image.json").write_text(json.dumps({"folder": str(folder), "shim": "there", "built": "today"}))
    assert doctor.image_there() and [fact.ok for fact in doctor.image()] == ["ok", "ok"]


def test_room(tmp_path: Path) -> None:
    there = doctor.room("room", tmp_path / "not" / "yet", 0, "BLOCKLAB_CACHE")
    assert there.ok == "ok" and str(tmp_path) in there.found
    little = doctor.room("room", tmp_path, 10**9, "BLOCKLAB_CACHE")
    assert little.ok != "ok" and "BLOCKLAB_CACHE" in little.hint


def test_other_nodes(tmp_path: Path) -> None:
    for pid, argv in {
        "10": ["/x/tools/linux.uml", "mem=512M"],
        "11": ["grep", "linux.uml", "mem=512M"],
        "12": [],
    }.items():
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "cmdline").write_bytes(b"".join(arg.encode() + b"\0" for arg in argv))
    fact = doctor.other_nodes(tmp_path)
    assert fact.ok == "warn" and fact.found.startswith("1 process")


def test_no_image(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BLOCKLAB_CACHE", str(tmp_path))
    (fact,) = doctor.image()
    assert fact.ok == "warn" and fact.hint == "blocklab image build"
    assert not doctor.image_there()


def test_every_fact_has_a_cure_or_needs_none() -> None:
    for fact in doctor.facts():
        assert fact.name and fact.found and bool(fact.hint) == (fact.ok != "ok")
