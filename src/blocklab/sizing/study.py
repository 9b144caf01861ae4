"""The need as a study: an open-loop workload at the required rates on each layout, to be measured."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from blocklab.errors import StudyError
from blocklab.model.units import Size
from blocklab.sizing.layouts import DATABASES, Layouts, bare
from blocklab.sizing.need import Moment, Need
from blocklab.sizing.show import basis, lead

LEVELS = (100, 120, 150)
"""In % of the need: carried as it is, with what may come, with half as much again."""
IO_WORKLOAD = "need"
PAGE = 4096
# Clients of a throttled database workload; those that are idle cost nothing.
CLIENTS = 32
# Random requests go all over a file of this size; direct I/O does not use the node's page cache. Real devices may
# have a cache of their own that has to be smaller.
WORKING_SET = Size("256MiB")


def study_text(
    need: Need,
    layouts: Layouts,
    name: str,
    *,
    seconds: int = 20,
    scale: float = 1.0,
    transactions: bool = True,
    working_set: Size = WORKING_SET,
) -> str:
    """The study file's text. ``seconds``: how long each level of the workload lasts; ``scale``: a part of the
    need, where the machine cannot make all of it. ``transactions``: also a database workload at the measured
    transactions per second, where they are known and the layouts hold that database. ``working_set``: bytes that
    the requests go over.

    Raises ``StudyError`` where the need lacks what a workload is made of, and where its peak is unknown.
    """
    if not need.peak_known:
        raise StudyError(
            "", "the peak is unknown, so there is no workload to write",
            hint="give statistics of an hour or less, or --peak-factor with what you know of the peak",
        )  # fmt: skip
    workloads = {
        **io_workloads(need, seconds=seconds, scale=scale, working_set=working_set),
        **layouts.plain.get("workloads", {}),
    }
    if transactions:
        workloads |= transaction_workloads(need, layouts.database, seconds=seconds, scale=scale)
    plain = {
        "blocklab": 2, "name": name,
        "question": f"Which layouts carry the need of {_names(need)}?", "baseline": layouts.baseline,
        **_parts(layouts, "profiles", "nodes", "links", "stacks"),
        "workloads": workloads,
        **_parts(layouts, "factors", "faults", "exclude"),
        "notes": [*_notes(need, scale), *layouts.notes],
    }  # fmt: skip
    return _yaml(plain, need)


def _parts(layouts: Layouts, *names: str) -> dict[str, Any]:
    return {name: layouts.plain[name] for name in names if name in layouts.plain}


def io_workloads(need: Need, *, seconds: int, scale: float, working_set: Size) -> dict[str, dict[str, Any]]:
    """An open-loop workload at the rates of each moment that counts; its levels are phases.

    ``need`` is when the IOPS were highest, ``need-bytes`` when the throughput was. Raises ``StudyError``.
    """
    if not need.moments:
        raise StudyError(
            "", "the statistics do not tell reads and writes apart, so there is no workload to write",
            hint="give statistics that do: iostat -x, sar -b, /proc/diskstats, a database's own",
        )  # fmt: skip
    names = {"iops": IO_WORKLOAD, "bandwidth": f"{IO_WORKLOAD}-bytes"}
    return {names[moment.by]: _open_loop(moment, seconds, scale, working_set) for moment in need.moments}


def _open_loop(moment: Moment, seconds: int, scale: float, working_set: Size) -> dict[str, Any]:
    rates = {"reads": moment.read_iops, "writes": moment.write_iops, "flushes": moment.flushes or 0.0}
    found: dict[str, Any] = {"workload": "open-loop", "size": f"{working_set // 2**20}MiB"}
    found |= {name: rate for name, value in rates.items() if (rate := _three_digits(value * scale))}
    if moment.read_size is not None and "reads" in found:
        found["read_size"] = _size(moment.read_size)
    if moment.write_size is not None and "writes" in found:
        found["write_size"] = _size(moment.write_size)
    return {**found, "levels": list(LEVELS), "time": f"{seconds}s"}


def _three_digits(rate: float) -> float:
    """A rate as people write it, never less than what is needed by more than half a per cent."""
    return float(f"{rate:.3g}") if rate < 1000 else float(round(rate))


def _size(mean: float) -> str:
    """A mean of requests in bytes, a whole number of sectors."""
    return f"{max(PAGE, round(mean / 512) * 512)}B"


def transaction_workloads(need: Need, database: str, *, seconds: int, scale: float) -> dict[str, Any]:
    """A database workload throttled to the measured transactions per second, a workload for each level: pgbench on
    PostgreSQL, sysbench on MariaDB and MySQL (go-tpc cannot be throttled). Empty where they are not known."""
    amount = need.amounts.get("transactions")
    if amount is None or database not in DATABASES.values() or amount.required * scale < 1:
        return {}
    found: dict[str, Any] = {}
    for level in LEVELS:
        rate = max(1, round(amount.required * scale * level / 100))
        if database == "postgres":
            workload: dict[str, Any] = {
                "workload": "pgbench",
                "scale": 10,
                "clients": CLIENTS,
                "options": {"rate": rate},
            }
        else:
            workload = {
                "workload": "sysbench",
                "tables": 2,
                "table_size": 50000,
                "clients": CLIENTS,
                "options": {"rate": rate},
            }
        found[f"tx-{level}"] = {**workload, "time": f"{seconds}s"}
    return found


def _names(need: Need) -> str:
    names = [each.name for each in need.members]
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if names[4:] else "")


def _notes(need: Need, scale: float) -> list[str]:
    notes = [f"Written by blocklab size. {lead(need)}", f"Basis: {basis(need)}."]
    notes.append(
        "Requests are random, of the mean size, at times of a Poisson process; the statistics tell neither the "
        "order nor the spread of sizes."
    )
    if scale != 1:
        notes.append(
            f"Scaled to {100 * scale:g} % of the need, rates and caps alike; waiting does not scale, so latencies "
            "are those of the small system."
        )
    return notes


def study_name(text: str) -> str:
    """A study's name out of a file's: ``need.yaml`` is ``need``."""
    return re.sub(r"[^a-z0-9._-]+", "-", Path(text).stem.lower()).strip("-.")[:31] or "need"


def _yaml(plain: Mapping[str, Any], need: Need) -> str:
    yaml = YAML()
    yaml.width = 110
    yaml.default_flow_style = None
    stream = io.StringIO()
    stream.write(
        f"# The need of {_names(need)}, to be measured: blocklab run THIS_FILE, blocklab drill THIS_FILE.\n"
    )
    yaml.dump(bare(plain), stream)
    return stream.getvalue()
