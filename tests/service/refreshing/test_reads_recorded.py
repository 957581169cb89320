"""The history says for every read of a refresh how many rows and bytes it brought."""

from __future__ import annotations

from pgtrickle.model.report import RefreshReport
from tests.labs.lab import Lab


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

    report = lab.create(
        "s", "SELECT id FROM t WHERE age(timestamptz '2020-01-01') IS NOT NULL", "AUTO"
    )

    assert recorded(report) == {("the defining query", "full"): 3}


def test_what_two_stages_ask_alike_is_read_once(lab: Lab) -> None:
    lab.run(
        "CREATE TABLE o (id int PRIMARY KEY, x int)",
        "CREATE TABLE l (o_id int, x int)",
        "INSERT INTO o SELECT g, g % 3 FROM generate_series(1, 30) AS g",
        "INSERT INTO l SELECT g % 30 + 1, g % 4 FROM generate_series(1, 90) AS g",
    )
    lab.create(
        "s",
        "SELECT o.id, o.x FROM o WHERE EXISTS (SELECT 1 FROM l WHERE l.o_id = o.id AND l.x <> o.x)",
    )

    lab.run("UPDATE o SET x = x + 1 WHERE id < 4", "INSERT INTO l VALUES (9, 7)")
    report = lab.trickle.refresh_stream_table("s")

    lab.check("s")
    of_changes = [read.source for read in report.reads if read.kind == "changes"]
    assert sorted(of_changes) == ["public.l", "public.o"]


def test_a_mean_that_moves_brings_the_rows_between_its_values(lab: Lab) -> None:
    lab.run(
        "CREATE TABLE t (id int PRIMARY KEY, v numeric(9, 2))",
        "INSERT INTO t SELECT g, g FROM generate_series(1, 1000) AS g",
    )
    lab.create("s", "SELECT id, v FROM t WHERE v > (SELECT avg(v) FROM t)")

    lab.run("UPDATE t SET v = v + 2000 WHERE id = 1")  # the mean goes from 500.5 to 502.5
    report = lab.trickle.refresh_stream_table("s")

    lab.check("s")
    assert recorded(report)[("public.t", "keyed")] == 2
    assert (report.rows_inserted, report.rows_deleted) == (1, 2)
