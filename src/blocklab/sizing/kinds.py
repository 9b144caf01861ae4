"""The kinds of files that tell what I/O a system does, and what makes its statistics of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from blocklab.formats import kinds
from blocklab.formats.found import Found
from blocklab.formats.gather import Readers
from blocklab.formats.looks import LOOKS, SIZE
from blocklab.sizing.models import cloudwatch, host, innodb, mysql_status, oracle, postgres
from blocklab.sizing.reading import Reading
from blocklab.sizing.series import Statistics

MODELS: Mapping[str, Callable[[Found, Reading], Statistics]] = {
    "awr-html": oracle.statistics,
    "awr-text": oracle.statistics,
    "statspack": oracle.statistics,
    "iostat": host.iostat,
    "iostat-json": host.iostat,
    "sar": host.sar,
    "sadf-json": host.sar_files,
    "sadf-csv": host.sar_files,
    "diskstats": host.diskstats,
    "cloudwatch-json": cloudwatch.statistics,
    "cloudwatch-csv": cloudwatch.statistics,
    "innodb-status": innodb.statistics,
    "mysql-status": mysql_status.statistics,
    "postgres-stats": postgres.statistics,
}
"""By kind, what makes the statistics of systems of a file's table. Raises ``Refused`` and ``StudyError``."""
READERS = Readers({name: kinds.KINDS[name] for name in MODELS}, [look for look in LOOKS if look.do != SIZE])
