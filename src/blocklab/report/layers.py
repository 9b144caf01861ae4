"""What each layer did: the kernel's counts at every device of a stack, from the top down, and on the wire."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from blocklab.model.metrics import metric as metric_of
from blocklab.model.sample import Sample
from blocklab.stats.analysis import Analysis
from blocklab.stats.format import number
from blocklab.stats.values import Measured, of_layer
from blocklab.store.run import Run

# A workload with more phases than this has one row a device for all of them together.
MOST_PHASES = 8
_COUNTS = ("reads", "writes", "read.bytes", "write.bytes", "flushes", "tx.bytes", "rx.bytes")
NONE = "–"


class LayerRow(msgspec.Struct, frozen=True):
    """One device of one cell. ``label`` is its stack's, and ``stack`` what to call it, which is empty on all rows
    of a cell but its first. ``short`` is the device without its host where that is the active one.

    Numbers as texts, a dash where there is none: I/Os, MB (10^6 bytes), bytes written here for each byte written
    at the layer above (of the wire: sent for each byte written at the top), flushes, flushes for each transaction.
    """

    label: str
    stack: str
    device: str
    short: str
    reads: str
    writes: str
    read_mb: str
    written_mb: str
    per_byte: str
    flushes: str
    per_transaction: str

    @property
    def values(self) -> tuple[str, ...]:
        """The columns with numbers."""
        return (
            self.reads, self.writes, self.read_mb, self.written_mb, self.per_byte, self.flushes,
            self.per_transaction,
        )  # fmt: skip


COLUMNS = (
    "reads", "writes", "MB read", "MB written", "written per byte above", "flushes", "flushes per transaction",
)  # fmt: skip


class LayerGroup(msgspec.Struct, frozen=True):
    """The layers of all stacks under one workload, or one phase of it."""

    title: str
    rows: tuple[LayerRow, ...]


class _Device(msgspec.Struct):
    """A device's counts, summed over phases. ``passed`` are the bytes written here in the phases whose ratio is
    stored, ``above`` those at the layer above, which that ratio tells. Only a workload without phases tells of its
    transactions, so there is nothing to sum in ``per_transaction``."""

    counts: dict[str, float]
    passed: float = 0.0
    above: float = 0.0
    per_transaction: float | None = None

    def add(self, values: Mapping[str, float]) -> None:
        """One phase's values, by their names without ``layer.``."""
        for name in _COUNTS:
            if name in values:
                self.counts[name] = self.counts.get(name, 0.0) + values[name]
        written = values.get("write.bytes", values.get("tx.bytes", 0.0))
        ratio = values.get("write.amplification", values.get("wire.per.byte"))
        if ratio:
            self.passed += written
            self.above += written / ratio
        self.per_transaction = values.get("flushes.per.transaction", self.per_transaction)


def layer_groups(analysis: Analysis, most: int = MOST_PHASES) -> tuple[LayerGroup, ...]:
    """The groups of the cells that the page shows in detail; none where no run has such counts.

    The phases of a workload that has more than ``most`` are one group.
    A cell whose layers do not agree (``suspect``) is among them: that is where to look.
    """
    groups: dict[tuple[str, str], list[LayerRow]] = {}
    for stack, workload in analysis.detailed:
        run = analysis.measured[stack, workload].run if (stack, workload) in analysis.measured else None
        run = run or analysis.runs.get((stack, workload))
        counted = [sample for sample in run.values() if of_layer(sample)] if run is not None else []
        if run is None or not counted:
            continue
        measured = Measured(run, analysis.stacks[stack].stack.on)
        phases = list(dict.fromkeys(sample.phase for sample in counted))
        chosen = {phase: [phase] for phase in phases}
        if len(phases) > most:
            chosen = {f"all {len(phases)} phases": phases}
        for title, some in chosen.items():
            mine = [sample for sample in counted if sample.phase in some]
            rows = list(_rows(measured, (stack, _title(stack, run)), mine, counted))
            groups.setdefault((workload, title), []).extend(rows)
    order = list(analysis.workloads)
    return tuple(
        LayerGroup(f"{workload} / {phase}" if phase else workload, tuple(rows))
        for (workload, phase), rows in sorted(groups.items(), key=lambda each: order.index(each[0][0]))
        if rows
    )


def _title(stack: str, run: Run) -> str:
    return f"{stack} (suspect)" if run.outcome.status == "suspect" else stack


def _rows(
    measured: Measured, stack: tuple[str, str], counted: Sequence[Sample], every: Sequence[Sample]
) -> Iterator[LayerRow]:
    """A cell's devices from the top down, with the wire between the nodes; those that did nothing are left out."""
    together = _together(every)
    devices: dict[tuple[str, str], _Device] = {}
    by_phase: dict[tuple[str, str, str], dict[str, float]] = {}
    for sample in counted:
        metric = metric_of(sample.metric).family
        layer = together.get((sample.host, sample.layer), sample.layer)
        values = by_phase.setdefault((sample.host, layer, sample.phase), {})
        # The members of a stripe are flushed at the same time, and each has its share of the rest.
        joined = metric != "flushes.per.transaction"
        values[metric] = values.get(metric, 0.0) + sample.value if joined else sample.value
    for (host, layer, _), values in by_phase.items():
        devices.setdefault((host, layer), _Device({})).add(values)
    active = measured.active
    rank = {host: _order(measured, host) for host in {host for host, _ in devices}}
    places = sorted(
        devices,
        key=lambda at: (at[0] != active, "tx.bytes" in devices[at].counts, rank[at[0]].get(_first(at[1]), 99), at),
    )
    first = True
    for host, layer in places:
        device = devices[host, layer]
        wire = "tx.bytes" in device.counts
        if not any(device.counts.values()) or (wire and host != active):
            continue
        label, title = stack
        name = f"wire ({layer} of {host})" if wire else f"{layer} on {host}"
        short = "wire" if wire else layer if host == active else f"{host}'s {layer}"
        yield _row((label, title if first else "", name, short), device)
        first = False


def _together(every: Sequence[Sample]) -> dict[tuple[str, str], str]:
    """Devices side by side, which have their bytes per byte together: (host, ``vda``) -> ``vda+vdb``."""
    return {
        (sample.host, device): sample.layer
        for sample in every
        if metric_of(sample.metric).family == "write.amplification" and "+" in sample.layer
        for device in sample.layer.split("+")
    }


def _first(layer: str) -> str:
    return layer.partition("+")[0]


def _order(measured: Measured, host: str) -> dict[str, int]:
    """The devices of a host from the top down."""
    top = [measured.device] if host == measured.active else []
    return {device: at for at, device in enumerate([*top, *measured.lower(host)])}


def _row(names: tuple[str, str, str, str], device: _Device) -> LayerRow:
    counts = device.counts
    wire = "tx.bytes" in counts
    read, written = ("rx.bytes", "tx.bytes") if wire else ("read.bytes", "write.bytes")

    def count(metric: str) -> str:
        return f"{round(counts[metric]):,}" if metric in counts else NONE

    def megabytes(metric: str) -> str:
        return number(counts[metric] * 1e-6) if metric in counts else NONE

    return LayerRow(
        *names, count("reads"), count("writes"), megabytes(read), megabytes(written),
        number(device.passed / device.above) if device.above else NONE, count("flushes"),
        NONE if device.per_transaction is None else number(device.per_transaction),
    )  # fmt: skip
