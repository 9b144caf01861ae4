"""Samples of logs."""

from __future__ import annotations

import re

from tests.unit.golden import FOLDER

BANNER = "Linux 4.4.0-31-generic (db1) \t08/11/2020 \t_x86_64_\t(2 CPU)\n\n"


NEW = (
    "Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await "
    "wareq-sz     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz     f/s f_await  aqu-sz  %util\n"
)


NEW_ROW = (
    "nvme0n1     2.00      8.00     0.00   0.00    0.30     4.00  500.00   2000.00     0.00   0.00    0.40     "
    "4.00    0.00      0.00     0.00   0.00    0.00     0.00   10.00    0.20    0.20  30.00\n"
)


SUMMARY = """starting vacuum...end.
transaction type: <builtin: TPC-B (sort of)>
scaling factor: 1
query mode: simple
number of clients: 10
number of threads: 1
number of transactions per client: 1000
number of transactions actually processed: 10000/10000
latency average = 8.456 ms
tps = 1182.599200 (including connections establishing)
tps = 1182.956212 (excluding connections establishing)
"""


DSTAT = (
    "----system---- ----total-usage---- -dsk/total- -net/total- ---paging-- ---system--\n"
    "     time     |usr sys idl wai stl| read  writ| recv  send|  in   out | int   csw \n"
    "11-08 00:18:21|                   |           |           |           |           \n"
    "11-08 00:18:22|  6  13  72   3   6|  33M   32k|3828  4190 |   0     0 |1392   633 \n"
    "11-08 00:18:23|  4   2  92   1   2|   0    91M| 348k   96M|   0     0 |  13k 2643 \n"
)


JDBC_TPCC = """\
13:23:21 [INFO ] > JdbcRunner 1.3.1
13:23:21 [INFO ] [Config]
Program start time   : 20230331-132321
Measurement time     : 900 sec
Number of tx types   : 5
13:23:23 [INFO ] Tiny TPC-C
13:23:23 [INFO ] Scale factor : 16
13:23:23 [INFO ] tx0 : New-Order transaction
13:23:23 [INFO ] tx1 : Payment transaction
13:23:23 [INFO ] tx2 : Order-Status transaction
13:23:23 [INFO ] tx3 : Delivery transaction
13:23:23 [INFO ] tx4 : Stock-Level transaction
13:23:24 [INFO ] [Warmup] -299 sec, 24,23,4,2,6 tps, (24,23,4,2,6 tx)
13:43:22 [INFO ] [Progress] 899 sec, 125,128,11,12,11 tps, 106824,106823,10679,10686,10684 tx
13:43:23 [INFO ] [Progress] 900 sec, 119,114,16,14,10 tps, 106943,106937,10695,10700,10694 tx
13:43:23 [INFO ] [Total tx count] 106943,106937,10695,10700,10694 tx
13:43:23 [INFO ] [Throughput] 118.8,118.8,11.9,11.9,11.9 tps
13:43:23 [INFO ] [Response time (minimum)] 3,2,0,19,9 msec
13:43:23 [INFO ] [Response time (50%tile)] 70,17,6,156,116 msec
13:43:23 [INFO ] [Response time (99%tile)] 228,104,43,387,301 msec
13:43:23 [INFO ] [Response time (maximum)] 396,298,108,557,490 msec
13:43:23 [INFO ] < JdbcRunner SUCCESS
"""


def unstamped(name: str) -> str:
    """What the tool printed before our own runs put a time before each line."""
    return re.sub(r"^\d{10}\.\d{3} ", "", (FOLDER / name).read_text(), flags=re.MULTILINE)
