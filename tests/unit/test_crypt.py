"""dm-crypt: its plan, what a study may not ask of it, and what has to be copied where it stands below a mirror."""

from __future__ import annotations

from typing import Any

import pytest

from blocklab.errors import StudyError
from blocklab.layers import crypt
from blocklab.model import access, numbers
from blocklab.model.plan import Plan, Put, Run, again, undo_of
from blocklab.sites.fake import FakeSite
from blocklab.study.check import combined_problems
from blocklab.study.grid import plan_stack, topology
from blocklab.study.read import build
from blocklab.study.room import held
from blocklab.study.types import Study

ONE = {"layer": "volume", "size": "64MiB"}
CRYPT = {"layer": "crypt"}
DRBD = {"layer": "drbd", "peer": "a2", "link": "zone"}
NET = {"layer": "net-mirror", "peer": "a2", "link": "zone"}
RAID10 = {"layer": "raid10"}
TWO = {**ONE, "count": 2}
# What cryptsetup 2.7.5 said on a node.
STATUS = """\
/dev/mapper/one-crypt-0 is active and is in use.
  type:    LUKS2
  cipher:  aes-xts-plain64
  keysize: 512 bits
  key location: keyring
  device:  /dev/ubdb
  sector size:  512
  offset:  32768 sectors
  size:    98304 sectors
  mode:    read/write
  flags:   discards same_cpu_crypt submit_from_crypt_cpus no_read_workqueue no_write_workqueue
"""


def study_of(small: dict[str, Any], *layers: dict[str, Any]) -> Study:
    small["stacks"] = {"one": {"on": "a1", "layers": list(layers)}}
    small["baseline"] = "one"
    small["workloads"] = {"io": {**small["workloads"]["io"], "size": "16MiB"}}
    return build(small)


def planned(small: dict[str, Any], *layers: dict[str, Any]) -> Plan:
    study = study_of(small, *layers)
    return plan_stack(study, "one", 0, FakeSite().ground(topology(study, ["one"])))


def lines(plan: Plan) -> list[str]:
    return [" ".join(step.argv) for step in plan.steps if isinstance(step, Run)]


def test_what_the_system_says_of_it_is_what_the_study_set(small: dict[str, Any]) -> None:
    flags = dict.fromkeys(crypt.FLAGS, True)
    fact = next(fact for fact in planned(small, ONE, {**CRYPT, **flags}).facts if fact.argv[0] == "cryptsetup")
    assert fact.parse(STATUS) == fact.wanted
    plain = next(fact for fact in planned(small, ONE, CRYPT).facts if fact.argv[0] == "cryptsetup")
    found = plain.parse(STATUS)
    assert {name for name, value in plain.wanted.items() if found[name] != value} == set(crypt.FLAGS)
    assert plain.parse("/dev/mapper/one-crypt-0 is inactive.\n") == {}
    # A later version, integrity, a mapping below, read-only.
    text = STATUS.replace("512 bits", "256 [bits]").replace("size:  512", "size:  4096 [bytes]")
    text = text.replace("/dev/ubdb", "/dev/mapper/dm-500").replace("read/write", "readonly")
    found = crypt.parse_status("", f"{text}  integrity: hmac(sha256)\n")
    assert (found["key size"], found["sector size"], found["device"]) == ("256", "4096", "/dev/dm-500")
    assert (found["integrity"], found["mode"]) == ("hmac(sha256)", "readonly")


def test_no_command_has_the_key_and_nothing_is_formatted_again(small: dict[str, Any]) -> None:
    plan = planned(small, TWO, CRYPT, {"layer": "stripe"})
    (put,) = (step for step in plan.steps if isinstance(step, Put))
    assert (put.text, put.mode, put.secret) == (access.SECRET, 0o600, access.ENCRYPTION)
    assert undo_of(put) == ("rm", "-f", put.path)
    assert not any(access.SECRET in line for line in lines(plan))
    assert sum("luksFormat" in line for line in lines(plan)) == 2
    over = Plan(again(plan.steps))
    assert not any("luksFormat" in line for line in lines(over)) and put in over.steps
    assert sum(line.startswith("cryptsetup open ") for line in lines(over)) == 2
    # By the kernel's own names, which a stripe and the probes find them by.
    names = [numbers.CRYPT.path(0, index) for index in range(2)]
    assert names == ["/dev/mapper/dm-10000", "/dev/mapper/dm-10001"] and any(
        line.endswith(" ".join(names)) for line in lines(over)
    )


