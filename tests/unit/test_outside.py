"""Files from outside: whatever they are and hold, reading them ends, with one error that names the file."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from blocklab.errors import ParseError, StoreError, StudyError, Unreadable
from blocklab.formats.load.fio.report import decode
from blocklab.formats.load.fio.single import fio_log
from blocklab.formats.text import Refused, digest
from blocklab.imports import kinds
from blocklab.model import outside
from blocklab.sites.ssh import hosts
from blocklab.store.folder import StudyFolder
from blocklab.store.tables import samples
from blocklab.study.read import load_yaml, read
from tests.unit.shells import Shell

NINES = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 10)
)
MERGED = "b: &b {" + ", ".join(f"k{n}: 1" for n in range(1000)) + "}\na:\n" + "  - {<<: *b}\n" * 1000


@pytest.fixture
def odd(tmp_path: Path) -> Iterator[dict[str, Path]]:
    """What is no regular file, by what it is called."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(str(tmp_path / "s"))
        yield {
            "a FIFO": tmp_path / "fifo", "a folder": tmp_path, "a device": Path("/dev/zero"),
            "a socket": tmp_path / "s",
        }  # fmt: skip


def test_only_regular_files_are_read_and_nothing_waits(odd: dict[str, Path]) -> None:
    for kind, path in odd.items():
        for get in (outside.opened, outside.data, outside.text):
            with pytest.raises(Unreadable, match=f"is {kind}, not a file") as found:
                get(path)
            assert found.value.message.startswith(f"{path}: ") and found.value.hint
    with pytest.raises(Unreadable, match="is a FIFO"):
        outside.text(odd["a folder"] / "link")


READERS: dict[str, tuple[Callable[[Path], object], type[Exception]]] = {
    "study": (read, StudyError), "hosts file": (hosts.load, StudyError), "log": (kinds.READERS.kind_of, Refused),
    "content of a log": (digest, Refused), "study.json": (lambda path: StudyFolder(path).manifest(), StoreError),
    "samples": (samples, StoreError),
}  # fmt: skip


@pytest.mark.parametrize("name", READERS)
def test_every_reader_refuses_them(name: str, odd: dict[str, Path], tmp_path: Path) -> None:
    get, error = READERS[name]
    for number, (kind, path) in enumerate(odd.items()):
        if name in ("study.json", "samples"):
            folder = tmp_path / str(number)
            folder.mkdir()
            (folder / ("study.json" if name == "study.json" else "samples.parquet")).symlink_to(path)
            path = folder
        with pytest.raises(error, match=kind):
            get(path)


def test_a_fifo_named_as_a_log_of_fio_is_one_line(odd: dict[str, Path]) -> None:
    with pytest.raises(ParseError, match="is a FIFO, not a file"):
        fio_log([odd["a FIFO"]])


def test_more_than_the_limit_is_refused_before_it_is_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    path.touch()
    os.truncate(path, 1 << 40)
    with pytest.raises(Unreadable, match="is larger than 4 MiB"):
        outside.text(path)
    path.write_bytes(b"x" * 100)
    assert len(outside.data(path, 100)) == 100
    # It says that it has no bytes.
    assert outside.data(Path("/proc/self/status"))


def test_what_is_no_utf_8_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes(b"blocklab: 2\nname: caf\xe9\n")
    for get in (read, hosts.load):
        with pytest.raises(StudyError, match=r"latin.yaml:2: .*is not UTF-8") as found:
            get(path)
        assert found.value.hint.startswith("save it as UTF-8")
    path.write_bytes(b"\xef\xbb\xbfname: x\n")
    assert outside.text(path) == "name: x\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (NINES, "more than 200,000 values"),
        (MERGED, "more than 200,000 values"),
        ("[" * 400, "nested more than 60 levels deep"),
        ("a: " + "{b: " * 400, "nested more than 60 levels deep"),
        ("".join(" " * level + "k:\n" for level in range(400)), "nested more than 60 levels deep"),
        ("a: " + "1" * 5000, "a number of more than 100 digits"),
        ("a: 0x" + "f" * 5000, "a number of more than 100 digits"),
        ("a: !!int '" + "1" * 5000 + "'", "a number of more than 100 digits"),
        ("a: &a [*a]", "refers to what it is a part of"),
        ("a: &a {b: 1, <<: *a}", "refers to what it is a part of"),
        ("a: 2001-99-99", "not YAML: month must be in 1..12"),
        ("a: !!bool x", "not YAML"),
        ("a: !!int x", "not YAML"),
        ("a: [", "not YAML"),
    ],
)
def test_yaml_within_limits(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    for get in (read, hosts.load):
        with pytest.raises(StudyError, match=r"bad\.yaml") as found:
            get(path)
        assert why in found.value.problem
    assert "bad.yaml:" in str(found.value)


def test_yaml_that_people_write_is_as_before(tmp_path: Path) -> None:
    path = tmp_path / "good.yaml"
    path.write_text("a: &a {b: 1}\nc: [*a, *a]\nd: {<<: *a, e: 0x10}\nf: &a 2\ng: *a\n")
    assert load_yaml(path) == {
        "a": {"b": 1}, "c": [{"b": 1}, {"b": 1}], "d": {"b": 1, "e": 16}, "f": 2, "g": 2,
    }  # fmt: skip


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "1" * 5000, "{", "\udcff", '{"a": NaN,}'])
def test_json_is_read_or_is_one_error(text: str) -> None:
    data = text.encode(errors="surrogateescape")
    for get in (lambda: outside.as_json(data, "x.json"), lambda: outside.typed_json(data, dict, "x.json"),
                lambda: outside.typed_lines(data, dict, "x.json")):  # fmt: skip
        with pytest.raises(Unreadable, match=r"x\.json: ") as found:
            get()
        assert len(found.value.message) < 200 and "sys.set_int" not in found.value.message


