"""Steps and their undo, on hosts that only write down what they are told."""

from __future__ import annotations

from typing import Any

import pytest

from blocklab.errors import BlocklabError, CommandError, HostTimeout, NodeLost, StudyError
from blocklab.model import node_programs
from blocklab.model.host import Result
from blocklab.model.plan import Argv, Equip, Fact, Run, Step, undo_of
from blocklab.runner.engine import Engine
from blocklab.runner.run import standing
from blocklab.sites.fake import FakeSite
from blocklab.study.grid import plan_ground, plan_stack, topology
from blocklab.study.read import build
from blocklab.study.types import Study
from tests.fake.answers import Answers
from tests.fake.labs import lab


def steps_of(study: Study, stack: str) -> list[Step]:
    site = FakeSite()
    shape = topology(study, [stack])
    ground = site.ground(shape)
    steps = [*plan_ground(shape, ground).steps, *plan_stack(study, stack, 0, ground).steps]
    return [step for step in steps if not isinstance(step, Equip)]


def equips(argv: Argv) -> bool:
    """Whether it is a part of a step that puts all programs on a node."""
    return argv[0] == "put" and argv[1].startswith(node_programs.FOLDER)


def failing_at(position: int, answers: Answers) -> Any:
    """Answers until the step ``position`` (from 0), which fails; what comes later (undo) works again."""
    seen = -1

    def answer(host: str, argv: Argv) -> Result:
        nonlocal seen
        seen += not equips(argv)
        return Result(1, b"", b"no\n") if seen == position else answers(host, argv)

    return answer


@pytest.mark.parametrize("stack", ["local", "mirror"])
def test_a_failure_at_every_step_undoes_exactly_the_steps_up_to_it(small: dict[str, Any], stack: str) -> None:
    study = build(small)
    steps = steps_of(study, stack)
    assert len(steps) > 8
    for position, failed in enumerate(steps):
        if not isinstance(failed, Run):
            continue
        site = FakeSite(failing_at(position, Answers()))
        with pytest.raises(CommandError) as caught, standing(site, study, [stack]):
            pytest.fail("must not stand")
        assert (caught.value.host, caught.value.argv) == (failed.host, failed.argv)
        lab = site.labs[0]
        expected = [(step.host, undo_of(step)) for step in reversed(steps[: position + 1]) if undo_of(step)]
        assert [line for line in lab.log if not equips(line[1])][position + 1 :] == expected
        assert lab.closed


def test_a_whole_stack_is_undone_in_reverse(small: dict[str, Any]) -> None:
    study = build(small)
    site = FakeSite(Answers())
    with standing(site, study, ["mirror"]):
        built = len(site.labs[0].log)
    undone = site.labs[0].log[built:]
    assert undone == [(step.host, undo_of(step)) for step in reversed(steps_of(study, "mirror")) if undo_of(step)]
    # Taken down in turn: the database, the file system, then the mirror, the active side first.
    words = [argv[0] + " " + argv[1] for host, argv in undone if argv[0] in ("umount", "drbdadm")]
    assert words == ["umount /mnt/mirror", "drbdadm secondary", "drbdadm down", "drbdadm down"]


def noting(said: list[str]) -> Engine:
    """An engine whose one host notes what it is told; ``bad`` fails."""

    def answer(host: str, argv: Argv) -> Result:
        said.append(" ".join(argv))
        return Result(int(argv[0] == "bad"), b"1.0\n", b"")

    return Engine(lab("a1", answer=answer))


def step(name: str) -> Run:
    return Run("a1", (name,), undo=("un" + name,))


def test_what_is_kept_is_made_once_and_undone_for_something_else() -> None:
    said: list[str] = []
    engine = noting(said)
    engine.carry_out([step("build")], "build")
    for _ in range(2):
        engine.keep((step("fill"), Run("a1", ("plain",))), "data")
        mark = engine.mark()
        engine.carry_out([step("cell")], "prepare")
        engine.undo(mark)
    assert said == ["build", "fill", "plain", "cell", "uncell", "cell", "uncell"]
    said.clear()
    engine.keep((step("other"),), "data")
    engine.keep((), "data")
    engine.keep((), "data")
    assert said == ["unfill", "other", "unother"]
    engine.keep((Run("a1", ("plain",)),), "data")
    engine.undo()
    engine.keep((Run("a1", ("plain",)),), "data")
    assert said[3:] == ["plain", "unbuild", "plain"]


