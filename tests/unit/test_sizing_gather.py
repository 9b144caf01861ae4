"""Files become systems: what belongs together is put together, nothing counts twice, what is left out is named."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from blocklab.errors import StudyError
from blocklab.formats.text import head
from blocklab.sizing.gather import Asked, gather
from blocklab.sizing.kinds import MODELS, READERS
from blocklab.sizing.need import Options, need
from blocklab.sizing.series import Trust
from blocklab.sizing.system import Gathered
from tests.unit.synthetic_sizing import dump, stats

GOLDEN = Path(__file__).parent / "golden" / "sizing"
SAMPLES = sorted(path for path in GOLDEN.rglob("*") if path.is_file() and path.name != "README.md")


def host_of(path: Path) -> str:
    kind = READERS.kind_of(path)
    return MODELS[kind](READERS.read(path, kind), Asked().reading).series[0].host


def said(found: Gathered) -> str:
    return "\n".join((*found.remarks, *(each.left_out for each in found.files)))


def test_dumps_of_one_server_may_be_in_several_files(tmp_path: Path) -> None:
    first, second = stats(tmp_path / "a", (1_700_000_000, 0)), stats(tmp_path / "b", (1_700_000_100, 1000))
    found = gather([first, second], Asked())
    (system,) = found.systems
    assert system.curve.values["read_iops"].tolist() == [10]
    assert [each.intervals for each in found.files] == [1, 1]


def test_files_of_several_folders_are_several_servers(tmp_path: Path) -> None:
    for name, rate in (("erp", 10), ("crm", 30)):
        stats(tmp_path / name / "stats", (1_700_000_000, 0), (1_700_000_100, 100 * rate))
    found = gather([tmp_path / "erp" / "stats", tmp_path / "crm" / "stats"], Asked())
    assert {each.name: each.curve.values["iops"].tolist() for each in found.systems} == {"erp": [10], "crm": [30]}
    together = need(found.systems, Options())
    assert together.amounts["iops"].required == 40


def test_a_name_that_the_user_gives_joins_files(tmp_path: Path) -> None:
    one = stats(tmp_path / "x" / "a", (1_700_000_000, 0), (1_700_000_100, 1000))
    two = stats(tmp_path / "y" / "a", (1_700_000_100, 1000), (1_700_000_200, 3000))
    found = gather([one, two], Asked(names={one: "erp", two: "erp"}))
    (system,) = found.systems
    assert (system.name, system.curve.values["iops"].tolist()) == ("erp", [10, 20])


def test_the_same_content_counts_once(tmp_path: Path) -> None:
    one = stats(tmp_path / "a", (1_700_000_000, 0), (1_700_000_100, 1000))
    two = stats(tmp_path / "b", (1_700_000_000, 0), (1_700_000_100, 1000))
    found = gather([one, two], Asked())
    assert found.files[1].left_out == f"the same content as {one}"
    assert found.systems[0].curve.values["iops"].tolist() == [10]


def test_two_reports_of_one_time_count_once(tmp_path: Path) -> None:
    """The second one is another text of the same hour."""
    text = (GOLDEN / "oracle" / "awr-19.html").read_text()
    one, two = tmp_path / "one.html", tmp_path / "two.html"
    one.write_text(text)
    two.write_text(text + "\n<!-- again -->\n")
    once, twice = gather([one], Asked()), gather([one, two], Asked())
    assert twice.systems[0].curve.values["iops"].tolist() == once.systems[0].curve.values["iops"].tolist()
    assert "of the same time as" in said(twice)


def test_one_database_under_two_names_counts_once(tmp_path: Path) -> None:
    text = (GOLDEN / "oracle" / "awr-19.html").read_text()
    one, two = tmp_path / "one.html", tmp_path / "two.html"
    one.write_text(text)
    two.write_text(text + "\n<!-- again -->\n")
    found = gather([one, two], Asked(names={one: "erp", two: "crm"}))
    assert [system.name for system in found.systems] == ["erp"]
    assert "counts as erp already" in said(found)


def test_two_databases_of_one_name_on_two_hosts_are_two_systems(tmp_path: Path) -> None:
    text = (GOLDEN / "oracle" / "awr-19.html").read_text()
    host = host_of(GOLDEN / "oracle" / "awr-19.html")
    one, two = tmp_path / "one.html", tmp_path / "two.html"
    one.write_text(text)
    two.write_text(text.replace(host, "elsewhere"))
    found = gather([one, two], Asked())
    assert len(found.systems) == 2
    assert all(" on " in system.name for system in found.systems)
    named = gather([one, two], Asked(names={one: "erp", two: "crm"}))
    assert [system.name for system in named.systems] == ["erp", "crm"]


def test_devices_that_were_never_seen_together_have_no_sum(tmp_path: Path) -> None:
    text = "".join(dump(at, reads) for at, reads in ((1_700_000_000, 0), (1_700_000_100, 1000)))
    later = "".join(dump(at, reads) for at, reads in ((1_700_009_000, 0), (1_700_009_100, 1000)))
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text(text)
    two.write_text(later.replace("vda", "vdb"))
    with pytest.raises(StudyError, match="vda and vdb were not observed at the same time"):
        gather([one, two], Asked())


def test_device_counters_of_the_databases_host_win_and_are_compared(tmp_path: Path) -> None:
    awr = GOLDEN / "oracle" / "awr-19.html"
    alone = gather([awr], Asked())
    start, end = alone.systems[0].curve.starts[0], alone.systems[0].curve.ends[0]
    host = host_of(awr)
    disk = stats(tmp_path / "stats", (int(start), 0), (int(end), 3_600_000))
    found = gather([awr, disk], Asked(names={disk: host}))
    (system,) = found.systems
    assert system.trust is Trust.DEVICE
    assert system.curve.values["iops"][0] == pytest.approx(3_600_000 / (int(end) - int(start)), rel=0.01)
    assert system.curve.values["transactions"][0] == alone.systems[0].curve.values["transactions"][0]
    assert f"ran on {host}" in said(found) and "is compared with it" in said(found)


def test_parts_can_be_left_out_and_an_unknown_one_is_refused() -> None:
    awr = GOLDEN / "oracle" / "awr-19.html"
    whole = gather([awr], Asked()).systems[0]
    assert whole.parts
    part = whole.parts[0]
    less = gather([awr], Asked(left_out=(part,))).systems[0]
    assert less.curve.values["bandwidth"][0] < whole.curve.values["bandwidth"][0]
    with pytest.raises(StudyError, match="--without nothing") as caught:
        gather([awr], Asked(left_out=("nothing",)))
    assert part in caught.value.hint


def test_a_device_that_no_file_has_is_refused_with_those_that_are_there(tmp_path: Path) -> None:
    disk = stats(tmp_path / "stats", (1_700_000_000, 0), (1_700_000_100, 1000))
    with pytest.raises(StudyError, match="--device sdz") as caught:
        gather([disk], Asked(devices=("sdz",)))
    assert "vda" in caught.value.hint


def test_what_is_no_statistics_is_left_out_by_name_and_the_rest_is_kept(tmp_path: Path) -> None:
    other = tmp_path / "letter.txt"
    other.write_text("Dear database,\nhow are you?\n")
    disk = stats(tmp_path / "stats", (1_700_000_000, 0), (1_700_000_100, 1000))
    found = gather([other, disk], Asked())
    assert found.files[0].left_out.startswith("not recognised")
    assert len(found.systems) == 1
    with pytest.raises(StudyError, match=r"letter\.txt: not recognised"):
        gather([other], Asked())


def test_a_single_dump_is_no_statistics_and_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="take a second one"):
        gather([stats(tmp_path / "stats", (1_700_000_000, 5))], Asked())


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: str(path.relative_to(GOLDEN)))
def test_each_sample_is_one_kind_and_no_other(path: Path) -> None:
    start = head(path)
    assert len([name for name, kind in READERS.kinds.items() if kind.fits(start)]) <= 1


def test_2000_damaged_files_give_no_traceback(tmp_path: Path) -> None:
    """Each sample cut, with lines lost, doubled, mixed with another file's, with other line ends and other decimal
    marks: what comes out is a need, or one error that names the file."""
    draw = random.Random(15)
    texts = [path.read_text(errors="replace") for path in SAMPLES]
    place = tmp_path / "damaged"
    for number in range(2000):
        place.write_text(damaged(texts[number % len(texts)], draw.choice(texts), draw))
        try:
            need(gather([place], Asked(every=10.0)).systems, Options())
        except StudyError as error:
            assert error.message


def damaged(text: str, other: str, draw: random.Random) -> str:
    """One of the things that happen to files."""
    lines = text.splitlines(keepends=True)
    at = draw.randrange(max(1, len(lines)))
    match draw.randrange(9):
        case 0:
            return text[: draw.randrange(len(text) + 1)]
        case 1:
            return "".join(line for line in lines if draw.random() > 0.05)
        case 2:
            return "".join(lines[:at] + lines[max(0, at - 20) :])
        case 3:
            return "".join(
                line for pair in zip(lines, other.splitlines(keepends=True), strict=False) for line in pair
            )
        case 4:
            return text.replace("\n", "\r\n")
        case 5:
            return text.replace(".", ",")
        case 6:
            return "".join("9" * 30 if letter.isdigit() and draw.random() < 0.01 else letter for letter in text)
        case 7:
            return "".join(letter if draw.random() > 0.005 else draw.choice("x -:\0,<") for letter in text)
        case _:
            return text + text
