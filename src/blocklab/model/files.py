"""Files and folders that are whole or not there, after a power cut too."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

# Some file systems (network, FUSE) have no fsync of folders: they write names at once, or promise nothing.
_UNKNOWN = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file by one rename: whoever reads meanwhile, or after a power cut, finds the old content or the new,
    never a part. It is on the disk when this returns.

    Raises ``OSError``; then the old content is still there, and nothing else.
    """
    with whole(path) as half:
        half.write_bytes(data)


@contextlib.contextmanager
def whole(path: Path) -> Iterator[Path]:
    """The same for what is written piece by piece: a path beside it, which gets its name at the end. Raises
    ``OSError`` for what is there and no file: a rename would put a file in the place of a device."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    half = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield half
        move(half, path)
    except BaseException:
        half.unlink(missing_ok=True)
        raise


def move(new: Path, final: Path) -> None:
    """Rename a file or a folder with all that is in it once that is on the disk, and have the name there too.

    Without it a file system may write the name first: what bears it is then empty after a power cut. Raises
    ``OSError``.
    """
    if new.is_dir():
        for place, _, names in os.walk(new, topdown=False):
            for name in names:
                _sync(Path(place, name))
            _sync(Path(place))
    else:
        _sync(new)
    new.replace(final)
    _sync(final.parent)


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, that a power cut does not take away. Raises ``OSError``."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for each in missing:
        _sync(each.parent)


def _sync(path: Path) -> None:
    """Write out a file, or a folder's list of names."""
    if path.is_symlink() or not (path.is_file() or path.is_dir()):
        return
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno not in _UNKNOWN:
            raise
    finally:
        os.close(opened)
