"""fio: I/O of a given shape on a block device or in a file. https://fio.readthedocs.io/"""

from __future__ import annotations

import itertools
import math
import re
import signal
from collections.abc import Iterator, Mapping
from typing import ClassVar, Self

import msgspec

from blocklab.errors import ParseError
from blocklab.formats.load.fio import averaged, report
from blocklab.formats.load.fio.options import SHAPING, queue_depth, runtime, seconds, size
from blocklab.model import places
from blocklab.model.knobs import Question, Table
from blocklab.model.plan import Fact, Kind, Port, Put, Run, Step
from blocklab.model.sample import Parsed, Sample
from blocklab.model.units import Size
from blocklab.model.workload import Command
from blocklab.workloads import fio_jobs, fio_measured, fio_options, fio_shapes
from blocklab.workloads.base import Stoppable, no_target_yet, target, version
from blocklab.workloads.fio_jobs import JobValue

FOLDER = places.work("fio")
JOBFILE = f"{FOLDER}/job.fio"
MIB = 2**20

# fio's start, laying out files, and the pause of up to a second between two stonewalled jobs.
_SPARE = 60.0
# For laying out a file whose size only fio knows, e.g. 200 GB at 60 MB/s.
_LAYOUT = 3600.0


class Fio(Stoppable, frozen=True, tag="fio"):
    """I/O of a given shape, by [fio](https://fio.readthedocs.io/).

    Jobs run one after the other (``stonewall``), and each is a phase.

    Example::

        io:
          workload: fio
          size: 1GiB
          options: {ioengine: libaio, direct: 1, runtime: 60}
          jobs:
            seq-write-1m: {rw: write, bs: 1M}
          matrix:
            rw: [randread, randwrite]
            bs: [4k, 16k]
            iodepth: [1, 32]

    Every job must end: it needs a ``runtime``, or a size and no ``time_based``. Sizes in options are fio's: write
    ``64k``, not ``64KiB``, which fio reads as 64,000 bytes; it is refused. ``ioengine`` is one of sync, psync,
    vsync, pvsync, pvsync2, libaio, posixaio, io_uring, mmap, null.

    Options and job files may have what keeps fio on the file or device that it is given: all of its options of
    I/O, depth, rate, think time, verification, zones, memory and CPUs. Refused are all others, among them what
    reaches a shell (``exec_prerun``, ``exec_postrun``, ``program``, ``arguments``, ``include``, ``$`` and
    backquotes), what leads away from the stack (``filename``, ``directory``, ``filename_format``, ``opendir``,
    ``read_iolog``, ``write_iolog``, ``mem=mmap:FILE``), what changes the host (``ioscheduler``, ``cgroup``),
    ``kb_base`` and ``name``. And what would make other values of fio's reports and logs: ``log_``...,
    ``write_``...``_log``, ``unified_rw_reporting``. Once fio was asked, also what this fio does not know, options
    of another ``ioengine`` than the job's, and values of the usual options out of their ranges. A job file may
    have ``percentile_list``, ``write_bw_log``, ``log_avg_msec`` and ``group_reporting``: they are left out for
    blocklab's own. Clones (``numjobs``) are one value, sections are not.

    Values of each phase: ``read.``, ``write.`` and ``trim.``, as far as there was I/O, with ``iops`` (1/s),
    ``bandwidth`` (B/s), ``bytes``, ``ios``, ``latency.mean``, ``latency.stddev``, ``latency.max``,
    ``latency.p50``, ``latency.p95``, ``latency.p99``, ``latency.p99.9`` (s; submission and completion together);
    ``sync.ios`` and ``sync.latency.`` where the job synced; ``cpu.user`` and ``cpu.system`` (%, of the job's
    time). Time series: ``iops``, ``bandwidth`` and ``latency.mean`` of each direction.
    """

    size: Size | None = None
    """Of the file, or of the part of the device: whole MiB. Required, but for a ``jobfile``."""
    jobs: dict[str, dict[str, JobValue]] = {}
    """Name to fio's options of one job. Give ``jobs`` or a ``matrix`` or both, or else a ``jobfile``."""
    options: dict[str, JobValue] = {}
    """fio's options for all jobs."""
    matrix: dict[str, tuple[JobValue, ...]] = {}
    """Option to a list of its values: every combination is one more job, whose name is made of the values:
    ``randread-4k-qd1`` to ``randwrite-16k-qd32`` in the example (``qd`` for iodepth, ``r`` for rwmixread, ``j``
    for numjobs; other options by their own names)."""
    jobfile: str | None = None
    """A job file of your own, by its path from the study file, below whose folder it has to be; its sections are
    the phases, and run as it says. Its text counts for the cell's key."""
    jobtext: str | None = None
    """The job file's text; blocklab reads it from ``jobfile``, not for writing by hand."""
    fill: bool = True
    """Write the file or part once before the measurement, so that no read meets a hole and no write allocates.
    Where it is ``false``, or a job file has no ``size``, fio lays out a file that a job reads, likewise before."""

    takes: ClassVar[tuple[Kind, ...]] = ("dir", "block")
    refused: ClassVar[tuple[str, ...]] = ("from",)
    rates: ClassVar[tuple[str, ...]] = ("read.iops", "write.iops", "trim.iops")
    metrics: ClassVar[tuple[str, ...]] = report.METRICS
    program: ClassVar[str] = "fio"
    # Loading its libraries, measuring its clock twice, a fixed nap of 0.1 s: in a node 0.36 s until the first I/O.
    head_start: ClassVar[float] = 0.25
    ends_on: ClassVar[int] = signal.SIGINT
    question: ClassVar[Question] = fio_options.QUESTION

    def problems(self) -> list[tuple[str, str]]:
        """Options that reach a shell or leave the stack, jobs without an end, sizes that fio would cut."""
        if bool(self.jobs or self.matrix) == bool(self.jobfile or self.jobtext):
            return [("jobs", "give jobs or a matrix, or else a jobfile")]
        found: list[tuple[str, str]] = []
        if self.size is not None and (self.size <= 0 or self.size % MIB):
            found.append(("size", "must be a whole number of MiB, above 0; write it like 1GiB"))
        found += self._option_problems() if self.jobs or self.matrix else self._file_problems()
        if self.stop is not None and not self.all_jobs:
            # Which phases it has blocklab would know, but not how to start one without the others.
            found.append(("stop", "a job file runs as it says; write its jobs as `jobs` to go in rounds"))
        else:
            found += self._stop_problems()
        if not found:
            found += self._bounds()
        return found

    @property
    def room(self) -> int:
        """Of the file, or of the part of the device."""
        return int(self.size or 0)

    @property
    def phases(self) -> tuple[str, ...] | None:
        return tuple(section.name for section in self.sections())

    @property
    def phase_count(self) -> int:
        """The jobs; of a matrix, which may have millions, by the numbers of its values."""
        made = math.prod(len(values) for values in self.matrix.values()) if self.matrix else 0
        return max(1, len(self.jobs) + made)

    def shapes(self) -> dict[str, dict[str, str]]:
        """Options of a ``matrix`` that have no axis of their own are one by their own names."""
        others = [name for name in self.matrix if name not in SHAPING]
        return {
            section.name: fio_shapes.shape(section.options)
            | {name: section.options.get(name, fio_shapes.UNSET) for name in others}
            for section in self.sections()
        }

    def queue_depths(self) -> dict[str, int | None]:
        """``iodepth`` x ``numjobs`` of each job."""
        return {section.name: queue_depth(section.options) for section in self.sections()}

    @property
    def all_jobs(self) -> dict[str, dict[str, JobValue]]:
        """``jobs``, then those of the matrix: the phases by their names, with the options of their own."""
        return self.jobs | _combined(self.matrix)

    def _timed(self) -> bool:
        # Without a rule a job that has no runtime ends when it has done its size.
        if self.stop is None or not self.all_jobs:
            return True
        options = (self.options, *self.all_jobs.values())
        return any(name in each for each in options for name in ("runtime", "timeout", "time_based"))

    def io_options(self) -> tuple[Mapping[str, str], ...]:
        """Of each section, with those of [global]."""
        return tuple(section.options for section in self.sections())

    def trials(self, seconds: float) -> Mapping[str, Self]:
        """Each job by itself."""
        timed: dict[str, JobValue] = {"time_based": True, "runtime": int(seconds)}
        return {
            name: msgspec.structs.replace(self, jobs={name: job | timed}, matrix={}, stop=None)
            for name, job in self.all_jobs.items()
        }

    def reseeded(self, number: int) -> Self:
        """With a seed of its own, unless the study says how it draws."""
        given = set().union(self.options, *self.all_jobs.values())
        if given & {"randseed", "randrepeat", "allrandrepeat"}:
            return self
        return msgspec.structs.replace(self, options={**self.options, "randseed": number})

    def watched(self, command: Command) -> Command:
        """With its state so far each second."""
        at = command.argv.index("--eta=never")
        return msgspec.structs.replace(
            command, argv=(*command.argv[:at], "--status-interval=1", *command.argv[at:])
        )

    def live(self, out: bytes, err: bytes) -> Mapping[str, list[float]]:
        """``read.iops`` and ``write.iops`` of each second so far."""
        return report.so_far(out)

    def steady(self, parsed: Parsed) -> Parsed:
        """IOPS and bandwidth without the first second."""
        return fio_measured.without_start(parsed)

    def _option_problems(self) -> Iterator[tuple[str, str]]:
        if self.size is None:
            yield "size", "missing: how large is the file? Write it like 1GiB"
        groups = [("options", self.options), *((f"jobs.{name}", job) for name, job in self.jobs.items())]
        groups += [("matrix", job) for job in _combined(self.matrix).values()]
        yield from self._matrix_problems()
        for name in self.all_jobs:
            if problem := fio_jobs.name_problem(name):
                yield "jobs", problem
        for where, options in groups:
            for option, value in options.items():
                problem = None
                if re.search(r"[;#]", str(value)):
                    problem = f"{option}: fio takes ; and # for the start of a comment"
                problem = problem or fio_jobs.option_problem(option, value) or fio_jobs.report_problem(option)
                problem = problem or fio_jobs.unit_problem(option, value) or self._unfit(option, value)
                if problem:
                    yield where, problem

    def _unfit(self, option: str, value: JobValue) -> str | None:
        """Why an option's value cannot be what is meant."""
        try:
            filled = self.size if self.fill else None
            if option in ("size", "filesize") and filled is not None and size(str(value)) > filled:
                return f"{option}: {value} is more than the workload's `size`, which is filled; raise that one"
            if option in ("ramp_time", "startdelay", "runtime", "timeout"):
                seconds(str(value))
        except ValueError as error:
            return f"{option}: {error}" if option not in ("size", "filesize") else None
        try:
            if option in ("rwmixread", "rwmixwrite"):
                int(value)
        except ValueError:
            return f"{option}: {value} is not a whole number of percent"
        return None

    def _matrix_problems(self) -> Iterator[tuple[str, str]]:
        for name, values in self.matrix.items():
            if not values or len(set(values)) < len(values):
                yield f"matrix.{name}", "needs at least one value, and each of them once"
        for name in self.jobs.keys() & _combined(self.matrix).keys():
            yield f"jobs.{name}", "the matrix has a job of that name too"

    def _file_problems(self) -> Iterator[tuple[str, str]]:
        if self.options:
            yield "options", "belong to jobs; put them into the [global] section of the job file"
        if self.jobtext is None:
            yield "jobfile", f"{self.jobfile} was not read"
            return
        names, problems = fio_jobs.sections(self.jobtext)
        yield from (("jobfile", f"{self.jobfile or 'jobtext'}, {problem}") for problem in problems)
        if not names:
            yield "jobfile", f"{self.jobfile or 'jobtext'} has no section but [global]: nothing would run"

    def _body(self) -> str:
        """The job file without what blocklab adds to it."""
        if self.jobtext is not None:
            return self.jobtext
        jobs = (fio_jobs.render(name, {"stonewall": True} | job) for name, job in self.all_jobs.items())
        return fio_jobs.render("global", self.options) + "".join(jobs)

    def _head(self) -> str:
        return "" if self.size is None else f"[global]\nsize={int(self.size)}\n"

    def sections(self) -> list[fio_jobs.Section]:
        """The jobs in the order of the file, each with the options of [global] under its own."""
        return fio_jobs.sections(self._head() + self._body())[0]

    def unknown(self, table: Table) -> Iterator[tuple[str, str]]:
        """Options that fio does not have, or not with the job's engine, and bad values."""
        told = set()
        for section in self.sections():
            here = f"jobs.{section.name}" if section.name in self.jobs else "matrix" if self.matrix else "jobfile"
            for option, why in fio_options.unknown(section.options, table):
                # What all jobs have is said once.
                where = "options" if option in self.options and option not in section.own else here
                if (where, why) not in told:
                    told.add((where, why))
                    yield where, why if where == "options" else f"[{section.name}] {why}"

    def _bounds(self) -> Iterator[tuple[str, str]]:
        if self.rule() is not None:
            return
        for section in self.sections():
            try:
                fio_jobs.longest(section.options)
            except ValueError as error:
                yield f"jobs.{section.name}" if self.all_jobs else "jobfile", f"[{section.name}] {error}"

    def text(self, where: str, **more: str) -> str:
        """The whole job file for a target (a file's or a device's path); ``more``: options of every job."""
        # fio takes ":" between two file names
        head = "; made by blocklab\n[global]\nfilename=" + where.replace(":", "\\:") + "\n" + self._head()
        ours = {**fio_measured.OURS, **more}
        extra = {}
        for number, section in enumerate(self.sections()):
            extra[section.name] = [f"{option}={value or f'{FOLDER}/{number}'}" for option, value in ours.items()]
            if "verify" in section.options:
                # Or a job that is ended leaves a file of its state in the agent's folder.
                extra[section.name].append("verify_state_save=0")
        return head + fio_jobs.instrument(self._body(), extra)

    def lasts(self) -> float | None:
        """The jobs' run times together; unknown where one of them ends by its size."""
        times = [runtime(section.options) for section in self.sections()]
        return None if None in times else sum(time for time in times if time is not None)

    def lasting(self, port: Port) -> tuple[Step, ...]:
        """The target written once from end to end (``fill``), where the jobs leave it as it is: whole, and nothing
        of it in memory."""
        return self._filled(port) if self._leaves_it() else ()

    def prepare(self, port: Port) -> tuple[Step, ...]:
        """The target written once from end to end (``fill``), where the jobs before may have changed more of it
        than what is in it."""
        return () if self._leaves_it() else self._filled(port)

    def _leaves_it(self) -> bool:
        options = [section.options for section in self.sections()]
        # A job file may do whatever fio can.
        return (
            self.fill
            and self.jobtext is None
            and all(
                each.get("direct", "0") != "0"
                and "trim" not in each.get("rw", each.get("readwrite", ""))
                and not any(name.startswith(_CHANGES) for name in each)
                for each in options
            )
        )

    def _reads(self) -> bool:
        ways = [each.options.get("rw", each.options.get("readwrite", "read")) for each in self.sections()]
        return any("read" in way or "rw" in way for way in ways)

    def _filled(self, port: Port) -> tuple[Step, ...]:
        where = target(port, "fio")
        direct = any(section.options.get("direct", "0") != "0" for section in self.sections())
        steps = no_target_yet(port, "fio")
        if self.fill and self.size is not None:
            fill = (
                "fio", "--name=fill", "--filename=" + where.replace(":", "\\:"), f"--size={int(self.size)}",
                "--rw=write", "--bs=1M", "--ioengine=psync", f"--direct={int(direct)}", "--end_fsync=1",
                "--eta=never",
            )  # fmt: skip
            steps.append(Run(port.host, fill, timeout=self.size / fio_jobs.LEAST_BANDWIDTH + _SPARE))
        elif port.kind == "dir" and self._reads():
            # fio would do it as its workload begins, where the kernel counts it and fio does not. What only writes
            # leaves holes for what reads, unless it overwrites.
            steps += _armed(port, self.text(where, create_only="1", overwrite="1"))
            seconds = max(_LAYOUT, (self.size or 0) / fio_jobs.LEAST_BANDWIDTH)
            steps.append(Run(port.host, ("env", "LC_ALL=C", "fio", "--eta=never", JOBFILE), timeout=seconds))
        return tuple(steps)

    def arm(self, port: Port) -> tuple[Step, ...]:
        return _armed(port, self.text(target(port, "fio")))

    def command(self, port: Port) -> Command:
        """fio itself; it leaves three logs for each phase, in the order of the sections."""
        listed = self.sections()
        logs = (f"*_{kind}.log" for kind in averaged.LOGS)
        argv = ("env", "LC_ALL=C", "fio", "--output-format=json+", "--eta=never", JOBFILE)
        longest = sum(fio_jobs.longest(section.options) for section in listed) + _SPARE
        return Command(port.host, argv, longest, tuple(f"{FOLDER}/{log}" for log in logs))

    def facts(self, port: Port) -> tuple[Fact, ...]:
        return (version(port.host, "fio", ("fio", "--version"), str.strip),)

    def parse(self, raw: Mapping[str, bytes], host: str) -> Parsed:
        """Values of each phase, and its time series in steps of a second from the logs.

        ``read.``, ``write.`` and ``trim.`` for the directions that did I/O: ``iops`` (1/s), ``bandwidth`` (B/s),
        ``latency.mean`` and so on (s; submission and completion together), ``bytes`` (B), ``ios`` (1);
        ``sync.ios`` and ``sync.latency.*`` where the job synced; ``cpu.user``, ``cpu.system`` (%). Raises
        ``ParseError`` for output without JSON, an errored or missing job, or a job that did no I/O.
        """
        out, err = (raw.get(name, b"").decode(errors="replace") for name in ("stdout", "stderr"))
        jobs = {job.jobname: job for job in report.decode(out, err).jobs}
        names = [section.name for section in self.sections()]
        if set(names) != set(jobs):
            raise ParseError("fio", f"ran the jobs {sorted(jobs)}, but the job file has {sorted(names)}")
        samples: list[Sample] = []
        phases = []
        for number, name in enumerate(names):
            phase = report.phase(jobs[name])
            phases += [phase] if phase else []
            samples += report.values(jobs[name], host)
            for kind in averaged.LOGS:
                samples += averaged.samples(kind, raw.get(f"{number}_{kind}.log", b""), host, name, phase)
        histograms = tuple(each for name in names for each in report.histograms(jobs[name], host))
        return Parsed(tuple(samples), tuple(phases), histograms=histograms)


# Options by which a job removes, cuts or moves its file, or lets another program do so.
_CHANGES = ("unlink", "fallocate", "file_append", "exec_", "trim", "zone", "allow_file_create", "create_on_open")
# What people call these options in a job's name; others stand there by their own names.
_SHORT = {"bs": "", "rw": "", "rwmixread": "r", "iodepth": "qd", "numjobs": "j"}


def _combined(matrix: Mapping[str, tuple[JobValue, ...]]) -> dict[str, dict[str, JobValue]]:
    """Every combination, the last option's value changing fastest; none for an empty matrix."""
    if not matrix:
        return {}
    jobs = [dict(zip(matrix, values, strict=True)) for values in itertools.product(*matrix.values())]
    return {"-".join(f"{_SHORT.get(name, name)}{value}" for name, value in job.items()): job for job in jobs}


def _armed(port: Port, text: str) -> tuple[Step, ...]:
    """The job file in an empty folder: fio appends to the logs that it finds."""
    remove = ("rm", "-rf", FOLDER)
    return (Run(port.host, remove, undo=remove), Put(port.host, JOBFILE, text, mode=0o600))
