"""How the rows of a stored table differ from those of a stream table: one join of the two.

Grouping both together, as a refresh in full does, moves every row of both.  A join keeps one of
them at hand and runs in parallel.  It looks rows up by a column that nearly always differs, or by
the hash of the row, and compares them in full.  But where a row occurs several times, it cannot
count the copies.  Then there are more pairs than rows, which is noticed, and the difference is
computed by grouping after all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.delta.layout import WEIGHT
from pgtrickle.model.sql_type import Column
from pgtrickle.model.table_snapshot import Copied
from pgtrickle.model.text.comparable import identity
from pgtrickle.model.text.names import QualifiedName, quote_identifier
from pgtrickle.model.text.trusted import trusted
from pgtrickle.storage.apply import RESULT, Places
from pgtrickle.storage.identity import row_hash

_PLACES = '"result__places"'
_MOST_ROWS = 50_000_000  # whose places fit into one value
_MOST_NEW = 0.5  # of the rows; with more, comparing all of them is quicker
_SAMPLED = 100_000  # rows, to estimate how many are new
_NEARLY_ALL = -0.9  # n_distinct: so many of the rows have a value of their own
_LOOKED_UP = frozenset({"int8", "int4", "uuid", "date", "timestamp", "timestamptz", "text"})
# A row that occurs often would have pairs without number.
_FIND_STATISTICS = """
    SELECT c.reltuples <= %(most)s,
           EXISTS (
               SELECT FROM pg_catalog.pg_index AS i
                 JOIN pg_catalog.pg_class AS x ON x.oid = i.indexrelid
                 JOIN pg_catalog.pg_stats AS s
                   ON s.schemaname = n.nspname AND s.tablename = x.relname
                WHERE i.indrelid = c.oid AND i.indisvalid AND s.n_distinct <= %(distinct)s
                  AND pg_catalog.pg_get_indexdef(i.indexrelid) LIKE '%%hash_record_extended(%%'),
           ARRAY(SELECT s.attname::pg_catalog.text FROM pg_catalog.pg_stats AS s
                  WHERE s.schemaname = n.nspname AND s.tablename = c.relname
                    AND s.n_distinct <= %(distinct)s AND s.null_frac = 0
                  ORDER BY s.avg_width, s.attname)
      FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
     WHERE c.oid = pg_catalog.to_regclass(%(name)s)
