"""Every translated expression gives on Spark what it gives in PostgreSQL, over edge values.

The expressions are bound by PostgreSQL, as in a refresh, and the values take the way they take in
one: read by ADBC in their carriers, computed by Spark, copied back as CSV.  PostgreSQL compares.
"""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
import pyarrow as pa
import pytest
import sqlglot
from psycopg import sql
from sqlglot import exp

from pgtrickle.algebra.nodes import Scalar
from pgtrickle.binding.bind import bind_query
from pgtrickle.errors import DataError, UnsupportedExpressionError
from pgtrickle.model.sql_type import Column, SqlType
from pgtrickle.spark.run_stage import run
from pgtrickle.spark.sessions.pair import SparkSessions
from pgtrickle.sql.scalars import make_scalar
from pgtrickle.sql.translate import Dialect, translate
from pgtrickle.transit.arrow_reader import ReadConnections, SnapshotReader
from pgtrickle.transit.carriers import carrier_for
from pgtrickle.transit.copy_csv import arrow_to_csv
from tests.spark.exported_snapshot import exported_snapshot
from tests.sql.expressions import FAMILIES, OUT_OF_REACH, Family, Values

_FIND_FAILURES = """
    CREATE FUNCTION failures(expression text, OUT number int, OUT state text)
    RETURNS SETOF record LANGUAGE plpgsql AS $$
    BEGIN
        EXECUTE format('SELECT count((%s)::text) FROM edge', expression);
    EXCEPTION WHEN data_exception THEN
        FOR number IN SELECT n FROM edge ORDER BY n LOOP
            BEGIN
                EXECUTE format('SELECT (%s)::text FROM edge WHERE n = $1', expression) USING number;
            EXCEPTION WHEN data_exception THEN
                state := SQLSTATE;
                RETURN NEXT;
            END;
        END LOOP;
    END $$
"""
# A collation that is not C, the most different one that the server has.
_OTHER_COLLATION = """
    SELECT collname FROM pg_collation
     WHERE collname IN ('de-x-icu', 'de_DE.utf8', 'en_US.utf8', 'pg_unicode_fast', 'C.utf8')
     ORDER BY array_position(
           '{de-x-icu,de_DE.utf8,en_US.utf8,pg_unicode_fast,C.utf8}'::text[], collname::text)
     LIMIT 1
"""


@dataclass(frozen=True)
class Evaluated:
    """One expression of a family."""

    number: int
    source: str  # as the family spells it
    spark: str
    failures: dict[int, str]  # the rows for which PostgreSQL raises an error, and its SQLSTATE

    @property
    def guarded(self) -> str:
        """Spark's text, NULL for the rows that fail."""
        rows = ", ".join(map(str, self.failures))
        return f"CASE WHEN n IN ({rows}) THEN NULL ELSE {self.spark} END" if rows else self.spark


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.title)
def test_spark_answers_as_postgres_does(
    database: str, spark_sessions: SparkSessions, family: Family
) -> None:
    make_edge_table(database, family)
    columns, scalars = bind(database, family.translated)
    types = {column.name: column.type for column in columns}
    failures = failures_of(database, family)
    evaluated = [
        Evaluated(k, source, translate(scalar, types, Dialect.SPARK), failures.get(k, {}))
        for k, (source, scalar) in enumerate(zip(family.translated, scalars, strict=True))
    ]
    edge = read_edge(database, columns)
    store_answers(database, evaluated)

    # The small profile interprets expressions, the large one compiles them.
    small = run(spark_sessions.small(), {"t": edge}, select(evaluated, "{t}"))
    rows = "(SELECT /*+ REPARTITION(1) */ * FROM {t})"
    large = run(spark_sessions.large(), {"t": edge}, select(evaluated, rows))

    assert differences(database, small, evaluated) == []
    assert differences(database, large, evaluated) == []
    assert not_failing(spark_sessions, edge, evaluated) == []


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.title)
def test_what_is_not_faithful_is_refused_by_name(database: str, family: Family) -> None:
    make_edge_table(database, family)
    refused = [source for source, _ in family.refused]
    columns, scalars = bind(database, refused)
    types = {column.name: column.type for column in columns}

    accepted = [
        source
        for source, scalar in zip(refused, scalars, strict=True)
        if is_translated(scalar, types)
    ]

    assert accepted == []


@pytest.mark.parametrize(("type_", "value", "source"), OUT_OF_REACH)
def test_what_spark_cannot_hold_is_an_error(
    database: str, spark_sessions: SparkSessions, type_: str, value: str, source: str
) -> None:
    make_edge_table(database, Family("", "", {"v": Values(type_, (value,))}, ()))
    columns, [scalar] = bind(database, [source])
    types = {column.name: column.type for column in columns}
    edge = read_edge(database, columns)

    with pytest.raises(DataError):
        run(
            spark_sessions.small(),
            {"t": edge},
            f"SELECT {translate(scalar, types, Dialect.SPARK)} FROM {{t}}",
        )


