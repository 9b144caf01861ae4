"""The node image: one read-only file system, the kernel, and the tools for the outer machine.

The cache folder (``recipe.cache_folder``)::

    bases/<base key>/     root.ext4, tools/ (unpatched), packages.json, build.log
    modules/              the user's own kernel modules, sums.json
    parts/<part key>/     tree/, tools/ (of some), packages.json, build.log
    images/<key>/         root.ext4, tools/, packages.json, recipe.json, build.log, image.json, options.json
    build.lock            held while building or removing
    build.log             of the build that runs or ran last; build-<part>.log of a part

A folder gets its final name by one rename. ``image.json`` is written last, after every tool has been run: without
it there is no image. It also holds the folder's path, since the tools do not survive being moved. ``options.json``
has what its programs told of their options, of those that were asked.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import fcntl
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

import msgspec

from blocklab.errors import ImageError, StudyError
from blocklab.model.cache import cache_folder
from blocklab.model.files import move, write_whole
from blocklab.model.knobs import Knob, Tables
from blocklab.sites.uml import modules, recipe, rootfs, tools
from blocklab.sites.uml.recipe import ADDONS, recipe_key, recipe_keys

__all__ = [
    "ADDONS",
    "Image",
    "build",
    "cache_folder",
    "find",
    "listing",
    "prune",
    "recipe_key",
    "recipe_keys",
    "remove",
    "require",
]

# 4 KiB writes, queue depth 1, DRBD protocol C, RTT 0, two CPUs; 10 samples of 5 s in 5 boots each, interleaved, on
# a machine with some other workload: mean 0.17-0.20 ms with the shim, 0.20-0.57 (median 0.24) without; p99.9
# 0.9-1.4 ms against 2.0-8.8.
SHIM_COST = (
    "mirror writes take 1 to 3 times as long on average, differently each run, and the slowest up to 9 ms; with "
    "two busy network interfaces the I/O of a volume with a latency or a cap of its own may hang"
)
ZEROS_COST = (
    "MariaDB, and ext4 on RAID-1 or RAID-10, fail on volumes with a latency or a cap of their own, as does any "
    "direct write from memory that was never written to"
)

_OPTIONS = "options.json"

Say = Callable[[str], None]
"""Takes one line about progress; a line that starts with ``warning: `` is a warning."""


class Image(msgspec.Struct, frozen=True):
    """A finished image. All paths are absolute and exist (``shim`` may be None)."""

    key: str
    folder: Path
    rootfs: Path
    """An ext4 file without a journal: ``ubd0r=`` of every node."""
    kernel: Path
    """The UML kernel as a program; its modules are in the root."""
    volume_server: Path
    """The program that serves a volume with a latency or a cap of its own."""
    shim: Path | None
    """For ``LD_PRELOAD`` of the kernel; None when there was no C compiler."""
    packages: dict[str, str]
    """Debian package -> version, of everything in the root; and the programs that are in no package."""
    bytes: int
    """What the folder takes on the disk, in bytes."""
    built: str
    """When, as ISO 8601 in UTC."""
    addons: tuple[str, ...] = ()
    """Names in ``ADDONS``, sorted."""
    modules: dict[str, str] = {}
    """The user's own kernel modules in it: file name -> SHA-256."""

    @property
    def options(self) -> Tables:
        """What the programs in it told of their options; nothing where the file is of another version."""
        kind = dict[str, dict[str, dict[str, Knob]]]
        try:
            return msgspec.json.decode((self.folder / _OPTIONS).read_bytes(), type=kind)
        except (OSError, msgspec.MsgspecError):
            return {}

    def keep_options(self, tables: Tables) -> None:
        """Keep what programs in it told, beside what others did. Raises ``ImageError``."""
        try:
            write_whole(self.folder / _OPTIONS, msgspec.json.encode({**self.options, **tables}))
        except OSError as error:
            raise ImageError(
                f"options cannot be kept: {error}", hint=f"is {self.folder} yours to write?"
            ) from error


def find(addons: Iterable[str] = ()) -> Image | None:
    """An image of this source tree with at least these add-ons, the one with the fewest; None when none is built.

    Takes about a millisecond. Raises ``StudyError`` for an add-on that there is not.
    """
    images = cache_folder() / "images"
    found = (_load(images / key) for key in recipe_keys(_known(addons)))
    return next((image for image in found if image), None)


def require(addons: Iterable[str] = ()) -> Image:
    """Like ``find``, but raises ``ImageError`` when there is none."""
    addons = _known(addons)
    if image := find(addons):
        return image
    command = " ".join(["blocklab image build", *(f"--with {name}" for name in addons)])
    if addons and find():
        raise ImageError(
            f"this study needs the image add-on {' and '.join(addons)}", hint=f"`{command}` makes such an image"
        )
    raise ImageError(
        f"the node image {recipe_key(addons)} is not built", hint=f"`{command}` makes it in about 3 minutes"
    )


