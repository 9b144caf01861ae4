"""The journal of undos on a host's disk: full disks, cut lines, and what nobody can read."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from blocklab_node import journal
from blocklab_node.journal import Journal

UMOUNT = ["umount", "/mnt/one"]


def numbers(path: Path) -> list[int]:
    return [entry["number"] for entry in Journal(str(path)).due()]


def test_undos_are_due_until_they_are_done(tmp_path: Path) -> None:
    path = tmp_path / "lib/journal.jsonl"
    notes = Journal(str(path))
    for number in (1, 2, 1):
        notes.note(number, [*UMOUNT, str(number)])
    assert path.stat().st_mode & 0o777 == 0o600
    notes.done([1])
    assert numbers(path) == [1, 2]
    notes.done([2, 1])
    assert not path.exists() and numbers(path) == []
    notes.done([7])


# A disk that is full in the middle of a line, as one with a quota of 100 bytes.
FULL = """\
import resource, sys
from blocklab_node.journal import Journal
notes = Journal(sys.argv[1])
notes.note(1, ["umount", "/mnt/one"])
size = 120
resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
try:
    notes.note(2, ["umount", "/mnt/" + "x" * 300])
except OSError as error:
    print(error.errno, [each["number"] for each in notes.due()])
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
notes.note(100, ["umount", "/mnt/two"])
print([each["number"] for each in notes.due()])
"""


def test_a_disk_that_was_full_leaves_no_part_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    done = subprocess.run([sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, timeout=60)
    assert done.stdout == "27 [1]\n[1, 100]\n", done.stderr
    assert [json.loads(line)["number"] for line in path.read_text().splitlines()] == [1, 100]


def test_undos_are_dropped_on_a_full_disk(tmp_path: Path) -> None:
    """With nothing left the file goes, which needs no room."""
    path = tmp_path / "journal.jsonl"
    Journal(str(path)).note(1, UMOUNT)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        Journal(str(path)).done([1])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not path.exists()


@pytest.mark.parametrize("cut", [b'{"number": 2, "argv": ["umo', b"\0" * 40, b'{"done": 1}'])
def test_a_line_that_a_crash_has_cut_goes_before_the_next_one_comes(tmp_path: Path, cut: bytes) -> None:
    path = tmp_path / "journal.jsonl"
    Journal(str(path)).note(1, UMOUNT)
    with path.open("ab") as file:
        file.write(cut)
    assert numbers(path) == [1]
    Journal(str(path)).note(100, UMOUNT)
    assert numbers(path) == [1, 100] and Journal(str(path)).read()[1] == []


@pytest.mark.parametrize(
    "line",
    [
        # As an earlier version left it: a note behind one that was cut.
        b'{"number": 2, "argv": ["umo{"number": 100, "argv": ["true"], "boot": "x"}', b"\xff\xfe\0",
        b"[" * 100_000,
        b"7", b'"text"', b"{}", b'{"number": 3}', b'{"number": "3", "argv": ["true"]}',
        b'{"number": 3, "argv": []}', b'{"number": 3, "argv": [7]}', b'{"done": "3"}',
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_passed_over_and_reported(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "journal.jsonl"
    Journal(str(path)).note(1, UMOUNT)
    with path.open("ab") as file:
        file.write(line + b"\n")
    Journal(str(path)).note(5, UMOUNT)
    due, damaged = Journal(str(path)).read()
    assert [entry["number"] for entry in due] == [1, 5]
    assert damaged == [line[: journal.SHOWN].decode(errors="replace")]
    Journal(str(path)).done([5, 1])
    assert not path.exists()


def test_a_link_at_its_place_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.touch()
    (tmp_path / "journal.jsonl").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        Journal(str(tmp_path / "journal.jsonl")).note(1, UMOUNT)
    assert os.stat(victim).st_size == 0  # noqa: PTH116
