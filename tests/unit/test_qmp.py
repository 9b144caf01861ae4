"""Orders to a storage daemon: a daemon that obeys, that refuses, that hangs up, and none."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from blocklab.errors import SetupError
from blocklab.model.ground import Profile, VolumeSpec
from blocklab.model.units import Size
from blocklab.sites.uml import qmp
from blocklab.sites.uml.volumes import Volume, daemon_argv

GREETING = b'{"QMP": {"version": {"qemu": {"major": 10}}, "capabilities": []}}\r\n'
DONE = b'{"return": {}}\r\n'
EVENT = b'{"event": "BLOCK_EXPORT_DELETED", "data": {"id": "export0"}}\r\n'
REFUSED = b'{"error": {"class": "GenericError", "desc": "Property \'limits\' not found"}}\r\n'


class Daemon:
    """Answers one connection, a line for a line; then it hangs up."""

    def __init__(self, line: Path, *answers: bytes) -> None:
        self.heard: list[dict[str, object]] = []
        self._answers = answers
        self._listens = socket.socket(socket.AF_UNIX)
        self._listens.bind(str(line))
        self._listens.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._listens.accept()
        with connection, connection.makefile("rwb") as stream:
            for answer in self._answers:
                stream.write(answer)
                stream.flush()
                if said := stream.readline():
                    self.heard.append(json.loads(said))

    def close(self) -> None:
        self._thread.join()
        self._listens.close()


@pytest.fixture
def line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    # A socket's whole path may have 107 letters.
    monkeypatch.chdir(tmp_path)
    yield Path("disk.qmp")


def test_a_burst_is_filled_by_its_limits_set_anew(line: Path) -> None:
    profile = Profile(Size("1GiB"), iops=100, burst_iops=3000, burst_seconds=20)
    volume = Volume(VolumeSpec("s", ("a1",), profile), Path(), Path())
    assert volume.control is not None
    daemon = Daemon(volume.control, GREETING, DONE, EVENT + DONE)
    volume.refill()
    daemon.close()
    limits = {"iops-total": 100, "iops-total-max": 3000, "iops-total-max-length": 20}
    assert daemon.heard == [
        {"execute": "qmp_capabilities", "arguments": {}},
        {"execute": "qom-set", "arguments": {"path": "/objects/group", "property": "limits", "value": limits}},
    ]
    argv = daemon_argv(Path("/daemon"), Path("/file"), None, [], profile, volume.control)
    assert argv[argv.index("--monitor") + 1] == "control"
    assert f"socket,id=control,path={volume.control},server=on,wait=off" in argv
    assert json.loads(argv[argv.index("--object") + 1])["limits"] == limits


def test_a_volume_without_a_burst_takes_no_orders() -> None:
    volume = Volume(VolumeSpec("s", ("a1",), Profile(Size("1GiB"), iops=100)), Path(), Path())
    assert volume.control is None
    volume.refill()


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ((GREETING, DONE, REFUSED), "Property 'limits' not found"),
        ((GREETING, REFUSED), "GenericError"),
        ((GREETING, DONE), "it hung up"),
        ((GREETING, DONE, b"what?\n"), "Expecting value"),
    ],
)
def test_a_daemon_that_does_not_obey_is_an_error(line: Path, answers: tuple[bytes, ...], said: str) -> None:
    daemon = Daemon(line, *answers)
    with pytest.raises(SetupError) as caught:
        qmp.order(line, "qom-set", {})
    daemon.close()
    assert "disk.qmp did not carry out qom-set" in str(caught.value) and said in str(caught.value)


def test_a_daemon_that_is_gone_is_an_error(line: Path) -> None:
    with pytest.raises(SetupError, match=r"disk\.qmp did not carry out qom-set"):
        qmp.order(line, "qom-set", {})
