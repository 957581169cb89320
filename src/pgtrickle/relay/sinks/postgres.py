"""A table of another PostgreSQL server that is kept equal to the stream table.

The place of the last message is written in the transaction of the rows, so each takes effect once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from typing import Any, ClassVar, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from pgtrickle.errors import MessageRefusedError, SinkSetupError, SinkUnavailableError, TrickleError
from pgtrickle.model.text.names import QualifiedName, quote_identifier, quote_literal
from pgtrickle.model.text.trusted import trusted
from pgtrickle.relay.definitions import Definition
from pgtrickle.relay.messages import Message, Op, Place, Schema, Stream
from pgtrickle.relay.sinks.postgres_rows import Rows
from pgtrickle.relay.sinks.sink import Guarantee, Options, refusal
from pgtrickle.session import FIX_PATH

_PLACES: Final = "pgtrickle_relay_places"
_NOW_CLASSES: Final = frozenset({"08", "40", "53", "55", "57"})
_ABOUT_ONE: Final = frozenset({"21", "22", "23"})


class PostgresSink:
    """A table with the columns of the stream table."""

    guarantee: ClassVar[Guarantee] = Guarantee.EXACTLY_ONCE

    def __init__(self, definition: Definition, options: dict[str, Any]) -> None:
        taken = Options(definition, options)
        self._dsn = taken.text("dsn")
        self._table = QualifiedName.parse(taken.text("table"))
        self._create = taken.flag("create", default=True)
        seconds = taken.number("timeout_seconds", 30, 1, 3600)
        taken.end()
        try:
            conninfo_to_dict(self._dsn)
        except psycopg.ProgrammingError:
            raise taken.wrong("dsn", "a connection string of PostgreSQL") from None
        self._timeout = f"{int(seconds * 1000)}ms"
        self._connection: psycopg.Connection | None = None
        self._columns: dict[str, str] = {}
        self._places = QualifiedName(self._table.schema, _PLACES).sql

    def open(self, stream: Stream, schema: Schema) -> Place | None:
        """Connect, make what is missing, and take the table for this relay alone."""
        with self._errors():
            self._connection = psycopg.connect(self._dsn, connect_timeout=10, autocommit=True)
            run = self._connection.execute
            for setting in FIX_PATH.replace("LOCAL ", "").split("; "):
                run(trusted(setting))
            run(trusted(f"SET statement_timeout = {quote_literal(self._timeout)}"))
            with self._connection.transaction():
                self._make(schema)
            listed = run(_LIST_COLUMNS, {"table": self._table.sql}).fetchall()
            self._columns = dict(listed)
            # For as long as the session lives; a relay that lost its server comes to a free one.
            [[free]] = run(_TAKE, {"table": self._table.sql}).fetchall()
            if not free:
                raise SinkUnavailableError(f"another relay writes the table {self._table}")
            asked = trusted(_FIND.replace("{places}", self._places.replace("%", "%%")))
            found = run(asked, [str(self._table), stream.pgt_id]).fetchone()
            return None if found is None else Place(*found)

    def _make(self, schema: Schema) -> None:
        assert self._connection is not None  # noqa: S101 - for the type checker
        run = self._connection.execute
        [[known]] = run("SELECT pg_catalog.to_regclass(%s)", [self._places]).fetchall()
        if known is None:
            run(trusted(_MAKE_PLACES.replace("{places}", self._places)))
        [[table]] = run("SELECT pg_catalog.to_regclass(%s)", [self._table.sql]).fetchall()
        if table is None and not self._create:
            raise SinkSetupError(f"there is no table {self._table}", hint="Create it there.")
        if table is None:
            listed = ", ".join(
                f"{quote_identifier(name)} {type_}" for name, type_ in schema.columns
            )
            run(trusted(f"CREATE TABLE {self._table.sql} ({listed})"))
            if schema.key:
                keys = ", ".join(map(quote_identifier, schema.key))
                run(
                    trusted(f"CREATE UNIQUE INDEX ON {self._table.sql} ({keys}) NULLS NOT DISTINCT")
                )

    def send(self, messages: Sequence[Message]) -> None:
        """Apply messages in one transaction, with the place of the last one."""
        try:
            self._apply(messages)
        except MessageRefusedError:
            if len(messages) == 1:
                raise
            for number, message in enumerate(messages):  # which one it is
                try:
                    self._apply([message])
                except MessageRefusedError as refused:
                    raise refusal(number, str(refused), hint=refused.hint) from refused

    def _apply(self, messages: Sequence[Message]) -> None:
        connection = self._connection
        if connection is None:
            raise SinkUnavailableError("the connection is not open")
        last = messages[-1]
        values = (str(self._table), last.stream.pgt_id, *astuple(last.place))
        with self._errors(), connection.transaction():
            for batch in _split(messages):
                self._write(connection, batch)
            if last.replayed:  # its place is an older one
                return
            connection.execute(
                trusted(_RECORD.replace("{places}", self._places.replace("%", "%%"))), values
            )

    def _write(self, connection: psycopg.Connection, batch: Sequence[Message]) -> None:
        op, schema = batch[0].op, batch[0].schema
        if op is Op.RESET:
            connection.execute(trusted(f"DELETE FROM {self._table.sql}"))
            return
        for name, _ in schema.columns:
            if name not in self._columns:
                raise SinkSetupError(
                    f"the table {self._table} has no column {name!r}, which version"
                    f" {schema.version} of the stream table has",
                    hint="Add the column there; the relay goes on by itself.",
                )
        names = [name for name, _ in schema.columns]
        rows = Rows(self._table, {name: self._columns[name] for name in names}, schema.key)
        befores, afters = _array(one.before for one in batch), _array(one.after for one in batch)
        match op:
            case Op.DELETE:
                connection.execute(trusted(rows.delete(_has_null(batch))), [befores])
            case Op.UPDATE:
                statement = trusted(rows.update(nulls=_has_null(batch)))
                if connection.execute(statement, [afters]).rowcount != len(batch):
                    # A stream that did not begin with the contents.
                    connection.execute(trusted(rows.delete(_has_null(batch))), [befores])
                    connection.execute(trusted(rows.insert()), [afters])
            case _:
                connection.execute(trusted(rows.insert()), [afters])

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise self._error_for(error) from None  # its text may quote the connection string

    def _error_for(self, error: psycopg.Error) -> TrickleError:
        state = error.sqlstate or ""
        if state[:2] in _ABOUT_ONE:
            return refusal(0, f"the table {self._table} refuses a row (SQLSTATE {state})")
        if state[:2] in _NOW_CLASSES or (not state and self._connection is not None):
            return SinkUnavailableError(f"the server of {self._table} does not answer ({state})")
        if not state:
            return SinkUnavailableError(f"the server of {self._table} cannot be reached")
        return SinkSetupError(
            f"the server of {self._table} refuses (SQLSTATE {state})",
            detail=error.diag.message_primary or "",
            hint="Check the credentials of the pipeline, and its rights there.",
        )


def _split(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """Yield messages that one statement can apply: of one kind, and no key twice."""
    batch: list[Message] = []
    keys: set[str | None] = set()
    for one in messages:
        repeated = one.op is Op.UPDATE and one.key in keys
        if batch and (
            (one.op, one.schema.version) != (batch[0].op, batch[0].schema.version) or repeated
        ):
            yield batch
            batch, keys = [], set()
        batch.append(one)
        keys.add(one.key)
    yield batch


def _array(rows: Iterable[str | None]) -> str:
    return "[" + ",".join(one for one in rows if one is not None) + "]"


def _has_null(batch: Sequence[Message]) -> bool:
    return any(one.key is not None and None in json.loads(one.key).values() for one in batch)


_FIND: Final = """
    SELECT outbox_id, in_contents, row_number FROM {places} WHERE target = %s AND pgt_id = %s
"""
_RECORD: Final = """
    INSERT INTO {places} AS p (target, pgt_id, outbox_id, in_contents, row_number)
    VALUES (%s, %s, %s, %s, %s)
        ON CONFLICT (target) DO UPDATE
       SET pgt_id = excluded.pgt_id, outbox_id = excluded.outbox_id,
           in_contents = excluded.in_contents, row_number = excluded.row_number
"""
_MAKE_PLACES: Final = """
    CREATE TABLE IF NOT EXISTS {places} (
        target      text    PRIMARY KEY,
        pgt_id      bigint  NOT NULL,
        outbox_id   bigint  NOT NULL,
        in_contents boolean NOT NULL,
        row_number  bigint  NOT NULL)
"""
_LIST_COLUMNS: Final = """
    SELECT a.attname::text, pg_catalog.format_type(a.atttypid, a.atttypmod)
      FROM pg_catalog.pg_attribute AS a
     WHERE a.attrelid = %(table)s::pg_catalog.regclass AND a.attnum > 0 AND NOT a.attisdropped
"""
# For as long as the session lives; it differs from every other lock by its first number.
_TAKE: Final = "SELECT pg_catalog.pg_try_advisory_lock(822, %(table)s::pg_catalog.regclass::int4)"
