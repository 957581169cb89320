"""Queries over ``pgt_paces``: which stream tables fall behind their schedules.

Only the leading daemon writes it; another one that takes over goes on from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from pgtrickle.model.text.names import QualifiedName

_LIST = "SELECT pgt_id, late, stretch FROM pgtrickle.pgt_paces"


def list_paces(connection: Connection[TupleRow]) -> dict[int, tuple[int, int]]:
    """Return how many refreshes in a row were late, and the factor on the interval, by id."""
    return {number: (late, stretch) for number, late, stretch in connection.execute(_LIST)}


@dataclass(frozen=True, slots=True)
class NewPace:
    """What one refresh has changed."""

    stream_table_id: int
    stream_table: QualifiedName
    late: int
    stretch: int
    interval_seconds: float
    took_seconds: float
    behind: bool  # it took longer than the interval, stretched as it was


# A stream table may have been dropped since.
_KEEP = """
    INSERT INTO pgtrickle.pgt_paces AS p
           (pgt_id, late, stretch, interval_seconds, took_seconds, stretched_at)
    SELECT s.pgt_id, %(late)s, %(stretch)s, %(every)s, %(took)s,
           CASE WHEN %(stretch)s > 1 THEN pg_catalog.clock_timestamp() END
      FROM pgtrickle.pgt_stream_tables AS s WHERE s.pgt_id = %(id)s
        ON CONFLICT (pgt_id) DO UPDATE
       SET late = excluded.late, stretch = excluded.stretch, took_seconds = excluded.took_seconds,
           interval_seconds = excluded.interval_seconds,
           late_at = CASE WHEN %(behind)s THEN excluded.late_at ELSE p.late_at END,
           stretched_at = CASE WHEN p.stretch = excluded.stretch THEN p.stretched_at
                               ELSE excluded.stretched_at END
"""
_FORGET = "DELETE FROM pgtrickle.pgt_paces WHERE pgt_id = %(id)s"
_ALERT = """
    SELECT pgtrickle.notify('pg_trickle_alert', pg_catalog.json_build_object(
        'event', 'scheduler_falling_behind', 'name', %(name)s::text,
        'took_seconds', %(took)s::float8, 'interval_seconds', %(every)s::float8,
        'late', %(late)s::int4, 'stretch', %(stretch)s::int4)::text)
"""


def note_pace(connection: Connection[TupleRow], news: NewPace) -> None:
    """Record a pace, or forget one that is that of the schedule again; alert if it was late."""
    values = {
        "id": news.stream_table_id,
        "name": str(news.stream_table),
        "late": news.late,
        "stretch": news.stretch,
        "every": news.interval_seconds,
        "took": news.took_seconds,
        "behind": news.behind,
    }
    on_time = news.late == 0 and news.stretch == 1
    connection.execute(_FORGET if on_time else _KEEP, values)
    if news.behind:
        connection.execute(_ALERT, values)


@dataclass(frozen=True, slots=True)
class FallingBehind:
    """A stream table whose refreshes take longer than its schedule allows."""

    stream_table: str
    schedule: str
    interval_seconds: float
    stretch: int
    effective_interval_seconds: float
    late_refreshes: int
    took_seconds: float
    late_at: datetime
    stretched_at: datetime | None


_LIST_BEHIND = """
    SELECT name, schedule, interval_seconds, stretch, effective_interval_seconds, late_refreshes,
           took_seconds, late_at, stretched_at
      FROM pgtrickle.falling_behind()
"""


def list_falling_behind(connection: Connection[TupleRow]) -> list[FallingBehind]:
    """Return the stream tables that fall behind, those with the longest interval first."""
    return [FallingBehind(*row) for row in connection.execute(_LIST_BEHIND)]


_SATURATE = """
    UPDATE pgtrickle.pgt_leader
       SET saturation = CASE WHEN %(facts)s::pg_catalog.jsonb IS NOT NULL
                             THEN %(facts)s::pg_catalog.jsonb || pg_catalog.jsonb_build_object(
                                      'since', coalesce(saturation ->> 'since',
                                                        pg_catalog.clock_timestamp()::text)) END
     WHERE owner = %(owner)s
"""
_ALERT_OF_LOAD = """
    SELECT pgtrickle.notify('pg_trickle_alert', (
        pg_catalog.jsonb_build_object('event', %(event)s::text)
        || coalesce(%(facts)s::pg_catalog.jsonb, '{}'))::text)
"""


def note_saturation(
    connection: Connection[TupleRow], owner: str, facts: Mapping[str, Any] | None
) -> None:
    """Record and tell that refreshes wait for room at the daemon that leads, or no more."""
    event = "scheduler_recovered" if facts is None else "scheduler_saturated"
    values = {
        "owner": owner,
        "event": event,
        "facts": None if facts is None else Jsonb(dict(facts)),
    }
    connection.execute(_SATURATE, values)
    connection.execute(_ALERT_OF_LOAD, values)
