"""Kernel modules of the user's own in the node image: before the kernel's own of the same name.

They are kept in the cache folder (``modules/``, with their SHA-256 in ``sums.json``) and are an ingredient of
every image from then on, so that a study finds the image that has them without naming them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from blocklab.errors import ImageError
from blocklab.sites.uml import recipe

NONE = "none"
FOLDER = f"{recipe.NODE_FOLDER}/modules"
FIT = f"{FOLDER}/fit"
# The first process of a kernel that has the image writable, once. modprobe prefers updates/ (depmod.d(5)).
SCRIPT = f"""\
#!/bin/sh
set -e
mount -t proc proc /proc
release=$(uname -r)
mkdir -p "/lib/modules/$release/updates"
for file in {FOLDER}/*.ko; do
    magic=$(modinfo -F vermagic "$file")
    if [ "${{magic%% *}}" != "$release" ]; then
        echo "blocklab: ${{file##*/}} is made for kernel ${{magic%% *}}, and nodes run $release"
        exit 1
    fi
    mv "$file" "/lib/modules/$release/updates/"
done
depmod
sync
mount -o remount,ro /
"""
# blocklab: drbd.ko is made for kernel 6.12.1, and nodes run 7.2.7
_SAID = re.compile(r"^blocklab: (.+)$", re.MULTILINE)


@contextlib.contextmanager
def chosen(cache: Path, source: str | None) -> Iterator[None]:
    """Keep the modules (``*.ko``) of the folder ``source``, or none where it is ``none``; those of before where
    the body fails. None changes nothing. Raises ``ImageError``."""
    if source is None:
        yield
        return
    kept, new, old = cache / recipe.MODULES, cache / ".tmp-modules", cache / ".old-modules"
    for left in (new, old):
        shutil.rmtree(left, ignore_errors=True)
    if source != NONE:
        _copy(Path(source), new)
    if kept.exists():
        kept.rename(old)
    if new.exists():
        new.rename(kept)
    try:
        yield
    except BaseException:
        shutil.rmtree(kept, ignore_errors=True)
        if old.exists():
            old.rename(kept)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _copy(source: Path, target: Path) -> None:
    found = sorted(source.glob("*.ko"))
    if not found:
        hint = f"give the folder that has the modules (drbd.ko), or `{NONE}` to go without any"
        raise ImageError(f"{source} has no kernel modules (*.ko)", hint=hint)
    target.mkdir()
    for path in found:
        shutil.copyfile(path, target / path.name)
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in found}
    (target / "sums.json").write_text(json.dumps(sums, indent=1) + "\n")


def write(cache: Path, stage: Path) -> None:
    """Put the modules and what fits them in into the folder ``stage``, as they stand in the image."""
    folder = stage / FOLDER[1:]
    folder.mkdir(parents=True)
    for name in recipe.own_modules():
        shutil.copyfile(cache / recipe.MODULES / name, folder / name)
    fit = stage / FIT[1:]
    fit.write_text(SCRIPT)
    fit.chmod(0o755)


def check(console: str) -> None:
    """Raises ``ImageError`` where ``SCRIPT`` said something against a module."""
    if match := _SAID.search(console):
        raise ImageError(match[1].strip(), hint="build it against the kernel of the package user-mode-linux")
