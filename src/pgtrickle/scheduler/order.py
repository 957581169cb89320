"""The order in which stream tables are refreshed: sources before consumers."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pgtrickle.model.scheduling.graph import Graph


def in_dependency_order(
    names: Collection[str], dependencies: Mapping[str, Collection[str]]
) -> list[str]:
    """Sort ``names`` so that each follows the stream tables it reads; ties are by name.

    ``dependencies`` may contain other stream tables too: an order through them is kept.  The
    members of a circle stand next to each other.

    >>> in_dependency_order(["a", "c"], {"a": ["b"], "b": ["c"], "c": []})
    ['c', 'a']
    """
    every = sorted({*names, *dependencies})
    graph = Graph({name: sorted(dependencies.get(name, ())) for name in every})
    return [name for name in graph.order if name in names]
