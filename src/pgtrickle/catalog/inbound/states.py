"""Queries over ``pgt_inbound_pipelines`` and ``pgt_inbound_states``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow, class_row
from psycopg.types.json import Jsonb

from pgtrickle.errors import RelayHeldError
from pgtrickle.model.streams.inbound import InboundDeadLetter, InboundStatus

_LIST = """
    SELECT p.pipeline,
           coalesce((SELECT pg_catalog.format('%I.%I', n.nspname, c.relname)
                       FROM pg_catalog.pg_class AS c
                       JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
                      WHERE c.oid = i.relid),
                    pg_catalog.format('%I.%I', i.schema_name, i.inbox_name)),
           p.definition
      FROM pgtrickle.pgt_inbound_pipelines AS p JOIN pgtrickle.pgt_inboxes AS i USING (inbox_id)
     ORDER BY p.pipeline
"""


def list_definitions(connection: Connection[TupleRow]) -> list[tuple[str, dict[str, Any]]]:
    """Return the inbound pipelines of the catalog, each with its definition as it was given."""
    return [
        (pipeline, {**definition, "inbox": inbox})
        for pipeline, inbox, definition in connection.execute(_LIST)
    ]


@dataclass(frozen=True, slots=True)
class Held:
    """A pipeline that this relay may receive."""

    paused: bool
    wake: int


# Of another inbox, nothing was received yet.
_TAKE = """
    INSERT INTO pgtrickle.pgt_inbound_states AS s (pipeline, inbox_id, origin, holder, held_until)
    VALUES (%(pipeline)s, %(inbox_id)s, %(origin)s, %(holder)s,
            pg_catalog.clock_timestamp() + pg_catalog.make_interval(secs => %(seconds)s))
        ON CONFLICT (pipeline) DO UPDATE
       SET holder = excluded.holder, held_until = excluded.held_until, origin = excluded.origin,
           inbox_id = excluded.inbox_id
     WHERE s.holder = excluded.holder OR s.held_until IS NULL
        OR s.held_until < pg_catalog.clock_timestamp()
    RETURNING s.paused, s.wake
"""
_FORGET_PLACES = """
    DELETE FROM pgtrickle.pgt_inbound_places AS o
     WHERE o.pipeline = %(pipeline)s
       AND EXISTS (SELECT FROM pgtrickle.pgt_inbound_states AS s
                    WHERE s.pipeline = o.pipeline
                      AND (s.inbox_id <> %(inbox_id)s OR s.origin <> %(origin)s)
                      AND (s.held_until IS NULL OR s.held_until < pg_catalog.clock_timestamp()))
"""


def take(
    connection: Connection[TupleRow],
    pipeline: str,
    inbox_id: int,
    origin: str,
    holder: str,
    seconds: float,
) -> Held:
    """Take a pipeline for one relay and some seconds, or raise ST826 if another one has it."""
    values = {
        "pipeline": pipeline,
        "inbox_id": inbox_id,
        "origin": origin,
        "holder": holder,
        "seconds": seconds,
    }
    connection.execute(_FORGET_PLACES, values)
    row = connection.execute(_TAKE, values).fetchone()
    if row is None:
        raise RelayHeldError(f"another relay receives the pipeline {pipeline}")
    return Held(*row)


# A lease that has run out is kept by its holder until another relay takes it: see the other relay.
_KEEP = """
    UPDATE pgtrickle.pgt_inbound_states
       SET held_until = pg_catalog.clock_timestamp()
                        + pg_catalog.make_interval(secs => %(seconds)s),
           since = CASE WHEN state = %(state)s THEN since ELSE pg_catalog.clock_timestamp() END,
           state = %(state)s, retries = retries + %(retries)s, lag = %(lag)s,
           error_code = %(code)s, error = %(error)s, hint = %(hint)s
     WHERE pipeline = %(pipeline)s AND holder = %(holder)s
    RETURNING paused, wake
