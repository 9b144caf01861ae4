"""What a shell may complete beyond commands and options: studies and their stacks."""

from __future__ import annotations

from pathlib import Path

import typer

from blocklab.errors import BlocklabError
from blocklab.study.read import load_yaml
from blocklab.study.shipped import shipped, study_file


def study_names(incomplete: str) -> list[str]:
    """Shipped studies, and YAML files in this folder; a shell completes other paths by itself."""
    known = [*shipped(), *sorted(map(str, Path().glob("*.yaml")))]
    return [name for name in known if name.startswith(incomplete)]


def stack_names(context: typer.Context, incomplete: str) -> list[str]:
    """The stacks of the study that was given before; none where it cannot be read."""
    # An option that still waits for its value stops the parser before it gets to the arguments.
    given = [each for each in (context.params.get("study"), *context.args) if each]
    try:
        stacks = load_yaml(study_file(Path(given[0])))["stacks"]
    except (BlocklabError, IndexError, KeyError):
        return []
    return [name for name in stacks if name.startswith(incomplete)]
