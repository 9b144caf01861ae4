"""A block device whose data are encrypted: the kernel's dm-crypt, by LUKS2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar, Literal, TypeAlias, get_args

from blocklab.layers.base import LayerBase
from blocklab.model import access, mapping, numbers, places
from blocklab.model.ground import Topology
from blocklab.model.layer import Layer, Place
from blocklab.model.plan import Argv, Fact, Kind, Plan, Port, Put, Run, Step

# The data begin here, whatever cryptsetup has as its default.
HEADER = 16 * 2**20
SECTOR = 512
Cipher: TypeAlias = Literal[
    "aes-xts-plain64",
    "aes-cbc-essiv:sha256",
    "aes-cbc-plain64",
    "serpent-xts-plain64",
    "twofish-xts-plain64",
    "camellia-xts-plain64",
    "xchacha12,aes-adiantum-plain64",
    "xchacha20,aes-adiantum-plain64",
]
# In bits, the usual one first. XTS has two keys, so that 512 bits are AES-256.
KEY_SIZES: Mapping[str, tuple[int, ...]] = {
    name: (512, 256) if "-xts-" in name else (256,) if "-adiantum-" in name else (256, 128, 192)
    for name in get_args(Cipher)
}
# Our field -> cryptsetup's option, whose last part is the flag in its status.
FLAGS = {
    "discards": "--allow-discards",
    "no_read_workqueue": "--perf-no_read_workqueue",
    "no_write_workqueue": "--perf-no_write_workqueue",
    "same_cpu_crypt": "--perf-same_cpu_crypt",
    "submit_from_crypt_cpus": "--perf-submit_from_crypt_cpus",
}


class Crypt(LayerBase, frozen=True, tag="crypt"):
    """The block device below, encrypted: the kernel's dm-crypt, with a LUKS2 header. See cryptsetup(8).

    Example::

        - {layer: volume, size: 512MiB}
        - {layer: crypt, cipher: aes-xts-plain64, no_read_workqueue: true, no_write_workqueue: true}

    The first 16 MiB of the device are the header's. Several devices are encrypted each by itself. Data have no
    checksums (``integrity`` of cryptsetup is off). Over a mirror the survivor of a takeover opens it with the same
    key. A fresh device reads as garbage, other garbage on each: so a mirror or a ``raid10`` above it copies the
    whole device when it is built, and the measurement begins behind that.

    The key is random and the run's own. It stands in a file of root's (``/run/blocklab/STACK.key``, mode 0600)
    while the stack does, in no command line, and is stored nowhere. Since it is no passphrase of a human, it is
    stretched as little as LUKS2 can (PBKDF2, 1000 rounds). The kernel chooses the mapping's minor number, so that
    nothing could name it before it is there; above it stands a ``linear`` one with a number of ours, which every
    request takes some microseconds more through.

    Read back before and after each workload, by ``cryptsetup status``: type, device, cipher, key size, sector
    size, no integrity, whether it can be written, and each flag; and by ``dmsetup table`` what stands above it.
    """

    cipher: Cipher = "aes-xts-plain64"
    """The cipher, its mode and how a sector's number enters it, as in ``cryptsetup --cipher``. Which of them is
    fast depends on the CPU: the kernel of a UML node does AES without the CPU's instructions for it."""
    key_size: int | None = None
    """Bits of the key, ``--key-size``: 256 or 512 with XTS, where it is two keys; 128, 192 or 256 with CBC; 256
    with Adiantum. Without it, 512 with XTS and 256 with others."""
    sector_size: Literal[512, 1024, 2048, 4096] = 512
    """Bytes that are encrypted together, ``--sector-size``; also the smallest request that the device takes."""
    discards: bool = False
    """Pass discards on to the device below, ``--allow-discards``. What was discarded reads as garbage, other
    garbage on each device, so it is refused below a mirror and a ``raid10``."""
    no_read_workqueue: bool = False
    """Decrypt where the request comes in, without a queue of the kernel's, ``--perf-no_read_workqueue``."""
    no_write_workqueue: bool = False
    """Encrypt where the request comes in, ``--perf-no_write_workqueue``."""
    same_cpu_crypt: bool = False
    """Encrypt on the CPU that the request came from, ``--perf-same_cpu_crypt``."""
    submit_from_crypt_cpus: bool = False
    """Do not sort writes in a thread of their own after they were encrypted, ``--perf-submit_from_crypt_cpus``."""

    takes: ClassVar[Kind | None] = "block"
    gives: ClassVar[Kind] = "block"
    title: ClassVar[str] = "dm-crypt"

    @property
    def garbage(self) -> Literal["fresh", "discarded"]:
        return "discarded" if self.discards else "fresh"

    @property
    def bits(self) -> int:
        """The key's size."""
        return self.key_size or KEY_SIZES[self.cipher][0]

    def problems(self, host: str, lab: Topology) -> list[tuple[str, str]]:
        """A key of a size that the cipher does not take."""
        known = KEY_SIZES[self.cipher]
        if self.key_size is None or self.key_size in known:
            return []
        _known = ", ".join(map(str, sorted(known)))
        return [("key_size", f"{self.cipher} takes a key of {_known} bits, not {self.key_size}")]

    def misplaced(self, below: Sequence[Layer]) -> list[tuple[str, str]]:
        """Over another one: a stack has one key, and one set of names."""
        return [
            ("", f"layers[{index}] encrypts the same data already; keep one of them")
            for index, layer in enumerate(below)
            if isinstance(layer, Crypt)
        ]

    def width(self, below: int) -> int:
        return below

    def holds(self, below: Sequence[int]) -> list[int]:
        """All but the header."""
        size = min(below)
        if size <= HEADER:
            has = f"{size / 2**20:,.6g} MiB"
            raise ValueError(f"needs 16 MiB for its header, but has {has} below it; make the volume larger")
        return [size - HEADER for size in below]

    def plan(self, place: Place, below: tuple[Port, ...]) -> Plan:
        """The key, the header, each device opened and given a number of ours; undone by closing it."""
        key = places.run(f"{place.stack}.key")
        steps: list[Step] = [
            mapping.module(place.host, "dm-crypt"),
            Put(place.host, key, access.SECRET, access.MODE, access.ENCRYPTION),
        ]
        facts: list[Fact] = []
        ports: list[Port] = []
        for index, port in enumerate(below):
            name = f"{place.stack}-crypt-{index}"
            opened = Port(port.host, "block", f"{mapping.FOLDER}/{name}")
            mapped, above = mapping.linear(opened, numbers.CRYPT, place.number, index)
            steps += [
                Run(port.host, self._format(key, port.where), once=True),
                Run(port.host, self._open(key, port.where, name), undo=("cryptsetup", "close", name)),
                *mapped,
            ]
            suffix = "" if len(below) == 1 else f" of {port.where}"
            facts += [
                self._fact(port, name, suffix),
                mapping.fact(above, self.tag, suffix),
            ]
            ports.append(above)
        return Plan(tuple(steps), tuple(facts), tuple(ports))

    def _format(self, key: str, device: str) -> Argv:
        return (
            "cryptsetup", "luksFormat", "--batch-mode", "--type=luks2", f"--cipher={self.cipher}",
            f"--key-size={self.bits}", f"--sector-size={self.sector_size}", "--hash=sha256", "--pbkdf=pbkdf2",
            "--pbkdf-force-iterations=1000", f"--offset={HEADER // SECTOR}", f"--key-file={key}", device,
        )  # fmt: skip

    def _open(self, key: str, device: str, name: str) -> Argv:
        flags = (option for field, option in FLAGS.items() if getattr(self, field))
        return ("cryptsetup", "open", "--type=luks2", f"--key-file={key}", *flags, device, name)

    def _fact(self, port: Port, name: str, suffix: str) -> Fact:
        wanted = {
            "type": "LUKS2",
            # Of a device-mapper's two names cryptsetup shows either.
            "device": port.where.replace("/dev/mapper/dm-", "/dev/dm-"),
            "cipher": self.cipher,
            "key size": str(self.bits),
            "sector size": str(self.sector_size),
            "integrity": "none",
            "mode": "read/write",
        }
        wanted |= {field: "yes" if getattr(self, field) else "no" for field in FLAGS}
        parse = partial(parse_status, suffix)
        ask = ("cryptsetup", "status", name)
        return Fact(port.host, self.tag, ask, parse, {f"{knob}{suffix}": value for knob, value in wanted.items()})


