"""What a link asks of netem, the kernel's emulation of a line: for those who set it up and those who break it."""

from __future__ import annotations

from blocklab.model.ground import LinkSpec
from blocklab.model.plan import Argv

# What a link of the lab takes by itself (two context switches and a netem timer); ``bench/floor.py`` measures it.
# An rtt of 0.5 ms in the study means that a ping takes 0.5 ms, so netem gets the rest.
BASE_RTT = 0.00015
# netem's queue in packets. The default of 1000 drops at 20 ms and full speed, which TCP takes for congestion.
NETEM_LIMIT = 100_000


def netem(link: LinkSpec, *, first: bool) -> tuple[Argv, dict[str, str]]:
    """netem's arguments at one end, and the values to find in force. Empty when nothing is asked of it."""
    argv: list[str] = []
    wanted: dict[str, str] = {}
    if first and link.rtt:
        delay = round(max(0.0, link.rtt - BASE_RTT) * 1e6)
        argv += ["delay", f"{delay}us"]
        wanted["delay"] = f"{delay}us"
        if link.jitter:
            jitter = round(link.jitter * 1e6)
            argv += [f"{jitter}us", "distribution", "normal"]
            wanted["jitter"] = f"{jitter}us"
    if link.rate is not None:
        # tc counts whole bytes.
        rate = round(link.rate) // 8 * 8
        argv += ["rate", f"{rate}bit"]
        wanted["rate"] = f"{rate}bit/s"
    if not argv:
        return (), {}
    wanted["limit"] = str(NETEM_LIMIT)
    return ("limit", str(NETEM_LIMIT), *argv), wanted
