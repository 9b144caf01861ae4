"""What a worker runs: ``python -m blocklab.cli.unit FOLDER`` measures what a study's folder lacks, and prints each
event as a line of JSON."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from blocklab.cli.carry import asked, measured, tell_unreadable
from blocklab.cli.events import Events, printed
from blocklab.errors import BlocklabError
from blocklab.model.terminal import Console
from blocklab.store.folder import StudyFolder, claimed


def main() -> int:
    """Exit code 0: every cell has a run, good or bad."""
    folder = StudyFolder(Path(sys.argv[1]))
    console = Console(stderr=True)
    try:
        with claimed(folder.path):
            folder.sweep()
            tell_unreadable(folder, asked(folder, folder.manifest())[1], console)
            tell = printed(sys.stdout)
            measured(folder, console, lambda _study, remaining: contextlib.nullcontext(Events(tell, remaining)))
    except BlocklabError as error:
        console.print(f"error: {error}", soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
