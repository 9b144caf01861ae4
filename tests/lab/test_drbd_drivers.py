"""The driver of nodes: modules of one's own in the image, and what both of DRBD's parsers say of a resource file.

No DRBD 9 is needed for it: drbd-utils reads a resource file for the driver that it is told of.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from blocklab.errors import CommandError, ImageError
from blocklab.model.host import must
from blocklab.model.plan import Put, Run
from blocklab.runner.run import standing
from blocklab.sites.uml import environment, image, recipe, rootfs
from blocklab.sites.uml.site import UmlSite
from blocklab.study.grid import plan_stack, topology
from blocklab.study.read import build
from blocklab.study.takeover import comparison, rejoin
from blocklab.study.types import Study
from blocklab_node.drbd import NEWER, QUICKLY

KERNEL_MODULES = "/usr/lib/uml/modules"


def mirror(small: dict[str, Any], **more: Any) -> Study:
    layer = {"layer": "drbd", "peer": "a2", "link": "zone", "net": {"max-buffers": 8000}, **more}
    small["stacks"] = {"one": {"on": "a1", "layers": [{"layer": "volume", "size": "64MiB"}, layer]}}
    small["baseline"] = "one"
    small["workloads"] = {"io": small["workloads"]["io"]}
    return build(small)


def test_one_resource_file_is_taken_by_both_drivers(small: dict[str, Any]) -> None:
    study = mirror(small, disk={"c-max-rate": "1G", "al-extents": 6433})
    with standing(UmlSite(), study, ["one"]) as stand:
        host = stand.lab.hosts["a1"]
        knobs = {knob.name: knob.value for knob in stand.engine.ask(stand.facts["one"])}
        assert knobs["driver"].startswith("8.4.")
        steps = plan_stack(study, "one", 0, UmlSite().ground(topology(study, ["one"]))).steps
        text = next(step.text for step in steps if isinstance(step, Put))
        known = must(host, ["cat", "/etc/drbd.d/one.res"])
        assert known == "".join(line for line in text.splitlines(keepends=True) if NEWER not in line) != text
        host.put("/run/new.res", text.encode())
        nine = ["env", "DRBD_DRIVER_VERSION_OVERRIDE=9.3.3", "drbdadm", "--config-file=/run/new.res"]
        dump = must(host, [*nine, "dump", "one"])
        assert "auto-promote      no;" in dump and "node-id 0;" in dump and "node-id 1;" in dump
        # Each command that is run on either driver is one for 9 too; what it would do is shown.
        compared = comparison(study, "one", 0, UmlSite().ground(topology(study, ["one"])))
        back = rejoin(study, "one", 0, UmlSite().ground(topology(study, ["one"])))
        runs = [
            step
            for step in (*steps, *back, *(compared.settle + compared.verify if compared else ()))
            if isinstance(step, Run)
        ]
        asked = {argv[1:] for step in runs for argv in (step.argv, step.undo) if argv[:1] == ("drbdadm",)}
        assert len(asked) > 8
        asked |= {("get-gi", "one"), ("disconnect", "--force", "one"), ("peer-device-options", *QUICKLY, "one")}
        shown = "".join(must(host, [*nine, "--dry-run", *argv]) for argv in sorted(asked))
        for words in ("new-resource one 0 --auto-promote=no", "peer-device-options one 1 0 --c-max-rate=1G",
                      "new-current-uuid 0 --clear-bitmap", "verify one 1 0", "disconnect one 1 --force",
                      "create-md 1 --force"):  # fmt: skip
            assert words in shown
        # 8.4 would stop at the first thing that it does not know.
        old = host.run(["drbdadm", "--config-file=/run/new.res", "dump", "one"])
        assert old.code and "auto-promote" in old.said


def test_an_option_that_the_driver_lacks_ends_the_build_with_its_version(small: dict[str, Any]) -> None:
    study = mirror(small, options={"quorum": "majority", "on-no-quorum": "io-error"})
    with pytest.raises(CommandError) as caught, standing(UmlSite(), study, ["one"]):
        pass
    said = str(caught.value)
    assert "the driver here is DRBD 8.4." in said and "but got 'quorum'" in said


def debugfs(disk: Path, request: str) -> str:
    argv = ["debugfs", "-R", request, str(disk)]
    return subprocess.run(argv, capture_output=True, text=True, env=rootfs.environment(), check=True).stdout


@pytest.mark.long
def test_a_node_loads_modules_of_ones_own(
    small: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's own DRBD, given back to it as somebody else's."""
    real = image.require()
    # /4642/040755/0/0/7.2.7//
    release = next(
        row.split("/")[5] for row in debugfs(real.rootfs, f"ls -p {KERNEL_MODULES}").split() if row[-3:] != ".//"
    )
    own = tmp_path / "own"
    own.mkdir()
    drbd = own / "drbd.ko"
    debugfs(real.rootfs, f"dump {KERNEL_MODULES}/{release}/kernel/drivers/block/drbd/drbd.ko {drbd}")
    # A cache of its own: modules are in every image that is made with it.
    cache = tmp_path / "cache"
    for name, keys in (("bases", [recipe.base_key()]), ("parts", map(recipe.part_key, recipe.PARTS))):
        (cache / name).mkdir(parents=True)
        for key in keys:
            (cache / name / key).symlink_to(real.folder.parent.parent / name / key)
    monkeypatch.setenv("BLOCKLAB_CACHE", str(cache))
    mine = image.build(lambda _: None, own=str(own))
    assert environment.environment(mine)["modules"] == mine.modules and list(mine.modules) == ["drbd.ko"]
    checked = subprocess.run(["e2fsck", "-fn", mine.rootfs], capture_output=True, env=rootfs.environment())
    assert checked.returncode == 0, checked.stdout
    with standing(UmlSite(), mirror(small), ["one"]) as stand:
        for host in stand.lab.hosts.values():
            assert must(host, ["modinfo", "-n", "drbd"]).strip() == f"/lib/modules/{release}/updates/drbd.ko"
    other = b"9" + release.encode()[1:]
    drbd.write_bytes(drbd.read_bytes().replace(b"vermagic=" + release.encode(), b"vermagic=" + other))
    said = f"drbd.ko is made for kernel {other.decode()}, and nodes run {release}"
    with pytest.raises(ImageError, match=f"^{said}\n"):
        image.build(lambda _: None, own=str(own))
    assert image.require() == mine
