"""The order in which stream tables are refreshed: what is read comes before what reads it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from graphlib import CycleError, TopologicalSorter

from pgtrickle.errors import InternalError


def in_dependency_order(
    names: Collection[str], dependencies: Mapping[str, Collection[str]]
) -> list[str]:
    """Sort ``names`` so that each follows the stream tables it reads; ties are by name.

    ``dependencies`` may hold other stream tables too: an order through them is kept.

    >>> in_dependency_order(["a", "c"], {"a": ["b"], "b": ["c"], "c": []})
    ['c', 'a']
    """
    graph = {name: sorted(dependencies.get(name, ())) for name in sorted({*names, *dependencies})}
    try:
        ordered = TopologicalSorter(graph).static_order()
        return [name for name in ordered if name in names]
    except CycleError as error:
        # A stream table can only read what existed before it.
        raise InternalError(
            "stream tables read one another in a circle",
            detail=" -> ".join(map(str, error.args[1])),
            hint="Report this, with the definitions of these stream tables.",
        ) from error
