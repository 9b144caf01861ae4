"""The monitors on the survivors, as the drill follows them."""

from __future__ import annotations

from pathlib import Path

from blocklab.errors import CommandError
from blocklab.faults import monitor
from blocklab.model.drill import Event
from blocklab.runner.engine import Engine
from blocklab.study.drill_phases import Monitor


class Lookout:
    """Starts the monitor on ``host`` and follows what it says; its output goes to ``folder``."""

    def __init__(self, engine: Engine, phase: Monitor, folder: Path) -> None:
        self.host, self.of = phase.host, phase.of
        self._file, self._errors = folder / "stdout", folder / "stderr"
        self._seen = self._forgotten = 0
        self._events: tuple[Event, ...] = ()
        folder.mkdir(parents=True)
        self.proc = engine.hosts[phase.host].spawn(phase.argv, self._file, self._errors)

    def events(self) -> tuple[Event, ...]:
        """What it has said so far, by the survivor's clock. Raises ``ParseError``."""
        if (size := self._file.stat().st_size) != self._seen:
            # It mostly says nothing, and this is asked all the time.
            self._seen, self._events = size, monitor.events(self._file.read_bytes())
        return self._events

    def forget(self) -> None:
        """What it has said so far is of no concern any more. Raises ``ParseError``."""
        self._forgotten = len(self.events())

    @property
    def dead(self) -> bool:
        """Whether the last that it said of the node is that it is dead. Raises ``ParseError``."""
        told = [each.what for each in self.events() if each.what in ("answered", "dead")]
        return told[-1:] == ["dead"]

    def first(self, what: str) -> Event | None:
        """Its first event of that name, of those not forgotten. ``CommandError`` where it runs no more,
        ``ParseError``."""
        code = self.proc.poll()
        if code is not None:
            raise CommandError(self.host, ("monitor",), code, self._errors.read_text(errors="replace"))
        return next((each for each in self.events()[self._forgotten :] if each.what == what), None)
