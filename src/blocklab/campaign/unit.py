"""What a worker of a cluster runs: ``python -m blocklab.campaign.unit FOLDER`` measures what a study's folder
lacks, and prints each event as a line."""

from __future__ import annotations

import sys
from pathlib import Path

from blocklab.campaign.here import prepared
from blocklab.campaign.lines import send
from blocklab.errors import BlocklabError
from blocklab.runner.events import AnyEvent, Counted
from blocklab.store.folder import StudyFolder, claimed


def main() -> int | str:
    """Exit code 0: every cell has a run, good or bad; else why not."""
    folder = StudyFolder(Path(sys.argv[1]))
    try:
        with claimed(folder.path):
            folder.sweep()
            prepared(folder, _tell).run(_tell)
    except BlocklabError as error:
        return f"error: {error}"
    except KeyboardInterrupt:
        return 130
    return 0


def _tell(event: AnyEvent) -> None:
    # Ten times a second, and of a cluster only what cells are done is shown.
    if not isinstance(event, Counted):
        send(event)


if __name__ == "__main__":
    sys.exit(main())
