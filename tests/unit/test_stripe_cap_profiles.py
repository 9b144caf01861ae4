"""Stripes, caps and profiles: plans, problems, parsers of what the kernel says, and values from names."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocklab.errors import StudyError
from blocklab.layers import Cap, Volume, cap, stripe
from blocklab.model.ground import NodeSpec, Profile, Topology
from blocklab.model.plan import Run, again
from blocklab.model.units import Bandwidth, Duration, Size
from blocklab.sites.fake import FakeSite
from blocklab.sites.uml.volumes import behaviour
from blocklab.study import profiles
from blocklab.study.factors import variant
from blocklab.study.grid import cells, plan_stack, topology
from blocklab.study.read import build
from blocklab.study.types import Study
from tests.unit.golden import FOLDER, Golden

TWO = {"layer": "volume", "size": "64MiB", "count": 2}
ONE = {"layer": "volume", "size": "64MiB"}
DRBD = {"layer": "drbd", "peer": "a2", "link": "zone"}
EXT4 = {"layer": "ext4"}
STACKS: dict[str, list[dict[str, Any]]] = {
    "stripe": [TWO, {"layer": "stripe", "chunk": "256KiB"}, DRBD, EXT4],
    "raid10": [TWO, {"layer": "raid10", "layout": "far"}, EXT4],
    "lvm-stripe": [TWO, {"layer": "lvm-stripe"}, EXT4],
    "cap-v1": [TWO, {"layer": "cap", "read_iops": 1000}, {"layer": "stripe"},
               {"layer": "cap", "profile": "ec2-m5-large"}, EXT4],
    "cap-v2": [TWO, {"layer": "cap", "by": "cgroup-v2", "write_iops": 500, "read_bandwidth": "60MB/s"},
               {"layer": "lvm-stripe"}, EXT4],
}  # fmt: skip


def study_of(small: dict[str, Any], *layers: dict[str, Any], **more: Any) -> Study:
    small["stacks"] = {"one": {"on": "a1", "layers": list(layers)}}
    small["baseline"] = "one"
    small["workloads"] = {"io": small["workloads"]["io"]}
    return build({**small, **more})


def asked(study: Study) -> Profile:
    """The raw volume that the study's stack asks its site for."""
    lowest = study.stacks["one"].layers[0]
    assert isinstance(lowest, Volume)
    return lowest.profiles()[0]


def refused(small: dict[str, Any], *layers: dict[str, Any], **more: Any) -> StudyError:
    with pytest.raises(StudyError) as caught:
        study_of(small, *layers, **more)
    return caught.value


# -- plans ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STACKS)
def test_the_plan_of_stripes_and_caps(small: dict[str, Any], golden: Golden, name: str) -> None:
    study = study_of(small, *STACKS[name])
    ground = FakeSite().ground(topology(study, ["one"]))
    plan = plan_stack(study, "one", 3, ground)
    facts = [{"host": fact.host, "argv": fact.argv, "wanted": dict(fact.wanted)} for fact in plan.facts]
    golden.check(
        f"plans/{name}.json", msgspec.to_builtins({"steps": plan.steps, "facts": facts, "ports": plan.ports})
    )


@pytest.mark.parametrize("name", STACKS)
def test_built_again_nothing_is_made_anew(small: dict[str, Any], name: str) -> None:
    study = study_of(small, *STACKS[name])
    plan = plan_stack(study, "one", 0, FakeSite().ground(topology(study, ["one"])))
    words = {word for step in again(plan.steps) if isinstance(step, Run) for word in step.argv}
    assert not words & {"--create", "pvcreate", "vgcreate", "lvcreate", "mkfs.ext4"}
    whole = [step.undo for step in plan.steps if isinstance(step, Run) and not step.once and step.undo]
    kept = [step.undo for step in again(plan.steps) if isinstance(step, Run) and step.undo]
    assert [undo for undo in kept if "--stop" not in undo] == whole


# -- problems ---------------------------------------------------------------------------------------------------

