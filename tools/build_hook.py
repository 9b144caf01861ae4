"""Writes the commit into wheel and sdist, when hatchling builds them."""

from __future__ import annotations

import runpy
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CommitHook(BuildHookInterface):  # type: ignore[type-arg]  # of the builder's configuration, unused here
    """A wheel that is made from an sdist takes the file that stands in there."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file to what is packed; an editable install reads the checkout."""
        package = Path(self.root, "src", "blocklab")
        known = runpy.run_path(str(package / "model" / "commit.py"))
        if version == "editable" or (package / known["FILE"]).exists():
            return
        self.folder = tempfile.TemporaryDirectory()
        made = Path(self.folder.name, known["FILE"])
        made.write_text(f"{known['of_checkout'](Path(self.root))}\n")
        into = "src/blocklab" if self.target_name == "sdist" else "blocklab"
        build_data["force_include"][str(made)] = f"{into}/{made.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove it again."""
        if folder := getattr(self, "folder", None):
            folder.cleanup()