def _known(addons: Iterable[str]) -> tuple[str, ...]:
    """The same names, sorted, each once. Raises ``StudyError`` when one is none of ``ADDONS``."""
    names = tuple(sorted(set(addons)))
    if unknown := [name for name in names if name not in ADDONS]:
        raise StudyError("", f"there is no image add-on {unknown[0]!r}", hint=f"there are: {', '.join(ADDONS)}")
    return names


def listing() -> list[Image]:
    """All finished images in the cache folder, oldest first, those of other source trees too."""
    images = (_load(path) for path in (cache_folder() / "images").glob("*"))
    return sorted((image for image in images if image), key=lambda image: image.built)


def build(say: Say, addons: Iterable[str] = (), own: str | None = None) -> Image:
    """Build the image unless it is there; returns it. Two builds at the same time: the second waits.

    ``own``: the folder of kernel modules that images have from now on, ``none`` for none; None changes nothing.
    Where there is one with more add-ons, that one is taken. Raises ``ImageError``: no network, no room, a host
    tool missing, tools that do not run here; ``StudyError`` for an add-on that there is not.
    """
    addons = _known(addons)
    cache = cache_folder()
    try:
        with _locked(cache, say), modules.chosen(cache, own), (cache / "build.log").open("w") as log:
            image = find(addons)
            # One without a shim is built again once there is a compiler, but not under running nodes.
            if image and (image.shim or shutil.which("cc") is None or _users(image.folder)):
                return image
            for name in ("bases", "parts", "images"):
                (cache / name).mkdir(exist_ok=True)
                for left in (cache / name).glob(".tmp-*"):
                    shutil.rmtree(left)
            wanted = recipe.parts(addons)
            # Side by side, since each waits for the network or works on one CPU for most of its time. What one has
            # made is kept when another fails.
            with ThreadPoolExecutor(len(wanted)) as pool:
                parts = [pool.submit(_part, part, cache, say) for part in wanted]
                base = _base(cache / "bases", log, say)
            made = [part.result() for part in parts]
            return _image(base, made, cache / "images" / recipe_key(addons), addons, log, say)
    except OSError as error:
        raise _os_error(error, cache) from error


def remove(key: str) -> None:
    """Remove one image. Raises ``ImageError`` when there is none with this key or a node still runs from it."""
    cache = cache_folder()
    folder = cache / "images" / key
    if not key or "/" in key or not folder.is_dir():
        known = ", ".join(image.key for image in listing()) or "none"
        raise ImageError(f"there is no image {key!r} in {cache}", hint=f"there are: {known}")
    with _locked(cache):
        if users := _users(folder):
            raise ImageError(
                f"image {key} is in use by process {', '.join(map(str, users))}",
                hint="wait until that run has ended, or end it",
            )
        _discard(folder)


def prune(*, everything: bool) -> list[str]:
    """Remove all images and what they were made from, or only what this source tree does not use.

    Returns the keys of the images.
    """
    keep = set() if everything else set(recipe_keys())
    gone = [path.name for path in (cache_folder() / "images").glob("[!.]*") if path.name not in keep]
    for key in gone:
        remove(key)
    keep = set() if everything else {recipe.base_key(), *map(recipe.part_key, recipe.parts(ADDONS))}
    for name in ("bases", "parts"):
        for path in (cache_folder() / name).glob("[!.]*"):
            if path.name not in keep:
                with _locked(cache_folder()):
                    _discard(path)
    if everything:
        shutil.rmtree(cache_folder() / recipe.MODULES, ignore_errors=True)
    return gone


def _load(folder: Path) -> Image | None:
    """The image in ``folder``; None when it is unfinished, damaged, or was built to stand in another place."""
    try:
        text = (folder / "image.json").read_bytes()
        image = msgspec.json.decode(text, type=Image, dec_hook=lambda kind, value: kind(value))
    except (OSError, msgspec.MsgspecError):
        return None
    needed = (image.rootfs, image.kernel, image.volume_server)
    return image if image.folder == folder and all(path.is_file() for path in needed) else None


def _base(bases: Path, log: IO[str], say: Say) -> Path:
    """The folder of the base stage, built when it is not there."""
    final = bases / recipe.base_key()
    if final.is_dir():
        return final
    with _new_folder(final) as folder:
        rootfs.build(folder, log, say)
        log.flush()
        shutil.copyfile(log.name, folder / "build.log")
    return final


def _part(part: recipe.Part, cache: Path, say: Say) -> Path:
    """The folder of a part, built when it is not there."""
    final = cache / "parts" / recipe.part_key(part)
    if final.is_dir():
        return final
    with _new_folder(final) as folder, (cache / f"build-{part.name}.log").open("w") as log:
        rootfs.build_part(part, folder, log, lambda line: say(line.replace("  ", f"  {part.name}: ", 1)))
        log.flush()
        shutil.copyfile(log.name, folder / "build.log")
    return final


