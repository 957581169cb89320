"""Sessions of a guest, a role that reads another role's catalog and runs no code of that role.

A query of a table may run what its owner wrote: a view in its place, policies, casts of its
columns' types, functions in its indexes and statistics.  ``COPY table TO`` runs none of that.  So
the rows are copied out, and PostgreSQL is asked about the copies (docs/adr/0037).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from heapq import heappush, heappushpop
from typing import Any, Self

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow

from pgtrickle.catalog.access.standing import Standing
from pgtrickle.errors import CatalogMissingError, ForeignCatalogError, PrivilegeError
from pgtrickle.model.text.names import quote_identifier, quote_literal
from pgtrickle.model.text.trusted import trusted
from pgtrickle.session import OwnCursor, Session

_LARGEST_COPY = 64 * 2**20  # characters of one table
_NEWEST = 1000  # refreshes and deliveries of each stream table
_LONG = {  # tables that grow: whose a row is, and its number
    "pgt_refresh_history": ("pgt_id", "refresh_id"),
    "pgt_ducklake_sink_delivery": ("stream_table_id", "delivery_id"),
}
# A name of ours in a statement, unless it is the text of a literal; a table, or something to call.
_OURS = re.compile(r"""(?<!')"?\bpgtrickle(?P<other>_changes|_state)?"?\.(?P<name>"?\w+"?)""")
_TABLE = re.compile(r"pgt_\w+")
_WITH = re.compile(r"\s*WITH\s+(?P<recursive>RECURSIVE\s+)?", re.IGNORECASE)
_SELECT = re.compile(r"\s*SELECT\b", re.IGNORECASE)


class GuestSession(Session):
    """A session in which statements over the catalog are answered from copies of its tables."""

    of_guest = True
    standing: Standing | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.cursor_factory = _GuestCursor

    def fix_path(self, **more: str) -> None:
        """Fix the path, and allow no writes."""
        super().fix_path(default_transaction_read_only="on", **more)


class _GuestCursor(OwnCursor):
    """A cursor that looks at copies, and refuses what cannot be answered from them."""

    def execute(self, query: Any, params: Any = None, **options: Any) -> Self:
        text = _text_of(query)
        if _OURS.search(text):
            session = self.connection
            assert isinstance(session, GuestSession)  # noqa: S101 - who else makes one
            with refusals(session.standing):
                text = _over_copies(session, text, escaped=params is not None)
            return super().execute(text, params, **options)
        return super().execute(query, params, **options)

    def executemany(self, *_: Any, **__: Any) -> None:
        raise _refusal(self.connection)

    @contextmanager
    def copy(self, statement: Any, params: Any = None, **options: Any) -> Iterator[Any]:
        if not _text_of(statement).startswith("COPY pgtrickle.pgt_"):
            raise _refusal(self.connection)
        with super().copy(statement, params, **options) as copy:
            yield copy


def _text_of(query: Any) -> str:
    if isinstance(query, bytes):
        return query.decode()
    return query.as_string(None) if isinstance(query, sql.Composable) else str(query)


def _refusal(session: Any) -> PrivilegeError:
    standing: Standing | None = getattr(session, "standing", None)
    if standing is None:
        return PrivilegeError("a guest may only read", hint="Connect as the owner of the catalog.")
    return standing.needs_trust()


@contextmanager
def refusals(standing: Standing | None) -> Iterator[None]:
    """Say of a right that is missing which one, and who can give it."""
    try:
        yield
    except psycopg.errors.InsufficientPrivilege as error:
        if standing is None:
            raise
        raise standing.needs_level("reader", error.diag.message_primary or "") from error


def _over_copies(session: GuestSession, text: str, *, escaped: bool) -> str:
    """Return a query over copies of the tables that it names."""
    found = list(_OURS.finditer(text))
    begins = _WITH.match(text)
    if not (begins or _SELECT.match(text)) or any(
        one["other"] or not _TABLE.fullmatch(one["name"]) for one in found
    ):
        raise _refusal(session)
    tables = dict.fromkeys(one["name"] for one in found)
    copies = ", ".join(_copy(session, table) for table in tables)
    if escaped:
        copies = copies.replace("%", "%%")
    rest = _OURS.sub(lambda one: one["name"], text[begins.end() :] if begins else text)
    recursive = (begins and begins["recursive"]) or ""
    return f"WITH {recursive}{copies}{', ' if begins else ' '}{rest}"


_LIST_COLUMNS = """
    SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod),
           t.typnamespace = 'pg_catalog'::pg_catalog.regnamespace, c.relrowsecurity,
           pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT')
      FROM pg_catalog.pg_attribute AS a
      JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid
      JOIN pg_catalog.pg_class AS c ON c.oid = a.attrelid
      JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
     WHERE n.nspname = 'pgtrickle' AND c.relname = %(table)s
       AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
     ORDER BY a.attnum
"""


def _copy(session: GuestSession, table: str) -> str:
    """Return a common table expression that holds the rows of a table."""
    columns = session.execute(_LIST_COLUMNS, {"table": table}).fetchall()
    if not columns:
        raise CatalogMissingError(
            f"the catalog has no table {table}: it is of another version",
            hint="Let its owner run: pgtrickle init, and grant access again.",
        )
    columns = [one for one in columns if one[-1]] or columns
    for column, kind, plain, policies, _ in columns:
        if not plain:
            raise _strange(f"the column {column} of {table} has the type {kind}")
        if policies:
            raise _refusal(session)
    names = [str(column) for column, *_ in columns]
    rows = _read(session, table, names)
    kept = _newest(table, names, rows) if table in _LONG else list(rows)
    document = quote_literal(json.dumps(kept, ensure_ascii=False))
    values = ", ".join(
        f"(r.value->>{place})::{kind} AS {quote_identifier(str(column))}"
        for place, (column, kind, *_) in enumerate(columns)
    )
    return (
        f"{table} AS (SELECT {values}"
        f" FROM pg_catalog.jsonb_array_elements({document}::pg_catalog.jsonb) AS r)"
    )


def _read(session: GuestSession, table: str, columns: list[str]) -> Iterator[TupleRow]:
    listed = ", ".join(quote_identifier(one) for one in columns)
    statement = trusted(f"COPY pgtrickle.{table} ({listed}) TO STDOUT")
    size = 0
    try:
        with session.cursor() as cursor, cursor.copy(statement) as copy:
            for row in copy.rows():
                size += sum(len(value or "") for value in row)
                if size > _LARGEST_COPY and table not in _LONG:
                    raise _strange(f"{table} holds more than {_LARGEST_COPY} characters")
                yield row
    except psycopg.errors.WrongObjectType as error:
        raise _strange(f"{table} is not a table") from error


def _newest(table: str, names: list[str], rows: Iterable[TupleRow]) -> list[TupleRow]:
    """Keep the latest rows of each stream table."""
    owner, number = (names.index(one) for one in _LONG[table])
    kept: dict[str, list[tuple[int, TupleRow]]] = {}
    for row in rows:
        heap = kept.setdefault(row[owner], [])
        try:
            entry = (int(row[number]), row)
        except ValueError:
            raise _strange("the number of a refresh is none") from None
        if len(heap) < _NEWEST:
            heappush(heap, entry)
        else:
            heappushpop(heap, entry)
    return [row for heap in kept.values() for _, row in heap]


def _strange(fact: str) -> ForeignCatalogError:
    return ForeignCatalogError(
        f"{fact}, which no catalog of pgtrickle does", hint="Ask its owner how that came about."
    )
