"""The catalogue: what is shipped, a user's own file, prices, and what is marked as old."""

from __future__ import annotations

import contextlib
import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklab.errors import StudyError
from blocklab.model.units import Bandwidth, Size
from blocklab.sizing import catalogue, fitting
from blocklab.sizing.fitting import Want
from blocklab.study import profiles
from blocklab.study.profiles import GIB, Entry

TODAY = datetime.date(2026, 11, 23)
SHIPPED = catalogue.load()
MIB = 2**20


def own(folder: Path, text: str) -> Path:
    path = folder / "own.yaml"
    path.write_text(text)
    return path


# -- what is shipped ---------------------------------------------------------------------------------------------


def test_every_entry_of_a_cloud_has_a_date_a_source_and_no_price() -> None:
    for name, entry in SHIPPED.entries.items():
        assert entry.price is None, name
        if entry.cloud:
            assert entry.source and profiles.dated(entry) is not None, name
            assert profiles.dated(entry) <= TODAY  # type: ignore[operator]


def test_the_clouds_have_volumes_and_instances_whose_families_exist() -> None:
    assert SHIPPED.clouds() == ("aws", "azure", "gcp")
    for cloud in SHIPPED.clouds():
        kinds, names = SHIPPED.kinds(cloud), SHIPPED.instances(cloud)
        assert len(names) >= 12
        for name in names:
            entry = SHIPPED.entries[name]
            assert entry.iops and entry.bandwidth and set(entry.volumes) <= set(kinds), name
        for family in kinds:
            # st1 has no instance of its own; all of AWS's hold for it.
            assert SHIPPED.instances(cloud, family), family
    assert sum(len(SHIPPED.instances(cloud)) for cloud in SHIPPED.clouds()) >= 60


def test_instances_come_smallest_first() -> None:
    for cloud in SHIPPED.clouds():
        vcpus = [SHIPPED.entries[name].vcpus or 0 for name in SHIPPED.instances(cloud)]
        assert vcpus == sorted(vcpus)
    assert SHIPPED.instances("aws")[0] == "ec2-c6i-large"


def test_a_tiers_burst_is_above_its_base_and_the_base_is_what_a_profile_has() -> None:
    p10 = SHIPPED.entries["azure-p10"]
    assert (p10.iops, p10.bandwidth, p10.burst_iops) == (500, Bandwidth("100MB/s"), None)
    assert p10.credit is not None and p10.credit.iops == 3500
    assert SHIPPED.kinds("azure")["azure-premium"][0] == "azure-p1"


@pytest.mark.parametrize("name", [name for name, entry in SHIPPED.entries.items() if entry.cloud])
def test_every_name_of_the_catalogue_is_a_profile_of_a_study(name: str) -> None:
    entry = SHIPPED.entries[name]
    layer: dict[str, Any] = {
        "layer": "volume" if entry.vcpus is None else "cap",
        "profile": name,
        "provisioned": "1000GiB",
    }
    if entry.iops_provisioned:
        layer |= {"iops": 2000}
    if entry.vcpus is None:
        layer |= {"size": "1GiB"}
    filled = profiles.fill({"stacks": {"one": {"layers": [layer]}}})["stacks"]["one"]["layers"][0]
    assert filled["performance"]
    if entry.vcpus is None and entry.size is None:
        # What sizing computes of a volume is what the study's profile gives.
        volume = fitting.at(name, entry, 1000, Want(iops=2000.0 if entry.iops_provisioned else None))
        values = filled["performance"]
        assert values.get("iops", layer.get("iops")) == volume.iops or entry.iops_provisioned
        assert Bandwidth(values["bandwidth"]) == pytest.approx(volume.bandwidth, abs=1)