def test_what_could_not_be_made_is_undone_and_not_kept() -> None:
    said: list[str] = []
    engine = noting(said)
    for _ in range(2):
        with pytest.raises(CommandError):
            engine.keep((step("fill"), Run("a1", ("bad",))), "data")
    assert said == 2 * ["fill", "bad", "unfill"]


def test_an_answer_that_stays_is_asked_for_once() -> None:
    said: list[str] = []
    engine = noting(said)
    lasting = Fact("a1", "tool", ("tool", "--version"), lambda text: {"version": text.strip()}, lasting=True)
    passing = Fact("a1", "dev", ("size",), lambda text: {"size": text.strip()})
    assert engine.ask([lasting, passing]) == engine.ask([lasting, passing])
    assert said == ["tool --version", "size", "size"]


def test_a_failing_undo_masks_nothing_and_stops_nothing() -> None:
    def answer(_host: str, argv: Argv) -> Result:
        return Result(1, b"", b"broken\n") if argv[0] in ("fails", "undo-b") else Result(0, b"", b"")

    hosts = lab("h", answer=answer)
    engine = Engine(hosts)
    with pytest.raises(CommandError, match="fails"):
        engine.carry_out(
            [Run("h", ("a",), undo=("undo-a",)), Run("h", ("b",), undo=("undo-b",)), Run("h", ("fails",))], "x"
        )
    engine.undo()
    assert [argv[0] for _, argv in hosts.log] == ["a", "b", "fails", "undo-b", "undo-a"]
    assert len(engine.warnings) == 1 and "undo-b" in engine.warnings[0]


def test_undo_of_a_lost_node_is_a_warning(small: dict[str, Any]) -> None:
    site = FakeSite(Answers())
    with standing(site, build(small), ["mirror"]) as stand:
        site.labs[0].crash("a2")
    assert any("a2" in warning for warning in stand.engine.warnings)
    assert site.labs[0].closed


def test_a_timeout_names_the_command() -> None:
    def slow(host: str, argv: Argv) -> Result:
        raise HostTimeout(host, 1.0)

    engine = Engine(lab("h", answer=slow))
    with pytest.raises(CommandError, match="h: exit code -9 from: sleep 9"):
        engine.carry_out([Run("h", ("sleep", "9"), timeout=0.1)], "x")


def test_steps_are_argv_and_never_shell_text(small: dict[str, Any]) -> None:
    """A setting's value reaches the host as one argument or as a file's content, whatever it holds."""
    settings = small["stacks"]["local"]["layers"][2]["settings"]
    with pytest.raises(StudyError, match=r"settings\.application_name"):
        build({**small, "stacks": {"local": {**small["stacks"]["local"], "layers": [
            *small["stacks"]["local"]["layers"][:2],
            {"layer": "postgres", "settings": {"application_name": "$(reboot); `reboot` 'x'"}},
        ]}}})  # fmt: skip
    settings["search_path"] = "reboot (now), %reboot"
    study = build(small)
    for step in steps_of(study, "local"):
        if isinstance(step, Run):
            assert step.argv[0] not in ("sh", "bash") and "reboot" not in " ".join(step.argv)


def test_a_crash_while_standing_is_said(small: dict[str, Any]) -> None:
    site = FakeSite(Answers())
    with pytest.raises(NodeLost), standing(site, build(small), ["local"]) as stand:
        site.labs[0].crash("a1")
        stand.lab.hosts["a1"].run(["true"])
    assert isinstance(NodeLost("a1", "x"), BlocklabError)


def test_an_undo_waits_for_what_still_holds_its_device() -> None:
    """The kernel's worker let go of an MD array a moment after the mirror above it was gone; a failure of another
    kind is told at once."""
    busy = b"mdadm: Cannot get exclusive access to /dev/md0:Perhaps a running process, mounted filesystem or ..."
    asked: list[Argv] = []

    def answer(host: str, argv: Argv) -> Result:
        asked.append(argv)
        held = argv[0] == "mdadm" and asked.count(argv) < 3
        return Result(1, b"", busy) if held else Result(int(argv[0] == "umount"), b"", b"no such mount")

    stop, unmount = ("mdadm", "--stop", "/dev/md0"), ("umount", "/x")
    engine = Engine(lab("h", answer=answer))
    engine.carry_out([Run("h", ("a",), undo=stop), Run("h", ("b",), undo=unmount)], "build")
    engine.undo()
    assert asked.count(stop) == 3 and asked.count(unmount) == 1
    assert len(engine.warnings) == 1 and "no such mount" in engine.warnings[0]
