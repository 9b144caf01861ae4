"""Samples of logs."""

from __future__ import annotations

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