"""


def keep(connection: Connection[TupleRow], values: dict[str, object]) -> Held | None:
    """Say what a pipeline does, and keep it; None if it is lost."""
    row = connection.execute(_KEEP, values).fetchone()
    return None if row is None else Held(*row)


_GIVE_BACK = """
    UPDATE pgtrickle.pgt_inbound_states SET holder = NULL, held_until = NULL
     WHERE pipeline = %(pipeline)s AND holder = %(holder)s
"""


def give_back(connection: Connection[TupleRow], pipeline: str, holder: str) -> None:
    """Let other relays have a pipeline."""
    connection.execute(_GIVE_BACK, {"pipeline": pipeline, "holder": holder})


_COUNT = """
    UPDATE pgtrickle.pgt_inbound_states
       SET messages = messages + %(new)s, duplicates = duplicates + %(known)s,
           received_at = CASE WHEN %(new)s > 0 THEN pg_catalog.clock_timestamp()
                              ELSE received_at END
     WHERE pipeline = %(pipeline)s AND holder = %(holder)s
"""


def count(
    connection: Connection[TupleRow], pipeline: str, holder: str, *, new: int, known: int
) -> None:
    """Count messages, and raise ST826 if another relay has the pipeline by now."""
    values = {"pipeline": pipeline, "holder": holder, "new": new, "known": known}
    if connection.execute(_COUNT, values).rowcount != 1:
        raise RelayHeldError(f"another relay has taken the pipeline {pipeline} over")


_STATUS = "SELECT * FROM pgtrickle.inbound_status(%(name)s)"
_LETTERS = "SELECT * FROM pgtrickle.inbound_dead_letters(%(name)s, %(most)s)"


def list_states(connection: Connection[TupleRow], name: str | None) -> list[InboundStatus]:
    """Return what the inbound pipelines do, or one of them."""
    with connection.cursor(row_factory=class_row(InboundStatus)) as cursor:
        return cursor.execute(_STATUS, {"name": name}).fetchall()


def list_letters(
    connection: Connection[TupleRow], name: str | None, most: int
) -> list[InboundDeadLetter]:
    """Return dead letters, oldest first."""
    with connection.cursor(row_factory=class_row(InboundDeadLetter)) as cursor:
        return cursor.execute(_LETTERS, {"name": name, "most": most}).fetchall()


def pause(connection: Connection[TupleRow], name: str) -> None:
    """Pause a pipeline."""
    connection.execute("SELECT pgtrickle.pause_inbound(%s)", [name])


def resume(connection: Connection[TupleRow], name: str, *, again: bool) -> None:
    """Let a pipeline go on."""
    connection.execute("SELECT pgtrickle.resume_inbound(%s, %s)", [name, again])


def replay(connection: Connection[TupleRow], name: str, ids: Sequence[int] | None) -> int:
    """Let dead letters be read again; return how many."""
    query = "SELECT pgtrickle.replay_inbound_dead_letters(%s, %s)"
    [[found]] = connection.execute(query, [name, None if ids is None else list(ids)]).fetchall()
    return int(found)


_CREATE = """
    SELECT pgtrickle.create_inbound_pipeline(
        %(name)s, %(inbox)s, %(origin)s, %(options)s, %(start)s, %(on_unreadable)s,
        %(max_inflight)s, %(max_pending)s, %(poll_ms)s, %(or_replace)s, '{}')
"""


def create(
    connection: Connection[TupleRow], name: str, given: dict[str, Any], *, or_replace: bool
) -> None:
    """Record an inbound pipeline."""
    values = {**given, "options": Jsonb(given["options"]), "name": name, "or_replace": or_replace}
    connection.execute(_CREATE, values)


def drop(connection: Connection[TupleRow], name: str, *, if_exists: bool) -> bool:
    """Drop an inbound pipeline; return whether there was one."""
    query = "SELECT pgtrickle.drop_inbound_pipeline(%s, %s)"
    return bool(connection.execute(query, [name, if_exists]).fetchall()[0][0])
