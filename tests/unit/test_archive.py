"""What a worker sends: an archive that is not what ``pack`` makes is refused, whole, and nothing of it is left."""

from __future__ import annotations

import gzip
import io
import tarfile
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from blocklab.errors import StoreError
from blocklab.model.sample import Parsed
from blocklab.store import archive
from blocklab.store.archive import Packed, digest, pack, unpack
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.store.run import Outcome, draft
from blocklab.study.grid import cells
from blocklab.study.read import build
from blocklab.study.types import Cell

LONG = "a-job-with-a-long-name-" * 9
Add = Callable[[tarfile.TarFile, str], None]


def store(folder: StudyFolder, cell: Cell, status: Any = "ok") -> None:
    with draft(folder.cells, cell.key) as here:
        (here.raw / LONG).mkdir()
        (here.raw / LONG / f"{LONG}_bw.1.log").write_bytes(bytes(range(256)) * 5000)
        (here.raw / "empty").touch()
        here.write(cell, Outcome(status), environment={}, records=[], knobs=[], parsed=Parsed())


@pytest.fixture
def manifest(small: dict[str, Any]) -> Manifest:
    study = build(small)
    return Manifest(study, cells(study))


@pytest.fixture
def worker(manifest: Manifest, tmp_path: Path) -> StudyFolder:
    """With a run of the first two cells."""
    folder = StudyFolder.create(tmp_path / "worker", manifest)
    for cell in manifest.cells[:2]:
        store(folder, cell)
    (folder.path / "floors").mkdir()
    (folder.path / "floors" / "uml-1.json").write_text("{}")
    return folder


@pytest.fixture
def controller(manifest: Manifest, tmp_path: Path) -> StudyFolder:
    return StudyFolder.create(tmp_path / "controller" / "runs", manifest)


def content(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")
    }


def packed(file: Path, *keys: str) -> Packed:
    return Packed(file.stat().st_size, digest(file), keys)


def test_what_was_packed_is_taken_as_it_was(
    worker: StudyFolder, controller: StudyFolder, manifest: Manifest, tmp_path: Path
) -> None:
    keys = [cell.key for cell in manifest.cells]
    sent = pack(worker, keys, tmp_path / "runs.tar.gz")
    assert sent.keys == tuple(keys[:2])
    assert unpack(tmp_path / "runs.tar.gz", sent, controller, keys) == keys[:2]
    for name in ("cells", "floors"):
        assert content(controller.path / name) == content(worker.path / name)
    # A good run stays where a bad one comes, and one that cannot be read does not.
    store(worker, manifest.cells[0], "failed")
    (controller.cells / keys[1] / "result.json").write_bytes(b"")
    sent = pack(worker, keys, tmp_path / "runs.tar.gz")
    assert unpack(tmp_path / "runs.tar.gz", sent, controller, keys) == keys[1:2]
    assert controller.has(manifest.cells[0]) and controller.has(manifest.cells[1])
    assert [path.name for path in controller.aside.iterdir()] == keys[1:2]


def test_a_run_that_cannot_be_read_is_not_sent(worker: StudyFolder, manifest: Manifest, tmp_path: Path) -> None:
    keys = [cell.key for cell in manifest.cells[:2]]
    (worker.cells / keys[0] / "cell.json").write_bytes(b"")
    assert pack(worker, keys, tmp_path / "runs.tar.gz").keys == (keys[1],)


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 0) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.size = kind, link, size
    return made


def of(name: str, data: bytes = b"x", kind: bytes = tarfile.REGTYPE, link: str = "") -> Add:
    def add(to: tarfile.TarFile, key: str) -> None:
        where = name.replace("KEY", key)
        regular = kind in (tarfile.REGTYPE, tarfile.AREGTYPE)
        to.addfile(member(where, kind, link.replace("KEY", key), len(data) if regular else 0), io.BytesIO(data))

    return add


def every(*adds: Add) -> Add:
    def add(to: tarfile.TarFile, key: str) -> None:
        for one in adds:
            one(to, key)

    return add


def chain(to: tarfile.TarFile, key: str) -> None:
    """CVE-2025-4517: folders and links so long that Python's filter gives up following them."""
    path, steps, part = f"cells/{key}/raw", "abcdefghijklmnop", "d" * 247
    for step in steps:
        to.addfile(member(f"{path}/{part}", tarfile.DIRTYPE))
        to.addfile(member(f"{path}/{step}", tarfile.SYMTYPE, part))
        path = f"{path}/{part}"
    link = f"cells/{key}/raw/{'/'.join(steps)}/{'l' * 254}"
    to.addfile(member(link, tarfile.SYMTYPE, "../" * len(steps)))
    to.addfile(member(f"cells/{key}/raw/escape", tarfile.SYMTYPE, f"{link}/../../../../../../escaped"))
    to.addfile(member(f"cells/{key}/raw/escape/newfile", size=1), io.BytesIO(b"x"))


