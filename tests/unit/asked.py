"""What the programs of a node told of their options, and the tables that are made of it."""

from __future__ import annotations

import functools
import json

from blocklab.layers import Drbd, MariaDb, MySql, Postgres
from blocklab.model import sysctls
from blocklab.model.knobs import Question, Table
from blocklab.workloads import Fio
from tests.unit.golden import FOLDER

QUESTIONS = (sysctls.QUESTION, *(kind.question for kind in (Drbd, Postgres, MariaDb, MySql, Fio)))
# Where the servers stood; the answers do not depend on it.
WHERE = {
    "postgres": "postgresql://postgres@/bench?host=/run/blocklab/postgres&port=5432",
    "mariadb": "mysql://root@/bench?host=/run/blocklab/mariadb&port=3306",
    "mysql": "mysql://root@/bench?host=/run/blocklab/mysql&port=3306",
}


def asked(question: Question, version: str = "") -> Table:
    """The table of a program, of the answers in its golden file."""
    answers = json.loads((FOLDER / "asked" / f"{question.program}{version}.json").read_text())

    def tell(*argv: str) -> str:
        # Of a query only the option that it comes with.
        found = next(
            lines for key, lines in answers.items() if key in (argv[-1], argv[-2], argv[-1].split("=")[0])
        )
        return "\n".join(found) + "\n"

    return question.ask(tell, WHERE.get(question.program, ""))


@functools.cache
def tables() -> dict[str, Table]:
    """All of them."""
    return {question.program: asked(question) for question in QUESTIONS}
