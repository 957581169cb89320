"""Find the indexes that a bounded read needs and that do not exist.

A bound asks for rows whose column, or whose expression over the row, has one of several values.
PostgreSQL answers that with an index that has this key in front, supports equality (btree or hash),
uses the column's own collation, and covers all rows. Without one, the read scans its table,
whatever the number of changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import psycopg
from psycopg import Connection

from pgtrickle.algebra.nodes import Scan, SourceKind
from pgtrickle.delta.key_sets import Between, Bound, Restriction, StoredKeys
from pgtrickle.delta.moving_scan import ranges_of
from pgtrickle.model.text.names import QualifiedName, quote_identifier
from pgtrickle.model.text.trusted import trusted
from pgtrickle.sql.scalars import bare_column


@dataclass(frozen=True, slots=True)
class MissingIndex:
    """An index that would let a bounded read find its rows."""

    relation: QualifiedName
    relid: int
    key: str  # a column, or an expression in parentheses
    method: str = "btree"

    @property
    def statement(self) -> str:
        """The SQL that creates it.

        >>> MissingIndex(QualifiedName("public", "orders"), 1, '"customer_id"').statement
        'CREATE INDEX ON "public"."orders" ("customer_id");'
        """
        using = "" if self.method == "btree" else f"USING {self.method} "
        return f"CREATE INDEX ON {self.relation.sql} {using}({self.key});"


def missing_indexes(
    connection: Connection, scan: Scan, bounds: Sequence[Bound]
) -> tuple[MissingIndex, ...]:
    """Return the indexes without which a bounded read scans a table, each once.

    One index is enough for a bound of several columns; each of several bounds needs its own, and so
    does each table that is read for keys on the way.
    """
    found: dict[MissingIndex, None] = {}
    for one, bound in bounded_tables(scan, bounds):
        missing = _missing(connection, one, bound)
        if missing is not None:
            found[missing] = None
    return tuple(found)


def missing_time_indexes(connection: Connection, scan: Scan) -> tuple[MissingIndex, ...]:
    """Return the indexes without which a table is scanned for the rows that time has moved.

    Each range that is read needs its own.
    """
    relation, found = scan.source.relation, dict[MissingIndex, None]()
    if relation is None:
        return ()
    for one in ranges_of(scan) or ():
        key = f"({one.expression})" if one.column is None else quote_identifier(one.column)
        wanted = MissingIndex(relation, scan.source.relid, key)
        if one.column is not None and _range_indexed(connection, wanted, one.column):
            continue
        trial = _try(connection, wanted, expression=one.column is None)
        if trial is None or trial.method != "btree":
            continue
        asked = Restriction(one.expression, (), nullable=True)  # a hash index finds no range either
        if one.column is None and _expression_indexed(connection, wanted, trial, asked):
            continue
        found[wanted] = None
    return tuple(found)


def bounded_tables(scan: Scan, bounds: Sequence[Bound]) -> Iterator[tuple[Scan, Bound]]:
    """Yield every table that is read by key, once for the same columns, with the bound.

    Bounds share those on the way to them: in a chain of joins each would be met along every path.
    """
    met, told = set[tuple[str, int]](), set[tuple[str, tuple[tuple[str, bool], ...]]]()
    left = [(scan, bound) for bound in reversed(bounds)]
    while left:
        one, bound = left.pop()
        if (one.alias, id(bound)) in met:
            continue
        met.add((one.alias, id(bound)))
        asked = one.alias, tuple((each.column, each.nullable) for each in bound)
        if one.source.kind is SourceKind.TABLE and asked not in told:
            told.add(asked)
            yield one, bound
        left += [
            (keys.scan, keys.bound)
            for restriction in reversed(bound)
            for keys in reversed(restriction.keys)
            if isinstance(keys, StoredKeys)
        ]


def _missing(connection: Connection, scan: Scan, bound: Bound) -> MissingIndex | None:
    """Return the index to create for a bound, None if it exists or is impossible."""
    relation = scan.source.relation
    if relation is None:
        return None
    proposals: dict[MissingIndex, float] = {}
    for restriction in bound:
        column, key = _key(scan, restriction.column)
        wanted = MissingIndex(relation, scan.source.relid, key)
        if column is not None and _column_indexed(connection, wanted, column, restriction):
            return None
        trial = _try(connection, wanted, expression=column is None)
        if trial is None:
            continue
        if column is None and _expression_indexed(connection, wanted, trial, restriction):
            return None
        values = _distinct(connection, wanted, column)
        if not 0 <= values < _FEW_VALUES:
            proposals[replace(wanted, method=trial.method)] = values
    return max(proposals, key=lambda one: proposals[one], default=None)


def _key(scan: Scan, name: str) -> tuple[str | None, str]:
    """Return the column of an output, None for an expression, and the key of an index for it."""
    output = next(one for one in scan.outputs if one.name == name)
    column = bare_column(output.scalar)
    return column, f"({output.scalar.sql})" if column is None else quote_identifier(column)


# BRIN answers by any of its columns.
_RANGE_INDEXED = """
    SELECT FROM (SELECT 1
      FROM pg_catalog.pg_index AS i
      JOIN pg_catalog.pg_class AS c ON c.oid = i.indexrelid
      JOIN pg_catalog.pg_am AS m ON m.oid = c.relam
      JOIN pg_catalog.pg_attribute AS a ON a.attrelid = i.indrelid AND a.attname = %(column)s
     WHERE i.indrelid = %(relid)s::pg_catalog.oid
       AND i.indisvalid AND i.indisready AND i.indpred IS NULL
       AND (m.amname = 'btree' AND i.indkey[0] = a.attnum
            OR m.amname = 'brin' AND a.attnum = ANY (i.indkey::pg_catalog.int2[]))) AS usable
