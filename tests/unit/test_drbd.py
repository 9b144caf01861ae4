"""DRBD 8.4 and 9: what each says of itself, and what blocklab asks of either on a host."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from blocklab.layers import drbd
from blocklab.layers.drbd_pair import LOST, STATE
from blocklab.model.plan import Put, Run
from blocklab.sites.fake import FakeSite
from blocklab.study.grid import plan_stack, topology
from blocklab.study.read import build
from blocklab.study.takeover import failed_over, rejoin
from blocklab_node import drbd as follower
from blocklab_node.drbd import devices
from tests.unit.golden import FOLDER

GOLDEN = FOLDER / "drbd9"
# What real drivers said; not part of the repository.
SAMPLES = Path(__file__).parents[2].parent / "shared" / "data" / "drbd9"


def eight(cs: str, disks: str, oos: int = 0) -> str:
    """/proc/drbd of 8.4."""
    return (
        "version: 8.4.11 (api:1/proto:86-101)\nsrcversion: DA6B55A41DED5E58CDBAB30 \n"
        f" 0: cs:{cs} ro:Primary/{'Unknown' if cs == 'WFConnection' else 'Secondary'} ds:{disks} C r-----\n"
        f"    ns:0 nr:0 dw:0 dr:0 al:8 bm:0 lo:0 pe:0 ua:0 ap:0 ep:1 wo:d oos:{oos}\n"
    )


def nine(cs: str, disks: str, oos: int = 0) -> str:
    """The same of 9."""
    own, other = disks.split("/")
    away = {"WFConnection": "Connecting", "StandAlone": "StandAlone"}
    (resource, *_) = json.loads((GOLDEN / "status.json").read_text())
    resource["devices"][0] |= {"minor": 0, "disk-state": own}
    (link,) = resource["connections"]
    link |= {"connection-state": away.get(cs, "Connected"), "peer-role": "Unknown" if cs in away else "Secondary"}
    copied = "Off" if cs in away else "Established" if cs == "Connected" else cs
    link["peer_devices"][0] |= {"replication-state": copied, "peer-disk-state": other, "out-of-sync": oos}
    return f"version: 9.3.3\n{json.dumps([resource], indent=2)}\n"


# -- the readers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("says", [eight, nine])
@pytest.mark.parametrize(
    ("cs", "shown"), [("Connected", "Connected"), ("SyncSource", "SyncSource"), ("WFConnection", "Connecting")]
)
def test_both_drivers_say_the_same_in_one_model(says: Any, cs: str, shown: str) -> None:
    found = devices(says(cs, "UpToDate/Inconsistent", 420))[0]
    assert (found.role, found.cs, found.ds) == ("Primary", shown, "UpToDate/Inconsistent")
    assert found.counters["out-of-sync"] == 420
    assert found.counters.keys() - {"epochs"} == {*follower._OWN, *follower._SHARED}


def test_a_status_of_drbd_9() -> None:
    """Made after real output: a resync; and of two peers one that is lost."""
    found = devices(f"version: 9.3.3\n{(GOLDEN / 'status.json').read_text()}")
    assert (found[3].role, found[3].disk) == ("Primary", "UpToDate")
    assert [vars(peer) for peer in found[3].peers] == [
        {"cs": "SyncSource", "role": "Secondary", "disk": "Inconsistent"}
    ]
    assert found[3].counters == {
        "written": 143360, "read": 2048, "al-writes": 12, "bm-writes": 8, "lower-pending": 2,
        "upper-pending": 1, "sent": 2048, "received": 0, "pending": 3, "unacked": 8, "out-of-sync": 50176,
    }  # fmt: skip
    assert (found[4].cs, found[4].ds) == ("Connecting", "UpToDate/DUnknown/UpToDate")
    assert found[4].counters["sent"] == 61572 + 61568
    assert devices("version: 9.3.3\n[\n]\n") == {}


def test_what_show_says_of_drbd_9() -> None:
    found = drbd.parse_show((GOLDEN / "show").read_text())
    assert found == {
        "options.cpu-mask": "", "options.auto-promote": "no", "options.peer-ack-window": str(4096 * 512),
        "options.quorum": "majority", "options.on-no-quorum": "io-error", "disk.size": "0",
        "disk.disk-flushes": "no", "disk.al-extents": "6433", "net.transport": "", "net.protocol": "C",
        "net.max-buffers": "8000", "net.congestion-fill": "0", "disk.resync-rate": str(10240 * 1024),
        "disk.c-fill-target": str(200 * 512), "disk.bitmap": "yes",
    }  # fmt: skip


def test_what_real_drivers_said() -> None:
    """All samples of status, show and generation are read, and say what the drivers' other commands say."""
    if not SAMPLES.is_dir():
        pytest.skip(f"real output of DRBD 9 is not part of the repository, and {SAMPLES.parent.name} has none")
    old, new = SAMPLES / "84", SAMPLES / "9"
    (device, *_) = devices((old / "proc-drbd.txt").read_text().partition("Linux ")[0]).values()
    assert device.cs == (old / "drbdadm_cstate_m.txt").read_text().strip()
    assert device.ds == (old / "drbdadm_dstate_m.txt").read_text().strip()
    for name, cs, ds in (
        ("status_--json.txt", "Connected", "UpToDate/UpToDate"),
        ("three_status_--json_--verbose_--statistics.txt", "Connected", "UpToDate/UpToDate/UpToDate"),
        ("quorum_loss_a1.json", "Connecting", "UpToDate/DUnknown/DUnknown"),
        ("verify-status.json", "VerifyS", "UpToDate/UpToDate"),
    ):
        (device,) = devices(f"version: 9.3.3\n{(new / name).read_text()}").values()
        assert (device.cs, device.ds) == (cs, ds), name
    for side in (old, new):
        shown = drbd.parse_show((side / "show_m_--show-defaults.txt").read_text())
        assert (shown["net.protocol"], shown["disk.al-extents"], shown["disk.disk-flushes"]) == ("C", "6433", "no")
        assert drbd.parse_generation((side / "drbdadm_get-gi_m.txt").read_text())[drbd.GENERATION]


