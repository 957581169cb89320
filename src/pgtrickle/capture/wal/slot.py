"""The logical slot: create, inspect, read and advance it.

It is read by SQL functions and not by the replication protocol, which psycopg does not support:
``peek`` returns changes and does not move the slot, ``advance`` moves it.  The commit of the
changes is between the two, so after a crash the slot delivers them again and loses none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.errors import ServerBusyError, SlotLostError, WalUnavailableError
from pgtrickle.model.capture.lsn import Lsn, format_lsn, parse_lsn
from pgtrickle.model.text.search_path import OWN_PATH

PLUGIN = "pgoutput"
_FETCH_ROWS = 5000
_HINT_LOST = "No action is needed: triggers take over, and the stream tables are rebuilt."


@dataclass(frozen=True, slots=True)
class SlotState:
    """A slot as the server shows it."""

    name: str
    plugin: str
    own_database: bool
    wal_status: str  # reserved, extended, unreserved or lost
    confirmed: Lsn  # transactions that committed before it are never delivered again
    lag_bytes: int  # of log that the server keeps for this slot


_FIND = """
    SELECT slot_name, plugin, database = pg_catalog.current_database(),
           COALESCE(wal_status, 'lost'),
           COALESCE(confirmed_flush_lsn, '0/0')::pg_catalog.text,
           COALESCE(pg_catalog.pg_current_wal_lsn() - restart_lsn, 0)::pg_catalog.int8
      FROM pg_catalog.pg_replication_slots
     WHERE slot_name = %(name)s AND slot_type = 'logical'
"""


def find_slot(connection: Connection[TupleRow], name: str) -> SlotState | None:
    """Find a slot by its name; slots belong to the whole server."""
    row = connection.execute(_FIND, {"name": name}).fetchone()
    if row is None:
        return None
    found, plugin, own, status, confirmed, lag = row
    return SlotState(found, plugin, bool(own), status, parse_lsn(confirmed), lag)


def check_slot(state: SlotState | None, name: str, position: Lsn) -> SlotState:
    """Return the slot if it still delivers everything after ``position``; else raise ST322."""
    if state is None:
        raise SlotLostError(f'the logical slot "{name}" does not exist', hint=_HINT_LOST)
    if state.plugin != PLUGIN or not state.own_database:
        raise SlotLostError(
            f'the logical slot "{name}" is of the plugin "{state.plugin}"'
            + ("" if state.own_database else " and of another database"),
            hint=_HINT_LOST,
        )
    if state.wal_status == "lost":
        raise SlotLostError(
            f'the server no longer keeps the log that the slot "{name}" needs',
            hint=f"{_HINT_LOST} To avoid it, raise max_slot_wal_keep_size.",
        )
    if state.confirmed > position:
        raise SlotLostError(
            f'the logical slot "{name}" was moved by another client',
            detail=f"It is at {format_lsn(state.confirmed)}, the buffers at {format_lsn(position)}",
            hint=_HINT_LOST,
        )
    return state


_CREATE = """
    SELECT lsn::pg_catalog.text
      FROM pg_catalog.pg_create_logical_replication_slot(%(name)s, %(plugin)s)
