"""Where the image keeps PostgreSQL's programs, and as whom they run: the server and its loads must agree."""

from __future__ import annotations

from blocklab.model.plan import Argv

# Not /usr/bin: what is there is Debian's pg_wrapper, a Perl program.
POSTGRES_BIN = "/usr/lib/postgresql/17/bin"
# The server refuses to run as root; the image's package made this user.
AS_POSTGRES: Argv = ("setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups")
