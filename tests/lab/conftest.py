"""Real nodes. They need the node image; ``run-tests`` builds it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from blocklab.errors import ImageError
from blocklab.model.ground import LinkSpec, NodeSpec, Profile, Topology, VolumeSpec
from blocklab.model.units import Size
from blocklab.sites.uml import image
from blocklab.sites.uml.processes import PREFIX, scratch
from blocklab.sites.uml.site import UmlLab, UmlSite


@pytest.fixture(scope="session", autouse=True)
def _image() -> None:
    try:
        image.require()
    except ImageError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))


def leftovers() -> list[str]:
    """Lab folders in memory, and processes whose command line names one."""
    found = [str(path) for path in scratch().glob(f"{PREFIX}*")]
    for process in Path("/proc").iterdir():
        try:
            text = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if f"{scratch()}/{PREFIX}" in text:
            found.append(text)
    return found


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    before = set(leftovers())
    yield
    assert set(leftovers()) <= before


def topology(*names: str, links: dict[str, LinkSpec] | None = None) -> Topology:
    """Small nodes without volumes."""
    return Topology({name: NodeSpec(memory=Size("256MiB")) for name in names}, links or {}, ())


@pytest.fixture(scope="module")
def node() -> Iterator[UmlLab]:
    """One node for a module's tests."""
    lab = UmlSite().start(topology("a1"))
    try:
        yield lab
    finally:
        lab.close()


@contextlib.contextmanager
def served(*nodes: str, volumes: Path | None = None, **profile: Any) -> Iterator[UmlLab]:
    """Nodes with one volume of that profile, which they share; ``volumes`` is the folder of its file."""
    spec = VolumeSpec("s", nodes, Profile(size=Size("256MiB"), **profile))
    lab = UmlSite(volumes).start(msgspec.structs.replace(topology(*nodes), volumes=(spec,)))
    try:
        yield lab
    finally:
        lab.close()
