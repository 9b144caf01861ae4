"""Becomes another program just after a whole second: ``aligned.py PROGRAM [ARGUMENT...]``.

iostat prints its times in whole seconds. Started at a random moment, its points would be up to a second early.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

# Late enough that a timer that fires a little early stays on the right side of the second.
AFTER_SECONDS = 0.02


def main(argv: Sequence[str]) -> int:
    """Does not return."""
    time.sleep(1.0 - time.time() % 1.0 + AFTER_SECONDS)
    os.execvp(argv[1], list(argv[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv))
