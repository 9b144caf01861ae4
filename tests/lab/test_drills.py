"""Drills on real nodes: what must be lost is told as lost, what must be kept as kept, and what cannot be read as
unknown. The last ones prove that the check can fail."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from blocklab.errors import CommandError, NodeLost
from blocklab.model.drill import Drill, Ledger
from blocklab.model.host import must
from blocklab.model.plan import Run as Step
from blocklab.runner.aftermath import Aftermath
from blocklab.runner.run import run_study
from blocklab.runner.strikes import Counters, Strikes
from blocklab.runner.workshop import Turn
from blocklab.sites.uml.site import UmlSite
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.store.run import Run
from blocklab.study.grid import cells
from blocklab.study.read import build
from blocklab.workloads import Ledger as LedgerWorkload
from tests.fake.runs import Silent
from tests.uml import uml

BASE: dict[str, Any] = {
    "blocklab": 2,
    "name": "drills",
    "question": "What is lost?",
    "nodes": {"a1": {"memory": "512MiB"}, "a2": {"memory": "512MiB"}, "c1": {"memory": "192MiB"}},
    "links": {
        "beat": {"between": ["a1", "a2"]},
        "pair": {"between": ["a1", "a2"], "rtt": "0.5ms"},
        "front": {"between": ["c1", "a1"]},
        "back": {"between": ["c1", "a2"]},
    },
    "workloads": {"ledger": {"workload": "ledger", "from": "c1", "clients": 8, "after": "1s"}},
    "faults": {"kill": {"fault": "crash", "at": "2s..3s"}},
    # A busy machine may answer late several times in a row.
    "takeover": {"misses": 8},
}
# Both sides are compared byte by byte.
VOLUME = {"layer": "volume", "size": "240MiB"}
MARIADB: dict[str, Any] = {
    "layer": "mariadb",
    "settings": {
        "log_bin": True,
        "innodb_log_file_size": "32M",
        "sync_binlog": 0,
        "innodb_flush_log_at_trx_commit": 1,
    },
}


def study(database: dict[str, Any], *middle: dict[str, Any], **changes: Any) -> dict[str, Any]:
    raw = copy.deepcopy(BASE)
    raw["stacks"] = {"s": {"on": "a1", "layers": [VOLUME, *middle, {"layer": "ext4"}, database]}}
    for path, value in changes.items():
        at: Any = raw
        *way, last = path.split("__")
        for name in way:
            at = at.setdefault(name, {})
        at[last] = value
    return raw


def drbd(protocol: str = "C") -> dict[str, Any]:
    return {"layer": "drbd", "peer": "a2", "link": "pair", "protocol": protocol}


def drilled(raw: dict[str, Any], folder: Path) -> tuple[Run, Drill, Silent]:
    what = build(raw)
    grid = cells(what)
    there, progress = StudyFolder.create(folder, Manifest(what, grid)), Silent()
    bad = run_study(UmlSite(), what, grid, there, progress, 1)
    (run,) = there.runs()
    assert bad == 0, run.outcome.error
    assert run.drill is not None and progress.drills == [run.drill]
    return run, run.drill, progress


def test_a_synchronous_mirror_loses_nothing_and_takes_over(tmp_path: Path) -> None:
    run, drill, progress = drilled(study({"layer": "postgres"}, drbd()), tmp_path)
    verdict = drill.verdict
    assert (verdict.status, verdict.why, progress.warnings) == ("ok", "", [])
    assert verdict.acknowledged > 10 and verdict.missing == ()
    assert drill.took_over and drill.survivor == "a2" and drill.servers == ("a1", "a2")
    # Nobody told blocklab: the monitor saw it, after the fault.
    (dead,) = (event.time for event in drill.events if event.what == "dead")
    assert drill.struck is not None and dead > drill.struck
    # The parts are the outage, without a gap.
    names = [stage.name for stage in drill.stages]
    assert names == ["detection", "fencing", "promotion", "mount", "recovery", "first commit"]
    assert verdict.rto_seconds == pytest.approx(sum(stage.end - stage.start for stage in drill.stages))
    # The old primary came back and both sides are the same.
    assert drill.mirror is not None and (drill.mirror.status, drill.mirror.verified) == ("in sync", None)
    assert len(set(drill.mirror.copies.values())) == 1 and set(drill.mirror.copies) == {"a1", "a2"}
    # Its throughput is that before the fault.
    tps = run.value("tps")
    assert tps is not None and drill.rate == tps.value > 0
    assert sum(each.acknowledged for each in drill.bins) == verdict.acknowledged


@pytest.mark.long
def test_an_asynchronous_mirror_loses_what_is_under_way(tmp_path: Path) -> None:
    """Of a database that flushes all by itself: what is lost is the mirror's doing."""
    database = {**MARIADB, "settings": {**MARIADB["settings"], "sync_binlog": 1}}
    raw = study(database, drbd("A"), links__pair__rtt="80ms", workloads__ledger__clients=16)
    _, drill, _ = drilled(raw, tmp_path)
    verdict = drill.verdict
    assert verdict.status == "lost" and "gone" in verdict.why
    assert verdict.missing and verdict.rpo_seconds is not None
    assert verdict.last is not None
    assert all(each.acknowledged <= verdict.last for each in verdict.missing)
    assert verdict.binlog is not None and verdict.binlog.status != "unknown"


