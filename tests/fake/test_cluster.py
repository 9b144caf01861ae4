"""A study over Dask's own workers on loopback, whose labs are fake: what is real there is everything else."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from blocklab.cli.events import public
from blocklab.cluster import over_ssh
from blocklab.cluster.certificates import certificates
from blocklab.cluster.control import Controller, Running, Worker
from blocklab.cluster.endpoint import Endpoint
from blocklab.cluster.far import About
from blocklab.cluster.scheduler import opened
from blocklab.errors import SetupError
from blocklab.runner.events import AnyEvent, Warned
from blocklab.store.folder import Manifest, StudyFolder, Workers
from blocklab.study.grid import cells
from blocklab.study.read import read
from blocklab.study.units import by_layout, units
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
from tests.fake.leashes import LocalHost, answers_http, family, ports, running


@pytest.fixture
def place(tmp_path: Path, small: dict[str, Any]) -> Path:
    """With a study of three repeats of two cells."""
    return written(tmp_path, small, repeats=3)


@pytest.fixture
def cluster(place: Path) -> Iterator[Cluster]:
    with Cluster(place) as started:
        started.scheduler()
        yield started


def run(cluster: Cluster, *options: str) -> subprocess.Popen[str]:
    return cluster.blocklab(
        "run", "study.yaml", "--site", "fake", "--runs", "runs", "--dask", cluster.address, *options
    )


def by_workers(
    cluster: Cluster, *, split: bool = False, site: str = "fake", mixed: str = "refuse"
) -> tuple[int, Counter[str]]:
    """The study without a command line and a report: how many cells did not end well, and the events by name."""
    file = cluster.place / "study.yaml"
    study = read(file)
    grid = cells(study)
    study, grid, todo = by_layout(study, grid, grid) if split else (study, grid, grid)
    workers, keys = Workers(cluster.address, mixed), tuple(cell.key for cell in todo)
    manifest = Manifest(study, grid, seed=1, site=site, workers=workers, todo=keys)
    folder = StudyFolder.create(cluster.place / "runs", manifest, file)
    told: list[AnyEvent] = []
    with opened(workers) as place:
        bad = Controller(folder, place, told.append).run(folder.missing(todo))
    return bad, Counter(public(event)["event"] for event in told)


def test_each_repeat_is_of_one_machine_and_none_is_measured_twice(cluster: Cluster) -> None:
    cluster.seconds = 0.2
    cluster.worker("w1")
    cluster.worker("w2")
    ended(run(cluster, "--events", "events.jsonl"))
    folder = folder_of(cluster)
    machines = finished(folder)
    grid = folder.manifest().cells
    assert len(machines) == len(grid) == 6
    assert len({(cell.repeat, machines[cell.key]) for cell in grid}) == 3
    assert set(machines.values()) == {"w1", "w2"}
    assert Counter(key for _, key in cluster.begun()) == Counter(cell.key for cell in grid)
    nothing_is_left(cluster)
    said = events(cluster.place / "events.jsonl")
    kinds = Counter(event["event"] for event in said)
    assert kinds["worker"] == 2 and kinds["unit"] == kinds["kept"] == 3 and kinds["done"] == 6
    assert {event["worker"] for event in said if event["event"] == "done"} == {"w1", "w2"}
    # A second call finds nothing to do, and asks nobody.
    assert "finished: all 6 cells" in ended(run(cluster))


def test_what_a_unit_told_before_it_ended_is_told(place: Path) -> None:
    """Also where its end is seen while another unit's runs are fetched."""
    study = read(place / "study.yaml")
    grid, told = cells(study), list[AnyEvent]()
    folder = StudyFolder.create(place / "runs", Manifest(study, grid, workers=Workers("tcp://127.0.0.1:1")))
    controller = Controller(folder, Endpoint("tcp://127.0.0.1:1"), told.append)
    unit, over = units(grid)[0], SimpleNamespace(status="finished")
    worker = Worker("tcp://127.0.0.1:2", "w1", "one", About("", "", 0, {}, "", (), 0.0))
    controller._known[worker.address] = worker
    controller._running["unit"] = running = Running(unit, (), worker, cast(Any, over), 0.0)
    controller._event((0.0, msgspec.json.encode(Warned("late", worker=worker.address, unit="unit"))))
    assert list(controller._ended()) == [running]
    assert told == [Warned("late", worker="w1", unit="repeat 1")]


