"""Minors and ports: from one table, in which no two layers get the same."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

import blocklab
from blocklab.model import numbers
from blocklab.model.numbers import RANGES, TOGETHER, Range

# What makes a device or a port of a number: "/dev/md{...}", "mapper/dm-{...}", "place.number + 7000".
MADE = re.compile(r"(?:/dev/|mapper/)(?:drbd|md|nbd|dm-)\{|(?:number|first) ?\+ ?\d|\d ?\+ ?(?:place\.)?number\b")
USE = re.compile(r"place\.number\b")


@pytest.mark.parametrize("first", [0, 1, 99, 100, 299, 300, 500, 999, 1000])
def test_stacks_that_stand_together_share_no_number(first: int) -> None:
    seen: dict[tuple[str, int], Range] = {}
    for numbered, number in itertools.product(RANGES, range(first, first + TOGETHER)):
        for index in range(numbered.each):
            at = (numbered.kind, numbered.of(number, index))
            assert at not in seen, f"{at}: both {seen[at]} and {numbered}"
            seen[at] = numbered
            assert numbered.has(at[1]) and at[1] < (2**16 if numbered.kind == "tcp" else 2**20)


def test_the_numbers_of_old_studies_stay() -> None:
    """Runs are stored with the names of their devices."""
    assert numbers.FRAGILE.path(0, 1) == "/dev/mapper/dm-1001" and numbers.FRAGILE.path(3) == "/dev/mapper/dm-1024"
    assert numbers.NET_MIRROR.path(2) == "/dev/md302" and numbers.STRIPE.path(2) == "/dev/md2"
    assert numbers.DRBD.path(1) == "/dev/drbd1" and numbers.NET_LEG.path(1) == "/dev/nbd1"
    assert numbers.LVM.path(0) == "/dev/mapper/dm-500" and numbers.DISK.path(100) == "/dev/mapper/dm-700"
    assert [each.of(1) for each in RANGES if each.kind == "tcp"] == [3307, 5433, 7001, 10810]


@pytest.mark.parametrize("index", [-1, 1])
def test_a_stack_has_no_number_of_its_neighbours(index: int) -> None:
    with pytest.raises(ValueError, match="a stack has 1 of these numbers"):
        numbers.LVM.of(0, index)


def test_no_layer_and_no_site_makes_a_number_of_its_own() -> None:
    source = Path(blocklab.__file__).parent
    for path in (*(source / "layers").glob("*.py"), *(source / "sites" / "ssh").glob("*.py")):
        for line in path.read_text().splitlines():
            assert not MADE.search(line) or "already" in line or "in there" in line or "in blocks" in line, (
                path.name,
                line,
            )
            # Each goes through the table.
            assert not USE.search(line) or re.search(r"numbers\.[A-Z_]+|mapping\.", line), (path.name, line)
