"""The databases' programs, and as whom they run: the servers and their workloads must agree. A program has no
folder here: PATH on every host begins with PostgreSQL's own, since Debian's /usr/bin has only a wrapper."""

from __future__ import annotations

from blocklab.model.plan import Argv

# The server refuses to run as root; the image's package made this user.
AS_POSTGRES: Argv = ("setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups")

# MySQL is an add-on of the image with libraries of its own. Its my.cnf says where its files are.
MYSQL_HOME = "/opt/mysql"
