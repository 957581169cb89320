"""How the rows of a stored table differ from those of a stream table: one join of the two.

Grouping both together, as a refresh in full does, moves every row of both.  A join by the hash of
the rows needs that of one of them, and runs in parallel.  Rows are compared in full; but where a
row occurs several times, the join cannot count its copies.  Then there are more pairs than rows,
which is noticed, and the difference is computed by grouping after all.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import Connection

from pgtrickle.delta.layout import WEIGHT
from pgtrickle.model.sql_type import Column
from pgtrickle.model.text.names import QualifiedName, quote_identifier
from pgtrickle.model.text.trusted import trusted
from pgtrickle.storage.apply import RESULT
from pgtrickle.storage.identity import identical_row

_PLACES = '"result__places"'
_MOST_COPIES = -0.9  # n_distinct: so many of the rows, at least, occur once
# Pairs of a row that occurs often would be without number.  The index that finds a row tells.
_OCCUR_ONCE = """
    SELECT EXISTS (
        SELECT FROM pg_catalog.pg_index AS i
          JOIN pg_catalog.pg_class AS c ON c.oid = i.indexrelid
          JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
          JOIN pg_catalog.pg_stats AS s ON s.schemaname = n.nspname AND s.tablename = c.relname
         WHERE i.indrelid = pg_catalog.to_regclass(%(name)s) AND i.indisvalid
           AND pg_catalog.pg_get_indexdef(i.indexrelid) LIKE '%%hash_record_extended(%%'
           AND s.n_distinct <= %(most)s)
"""


def weigh_difference(
    connection: Connection, name: QualifiedName, columns: Sequence[Column], stored: str
) -> bool:
    """Compute the changes that make a stream table equal a table; False if rows occur repeatedly.

    ``stored`` is a table that nobody changes meanwhile.
    """
    [(once,)] = connection.execute(_OCCUR_ONCE, {"name": name.sql, "most": _MOST_COPIES}).fetchall()
    if not once:
        return False
    connection.execute(trusted(_write_places(name, columns, stored)))
    [(paired, to_add, to_remove)] = connection.execute(
        trusted(
            f"SELECT COALESCE(sum(pairs) FILTER (WHERE added IS NULL AND removed IS NULL), 0),"
            f" count(added), count(removed) FROM {_PLACES}"
        )
    ).fetchall()
    [(in_stored, present)] = connection.execute(
        trusted(f"SELECT (SELECT count(*) FROM {stored}), (SELECT count(*) FROM ONLY {name.sql})")
    ).fetchall()
    unique = paired == in_stored - to_add == present - to_remove
    if unique:
        connection.execute(trusted(_write_changes(name, columns, stored)))
    connection.execute(trusted(f"DROP TABLE {_PLACES}"))
    return bool(unique)


def _write_places(name: QualifiedName, columns: Sequence[Column], stored: str) -> str:
    """Write the statement that finds the places of rows that only one table has.

    The pairs are counted with them, in one row without a place.
    """
    return (
        f"CREATE TEMPORARY TABLE {_PLACES} ON COMMIT DROP AS\n"
        f"SELECT CASE WHEN present.ctid IS NULL THEN stored.ctid END AS added,\n"
        f"       CASE WHEN stored.ctid IS NULL THEN present.ctid END AS removed,\n"
        f"       count(*) AS pairs\n"
        f"  FROM {stored} AS stored FULL JOIN ONLY {name.sql} AS present\n"
        f"    ON {identical_row(columns, 'stored', 'present')}\n"
        f" GROUP BY 1, 2"
    )


def _write_changes(name: QualifiedName, columns: Sequence[Column], stored: str) -> str:
    added, removed = (
        ", ".join(f"{alias}.{quote_identifier(column.name)}" for column in columns)
        for alias in ("stored", "present")
    )
    return (
        f"CREATE TEMPORARY TABLE {RESULT} ON COMMIT DROP AS\n"
        f"SELECT {added}, 1::bigint AS {WEIGHT}\n"
        f"  FROM {_PLACES} AS p JOIN {stored} AS stored ON stored.ctid = p.added\n"
        f"UNION ALL\n"
        f"SELECT {removed}, -1\n"
        f"  FROM {_PLACES} AS p JOIN ONLY {name.sql} AS present ON present.ctid = p.removed"
    )
