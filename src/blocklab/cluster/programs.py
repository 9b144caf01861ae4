"""``python -m blocklab.cluster.programs scheduler|worker OPTIONS``: Dask's own programs without their HTTP server.

It listens whatever ``--no-dashboard`` says (the scheduler's on every interface), without TLS and without a login,
and tells whoever asks of the cluster's workers, tasks and logs.
"""

from __future__ import annotations

import sys
from typing import Any

from distributed.cli import dask_scheduler, dask_worker
from distributed.node import ServerNode

PROGRAMS = {"scheduler": dask_scheduler.main, "worker": dask_worker.main}


def _listen_to_nobody(*_: Any, **__: Any) -> None:
    """In place of the server's start."""


# Not in ``main``: the process in which a worker's nanny starts it loads this module too, and nothing else of it.
setattr(ServerNode, "start_http_server", _listen_to_nobody)  # noqa: B010


def main() -> None:
    """Run the program that the first argument names."""
    program = PROGRAMS[sys.argv.pop(1)]
    program()


if __name__ == "__main__":
    main()
