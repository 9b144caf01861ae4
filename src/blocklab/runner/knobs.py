"""Asks the programs on a site's hosts which options they have. Starts one host, and on it the databases asked."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import get_args

from blocklab.errors import BlocklabError
from blocklab.layers import AnyLayer
from blocklab.model import sysctls
from blocklab.model.knobs import Question, Table
from blocklab.model.site import Site
from blocklab.runner.run import standing
from blocklab.study.read import build
from blocklab.study.types import Study
from blocklab.workloads import AnyWorkload

HOST = "a1"


def ask(site: Site, programs: Collection[str], say: Callable[[str], None]) -> dict[str, Table]:
    """What each of the programs tells. Takes some 5 seconds, and 5 more for each database (30 for MySQL).

    A program that tells nothing has an empty table, and ``say`` gets a line about it. Raises ``BlocklabError``
    where no host starts.
    """
    questions = [each for each in _questions() if each.program in programs]
    servers = [each.program for each in questions if each.server]
    found: dict[str, Table] = {}
    with standing(site, _study(servers), servers or [HOST]) as stand:
        host = stand.lab.hosts[HOST]

        def tell(*argv: str) -> str:
            return host.run(argv).said

        for question in questions:
            where = stand.ports[question.program][-1].where if question.server else ""
            try:
                found[question.program] = question.ask(tell, where)
            except (BlocklabError, ValueError) as error:
                say(f"{question.program} does not tell its options, so they are not checked: {error}")
                found[question.program] = {}
    return found


def _questions() -> list[Question]:
    kinds = (*get_args(AnyLayer), *get_args(AnyWorkload))
    return [sysctls.QUESTION, *(kind.question for kind in kinds if hasattr(kind, "question"))]


def _study(servers: list[str]) -> Study:
    """A stack for each server, named as its layer; or one of a volume. It is built, and never measured."""
    volume = {"layer": "volume", "size": "512MiB"}
    stacks = {name: {"on": HOST, "layers": [volume, {"layer": "ext4"}, {"layer": name}]} for name in servers}
    return build(
        {
            "blocklab": 2, "name": "options", "question": "Which options do the programs have?",
            "nodes": {HOST: {"memory": f"{256 + 512 * len(servers)}MiB"}},
            "stacks": stacks or {HOST: {"on": HOST, "layers": [volume]}},
            "workloads": {"io": {"workload": "dd", "mode": "none", "size": "16MiB"}},
        }
    )  # fmt: skip
