"""The kernel of nodes in virtual time: Debian's source with the configuration of its package ``user-mode-linux``,
the option that the package leaves out, and patches of ours (``native/kernel``, GPL-2.0). Modules that no node
loads are left out: they are nine tenths of the work."""

from __future__ import annotations

from pathlib import Path

from blocklab.sites.uml import sources as texts

NAME = "linux.virtual"
FOLDER = texts.NATIVE / "kernel"

# Of what the package builds as modules: these, and what they need. The rest is left out.
MODULES = (
    "BLK_DEV_DM", "BLK_DEV_DRBD", "BLK_DEV_LOOP", "BLK_DEV_MD", "BLK_DEV_NBD", "BLK_DEV_RAM", "BONDING",
    "BTRFS_FS", "DM_BUFIO", "DM_CACHE", "DM_CRYPT", "DM_DELAY", "DM_DUST", "DM_FLAKEY", "DM_INTEGRITY",
    "DM_LOG_WRITES", "DM_MIRROR", "DM_RAID", "DM_SNAPSHOT", "DM_THIN_PROVISIONING", "DM_WRITECACHE",
    "DM_ZERO", "DUMMY", "EXT4_FS", "MD_RAID0", "MD_RAID1", "MD_RAID10", "MD_RAID456", "NET_SCH_FQ",
    "NET_SCH_FQ_CODEL", "NET_SCH_HTB", "NET_SCH_NETEM", "NET_SCH_TBF", "OVERLAY_FS", "TUN", "VETH", "XFS_FS",
)  # fmt: skip
# Root, volumes, network cards and consoles are virtio devices, there from the start. Time travel wants neither
# several CPUs nor a race between RAID-6's algorithms, and the host's random numbers are not to come in.
_ON = ("UML_TIME_TRAVEL_SUPPORT", "VIRTIO_BLK", "VIRTIO_NET", "VIRTIO_CONSOLE", "DEBUG_INFO_NONE")
_OFF = ("DEBUG_INFO", "DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT", "HW_RANDOM", "RAID6_PQ_BENCHMARK", "SMP", "UML_RANDOM")

SOURCES = ("linux-source*", "user-mode-linux")
"""Packages that come from where the kernel of other nodes comes from."""
PACKAGES = (
    "linux-source", "user-mode-linux", "bash", "bc", "bison", "coreutils", "dash", "diffutils", "findutils",
    "flex", "gawk", "gcc", "grep", "gzip", "hostname", "kmod", "libc6-dev", "libelf-dev", "libssl-dev",
    "make", "patch", "perl", "sed", "tar", "xz-utils",
)  # fmt: skip

# Lines "I: ....." are shown as progress. Extracted packages have no links of alternatives, nor those of
# base-files. The package's configuration is in one of its modules. The name of the version keeps our modules apart
# from those of the package's kernel.
_SCRIPT = f"""\
here="$root/build"
mkdir -p "$here" "$out/tools" "$out/tree/usr/lib/modules" "$out/tree/usr/share/doc/{NAME}"
for name in bin sbin lib; do [ -e "$root/$name" ] || ln -s "usr/$name" "$root/$name"; done
[ -e "$root/usr/bin/sh" ] || ln -s dash "$root/usr/bin/sh"
[ -e "$root/usr/bin/awk" ] || ln -s gawk "$root/usr/bin/awk"
@FILES@
inside() {{ env -i PATH=/usr/sbin:/usr/bin HOME=/build TMPDIR=/build LC_ALL=C chroot "$root" "$@"; }}
kernel() {{ inside make -s -C /build/source ARCH=um LOCALVERSION=-virtual KBUILD_BUILD_TIMESTAMP=@1767225600 \\
    KBUILD_BUILD_USER=blocklab KBUILD_BUILD_HOST=blocklab "$@"; }}
echo "I: unpacking the source..."
mkdir "$here/source"
tar -x -J -C "$here/source" --strip-components=1 -f "$(ls "$root"/usr/src/linux-source-*.tar.xz)"
for file in "$here"/*.patch; do inside patch -s -p1 -d /build/source -i "/build/${{file##*/}}"; done
configs=$(ls "$root"/usr/lib/uml/modules/*/kernel/kernel/configs.ko)
inside /build/source/scripts/extract-ikconfig "${{configs#"$root"}}" > "$here/package"
keep=" {" ".join(MODULES)} "
sed -n 's/^CONFIG_\\([A-Z0-9a-z_]*\\)=m$/\\1/p' "$here/package" | while read -r name; do
    case "$keep" in *" $name "*) ;; *) echo "# CONFIG_$name is not set" ;; esac
done > "$here/left-out"
grep -v '=m$' "$here/package" > "$here/source/.config"
sed -n 's/^CONFIG_\\([A-Z0-9a-z_]*\\)=m$/\\1/p' "$here/package" | while read -r name; do
    case "$keep" in *" $name "*) echo "CONFIG_$name=m" ;; esac
done >> "$here/source/.config"
cat "$here/left-out" >> "$here/source/.config"
for name in {" ".join(_ON)}; do inside /build/source/scripts/config --file /build/source/.config -e "$name"; done
for name in {" ".join(_OFF)}; do inside /build/source/scripts/config --file /build/source/.config -d "$name"; done
kernel olddefconfig
for name in {" ".join(_ON[:4])}; do
    grep -q "^CONFIG_$name=y$" "$here/source/.config" || {{ echo "the configuration lost $name"; exit 1; }}
done
echo "I: compiling the kernel..."
kernel -j"$(nproc)" linux
echo "I: compiling its modules..."
kernel -j"$(nproc)" modules
kernel INSTALL_MOD_PATH=/build/installed INSTALL_MOD_STRIP=1 modules_install
version=$(ls "$here/installed/lib/modules")
rm -f "$here/installed/lib/modules/$version/build" "$here/installed/lib/modules/$version/source"
inside depmod -b /build/installed "$version"
cp -r "$here/installed/lib/modules/$version" "$out/tree/usr/lib/modules/"
inside strip -o "/build/{NAME}" /build/source/linux
install -m 755 "$here/{NAME}" "$out/tools/{NAME}"
cp "$root/usr/share/doc/user-mode-linux/copyright" "$out/tree/usr/share/doc/{NAME}/copyright"
echo "{NAME} $version" > "$out/packages"
"""


def patches(folder: Path = FOLDER) -> dict[str, str]:
    """File name -> text of our patches, in the order in which they are applied."""
    return {path.name: path.read_text() for path in sorted(folder.glob("*.patch"))}


def script(head: str) -> str:
    """The script of the part that builds it, which begins with ``head``. The patches are in it, so that the part's
    key follows from them."""
    return head + _SCRIPT.replace("@FILES@", texts.written(patches(), "$here"))
