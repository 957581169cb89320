"""Copies of the members of a group, for a transaction that does not see the group's writes.

A transaction that imports the snapshot of a group sees the same sources as the group, but the
members before their refresh. Copies of the members, in temporary tables, take their places in a
query; views over them are rewritten as temporary views.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from graphlib import TopologicalSorter

import psycopg
from psycopg import Connection, Rollback

from pgtrickle.binding.bind import concerns_query
from pgtrickle.model.sql_type import Column
from pgtrickle.model.text.names import QualifiedName, quote_identifier, quote_literal
from pgtrickle.model.text.trusted import trusted
from pgtrickle.service.refreshing.commit import Committed
from pgtrickle.service.refreshing.groups.shared_transaction import rolled_back
from pgtrickle.service.refreshing.refresh import Prepared
from pgtrickle.service.refreshing.snapshot import Snapshot
from pgtrickle.service.runtime import Runtime
from pgtrickle.session import BEGIN_SNAPSHOT
from pgtrickle.sql.bound import BoundQuery
from pgtrickle.sql.text.current_time import count_times, hold_time
from pgtrickle.sql.text.rename_objects import Role, rename_in_query
from pgtrickle.storage.copying import copy_between
from pgtrickle.storage.definitions import column_definitions

_ANSWER = QualifiedName("pg_temp", "pgtrickle__answer")


@contextmanager
def imported(runtime: Runtime, snapshot: Snapshot) -> Iterator[Connection]:
    """Open another transaction at a snapshot; it may outlive the snapshot's own."""
    with runtime.connection() as reader, rolled_back(reader):
        reader.execute(BEGIN_SNAPSHOT)
        reader.execute(trusted(f"SET TRANSACTION SNAPSHOT {quote_literal(snapshot.name)}"))
        reader.execute("SET LOCAL lock_timeout = '1s'")
        yield reader


def create_temporary(reader: Connection, table: QualifiedName, columns: Sequence[Column]) -> None:
    """Create a temporary table that lasts until the end of the transaction."""
    listed, name = column_definitions(columns), quote_identifier(table.name)
    reader.execute(trusted(f"CREATE TEMPORARY TABLE {name} ({listed}) ON COMMIT DROP"))


def copy_rows(
    source: Connection,
    name: QualifiedName,
    reader: Connection,
    table: QualifiedName,
    columns: Sequence[Column],
) -> None:
    """Copy the rows that one transaction sees into a temporary table of another."""
    listed = ", ".join(quote_identifier(column.name) for column in columns)
    copy_between(source, f"(SELECT {listed} FROM {name.sql})", reader, table.sql)


# The name of the copy replaces everything before USING.
_LIST_INDEXES = """
    SELECT pg_catalog.format('CREATE %%sINDEX ON ', u.written) || %(copy)s || pg_catalog.substr(
               pg_catalog.pg_get_indexdef(i.indexrelid),
               pg_catalog.length(pg_catalog.format(
                   'CREATE %%sINDEX %%I ON %%I.%%I', u.written, c.relname, n.nspname, t.relname))
               + 1)
      FROM pg_catalog.pg_index AS i
      JOIN pg_catalog.pg_class AS c ON c.oid = i.indexrelid
      JOIN pg_catalog.pg_class AS t ON t.oid = i.indrelid
      JOIN pg_catalog.pg_namespace AS n ON n.oid = t.relnamespace
      CROSS JOIN LATERAL (SELECT CASE WHEN i.indisunique THEN 'UNIQUE ' ELSE '' END) AS u (written)
     WHERE i.indrelid = %(relid)s AND i.indisvalid
     ORDER BY i.indexrelid
"""


@dataclass(frozen=True, slots=True)
class Copy:
    """The new contents of one member of a group, in a temporary table."""

    member: Prepared

    @property
    def relid(self) -> int:
        """The relid of the member."""
        return self.member.stream_table.relid

    @property
    def table(self) -> QualifiedName:
        """The name of the temporary table."""
        return QualifiedName("pg_temp", f"pgtrickle__copy_{self.relid}")

    @property
    def rows(self) -> str:
        """The query that returns the copied rows."""
        listed = ", ".join(quote_identifier(one.name) for one in self.member.compiled.columns)
        return f"SELECT {listed} FROM {self.table.sql}"

    def create(self, reader: Connection) -> None:
        """Create the empty table."""
        create_temporary(reader, self.table, self.member.compiled.columns)

    def fill(self, writer: Connection, reader: Connection) -> None:
        """Copy the rows that the transaction of the group sees."""
        name, columns = self.member.stream_table.name, self.member.compiled.columns
        copy_rows(writer, name, reader, self.table, columns)

    def list_indexes(self, writer: Connection) -> list[str]:
        """Return the statements that create the member's indexes on the copy."""
        values = {"relid": self.relid, "copy": self.table.sql}
        return [statement for (statement,) in writer.execute(_LIST_INDEXES, values)]


