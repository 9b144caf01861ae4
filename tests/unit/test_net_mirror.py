"""The node's side of a network mirror, on a /sys that a test makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from blocklab_node import net_mirror as node


class Sys:
    """What MD says of an array, one action after the other; the last one stays."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, degraded: str, *actions: str) -> None:
        self.actions, self.degraded, self.asked = list(actions), degraded, 0
        monkeypatch.setattr(node, "read", self.read)
        monkeypatch.setattr(node, "SYNC_SECONDS", 1.0)

    def read(self, file: str) -> str:
        name = Path(file).name
        if name == "sync_action":
            self.asked += 1
            return self.actions.pop(0) if len(self.actions) > 1 else self.actions[0]
        return {"degraded": self.degraded, "sync_completed": "512 / 1024"}[name]


def test_legs_are_compared_after_the_last_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Sys(monkeypatch, "0", "recover", "recover", "idle")
    node.settle("/dev/md300")
    assert found.asked == 3


def test_a_leg_alone_is_in_sync_with_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    Sys(monkeypatch, "1", "idle")
    with pytest.raises(SystemExit, match="/dev/md300 has one leg only"):
        node.settle("/dev/md300")


def test_a_copy_without_end_is_an_error_that_says_how_far_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    Sys(monkeypatch, "0", "recover")
    monkeypatch.setattr(node, "SYNC_SECONDS", 0.0)
    with pytest.raises(SystemExit, match=r"the resync did not end in 0 s: 512 / 1024"):
        node.settle("/dev/md300")
