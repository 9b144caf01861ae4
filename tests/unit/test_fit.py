"""Which machines' figures may be put together."""

from __future__ import annotations

from typing import Any

import pytest

from blocklab.rules.fit import SLOWER, SPEEDS, fits
from blocklab.store.floor import METRICS, NOISE

ONE: dict[str, Any] = {
    "blocklab": "0.1.0",
    "site": "uml",
    "machine": "df638ce304f8",
    "host": {"kernel": "6.18.44-fc-v669", "cpu": "AMD EPYC", "cpus": 2},
    "image": "7057d1bc8cb22977",
    "shim": True,
    "packages": {"user-mode-linux": "7.2um1", "drbd-utils": "9.22.0-1.1", "tzdata": "2026a"},
    "floor": {"syscall": 1e-5, "volume.write.latency": 6e-5, "link.rtt": 1.4e-4, "noise": 5.0},
}


def other(**more: Any) -> dict[str, Any]:
    found = {**ONE, "machine": "000000000000"}
    for name, value in more.items():
        found[name] = {**found[name], **value} if isinstance(value, dict) else value
    return found


def test_what_is_compared_is_in_every_floor() -> None:
    assert {*SPEEDS, NOISE} <= METRICS.keys()


def test_another_machine_of_the_same_kind_fits() -> None:
    assert fits(ONE, ONE) == []
    assert fits(ONE, other(host={"cpu": "Intel Xeon", "cpus": 8, "kernel": "6.18.51"})) == []
    # As much as one machine's floor differs from day to day.
    assert fits(ONE, other(floor={"syscall": 2.5e-5, "noise": 11.0})) == []
    assert fits(ONE, other(packages={"tzdata": "2026b"})) == []


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"blocklab": "0.2.0"}, "other blocklab: 0.2.0, not 0.1.0"),
        ({"site": "ssh"}, "other site: ssh, not uml"),
        ({"image": "a4af96bec2b82b7b"}, "other image: a4af96bec2b82b7b, not 7057d1bc8cb22977"),
        ({"packages": {"drbd-utils": "9.30.0"}}, "other drbd-utils: 9.30.0, not 9.22.0-1.1"),
        ({"host": {"kernel": "6.1.0-49-amd64"}}, "other host kernel: 6.1, not 6.18"),
        ({"modules": "none"}, ""),
        ({"shim": False}, "other image: one has no idle shim"),
        ({"floor": {"syscall": 4e-5}}, "other floor: a system call takes 40 us there, 10 us here"),
        ({"floor": {"link.rtt": 4e-5}}, "other floor: a round trip at 0 ms takes 40 us there, 140 us here"),
        ({"floor": {"noise": 16.0}}, "other floor: rates vary by 16 % there, 5 % here"),
    ],
)
def test_what_does_not_fit_is_named(more: dict[str, Any], said: str) -> None:
    assert fits(ONE, other(**more)) == ([said] if said else [])
    assert bool(fits(other(**more), ONE)) == bool(said), "whichever comes first"


def test_kernel_modules_of_the_users_own_have_to_be_the_same() -> None:
    mine = {**ONE, "modules": {"drbd.ko": "aa"}}
    assert fits(mine, mine) == []
    assert fits(ONE, mine) == ["other kernel module drbd.ko"]
    assert fits(mine, {**ONE, "modules": {"drbd.ko": "bb"}}) == ["other kernel module drbd.ko"]


def test_several_reasons_are_all_told() -> None:
    slow = {name: SLOWER * 1.01 * value for name, value in ONE["floor"].items() if name != NOISE}
    assert len(fits(ONE, other(blocklab="0.2.0", floor=slow))) == 4


def test_what_is_not_told_is_no_reason() -> None:
    assert fits({}, ONE) == []
    assert fits(ONE, {"site": "uml", "floor": None, "host": "?"}) == []
    assert fits({"site": "fake", "machine": "a"}, {"site": "fake", "machine": "b"}) == []
