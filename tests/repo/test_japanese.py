"""The Japanese pages: each says what its English page says, in one style."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repo import house

# The characters of Japanese text: kana, kanji, and full-width punctuation.
JAPANESE = "\u3001-\u30ff\u4e00-\u9fff\uff01-\uff60"
GLOSSARY = house.DOCS / "glossary.ja.md"
PAGES = [path for path in house.documents() if path.name.endswith(".ja.md")]
NAMES = [str(path.relative_to(house.ROOT)) for path in PAGES]

# Japanese counts with digits where English has a word: "three volumes" is 3本, "half an hour" is 30分.
WORDS: dict[str, set[str]] = {
    "a": {"1"}, "an": {"1"}, "one": {"1"}, "single": {"1"}, "each": {"1"}, "per": {"1"}, "once": {"1"},
    "first": {"1"}, "second": {"1", "2"}, "two": {"2"}, "both": {"2"}, "twice": {"2"}, "doubled": {"2"},
    "half": {"2", "5", "30"}, "three": {"3"}, "third": {"3"}, "four": {"4"}, "quarter": {"4", "1", "15"},
    "five": {"5"}, "six": {"6"}, "seven": {"7"}, "eight": {"8"}, "eighth": {"1"}, "nine": {"9"}, "ten": {"10"},
    "tenth": {"10", "1"}, "eleven": {"11"}, "twelve": {"12"}, "all": {"1"}, "every": {"1"}, "many": {"1"},
}  # fmt: skip

_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"\s+#\s.*$", re.MULTILINE)  # "blocklab resume     # continue a study"
_TARGET = re.compile(r"(?<=\])\([^)\s]+\)")  # "(drbd-az.md)" in "[drbd-az](drbd-az.md)"
_CODE = re.compile(r"`([^`]+)`")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")  # "1,183", "2.7", "0"
# What starts a block of its own without an empty line before it: a row, an item.
_STARTS = re.compile(r"\n(?=\||- |\d+\. )")
_ENDS = re.compile(r"(?:ます|です|ません|でした|ました|ください|でしょう|ですか|のか|るか|たか|いか)[」）]*$")


def english(path: Path) -> Path:
    """The page that a Japanese page follows."""
    return path.with_name(path.name.replace(".ja.md", ".md"))


def pieces(text: str) -> list[str]:
    """Paragraphs, list items, rows and headings, without fenced blocks and the link to the other language."""
    bare = _FENCE.sub("", text)
    found = [piece.strip() for part in re.split(r"\n\s*\n", bare) for piece in _STARTS.split(part)]
    return [piece for piece in found if piece and not re.fullmatch(r"\[(?:English|日本語)\]\(\S+\)", piece)]


def shape(piece: str) -> str:
    """What kind of block it is: a heading and its level, an item, a row and its columns, or a paragraph."""
    if piece[0] == "|":
        return "|" * len(re.findall(r"(?<!\\)\|", piece))
    found = re.match(r"#+ |- |\d+\. |!", piece)
    return found[0] if found else ""


def fences(text: str) -> list[str]:
    """The fenced blocks without their comments."""
    return [_COMMENT.sub("", block) for block in _FENCE.findall(text)]


def spoken(piece: str) -> str:
    """The text without code and without the targets of links."""
    return _CODE.sub("", _TARGET.sub("", piece))


def differences(ours: str, theirs: str) -> Iterator[str]:
    """What a block of the English page has that the Japanese one lacks, and the other way around."""
    if shape(ours) != shape(theirs):
        yield f"is {shape(theirs)!r}, not {shape(ours)!r}"
    code = [sorted(" ".join(each.split()) for each in _CODE.findall(text)) for text in (ours, theirs)]
    if code[0] != code[1]:
        yield f"code: {code[0]} is {code[1]}"
    links = [sorted(target.replace(".ja.md", ".md") for _, target in house.links(text)) for text in (ours, theirs)]
    if links[0] != links[1]:
        yield f"links: {links[0]} is {links[1]}"
    numbers = Counter(_NUMBER.findall(spoken(ours)))
    counted = Counter(_NUMBER.findall(spoken(theirs)))
    words = set(re.findall(r"[a-z]+", spoken(ours).lower()))
    allowed = set().union(*(WORDS[word] for word in words & WORDS.keys()))
    if numbers - counted:
        yield f"lacks {list((numbers - counted).elements())}"
    if set(counted - numbers) - allowed:
        yield f"has {sorted(set(counted - numbers) - allowed)}, which the English page has not"


def unlike(ours: str, theirs: str) -> list[str]:
    """Where a Japanese page does not follow its English one, a line for each block."""
    found = [f"fenced block: {block[:60]!r}" for block in fences(ours) if block not in fences(theirs)]
    if len(fences(ours)) != len(fences(theirs)):
        found.append("not as many fenced blocks")
    pairs = itertools.zip_longest(pieces(ours), pieces(theirs), fillvalue=" ")
    return found + [f"{b[:40]!r}: {what}" for a, b in pairs for what in differences(a, b)]


@pytest.mark.parametrize("path", sorted({*PAGES} - {GLOSSARY}), ids=str)
def test_a_japanese_page_follows_its_english_page(path: Path) -> None:
    assert unlike(english(path).read_text(), path.read_text()) == []


def test_a_page_that_does_not_follow_is_found() -> None:
    ours = "# A\n\nTwo volumes do 1,183 TPS with `-c 10`.\n\n- [a](a.md) 3 %\n\n```sh\nx  # why\n```\n"
    good = "# A\n\n2本で1,183 TPSです（`-c 10`）。\n\n- [a](a.ja.md)は3%\n\n```sh\nx  # なぜ\n```\n"
    assert unlike(ours, good) == []
    for old, new in (
        ("1,183", "1,138"), ("2本", "4本"), ("-c 10", "-c 1"), ("3%", ""), ("a.ja.md", "b.md"), ("x  #", "y  #"),
        ("# A", "## A"), ("- [a]", "[a]"), ("です", "、1 msです"),
    ):  # fmt: skip
        assert unlike(ours, good.replace(old, new)), (old, new)


def test_pages_of_both_languages_link_to_each_other() -> None:
    assert {"README.ja.md", "docs/glossary.ja.md", "docs/studies/README.ja.md"} <= set(NAMES)
    for path in PAGES:
        for text, label, name in (
            (path.read_text(), "English", english(path).name),
            (english(path).read_text(), "日本語", path.name),
        ):
            assert text.split("\n\n")[1] == f"[{label}]({name})", path
    for path in (house.DOCS / "studies").glob("*.md"):
        assert path.name.endswith(".ja.md") or path.with_suffix(".ja.md") in PAGES, (
            f"{path.name} has no Japanese page"
        )


@pytest.mark.parametrize("path", PAGES, ids=NAMES)
def test_a_japanese_page_links_to_japanese_pages_where_there_are(path: Path) -> None:
    for line, target in house.links(path.read_text()):
        if target.endswith(".md") and not target.endswith(".ja.md") and target != english(path).name:
            assert not (path.parent / target).with_suffix(".ja.md").exists(), f"line {line}: {target}"


# -- style ------------------------------------------------------------------------------------------------------


def style(text: str) -> list[str]:
    """Breaches of the style: spaces beside Japanese, half-width punctuation, full-width letters, plain endings."""
    found = []
    bare = re.sub(r"[|*]|\*\*", "\n", _TARGET.sub("", _FENCE.sub("", text)))
    for pattern, what in (
        (rf"[{JAPANESE}] +[\w`±%(\[]|[\w`±%)\]] +[{JAPANESE}]", "space between Japanese and Latin"),
        (rf"[{JAPANESE}][,.:;?!()]|[(:;,!?)][{JAPANESE}]", "half-width punctuation"),
        (
            r"[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\uff05\uff0b\u3000]",
            "full-width letter, digit, sign or space",
        ),
        (r"\d %(?! [a-z])", "space before %"),
        (r"こと(?:が|は|も)でき|によって行われ|することによ", "translationese"),
    ):
        found += [f"{what}: {match[0]!r} in {match.string[match.start() - 15 : match.end() + 15]!r}"
                  for match in re.finditer(pattern, bare)]  # fmt: skip
    for piece in pieces(text):
        if shape(piece)[:1] not in ("|", "!"):  # neither a row nor a picture
            sentences = re.sub(r"「[^」]*」|（[^）]*）", "", _CODE.sub("x", _TARGET.sub("", piece))).split("。")[
                :-1
            ]
            found += [f"ends plainly: {each}" for each in sentences if not _ENDS.search(each)]
    return found


@pytest.mark.parametrize("path", PAGES, ids=NAMES)
def test_a_japanese_page_keeps_to_one_style(path: Path) -> None:
    assert style(path.read_text()) == []


@pytest.mark.parametrize(
    "text",
    [
        "blocklab は",
        "構成 A",
        "測定、する.",
        "１回です。",
        "50 %です。",
        "測定することができます。",
        "測定する。",
        "`a` です",
    ],
)
def test_a_breach_of_the_style_is_found(text: str) -> None:
    assert style(f"{text}\n")


# -- the glossary -----------------------------------------------------------------------------------------------


def rows(path: Path) -> list[list[str]]:
    """The cells of the rows of a document's tables, without the heads."""
    found = [
        [cell.strip() for cell in piece[1:-1].split("|")] for piece in pieces(path.read_text()) if piece[0] == "|"
    ]
    return [row for row in found if row[0] not in ("term", "用語", "---")]


def test_the_glossary_has_a_line_for_each_english_term() -> None:
    ours, theirs = rows(english(GLOSSARY)), rows(GLOSSARY)
    assert [row[0] for row in ours] == [row[1] for row in theirs[: len(ours)]]
    for old, new in zip(ours, theirs, strict=False):
        found = list(differences(old[2], new[3]))
        assert found == [], new[0]


@pytest.mark.parametrize("path", PAGES, ids=NAMES)
def test_no_page_uses_a_word_that_the_glossary_replaces(path: Path) -> None:
    text = path.read_text()
    if path == GLOSSARY:
        text = "\n".join(f"{row[0]} {row[3]}" for row in rows(path))
    for row in rows(GLOSSARY):
        for word in filter(None, row[2].split("、")):
            assert not re.search(rf"{re.escape(word)}(?!ー)", text), f"{word}: take {row[0]}"
