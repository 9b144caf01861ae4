"""Every error that blocklab raises on purpose.

The whole tree::

    BlocklabError               anything below; carries a message and a hint (the hint)
    +-- StudyError              the study file is wrong: path in the file, what is wrong, the hint
    +-- SetupError              this machine cannot do it (no user namespaces, no room, no image, ...)
    |   +-- ImageError          the node image cannot be built, read or removed
    +-- HostError               something failed on a host; carries the host's name
    |   +-- CommandError        a command ended with another exit code than 0: argv, code, output
    |   +-- HostTimeout         it did not answer, or a command there did not end, in time
    |   +-- WaitError           a condition did not come true in time: argv, seconds, last output
    |   +-- NodeLost            a node died, hung or panicked: the console's last lines
    +-- KnobError               a knob that the study sets is not in force on the running system
    +-- SuspectError            the kernel's counters contradict a workload's values
    +-- ParseError              a tool's output is not what its parser knows: tool, excerpt
    +-- StoreError              a run folder cannot be read or written
    +-- Unreadable              a file or a text from outside cannot be read; a ValueError too

Nothing in the library calls ``sys.exit``; the command line turns these into one message and an exit code.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence


class BlocklabError(Exception):
    """Base of all errors. ``hint`` says what the user can do; it may be empty, never wrong."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


class StudyError(BlocklabError):
    """A study file that cannot be run. ``path`` is the place in the file, e.g. ``stacks.drbd0.layers[1].peer``.

    ``more``: the other mistakes of the same file.
    """

    def __init__(self, path: str, problem: str, *, hint: str = "", file: str = "", line: int = 0) -> None:
        where = f"{file}:{line}: " if file and line else f"{file}: " if file else ""
        super().__init__(f"{where}{path}: {problem}" if path else f"{where}{problem}", hint=hint)
        self.path = path
        self.problem = problem
        self.file = file
        self.line = line
        self.more: tuple[StudyError, ...] = ()

    @classmethod
    def of(cls, errors: Sequence[StudyError]) -> StudyError:
        """The first one, with the others as ``more``."""
        first, *others = (one for each in errors for one in (each, *each.more))
        for each in others:
            each.more = ()
        first.more = tuple(others)
        return first


class SetupError(BlocklabError):
    """This machine, as it stands, cannot do what was asked."""


class ImageError(SetupError):
    """The node image cannot be built, found or removed."""


class HostError(BlocklabError):
    """Something failed on a host."""

    def __init__(self, host: str, message: str, *, hint: str = "") -> None:
        super().__init__(f"{host}: {message}", hint=hint)
        self.host = host


def tail(text: str, lines: int = 12) -> str:
    """The last ``lines`` lines of ``text``, indented for a message; empty when there is no text."""
    kept = text.rstrip().splitlines()[-lines:]
    return "\n".join(f"    {line}" for line in kept)


class HostTimeout(HostError):
    """A host did not answer, or a command there did not end, within ``seconds``."""

    def __init__(self, host: str, seconds: float, *, hint: str = "") -> None:
        super().__init__(host, f"no answer within {seconds:.3g} s", hint=hint)
        self.seconds = seconds


class CommandError(HostError):
    """A command ended with an exit code other than 0."""

    def __init__(self, host: str, argv: Sequence[str], code: int, output: str, *, hint: str = "") -> None:
        said = tail(output)
        message = f"exit code {code} from: {shlex.join(argv)}" + (f"\n{said}" if said else "")
        super().__init__(host, message, hint=hint)
        self.argv = tuple(argv)
        self.code = code
        self.output = output


class WaitError(HostError):
    """A condition did not come true in time."""

    def __init__(self, host: str, argv: Sequence[str], seconds: float, output: str, *, hint: str = "") -> None:
        said = tail(output)
        message = f"timed out after {seconds:g} s waiting for: {shlex.join(argv)}" + (f"\n{said}" if said else "")
        super().__init__(host, message, hint=hint)
        self.argv = tuple(argv)
        self.output = output


class NodeLost(HostError):
    """A node died, hung or panicked. ``console`` holds the last lines that its kernel printed."""

    def __init__(self, host: str, why: str, console: str = "", *, hint: str = "") -> None:
        said = tail(console)
        message = f"node lost: {why}" + (f"; the console's last lines:\n{said}" if said else "")
        super().__init__(host, message, hint=hint)
        self.why = why
        self.console = console


class KnobError(BlocklabError):
    """A knob that the study sets is not in force; the cell's values would be those of another layout."""

    def __init__(self, host: str, knob: str, wanted: str, found: str, *, hint: str = "") -> None:
        super().__init__(f"{host}: {knob} should be {wanted}, but the running system says {found}", hint=hint)
        self.host = host
        self.knob = knob
        self.wanted = wanted
        self.found = found


class SuspectError(BlocklabError):
    """What a workload says that it did is not what the kernel counted."""


class ParseError(BlocklabError):
    """A tool printed what its parser does not know."""

    def __init__(self, tool: str, problem: str, text: str = "", *, hint: str = "") -> None:
        shown = tail(text, 5)
        super().__init__(f"{tool}: {problem}" + (f"\n{shown}" if shown else ""), hint=hint)
        self.tool = tool


class StoreError(BlocklabError):
    """A run folder or a study's folder cannot be read or written."""


class Unreadable(BlocklabError, ValueError):
    """A file or a text from outside cannot be read. ``problem`` is without the file's ``name``, which may be
    empty; ``line`` 0: of all of it."""

    def __init__(self, name: str, problem: str, *, hint: str = "", line: int = 0) -> None:
        where = f"{name}:{line}: " if name and line else f"{name}: " if name else ""
        super().__init__(f"{where}{problem}", hint=hint)
        self.name = name
        self.problem = problem
        self.line = line
