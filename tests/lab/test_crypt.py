"""dm-crypt on real nodes, below mirrors, whose sides are then not the same by themselves, and above."""

from __future__ import annotations

from typing import Any

import pytest

from blocklab.faults.volume import VolumeStall
from blocklab.layers import drbd
from blocklab.model.host import must
from blocklab.model.node_programs import program
from blocklab.model.stack_map import device_of
from blocklab.runner.engine import secret
from blocklab.runner.measure import not_in_force
from blocklab.runner.run import standing
from blocklab.runner.workshop import Standing
from blocklab.sites.uml.site import UmlSite
from blocklab.study import grid
from blocklab.study.read import build
from blocklab.study.takeover import comparison
from blocklab.study.types import Study
from tests.uml import uml

VOLUME = {"layer": "volume", "size": "64MiB"}
CRYPT = {"layer": "crypt"}
PAIR = {"peer": "a2", "link": "zone"}
MIRRORS: dict[str, dict[str, Any]] = {
    "drbd": {"layer": "drbd", **PAIR},
    "net_mirror": {"layer": "net-mirror", **PAIR},
}


def study_of(small: dict[str, Any], layers: list[dict[str, Any]]) -> Study:
    small["stacks"] = {"one": {"on": "a1", "layers": layers}}
    small["baseline"] = "one"
    small["workloads"] = {"io": {**small["workloads"]["io"], "size": "16MiB"}}
    return build(small)


def sums(stand: Standing, study: Study) -> set[str]:
    """The checksums of both sides, as a drill compares them."""
    compare = comparison(study, "one", 0, stand.ground)
    assert compare is not None
    stand.engine.carry_out(list(compare.settle), "settle")
    return {must(stand.lab.hosts[host], argv, timeout=300) for host, argv in compare.copies.items()}


@pytest.mark.parametrize("kind", MIRRORS)
@pytest.mark.parametrize("planted", [False, True])
def test_both_sides_of_a_mirror_over_it_are_the_same_before_the_first_write(
    small: dict[str, Any], monkeypatch: pytest.MonkeyPatch, kind: str, planted: bool
) -> None:
    if planted:
        # Nobody says any more that fresh sides differ.
        monkeypatch.setattr(grid, "Garbled", VolumeStall)
    study = study_of(small, [VOLUME, CRYPT, MIRRORS[kind]])
    with standing(UmlSite(), study, ["one"]) as stand:
        assert len(sums(stand, study)) == (2 if planted else 1)
        ours, theirs = (uml(stand).volume("one", node) for node in ("a1", "a2"))
        assert ours is not None and theirs is not None and ours.read_bytes() != theirs.read_bytes()
        if kind == "drbd" and not planted:
            # Copied as fast as it could, then as the study has it.
            shown = must(stand.lab.hosts["a1"], ["drbdsetup", "show", "one", "--show-defaults"])
            assert drbd.parse_show(shown)["disk.c-max-rate"] == str(102400 * 1024)
        assert not not_in_force(stand.engine.ask(stand.facts["one"]))


@pytest.mark.parametrize("planted", [False, True])
def test_both_copies_of_a_raid10_over_it_are_the_same(
    small: dict[str, Any], monkeypatch: pytest.MonkeyPatch, planted: bool
) -> None:
    if planted:
        monkeypatch.setattr(grid, "Garbled", VolumeStall)
    with standing(
        UmlSite(), study_of(small, [{**VOLUME, "count": 2}, CRYPT, {"layer": "raid10"}]), ["one"]
    ) as stand:
        host, array = stand.lab.hosts["a1"], stand.ports["one"][-1].where
        must(host, program("net_mirror", "check", array), timeout=120)
        assert (int(must(host, program("net_mirror", "differ", array))) > 0) == planted


def test_the_key_is_in_one_file_and_the_data_are_not_on_the_volume(small: dict[str, Any]) -> None:
    with standing(UmlSite(), study_of(small, [VOLUME, CRYPT]), ["one"]) as stand:
        host, port = stand.lab.hosts["a1"], stand.ports["one"][-1]
        assert must(host, ["stat", "-c", "%a %U", "/run/blocklab/one.key"]) == "600 root\n"
        assert host.get("/run/blocklab/one.key").decode() == secret("encryption")
        assert must(host, ["readlink", "-f", f"/sys/class/block/{device_of(port)}"]).endswith("/dm-10000\n")
        text = b"to be read by nobody" * 1000
        host.put("/run/blocklab/text", text)
        must(host, ["dd", "if=/run/blocklab/text", f"of={port.where}", "bs=4k", "conv=fsync"])
        must(host, ["blockdev", "--flushbufs", port.where])
        assert must(host, ["head", "-c", str(len(text)), port.where]).encode() == text
        volume = uml(stand).volume("one", "a1")
        assert volume is not None and b"LUKS" in (raw := volume.read_bytes()) and text[:40] not in raw
        records = "\n".join(f"{record}" for record in stand.engine.records)
        assert "luksFormat" in records and secret("encryption") not in records
        # The plant: somebody opens it with other flags.
        must(
            host, ["cryptsetup", "refresh", "--key-file=/run/blocklab/one.key", "--allow-discards", "one-crypt-0"]
        )
        wrong = {knob.name: knob.value for knob in not_in_force(stand.engine.ask(stand.facts["one"]))}
        assert wrong == {"discards": "yes"}