def make_edge_table(dsn: str, family: Family) -> None:
    listed = ", ".join(f"{name} {column.type}" for name, column in family.columns.items())
    names = ", ".join(family.columns)
    places = ", ".join(f"%({name})s" for name in family.columns)
    rows = [row | {"n": str(n)} for n, row in enumerate(family.rows())]
    with psycopg.connect(dsn) as connection:
        # A zone with summer time: nothing that is translated may depend on it.
        database = sql.Identifier(connection.info.dbname)
        zone = sql.SQL("ALTER DATABASE {} SET timezone = 'America/New_York'")
        connection.execute(zone.format(database))
        connection.execute("CREATE TYPE mood AS ENUM ('very happy', 'sad')")
        [(collation,)] = connection.execute(_OTHER_COLLATION).fetchall()
        copied = sql.SQL("CREATE COLLATION other FROM {}").format(sql.Identifier(collation))
        connection.execute(copied)
        connection.execute(f"CREATE TABLE edge (n int, {listed})".encode())
        connection.cursor().executemany(
            f"INSERT INTO edge (n, {names}) VALUES (%(n)s, {places})".encode(), rows
        )
        connection.execute(_FIND_FAILURES)


def bind(dsn: str, sources: tuple[str, ...] | list[str]) -> tuple[tuple[Column, ...], list[Scalar]]:
    """Return the columns of the edge table and the expressions as PostgreSQL renders them."""
    listed = ", ".join(f"({source}) AS e{k}" for k, source in enumerate(sources))
    with psycopg.connect(dsn) as connection:
        bound = bind_query(connection, f"SELECT n{listed and ', '}{listed} FROM edge").query
    [relation] = bound.relations.values()
    select = sqlglot.parse_one(bound.sql, dialect="postgres")
    assert isinstance(select, exp.Select)
    _, *expressions = select.expressions
    return relation.columns, [make_scalar(unqualified(one.unalias())) for one in expressions]


def unqualified(expression: exp.Expr) -> exp.Expr:
    return expression.transform(
        lambda node: exp.column(node.name) if isinstance(node, exp.Column) else node
    )


def is_translated(scalar: Scalar, types: dict[str, SqlType]) -> bool:
    try:
        translate(scalar, types, Dialect.SPARK)
    except UnsupportedExpressionError:
        return False
    return True


def failures_of(dsn: str, family: Family) -> dict[int, dict[int, str]]:
    """Return the failing rows by the expression's position."""
    found: dict[int, dict[int, str]] = {}
    query = "SELECT k, f.* FROM unnest(%s::text[]) WITH ORDINALITY AS s(e, k), failures(e) AS f"
    with psycopg.connect(dsn) as connection:
        for k, row, state in connection.execute(query, [list(family.translated)]):
            found.setdefault(k - 1, {})[row] = state
    return found


def read_edge(dsn: str, columns: tuple[Column, ...]) -> pa.Table:
    carriers = [carrier_for(column.type) for column in columns]
    listed = ", ".join(
        f"{carrier.read_sql(column.name)} AS {column.name}"
        for column, carrier in zip(columns, carriers, strict=True)
    )
    connections = ReadConnections(dsn)
    with exported_snapshot(dsn) as snapshot, SnapshotReader(connections, snapshot) as reader:
        table = reader.read(f"SELECT {listed} FROM public.edge ORDER BY n", carriers)
    connections.close()
    return table


def select(evaluated: list[Evaluated], relation: str) -> str:
    listed = ", ".join(f"{one.guarded} AS e{one.number}" for one in evaluated)
    return f"SELECT n, {listed} FROM {relation}"


def store_answers(dsn: str, evaluated: list[Evaluated]) -> None:
    listed = ", ".join(
        f"CASE WHEN n = ANY ('{{{', '.join(map(str, one.failures))}}}') THEN NULL"
        f" ELSE ({one.source}) END AS e{one.number}"
        for one in evaluated
    )
    with psycopg.connect(dsn) as connection:
        connection.execute(f"CREATE TABLE expected AS SELECT n, {listed} FROM edge".encode())
        connection.execute("CREATE TABLE actual (LIKE expected)")


def differences(dsn: str, answers: pa.Table, evaluated: list[Evaluated]) -> list[object]:
    """Return each wrong cell: the expression, its row, PostgreSQL's answer and Spark's."""
    found: list[object] = []
    with psycopg.connect(dsn) as connection:
        connection.execute("TRUNCATE actual")
        with connection.cursor().copy("COPY actual FROM STDIN (FORMAT csv)") as copy:
            copy.write(arrow_to_csv(answers))
        for one in evaluated:
            name = f"e{one.number}"
            query = (
                f"SELECT %s, to_jsonb(e), x.{name}::text, a.{name}::text"
                " FROM expected AS x FULL JOIN actual AS a USING (n) JOIN edge AS e USING (n)"
                f" WHERE x.{name} IS DISTINCT FROM a.{name} LIMIT 3"
            )
            found += connection.execute(query.encode(), [one.source]).fetchall()
    return found


def not_failing(
    sessions: SparkSessions, edge: pa.Table, evaluated: list[Evaluated]
) -> list[tuple[str, int]]:
    """Return an expression and a row for each kind of failure that Spark does not share."""
    tried = [
        (one, row)
        for one in evaluated
        for row in {state: row for row, state in one.failures.items()}.values()
    ]
    return [
        (one.source, row)
        for one, row in tried
        if not fails_on_spark(sessions, edge, one.spark, row)
    ]


def fails_on_spark(sessions: SparkSessions, edge: pa.Table, expression: str, row: int) -> bool:
    try:
        run(sessions.small(), {"t": edge.slice(row, 1)}, f"SELECT {expression} FROM {{t}}")
    except DataError:
        return True
    return False
