"""``--dask hosts.yaml``: Dask over a real sshd, with certificates of its own, on this machine as two hosts."""

from __future__ import annotations

import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.fake.dasked import (
    Cluster,
    ended,
    environment,
    events,
    finished,
    folder_of,
    measuring,
    nothing_is_left,
    until,
    written,
)
from tests.lab.own_sshd import sshd

pytestmark = pytest.mark.skipif(
    shutil.which("sshd", path="/usr/sbin:/usr/bin") is None, reason="this machine has no sshd"
)


@pytest.fixture
def cluster(tmp_path: Path, small: dict[str, Any]) -> Iterator[Cluster]:
    """No process yet: a place with a study, and hosts.yaml with the hosts h1 and h2."""
    with (
        sshd(tmp_path, environment(tmp_path, "h1")) as entry,
        Cluster(written(tmp_path, small, repeats=2)) as made,
    ):
        program = tmp_path / "blocklab"
        # As another user's login would find it: a program of its own environment.
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m blocklab.cli.main "$@"\n')
        program.chmod(0o755)
        entry["blocklab"] = str(program)
        YAML().dump({"hosts": {"h1": entry, "h2": entry}}, tmp_path / "hosts.yaml")
        yield made


def left_over(place: Path) -> list[str]:
    """Processes of Dask or of sshd's sessions that know this test's folder or a certificate."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = process.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if "--tls-ca-file" in line or " leashed" in line:
            found.append(line)
    return found


def go(cluster: Cluster, *options: str) -> Any:
    return cluster.blocklab(
        "run", "study.yaml", "--site", "fake", "--runs", "runs", "--dask", "hosts.yaml", *options
    )


def test_scheduler_and_workers_are_started_with_tls_and_ended(cluster: Cluster) -> None:
    ended(go(cluster, "--events", "events.jsonl"))
    assert len(finished(folder_of(cluster))) == 4
    said = events(cluster.place / "events.jsonl")
    assert {event["worker"] for event in said if event["event"] == "worker"} == {"h1", "h2"}
    (scheduler,) = (event["address"] for event in said if event["event"] == "scheduler")
    assert scheduler.startswith("tls://127.0.0.1:")
    until(lambda: not left_over(cluster.place), 30)
    nothing_is_left(cluster)
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", int(scheduler.rsplit(":", 1)[1])), 5)


@pytest.mark.long
def test_who_has_no_certificate_gets_nowhere(cluster: Cluster) -> None:
    cluster.seconds = 1.0
    process = go(cluster, "--events", "events.jsonl")
    file = cluster.place / "events.jsonl"
    until(lambda: file.exists() and '"unit"' in file.read_text())
    address = next(event["address"] for event in events(file) if event["event"] == "scheduler")
    port = address.rsplit(":", 1)[1]
    said = ended(cluster.blocklab("resume", "runs/small"), 1)
    assert "another blocklab measures for" in said
    (cluster.place / "more").mkdir()
    plain = cluster.blocklab(
        "run", "study.yaml", "--site", "fake", "--runs", "more", "--dask", f"tcp://127.0.0.1:{port}"
    )
    assert "no scheduler answers at" in ended(plain, 1)
    ended(process)
    until(lambda: not left_over(cluster.place), 30)


@pytest.mark.long
def test_a_controller_that_is_killed_takes_the_hosts_processes_with_it(cluster: Cluster) -> None:
    process = go(cluster)
    until(lambda: cluster.begun())
    process.kill()
    process.communicate()
    until(lambda: not left_over(cluster.place) and not measuring(cluster), 60)
    ended(cluster.blocklab("resume", "--runs", "runs"))
    assert len(finished(folder_of(cluster))) == 4


def test_hosts_without_blocklab_are_named(cluster: Cluster) -> None:
    for name, says in (("none", "h1: it has no none"), ("/bin/false", "h1: ")):
        hosts = YAML().load((cluster.place / "hosts.yaml").read_text())
        for entry in hosts["hosts"].values():
            entry["blocklab"] = name
        YAML().dump(hosts, cluster.place / "hosts.yaml")
        said = ended(go(cluster), 1)
        assert f"error: {says}" in said and "Traceback" not in said
    assert not cluster.begun()
