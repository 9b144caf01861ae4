"""The lab's own floor on this machine, measured by itself before a study."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Mapping
from typing import Any

from blocklab.errors import BlocklabError, StoreError
from blocklab.model.cache import cache_folder
from blocklab.runner.calibrate import calibrate
from blocklab.runner.events import Listener, Preparing
from blocklab.sites import open_site
from blocklab.store.floor import Floor, load_floor, machine_of, save_floor

# As much as fits into 20 s, once a day.
BRIEF_SECONDS, BRIEF_BUDGET = 0.2, 18.0
DAY = 86_400.0


def fresh_floor(
    name: str, addons: Collection[str], environment: Mapping[str, Any], tell: Listener
) -> Floor | None:
    """The floor of this machine, not older than a day; it is measured in under 20 s where there is none. A study
    runs without where it cannot be, and that is said."""
    machine = machine_of(environment)
    if not machine.known:
        return None
    with contextlib.suppress(StoreError):
        known = load_floor(cache_folder(), machine)
        if known is not None and 0 <= time.time() - known.when < DAY:
            return known
    tell(Preparing("measuring the lab's own floor on this machine, as once a day: under 20 s"))
    try:
        site = open_site(name, addons=addons)
        save_floor(cache_folder(), floor := calibrate(site, seconds=BRIEF_SECONDS, budget=BRIEF_BUDGET))
    except BlocklabError as error:
        tell(Preparing(f"the floor cannot be measured: {error}", failed=True))
        return None
    return floor