# -- the rules, by hand ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "gib", "want", "iops", "bandwidth"),
    [
        # 3 x 300 = 900; 900 x 256 KiB = 225 MiB/s.
        ("gp2", 300, Want(), 900, 225 * MIB),
        # 3 x 20 = 60, at least 100; 100 x 256 KiB = 25, at least 128.
        ("gp2", 20, Want(), 100, 128 * MIB),
        # What is included, however small the need.
        ("gp3", 1, Want(iops=10.0), 3000, 125 * MIB),
        # 20 x 500 = 10,000 of 12,000 wanted.
        ("gp3", 20, Want(iops=12000.0), 10000, 125 * MIB),
        # 1,000 MiB/s need 1,000 / 0.25 = 4,000 IOPS.
        ("gp3", 100, Want(iops=100.0, bandwidth=1000.0 * MIB), 4000, 1000 * MIB),
        # 10 x 1,000 = 10,000; 5,000 x 0.256 MiB = 1,280 MiB/s, in whole bytes an I/O.
        ("io2-block-express", 10, Want(iops=5000.0), 5000, 5000 * 268435),
        # 40 MiB/s per TiB, and 500 I/Os.
        ("st1", 2048, Want(), 500, 80 * MIB),
        ("st1", 16384, Want(), 500, 500 * MIB),
        # 3,000 + 6 x 100; 140 + 0.28 x 100.
        ("pd-balanced", 100, Want(), 3600, 168 * MIB),
        # 6,000 + 30 x 1,000; 240 + 0.48 x 1,000.
        ("pd-ssd", 1000, Want(), 36000, 720 * MIB),
        ("hyperdisk-balanced", 10, Want(iops=9000.0), 5000, 140 * MIB),
        ("azure-premium-v2", 8, Want(iops=9000.0), 4000, 125e6),
        # 3,000 IOPS allow 750 MB/s, 4,000 allow 1,000.
        ("azure-premium-v2", 100, Want(iops=1.0, bandwidth=1e9), 4000, 1e9),
        ("azure-ultra", 4, Want(iops=9000.0, bandwidth=5e8), 4000, 5e8),
        ("azure-p30", 1024, Want(), 5000, 200e6),
    ],
)  # fmt: skip
def test_what_a_volume_of_a_size_has(name: str, gib: int, want: Want, iops: float, bandwidth: float) -> None:
    volume = fitting.at(name, SHIPPED.entries[name], gib, want)
    assert volume.iops == iops and volume.bandwidth == pytest.approx(bandwidth, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "want", "gib"),
    [
        # 8,237 / 3 = 2,745.7.
        ("gp2", Want(iops=8237.0), 2746),
        # 8,237 / 500 = 16.5.
        ("gp3", Want(iops=8237.0), 17),
        ("gp3", Want(iops=8237.0, gib=100.5), 101),
        ("gp3", Want(iops=80001.0), None),
        ("io2-block-express", Want(iops=8237.0), 9),
        # 100 MiB/s / 40 MiB/s x 1,024 GiB.
        ("st1", Want(bandwidth=100.0 * MIB), 2560),
        # (8,237 - 3,000) / 6 = 872.8.
        ("pd-balanced", Want(iops=8237.0), 873),
        ("azure-p30", Want(iops=5000.0), 1024),
        ("azure-p30", Want(iops=5001.0), None),
        ("azure-p30", Want(gib=1025.0), None),
    ],
)  # fmt: skip
def test_the_smallest_volume(name: str, want: Want, gib: int | None) -> None:
    found = fitting.smallest(name, SHIPPED.entries[name], want)
    assert (None if found is None else found.gib) == gib


@pytest.mark.parametrize(
    ("name", "size", "each", "bandwidth"),
    [
        ("gp3", 16 * 1024, 1, 1000 * 16 * 1024),
        ("gp3", 256 * 1024, 1, 1000 * 256 * 1024),
        # 1,024 / 256, as in Amazon's own example.
        ("gp3", 1024 * 1024, 4, 1000 * 1024 * 1024),
        ("gp3", 257 * 1024, 2, 1000 * 257 * 1024),
        # A random 16 KiB on an HDD counts as 1 MiB.
        ("st1", 16 * 1024, 1, 1000 * MIB),
        ("azure-p30", 512 * 1024, 2, 1000 * 512 * 1024),
        ("pd-ssd", 1024 * 1024, 1, 1000 * 1024 * 1024),
    ],
)
def test_how_requests_are_counted(name: str, size: int, each: int, bandwidth: float) -> None:
    found = fitting.count(1000.0, 1000.0 * size, float(size), SHIPPED.entries[name])
    assert (found.each, found.iops, found.bandwidth) == (each, 1000 * each, bandwidth)


def test_bursts_and_how_long_they_last() -> None:
    gp2 = SHIPPED.entries["gp2"]
    limits = fitting.usable(gp2, 100, 300, 128 * MIB, bursts=True)
    # 5.4 million credits at 3,000 - 300 a second: 2,000 s.
    assert limits.iops == 3000 and fitting.lasts(gp2, 100, limits, 3000, None) == pytest.approx(2000)
    p10 = SHIPPED.entries["azure-p10"]
    limits = fitting.usable(p10, 128, 500, 100e6, bursts=True)
    # (3,500 - 500) x 1,800 = 5.4 million, as Azure's list of disks has it; half of it lasts twice as long.
    assert fitting.lasts(p10, 128, limits, 3500, None) == pytest.approx(1800)
    assert fitting.lasts(p10, 128, limits, 2000, None) == pytest.approx(3600)
    st1 = SHIPPED.entries["st1"]
    limits = fitting.usable(st1, 1024, 500, 40 * MIB, bursts=True)
    # 1 TiB of credits at 250 - 40 MiB/s: 4,993 s.
    assert limits.bandwidth == 250 * MIB
    assert fitting.lasts(st1, 1024, limits, None, 250 * MIB) == pytest.approx(2**40 / (210 * MIB))
    assert fitting.lasts(st1, 1024, limits, None, 40 * MIB) is None
    assert fitting.usable(gp2, 100, 300, 128 * MIB, bursts=False).iops == 300


