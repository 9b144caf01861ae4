"""fio's text output: the same values as in the JSON of that run, of all versions, and only of whole jobs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from blocklab.formats.found import Found
from blocklab.formats.text import Refused
from blocklab.imports import kinds
from tests.unit.golden import FOLDER

TEXTS = FOLDER / "import/fio"
NEW, OLD, CLONES = ((TEXTS / f"{name}.txt").read_text() for name in ("3.39", "2.2", "3.39-clones"))
# In the text percentiles are whole units, rounded up.
WHOLE = 1e-6


def read(folder: Path, text: str) -> Found:
    path = folder / "x.txt"
    path.write_text(text)
    assert kinds.READERS.kind_of(path) == "fio-text"
    return kinds.READERS.read(path, "fio-text")


def values(found: Found) -> dict[tuple[str, str], float]:
    return {(sample.phase, sample.metric): sample.value for sample in found.samples}


def test_text_and_json_of_one_run_say_the_same() -> None:
    text = kinds.READERS.read(TEXTS / "3.39.txt", "fio-text")
    both = kinds.READERS.read(TEXTS / "3.39.json", "fio-json")
    mine, theirs = values(text), values(both)
    # The text counts no fdatasync.
    assert theirs.keys() - mine.keys() == {("mixed", "sync.ios")} and mine.keys() <= theirs.keys()
    for (phase, metric), value in mine.items():
        exact = theirs[phase, metric]
        if re.search(r"\.p\d", metric):
            assert exact - 1e-12 <= value <= exact * 1.001 + WHOLE, (phase, metric)
        else:
            # The greatest is a whole unit, too, or has five digits.
            whole = WHOLE if metric.endswith(".max") else 1e-12
            assert value == pytest.approx(exact, rel=0.001, abs=whole), (phase, metric)
    assert text.jobs == both.jobs
    assert {name: shape["rw"] for name, shape in text.shapes.items()} == {
        "mixed": "randrw", "seq-write": "write", "rand read": "randread"
    }  # fmt: skip
    assert text.shapes["mixed"]["numjobs"] == "2" and text.shapes["seq-write"]["bs"] == "64k"
    assert abs(int(text.shapes["mixed"]["rwmixread"]) - 70) <= 1


def test_text_of_fio_2_has_other_units(tmp_path: Path) -> None:
    found = read(tmp_path, OLD)
    mine = values(found)
    assert mine["warm", "read.iops"] == pytest.approx(234386 / 10.001)
    assert mine["warm", "read.bandwidth"] == pytest.approx(234386 * 4096 / 10.001)
    assert mine["warm", "read.latency.mean"] == pytest.approx(2728.81e-6)
    assert mine["mixed", "read.latency.mean"] == pytest.approx(20.26e-3)
    assert mine["mixed", "read.latency.p99"] == pytest.approx(69e-3)
    assert mine["mixed", "write.latency.p99"] == pytest.approx(52480e-6)
    assert mine["mixed", "write.bytes"] == 151 * 16384
    assert found.shapes["warm"] == {"rw": "randread", "bs": "4k", "iodepth": "16", "numjobs": "4"}
    assert found.jobs == ("warm",) * 4 + ("mixed",) and found.major == 2
    # It was printed when the last group ended.
    assert found.clock is not None
    ends = [stamp.seconds for stamp in found.clock.stamps]
    assert max(ends) == 9 * 3600 + 15 * 60 + 40 and min(ends) == pytest.approx(max(ends) - 20.012)


def test_clones_in_text_are_added_up(tmp_path: Path) -> None:
    mine = values(read(tmp_path, CLONES))
    assert mine["clone", "read.ios"] == sum(map(int, re.findall(r"issued rwts: total=(\d+),", CLONES)))
    assert ("clone", "read.latency.p99") not in mine
    one = CLONES.split("\n\nclone: (groupid=0")[0]
    begun = [at.start() for at in re.finditer(r"^clone: \(groupid", CLONES, re.MULTILINE)]
    assert len(begun) == 2 and one
    with pytest.raises(Refused, match="not all of the jobs that were started are there"):
        read(tmp_path, CLONES[: begun[1]])


def test_a_job_that_failed_or_was_cut_is_left_out(tmp_path: Path) -> None:
    failed = NEW.replace("seq-write: (groupid=1, jobs=1): err= 0:", (
        "seq-write: (groupid=1, jobs=1): err= 5 (file:io_u.c:1889, func=io_u error, error=Input/output error):"
    ))  # fmt: skip
    found = read(tmp_path, failed)
    assert {phase for phase, _ in values(found)} == {"mixed", "rand read"}
    assert "job seq-write ended with error 5: left out" in found.remarks
    found = read(tmp_path, NEW[: NEW.index("rand read: (groupid=2") + 400])
    assert "job rand read lacks its last lines: left out" in found.remarks


def test_reports_of_one_run_count_once_and_two_runs_are_refused(tmp_path: Path) -> None:
    start, end = NEW.index("mixed: (groupid=0"), NEW.index("Run status group 0")
    found = read(tmp_path, NEW[:end] + NEW[start:])
    assert values(found) == values(read(tmp_path, NEW))
    assert any("--status-interval" in remark for remark in found.remarks)
    with pytest.raises(Refused, match="holds 2 runs"):
        read(tmp_path, NEW + NEW)


def test_without_what_fio_says_first_there_are_values_and_no_options(tmp_path: Path) -> None:
    found = read(tmp_path, NEW[NEW.index("mixed: (groupid=0") :])
    assert found.shapes == {} and len(found.phases) == 3
    assert values(found)["seq-write", "write.bandwidth"] == pytest.approx(
        values(read(tmp_path, NEW))["seq-write", "write.bandwidth"], rel=0.005
    )
