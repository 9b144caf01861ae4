"""The readers as a library of their own: the example of their README, each file one kind of all, a reader more,
what a collector put before lines."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from blocklab import formats
from blocklab.formats.found import Found, found_in
from blocklab.formats.gather import File, Readers
from blocklab.formats.kind import Kind
from blocklab.formats.kinds import KINDS
from blocklab.formats.looks import LOOKS
from blocklab.formats.text import Text
from blocklab.model.sample import Sample
from tests.unit.golden import FOLDER
from tests.unit.import_checks import times
from tests.unit.import_kinds import Sample as Sampled
from tests.unit.import_kinds import every_kind

README = Path(formats.__file__).parent / "README.md"
READERS = Readers(KINDS, LOOKS)
STATISTICS = sorted(path for path in (FOLDER / "sizing").rglob("*") if path.is_file() and path.name != "README.md")
VMSTAT = (FOLDER / "import" / "vmstat.txt").read_text()
IOSTAT = (FOLDER / "sizing" / "iostat" / "timed.txt").read_text()


def read(path: Path, text: str) -> Found:
    path.write_text(text)
    return READERS.read(path, READERS.kind_of(path))


def test_the_example_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "iostat.txt").write_text(IOSTAT)
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    exec(example, {})
    printed = capsys.readouterr().out
    assert "'read.iops': '1/s'" in printed and "rows, 0 left out" in printed


@pytest.mark.parametrize("sample", every_kind(), ids=lambda sample: sample.kind)
def test_a_load_tools_file_is_its_kind_of_all(sample: Sampled, tmp_path: Path) -> None:
    path = tmp_path / sample.name
    path.write_text(sample.text)
    assert READERS.kind_of(path) == sample.kind


@pytest.mark.parametrize("path", STATISTICS, ids=lambda path: path.name)
def test_statistics_are_no_load_tools_file(path: Path) -> None:
    start = path.read_text(errors="replace")
    assert len([name for name, kind in KINDS.items() if kind.fits(start)]) <= 1


def test_another_reader_is_one_kind_more(tmp_path: Path) -> None:
    def toy(text: Text) -> Found:
        samples = tuple(
            Sample("tps", float(line.removeprefix("toy ")), "1/s", "toy", "") for _, _, line in text.every()
        )
        return found_in(text, "toy", bad=(), rows=len(samples), tool="toy", samples=samples)

    readers = Readers({**KINDS, "toy": Kind("a toy", lambda head: head.startswith("toy "), toy)}, LOOKS)
    (tmp_path / "x").write_text("db1 | toy 1\ndb1 | toy 2\ndb1 | toy 3\n")
    files = [File(path=tmp_path / "x")]
    readers.gather(files, {})
    found = files[0].found
    assert found is not None and [sample.value for sample in found.samples] == [1, 2, 3]
    assert found.remarks == ("each of its lines begins with 'db1 | ': taken off",)


@pytest.mark.parametrize(
    ("before", "shown"),
    [
        (lambda line: "iostat-1  | ", "'iostat-1  | '"),
        (lambda line: "[pod/x7/iostat] ", "'[pod/x7/iostat] '"),
        (lambda line: "[root@db1:22] out: ", "'[root@db1:22] out: '"),
    ],
)
@pytest.mark.parametrize("text", [IOSTAT, VMSTAT], ids=["iostat", "vmstat"])
def test_lines_of_another_program_are_left_out_and_counted(
    text: str, before: Callable[[int], str], shown: str, tmp_path: Path
) -> None:
    """Of files that are read line by line, too."""
    plain = read(tmp_path / "plain", text)
    mixed = "".join(
        f"{before(at)}{line}\n" + ("db-1       | LOG:  checkpoint complete\n" if at % 2 else "")
        for at, line in enumerate(text.splitlines())
    )
    found = read(tmp_path / "mixed", mixed)
    assert (found.kind, found.rows, found.bad) == (plain.kind, plain.rows, plain.bad)
    assert f"each of its lines begins with {shown}: taken off" in found.remarks
    count = len(text.splitlines()) // 2
    assert f"{count} lines that do not (the first is line 3) are left out" in found.remarks


@pytest.mark.parametrize("name", ["import/sar.txt", "sizing/sar/sadf.json", "sizing/sar/sadf.csv"])
def test_what_journalctl_puts_before_each_line_is_taken_off(name: str, tmp_path: Path) -> None:
    """A time and a name with a number; a shorter or a longer part of it would do for the reader, too."""
    text = (FOLDER / name).read_text()
    plain = read(tmp_path / "plain", text)
    lines = (f"Mar 01 10:00:{at % 60:02} db1 sadc[123]: {line}\n" for at, line in enumerate(text.splitlines()))
    found = read(tmp_path / "journal", "".join(lines))
    assert (found.kind, found.rows, found.bad) == (plain.kind, plain.rows, plain.bad)
    assert times(found) == times(plain)


def test_times_beside_lines_of_another_program_are_those_of_the_reports(tmp_path: Path) -> None:
    lines = [line for line in VMSTAT.splitlines() if line.strip()]
    mixed = "".join(
        f"vmstat-1  | 2024-03-01T10:00:{5 * at:02}.5Z {line}\ndb-1  | 2024-03-01T10:00:{5 * at:02}.6Z LOG:  x\n"
        for at, line in enumerate(lines)
    )
    found = read(tmp_path / "mixed", mixed)
    assert found.kind == "vmstat" and not found.untimed and not found.bad
    steps = {after - before for before, after in pairwise(times(found))}
    assert steps == {5.0} and found.rows == len(lines) - 2


def test_whether_a_report_may_be_since_the_boot_is_a_field(tmp_path: Path) -> None:
    lines = (FOLDER / "sizing" / "iostat" / "untimed.txt").read_text().splitlines(keepends=True)
    only, several = read(tmp_path / "only", "".join(lines[:6])), read(tmp_path / "several", "".join(lines))
    assert only.tables[0].since_boot and not several.tables[0].since_boot
