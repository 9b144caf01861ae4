"""The commit that this code is of. ``tools/build_hook.py`` runs this file, too: standard library only."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

FILE = "commit.txt"
"""In a wheel, and in ``src/blocklab`` of an sdist, the commit stands in this file of the package."""


def commit() -> str:
    """The full hash: as the build wrote it down, or of the checkout around the package; empty where neither is."""
    package = Path(str(resources.files("blocklab")))
    written = package / FILE
    return written.read_text().strip() if written.is_file() else of_checkout(package.parents[1])


def of_checkout(root: Path) -> str:
    """The commit that is checked out in ``root``, read from ``.git`` without git; empty where that is none.

    Files that differ from the commit are not seen.
    """
    git = root / ".git"
    try:
        if git.is_file():  # in a worktree: "gitdir: /home/x/blocklab/.git/worktrees/other"
            git = root / git.read_text().removeprefix("gitdir: ").strip()
        kind, _, name = (git / "HEAD").read_text().strip().rpartition(" ")  # "ref: refs/heads/main", or the hash
        if not kind:
            return name
        shared = git / "commondir"
        common = git / shared.read_text().strip() if shared.is_file() else git
        if (common / name).is_file():
            return (common / name).read_text().strip()
        # 2672962d0f7d3a0c9c2f3b5b0f6f3d7a1e1c9a55 refs/heads/main
        lines = (line.split(" ") for line in (common / "packed-refs").read_text().splitlines())
        return next((line[0] for line in lines if line[1:] == [name]), "")
    except OSError:
        return ""