VOLUMES = [name for cloud in SHIPPED.clouds() for names in SHIPPED.kinds(cloud).values() for name in names]
KINDS = st.sampled_from(VOLUMES)


@given(KINDS, st.floats(0, 1e6), st.floats(0, 1e10), st.floats(0, 70000))
def test_no_smaller_volume_is_enough_and_the_found_one_is(
    name: str, iops: float, bandwidth: float, gib: float
) -> None:
    entry, want = SHIPPED.entries[name], Want(iops=iops, bandwidth=bandwidth, gib=gib)
    found = fitting.smallest(name, entry, want)

    def holds(size: int) -> bool:
        volume = fitting.at(name, entry, size, want)
        limits = fitting.usable(entry, size, volume.iops, volume.bandwidth, bursts=False)
        return size * fitting.EXACT >= gib and fitting.enough(entry, limits, want)

    least, most = fitting.sizes(entry)
    if found is None:
        assert least > most or not holds(most) or gib > most
        return
    assert holds(found.gib) and (found.gib == least or not holds(found.gib - 1))


@given(KINDS, st.floats(1, 1e5), st.floats(1, 1e9), st.floats(1, 3))
def test_more_need_is_never_a_smaller_volume(name: str, iops: float, bandwidth: float, factor: float) -> None:
    entry = SHIPPED.entries[name]
    less = fitting.smallest(name, entry, Want(iops=iops, bandwidth=bandwidth))
    more = fitting.smallest(name, entry, Want(iops=iops * factor, bandwidth=bandwidth * factor))
    if more is not None:
        assert less is not None and less.gib <= more.gib
        assert (less.paid_iops or 0) <= (more.paid_iops or 0)
        assert (less.paid_bandwidth or 0) <= (more.paid_bandwidth or 0)


# -- a user's own ------------------------------------------------------------------------------------------------


def test_own_entries_win_and_are_tried_in_their_own_cloud(tmp_path: Path) -> None:
    text = """
array: {cloud: us, checked: 2026-11-01, iops: 40000, bandwidth: 1200MB/s, size_most: 20TiB, io_most: 64KiB}
node: {cloud: us, checked: 2026, vcpus: 32, memory: 256GiB, network: 25Gbit/s, iops: 90000, bandwidth: 2GB/s}
gp3: {cloud: aws, checked: 2026-11, iops: 70}
"""
    found = catalogue.load(own(tmp_path, text))
    assert found.clouds() == ("aws", "azure", "gcp", "us") and set(found.own) == {"array", "node", "gp3"}
    assert found.entries["gp3"].iops == 70 and found.entries["gp3"].sold is None
    assert found.entries["array"].checked == "2026-11-01" and found.entries["node"].checked == "2026"
    assert found.entries["array"].size_most == Size("20TiB") and found.instances("us") == ("node",)


def test_a_price_alone_is_added_to_what_is_shipped(tmp_path: Path) -> None:
    text = "gp3: {price: {gib_month: 0.08, iops_month: 0.005, mibps_month: 0.04, currency: USD}}\n"
    found = catalogue.load(own(tmp_path, text))
    assert found.own == {} and found.entries["gp3"].iops == 3000
    # 500 x 0.08 + 5,000 x 0.005 + 25 x 0.04 = 40 + 25 + 1.
    assert catalogue.cost_of(found.entries["gp3"].price, 500, 5000, 25 * MIB) == pytest.approx(66)
    assert catalogue.cost_of(None, 500) is None