def test_the_monitor_follows_a_connection_of_either_driver() -> None:
    start = "connection name:m peer-node-id:0 conn-name:"
    for line, state in (
        (f"exists {start}peer connection:Connected role:Primary", "Connected"),
        (
            f"change {start}a2 connection:NetworkFailure role:Unknown ap-in-flight:8 rs-in-flight:0",
            "NetworkFailure",
        ),
        (f"change {start}a2 connection:Connecting", "Connecting"),
    ):
        match = re.match(STATE, line)
        assert match and match[1] == state and (state in LOST) == (state != "Connected")


# -- the resource file ------------------------------------------------------------------------------------------


def test_the_resource_file_has_the_same_ids_whoever_is_active(small: dict[str, Any]) -> None:
    small["stacks"]["mirror"]["layers"][1]["options"] = {"on-no-data-accessible": "io-error"}
    study = build(small)
    ground = FakeSite().ground(topology(study, ["mirror"]))
    built = plan_stack(study, "mirror", 0, ground).steps
    back = rejoin(failed_over(study, "mirror"), "mirror", 0, ground)
    texts = [step.text for step in (*built, *back) if isinstance(step, Put) and step.path.endswith("mirror.res")]
    ids = {tuple(sorted(re.findall(r"on (\w+) \{\n    node-id (\d); # DRBD 9\n", text))) for text in texts}
    assert len(texts) == 3 and ids == {(("a1", "0"), ("a2", "1"))} and len(set(texts)) == 2
    assert "    auto-promote no; # DRBD 9\n    on-no-data-accessible io-error;\n" in texts[0]
    # The file is there before the driver that strikes out what it does not know, and before any that reads it.
    kinds = ["put" if isinstance(step, Put) else step.argv[-3:] for step in built
             if isinstance(step, Put | Run) and step.host == "a2" and "mirror" in str(step)][:3]  # fmt: skip
    assert kinds == ["put", ("fit", "0", "mirror"), ("create-md", "--force", "mirror")]


# -- the program on a host --------------------------------------------------------------------------------------


