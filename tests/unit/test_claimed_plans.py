"""No plan writes to a disk that was not claimed: all that any plan says of /dev, on a ground of claimed disks. And
no plan names a file or a program that is not blocklab's own, whatever the study says."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blocklab.cli.plan import phases_of
from blocklab.errors import StudyError
from blocklab.layers.base import LayerBase
from blocklab.model.ground import Ground, Topology
from blocklab.model.layer import Place
from blocklab.model.plan import Kind, Plan, Port, Put, Run, Step
from blocklab.sites.fake import FakeSite
from blocklab.study.grid import plan_layers, topology
from blocklab.study.kinds import registered
from blocklab.study.read import build, read
from blocklab.study.shipped import shipped
from blocklab.study.types import Study
from tests.unit.phase_fields import names_of
from tests.unit.reach import DRAWN, ON_NO_HOST, PATHS, beyond, fields, hostile

FIRST_MINOR = 600
# "filename=/dev/mapper/dm-600,cache.direct=on", "    disk /dev/mapper/dm-600;"; not "/sys/dev/block"
DEVICE = re.compile(r"(?<![\w.])/dev\b[^\s,;:\"']*")
HARMLESS = {"/dev/null", "/dev/zero", "/dev/urandom", "/dev/kmsg", "/dev/shm"}
# What layers make on what they were given; claimed disks have the minors from 600 to 999.
MADE = re.compile(r"/dev/(drbd\d+|md\d+|nbd\d+|mapper/(dm-(5\d\d|[1-9]\d{3,4})|(one|two)-crypt-\d))")


class ClaimedSite(FakeSite):
    """Its raw volumes are maps of claimed disks, no two of the same minor."""

    def ground(self, topology: Topology) -> Ground:
        minors = itertools.count(FIRST_MINOR)
        found = super().ground(topology)
        devices = {
            stack: {host: tuple(f"/dev/mapper/dm-{next(minors)}" for _ in each) for host, each in hosts.items()}
            for stack, hosts in found.devices.items()
        }
        return msgspec.structs.replace(found, devices=devices)


def said(value: Any, host: str = "") -> Iterator[tuple[str, str]]:
    """(host, text) of every text in phases, steps and facts. What a fact wants to read is no order. The text of a
    file is nobody's: a mirror's names the devices of both hosts."""
    if isinstance(value, str):
        yield host, value
    elif isinstance(value, Put):
        yield from ((value.host, value.path), ("", value.text))
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from said((key, each), host)
    elif isinstance(value, tuple | list | set | frozenset):
        for each in value:
            yield from said(each, host)
    else:
        there = getattr(value, "host", "") or host
        for name in names_of(value):
            if name not in ("wanted", "parse"):
                yield from said(getattr(value, name), there)


def strangers(texts: Iterator[tuple[str, str]], devices: Mapping[str, tuple[str, ...]]) -> set[tuple[str, str]]:
    """(host, path) of each path below /dev that is none of the host's own devices, nor made on them."""
    everyone = {device for each in devices.values() for device in each}
    found = set()
    for host, text in texts:
        own = devices.get(host, ()) if host else everyone
        for path in DEVICE.findall(text):
            if path not in own and path not in HARMLESS and not MADE.fullmatch(path):
                found.add((host, path))
    return found


def searched(study: Study) -> tuple[set[tuple[str, str]], set[str]]:
    """The strangers of all stacks, each by itself and all on one ground; and all paths that were seen."""
    site, found, seen = ClaimedSite(), set(), set()
    for name in study.stacks:
        devices = site.ground(topology(study, [name])).devices.get(name, {})
        texts = list(said([phases for _, phases in phases_of(study, name, site)]))
        found |= strangers(iter(texts), devices)
        seen |= {path for _, text in texts for path in DEVICE.findall(text)}
    ground = site.ground(topology(study, list(study.stacks)))
    for number, name in enumerate(study.stacks):
        for level in plan_layers(study, name, number, ground):
            found |= strangers(said([(plan.steps, plan.facts) for plan in level.values()]), ground.devices[name])
    return found, seen


@pytest.mark.parametrize("path", shipped().values(), ids=lambda path: path.stem)
def test_no_plan_of_a_shipped_study_names_a_device_that_it_was_not_given(path: Path) -> None:
    strange, seen = searched(read(path))
    assert not strange
    assert f"/dev/mapper/dm-{FIRST_MINOR}" in seen