def test_deep_json_is_one_error_wherever_it_is(tmp_path: Path) -> None:
    deep = '{"fio version": "fio-3.39", "jobs": ' + "[" * 100_000
    with pytest.raises(ParseError, match="nested too deeply"):
        decode(deep)
    (tmp_path / "study.json").write_text("[" * 100_000)
    with pytest.raises(StoreError, match="nested too deeply"):
        StudyFolder(tmp_path).manifest()
    log = tmp_path / "iostat.json"
    log.write_text('{"sysstat": {"hosts": [{"nodename": "a", "statistics": [' + '{"timestamp": ' + "[" * 100_000)
    with pytest.raises(Refused):
        kinds.READERS.read(log, kinds.READERS.kind_of(log))


def with_job_file(small: dict[str, Any], name: str, folder: Path) -> Path:
    small["workloads"] = {"io": {"workload": "fio", "size": "16MiB", "jobfile": name}}
    for stack in small["stacks"].values():
        stack["layers"] = stack["layers"][:1]
    path = folder / "study.yaml"
    YAML().dump(small, path)
    return path


def test_a_job_file_stays_below_the_studys_folder(small: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "study"
    (folder / "jobs").mkdir(parents=True)
    (tmp_path / "secret").write_text("hunter2\n")
    (folder / "out").symlink_to(tmp_path / "secret")
    (folder / "jobs" / "loop").symlink_to("loop")
    os.mkfifo(folder / "fifo")
    for name, why in (
        ("/etc/passwd", "not below the study's folder"), ("../secret", "not below the study's folder"),
        ("jobs/../../secret", "not below the study's folder"), ("out", "a link out of the study's folder"),
        ("jobs/loop", "cannot be read"), ("fifo", "is a FIFO"),
        ("jobs", "is a folder"), ("none", "cannot be read"),
    ):  # fmt: skip
        with pytest.raises(StudyError) as found:
            read(with_job_file(small, name, folder))
        assert why in found.value.problem and "hunter2" not in str(found.value), found.value
        assert found.value.path == "workloads.io.jobfile" and found.value.line


@pytest.mark.parametrize(
    "text", ["hunter2\n", "# x\npassword = hunter2\n", '[{"password": "hunter2"}]\n', "[hunter2\n", "\0hunter2"]
)
def test_nothing_is_quoted_of_what_is_no_job_file(text: str, small: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "x.fio").write_text(text)
    with pytest.raises(StudyError, match=r"workloads\.io\.jobfile: x\.fio, line \d") as found:
        read(with_job_file(small, "x.fio", tmp_path))
    assert "hunter2" not in str(found.value)


def test_a_job_file_beside_the_study_is_read(small: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "x.fio").write_text("[a]\nrw=read\nruntime=1\n")
    workload: Any = read(with_job_file(small, "jobs/x.fio", tmp_path)).workloads["io"]
    assert workload.jobtext == "[a]\nrw=read\nruntime=1\n"


@pytest.mark.parametrize("field", ["name", "stacks", "nodes", "workloads", "factors"])
def test_a_name_has_no_newline_at_its_end(field: str, small: dict[str, Any], tmp_path: Path) -> None:
    if field == "name":
        small["name"] += "\n"
    elif field == "factors":
        small["factors"] = {"size\n": {"field": "repeats", "values": [1, 2]}}
    else:
        small[field] = {f"{name}\n": value for name, value in small[field].items()}
    path = tmp_path / "named.yaml"
    YAML().dump(small, path)
    with pytest.raises(StudyError, match=f"{field}"):
        read(path)


def test_the_commands_end_with_one_message(
    odd: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(monkeypatch, capsys)
    bomb = tmp_path / "bomb.yaml"
    bomb.write_text(NINES)
    for path in (*odd.values(), bomb):
        for command in (
            ("check", path), ("plan", path), ("hosts", "check", "--hosts", path), ("size", path),
            ("import", "--stack", f"a={path}", "--jobs", path), ("import", path),
            ("size", "--catalogue", path, path), ("import", "--study", path),
        ):  # fmt: skip
            code, _, err = shell(*map(str, command))
            assert code in (1, 2) and err.startswith("error: ") and "Traceback" not in err, (command, err)
