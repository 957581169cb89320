"""Queries over ``pgt_relay_pipelines`` and ``pgt_relay_states``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow, class_row
from psycopg.types.json import Jsonb

from pgtrickle.errors import RelayHeldError
from pgtrickle.model.streams.relay import DeadLetter, RelayStatus

_LIST = """
    SELECT p.pipeline, pg_catalog.format('%I.%I', s.pgt_schema, s.pgt_name), p.definition
      FROM pgtrickle.pgt_relay_pipelines AS p JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
     ORDER BY p.pipeline
"""


def list_definitions(connection: Connection[TupleRow]) -> list[tuple[str, dict[str, Any]]]:
    """Return the pipelines of the catalog, each with its definition as it was given."""
    return [
        (pipeline, {**definition, "stream_table": name})
        for pipeline, name, definition in connection.execute(_LIST)
    ]


@dataclass(frozen=True, slots=True)
class Held:
    """A pipeline that this relay may deliver, as it was left."""

    place: tuple[int, bool, int] | None  # after which it goes on
    sent: tuple[int, bool, int] | None  # the last message that arrived
    paused: bool
    wake: int


_TAKE = """
    INSERT INTO pgtrickle.pgt_relay_states AS s (pipeline, pgt_id, sink, holder, held_until)
    VALUES (%(pipeline)s, %(pgt_id)s, %(sink)s, %(holder)s,
            pg_catalog.clock_timestamp() + pg_catalog.make_interval(secs => %(seconds)s))
        ON CONFLICT (pipeline) DO UPDATE
       SET holder = excluded.holder, held_until = excluded.held_until, sink = excluded.sink,
           pgt_id = excluded.pgt_id,
           messages = CASE WHEN s.pgt_id = excluded.pgt_id THEN s.messages ELSE 0 END,
           retries = CASE WHEN s.pgt_id = excluded.pgt_id THEN s.retries ELSE 0 END,
           outbox_id = CASE WHEN s.pgt_id = excluded.pgt_id THEN s.outbox_id END,
           in_contents = CASE WHEN s.pgt_id = excluded.pgt_id THEN s.in_contents END,
           row_number = CASE WHEN s.pgt_id = excluded.pgt_id THEN s.row_number END,
           sent_outbox_id = CASE WHEN s.pgt_id = excluded.pgt_id THEN s.sent_outbox_id END,
           sent_contents = CASE WHEN s.pgt_id = excluded.pgt_id THEN s.sent_contents END,
           sent_row_number = CASE WHEN s.pgt_id = excluded.pgt_id THEN s.sent_row_number END
     WHERE s.holder = excluded.holder OR s.held_until IS NULL
        OR s.held_until < pg_catalog.clock_timestamp()
    RETURNING s.outbox_id, s.in_contents, s.row_number, s.sent_outbox_id, s.sent_contents,
              s.sent_row_number, s.paused, s.wake
"""


def take(
    connection: Connection[TupleRow],
    pipeline: str,
    pgt_id: int,
    sink: str,
    holder: str,
    seconds: float,
) -> Held:
    """Take a pipeline for one relay and some seconds, or raise ST826 if another one has it."""
    values = {
        "pipeline": pipeline,
        "pgt_id": pgt_id,
        "sink": sink,
        "holder": holder,
        "seconds": seconds,
    }
    row = connection.execute(_TAKE, values).fetchone()
    if row is None:
        raise RelayHeldError(f"another relay delivers the pipeline {pipeline}")
    place = None if row[0] is None else (row[0], row[1], row[2])
    sent = None if row[3] is None else (row[3], row[4], row[5])
    return Held(place, sent, row[6], row[7])


# A lease that has run out is kept by its holder until another relay takes it: who takes it writes
# his name, which is the fence.  A relay on a slow machine would lose it again and again otherwise.
_KEEP = """
    UPDATE pgtrickle.pgt_relay_states
       SET held_until = pg_catalog.clock_timestamp()
                        + pg_catalog.make_interval(secs => %(seconds)s),
           since = CASE WHEN state = %(state)s THEN since ELSE pg_catalog.clock_timestamp() END,
           state = %(state)s, retries = retries + %(retries)s, in_flight = %(in_flight)s,
           error_code = %(code)s, error = %(error)s, hint = %(hint)s
     WHERE pipeline = %(pipeline)s AND holder = %(holder)s
    RETURNING paused, wake
