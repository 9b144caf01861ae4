"""What is no kind of its own: what it looks like, and what blocklab reads instead or what to do with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec


class Look(msgspec.Struct, frozen=True):
    """``fits`` gets the start of a file; ``do`` says what to do."""

    name: str
    fits: Callable[[str], object]
    do: str


def _look(name: str, pattern: str, do: str) -> Look:
    """One that a pattern tells, which is searched with lines apart."""
    return Look(name, re.compile(pattern, re.MULTILINE).search, do)


# name: x    imported: 1    stacks:
_KEY = re.compile(r"([A-Za-z_][\w-]*):(?: [^\n]*)?")
_OF_YAML = re.compile(r"---[ \t]*|[ \t]+\S[^\n]*|- [^\n]*|#[^\n]*|")
_FEWEST_KEYS = 2


def _yaml(start: str) -> bool:
    """Whether each line is one that YAML may have, and no key comes twice, as messages of a program do."""
    *lines, _ = start.split("\n")
    keys = [match[1] for line in lines if (match := _KEY.fullmatch(line))]
    others = sum(_OF_YAML.fullmatch(line) is not None for line in lines)
    begun = lines[:1] == ["---"] or len(lines) - sum(not line.strip() for line in lines) >= _FEWEST_KEYS
    return bool(keys) and begun and len(keys) == len(set(keys)) and len(keys) + others == len(lines)


def _csv(start: str) -> bool:
    """Whether the first lines have as many separators each, and short cells between them, as prose has not."""
    lines = start.split("\n")[:4]
    lines = [line for line in lines[:-1] if line.strip()]
    for separator in ",;\t":
        counts = {line.count(separator) for line in lines}
        cells = [cell for line in lines for cell in line.split(separator)]
        if len(lines) > 1 and len(counts) == 1 and counts.pop() > 1:
            return (
                max(map(len, cells)) <= _LONGEST_CELL and max(cell.strip().count(" ") for cell in cells) <= _BLANKS
            )
    return False


_LONGEST_CELL, _BLANKS = 40, 2


SIZE = "blocklab size reads it, not import"
"""What to do with a file that is known, but not to ``blocklab import``."""
_TIME = r"^\d\d:\d\d:\d\d(?: [AP]M)?[ \t]+"
_BANNER = r"\A\s*{name} +\S+ +[\w.]+ +(?:\S+ +){{0,6}}\d{{1,2}}/\d{{1,2}}/\d{{2,4}}[ \t]*$"
_OTHER_SYSTEM = "blocklab reads that of Linux (sysstat) alone"
_SAR = "blocklab reads sar -d, -b and -u: print it again: sar -d -b -u -f FILE"
# The first that fits counts, so what is more special comes first. tests/unit/test_looks.py has a text of each.
LOOKS = (
    # 03:14:20 PM  CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle
    _look("mpstat", rf"{_TIME}CPU[ \t]+%usr.*%irq[ \t]+%soft[ \t]+%steal", "blocklab reads sar -u and vmstat"),
    # #      Time   UID       PID    %usr %system  %guest    %CPU   CPU  Command
    _look("pidstat", r"\bUID[ \t]+(?:TGID[ \t]+TID|PID)\b.*Command[ \t]*$", "blocklab reads sar -u and iostat -x"),
    # 02:57:25        IFACE   rxpck/s   txpck/s ...      02:57:25    kbmemfree   kbavail ...
    _look("sar", rf"{_TIME}(?:IFACE|kbmemfree|proc/s|pgpgin/s|runq-sz|cswch/s|pswpin/s|intr/s)[ \t]", _SAR),
    # AIX db1 3 7 00F9C1A24C00 03/25/24     SunOS db1 5.11 11.4 sun4v 03/25/2024
    *(
        _look(f"sar of {name}", _BANNER.format(name=banner), _OTHER_SYSTEM)
        for name, banner in (("AIX", "AIX"), ("Solaris", "SunOS"), ("HP-UX", "HP-UX"))
    ),
    # System configuration: lcpu=8 drives=3 paths=4 vdisks=1
    _look("a tool of AIX", r"^System configuration: lcpu=\d", _OTHER_SYSTEM),
    #                     extended device statistics
    _look("iostat of Solaris", r"^ +extended device statistics", _OTHER_SYSTEM),
    # top - 03:14:20 up 1 day,  2 users,  load average: 0.00, 0.01, 0.05
    _look("top", r"^top - \d\d:\d\d:\d\d up ", "blocklab reads vmstat and sar -u"),
    # Total DISK READ :       0.00 B/s | Total DISK WRITE :     11.83 K/s
    _look("iotop", r"^(?:\d\d:\d\d:\d\d )?Total DISK READ *: ", "blocklab reads iostat -x"),
    # ATOP - db1    2023/01/01  10:00:00    ----------------    10s elapsed
    _look("atop", r"^ATOP - \S+ ", "blocklab reads sar and iostat -x"),
    # AAA,progname,nmon
    _look("nmon", r"^AAA,", "blocklab reads sar, iostat -x and dstat"),
    # #<--------CPU--------><----------Disks-----------><----------Network---------->
    _look("collectl", r"^#<-+(?:CPU|Disks)-+>", "blocklab reads sar, iostat -x and dstat"),
    # disk- ------------reads------------ ------------writes----------- -----IO------
    _look("vmstat -d, which counts from the boot on", r"^disk- -+reads-+ -+writes", "blocklab reads vmstat 1"),
    #       2634272 K total memory
    _look("vmstat -s, which counts from the boot on", r"^ *\d+ \w? ?total memory$", "blocklab reads vmstat 1"),
    #  kthr      memory            page            disk      faults      cpu
    _look("vmstat of another system than Linux", r"^ ?(?:kthr|procs) +memory +page ", "it is not read"),
    #  254       0 vda 10 0 80 5 100 20 2400 50 0 45 55
    _look("/proc/diskstats", r"^ *\d+ +\d+ (?:[shv]d[a-z]+|xvd[a-z]+|nvme\S+|dm-\d+)(?: \d+){11,17}$", SIZE),
    # 2023-01-01 10:00:00 0x7f INNODB MONITOR OUTPUT
    _look("SHOW ENGINE INNODB STATUS", r"INNODB MONITOR OUTPUT", SIZE),
    # WORKLOAD REPOSITORY report for      <title>AWR Report for DB: ...
    _look("an Oracle AWR report", r"^WORKLOAD REPOSITORY |AWR Report for |STATSPACK report for", SIZE),
    # [global]
    # ioengine=libaio
    _look("a fio job file", r"^\[global\]\n(?:.*\n)*?(?:ioengine|rw|bs|runtime|size|direct)=", "it is for --jobs"),
    # [OVERALL], RunTime(ms), 10110
    _look("YCSB", r"^\[OVERALL\], ", "it is not read"),
    # Vuser 1:query 14 completed in 7.868 seconds
    _look("HammerDB's TPROC-H", r"^(?:Vuser \d+:)?query \d+ completed in ", "blocklab reads TPROC-C"),
    # creating tables...
    _look("pgbench -i", r"^(?:creating tables|generating data)", "blocklab reads what pgbench prints of a run"),
    # Traceback (most recent call last):
    _look("a traceback of Python", r"^Traceback \(most recent call last\):", "its last line says what failed"),
    # 262144000 bytes (262 MB, 250 MiB) copied, 0.215 s, 1.2 GB/s
    _look("dd", r"^\d+ bytes (?:\(.*\) )?copied, ", "blocklab reads fio"),
    _look("an HTML page", r"\A\s*<(?:!DOCTYPE html|!doctype html|html|HTML)\b", "save the log itself"),
    _look("XML", r"\A\s*<\?xml\b", "give the tool's text or JSON output"),
    # #!/bin/bash
    _look("a script", r"\A#!", "give what it printed"),
    # {"name": ...      [{"name": ...
    _look("JSON of another tool", r'\A\s*[\[{]\s*(?:[\[{]|"[^"\n]*"\s*:)', "docs/import.md lists what is known"),
    # ---        name: x
    Look("YAML", _yaml, "a file about the logs is for --study"),
    # 1000, 0, 4096, 0, 0, 0, ...
    _look("fio's histogram log", r"\A\d+, [0-2], \d+(?:, \d+){50}", "blocklab reads fio's JSON+ and _lat logs"),
    # time,reads,writes
    # 1,2,3
    Look("CSV", _csv, "of CSV blocklab reads dstat --output and sadf -d"),
)  # fmt: skip
_START = 1 << 14


def like(head: str, looks: Sequence[Look] = LOOKS) -> str:
    """What the start of a file looks like, with what to do; empty for what looks like nothing known."""
    found = next((look for look in looks if look.fits(head[:_START])), None)
    return f"looks like {found.name}; {found.do}" if found else ""