@pytest.mark.parametrize(
    ("layers", "path", "said"),
    [
        ([ONE, {**CRYPT, "cipher": "rot13"}], "layers[1].cipher", "aes-xts-plain64"),
        ([ONE, {**CRYPT, "cipher": "capi:xts(aes)-plain64"}], "layers[1].cipher", "enum"),
        ([ONE, {**CRYPT, "key_size": 384}], "layers[1].key_size", "takes a key of 256, 512 bits, not 384"),
        ([ONE, {**CRYPT, "key_size": 0}], "layers[1].key_size", "not 0"),
        ([ONE, {**CRYPT, "cipher": "aes-cbc-plain64", "key_size": 512}], "layers[1].key_size", "128, 192, 256"),
        ([ONE, {**CRYPT, "sector_size": 8192}], "layers[1].sector_size", "enum"),
        ([ONE, {**CRYPT, "key": "secret"}], "layers[1].key", "unknown field"),
        ([ONE, CRYPT, CRYPT], "layers[2]", "layers[1] encrypts the same data already"),
        ([ONE, CRYPT, DRBD, CRYPT], "layers[3]", "layers[1] encrypts the same data already"),
        ([ONE, {**CRYPT, "discards": True}, DRBD], "layers[2]", "layers[1] (crypt) passes discards on"),
        ([ONE, {**CRYPT, "discards": True}, NET], "layers[2]", "set its discards to false"),
        ([TWO, {**CRYPT, "discards": True}, RAID10], "layers[2]", "would not stay the same"),
        (
            [ONE, CRYPT, {"layer": "ext4", "mkfs": ["-E", "assume_storage_prezeroed=1"]}],
            "layers[2].mkfs[1]",
            "wrong over crypt",
        ),
        ([ONE, CRYPT, {"layer": "fragile"}], "layers[2]", "put it directly on the volume"),
    ],
)
def test_each_mistake_has_its_place_and_what_to_do(
    small: dict[str, Any], layers: list[dict[str, Any]], path: str, said: str
) -> None:
    with pytest.raises(StudyError) as caught:
        study_of(small, *layers)
    assert caught.value.path == f"stacks.one.{path}" and said in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize(
    "layers",
    [
        [ONE, {**CRYPT, "discards": True}, {"layer": "ext4"}],
        [ONE, DRBD, {**CRYPT, "discards": True}],
        [ONE, {"layer": "ext4", "mkfs": ["-E", "assume_storage_prezeroed=1"]}],
        [ONE, {"layer": "shared", "peer": "a2"}, CRYPT],
        [ONE, {"layer": "fragile"}, CRYPT],
        [TWO, CRYPT, {"layer": "cap", "read_iops": 5}, {"layer": "stripe"}],
    ],
)
def test_what_is_well(small: dict[str, Any], layers: list[dict[str, Any]]) -> None:
    assert list(combined_problems(study_of(small, *layers))) == []


@pytest.mark.parametrize(
    ("layers", "has"),
    [([{**ONE, "size": "16MiB"}, CRYPT], "16 MiB"), ([{**ONE, "size": "16MiB"}, DRBD, CRYPT], "15.9609 MiB")],
)
def test_a_device_that_is_too_small_for_the_header(
    small: dict[str, Any], layers: list[dict[str, Any]], has: str
) -> None:
    said = [problem for _, problem in combined_problems(study_of(small, *layers))]
    assert any(f"needs 16 MiB for its header, but has {has} below it" in problem for problem in said)


def test_what_is_left_for_data(small: dict[str, Any]) -> None:
    assert held(study_of(small, ONE, CRYPT).stacks["one"].layers) == 48 * 2**20
    assert held(study_of(small, TWO, CRYPT, {"layer": "stripe"}).stacks["one"].layers) == 96 * 2**20 - 2 * 8192


# -- below what keeps copies ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("below", "mirror", "equal", "copy"),
    [
        ([ONE], DRBD, "--clear-bitmap", "drbdadm primary --force one"),
        ([ONE], NET, "--assume-clean", "net_mirror.py copied /dev/md300"),
        ([TWO], RAID10, "--assume-clean", "net_mirror.py copied /dev/md0"),
    ],
)
def test_copies_over_garbage_are_made_the_same_before_anything_is_measured(
    small: dict[str, Any], below: list[dict[str, Any]], mirror: dict[str, Any], equal: str, copy: str
) -> None:
    zero, garbage = (lines(planned(small, *below, *between, mirror)) for between in ([], [CRYPT]))
    assert any(equal in line for line in zero) and not any(copy in line for line in zero)
    assert not any(equal in line for line in garbage) and any(copy in line for line in garbage)
    if mirror is not RAID10:
        # The garbage is below it, whatever stands between.
        stripe = {"layer": "stripe"}
        assert any(copy in line for line in lines(planned(small, TWO, CRYPT, stripe, mirror)))
        # Above it, it does not matter.
        assert any(equal in line for line in lines(planned(small, *below, mirror, CRYPT)))
    # Over its data nothing is copied again.
    over = lines(Plan(again(planned(small, *below, CRYPT, mirror).steps)))
    assert not any("copied" in line or "hurry" in line or equal in line for line in over)


def test_a_rate_of_the_studys_own_is_kept(small: dict[str, Any]) -> None:
    slow = {**DRBD, "disk": {"c-max-rate": "1M"}}
    assert any("hurry" in line for line in lines(planned(small, ONE, CRYPT, DRBD)))
    assert not any("hurry" in line for line in lines(planned(small, ONE, CRYPT, slow)))