def parse_status(suffix: str, text: str) -> dict[str, str]:
    """``cryptsetup status`` as knob -> value; nothing of a device that is not open."""
    # /dev/mapper/one-crypt-0 is active and is in use.
    #   type:    LUKS2
    #   cipher:  aes-xts-plain64
    #   keysize: 512 bits                             2.8: 512 [bits]
    #   key location: keyring
    #   device:  /dev/ubdb
    #   sector size:  512                             2.8: 512 [bytes]
    #   offset:  32768 sectors
    #   size:    98304 sectors
    #   mode:    read/write
    #   flags:   discards no_read_workqueue           only where there are any
    #   integrity: hmac(sha256)                       only with integrity
    pairs = (line.strip().partition(":") for line in text.splitlines() if line.startswith(" "))
    said = {name: value.strip() for name, _, value in pairs}
    if not said:
        return {}
    found = {name: said.get(name, "absent") for name in ("type", "cipher", "mode")}
    found["device"] = said.get("device", "absent").replace("/dev/mapper/dm-", "/dev/dm-")
    found["key size"] = said.get("keysize", "absent").partition(" ")[0]
    # Versions before 2.0.3 do not know of others.
    found["sector size"] = said.get("sector size", "512").partition(" ")[0]
    found["integrity"] = said.get("integrity", "none")
    flags = said.get("flags", "").split()
    found |= {field: "yes" if field in flags else "no" for field in FLAGS}
    return {f"{name}{suffix}": value for name, value in found.items()}
