"""YAML within limits: what refers to itself, or becomes more than anybody wrote once its aliases are followed, is
refused while it is read, before anything is made of it."""

from __future__ import annotations

from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import AliasEvent
from ruamel.yaml.nodes import ScalarNode

# Far above what a study has: its cells are 20,000 at most, and a price list's entries some thousands.
MOST_NODES = 200_000
MOST_DEPTH = 60
# An int of 64 bits has 20; what is computed with more takes its time.
MOST_DIGITS = 100


def parsed(text: str) -> Any:
    """The one document in a text, with line numbers and comments. Raises ``MarkedYAMLError`` for what is beyond
    the limits, and whatever ruamel.yaml raises."""
    yaml = YAML()
    yaml.Composer = _Bounded
    return yaml.load(text)


class _Bounded(Composer):
    """Counts nodes as they are put together, those behind an alias as often as it stands there."""

    def __init__(self, loader: Any = None) -> None:
        super().__init__(loader)
        # The last one of a name counts, as YAML has it.
        self.warn_double_anchors = False
        self._level = 0
        self._nodes = 0
        # By the node of an anchor, once it is whole.
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.parser.peek_event()
        if isinstance(event, AliasEvent):
            node = super().compose_node(parent, index)
            if id(node) not in self._sizes:
                raise _refused(f"*{event.anchor} refers to what it is a part of", event)
            self._count(self._sizes[id(node)], event)
            return node
        before, self._level = self._nodes, self._level + 1
        if self._level > MOST_DEPTH:
            raise _refused(f"nested more than {MOST_DEPTH} levels deep", event)
        self._count(1, event)
        node = super().compose_node(parent, index)
        self._level -= 1
        number = isinstance(node, ScalarNode) and str(node.tag).endswith((":int", ":float"))
        if number and len(node.value) > MOST_DIGITS:
            raise _refused(f"a number of more than {MOST_DIGITS} digits", event)
        if event.anchor is not None:
            self._sizes[id(node)] = self._nodes - before
        return node

    def _count(self, more: int, event: Any) -> None:
        self._nodes += more
        if self._nodes > MOST_NODES:
            raise _refused(f"more than {MOST_NODES:,} values, those behind aliases counted each time", event)


def _refused(problem: str, event: Any) -> MarkedYAMLError:
    return MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
