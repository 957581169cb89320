"""Run the tests of a project: each is a query whose rows contradict a statement.

A test reads one snapshot in a transaction that cannot write, and is ended if it takes too long.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from datetime import timedelta
from typing import Any

from psycopg import Connection
from psycopg.rows import dict_row

from pgtrickle.errors import ProjectFileError, TrickleError
from pgtrickle.model.projects.findings import FAILED, PASSED, WARNED, ProjectTestResult
from pgtrickle.model.projects.project import Project, ProjectTable, ProjectTest
from pgtrickle.model.text.json_values import json_row
from pgtrickle.model.text.names import QualifiedName, quote_identifier
from pgtrickle.model.text.trusted import trusted
from pgtrickle.service.compile import set_search_path
from pgtrickle.service.projects.files.template import literal
from pgtrickle.service.refreshing.dispatch import refresh_when_free
from pgtrickle.service.runtime import Runtime, translated_errors

Tell = Callable[[ProjectTestResult], object]
LONGEST = timedelta(minutes=5)
_SAMPLE = 5
_READ_ONLY = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_LIMIT = "SELECT pg_catalog.set_config('statement_timeout', %s, true)"


def run_tests(
    runtime: Runtime,
    project: Project,
    tell: Tell,
    *,
    names: Collection[str] = (),
    refresh: bool = False,
    longest: timedelta = LONGEST,
) -> list[ProjectTestResult]:
    """Run the tests of all stream tables, or of those that are named, in order.

    ``refresh``: each stream table is brought up to date before its tests.
    """
    found = []
    for table in _choose(project, names):
        if refresh:
            refresh_when_free(runtime, table.name)
        for test in table.tests:
            found.append(run_test(runtime, table.name, table.search_path, test, longest))
            tell(found[-1])
    return found


def _choose(project: Project, names: Collection[str]) -> Iterator[ProjectTable]:
    """Yield the stream tables of these names, as they are in the database; none: all."""
    wanted = {QualifiedName.parse(one) for one in names}
    known = {one.name for one in project.tables}
    for one in sorted(wanted - known):
        raise ProjectFileError(
            f'the project has no stream table "{one}" for the target {project.target}',
            hint="Write schema.name, with the prefix that the target gives the schema.",
        )
    yield from (one for one in project.tables if not wanted or one.name in wanted)


def run_test(
    runtime: Runtime,
    name: QualifiedName,
    search_path: str | None,
    test: ProjectTest,
    longest: timedelta = LONGEST,
) -> ProjectTestResult:
    """Run one test of a stream table."""
    query, began = contradictions(name, test), time.monotonic()
    number: int | None = None
    sample: tuple[dict[str, Any], ...] = ()
    problem = None
    try:
        with runtime.connection() as connection, translated_errors(), connection.transaction():
            connection.execute(_READ_ONLY)
            connection.execute(_LIMIT, [str(int(longest.total_seconds() * 1000))])
            set_search_path(connection, runtime.users_path(search_path))
            number, sample = _find(connection, query)
    except TrickleError as error:
        problem = f"{error.code}: {error}"
    bad = WARNED if test.warns else FAILED
    return ProjectTestResult(
        name,
        test.name,
        PASSED if number == 0 else bad,
        number,
        sample,
        query,
        problem,
        round((time.monotonic() - began) * 1000, 1),
    )


def contradictions(name: QualifiedName, test: ProjectTest) -> str:
    r"""Return the query whose rows contradict a statement.

    >>> table = QualifiedName("public", "t")
    >>> contradictions(table, ProjectTest("n", "not_null", columns=("a",)))
    'SELECT * FROM "public"."t" AS t WHERE "a" IS NULL'
    >>> contradictions(table, ProjectTest("n", "accepted_values", columns=("a",), values=("x", 1)))
    'SELECT * FROM "public"."t" AS t WHERE "a" NOT IN (\'x\', 1)'
    """
    columns = [quote_identifier(one) for one in test.columns]
    listed = ", ".join(columns)
    match test.kind:
        case "not_null":
            return f"SELECT * FROM {name.sql} AS t WHERE {listed} IS NULL"
        case "unique":
            known = " AND ".join(f"{one} IS NOT NULL" for one in columns)
            return (
                f"SELECT {listed}, pg_catalog.count(*) AS rows FROM {name.sql} AS t WHERE {known}"
                f" GROUP BY {listed} HAVING pg_catalog.count(*) > 1"
            )
        case "accepted_values":
            accepted = ", ".join(literal(one) for one in test.values if one is not None)
            if not accepted:
                return f"SELECT * FROM {name.sql} AS t WHERE {listed} IS NOT NULL"
            return f"SELECT * FROM {name.sql} AS t WHERE {listed} NOT IN ({accepted})"
        case "relationships" if test.to is not None and test.field is not None:
            field = quote_identifier(test.field)
            return (
                f"SELECT * FROM {name.sql} AS t WHERE t.{listed} IS NOT NULL AND NOT EXISTS"
                f" (SELECT FROM {test.to.sql} AS o WHERE o.{field} = t.{listed})"
            )
        case _:
            return (test.query or "").strip().removesuffix(";")


def _find(connection: Connection, query: str) -> tuple[int, tuple[dict[str, Any], ...]]:
    # Binary results: only the extended protocol has them, and it refuses a second statement.
    inner = f"({query}\n) AS contradictions"
    counted = trusted(f"SELECT pg_catalog.count(*) FROM {inner}")
    [(number,)] = connection.execute(counted, binary=True).fetchall()
    if not number:
        return 0, ()
    with connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(trusted(f"SELECT * FROM {inner} LIMIT {_SAMPLE}")).fetchall()
    return number, tuple(json_row(row) for row in rows)
