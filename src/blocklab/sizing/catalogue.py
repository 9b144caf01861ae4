"""The catalogue: which volumes and instances a cloud has, by the shipped profiles and a user's own file.

The data are the profiles of ``blocklab.study.profiles``; nothing is kept twice. A user's file has entries of the
same form at its top: names to values. Its names win, and only it has prices.
"""

from __future__ import annotations

import calendar
import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from blocklab.errors import StudyError
from blocklab.study import profiles
from blocklab.study.decode import storable
from blocklab.study.offers import Price
from blocklab.study.profiles import Entry
from blocklab.study.read import line_of, plain_data, yaml_of


class Catalogue(msgspec.Struct, frozen=True):
    """Entries by name, in the order in which they are tried. ``own``: those that are the user's as a whole, as the
    plain data that a study needs in its ``profiles``."""

    entries: Mapping[str, Entry]
    own: Mapping[str, Mapping[str, Any]] = {}

    def clouds(self) -> tuple[str, ...]:
        """The clouds that have volumes, in the order of the entries."""
        return tuple(dict.fromkeys(entry.cloud for entry in self.entries.values() if _is_volume(entry)))

    def kinds(self, cloud: str) -> dict[str, list[str]]:
        """Families of a cloud's volumes to the names of their members, smallest first where they have sizes."""
        found: dict[str, list[str]] = {}
        for name, entry in self.entries.items():
            if _is_volume(entry) and entry.cloud == cloud:
                found.setdefault(entry.family or name, []).append(name)
        return {
            family: sorted(names, key=lambda name: self.entries[name].size or 0) for family, names in found.items()
        }

    def instances(self, cloud: str, family: str = "") -> tuple[str, ...]:
        """A cloud's instances, smallest first: by vCPUs, then memory, then as they stand in the catalogue.

        With ``family`` those only whose limits hold for that family of volumes. One without a memory counts as the
        largest of its vCPUs.
        """
        found = [
            name for name, entry in self.entries.items()
            if entry.vcpus is not None and entry.cloud == cloud
            and (not family or not entry.volumes or family in entry.volumes)
        ]  # fmt: skip

        def smallness(name: str) -> tuple[int, float]:
            entry = self.entries[name]
            return entry.vcpus or 0, entry.memory or float("inf")

        return tuple(sorted(found, key=smallness))


def _is_volume(entry: Entry) -> bool:
    return entry.cloud != "" and entry.vcpus is None


def load(path: Path | None = None) -> Catalogue:
    """The shipped catalogue, with the user's own file on top. Raises ``StudyError`` with file, line and field."""
    shipped = profiles.shipped()
    if path is None:
        return Catalogue(shipped)
    raw = _read(path)
    plain: dict[Any, Any] = plain_data(raw)
    _storable(path, raw, plain)
    entries, own = dict(shipped), {}
    for name, each in plain.items():
        try:
            entry = _own(str(name), each, shipped)
        except StudyError as error:
            line = line_of(raw, error.path)
            raise StudyError(error.path, error.problem, hint=error.hint, file=str(path), line=line) from error
        if not _only_priced(each):
            # Last, so that what a user adds to a cloud is tried after what is there, and keeps its own order.
            entries.pop(str(name), None)
            own[str(name)] = {**each, "checked": entry.checked} if entry.checked else each
        entries[str(name)] = entry
    return Catalogue(entries, own)


def _read(path: Path) -> Any:
    if not path.exists():
        raise StudyError("", "no such catalogue file", file=str(path))
    raw = yaml_of(path)
    if not isinstance(raw, Mapping) or not raw:
        example = "our-array: {cloud: us, iops: 40000, bandwidth: 1200MB/s}"
        raise StudyError("", "is no map of names to values", file=str(path), hint=f"write entries like {example}")
    return raw


def _storable(path: Path, raw: Any, plain: dict[Any, Any]) -> None:
    try:
        storable(plain)
    except StudyError as error:
        raise StudyError(error.path, error.problem, file=str(path), line=line_of(raw, error.path)) from error


def _only_priced(plain: Any) -> bool:
    return isinstance(plain, dict) and set(plain) == {"price"}


def _own(name: str, plain: Any, shipped: Mapping[str, Entry]) -> Entry:
    """One entry of a user's file; one with nothing but a price takes the rest from the shipped one."""
    entry = profiles.entry_of(name, plain)
    if _only_priced(plain):
        if name not in shipped:
            problem = "has a price and nothing else, and no entry of that name comes with blocklab"
            raise StudyError(name, problem, hint="write its values here too")
        return msgspec.structs.replace(shipped[name], price=entry.price)
    return entry


def stale(name: str, entry: Entry, today: datetime.date | None) -> str:
    """What is to be said of an entry whose text may be older than a year on a day; empty where nothing is.

    Without a day nothing is. An entry without a date is marked too, a user's own as well.
    """
    if today is None:
        return ""
    day = profiles.dated(entry)
    if day is None:
        return f"{name}: nobody says when its values were checked"
    # The 29th of February is a year old on the 28th.
    last = calendar.monthrange(day.year + 1, day.month)[1]
    if today <= day.replace(year=day.year + 1, day=min(day.day, last)):
        return ""
    return f"{name}: its values are of {entry.checked}, older than a year; check them"


def included(entry: Entry) -> tuple[float, float]:
    """(IOPS, B/s) that a volume has without paying for more."""
    return (entry.iops or 0, entry.bandwidth or 0) if entry.sold is not None else (0, 0)


def cost_of(price: Price | None, gib: float = 0, iops: float = 0, bandwidth: float = 0) -> float | None:
    """What one volume or instance costs a month; ``iops`` and ``bandwidth`` (B/s) are what is paid for. None
    without a price."""
    if price is None:
        return None
    return price.month + gib * price.gib_month + iops * price.iops_month + bandwidth / 2**20 * price.mibps_month
