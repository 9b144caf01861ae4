"""A layer and a workload that the package does not know, as CONTRIBUTING.md says, and their study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest

from blocklab.charts.layout import layouts
from blocklab.cli.plan import planned
from blocklab.errors import ParseError, StudyError
from blocklab.model.host import Result
from blocklab.model.plan import Argv, Kind, Port, Step
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
from blocklab.workloads.base import WorkloadBase as Workload
from tests.fake.answers import Answers
from tests.fake.runs import go
from tests.fake.toy_layer import Lone


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
question: What does MD cost?
nodes: {a1: {}}
stacks:
  plain: {on: a1, layers: [{layer: volume, size: 512MiB}]}
  safe: {on: a1, layers: [{layer: volume, size: 512MiB}, {layer: lone}]}
workloads:
  io: {workload: writer, size: 4MiB}
factors:
  bitmap: {field: stacks.safe.layers.lone.bitmap, values: [none, internal]}
"""


class Node(Answers):
    """A node whose kernel counts what the writer wrote; ``missing`` of its writes do not reach the volume."""

    def __init__(self, missing: int = 0) -> None:
        super().__init__()
        self.missing = missing
        self.writes = {"md800": 0, "ubdb": 0}
        self.bitmap = ""

    def __call__(self, host: str, argv: Argv) -> Result:
        if said := self.told(argv):
            return Result(0, said.encode(), b"")
        # The probes' output has a mirror, where this node has the toy.
        found = super().__call__(host, argv)
        return msgspec.structs.replace(found, out=found.out.replace(b"drbd0", b"md800"))

    def told(self, argv: Argv) -> str:
        if argv[:2] == ("mdadm", "--create"):
            self.bitmap = argv[-2].removeprefix("--bitmap=")
        if argv[:2] == ("mdadm", "--detail"):
            kept = "     Intent Bitmap : Internal\n" if self.bitmap == "internal" else ""
            return f"{argv[2]}:\n        Raid Level : raid1\n{kept}             State : clean\n"
        if argv[0] == "toy-writer":
            self.writes["md800"] += 1024
            self.writes["ubdb"] += 1024 - self.missing
            return f"from 1700000000.0 to 170000000{2 if self.bitmap else 1}.0: 1024 writes\n"
        return self.counters() if argv[0] == "tail" else ""

    def counters(self) -> str:
        disks = [f"  98 16 {name} 0 0 0 0 {n} 0 {8 * n} 0 0 0 0 0 0 0 0 0 0" for name, n in self.writes.items()]
        nics = ["Inter-|   Receive  |  Transmit", " face |bytes", "    lo: " + "0 " * 16]
        parts = {"uptime": ["5.68 0.99"], "diskstats": disks, "net/dev": nics}
        texts = [f"==> /proc/{name} <==\n" + "\n".join(lines) + "\n" for name, lines in parts.items()]
        return "\n".join([*texts, "==> /proc/uptime <==\n5.69 0.99\n"])


@pytest.fixture
def study(tmp_path: Path) -> Iterator[Study]:
    with registered(Lone, Writer):
        yield written(tmp_path, STUDY)


def written(folder: Path, text: str) -> Study:
    path = folder / "toy.yaml"
    path.write_text(text)
    return read(path)


@pytest.mark.parametrize(
    ("old", "new", "path", "said"),
    [
        ("{layer: lone}", "{layer: lone, bitmap: some}", "stacks.safe.layers[1].bitmap", "internal"),
        ("{layer: lone}", "{layer: lone, key: x}", "stacks.safe.layers[1].key", "unknown field"),
        ("{layer: lone}", "{layer: lonely}", "stacks.safe.layers[1].layer", "lone"),
        ("size: 4MiB", "size: 5000B", "workloads.io.size", "whole blocks"),
        ("layers.lone.bitmap", "layers.lone.color", "factors.bitmap", "unknown field `color`"),
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
    with registered(Lone, Writer):
        assert written(tmp_path, STUDY).stacks["safe"].layers[1].tag == "lone"
    with pytest.raises(StudyError, match="invalid value 'lone'"):
        written(tmp_path, STUDY)


def test_a_toy_goes_through_plan_run_crosscheck_diagram_and_report(study: Study, tmp_path: Path) -> None:
    plan = [" ".join(command.argv) for command in planned(study, "safe", FakeSite())]
    assert any(line.startswith("mdadm --create /dev/md800") for line in plan) and "mdadm --stop /dev/md800" in plan

    folder, progress, bad, site = go(study, tmp_path, Node())
    assert bad == 0 and {each.status for each in progress.outcomes.values()} == {"ok"}, progress.outcomes
    assert sorted(progress.outcomes) == [
        "plain/io",
        "safe/io bitmap=internal",
        "safe/io bitmap=none",
    ]
    assert [argv[1] for lab in site.labs for _, argv in lab.log if argv[0] == "mdadm"].count("--stop") == 2

    for run in folder.runs():
        top = "md800" if run.cell.stack == "safe" else "ubdb"
        counted = {(each.layer, each.metric): each.value for each in run.values()}
        assert counted[top, "layer.write.bytes"] == counted["writer", "write.bytes"] == 4 * 2**20
        # MD only hands requests on, so that the kernel has no count of its flushes.
        assert ((top, "layer.flushes") in counted) == (top == "ubdb")

    analysis = analyse(folder)
    boxes = {layout.name: [(box.title, box.detail) for box in layout.boxes] for layout in layouts(analysis)}
    assert boxes["safe"] == [("Volume", "512\N{NO-BREAK SPACE}MiB"), ("MD alone", "")]
    assert {row.layer for row in analysis.rows if row.top and row.stack_name == "safe"} == {"md800"}

    page = render(folder, analysis=analysis).read_text()
    assert "MD alone" in page and "internal" in page
    console = Console(record=True, width=120)
    console.print(terminal_table(folder, analysis, every=True))
    shown = console.export_text()
    assert (
        "safe keeps 50\N{NO-BREAK SPACE}% throughout of plain's" in shown and "md800 1.00, ubdb 1.00" in shown
    ), shown


def test_writes_of_a_toy_that_do_not_reach_the_volume_are_suspect(study: Study, tmp_path: Path) -> None:
    _, progress, bad, _ = go(study, tmp_path, Node(missing=512))
    suspect = [label for label, each in progress.outcomes.items() if each.status == "suspect"]
    assert bad == 3 and len(suspect) == 3
    assert "A layer did not pass on what it took" in str(progress.outcomes["safe/io bitmap=internal"].error)
