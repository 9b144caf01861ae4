"""Candidates: the smallest fitting choice of each layout, with the arithmetic, by hand and by property."""

from __future__ import annotations

import datetime
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklab.errors import StudyError
from blocklab.model.units import Size
from blocklab.sizing import catalogue
from blocklab.sizing.candidates import Candidate, Demand, Misfit, Options, candidates
from blocklab.sizing.catalogue import Catalogue
from blocklab.sizing.choice import LAYOUTS
from blocklab.study import profiles
from blocklab.study.profiles import Entry

TODAY = datetime.date(2026, 11, 23)
SHIPPED = catalogue.load()
KIB = 1024
# Of an Oracle report of GROUND's test data: 8,237 requests per second.
NEED = Demand(
    read_iops=5000, write_iops=3237, read_size=16 * KIB, write_size=16 * KIB, capacity=Size("500GiB"), flushes=400
)


def own(text: str, tmp_path: Path) -> Catalogue:
    path = tmp_path / "own.yaml"
    path.write_text(text)
    return catalogue.load(path)


def plain(**entries: dict[str, Any]) -> Catalogue:
    """A catalogue of these entries only."""
    return Catalogue({name: profiles.entry_of(name, {"cloud": "us", **entry}) for name, entry in entries.items()})


def chosen(need: Demand, found: Catalogue, cloud: str, layout: str, **options: Any) -> Candidate:
    (only,) = candidates(need, found, [cloud], Options(layouts=(layout,), **options))  # type: ignore[arg-type]
    assert isinstance(only, Candidate), only
    return only


def missed(need: Demand, found: Catalogue, cloud: str, layout: str, **options: Any) -> Misfit:
    (only,) = candidates(need, found, [cloud], Options(layouts=(layout,), **options))  # type: ignore[arg-type]
    assert isinstance(only, Misfit), only
    return only


# -- by hand -----------------------------------------------------------------------------------------------------


def test_a_single_gp3_on_the_smallest_instance_that_carries_it() -> None:
    found = chosen(NEED, SHIPPED, "aws", "single")
    # r5b.xlarge: 4 vCPUs, 10,833 IOPS; the others of that size have 6,000 at most. 298 MiB/s are 312.5 MB/s.
    assert (found.volume, found.count, found.nodes, found.instance) == ("gp3", 1, 1, "ec2-r5b-xlarge")
    assert found.size == Size("500GiB") and found.iops == 8237
    # 8,237 x 16 KiB = 128.7 MiB/s, in whole MiB/s.
    assert found.bandwidth == 129 * 2**20
    assert "reads: 5,000 IOPS x 1 I/O each (16 KiB <= 256 KiB) = 5,000" in found.lines
    assert "volume IOPS: 8,237 of 8,237 IOPS (100%), can be raised to 80,000" in found.lines
    assert "instance IOPS: 8,237 of 10,833 IOPS (76%)" in found.lines
    # 8,237 / 10,833 = 76 % of what cannot be raised; gp3 itself is at 10 % of the most that it can have.
    assert found.binds == "instance IOPS"
    # 1.2 x 8,237 = 9,884.4; the instance has 10,833.
    assert found.breaks == ("volume IOPS", "volume throughput")
    assert found.after == "gp3 of 500 GiB, 9,885 IOPS, 155 MiB/s on ec2-r5b-xlarge"
    assert found.unchecked == () and found.cost is None and found.burst is None
    assert found.layers == (
        {"layer": "volume", "profile": "gp3", "provisioned": "500GiB", "iops": 8237, "bandwidth": "129MiB/s"},
        {"layer": "cap", "profile": "ec2-r5b-xlarge"},
    )


def test_a_stripe_halves_what_each_volume_needs() -> None:
    found = chosen(NEED, SHIPPED, "aws", "stripe")
    # 8,237 / 2 = 4,118.5; 500 / 2 GiB.
    assert (found.count, found.iops, found.size, found.title) == (2, 4119, Size("250GiB"), "stripe of 2")
    assert found.layers[:2] == (
        {"layer": "volume", "profile": "gp3", "provisioned": "250GiB", "count": 2, "iops": 4119,
         "bandwidth": "125MiB/s"},
        {"layer": "stripe", "chunk": "256KiB"},
    )  # fmt: skip


def test_a_stripe_takes_as_many_volumes_as_the_need_asks_for() -> None:
    # 200,000 IOPS: 3 x 80,000.
    found = chosen(Demand(read_iops=200_000, write_iops=0, read_size=4096), SHIPPED, "aws", "stripe")
    assert (found.volume, found.count, found.iops) == ("gp3", 3, math.ceil(200_000 / 3))


