"""Hosts whose links take a time of their own."""

from __future__ import annotations

from blocklab.model.host import Result
from blocklab.model.plan import Argv
from tests.fake.answers import Answers

# 4104 bytes from 10.77.1.2: icmp_seq=1 ttl=64 time=0.604 ms
ANSWER = "4104 bytes from 10.77.1.2: icmp_seq={} ttl=64 time={:.3f} ms"


class Machine(Answers):
    """Links that take ``floor`` ms by themselves, and ``times`` the delay that they are given."""

    def __init__(self, floor: float, times: float = 1.0, lost: bool = False, noise: float = 0.0) -> None:
        """``noise``: by what part of the delay every second answer is longer, and the others shorter."""
        super().__init__()
        self.noise = noise
        self.floor, self.times, self.lost = floor, times, lost
        self.changes: list[float] = []

    def __call__(self, host: str, argv: Argv) -> Result:
        if argv[:3] == ("tc", "qdisc", "change"):
            self.changes.append(float(argv[argv.index("delay") + 1].removesuffix("us")))
        if argv[:2] == ("ping", "-A"):
            took = self.floor + self.times * self.delay / 1e3
            answers = (took * (1 + self.noise * (-1) ** number) for number in range(20))
            text = "" if self.lost else "\n".join(ANSWER.format(*each) for each in enumerate(answers))
            return Result(1 if self.lost else 0, text.encode(), b"")
        return super().__call__(host, argv)
