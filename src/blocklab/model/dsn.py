"""A database's address as one text: the URI that a database layer gives and a workload takes.

``postgresql://postgres@/bench?host=/run/blocklab/local&port=5432`` is libpq's own form, so psql and pgbench take
it as it is. ``mysql://root@/bench?host=/run/blocklab/local&port=3306`` has the same shape; the socket is
``<host>/mysqld.sock``. Over the network ``host`` is an address. Where the server asks for a password, ``passfile``
is the file that has it (``model.access``), for libpq again as it is.
"""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import msgspec


class Dsn(msgspec.Struct, frozen=True):
    """Where a database is. ``host`` is the folder of its Unix socket, or an IPv4 address; ``passfile`` is empty
    where the server asks for no password."""

    scheme: str
    user: str
    database: str
    host: str
    port: int
    passfile: str = ""

    @classmethod
    def of(cls, text: str) -> Dsn:
        """Read a URI. Raises ``ValueError`` when it has no host or port."""
        parts = urlsplit(text)
        query = parse_qs(parts.query)
        if "host" not in query or "port" not in query:
            raise ValueError(f"{text!r} is not a database's address")
        user = parts.netloc.removesuffix("@")
        passfile = query.get("passfile", [""])[0]
        database = parts.path.removeprefix("/")
        return cls(parts.scheme, user, database, query["host"][0], int(query["port"][0]), passfile)

    def __str__(self) -> str:
        by = f"&passfile={self.passfile}" if self.passfile else ""
        return f"{self.scheme}://{self.user}@/{self.database}?host={self.host}&port={self.port}{by}"

    @property
    def socket(self) -> str:
        """The Unix socket's path of a MySQL server; empty over the network."""
        return f"{self.host}/mysqld.sock" if self.host.startswith("/") else ""

    @property
    def address(self) -> str:
        """The address for programs that only speak TCP: loopback where the server is on the same node."""
        return "127.0.0.1" if self.host.startswith("/") else self.host

    def at(self, address: str) -> Dsn:
        """The same database, seen from another node."""
        return msgspec.structs.replace(self, host=address)