def test_a_mirror_sends_its_writes_over_the_network() -> None:
    found = chosen(NEED, SHIPPED, "aws", "mirror")
    # 3,237 x 16 KiB x 8 = 0.424 Gbit/s.
    assert "network: writes of 53.0 MB/s x 8 = 0.424 of 1.25 Gbit/s (34%)" in found.lines
    assert found.nodes == 2 and found.layers[-1] == {"layer": "drbd", "peer": "a2", "link": "zone"}
    across = chosen(NEED, SHIPPED, "aws", "zones")
    assert across.layers[-1] == {"layer": "drbd", "peer": "a2", "link": "zones"}
    assert any("round trip" in mark for mark in across.marks)


def test_the_network_decides_on_an_instance_where_the_volumes_would_not() -> None:
    found = plain(
        disk={"iops": 9000, "bandwidth": "900MB/s"},
        small={"vcpus": 2, "iops": 9000, "bandwidth": "900MB/s", "network": "1Gbit/s"},
        large={"vcpus": 4, "iops": 9000, "bandwidth": "900MB/s", "network": "10Gbit/s"},
    )
    # 200 MB/s of writes are 1.6 Gbit/s.
    need = Demand(read_iops=0, write_iops=2000, write_bytes=200e6)
    assert chosen(need, found, "us", "single").instance == "small"
    assert chosen(need, found, "us", "mirror").instance == "large"
    lacking = missed(need, found, "us", "mirror", instance="small")
    assert lacking.reason == "small: network: writes of 200.0 MB/s x 8 = 1.6 of 1 Gbit/s (160%): 60 % over"


def test_large_requests_count_as_several() -> None:
    # 1 MiB / 256 KiB = 4: 1,000 requests are 4,000 I/Os, and 1,000 MiB/s.
    need = Demand(read_iops=1000, write_iops=0, read_size=1024 * KIB)
    found = chosen(need, SHIPPED, "aws", "single")
    assert found.iops == 4000 and found.bandwidth == 1000 * 2**20
    assert "reads: 1,000 IOPS x 4 I/O each (1,024 KiB > 256 KiB) = 4,000" in found.lines
    # Google's pages tell of no such rule.
    assert "reads: 1,000 IOPS, each request counts once" in chosen(need, SHIPPED, "gcp", "single").lines


def test_a_database_does_not_fit_on_hard_disks() -> None:
    # 8,237 I/Os of 16 KiB count as 1 MiB each: 8,237 MiB/s of 8 x 500, and 8,237 I/Os of 8 x 500.
    found = missed(NEED, SHIPPED, "aws", "stripe", kinds=("st1",))
    assert found.reason == "8 x st1 at most: IOPS: 8,237 of 4,000 IOPS (206%): 106 % over"


def test_azures_tiers_are_taken_by_their_size() -> None:
    found = chosen(NEED, SHIPPED, "azure", "single", kinds=("azure-premium",))
    # P60 is the first with 8,237 IOPS: P50 has 7,500.
    assert (found.volume, found.size, found.iops) == ("azure-p60", Size("8192GiB"), None)
    striped = chosen(NEED, SHIPPED, "azure", "stripe", kinds=("azure-premium",))
    # 8,237 / 2 = 4,118.5: P30 with 5,000.
    assert (striped.volume, striped.count) == ("azure-p30", 2)
    assert striped.layers[0] == {"layer": "volume", "profile": "azure-p30", "provisioned": "1024GiB", "count": 2}


def test_limits_of_an_instance_hold_for_the_volumes_that_they_are_told_for() -> None:
    need = Demand(read_iops=85_000, write_iops=0, read_size=4096)
    # Of premium SSD v2 E16bs_v5 carries 88,400, of premium SSD 66,000.
    options = {"instance": "azure-e16bs-v5"}
    assert chosen(need, SHIPPED, "azure", "stripe", **options).instance == "azure-e16bs-v5-with-v2"
    reason = missed(need, SHIPPED, "azure", "stripe", kinds=("azure-premium",), **options).reason
    assert reason == "azure-e16bs-v5: instance IOPS: 85,000 of 66,000 IOPS (129%): 28.8 % over"


