"""Doctor boots a node: what it says, and that the node is ended whatever happens."""

from __future__ import annotations

import pytest

from blocklab.cli.doctor import boot
from blocklab.errors import BlocklabError, HostTimeout, ImageError, NodeLost, SetupError
from blocklab.model.ground import Topology
from blocklab.model.host import Result
from blocklab.model.plan import Argv
from blocklab.sites.fake import FakeLab, FakeSite


class Broken(FakeSite):
    """A site on which no node starts."""

    def __init__(self, error: BlocklabError) -> None:
        super().__init__()
        self.error = error

    def start(self, topology: Topology) -> FakeLab:
        raise self.error


def test_one_node_is_booted_asked_and_ended() -> None:
    site = FakeSite()
    found = boot(site)
    (lab,) = site.labs
    assert (found.ok, found.hint) == ("ok", "") and "booted and answered in " in found.found
    assert lab.log == [("doctor", ("true",))] and lab.closed


@pytest.mark.parametrize(
    ("error", "ok", "said"),
    [
        (SetupError("no room in memory", hint="end other programs"), "fail", "no node starts: no room in memory"),
        (NodeLost("doctor", "it did not boot in time", "Kernel panic"), "fail", "it did not boot in time"),
        (ImageError("there is no image", hint="blocklab image build"), "warn", "not tried: there is no image"),
    ],
)
def test_why_it_did_not_start_is_said(error: BlocklabError, ok: str, said: str) -> None:
    found = boot(Broken(error))
    assert found.ok == ok and said in found.found and found.hint == error.hint


def dead(host: str, argv: Argv) -> Result:
    raise NodeLost(host, "its kernel panicked")


def mute(host: str, argv: Argv) -> Result:
    raise HostTimeout(host, 20.0)


@pytest.mark.parametrize("answer", [dead, mute, lambda host, argv: Result(1, b"", b"no such program")])
def test_a_node_that_does_not_answer_is_ended(answer: object) -> None:
    site = FakeSite(answer)  # type: ignore[arg-type]
    assert boot(site).ok == "fail"
    assert [lab.closed for lab in site.labs] == [True]
