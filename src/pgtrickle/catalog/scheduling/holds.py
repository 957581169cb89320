"""Queries over what holds the scheduler back: gates, watermarks, pauses, the drain, fuses.

They hold back the scheduler alone: a refresh by hand asks nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.errors import SettingError
from pgtrickle.model.status_report import Quiesced, StillRunning
from pgtrickle.model.text.lengths import shorten

# As the constraints have it.
_LONGEST_NAME = 255
_MOST_SOURCES = 1_000
_LONGEST_TOLERANCE = 1_000_000_000

_LIST = "SELECT pgt_id, reason FROM pgtrickle.list_holds()"


def list_holds(connection: Connection[TupleRow]) -> dict[int, str]:
    """Return the ids of the stream tables that the scheduler leaves alone, with a reason each."""
    return dict(connection.execute(_LIST).fetchall())


_GATE = """
    INSERT INTO pgtrickle.pgt_source_gates AS g (source_relid) VALUES (%(relid)s)
        ON CONFLICT (source_relid) DO UPDATE
       SET gated = true, gated_at = pg_catalog.now(), gated_by = current_user
"""
_UNGATE = """
    UPDATE pgtrickle.pgt_source_gates
       SET gated = false, ungated_at = pg_catalog.now()
     WHERE source_relid = %(relid)s AND gated
"""


def gate_source(connection: Connection[TupleRow], source_relid: int) -> None:
    """Let the scheduler leave the consumers of a source alone."""
    connection.execute(_GATE, {"relid": source_relid})


def ungate_source(connection: Connection[TupleRow], source_relid: int) -> None:
    """Let the scheduler go on with the consumers of a source."""
    connection.execute(_UNGATE, {"relid": source_relid})


_ADVANCE = """
    INSERT INTO pgtrickle.pgt_watermarks AS w (source_relid, watermark)
    VALUES (%(relid)s, %(watermark)s)
        ON CONFLICT (source_relid) DO UPDATE
       SET watermark = excluded.watermark,
           updated_at = CASE WHEN w.watermark = excluded.watermark THEN w.updated_at
                             ELSE excluded.updated_at END,
           advanced_by = excluded.advanced_by
     WHERE w.watermark <= excluded.watermark
    RETURNING w.watermark
"""


def advance_watermark(
    connection: Connection[TupleRow], source_relid: int, watermark: datetime
) -> None:
    """Record up to when a source is complete; it never goes back."""
    values = {"relid": source_relid, "watermark": watermark}
    try:
        advanced = connection.execute(_ADVANCE, values).fetchone()
    except psycopg.errors.CheckViolation as error:
        raise SettingError(
            f"the watermark cannot be {watermark.isoformat()}", hint="Give a moment of this age."
        ) from error
    if advanced is None:
        raise SettingError(
            f"the watermark cannot go back to {watermark.isoformat()}",
            hint="Give a later moment, or the same.",
        )


_CREATE_GROUP = """
    INSERT INTO pgtrickle.pgt_watermark_groups (group_name, source_relids, tolerance_secs)
    VALUES (%(name)s, %(relids)s::pg_catalog.oid[], %(tolerance)s)
"""
_DROP_GROUP = "DELETE FROM pgtrickle.pgt_watermark_groups WHERE group_name = %(name)s"


def create_watermark_group(
    connection: Connection[TupleRow], name: str, source_relids: Sequence[int], tolerance: float = 0
) -> None:
    """Hold back the consumers of several of these sources until the watermarks agree."""
    if (
        not 2 <= len(set(source_relids)) <= _MOST_SOURCES
        or not 0 <= tolerance <= _LONGEST_TOLERANCE
        or len(name.encode()) > _LONGEST_NAME
    ):
        raise SettingError(
            f'the watermark group "{shorten(name)}" needs two sources and a tolerance of 0 or more',
            hint=f"Name 2 to {_MOST_SOURCES:,} different sources; the tolerance is in seconds, at"
            f" most {_LONGEST_TOLERANCE:,}.",
        )
    values = {"name": name, "relids": list(dict.fromkeys(source_relids)), "tolerance": tolerance}
    try:
        with connection.transaction():
            connection.execute(_CREATE_GROUP, values)
    except psycopg.errors.UniqueViolation as error:
        raise SettingError(
            f'the watermark group "{name}" already exists', hint="Drop it first."
        ) from error


def drop_watermark_group(connection: Connection[TupleRow], name: str) -> None:
    """Forget a group."""
    if connection.execute(_DROP_GROUP, {"name": name}).rowcount == 0:
        raise SettingError(f'the watermark group "{name}" does not exist')


_PAUSE = """
    INSERT INTO pgtrickle.pgt_scheduler_pauses (pgt_id)
    SELECT one.id FROM pg_catalog.unnest(%(ids)s::pg_catalog.int8[]) AS one (id)
        ON CONFLICT DO NOTHING
"""
_RESUME = """
    DELETE FROM pgtrickle.pgt_scheduler_pauses
     WHERE pgt_id = ANY(%(ids)s::pg_catalog.int8[])
        OR (%(all)s AND pgt_id IS NULL)
"""


def pause_scheduler(connection: Connection[TupleRow], stream_table_ids: Sequence[int]) -> None:
    """Let the scheduler leave stream tables alone; what is in flight comes to its end."""
    connection.execute(_PAUSE, {"ids": list(stream_table_ids)})


def resume_scheduler(connection: Connection[TupleRow], stream_table_ids: Sequence[int]) -> None:
    """Let the scheduler go on with stream tables."""
    connection.execute(_RESUME, {"ids": list(stream_table_ids), "all": False})


def drain_scheduler(connection: Connection[TupleRow]) -> None:
    """Let the scheduler begin nothing more."""
    connection.execute(_PAUSE, {"ids": [None]})


def undrain_scheduler(connection: Connection[TupleRow]) -> None:
    """Let the scheduler begin again."""
    connection.execute(_RESUME, {"ids": [], "all": True})


_RESUME_ALL = "SELECT pgtrickle.resume_all()"


def resume_all(connection: Connection[TupleRow]) -> list[str]:
    """End the drain and every pause; return the names of the stream tables that are free again."""
    [(names,)] = connection.execute(_RESUME_ALL).fetchall()
    return list(names)


_QUIESCE_STATUS = "SELECT pgtrickle.quiesce_status()"


def get_quiesced(connection: Connection[TupleRow]) -> Quiesced:
    """Return whether everything is quiet, and what still runs."""
    [(found,)] = connection.execute(_QUIESCE_STATUS).fetchall()
    left = [
        StillRunning(one["name"], one["daemon"], datetime.fromisoformat(one["running_since"]))
        for one in found["left"]
    ]
    return Quiesced(found["quiet"], tuple(left))


_IS_DRAINED = """
    SELECT EXISTS (SELECT FROM pgtrickle.pgt_scheduler_pauses WHERE pgt_id IS NULL)
       AND NOT EXISTS (SELECT FROM pgtrickle.pgt_leases
                        WHERE expires_at > pg_catalog.clock_timestamp())
"""


def is_drained(connection: Connection[TupleRow]) -> bool:
    """Tell whether a drain was asked for and nothing is in flight any more."""
    return bool(connection.execute(_IS_DRAINED).fetchall()[0][0])
