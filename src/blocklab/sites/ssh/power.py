"""The power of real hosts, for drills: only what the hosts file allows, and never a shutdown that passes for a
cut."""

from __future__ import annotations

import contextlib
import subprocess
import time

from blocklab.errors import BlocklabError, HostError, KnobError, NodeLost, SetupError
from blocklab.model import places
from blocklab.model.host import must
from blocklab.sites.ssh.host import SshHost
from blocklab.sites.ssh.hosts import PowerEntry

# A cloud takes a minute or two to stop an instance by force.
OFF_SECONDS = 300.0
# A server's firmware takes its time.
BOOT_SECONDS = 900.0
COMMAND_SECONDS = 120.0
LOOK_SECONDS = 1.0
# A kernel that takes sysrq b does not answer.
GONE_SECONDS = 2.0
ORDERLY = f"{places.STATE}/orderly"


def allowed(host: SshHost) -> bool:
    """Whether the hosts file lets drills end it."""
    return host.entry.power is not None or host.entry.crash


def end(host: SshHost) -> str:
    """End a host at once: by its power command, or else by sysrq; its boot id. Gone on return. Raises
    ``SetupError`` where that is not allowed, or it goes on."""
    if not allowed(host):
        raise SetupError(
            f"{host.name} may not be crashed",
            hint=f"hosts.{host.name}: `crash: true` lets drills reset it (sysrq b), `power:` has commands",
        )
    boot = boot_id(host)
    if host.entry.power is not None:
        _cut(host, host.entry.power)
    else:
        host.channel.expected.set()
        with contextlib.suppress(HostError):
            must(host, host.verb("write", "/proc/sys/kernel/sysrq", "1"))
            host.run(host.verb("write", "/proc/sysrq-trigger", "b"), timeout=GONE_SECONDS)
            raise SetupError(f"{host.name} goes on after sysrq b", hint="is sysrq disabled in its kernel?")
    host.channel.expected.set()
    host.channel.fail(NodeLost(host.name, "crashed on purpose"))
    host.channel.close()
    return boot


def _cut(host: SshHost, power: PowerEntry) -> None:
    """Run the command, and its check until that says so."""
    host.channel.expected.set()
    _local(host, "off", power.off)
    until = time.monotonic() + OFF_SECONDS
    while power.is_off not in [line.strip() for line in _local(host, "check", power.check).splitlines()]:
        if time.monotonic() > until:
            raise SetupError(
                f"{host.name} is not off {OFF_SECONDS:g} s after its power command, as power.check says",
                hint=f"does it print {power.is_off!r} when the host is off?",
            )
        time.sleep(LOOK_SECONDS)


def _local(host: SshHost, what: str, argv: tuple[str, ...]) -> str:
    """Run a power command of this machine; what it printed. Raises ``SetupError``."""
    at = f"hosts.{host.name}.power.{what}"
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=COMMAND_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"{at}: {error}", hint="try the command by hand") from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise SetupError(f"{at}: exit code {done.returncode}: {said}", hint="try the command by hand")
    return done.stdout.decode(errors="replace")


def wake(host: SshHost, boot: str) -> SshHost:
    """The host after its next boot, connected. ``boot``: the id of the one that ended. Raises ``NodeLost`` where
    it does not come up, ``KnobError`` where it had ended by a shutdown, ``SetupError`` where it had not ended at
    all."""
    if host.entry.power is not None and host.entry.power.on:
        _local(host, "on", host.entry.power.on)
    until = time.monotonic() + BOOT_SECONDS
    while True:
        try:
            new = host.again()
            break
        except BlocklabError as error:
            if time.monotonic() > until:
                raise NodeLost(host.name, f"it is not back after {BOOT_SECONDS:g} s: {error.message}") from error
        time.sleep(LOOK_SECONDS)
    try:
        if boot_id(new) == boot:
            raise SetupError(
                f"{host.name} was not booted again: it never was off", hint="is power.off the right command?"
            )
        told = host.channel.orderly.is_set()
        with contextlib.suppress(FileNotFoundError):
            told = told or new.get(ORDERLY).decode().strip() == boot
        if told:
            raise orderly(host.name)
    except BlocklabError:
        new.close()
        raise
    return new


def orderly(name: str) -> KnobError:
    """Of a host that ended otherwise than it should have: it wrote everything back, so its drill is invalid."""
    return KnobError(
        name, "its end", "a power cut", "a shutdown in good order",
        hint="power.off has to cut it off (ipmitool chassis power off, stop-instances --force)",
    )  # fmt: skip


def boot_id(host: SshHost) -> str:
    """The kernel's id of this boot."""
    return must(host, ("cat", "/proc/sys/kernel/random/boot_id")).strip()
