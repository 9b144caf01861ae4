"""What holds for every import."""

from __future__ import annotations

from blocklab.imports import Imported
from blocklab.store.folder import StudyFolder


def all_that_was_taken_is_there(done: Imported) -> None:
    """Each file that was taken belongs to a run that is stored, and no run has a file of which nothing was taken."""
    stored: dict[str, set[str]] = {}
    for run in StudyFolder(done.folder).runs():
        stored.setdefault(run.cell.stack, set()).update(each.file for each in run.files if each.kind)
    for stack, files in done.files.items():
        # A thread's or a clone's log is a part of another file's rows.
        taken = {each.file for each in files if each.kind}
        assert taken == stored[stack], (stack, taken ^ stored[stack])
