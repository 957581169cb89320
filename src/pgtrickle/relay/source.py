"""The side of a pipeline that reads: its stream table, the outbox, and its place in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass, replace
from typing import Final

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.binding.sql_types import resolve_types
from pgtrickle.catalog.outboxes.entries import get_position
from pgtrickle.catalog.relay.pages import (
    Followed,
    Head,
    Letter,
    check_group,
    find_followed,
    list_columns,
    list_heads,
    list_rows,
    list_versions,
    make_group,
    release_entries,
)
from pgtrickle.catalog.relay.states import Held, advance, take
from pgtrickle.errors import InternalError
from pgtrickle.model.sql_type import Column
from pgtrickle.model.streams.outbox import OutboxPosition
from pgtrickle.model.text.names import quote_identifier, quote_literal
from pgtrickle.model.text.trusted import trusted
from pgtrickle.relay.definitions import Definition, Start
from pgtrickle.relay.messages import Message, Op, Place, Schema, Stream, write_key
from pgtrickle.service.runtime import Runtime, translated_errors
from pgtrickle.session import BEGIN_SNAPSHOT, Session
from pgtrickle.storage.outbox_changes import json_value
from pgtrickle.transit.fixed_settings import FIXED_TEXTS

_CONNECT_SECONDS = 10
_OPS: Final = {one.value: one for one in Op}
_Writer = Callable[[Place, Op, str | None, str | None, str | None], Message]


@dataclass(frozen=True, slots=True)
class Page:
    """Messages in their order, and where the next ones are."""

    messages: Sequence[Message]
    then: Place


def dsn_of(runtime: Runtime) -> str:
    """Return the connection string of the database of a runtime."""
    return str(runtime.pool.conninfo)


class Source:
    """One pipeline's session of the database with the outbox."""

    def __init__(
        self, dsn: str, definition: Definition, holder: str, lease_seconds: float = 30
    ) -> None:
        self._definition, self._holder = definition, holder
        self._lease_seconds = lease_seconds
        self._group = f"relay:{definition.name}"
        self._dsn = dsn
        with translated_errors():
            self.session = self._open()
        self._followed: Followed | None = None
        self._schemas: dict[int, Schema] = {}

    def _open(self) -> Session:
        session = Session.open(self._dsn, connect_timeout=_CONNECT_SECONDS)
        session.autocommit = True
        return session

    def close(self) -> None:
        """Close the session."""
        self.session.close()

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """Lend the session for a transaction."""
        with translated_errors(), self.session.transaction():
            yield self.session

    @property
    def stream(self) -> Stream:
        """The stream table."""
        found = self._found()
        return Stream(found.pgt_id, found.database, found.name.schema, found.name.name)

    def schema(self, version: int | None = None) -> Schema:
        """Return the columns in a version; without one, in the latest."""
        if version is None or version not in self._schemas:
            with translated_errors():
                self._read_schemas(self.session)
        return self._schemas[max(self._schemas) if version is None else version]

    def take(self) -> Held:
        """Find the stream table, take the pipeline, and let its entries be kept."""
        with self.transaction() as session:
            self._followed = find_followed(session, self._definition.stream_table)
            held = take(
                session,
                self._definition.name,
                self._followed.pgt_id,
                self._definition.sink,
                self._holder,
                self._lease_seconds,
            )
            earliest = self._definition.start is Start.EARLIEST
            if held.place is None:
                make_group(session, self._group, self._followed, earliest=earliest)
        return held

    def find_start(self) -> Place:
        """Return the place from which a pipeline begins that follows changes alone."""
        with translated_errors():
            position = get_position(self.session, self._found().name)
        first = position.first_id if self._definition.start is Start.EARLIEST else None
        return Place(first or position.last_id + 1, False, 0)  # noqa: FBT003 - a place

    def advance(self, then: Place, sent: Message | None, delivered: int) -> None:
        """Record where to go on, and let the outbox forget what was delivered."""
        with self.transaction() as session:
            self.advance_within(session, then, sent, delivered)

    def advance_within(
        self, session: Connection[TupleRow], then: Place, sent: Message | None, delivered: int
    ) -> None:
        """Do the same in a transaction that does more."""
        last = None if sent is None else _tuple(sent.place)
        name = self._definition.name
        advance(session, name, self._holder, _tuple(then), last, delivered)
        if not then.in_contents:
            release_entries(session, self._group, then.outbox_id - 1)

    def read(self, place: Place, most: int) -> Page | None:
        """Return the next changes; None if there are none yet."""
        name = self._found().name
        with self.transaction():
            check_group(self.session, self._group, self._found())
            heads = list_heads(self.session, name, place.outbox_id)
            if not heads:
                return None
            last = heads[-1].outbox_id
            rows = list_rows(self.session, name, place.outbox_id, last, place.row_number, most)
        written = {one.outbox_id: self._writer(one) for one in heads}
        reached = last if not rows or rows[-1].complete else rows[-1].outbox_id
        messages: list[Message] = []
        told = place.outbox_id - (not place.row_number)  # of which entries a reset was told
        for outbox_id, number, op, key, before, after, _ in rows:
            if outbox_id > told:
                messages += self._resets(heads, told, outbox_id)
                told = outbox_id
            at = Place(outbox_id, False, number)  # noqa: FBT003 - a place
            messages.append(written[outbox_id](at, _OPS[op], key, before, after))
        if not rows or rows[-1].complete:
            messages += self._resets(heads, told, last)
            return Page(messages, Place(last + 1, False, 0))  # noqa: FBT003 - a place
        return Page(messages, Place(reached, False, rows[-1].row_number))  # noqa: FBT003 - a place

    def _resets(self, heads: Sequence[Head], after: int, up_to: int) -> Iterator[Message]:
        for head in heads:
            if head.reset and after < head.outbox_id <= up_to:
                at = Place(head.outbox_id, False, 0)  # noqa: FBT003 - a place
                yield self._writer(head)(at, Op.RESET, None, None, None)

    def _writer(self, head: Head) -> _Writer:
        """Return what makes the messages of an entry."""
        stream, schema, at = self.stream, self.schema(head.schema_version), head.data_timestamp

        def write(
            place: Place, op: Op, key: str | None, before: str | None, after: str | None
        ) -> Message:
            return Message(stream, schema, place, op, write_key(key, schema), before, after, at)

        return write

    def replayed(self, letter: Letter) -> Message:
        """Return the message of a dead letter."""
        at = Place(letter.outbox_id, letter.in_contents, letter.row_number)
        head = Head(letter.outbox_id, False, letter.data_timestamp, letter.schema_version)  # noqa: FBT003
        write = self._writer(head)
        message = write(at, Op(letter.op), letter.key, letter.before, letter.after)
        return replace(message, replayed=True)

    @contextmanager
    def contents(self, place: Place | None, most: int) -> Iterator[Iterator[Page]]:
        """Yield the contents of the stream table at one position, page by page.

        They have an order, so that a pipeline that was interrupted goes on where it was, unless the
        contents have changed meanwhile.
        """
        with translated_errors(), closing(self._open()) as reader:
            # The position may give numbers to entries, which are to be seen soon; the contents of
            # the same moment are read by a session that writes nothing, and takes its time.
            with self.transaction() as session:
                session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                [[moment]] = session.execute("SELECT pg_catalog.pg_export_snapshot()").fetchall()
                reader.execute(BEGIN_SNAPSHOT)
                reader.execute(trusted(f"SET TRANSACTION SNAPSHOT {quote_literal(moment)}"))
                position = get_position(session, self._found().name)
                self._read_schemas(session)
            yield self._read_contents(reader, position, place, most)

    def _read_contents(
        self, session: Session, position: OutboxPosition, place: Place | None, most: int
    ) -> Iterator[Page]:
        session.execute(FIXED_TEXTS)
        schema, last = self._schemas[position.schema_version], position.last_id
        head = Head(last, False, position.data_timestamp, schema.version)  # noqa: FBT003 - no reset
        write = self._writer(head)
        again = place is not None and place.in_contents and place.outbox_id == last
        number = place.row_number if again and place is not None else 0
        pending: list[Message] = []
        if not again:
            pending.append(write(Place(last, True, 0), Op.RESET, None, None, None))  # noqa: FBT003
        with session.cursor("relay_contents") as cursor:
            cursor.itersize = most
            cursor.execute(trusted(self._contents_query(session, schema, number)))
            size = 0
            for key, row in cursor:
                number += 1
                at = Place(last, True, number)  # noqa: FBT003 - a place
                pending.append(write(at, Op.READ, key, None, row))
                size += len(row)
                if len(pending) >= most or size >= _MOST_CHARACTERS:
                    yield Page(pending, at)
                    pending, size = [], 0
        yield Page(pending, Place(last + 1, False, 0))  # noqa: FBT003 - a place

    def _contents_query(self, session: Session, schema: Schema, skipped: int) -> str:
        found = self._found()
        columns = list_columns(session, found.relid)
        types = resolve_types(session, [(oid, modifier) for _, oid, modifier in columns])
        typed = [Column(name, type_) for (name, _, _), type_ in zip(columns, types, strict=True)]
        if [one.name for one in typed] != [name for name, _ in schema.columns]:
            raise InternalError(f"the outbox of {found.name} has other columns than its table")
        listed = ", ".join(
            f"{json_value(f'r.{quote_identifier(one.name)}', one.type)}"
            f" AS {quote_identifier(one.name)}"
            for one in typed
        )
        key = "NULL"
        if schema.key is not None:
            taken = ", ".join(f"d.row -> {quote_literal(one)}" for one in schema.key)
            names = ", ".join(map(quote_literal, schema.key))
            key = (
                "(SELECT coalesce(jsonb_object_agg(k.name, k.value), '{}')::text"
                f" FROM unnest(ARRAY[{names}]::text[], ARRAY[{taken}]::jsonb[]) AS k (name, value))"
            )
        return (
            f"SELECT {key}, d.row::text FROM (SELECT (SELECT to_jsonb(document)"
            f" FROM (SELECT {listed}) AS document) AS row FROM ONLY {found.name.sql} AS r) AS d"
            f' ORDER BY d.row::text COLLATE "C" OFFSET {skipped:d}'
        )

    def _found(self) -> Followed:
        if self._followed is None:
            with translated_errors():
                self._followed = find_followed(self.session, self._definition.stream_table)
        return self._followed

    def _read_schemas(self, session: Session) -> None:
        self._schemas = {
            one.version: Schema(
                one.version,
                tuple((column["name"], column["type"]) for column in one.columns),
                None if one.key_columns is None else tuple(one.key_columns),
            )
            for one in list_versions(session, self._found().name)
        }


_MOST_CHARACTERS = 16_000_000


def _tuple(place: Place) -> tuple[int, bool, int]:
    outbox_id, in_contents, row_number = astuple(place)
    return outbox_id, in_contents, row_number
