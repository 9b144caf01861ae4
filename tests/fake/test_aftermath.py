"""What is done on a stack after its drill, on hosts that answer as a test says."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from blocklab.model import node_programs
from blocklab.model.host import Result
from blocklab.model.plan import Argv
from blocklab.runner.aftermath import Aftermath
from blocklab.runner.drill import Drilling
from blocklab.runner.engine import Engine
from blocklab.sites.fake import FakeSite
from blocklab.study.grid import topology
from blocklab.study.phases import ABOVE, Mark
from blocklab.study.read import build
from tests.fake.drilled import FULL, KILL, Drilled, drilled, study

VOLUME = {"layer": "volume", "size": "512MiB"}
NET = {"layer": "net-mirror", "peer": "a2", "link": "zone"}
DRBD = {"layer": "drbd", "peer": "a2", "link": "zone"}
SUM = node_programs.path("checksum")
TOP = [{"layer": "ext4"}, {"layer": "postgres"}]


class Stood:
    """A stack that stands on a1 and a2. ``says``: how a command with this word ends."""

    def __init__(self, small: dict[str, Any], layers: list[dict[str, Any]], folder: Path, **faults: Any) -> None:
        small["stacks"], small["baseline"] = {"one": {"on": "a1", "layers": layers}}, "one"
        small["links"]["back"] = {"between": ["a2", "b1"]}
        small["workloads"] = {"writes": {"workload": "ledger", "from": "b1"}}
        small["faults"] = faults or {"kill": KILL}
        what = build(small)
        shape = topology(what, ["one"])
        site = FakeSite(self._answer)
        self.lab, ground = site.start(shape), site.ground(shape)
        serves = " ".join(f"{end.address}:10809" for end in ground.ends.get("zone", {}).values())
        self.says: dict[str, Result] = {
            "differ": _said("0"), SUM: _said("abc"), "-Hltn": _said(serves),
        }  # fmt: skip
        self.other: dict[str, Result] = {}
        """Of nodes whose checksum is another one."""
        stand = SimpleNamespace(engine=Engine(self.lab), ground=ground)
        stand.engine.go(Mark(f"{ABOVE} one"))
        self.after = Aftermath(stand, what, "one", folder)  # type: ignore[arg-type]

    def _answer(self, host: str, argv: Argv) -> Result:
        if SUM in argv and host in self.other:
            return self.other[host]
        return next((result for word, result in self.says.items() if word in argv), _said(""))

    def at(self, host: str, *words: str) -> list[int]:
        """Where in the log it was told commands with all of these words."""
        log = enumerate(self.lab.log)
        return [i for i, (who, argv) in log if who == host and all(word in argv for word in words)]


def _said(text: str) -> Result:
    return Result(0, text.encode(), b"")


def test_a_leg_that_was_given_up_is_taken_in_and_then_compared(small: dict[str, Any], tmp_path: Path) -> None:
    """Both nodes live; the link between them was cut for longer than the mirror waits."""
    it = Stood(small, [VOLUME, NET, *TOP], tmp_path)
    it.says["lone"] = _said("md300 goes on without nbd0")
    mirror = it.after.mirror(())
    assert mirror is not None and (mirror.status, mirror.why) == ("in sync", "")
    (stopped,) = it.at("a2", "--stop")
    (served,) = it.at("a2", "nbd-server", "-C")
    (joined,), (summed,) = it.at("a1", "join"), it.at("a1", SUM)
    assert stopped < served < joined < summed


def test_a_mirror_that_is_whole_is_left_as_it_is(small: dict[str, Any], tmp_path: Path) -> None:
    it = Stood(small, [VOLUME, NET, *TOP], tmp_path)
    mirror = it.after.mirror(())
    assert mirror is not None and mirror.status == "in sync"
    assert not it.at("a1", "join") and not it.at("a2", "--stop")
    # The checksums are the same, so the mirror is not asked to compare all of its data itself.
    assert it.at("a1", SUM) and it.at("a2", SUM) and not it.at("a1", "check") and mirror.verified is None


def test_where_the_checksums_differ_the_mirror_says_by_how_much(small: dict[str, Any], tmp_path: Path) -> None:
    it = Stood(small, [VOLUME, NET, *TOP], tmp_path)
    it.says["differ"] = _said("65536")
    it.other["a2"] = _said("abd")
    mirror = it.after.mirror(())
    assert mirror is not None and (mirror.status, mirror.verified) == ("differs", 65536)
    assert mirror.copies == {"a1": "abc", "a2": "abd"} and "by the mirror itself 65,536 bytes" in mirror.why
    (check,), (summed,) = it.at("a1", "check"), it.at("a2", SUM)
    assert summed < check


def test_the_reason_why_a_mirror_cannot_be_joined_is_the_first_one(small: dict[str, Any], tmp_path: Path) -> None:
    it = Stood(small, [VOLUME, DRBD, *TOP], tmp_path)
    it.says["adjust"] = Result(10, b"", b"no such resource\n")
    it.says["parted"] = Result(2, b"", b"can't open file '/run/blocklab/one-drbd.py'\n")
    it.after.dead.add("a2")
    it.lab.crash("a2")
    mirror = it.after.mirror(("a2",))
    assert mirror is not None and mirror.status == "unknown"
    assert "no such resource" in mirror.why and "can't open" not in mirror.why
    # Where it can be told, it is.
    it.says["parted"] = _said("Split-Brain detected")
    mirror = it.after.mirror(("a2",))
    assert mirror is not None and mirror.status == "split brain" and "no such resource" in mirror.why


def test_a_full_disk_has_room_before_its_database_starts_again(small: dict[str, Any], tmp_path: Path) -> None:
    it = Stood(small, [VOLUME, *TOP], tmp_path, full=FULL, kill={"fault": "crash", "at": "1s"})
    it.after.restart()
    (mounted,) = it.at("a1", "mount")
    (room,) = it.at("a1", "rm", "-f", "/mnt/one/blocklab-fill")
    started = [i for i, (_, argv) in enumerate(it.lab.log) if "pg_ctl" in " ".join(argv) and "start" in argv]
    assert started and mounted < room < started[0]


def test_what_the_monitor_says_cannot_cost_the_history(
    small: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Drilling._history

    def garbled(self: Drilling) -> Any:
        with (self._raw / "monitor" / "stdout").open("ab") as file:
            file.write(b"garbage\n")
        return read(self)

    monkeypatch.setattr(Drilling, "_history", garbled)
    progress, _, outcome = drilled(study(small, "mirror", kill=KILL), tmp_path, Drilled())
    (drill,) = progress.drills
    assert outcome.status == "ok" and drill.bins and drill.verdict.acknowledged > 0
    assert any("monitor" in each and "garbage" in each for each in progress.warnings)