def test_persistent_disks_share_their_limits_so_there_is_no_stripe_of_them() -> None:
    # 3,000 + 6 x 873 = 8,238.
    need = Demand(read_iops=8237, write_iops=0, read_size=4096)
    found = chosen(need, SHIPPED, "gcp", "single", kinds=("pd-balanced",))
    assert found.size == Size("873GiB") and any("share the limits" in mark for mark in found.marks)
    assert "pd-balanced: 873 GiB: 3,000 + 6 IOPS per GiB make 8,238" in found.lines
    assert "no volume" in missed(need, SHIPPED, "gcp", "stripe", kinds=("pd-balanced",)).reason


def test_nothing_fits_is_told_with_the_nearest_and_how_much_it_lacks() -> None:
    need = Demand(read_iops=1_000_000, write_iops=0, read_size=4096)
    # 8 x 256,000 would do, but no instance: the largest has 260,000 (r5b.24xlarge).
    found = missed(need, SHIPPED, "aws", "stripe")
    assert found.reason == "ec2-r5b-24xlarge: instance IOPS: 1,000,000 of 260,000 IOPS (385%): 285 % over"
    single = missed(need, SHIPPED, "aws", "single")
    # 1,000,000 of 256,000.
    assert single.reason == "io2-block-express at most: IOPS: 1,000,000 of 256,000 IOPS (391%): 291 % over"
    room = Demand(read_iops=1, write_iops=1, read_size=4096, write_size=4096, capacity=Size("100TiB"))
    reason = missed(room, SHIPPED, "aws", "single", kinds=("gp3",)).reason
    assert reason == "gp3: 102,400 GiB needed, 65,536 at most: 56.2 % over"


def test_a_named_instance_is_the_only_one_and_its_limit_binds() -> None:
    found = chosen(NEED, SHIPPED, "aws", "single", instance="ec2-m7i-2xlarge")
    assert found.instance == "ec2-m7i-2xlarge" and found.binds == "instance IOPS"
    # 8,237 of 6,000.
    reason = missed(NEED, SHIPPED, "aws", "single", instance="ec2-m7i-xlarge").reason
    assert reason.startswith("ec2-m7i-xlarge: instance IOPS: 8,237 of 6,000 IOPS (137%)")
    # Other clouds have no such instance.
    assert {each.cloud for each in candidates(NEED, SHIPPED, (), Options(instance="ec2-m5-large"))} == {"aws"}


def test_an_instance_takes_so_many_volumes() -> None:
    found = plain(
        disk={"iops": 100, "bandwidth": "90MB/s"},
        node={"vcpus": 2, "iops": 9000, "bandwidth": "900MB/s", "disks": 3},
    )
    need = Demand(read_iops=350, write_iops=0, read_size=4096)
    assert missed(need, found, "us", "stripe").reason == "node takes 3 volumes, not 4"


def test_the_instance_may_have_to_be_so_large() -> None:
    found = chosen(NEED, SHIPPED, "aws", "single", vcpus=8, memory=Size("60GiB"))
    assert found.instance == "ec2-r7i-2xlarge"
    reason = missed(NEED, SHIPPED, "aws", "single", vcpus=1000, kinds=("gp3",)).reason
    assert reason == "aws: the catalogue has no instance for gp3 that has 1,000 vCPUs"


# -- what is not known -------------------------------------------------------------------------------------------


def test_what_is_not_known_is_not_checked_and_not_nought() -> None:
    need = Demand(read_iops=5000, write_iops=3237)
    found = chosen(need, SHIPPED, "aws", "mirror")
    assert found.unchecked == ("volume throughput", "instance throughput", "network")
    assert "volume throughput: not checked, the need is not known" in found.lines
    assert any("request size not known" in line for line in found.lines)
    assert any("capacity was not considered" in mark for mark in found.marks)
    # One direction alone is no sum.
    half = chosen(Demand(read_iops=5000, read_bytes=1e6, write_bytes=2e6), SHIPPED, "aws", "single")
    assert half.unchecked == ("volume IOPS", "instance IOPS") and half.breaks == ()


def test_two_of_requests_bytes_and_size_give_the_third() -> None:
    ways = (
        Demand(read_iops=1000, read_size=8192, write_iops=0),
        Demand(read_iops=1000, read_bytes=8192e3, write_bytes=0),
        Demand(read_bytes=8192e3, read_size=8192, write_iops=0),
    )
    one, *others = (chosen(need, SHIPPED, "aws", "single") for need in ways)
    assert all(other == one for other in others) and one.unchecked == ()


def test_an_instance_without_a_known_network_is_not_checked_for_it() -> None:
    found = chosen(NEED, SHIPPED, "gcp", "mirror", instance="gcp-e2-standard-4", kinds=("pd-ssd",))
    assert found.unchecked == ("network",)
    assert "network: not checked, the catalogue tells no limit" in found.lines


