"""A volume's distribution on a real node: found again by fio, and made a profile of."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.volume import TABLE, found_again
from blocklab.imports.disk import disk
from blocklab.model.host import must
from blocklab.model.units import Duration
from tests.lab.conftest import served

# A tenth of a per cent of a run's requests is twenty of them: so far (p99.9) may chance be below.
CHANCE = 0.88


@pytest.mark.long
@pytest.mark.parametrize(("times", "depth"), [(1, 1), (4, 4)])
def test_a_table_of_quantiles_is_found_again_where_the_machine_allows_it(times: int, depth: int) -> None:
    """Within 10 % at each; the machine is judged by how late a constant latency of the same volume is."""
    again = found_again(times, depth)
    said = "\n".join(again.lines())
    print(said)
    # Nothing is early, whatever the machine.
    assert all(found >= least * CHANCE for found, least in zip(again.found, again.least, strict=True)), said
    if again.true is None:
        pytest.skip(f"unknown: this machine is too late by itself\n{said}")
    assert again.true, said


@pytest.mark.long
def test_fio_on_a_volume_makes_a_profile(tmp_path: Path) -> None:
    """By the command of the documents, but shorter: the volume's own constant and table, and what is refused."""
    named = {f"p{100 * quantile:g}": Duration(f"{seconds * 4e3:g}ms") for quantile, seconds in TABLE}
    argv = ["fio", "--name=disk", "--filename=/dev/vda", "--direct=1", "--rw=randrw", "--bs=4k", "--time_based",
            "--lat_percentiles=1", "--status-interval=1"]  # fmt: skip
    file = tmp_path / "disk.json"
    with served("a1", read_latency=Duration("1ms"), write_quantiles=named) as lab:
        text = must(lab.hosts["a1"], [*argv, "--runtime=12", "--output-format=json+"], timeout=90)
        file.write_text(text)
        found = disk(file)
        assert set(found.ways) == {"read", "write"} and found.source.startswith("fio-3.")
        # Nothing is early.
        assert found.ways["read"].p50 >= 1e-3 * 0.99
        assert found.ways["write"].p50 >= 2e-3 * 0.99 and found.ways["write"].p99 >= 12e-3 * 0.8
        assert all(way.distance < 0.06 and way.uneven is not None for way in found.ways.values())
