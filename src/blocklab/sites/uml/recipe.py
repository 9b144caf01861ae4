"""What the node image is made of, and the key that follows from it.

Nothing here touches the network or starts a process: the texts below are handed to ``mmdebstrap`` and ``sh`` by
``rootfs``.

Stages with a key each. The *base* is Debian itself (a minute to make). A *part* is a program that Debian's
release does not have, made in a tree of its own; an *add-on* is a part that only some studies need. The *image*
is a base and parts plus ``init`` and the agent, which change often while blocklab is developed, plus the tools for
the outer machine (seconds).
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterable
from importlib import resources
from typing import NamedTuple

from blocklab.model.cache import cache_folder
from blocklab.sites.uml import go_programs, kernel_program, sources, volume_program

LAYOUT = 1
"""Version of the layout of a finished image folder. Raise it when a reader of older folders would go wrong."""

SUITE = "trixie"
KERNEL_SUITE = "unstable"
KERNEL_PACKAGE = "user-mode-linux"
"""The one package that comes from ``KERNEL_SUITE``: older kernels panic on CPUs with AMX and lack seccomp mode."""

PACKAGES = (
    KERNEL_PACKAGE,
    "cryptsetup-bin",
    "dmsetup",
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
    "openssh-server",  # tests reach nodes as they would hosts of their own
    "postgresql-17",
    "procps",
    "python3",  # not python3-minimal: that one has neither json nor pty
    "qemu-utils",  # qemu-storage-daemon, which net-mirror runs in a node
    "sudo",
    "sysbench",
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


def apt_pin(*packages: str) -> str:
    """apt's preferences that take these from ``KERNEL_SUITE``, and nothing else."""
    return f"""\
Package: *
Pin: release a={KERNEL_SUITE}
Pin-Priority: -1

Package: {" ".join(packages)}
Pin: release a={KERNEL_SUITE}
Pin-Priority: 990
"""


# The beginning of each setup hook below, which runs in the fresh root ($1) after mmdebstrap wrote its own sources
# and before the first `apt-get update`. @STALE@ in a hook becomes zero or more calls of `stale SUITE`.
# Lines as mmdebstrap 1.3.5 writes them (the option in brackets is not always there):
#   deb [signed-by="/usr/share/keyrings/debian-archive-keyring.gpg"] http://MIRROR/debian trixie main
SOURCES = """\
set -eu
sources="$1/etc/apt/sources.list"
stale() {
    sed -i -E -e "s/^deb \\[([^]]*)\\] ([^ ]+ $1 )/deb [\\1 check-valid-until=no] \\2/" \\
        -e "s/^deb ([^[ ][^ ]* $1 )/deb [check-valid-until=no] \\1/" "$sources"
}
"""

# The kernel's source is derived from what stands there, so no mirror is named here and a user's own mirror serves
# both.
KERNEL_SOURCES = f"""\
line=$(sed -n 's/ {SUITE} main$/ {KERNEL_SUITE} main/p' "$sources" | head -n 1)
[ -n "$line" ] || {{ echo "blocklab: no '{SUITE} main' line in sources.list" >&2; exit 1; }}
printf '%s\\n' "$line" >> "$sources"
"""

SETUP_HOOK = f"""\
{SOURCES}\
{KERNEL_SOURCES}\
@STALE@
mkdir -p "$1/etc/apt/preferences.d" "$1/etc/postgresql-common/createcluster.d"
printf '%s' '{apt_pin(KERNEL_PACKAGE)}' > "$1/etc/apt/preferences.d/blocklab"
# A layer makes its own database on the volume under test; the packages' own ones would only be in the way.
echo 'create_main_cluster = false' > "$1/etc/postgresql-common/createcluster.d/blocklab.conf"
"""

