"""Texts of statistics, whole and damaged."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st

from blocklab.formats.found import Found
from blocklab.formats.kinds import KINDS
from blocklab.formats.text import Bad, Text
from blocklab.sizing.kinds import MODELS
from blocklab.sizing.reading import Reading
from blocklab.sizing.series import Series, Snapshot


class Taken:
    """A file's table, and what sizing makes of it."""

    def __init__(self, kind: str, text: Text, reading: Reading | None = None) -> None:
        self.found: Found = KINDS[kind].read(text)
        self.statistics = MODELS[kind](self.found, reading or Reading())

    @property
    def series(self) -> tuple[Series, ...]:
        return self.statistics.series

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        return self.statistics.snapshots

    @property
    def bad(self) -> tuple[Bad, ...]:
        return self.found.bad_rows

    @property
    def remarks(self) -> tuple[str, ...]:
        return (*self.found.remarks, *self.statistics.remarks)


def text_of(path: Path) -> Text:
    *lines, cut = path.read_text().split("\n")
    return Text(path, tuple(lines), cut)


def mutated(data: st.DataObject, text: str) -> Text:
    """A text that was cut, doubled, shuffled or written by another locale."""
    lines = text.split("\n")
    for _ in range(data.draw(st.integers(1, 4))):
        at, other = (data.draw(st.integers(0, len(lines) - 1)) for _ in range(2))
        match data.draw(st.sampled_from(["cut", "double", "swap", "comma", "thousands", "chars", "drop", "end"])):
            case "cut":
                lines[at] = lines[at][: data.draw(st.integers(0, 60))]
            case "double":
                lines.insert(other, lines[at])
            case "swap":
                lines[at], lines[other] = lines[other], lines[at]
            case "comma":
                lines[at] = lines[at].replace(".", ",")
            case "thousands":
                lines[at] = lines[at].replace("00", "1,000", 1)
            case "chars":
                place = data.draw(st.integers(0, len(lines[at])))
                odd = data.draw(
                    st.sampled_from(["-", "9" * 30, "NaN", "\x00", "{", "]", '"', "٣", "nan", " ", "e9"])
                )
                lines[at] = lines[at][:place] + odd + lines[at][place + 1 :]
            case "drop":
                del lines[at]
                lines = lines or [""]
            case "end":
                lines = lines[: at + 1]
    *whole, cut = lines
    return Text(Path("damaged"), tuple(whole), cut)
