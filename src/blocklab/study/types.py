"""What a study file may say."""

from __future__ import annotations

import functools
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from blocklab.errors import StudyError
from blocklab.faults import AnyFault, Takeover
from blocklab.layers import AnyLayer
from blocklab.model.ground import LinkSpec, NodeSpec
from blocklab.model.units import Duration
from blocklab.workloads import AnyWorkload

FORMAT = 2

# Names become file names, DRBD resources and SQL names: no blank, no quote, no slash, not over-long.
Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_-]{0,30}\Z")]


# A factor's level as YAML may have it; by its text it is told from others.
Level: TypeAlias = str | int | float | bool


class Stack(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A storage layout: layers from the raw volume up, active on one node.

    Each layer must take what the one below gives. A mirror makes the layers below it on its peer as well; a stack
    holds one mirror at most. The workloads run on the highest thing in the stack that they can take.

    Example::

        stacks:
          mirror:
            on: a1
            layers:
              - {layer: volume, size: 1GiB, profile: gp3}
              - {layer: drbd, peer: a2, link: zone, protocol: C}
              - layer: xfs
              - {layer: postgres, settings: {shared_buffers: 256MB}}
    """

    on: str
    """The node on which the stack is active: workloads run there, if not ``from`` another node."""
    layers: tuple[AnyLayer, ...]
    """The layers from the raw volume up. The lowest one is a ``volume``."""


class Factor(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """A field of the study, or several, that takes each of some values in turn.

    Every combination of all factors is measured, for each stack and each workload, but for those that ``exclude``
    names. A level that makes no difference to a cell (a link's RTT for a stack without links) is measured once.
    The value has the unit and the form that the field has in the file; each level alone must make a study that can
    be built.

    A path is the way from the top of the file to the field, with dots: ``links.zone.rtt``,
    ``workloads.tx.clients``. A layer goes by its kind, or by its number where a stack has two of a kind:
    ``stacks.mirror.layers.drbd.protocol``, ``stacks.mirror.layers[1].protocol``. ``*`` stands for every name or
    layer at its place that has such a field: ``stacks.*.layers.postgres.settings.shared_buffers``. A name that has
    dots itself stands in brackets: ``nodes.a1.sysctl[net.ipv4.tcp_rmem]``. A path that ends at a layer replaces it
    as a whole.

    Example::

        factors:
          # one field, a list of values
          rtt: {field: links.zone.rtt, values: [0.5ms, 2ms, 10ms]}
          # a layer as a whole
          database:
            field: stacks.*.layers.postgres
            values: {pg: {layer: postgres}, maria: {layer: mariadb}}
          # two fields that have the same value
          volumes: {field: [stacks.md.layers.volume.count, stacks.lvm.layers.volume.count], values: [2, 4]}
          # values that need a name
          barriers:
            field: stacks.*.layers.ext4.mount
            values: {"on": [noatime], "off": [noatime, barrier=0]}
          # levels that set several fields each
          disk:
            values:
              slow: {stacks.*.layers.volume.iops: 500, stacks.*.layers.volume.write_latency: 2ms}
              fast: {stacks.*.layers.volume.iops: 5000, stacks.*.layers.volume.write_latency: 300us}
    """

    values: list[Any] | dict[str, Any]
    """A list of values, each of which is its level's name; or a map of level names to values, which lists and maps
    as values need. Without ``field``: a map of level names to maps of paths to values, so that one level may set
    several fields."""
    field: str | tuple[str, ...] = ""
    """The path of the field, or a list of paths that get the same value."""

    @functools.cached_property
    def assigned(self) -> dict[str, dict[str, Any]]:
        """Level -> the fields that it sets. Raises ``StudyError`` with a path inside the factor."""
        fields = (self.field,) if isinstance(self.field, str) else self.field
        fields = tuple(field for field in fields if field)
        if not self.values:
            raise StudyError("values", "is empty; a factor needs at least one value")
        if isinstance(self.values, dict):
            if fields:
                return {level: dict.fromkeys(fields, value) for level, value in self.values.items()}
            for level, value in self.values.items():
                if not isinstance(value, dict):
                    raise StudyError(f"values.{level}", "without `field`, each level is a map of fields to values")
            return dict(self.values)
        if not fields:
            raise StudyError("field", "missing: which field of the study takes the values? E.g. links.zone.rtt")
        found: dict[str, dict[str, Any]] = {}
        for index, value in enumerate(self.values):
            if isinstance(value, dict | list):
                problem = "give such values a name each: values is then a map, name: value"
                raise StudyError(f"values[{index}]", problem)
            level = level_text(value)
            if level in found:
                raise StudyError(f"values[{index}]", f"{level} is there twice")
            found[level] = dict.fromkeys(fields, value)
        return found


def level_text(value: Any) -> str:
    """A level's name: the value as the file has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class Expectation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A claim that the values confirm (``ok``), refute (``failed``) or cannot decide (``unknown``, with the
    reason).

    Example::

        expect:
          - metric: write.latency.mean
            workload: io
            phase: write-4k
            stack: mirror
            between: [1ms, 2ms]
            says: a write on the mirror takes the volume's time and one round trip
          # a ratio to another stack
          - {metric: tps, workload: tx, stack: mirror, relative_to: local, between: [0.3, 1]}
          # the same ratio in another workload
          - {metric: tps, workload: tx, stack: mirror, relative_to: local, against: one-row, between: [1.5, 4]}
          # at a level of a factor, relative to the same stack at another level
          - metric: tps
            workload: tx
            stack: mirror
            at: {rtt: 10ms, clients: 32}
            relative_to: mirror
            relative_at: {clients: 1}
            between: [8, 32]
          # a probe's value of one node
          - {metric: cpu.busy, workload: tx, stack: mirror, host: a2, between: [0, 50]}
    """

    metric: str
    """A value's name: of the workload or of a probe, e.g. ``tps``, ``write.latency.p99``, ``cpu.busy``."""
    workload: str
    """The workload that it is a value of."""
    stack: str
    """The stack that it is a value of."""
    between: tuple[float | str, float | str]
    """The lower and the upper bound, both included. A time carries its unit (``0.45ms``); all else is a plain
    number in the base unit (1/s, B/s, B, %, or a ratio)."""
    phase: str = ""
    """The phase, where the workload has named ones (the jobs of ``fio``)."""
    relative_to: str = ""
    """A stack: what must lie between the bounds is the ratio to that stack's value. It may be the same stack,
    with ``relative_at``."""
    against: str = ""
    """A workload, only with ``relative_to``: that ratio divided by the same ratio in this workload, so how much
    larger the share is here than there."""
    at: dict[str, Level] = {}
    """Factor to level, for each factor that makes a difference to the value. The values that it is compared with
    are at the same levels."""
    relative_at: dict[str, Level] = {}
    """Factor to level, of the value of ``relative_to``, where they differ from ``at``."""
    against_at: dict[str, Level] = {}
    """Factor to level, of the other ratio, where they differ from ``at``; without ``against`` it is of the same
    workload."""
    host: str = ""
    """The node of a probe's value. Without it the workload's own value is meant, or that of the stack's highest
    block device."""
    says: str = ""
    """The claim as a sentence, for the report."""
    source: str = ""
    """Where the bounds come from, for the report."""

    @property
    def bounds(self) -> tuple[float, float]:
        """Both bounds as numbers (seconds where they carry a unit). Raises ``ValueError``."""
        try:
            low, high = (Duration(bound) if isinstance(bound, str) else float(bound) for bound in self.between)
        except ValueError as error:
            hint = "a time carries its unit (0.45ms); anything else is a plain number in 1/s, B/s, B or a ratio"
            raise ValueError(f"{error}; {hint}") from error
        return float(low), float(high)


class View(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the charts of a sweep are laid out. What is left out the report chooses itself.

    Each is the name of a factor, ``stack`` or ``workload``, or what the jobs of a ``fio`` workload differ in:
    ``iodepth``, ``bs``, ``reads`` (how many of 100 requests read, like ``70%``), ``access`` (``random`` or
    ``sequential``), ``numjobs``, or another option of its ``matrix`` by its own name. A chart to which a name
    makes no difference is laid out without it. `blocklab report --x NAME --y METRIC --color NAME --facet NAME`
    asks for the same of runs that are there.

    Example::

        # y: latency instead of throughput
        report: {x: rtt, y: latency.p99, color: stack, facet: sync}
    """

    x: str = ""
    """What stands along the axis."""
    y: Annotated[str, msgspec.Meta(pattern=r"^([a-z][a-z0-9_.]*)?\Z")] = ""
    """The value that the stacks are compared by, in the answer, the charts and the tables of a sweep: a metric's
    name (``write.latency.p99``), or its last parts, then of reads, writes and all else that has it
    (``latency.p99``, ``bandwidth``, ``cpu.busy``). Of what the workload itself does not report it is that of the
    stack's highest block device, or of each node's CPU. Without it, and for a workload that has no such value, it
    is throughput."""
    color: str = ""
    """What the colours of the lines tell."""
    facet: str = ""
    """What each panel has one level of."""

    @property
    def axes(self) -> tuple[str, str, str]:
        """``x``, ``color`` and ``facet``."""
        return self.x, self.color, self.facet


class Study(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A study: the question, as data.

    Each stack under each workload, at each combination of the factors' levels, is one *cell*. A cell's run is
    found by a hash of its stack, its workload, and the nodes and links that the two use: changing the question,
    notes or expectations keeps finished cells; changing a link measures again only the stacks that use it.

    Names of studies, nodes, links, stacks, workloads, factors and profiles start with a lower-case letter and hold
    only ``a-z``, ``0-9``, ``-`` and ``_``, 31 characters at most.
    """

    blocklab: Literal[2]
    """The format. A file of format 1, whose workloads have ``load`` in place of ``workload``, is read as well."""
    name: Name
    """Names the folder of its runs: ``runs/<name>``, or ``runs/<name>-quick``."""
    question: str
    """The question, as the report prints it."""
    nodes: dict[Name, NodeSpec]
    """The nodes."""
    stacks: dict[Name, Stack]
    """The storage layouts to compare."""
    workloads: dict[Name, AnyWorkload]
    """The workloads. Each must suit every stack."""
    links: dict[Name, LinkSpec] = {}
    """The links between nodes."""
    faults: dict[Name, AnyFault] = {}
    """What breaks while a ``ledger`` load writes; each such cell is a *drill*. Other workloads see none of it."""
    takeover: Takeover = msgspec.field(default_factory=Takeover)
    """When and how the survivor of a mirror or a shared disk takes over."""
    profiles: dict[Name, dict[str, Any]] = {}
    """Volumes of your own by name, beside the shipped ones, of which one of the same name is replaced; see
    ``profiles``."""
    factors: dict[Name, Factor] = {}
    """Fields that take several values in turn."""
    exclude: tuple[dict[str, Level | tuple[Level, ...]], ...] = ()
    """Combinations to leave out: each entry is a map of factors, ``stack`` and ``workload`` to a level or a list
    of levels, and excludes the cells that have all of them, e.g. ``{stack: local, rtt: [2ms, 10ms]}``."""
    repeats: int = 1
    """How often all of it is measured, each time on layouts that are built again. Values are then the means of
    these repeats, and what is compared is compared within each repeat."""
    baseline: str = ""
    """The stack that the others are compared with, at the same levels of the factors that both have. Without it
    the first one."""
    expect: tuple[Expectation, ...] = ()
    """What you expect of the values, before you measure."""
    notes: tuple[str, ...] = ()
    """Sentences that the report prints."""
    report: View = msgspec.field(default_factory=View)
    """How the report's charts of a sweep are laid out."""
    quick: dict[str, Any] = {}
    """The quick variant: with ``--quick`` it is applied to the study as a JSON merge patch (RFC 7396). Maps merge,
    ``null`` removes, anything else replaces, lists as a whole."""


class Cell(msgspec.Struct, frozen=True):
    """One point of the study's grid. ``spec`` is all that its values depend on; ``key`` is its hash.

    ``levels``: of each factor that makes a difference to this cell, in the order of the study. ``repeat``: which
    of the study's ``repeats`` it belongs to, from 0.
    """

    key: str
    stack: str
    workload: str
    spec: dict[str, Any]
    levels: dict[str, str] = {}
    repeat: int = 0

    @property
    def label(self) -> str:
        """For people: stack, workload, levels, and which repeat it is."""
        levels = (f"{name}={level}" for name, level in self.levels.items())
        again = [f"(repeat {self.repeat + 1})"] if self.repeat else []
        return " ".join([f"{self.stack}/{self.workload}", *levels, *again])
