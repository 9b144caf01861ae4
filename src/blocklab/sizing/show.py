"""The need for people: one set of rows for the terminal and the page, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table

from blocklab.model.terminal import Text
from blocklab.sizing.need import Amount, Need, spelled
from blocklab.sizing.system import Gathered
from blocklab.stats.format import number, percent, quantity, shortened

LABELS = {
    "iops": "IOPS, reads and writes", "read_iops": "read IOPS", "write_iops": "write IOPS",
    "bandwidth": "throughput, reads and writes", "read_bandwidth": "read throughput",
    "write_bandwidth": "write throughput", "flushes": "flushes", "concurrency": "requests in flight",
    "transactions": "transactions",
}  # fmt: skip
"""What each metric is called, in the order of the tables."""
_HEADS = ("", "required", "observed", "mean", "peak", "peak at", "sum of peaks")
_MOST_FILES = 30


class Line(msgspec.Struct, frozen=True):
    """One row of the table of requirements, as text."""

    label: str
    required: str
    observed: str
    mean: str
    most: str
    at: str
    bound: str


def moment(at: float | None, zone: tzinfo = UTC) -> str:
    """A time as people write it; a dash where it is unknown."""
    if at is None:
        return "–"
    text = f"{datetime.fromtimestamp(at, zone):%Y-%m-%d %H:%M:%S}"
    return text.removesuffix(":00")


def lines(need: Need, zone: tzinfo = UTC) -> Iterator[Line]:
    """The requirements, a row each."""
    for name, label in LABELS.items():
        amount = need.amounts.get(name)
        if amount is not None:
            yield Line(
                label, amount_text(amount, name, amount.required), amount_text(amount, name, amount.observed),
                amount_text(amount, name, amount.mean), amount_text(amount, name, amount.most),
                moment(amount.at, zone), amount_text(amount, name, amount.bound),
            )  # fmt: skip


def amount_text(amount: Amount, name: str, value: float) -> str:
    """A value with its unit: ``8,237 IOPS``, ``731 MB/s``."""
    return quantity(value, amount.unit, name) if amount.unit != "1" else number(value)


def lead(need: Need) -> str:
    """The answer in a sentence or two."""
    parts = [
        f"{amount_text(amount, name, amount.required)} of {LABELS[name]}"
        if name == "bandwidth"
        else amount_text(amount, name, amount.required)
        for name in ("iops", "bandwidth")
        if (amount := need.amounts.get(name)) is not None
    ]
    sizes = [
        f"{way} {size / 1024:,.1f} KiB"
        for moment in need.moments[:1]
        for way, size in (("read", moment.read_size), ("write", moment.write_size))
        if size is not None
    ]
    text = f"The storage must carry {' and '.join(parts)}".replace(
        f" of {LABELS['bandwidth']}", ""
    )  # the unit says what it is
    text += f" (mean request: {', '.join(sizes)})." if sizes else "."
    if not need.peak_known:
        text += (
            f" This is an average over {spelled(need.resolution)}: the peak is unknown. Give statistics of an "
            "hour or less, or --peak-factor."
        )
    elif need.gain is not None:
        text += f" Together the systems need {percent(need.gain)} less than the sum of their own peaks."
    return text


def basis(need: Need, zone: tzinfo = UTC) -> str:
    """What the values are made of."""
    when = f"{moment(need.start, zone)} to {moment(need.end, zone)}" if need.start is not None else "times unknown"
    parts = [
        f"{need.percentile:g}th percentile of {spelled(need.seconds)} ({when})",
        f"intervals of {spelled(need.resolution)}",
        f"source: {need.trust}",
    ]
    parts += [f"busy hours {need.busy}"] if need.busy else []
    parts += [f"headroom {percent(need.headroom)}"] if need.headroom else []
    parts += [f"peak factor {need.peak_factor:g}"] if need.peak_factor is not None else []
    parts += [f"without {', '.join(need.left_out)}"] if need.left_out else []
    return "; ".join(parts)


def terminal(need: Need, gathered: Gathered, zone: tzinfo = UTC) -> RenderableType:
    """Files, requirements, systems and remarks."""
    parts: list[RenderableType] = [
        _files(gathered),
        Text(),
        Text(lead(need), style="bold"),
        Text(basis(need, zone)),
    ]
    table = Table(*_HEADS, box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    several = len(need.members) > 1
    for line in lines(need, zone):
        values = (line.required, line.observed, line.mean, line.most, line.at, line.bound)
        table.add_row(line.label, *(values if several else values[:-1]))
    if not several:
        table.columns.pop()
    parts += [Text(), table]
    if several:
        parts += [Text(), _members(need)]
    parts += [Text(f"- {remark}", style="yellow") for remark in remarks(need, gathered)]
    return Group(*parts)


def remarks(need: Need, gathered: Gathered) -> list[str]:
    """What there is to know with it, each once: what several files have in common is said of all of them."""
    files = {str(each.path) for each in gathered.files}
    said: dict[str, list[str]] = {}
    for remark in (*gathered.remarks, *need.remarks):
        place, colon, text = remark.partition(": ")
        of_file = bool(colon) and place in files
        said.setdefault(text if of_file else remark, []).extend([place] if of_file else [])
    return [
        f"{shortened(list(dict.fromkeys(places)), 3)}: {text}" if places else text for text, places in said.items()
    ]


def _files(gathered: Gathered) -> Table:
    table = Table("file", "read as", "system", "intervals", box=None, pad_edge=False)
    for each in gathered.files[:_MOST_FILES]:
        if each.left_out:
            table.add_row(Text(str(each.path)), Text(f"left out: {each.left_out}", style="yellow"), "", "")
        else:
            table.add_row(Text(str(each.path)), each.kind, Text(each.system), f"{each.intervals:,}")
    if more := len(gathered.files) - _MOST_FILES:
        table.add_row(f"and {more} more" if more > 0 else "", "", "", "")
    return table


def _members(need: Need) -> Table:
    names = [name for name in ("iops", "bandwidth", "transactions") if name in need.amounts]
    table = Table("system", "source", *(LABELS[name] for name in names), box=None, pad_edge=False)
    for each in need.members:
        table.add_row(
            Text(each.name), f"{each.source} ({each.trust})",
            *(
                amount_text(need.amounts[name], name, each.observed[name]) if name in each.observed else "–"
                for name in names
            ),
        )  # fmt: skip
    return table


def as_json(need: Need, gathered: Gathered, more: dict[str, Any] | None = None) -> bytes:
    """The need, the files, the remarks, and the series of each system."""
    plain: dict[str, Any] = {
        "need": msgspec.to_builtins(need) | {"gain": need.gain},
        "files": [msgspec.to_builtins(each, enc_hook=str) for each in gathered.files],
        "remarks": remarks(need, gathered),
        "series": {system.name: _series(system.curve) for system in gathered.systems},
        **(more or {}),
    }
    return msgspec.json.format(msgspec.json.encode(plain), indent=1) + b"\n"


def _series(curve: Any) -> dict[str, Sequence[float | None]]:
    found: dict[str, Sequence[float | None]] = {"start": curve.starts.tolist(), "seconds": curve.seconds.tolist()}
    for name, values in curve.values.items():
        told = [None if value != value else value for value in values.tolist()]
        if any(value is not None for value in told):
            found[name] = told
    return found
