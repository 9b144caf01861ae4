"""Becomes another program just after a whole second: ``aligned.py PROGRAM [ARGUMENT...]``.

iostat prints its times in whole seconds. Started at a random moment, its points would be up to a second early.
"""

import os
import sys
import time

# Late enough that a timer that fires a little early stays on the right side of the second.
AFTER_SECONDS = 0.02

if __name__ == "__main__":
    time.sleep(1.0 - time.time() % 1.0 + AFTER_SECONDS)
    os.execvp(sys.argv[1], sys.argv[1:])
