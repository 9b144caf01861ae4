"""Databases on real nodes: settings in force, reached from another node, killed, copied, and built again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from blocklab.errors import CommandError, ImageError
from blocklab.layers.mysql import MariaDb
from blocklab.model.dsn import Dsn
from blocklab.runner.measure import not_in_force
from blocklab.runner.run import standing
from blocklab.runner.workshop import Standing
from blocklab.sites.uml import image
from blocklab.sites.uml.site import UmlSite
from blocklab.study.grid import topology
from tests.lab.asked import ask, built_again_over_their_data, filled, study_of
from tests.lab.states import state

PLAIN = {"layer": "volume", "size": "512MiB"}
SETTINGS = {
    "innodb_buffer_pool_size": "48M",
    "innodb_flush_log_at_trx_commit": 1,
    "innodb_page_size": "8k",
    "log_bin": True,
    "long_query_time": 0.5,
    "optimizer_switch": "mrr=on",
    "sync_binlog": 1,
    "transaction_isolation": "READ-COMMITTED",
}
SERVERS: dict[str, list[dict[str, Any]]] = {
    "maria": [PLAIN, {"layer": "xfs"}, {"layer": "mariadb", "settings": SETTINGS}],
    "post": [PLAIN, {"layer": "ext4"}, {"layer": "postgres", "settings": {"shared_buffers": "32MB"}}],
}


def test_mariadb_and_postgres_serve_both_nodes_and_recover_from_a_copy(small: dict[str, Any]) -> None:
    study = study_of(small, SERVERS)
    with standing(UmlSite(), study, list(SERVERS)) as stand:
        for name in SERVERS:
            assert not not_in_force(stand.engine.ask(stand.facts[name]))
            filled(stand, name)
        here, where = stand.lab.hosts["a1"], stand.ports["maria"][-1].where
        known = {knob.name: knob.value for knob in stand.engine.ask(stand.facts["maria"])}
        assert known["innodb_page_size"] == "8k" and known["version"].startswith("11.8")
        # Loopback is another account than the socket's and the link's.
        loopback = str(Dsn.of(where).at("127.0.0.1"))
        assert ask(here, loopback, "SELECT current_user()") == "root@127.0.0.1"
        # The grants are not in the log of the workload's own changes.
        assert "GRANT" not in ask(here, where, "SHOW BINLOG EVENTS")
        # A value that is not in force is shown as the server has it.
        ask(here, where, "SET GLOBAL sync_binlog = 0")
        wrong = not_in_force(stand.engine.ask(stand.facts["maria"]))
        assert [(knob.name, knob.value, knob.wanted) for knob in wrong] == [("sync_binlog", "0", "1")]
        built_again_over_their_data(stand, study, list(SERVERS))


def test_mysql_of_the_image_add_on_serves_both_nodes_and_recovers_from_a_copy(small: dict[str, Any]) -> None:
    try:
        site = UmlSite(image=image.require(("mysql",)))
    except ImageError as error:
        pytest.skip(str(error))
    settings = {**SETTINGS, "binlog_format": "ROW"}
    study = study_of(small, {"my": [PLAIN, {"layer": "xfs"}, {"layer": "mysql", "settings": settings}]})
    with standing(site, study, ["my"]) as stand:
        knobs = stand.engine.ask(stand.facts["my"])
        assert not not_in_force(knobs)
        known = {knob.name: knob.value for knob in knobs}
        assert known["log_bin"] == "ON" and known["version"].startswith("9.")
        filled(stand, "my")
        built_again_over_their_data(stand, study, ["my"])


def test_a_server_that_does_not_start_says_why_and_leaves_nothing(small: dict[str, Any]) -> None:
    study = study_of(small, {"maria": [PLAIN, {"layer": "ext4"}, {"layer": "mariadb"}]}, client="")
    # Past the check, which knows the server's variables.
    whole = study.stacks["maria"]
    broken = msgspec.structs.replace(whole, layers=(*whole.layers[:-1], MariaDb(settings={"sync_binlogs": 1})))
    study = msgspec.structs.replace(study, stacks={"maria": broken})
    site = UmlSite()
    shape = topology(study, ["maria"])
    lab = site.start(shape)
    try:
        stand = Standing(lab, study, ["maria"], site.ground(shape), fresh=True)
        before = state(lab.hosts["a1"])
        with pytest.raises(CommandError, match=r"unknown variable 'sync_binlogs=1'"):
            stand.build()
        stand.engine.undo()
        assert stand.engine.warnings == []
        assert state(lab.hosts["a1"])["processes"] == before["processes"]
        assert lab.hosts["a1"].run(["test", "-e", "/run/blocklab/maria"]).code == 1
    finally:
        lab.close()
