"""The logical slot: create it, look at it, read from it, move it on.

It is read by SQL functions and not by the replication protocol, which psycopg does not speak:
``peek`` returns changes and leaves the slot where it is, ``advance`` moves it.  Between the two
lies the commit of what was read, so a crash makes the slot deliver again and never too little.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.errors import ServerBusyError, SlotLostError, WalUnavailableError
from pgtrickle.model.lsn import Lsn, format_lsn, parse_lsn
from pgtrickle.model.search_path import OWN_PATH

PLUGIN = "pgoutput"
_FETCH_ROWS = 5000
_HINT_LOST = "Nothing is to be done: triggers take over, and the stream tables are rebuilt."


@dataclass(frozen=True, slots=True)
class SlotState:
    """A slot as the server shows it."""

    name: str
    plugin: str
    own_database: bool
    wal_status: str  # reserved, extended, unreserved or lost
    confirmed: Lsn  # what committed before is never delivered again
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
    """Look a slot up by its name; slots belong to the whole server."""
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
            f'the logical slot "{name}" was moved by someone else',
            detail=f"It is at {format_lsn(state.confirmed)}, the buffers at {format_lsn(position)}",
            hint=_HINT_LOST,
        )
    return state


_CREATE = """
    SELECT lsn::pg_catalog.text
      FROM pg_catalog.pg_create_logical_replication_slot(%(name)s, %(plugin)s)
"""


def create_slot(connection: Connection[TupleRow], name: str, patience: timedelta) -> Lsn:
    """Create a slot and return from where on it delivers.

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
    """Drop a slot of this database, whatever became of it; it takes effect at once."""
    state = find_slot(connection, name)
    if state is None or not state.own_database:
        return
    try:
        connection.execute(_DROP, {"name": name})
    except psycopg.errors.ObjectInUse as error:
        raise _in_use(name) from error


_ADVANCE = "SELECT pg_catalog.pg_replication_slot_advance(%(name)s, %(lsn)s)"


def advance_slot(connection: Connection[TupleRow], name: str, lsn: Lsn) -> None:
    """Tell the server that what committed before ``lsn`` is not needed again."""
    try:
        connection.execute(_ADVANCE, {"name": name, "lsn": format_lsn(lsn)})
    except psycopg.errors.ObjectInUse as error:
        raise _in_use(name) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise _lost(name, error) from error


_GET_END = "SELECT pg_catalog.pg_current_wal_insert_lsn()::pg_catalog.text"


def get_log_end(connection: Connection[TupleRow]) -> Lsn:
    """Return a position that lies after the commit of every transaction visible by now.

    A transaction writes its commit record before it becomes visible to anyone.
    """
    [(lsn,)] = connection.execute(_GET_END).fetchall()
    return parse_lsn(lsn)


_IS_FLUSHED = "SELECT pg_catalog.pg_current_wal_flush_lsn() >= %(lsn)s"
_EMIT = "SELECT pg_catalog.pg_logical_emit_message(true, 'pgtrickle', '')"


def flush_log(connection: Connection[TupleRow], lsn: Lsn) -> None:
    """See that the log is on disk up to ``lsn``: the slot delivers nothing that is not.

    With synchronous_commit off a transaction is visible before.  A commit of our own that waits
    for the disk takes everything before it along.
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
    """Yield the messages of the transactions that committed before ``upto``, in order, in lots.

    After ``limit`` messages no further transaction begins; one is never cut.  Nothing is moved.
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


# A value must read back as what it was, whatever a session, a role or the server prefers.
_PLAIN = {
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "xmloption": "content",
    "search_path": OWN_PATH,
}


def use_plain_values(connection: Connection[TupleRow]) -> None:
    """Let this transaction write and read values in one form."""
    for name, value in _PLAIN.items():
        _set(connection, name, value)


_SET = "SELECT pg_catalog.set_config(%(name)s, %(value)s, true)"


def _set(connection: Connection[TupleRow], name: str, value: str) -> None:
    connection.execute(_SET, {"name": name, "value": value})
