"""The lab's own floor, measured for real in its short form."""

from __future__ import annotations

from pathlib import Path

from blocklab.runner.calibrate import calibrate
from blocklab.sites.uml.site import UmlSite
from blocklab.store.floor import DELAYS_MS, METRICS, RTT, delay, load_floor, machine_of, mirror, save_floor, volume


def test_calibrate_finds_a_plausible_floor_and_leaves_nothing(tmp_path: Path) -> None:
    """That nothing is left is checked after each test of this folder."""
    site = UmlSite()
    floor = calibrate(site, rounds=1, seconds=0.3)
    assert set(floor.values) == set(METRICS)
    value = {name: value.value for name, value in floor.values.items()}
    print({name: f"{each:.6g}" for name, each in value.items()})
    for name, each in value.items():
        # An error may be below zero, and nothing may have been stolen or idle.
        assert each > 0 or name.startswith(("delay.", "steal.", "idle."))
    # Other tests run at the same time, so that only what lies orders of magnitude apart can be compared.
    assert value["syscall"] < 1e-3 and value["syscall"] < value[volume("read", "latency")] < 0.5
    # The far side of a mirror is another node, so that a write takes at least the link's way there and back. One
    # ping that had to wait on a busy machine makes the mean of a few of them ten times as long.
    assert value[mirror("latency")] > value[RTT] / 100
    assert value[volume("write", "iops", 32)] > 10 and value[mirror("iops", 32)] > 10
    # At queue depth 1 a rate is at most the inverse of its latency.
    assert 0 < value[volume("read", "iops")] * value[volume("read", "latency")] <= 1.01
    assert all(abs(value[delay(ms)]) < 0.1 for ms in DELAYS_MS)
    for who in ("host", "node"):
        assert 0 <= value[f"steal.{who}"] + value[f"idle.{who}"] <= 100
    save_floor(tmp_path, floor)
    assert load_floor(tmp_path, machine_of(site.environment())) == floor
