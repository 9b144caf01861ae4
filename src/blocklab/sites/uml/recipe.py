"""What the node image is made of, and the key that follows from it. Standard library only.

Nothing here touches the network or starts a process: the texts below are handed to ``mmdebstrap`` and ``sh`` by
``rootfs``. ``doctor`` reads this module before the virtual environment exists, hence no other imports.

Two stages, two keys. The *base* is Debian itself (a minute to make). The *image* is a base plus the files of
``node/``, which change often while blocklab is developed, plus the tools for the outer machine (seconds).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

LAYOUT = 1
"""Version of the layout of a finished image folder. Raise it when a reader of older folders would go wrong."""

SUITE = "trixie"
KERNEL_SUITE = "unstable"
KERNEL_PACKAGE = "user-mode-linux"
"""The one package that comes from ``KERNEL_SUITE``: older kernels panic on CPUs with AMX and lack seccomp mode."""

PACKAGES = (
    KERNEL_PACKAGE,
    "drbd-utils",
    "e2fsprogs",
    "fio",
    "iproute2",
    "iputils-ping",
    "kmod",
    "lvm2",
    "mariadb-server",
    "mdadm",
    "nbd-client",
    "nbd-server",
    "nbdkit",
    "postgresql-17",
    "procps",
    "python3",  # not python3-minimal: that one has neither json nor pty
    "qemu-utils",
    "sysstat",
    "util-linux",
    "xfsprogs",
)

# Nobody reads manuals in a node. Copyright files stay, since the image is a distribution of these packages.
DPKG_OPTIONS = (
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/info/*",
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/i18n/*",
    "path-exclude=/usr/share/lintian/*",
    "path-exclude=/usr/lib/udev/hwdb.d/*",
)

APT_PIN = f"""\
Package: *
Pin: release a={KERNEL_SUITE}
Pin-Priority: -1

