"""The studies that come with blocklab."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from blocklab.errors import StudyError
from blocklab.model.knobs import nearest


def shipped() -> dict[str, Path]:
    """Name -> file of the studies that come with blocklab."""
    folder = Path(str(resources.files("blocklab"))) / "data" / "studies"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def study_file(given: Path) -> Path:
    """A file as it was given, else the shipped study of that name. Raises ``StudyError`` where it is neither."""
    known = shipped()
    if given.is_file() or given.suffix:
        return given
    # A folder of that name is no study, and may well be there.
    if str(given) not in known and not given.exists():
        problem = f"no such study file, and no study of that name comes with blocklab{nearest(str(given), known)}"
        raise StudyError("", problem, file=str(given), hint="blocklab studies lists those that do")
    return known.get(str(given), given)
