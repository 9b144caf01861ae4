"""Plans: a study in, steps out, compared with what was read and found right; and the parsers of the knobs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocklab.layers import drbd, filesystem, postgres
from blocklab.model.ground import LinkSpec
from blocklab.model.netem import netem
from blocklab.model.units import BitRate, Duration
from blocklab.sites.fake import FakeSite
from blocklab.study import links
from blocklab.study.grid import plan_ground, plan_stack, topology
from blocklab.study.read import build
from tests.unit.golden import FOLDER, Golden

KNOBS = FOLDER / "knobs"


@pytest.mark.parametrize("stack", ["local", "mirror"])
def test_the_plan_of_a_stack(small: dict[str, Any], golden: Golden, stack: str) -> None:
    study = build(small)
    shape = topology(study, [stack])
    ground = FakeSite().ground(shape)
    whole = plan_ground(shape, ground) + plan_stack(study, stack, 0, ground)
    facts = [{"host": fact.host, "argv": fact.argv, "wanted": dict(fact.wanted)} for fact in whole.facts]
    value = msgspec.to_builtins({"steps": whole.steps, "facts": facts, "ports": whole.ports})
    golden.check(f"plans/{stack}.json", value)


def test_two_stacks_in_one_lab_share_no_name(small: dict[str, Any]) -> None:
    small["stacks"]["other"] = small["stacks"]["mirror"]
    study = build(small)
    shape = topology(study, ["mirror", "other"])
    ground = FakeSite().ground(shape)
    plans = [plan_stack(study, name, number, ground) for number, name in enumerate(("mirror", "other"))]
    ports = [{(port.host, port.where) for port in plan.ports} for plan in plans]
    assert not ports[0] & ports[1]
    puts = [{step.path for step in plan.steps if hasattr(step, "path")} for plan in plans]
    assert puts[0] and not puts[0] & puts[1]


def test_drbdsetup_show_of_a_real_mirror() -> None:
    found = drbd.parse_show((KNOBS / "drbdsetup-show").read_text())
    assert found["net.protocol"] == "C" and found["net.max-buffers"] == "8000"
    assert found["disk.disk-flushes"] == "no" and found["disk.al-extents"] == "6433"
    assert found["disk.resync-rate"] == str(250 * 1024) and found["disk.c-fill-target"] == str(100 * 512)
    assert found["net.cram-hmac-alg"] == ""
    assert not any(name.startswith("_") or "address" in name for name in found)


@pytest.mark.parametrize(("one", "same"), [("2M", "2048k"), ("1G", "1024M"), ("100s", "51200"), ("yes", "yes")])
def test_sizes_of_drbd_have_one_spelling(one: str, same: str) -> None:
    assert drbd.canonical(one) == drbd.canonical(same)


def test_tc_of_a_real_link() -> None:
    found = links._netem((KNOBS / "tc-netem.json").read_text())
    assert found == {"limit": "100000", "delay": "500us", "jitter": "0us"}
    assert links._netem("[]") == {}


def test_netem_is_given_and_expected_in_the_same_words() -> None:
    link = LinkSpec(("a", "b"), rtt=Duration("2.7ms"), jitter=Duration("0.1ms"), rate=BitRate("100Mbit/s"))
    argv, wanted = netem(link, first=True)
    assert argv == (
        "limit",
        "100000",
        "delay",
        "2550us",
        "100us",
        "distribution",
        "normal",
        "rate",
        "100000000bit",
    )
    assert wanted == {"limit": "100000", "delay": "2550us", "jitter": "100us", "rate": "100000000bit/s"}
    assert netem(link, first=False)[0] == ("limit", "100000", "rate", "100000000bit")
    assert netem(LinkSpec(("a", "b")), first=True) == ((), {})


def test_a_ping_without_an_answer_is_said() -> None:
    assert links._rtt("10.77.1.2", "3 packets transmitted, 0 received") == {"ping": "no answer from 10.77.1.2"}


@pytest.mark.parametrize(
    ("one", "same"),
    [
        ("1GB", "1024MB"),
        ("128MB", "131072kB"),
        ("5min", "300s"),
        ("200ms", "0.2s"),
        ("yes", "on"),
        ("false", "off"),
    ],
)
def test_settings_of_postgres_have_one_spelling(one: str, same: str) -> None:
    assert postgres.canonical(one) == postgres.canonical(same)
    assert postgres.canonical("replica") == "replica"


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_a_quoted_setting_is_one_line_and_ends_where_it_should(value: str) -> None:
    text = postgres.quoted(value)
    assert text.startswith("'") and text.endswith("'") and "\n" not in text
    inner = text[1:-1].replace("\\\\", "").replace("''", "")
    assert "'" not in inner


def test_mounts() -> None:
    text = "/dev/root / ext4 ro 0 0\n/dev/drbd0 /mnt/one xfs rw,noatime,logbufs=8 0 0\n"
    found = filesystem.mounted(text, "/mnt/one")
    assert found == {
        "device": "/dev/drbd0", "type": "xfs", "mount.rw": "yes", "mount.noatime": "yes", "mount.logbufs=8": "yes",
    }  # fmt: skip
    assert filesystem.mounted(text, "/mnt/other") == {}
