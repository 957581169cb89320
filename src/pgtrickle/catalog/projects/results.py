"""Queries over ``pgt_project_test_results``: what the tests of projects found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.model.projects.findings import ProjectTestResult
from pgtrickle.model.text.names import QualifiedName


@dataclass(frozen=True, slots=True)
class DueTests:
    """The tests of a stream table whose rows have changed since they were run."""

    stream_table_id: int
    name: QualifiedName
    search_path: str | None
    tests: Sequence[Mapping[str, Any]]
    refresh_id: int


# A refresh that finds no change leaves no row in the history.
_DUE = """
    SELECT p.pgt_id, s.pgt_schema, s.pgt_name, p.search_path, p.tests, h.refresh_id
      FROM pgtrickle.pgt_project_tables AS p
      JOIN pgtrickle.pgt_stream_tables AS s ON s.pgt_id = p.pgt_id
     CROSS JOIN LATERAL (
           SELECT r.refresh_id FROM pgtrickle.pgt_refresh_history AS r
            WHERE r.pgt_id = p.pgt_id AND r.status = 'COMPLETED'
            ORDER BY r.start_time DESC LIMIT 1) AS h
     WHERE pg_catalog.jsonb_array_length(p.tests) > 0
       AND h.refresh_id IS DISTINCT FROM p.tested_refresh
     ORDER BY p.pgt_id
"""


def list_due_tests(connection: Connection[TupleRow]) -> list[DueTests]:
    """Return the stream tables of projects that were refreshed since their tests were run."""
    return [
        DueTests(id_, QualifiedName(schema, name), *rest)
        for id_, schema, name, *rest in connection.execute(_DUE)
    ]


# Nobody is told twice of the same; what passes from the beginning is no news.
_RECORD = """
    WITH before AS (
        SELECT r.status FROM pgtrickle.pgt_project_test_results AS r
         WHERE r.pgt_id = %(id)s AND r.test = %(test)s
    ), written AS (
        INSERT INTO pgtrickle.pgt_project_test_results AS r (pgt_id, test, status, rows, problem)
        SELECT p.pgt_id, %(test)s, %(status)s, %(rows)s, %(problem)s
          FROM pgtrickle.pgt_project_tables AS p WHERE p.pgt_id = %(id)s
            ON CONFLICT (pgt_id, test) DO UPDATE
           SET status = excluded.status, rows = excluded.rows, problem = excluded.problem,
               tested_at = pg_catalog.now(),
               since = CASE WHEN r.status = excluded.status THEN r.since
                            ELSE pg_catalog.now() END
        RETURNING r.status
    )
    SELECT pgtrickle.notify('pg_trickle_alert', pg_catalog.json_build_object(
               'event', CASE w.status WHEN 'pass' THEN 'project_test_passed'
                                      ELSE 'project_test_failed' END,
               'name', %(name)s::pg_catalog.text, 'test', %(test)s::pg_catalog.text,
               'status', w.status, 'rows', %(rows)s::pg_catalog.int8,
               'problem', %(problem)s::pg_catalog.text)::pg_catalog.text)
      FROM written AS w LEFT JOIN before AS b ON true
     WHERE w.status IS DISTINCT FROM coalesce(b.status, 'pass')
"""
_TESTED = """
    UPDATE pgtrickle.pgt_project_tables AS p SET tested_refresh = %(refresh)s
     WHERE p.pgt_id = %(id)s
"""


def record_results(
    connection: Connection[TupleRow], due: DueTests, results: Sequence[ProjectTestResult]
) -> None:
    """Record what tests found, and alert where a test begins to fail or to pass."""
    with connection.transaction():
        for one in results:
            values = {
                "id": due.stream_table_id,
                "name": str(due.name),
                "test": one.test,
                "status": one.status,
                "rows": one.rows,
                "problem": one.problem,
            }
            connection.execute(_RECORD, values)
        connection.execute(_TESTED, {"id": due.stream_table_id, "refresh": due.refresh_id})
