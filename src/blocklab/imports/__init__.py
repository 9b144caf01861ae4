"""Foreign raw logs become runs: what a file is, what it says, which workload it belongs to."""

from __future__ import annotations

from blocklab.imports.importing import Imported, Options, take
from blocklab.imports.kinds import KINDS
from blocklab.imports.study import ImportFile, minimal, read
from blocklab.imports.timeline import job_file

__all__ = ["KINDS", "ImportFile", "Imported", "Options", "job_file", "minimal", "read", "take"]