STRIPE = {"layer": "stripe"}
PROBLEMS: list[tuple[list[dict[str, Any]], str, str]] = [
    ([ONE, STRIPE, EXT4], "layers[1]", "set count of the volume to 2 to 8"),
    ([TWO, EXT4], "layers[1]", "join them with a stripe"),
    # fio would run on the last one alone.
    ([TWO], "layers", "end with 2 devices, but a workload takes one; join them with a stripe"),
    ([TWO, {"layer": "cap", "read_iops": 1000}], "layers", "end with 2 devices"),
    ([{**TWO, "count": 9}, STRIPE, EXT4], "layers[0].count", "from 1 to 8"),
    ([TWO, {**STRIPE, "chunk": "65000B"}, EXT4], "layers[1].chunk", "power of two"),
    ([TWO, {**STRIPE, "chunk": "2KiB"}, EXT4], "layers[1].chunk", "4KiB to 4MiB"),
    ([TWO, {"layer": "raid10", "layout": "close"}, EXT4], "layers[1].layout", "enum value"),
    ([ONE, {"layer": "cap"}, EXT4], "layers[1]", "limits nothing"),
    ([ONE, {"layer": "cap", "read_iops": 0}, EXT4], "layers[1].read_iops", "1 I/O per second or more"),
    ([ONE, {"layer": "cap", "read_iops": 2**32}, EXT4], "layers[1].read_iops", "at most"),
    ([ONE, {"layer": "cap", "write_bandwidth": "4kB/s"}, EXT4], "layers[1].write_bandwidth", "4096B/s or more"),
    ([ONE, {"layer": "cap", "iops": 100}, EXT4], "layers[1].iops", "unknown field"),
    ([ONE, {"layer": "cap", "profile": "azure-p10"}, EXT4], "layers[1].profile", "read_latency"),
    ([ONE, {"layer": "cap", "profile": "gp2"}, EXT4], "layers[1].profile", "depends on a volume's size"),
    ([{**ONE, "profile": "gp9"}, EXT4], "layers[0].profile", "azure-p10, azure-p15"),
    ([{**ONE, "profile": "io2"}, EXT4], "layers[0].iops", "takes the IOPS that you give, here from 1 to 31"),
    ([{**ONE, "profile": "io2", "iops": 32}, EXT4], "layers[0].iops", "from 1 to 31"),
    ([{**ONE, "provisioned": "10GiB"}, EXT4], "layers[0].provisioned", "give profile too"),
    ([{**ONE, "profile": "gp2", "provisioned": 100}, EXT4], "layers[0].provisioned", "has no unit"),
    ([{**ONE, "performance": {"iops": 1}}, EXT4], "layers[0].performance", "comes from the profile"),
    ([{**ONE, "iops": -1}, EXT4], "layers[0].iops", "1 I/O per second or more"),
    ([{**ONE, "bandwidth": "1B/s"}, EXT4], "layers[0].bandwidth", "4096B/s or more"),
    ([{**ONE, "profile": "gp3", "burst_iops": 100, "burst_seconds": 3}, EXT4], "layers[0].burst_iops", "3000"),
    ([{**ONE, "profile": "gp3", "read_iops": 100}, EXT4], "layers[0].read_iops", "both directions together"),
    ([{"layer": "volume", "profile": "gp2"}, EXT4], "layers[0]", "size"),
]


@pytest.mark.parametrize(("layers", "path", "said"), PROBLEMS)
def test_each_mistake_is_one_error_with_its_place_and_cure(
    small: dict[str, Any], layers: list[dict[str, Any]], path: str, said: str
) -> None:
    error = refused(small, *layers)
    assert error.path == f"stacks.one.{path}" and said in str(error)