def test_a_failed_load_is_stored_once_and_not_tried_elsewhere(cluster: Cluster) -> None:
    cluster.failing = "mirror"
    cluster.worker("w1")
    cluster.worker("w2")
    bad, told = by_workers(cluster)
    assert bad == 3 and "lost" not in told
    assert max(Counter(key for _, key in cluster.begun()).values()) == 1
    assert len(finished(folder_of(cluster))) == 3
    nothing_is_left(cluster)


def test_a_machine_that_fails_by_itself_twice_is_left_out_and_named(cluster: Cluster) -> None:
    # Where a folder has to be made there is a file: as on a full disk, nothing can be written.
    (cluster.place / "cache-bad").write_text("")
    cluster.worker("bad")
    with pytest.raises(SetupError, match=r"left out: bad \(.*Not a directory") as caught:
        by_workers(cluster)
    assert "blocklab resume goes on" in str(caught.value)
    cluster.worker("good")
    until(lambda: "Registered to" in (cluster.place / "good.log").read_text())
    bad, told = by_workers(cluster)
    assert bad == 0 and told["left out"] <= 1
    assert set(finished(folder_of(cluster)).values()) == {"good"}


def test_split_by_layout_each_has_a_baseline_of_its_own(tmp_path: Path, small: dict[str, Any]) -> None:
    small["stacks"]["third"] = small["stacks"]["mirror"]
    with Cluster(written(tmp_path, small, repeats=2)) as cluster:
        cluster.scheduler()
        cluster.worker("w1")
        cluster.worker("w2")
        assert by_workers(cluster, split=True)[0] == 0
        folder = folder_of(cluster)
        machines = finished(folder)
        done = [cell for cell in folder.manifest().cells if cell.key in machines]
        assert Counter(cell.stack for cell in done) == {"local": 4, "mirror": 2, "third": 2}
        for cell in done:
            beside = [each for each in done if each.repeat == cell.repeat]
            assert len(beside) == 2 and len({machines[each.key] for each in beside}) == 1
        nothing_is_left(cluster)


def test_a_killed_worker_goes_on_where_it_was(cluster: Cluster) -> None:
    cluster.seconds = 0.2
    cluster.worker("w1")

    def kill() -> None:
        # In the middle of a repeat: its first cell is stored there, its second is begun.
        until(lambda: len(cluster.begun()) >= 2)
        cluster.kill("w1")
        until(lambda: not measuring(cluster), 30)
        cluster.worker("w1")

    killer = threading.Thread(target=kill)
    killer.start()
    bad, told = by_workers(cluster)
    killer.join()
    assert bad == 0 and told["lost"] == 1
    begun = Counter(key for _, key in cluster.begun())
    # Only what was under way is measured again.
    assert sum(begun.values()) == 7 and len(begun) == 6
    nothing_is_left(cluster)


def test_a_controller_that_is_killed_or_stopped_leaves_nothing_running(cluster: Cluster) -> None:
    cluster.seconds = 0.2
    cluster.worker("w1")
    for number, end in enumerate((signal.SIGKILL, signal.SIGINT)):
        process = run(cluster) if number == 0 else cluster.blocklab("resume", "--runs", "runs")
        before = len(cluster.begun())
        until(lambda before=before: len(cluster.begun()) > before)  # type: ignore[misc]
        process.send_signal(end)
        said = ended(process, -9 if end == signal.SIGKILL else 130)
        assert end == signal.SIGKILL or "nothing is left running" in said
        until(lambda: not measuring(cluster), 30)
    ended(cluster.blocklab("resume", "--runs", "runs"))
    assert len(finished(folder_of(cluster))) == 6
    nothing_is_left(cluster)