def list_copies(committed: Sequence[Committed], readers: Sequence[Prepared]) -> list[Copy]:
    """Return the copies that ``readers`` need: of the changed members that they read."""
    read = {relid for one in readers for relid in one.compiled.binding.query.reads}
    own = {one.stream_table.relid for one in readers}
    return [
        Copy(one.prepared)
        for one in committed
        if one.prepared.stream_table.relid in read - own
        and (one.report.rows_inserted or one.report.rows_deleted)
    ]


def write_over_copies(
    reader: Connection, query: BoundQuery, copies: Sequence[Copy], moment: datetime | None = None
) -> str | None:
    """Write a query with copies in the places of members, and a moment in that of the current time.

    PostgreSQL decides whether that is possible; otherwise None. It may reject the new text, or the
    new query may still read a member.
    """
    if not copies and moment is None:
        return query.sql
    places = {one.relid: one.table for one in copies}
    try:
        with reader.transaction() as savepoint:
            if _replace(reader, query, places, moment):
                return f"SELECT * FROM {_ANSWER.sql}"
            raise Rollback(savepoint)
    except psycopg.Error as error:
        if not concerns_query(error):
            raise
    return None


_LIST_READS = """
    SELECT DISTINCT r.ev_class, d.refobjid
      FROM pg_catalog.pg_depend AS d
      JOIN pg_catalog.pg_rewrite AS r ON r.oid = d.objid
     WHERE d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass
       AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
       AND r.ev_class = ANY(%(views)s::pg_catalog.oid[]) AND d.refobjid <> r.ev_class
"""

_LIST_OWN_VIEWS = """
    SELECT c.oid FROM pg_catalog.pg_class AS c
     WHERE c.relnamespace = pg_catalog.pg_my_temp_schema() AND c.relkind = 'v'
"""


def _replace(
    reader: Connection,
    query: BoundQuery,
    places: dict[int, QualifiedName],
    moment: datetime | None,
) -> bool:
    """Create a view of the query in which other relations take the places of some.

    Likewise for each view in between, and for those that read the current time. Returns whether
    none of these views reads the replaced relations.
    """
    relations = {one.relid: one for one in query.relations.values()}
    views = {relid: one for relid, one in relations.items() if one.definition is not None}
    reads = _list_reads(reader, views)

    def create(name: QualifiedName, columns: Sequence[Column], sql: str) -> None:
        renames = {(Role.RELATION, relations[one].name): places[one] for one in places}
        listed = ", ".join(quote_identifier(column.name) for column in columns)
        head = f"CREATE TEMPORARY VIEW {quote_identifier(name.name)} ({listed}) AS "
        text = rename_in_query(sql, renames)
        reader.execute(trusted(head + (text if moment is None else hold_time(text, moment))))

    for relid in TopologicalSorter(reads).static_order():
        timed = moment is not None and relid in views and count_times(views[relid].definition or "")
        if timed or not reads.get(relid, set()).isdisjoint(places):
            view, name = views[relid], QualifiedName("pg_temp", f"pgtrickle__view_{relid}")
            create(name, view.columns, view.definition or "")
            places[relid] = name
    create(_ANSWER, query.columns, query.sql)
    reader.execute(trusted(f"SELECT FROM {_ANSWER.sql} LIMIT 0"))  # whether it may be read
    created = [oid for (oid,) in reader.execute(_LIST_OWN_VIEWS)]
    return all(found.isdisjoint(places) for found in _list_reads(reader, created).values())


def _list_reads(reader: Connection, views: Collection[int]) -> dict[int, set[int]]:
    """Return, by view, the relations that it names."""
    found: dict[int, set[int]] = {}
    for view, relid in reader.execute(_LIST_READS, {"views": list(views)}):
        found.setdefault(view, set()).add(relid)
    return found