@pytest.mark.parametrize(
    ("entry", "path", "said"),
    [
        ({"iops": "many"}, "profiles.mine.iops", "int"),
        ({"bandwidth": 5}, "profiles.mine.bandwidth", "no unit"),
        ({"speed": 5}, "profiles.mine.speed", "unknown field"),
        ({"iops_most": 16000}, "profiles.mine.iops_most", "iops_per_gib"),
        ({"iops_provisioned": True}, "profiles.mine.iops_provisioned", "iops_per_gib"),
        ({"iops": 100, "bandwidth_most": "5MB/s"}, "profiles.mine.bandwidth_most", "bandwidth_per_io"),
    ],
)
def test_a_profile_of_ones_own_is_checked(small: dict[str, Any], entry: Any, path: str, said: str) -> None:
    error = refused(small, ONE, EXT4, profiles={"mine": entry})
    assert error.path == path and said in str(error)


def test_a_bandwidth_that_is_made_from_no_iops_is_no_cap_and_is_refused(small: dict[str, Any]) -> None:
    mine = {"mine": {"bandwidth_per_io": "128KiB", "bandwidth_most": "500MB/s"}}
    error = refused(small, {**ONE, "profile": "mine"}, EXT4, profiles=mine)
    assert error.path == "stacks.one.layers[0].iops" and "mine makes the bandwidth" in str(error)
    found = study_of(small, {**ONE, "profile": "mine", "iops": 1000}, EXT4, profiles=mine)
    assert asked(found).bandwidth == Bandwidth("128000KiB/s")


@pytest.mark.parametrize("profile", ["gp2", "mine"])
def test_no_cap_may_be_given_beside_a_profile_that_depends_on_the_size(
    small: dict[str, Any], profile: str
) -> None:
    mine = {"mine": {"bandwidth_per_io": "128KiB", "write_latency": "1ms"}}
    free = {"profile": profile, "iops": 0, "bandwidth": "0B/s"}
    found = asked(study_of(small, {**ONE, **free}, EXT4, profiles=mine))
    assert not (found.iops or found.bandwidth or found.burst_iops or found.burst_seconds) and found.write_latency
    # One that is given is a cap, and one that is not is still asked for.
    capped = study_of(small, {**ONE, **free, "bandwidth": "60MB/s"}, EXT4, profiles=mine)
    assert asked(capped).bandwidth == Bandwidth("60MB/s")
    del free["bandwidth"]
    error = refused(small, {**ONE, **free}, EXT4, profiles=mine)
    assert error.path == "stacks.one.layers[0].iops" and "or the bandwidth here" in str(error)


# -- what the kernel says ---------------------------------------------------------------------------------------


def test_mdadm_of_a_real_array() -> None:
    text = (FOLDER / "knobs" / "mdadm-detail").read_text()
    assert stripe.parse_detail(text) == {
        "Raid Level": "raid10", "State": "clean", "Active Devices": "2", "Failed Devices": "0", "Layout": "near=2",
        "Chunk Size": "64K", "members": "/dev/ubdb /dev/ubdc",
    }  # fmt: skip
    broken = text.replace("active sync set-B ", "faulty            ")
    assert stripe.parse_detail(broken)["members"] == "/dev/ubdb"


def test_dmsetup_of_a_real_volume() -> None:
    found = stripe.parse_table("0 245760 striped 2 128 98:16 2048 98:32 2048\n")
    assert found == {"target": "striped", "volumes": "2", "chunk": "65536B"}
    assert stripe.parse_table("0 245760 linear 98:16 2048\n") == {"target": "linear"}


VERSION_1 = """\
/sys/class/block/ubdb/dev:98:16
/run/blocklab/cap-ubdb/blkio.throttle.read_iops_device:9:0 700
/run/blocklab/cap-ubdb/blkio.throttle.read_iops_device:98:16 1000
/run/blocklab/cap-ubdb/blkio.throttle.write_bps_device:98:16 60000000
"""
VERSION_2 = """\
/sys/class/block/ubdb/dev:98:16
/run/blocklab/cap-ubdb/blocklab/io.max:9:0 rbps=max wbps=max riops=700 wiops=max
/run/blocklab/cap-ubdb/blocklab/io.max:98:16 rbps=max wbps=60000000 riops=1000 wiops=max
"""