"""


def _range_indexed(connection: Connection, wanted: MissingIndex, column: str) -> bool:
    values = {"relid": wanted.relid, "column": column}
    return connection.execute(_RANGE_INDEXED, values).fetchone() is not None


# The first key decides. A hash index does not find NULLs, which a null-safe join needs too.
_USABLE = """
      FROM pg_catalog.pg_index AS i
      JOIN pg_catalog.pg_class AS c ON c.oid = i.indexrelid
      JOIN pg_catalog.pg_am AS m ON m.oid = c.relam
      LEFT JOIN pg_catalog.pg_attribute AS a
        ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] AND a.attnum > 0
     WHERE i.indrelid = %(relid)s::pg_catalog.oid
       AND i.indisvalid AND i.indisready AND i.indpred IS NULL
       AND (m.amname = 'btree' OR (m.amname = 'hash' AND NOT %(nullable)s))
"""
_COLUMN_INDEXED = f"""
    SELECT FROM (SELECT 1 {_USABLE}
       AND a.attname = %(column)s AND i.indcollation[0] = a.attcollation) AS usable
"""
_EXPRESSION_INDEXED = f"""
    SELECT FROM (SELECT 1 {_USABLE}
       AND a.attnum IS NULL AND i.indcollation[0] = %(collation)s::pg_catalog.oid
       AND pg_catalog.pg_get_indexdef(i.indexrelid, 1, false) = %(definition)s) AS usable
"""


def _column_indexed(
    connection: Connection, wanted: MissingIndex, column: str, restriction: Restriction | Between
) -> bool:
    values = {"relid": wanted.relid, "nullable": restriction.nullable, "column": column}
    return connection.execute(_COLUMN_INDEXED, values).fetchone() is not None


@dataclass(frozen=True, slots=True)
class _Trial:
    """An index that PostgreSQL created on an empty copy of the table."""

    method: str
    definition: str = ""
    collation: int = 0


def _expression_indexed(
    connection: Connection, wanted: MissingIndex, trial: _Trial, restriction: Restriction | Between
) -> bool:
    values = {
        "relid": wanted.relid,
        "nullable": restriction.nullable,
        "definition": trial.definition,
        "collation": trial.collation,
    }
    return connection.execute(_EXPRESSION_INDEXED, values).fetchone() is not None


_COPY = "pg_temp.pgtrickle_index_trial"
_DESCRIBE = f"""
    SELECT pg_catalog.pg_get_indexdef(i.indexrelid, 1, false), i.indcollation[0]
      FROM pg_catalog.pg_index AS i WHERE i.indrelid = '{_COPY}'::pg_catalog.regclass
"""


def _try(connection: Connection, wanted: MissingIndex, *, expression: bool) -> _Trial | None:
    """Create the index on an empty copy of its table, and roll that back.

    So every proposed index can be created: an index supports the equality of its type, and its
    expression calls only IMMUTABLE functions.
    """
    for method in ("btree", "hash"):
        try:
            with connection.transaction(force_rollback=True):
                connection.execute(trusted(f"CREATE TABLE {_COPY} (LIKE {wanted.relation.sql})"))
                connection.execute(
                    trusted(f"CREATE INDEX ON {_COPY} USING {method} ({wanted.key})")
                )
                [(definition, collation)] = connection.execute(_DESCRIBE).fetchall()
                return _Trial(method, definition, collation)
        except (psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction):
            # Temporary tables are not allowed here; an index on a column almost certainly works.
            return None if expression else _Trial(method)
        except psycopg.Error:
            continue
    return None


# With so few values, each occurs in so many rows that PostgreSQL prefers to scan.
_FEW_VALUES = 20
_COUNT_DISTINCT = """
    SELECT CASE WHEN s.n_distinct < 0 THEN -s.n_distinct * GREATEST(c.reltuples, 1)
                ELSE s.n_distinct END
      FROM pg_catalog.pg_stats AS s
      JOIN pg_catalog.pg_class AS c ON c.oid = %(relid)s::pg_catalog.oid
     WHERE s.schemaname = %(schema)s AND s.tablename = %(table)s AND s.attname = %(column)s
"""


def _distinct(connection: Connection, wanted: MissingIndex, column: str | None) -> float:
    """Return the number of values of a key according to statistics; -1 if there are none."""
    if column is None:
        return -1
    values = {
        "relid": wanted.relid,
        "schema": wanted.relation.schema,
        "table": wanted.relation.name,
        "column": column,
    }
    row = connection.execute(_COUNT_DISTINCT, values).fetchone()
    return -1 if row is None else float(row[0])
