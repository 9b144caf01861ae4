"""Whether a class has a capability: by its members, whatever they are, and without a look at their values."""

from __future__ import annotations

from typing import ClassVar, Protocol, runtime_checkable

import msgspec

from blocklab.layers import Drbd, Shared, Volume
from blocklab.model.capability import Capability
from blocklab.model.spans import Copies, Heir, Spans, Watch, one_copy
from blocklab.model.units import Size


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


def test_a_capability_has_the_members_of_those_that_it_derives_from() -> None:
    drbd = Drbd(peer="a2", link="zone")
    assert all(isinstance(drbd, capability) for capability in (Spans, Heir, Copies, Watch))
    shared = Shared(peer="a2")
    assert isinstance(shared, Heir) and not isinstance(shared, Copies) and one_copy(shared)
    volume = Volume(size=Size("1GiB"))
    assert not isinstance(volume, Spans) and not one_copy(volume) and not one_copy(drbd)
