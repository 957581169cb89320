"""Queries over the graph: who reads whom, and what the user says about diamonds."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.model.diamonds import Diamond, DiamondConsistency, DiamondSchedulePolicy
from pgtrickle.model.graph import Graph
from pgtrickle.model.names import QualifiedName


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A stream table in the graph, in which relations go by their oid."""

    id: int
    relid: int
    name: QualifiedName
    reads: tuple[int, ...]
    diamond_consistency: DiamondConsistency
    diamond_schedule_policy: DiamondSchedulePolicy


# Views are written out: what they read is listed beside them.
_LIST_NODES = """
    SELECT s.pgt_id, s.pgt_relid, s.pgt_schema, s.pgt_name,
           COALESCE(pg_catalog.array_agg(d.source_relid) FILTER (WHERE d.source_type <> 'VIEW'),
                    '{}'),
           COALESCE(s.diamond_consistency, 'atomic'),
           COALESCE(s.diamond_schedule_policy, 'fastest')
      FROM pgtrickle.pgt_stream_tables AS s
      LEFT JOIN pgtrickle.pgt_dependencies AS d ON d.pgt_id = s.pgt_id
     GROUP BY s.pgt_id
     ORDER BY s.pgt_id
"""


def list_nodes(connection: Connection[TupleRow]) -> list[GraphNode]:
    """Return every stream table with what it reads, by one query."""
    return [
        GraphNode(
            number,
            relid,
            QualifiedName(schema, name),
            tuple(reads),
            DiamondConsistency(consistency),
            DiamondSchedulePolicy(policy),
        )
        for number, relid, schema, name, reads, consistency, policy in connection.execute(
            _LIST_NODES
        )
    ]


def graph_of(nodes: Collection[GraphNode]) -> Graph[int]:
    """Return the graph of some stream tables."""
    return Graph({one.relid: one.reads for one in nodes})


def groups_of(
    nodes: Collection[GraphNode], wanted: Collection[tuple[int, ...]] = ()
) -> tuple[tuple[int, ...], ...]:
    """Return the relids of those that are refreshed together, each group in order.

    ``wanted`` are the groups that the user made.
    """
    atomic = DiamondConsistency.ATOMIC
    ends = {one.relid for one in nodes if one.diamond_consistency is atomic}
    return graph_of(nodes).groups(ends, wanted)


_READS_STREAM_TABLES = """
    SELECT count(*) FILTER (WHERE d.source_type = 'STREAM_TABLE') > 0
           AND (count(*) > 1 OR pg_catalog.bool_or(s.scc_id IS NOT NULL))
      FROM pgtrickle.pgt_dependencies AS d
      JOIN pgtrickle.pgt_stream_tables AS s ON s.pgt_id = d.pgt_id
     WHERE s.pgt_schema = %(schema)s AND s.pgt_name = %(name)s AND d.source_type <> 'VIEW'
"""


def list_companions(connection: Connection[TupleRow], name: QualifiedName) -> list[QualifiedName]:
    """Return what must be refreshed together with a stream table, in order, itself last.

    That is what it reads, directly or not, as far as it belongs to the same group.
    """
    values = {"schema": name.schema, "name": name.name}
    [(may_be,)] = connection.execute(_READS_STREAM_TABLES, values).fetchall()
    if not may_be:
        return [name]
    nodes = {one.relid: one for one in list_nodes(connection)}
    relid = next((one.relid for one in nodes.values() if one.name == name), None)
    for group in groups_of(nodes.values()):
        if relid in group:
            needed = graph_of(nodes.values()).ancestors[relid] - {relid}
            return [*(nodes[one].name for one in group if one in needed), name]
    return [name]


_UPDATE = """
    UPDATE pgtrickle.pgt_stream_tables
       SET diamond_consistency = COALESCE(%(consistency)s, diamond_consistency),
           diamond_schedule_policy = COALESCE(%(policy)s, diamond_schedule_policy),
           updated_at = pg_catalog.clock_timestamp()
     WHERE pgt_id = %(id)s
"""


def update_diamond(
    connection: Connection[TupleRow], stream_table_id: int, diamond: Diamond
) -> None:
    """Record what the user says about a stream table's diamond; what is None stays."""
    values = {
        "id": stream_table_id,
        "consistency": diamond.consistency and diamond.consistency.value,
        "policy": diamond.policy and diamond.policy.value,
    }
    connection.execute(_UPDATE, values)


# By the server and without a row to travel: a sum does not depend on the order.
_GET_VERSION = """
    SELECT (SELECT pg_catalog.concat(count(*), ' ', sum(pg_catalog.hash_record_extended(
                       ROW(s.pgt_id, s.pgt_relid, s.pgt_schema, s.pgt_name, s.original_query,
                           s.schedule, s.tier, s.status, s.refresh_mode,
                           s.effective_refresh_mode, s.downgrade_reason,
                           s.diamond_consistency, s.diamond_schedule_policy), 0)))
              FROM pgtrickle.pgt_stream_tables AS s)
           || ' ' ||
           (SELECT pg_catalog.concat(count(*), ' ', sum(pg_catalog.hash_record_extended(
                       ROW(g.group_id, g.isolation), 0)))
              FROM pgtrickle.pgt_refresh_groups AS g)
           || ' ' ||
           (SELECT pg_catalog.concat(count(*), ' ', sum(pg_catalog.hash_record_extended(
                       ROW(d.pgt_id, d.source_relid, d.source_type), 0)))
              FROM pgtrickle.pgt_dependencies AS d)
"""


def get_schedule_version(connection: Connection[TupleRow]) -> str:
    """Return what differs whenever anything does on which the schedule of refreshes depends."""
    return str(connection.execute(_GET_VERSION).fetchall()[0][0])