@pytest.mark.long
def test_what_another_machine_began_is_measured_whole_where_it_cannot_go_on(cluster: Cluster) -> None:
    """A ratio never has one side here and the other there."""
    cluster.worker("w1")
    by_workers(cluster)
    folder = folder_of(cluster)
    cell = folder.manifest().cells[0]
    lost = folder.cells / cell.key / "result.json"
    lost.write_text(lost.read_text().replace('"ok"', '"failed"'))
    cluster.kill("w1")
    cluster.worker("w2")
    by_workers(cluster)
    machines = finished(folder)
    assert len(machines) == 6
    grid = folder.manifest().cells
    assert {machines[each.key] for each in grid if each.repeat == cell.repeat} == {"w2"}
    assert {machines[each.key] for each in grid if each.repeat != cell.repeat} == {"w1"}


def healthy(cluster: Cluster) -> list[str]:
    """The workers that have stored something since they lost something."""
    last: dict[str, str] = {}
    file = cluster.place / "events.jsonl"
    for line in file.read_text().splitlines() if file.exists() else ():
        # The last line may be half written.
        if line.endswith("}") and (event := json.loads(line))["event"] in ("kept", "lost"):
            last[event["worker"]] = event["event"]
    return [name for name in ("w1", "w2", "w3") if last.get(name) != "lost"]


def kills(cluster: Cluster, count: int) -> None:
    """Kill workers, the scheduler or the controller, so many times at random moments, and start them again."""
    names = ["w1", "w2", "w3"]
    for name in names:
        cluster.worker(name)
    moments = random.Random(5)
    process, kept = run(cluster, "--events", "events.jsonl"), dict[str, str]()
    for _ in range(count):
        # Most of what happens in between: a unit takes about 1.5 s here.
        time.sleep(moments.uniform(0.5, 3))
        # A machine that fails twice in a row would be left out.
        victim = moments.choice([*healthy(cluster), "scheduler", "controller"])
        if process.poll() is not None:
            break
        if victim == "controller":
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            begun = (folder_of(cluster).path / "study.json").exists()
            again = cluster.blocklab("resume", "--runs", "runs", "--events", "events.jsonl") if begun else None
            process = again or run(cluster, "--events", "events.jsonl")
        elif victim == "scheduler":
            cluster.kill("scheduler")
            cluster.scheduler()
            for name in names:
                # They end by themselves when it is gone.
                cluster.worker(name)
        else:
            cluster.kill(victim)
            cluster.worker(victim)
        folder = folder_of(cluster)
        now = finished(folder) if (folder.path / "study.json").exists() else {}
        # What was finished stays, as it was.
        assert {key: now.get(key) for key in kept} == kept
        kept = now
    ended(process, seconds=300)
    machines = finished(folder_of(cluster))
    grid = folder_of(cluster).manifest().cells
    assert len(machines) == len(grid)
    assert len({(cell.repeat, machines[cell.key]) for cell in grid}) == len({cell.repeat for cell in grid})
    until(lambda: not measuring(cluster), 30)
    assert not list(folder_of(cluster).cells.glob(".*"))


@pytest.mark.long
def test_kills_at_random_moments_lose_nothing(tmp_path: Path, small: dict[str, Any]) -> None:
    with Cluster(written(tmp_path, small, repeats=12), seconds=0.1) as cluster:
        cluster.scheduler()
        kills(cluster, 4)


@pytest.mark.long
def test_twenty_kills_at_random_moments_lose_nothing(tmp_path: Path, small: dict[str, Any]) -> None:
    with Cluster(written(tmp_path, small, repeats=60), seconds=0.1) as cluster:
        cluster.scheduler()
        kills(cluster, 20)


# -- refused before anything starts --------------------------------------------------------------------------


def test_a_worker_without_the_resource_or_of_another_version_is_refused(cluster: Cluster) -> None:
    cluster.worker("plain", "one", "--resources", "other=1")
    with pytest.raises(SetupError, match="it has no resource lab: start it with --resources lab=1"):
        by_workers(cluster)
    old = cluster.place / "old" / "blocklab-0.0.1.dist-info"
    old.mkdir(parents=True)
    (old / "METADATA").write_text("Metadata-Version: 2.1\nName: blocklab\nVersion: 0.0.1\n")
    cluster.first = str(old.parent)
    cluster.kill("plain")
    cluster.worker("old")
    with pytest.raises(SetupError, match=r"it has blocklab 0\.0\.1, and this is "):
        by_workers(cluster)
    assert not cluster.begun()


