"""Files of every kind as they get damaged: no traceback, and no value that a damaged row made."""

from __future__ import annotations

import math
import random
import re
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklab.errors import StudyError
from blocklab.formats.found import Found
from blocklab.formats.load.fio import log_file
from blocklab.formats.text import Refused
from blocklab.imports import kinds
from tests.unit.import_checks import samples
from tests.unit.import_kinds import Sample, every_kind

SAMPLES = every_kind()
# Their values are counts, means and percentiles over many rows: without some of these they are others. A summary's
# values, and each row's own, are always those of the whole file.
OVER_ROWS = {
    *(f"fio-{kind}" for kind in log_file.KINDS), "pgbench-log", "pgbench-aggregate", "pgbench-progress", "go-tpc",
    "jdbcrunner", "fio-text",
}  # fmt: skip
WIDE = str.maketrans("0123456789", "０１２３４５６７８９")
# A number that lost its last digits is still one: only of tables with fixed decimals or widths this can be seen.
FIXED = {"iostat", "sar", "dstat", "vmstat"}
# Rows of one tool among those of another run of it are rows.
ALIKE = (
    {"iostat", "iostat-json"}, {"sar", "sadf-json", "sadf-csv"}, {f"fio-{kind}" for kind in log_file.KINDS},
    {"vmstat"}, {"dstat", "dstat-csv"}, {"pgbench", "pgbench-log", "pgbench-progress"}, {"hammerdb-counter"},
    {"hammerdb"}, {"hammerdb-profile"}, {"pgbench-aggregate"}, {"go-tpc"}, {"sysbench"}, {"jdbcrunner"},
    {"fio-json"}, {"fio-text"},
)  # fmt: skip
Values = dict[str, set[float]]


def test_there_is_a_sample_of_every_kind() -> None:
    assert {sample.kind for sample in SAMPLES} == set(kinds.KINDS)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.kind)
