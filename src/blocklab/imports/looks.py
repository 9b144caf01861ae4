"""What is no kind of its own: what it looks like, and what blocklab reads instead or what to do with it."""

from __future__ import annotations

import re

import msgspec


class Look(msgspec.Struct, frozen=True):
    """``pattern`` is searched in the start of a file, lines apart; ``do`` says what to do."""

    name: str
    pattern: re.Pattern[str]
    do: str


def _look(name: str, pattern: str, do: str) -> Look:
    return Look(name, re.compile(pattern, re.MULTILINE), do)


_SIZE = "blocklab size reads it, not import"
_TIME = r"^\d\d:\d\d:\d\d(?: [AP]M)?[ \t]+"
_SAR = "blocklab reads sar -d, -b and -u: print it again: sar -d -b -u -f FILE"
# The first that fits counts, so what is more special comes first. tests/unit/test_looks.py has a text of each.
LOOKS = (
    # 03:14:20 PM  CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle
    _look("mpstat", rf"{_TIME}CPU[ \t]+%usr.*%irq[ \t]+%soft[ \t]+%steal", "blocklab reads sar -u and vmstat"),
    # #      Time   UID       PID    %usr %system  %guest    %CPU   CPU  Command
    _look("pidstat", r"\bUID[ \t]+(?:TGID[ \t]+TID|PID)\b.*Command[ \t]*$", "blocklab reads sar -u and iostat -x"),
    # 02:57:25        IFACE   rxpck/s   txpck/s ...      02:57:25    kbmemfree   kbavail ...
    _look("sar", rf"{_TIME}(?:IFACE|kbmemfree|proc/s|pgpgin/s|runq-sz|cswch/s|pswpin/s|intr/s)[ \t]", _SAR),
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
    _look("/proc/diskstats", r"^ *\d+ +\d+ (?:[shv]d[a-z]+|xvd[a-z]+|nvme\S+|dm-\d+)(?: \d+){11,17}$", _SIZE),
    # 2023-01-01 10:00:00 0x7f INNODB MONITOR OUTPUT
    _look("SHOW ENGINE INNODB STATUS", r"INNODB MONITOR OUTPUT", _SIZE),
    # WORKLOAD REPOSITORY report for      <title>AWR Report for DB: ...
    _look("an Oracle AWR report", r"^WORKLOAD REPOSITORY |AWR Report for |STATSPACK report for", _SIZE),
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
    _look("YAML", r"\A(?:#.*\n)*(?:---[ \t]*\n|[A-Za-z_][\w-]*:(?: .*)?\n(?:[ \t]+\S|- |[A-Za-z_][\w-]*:))",
          "a file about the logs is for --study"),
    # 1000, 0, 4096, 0, 0, 0, ...
    _look("fio's histogram log", r"\A\d+, [0-2], \d+(?:, \d+){50}", "blocklab reads fio's JSON+ and _lat logs"),
    # time,reads,writes
    # 1,2,3
    _look("CSV", r"\A[^\n,;\t]*([,;\t])[^\n,;\t]*\1[^\n]*\n[^\n]*\1[^\n]*\1",
          "of CSV blocklab reads dstat --output and sadf -d"),
)  # fmt: skip
_START = 1 << 14


def like(head: str) -> str:
    """What the start of a file looks like, with what to do; empty for what looks like nothing known."""
    found = next((look for look in LOOKS if look.pattern.search(head[:_START])), None)
    return f"looks like {found.name}; {found.do}" if found else ""