"""


def keep(connection: Connection[TupleRow], values: dict[str, object]) -> tuple[bool, int] | None:
    """Say what a pipeline does, and keep it; return whether it is paused, or None if it is lost."""
    row = connection.execute(_KEEP, values).fetchone()
    return None if row is None else (row[0], row[1])


_GIVE_BACK = """
    UPDATE pgtrickle.pgt_relay_states SET holder = NULL, held_until = NULL, in_flight = 0
     WHERE pipeline = %(pipeline)s AND holder = %(holder)s
"""


def give_back(connection: Connection[TupleRow], pipeline: str, holder: str) -> None:
    """Let other relays have a pipeline."""
    connection.execute(_GIVE_BACK, {"pipeline": pipeline, "holder": holder})


_ADVANCE = """
    UPDATE pgtrickle.pgt_relay_states
       SET outbox_id = %(outbox_id)s, in_contents = %(in_contents)s, row_number = %(row_number)s,
           sent_outbox_id = coalesce(%(sent_outbox_id)s, sent_outbox_id),
           sent_contents = coalesce(%(sent_contents)s, sent_contents),
           sent_row_number = coalesce(%(sent_row_number)s, sent_row_number),
           messages = messages + %(messages)s,
           sent_at = CASE WHEN %(messages)s > 0 THEN pg_catalog.clock_timestamp() ELSE sent_at END
     WHERE pipeline = %(pipeline)s AND holder = %(holder)s
"""


def advance(
    connection: Connection[TupleRow],
    pipeline: str,
    holder: str,
    place: tuple[int, bool, int],
    sent: tuple[int, bool, int] | None,
    messages: int,
) -> None:
    """Record where a pipeline goes on; raise ST826 if another relay has it by now."""
    values: dict[str, object] = {
        "pipeline": pipeline,
        "holder": holder,
        "messages": messages,
        **dict(zip(("outbox_id", "in_contents", "row_number"), place, strict=True)),
        **dict(
            zip(
                ("sent_outbox_id", "sent_contents", "sent_row_number"),
                sent or (None, None, None),
                strict=True,
            )
        ),
    }
    if connection.execute(_ADVANCE, values).rowcount != 1:
        raise RelayHeldError(f"another relay has taken the pipeline {pipeline} over")


_STATUS = "SELECT * FROM pgtrickle.relay_status(%(name)s)"
_LETTERS = "SELECT * FROM pgtrickle.relay_dead_letters(%(name)s, %(most)s)"


def list_states(connection: Connection[TupleRow], name: str | None) -> list[RelayStatus]:
    """Return what the pipelines do, or one of them."""
    with connection.cursor(row_factory=class_row(RelayStatus)) as cursor:
        return cursor.execute(_STATUS, {"name": name}).fetchall()


def list_letters(connection: Connection[TupleRow], name: str | None, most: int) -> list[DeadLetter]:
    """Return dead letters, oldest first."""
    with connection.cursor(row_factory=class_row(DeadLetter)) as cursor:
        return cursor.execute(_LETTERS, {"name": name, "most": most}).fetchall()


def pause(connection: Connection[TupleRow], name: str) -> None:
    """Pause a pipeline."""
    connection.execute("SELECT pgtrickle.pause_relay(%s)", [name])


def resume(connection: Connection[TupleRow], name: str, *, again: bool) -> None:
    """Let a pipeline go on."""
    connection.execute("SELECT pgtrickle.resume_relay(%s, %s)", [name, again])


def replay(connection: Connection[TupleRow], name: str, ids: Sequence[int] | None) -> int:
    """Let dead letters be delivered again; return how many."""
    wanted = None if ids is None else list(ids)
    found = connection.execute("SELECT pgtrickle.replay_dead_letters(%s, %s)", [name, wanted])
    return int(found.fetchall()[0][0])


_CREATE = """
    SELECT pgtrickle.create_relay_pipeline(
        %(name)s, %(stream_table)s, %(sink)s, %(options)s, %(envelope)s, %(start)s, %(on_poison)s,
        %(sink_max_inflight)s, %(max_failures)s, %(poll_ms)s, %(or_replace)s, '{}')
"""


def create(
    connection: Connection[TupleRow], name: str, given: dict[str, Any], *, or_replace: bool
) -> None:
    """Record a pipeline."""
    values = {**given, "options": Jsonb(given["options"]), "name": name, "or_replace": or_replace}
    connection.execute(_CREATE, values)


def drop(connection: Connection[TupleRow], name: str, *, if_exists: bool) -> bool:
    """Drop a pipeline; return whether there was one."""
    found = connection.execute("SELECT pgtrickle.drop_relay_pipeline(%s, %s)", [name, if_exists])
    return bool(found.fetchall()[0][0])
