"""Dask's scheduler: by its address, or started over SSH on the hosts of a hosts file."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from distributed import Security

from blocklab.cluster.endpoint import Endpoint
from blocklab.cluster.over_ssh import started
from blocklab.errors import StudyError, Unreadable
from blocklab.model import outside
from blocklab.store.folder import Workers


@contextlib.contextmanager
def opened(workers: Workers) -> Iterator[Endpoint]:
    """The scheduler that is meant. One that was started here ends with the block. Raises ``StudyError``,
    ``SetupError``."""
    # What it has to say of lost connections we say ourselves.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    if Path(workers.at).suffix in (".yaml", ".yml"):
        with started(Path(workers.at)) as place:
            yield place
    else:
        yield Endpoint(_secure(_address(workers.at), insecure=workers.insecure))


def _address(at: str) -> str:
    """A scheduler's address, or that in its ``--scheduler-file``."""
    if "://" in at:
        return at
    try:
        found = outside.as_json(outside.data(Path(at), outside.MOST_TEXT), at)["address"]
    except Unreadable as error:
        hint = "give tcp://HOST:8786, tls://HOST:8786, a scheduler file (.json) or a hosts file (.yaml)"
        raise StudyError("", f"--dask {at}: {error.problem}", hint=hint) from error
    except (ValueError, KeyError, TypeError) as error:
        raise StudyError("", f"--dask {at}: it is no scheduler file of Dask's, which has an address") from error
    return str(found)


def _secure(address: str, *, insecure: bool) -> str:
    """The address, of a scheduler that only those can use who may. Raises ``StudyError``."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port or parts.scheme not in ("tcp", "tls"):
        raise StudyError(
            "", f"--dask {address}: no address of a scheduler", hint="tcp://HOST:8786, tls://HOST:8786"
        )
    if parts.scheme == "tls":
        if not Security().get_connection_args("client").get("ssl_context"):
            hint = "set DASK_DISTRIBUTED__COMM__TLS__CA_FILE and, for the client, ...__CLIENT__CERT and __KEY"
            raise StudyError("", f"--dask {address}: there are no certificates for TLS", hint=hint)
    elif not insecure and not _loopback(host):
        hint = "start it with TLS (docs/many-machines.md), or give --insecure where nobody else reaches it"
        raise StudyError("", f"--dask {address}: whoever reaches it can run programs as you", hint=hint)
    return address


def _loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"
