"""The catalogue of layers. One layer = one file and one name in ``AnyLayer``."""

from __future__ import annotations

from typing import TypeAlias

from blocklab.layers.cap import Cap
from blocklab.layers.crypt import Crypt
from blocklab.layers.drbd import Drbd
from blocklab.layers.filesystem import Ext4, Xfs
from blocklab.layers.fragile import Fragile
from blocklab.layers.imported import ImportedLayer
from blocklab.layers.mysql import MariaDb, MySql
from blocklab.layers.net_mirror import NetMirror
from blocklab.layers.postgres import Postgres
from blocklab.layers.shared import Shared
from blocklab.layers.stripe import LvmStripe, Raid10, Stripe
from blocklab.layers.volume import Volume

AnyLayer: TypeAlias = (
    Volume
    | Shared
    | Fragile
    | Stripe
    | LvmStripe
    | Raid10
    | Cap
    | Crypt
    | Drbd
    | NetMirror
    | Xfs
    | Ext4
    | Postgres
    | MariaDb
    | MySql
    | ImportedLayer
)

__all__ = [
    "AnyLayer",
    "Cap",
    "Crypt",
    "Drbd",
    "Ext4",
    "Fragile",
    "ImportedLayer",
    "LvmStripe",
    "MariaDb",
    "MySql",
    "NetMirror",
    "Postgres",
    "Raid10",
    "Shared",
    "Stripe",
    "Volume",
    "Xfs",
]
