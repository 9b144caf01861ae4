"""Numbers and names in the documents are those of the source, where a program can tell."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import get_args

import pytest

from blocklab.campaign.remaining import Remaining
from blocklab.cli.studies import MOST_CELLS
from blocklab.runner.estimate import between, costs
from blocklab.stats.ratio import Verdict
from blocklab.study import profiles
from blocklab.study.grid import cells
from blocklab.study.read import read
from blocklab.study.shipped import shipped
from tests.repo import house

README = (house.ROOT / "README.md").read_text()
READMES = (README, (house.ROOT / "README.ja.md").read_text())


@pytest.mark.parametrize("text", READMES, ids=["en", "ja"])
def test_profiles_are_counted(text: str) -> None:
    entries = profiles.shipped().values()
    instances = sum(entry.vcpus is not None for entry in entries)
    found = [int(number) for number in re.findall(r"\d+(?= of volumes| of cloud instances|種類)", text)]
    assert found == [len(entries) - instances, instances]


def time_of(name: str, *, quick: bool) -> str:
    """How long a shipped study takes, as ``blocklab studies`` says."""
    study = read(shipped()[name], quick=quick)
    guess = Remaining(costs(study, cells(study))).left()
    return between(guess.least, guess.most)


@pytest.mark.parametrize(
    ("name", "quick", "word"),
    [("drbd-az", True, "minutes"), ("failover", True, "minutes"), ("drbd-az", False, "minutes")],
)
def test_times_are_those_of_the_list_of_studies(name: str, quick: bool, word: str) -> None:
    said = time_of(name, quick=quick).replace("min", word).strip()
    assert said in re.sub(r"\s+", " ", README), said
    assert "～".join(re.findall(r"\d+", said)) + "分" in READMES[1], said


@pytest.mark.parametrize("text", [*READMES, (house.DOCS / "how-it-works.md").read_text()], ids=["en", "ja", "how"])
def test_verdicts_have_their_names(text: str) -> None:
    assert [name for name in get_args(Verdict) if f"`{name}`" not in text] == []


def test_the_most_cells_are_those_of_the_check() -> None:
    (said,) = re.findall(r"more than ([\d,]+) cells", (house.DOCS / "troubleshooting.md").read_text())
    assert int(said.replace(",", "")) == MOST_CELLS


def shell_blocks() -> list[tuple[str, str]]:
    """Each block of shell commands in the documents, by its page."""
    return [
        (str(path.relative_to(house.ROOT)), block)
        for path in house.documents()
        for block in house.blocks(path.read_text(), "sh")
    ]


@pytest.mark.parametrize(("page", "block"), shell_blocks())
def test_what_is_pasted_into_a_shell_is_whole(page: str, block: str) -> None:
    """An apostrophe once swallowed the next line; the one after it then removed the journal of undos."""
    done = subprocess.run(["bash", "-n"], input=block, text=True, capture_output=True)
    assert done.returncode == 0 and not done.stderr, f"{page}: {done.stderr}"


def test_a_block_with_an_open_quote_is_found() -> None:
    block = "sudo drbdadm down all-of-blocklab's-resources\nsudo dmsetup ls | grep '^dm-7'\nsudo rm -rf /run/x\n"
    assert subprocess.run(["bash", "-n"], input=block, text=True, capture_output=True).stderr


def test_the_journal_goes_by_itself_and_last() -> None:
    """Whoever pastes a whole block must not lose what says what is left on the host."""
    text = Path(house.DOCS / "hosts.md").read_text()
    (block,) = [block for block in house.blocks(text, "sh") if "rm -rf" in block]
    assert block.count("\n") == 1 and block.startswith("sudo rm -rf")
