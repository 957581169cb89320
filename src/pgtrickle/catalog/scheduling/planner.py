"""The answers of the planner, whose rules are functions of SQL (67_planner.sql)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.model.scheduling.recommendation import ModeAdvice, ScheduleAdvice
from pgtrickle.model.text.names import QualifiedName

_RECOMMEND = "SELECT pgtrickle.recommend_schedule(%s, '{}')"


def recommend_schedule(connection: Connection[TupleRow], name: QualifiedName) -> dict[str, Any]:
    """Return the recommended interval of a stream table, and why."""
    [(found,)] = connection.execute(_RECOMMEND, [name.sql]).fetchall()
    return dict(found)


_LIST = """
    SELECT name, schedule, current_interval_seconds, recommended_interval_seconds, delta_pct,
           peak_window_cron, confidence, reasoning
      FROM pgtrickle.console_advice(%(ids)s, %(most)s)
"""


def list_schedule_advice(
    connection: Connection[TupleRow], ids: Collection[int] | None = None, *, most: int | None = None
) -> list[ScheduleAdvice]:
    """Return the recommended interval of each stream table, or of some, at most so many."""
    values = {"ids": None if ids is None else list(ids), "most": most}
    return [
        ScheduleAdvice(str(QualifiedName.parse(name, "")), *facts)
        for name, *facts in connection.execute(_LIST, values)
    ]


_MODES = """
    SELECT stream_table, current_mode, effective_mode, recommended_mode, confidence, reason, signals
      FROM pgtrickle.recommend_refresh_mode(%s, '{}')
"""


def list_mode_advice(
    connection: Connection[TupleRow], name: QualifiedName | None
) -> list[ModeAdvice]:
    """Return the recommended refresh mode of one stream table, or of all."""
    rows = connection.execute(_MODES, [None if name is None else name.sql])
    return [ModeAdvice(str(QualifiedName.parse(one, "")), *facts) for one, *facts in rows]
