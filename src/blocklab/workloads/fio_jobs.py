"""fio job files: written from a study's options, or a user's own; nothing in them may reach a shell, nor a file of
the host.

The grammar here is stricter than fio's, so that what is checked is what fio will read. Which options there may be
says ``fio_allowed``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from blocklab.formats.load.fio.options import seconds, size
from blocklab.workloads.fio_allowed import ALLOWED, REPORTS
from blocklab.workloads.fio_measured import OURS

JobValue: TypeAlias = str | int | float | bool

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ._:+-]{0,61}[A-Za-z0-9._:+-])?")
_OPTION = re.compile(r"[a-z][a-z0-9_]*")
_UNSAFE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f$`]")
# "64KiB", "1MiB", "1.5Gi": what fio (kb_base=1024, its default) takes for powers of ten.
_BINARY = re.compile(r"\d+(\.\d+)?[kmgtp]i(b)?", re.IGNORECASE)
_LONGEST = 1000


@dataclass
class Section:
    """One ``[name]`` of a job file with its own options, and with those of ``[global]`` merged under them."""

    name: str
    own: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)


def render(name: str, options: Mapping[str, JobValue]) -> str:
    """A section as text; ``True`` is 1, which flags without a value take too, and ``False`` is 0."""
    lines = [f"[{name}]"]
    for option, value in options.items():
        lines.append(f"{option}={int(value) if isinstance(value, bool) else value}")
    return "\n".join(lines) + "\n"


def name_problem(name: str) -> str | None:
    """Why a section cannot have this name."""
    if _NAME.fullmatch(name) is None:
        return f"{name!r} is no name of a section; use letters, digits and . _ : + -"
    if name == "global":
        return "[global] is for options; give this job another name"
    return None


def option_problem(option: str, value: JobValue) -> str | None:
    """Why this option is refused, whatever fio takes: it reaches a shell, leads away from the stack, or cannot be
    an option's name."""
    text = str(int(value)) if isinstance(value, bool) else str(value).strip()
    if _OPTION.fullmatch(option) is None:
        return f"{option!r} is no name of a fio option (lower case letters, digits, _)"
    if _UNSAFE.search(str(value)) or len(text) > _LONGEST:
        return (
            f"{option}: control characters, $ and ` are refused (fio hands $ to a shell); write the value itself"
        )
    why = ALLOWED.problem(option, text)
    return f"{option}: {why}" if why else None


def report_problem(option: str) -> str | None:
    """Why this option is refused in a study. In a job file that people have it may stand: it has no effect
    there."""
    return f"{option}: refused: {REPORTS}" if option in OURS else None


def unit_problem(option: str, value: JobValue) -> str | None:
    """fio reads 64KiB as 64,000 bytes and 64k as 65,536: the opposite of what both mean elsewhere."""
    if isinstance(value, str) and any(_BINARY.fullmatch(part) for part in re.split(r"[,:/-]", value)):
        return f"{option}: fio reads {value} as powers of 1000; write k, m, g (powers of 1024) or plain bytes"
    return None


def _bare(line: str) -> str:
    """A line as fio takes it: blanks stripped, cut at ; or #."""
    return re.split(r"[;#]", line, maxsplit=1)[0].strip(" \t\r")


def _no_job_file(begins: str) -> str | None:
    """Why a file with this first line is no job file. It may be any other file, so nothing of it is quoted."""
    if not begins.startswith("["):
        return "an option before the first section"
    bad = begins != "[global]" and _header_problem(begins, ())
    return "no section header, which is like [name]" if bad else None


def _header_problem(line: str, found: Collection[str]) -> str | None:
    if not line.endswith("]"):
        return f"{line!r} is no section header"
    if line[1:-1] in found:
        return f"a second section {line}; phases need names of their own"
    return name_problem(line[1:-1])


def sections(text: str) -> tuple[list[Section], list[str]]:
    """The jobs of a job file, and what is wrong with it (line number, problem, hint)."""
    found: list[Section] = []
    names: set[str] = set()
    problems: list[str] = []
    shared: dict[str, str] = {}
    into: dict[str, str] | None = None
    for number, raw in enumerate(text.split("\n"), 1):
        line = _bare(raw)
        if line and into is None and (problem := _no_job_file(line)):
            problems.append(f"line {number}: {problem}")
            break
        problem = f"longer than {_LONGEST} characters" if len(raw) > _LONGEST else None
        if line == "[global]":
            into = shared
        elif line.startswith("["):
            problem = problem or _header_problem(line, names)
            names.add(line[1:-1])
            found.append(Section(line[1:-1], options=dict(shared)))
            into = found[-1].own
        elif line and into is not None:
            option, equals, value = (part.strip() for part in line.partition("="))
            value = value if equals else "1"
            problem = problem or option_problem(option, value)
            into[option] = value
        if problem:
            problems.append(f"line {number}: {problem}")
    for section in found:
        section.options.update(section.own)
    return found, problems


def instrument(text: str, extra: Mapping[str, Iterable[str]]) -> str:
    """``text`` with ``extra[name]`` lines at the *end* of each section, where they win over what stands before;
    what they replace is left out."""
    out: list[str] = []
    current = ""
    for line in [*text.split("\n"), "[global]"]:
        if _bare(line).startswith("["):
            out += extra.get(current, ())
            current = _bare(line)[1:-1]
        if _bare(line).partition("=")[0].strip() not in OURS:
            out.append(line)
    return "\n".join(out[:-1]) + "\n"


# What the slowest stack worth a study does: one write and its flush at a time over a round trip of 25 ms.
LEAST_IOPS = 20.0
LEAST_BANDWIDTH = float(2**20)


def longest(options: Mapping[str, str]) -> float:
    """How long a job can take (s), on a slow stack. Raises ``ValueError`` for a job that need not end."""

    def least(option: str, other: float) -> float:
        # "4k,64k" holds for reads, writes and trims; "," alone leaves one of them out
        return min([other, *(size(part) for part in options.get(option, "").split(",") if part)])

    runtime = seconds(options.get("runtime", options.get("timeout", "0")))
    around = seconds(options.get("ramp_time", "0")) + seconds(options.get("startdelay", "0")) + 10.0
    if runtime:
        return runtime + around
    if options.get("time_based", "0") != "0":
        raise ValueError("is time_based without a runtime: it would never end")
    amount = size(options.get("io_size", options.get("io_limit", options.get("size", "0"))))
    if not amount:
        raise ValueError("has neither a size nor a runtime: it might never end")
    amount *= size(options.get("numjobs", "1")) * size(options.get("loops", "1"))
    # Another way to set block sizes, e.g. bssplit, can make them as small as a sector.
    default = 4096.0 if not any(name.startswith(("bss", "bsr", "blocksize")) for name in options) else 512.0
    block = least("bs", 2.0**60 if "bs" in options else default)
    pace = min(least("rate_iops", LEAST_IOPS) * block, least("rate", LEAST_BANDWIDTH))
    if pace <= 0:
        raise ValueError("has a block size or a rate of 0")
    # After so many blocks it stalls; it has no sectors smaller than the block.
    stalls = amount / block / max(1.0, size(options.get("thinktime_blocks", "1")))
    return amount / pace + stalls * _think(options) + around


def _think(options: Mapping[str, str]) -> float:
    """How long (s) a job stalls each time; a plain number is in microseconds."""
    text = options.get("thinktime", "0")
    return seconds(f"{text}us" if text.isdigit() else text)
