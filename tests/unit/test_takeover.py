"""Takeovers: a study in, steps out, compared with what was read and found right."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from blocklab.errors import StudyError
from blocklab.layers import net_mirror
from blocklab.model.ground import Ground, Topology
from blocklab.model.plan import Put, Run, Step, undo_of
from blocklab.sites.fake import FakeSite
from blocklab.study.grid import clients, plan_stack, topology
from blocklab.study.read import build
from blocklab.study.takeover import (
    comparison,
    failed_over,
    ground_steps,
    rejoin,
    restart,
    revive,
    split_brain,
    survivors_of,
    takeover,
)
from blocklab.study.types import Study
from tests.unit.golden import Golden

VOLUME = {"layer": "volume", "size": "512MiB"}
DRBD = {"layer": "drbd", "peer": "a2", "link": "zone"}
NET = {"layer": "net-mirror", "peer": "a2", "link": "zone"}
SHARED = {"layer": "shared", "peer": "a2"}
XFS = {"layer": "xfs"}
CRYPT = {"layer": "crypt"}

STACKS: dict[str, list[dict[str, Any]]] = {
    "drbd-postgres": [{**VOLUME, "count": 2}, {"layer": "stripe"}, DRBD, {"layer": "ext4"}, {"layer": "postgres"}],
    "shared-postgres": [{**VOLUME, "count": 2}, SHARED, {"layer": "stripe"}, XFS, {"layer": "postgres"}],
    "net-mirror-mariadb": [VOLUME, NET, XFS, {"layer": "mariadb"}],
    "drbd-crypt-postgres": [VOLUME, DRBD, CRYPT, XFS, {"layer": "postgres"}],
    "crypt-net-mirror-mariadb": [VOLUME, CRYPT, NET, XFS, {"layer": "mariadb"}],
}


def study_of(small: dict[str, Any], layers: list[dict[str, Any]], **more: Any) -> Study:
    small["stacks"] = {"one": {"on": "a1", "layers": layers}}
    small["baseline"] = "one"
    small["workloads"] = {"io": {**small["workloads"]["io"], "size": "16MiB"}}
    return build(small | more)


def stood(study: Study) -> tuple[Topology, Ground]:
    shape = topology(study, ["one"])
    return shape, FakeSite().ground(shape)


def plain(steps: Any) -> Any:
    """Steps as data."""
    return msgspec.to_builtins(steps)


@pytest.mark.parametrize("name", STACKS)
def test_the_takeover_of_a_stack(small: dict[str, Any], golden: Golden, name: str) -> None:
    study = study_of(small, STACKS[name])
    shape, ground = stood(study)
    recipe = takeover(study, "one", 3, ground)
    after = failed_over(study, "one")
    compare = comparison(after, "one", 3, ground)
    golden.check(f"takeovers/{name}.json", {
        "survivor": recipe.survivor, "old": recipe.old,
        **{stage.name: plain(stage.steps) for stage in recipe.stages},
        "facts": [{"argv": fact.argv, "wanted": dict(fact.wanted)} for fact in recipe.plan.facts],
        "ports": msgspec.to_builtins(recipe.plan.ports),
        "ground": plain(ground_steps(shape, ground, "a1")),
        "revive": plain(revive(after, "one", 3, ground, "a1")),
        "rejoin": plain(rejoin(after, "one", 3, ground)),
        "split_brain": msgspec.to_builtins(split_brain(after, "one", 3, ground)),
        "settle": plain(compare.settle) if compare else None,
        "copies": compare and dict(compare.copies),
        "verify": plain(compare.verify) if compare else None,
        "differ": compare and compare.differ,
        **{f"restart: {stage.name}": plain(stage.steps) for stage in restart(study, "one", 3, ground)},
    })  # fmt: skip


@pytest.mark.parametrize("name", STACKS)
def test_what_a_takeover_asks_and_does_is_on_the_survivor(small: dict[str, Any], name: str) -> None:
    study = study_of(small, STACKS[name])
    shape, ground = stood(study)
    recipe = takeover(study, "one", 0, ground)
    assert (recipe.survivor, recipe.old) == ("a2", "a1")
    assert [stage.name for stage in recipe.stages] == ["promotion", "mount", "recovery"]
    steps = [step for stage in recipe.stages for step in stage.steps]
    assert {step.host for step in steps} == {fact.host for fact in recipe.plan.facts} == {"a2"}
    assert not any(isinstance(step, Run) and step.once for step in steps)
    made = {step.argv for step in plan_stack(study, "one", 0, ground).steps if isinstance(step, Run) and step.once}
    assert made and not made & {step.argv for step in steps if isinstance(step, Run)}
    # The same things as on the old node, elsewhere.
    before = plan_stack(study, "one", 0, ground).ports
    assert [(port.kind, port.where) for port in recipe.plan.ports] == [(port.kind, port.where) for port in before]
    assert {port.host for port in recipe.plan.ports} == {"a2"}
    assert all(step.host == "a1" for step in ground_steps(shape, ground, "a1"))
    # And back again.
    back = takeover(failed_over(study, "one"), "one", 0, ground)
    assert (back.survivor, back.old) == ("a1", "a2") and failed_over(failed_over(study, "one"), "one") == study


@pytest.mark.parametrize("layers", [[VOLUME, XFS], [VOLUME, {**DRBD, "standalone": True}, XFS]])
def test_a_stack_without_a_survivor(small: dict[str, Any], layers: list[dict[str, Any]]) -> None:
    study = study_of(small, layers)
    _, ground = stood(study)
    assert survivors_of(study.stacks["one"]) == ()
    for what in (lambda: failed_over(study, "one"), lambda: takeover(study, "one", 0, ground)):
        with pytest.raises(ValueError, match="the stack one is on a1 alone"):
            what()
    assert rejoin(study, "one", 0, ground) == () and comparison(study, "one", 0, ground) is None
    names = [stage.name for stage in restart(study, "one", 0, ground)]
    assert names == ["promotion", "mount", *(["resync"] if len(layers) == 3 else [])]


def test_a_disk_without_a_mirror_starts_over_its_data(small: dict[str, Any]) -> None:
    study = build(small)
    ground = FakeSite().ground(topology(study, ["local"]))
    stages = restart(study, "local", 0, ground)
    assert [stage.name for stage in stages] == ["promotion", "mount", "recovery"]
    assert not any(isinstance(step, Run) and step.argv[0].startswith("mkfs") for step in stages[1].steps)
    assert split_brain(study, "local", 0, ground) is None and revive(study, "local", 0, ground, "a1")


def test_a_verification_uses_the_studys_own_algorithm(small: dict[str, Any]) -> None:
    for net, count in (({}, 1), ({"verify-alg": "sha1"}, 0)):
        study = study_of(small, [VOLUME, {**DRBD, "net": net}])
        compare = comparison(study, "one", 0, stood(study)[1])
        assert compare is not None
        chosen = [step for step in compare.verify if isinstance(step, Run) and "net-options" in step.argv]
        assert len(chosen) == count


def test_every_started_thing_is_stopped_again(small: dict[str, Any]) -> None:
    for layers in STACKS.values():
        study = study_of(small, layers)
        _, ground = stood(study)
        steps: list[Step] = [step for stage in takeover(study, "one", 0, ground).stages for step in stage.steps]
        steps += rejoin(failed_over(study, "one"), "one", 0, ground)
        started = {"mount", "primary", "--assemble", "nbd-client", "nbd-server", "up", "start"}
        for step in steps:
            # The options are adjusted, too, once it is up.
            if isinstance(step, Run) and started & set(step.argv) and not {"leave", "--stop"} & set(step.argv):
                assert undo_of(step), step.argv
        up = [step for step in steps if isinstance(step, Run) and "adjust" in step.argv]
        assert not up or (up[0].host == "a1" and up[0].undo)


def test_the_legs_are_told_by_their_devices_after_they_changed_places() -> None:
    text = (
        "             State : active\n     Intent Bitmap : Internal\n"
        "       2      43        0        0      active sync writemostly   /dev/nbd0\n"
        "       1      98       16        1      active sync   /dev/ubdb\n"
    )
    assert net_mirror.parse_detail(text) == {
        "state": "clean", "local leg": "active sync", "remote leg": "active sync writemostly",
        "bitmap": "Internal",
    }  # fmt: skip


# -- the client of a drill --------------------------------------------------------------------------------------


@pytest.fixture
def drilled(small: dict[str, Any]) -> dict[str, Any]:
    """A study whose workload is drilled, from a node of its own, over one link."""
    small["faults"] = {"kill": {"fault": "crash", "at": "4s"}}
    small["nodes"]["c1"] = {"memory": "256MiB"}
    small["links"]["client"] = {"between": ["c1", "a1"]}
    small["stacks"] = {"mirror": small["stacks"]["mirror"]}
    small["baseline"] = "mirror"
    small["workloads"] = {"tx": {"workload": "ledger", "from": "c1"}}
    return small


def test_the_client_of_a_drill_needs_a_link_to_the_survivor(drilled: dict[str, Any]) -> None:
    with pytest.raises(StudyError, match=r"workloads\.tx\.from: the ledger's node c1 needs a link to a2, which"):
        build(drilled)
    drilled["links"]["other"] = {"between": ["a2", "c1"]}
    study = build(drilled)
    shape = topology(study, ["mirror"])
    assert {"client", "other"} <= set(shape.links)
    ground = FakeSite().ground(shape)
    ends = ground.ends
    here, there = (tuple((ends[name][host].address,) for host in (at, "c1")) for name, at in
                   (("client", "a1"), ("other", "a2")))  # fmt: skip
    assert clients(study, "mirror", ground) == here
    assert clients(failed_over(study, "mirror"), "mirror", ground) == there
    configs = [step.text for stage in takeover(study, "mirror", 0, ground).stages for step in stage.steps
               if isinstance(step, Put) and step.path.endswith("server.conf")]  # fmt: skip
    assert len(configs) == 1 and ends["other"]["a2"].address in configs[0]


def test_a_load_that_is_not_drilled_needs_no_other_link(drilled: dict[str, Any]) -> None:
    drilled["links"]["other"] = {"between": ["a2", "c1"]}
    assert "other" in topology(build(drilled), ["mirror"]).links
    drilled["faults"] = {}
    assert "other" not in topology(build(drilled), ["mirror"]).links
