"""A layer and a workload that the package does not know, defined here as CONTRIBUTING.md says, and their study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest

from blocklab.charts.layout import layouts
from blocklab.cli.plan import planned
from blocklab.errors import ParseError, StudyError
from blocklab.layers.base import Base as Layer
from blocklab.model.ground import Topology
from blocklab.model.host import Result
from blocklab.model.layer import Place
from blocklab.model.plan import Argv, Fact, Kind, Plan, Port, Put, Run, Step
from blocklab.model.sample import Parsed, Phase, Sample
from blocklab.model.terminal import Console
from blocklab.model.units import Size
from blocklab.model.workload import Command
from blocklab.report import render, terminal_table
from blocklab.sites.fake import FakeSite
from blocklab.stats.analysis import analyse
from blocklab.study.check import combined_problems
from blocklab.study.kinds import registered
from blocklab.study.read import read
from blocklab.study.types import Study
from blocklab.workloads.base import Base as Workload
from tests.fake.answers import Answers
from tests.fake.runs import go

KEY = "/run/blocklab/key"
HEADER = 16 * 2**20


class Crypt(Layer, frozen=True, tag="crypt"):
    """A block device whose data are encrypted below it: the kernel's dm-crypt, by LUKS."""

    cipher: str = "aes-xts-plain64"

    takes: ClassVar[Kind | None] = "block"
    gives: ClassVar[Kind] = "block"
    title: ClassVar[str] = "dm-crypt"

    def problems(self, host: str, lab: Topology) -> list[tuple[str, str]]:
        return [] if "-" in self.cipher else [("cipher", "write it like aes-xts-plain64")]

    def holds(self, below: Sequence[int]) -> list[int]:
        return [size - HEADER for size in below]

    def plan(self, place: Place, below: tuple[Port, ...]) -> Plan:
        host, lower, name = place.host, below[0].where, f"dm-{900 + place.number}"
        steps = (
            Put(host, KEY, "0" * 32),
            Run(
                host,
                ("cryptsetup", "luksFormat", "--batch-mode", f"--cipher={self.cipher}", lower, KEY),
                once=True,
            ),
            Run(host, ("cryptsetup", "open", "--key-file", KEY, lower, name), undo=("cryptsetup", "close", name)),
        )
        fact = Fact(host, self.tag, ("cryptsetup", "status", name), parse_status, {"cipher": self.cipher})
        return Plan(steps, (fact,), (Port(host, "block", f"/dev/mapper/{name}"),))


def parse_status(text: str) -> dict[str, str]:
    # /dev/mapper/dm-900 is active.
    #   type:    LUKS2
    #   cipher:  aes-xts-plain64
    return {"cipher": text.partition("cipher:")[2].split()[0]}


class Writer(Workload, frozen=True, tag="writer", kw_only=True):
    """Blocks of 4 KiB, one after the other."""

    size: Size

    takes: ClassVar[tuple[Kind, ...]] = ("block",)

    def problems(self) -> list[tuple[str, str]]:
        return [] if self.size % 4096 == 0 else [("size", "give whole blocks of 4KiB")]

    def prepare(self, port: Port) -> tuple[Step, ...]:
        return ()

    def command(self, port: Port) -> Command:
        return Command(port.host, ("toy-writer", port.where, str(int(self.size))), seconds=60.0)

    @property
    def room(self) -> int:
        return int(self.size)

    def io_options(self) -> tuple[Mapping[str, str], ...]:
        return ({"direct": "1"},)

    def queue_depths(self) -> Mapping[str, int | None]:
        return {"": 1}

    def parse(self, raw: Mapping[str, bytes], host: str) -> Parsed:
        # from 1700000000.0 to 1700000002.0: 1024 writes
        words = raw["stdout"].decode().split()
        if len(words) != 6:
            raise ParseError("toy-writer", "no line of six words", raw["stdout"].decode())
        start, end, writes = float(words[1]), float(words[3].rstrip(":")), int(words[4])
        rows = [("write.ios", writes, "1"), ("write.bytes", writes * 4096, "B"),
                ("write.iops", writes / (end - start), "1/s")]  # fmt: skip
        samples = tuple(Sample(metric, float(value), unit, "writer", host) for metric, value, unit in rows)
        return Parsed(samples, (Phase("writer", start, end),))


STUDY = """
blocklab: 2
name: toy
question: What does encryption cost?
nodes: {a1: {}}
stacks:
  plain: {on: a1, layers: [{layer: volume, size: 512MiB}]}
  safe: {on: a1, layers: [{layer: volume, size: 512MiB}, {layer: crypt}]}
workloads:
  io: {workload: writer, size: 4MiB}
factors:
  cipher: {field: stacks.safe.layers.crypt.cipher, values: [aes-xts-plain64, aes-cbc-essiv]}
"""


