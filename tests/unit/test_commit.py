"""The commit of a checkout, as git leaves it on the disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from blocklab.model.commit import of_checkout

HASH, OTHER = "2672962d0f7d3a0c9c2f3b5b0f6f3d7a1e1c9a55", "d47cbac7ad042d33f3811ee5bc87d58c131f2cb0"
PACKED = (
    f"# pack-refs with: peeled fully-peeled sorted\n{OTHER} refs/heads/mai\n{HASH} refs/heads/main\n^{OTHER}\n"
)


def write(folder: Path, **files: str) -> None:
    """Files by their paths, in which ``__`` is a slash."""
    for name, text in files.items():
        file = folder / name.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.mark.parametrize(
    "files",
    [
        {"HEAD": "ref: refs/heads/main\n", "refs__heads__main": f"{HASH}\n"},
        {"HEAD": "ref: refs/heads/main\n", "packed-refs": PACKED},
        {"HEAD": f"{HASH}\n"},
    ],
    ids=["branch", "packed", "detached"],
)
def test_a_clone_and_its_worktree(tmp_path: Path, files: dict[str, str]) -> None:
    write(tmp_path / ".git", **files)
    assert of_checkout(tmp_path) == HASH
    other = tmp_path / "other"
    write(tmp_path / ".git/worktrees/other", HEAD=files["HEAD"], commondir="../..\n")
    write(other, **{".git": f"gitdir: {tmp_path}/.git/worktrees/other\n"})
    assert of_checkout(other) == HASH


@pytest.mark.parametrize("head", [None, "", "ref: refs/heads/new\n"])
def test_without_a_commit_nothing_is_claimed(tmp_path: Path, head: str | None) -> None:
    if head is not None:
        write(tmp_path / ".git", HEAD=head)
    assert of_checkout(tmp_path) == ""
