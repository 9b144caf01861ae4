"""What only some layers, workloads and faults can do: protocols that ``isinstance`` knows by the class alone."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from abc import ABCMeta as Meta
else:
    Meta = type(Protocol)


class ByClass(Meta):
    """``isinstance`` that looks at the class and remembers what it found: that of ``typing`` evaluates properties,
    one of which makes all jobs of a matrix, and a grid of thousands of cells asks a hundred thousand times."""

    def __instancecheck__(cls, instance: Any) -> bool:
        kind: Any = type(instance)
        return _has(kind, cls)


class Capability(Protocol, metaclass=ByClass):
    """What the protocols of capabilities derive from; each is ``runtime_checkable`` too."""


@functools.cache
def _has(kind: Any, capability: Any) -> bool:
    """Whether the class has all members that the capability and what it derives from declare."""
    bases = [base for base in capability.__mro__ if vars(base).get("_is_protocol")]
    names = {name for base in bases for name in (*vars(base), *vars(base).get("__annotations__", {}))}
    return all(hasattr(kind, name) for name in names if not name.startswith("_"))
