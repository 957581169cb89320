"""Queries over ``pgt_service_levels``: the age that contents must not exceed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.model.text.names import QualifiedName

_MEASURE = """
    SELECT pg_catalog.percentile_cont(0.99) WITHIN GROUP (
               ORDER BY extract(epoch FROM h.end_time - h.start_time)::pg_catalog.float8)
      FROM (SELECT h.start_time, h.end_time
              FROM pgtrickle.pgt_refresh_history AS h
              JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
             WHERE h.pgt_id = %s AND h.refresh_id > s.measured_since AND h.status = 'COMPLETED'
               AND h.action IN ('DIFFERENTIAL', 'FULL') AND h.initiated_by <> 'INITIAL'
             ORDER BY h.start_time DESC
             LIMIT 1000) AS h
"""


def measure_longest(connection: Connection[TupleRow], stream_table_id: int) -> float:
    """Return the seconds that 99 of 100 refreshes with changes took at most; 0 without any."""
    [(seconds,)] = connection.execute(_MEASURE, [stream_table_id]).fetchall()
    return 0.0 if seconds is None else float(seconds)


# What was told of a former service level says nothing of this one, unless it is the same.
_SET = """
    INSERT INTO pgtrickle.pgt_service_levels AS v (pgt_id, deadline_seconds)
    VALUES (%(id)s, %(seconds)s)
        ON CONFLICT (pgt_id) DO UPDATE
       SET deadline_seconds = excluded.deadline_seconds, set_at = pg_catalog.now(), spent_told = 0,
           predicted_at = NULL
     WHERE v.deadline_seconds <> excluded.deadline_seconds
"""
_CLEAR = "DELETE FROM pgtrickle.pgt_service_levels WHERE pgt_id = %(id)s"


def set_service_level(
    connection: Connection[TupleRow], stream_table_id: int, seconds: float | None
) -> None:
    """Record the service level of a stream table; None: it has none any more."""
    values = {"id": stream_table_id, "seconds": seconds}
    connection.execute(_CLEAR if seconds is None else _SET, values)


@dataclass(frozen=True, slots=True)
class SlaAlert:
    """An alert on a service level."""

    stream_table: QualifiedName
    event: str
    facts: dict[str, Any]


_TAKE = "SELECT pgt_schema, pgt_name, event, facts FROM pgtrickle.take_sla_alerts(%s, %s)"
_TELL_PREDICTED = """
    SELECT pgtrickle.notify('pg_trickle_alert', pg_catalog.json_build_object(
               'event', 'predicted_sla_breach', 'name', %(name)s::pg_catalog.text,
               'sla_s', %(sla_s)s::pg_catalog.float8,
               'predicted_s', %(predicted_s)s::pg_catalog.float8)::pg_catalog.text)
"""
_TELL_SPENT = """
    SELECT pgtrickle.notify('pg_trickle_alert', pg_catalog.json_build_object(
               'event', 'sla_budget_spent', 'name', %(name)s::pg_catalog.text,
               'spent_percent', %(spent_percent)s::pg_catalog.int4,
               'sla_s', %(sla_s)s::pg_catalog.float8, 'breach_s', %(breach_s)s::pg_catalog.float8,
               'error_budget_remaining',
               %(error_budget_remaining)s::pg_catalog.float8)::pg_catalog.text)
"""


def send_sla_alerts(
    connection: Connection[TupleRow], window_hours: float, cooldown_seconds: float
) -> list[SlaAlert]:
    """Send the alerts on service levels that are due, and return them."""
    with connection.transaction():
        rows = connection.execute(_TAKE, [window_hours, cooldown_seconds]).fetchall()
        alerts = [SlaAlert(QualifiedName(schema, name), *rest) for schema, name, *rest in rows]
        for one in alerts:
            tell = _TELL_SPENT if one.event == "sla_budget_spent" else _TELL_PREDICTED
            connection.execute(tell, {"name": str(one.stream_table), **one.facts})
    return alerts