def layers(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A stack from below; what is at each place may be nothing."""
    count = draw(st.integers(1, 3))
    size = {"layer": "volume", "size": "1GiB", "count": count}
    pair = {"peer": "a2", "link": "zone"}
    mirrors: list[dict[str, Any] | None] = [
        None, {"layer": "drbd", **pair, "protocol": draw(st.sampled_from("ABC"))},
        {"layer": "drbd", **pair, "standalone": True}, {"layer": "net-mirror", **pair},
        {"layer": "net-mirror", **pair, "direct": True},
    ]  # fmt: skip
    crypts: st.SearchStrategy[dict[str, Any] | None] = st.sampled_from([None, None, {"layer": "crypt"}])
    joined = ("stripe", "raid10", "lvm-stripe") if count > 1 else ()
    joins: list[dict[str, Any] | None] = [{"layer": name} for name in joined] or [None]
    tops: list[dict[str, Any] | None] = [None, {"layer": "postgres"}, {"layer": "mysql"}, {"layer": "mariadb"}]
    caps: list[dict[str, Any] | None] = [
        None,
        {"layer": "cap", "write_iops": 500},
        {"layer": "cap", "read_iops": 500, "by": "cgroup-v1"},
    ]
    chosen: list[dict[str, Any] | None] = [
        size, draw(st.sampled_from([None, None, {"layer": "shared", "peer": "a2"}])),
        draw(st.sampled_from([None, {"layer": "fragile"}])), draw(crypts), draw(st.sampled_from(joins)),
        draw(st.sampled_from(mirrors)), draw(crypts), draw(st.sampled_from(caps)),
        {"layer": draw(st.sampled_from(["xfs", "ext4"]))}, draw(st.sampled_from(tops)),
    ]  # fmt: skip
    return [each for each in chosen if each]


@st.composite
def studies(draw: st.DrawFn) -> dict[str, Any]:
    """Two stacks of any layers, which may not go together."""
    stacks: dict[str, Any] = {name: {"on": "a1", "layers": layers(draw)} for name in ("one", "two")}
    fio = {"workload": "fio", "size": "16MiB", "options": {"runtime": 1}, "jobs": {"w": {"rw": "randwrite"}}}
    databases = {each["layers"][-1]["layer"] in ("postgres", "mysql", "mariadb") for each in stacks.values()}
    tx = {"workload": "ledger", "clients": 2, "seconds": 5} if databases == {True} else fio
    return {
        "blocklab": 2, "name": "drawn", "question": "Which?", "baseline": "one",
        "nodes": {"a1": {"memory": "1GiB"}, "a2": {"memory": "1GiB"}},
        "links": {"zone": {"between": ["a1", "a2"], "rtt": "0.5ms"}}, "stacks": stacks,
        "workloads": {"io": fio, **({"tx": tx} if tx is not fio else {})},
    }  # fmt: skip


KNOWN: set[str] = set()


@settings(max_examples=60)
@given(studies())
def test_no_plan_of_a_drawn_study_does(drawn: dict[str, Any]) -> None:
    try:
        study = build(drawn)
    except StudyError:
        return
    strange, _ = searched(study)
    assert not strange, drawn
    KNOWN.update(layer.tag for stack in study.stacks.values() for layer in stack.layers)


def test_the_drawn_studies_had_layers_of_every_kind() -> None:
    assert {"shared", "fragile", "crypt", "stripe", "raid10", "lvm-stripe", "drbd", "net-mirror", "cap"} <= KNOWN


@pytest.mark.parametrize("path", shipped().values(), ids=lambda path: path.stem)
def test_no_plan_of_a_shipped_study_names_a_file_of_others(path: Path) -> None:
    study = read(path)
    for name in study.stacks:
        assert stray(study, name) == []


def stray(study: Study, name: str) -> list[str]:
    """The paths in all that a stack's phases say that are not the ground's. Left out are a script in SQL, which
    runs as somebody who may not name a file, and the study's own job file, of which the hosts get another text."""
    phases = [phases for _, phases in phases_of(study, name, ClaimedSite())]
    texts = [text for _, text in said(phases)]
    own = {text for workload in study.workloads.values() for text in getattr(workload, "scripts", {}).values()}
    own |= {getattr(workload, "jobtext", None) or "" for workload in study.workloads.values()}
    return [path for text in texts if text not in own for path in beyond(text, name)]


PASSED: dict[str, int] = dict.fromkeys(DRAWN, 0)


@pytest.mark.parametrize("part", DRAWN)
def test_no_plan_of_a_hostile_study_reaches_beyond_the_ground(part: str) -> None:
    @settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow])
    @given(hostile(part))
    def each(drawn: dict[str, Any]) -> None:
        try:
            study = build(drawn)
        except StudyError:
            return
        strange, _ = searched(study)
        assert not strange and stray(study, "one") == [], drawn
        PASSED[part] += 1

    each()
    # Or nothing was tried.
    assert PASSED[part] > 0


def test_every_field_that_takes_a_text_was_tried() -> None:
    """A new layer or workload, or a new field of one, belongs into tests/unit/reach.py."""
    every = list(fields())
    lacking = [
        (part, field) for part, field in every if field not in DRAWN.get(part, {}) and field not in ON_NO_HOST
    ]
    assert lacking == []
    assert {(part, field) for part, each in DRAWN.items() if part for field in each} <= set(every)