@pytest.mark.parametrize(
    ("need", "said"),
    [
        (Demand(), "neither the I/Os nor the bytes"),
        (Demand(read_iops=5), "neither the I/Os nor the bytes"),
        (Demand(read_iops=-1, write_iops=1), "need.read_iops"),
        (Demand(read_iops=math.inf, write_iops=1), "need.read_iops"),
        (Demand(read_iops=math.nan, write_iops=1), "need.read_iops"),
    ],
)
def test_a_need_by_which_nothing_can_be_chosen_is_an_error(need: Demand, said: str) -> None:
    with pytest.raises(StudyError, match=said):
        candidates(need, SHIPPED)


def test_a_cloud_or_an_instance_that_is_not_there_is_an_error() -> None:
    with pytest.raises(StudyError, match="no cloud 'moon'; it has aws, azure, gcp"):
        candidates(NEED, SHIPPED, ["moon"])
    for name in ("ec2-m9-large", "gp3"):
        with pytest.raises(StudyError, match="no instance"):
            candidates(NEED, SHIPPED, (), Options(instance=name))


# -- bursts, old entries, prices ---------------------------------------------------------------------------------


def test_bursts_carry_a_need_only_where_they_may_and_are_marked() -> None:
    need = Demand(read_iops=2000, write_iops=0, read_size=4096)
    # 2,000 / 3 = 666.7 GiB.
    assert chosen(need, SHIPPED, "aws", "single", kinds=("gp2",)).size == Size("667GiB")
    found = chosen(need, SHIPPED, "aws", "single", kinds=("gp2",), bursts=True)
    # Its base of 100 IOPS holds 5.4 million credits: 5.4 million / 1,900 = 2,842 s = 47.4 min.
    assert found.size == Size("1GiB") and found.burst == pytest.approx(5.4e6 / 1900)
    assert "only with burst credits: full buckets last 47.4 min at this rate" in found.marks


def test_an_instances_burst_counts_too() -> None:
    need = Demand(read_iops=10_000, write_iops=0, read_size=4096)
    found = chosen(need, SHIPPED, "aws", "single", instance="ec2-m5-large", bursts=True)
    # (18,750 - 3,600) x 1,800 / (10,000 - 3,600) = 4,261 s.
    assert found.burst == pytest.approx((18750 - 3600) * 1800 / 6400)


def test_an_old_entry_is_marked() -> None:
    found = chosen(NEED, SHIPPED, "aws", "single", kinds=("gp2",), today=TODAY)
    assert "gp2: its values are of 2024, older than a year; check them" in found.marks
    assert not any("older" in mark for mark in chosen(NEED, SHIPPED, "aws", "single", today=TODAY).marks)
    assert not any("older" in mark for mark in chosen(NEED, SHIPPED, "aws", "single", kinds=("gp2",)).marks)


def test_prices_are_the_users_and_what_is_included_costs_nothing(tmp_path: Path) -> None:
    text = """
gp3: {price: {gib_month: 0.08, iops_month: 0.005, mibps_month: 0.04, currency: USD}}
ec2-r5b-xlarge: {price: {month: 200, currency: USD}}
"""
    found = own(text, tmp_path)
    # 500 x 0.08 + (8,237 - 3,000) x 0.005 + (129 - 125) x 0.04 = 40 + 26.185 + 0.16, and 200.
    single = chosen(NEED, found, "aws", "single")
    assert single.cost == pytest.approx(266.345) and single.currency == "USD"
    # Two nodes.
    assert chosen(NEED, found, "aws", "mirror").cost == pytest.approx(2 * 266.345)
    # 2 x (250 x 0.08 + 1,119 x 0.005) + 200.
    assert chosen(NEED, found, "aws", "stripe").cost == pytest.approx(2 * (20 + 5.595) + 200)
    part = chosen(NEED, found, "aws", "single", instance="ec2-m7i-2xlarge")
    assert part.cost is None and "no cost: ec2-m7i-2xlarge has no price" in part.marks


def test_different_currencies_are_not_added(tmp_path: Path) -> None:
    text = "gp3: {price: {gib_month: 1, currency: USD}}\nec2-r5b-xlarge: {price: {month: 1, currency: EUR}}\n"
    found = chosen(NEED, own(text, tmp_path), "aws", "single")
    assert found.cost is None and "no cost: prices in different currencies, USD and EUR" in found.marks