"""


def create_slot(connection: Connection[TupleRow], name: str, patience: timedelta) -> Lsn:
    """Create a slot and return the position from which it delivers.

    PostgreSQL waits for every transaction that is open anywhere on the server; ``patience`` ends
    that with ST320.  The connection must be outside a transaction.
    """
    try:
        with connection.transaction():
            _set(connection, "statement_timeout", f"{int(patience.total_seconds() * 1000)}ms")
            [(lsn,)] = connection.execute(_CREATE, {"name": name, "plugin": PLUGIN}).fetchall()
    except psycopg.errors.QueryCanceled as error:
        raise WalUnavailableError(
            "could not create a logical slot: a transaction on the server stays open",
            hint="End long and prepared transactions, or raise wal_transition_timeout_seconds.",
        ) from error
    except (
        psycopg.errors.ObjectNotInPrerequisiteState,
        psycopg.errors.ConfigurationLimitExceeded,
        psycopg.errors.InsufficientPrivilege,
    ) as error:
        raise WalUnavailableError(
            f"could not create a logical slot: {error.diag.message_primary}",
            hint=error.diag.message_hint or "Ask the administrator of the server.",
        ) from error
    return parse_lsn(lsn)


_DROP = "SELECT pg_catalog.pg_drop_replication_slot(%(name)s)"


def drop_slot(connection: Connection[TupleRow], name: str) -> None:
    """Drop a slot of this database in any state; it takes effect at once."""
    state = find_slot(connection, name)
    if state is None or not state.own_database:
        return
    try:
        connection.execute(_DROP, {"name": name})
    except psycopg.errors.ObjectInUse as error:
        raise _in_use(name) from error


_ADVANCE = "SELECT pg_catalog.pg_replication_slot_advance(%(name)s, %(lsn)s)"


def advance_slot(connection: Connection[TupleRow], name: str, lsn: Lsn) -> None:
    """Tell the server that transactions that committed before ``lsn`` are no longer needed."""
    try:
        connection.execute(_ADVANCE, {"name": name, "lsn": format_lsn(lsn)})
    except psycopg.errors.ObjectInUse as error:
        raise _in_use(name) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise _lost(name, error) from error


_GET_END = "SELECT pg_catalog.pg_current_wal_insert_lsn()::pg_catalog.text"


def get_log_end(connection: Connection[TupleRow]) -> Lsn:
    """Return a position after the commit of every transaction that is visible now.

    A transaction writes its commit record before it becomes visible to anyone.
    """
    [(lsn,)] = connection.execute(_GET_END).fetchall()
    return parse_lsn(lsn)


_IS_FLUSHED = "SELECT pg_catalog.pg_current_wal_flush_lsn() >= %(lsn)s"
_EMIT = "SELECT pg_catalog.pg_logical_emit_message(true, 'pgtrickle', '')"


def flush_log(connection: Connection[TupleRow], lsn: Lsn) -> None:
    """Make sure that the log is on disk up to ``lsn``: the slot delivers only such log.

    With synchronous_commit off a transaction is visible earlier.  A commit that waits
    for the disk flushes everything before it.
    """
    [(flushed,)] = connection.execute(_IS_FLUSHED, {"lsn": format_lsn(lsn)}).fetchall()
    if not flushed:
        with connection.transaction():
            _set(connection, "synchronous_commit", "local")
            connection.execute(_EMIT)


_PEEK = """
    SELECT data
      FROM pg_catalog.pg_logical_slot_peek_binary_changes(
               %(name)s, %(upto)s, %(limit)s,
               'proto_version', '1', 'publication_names', %(publication)s)
"""


def peek(
    connection: Connection[TupleRow], name: str, publication: str, *, upto: Lsn, limit: int
) -> Iterator[list[bytes]]:
    """Yield the messages of the transactions that committed before ``upto``, in order, in batches.

    After ``limit`` messages no further transaction begins; none is cut.  The slot is not moved.
    The connection must be inside a transaction; values are written as its settings say.
    """
    values = {"name": name, "upto": format_lsn(upto), "limit": limit, "publication": publication}
    try:
        with connection.cursor("pgtrickle_wal", binary=True) as cursor:
            cursor.execute(_PEEK, values)
            while rows := cursor.fetchmany(_FETCH_ROWS):
                yield [row[0] for row in rows]
    except psycopg.errors.ObjectInUse as error:
        raise _in_use(name) from error
    except (
        psycopg.errors.UndefinedObject,
        psycopg.errors.UndefinedFile,
        psycopg.errors.ObjectNotInPrerequisiteState,
        psycopg.errors.InsufficientPrivilege,
    ) as error:
        raise _lost(name, error) from error


def _lost(name: str, error: psycopg.Error) -> SlotLostError:
    return SlotLostError(
        f'could not read from the logical slot "{name}": {error.diag.message_primary}',
        hint=_HINT_LOST,
    )


def _in_use(name: str) -> ServerBusyError:
    return ServerBusyError(
        f'another session is reading from the logical slot "{name}"',
        hint="Leave the slot to pgtrickle.",
    )


# A value must be readable without loss, under any settings of a session, a role or the server.
_PLAIN = {
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "xmloption": "content",
    "search_path": OWN_PATH,
}


def use_plain_values(connection: Connection[TupleRow]) -> None:
    """Fix the format in which this transaction writes and reads values."""
    for name, value in _PLAIN.items():
        _set(connection, name, value)


_SET = "SELECT pg_catalog.set_config(%(name)s, %(value)s, true)"


def _set(connection: Connection[TupleRow], name: str, value: str) -> None:
    connection.execute(_SET, {"name": name, "value": value})