HOSTILE: dict[str, Add] = {
    "chain of links": chain,
    "symbolic link": of("cells/KEY/raw/link", kind=tarfile.SYMTYPE, link="/etc/passwd"),
    "symbolic link within": every(
        of("cells/KEY/raw/link", kind=tarfile.SYMTYPE, link="."), of("cells/KEY/raw/link/file")
    ),
    "hard link": of("cells/KEY/raw/link", kind=tarfile.LNKTYPE, link="cells/KEY/cell.json"),
    "hard link out": of("cells/KEY/raw/link", kind=tarfile.LNKTYPE, link="../../../../etc/passwd"),
    "device": of("cells/KEY/raw/null", kind=tarfile.CHRTYPE),
    "disk": of("cells/KEY/raw/sda", kind=tarfile.BLKTYPE),
    "pipe": of("cells/KEY/raw/fifo", kind=tarfile.FIFOTYPE),
    "contiguous file": of("cells/KEY/raw/file", kind=tarfile.CONTTYPE),
    "sparse file": of("cells/KEY/raw/file", kind=tarfile.GNUTYPE_SPARSE),
    "long link": of("cells/KEY/raw/file", kind=tarfile.GNUTYPE_LONGLINK),
    "unknown kind": of("cells/KEY/raw/file", kind=b"Z"),
    "absolute": of("/escaped/newfile"),
    "above": of("../escaped/newfile"),
    "above a run": of("cells/KEY/../../../escaped/newfile"),
    "dots at the end": of("cells/KEY/raw/.."),
    "a dot": of("cells/KEY/./file"),
    "empty part": of("cells/KEY//file"),
    "foreign key": of("cells/0123456789ab/cell.json"),
    "draft of another process": of("cells/.x.1.old/cell.json"),
    "draft of its own": of("cells/.KEY.1.old/cell.json"),
    "a key that is a file": of("cells/KEY"),
    "a file among the cells": of("cells/file"),
    "another folder": of("report.html"),
    "the study": of("study.json"),
    "a floor that is a folder": of("floors/x.json", kind=tarfile.DIRTYPE),
    "a floor below a floor": of("floors/x/y.json"),
    "a floor that is none": of("floors/x"),
    "a hidden floor": of("floors/.x.json"),
    "twice": every(of("cells/KEY/raw/file"), of("cells/KEY/raw/file", b"y")),
    "a file as a folder": every(of("cells/KEY/raw/file"), of("cells/KEY/raw/file/below")),
    "a folder as a file": every(of("cells/KEY/raw/a/b"), of("cells/KEY/raw/a")),
    "a name that is too long": of("cells/KEY/raw/" + "n" * 256),
    "a path that is too long": of("cells/KEY/raw/" + "n/" * 2100 + "n"),
    "a byte that ends names": of("cells/KEY/raw/" + "n" * 120 + "\0/../../x"),
}


def refused(file: Path, controller: StudyFolder, keys: Sequence[str], *told: str) -> str:
    """Why an archive is refused, of which nothing may be left."""
    before = content(controller.path.parent.parent)
    with pytest.raises(StoreError) as caught:
        unpack(file, packed(file, *(told or keys[:1])), controller, keys)
    assert content(controller.path.parent.parent) == before
    # A hint would mean that this machine is at fault, and end the study.
    assert not caught.value.hint
    return caught.value.message


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_archive_is_refused_whole(
    worker: StudyFolder, controller: StudyFolder, tmp_path: Path, kind: str, form: int
) -> None:
    run = next(worker.cells.iterdir())
    file = tmp_path / "runs.tar.gz"
    with tarfile.open(file, "w:gz", format=form) as made:
        # What ``pack`` writes comes first.
        (run / "raw" / LONG / f"{LONG}_bw.1.log").unlink()
        (run / "raw" / LONG).rmdir()
        made.add(run, f"cells/{run.name}")
        HOSTILE[kind](made, run.name)
    assert refused(file, controller, [run.name])
    assert not list(tmp_path.rglob("newfile")) and not list(tmp_path.rglob("escaped"))


def test_a_run_that_nobody_asked_for_is_refused_though_the_archive_names_it(
    worker: StudyFolder, controller: StudyFolder, manifest: Manifest, tmp_path: Path
) -> None:
    keys = [cell.key for cell in manifest.cells[:2]]
    file = tmp_path / "runs.tar.gz"
    sent = pack(worker, keys, file)
    assert "nobody asked for" in refused(file, controller, keys[:1], *sent.keys)
    assert "other runs" in refused(file, controller, keys, keys[0])
    assert "other runs" in refused(file, controller, [*keys, "more"], *keys, "more")


