"""Runs and studies that a power cut tore: what was stored is there after it, and what cannot be read is measured
again, named, and kept."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from blocklab.cli.main import main
from blocklab.errors import StoreError
from blocklab.model.files import make_folder, write_whole
from blocklab.model.sample import Parsed
from blocklab.sites import SITES
from blocklab.sites.fake import FakeSite
from blocklab.store.folder import Manifest, StudyFolder, encoded
from blocklab.store.run import Outcome, draft, sweep
from blocklab.study.grid import cells
from blocklab.study.read import build
from blocklab.study.types import Cell
from tests.fake.answers import Answers
from tests.fake.runs import io
from tests.unit import synthetic

# _IOR('X', 125, __u32) and its flag NOLOGFLUSH: what is in memory only is lost, as when the current goes.
SHUTDOWN, NOLOGFLUSH = 0x8004587D, 2
RAW = b"what the tool printed\n" * 1000


def store(folder: StudyFolder, cell: Cell, status: Any = "ok", raw: bytes = RAW) -> Path:
    """A run of a cell, as the runner stores it."""
    with draft(folder.cells, cell.key) as here:
        (here.raw / "workload").mkdir()
        (here.raw / "workload" / "stdout").write_bytes(raw)
        outcome = Outcome(status, started=1.0)
        here.write(cell, outcome, environment={"site": "fake"}, records=[], knobs=[], parsed=Parsed())
    return folder.cells / cell.key


@pytest.fixture
def manifest(small: dict[str, Any]) -> Manifest:
    study = build(small)
    return Manifest(study, cells(study))


@pytest.fixture
def folder(manifest: Manifest, tmp_path: Path) -> StudyFolder:
    return StudyFolder.create(tmp_path / "runs", manifest)


# -- a power cut -------------------------------------------------------------------------------------------------


class Disk:
    """An ext4 of its own on a loop device."""

    def __init__(self, place: Path) -> None:
        self.image, self.at = place / "disk.img", place / "disk"

    def make(self) -> None:
        self.at.mkdir()
        with self.image.open("wb") as file:
            file.truncate(64 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", self.image], check=True)
        self.mount()

    def mount(self) -> None:
        # A commit by itself, every five seconds, would hide what nobody waited for.
        done = subprocess.run(
            ["mount", "-o", "loop,commit=600", self.image, self.at], capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.skip(f"no loop device can be mounted here: {done.stderr.strip()}")

    def cut(self) -> None:
        """Power off, and on again."""
        opened = os.open(self.at, os.O_RDONLY)
        try:
            fcntl.ioctl(opened, SHUTDOWN, struct.pack("I", NOLOGFLUSH))
        finally:
            os.close(opened)
        subprocess.run(["umount", self.at], check=True)
        self.mount()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a disk to cut the power of")
    if lacks := [name for name in ("mkfs.ext4", "mount", "losetup") if not shutil.which(name)]:
        pytest.skip(f"there is no {lacks[0]}")
    made = Disk(tmp_path)
    try:
        made.make()
        yield made
    finally:
        subprocess.run(["umount", made.at], check=False, capture_output=True)


def test_what_was_stored_is_there_after_a_power_cut(disk: Disk, manifest: Manifest, tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text("name: small\n")
    folder = StudyFolder.create(disk.at / "runs", manifest, file)
    first, second = manifest.cells[:2]
    stored = store(folder, first)
    disk.cut()
    assert folder.has(first) and not folder.unreadable(manifest.cells)
    assert (stored / "raw" / "workload" / "stdout").read_bytes() == RAW
    assert (folder.path / "study.json").read_bytes() == encoded(manifest)
    assert (folder.path / "study.yaml").read_bytes() == file.read_bytes()
    # Another one, and one in place of the first.
    store(folder, second)
    store(folder, first, raw=b"again")
    disk.cut()
    sweep(folder.cells)
    assert folder.has(first) and folder.has(second)
    assert (stored / "raw" / "workload" / "stdout").read_bytes() == b"again"
    assert sorted(path.name for path in folder.cells.iterdir()) == sorted([first.key, second.key])


def test_a_file_that_was_written_whole_is_there_after_a_power_cut(disk: Disk) -> None:
    file = disk.at / "new" / "deep" / "file"
    make_folder(file.parent)
    write_whole(file, b"one")
    disk.cut()
    assert file.read_bytes() == b"one"
    write_whole(file, b"two")
    disk.cut()
    assert file.read_bytes() == b"two" and [path.name for path in file.parent.iterdir()] == ["file"]


def test_the_cut_loses_what_nobody_waited_for(disk: Disk) -> None:
    """Or the two above prove nothing."""
    (disk.at / "file").write_bytes(b"lost")
    disk.cut()
    assert not (disk.at / "file").exists() or not (disk.at / "file").read_bytes()


# -- runs that cannot be read ------------------------------------------------------------------------------------

FILES = (
    "cell.json", "result.json", "environment.json", "knobs.json", "phases.json", "steps.jsonl", "samples.parquet",
    "transactions.parquet",
)  # fmt: skip


@contextlib.contextmanager
def torn(path: Path, how: str) -> Iterator[None]:
    """A file as a cut leaves it; as it was at the end of the block."""
    whole = path.read_bytes()
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes({"empty": b"", "cut": whole[: len(whole) // 2 + 1], "zeros": bytes(len(whole))}[how])
    yield
    path.write_bytes(whole)


@pytest.mark.parametrize("how", ["empty", "cut", "zeros", "gone"])
def test_a_run_that_cannot_be_read_is_missing_and_named(tmp_path: Path, how: str) -> None:
    folder = synthetic.make(tmp_path, transactions=5)
    cell = folder.manifest().cells[0]
    (folder.cells / cell.key / "steps.jsonl").write_bytes(
        b'{"part":"build","host":"a1","argv":["true"],"code":0,"seconds":0.1}\n'
    )
    assert folder.has(cell) and not folder.unreadable([cell])
    for name in FILES:
        with torn(folder.cells / cell.key / name, how):
            # A list of commands is empty where none was run.
            if name == "steps.jsonl" and how == "empty":
                continue
            assert not folder.has(cell) and cell in folder.missing([cell]), name
            (why,) = folder.unreadable([cell])
            assert f"{cell.key}/{name} cannot be read" in why.message and "measures the cell again" in why.hint
    assert folder.has(cell)
    (folder.cells / cell.key / "knobs.json").write_bytes(b"[" * 100_000)
    assert not folder.has(cell)


def test_what_cannot_be_read_is_kept_aside_and_never_lost(folder: StudyFolder) -> None:
    cell = folder.manifest().cells[0]
    for number in range(3):
        stored = store(folder, cell, raw=b"%d" % number)
        (stored / "result.json").write_bytes(b"")
    store(folder, cell, "failed")
    assert folder.there(cell) and not folder.unreadable([cell])
    kept = {path.name: (path / "raw" / "workload" / "stdout").read_bytes() for path in folder.aside.iterdir()}
    assert kept == {cell.key: b"0", f"{cell.key}-2": b"1", f"{cell.key}-3": b"2"}
    # One that can be read is replaced as always.
    store(folder, cell)
    assert folder.has(cell) and len(list(folder.aside.iterdir())) == 3


def command(*argv: str) -> int:
    sys.argv = ["blocklab", *argv]
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def open_site(volumes: Path | None, addons: Iterable[str], hosts: Path | None, seed: int) -> FakeSite:
    """In place of a real one."""
    return FakeSite(Answers())


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setitem(SITES, "fake", (__name__, "open_site"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("name", ["result.json", "cell.json", "environment.json", "samples.parquet"])
def test_run_and_resume_measure_it_again(
    shell: Path, small: dict[str, Any], capfd: pytest.CaptureFixture[str], name: str
) -> None:
    small["workloads"] = {"io": io(small)}
    YAML().dump(small, shell / "study.yaml")
    assert command("run", "study.yaml", "--site", "fake") == 0
    folder = StudyFolder(shell / "runs" / "small")
    cell = folder.manifest().cells[0]
    for again in (("resume", "runs/small"), ("run", "study.yaml", "--site", "fake")):
        (folder.cells / cell.key / name).write_bytes(b"")
        capfd.readouterr()
        assert command(*again) == 0
        said = flat(capfd.readouterr().err)
        assert said.count("warning: ") == 1 and f"{cell.key}/{name} cannot be read" in said
        assert "its cell is measured again, and what is there is kept in" in said and "1 cell in" in said
        assert folder.has(cell)
    assert len(list(folder.aside.iterdir())) == 2
    capfd.readouterr()
    assert command("resume", "runs/small") == 0 and "finished: all" in capfd.readouterr().err


@pytest.mark.parametrize("name", ["result.json", "samples.parquet"])
def test_who_reads_runs_names_the_torn_one_in_a_line(
    shell: Path, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    runs = shell / "runs"
    folder = synthetic.make(runs)
    other = synthetic.make(shell / "others")
    broken = folder.manifest().cells[0].key
    (folder.cells / broken / name).write_bytes(b"")
    home = str(folder.path)
    for argv in (
        ("report", home),
        ("export", home),
        ("export", home, "--series"),
        ("export", home, "--runs"),
        ("query", "SELECT count(*) FROM series", "--runs", str(runs)),
        ("query", "SELECT count(*) FROM metrics", "--runs", str(runs)),
        ("compare", home, str(other.path)),
    ):
        capfd.readouterr()
        assert command(*argv) == 0, argv
        out, err = capfd.readouterr()
        said = out + err + ((folder.path / "report.html").read_text() if argv[0] == "report" else "")
        assert f"{broken}/{name}" in "".join(said.split()), argv
        assert "Traceback" not in said


# -- the study's own files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("left", [b"", b"\0" * 4096, b'{"study": ', b"[]", b"[" * 100_000])
def test_a_torn_study_says_what_to_do_and_run_mends_it(
    shell: Path, small: dict[str, Any], capfd: pytest.CaptureFixture[str], left: bytes
) -> None:
    small["workloads"] = {"io": io(small)}
    YAML().dump(small, shell / "study.yaml")
    assert command("run", "study.yaml", "--site", "fake") == 0
    folder = StudyFolder(shell / "runs" / "small")
    for name in ("study.json", "study.yaml"):
        (folder.path / name).write_bytes(left)
    for argv in (("resume", "runs/small"), ("report", "runs/small"), ("export", "runs/small"), ("resume",)):
        capfd.readouterr()
        assert command(*argv) == 1
        err = flat(capfd.readouterr().err)
        assert "study.json cannot be read" in err and "`blocklab run STUDY`" in err and err.count("error:") == 1
    capfd.readouterr()
    assert command("run", "study.yaml", "--site", "fake") == 0
    # What was measured is still known.
    assert "finished: all" in capfd.readouterr().err
    assert (folder.path / "study.yaml").read_bytes() == (shell / "study.yaml").read_bytes()


@pytest.mark.parametrize(
    "name", [".a.b.c.partial", ".partial", "..partial", ".x.partial", ".a.b.old", ".x.-1.old"]
)
def test_a_foreign_folder_among_the_cells_is_left_alone(folder: StudyFolder, name: str) -> None:
    foreign = folder.cells / name
    foreign.mkdir()
    (foreign / "file").write_text("somebody's")
    folder.sweep()
    assert (foreign / "file").read_text() == "somebody's"


def test_drafts_are_swept_and_a_run_that_was_being_replaced_is_put_back(folder: StudyFolder) -> None:
    first, second = folder.manifest().cells[:2]
    store(folder, first).rename(folder.cells / f".{first.key}.{os.getpid()}.old")
    store(folder, second)
    for key in (f"{second.key}.x", second.key):
        (folder.cells / f".{key}.{os.getpid()}.partial").mkdir()
    (folder.cells / f".{second.key}.{os.getpid()}.old").mkdir()
    folder.sweep()
    assert sorted(path.name for path in folder.cells.iterdir()) == sorted([first.key, second.key])
    assert folder.has(first) and folder.has(second)


def test_a_full_disk_is_an_error_of_the_store(folder: StudyFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    cell = folder.manifest().cells[0]
    with pytest.raises(StoreError, match="No space left"):
        store(folder, cell)
    monkeypatch.undo()
    assert not folder.there(cell) and not list(folder.cells.iterdir())