"""


class _Found(NamedTuple):
    """How many pairs and differing rows a join has found."""

    pairs: int
    added: int
    removed: int


def weigh_difference(
    connection: Connection,
    name: QualifiedName,
    columns: Sequence[Column],
    stored: str,
    copied: Copied | None = None,
) -> Places | None:
    """Find the rows that make a stream table equal a table; None if rows occur repeatedly.

    ``stored`` is a table that nobody changes meanwhile; ``copied`` tells how its rows were copied
    from the stream table.
    """
    lookup = _find_lookup(connection, name, columns)
    if lookup is None:
        return None
    places = Places(stored, _places("added"), _places("removed"))
    if copied is not None and lookup.key is not None:
        since = _Since(connection, name, columns, stored, copied, lookup.key)
        if since.find(lookup.condition):
            return places
    connection.execute(trusted(_write_places(name, stored, lookup.condition)))
    found = _Found(
        *connection.execute(
            trusted(
                f"SELECT pairs, COALESCE(cardinality(added), 0), COALESCE(cardinality(removed), 0)"
                f" FROM {_PLACES}"
            )
        ).fetchall()[0]
    )
    [(in_stored, present)] = connection.execute(
        trusted(f"SELECT (SELECT count(*) FROM {stored}), (SELECT count(*) FROM ONLY {name.sql})")
    ).fetchall()
    if found.pairs == in_stored - found.added == present - found.removed:
        return places
    connection.execute(trusted(f"DROP TABLE {_PLACES}"))
    return None


@dataclass(frozen=True, slots=True)
class _Since:
    """Finds the difference among the rows whose keys somebody wrote since they were copied.

    Rows of earlier transactions that are still there are rows of the copy.  Those of them that have
    other keys than the new rows are all that the copy has with such keys, if there are as many.
    So the rows with keys of new rows are compared in full, and the others are only counted.
    """

    connection: Connection
    name: QualifiedName
    columns: Sequence[Column]
    stored: str
    copied: Copied
    key: str

    def find(self, condition: str) -> bool:
        """Keep the places; return whether they are the difference."""
        [(in_stored, copied)] = self._ask(
            f"SELECT count(*), count(*) FILTER (WHERE s.xmin = '{self.copied.by}'::xid)"
            f" FROM {self.stored} AS s"
        )
        if not in_stored == copied == self.copied.rows:
            return False  # somebody wrote to it
        present = f"ONLY {self.name.sql}"
        [(rows, with_key)] = self._ask(f"SELECT count(*), count(p.{self.key}) FROM {present} AS p")
        if with_key != rows or rows < in_stored:  # keys of rows that are gone are not known
            return False
        [(many,)] = self._ask(
            f"SELECT COALESCE(pg_catalog.avg(({self._is_new})::int), 0) > {_MOST_NEW}"
            f" FROM {present} AS p TABLESAMPLE SYSTEM ({100 * min(1, _SAMPLED / max(rows, 1))})"
        )
        if many:
            return False
        self.connection.execute(trusted(self._write(condition)))
        [(added, removed, pairs, *distinct)] = self._ask(
            f"SELECT COALESCE(cardinality(f.added), 0), COALESCE(cardinality(f.removed), 0),"
            f" COALESCE(cardinality(f.kept), 0),"
            f" (SELECT count(DISTINCT k) FROM pg_catalog.unnest(f.kept) AS k),"
            f" (SELECT count(DISTINCT k) FROM pg_catalog.unnest(f.keeping) AS k)"
            f" FROM {_PLACES} AS f"
        )
        if distinct == [pairs, pairs] and in_stored - added == rows - removed:
            return True
        self.connection.execute(trusted(f"DROP TABLE {_PLACES}"))
        return False

    def _ask(self, query: str) -> list[TupleRow]:
        return self.connection.execute(trusted(query)).fetchall()

    @property
    def _is_new(self) -> str:
        """The condition that a row is not of a transaction that had ended before the copy.

        Workers can compare the numbers as bytes.  Those below 3 are of rows that PostgreSQL 9.3
        froze.
        """
        first, last = (
            f"pg_catalog.decode('{number:08x}', 'hex')"
            for number in (self.copied.settled_before, 0xFFFFFFFF)
        )
        return f"pg_catalog.xidsend(p.xmin) BETWEEN {first} AND {last}"

    def _write(self, condition: str) -> str:
        """Write the statement that finds the places."""
        present = f"ONLY {self.name.sql}"
        new = f"SELECT p.{self.key} FROM {present} AS p WHERE {self._is_new}"
        stored, present = (
            f"SELECT {self._listed()} FROM {rows} AS r WHERE r.{self.key} IN ({new})"
            for rows in (self.stored, present)
        )
        both = "stored.__place IS NOT NULL AND present.__place IS NOT NULL"
        return (
            f"CREATE TEMPORARY TABLE {_PLACES} ON COMMIT DROP AS\n"
            f"SELECT pg_catalog.array_agg(stored.__place)"
            f" FILTER (WHERE present.__place IS NULL) AS added,\n"
            f"       pg_catalog.array_agg(present.__place)"
            f" FILTER (WHERE stored.__place IS NULL) AS removed,\n"
            f"       pg_catalog.array_agg(stored.__place) FILTER (WHERE {both}) AS kept,\n"
            f"       pg_catalog.array_agg(present.__place) FILTER (WHERE {both}) AS keeping\n"
            f"  FROM ({stored}) AS stored\n"
            f"  FULL JOIN ({present}) AS present\n"
            f"    ON {condition}"
        )

    def _listed(self) -> str:
        names = [f"r.{quote_identifier(column.name)}" for column in self.columns]
        return ", ".join(["r.ctid AS __place", *names])


class _Lookup(NamedTuple):
    """How a row is looked up in the other table."""

    condition: str  # that rows are the same
    key: str | None  # a column that nearly always differs, quoted


def _find_lookup(
    connection: Connection, name: QualifiedName, columns: Sequence[Column]
) -> _Lookup | None:
    """Return how the same row is looked up; None if too many may occur repeatedly."""
    values = {"name": name.sql, "most": _MOST_ROWS, "distinct": _NEARLY_ALL}
    [(fits, once, distinct)] = connection.execute(_FIND_STATISTICS, values).fetchall()
    types = {column.name: column.type.base for column in columns}
    looked_up = [one for one in distinct if types.get(one) in _LOOKED_UP]
    if not fits or not (once or looked_up):
        return None
    if looked_up:
        key = quote_identifier(looked_up[0])
        return _Lookup(" AND ".join([f"stored.{key} = present.{key}", *_same(columns)]), key)
    by = f"{row_hash(columns, 'stored')} = {row_hash(columns, 'present')}"
    return _Lookup(" AND ".join([by, *_same(columns)]), None)


def _same(columns: Sequence[Column]) -> list[str]:
    """Return the conditions that two rows are equal and look the same."""
    return [
        f"{one} IS NOT DISTINCT FROM {other}"
        for column in columns
        for one, other in zip(
            *(
                identity(f"{alias}.{quote_identifier(column.name)}", column.type)
                for alias in ("stored", "present")
            ),
            strict=True,
        )
    ]


def _write_places(name: QualifiedName, stored: str, condition: str) -> str:
    """Write the statement that finds the places of rows that only one table has.

    Workers add up each a part; their number does not depend on how many rows differ.
    """
    return (
        f"CREATE TEMPORARY TABLE {_PLACES} ON COMMIT DROP AS\n"
        f"SELECT count(*) FILTER (WHERE stored.ctid IS NOT NULL AND present.ctid IS NOT NULL)"
        f" AS pairs,\n"
        f"       pg_catalog.array_agg(stored.ctid) FILTER (WHERE present.ctid IS NULL) AS added,\n"
        f"       pg_catalog.array_agg(present.ctid) FILTER (WHERE stored.ctid IS NULL) AS removed\n"
        f"  FROM {stored} AS stored FULL JOIN ONLY {name.sql} AS present\n"
        f"    ON {condition}"
    )


def _places(which: str) -> str:
    """Write the query for the places that were found on one side."""
    return f"SELECT p.{which} FROM {_PLACES} AS p"


def list_changes(
    connection: Connection, name: QualifiedName, columns: Sequence[Column], places: Places
) -> None:
    """Keep the rows at the places as a result, for those who read what a refresh has changed."""
    added, removed = (
        ", ".join(f"{alias}.{quote_identifier(column.name)}" for column in columns)
        for alias in ("stored", "present")
    )
    connection.execute(
        trusted(
            f"CREATE TEMPORARY TABLE {RESULT} ON COMMIT DROP AS\n"
            f"SELECT {added}, 1::bigint AS {WEIGHT}\n"
            f"  FROM {places.source} AS stored"
            f" WHERE stored.ctid = ANY (({places.added})::tid[])\n"
            f"UNION ALL\n"
            f"SELECT {removed}, -1\n"
            f"  FROM ONLY {name.sql} AS present"
            f" WHERE present.ctid = ANY (({places.removed})::tid[])"
        )
    )