@pytest.mark.parametrize("text", PATHS)
@pytest.mark.parametrize(
    "place", ["from", "on", "node", "stack", "link", "workload", "study", "fault.node", "fault.link", "between"]
)
def test_no_name_is_a_path(small: dict[str, Any], place: str, text: str) -> None:
    small["workloads"] = {"tx": {"workload": "ledger", "from": "b1", "time": "5s"}}
    small["links"]["client"] = {"between": ["a1", "b1"]}
    build(small)
    layers = small["stacks"]["local"]
    changes: dict[str, tuple[Any, str, Any]] = {
        "from": (small["workloads"]["tx"], "from", text), "on": (layers, "on", text),
        "node": (small["nodes"], text, {}), "stack": (small["stacks"], text, layers),
        "link": (small["links"], text, {"between": ["a1", "b1"]}), "study": (small, "name", text),
        "workload": (small["workloads"], text, small["workloads"]["tx"]),
        "fault.node": (small, "faults", {"x": {"fault": "crash", "at": "1s", "node": text}}),
        "fault.link": (small, "faults", {"x": {"fault": "link-cut", "at": "1s", "link": text}}),
        "between": (small["links"], "client", {"between": ["a1", text]}),
    }  # fmt: skip
    where, key, value = changes[place]
    where[key] = value
    with pytest.raises(StudyError):
        build(small)


@pytest.mark.parametrize(
    "text",
    [
        "/etc/victim", "logdev=/etc/victim", "size=1,x=/srv", "mem=mmap:/etc/victim", "a /usr/bin/id", "|/prog",
        "'/x'", "../victim", "/mnt/one/../../etc", "/mnt/other/x", "/run/blocklabs/x", "/run/blocklab/../x",
        "/proc/sysrq-trigger", "/var/tmp/x", "/etc/drbd.d/x.res", "postgresql://a@/b?host=/etc&port=1",
        "file\n/etc/victim\n", "/",
    ],
)  # fmt: skip
def test_a_path_beyond_the_ground_is_found(text: str) -> None:
    assert beyond(text, "one") != []


@pytest.mark.parametrize(
    "text",
    [
        "/mnt/one/postgres", "/run/blocklab/one/x", "-c config_file=/run/blocklab/one/server.conf", "4k/50:64k/50",
        "10.77.1.1/24", "Europe/Berlin", "postgresql://postgres@/bench?host=/run/blocklab/one&port=5432",
        "KILL/30", "/dev/sdb", "UpToDate/UpToDate", "/var/lib/blocklab/log/one.log",
    ],
)  # fmt: skip
def test_a_path_of_the_ground_is_none_beyond_it(text: str) -> None:
    assert beyond(text, "one") == []


class Planted(LayerBase, frozen=True, tag="planted"):
    """A layer that does not keep to what it was given."""

    how: str = ""

    takes: ClassVar[Kind | None] = "block"
    gives: ClassVar[Kind] = "block"

    def plan(self, place: Place, below: tuple[Port, ...]) -> Plan:
        host, device = place.host, below[0].where
        steps: dict[str, Step] = {
            "argv": Run(host, ("mkfs.ext4", "/dev/sdb")),
            "option": Run(host, ("fio", "--filename=/dev/nvme0n1,x")),
            "undo": Run(host, ("true",), undo=("wipefs", "--all", "/dev/disk/by-id/nvme-x")),
            "again": Run(host, ("true",), once=True, again=("mount", "/dev/vdb", "/mnt")),
            "file": Put(host, "/etc/drbd.d/x.res", "disk /dev/sdc;"),
            "other": Run(host, ("dd", "if=/dev/zero", "of=/dev/mapper/dm-601")),
            "way out": Run(host, ("dd", f"of={device}/../../sda")),
            "folder": Run(host, ("find", "/dev", "-delete")),
            "none": Run(host, ("dd", "if=/dev/zero", f"of={device}")),
        }
        return Plan((steps[self.how],), (), below)


@pytest.mark.parametrize(
    ("how", "path"),
    [
        ("argv", "/dev/sdb"), ("option", "/dev/nvme0n1"), ("undo", "/dev/disk/by-id/nvme-x"),
        ("again", "/dev/vdb"), ("file", "/dev/sdc"), ("other", "/dev/mapper/dm-601"),
        ("way out", "/dev/mapper/dm-600/../../sda"), ("folder", "/dev"), ("none", ""),
    ],
)  # fmt: skip
def test_the_search_can_find_one(small: dict[str, Any], how: str, path: str) -> None:
    layer = {"layer": "planted", "how": how}
    small["stacks"] = {"local": {"on": "a1", "layers": [{"layer": "volume", "size": "512MiB"}, layer]}}
    small["workloads"].pop("tx")
    with registered(Planted):
        strange, _ = searched(build(small))
    assert {found for _, found in strange} == ({path} if path else set())
