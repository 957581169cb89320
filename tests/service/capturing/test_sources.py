"""Tables of every kind as sources, written in every way (P8, P47, P51, P52, P56)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import pgtrickle
from pgtrickle.errors import TrickleError, UnsupportedSourceError
from pgtrickle.settings import Settings
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.engines import Borrowed
from tests.fixtures.postgres import enterable_directory
from tests.labs.lab import Lab

PARTS = (
    "CREATE TABLE sales (id int, region text, day int, amount int) PARTITION BY LIST (region)",
    "CREATE TABLE sales_north PARTITION OF sales FOR VALUES IN ('n') PARTITION BY RANGE (day)",
    "CREATE TABLE sales_n1 PARTITION OF sales_north FOR VALUES FROM (0) TO (10)",
    # Its columns have other numbers than the parent's.
    "CREATE TABLE sales_n2 (gone int, amount int, day int, region text, id int)",
    "ALTER TABLE sales_n2 DROP COLUMN gone",
    "ALTER TABLE sales_north ATTACH PARTITION sales_n2 FOR VALUES FROM (10) TO (20)",
    "CREATE TABLE sales_rest PARTITION OF sales DEFAULT",
    "INSERT INTO sales SELECT i, substr('nsw', i % 3 + 1, 1), i % 20, i"
    " FROM generate_series(1, 40) AS i",
    "CREATE TABLE regions (region text, name text)",
    "INSERT INTO regions VALUES ('n', 'north'), ('s', 'south')",
)
TOTALS = "SELECT region, count(*) AS n, sum(amount) AS amount FROM sales GROUP BY region"
NAMED = "SELECT s.id, s.amount, r.name FROM sales s JOIN regions r USING (region)"


@pytest.fixture
def lab(lab: Lab) -> Iterator[Lab]:
    """Leave it to the refresh to find out what was altered."""
    with lab.unwatched():
        yield lab


@pytest.fixture
def parts(lab: Lab) -> Lab:
    lab.run(*PARTS)
    lab.create("totals", TOTALS)
    lab.create("named", NAMED)
    return lab


def test_partitioned_table_is_written_through_any_of_its_tables(parts: Lab):
    parts.window(
        "INSERT INTO sales VALUES (100, 'n', 3, 1), (101, 'n', 13, 2), (102, 'x', 1, 3)",
        "INSERT INTO sales_north VALUES (103, 'n', 4, 4), (104, 'n', 14, 5)",
        "INSERT INTO sales_n1 VALUES (105, 'n', 5, 6)",
        "INSERT INTO sales_n2 (id, region, day, amount) VALUES (106, 'n', 15, 7)",
        "INSERT INTO sales_rest VALUES (107, 's', 15, 8)",
    )
    parts.window(
        "UPDATE sales SET amount = amount + 1 WHERE id > 90",
        "UPDATE sales_north SET amount = amount + 1 WHERE id > 90",
        "UPDATE sales_n2 SET amount = amount + 1 WHERE id > 90",
    )
    parts.window("DELETE FROM sales WHERE id = 100", "DELETE FROM sales_n2 WHERE id = 106")
    parts.window(
        "MERGE INTO sales USING (VALUES (101), (999)) AS v (id) ON sales.id = v.id"
        " WHEN MATCHED THEN UPDATE SET amount = 0"
        " WHEN NOT MATCHED THEN INSERT VALUES (v.id, 'n', 1, 1)"
    )
    with parts.connection.cursor().copy("COPY sales FROM STDIN") as copy:
        copy.write_row((200, "n", 12, 1))
    with parts.connection.cursor().copy("COPY sales_n1 FROM STDIN") as copy:
        copy.write_row((201, "n", 2, 1))
    parts.window()


def test_row_moves_between_partitions(parts: Lab):
    parts.window("UPDATE sales SET region = 's' WHERE region = 'n' AND id % 2 = 0")
    parts.window("UPDATE sales SET day = 19 - day WHERE region = 'n'")
    parts.window("UPDATE sales_north SET day = 19 - day")


def test_truncate_of_a_partition_and_of_the_whole(parts: Lab):
    for statement in ("TRUNCATE sales_n2", "TRUNCATE sales_north", "TRUNCATE sales"):
        parts.window(statement, "INSERT INTO sales VALUES (300, 'n', 11, 1)", action="FULL")
        parts.window("INSERT INTO sales_n2 (id, region, day, amount) VALUES (301, 'n', 11, 1)")


def test_p45_partitions_are_attached_and_detached(parts: Lab):
    parts.run(
        "CREATE TABLE west (LIKE sales)", "INSERT INTO west VALUES (400, 'west', 1, 1)",
        "ALTER TABLE sales ATTACH PARTITION west FOR VALUES IN ('west')",
        "INSERT INTO west VALUES (401, 'west', 1, 1)",
        "INSERT INTO sales VALUES (402, 'west', 1, 1)",
    )  # fmt: skip
    parts.window(action="REINITIALIZE")
    parts.window("INSERT INTO west VALUES (403, 'west', 1, 1)", "DELETE FROM sales WHERE id = 401")

    parts.run("ALTER TABLE sales DETACH PARTITION west", "DELETE FROM west WHERE id = 402")
    parts.window(action="REINITIALIZE")
    parts.run("INSERT INTO west VALUES (404, 'west', 1, 1)")
    parts.window(action="NO_DATA")
    assert parts.rows("SELECT tgname FROM pg_trigger WHERE tgrelid = 'west'::regclass") == []

    parts.run("CREATE TABLE sales_e PARTITION OF sales FOR VALUES IN ('e')")
    parts.run("INSERT INTO sales_e VALUES (405, 'e', 1, 1)")
    parts.window(action="REINITIALIZE")
    parts.window("INSERT INTO sales_e VALUES (406, 'e', 1, 1)")
    parts.run("DROP TABLE sales_e")
    parts.window(action="REINITIALIZE")


@pytest.mark.parametrize("way", ["sales", "west"])
def test_partition_comes_is_written_and_goes_between_two_refreshes(parts: Lab, way: str):
    parts.run(
        "CREATE TABLE west (LIKE sales)",
        "ALTER TABLE sales ATTACH PARTITION west FOR VALUES IN ('west')",
        f"INSERT INTO {way} VALUES (402, 'west', 1, 1)",
        f"INSERT INTO {way} VALUES (403, 'west', 1, 1)",
        f"DELETE FROM {way} WHERE id = 403",
        "ALTER TABLE sales DETACH PARTITION west",
    )
    for name in parts.queries:
        parts.trickle.refresh_stream_table(name)
        parts.check(name)
    parts.window("INSERT INTO sales VALUES (404, 'n', 1, 1)")


def test_partition_is_detached_written_and_attached_again(parts: Lab):
    parts.run(
        "ALTER TABLE sales_north DETACH PARTITION sales_n2",
        "UPDATE sales_n2 SET amount = amount + 1",
        "ALTER TABLE sales_north ATTACH PARTITION sales_n2 FOR VALUES FROM (10) TO (20)",
    )
    parts.window()


def test_partition_itself_is_a_source(parts: Lab):
    parts.create("n2", "SELECT id, amount FROM sales_n2")
    parts.create("n", "SELECT id, amount FROM sales_north")
    parts.run(
        "INSERT INTO sales VALUES (500, 'n', 11, 1), (501, 'n', 1, 1), (502, 's', 11, 1)",
        "UPDATE sales SET day = 19 - day WHERE region = 'n' AND id < 10",
        "UPDATE sales_north SET amount = 7 WHERE id < 20",
        "DELETE FROM sales_n2 WHERE id < 10",
    )
    parts.window()
    parts.run("TRUNCATE sales_north")
    parts.window("INSERT INTO sales VALUES (503, 'n', 11, 1)", action="FULL")
    parts.window("INSERT INTO sales VALUES (504, 'n', 11, 1)")
    for name in ("n2", "n", "named", "totals"):
        parts.trickle.drop_stream_table(name)
    assert parts.leftovers() == []


def test_columns_of_a_partitioned_table_change(parts: Lab):
    parts.run("ALTER TABLE sales RENAME COLUMN amount TO money")
    parts.run("INSERT INTO sales VALUES (600, 'n', 11, 1)", "UPDATE sales_n2 SET money = 3")
    parts.run("ALTER TABLE sales RENAME COLUMN money TO amount")
    parts.window()
    parts.run("ALTER TABLE sales ADD COLUMN note text DEFAULT 'x'")
    parts.window("INSERT INTO sales VALUES (601, 'n', 11, 1)")
    parts.run("ALTER TABLE sales ALTER note DROP DEFAULT, ALTER note TYPE int USING 1")
    parts.window("INSERT INTO sales_n1 VALUES (602, 'n', 1, 1)", action="REINITIALIZE")
    parts.run("ALTER TABLE sales DROP COLUMN id CASCADE", "INSERT INTO sales VALUES ('n', 1, 1)")
    parts.run("UPDATE sales_n1 SET amount = 0", "DELETE FROM sales WHERE amount > 30")
    parts.refresh("totals")
    with pytest.raises(TrickleError, match=r"column s\.id does not exist"):
        parts.trickle.refresh_stream_table("named")


def test_inheritance(lab: Lab):
    lab.run(
        "CREATE TABLE base (id int, v text)",
        "CREATE TABLE heir (extra int) INHERITS (base)",
        "CREATE TABLE deep (more int) INHERITS (heir)",
        "INSERT INTO base VALUES (1, 'a')", "INSERT INTO deep VALUES (2, 'b', 1, 1)",
    )  # fmt: skip
    lab.create("all_rows", "SELECT id, v FROM base")
    lab.create("heirs", "SELECT id, extra FROM heir")
    lab.create("own_rows", "SELECT id, v FROM ONLY base", mode="AUTO")

    lab.run(
        "INSERT INTO base VALUES (3, 'c')",
        "INSERT INTO heir VALUES (4, 'd', 1)",
        "INSERT INTO deep VALUES (5, 'e', 1, 1)",
        "UPDATE base SET v = v || 'x' WHERE id > 1",
        "UPDATE ONLY base SET v = v || 'y'",
        "UPDATE heir SET extra = extra + 1",
        "DELETE FROM base WHERE id = 5",
    )
    for name, action in (("all_rows", "DIFFERENTIAL"), ("heirs", "DIFFERENTIAL")):
        lab.refresh(name, action)
    lab.refresh("own_rows", "FULL")
    lab.run("ALTER TABLE deep NO INHERIT heir", "INSERT INTO deep VALUES (6, 'f', 1, 1)")
    lab.window(action="REINITIALIZE")
    lab.run("TRUNCATE base", "INSERT INTO heir VALUES (7, 'g', 7)")
    lab.window(action="FULL")


def test_p08_keyless_duplicates(lab: Lab):
    lab.run("CREATE TABLE bag (a int, b text)", "INSERT INTO bag VALUES (1, 'x'), (1, 'x')")
    lab.create("rows", "SELECT a, b FROM bag")
    lab.create("counts", "SELECT a, count(*) AS n FROM bag GROUP BY a")

    one = "(SELECT ctid FROM bag LIMIT 1)"
    lab.window(f"DELETE FROM bag WHERE ctid = {one}")
    lab.window("INSERT INTO bag VALUES (1, 'x'), (1, 'x'), (2, NULL), (2, NULL)")
    lab.window(f"UPDATE bag SET a = 3 WHERE ctid = {one}")
    lab.window("DELETE FROM bag", "INSERT INTO bag VALUES (1, 'x'), (1, 'x'), (2, NULL)")


ODD = (
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'glad')",
    "CREATE DOMAIN code AS text CHECK (length(value) < 9)",
    "CREATE TYPE pair AS (a int, b text)",
    """CREATE TABLE odd (
        a int, b code, n int GENERATED ALWAYS AS IDENTITY, m mood, p pair, l int[], big text,
        twice int GENERATED ALWAYS AS (a * 2) STORED, UNIQUE (a, b))""",
    "INSERT INTO odd (a, b, m, p, l, big) VALUES (1, 'x', 'sad', '(1,u)', '{1,2}', NULL)",
)


def test_p51_null_keys_and_every_kind_of_column(lab: Lab):
    lab.run(*ODD)
    lab.create("copy", "SELECT a, b, n, m, p, l, big, twice FROM odd")
    lab.create("moods", "SELECT m, b, count(*) AS n, max(twice) AS t FROM odd GROUP BY m, b")

    lab.window(
        "INSERT INTO odd (a, b, m, p, l) VALUES (NULL, 'y', 'ok', NULL, NULL), (NULL, NULL, NULL,"
        " ROW(NULL, NULL), '{}')"
    )
    lab.window("UPDATE odd SET m = 'glad' WHERE a IS NULL", "UPDATE odd SET b = 'z' WHERE b = 'y'")
    lab.window("UPDATE odd SET a = 7 WHERE a IS NULL AND b = 'z'", "UPDATE odd SET p.a = 9")
    lab.window("UPDATE odd SET a = NULL, b = NULL")
    # A value that is stored elsewhere, and an update that leaves it there.
    lab.window("UPDATE odd SET big = (SELECT string_agg(md5(i::text), '') FROM"
               " generate_series(1, 5000) i)")  # fmt: skip
    lab.window("UPDATE odd SET m = 'sad'")
    lab.window("DELETE FROM odd WHERE a IS NULL AND n = 1")


def test_composite_and_changing_keys(lab: Lab):
    lab.run("CREATE TABLE k (a int, b int, v int, PRIMARY KEY (a, b))")
    lab.run("INSERT INTO k SELECT i / 5, i % 5, i FROM generate_series(1, 20) i")
    lab.create("by_a", "SELECT a, count(*) AS n, sum(v) AS s FROM k GROUP BY a")
    lab.create("pairs", "SELECT x.a, x.b, y.v FROM k x JOIN k y ON y.a = x.b AND y.b = x.a")

    lab.window("UPDATE k SET a = a + 100", "UPDATE k SET a = a - 100, b = b + 1")
    lab.window("UPDATE k SET (a, b) = (b, a) WHERE a = 0")


def test_writes_by_other_triggers_cascades_and_ctes(lab: Lab):
    lab.run(
        "CREATE TABLE head (id int PRIMARY KEY, n int)",
        "CREATE TABLE line (id int, head int REFERENCES head ON DELETE CASCADE ON UPDATE CASCADE)",
        "CREATE TABLE note (head int REFERENCES head ON DELETE SET NULL ON UPDATE CASCADE)",
        "CREATE FUNCTION count_lines() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " UPDATE head SET n = n + 1 WHERE id = NEW.head; RETURN NEW; END $$",
        "CREATE TRIGGER counting AFTER INSERT ON line FOR EACH ROW EXECUTE FUNCTION count_lines()",
        "INSERT INTO head VALUES (1, 0), (2, 0)",
        "INSERT INTO line VALUES (1, 1), (2, 1), (3, 2)", "INSERT INTO note VALUES (1), (2)",
    )  # fmt: skip
    lab.create(
        "heads", "SELECT h.id, h.n, l.id AS line FROM head h LEFT JOIN line l ON l.head = h.id"
    )
    lab.create("notes", "SELECT head, count(*) AS n FROM note GROUP BY head")

    lab.run("INSERT INTO line VALUES (4, 2), (5, 2)")
    lab.refresh("heads")
    lab.run("UPDATE head SET id = 7 WHERE id = 2")
    lab.refresh("heads")
    lab.window("DELETE FROM head WHERE id = 1")
    lab.run(
        "WITH gone AS (DELETE FROM line RETURNING id, head), made AS (INSERT INTO head"
        " SELECT max(id) + 50, 0 FROM gone RETURNING id)"
        " INSERT INTO line SELECT g.id + 10, m.id FROM gone g, made m WHERE false"
    )
    lab.refresh("heads")
    lab.run("INSERT INTO head VALUES (7, 1), (8, 1) ON CONFLICT (id) DO UPDATE SET n = 99")
    lab.refresh("heads")


def test_p56_materialized_view_is_polled_first(lab: Lab):
    lab.run(
        "CREATE TABLE t (id int, k int)", "INSERT INTO t VALUES (1, 1), (2, 1), (3, 2)",
        "CREATE MATERIALIZED VIEW mv AS SELECT k, count(*) AS n FROM t GROUP BY k",
        "CREATE UNIQUE INDEX ON mv (k)",
        "CREATE TABLE names (k int, name text)", "INSERT INTO names VALUES (1, 'one')",
    )  # fmt: skip
    lab.create("big", "SELECT m.k, m.n, x.name FROM mv m JOIN names x USING (k)")

    lab.window("INSERT INTO t VALUES (4, 1)", action="NO_DATA")
    lab.run("REFRESH MATERIALIZED VIEW mv")
    stream_table = lab.trickle.get_stream_table("big")
    assert stream_table.id not in lab.trickle.daemon.find_idle([stream_table])
    [report] = lab.window(action="FULL")
    assert report.reason == "public.mv changed, as polling shows"
    lab.window("INSERT INTO names VALUES (2, 'two'), (1, 'uno')")
    lab.run("INSERT INTO t VALUES (5, 2)", "REFRESH MATERIALIZED VIEW CONCURRENTLY mv")
    lab.window(action="FULL")
    lab.window(action="NO_DATA")
    lab.trickle.drop_stream_table("big")
    assert lab.leftovers() == []


def test_polling_that_finds_nothing_leaves_no_history(lab: Lab):
    lab.run("CREATE TABLE t (id int)", "CREATE MATERIALIZED VIEW mv AS SELECT id FROM t")
    lab.create("copy", "SELECT id FROM mv")
    before = lab.trickle.refresh_history("copy")

    for _ in range(3):
        [report] = lab.trickle.daemon.refresh_unit(["copy"])
        assert (report.action.value, report.refresh_id) == ("NO_DATA", None)

    assert lab.trickle.refresh_history("copy") == before
    lab.run("INSERT INTO t VALUES (1)", "REFRESH MATERIALIZED VIEW mv")
    [report] = lab.trickle.daemon.refresh_unit(["copy"])
    assert report.refresh_id == lab.trickle.refresh_history("copy")[0].id


@pytest.fixture
def far(lab: Lab) -> Iterator[Path]:
    """Make a foreign table of a file."""
    try:
        lab.run("CREATE EXTENSION file_fdw")
    except psycopg.Error:
        pytest.skip("this server has no file_fdw")
    with enterable_directory() as directory:
        file = directory / "far.csv"
        file.write_text("1,a\n")
        file.chmod(0o644)
        lab.run(
            "CREATE SERVER files FOREIGN DATA WRAPPER file_fdw",
            "CREATE FOREIGN TABLE far (id int, v text) SERVER files"
            f" OPTIONS (filename '{file}', format 'csv')",
        )
        yield file
        lab.run("DROP EXTENSION file_fdw CASCADE")


def test_foreign_table_is_polled_where_that_is_allowed(
    lab: Lab, far: Path, duckdb_engine: DuckDbEngine
):
    with pytest.raises(UnsupportedSourceError) as caught:
        lab.trickle.create_stream_table("made", "SELECT id, v FROM far")
    assert "PGTRICKLE_FOREIGN_TABLE_POLLING=true" in caught.value.hint
    settings = Settings(foreign_table_polling=True)
    with pgtrickle.connect(
        lab.trickle.dsn, engine=Borrowed(duckdb_engine), settings=settings
    ) as trickle:
        polling = Lab(trickle, lab.connection)
        polling.create("made", "SELECT id, v FROM far")
        polling.window(action="NO_DATA")
        far.write_text("1,a\n2,b\n")
        polling.window(action="FULL")
        trickle.drop_stream_table("made")