class Node:
    """A node's DRBD program: what the driver says, text after text, each 50 ms later; and what it runs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *says: str) -> None:
        self.now = 0.0
        self.ran: list[tuple[str, ...]] = []
        self.log: list[str] = []
        left = list(says)
        clock = SimpleNamespace(monotonic=lambda: self.now, sleep=self._sleep)
        seen = {
            "seen": lambda: left.pop(0) if len(left) > 1 else left[0],
            "driver": lambda: left[0].split()[1],
            "since_mark": lambda minor: self.log,
            "called": lambda *argv: self.ran.append(argv),
        }
        for name, value in {**seen, "time": clock}.items():
            monkeypatch.setattr(follower, name, value)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def told(self, what: str) -> None:
        """A command."""
        follower.main(["drbd.py", what, "0", "one"])


@pytest.mark.parametrize("says", [eight, nine])
class TestOnEither:
    """Everything below, whichever the driver."""

    @pytest.mark.parametrize("disks", ["Diskless/UpToDate", "UpToDate/Diskless", "Inconsistent/UpToDate"])
    def test_nobody_waits_an_hour_for_a_side_without_its_disk(
        self, says: Any, disks: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        node = Node(monkeypatch, says("Connected", disks))
        with pytest.raises(SystemExit, match=f"drbd0 is connected, and its disks stay {disks}"):
            node.told("joined")
        assert node.now < 60

    def test_a_copy_may_take_its_time(self, says: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        copied, idle = says("SyncSource", "UpToDate/Inconsistent"), says("Connected", "UpToDate/Inconsistent")
        done = says("Connected", "UpToDate/UpToDate")
        node = Node(monkeypatch, *[idle] * 20, *[copied] * 4000, *[idle] * 20, done)
        node.told("joined")
        assert node.now > 3 * follower.CONNECT_SECONDS

    def test_only_a_disk_that_was_given_up_is_taken_back(self, says: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        attach = ("drbdadm", "attach", "one")
        for disks, ran in (("Diskless/UpToDate", [attach]), ("UpToDate/Diskless", []), ("UpToDate/UpToDate", [])):
            node = Node(monkeypatch, says("Connected", disks))
            node.told("attached")
            assert node.ran == ran

    def test_a_side_that_was_refused_says_why(self, says: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        node = Node(monkeypatch, says("StandAlone", "UpToDate/DUnknown"))
        node.log = ["drbd one: conn( Connecting -> Disconnecting )"]
        with pytest.raises(SystemExit, match=r"drbd0 is StandAlone: the other node was refused\ndrbd one: conn"):
            node.told("joined")
        for line in (
            "block drbd0: Split-Brain detected but unresolved, dropping connection!",
            "drbd one/0 drbd0 a2: Split-Brain detected but unresolved, dropping connection!",
        ):
            node.log = [line.replace("drbd0", "drbd01"), line]
            with pytest.raises(SystemExit, match=f"^split brain: {line}$"):
                node.told("joined")

    def test_both_sides_know_each_other_or_it_fails(self, says: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        alone, copied = says("WFConnection", "UpToDate/DUnknown"), says("SyncSource", "UpToDate/Inconsistent")
        node = Node(monkeypatch, *[alone] * 30, copied)
        node.told("connected")
        assert 1 < node.now < 2
        with pytest.raises(SystemExit, match="did not connect in 40 s; this one is Connecting"):
            Node(monkeypatch, alone).told("connected")

    def test_what_differs_is_told_after_the_verification(
        self, says: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        verify, done = says("VerifyS", "UpToDate/UpToDate"), says("Connected", "UpToDate/UpToDate", 12)
        node = Node(monkeypatch, *[verify] * 50, done)
        node.told("verified")
        node.told("differ")
        assert node.now > 2 and capsys.readouterr().out == f"{12 * 1024}\n"
        node = Node(monkeypatch, verify, says("WFConnection", "UpToDate/DUnknown"))
        with pytest.raises(SystemExit, match="the comparison did not end, the connection did: Connecting"):
            node.told("verified")

    def test_it_hurries_by_the_options_that_the_driver_has(
        self, says: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        node = Node(monkeypatch, says("Connected", "UpToDate/UpToDate"))
        node.told("hurry")
        kind = "disk-options" if says is eight else "peer-device-options"
        assert node.ran == [("drbdadm", kind, *follower.QUICKLY, "one")]
