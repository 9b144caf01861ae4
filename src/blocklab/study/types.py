"""What a study file may say."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from blocklab.layers import AnyLayer
from blocklab.model.ground import LinkSpec, NodeSpec
from blocklab.model.units import Duration
from blocklab.workloads import AnyWorkload

FORMAT = 1

# Names become file names, DRBD resources and SQL names: no blank, no quote, no slash, not over-long.
Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_-]{0,30}$")]


# A factor's level as YAML may have it; by its text it is told from others.
Level: TypeAlias = str | int | float | bool


class Stack(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A storage layout: layers from the raw volume up, active on the node ``on``."""

    on: str
    layers: tuple[AnyLayer, ...]


class Factor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A field of the study, or several, that takes each of ``values`` in turn.

    ``field`` is its path (``links.zone.rtt``, ``stacks.*.layers.drbd.protocol``), or a list of paths that get the
    same value. ``values`` is a list, or a map of level names to values. Without ``field`` each level is a map of
    paths to values, so that one level may set several fields.
    """

    values: list[Any] | dict[str, Any]
    field: str | tuple[str, ...] = ""


class Expectation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A claim that the figures confirm or refute.

    ``metric`` (of ``workload``, and of ``phase`` where the load has phases) on ``stack`` lies ``between`` two
    bounds; the bounds of a time carry their unit (``0.45ms``). With ``relative_to`` it is the ratio to that
    stack's figure. With ``against`` as well it is that ratio over the same ratio in the workload ``against``:
    how much larger the share is here than there. In a study with factors ``at`` names the level of each factor
    that matters; the figures compared are at the same levels, but for those that ``relative_at`` (of
    ``relative_to``) and ``against_at`` (of the other ratio) name. ``host`` is the node of a probe's figure
    (``cpu.busy``); without it the load's own figure or that of the stack's highest block device is meant.
    ``says`` is the sentence that the report prints.
    """

    metric: str
    workload: str
    stack: str
    between: tuple[float | str, float | str]
    phase: str = ""
    relative_to: str = ""
    against: str = ""
    at: dict[str, Level] = {}
    relative_at: dict[str, Level] = {}
    against_at: dict[str, Level] = {}
    host: str = ""
    says: str = ""
    source: str = ""

    @property
    def bounds(self) -> tuple[float, float]:
        """Both bounds as numbers (seconds where they carry a unit). Raises ``ValueError``."""
        try:
            low, high = (Duration(bound) if isinstance(bound, str) else float(bound) for bound in self.between)
        except ValueError as error:
            cure = "a time carries its unit (0.45ms); anything else is a plain number in 1/s, B/s, B or a ratio"
            raise ValueError(f"{error}; {cure}") from error
        return float(low), float(high)


class Study(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The question, as data.

    ``quick`` is a JSON merge patch (RFC 7396) over the study for ``--quick``. ``baseline`` is the stack that
    the others are compared with (the first one, when left out). ``factors``: fields to sweep, in every
    combination but those that an entry of ``exclude`` matches: a map of factors, ``stack`` and ``workload`` to a
    level or a list of levels. ``profiles``: your own volume profiles by name, beside the shipped ones.
    ``notes`` are printed in the report.
    """

    blocklab: Literal[1]
    name: Name
    question: str
    nodes: dict[Name, NodeSpec]
    stacks: dict[Name, Stack]
    workloads: dict[Name, AnyWorkload]
    links: dict[Name, LinkSpec] = {}
    profiles: dict[Name, dict[str, Any]] = {}
    factors: dict[Name, Factor] = {}
    exclude: tuple[dict[str, Level | tuple[Level, ...]], ...] = ()
    baseline: str = ""
    expect: tuple[Expectation, ...] = ()
    notes: tuple[str, ...] = ()
    quick: dict[str, Any] = {}


class Cell(msgspec.Struct, frozen=True):
    """One point of the study's grid. ``spec`` is all that its figures depend on; ``key`` is its hash.

    ``levels``: of each factor that makes a difference to this cell, in the order of the study.
    """

    key: str
    stack: str
    workload: str
    spec: dict[str, Any]
    levels: dict[str, str] = {}

    @property
    def label(self) -> str:
        """For people: stack, workload and levels."""
        return " ".join(
            [f"{self.stack}/{self.workload}", *(f"{name}={level}" for name, level in self.levels.items())]
        )