def test_every_kind_is_told_from_the_others(sample: Sample, tmp_path: Path) -> None:
    path = tmp_path / sample.name
    path.write_text(sample.text)
    assert kinds.READERS.kind_of(path) == sample.kind
    found = kinds.READERS.read(path, sample.kind)
    assert found.kind == sample.kind and found.rows and not found.bad


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damage_never_ends_in_anything_but_a_reason(data: st.DataObject) -> None:
    """Cut anywhere, with a piece gone or something strange in between; with other line ends, decimal marks and
    digits, and with lines of another file."""
    sample = data.draw(st.sampled_from(SAMPLES))
    text = sample.text
    start, end = sorted(data.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
    strange = data.draw(
        st.sampled_from(["", "\n", "|", ",", " 7 ", "[{", "\ufffd", "nan", "-1", "7" * 20, "七", "７", "\x00"])
    )
    text = text[:start] + strange + text[end if data.draw(st.booleans()) else start :]
    match data.draw(st.integers(0, 4)):
        case 1:
            text = text.replace("\n", "\r\n")
        case 2:
            text = text.replace(".", ",")
        case 3:
            text = text.translate(WIDE)
        case 4:
            other = data.draw(st.sampled_from(SAMPLES)).text
            text = "".join(f"{a}\n{b}\n" for a, b in zip(text.split("\n"), other.split("\n"), strict=False))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / sample.name
        path.write_text(text)
        try:
            found = kinds.READERS.read(path, sample.kind)
        except Refused as reason:
            assert str(reason)
        else:
            assert found.rows and all(math.isfinite(sample.value) for sample in samples(found))


def test_no_value_of_2000_damaged_files_is_of_a_damaged_row(tmp_path: Path) -> None:
    """Every value is one of the whole file; of kinds whose values are made of many rows it may be that of the file
    without its damaged rows."""
    draw = random.Random(19)
    path = tmp_path / "x"
    known = [values(read(tmp_path, sample, sample.text)) for sample in SAMPLES]
    ended: Counter[str] = Counter()
    for number in range(2000):
        sample = SAMPLES[number % len(SAMPLES)]
        text, left = damaged(sample, draw.choice(others(sample)).text, draw)
        try:
            found = read(tmp_path, sample, text)
        except Refused as reason:
            assert str(reason)
            ended["refused"] += 1
            continue
        allowed = known[number % len(SAMPLES)]
        if sample.kind in OVER_ROWS:
            try:
                allowed = values(read(tmp_path, sample, left))
            except Refused:
                allowed = {}
            if sample.kind == "fio-text":
                # Without the line that tells the size of its I/Os bandwidth has the digits that fio prints.
                for key, more in values(read(tmp_path, sample, unset(sample.text))).items():
                    allowed[key] = allowed.get(key, set()) | more
            allowed = {key: allowed.get(key, set()) | known[number % len(SAMPLES)].get(key, set())
                       for key in {*allowed, *known[number % len(SAMPLES)]}}  # fmt: skip
        ended["read"] += 1
        for key, mine in values(found).items():
            assert mine <= allowed.get(key, set()), (sample.kind, number, key, mine - allowed.get(key, set()))
    assert ended["read"] > 1000 and ended["refused"] > 100
    assert not path.exists()


def read(folder: Path, sample: Sample, text: str) -> Found:
    path = folder / sample.name
    path.write_text(text)
    return kinds.READERS.read(path, sample.kind)


def values(found: Found) -> Values:
    kept: Values = {}
    for each in samples(found):
        # A kind of transactions whose name is damaged has another one.
        name = each.metric.partition(".")[2] or each.metric if found.kind == "jdbcrunner" else each.metric
        kept.setdefault(name, set()).add(round(each.value, 9))
    return kept


def unset(text: str) -> str:
    """fio's text without the lines on how its jobs are set up."""
    return "".join(line for line in text.splitlines(keepends=True) if ": (g=" not in line)


def others(sample: Sample) -> list[Sample]:
    """Those of other tools."""
    (alike,) = [kinds for kinds in ALIKE if sample.kind in kinds]
    return [each for each in SAMPLES if each.kind not in alike]


def damaged(sample: Sample, other: str, draw: random.Random) -> tuple[str, str]:
    """The text with one of the things that happen to files, and the same without the lines that were damaged."""
    lines = sample.text.splitlines(keepends=True)
    # Without its first line nobody knows that iostat's first report counts from the boot on.
    hit = [draw.random() < 0.1 and (number > 0 or sample.kind != "iostat") for number in range(len(lines))]
    left = "".join(line for line, bad in zip(lines, hit, strict=True) if not bad)
    match draw.randrange(9):
        case 0:
            end = draw.randrange(len(sample.text) + 1)
            return sample.text[:end], sample.text[: sample.text.rfind("\n", 0, end) + 1]
        case 1:
            return left, left
        case 2:
            short = [
                shortened(line, sample.kind, draw) if bad else line for line, bad in zip(lines, hit, strict=True)
            ]
            return "".join(short), left
        case 3:
            strange = [line for line in other.splitlines() if line.strip()]
            glued = [
                f"{line[: draw.randrange(len(line))]}{draw.choice(strange)}\n" if bad else line
                for line, bad in zip(lines, hit, strict=True)
            ]
            return "".join(glued), left
        case 4:
            return sample.text.replace("\n", "\r\n"), sample.text
        case 5:
            return re.sub(r"(?<=\d)\.(?=\d)", ",", sample.text), sample.text
        case 6:
            wide = [line.translate(WIDE) if bad else line for line, bad in zip(lines, hit, strict=True)]
            return "".join(wide), left
        case 7:
            junk = [spoiled(line, draw) if bad else line for line, bad in zip(lines, hit, strict=True)]
            return "".join(junk), left
        case _:
            strange = other.splitlines(keepends=True)
            mixed = [
                f"{line}{draw.choice(strange)}" if bad else line for line, bad in zip(lines, hit, strict=True)
            ]
            return "".join(mixed), sample.text


def shortened(line: str, kind: str, draw: random.Random) -> str:
    """A line without its end; the last columns of logs are not all needed."""
    ends = [at for at, letter in enumerate(line) if kind in FIXED or letter in " ,;/"]
    ends = ends[: len(ends) // 2 + 1] if kind in OVER_ROWS else ends
    return f"{line[: draw.choice(ends)]}\n" if ends else line


def spoiled(line: str, draw: random.Random) -> str:
    """A line with one character that is another one; not a digit or a blank, which would make another number."""
    at = draw.randrange(max(1, len(line) - 1))
    return line[:at] + draw.choice("x<:#\ufffd七") + line[at + 1 :]


@pytest.mark.parametrize("kind", ["letter", "html"])
def test_what_may_be_several_kinds_is_asked_for(kind: str, tmp_path: Path) -> None:
    """Two outputs in one file are no kind of their own."""
    path = tmp_path / "x.txt"
    path.write_text(SAMPLES[1].text + next(each.text for each in SAMPLES if each.kind == "vmstat"))
    with pytest.raises(StudyError, match="it may be"):
        kinds.READERS.kind_of(path)
