"""How a study is called on the command line."""

from __future__ import annotations

from pathlib import Path

from blocklab.errors import Unreadable
from blocklab.model import outside
from blocklab.store.folder import StudyFolder
from blocklab.study.shipped import shipped


def source_of(folder: StudyFolder) -> str:
    """What ``blocklab run`` takes for the study of a folder: its file as a user would type it, or the name of one
    that comes with blocklab. Raises ``StoreError``."""
    manifest = folder.manifest()
    source = Path(manifest.source)
    if manifest.study.name in shipped() and source.name in ("", f"{manifest.study.name}.yaml") and _same(folder):
        return manifest.study.name
    here = Path.cwd()
    return str(source.relative_to(here) if source.is_relative_to(here) else source) if manifest.source else ""


def _same(folder: StudyFolder) -> bool:
    """Whether the folder's copy is what comes with blocklab now."""
    ours = shipped()[folder.manifest().study.name]
    try:
        return outside.data(folder.path / "study.yaml") == outside.data(ours)
    except Unreadable:
        return False