def test_limits_of_a_real_device_in_both_versions() -> None:
    free = dict.fromkeys(cap.LIMITS, "none")
    wanted = {**free, "read_iops": "1000", "write_bandwidth": "60000000"}
    assert cap.parse_version_1(VERSION_1) == wanted
    assert cap.parse_version_2(VERSION_2) == wanted
    alone = "/sys/class/block/ubdb/dev:98:16\n"
    assert cap.parse_version_1(alone) == cap.parse_version_2(alone) == free
    assert cap.parse_group("2:blkio:/\n0::/blocklab\n") == {"group": "/blocklab"}


# -- profiles ---------------------------------------------------------------------------------------------------


def volume_of(small: dict[str, Any], **more: Any) -> Volume:
    found = study_of(small, {"layer": "volume", "size": "1GiB", **more}, EXT4).stacks["one"].layers[0]
    assert isinstance(found, Volume)
    return found


@pytest.mark.parametrize("name", profiles.shipped())
def test_every_shipped_profile_gives_figures_and_says_where_from(small: dict[str, Any], name: str) -> None:
    entry = profiles.shipped()[name]
    assert "(20" in entry.source
    iops = {"iops": 400} if entry.iops_provisioned else {}
    volume = volume_of(small, profile=name, **iops)
    assert not volume.problems("a1", Topology({"a1": NodeSpec()}, {}, ())) and not volume.profiles()[0].plain
    assert {"iops", "bandwidth", "read_iops", "read_bandwidth"} & set(behaviour(volume.profiles()[0]))


@pytest.mark.parametrize(
    ("provisioned", "iops", "bandwidth", "burst"),
    [
        ("1GiB", 100, 128, True), ("33GiB", 100, 128, True), ("100GiB", 300, 128, True),
        ("334GiB", 1002, 250, True), ("999GiB", 2997, 250, True), ("1000GiB", 3000, 250, False),
        ("6000GiB", 16000, 250, False),
    ],
)  # fmt: skip
def test_gp2_by_its_size(small: dict[str, Any], provisioned: str, iops: int, bandwidth: int, burst: bool) -> None:
    assert volume_of(small, profile="gp2", provisioned=provisioned).profiles()[0] == Profile(
        size=Size("1GiB"), read_latency=Duration("450us"), write_latency=Duration("450us"), iops=iops,
        bandwidth=Bandwidth(f"{bandwidth}MiB/s"), io_most=Size("256KiB"),
        burst_iops=3000 if burst else None, burst_seconds=1800 if burst else None,
    )  # fmt: skip


def test_a_layers_own_figures_win_even_none(small: dict[str, Any]) -> None:
    found = volume_of(small, profile="gp2", burst_seconds=5, write_latency="0s", bandwidth="0B/s").profiles()[0]
    assert found.burst_seconds == 5 and found.burst_iops == 3000 and found.iops == 100
    assert not found.write_latency and not found.bandwidth and found.read_latency == Duration("450us")
    quick = volume_of(small, profile="gp3", iops=6000).profiles()[0]
    assert quick.iops == 6000 and quick.bandwidth == Bandwidth("125MiB/s")
    assert volume_of(small, profile="gp2", iops=4000).profiles()[0].burst_iops is None


def test_provisioned_iops_are_bounded_by_the_provisioned_size(small: dict[str, Any]) -> None:
    found = volume_of(small, profile="io2", provisioned="100GiB", iops=2000).profiles()[0]
    assert found.iops == 2000 and found.bandwidth == Bandwidth("500MiB/s")


def test_a_profile_of_ones_own_wins_over_the_shipped_one(small: dict[str, Any]) -> None:
    mine = {"gp3": {"iops": 70, "read_latency": "3ms"}}
    study = study_of(small, {**ONE, "profile": "gp3"}, EXT4, profiles=mine)
    assert asked(study) == Profile(size=Size("64MiB"), iops=70, read_latency=Duration("3ms"))


