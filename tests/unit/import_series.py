"""A run that warms up, as sysbench prints it in every form."""

from __future__ import annotations

from collections.abc import Sequence

# 15 s at half the rate, which only the time series shows.
WARM = [500.0] * 15 + [1000.0 + at % 3 for at in range(105)]


def sysbench(
    rates: Sequence[float], *, done: int | None = None, reports: str = "text", version: str = "1.0.20"
) -> str:
    total = round(sum(rates)) if done is None else done
    lines = [f"sysbench {version} (using bundled LuaJIT 2.1.0-beta2)", "", "Threads started!", ""]
    rows = [(at, rate, 20 * rate) for at, rate in enumerate(rates, 1)]
    if reports == "text":
        lines += [
            f"[ {at}s ] thds: 8 tps: {tps:.2f} qps: {qps:.2f} (r/w/o: 1.00/1.00/1.00) lat (ms,95%): 10.00 "
            "err/s: 0.00 reconn/s: 0.00"
            for at, tps, qps in rows
        ]
    elif reports == "csv":
        lines += [f"{at},8,{tps:.2f},{qps:.2f},1.00,1.00,1.00,10.00,0.00,0.00" for at, tps, qps in rows]
    else:
        lines += ["["]
        for at, tps, qps in rows:
            lines += [
                "  {", f'    "time": {at:4},', '    "threads": 8,', f'    "tps": {tps:.2f},', '    "qps": {',
                f'      "total": {qps:.2f},', '      "reads": 1.00,', '      "writes": 1.00,',
                '      "other": 1.00', "    },", '    "latency": 10.00,', '    "errors": 0.00,',
                '    "reconnects": 0.00',
                "  }" + ("," if at < len(rows) else ""),
            ]  # fmt: skip
        lines += ["]"]
    took = f"    time elapsed: {len(rates)}.0001s" if version > "1.1" else f"    total time: {len(rates)}.0001s"
    return "\n".join([
        *lines, "SQL statistics:", f"    transactions:    {total}   ({sum(rates) / len(rates):.2f} per sec.)",
        f"    queries:     {20 * total} (1.00 per sec.)", "    ignored errors:    0      (0.00 per sec.)",
        "    reconnects:    0      (0.00 per sec.)", "", took, f"    total number of events:     {total}", "",
        "Latency (ms):", "         avg:      8.00", "         max:     20.00", "         95th percentile:   10.00",
    ]) + "\n"  # fmt: skip
