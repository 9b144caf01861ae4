"""Where Dask's scheduler is, and a connection to it."""

from __future__ import annotations

import msgspec
from distributed import Client, Security

from blocklab.errors import SetupError

CONNECT_SECONDS = 5.0
# What a worker has to have, so that it measures one unit at a time, whoever asks.
RESOURCE = "lab"
_STARTED = "docs/many-machines.md shows how a scheduler and workers are started"


class Endpoint(msgspec.Struct, frozen=True):
    """Where a scheduler is, and the certificates for it (``Security``); None for Dask's own configuration."""

    address: str
    security: Security | None = None

    def client(self, seconds: float = CONNECT_SECONDS) -> Client:
        """A connection. Raises ``SetupError``."""
        try:
            return Client(
                self.address, security=self.security or Security(), timeout=seconds, set_as_default=False
            )
        except (OSError, TimeoutError, ValueError, TypeError) as error:
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise SetupError(f"no scheduler answers at {self.address}: {why}", hint=_STARTED) from error