def test_what_dask_is_not_given_together_with(place: Path) -> None:
    with Cluster(place) as cluster:
        said = ended(cluster.blocklab("run", "study.yaml", "--dask", cluster.address, "--hosts", "hosts.yaml"), 2)
        assert "--dask and --hosts: which one?" in said
        said = ended(run(cluster), 1)
        assert f"no scheduler answers at {cluster.address}" in said and "Traceback" not in said


def test_a_study_that_the_workers_site_cannot_give_is_refused(cluster: Cluster) -> None:
    cluster.worker("w1")
    with pytest.raises(SetupError, match=r"no worker can measure this study: .*--site none: no such site"):
        by_workers(cluster, site="none")


@pytest.mark.long
def test_machines_with_another_image_are_refused_unless_they_are_kept_apart(cluster: Cluster) -> None:
    cluster.seconds = 0.2
    for name in ("w1", "w2"):
        cluster.image = f"image of {name}"
        cluster.worker(name)
        until(lambda name=name: "Registered to" in (cluster.place / f"{name}.log").read_text())  # type: ignore[misc]
    bad, told = by_workers(cluster)
    assert bad == 0 and told["refused"] == told["worker"] == 1
    assert len(set(finished(folder_of(cluster)).values())) == 1
    shutil.rmtree(folder_of(cluster).path)
    bad, told = by_workers(cluster, mixed="apart")
    assert bad == 0 and "refused" not in told
    assert set(finished(folder_of(cluster)).values()) == {"w1", "w2"}


@pytest.mark.long
def test_a_scheduler_with_tls_takes_those_who_have_a_certificate(place: Path) -> None:
    made = certificates()
    for name, text in made.files().items():
        (place / name).write_text(text)
    prefix = "DASK_DISTRIBUTED__COMM__TLS__"
    security = {f"{prefix}CA_FILE": str(place / "ca")}
    for side in ("SCHEDULER", "WORKER", "CLIENT"):
        security |= {f"{prefix}{side}__CERT": str(place / "cert"), f"{prefix}{side}__KEY": str(place / "key")}
    with Cluster(place, security=security) as cluster:
        cluster.scheduler()
        cluster.worker("w1")
        cluster.security = {}
        said = ended(cluster.blocklab("run", "study.yaml", "--dask", f"tls://127.0.0.1:{cluster.port}"), 2)
        assert "there are no certificates for TLS" in said
        said = ended(cluster.blocklab("run", "study.yaml", "--dask", f"tcp://127.0.0.1:{cluster.port}"), 1)
        assert "no scheduler answers at" in said
        cluster.security = security
        ended(run(cluster))
        assert len(finished(folder_of(cluster))) == 6


def test_nothing_of_dask_that_is_started_over_ssh_listens_without_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = [LocalHost(name, environment(tmp_path, name)) for name in ("h1", "h2")]
    monkeypatch.setattr(over_ssh, "leashable", lambda _: hosts)
    with over_ssh.started(tmp_path / "hosts.yaml") as place:
        processes = {pid for host in hosts for leash in host.leashes for pid in family(leash.process.pid)}
        listening = {found for pid in processes for found in ports(pid)}
        # The scheduler, two workers and their nannies: a port each, by TLS.
        assert len({port for _, port in listening}) == 5
        assert int(place.address.rsplit(":", 1)[1]) in {port for _, port in listening}
        assert not [found for found in listening if answers_http(*found)]
    until(lambda: not any(running(pid) for pid in processes), 30)


def test_dasks_own_scheduler_does_listen_without_tls(cluster: Cluster) -> None:
    """Or the test above proves nothing: it is started with --no-dashboard."""
    found = ports(cluster.processes["scheduler"].pid)
    assert [port for address, port in found if port != cluster.port and answers_http(address, port)]
