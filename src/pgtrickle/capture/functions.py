"""The text of the trigger functions that copy changes into a buffer.

A function must never make a write to its table fail, whatever was done to the table since.  So it
goes by the numbers of columns, not by their names, and asks first whether the table is still the
one it was written for: each column that it has to count is there, and the file that stores the
rows is the same, which a change of a type replaces.  These questions cost a microsecond or two,
because the server answers them from its caches; a query of the catalog would cost twenty.  Types
that are stored alike change without a new file, but each can be assigned to the other.

If the answer is no, the statements are written anew each time, by functions of the catalog, until
the next refresh has replaced the function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql

from pgtrickle.capture.control import PAUSED, Options, prelude
from pgtrickle.capture.sources import Member
from pgtrickle.model.names import QualifiedName


@dataclass(frozen=True, slots=True)
class Event:
    """What fires a trigger, and which images of rows it finds: weight by name."""

    name: str
    images: tuple[tuple[str, int], ...]

    @property
    def transition_tables(self) -> sql.SQL:
        """The clause that names the images of a whole statement."""
        if not self.images:
            return sql.SQL("")
        listed = " ".join(f"{image} TABLE AS __{image.lower()}" for image, _ in self.images)
        return sql.SQL(f"REFERENCING {listed}")


EVENTS = (
    Event("insert", (("NEW", 1),)),
    Event("update", (("OLD", -1), ("NEW", 1))),
    Event("delete", (("OLD", -1),)),
    Event("truncate", ()),
)

_FUNCTION = sql.SQL("""
DECLARE
    __types pg_catalog.oid[];
BEGIN{prelude}
    IF {unchanged} THEN {fast}
    ELSE {slow}
    END IF;
    RETURN NULL;
END""")
_MARK = sql.SQL("""
BEGIN{prelude}
    INSERT INTO {buffer} (__xid, __weight) VALUES (pg_catalog.pg_current_xact_id(), 0);
    RETURN NULL;
END""")
_SAME_FILE = sql.SQL("pg_catalog.pg_relation_filenode({relid}::pg_catalog.oid) = {file}")
_HAS_COLUMN = sql.SQL(
    "pg_catalog.has_column_privilege({relid}::pg_catalog.oid, {number}::pg_catalog.int2, 'SELECT')"
    " IS NOT NULL"
)
_COPY = sql.SQL("""
        INSERT INTO {buffer} (__xid, __weight{columns})
        SELECT pg_catalog.pg_current_xact_id(), {weight}{values} FROM {rows} AS r{aliases};""")
_COPY_SLOWLY = sql.SQL("""
        EXECUTE pgtrickle.ask_column_types({relid}, {numbers}, {rows}) INTO __types{using};
        IF __types IS NOT NULL THEN
            EXECUTE pgtrickle.write_changes(
                {relid}, {buffer}, {names}, {numbers}, {types}, __types, {rows}, {weight}){using};
        END IF;""")


def function_text(
    event: Event,
    member: Member,
    buffer: QualifiedName,
    columns: Sequence[str],
    *,
    by_row: bool,
    exact_types: bool,
    source_relid: int,
    options: Options,
) -> sql.Composable:
    """Write the body of one trigger function.

    Without ``exact_types`` the columns are of types that may change into others that cannot be
    assigned back, without a new file: then each statement is written anew.
    """
    if options.paused:
        return PAUSED
    table = sql.Identifier(buffer.schema, buffer.name)
    head = prelude(source_relid, options, _touched(event, by_row=by_row))
    if not event.images:
        return _MARK.format(buffer=table, prelude=head)
    numbers = [member.columns[name][0] for name in columns]
    live = [number for number in member.live if number <= max(numbers, default=0)]
    texts = {
        "buffer": table,
        "columns": sql.Composed([sql.SQL(", ") + sql.Identifier(name) for name in columns]),
        "values": sql.SQL("".join(f", r.c{number}" for number in numbers)),
        "aliases": sql.SQL(f" ({', '.join(f'c{number}' for number in live)})" if live else ""),
    }
    fast = [
        _COPY.format(**texts, weight=sql.Literal(weight), rows=sql.SQL(_rows(image, by_row)))
        for image, weight in event.images
    ]
    slow = [
        _COPY_SLOWLY.format(
            relid=sql.Literal(member.relid),
            buffer=sql.Literal(buffer.sql),
            names=_array(columns, "text"),
            numbers=_array(numbers, "int2"),
            types=_array([member.columns[name][1] for name in columns], "oid"),
            rows=sql.Literal("(SELECT ($1).*)" if by_row else _rows(image, by_row)),
            weight=sql.Literal(weight),
            using=sql.SQL(f" USING {image}" if by_row else ""),
        )
        for image, weight in event.images
    ]
    return _FUNCTION.format(
        prelude=head,
        unchanged=_unchanged(member, live) if exact_types else sql.SQL("false"),
        fast=sql.Composed(fast),
        slow=sql.Composed(slow),
    )


def _touched(event: Event, *, by_row: bool) -> sql.Composable:
    """Write the question whether a statement has touched a row: triggers fire without any, too."""
    if by_row or not event.images:
        return sql.SQL("true")
    image, _ = event.images[0]
    return sql.SQL(f"EXISTS (SELECT FROM {_rows(image, by_row=False)})")


def _rows(image: str, by_row: bool) -> str:  # noqa: FBT001 - private
    return f"(SELECT {image}.*)" if by_row else f"__{image.lower()}"


def _unchanged(member: Member, live: Sequence[int]) -> sql.Composable:
    if member.stored_in is None:  # a partitioned table without partitions
        return sql.SQL("false")
    same_file = _SAME_FILE.format(
        relid=sql.Literal(member.stored_in), file=sql.Literal(member.file)
    )
    has_columns = [
        _HAS_COLUMN.format(relid=sql.Literal(member.relid), number=sql.Literal(number))
        for number in live
    ]
    return sql.SQL(" AND ").join([same_file, *has_columns])


def _array(values: Sequence[object], type_: str) -> sql.Composed:
    return sql.SQL("{}::pg_catalog.{}").format(
        sql.SQL("ARRAY[{}]").format(sql.SQL(", ").join(map(sql.Literal, values))),
        sql.SQL(f"{type_}[]"),
    )
