"""Which machine a run was measured on: never one for another, whatever the host is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from blocklab.sites.fake import FakeSite
from blocklab.sites.machine import GIVEN, this_machine

ID = "3d1219c7c4c5404aaa1f6d2a48adfda4"


def computer(root: Path, machine_id: str, boot: str, mark: str = "") -> Path:
    for file, text in (("etc/machine-id", machine_id), ("proc/sys/kernel/random/boot_id", boot), (mark, "")):
        if file:
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_text(f"{text}\n")
    return root


def test_a_machine_is_known_by_its_id_whatever_booted_and_the_id_itself_is_not_shown(tmp_path: Path) -> None:
    first, again, other = (
        this_machine({}, computer(tmp_path / name, machine_id, name))
        for name, machine_id in (("a", ID), ("b", ID), ("c", ID[::-1]))
    )
    assert first == again
    assert len(first["machine"]) == 12
    assert first["machine"] not in ID
    # The same host name on both.
    assert first["name"] == other["name"]
    assert first["machine"] != other["machine"]


@pytest.mark.parametrize("mark", [".dockerenv", "run/.containerenv"])
def test_containers_of_one_image_are_one_machine_only_on_one_computer(tmp_path: Path, mark: str) -> None:
    one, beside, elsewhere = (
        this_machine({}, computer(tmp_path / name, ID, boot, mark))["machine"]
        for name, boot in (("a", "boot-1"), ("b", "boot-1"), ("c", "boot-2"))
    )
    assert one == beside != elsewhere
    pod = this_machine({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, computer(tmp_path / "d", ID, "boot-1"))
    assert pod["machine"] == one


def test_without_an_id_the_boot_stands_for_it_and_without_both_nothing_does(tmp_path: Path) -> None:
    booted = this_machine({}, computer(tmp_path / "a", "", "boot-1"))
    assert booted["machine"] == this_machine({}, computer(tmp_path / "b", ID, "boot-1", ".dockerenv"))["machine"]
    assert this_machine({}, tmp_path / "nothing")["machine"] == ""


def test_a_name_that_is_given_is_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = computer(tmp_path, ID, "boot-1")
    one, two = (this_machine({GIVEN: name}, here) for name in ("w1", "w2"))
    assert (one["name"], two["name"]) == ("w1", "w2")
    assert one["machine"] != two["machine"]
    assert this_machine({GIVEN: " "}, here) == this_machine({}, here)
    monkeypatch.setenv(GIVEN, "w1")
    assert FakeSite().environment() == {"site": "fake", **one}
