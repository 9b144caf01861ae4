"""What this machine's CPU takes, measured for nodes in virtual time; shorter than the command does it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from blocklab.sites import cpu
from blocklab.study.read import build
from tests.unit.shells import Shell


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "ENOUGH", 0.02)


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(monkeypatch, capsys)


def test_the_line_that_is_printed_is_one_for_a_node(shell: Shell, small: dict[str, Any]) -> None:
    code, out, _ = shell("calibrate", "--cpu", "--json")
    printed = json.loads(out)
    small["nodes"]["a1"]["cpu"] = printed
    costs = build(small).nodes["a1"].cpu_costs
    assert code == 0 and printed["source"] and set(costs) == {"syscall", "fault"}
    assert all(0 < cost <= 1e-3 for cost in costs.values())
    code, out, _ = shell("calibrate", "--cpu")
    last = out.strip().splitlines()[-1]
    assert code == 0 and last.startswith('cpu: {"syscall": "') and printed["source"] in last


def test_only_time_in_the_kernel_counts_and_by_the_number_of_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    system, user = iter((1.0, 1.006, 1.012)), iter((5.0, 5.001, 5.02))

    class Used:
        def __init__(self) -> None:
            self.ru_stime, self.ru_utime = next(system), next(user)

    monkeypatch.setattr("resource.getrusage", lambda _: Used())
    # Twice, until 0.02 s were used in all: 12 ms in the kernel for 2 * 4 * 512 calls.
    assert cpu.syscall() == pytest.approx(0.012 / (2 * 4 * 512))


def test_a_machine_without_a_tick_ends_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "PATIENCE", 0.0)
    monkeypatch.setattr(cpu, "ENOUGH", 1e9)
    assert 0 <= cpu.fault() < 1e-3


def test_neither_a_site_nor_an_add_on_has_a_part_in_it(shell: Shell) -> None:
    code, out, err = shell("calibrate", "--cpu", "--with", "mysql")
    assert (code, out) == (2, "") and "leave --site and --with out" in err