def _image(
    base: Path, parts: Sequence[Path], final: Path, addons: tuple[str, ...], log: IO[str], say: Say
) -> Image:
    """The last stage: the parts, blocklab's own files, the patched tools, the shim; then modules of the user's own
    are fitted in and every tool is tried."""
    if final.exists():  # unfinished, moved, or without a shim
        _discard(final)
    with _new_folder(final) as folder:
        say("image: blocklab's own files")
        packages = json.loads((base / "packages.json").read_text())
        rootfs.copy_sparse(base / "root.ext4", folder / "root.ext4", log)
        for part in parts:
            rootfs.add_tree(folder / "root.ext4", part / "tree", log)
            packages |= json.loads((part / "packages.json").read_text())
        _add_node_files(folder, log)
        say("image: tools")
        tools.install(base / "tools", folder / "tools", final / "tools", log)
        for own in (part / "tools" for part in parts if (part / "tools").is_dir()):
            shutil.copytree(own, folder / "tools", dirs_exist_ok=True)
        if (virtual := folder / "tools" / tools.VIRTUAL_KERNEL).exists():
            tools.patch(virtual, final / "tools", log)
        if why := tools.compile_shim(folder / "tools" / tools.SHIM, log):
            say(f"warning: {why}, so the image has no idle shim: {SHIM_COST}; {ZEROS_COST}")
        (folder / "packages.json").write_text(json.dumps(packages, indent=1, sort_keys=True) + "\n")
        (folder / "recipe.json").write_text(json.dumps(_whole_recipe(addons), indent=1) + "\n")
    try:
        if recipe.own_modules():
            say("image: your own kernel modules")
            tools.fit_modules(final / "tools", final / "root.ext4", log)
        say("image: trying the tools")
        if why := tools.verify(final / "tools", final / "root.ext4", log):
            say(f"warning: {why}: {ZEROS_COST}")
        image = _describe(final, addons)
        log.flush()
        shutil.copyfile(log.name, final / "build.log")
        # What says that all is there.
        write_whole(final / "image.json", msgspec.json.format(msgspec.json.encode(image, enc_hook=str), indent=1))
    except BaseException:
        shutil.rmtree(final, ignore_errors=True)
        raise
    return image


def _whole_recipe(addons: tuple[str, ...]) -> dict[str, object]:
    parts = {part.name: recipe.part_recipe(part) for part in recipe.parts(addons)}
    return recipe.recipe(addons) | recipe.base_recipe() | {"parts": parts}


def _describe(folder: Path, addons: tuple[str, ...]) -> Image:
    where = folder / "tools"
    shim = where / tools.SHIM
    return Image(
        key=folder.name,
        folder=folder,
        rootfs=folder / "root.ext4",
        kernel=where / tools.KERNEL,
        volume_server=where / tools.VOLUME_SERVER,
        shim=shim if shim.exists() else None,
        packages=json.loads((folder / "packages.json").read_text()),
        bytes=sum(path.stat().st_blocks * 512 for path in folder.rglob("*")),
        built=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        addons=addons,
        modules=recipe.own_modules(),
    )


def _add_node_files(folder: Path, log: IO[str]) -> None:
    """Write the files of ``node/`` into the image."""
    tree = folder / "node"
    stage = tree / recipe.NODE_FOLDER[1:]
    stage.mkdir(parents=True)
    for name, content in recipe.node_files().items():
        (stage / name).write_bytes(content)
        (stage / name).chmod(0o755 if name == "init" else 0o644)
    if recipe.own_modules():
        modules.write(cache_folder(), tree)
    rootfs.add_tree(folder / "root.ext4", tree, log)
    shutil.rmtree(tree)


@contextlib.contextmanager
def _new_folder(final: Path) -> Iterator[Path]:
    """A temporary folder beside ``final`` that takes this name when all went well and vanishes when not."""
    folder = final.with_name(f".tmp-{final.name}")
    folder.mkdir()
    try:
        yield folder
        move(folder, final)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _discard(folder: Path) -> None:
    """Remove a finished folder; the rename first, so that a half-removed one is never taken for a whole one."""
    gone = folder.with_name(f".tmp-{folder.name}")
    shutil.rmtree(gone, ignore_errors=True)
    folder.rename(gone)
    shutil.rmtree(gone)


@contextlib.contextmanager
def _locked(cache: Path, say: Say | None = None) -> Iterator[None]:
    """Hold the cache's lock. The kernel frees it when its holder dies, so it cannot be left behind."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "build.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if say:
                say("waiting for another build in the same cache folder")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _users(folder: Path) -> list[int]:
    """Ids of the running processes whose program stands in ``folder``."""
    users, real = [], folder.resolve()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile, or is another user's
            if (process / "exe").readlink().is_relative_to(real):
                users.append(int(process.name))
    return sorted(users)


def _os_error(error: OSError, cache: Path) -> ImageError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ImageError(f"no room left for the image in {cache}", hint=rootfs.CAUSES[0][2])
    return ImageError(f"the image cannot be built: {error}", hint=f"is {cache} yours to write?")
