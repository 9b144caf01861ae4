"""``blocklab leashed``, which nobody types: what `--dask hosts.yaml` starts on a host."""

from __future__ import annotations

import sys

from blocklab.sites.leashed import main


def leashed() -> None:
    """Of `--dask hosts.yaml`, on a host: a program that ends with the connection."""
    sys.exit(main())