class Node(Answers):
    """A node whose kernel counts what the writer wrote; ``missing`` of its writes do not reach the volume."""

    def __init__(self, missing: int = 0) -> None:
        super().__init__()
        self.missing = missing
        self.writes = {"dm-900": 0, "ubdb": 0}
        self.cipher = ""

    def __call__(self, host: str, argv: Argv) -> Result:
        if said := self.told(argv):
            return Result(0, said.encode(), b"")
        # The probes' output has a mirror, where this node has the toy.
        found = super().__call__(host, argv)
        return msgspec.structs.replace(found, out=found.out.replace(b"drbd0", b"dm-900"))

    def told(self, argv: Argv) -> str:
        if argv[:2] == ("cryptsetup", "luksFormat"):
            self.cipher = argv[3].removeprefix("--cipher=")
        if argv[:2] == ("cryptsetup", "status"):
            return f"/dev/mapper/{argv[2]} is active.\n  type:    LUKS2\n  cipher:  {self.cipher}\n"
        if argv[0] == "toy-writer":
            self.writes["dm-900"] += 1024
            self.writes["ubdb"] += 1024 - self.missing
            return f"from 1700000000.0 to 170000000{2 if self.cipher else 1}.0: 1024 writes\n"
        return self.counters() if argv[0] == "tail" else ""

    def counters(self) -> str:
        disks = [f"  98 16 {name} 0 0 0 0 {n} 0 {8 * n} 0 0 0 0 0 0 0 0 0 0" for name, n in self.writes.items()]
        nics = ["Inter-|   Receive  |  Transmit", " face |bytes", "    lo: " + "0 " * 16]
        parts = {"uptime": ["5.68 0.99"], "diskstats": disks, "net/dev": nics}
        texts = [f"==> /proc/{name} <==\n" + "\n".join(lines) + "\n" for name, lines in parts.items()]
        return "\n".join([*texts, "==> /proc/uptime <==\n5.69 0.99\n"])


@pytest.fixture
def study(tmp_path: Path) -> Iterator[Study]:
    with registered(Crypt, Writer):
        yield written(tmp_path, STUDY)


def written(folder: Path, text: str) -> Study:
    path = folder / "toy.yaml"
    path.write_text(text)
    return read(path)


@pytest.mark.parametrize(
    ("old", "new", "path", "said"),
    [
        ("{layer: crypt}", "{layer: crypt, cipher: rot13}", "stacks.safe.layers[1].cipher", "aes-xts-plain64"),
        ("{layer: crypt}", "{layer: crypt, key: x}", "stacks.safe.layers[1].key", "unknown field"),
        ("{layer: crypt}", "{layer: cript}", "stacks.safe.layers[1].layer", "crypt"),
        ("size: 4MiB", "size: 5000B", "workloads.io.size", "whole blocks"),
        ("layers.crypt.cipher", "layers.crypt.color", "factors.cipher", "unknown field `color`"),
    ],
)
@pytest.mark.usefixtures("study")
def test_a_toy_is_checked_like_any_other(tmp_path: Path, old: str, new: str, path: str, said: str) -> None:
    with pytest.raises(StudyError) as caught:
        written(tmp_path, STUDY.replace(old, new))
    assert caught.value.path == path and said in f"{caught.value} {caught.value.hint}"


def test_what_a_toy_needs_for_itself_is_not_there_for_data(study: Study, tmp_path: Path) -> None:
    assert list(combined_problems(study)) == []
    full = written(tmp_path, STUDY.replace("size: 4MiB", "size: 512MiB"))
    problems = {problem for _, problem in combined_problems(full)}
    assert len(problems) == 1 and "the volumes of stack safe have 496 MiB" in str(problems)


def test_a_toy_is_unknown_where_it_is_not_registered(tmp_path: Path) -> None:
    with registered(Crypt, Writer):
        assert written(tmp_path, STUDY).stacks["safe"].layers[1].tag == "crypt"
    with pytest.raises(StudyError, match="invalid value 'crypt'"):
        written(tmp_path, STUDY)


def test_a_toy_goes_through_plan_run_crosscheck_diagram_and_report(study: Study, tmp_path: Path) -> None:
    plan = [" ".join(command.argv) for command in planned(study, "safe", FakeSite())]
    assert any(line.startswith("cryptsetup luksFormat") for line in plan) and "cryptsetup close dm-900" in plan

    folder, progress, bad, site = go(study, tmp_path, Node())
    assert bad == 0 and {each.status for each in progress.outcomes.values()} == {"ok"}, progress.outcomes
    assert sorted(progress.outcomes) == [
        "plain/io",
        "safe/io cipher=aes-cbc-essiv",
        "safe/io cipher=aes-xts-plain64",
    ]
    assert [argv[1] for lab in site.labs for _, argv in lab.log if argv[0] == "cryptsetup"].count("close") == 2

    for run in folder.runs():
        top = "dm-900" if run.cell.stack == "safe" else "ubdb"
        counted = {(each.layer, each.metric): each.value for each in run.values()}
        assert counted[top, "layer.write.bytes"] == counted["writer", "write.bytes"] == 4 * 2**20
        # dm only hands requests on, so that the kernel has no count of its flushes.
        assert ((top, "layer.flushes") in counted) == (top == "ubdb")

    analysis = analyse(folder)
    boxes = {layout.name: [(box.title, box.detail) for box in layout.boxes] for layout in layouts(analysis)}
    assert boxes["safe"] == [("Volume", "512\N{NO-BREAK SPACE}MiB"), ("dm-crypt", "")]
    assert {row.layer for row in analysis.rows if row.top and row.stack_name == "safe"} == {"dm-900"}

    page = render(folder, analysis=analysis).read_text()
    assert "dm-crypt" in page and "aes-cbc-essiv" in page
    console = Console(record=True, width=120)
    console.print(terminal_table(folder, analysis))
    shown = console.export_text()
    assert (
        "safe keeps 50\N{NO-BREAK SPACE}% throughout of plain's" in shown and "dm-900 1.00, ubdb 1.00" in shown
    ), shown


def test_writes_of_a_toy_that_do_not_reach_the_volume_are_suspect(study: Study, tmp_path: Path) -> None:
    _, progress, bad, _ = go(study, tmp_path, Node(missing=512))
    suspect = [label for label, each in progress.outcomes.items() if each.status == "suspect"]
    assert bad == 3 and len(suspect) == 3
    assert "A layer did not pass on what it took" in str(progress.outcomes["safe/io cipher=aes-cbc-essiv"].error)
