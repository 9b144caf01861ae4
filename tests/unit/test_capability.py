"""Whether a class has a capability: by its members, whatever they are, and without a look at their values."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, runtime_checkable

import msgspec

from blocklab.layers import Drbd, Shared, Volume
from blocklab.layers.base import LayerBase
from blocklab.model.capability import Capability
from blocklab.model.layer import Place
from blocklab.model.plan import Kind, Plan, Port, Run
from blocklab.model.spans import Copies, Heir, Side, Spans, Watch, one_copy
from blocklab.model.units import Size
from blocklab.sites.fake import FakeSite
from blocklab.study import phases
from blocklab.study.grid import hosts_of, is_shared, plan_stack, roles_of, topology
from blocklab.study.kinds import registered
from blocklab.study.read import build


@runtime_checkable
class Loud(Capability, Protocol):
    sound: ClassVar[str]

    @property
    def volume(self) -> int: ...

    def shout(self) -> str: ...


class Dog(msgspec.Struct):
    volume: int = 3
    sound: ClassVar[str] = "woof"

    def shout(self) -> str:
        return self.sound


class Silent(msgspec.Struct):
    sound: ClassVar[str]

    @property
    def volume(self) -> int:
        raise AssertionError("nobody asked for it")

    def shout(self) -> str:
        return ""


class Costly(Silent):
    sound: ClassVar[str] = "purr"


def test_fields_properties_and_methods_count_by_their_names() -> None:
    assert isinstance(Dog(), Loud)
    assert not isinstance("woof", Loud)


def test_what_is_only_declared_is_not_there() -> None:
    assert not isinstance(Silent(), Loud)


def test_a_property_is_not_evaluated() -> None:
    assert isinstance(Costly(), Loud)


@runtime_checkable
class Louder(Loud, Protocol):
    def roar(self) -> str: ...


class Lion(Dog):
    def roar(self) -> str:
        return "roar"


def test_a_capability_has_the_members_of_those_that_it_derives_from() -> None:
    assert isinstance(Lion(), Louder) and not isinstance(Dog(), Louder)


def test_a_mirror_and_a_shared_disk_say_what_they_are() -> None:
    drbd = Drbd(peer="a2", link="zone")
    assert all(isinstance(drbd, capability) for capability in (Spans, Heir, Copies, Watch))
    shared = Shared(peer="a2")
    assert isinstance(shared, Heir) and not isinstance(shared, Copies) and one_copy(shared)
    volume = Volume(size=Size("1GiB"))
    assert not isinstance(volume, Spans) and not one_copy(volume) and not one_copy(drbd)


class Remote(LayerBase, frozen=True, tag="remote"):
    """A disk of another host, as an iSCSI target gives it."""

    target: str
    link: str

    takes: ClassVar[Kind | None] = "block"
    gives: ClassVar[Kind] = "block"

    @property
    def links(self) -> tuple[str, ...]:
        return (self.link,)

    def sides(self, on: str) -> tuple[Side, ...]:
        return (Side(self.target, "primary"),)

    def plan(self, place: Place, below: tuple[Port, ...]) -> Plan:
        export = Run(self.target, ("export", below[0].where))
        return Plan(
            (export, Run(place.host, ("attach", self.target))), (), (Port(place.host, "block", "/dev/sda"),)
        )


def test_what_is_below_a_layer_may_be_built_on_another_host_alone(small: dict[str, Any]) -> None:
    layers = [
        {"layer": "volume", "size": "512MiB"},
        {"layer": "remote", "target": "a2", "link": "zone"},
        {"layer": "xfs"},
    ]
    small["stacks"], small["baseline"] = {"one": {"on": "a1", "layers": layers}}, "one"
    small["workloads"] = {"io": {**small["workloads"]["io"], "size": "16MiB"}}
    with registered(Remote):
        study = build(small)
    shape = topology(study, ["one"])
    assert [volume.nodes for volume in shape.volumes] == [("a2",)] and set(shape.links) == {"zone"}
    assert not is_shared(study.stacks["one"]) and hosts_of(study.stacks["one"]) == ("a1", "a2")
    assert [set(level) for level in roles_of(study.stacks["one"])] == [{"a2"}, {"a1"}, {"a1"}]
    plan = plan_stack(study, "one", 0, FakeSite().ground(shape))
    hosts = [step.host for step in plan.steps if isinstance(step, Run) and step.argv[0] in ("export", "attach")]
    assert hosts == ["a2", "a1"] and [port.kind for port in plan.ports] == ["block", "dir"]
    assert list(phases.build(study, ["one"], FakeSite().ground(shape)).phases)
