"""The program in another language: what is a message, what becomes of it, and which lack their translation."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po

from blocklab.lang import LANGUAGES, catalogue
from blocklab.lang.pages import replaced
from blocklab.lang.source import collect, documentation, fields, rewritten
from tests.unit import synthetic, synthetic_drills
from tools import messages

OTHERS = [name for name in LANGUAGES if name != "en"]
# Words that a sentence agrees with in English only.
GRAMMAR = {"verb", "does", "agree", "are"}
# A page for Japanese readers has many of these.
JAPANESE = re.compile("[\u3040-\u30ff\u4e00-\u9fff]")


def run(source: str, known: dict[str, str]) -> dict[str, object]:
    """What a module's names are when it was translated."""
    names: dict[str, object] = {}
    exec(compile(rewritten(source, known.get), "module", "exec"), names)
    return names


def test_values_come_in_the_order_of_the_other_language() -> None:
    source = (
        'count, total = 3, 1234.5\nsaid = f\'{count} of {total:,.1f} cell{"s" if count > 1 else ""} failed\'\n'
    )
    assert [each for each, _ in collect(source)] == ["{count} of {total} cell{_s} failed"]
    other = {"{count} of {total} cell{_s} failed": "{total}セル中{count}セルが失敗"}
    assert run(source, other)["said"] == "1,234.5セル中3セルが失敗"
    assert run(source, {})["said"] == "3 of 1,234.5 cells failed"


def test_a_message_in_a_message() -> None:
    source = "name, more = 'x', 2\nsaid = f'no {name}{f\" and {more} others\" if more else \"\"}'\n"
    other = {"no {name}{more}": "{name}なし{more}", " and {more} others": "（ほか{more}）"}
    assert run(source, other)["said"] == "xなし（ほか2）"


def test_braces_of_a_plain_string_stay() -> None:
    source = "said = 'write {layer: xfs} there'\n"
    assert [each for each, _ in collect(source)] == ["write {{layer: xfs}} there"]
    assert run(source, {"write {{layer: xfs}} there": "{{layer: xfs}}と書く"})["said"] == "{layer: xfs}と書く"


@pytest.mark.parametrize(
    "source",
    [
        "found = kind == 'in sync'",
        "found = {'in sync': 1}",
        "found = names['in sync']",
        "found = text.startswith('in sync')",
        "found = re.compile('in sync')",
        "found = f'SELECT {name} FROM metrics'",
        "found = 'name'",
        "def f():\n    '''Says what it does.'''",
        "match kind:\n    case 'in sync':\n        found = 1",
        "found = '--as'",
    ],
)
def test_what_the_program_reads_is_no_message(source: str) -> None:
    assert list(collect(source)) == []


def test_a_word_in_a_table_is_a_message() -> None:
    assert list(collect("Table('stack', box=None)\nother('stack')")) == [("stack", True)]


def test_the_docstring_of_a_command_is_its_help() -> None:
    source = "def run():\n    '''Measure.\n\n    All of it.\n    '''\n"
    template = documentation("Measure.\n\n    All of it.\n    ")
    found = run(source, {template: "測定する。"})["run"]
    assert isinstance(found, Callable) and found.__doc__ == "測定する。"  # type: ignore[arg-type]


def test_a_translation_with_a_value_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match=r"names \{other\}"):
        run("name = 1\nsaid = f'no {name}'", {"no {name}": "{other}なし"})
    with pytest.raises(ValueError, match="has values"):
        run("said = 'no name'", {"no name": "{name}なし"})


def test_lines_stay_so_that_a_traceback_is_right() -> None:
    source = "a = 'no name'\n\ndef f():\n    raise ValueError(f'no {a}')\n"
    tree = rewritten(source, {"no name": "なし", "no {a}": "{a}なし"}.get)
    assert [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Raise)] == [4]


