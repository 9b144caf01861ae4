"""What all loads have in common."""

from __future__ import annotations

import msgspec

from blocklab.model.plan import Port, Step


class Base(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="load", kw_only=True):
    """A load.

    ``from`` is the node that it runs on, in place of the stack's own: a client of the database, which needs a
    link to it.
    """

    client: str = msgspec.field(default="", name="from")
    """The node that it runs on, in place of the stack's own: a client of the database, which needs a link to the
    node that the stack is active on. Only for a load on a database."""

    @property
    def has_data(self) -> bool:
        """Whether it loads data of its own."""
        return type(self).data is not Base.data

    def data(self, port: Port) -> tuple[Step, ...]:
        """Nothing that ``prepare`` does not make anew."""
        return ()
