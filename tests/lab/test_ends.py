"""Whatever happens to blocklab, nothing of it is left: processes, sockets, files."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from ruamel.yaml import YAML

from blocklab.model.ground import LinkSpec, NodeSpec, Profile, Topology, VolumeSpec
from blocklab.model.host import must
from blocklab.model.units import Duration, Size
from blocklab.sites.uml import image
from blocklab.sites.uml.processes import PREFIX, sweep
from blocklab.sites.uml.site import UmlSite
from tests.lab.conftest import leftovers

BLOCKLAB = [sys.executable, "-m", "blocklab.cli.main"]
GONE_SECONDS = 30.0


@pytest.fixture
def study(small: dict[str, Any], tmp_path: Path) -> Path:
    """A study whose mirror has every kind of process: nodes, servers of volumes."""
    small["stacks"].pop("local")
    small["baseline"] = "mirror"
    layers = small["stacks"]["mirror"]["layers"]
    layers[0] |= {"read_latency": "300us", "write_latency": "300us", "iops": 3000}
    # A database would only take time.
    assert layers.pop()["layer"] == "postgres"
    small["workloads"] = {
        "io": {**small["workloads"]["io"], "options": {"direct": 1, "runtime": 60, "time_based": True}}
    }
    file = tmp_path / "study.yaml"
    YAML().dump(small, file)
    return file


def wait_until(what: Any, seconds: float, why: str) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, why
        time.sleep(0.05)


def under_load(process: subprocess.Popen[bytes], runs: Path) -> bool:
    assert process.poll() is None, "blocklab ended by itself"
    return any(runs.glob("*/cells/.*/raw/workload/stdout"))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_nothing_outlives_blocklab(study: Path, tmp_path: Path, number: signal.Signals) -> None:
    runs = tmp_path / "runs"
    before = leftovers()
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([*BLOCKLAB, "run", str(study), "--runs", str(runs)], stdout=log, stderr=log)
    try:
        wait_until(lambda: under_load(process, runs), 60, "no workload was started")
        there = leftovers()
        for kind in ("janitor.py", "umid=a1", "umid=a2", "blocklab-volume"):
            assert any(kind in each for each in there), kind
        process.send_signal(number)
        assert process.wait(90) == (130 if number == signal.SIGINT else -number)
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: leftovers() == before, GONE_SECONDS, f"left: {leftovers()}")
    if number == signal.SIGINT:
        assert b"nothing is left running" in (tmp_path / "log").read_bytes()
    assert not list(runs.glob("*/cells/[0-9a-f]*")), "half a cell must not look like a run"


def test_a_start_that_fails_leaves_nothing() -> None:
    before = leftovers()
    broken = Topology(
        {"a1": NodeSpec(memory=Size("1GiB"))}, {}, (VolumeSpec("x", ("a1",), Profile(size=Size("16TiB"))),)
    )
    with pytest.raises(Exception, match="memory"):
        UmlSite().start(broken)
    assert leftovers() == before


def test_what_a_lost_machine_left_is_swept_at_the_next_start(tmp_path: Path) -> None:
    orphan = tmp_path / f"{PREFIX}orphan"
    orphan.mkdir()
    (orphan / "janitor").write_text("4194304")  # above the highest process id that Linux gives
    (orphan / "big.img").write_text("x")
    mine = tmp_path / f"{PREFIX}not-a-lab"
    mine.mkdir()
    sweep(tmp_path)
    assert not orphan.exists() and mine.exists()


def pair() -> Topology:
    return Topology(
        {"a1": NodeSpec(memory=Size("256MiB")), "a2": NodeSpec(memory=Size("256MiB"))},
        {"zone": LinkSpec(("a1", "a2"), rtt=Duration("0ms"))}, (),
    )  # fmt: skip


@pytest.mark.parametrize("with_shim", [True, False])
def test_nodes_work_with_the_shim_and_without_it(with_shim: bool) -> None:
    """The fallback is honest: the same node, and the environment says that there was no shim.

    What the shim buys is a matter of time, so ``bench/shim.py`` measures it.
    """
    found = image.require()
    if with_shim and found.shim is None:
        pytest.skip("the image was built without a C compiler")
    used = found if with_shim else msgspec.structs.replace(found, shim=None)
    site = UmlSite(image=used)
    assert site.environment()["shim"] is with_shim
    lab = site.start(pair())
    try:
        maps = Path(f"/proc/{lab.nodes['a1'].process.pid}/maps").read_text()
        assert ("umlidle" in maps) is with_shim
        for number, name in enumerate(("a1", "a2"), 1):
            must(lab.hosts[name], ["ip", "link", "set", "vec0", "up"])
            must(lab.hosts[name], ["ip", "addr", "add", f"10.77.1.{number}/24", "dev", "vec0"])
        # With -w it goes on until twenty were answered, and fails otherwise: one answer may be late.
        must(lab.hosts["a1"], ["ping", "-q", "-c", "20", "-i", "0.01", "-w", "30", "10.77.1.2"])
    finally:
        lab.close()


def test_up_sh_down(study: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}

    def call(*argv: str, input: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*BLOCKLAB, *argv], env=environment, capture_output=True, text=True, timeout=90, input=input
        )

    before = leftovers()
    nothing = call("sh", "a1", "true")
    assert nothing.returncode == 1 and "no lab is running" in nothing.stderr
    try:
        up = call("up", str(study), "--stack", "mirror")
        assert up.returncode == 0, up.stderr
        assert "running: mirror on a1, a2" in up.stdout
        assert call("sh", "a1", "drbdadm", "dstate", "mirror").stdout == "UpToDate/UpToDate\n"
        assert call("sh", "a2", "--", "hostname", "--short").stdout == "a2\n"
        assert call("sh", "a1", "sh", "-c", "echo bad >&2; exit 3").returncode == 3
        assert call("sh", "a1", "sort", input="b\na\n").stdout == "a\nb\n"
        typed(environment)
        wrong = call("sh", "zz", "true")
        assert wrong.returncode == 1 and "the nodes are a1, a2" in wrong.stderr
        twice = call("up", str(study), "--stack", "mirror")
        assert twice.returncode == 1 and "running already" in twice.stderr
    finally:
        down = call("down")
    assert down.returncode == 0 and "nothing is left running" in down.stdout
    assert leftovers() == before
    assert call("down").returncode == 1


def typed(environment: dict[str, str]) -> None:
    """``blocklab sh NODE`` as somebody at a keyboard sees it."""
    pid, master = pty.fork()
    if pid == 0:
        os.execve(sys.executable, [*BLOCKLAB, "sh", "a1"], environment)
    shown = talk(master, [b"stty size; tty; echo mount-$(grep -c /mnt/mirror /proc/mounts)\n", b"exit 7\n"])
    _, status = os.waitpid(pid, 0)
    os.close(master)
    assert os.waitstatus_to_exitcode(status) == 7
    assert "mount-1" in shown and "/dev/pts/" in shown


def talk(master: int, lines: list[bytes], seconds: float = 20.0) -> str:
    """Type each line once a prompt is there; everything that was shown until the other side closed."""
    shown, deadline = b"", time.monotonic() + seconds
    prompts = 0
    while time.monotonic() < deadline:
        ready, _, _ = select.select([master], [], [], 0.1)
        if ready:
            try:
                data = os.read(master, 4096)
            except OSError:
                break
            shown += data
        if lines and shown.count(b"# ") > prompts:
            prompts = shown.count(b"# ")
            os.write(master, lines.pop(0))
    else:
        pytest.fail(f"the shell did not end; it showed {shown!r}")
    return shown.decode(errors="replace")
