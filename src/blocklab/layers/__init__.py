"""The catalogue of layers. One layer = one file and one name in ``AnyLayer``."""

from __future__ import annotations

from typing import TypeAlias

from blocklab.layers.drbd import Drbd
from blocklab.layers.filesystem import Ext4, Xfs
from blocklab.layers.postgres import Postgres
from blocklab.layers.shared import Shared
from blocklab.layers.volume import Volume

AnyLayer: TypeAlias = Volume | Shared | Drbd | Xfs | Ext4 | Postgres

__all__ = ["AnyLayer", "Drbd", "Ext4", "Postgres", "Shared", "Volume", "Xfs"]
