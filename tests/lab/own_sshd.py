"""A real sshd on loopback for this user: the machine as hosts of its own."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.fake.dasked import free_port

CONFIG = """
Port {port}
ListenAddress 127.0.0.1
HostKey {place}/host
AuthorizedKeysFile {place}/own.pub
PidFile {place}/sshd.pid
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
PermitUserEnvironment yes
SetEnv {environment}
"""


@contextlib.contextmanager
def sshd(place: Path, environment: dict[str, str]) -> Iterator[dict[str, object]]:
    """Started in a folder, with an environment for all logins: the entry of a hosts file. ``hosts.known_hosts`` is
    written beside."""
    port = free_port()
    for name in ("host", "own"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(place / name)], check=True)
    said = " ".join(f'"{name}={text}"' for name, text in environment.items())
    (place / "sshd_config").write_text(CONFIG.format(port=port, place=place, environment=said))
    key = (place / "host.pub").read_text()
    (place / "hosts.known_hosts").write_text(f"[127.0.0.1]:{port} {key}")
    if os.geteuid() == 0:
        # The package leaves it to the service, which a machine without systemd never starts.
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    program = shutil.which("sshd", path="/usr/sbin:/usr/bin")
    assert program
    argv = [program, "-D", "-e", "-f", str(place / "sshd_config")]
    with (place / "sshd.log").open("w") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 20
        while "Server listening" not in (place / "sshd.log").read_text():
            assert process.poll() is None and time.monotonic() < deadline, (place / "sshd.log").read_text()
            time.sleep(0.05)
        yield {"address": "127.0.0.1", "user": getpass.getuser(), "port": port, "identity": str(place / "own"),
               "become": "none"}  # fmt: skip
    finally:
        process.terminate()
        process.wait(10)
