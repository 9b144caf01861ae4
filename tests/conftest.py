"""Shared by all tests: small studies as plain data."""

from __future__ import annotations

import copy
import signal
from typing import Any

import pytest
from hypothesis import settings

# How long an example takes says nothing on a busy machine. The same examples everywhere: what fails, fails again.
settings.register_profile("blocklab", deadline=None, derandomize=True)
settings.load_profile("blocklab")


# Under nohup, and in the background of a script, these are ignored, by whatever a test starts too.
for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files again")


SMALL: dict[str, Any] = {
    "blocklab": 2,
    "name": "small",
    "question": "Does it build?",
    "baseline": "local",
    "nodes": {"a1": {"memory": "512MiB"}, "a2": {"memory": "256MiB"}, "b1": {"memory": "256MiB"}},
    "links": {
        "zone": {"between": ["a1", "a2"], "rtt": "0.5ms"},
        "cross": {"between": ["a1", "b1"], "rtt": "2.7ms", "rate": "1Gbit/s", "mtu": 9000},
    },
    "stacks": {
        "local": {
            "on": "a1",
            "layers": [
                {"layer": "volume", "size": "512MiB"},
                {"layer": "xfs"},
                {"layer": "postgres", "settings": {"shared_buffers": "64MB", "fsync": True}},
            ],
        },
        "mirror": {
            "on": "a1",
            "layers": [
                {"layer": "volume", "size": "512MiB"},
                {
                    "layer": "drbd", "peer": "a2", "link": "zone",
                    "net": {"max-buffers": 8000}, "disk": {"disk-flushes": False},
                },
                {"layer": "ext4", "mount": ["noatime"]},
                {"layer": "postgres"},
            ],
        },
    },
    "workloads": {
        "io": {
            "workload": "fio", "size": "16MiB", "fill": False, "options": {"direct": 1, "runtime": 1},
            "jobs": {"write-4k": {"rw": "randwrite", "bs": "4k"}},
        },
        "tx": {"workload": "pgbench", "scale": 1, "clients": 2, "transactions": 20},
    },
}  # fmt: skip


@pytest.fixture
def small() -> dict[str, Any]:
    """A study as plain data, for a test to change."""
    return copy.deepcopy(SMALL)
