"""Who may use a database or a mirror on hosts that have other users (``Ground.guarded``), and what data are
encrypted with: secrets, and the files that hold them.

A plan is stored, so no secret is in it. A ``Put`` has ``SECRET`` where one is to stand and says which
(``secret``); the engine fills it in as it writes the file, on whichever host, and strikes it out of all that a
command prints.
Each secret is random and lives as long as the process that made it. No command line has one, since every user of a
host can read those: programs are told the file.
"""

from __future__ import annotations

from blocklab.model import places
from blocklab.model.node_programs import program
from blocklab.model.plan import Argv, Put, Run, Step

SECRET = "@SECRET@"
# DRBD's is another one, for drbdadm hands it to drbdsetup on its command line.
DATABASE, MIRROR, ENCRYPTION = "database", "mirror", "encryption"
NAMES = (DATABASE, MIRROR, ENCRYPTION)

USER = "bench"
"""The database user of workloads, who owns the database ``bench`` and no more."""
FOLDER = places.run("access")
PASSWORD = f"{FOLDER}/password"
"""For programs of ours, and for go-tpc as we build it."""
PGPASS = f"{FOLDER}/pgpass"
"""libpq's password file. The server reads it too, when it makes the user."""
CLIENT = f"{FOLDER}/client.cnf"
"""An option file of MariaDB's client."""
SYSBENCH = f"{FOLDER}/sysbench.cnf"
"""sysbench's configuration for MariaDB and MySQL."""
MODE = 0o600

# What the environment of go-tpc says, which by itself takes a password as an argument only.
GO_TPC_FILE = "BLOCKLAB_PASSWORD_FILE"

_TEXTS = {
    PASSWORD: f"{SECRET}\n",
    PGPASS: f"*:*:*:{USER}:{SECRET}\n",
    CLIENT: f"[client]\npassword={SECRET}\n",
    SYSBENCH: f"mysql-password={SECRET}\n",
}


def files(host: str) -> tuple[Step, ...]:
    """The files with which programs on ``host`` reach a database, there or on another host. They are root's; what
    runs as PostgreSQL's user, where there is one, can read libpq's as well."""
    written = (Put(host, path, text, MODE, DATABASE) for path, text in _TEXTS.items())
    # Others may pass through it, and see no names.
    folder = Run(host, ("install", "-d", "-m", "711", FOLDER))
    return (folder, *written, given(host, PGPASS, "postgres"))


def given(host: str, path: str, user: str) -> Run:
    """Makes a file that user's, where the host has such a user."""
    return Run(host, program("verbs", "give", path, user))


def mysql_client(passfile: str) -> Argv:
    """MariaDB's client, for MariaDB and MySQL: an option file has to come first. It insists on TLS unless told
    otherwise, and the servers have none."""
    return ("mariadb", f"--defaults-file={passfile}" if passfile else "--no-defaults", "--skip-ssl")