Package: {KERNEL_PACKAGE}
Pin: release a={KERNEL_SUITE}
Pin-Priority: 990
"""

# Runs in the fresh root ($1) after mmdebstrap wrote its own sources and before the first `apt-get update`.
# The second source is derived from what stands there, so no mirror is named here and a user's own mirror serves
# both. @STALE@ becomes zero or more calls of `stale SUITE`.
# Lines as mmdebstrap 1.3.5 writes them (the option in brackets is not always there):
#   deb [signed-by="/usr/share/keyrings/debian-archive-keyring.gpg"] http://MIRROR/debian trixie main
SETUP_HOOK = f"""\
set -eu
sources="$1/etc/apt/sources.list"
line=$(sed -n 's/ {SUITE} main$/ {KERNEL_SUITE} main/p' "$sources" | head -n 1)
[ -n "$line" ] || {{ echo "blocklab: no '{SUITE} main' line in sources.list" >&2; exit 1; }}
printf '%s\\n' "$line" >> "$sources"
stale() {{
    sed -i -E -e "s/^deb \\[([^]]*)\\] ([^ ]+ $1 )/deb [\\1 check-valid-until=no] \\2/" \\
        -e "s/^deb ([^[ ][^ ]* $1 )/deb [check-valid-until=no] \\1/" "$sources"
}}
@STALE@
mkdir -p "$1/etc/apt/preferences.d" "$1/etc/postgresql-common/createcluster.d"
printf '%s' '{APT_PIN}' > "$1/etc/apt/preferences.d/blocklab"
# A layer makes its own database on the volume under test; the packages' own ones would only be in the way.
echo 'create_main_cluster = false' > "$1/etc/postgresql-common/createcluster.d/blocklab.conf"
"""

TOOL_BINARIES = ("/usr/bin/linux.uml", "/usr/bin/nbdkit", "/usr/bin/qemu-storage-daemon")
NBDKIT = "/usr/lib/x86_64-linux-gnu/nbdkit"
TOOL_PLUGINS = (
    f"{NBDKIT}/plugins/nbdkit-file-plugin.so",
    f"{NBDKIT}/plugins/nbdkit-memory-plugin.so",
    f"{NBDKIT}/filters/nbdkit-delay-filter.so",
)

# Runs as (mapped) root with $1 = the root that mmdebstrap left. That folder is the only place where a mapped root
# may write, so its content first moves down to $1/.tree, and the results come to stand in $1/.out.
# ldd runs *inside* the tree, so that the image's own loader resolves its own libraries; its lines look like
#   \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f13e7796000)
#   \t/lib64/ld-linux-x86-64.so.2 (0x00007f13e798b000)
#   \tlinux-vdso.so.1 (0x00007f13e7989000)
FINISH = f"""\
set -eu
umask 022
tree="$1/.tree"
out="$1/.out"
mkdir "$tree" "$out"
mv "$1"/* "$tree/"
inside() {{ env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C chroot "$tree" "$@"; }}
tools="{" ".join(TOOL_BINARIES + TOOL_PLUGINS)}"
libs=$(inside ldd $tools | sed -n -E 's,^\\t([^ /]+ => )?(/[^ ]+) \\(0x.*,\\2,p' | sort -u)
[ -n "$libs" ]
mkdir "$out/tools"
for file in $tools $libs; do cp -L "$tree$file" "$out/tools/"; done
chmod 755 "$out/tools"/*
inside dpkg-query -W -f '${{Package}} ${{Version}}\\n' > "$out/packages"
# The modules stay where their package puts them; modprobe looks in /lib/modules.
mkdir -p "$tree/usr/lib/modules" "$tree/usr/lib/blocklab"
for version in "$tree"/usr/lib/uml/modules/*; do
    ln -sfn "../uml/modules/${{version##*/}}" "$tree/usr/lib/modules/${{version##*/}}"
    inside depmod "${{version##*/}}"
done
# The kernel is started from the outer machine, out of tools/.
rm -f "$tree/usr/bin/linux.uml" "$tree/usr/bin/linux" "$tree/etc/alternatives/linux"
rm -rf "$tree/var/lib/mysql" "$tree/var/lib/apt/lists" "$tree/var/cache/apt" "$tree/var/log/mysql"
install -d -m 755 "$tree/var/lib/apt/lists" "$tree/var/cache/apt"
inside install -d -o mysql -g mysql -m 755 /var/lib/mysql
find "$tree/var/log" "$tree/var/cache/ldconfig" -type f -delete
find "$tree/dev" -mindepth 1 -delete
: > "$tree/etc/machine-id"
# Size to fit: blocks of 4 KiB in use, a fiftieth for directories and extents, the inode tables (256 bytes each),
# and 16 MiB of room for the files of the second stage. No journal: it is only ever mounted read-only.
inodes=$(( $(find "$tree" -xdev | wc -l) + 1024 ))
blocks=$(du -sx --block-size=4096 "$tree" | cut -f 1)
blocks=$(( blocks + blocks / 50 + inodes / 16 + 4096 ))
mke2fs -q -F -t ext4 -b 4096 -m 0 -N "$inodes" -O ^has_journal,^resize_inode -L blocklab \\
    -d "$tree" "$out/root.ext4" "$blocks"
chmod 644 "$out/root.ext4" "$out/packages"
"""

NODE_FOLDER = "/usr/lib/blocklab"
"""Where the files of ``node/`` stand inside a node."""

_HERE = Path(__file__).parent
SHIM_SOURCE = _HERE / "shim.c"


def setup_hook(stale: Iterable[str] = ()) -> str:
    """The shell text of mmdebstrap's ``--setup-hook``; ``stale`` names suites whose expiry date is not checked."""
    for suite in stale:
        if not re.fullmatch(r"[a-z][a-z-]*", suite):
            raise ValueError(f"not the name of a suite: {suite!r}")
    return SETUP_HOOK.replace("@STALE@", "\n".join(f"stale {suite}" for suite in stale))


def node_files(folder: Path = _HERE / "node") -> dict[str, bytes]:
    """File name -> content of what is copied to ``NODE_FOLDER``; empty when the folder is empty or missing."""
    if not folder.is_dir():
        return {}
    skip = {"__init__.py"}
    found = (path for path in sorted(folder.iterdir()) if path.is_file())
    return {path.name: path.read_bytes() for path in found if path.name[0] != "." and path.name not in skip}


def base_recipe() -> dict[str, object]:
    """Every ingredient of the base stage, as plain data."""
    return {
        "layout": LAYOUT,
        "suite": SUITE,
        "packages": list(PACKAGES),
        "dpkg": list(DPKG_OPTIONS),
        "hook": SETUP_HOOK,
        "finish": FINISH,
    }


def recipe() -> dict[str, object]:
    """Every ingredient of the image, as plain data; files stand in it by the SHA-256 of their content."""
    return {
        "base": base_key(),
        "shim": hashlib.sha256(SHIM_SOURCE.read_bytes()).hexdigest(),
        "node": {name: hashlib.sha256(content).hexdigest() for name, content in node_files().items()},
    }


def key_of(ingredients: dict[str, object]) -> str:
    """The first 16 hex digits of the SHA-256 of the canonical JSON text."""
    text = json.dumps(ingredients, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def base_key() -> str:
    """The key of the base stage."""
    return key_of(base_recipe())


def recipe_key() -> str:
    """The key of the image that this source tree wants."""
    return key_of(recipe())


def cache_folder() -> Path:
    """``$BLOCKLAB_CACHE``, else ``$XDG_CACHE_HOME/blocklab``, else ``~/.cache/blocklab``. May not exist yet."""
    if own := os.environ.get("BLOCKLAB_CACHE"):
        return Path(own).absolute()
    # The XDG specification: a relative path is to be ignored.
    shared = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(shared) if shared.startswith("/") else Path.home() / ".cache") / "blocklab"
