"""The interface of the derivation that a delta rule may use."""

from __future__ import annotations

from typing import Protocol

from pgtrickle.algebra.nodes import Node, Version


class DeltaContext(Protocol):
    """The recursion, seen from a rule."""

    def delta(self, node: Node) -> Node | None:
        """Return the plan of the change of ``node``; None if it cannot have changed."""
        ...

    def at(self, node: Node, version: Version) -> Node:
        """Return ``node`` over another version of its sources."""
        ...
