"""A checksum of a mirror's data on one side, made past the mirror."""

from __future__ import annotations

from blocklab.model.node_programs import program
from blocklab.model.plan import Argv


def of_beginning(device: str, name: str) -> Argv:
    """Of as much of ``device``, from its beginning, as the block device with the kernel's ``name`` holds."""
    return program("checksum", device, "block", name)


def of_member(device: str) -> Argv:
    """Of the data area of a member of an MD array."""
    return program("checksum", device, "md")
