"""Queries over ``pgt_self_monitoring``: the stream tables over the history itself."""

from __future__ import annotations

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.model.insight.self_monitoring import MonitoringPart
from pgtrickle.model.text.names import QualifiedName

_REGISTER = """
    INSERT INTO pgtrickle.pgt_self_monitoring (pgt_id, part)
    SELECT s.pgt_id, %(part)s FROM pgtrickle.pgt_stream_tables AS s
     WHERE (s.pgt_schema, s.pgt_name) = (%(schema)s, %(name)s)
"""


def register_part(connection: Connection[TupleRow], name: QualifiedName, part: str) -> None:
    """Record that a stream table is a part of self-monitoring."""
    connection.execute(_REGISTER, {"part": part, "schema": name.schema, "name": name.name})


_LIST = """
    SELECT part, stream_table, status, schedule, last_refresh_at, failing
      FROM pgtrickle.self_monitoring_status()
"""


def list_parts(connection: Connection[TupleRow]) -> list[MonitoringPart]:
    """Return the stream tables of self-monitoring, in the order of their creation."""
    return [
        MonitoringPart(part, str(QualifiedName.parse(name, "")), *facts)
        for part, name, *facts in connection.execute(_LIST)
    ]


_IS_PART = "SELECT EXISTS (SELECT FROM pgtrickle.pgt_self_monitoring WHERE pgt_id = %s)"


def is_part(connection: Connection[TupleRow], stream_table_id: int) -> bool:
    """Tell whether a stream table belongs to self-monitoring."""
    [(found,)] = connection.execute(_IS_PART, [stream_table_id]).fetchall()
    return bool(found)
