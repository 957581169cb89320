"""The history says for every read of a refresh how many rows and bytes it brought."""

from __future__ import annotations

from pgtrickle.model.report import RefreshReport
from tests.service.lab import Lab


def recorded(report: RefreshReport) -> dict[tuple[str, str], int]:
    """Return the rows by source and kind; every read that brought rows brought bytes."""
    assert all((read.bytes > 0) == (read.rows > 0) for read in report.reads)
    return {(read.source, read.kind): read.rows for read in report.reads}


def test_every_kind_of_read_is_recorded(lab: Lab) -> None:
    lab.run(
        "CREATE TABLE c (id int PRIMARY KEY, region int)",
        "CREATE TABLE o (id int PRIMARY KEY, c_id int)",
        "CREATE INDEX ON o (c_id)",
        "INSERT INTO c SELECT g, g % 3 FROM generate_series(1, 30) AS g",
        "INSERT INTO o SELECT g, g % 30 + 1 FROM generate_series(1, 90) AS g",
    )
    query = (
        "SELECT c.region, g.n FROM c"
        " JOIN (SELECT c_id, count(*) AS n FROM o GROUP BY c_id) AS g ON g.c_id = c.id"
    )
    first = lab.create("s", query)
    assert recorded(first)[("public.o", "full")] == 90
    assert recorded(first)[("public.c", "full")] == 30

    lab.run("INSERT INTO o VALUES (1000, 7), (1001, 7)", "UPDATE c SET region = 9 WHERE id = 8")
    report = lab.trickle.refresh_stream_table("s")
    found = recorded(report)

    lab.check("s")
    assert found[("public.o", "changes")] == 2
    assert found[("public.c", "changes")] == 2
    assert found[("public.c", "keyed")] == 1
    assert {kind for _, kind in found} == {"changes", "keyed", "stage"}
    assert lab.trickle.refresh_history("s", limit=1)[0].reads == report.reads


def test_query_that_postgresql_answers_whole_is_recorded(lab: Lab) -> None:
    lab.run("CREATE TABLE t (id int)", "INSERT INTO t VALUES (1), (2), (3)")

    report = lab.create("s", "SELECT id FROM t LIMIT 100", "AUTO")

    assert recorded(report) == {("the defining query", "full"): 3}
