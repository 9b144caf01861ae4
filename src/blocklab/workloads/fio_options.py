"""Which options fio has, by itself or of one of its engines, and which values it takes for them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from blocklab.model.dialect import BINARY, BITS, Dialect, size
from blocklab.model.knobs import Knob, KnobKind, Question, Table, Tell, listed, nearest, number

ENGINES = (
    "sync", "psync", "vsync", "pvsync", "pvsync2", "libaio", "posixaio", "io_uring", "mmap", "null"
)  # fmt: skip
COMMON = "common"
USUAL_ENGINE = "psync"
# fio tells ranges and words of one option at a time and takes 0.2 s for each, so it is asked for the usual ones.
_USUAL = (
    "rw", "bs", "iodepth", "direct", "sync", "fsync", "fdatasync", "rwmixread", "random_distribution",
    "random_generator", "fallocate", "thinktime", "verify",
)  # fmt: skip
# It tells an alias only where it tells all of an option.
_ALIASES = {
    "readwrite": "rw", "blocksize": "bs", "blockalign": "ba", "blocksize_range": "bsrange",
    "blocksize_unaligned": "bs_unaligned", "allrandrepeat": "randrepeat", "iodepth_batch_submit": "iodepth_batch",
    "iodepth_batch_complete": "iodepth_batch_complete_min", "io_limit": "io_size", "fill_fs": "fill_device",
    "fileoffset": "offset", "nr_files": "nrfiles", "timeout": "runtime", "iomem": "mem",
    "data_placement": "dataplacement", "fdp_pli_select": "plid_select", "fdp_pli": "plids", "ratemin": "rate_min",
    "ratecycle": "rate_cycle", "wait_for_previous": "stonewall", "log_max_value": "log_window_value",
    "log_unix_epoch": "log_alternate_epoch", "disable_bw": "disable_bw_measurement", "ss": "steadystate",
    "ss_dur": "steadystate_duration", "ss_ramp": "steadystate_ramp_time",
    "ss_interval": "steadystate_check_interval",
}  # fmt: skip
#   bs                    : Block size unit
_NAME = re.compile(r"^ *([a-z][\w-]*) *: ", re.MULTILINE)
#                 type: integer value (opt=100)
_TYPE = re.compile(r"^ *type: ([^([\n]*)", re.MULTILINE)
#                range: min=0, max=100
# "min=1, max=-1": without an upper bound
_RANGE = re.compile(r"range: min=(-?\d+)(?:, max=(-?\d+))?")
# alias: readwrite; valid values: read       Sequential read
#                               : write      Sequential write
_WORD = re.compile(r"^ *(?:valid values)?: (\S+)", re.MULTILINE)
# Of a flag fio takes any number.
_KINDS: Mapping[str, KnobKind] = {"boolean value": "truth", "integer value": "integer", "string": "word"}
# "4k", "-10", "1MB"; times and fractions are judged elsewhere, or by fio.
_UNITS = {f"{unit}{byte}": factor for unit, factor in BINARY.items() if unit != "e" for byte in ("", "b")}


def ask(tell: Tell, where: str) -> Table:
    """The options of fio itself and of each engine that a study can have."""
    found = {COMMON: dict.fromkeys(_NAME.findall(tell("fio", "--cmdhelp=all")), Knob())}
    if "rw" not in found[COMMON]:
        raise ValueError(f"fio --cmdhelp listed no options: {list(found[COMMON])[:10]}")
    ours = found[COMMON]
    ours |= {name: described(tell("fio", f"--cmdhelp={name}")) for name in _USUAL if name in ours}
    ours |= {alias: ours[name] for alias, name in _ALIASES.items() if name in ours}
    # Of an engine without options it says: IO engine sync has no options
    for engine in ENGINES:
        found[engine] = dict.fromkeys(_NAME.findall(tell("fio", f"--enghelp={engine}")), Knob())
    return found


QUESTION = Question("fio", ask)


def described(text: str) -> Knob:
    """What ``fio --cmdhelp=NAME`` says of one option."""
    said, words = _TYPE.search(text), tuple(_WORD.findall(text))
    kind = _KINDS.get(said[1].strip() if said else "", "text")
    if kind == "word":
        return Knob(kind, words=words) if words else Knob()
    bounds = _RANGE.search(text) if kind == "integer" else None
    low, high = (number(bounds[1]), number(bounds[2])) if bounds else (None, None)
    return Knob(kind, low, None if high == -1 else high, words=words)


def _amount(value: str, knob: Knob) -> int | None:
    found = size(value.lower(), _UNITS)
    if found is None and not re.search(r"\d", value):
        raise ValueError(f"{value!r} is not a number")
    return found


# "randrw:8", "zipf:1.2"; "4k,64k" is for reads, writes and trims
DIALECT = Dialect("", _amount, BITS, numbers=True, more=":")


def unknown(options: Mapping[str, str], table: Table) -> Iterator[tuple[str, str]]:
    """``(option, problem)`` of each option of a job that fio does not have with the job's engine, or not with this
    value."""
    engine = options.get("ioengine", USUAL_ENGINE).strip()
    for option, value in options.items():
        knob = table[COMMON].get(option) or table.get(engine, {}).get(option)
        owners = [name for name, knobs in table.items() if option in knobs]
        if knob is not None:
            if value and (why := DIALECT.bad_value(option, knob, value.strip())):
                yield option, f"{option}: {why}"
        elif owners:
            yield option, f"{option} is an option of ioengine {listed(owners)}; this job has {engine}"
        else:
            every = sorted({name for knobs in table.values() for name in knobs})
            yield option, f"fio has no option {option}{nearest(option, every)}"
