"""How the rows of a stored table differ from those of a stream table: one join of the two.

Grouping both together, as a refresh in full does, moves every row of both.  A join keeps one of
them at hand and runs in parallel.  It looks rows up by a column that nearly always differs, or by
the hash of the row, and compares them in full.  But where a row occurs several times, it cannot
count the copies.  Then there are more pairs than rows, which is noticed, and the difference is
computed by grouping after all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from psycopg import Connection

from pgtrickle.delta.layout import WEIGHT
from pgtrickle.model.sql_type import Column
from pgtrickle.model.text.comparable import identity
from pgtrickle.model.text.names import QualifiedName, quote_identifier
from pgtrickle.model.text.trusted import trusted
from pgtrickle.storage.apply import RESULT
from pgtrickle.storage.identity import row_hash

_PLACES = '"result__places"'
_MOST_ROWS = 50_000_000  # whose places fit into one value
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
    connection: Connection, name: QualifiedName, columns: Sequence[Column], stored: str
) -> str | None:
    """Compute the changes that make a stream table equal a table; None if rows occur repeatedly.

    ``stored`` is a table that nobody changes meanwhile.  Returns the query for the places of the
    rows that are to be deleted, as one array.
    """
    condition = _find_condition(connection, name, columns)
    if condition is None:
        return None
    connection.execute(trusted(_write_places(name, stored, condition)))
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
        connection.execute(trusted(_write_changes(name, columns, stored)))
        return _places("removed")
    connection.execute(trusted(f"DROP TABLE {_PLACES}"))
    return None


def _find_condition(
    connection: Connection, name: QualifiedName, columns: Sequence[Column]
) -> str | None:
    """Return the condition that rows are the same; None if too many may occur repeatedly."""
    values = {"name": name.sql, "most": _MOST_ROWS, "distinct": _NEARLY_ALL}
    [(fits, once, distinct)] = connection.execute(_FIND_STATISTICS, values).fetchall()
    types = {column.name: column.type.base for column in columns}
    looked_up = [one for one in distinct if types.get(one) in _LOOKED_UP]
    if not fits or not (once or looked_up):
        return None
    if looked_up:
        key = quote_identifier(looked_up[0])
        by = f"stored.{key} = present.{key}"
    else:
        by = f"{row_hash(columns, 'stored')} = {row_hash(columns, 'present')}"
    return " AND ".join([by, *_same(columns)])


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


def _write_changes(name: QualifiedName, columns: Sequence[Column], stored: str) -> str:
    """Write the statement that fetches the differing rows, each by its place.

    PostgreSQL sorts an array of places and reads each page once; joined to a table, they would be
    looked for among all of its rows.
    """
    added, removed = (
        ", ".join(f"{alias}.{quote_identifier(column.name)}" for column in columns)
        for alias in ("stored", "present")
    )
    return (
        f"CREATE TEMPORARY TABLE {RESULT} ON COMMIT DROP AS\n"
        f"SELECT {added}, 1::bigint AS {WEIGHT}\n"
        f"  FROM {stored} AS stored WHERE stored.ctid = ANY (({_places('added')})::tid[])\n"
        f"UNION ALL\n"
        f"SELECT {removed}, -1\n"
        f"  FROM ONLY {name.sql} AS present"
        f" WHERE present.ctid = ANY (({_places('removed')})::tid[])"
    )
