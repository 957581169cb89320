"""Queries over circles: stream tables that read one another, and are known to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.catalog.graph import GraphNode, graph_of, list_nodes
from pgtrickle.model.scheduling.graph import Graph
from pgtrickle.model.text.names import QualifiedName

_RECORDED = "SELECT s.pgt_id, s.scc_id FROM pgtrickle.pgt_stream_tables AS s"


def list_circles(connection: Connection[TupleRow]) -> list[list[GraphNode]]:
    """Return the circles that the dependencies form, each by the ids of its members."""
    nodes = {one.relid: one for one in list_nodes(connection)}
    return [
        sorted((nodes[relid] for relid in circle), key=lambda one: one.id)
        for circle in graph_of(nodes.values()).circles
    ]


def path_of(circle: Sequence[GraphNode]) -> list[QualifiedName]:
    """Return a path through a circle that ends where it began, each reading the next."""
    nodes = {one.relid: one for one in circle}
    path = Graph({relid: one.reads for relid, one in nodes.items()}).find_cycle() or ()
    return [nodes[relid].name for relid in path]


def list_unknown_circles(connection: Connection[TupleRow]) -> Iterator[list[GraphNode]]:
    """Yield the circles that are not on record: nobody has looked at the queries of their members.

    What is left of a circle on record is one as well, as long as no other has joined it.
    """
    recorded: dict[int, int | None] = dict(connection.execute(_RECORDED).fetchall())
    for circle in list_circles(connection):
        known = {recorded[one.id] for one in circle}
        if len(known) > 1 or None in known:
            yield circle


_RECORD = """
    UPDATE pgtrickle.pgt_stream_tables AS s
       SET scc_id = found.circle,
           needs_reinit = s.needs_reinit OR found.circle IS NULL
      FROM ROWS FROM (pg_catalog.unnest(%(ids)s::pg_catalog.int8[]),
                      pg_catalog.unnest(%(circles)s::pg_catalog.int8[])) AS found (id, circle)
     WHERE s.pgt_id = found.id
"""


def record_circles(connection: Connection[TupleRow]) -> None:
    """Put the circles on record as they are now.

    Whoever has left one starts anew: its state has not followed what the circle did.
    """
    found = {one.id: circle[0].id for circle in list_circles(connection) for one in circle}
    recorded: dict[int, int | None] = dict(connection.execute(_RECORDED).fetchall())
    differing = {key: found.get(key) for key, was in recorded.items() if was != found.get(key)}
    if differing:
        values = {"ids": list(differing), "circles": list(differing.values())}
        connection.execute(_RECORD, values)


_LIST_MEMBERS = """
    SELECT s.pgt_schema, s.pgt_name
      FROM pgtrickle.pgt_stream_tables AS s
     WHERE s.scc_id = (SELECT o.scc_id FROM pgtrickle.pgt_stream_tables AS o
                        WHERE o.pgt_schema = %(schema)s AND o.pgt_name = %(name)s)
     ORDER BY s.pgt_id
"""


def list_members(connection: Connection[TupleRow], name: QualifiedName) -> list[QualifiedName]:
    """Return the members of the circle that a stream table belongs to; nothing if to none."""
    values = {"schema": name.schema, "name": name.name}
    return [QualifiedName(*row) for row in connection.execute(_LIST_MEMBERS, values)]


_COUNT = "SELECT count(*) FROM pgtrickle.pgt_stream_tables WHERE scc_id = %(circle)s"


def count_members(connection: Connection[TupleRow], circle: int) -> int:
    """Count the members of a circle."""
    [(count,)] = connection.execute(_COUNT, {"circle": circle}).fetchall()
    return int(count)


_UPDATE = """
    UPDATE pgtrickle.pgt_stream_tables SET last_fixpoint_iterations = %(iterations)s
     WHERE pgt_id = %(id)s
"""


def update_iterations(
    connection: Connection[TupleRow], stream_table_id: int, iterations: int
) -> None:
    """Note how many rounds the fixpoint of a stream table's circle took."""
    connection.execute(_UPDATE, {"id": stream_table_id, "iterations": iterations})
