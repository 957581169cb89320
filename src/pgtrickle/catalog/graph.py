"""Queries over the graph: the sources of each stream table, and the options of diamonds."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.catalog.renamed_tables import follow_renamed_tables
from pgtrickle.model.scheduling.diamonds import DiamondConsistency, DiamondSchedulePolicy
from pgtrickle.model.scheduling.graph import Graph
from pgtrickle.model.text.names import QualifiedName


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A stream table in the graph, in which relations go by their oid."""

    id: int
    relid: int
    name: QualifiedName
    reads: tuple[int, ...]
    diamond_consistency: DiamondConsistency
    diamond_schedule_policy: DiamondSchedulePolicy
    immediate: bool = False  # its writers maintain it, and no refresh


# Views are written out: what they read is listed beside them.
_LIST_NODES = """
    SELECT s.pgt_id, s.pgt_relid, s.pgt_schema, s.pgt_name,
           COALESCE(pg_catalog.array_agg(d.source_relid) FILTER (WHERE d.source_type <> 'VIEW'),
                    '{}'),
           COALESCE(s.diamond_consistency, 'atomic'),
           COALESCE(s.diamond_schedule_policy, 'fastest'),
           s.refresh_mode = 'IMMEDIATE'
      FROM pgtrickle.pgt_stream_tables AS s
      LEFT JOIN pgtrickle.pgt_dependencies AS d ON d.pgt_id = s.pgt_id
     GROUP BY s.pgt_id
     ORDER BY s.pgt_id
"""


def list_nodes(connection: Connection[TupleRow]) -> list[GraphNode]:
    """Return every stream table with its sources, by one query."""
    return [
        GraphNode(
            number,
            relid,
            QualifiedName(schema, name),
            tuple(reads),
            DiamondConsistency(consistency),
            DiamondSchedulePolicy(policy),
            immediate,
        )
        for number, relid, schema, name, reads, consistency, policy, immediate in (
            connection.execute(_LIST_NODES)
        )
    ]


def graph_of(nodes: Collection[GraphNode]) -> Graph[int]:
    """Return the graph of some stream tables."""
    return Graph({one.relid: one.reads for one in nodes})


def groups_of(
    nodes: Collection[GraphNode], wanted: Collection[tuple[int, ...]] = ()
) -> tuple[tuple[int, ...], ...]:
    """Return the relids of those that are refreshed together, each group in order.

    ``wanted`` are the groups that the user made.  A stream table that its writers maintain is in
    step with what it reads, at any moment: whoever reads it reads that, as through a view.
    """
    atomic = DiamondConsistency.ATOMIC
    ends = {one.relid for one in nodes if one.diamond_consistency is atomic}
    passed = {one.relid: one.reads for one in nodes if one.immediate}
    graph = Graph({one.relid: _looked_through(one.reads, passed) for one in nodes})
    refreshed = [
        tuple(relid for relid in group if relid not in passed)
        for group in graph.groups(ends, wanted)
    ]
    return tuple(group for group in refreshed if len(group) > 1)


def _looked_through(
    reads: Collection[int], passed: Mapping[int, Collection[int]]
) -> tuple[int, ...]:
    """Return what is read if some relations are only looked through."""
    found: dict[int, None] = {}
    waiting, seen = list(reads), set[int]()
    while waiting:
        one = waiting.pop(0)
        if one in passed and one not in seen:
            seen.add(one)
            waiting += passed[one]
        elif one not in passed:
            found[one] = None
    return tuple(found)


_MAY_HAVE_COMPANIONS = """
    SELECT count(*) FILTER (WHERE d.source_type = 'STREAM_TABLE') > 0
           AND (count(*) > 1 OR pg_catalog.bool_or(s.scc_id IS NOT NULL)),
           count(*) = 0
      FROM pgtrickle.pgt_dependencies AS d
      JOIN pgtrickle.pgt_stream_tables AS s ON s.pgt_id = d.pgt_id
     WHERE s.pgt_schema = %(schema)s AND s.pgt_name = %(name)s AND d.source_type <> 'VIEW'
"""


def may_have_companions(connection: Connection[TupleRow], name: QualifiedName) -> bool:
    """Tell, from its own sources alone, if a stream table may be below a diamond or in a circle."""
    values = {"schema": name.schema, "name": name.name}
    [(may, unknown)] = connection.execute(_MAY_HAVE_COMPANIONS, values).fetchall()
    if unknown and follow_renamed_tables(connection):
        [(may, _)] = connection.execute(_MAY_HAVE_COMPANIONS, values).fetchall()
    return bool(may)


def list_companions(connection: Connection[TupleRow], name: QualifiedName) -> list[QualifiedName]:
    """Return what must be refreshed together with a stream table, in order, itself last.

    That is what it reads, directly or not, as far as it belongs to the same group.
    """
    follow_renamed_tables(connection)
    nodes = {one.relid: one for one in list_nodes(connection)}
    relid = next((one.relid for one in nodes.values() if one.name == name), None)
    for group in groups_of(nodes.values()):
        if relid in group:
            needed = graph_of(nodes.values()).ancestors[relid] - {relid}
            return [*(nodes[one].name for one in group if one in needed), name]
    return [name]


_UPDATE_CONSISTENCY = """
    UPDATE pgtrickle.pgt_stream_tables
       SET diamond_consistency = %s, updated_at = pg_catalog.clock_timestamp()
     WHERE pgt_id = %s
"""


def update_diamond_consistency(
    connection: Connection[TupleRow], stream_table_id: int, consistency: DiamondConsistency
) -> None:
    """Record whether the paths that meet in a stream table are refreshed together."""
    connection.execute(_UPDATE_CONSISTENCY, [consistency.value, stream_table_id])


_UPDATE_POLICY = """
    UPDATE pgtrickle.pgt_stream_tables
       SET diamond_schedule_policy = %s, updated_at = pg_catalog.clock_timestamp()
     WHERE pgt_id = %s
"""


def update_diamond_schedule_policy(
    connection: Connection[TupleRow], stream_table_id: int, policy: DiamondSchedulePolicy
) -> None:
    """Record when those are due."""
    connection.execute(_UPDATE_POLICY, [policy.value, stream_table_id])


# By the server and without a row to travel: a sum does not depend on the order.
_GET_VERSION = """
    SELECT (SELECT pg_catalog.concat(count(*), ' ', sum(pg_catalog.hash_record_extended(
                       ROW(s.pgt_id, s.pgt_relid, s.pgt_schema, s.pgt_name, s.original_query,
                           s.schedule, s.tier, s.status, s.suspended_by, s.refresh_mode,
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
              FROM pgtrickle.pgt_dependencies AS d),
           ARRAY(SELECT DISTINCT r.pgt_id
                   FROM (SELECT s.pgt_id, s.pgt_relid, s.pgt_schema, s.pgt_name
                           FROM pgtrickle.pgt_stream_tables AS s
                          UNION ALL
                         SELECT d.pgt_id, d.source_relid, d.source_schema, d.source_name
                           FROM pgtrickle.pgt_dependencies AS d) AS r (pgt_id, relid, schema, name)
                   JOIN pg_catalog.pg_class AS c ON c.oid = r.relid
                   JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
                  WHERE r.schema <> n.nspname OR r.name <> c.relname
                  ORDER BY 1)
"""


def get_schedule_token(connection: Connection[TupleRow]) -> tuple[str, tuple[int, ...]]:
    """Return what differs whenever anything does on which the schedule of refreshes depends.

    And the ids of stream tables that were renamed, or read what was.
    """
    [(version, renamed)] = connection.execute(_GET_VERSION).fetchall()
    return str(version), tuple(renamed)
