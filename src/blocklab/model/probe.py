"""What a probe must offer."""

from __future__ import annotations

from typing import ClassVar, Protocol

from blocklab.model.sample import Sample


class Probe(Protocol):
    """A file of every node's /proc, recorded each second during a workload, and what it says."""

    name: ClassVar[str]
    path: ClassVar[str]
    """The file."""
    metrics: ClassVar[tuple[str, ...]]
    """Every metric that its values, and what is made of them, may be of."""
    device: ClassVar[bool]
    """Whether they are of block devices, and not of the node as a whole."""

    def parse(self, text: bytes, host: str) -> tuple[Sample, ...]:
        """The series in what the sampler printed of all probes' files. A last line cut in the middle is dropped;
        garbage raises ``ParseError``."""
