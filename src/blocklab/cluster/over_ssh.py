"""Dask's scheduler and workers on the hosts of a hosts file: started over SSH with TLS, ended with the study."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from distributed import Security

from blocklab.cluster.certificates import Certificates, certificates
from blocklab.cluster.endpoint import RESOURCE, Endpoint
from blocklab.errors import SetupError
from blocklab.model import outside
from blocklab.sites import leashable
from blocklab.sites.leashed import HERE, Leash, Leashable, Order

# From the order to a worker that has registered: Python starts twice, on a machine that may be slow.
START_SECONDS = 120.0
_OPTIONS = {"--tls-ca-file": "ca", "--tls-cert": "cert", "--tls-key": "key"}
_TELL = "scheduler.json"
_PROGRAMS = "blocklab.cluster.programs"


@contextlib.contextmanager
def started(path: Path) -> Iterator[Endpoint]:
    """A scheduler on the first host and a worker on each. Raises ``StudyError`` for the file, ``HostError``,
    ``SetupError``."""
    hosts, made = leashable(path), certificates()
    with contextlib.ExitStack() as ends:

        def start(host: Leashable, order: Order) -> Leash:
            leash = host.start(order)
            ends.callback(leash.close)
            return leash

        scheduler = start(hosts[0], _scheduler(made))
        port = urlsplit(outside.as_json(scheduler.told(START_SECONDS), "dask")["address"]).port
        # The host may know itself by an address that nobody else reaches.
        address = f"tls://{hosts[0].address}:{port}"
        leashes = [scheduler, *(start(host, _worker(host.name, address, made)) for host in hosts)]
        security = Security(
            tls_ca_file=made.ca, tls_client_cert=made.cert, tls_client_key=made.key, require_encryption=True
        )
        place = Endpoint(address, security)
        _wait(place, leashes, [host.name for host in hosts])
        yield place


def _options() -> tuple[str, ...]:
    return tuple(text for option, name in _OPTIONS.items() for text in (option, f"{HERE}/{name}"))


def _scheduler(made: Certificates) -> Order:
    arguments = (
        "scheduler", "--protocol", "tls", "--port", "0", "--scheduler-file", f"{HERE}/{_TELL}", "--no-dashboard",
        *_options(),
    )  # fmt: skip
    return Order(_PROGRAMS, arguments, made.files(), _TELL)


def _worker(name: str, address: str, made: Certificates) -> Order:
    arguments = (
        "worker", address, "--name", name, "--nthreads", "1", "--resources", f"{RESOURCE}=1",
        "--memory-limit", "0", "--local-directory", HERE, "--no-dashboard", *_options(),
    )  # fmt: skip
    return Order(_PROGRAMS, arguments, made.files())


def _wait(place: Endpoint, leashes: Sequence[Leash], names: Sequence[str]) -> None:
    """Until every host has a worker."""
    deadline = time.monotonic() + START_SECONDS
    client = place.client()
    try:
        while True:
            for leash in leashes:
                leash.check()
            there = {str(each["name"]) for each in client.scheduler_info()["workers"].values()}
            lacking = [name for name in names if name not in there]
            if not lacking:
                return
            if time.monotonic() > deadline:
                hint = f"do they reach {place.address}? A firewall may be in the way"
                raise SetupError(f"no worker came from {', '.join(lacking)} in {START_SECONDS:.0f} s", hint=hint)
            time.sleep(0.2)
    finally:
        client.close(timeout=5)
