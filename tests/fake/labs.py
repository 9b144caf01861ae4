"""Fake labs for tests that need hosts but no study."""

from __future__ import annotations

from blocklab.model.ground import NodeSpec, Topology
from blocklab.sites.fake import Answer, FakeLab, FakeSite, always_ok


def lab(*names: str, answer: Answer = always_ok, site: FakeSite | None = None) -> FakeLab:
    """A lab of these hosts, without links and volumes."""
    return (site or FakeSite(answer)).start(Topology({name: NodeSpec() for name in names}, {}, ()))