@pytest.mark.long
def test_without_a_survivor_nothing_takes_over_but_what_is_left_is_counted(tmp_path: Path) -> None:
    raw = study({"layer": "postgres", "settings": {"synchronous_commit": False}})
    raw["nodes"].pop("a2")
    raw["links"] = {"front": raw["links"]["front"]}
    _, drill, _ = drilled(raw, tmp_path)
    assert (drill.survivor, drill.took_over, drill.stages, drill.mirror) == ("", False, (), None)
    # What the server had only told its own memory is gone with it.
    assert drill.verdict.status == "lost" and drill.verdict.rto_seconds is None


@pytest.mark.long
def test_an_unfenced_primary_that_comes_back_is_caught(tmp_path: Path) -> None:
    raw = study(
        {"layer": "postgres"}, drbd(), takeover={"fence": False},
        faults={"pause": {"fault": "freeze", "at": "2s", "for": "4s"}}, workloads__ledger__after="3s",
    )  # fmt: skip
    _, drill, _ = drilled(raw, tmp_path)
    assert drill.took_over and drill.mirror is not None and drill.mirror.status == "split brain"


@pytest.mark.long
def test_a_database_that_cannot_be_read_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Aftermath.ledger

    def killed(self: Aftermath, workload: LedgerWorkload) -> tuple[Ledger | None, str]:
        self._engine.carry_out([Step("a2", ("killall", "-9", "postgres"))], "planted")
        return read(self, workload)

    monkeypatch.setattr(Aftermath, "ledger", killed)
    _, drill, _ = drilled(study({"layer": "postgres"}, drbd()), tmp_path)
    assert drill.verdict.status == "unknown" and drill.verdict.why


@pytest.mark.long
def test_a_planted_loss_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Aftermath.ledger

    def robbed(self: Aftermath, workload: LedgerWorkload) -> tuple[Ledger | None, str]:
        ledger, why = read(self, workload)
        assert ledger is not None
        rows = dict(ledger.rows)
        del rows[sorted(rows)[len(rows) // 2]]
        return Ledger(rows, ledger.tally, ledger.binlog), why

    monkeypatch.setattr(Aftermath, "ledger", robbed)
    _, drill, _ = drilled(study(MARIADB, {"layer": "shared", "peer": "a2"}), tmp_path)
    assert drill.verdict.status == "lost"
    assert drill.verdict.torn, "its worker counted one more than there are"


@pytest.mark.long
def test_a_crashed_peer_is_no_outage(tmp_path: Path) -> None:
    raw = study({"layer": "postgres"}, drbd(), faults={"kill": {"fault": "crash", "node": "peer", "at": "1s"}})
    _, drill, _ = drilled(raw, tmp_path)
    assert not drill.took_over and drill.verdict.status == "ok"
    assert drill.mirror is not None and drill.mirror.status == "in sync"


@pytest.mark.long
def test_a_power_cut_of_both_nodes(tmp_path: Path) -> None:
    raw = study({"layer": "postgres"}, drbd(), faults={"dark": {"fault": "power-cut", "at": "2s"}})
    _, drill, _ = drilled(raw, tmp_path)
    assert not drill.took_over and drill.verdict.rto_seconds is None
    assert drill.verdict.status == "ok" and drill.verdict.acknowledged > 10
    assert drill.mirror is not None and drill.mirror.status == "in sync"


@pytest.mark.long
def test_a_client_that_is_lost_ends_the_drill_as_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = study({"layer": "postgres"}, drbd(), faults={"pause": {"fault": "freeze", "at": "1s", "for": "600s"}})
    what = build(raw)
    grid = cells(what)
    there, progress = StudyFolder.create(tmp_path, Manifest(what, grid)), Silent()
    monkeypatch.setattr("blocklab.runner.drill.Drilling._successor", _end_client)
    bad = run_study(UmlSite(), what, grid, there, progress, 1)
    (run,) = there.runs()
    assert bad == 1 and run.outcome.status == "failed" and "c1" in run.outcome.error and run.drill is None


@pytest.mark.long
def test_a_drill_whose_client_dies_leaves_nodes_and_links_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They go on: the link's far end has no netem of its own, and nothing can be undone on a frozen node."""
    faults = {
        "lossy": {"fault": "link-loss", "link": "front", "loss": "50%", "at": "1s"},
        "pause": {"fault": "freeze", "node": "active", "at": "1s"},
    }
    raw = study({"layer": "postgres"}, links__front__rtt="2ms", faults=faults)
    raw["repeats"] = 2
    what = build(raw)
    grid = cells(what)
    there, progress, seen = StudyFolder.create(tmp_path, Manifest(what, grid)), Silent(), []
    looked = Strikes.look

    def look(self: Strikes, counters: Counters) -> list[tuple[str, float]]:
        found = looked(self, counters)
        if found and self.last is not None:
            raise CommandError("c1", ("blocklab-ledger",), 1, "it ended too early")
        return found

    def clear(self: Turn) -> None:
        if self._stand is not None:
            hosts = self._lab.hosts
            seen.append([must(hosts[name], ("tc", "qdisc", "show"), timeout=5.0) for name in ("c1", "a1")])
        cleared(self)

    cleared = Turn.clear
    monkeypatch.setattr(Strikes, "look", look)
    monkeypatch.setattr(Turn, "clear", clear)
    assert run_study(UmlSite(), what, grid, there, progress, 1) == 2
    assert {run.outcome.error.splitlines()[-1].strip() for run in there.runs()} == {"it ended too early"}
    # When the data had been loaded, and after each cell: of nodes that answer.
    assert [("netem" in client, "netem" in server) for client, server in seen] == [(True, False)] * 3
    assert not any("loss" in text for texts in seen for text in texts)
    assert not any("could not" in each for each in progress.warnings)


def _end_client(self: Any) -> bool:
    uml(self._stand).crash("c1")
    raise NodeLost("c1", "crashed on purpose")
