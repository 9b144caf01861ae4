"""What phases, steps and facts consist of, for tests that look at all that a plan says."""

from __future__ import annotations

import dataclasses
from typing import Any

from blocklab.study.phases import Measure, Watch


def names_of(value: Any) -> tuple[str, ...]:
    """Its fields, and what follows from them in some phases."""
    fields: tuple[str, ...] = getattr(value, "__struct_fields__", ())
    if dataclasses.is_dataclass(value):
        fields = tuple(each.name for each in dataclasses.fields(value))
    if isinstance(value, Measure):
        fields = (*fields, "starts")
    return (*fields, "commands") if isinstance(value, Watch) else fields
