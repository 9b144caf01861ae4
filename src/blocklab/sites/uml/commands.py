"""``blocklab image``: build, list and remove node images."""

from __future__ import annotations

import time
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from blocklab.errors import StudyError
from blocklab.model.cache import cache_folder
from blocklab.model.terminal import Console, echo, echo_json
from blocklab.sites.uml import image as images

app = typer.Typer(no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]

# What a study prints to stdout stays free of progress.
_progress = Console(stderr=True)


def say(line: str) -> None:
    """Show one line of progress on stderr; warnings in yellow."""
    _progress.print(line, style="yellow" if line.startswith("warning: ") else "", soft_wrap=True)


@app.command()
def build(
    addons: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="ADDON", help=f"Also put this into it: {', '.join(images.ADDONS)}."),
    ] = None,
    own: Annotated[
        str | None,
        typer.Option(
            "--modules",
            metavar="DIR",
            help="Also put the kernel modules (*.ko) of DIR into it and all later ones.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Build the node image of this version, unless it is there (about 3 minutes).

    It takes 2 GiB of the disk, and 4 while it is built.

    Debian packages come from the mirror in BLOCKLAB_MIRROR, else from Debian's own; the Go modules of go-tpc from
    the proxy in GOPROXY. Root is not needed. --with mysql (MySQL 9 from Debian unstable) may also be given later,
    then only that is added. An image with an add-on also serves where the add-on is not needed.

    --modules takes modules made for the kernel of the image, which are loaded in place of its own: drbd.ko and
    drbd_transport_tcp.ko of DRBD 9, say. Nodes run with them until --modules none. Their hashes are stored with
    each run.
    """
    started = time.monotonic()
    image = images.build(say, addons or (), own)
    if as_json:
        echo_json(_json({**_about(image), "seconds": round(time.monotonic() - started, 1)}))
        return
    echo(f"{image.key}  {_mib(image.bytes)}  {image.folder}  ({time.monotonic() - started:.1f} s)")


@app.command("list")
def list_(
    packages: Annotated[
        bool, typer.Option("--packages", help="Also the packages of this version's image.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the images in the cache folder; this version's own are marked with a star."""
    wanted = images.recipe_keys()
    if as_json:
        more = {"packages": images.require().packages} if packages else {}
        rows = [{**_about(image), "current": image.key in wanted} for image in images.listing()]
        echo_json(_json({"images": rows, **more}))
        return
    table = Table("", "key", "size", "built (UTC)", "kernel", "idle shim", "add-ons", box=None, pad_edge=False)
    found = images.listing()
    for image in found:
        star, kernel = "*" if image.key in wanted else "", image.packages.get("user-mode-linux", "?")
        shim = "yes" if image.shim else "no"
        also = ", ".join((*image.addons, *image.modules))
        table.add_row(star, image.key, _mib(image.bytes), image.built[:16], kernel, shim, also)
    if found:
        Console().print(table)
    else:
        echo(f"no images in {cache_folder()}")
    if packages:
        for name, version in sorted(images.require().packages.items()):
            echo(f"{name} {version}")


@app.command()
def remove(
    key: Annotated[str | None, typer.Argument(help="The image's key, as `blocklab image list` shows it.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All images and what they were made from.")] = False,
    unused: Annotated[bool, typer.Option("--unused", help="All that this version does not use.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove one image by its key, or several with --all or --unused."""
    if (key is not None) + everything + unused != 1:
        raise StudyError("", "name the image to remove", hint="give one of: a key, --all, --unused")
    if key is not None:
        images.remove(key)
        removed = [key]
    else:
        removed = images.prune(everything=everything)
    if as_json:
        echo_json(_json({"removed": removed}))
        return
    for name in removed:
        echo(f"removed {name}")


def _about(image: images.Image) -> dict[str, object]:
    """An image without its packages, of which there are hundreds."""
    return {
        "key": image.key, "folder": image.folder, "bytes": image.bytes, "built": image.built,
        "kernel": image.packages.get("user-mode-linux"), "shim": image.shim is not None, "addons": image.addons,
        "modules": image.modules,
    }  # fmt: skip


def _json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=1).decode()


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.0f} MiB"
