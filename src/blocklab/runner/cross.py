"""The kernel's counters on every host around each run of a workload: read here, judged by ``rules.crosscheck``."""

from __future__ import annotations

from pathlib import Path

import msgspec

from blocklab.errors import HostTimeout, ParseError
from blocklab.model.sample import Parsed
from blocklab.model.stack_map import StackMap
from blocklab.model.workload import CountsIo, Workload
from blocklab.probes import counters
from blocklab.rules.crosscheck import Part, crosscheck, fio_io
from blocklab.runner.engine import Engine


class Cross:
    """Reads and judges. ``suspicions`` are sentences on runs whose layers do not agree, ``warnings`` on runs that
    could not be looked at."""

    def __init__(self, engine: Engine, where: StackMap) -> None:
        self._engine = engine
        self._where = where
        self.suspicions: list[str] = []
        self.warnings: list[str] = []

    def read(self, folder: Path, when: str) -> None:
        """Keep every host's counters in ``folder`` as ``counters.<host>.<when>``; nothing of a host that does not
        answer."""
        for name, host in self._engine.hosts.items():
            # It exits with 1 where DRBD is not loaded, which is no failure.
            try:
                text = host.run(counters.ARGV).out
            except HostTimeout:
                text = b""
                self.warnings.append(f"{name}: its counters could not be read in time")
            (folder / f"counters.{name}.{when}").write_bytes(text)

    def judge(self, workload: Workload, parsed: Parsed, folder: Path, phase: str, *, file: bool) -> Parsed:
        """What a run found, with the values of each layer. What cannot be read is a warning."""
        try:
            moved = {name: self._moved(folder, name) for name in self._engine.hosts}
        except (ParseError, OSError) as error:
            said = error.message if isinstance(error, ParseError) else str(error)
            self.warnings.append(f"the layers could not be compared: {said}")
            return parsed
        io = None
        if isinstance(workload, CountsIo) and (options := workload.io_options()):
            io = fio_io(options, file=file, program=workload.program)
        where = self._where
        levels = {host: where.devices(host) for host in self._engine.hosts}
        part = Part(where.active, levels, moved, parsed.samples, where.nics(), io, phase, where.mapped)
        found = crosscheck(part)
        if found.suspicion:
            self.suspicions.append(f"{phase}: {found.suspicion}" if phase else found.suspicion)
        return msgspec.structs.replace(parsed, samples=(*parsed.samples, *found.samples))

    def _moved(self, folder: Path, host: str) -> counters.Counters:
        texts = [(folder / f"counters.{host}.{when}").read_text(errors="replace") for when in ("before", "after")]
        before, after = (counters.parse(text) for text in texts)
        return counters.difference(before, after)
