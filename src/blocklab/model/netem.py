"""What a link asks of netem, the kernel's emulation of a line: for those who set it up and those who break it."""

from __future__ import annotations

from blocklab.model.ground import LinkSpec
from blocklab.model.plan import Argv

# netem's queue in packets. The default of 1000 drops at 20 ms and full speed, which TCP takes for congestion.
NETEM_LIMIT = 100_000
# Bits per second of a link that has jitter and no rate. Without any, netem lets a packet with a short delay
# overtake others, which TCP takes for loss: 0.1 ms of jitter took 72 % of a mirror's throughput.
ORDERED = 10**12


def netem(link: LinkSpec, *, first: bool, delay: float | None = None) -> tuple[Argv, dict[str, str]]:
    """netem's arguments at one end, and the values to find in force. Empty when nothing is asked of it.

    ``delay`` (s) is that of a link that was tuned; without it the whole ``rtt``.
    """
    argv: list[str] = []
    wanted: dict[str, str] = {}
    if first and link.rtt:
        # tc refuses to spread a delay of nothing.
        microseconds = max(1 if link.jitter else 0, round((link.rtt if delay is None else delay) * 1e6))
        argv += ["delay", f"{microseconds}us"]
        wanted["delay"] = f"{microseconds}us"
        if link.jitter:
            jitter = round(link.jitter * 1e6)
            argv += [f"{jitter}us", "distribution", "normal"]
            wanted["jitter"] = f"{jitter}us"
    if link.rate is not None or "jitter" in wanted:
        # tc counts whole bytes.
        rate = round(ORDERED if link.rate is None else link.rate) // 8 * 8
        argv += ["rate", f"{rate}bit"]
        wanted["rate"] = f"{rate}bit/s"
    if not argv:
        return (), {}
    wanted["limit"] = str(NETEM_LIMIT)
    return ("limit", str(NETEM_LIMIT), *argv), wanted
