"""Files of a host's, whose names it tells itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from blocklab.errors import HostError
from blocklab.model.host import Result
from blocklab.model.plan import Argv
from blocklab.model.workload import Command
from blocklab.runner import single
from blocklab.sites.fake import FakeHost

NAMES = [
    "../../../../escaped_bw.log", "/etc/bash_completion.d/x_bw.log", "a/b_bw.log", "..", ".", "", "x\0_bw.log",
    "x" * 300 + "_bw.log",
]  # fmt: skip


def fetched(folder: Path, listed: str, content: bytes = b"theirs") -> list[str]:
    def answer(_: str, argv: Argv) -> Result:
        if argv[0] == "ls":
            return Result(0, listed.encode(), b"")
        return Result(0, content, b"")

    host = FakeHost("a1", answer, [])
    command = Command("a1", ("fio",), 1.0, ("/srv/fio/*_bw.log", "/srv/fio/*_iops.log"))
    single._fetch(host, command, folder)
    return sorted(path.name for path in folder.iterdir())


def test_files_come_by_their_names(tmp_path: Path) -> None:
    assert fetched(tmp_path, "0_bw.log\n0_iops.log\njob.fio\n") == ["0_bw.log", "0_iops.log"]


def test_a_folder_with_nothing_in_it_gives_nothing(tmp_path: Path) -> None:
    assert fetched(tmp_path, "") == []


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_leads_elsewhere_is_refused_with_the_host(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "a/b/c/d/raw"
    folder.mkdir(parents=True)
    with pytest.raises(HostError, match=r"a1: it lists a file called '.*', which is no file's name") as caught:
        fetched(folder, f"0_bw.log\n{name}\n")
    assert caught.value.host == "a1" and caught.value.hint
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_what_is_fetched_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single, "MOST_FILES", 2)
    (tmp_path / "many").mkdir()
    with pytest.raises(HostError, match=r"a1: the files in /srv/fio .* are more than are fetched: 2 files"):
        fetched(tmp_path / "many", "0_bw.log\n1_bw.log\n2_bw.log\n")
    monkeypatch.setattr(single, "MOST_BYTES", 10)
    (tmp_path / "large").mkdir()
    with pytest.raises(HostError, match="are more than are fetched"):
        fetched(tmp_path / "large", "0_bw.log\n1_bw.log\n")