@pytest.mark.parametrize(
    ("text", "path", "line", "said"),
    [
        ("array: {iops: many}", "array.iops", 1, "int"),
        ("a: {iops: 3}\nb:\n  cloud: us\n  speed: 4", "b.speed", 4, "unknown field"),
        ("array: {checked: soon}", "array.checked", 1, "not a date"),
        ("array: {vcpus: 0}", "array.vcpus", 1, "1 or more"),
        ("array: {size_least: 2TiB, size_most: 1TiB}", "array.size_least", 1, "size_most"),
        ("array: {size: 5}", "array.size", 1, "no unit"),
        ("array: {iops: 5, price: {gib_month: -1}}", "array.price.gib_month", 1, "0 or more"),
        ("array: {iops: 5, price: {gib_month: .nan}}", "array.price.gib_month", 1, "finite"),
        ("a: {iops: 5}\na: {iops: 6}", "", 2, "duplicate"),
        ("array: {price: {month: 3}}", "array", 1, "nothing else"),
        ("array: {price: {euro: 3}}", "array.price.euro", 1, "unknown field"),
        ("array: {sold: {iops_per_gib: 5, iops_most: 9, bandwidth_per_io: 1MiB, bandwidth_most: 1GB/s}}",
         "array.sold", 1, "needs iops and bandwidth"),
        ("array: {bandwidth_base: 5MB/s}", "array.bandwidth_base", 1, "bandwidth_per_gib"),
        ("array: 5", "array", 1, "object"),
        ("- array", "", 0, "map of names"),
        ("", "", 0, "map of names"),
        ("a: [", "", 1, "not YAML"),
    ],
)  # fmt: skip
def test_a_bad_entry_is_one_error_with_file_entry_and_field(
    tmp_path: Path, text: str, path: str, line: int, said: str
) -> None:
    file = own(tmp_path, text)
    with pytest.raises(StudyError) as caught:
        catalogue.load(file)
    assert caught.value.path == path and caught.value.file == str(file) and said in str(caught.value)
    assert caught.value.line == line or not line


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="no such catalogue file"):
        catalogue.load(tmp_path / "none.yaml")


# -- old entries -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("checked", "old"),
    [
        ("2026-10", False), ("2025-12", False), ("2025-11-23", False), ("2025-11-22", True), ("2025-11", True),
        ("2024", True), ("2026", False), ("2025", True), ("2024-02-29", True),
    ],
)  # fmt: skip
def test_an_entry_older_than_a_year_is_marked(checked: str, old: bool) -> None:
    said = catalogue.stale("x", Entry(checked=checked), TODAY)
    assert bool(said) is old and (not old or checked in said)


def test_an_entry_without_a_date_is_marked_and_without_a_day_nothing_is() -> None:
    assert "nobody says" in catalogue.stale("x", Entry(), TODAY)
    assert catalogue.stale("x", Entry(), None) == ""


def test_whole_gib(tmp_path: Path) -> None:
    found = catalogue.load(own(tmp_path, "a: {cloud: us, iops: 5, size_least: 1.5GiB, size_most: 10.5GiB}"))
    assert fitting.sizes(found.entries["a"]) == (2, 10) and GIB == 2**30


# -- damaged files -----------------------------------------------------------------------------------------------

GOOD = """# what we have
array: {cloud: us, checked: 2026-11, iops: 40000, bandwidth: 1200MB/s, size_most: 20TiB, io_most: 64KiB}
node:
  cloud: us
  vcpus: 32
  memory: 256GiB
  network: 25Gbit/s
  iops: 90000
  credit: {seconds: 1800, iops: 120000}
  price: {month: 70.5, currency: EUR}
gp3: {price: {gib_month: 0,08, iops_month: 0.005}}
"""
PIECES = (
    "{",
    "}",
    "[",
    ":",
    "&a ",
    "*a",
    "\r\n",
    "\t",
    ",",
    "-1",
    "1e400",
    ".nan",
    "'",
    "9" * 30,
    "null",
    "\x00",
    "? ",
)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """The good file, cut, with pieces put in, lines doubled or out of order, decimal commas."""
    text = draw(st.sampled_from((GOOD, GOOD.replace("0,08", "0.08"), GOOD.replace("\n", "\r\n"))))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(st.sampled_from(PIECES)) + text[at + draw(st.integers(0, 5)) :]
    lines = text.splitlines(keepends=True)
    if draw(st.booleans()) and lines:
        lines.insert(draw(st.integers(0, len(lines))), draw(st.sampled_from(lines)))
    return "".join(lines)[: draw(st.integers(0, len(text) + 50))]


@settings(max_examples=400, deadline=None)
@given(text=damaged())
def test_a_damaged_file_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.yaml"
    path.write_bytes(text.encode())
    with contextlib.suppress(StudyError):
        assert catalogue.load(path).clouds()


@pytest.mark.parametrize("text", ["? memory: 256GiB\n: {cloud: us}\n", "a:\n  ? [b]\n  : {cloud: us}\n"])
def test_a_key_that_is_a_map_or_a_list_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(StudyError, match="is no key: a key is a word"):
        catalogue.load(own(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("&r\na: {iops: *r}\n", "refers to what it is a part of"),
        ("a: " + "[" * 3000 + "]" * 3000, "nested more than 60 levels deep"),
    ],
)
def test_an_entry_within_itself_is_an_error(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(StudyError, match=why):
        catalogue.load(own(tmp_path, text))