KERNEL = "/usr/bin/linux.uml"

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
libs=$(inside ldd {KERNEL} | sed -n -E 's,^\\t([^ /]+ => )?(/[^ ]+) \\(0x.*,\\2,p' | sort -u)
[ -n "$libs" ]
mkdir "$out/tools"
for file in {KERNEL} $libs; do cp -L "$tree$file" "$out/tools/"; done
chmod 755 "$out/tools"/*
inside dpkg-query -W -f '${{Package}} ${{Version}}\\n' > "$out/packages"
# The modules stay where their package puts them; modprobe looks in /lib/modules.
mkdir -p "$tree/usr/lib/modules" "$tree/usr/lib/blocklab"
for version in "$tree"/usr/lib/uml/modules/*; do
    ln -sfn "../uml/modules/${{version##*/}}" "$tree/usr/lib/modules/${{version##*/}}"
    inside depmod "${{version##*/}}"
done
# The kernel is started from the outer machine, out of tools/.
rm -f "$tree{KERNEL}" "$tree/usr/bin/linux" "$tree/etc/alternatives/linux"
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


class Part(NamedTuple):
    """A program that is not in ``SUITE``, made in a tree of its own and then copied into the image."""

    name: str
    about: str
    """For the progress: what happens, and for how long."""
    suite: str
    packages: tuple[str, ...]
    """Extracted, not installed, with all that they depend on."""
    script: str
    """For ``sh`` with the tree as $1, as mmdebstrap's extract hook: /dev, /proc and the network are there. Leaves
    ``$1/.out/tree`` (plain files and folders, to be owned by root), ``$1/.out/packages`` (lines of name and
    version) and, with programs for the outer machine, ``$1/.out/tools``."""
    newer: tuple[str, ...] = ()
    """Of the packages those that come from ``KERNEL_SUITE`` all the same; patterns of apt's preferences."""


# Extracted trees have no folders to mount on, and not the links of base-files, which interpreters are found by.
PART_HOOK = f"""\
{SOURCES}\
@NEWER@\
@STALE@
mkdir -p "$1/dev" "$1/proc" "$1/sys" "$1/etc" "$1/usr/lib64"
ln -s usr/lib64 "$1/lib64"
"""


def _newer(part: Part) -> str:
    """What a part's hook adds for packages of ``KERNEL_SUITE``."""
    if not part.newer:
        return ""
    pin = f"printf '%s' '{apt_pin(*part.newer)}' > \"$1/etc/apt/preferences.d/blocklab\"\n"
    return f'{KERNEL_SOURCES}mkdir -p "$1/etc/apt/preferences.d"\n{pin}'


# The beginning of every part's script.
PART_SCRIPT = """\
set -eu
umask 022
root="$1"
out="$1/.out"
mkdir -p "$out/tree"
"""

GO = Part(
    "go",
    "go-tpc and the ledger's writer from their sources (a minute or two, beside the rest)",
    SUITE,
    ("ca-certificates", "golang-go"),
    go_programs.script(PART_SCRIPT, go_programs.ledger_sources()),
)

VOLUME = Part(
    "volume",
    "the server of volumes from its source (half a minute, beside the rest)",
    SUITE,
    ("rustc",),
    volume_program.script(PART_SCRIPT, volume_program.sources()),
)

MYSQL_FOLDER = "/opt/mysql"
"""Where the add-on ``mysql`` stands inside a node: ``bin/``, ``lib/``, ``share/`` and ``my.cnf``."""
MYSQL_PACKAGES = ("mysql-client-core", "mysql-server-core")
MYSQL_PROGRAMS = ("/usr/sbin/mysqld", "/usr/bin/mysql", "/usr/bin/mysqladmin")

# MySQL's packages conflict with MariaDB's and want a newer libc than the image's: hence a folder of their own with
# all libraries, the loader included. Its programs also read /etc/mysql/my.cnf, which is MariaDB's, unless they are
# told --defaults-file; what that file then has to say is in it.
# Lines of the loader's --list as in FINISH; of packages: "mysql-server-core 9.7.4-2".
MYSQL_SCRIPT = f"""\
{PART_SCRIPT}\
home="$out/tree{MYSQL_FOLDER}"
mkdir -p "$home/bin" "$home/lib/mysql/plugin" "$home/share"
loader=/usr/lib64/ld-linux-x86-64.so.2
for file in {" ".join(MYSQL_PROGRAMS)}; do
    cp "$root$file" "$home/bin/"
    chroot "$root" "$loader" --library-path /usr/lib/x86_64-linux-gnu --list "$file" > "$root/.list"
    for library in $(sed -n -E 's,^\\t([^ /]+ => |/[^ ]+ => )?(/[^ ]+) \\(0x.*,\\2,p' "$root/.list" | sort -u); do
        cp -L "$root$library" "$home/lib/"
    done
done
# The one plugin that a server loads unasked.
cp "$root/usr/lib/mysql/plugin/component_reference_cache.so" "$home/lib/mysql/plugin/"
cp -r "$root/usr/share/mysql/charsets" "$root/usr/share/mysql/english" "$home/share/"
chmod 755 "$home"/bin/* "$home"/lib/*.so*
for file in "$home"/bin/*; do
    patchelf --set-interpreter "{MYSQL_FOLDER}/lib/${{loader##*/}}" "$file"
    patchelf --force-rpath --set-rpath {MYSQL_FOLDER}/lib "$file"
done
cat > "$home/my.cnf" <<'END'
[mysqld]
basedir = {MYSQL_FOLDER}
lc-messages-dir = {MYSQL_FOLDER}/share
character-sets-dir = {MYSQL_FOLDER}/share/charsets
secure-file-priv = NULL
mysqlx = OFF
user = mysql
# Making keys for TLS would take a node seconds at the first start.
auto-generate-certs = OFF
# User Mode Linux has no NUMA calls.
innodb-numa-interleave = OFF

[client]
character-sets-dir = {MYSQL_FOLDER}/share/charsets
END
APT_CONFIG="$MMDEBSTRAP_APT_CONFIG" apt-cache show --no-all-versions {" ".join(MYSQL_PACKAGES)} |
    sed -n -e 's/^Package: //p' -e 's/^Version: //p' | paste -d ' ' - - > "$out/packages"
[ -s "$out/packages" ]
"""

MYSQL = Part(
    "mysql",
    f"MySQL from Debian {KERNEL_SUITE} (half a minute)",
    KERNEL_SUITE,
    MYSQL_PACKAGES,
    MYSQL_SCRIPT,
)

VIRTUAL = Part(
    "virtual-time",
    "a kernel whose clock can be virtual, from Debian's source (5 to 30 minutes)",
    SUITE,
    kernel_program.PACKAGES,
    kernel_program.script(PART_SCRIPT),
    newer=kernel_program.SOURCES,
)

PARTS = (GO, VOLUME)
"""The parts of every image."""
ADDONS = {part.name: part for part in (MYSQL, VIRTUAL)}
"""The parts that an image has only when asked for: ``blocklab image build --with NAME``."""

NODE_FOLDER = "/usr/lib/blocklab"
"""Where ``init`` and the agent stand inside a node."""

SHIM_SOURCE = sources.NATIVE / "shim.c"
# The agent is the same on every site's hosts.
AGENT = resources.files("blocklab_node") / "agent.py"


def setup_hook(stale: Iterable[str] = (), part: Part | None = None) -> str:
    """The shell text of mmdebstrap's ``--setup-hook``; ``stale`` names suites whose expiry date is not checked."""
    for suite in stale:
        if not re.fullmatch(r"[a-z][a-z-]*", suite):
            raise ValueError(f"not the name of a suite: {suite!r}")
    hook = part_hook(part) if part else SETUP_HOOK
    return hook.replace("@STALE@", "\n".join(f"stale {suite}" for suite in stale))


def part_hook(part: Part) -> str:
    """The hook of a part's tree, with ``@STALE@`` still in it."""
    return PART_HOOK.replace("@NEWER@", _newer(part))


def node_files() -> dict[str, bytes]:
    """File name -> content of what is copied to ``NODE_FOLDER``."""
    return {"agent.py": AGENT.read_bytes(), "init": (sources.NATIVE / "init").read_bytes()}


MODULES = "modules"
"""The folder of the cache that has the user's own kernel modules."""


def own_modules() -> dict[str, str]:
    """Their file names -> SHA-256; empty without any."""
    sums = cache_folder() / MODULES / "sums.json"
    return dict(json.loads(sums.read_text())) if sums.exists() else {}


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


def part_recipe(part: Part) -> dict[str, object]:
    """Every ingredient of a part, as plain data."""
    return {
        "layout": LAYOUT,
        "suite": part.suite,
        "packages": list(part.packages),
        "dpkg": list(DPKG_OPTIONS),
        "hook": part_hook(part),
        "script": part.script,
    }


def parts(addons: Iterable[str] = ()) -> list[Part]:
    """The parts of an image with these add-ons, which have to be names in ``ADDONS``."""
    return [*PARTS, *(ADDONS[name] for name in sorted(set(addons)))]


def recipe(addons: Iterable[str] = ()) -> dict[str, object]:
    """Every ingredient of the image, as plain data; files stand in it by the SHA-256 of their content."""
    return {
        "base": base_key(),
        "parts": {part.name: part_key(part) for part in parts(addons)},
        "shim": hashlib.sha256(SHIM_SOURCE.read_bytes()).hexdigest(),
        "node": {name: hashlib.sha256(content).hexdigest() for name, content in node_files().items()},
        **({"modules": modules} if (modules := own_modules()) else {}),
    }


def key_of(ingredients: dict[str, object]) -> str:
    """The first 16 hex digits of the SHA-256 of the canonical JSON text."""
    text = json.dumps(ingredients, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def base_key() -> str:
    """The key of the base stage."""
    return key_of(base_recipe())


def part_key(part: Part) -> str:
    """The key of a part."""
    return key_of(part_recipe(part))


def recipe_key(addons: Iterable[str] = ()) -> str:
    """The key of the image with these add-ons that this source tree wants."""
    return key_of(recipe(addons))


def recipe_keys(addons: Iterable[str] = ()) -> list[str]:
    """The keys of this source tree's images with at least these add-ons, those with the fewest first."""
    needed = set(addons)
    more = [name for name in ADDONS if name not in needed]
    sets = (extra for count in range(len(more) + 1) for extra in itertools.combinations(more, count))
    return [recipe_key(needed.union(extra)) for extra in sets]
