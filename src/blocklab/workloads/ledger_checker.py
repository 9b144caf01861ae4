"""How a ledger's history and what its database has are read, and what both say together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from blocklab.drills.ledger import check
from blocklab.model.drill import Attempt, Ledger, Verdict
from blocklab.model.plan import Argv, Port
from blocklab.model.sample import Parsed
from blocklab.workloads import ledger_found, ledger_output


@dataclass(frozen=True)
class Written:
    """What the client wrote: every transaction, and what its file says of itself."""

    attempts: Sequence[Attempt]
    head: ledger_output.History

    @property
    def stop(self) -> float | None:
        return self.head.stop

    def before(self, struck: float | None, host: str) -> Parsed:
        return ledger_output.before(self.attempts, self.head, struck, host)


class LedgerChecker:
    """Of the ledger's two tables."""

    def history(self, text: bytes) -> Written:
        return Written(*ledger_output.attempts(text))

    def reads(self, port: Port) -> Mapping[str, Argv]:
        return ledger_found.reads(port)

    def found(self, raw: Mapping[str, bytes]) -> Ledger:
        return ledger_found.found(raw)

    def logs(self, raw: Mapping[str, bytes]) -> Mapping[str, Argv]:
        return ledger_found.logs(raw)

    def logged(self, raw: Mapping[str, bytes]) -> frozenset[int] | None:
        return ledger_found.binlog(raw)

    def verdict(
        self,
        attempts: Sequence[Attempt] | None,
        ledger: Ledger | None,
        fault: float | None,
        why_unread: str = "",
        *,
        until: float | None = None,
        binlog_unread: str = "",
    ) -> Verdict:
        return check(attempts, ledger, fault, why_unread, until=until, binlog_unread=binlog_unread)
