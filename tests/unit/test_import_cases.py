"""Inputs that came out wrong once, in the formats of real tools: what each of them is to come to.

They are in a folder beside the repository, each in a folder of its own with a README, and are no part of it. A case
is a row: the command as its README has it, the values that it must give, what it must say, and what it must not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from blocklab.cli.main import app
from blocklab.stats.analysis import analyse
from blocklab.store.folder import StudyFolder

CASES = Path(__file__).parents[3] / "shared/data/cases"


class Case(msgspec.Struct, frozen=True):
    """``command`` is what stands behind ``blocklab``, in the folder of the case; ``import`` needs no ``--runs``.

    ``values``: of an import, by ``WORKLOAD METRIC``, with the phase between them where there is one, at the stack
    ``local``. ``says`` and ``silent`` are patterns that are searched in all that was printed, with single blanks.
    ``code`` is that of the exit.
    """

    name: str
    command: str
    values: Mapping[str, float] = {}
    says: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    code: int = 0


# What ran a workload, or watched a host for one: fio, pgbench, sysbench, go-tpc, dstat.
WORKLOADS = (
    Case(
        "01-warmup-sysbench", "import --stack local=s",
        {"sysbench tps": 90.0, "sysbench qps": 1800.0, "sysbench transactions": 5400, "sysbench tps.steady": 100.0},
        (r"90\.0 TPS over all of its time, 100 ± 0\.3 TPS without the first 15 s",),
    ),
    Case(
        "03-warmup-pgbench-progress", "import --stack local=s", {"pgbench tps": 90.0, "pgbench tps.steady": 100.0},
        ("means over its 60 lines of -P",),
    ),
)  # fmt: skip
# What watched devices and hosts: iostat, sar, sadf, /proc/diskstats.
DEVICES: tuple[Case, ...] = ()
# What a database counts: status, InnoDB, AWR.
DATABASES: tuple[Case, ...] = ()
ALL = (*WORKLOADS, *DEVICES, *DATABASES)


@pytest.mark.parametrize("case", ALL, ids=lambda case: f"{case.name} {case.command}".replace(" ", "_"))
def test_a_case_comes_out_right(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = CASES / case.name
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there: an input that came out wrong once")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "200")
    command, runs = case.command.split(), tmp_path / "runs"
    done = CliRunner().invoke(app, [*command, *(["--runs", str(runs)] if command[0] == "import" else [])])
    printed = " ".join(done.output.split()) + f" {done.exception or ''}"
    assert done.exit_code == case.code, printed
    for pattern in case.says:
        assert re.search(pattern, printed), (pattern, printed)
    for pattern in case.silent:
        assert not re.search(pattern, printed), (pattern, printed)
    if case.values:
        assert _values(runs, case.values) == pytest.approx(dict(case.values), rel=0.005)


def _values(runs: Path, names: Mapping[str, float]) -> dict[str, float]:
    """Those of the one study below ``runs``; of a value that is not there NaN."""
    (folder,) = (place for place in runs.iterdir() if place.is_dir())
    analysis = analyse(StudyFolder(folder))
    found = {}
    for name in names:
        workload, *phase, metric = name.split()
        row = analysis.find("local", workload, metric, *phase)
        found[name] = float("nan") if row is None else row.value
    return found