def test_a_page_keeps_its_tags_and_values() -> None:
    page = (
        '<h2 title="all cells">Cells</h2>\n<p>{{ good }} of {{ cells | length }} cells, see '
        '<a href="#x">them</a>.{% if a > 1 %} more{% endif %}</p>\n<style>p { color: red }</style>'
    )
    known = {
        "all cells": "全セル", "Cells": "セル", "more": "ほか",
        '{good} of {cells} cells, see <a href="#x">them</a>.': '{cells}中{good}セル（<a href="#x">一覧</a>）。',
    }  # fmt: skip
    assert replaced(page, known.get) == (
        '<h2 title="全セル">セル</h2>\n<p>{{ cells | length }}中{{ good }}セル（<a href="#x">一覧</a>）。'
        "{% if a > 1 %} ほか{% endif %}</p>\n<style>p { color: red }</style>"
    )


@pytest.mark.parametrize(
    ("options", "environment", "wanted"),
    [
        ([], {}, "en"),
        ([], {"LANG": "ja_JP.UTF-8"}, "ja"),
        ([], {"LANG": "ja_JP.UTF-8", "LC_ALL": "C.UTF-8"}, "en"),
        ([], {"LANG": "fr_FR.UTF-8"}, "en"),
        (["run", "--lang", "ja"], {}, "ja"),
        (["--lang=en", "run"], {"LANG": "ja"}, "en"),
        (["--lang", "xx"], {}, "xx"),
    ],
)
def test_which_language(options: list[str], environment: dict[str, str], wanted: str) -> None:
    assert catalogue.chosen(options, environment) == wanted


# -- the catalogues ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wanted() -> Catalog:
    return messages.template()


def translations(file: Path) -> Catalog:
    with file.open("rb") as opened:
        return read_po(opened)


# A new message is no failure: it is shown in English until somebody translates it. pytest's summary has the count.
@pytest.mark.filterwarnings("default:.* without a translation")
@pytest.mark.parametrize("language", OTHERS)
def test_messages_without_a_translation_are_counted(language: str, wanted: Catalog) -> None:
    if missing := messages.untranslated(translations(catalogue.source(language)), wanted):
        warnings.warn(f"{language}: {len(missing)} messages without a translation: just messages", stacklevel=1)


@pytest.mark.parametrize("language", OTHERS)
def test_no_translation_is_left_over(language: str, wanted: Catalog) -> None:
    known = {(each.id, each.context) for each in wanted}
    found = {(each.id, each.context) for each in translations(catalogue.source(language))}
    assert not found - known, "python -m tools.messages takes them out"


def test_a_message_without_a_translation_is_english_and_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ja.po"
    file.write_text(
        'msgid ""\nmsgstr "Content-Type: text/plain; charset=utf-8\\n"\n\n'
        'msgid "no name"\nmsgstr "名前なし"\n\nmsgid "no {place}"\nmsgstr ""\n'
    )
    monkeypatch.setenv("BLOCKLAB_CACHE", str(tmp_path))
    monkeypatch.setattr(catalogue, "source", lambda name: file)
    monkeypatch.setattr(catalogue, "_chosen", "ja")
    monkeypatch.setattr(catalogue, "_known", catalogue._known.__wrapped__)
    source = "place = 'x'\nsaid = 'no name', f'no {place}', 'no such name'\n"
    names: dict[str, object] = {}
    exec(compile(rewritten(source, catalogue.messages()), "module", "exec"), names)
    assert names["said"] == ("名前なし", "no x", "no such name")
    wanted = Catalog()
    for message, _ in collect(source):
        wanted.add(message)
    missing = messages.untranslated(translations(file), wanted)
    assert [each.id for each in missing] == ["no {place}", "no such name"]


@pytest.mark.parametrize("language", OTHERS)
def test_translations_have_the_values_of_their_messages(language: str) -> None:
    with catalogue.source(language).open("rb") as file:
        found = [(str(each.id), str(each.string)) for each in read_po(file) if each.id]
    wrong = []
    for message, other in found:
        mine, theirs = set(fields(message)), set(fields(other))
        left = {name for name in mine - theirs if not name.startswith("_") and name not in GRAMMAR}
        # Texts that are filled in later, by str.format or %.
        later = [sorted(re.findall(r"\{\{+[\w!]*\}\}+|%s", each)) for each in (message, other)]
        if theirs - mine or left or later[0] != later[1]:
            wrong.append((message, other))
    assert not wrong


