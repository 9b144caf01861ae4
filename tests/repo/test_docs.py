"""The documents: complete, true where a program can tell, and without a dead link."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer
from ruamel.yaml import YAML
from typer.testing import CliRunner

from blocklab import probes
from blocklab.layers import AnyLayer
from blocklab.model.ground import LinkSpec, NodeSpec
from blocklab.model.units import QUANTITIES, dec_hook
from blocklab.sites.uml import doctor
from blocklab.sites.uml.volumes import PATH_SECONDS
from blocklab.study.grid import cells
from blocklab.study.links import BASE_RTT
from blocklab.study.read import read
from blocklab.study.types import Expectation, Stack, Study
from blocklab.workloads import AnyWorkload
from tests.repo import house

COMPLETE = "<!-- complete study -->"
LAYERS = sorted(house.members(AnyLayer), key=lambda kind: kind.__name__)
LOADS = sorted(house.members(AnyWorkload), key=lambda kind: kind.__name__)


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
        else:
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


@pytest.mark.parametrize(
    ("name", "title", "kind"),
    [
        ("study-file.md", "The study", Study),
        ("study-file.md", "Nodes", NodeSpec),
        ("study-file.md", "Links", LinkSpec),
        ("study-file.md", "Stacks", Stack),
        ("study-file.md", "Expectations", Expectation),
        *(("layers.md", house.tag_of(kind), kind) for kind in LAYERS),
        *(("loads.md", house.tag_of(kind), kind) for kind in LOADS),
    ],
)
def test_every_field_is_documented(name: str, title: str, kind: type[msgspec.Struct]) -> None:
    documented = fields_in(section(name, title))
    assert documented == {field.name for field in msgspec.structs.fields(kind)}


def fields_in(text: str) -> set[str]:
    """The names in the first column of a table of fields."""
    rows = re.findall(r"^\| (`[^|]*`) \|", text, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def test_every_default_that_is_written_down_is_true() -> None:
    """Of the fields whose default is a number, a quantity or a truth value."""
    wrong = []
    places: list[tuple[str, str, Any]] = [
        ("study-file.md", "Nodes", NodeSpec),
        ("study-file.md", "Links", LinkSpec),
    ]
    places += [("layers.md", str(house.tag_of(kind)), kind) for kind in LAYERS]
    places += [("loads.md", str(house.tag_of(kind)), kind) for kind in LOADS]
    for name, title, kind in places:
        text = section(name, title)
        for field in msgspec.structs.fields(kind):
            default = field.default_factory() if callable(field.default_factory) else field.default
            if not isinstance(default, bool | int | float):
                continue
            row = next(line for line in text.splitlines() if re.match(rf"\| [^|]*`{field.name}`", line))
            said = re.match(r"`([^`]+)`", row.split("|")[2].strip())
            if said is None or _value(said[1], default) != default:
                wrong.append(f"docs/{name}: {title}.{field.name} is {default!r}")
    assert wrong == []


def _value(text: str, like: bool | int | float) -> object:
    if isinstance(like, QUANTITIES):
        return type(like)(text)
    return {"true": True, "false": False}[text] if isinstance(like, bool) else int(text)


def test_every_layer_load_and_probe_has_its_section() -> None:
    for name, wanted in (
        ("layers.md", [house.tag_of(kind) for kind in LAYERS]),
        ("loads.md", [house.tag_of(kind) for kind in LOADS]),
        ("probes.md", [probe.name for probe in probes.PROBES]),
    ):
        assert set(house.sections(document(name))) == set(wanted), f"docs/{name}"


def test_every_environment_variable_is_documented() -> None:
    used = {name for _, text in house.texts() for name in re.findall(r"\bBLOCKLAB_[A-Z]+\b", text)}
    assert used <= set(re.findall(r"`(BLOCKLAB_[A-Z]+)`", document("commands.md")))


def test_every_fact_of_doctor_has_its_cure_in_the_documents() -> None:
    explained = set(
        re.findall(r"^\| `([^`]+)` \|", section("troubleshooting.md", "What doctor checks"), re.MULTILINE)
    )
    assert {fact.name for fact in doctor.facts()} <= explained


def test_the_constants_in_the_documents_are_those_in_the_source() -> None:
    text = section("how-it-works.md", "Volumes")
    assert f"{PATH_SECONDS * 1e6:g} us for a volume" in text and f"{BASE_RTT * 1e3:g} ms for a link" in text


def test_just_bench_knows_every_benchmark() -> None:
    text = (house.ROOT / "justfile").read_text()
    listed = re.search(r'if names == "" \{ "([a-z_ ]+)" \}', text)
    made = {path.stem for path in (house.ROOT / "bench").glob("*.py") if "__main__" in path.read_text()}
    assert listed is not None and set(listed[1].split()) == made


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
    assert cells(read(file, quick=quick))


def test_there_is_a_complete_study_in_the_documents() -> None:
    assert studies()


def examples(name: str) -> list[Any]:
    """The YAML blocks of a document as data."""
    return [YAML(typ="safe").load(text) for text in house.blocks(document(name), "yaml")]


def test_examples_of_layers_and_loads_can_be_read() -> None:
    listed = [layer for block in examples("layers.md") for layer in block]
    assert {house.tag_of(type(each)) for each in msgspec.convert(listed, list[AnyLayer], dec_hook=dec_hook)} == {
        house.tag_of(kind) for kind in LAYERS
    }
    for block in examples("loads.md"):
        for load in msgspec.convert(block, dict[str, AnyWorkload], dec_hook=dec_hook).values():
            assert load.problems() == []


def test_the_committed_schema_is_what_the_command_prints() -> None:
    from blocklab.cli.main import app

    done = CliRunner().invoke(app, ["schema"])
    assert done.exit_code == 0, done.exception
    assert done.stdout == document("study.schema.json"), "`just schema` writes it anew"


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


def test_the_readme_is_about_commands_that_exist() -> None:
    text = (house.ROOT / "README.md").read_text()
    named = {word for block in house.blocks(text, "sh") for word in re.findall(r"^\./(\S+)", block, re.MULTILINE)}
    assert {"quickstart", "run-tests"} <= named
    for name in named:
        file = house.ROOT / name
        assert file.is_file() and os.access(file, os.X_OK), f"{name} cannot be started"


def test_every_document_is_listed() -> None:
    """From the index of each folder of documents."""
    for folder in (house.DOCS, house.DOCS / "adr"):
        index = (folder / "README.md").read_text()
        linked = {target.partition("#")[0] for _, target in house.links(index)}
        names = {path.name for path in folder.glob("*.md")} - {"README.md"}
        assert names <= linked


def test_decisions_are_numbered_dated_and_complete() -> None:
    found = sorted((house.DOCS / "adr").glob("0*.md"))
    assert [int(path.name[:4]) for path in found] == list(range(1, len(found) + 1))
    for path in found:
        text = path.read_text()
        assert re.match(rf"# {int(path.name[:4])}\. \S.*\n\nDate: \d{{4}}-\d\d-\d\d\n", text), path.name
        assert list(house.sections(text)) == ["Context", "Decision", "Consequences"], path.name
