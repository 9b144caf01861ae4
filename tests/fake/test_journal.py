"""Undos on disk: hosts that outlive blocklab are cleaned later, whenever it was killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from blocklab.errors import HostError
from blocklab.model.host import Result
from blocklab.model.plan import Argv, Put, Run, Step
from blocklab.runner.engine import Engine
from blocklab.sites.fake import FakeSite
from tests.fake.labs import lab

STEPS: list[Step] = [
    Run("a1", ("make", "0"), undo=("unmake", "0")),
    Put("a2", "/etc/one", "text"),
    Run("a1", ("look",)),
    Run("a1", ("make", "1"), undo=("unmake", "1")),
    Run("a2", ("make", "2"), undo=("unmake", "2")),
]


class Killed(BaseException):
    """blocklab ends between two commands, without a chance to undo anything."""


def killed_at(number: int, folder: Path) -> tuple[FakeSite, list[tuple[str, Argv]]]:
    """A run that is killed as it starts its command ``number``; what had been told by then, that one included."""
    told: list[tuple[str, Argv]] = []

    def answer(host: str, argv: Argv) -> Result:
        told.append((host, argv))
        if len(told) > number:
            raise Killed
        return Result(0, b"", b"")

    engine = Engine(lab("a1", "a2", site=FakeSite(answer, journal=folder)))
    with pytest.raises(Killed):
        engine.carry_out(STEPS, "build")
    return FakeSite(journal=folder), told


@pytest.mark.parametrize("number", range(len(STEPS)))
def test_what_a_kill_left_is_undone_later_in_reverse_and_once(tmp_path: Path, number: int) -> None:
    site, told = killed_at(number, tmp_path)
    undo = {("make", "0"): ("unmake", "0"), ("make", "1"): ("unmake", "1"), ("make", "2"): ("unmake", "2"),
            ("put", "/etc/one"): ("rm", "-f", "/etc/one")}  # fmt: skip
    # Also of the command that may not have begun: an undo of what never was is harmless, a leftover is not.
    due = {host: [undo[argv] for who, argv in told if who == host and argv in undo][::-1] for host in ("a1", "a2")}
    assert site.clean() == []
    assert {host: [argv for who, argv in site.cleaned if who == host] for host in due} == due
    assert site.clean() == [] and site.cleaned == [], "nothing is undone twice"
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_undoes_itself_leaves_nothing(tmp_path: Path) -> None:
    site = FakeSite(journal=tmp_path)
    engine = Engine(lab("a1", "a2", site=site))
    engine.carry_out(STEPS, "build")
    assert site.with_undos() == ["a1", "a2"]
    engine.undo()
    assert site.with_undos() == [] and list(tmp_path.iterdir()) == []


def test_what_cannot_be_undone_stays_with_all_below_it(tmp_path: Path) -> None:
    killed_at(len(STEPS) - 1, tmp_path)

    def busy(host: str, argv: Argv) -> Result:
        return Result(int(argv == ("unmake", "1")), b"", b"target is busy")

    site = FakeSite(busy, journal=tmp_path)
    (said,) = site.clean()
    assert "a1" in said and "target is busy" in said
    assert ("a1", ("unmake", "0")) not in site.cleaned and ("a2", ("unmake", "2")) in site.cleaned
    # Once it can be: the rest, in order.
    later = FakeSite(journal=tmp_path)
    assert later.clean() == [] and [argv for _, argv in later.cleaned] == [("unmake", "1"), ("unmake", "0")]


def test_an_undo_that_fails_in_the_run_is_left_for_later(tmp_path: Path) -> None:
    def busy(host: str, argv: Argv) -> Result:
        return Result(int(argv == ("unmake", "1")), b"", b"target is busy")

    engine = Engine(lab("a1", "a2", site=FakeSite(busy, journal=tmp_path)))
    engine.carry_out(STEPS, "build")
    engine.undo()
    assert [due.argv for due in FakeSite(journal=tmp_path).left("a1")] == [("unmake", "1")]


def test_a_crashed_host_has_nothing_to_undo(tmp_path: Path) -> None:
    hosts = lab("a1", "a2", site=FakeSite(journal=tmp_path))
    engine = Engine(hosts)
    engine.carry_out(STEPS, "build")
    hosts.crash("a1")
    engine.forget("a1")
    assert FakeSite(journal=tmp_path).with_undos() == ["a2"]


def test_a_line_that_a_crash_cut_is_of_a_step_that_never_began(tmp_path: Path) -> None:
    killed_at(1, tmp_path)
    with (tmp_path / "a1.jsonl").open("ab") as file:
        file.write(b'{"number":9,"argv":["unma')
    assert [due.argv for due in FakeSite(journal=tmp_path).left("a1")] == [("unmake", "0")]


def test_where_nothing_can_be_noted_nothing_is_done(tmp_path: Path) -> None:
    """It could never be undone."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    hosts = lab("a1", site=FakeSite(journal=blocked))
    with pytest.raises(HostError, match="a1: its journal of undos cannot be written"):
        Engine(hosts).carry_out(STEPS[:1], "build")
    assert hosts.log == []