def test_a_users_own_volumes_and_instances(tmp_path: Path) -> None:
    text = """
array: {cloud: us, checked: 2026-11, iops: 40000, bandwidth: 1200MB/s, size_most: 20TiB, read_latency: 300us}
node: {cloud: us, checked: 2026-11, vcpus: 32, memory: 256GiB, network: 25Gbit/s, iops: 90000, bandwidth: 2GB/s}
"""
    found = chosen(NEED, own(text, tmp_path), "us", "mirror", today=TODAY)
    assert (found.volume, found.instance, found.size) == ("array", "node", Size("500GiB"))
    assert set(found.profiles) == {"array", "node"} and not any("older" in mark for mark in found.marks)
    # As a study has them.
    layers = [{"size": "1GiB", **found.layers[0]}, found.layers[1]]
    filled = profiles.fill({"profiles": dict(found.profiles), "stacks": {"one": {"layers": layers}}})
    assert all(layer["performance"] for layer in filled["stacks"]["one"]["layers"])


def test_every_kind_that_fits_or_only_the_first() -> None:
    found = candidates(NEED, SHIPPED, ["aws"], Options(layouts=("single",), every=True))
    assert [each.kind for each in found if isinstance(each, Candidate)] == ["gp3", "gp2", "io2-block-express"]


# -- properties --------------------------------------------------------------------------------------------------

RATES = st.one_of(st.none(), st.floats(1, 400_000))
SIZES = st.one_of(st.none(), st.floats(512, 4 * 2**20))


@st.composite
def needs(draw: st.DrawFn) -> Demand:
    found = Demand(
        read_iops=draw(RATES), write_iops=draw(RATES), read_size=draw(SIZES), write_size=draw(SIZES),
        capacity=draw(st.one_of(st.none(), st.integers(2**30, 2**46).map(lambda size: Size(f"{size}B")))),
    )  # fmt: skip
    if found.read_iops is None or found.write_iops is None:
        return Demand(read_iops=draw(st.floats(1, 1e5)), write_iops=1.0, read_size=found.read_size)
    return found


@settings(max_examples=150, deadline=None)
@given(needs(), st.booleans())
def test_a_fitting_candidate_never_exceeds_a_limit_and_says_what_breaks(need: Demand, bursts: bool) -> None:
    for found in candidates(need, SHIPPED, (), Options(every=True, bursts=bursts, today=TODAY)):
        if isinstance(found, Misfit):
            assert found.reason
            continue
        entry = SHIPPED.entries[found.instance]
        assert found.count <= (entry.disks or math.inf) and found.binds and found.lines
        assert (need.capacity or 0) <= found.count * found.size * (1 + 1e-9)
        for limit in found.limits:
            assert limit.share is None or limit.share <= 1 + 1e-6
            assert (limit.name in found.breaks) == (limit.share is not None and limit.share * 1.2 > 1 + 1e-9)
            assert limit.checked or limit.name in found.unchecked or limit.limit is None
        assert bool(found.after) == bool(found.breaks)
        assert (found.burst is None) or bursts
        _is_a_stack(found)


def _is_a_stack(found: Candidate) -> None:
    """The layers are a stack of a study, as far as profiles have to do with it."""
    first, *others = found.layers
    filled = profiles.fill({"stacks": {"one": {"layers": [{"size": "1GiB", **first}, *others]}}})
    volume = filled["stacks"]["one"]["layers"][0]
    assert found.iops is None or volume["iops"] == found.iops


@settings(max_examples=100, deadline=None)
@given(needs(), st.floats(1, 5), st.sampled_from(LAYOUTS), st.sampled_from(SHIPPED.clouds()))
def test_more_need_never_gives_a_smaller_choice(need: Demand, factor: float, layout: str, cloud: str) -> None:
    for kind in SHIPPED.kinds(cloud):
        options = Options(layouts=(layout,), kinds=(kind,))  # type: ignore[arg-type]
        (less,), (more,) = (candidates(each, SHIPPED, [cloud], options) for each in (need, need.times(factor)))
        if isinstance(more, Misfit):
            continue
        assert isinstance(less, Candidate)
        cpus = [SHIPPED.entries[each.instance].vcpus or 0 for each in (less, more)]
        assert less.count <= more.count and cpus[0] <= cpus[1]
        if less.count == more.count:
            assert less.size <= more.size and (less.iops or 0) <= (more.iops or 0)


def test_entries_without_a_cloud_are_profiles_only() -> None:
    assert "sata-ssd" in profiles.shipped() and Entry().cloud == ""
    for cloud in SHIPPED.clouds():
        assert not {"sata-ssd", "io2"} & {name for names in SHIPPED.kinds(cloud).values() for name in names}
