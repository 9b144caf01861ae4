"""The documents: complete, true where a program can tell, and without a dead link."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer
from ruamel.yaml import YAML
from typer.testing import CliRunner

from blocklab import probes
from blocklab.faults import AnyFault
from blocklab.layers import AnyLayer, Drbd
from blocklab.model import describe
from blocklab.model.ground import LinkSpec, NodeSpec, Performance, Topology
from blocklab.model.stop import Stop
from blocklab.model.units import Bandwidth, BitRate, Duration, Size, dec_hook, schema_hook
from blocklab.sites.uml import doctor
from blocklab.study import profiles
from blocklab.study.factors import assignments
from blocklab.study.grid import cells
from blocklab.study.read import read
from blocklab.study.types import Stack, Study
from blocklab.workloads import AnyWorkload
from tests.repo import house
from tools import manpage, reference

COMPLETE = "<!-- complete study -->"
LAYERS = sorted(house.members(AnyLayer), key=lambda kind: kind.__name__)
WORKLOADS = sorted(house.members(AnyWorkload), key=lambda kind: kind.__name__)
FAULTS = sorted(house.members(AnyFault), key=lambda kind: kind.__name__)


def document(name: str) -> str:
    """The text of a document below ``docs``."""
    return (house.DOCS / name).read_text()


def section(name: str, title: str) -> str:
    """One section of a document; a failure names what is missing."""
    found = house.sections(document(name))
    assert title in found, f"docs/{name} has no section '## {title}'"
    return found[title]


# -- what there is, is documented -------------------------------------------------------------------------------


def commands() -> Iterator[tuple[str, Any]]:
    """Every command of the command line by its full name."""
    from blocklab.cli.main import app

    def walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        if hasattr(command, "commands"):
            for word, below in command.commands.items():
                yield from walk(f"{name} {word}", below)
        elif not command.hidden:
            yield name, command

    return walk("blocklab", typer.main.get_command(app))


def test_every_command_and_option_is_documented() -> None:
    text = document("commands.md")
    missing = []
    for name, command in commands():
        if not re.search(rf"`{re.escape(name)}[ `]", text):
            missing.append(name)
        for parameter in command.params:
            long = [option for option in parameter.opts if option.startswith("--")]
            missing += [f"{name} {option}" for option in long if not re.search(rf"`{option}[ `]", text)]
    assert missing == []


def floors() -> list[set[str]]:
    """The packages of each row of the import contract, the highest first."""
    contracts = tomllib.loads((house.ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (rows,) = (each["layers"] for each in contracts if each["type"] == "layers")
    return [set(row.split(" | ")) for row in rows]


def test_the_house_is_drawn_as_the_import_contract_has_it() -> None:
    rows = re.findall(r"^\| (`[^|]+`) \|", section("how-it-works.md", "The packages"), re.MULTILINE)
    assert [set(re.findall(r"`(\w+)`", row)) for row in rows] == floors()
    (drawn,) = [block for block in house.blocks(document("how-it-works.md"), "text") if "the catalogue" in block]
    # What a package is for stands to the right of the house.
    words = [word for line in drawn.splitlines() for word in re.findall(r"\w+", line[:40])]
    assert sorted(words) == sorted(set().union(*floors()))
    # No package is outside the contract.
    source = house.ROOT / "src/blocklab"
    assert {path.parent.name for path in source.glob("*/__init__.py")} | {"errors"} == set().union(*floors())


def test_the_table_of_options_names_the_commands_that_have_them() -> None:
    # | `--cells` | plan | Print the grid and its time instead of commands. |
    of: dict[str, set[str]] = {}
    for options, names in re.findall(
        r"^\| (`-[^|]*?(?:\\\|[^|]*?)*) \| ([a-z, ]+) \|", document("commands.md"), re.M
    ):
        for option in re.findall(r"--[a-z-]+", options):
            of.setdefault(option, set()).update(names.split(", "))
    missing = [
        f"{name} {option}"
        for name, command in commands()
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--") and option not in ("--help", "--version", "--lang")
        if not {name.removeprefix("blocklab "), name.split()[1]} & of.get(option, set())
    ]
    assert missing == []


def test_every_documented_command_exists() -> None:
    known = {name for name, _ in commands()}
    groups = {name.rpartition(" ")[0] for name in known}
    wrong = []
    for path in house.documents():
        text = path.read_text()
        said = re.findall(r"`(blocklab(?: [a-z]+)+)", text)
        for block in house.blocks(text, "sh"):
            said += re.findall(r"^(blocklab(?: [a-z]+)+)", block, re.MULTILINE)
        for words in said:
            names = [words.rsplit(" ", cut)[0] for cut in range(words.count(" "))]
            if not any(name in known for name in names) and words not in groups:
                wrong.append(f"{path.relative_to(house.ROOT)}: {words}")
    assert wrong == []


# -- the reference ----------------------------------------------------------------------------------------------


def pages() -> list[str]:
    """The pages of the reference by their paths below its folder."""
    return sorted(str(path.relative_to(reference.FOLDER)) for path in reference.FOLDER.rglob("*.md"))


def test_the_reference_is_what_the_source_says() -> None:
    """It cannot be made where a field has no text."""
    made = reference.pages()
    assert pages() == sorted(made), "`just reference` writes it again"
    stale = [path for path, text in made.items() if document(f"reference/{path}") != text]
    assert stale == [], "`just reference` writes it again"


def test_the_manual_page_is_what_the_help_says() -> None:
    assert document(manpage.FILE.name) == manpage.page(), "`just reference` writes it again"
    assert not re.search(r"`|^'", document(manpage.FILE.name), re.MULTILINE), "troff would misread it"


def test_a_field_without_a_text_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = describe.field_docs

    def without(kind: type) -> dict[str, str]:
        return {name: text for name, text in texts(kind).items() if (kind, name) != (Drbd, "protocol")}

    monkeypatch.setattr(reference, "field_docs", without)
    with pytest.raises(SystemExit, match=r"Drbd.protocol has no text"):
        reference.pages()


def test_every_layer_load_fault_and_probe_has_its_page_and_its_place_in_the_overview() -> None:
    for folder, wanted in (
        ("layers", [house.tag_of(kind) for kind in LAYERS]),
        ("workloads", [house.tag_of(kind) for kind in WORKLOADS]),
        ("faults", [house.tag_of(kind) for kind in FAULTS]),
        ("probes", [probe.name for probe in probes.PROBES]),
    ):
        found = [path for path in pages() if path.startswith(f"{folder}/")]
        assert found == sorted(f"{folder}/{name}.md" for name in wanted)
        linked = {target for _, target in house.links(document(f"{folder}.md"))}
        assert {f"reference/{path}" for path in found} <= linked, f"docs/{folder}.md"


def test_a_field_that_is_always_refused_has_no_place_on_a_page() -> None:
    for folder, kinds, field in (("workloads", reference.WORKLOADS, "from"), ("faults", reference.FAULTS, "for")):
        for name, kind in kinds.items():
            assert (f"| `{field}` |" in document(f"reference/{folder}/{name}.md")) == (
                field not in kind.refused
            ), name
    for kind in reference.WORKLOADS.values():
        # As ``study.check`` has it: a client of a database can run elsewhere.
        assert bool(kind.refused) != bool({"postgresql", "mysql"} & set(kind.takes)), kind


def test_every_part_of_a_study_has_its_page() -> None:
    """All that a study is made of, but for layers, workloads and faults: each is a page, or a piece of one."""
    parts = set(describe.structs(Study)) - {*LAYERS, *WORKLOADS, *FAULTS}
    assert parts <= set(reference.PARTS.values()) | {Performance, *reference.OFFERS.values()}
    linked = {target for _, target in house.links(document("study-file.md"))}
    assert {f"reference/study/{name}.md" for name in reference.PARTS} <= linked


def test_every_struct_of_a_study_is_known_to_the_schema_by_a_name_of_its_own() -> None:
    kinds = list(describe.structs(Study))
    schema = msgspec.json.schema(Study, schema_hook=schema_hook)
    assert sorted(schema["$defs"]) == sorted(kind.__name__ for kind in kinds)
    described = describe.described(schema, Study)["$defs"]
    for kind in kinds:
        names = {field.encode_name for field in msgspec.structs.fields(kind)}
        told = {name for name, field in described[kind.__name__]["properties"].items() if "description" in field}
        assert names <= told, kind


@pytest.mark.parametrize("path", pages())
def test_the_reference_has_no_leftovers_of_docstrings(path: str) -> None:
    text = document(f"reference/{path}")
    assert "``" not in text.replace("```", "") and "::" not in text and "\n\n\n" not in text


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        (Size, ["64KiB", "30GB", "1GiB"]),
        (Duration, ["450us", "2.7ms", "10s", "0s"]),
        (Bandwidth, ["43.43MB/s", "125MiB/s", "0B/s"]),
        (BitRate, ["100Mbit/s"]),
    ],
)
def test_quantities_read_as_a_study_would_write_them(kind: type[Size | Duration], texts: list[str]) -> None:
    assert [reference.pretty(kind(text)) for text in texts] == texts


def test_every_environment_variable_is_documented() -> None:
    used = {name for _, text in house.texts() for name in re.findall(r"\bBLOCKLAB_[A-Z]+\b", text)}
    assert used <= set(re.findall(r"`(BLOCKLAB_[A-Z]+)`", document("commands.md")))


def test_every_fact_of_doctor_has_its_cure_in_the_documents() -> None:
    explained = set(
        re.findall(r"^\| `([^`]+)` \|", section("troubleshooting.md", "What doctor checks"), re.MULTILINE)
    )
    assert {fact.name for fact in doctor.facts()} <= explained


def test_just_bench_knows_every_benchmark() -> None:
    text = (house.ROOT / "justfile").read_text()
    listed = re.search(r'if names == "" \{ "([a-z_ ]+)" \}', text)
    made = {path.stem for path in (house.ROOT / "bench").glob("*.py") if "__main__" in path.read_text()}
    # Those that take long, or packages of their own, run by their names only.
    said = re.search(r"^# Run benchmarks by name, or the short ones: (.*); (.*)\.$", text, re.MULTILINE)
    assert listed is not None and said is not None
    assert set(listed[1].split()) == set(said[1].split(", "))
    assert {*said[1].split(", "), *said[2].split(", ")} == made


# -- what is said, is so ----------------------------------------------------------------------------------------


def studies() -> list[tuple[str, str]]:
    """(document, text) of every complete study in the documents."""
    return [
        (f"{path.relative_to(house.ROOT)}-{number}", text)
        for path in house.documents()
        for number, text in enumerate(house.blocks(path.read_text(), "yaml", COMPLETE))
    ]


@pytest.mark.parametrize(("name", "text"), studies(), ids=[name for name, _ in studies()])
@pytest.mark.parametrize("quick", [False, True])
def test_complete_studies_in_the_documents_are_well(tmp_path: Path, name: str, text: str, quick: bool) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(text)
    if quick and not re.search("^quick:", text, re.MULTILINE):
        pytest.skip("it has no short form")
    assert cells(read(file, quick=quick))


def test_there_is_a_complete_study_in_the_documents() -> None:
    assert studies()


def examples(name: str) -> list[Any]:
    """The YAML blocks of a document as data, but for complete studies."""
    text = document(name)
    whole = house.blocks(text, "yaml", COMPLETE)
    return [YAML(typ="safe").load(block) for block in house.blocks(text, "yaml") if block not in whole]


@pytest.mark.parametrize("path", [path for path in pages() if path != "README.md"])
def test_examples_in_the_reference_can_be_read(path: str) -> None:
    folder, name = path.removesuffix(".md").split("/")
    found = examples(f"reference/{path}")
    if folder == "layers":
        used = {house.tag_of(type(layer)) for block in found for layer in _layers(block)}
        assert name in used
    elif folder == "workloads":
        workloads = [workload for block in found for workload in _fragment("workloads", block).values()]
        assert name in {house.tag_of(type(workload)) for workload in workloads}
        assert [workload.problems() for workload in workloads] == [[]] * len(workloads)
    elif folder == "faults":
        faults = [fault for block in found for fault in _fragment("faults", block["faults"]).values()]
        assert name in {house.tag_of(type(fault)) for fault in faults}
        assert all(fault.moments() for fault in faults)
    elif folder == "study":
        assert found or name == "study"
        for block in found:
            for field, part in block.items():
                if field == "stop":
                    assert list(msgspec.convert(part, Stop, dec_hook=dec_hook).problems()) == []
                else:
                    _fragment(field, part)


def test_examples_in_the_documents_can_be_read() -> None:
    for name in ("layers.md", "workloads.md", "faults.md", "study-file.md"):
        assert examples(name)
        for block in examples(name):
            if isinstance(block, list):
                _layers(block)
            else:
                for field, part in block.items():
                    _fragment(field, part)


def _layers(block: Any) -> list[Any]:
    """Layers of an example, from below, with their profiles filled in."""
    stack = profiles.fill({"stacks": {"x": {"on": "a1", "layers": block}}})["stacks"]["x"]
    found = list(msgspec.convert(stack, Stack, dec_hook=dec_hook).layers)
    nodes = {name: NodeSpec() for name in ("a1", "a2")}
    there = Topology(nodes, {"zone": LinkSpec(("a1", "a2"))}, ())
    for layer in found:
        assert layer.problems("a1", there) == []
    for below, layer in itertools.pairwise(found):
        # A second volume is another example.
        assert layer.takes in (None, below.gives)
    return found


def _fragment(field: str, part: Any) -> Any:
    """One field of a study."""
    kind = next(each.type for each in msgspec.structs.fields(Study) if each.name == field)
    found = msgspec.convert(part, kind, dec_hook=dec_hook)
    if field == "profiles":
        assert profiles.known({"profiles": part}).keys() >= part.keys()
    if field == "factors":
        assert all(assignments(factor) for factor in found.values())
    if field == "expect":
        assert all(low <= high for low, high in (claim.bounds for claim in found))
    return found


def test_the_committed_schema_is_what_the_command_prints() -> None:
    from blocklab.cli.main import app

    done = CliRunner().invoke(app, ["schema"])
    assert done.exit_code == 0, done.exception
    assert done.stdout == document("study.schema.json"), "`just schema` writes it again"


def test_the_readme_is_short() -> None:
    assert len((house.ROOT / "README.md").read_text().splitlines()) <= 120


# -- links and commands of the README ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", house.documents(), ids=[str(path.relative_to(house.ROOT)) for path in house.documents()]
)
def test_links_lead_somewhere(path: Path) -> None:
    assert house.broken_links(path, path.read_text()) == []


def test_the_search_for_dead_links_can_find(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("# Here it is\n")
    text = "[a](b.md) [b](b.md#here-it-is) [c](c.md) [d](b.md#nowhere)\n```\n[e](e.md)\n```\n"
    assert house.broken_links(tmp_path / "a.md", text) == ["line 1: c.md", "line 1: b.md#nowhere"]


def test_readme_and_contributing_are_about_commands_that_exist() -> None:
    text = "".join((house.ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md"))
    named = {word for block in house.blocks(text, "sh") for word in re.findall(r"^\./(\S+)", block, re.MULTILINE)}
    assert {"quickstart", "run-tests"} <= named
    for name in named:
        file = house.ROOT / name
        assert file.is_file() and os.access(file, os.X_OK), f"{name} cannot be started"


@pytest.mark.parametrize("name", ["quickstart", "run-tests", ".ci/run", "scripts/setup.sh"])
def test_the_scripts_are_whole(name: str) -> None:
    """What they do needs a bare machine; that the shell can read them does not."""
    done = subprocess.run(["bash", "-n", name], cwd=house.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_document_is_listed() -> None:
    """From the index of each folder of documents; the reference's lists those of the folders inside."""
    for folder, inside in ((house.DOCS, "*.md"), (house.DOCS / "adr", "*.md"), (reference.FOLDER, "*/*.md")):
        linked = {target.partition("#")[0] for _, target in house.links((folder / "README.md").read_text())}
        names = {str(path.relative_to(folder)) for path in folder.glob(inside)} - {"README.md"}
        assert names and names <= linked


def test_decisions_are_numbered_dated_and_complete() -> None:
    found = sorted((house.DOCS / "adr").glob("0*.md"))
    assert [int(path.name[:4]) for path in found] == list(range(1, len(found) + 1))
    for path in found:
        text = path.read_text()
        assert re.match(rf"# {int(path.name[:4])}\. \S.*\n\nDate: \d{{4}}-\d\d-\d\d\n", text), path.name
        assert list(house.sections(text)) == ["Context", "Decision", "Consequences"], path.name