# -- the program ------------------------------------------------------------------------------------------------


def blocklab(*argv: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; sys.argv[0] = 'blocklab'; from blocklab.cli.start import main; main()"
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG"))}
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, argv)], cwd=cwd, capture_output=True, text=True, timeout=120,
        env={**clean, "COLUMNS": "120", **environment}, check=False,
    )  # fmt: skip


def test_a_language_that_there_is_not(tmp_path: Path) -> None:
    done = blocklab("--lang", "xx", "studies", cwd=tmp_path)
    assert done.returncode == 2 and "--lang xx" in done.stderr and "en, ja" in done.stderr


def test_what_follows_a_node_is_the_nodes(tmp_path: Path) -> None:
    done = blocklab("sh", "a1", "echo", "--lang", "xx", cwd=tmp_path)
    assert "no such language" not in done.stderr


@pytest.mark.parametrize("language", OTHERS)
def test_help_and_errors(language: str, tmp_path: Path) -> None:
    helped = blocklab("run", "--help", LANG=f"{language}_XX.UTF-8", cwd=tmp_path)
    assert helped.returncode == 0 and JAPANESE.search(helped.stdout) and "終了コード" in helped.stdout
    wrong = blocklab("check", "nosuch", "--lang", language, cwd=tmp_path)
    assert wrong.returncode == 2 and wrong.stderr.startswith("エラー: ") and "nosuch" in wrong.stderr
    option = blocklab("check", "--nosuch", "--lang", language, cwd=tmp_path)
    assert option.returncode == 2 and "そのようなオプションはありません: --nosuch" in option.stderr


MAKERS: dict[str, Callable[[Path], object]] = {
    "layouts": synthetic.make,
    "sweep": synthetic.make_sweep,
    "matrix": synthetic.make_patterns,
    "drills": synthetic_drills.make_drills,
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name == "layouts" else pytest.mark.long) for name in MAKERS],
)
def test_files_are_the_same_and_the_page_is_not(name: str, tmp_path: Path) -> None:
    MAKERS[name](tmp_path)
    folder = next(each for each in tmp_path.iterdir() if (each / "study.json").exists())
    files = ("report.csv", "drills.csv")
    english = blocklab("report", folder, cwd=tmp_path)
    kept = {each: (folder / each).read_bytes() for each in files if (folder / each).exists()}
    verdicts = [each["status"] for each in json.loads((folder / "report.json").read_text())["verdicts"]]
    other = blocklab("report", folder, "--lang", "ja", cwd=tmp_path)
    assert english.returncode == other.returncode == 0, other.stderr
    assert not JAPANESE.search(english.stdout) and JAPANESE.search(other.stdout)
    assert kept == {each: (folder / each).read_bytes() for each in kept}
    assert verdicts == [each["status"] for each in json.loads((folder / "report.json").read_text())["verdicts"]]
    page = (folder / "report.html").read_text()
    assert '<html lang="ja">' in page and "結論" in page and "<h2>Answer" not in page


def test_names_of_a_study_stay(tmp_path: Path) -> None:
    """Its stack is called mirror, which is a term, too."""
    synthetic.make_sweep(tmp_path)
    (folder,) = (each for each in tmp_path.iterdir() if (each / "study.json").exists())
    done = blocklab("report", folder, "--lang", "ja", cwd=tmp_path)
    assert done.returncode == 0 and " mirror rtt=" in done.stdout and "ミラー rtt=" not in done.stdout
    assert ">mirror<" in (folder / "report.html").read_text()


def test_other_commands_in_another_language(tmp_path: Path) -> None:
    for argv in (
        ["plan", "drbd-az", "--quick"],
        ["schema"],
        ["query", "--tables"],
    ):
        english = blocklab(*argv, cwd=tmp_path)
        other = blocklab(*argv, "--lang", "ja", cwd=tmp_path)
        assert other.returncode == english.returncode == 0, (argv, other.stderr)
        # Study files are data, and so is their schema.
        assert (english.stdout == other.stdout) == (argv == ["schema"]), argv
