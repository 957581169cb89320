"""The text of the trigger functions that copy changes into a buffer.

A function must never make a write to its table fail, however the table was altered.  So it
uses the numbers of columns, not their names, and first checks whether the table still has the
layout it was written for: each column that it needs exists, and the file that stores the
rows, which a change of a type replaces, is the same.  These checks cost a microsecond or two,
because the server answers them from its caches; a query of the catalog would cost twenty.  Types
that are stored alike change without a new file, but each can be assigned to the other.

If the check fails, functions of the catalog write the statements each time, until
the next refresh has replaced the function.  A failure then is a gap; the write succeeds.  The same
holds for rows that may not fit into the buffer, and for a missing buffer.  The block that
catches an error costs a subtransaction with its own id: too much for every write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql

from pgtrickle.capture.bell import ring
from pgtrickle.capture.function_head import PAUSED, Options, prelude
from pgtrickle.capture.sources import Member
from pgtrickle.model.text.names import QualifiedName


@dataclass(frozen=True, slots=True)
class Buffer:
    """A buffer, as a capture function needs to know it.

    Without ``exact_types`` the columns have types that may change into others that cannot be
    assigned back, without a new file: then the text of each statement is generated.  Without
    ``fits`` a row may be too long for the buffer, which adds two columns to it.
    """

    relid: int
    name: QualifiedName
    columns: Sequence[str]
    exact_types: bool
    fits: bool


@dataclass(frozen=True, slots=True)
class Event:
    """The event that fires a trigger, and its row images: weight by name."""

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
    IF {writable} AND {unchanged} THEN {fast}
    ELSE{slow}
    END IF;{ring}
    RETURN NULL;
END""")
_MARK = sql.SQL("""
BEGIN{prelude}
    IF {writable} THEN
        INSERT INTO {buffer} (__xid, __weight) VALUES (pg_catalog.pg_current_xact_id(), 0);
    ELSE
        PERFORM pgtrickle.note_gap({source}::pg_catalog.oid, 'its buffer could not be written');
    END IF;{ring}
    RETURN NULL;
END""")
# For a missing buffer the answer is NULL, which is not "yes".
_WRITABLE = sql.SQL("pg_catalog.has_table_privilege({buffer}::pg_catalog.oid, 'INSERT')")
_OR_GAP = sql.SQL("""
        BEGIN{statements}
        EXCEPTION WHEN OTHERS THEN
            PERFORM pgtrickle.note_gap(
                {source}::pg_catalog.oid, 'a change could not be captured: ' || SQLSTATE);
        END;""")
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
    buffer: Buffer,
    *,
    by_row: bool,
    source_relid: int,
    options: Options,
) -> sql.Composable:
    """Write the body of one trigger function."""
    if options.paused:
        return PAUSED
    table = sql.Identifier(buffer.name.schema, buffer.name.name)
    source = sql.Literal(source_relid)
    writable = _WRITABLE.format(buffer=sql.Literal(buffer.relid))
    touched = _touched(event, by_row=by_row)
    ends = {"prelude": prelude(source_relid, options, touched), "ring": ring(source_relid, touched)}
    if not event.images:
        return _MARK.format(buffer=table, source=source, writable=writable, **ends)
    columns = buffer.columns
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
            buffer=sql.Literal(buffer.name.sql),
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
        **ends,
        unchanged=_unchanged(member, live) if buffer.exact_types else sql.SQL("false"),
        writable=writable,
        fast=sql.Composed(fast)
        if buffer.fits
        else _OR_GAP.format(statements=sql.Composed(fast), source=source),
        slow=_OR_GAP.format(statements=sql.Composed(slow), source=source),
    )


def _touched(event: Event, *, by_row: bool) -> sql.Composable:
    """Write the test whether a statement has touched a row: triggers also fire for none."""
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