def test_a_run_of_another_cell_or_that_cannot_be_read_is_refused(
    worker: StudyFolder, controller: StudyFolder, manifest: Manifest, tmp_path: Path
) -> None:
    first, second = (cell.key for cell in manifest.cells[:2])
    file = tmp_path / "runs.tar.gz"
    with tarfile.open(file, "w:gz", format=tarfile.GNU_FORMAT) as made:
        made.add(worker.cells / second, f"cells/{first}")
    assert f"has the run '{second}' as {first}" in refused(file, controller, [first])
    (worker.cells / first / "samples.parquet").write_bytes(b"PAR1")
    with tarfile.open(file, "w:gz", format=tarfile.GNU_FORMAT) as made:
        made.add(worker.cells / first, f"cells/{first}")
    assert "samples.parquet cannot be read" in refused(file, controller, [first])


def bomb(file: Path, name: str, size: int, kind: bytes = tarfile.REGTYPE) -> None:
    """A small archive that becomes a large one."""
    with gzip.open(file, "wb", compresslevel=1) as to:
        to.write(member(name, kind, size=size).tobuf(tarfile.GNU_FORMAT))
        for _ in range(size >> 20):
            to.write(bytes(1 << 20))
        to.write(bytes(1024))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cells/KEY/raw/zeros", tarfile.REGTYPE),
        ("floors/zeros.json", tarfile.REGTYPE),
        # What Python's tarfile reads at once.
        ("././@PaxHeader", tarfile.XHDTYPE),
        ("././@PaxHeader", tarfile.XGLTYPE),
        ("././@LongLink", tarfile.GNUTYPE_LONGNAME),
        ("././@LongLink", tarfile.GNUTYPE_LONGLINK),
        ("cells/KEY", tarfile.DIRTYPE),
    ],
)
def test_a_bomb_is_refused_by_its_header(
    controller: StudyFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: bytes
) -> None:
    monkeypatch.setattr(archive, "MOST_BYTES", 8 << 20)
    bomb(tmp_path / "bomb", name.replace("KEY", "k"), 64 << 20, kind)
    tracemalloc.start()
    try:
        refused(tmp_path / "bomb", controller, ["k"])
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_many_small_files_are_a_bomb_too(
    controller: StudyFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "MOST_MEMBERS", 50)
    with tarfile.open(tmp_path / "bomb", "w:gz", format=tarfile.GNU_FORMAT) as made:
        for number in range(60):
            made.addfile(member(f"cells/k/raw/{number}"))
    assert "too many files" in refused(tmp_path / "bomb", controller, ["k"])
    # The sizes of several files count together.
    monkeypatch.setattr(archive, "MOST_BYTES", 100)
    with tarfile.open(tmp_path / "bomb", "w:gz", format=tarfile.GNU_FORMAT) as made:
        for number in range(3):
            made.addfile(member(f"cells/k/raw/{number}", size=40), io.BytesIO(bytes(40)))
    assert "is larger than" in refused(tmp_path / "bomb", controller, ["k"])


def test_a_run_that_nobody_would_take_is_not_sent(
    worker: StudyFolder, manifest: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [cell.key for cell in manifest.cells[:2]]
    for name, most in (("MOST_BYTES", 1 << 20), ("MOST_MEMBERS", 5)):
        with monkeypatch.context() as limited:
            limited.setattr(archive, name, most)
            with pytest.raises(StoreError, match="not fetched from a worker") as caught:
                pack(worker, keys, tmp_path / "runs.tar.gz")
            assert keys[0] in caught.value.message and "log less" in caught.value.hint
    assert not (tmp_path / "runs.tar.gz").exists()


def test_a_damaged_archive_is_the_senders_fault(
    worker: StudyFolder, controller: StudyFolder, manifest: Manifest, tmp_path: Path
) -> None:
    keys = [cell.key for cell in manifest.cells[:2]]
    file = tmp_path / "runs.tar.gz"
    sent = pack(worker, keys, file)
    whole = file.read_bytes()
    for data in (
        b"", b"no gzip", whole[:-1000], whole[: len(whole) // 2], whole[:200] + b"\xff" * 50 + whole[250:],
        gzip.compress(b"no tar" * 1000), gzip.compress(bytes(100)), gzip.compress(whole),
    ):  # fmt: skip
        file.write_bytes(data)
        refused(file, controller, keys, *keys)
    file.write_bytes(whole[:-1])
    with pytest.raises(StoreError, match="not those that were sent"):
        unpack(file, sent, controller, keys)
    file.write_bytes(whole)
    with pytest.raises(StoreError, match="not those that were sent"):
        unpack(file, msgspec.structs.replace(sent, digest="0" * 64), controller, keys)
