"""A stage in PostgreSQL's own dialect says what it says in the engine's."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from pgtrickle.capture.windows import window_predicate
from pgtrickle.delta.reads import fill_marks
from pgtrickle.model.text.names import quote_identifier
from pgtrickle.plan.stages import StagePlan, plan_differential, sources_of
from pgtrickle.service.compile import compile_query
from pgtrickle.service.refreshing.stages.source_versions import write_versions
from pgtrickle.sql.translate import Dialect
from tests.fakes.engine import DuckDbEngine
from tests.labs.lab import Lab

_QUERIES = {
    "a join of three": "SELECT t.id, u.w, v.x FROM t JOIN u ON u.k = t.k JOIN v ON v.w = u.w"
    " WHERE t.id + u.k > 1",
    "groups of a join": "SELECT u.w, sum(t.id) AS s, count(*) AS n, max(t.k) AS m"
    " FROM t JOIN u ON u.k = t.k GROUP BY u.w",
    "a union": "SELECT k FROM t UNION ALL SELECT k FROM u",
}


@pytest.mark.parametrize("query", _QUERIES.values(), ids=_QUERIES.keys())
def test_both_dialects_find_the_same_change(lab: Lab, query: str) -> None:
    lab.run(
        "CREATE TABLE t (id int, k int)",
        "CREATE TABLE u (k int, w int)",
        "CREATE TABLE v (w int, x text)",
        "INSERT INTO t SELECT i, i % 4 FROM generate_series(1, 9) AS i",
        "INSERT INTO u VALUES (0, 5), (1, 5), (1, 6), (2, NULL)",
        "INSERT INTO v VALUES (5, 'a'), (6, 'b')",
    )
    lab.create("s", query)
    lab.run("DELETE FROM t WHERE id < 3", "UPDATE u SET w = 6", "INSERT INTO v VALUES (6, 'c')")

    [ours] = plans(lab, query, Dialect.DUCKDB)
    [theirs] = plans(lab, query, Dialect.POSTGRES)

    frontier = lab.trickle.get_stream_table("s").frontier
    assert frontier is not None
    window = window_predicate(frontier.snapshot)
    inputs = {}
    for read in theirs.reads:
        sql = fill_marks(read.sql, window, {})
        lab.run(f"CREATE TEMPORARY TABLE {quote_identifier(read.view)} AS {sql}")
        inputs[read.view] = lab.connection.execute(f"TABLE {quote_identifier(read.view)}".encode())
    found = Counter(lab.rows(write_versions(theirs.sql, theirs.versions, Dialect.POSTGRES)))
    assert found
    assert found == Counter(by_duckdb(ours, inputs))


def plans(lab: Lab, query: str, dialect: Dialect) -> tuple[StagePlan, ...]:
    staged = compile_query(lab.connection, query).staged
    return plan_differential(staged, list(sources_of(staged)), dialect, str).stages


def by_duckdb(stage: StagePlan, inputs: dict[str, Any]) -> list[tuple[Any, ...]]:
    engine = DuckDbEngine()
    tables = {}
    for read in stage.reads:
        cursor = inputs[read.view]
        names = [column.name for column in cursor.description]
        rows = cursor.fetchall()
        tables[read.view] = as_arrow(names, rows)
    sql = write_versions(stage.sql, stage.versions, engine.dialect)
    result = engine.run(sql, tables)
    return [tuple(row.values()) for row in result.to_pylist()]


def as_arrow(names: list[str], rows: list[tuple[Any, ...]]) -> Any:
    import pyarrow as pa

    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    return pa.table({name: pa.array(values) for name, values in zip(names, columns, strict=True)})