def test_an_instances_limit_holds_for_each_direction(small: dict[str, Any]) -> None:
    layer = (
        study_of(small, ONE, {"layer": "cap", "profile": "azure-d4s-v3", "write_iops": 9}, EXT4)
        .stacks["one"]
        .layers[1]
    )
    assert isinstance(layer, Cap)
    assert layer.limits() == {
        "read_iops": 6400, "write_iops": 9, "read_bandwidth": 96_000_000, "write_bandwidth": 96_000_000,
    }  # fmt: skip


def test_factors_on_profile_size_and_figures(small: dict[str, Any]) -> None:
    at = "stacks.*.layers.volume"
    factors = {
        "disk": {"field": f"{at}.profile", "values": ["gp2", "gp3"]},
        "nominal": {"values": {"small": {f"{at}.provisioned": "50GiB"}, "large": {f"{at}.provisioned": "500GiB"}}},
    }
    study = study_of(small, {**ONE, "profile": "gp2"}, EXT4, factors=factors)

    def profile(disk: str, nominal: str) -> Profile:
        return asked(variant(study, {"disk": disk, "nominal": nominal}))

    assert profile("gp2", "small").iops == 150 and profile("gp2", "large").iops == 1500
    assert profile("gp3", "small") == profile("gp3", "large") != profile("gp2", "small")
    values = {"field": f"{at}.iops", "values": [10, 20]}
    study = study_of(small, {**ONE, "profile": "gp2"}, EXT4, factors={"cap": values})
    found = {cell.levels["cap"]: cell.spec["stack"]["layers"][0] for cell in cells(study)}
    assert found["10"]["iops"] == 10 and found["20"]["iops"] == 20
    assert found["10"]["performance"]["burst_iops"] == 3000 and found["10"]["profile"] == "gp2"


def test_a_bad_level_names_the_factor(small: dict[str, Any]) -> None:
    disk = {"field": "stacks.one.layers.volume.profile", "values": ["gp2", "gp9"]}
    study_of(small, {**ONE, "profile": "gp2"}, EXT4)
    with pytest.raises(StudyError, match=r"factors\.disk.*there is no profile 'gp9'"):
        cells(study_of(small, {**ONE, "profile": "gp2"}, EXT4, factors={"disk": disk}))
    values = {"field": "stacks.one.layers.volume.performance.iops", "values": [1]}
    with pytest.raises(StudyError, match="no field"):
        cells(study_of(small, {**ONE, "profile": "gp2"}, EXT4, factors={"f": values}))


def test_a_cells_key_follows_the_figures_of_its_profile(small: dict[str, Any]) -> None:
    keys = []
    for iops in (500, 500, 501):
        mine = {"mine": {"iops": iops}}
        keys += [cell.key for cell in cells(study_of(small, {**ONE, "profile": "mine"}, EXT4, profiles=mine))]
    assert keys[0] == keys[1] != keys[2]


@given(st.integers(1, 10_000), st.sampled_from(["gp2", "gp3", "azure-p20", "sata-ssd"]))
def test_filling_twice_is_filling_once(gib: int, name: str) -> None:
    layer = {"layer": "volume", "size": "1GiB", "provisioned": f"{gib}GiB", "profile": name}
    plain = {"stacks": {"one": {"on": "a1", "layers": [layer]}}}
    once = profiles.fill(plain)
    assert plain == {"stacks": {"one": {"on": "a1", "layers": [layer]}}}
    assert profiles.fill(profiles.unfilled(profiles.fill(plain))) == once


@pytest.mark.parametrize(
    "stacks", [None, [], {"one": None}, {"one": {"layers": {}}}, {"one": {"layers": [3, {}]}}]
)
def test_what_is_no_study_is_left_to_the_decoder(stacks: Any) -> None:
    assert profiles.fill({"stacks": stacks}) == {"stacks": stacks}
