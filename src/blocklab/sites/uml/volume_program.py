"""The program that serves volumes with a profile: Rust without crates, built by Debian's compiler, static."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from blocklab.sites.uml import sources as texts

NAME = "blocklab-volume"
FOLDER = texts.NATIVE / "volume"
LICENCES = "/usr/share/doc"

# Static, so that it runs on any host without the image's loader. `gcc` links: extracted packages have no `cc`.
# Rust's library and libc are linked in, so their copyright files go along.
_SCRIPT = f"""\
mkdir -p "$root/build" "$out/tools" "$out/tree{LICENCES}/{NAME}"
@FILES@
env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/build TMPDIR=/build BLOCKLAB_VOLUME_VERSION=@VERSION@ \\
    chroot "$root" /usr/bin/rustc --edition 2021 -C opt-level=3 -C panic=abort \\
    -C strip=symbols -C linker=gcc -C target-feature=+crt-static -o /build/{NAME} /build/main.rs
install -m 755 "$root/build/{NAME}" "$out/tools/{NAME}"
for package in libstd-rust-dev libc6-dev; do
    cat "$root{LICENCES}/$package/copyright" >> "$out/tree{LICENCES}/{NAME}/copyright"
done
echo "{NAME} @VERSION@" > "$out/packages"
"""


def sources(folder: Path = FOLDER) -> dict[str, str]:
    """File name -> text of all that its build needs, tests left out."""
    found = sorted(folder.glob("*.rs"))
    return {path.name: path.read_text() for path in found if not path.name.endswith("_tests.rs")}


def script(head: str, found: Mapping[str, str]) -> str:
    """The script of the part that builds it, which begins with ``head``. The sources are in it, so that the part's
    key follows from them. Raises ``ValueError`` for a source that the script cannot hold."""
    text = _SCRIPT.replace("@VERSION@", texts.version(found))
    return head + text.replace("@FILES@", texts.written(found, "$root/build"))
