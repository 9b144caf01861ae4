"""Plans: a study in, steps out, compared with what was read and found right; and the parsers of the knobs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocklab.layers import drbd, drbd_options, filesystem, postgres, postgres_settings
from blocklab.model.dialect import Value
from blocklab.model.ground import LinkSpec
from blocklab.model.netem import netem
from blocklab.model.stack_map import Took
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


def test_the_generation_of_a_real_mirror() -> None:
    text = (KNOBS / "drbdadm-get-gi").read_text()
    generation = drbd.parse_generation(text)["data generation"]
    assert len(generation) == 16 and int(generation, 16) and text.startswith(f"{generation}:")
    assert drbd.parse_generation("\n") == {}


@pytest.mark.parametrize(("one", "same"), [("2M", "2048k"), ("1G", "1024M"), ("100s", "51200"), ("yes", "yes")])
def test_sizes_of_drbd_have_one_spelling(one: str, same: str) -> None:
    assert drbd_options.canonical(one) == drbd_options.canonical(same)


def test_bare_numbers_of_drbd_have_its_units(small: dict[str, Any]) -> None:
    layer = small["stacks"]["mirror"]["layers"][1]
    layer["disk"] = {"resync-rate": 250, "c-max-rate": 102400, "c-min-rate": 300, "c-fill-target": 100}
    layer["net"] = {"max-buffers": 8000, "congestion-fill": 0}
    study = build(small)
    ground = FakeSite().ground(topology(study, ["mirror"]))
    facts = plan_stack(study, "mirror", 0, ground).facts
    fact = next(fact for fact in facts if fact.argv[0] == "drbdsetup")
    found = fact.parse((KNOBS / "drbdsetup-show").read_text())
    wrong = {name for name, value in fact.wanted.items() if found.get(name, "absent") != value}
    # The sample has no c-min-rate.
    assert wrong == {"disk.c-min-rate"} and fact.wanted["disk.c-min-rate"] == str(300 * 1024)


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
        "2700us",
        "100us",
        "distribution",
        "normal",
        "rate",
        "100000000bit",
    )
    assert wanted == {"limit": "100000", "delay": "2700us", "jitter": "100us", "rate": "100000000bit/s"}
    # A rate keeps packets in order, which jitter would change.
    shaken = msgspec.structs.replace(link, rate=None)
    assert netem(shaken, first=True)[1] == {**wanted, "rate": "1000000000000bit/s"}
    assert netem(shaken, first=False) == ((), {})
    assert "1us 100us distribution normal" in " ".join(netem(shaken, first=True, delay=0.0)[0])
    # tc keeps whole bytes, and shows no delay where there is none.
    odd = LinkSpec(("a", "b"), rtt=Duration("0.1ms"), rate=BitRate("33.3kbit/s"))
    shown = '[{"kind": "netem", "options": {"limit": 100000, "rate": {"rate": 4162}}}]'
    assert netem(odd, first=True, delay=0.0)[1].items() <= links._netem(shown).items()
    assert netem(link, first=False)[0] == ("limit", "100000", "rate", "100000000bit")
    assert netem(LinkSpec(("a", "b")), first=True) == ((), {})


def test_pings_are_read_in_seconds_and_those_without_an_answer_tell_nothing() -> None:
    lines = [
        f"4104 bytes from 10.77.1.2: icmp_seq={n} ttl=64 time={ms} ms" for n, ms in ((1, "0.604"), (3, "20.1"))
    ]
    found = {name: float(value) for name, value in links._rtt(4, "\n".join(lines)).items() if value != "None"}
    assert found == pytest.approx(
        {"least": 0.604e-3, "median": 10.352e-3, "mean": 10.352e-3, "most": 20.1e-3, "lost": 0.5}
    )
    assert links._rtt(3, "3 packets transmitted, 0 received") == {}


def test_the_interval_of_a_median_holds_its_ranks() -> None:
    found = Took.of([n / 1e3 for n in range(1, 101)], 100)
    # Ranks 41 and 61 of 100, counted from 1: Conover gives 40 to 61.
    assert (found.low, found.median, found.high) == (0.041, 0.0505, 0.061)
    assert Took.of([1.0, 2.0], 2).low is None


@pytest.mark.parametrize(
    ("text", "unit", "amount"),
    [
        ("1GB", "kB", 2**20), ("128MB", "8kB", 16384), ("5min", "s", 300), ("200ms", "s", 0.2),
        ("0.3GB", "MB", 307),
        ("16384", "8kB", 16384), ("0x80", "", 128), ("2000us", "ms", 2),
    ],
)  # fmt: skip
def test_sizes_and_times_of_postgres_are_read_in_the_unit_of_the_parameter(
    text: str, unit: str, amount: float
) -> None:
    assert postgres_settings.amount(text, unit) == amount


@pytest.mark.parametrize(("text", "unit"), [("5min", "kB"), ("1MB", ""), ("much", "MB")])
def test_a_unit_that_a_parameter_of_postgres_does_not_have_is_no_amount(text: str, unit: str) -> None:
    with pytest.raises(ValueError, match=r"has no unit|is not a number"):
        postgres_settings.amount(text, unit)


@pytest.mark.parametrize(
    ("name", "value", "same"),
    [
        ("checkpoint_timeout", 300, True),
        ("checkpoint_timeout", "300s", True),
        ("checkpoint_timeout", 5, False),
        ("work_mem", 4096, True),
        ("work_mem", 4194304, False),
        ("shared_buffers", 4096, True),
        ("shared_buffers", "32MB", True),
        ("shared_buffers", "33MB", False),
        ("random_page_cost", 1.0, True),
        ("random_page_cost", 1.1, False),
        ("cpu_tuple_cost", "0.0123456789", True),
        ("vacuum_cost_delay", "2000us", True),
        ("fsync", 1, True),
        ("fsync", "TRUE", True),
        ("fsync", False, False),
        ("synchronous_commit", "ON", True),
        ("synchronous_commit", "local", False),
        ("wal_compression", "yes", True),
        ("wal_compression", "lz4", False),
        ("wal_level", "hot_standby", True),
        ("wal_level", "minimal", False),
        ("wal_buffers", -1, True),
        ("wal_buffers", "16MB", False),
        ("transaction_buffers", 0, True),
        ("client_encoding", "utf8", True),
        ("timezone", "utc", True),
        ("timezone", "CET", False),
        ("log_min_messages", "debug", True),
    ],
)
def test_a_setting_of_postgres_is_in_force_or_not(name: str, value: Value, same: bool) -> None:
    fact = postgres.Postgres(settings={name: value})._fact("a1", "postgresql://x")
    found = fact.parse((KNOBS / "postgres-settings.json").read_text())
    assert (found[name] == fact.wanted[name]) is same


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_a_quoted_setting_is_one_line_and_ends_where_it_should(value: str) -> None:
    text = postgres.quoted(value)
    assert text.startswith("'") and text.endswith("'") and "\n" not in text
    inner = text[1:-1].replace("\\\\", "").replace("''", "")
    assert "'" not in inner


@pytest.mark.parametrize(
    ("mkfs", "made"),
    [
        ((), ("-E", "nodiscard,lazy_itable_init=0")),
        (("-b", "1024"), ("-E", "nodiscard,lazy_itable_init=0", "-b", "1024")),
        (
            ("-E", "stride=16", "-b", "1024", "-Ediscard"),
            ("-E", "nodiscard,lazy_itable_init=0,stride=16,discard", "-b", "1024"),
        ),
        # mke2fs refuses it.
        (("-E",), ("-E", "nodiscard,lazy_itable_init=0", "-E")),
    ],
)
def test_extended_options_of_mke2fs_are_given_once(mkfs: tuple[str, ...], made: tuple[str, ...]) -> None:
    assert filesystem.Ext4(mkfs=mkfs).make() == ("-F", *made)


def test_mounts() -> None:
    text = "/dev/root / ext4 ro 0 0\n/dev/drbd0 /mnt/one xfs rw,noatime,logbufs=8 0 0\n"
    found = filesystem.mounted(text, "/mnt/one")
    assert found == {
        "device": "/dev/drbd0", "type": "xfs", "mount.rw": "yes", "mount.noatime": "yes", "mount.logbufs=8": "yes",
    }  # fmt: skip
    assert filesystem.mounted(text, "/mnt/other") == {}
