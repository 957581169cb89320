"""What differs between two snapshots: as a bag, of any types, with the caller's rights."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import pgtrickle
from pgtrickle.errors import PrivilegeError, SnapshotNotFoundError, TrickleError
from tests.catalog.databases import ordinary_role
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.engines import Borrowed
from tests.labs.lab import Lab

PAGE = (Path(__file__).parents[3] / "docs" / "snapshots.md").read_text()
_TYPES = (
    "CREATE TYPE mood AS ENUM ('sad', 'glad')",
    "CREATE TYPE pair AS (x int, y text)",
    "CREATE DOMAIN price AS numeric(8, 2)",
    "CREATE DOMAIN measure AS numeric",
)
# Values that are equal and look different, or have no equality at all, among others.
_VALUES = {
    "int": ("1", "2"),
    "boolean": ("true", "false"),
    "numeric": ("0.5", "0.50", "'NaN'"),
    "measure": ("2", "2.0"),
    "price": ("2", "3.25"),
    "double precision": ("0.1", "'NaN'", "'-Infinity'"),
    "text": ("''", "'%1$s \"'"),
    "char(3)": ("'a'", "'ab'"),
    "bytea": (r"'\x00'", r"'\x01'"),
    "json": ("'{\"a\":  1}'", "'{\"a\": 1}'", "'\"\\u0000\"'"),
    "jsonb": ("'[1.0]'", "'[1]'", "'null'"),
    "interval": ("'24:00'", "'1 day'"),
    "timestamptz": ("'2026-01-01 00:00+00'", "'infinity'"),
    "point": ("'(1,2)'", "'(1,2.5)'"),
    "numeric[]": ("'{1}'", "'{1.0}'", "'{NULL}'"),
    "mood": ("'sad'", "'glad'"),
    "mood[]": ("'{sad}'", "'{glad,NULL}'"),
    "pair": ("'(1,x)'", "'(,\"\")'"),
    "int4range": ("'[1,3)'", "'empty'"),
}
_COLUMNS = {kind: f'c "{number}"%' for number, kind in enumerate(_VALUES)}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def take(lab: Lab, target: str, name: str = "st") -> None:
    lab.trickle.snapshots.snapshot_stream_table(name, target)


def bag(lab: Lab, table: str) -> Counter[tuple[object, ...]]:
    """Return the rows of a table as PostgreSQL prints them."""
    listed = ", ".join(f"{_quoted(one)}::text" for one in _COLUMNS.values())
    return Counter(lab.rows(f"SELECT {listed} FROM {table}"))


def changes(lab: Lab, call: str) -> dict[str, int]:
    """Return the sums of copies by change, and check that the totals say the same."""
    found = lab.rows(
        f"SELECT change, copies, total_added, total_removed FROM pgtrickle.diff_snapshots({call})"
    )
    sums: Counter[str] = Counter()
    for change, copies, *_ in found:
        sums[change] += copies
    for _, _, added, removed in found:
        assert (added, removed) == (sums["added"], sums["removed"])
    return dict(sums)


@pytest.fixture
def typed(lab: Lab) -> Lab:
    """Create a stream table of many types over a table without a key."""
    columns = ", ".join(f"{_quoted(name)} {kind}" for kind, name in _COLUMNS.items())
    lab.run(*_TYPES, f"CREATE TABLE t ({columns})")
    lab.trickle.create_stream_table("st", "SELECT * FROM t")
    return lab


def test_difference_is_that_of_the_bags_for_every_type(typed: Lab):
    draw = random.Random(5)
    bags: list[Counter[tuple[object, ...]]] = []
    for round_ in range(5):
        for _ in range(6):
            # Rows that differ in a single column, some of them several times.
            odd = draw.choice(list(_VALUES))
            values = ", ".join(
                draw.choice((*choices, "NULL")) if kind == odd else choices[0]
                for kind, choices in _VALUES.items()
            )
            typed.run(f"INSERT INTO t VALUES ({values})" + f", ({values})" * draw.choice((0, 0, 1)))
        typed.run("DELETE FROM t WHERE random() < 0.2")
        typed.trickle.refresh_stream_table("st")
        take(typed, f"snap_{round_}")
        bags.append(bag(typed, "st"))

    for a, before in enumerate(bags):
        for b, after in enumerate(bags):
            wanted = {"added": (after - before).total(), "removed": (before - after).total()}
            found = changes(typed, f"'snap_{a}', 'public.snap_{b}', NULL")
            assert found == {change: n for change, n in wanted.items() if n}, (a, b)
        assert changes(typed, f"'snap_{a}', NULL, NULL") == changes(
            typed, f"'snap_{a}', 'snap_4', NULL"
        )


def test_rows_are_shown_as_json_that_gives_the_row_back(typed: Lab):
    take(typed, "empty")
    for column in range(2):
        typed.run(
            f"INSERT INTO t VALUES ({', '.join(v[column % len(v)] for v in _VALUES.values())})"
        )
    typed.run(f"INSERT INTO t VALUES ({', '.join('NULL' for _ in _VALUES)})")
    typed.trickle.refresh_stream_table("st")
    typed.run("CREATE TABLE back AS SELECT * FROM t LIMIT 0")

    typed.run(
        'INSERT INTO back SELECT (json_populate_record(NULL::back, "row")).*'
        " FROM pgtrickle.diff_snapshots('empty') WHERE change = 'added'"
    )

    assert bag(typed, "back") == bag(typed, "st")


@pytest.fixture
def shop(lab: Lab) -> Lab:
    lab.run("CREATE TABLE t (k int, v int)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    lab.create("st", "SELECT k, v FROM t")
    take(lab, "one")
    lab.window("INSERT INTO t SELECT i, 0 FROM generate_series(3, 9) AS i, generate_series(1, 2)")
    lab.window("DELETE FROM t WHERE k = 1")
    return lab


def test_limit_keeps_the_totals(shop: Lab):
    found = shop.trickle.snapshots.diff_snapshots("one", max_rows=3)

    assert (found.rows_added, found.rows_removed, found.complete) == (14, 1, False)
    assert [(one.change, one.copies, one.row) for one in found.changes] == [
        ("removed", 1, {"k": 1, "v": 1}),
        ("added", 2, {"k": 3, "v": 0}),
        ("added", 2, {"k": 4, "v": 0}),
    ]
    everything = shop.trickle.snapshots.diff_snapshots("public.one")
    assert everything.complete
    assert len(everything.changes) == 8
    take(shop, "two")
    back = shop.trickle.snapshots.diff_snapshots("two", "one")
    assert (back.rows_added, back.rows_removed) == (1, 14)
    same = shop.trickle.snapshots.diff_snapshots("two")
    assert (same.rows_added, same.rows_removed, same.changes) == (0, 0, ())
    assert same.complete


def code_of(shop: Lab, a: str, b: str | None = None, max_rows: int = 100) -> TrickleError:
    with pytest.raises(TrickleError) as caught:
        shop.trickle.snapshots.diff_snapshots(a, b, max_rows)
    assert caught.value.hint
    return caught.value


def test_refusals_have_codes(shop: Lab):
    shop.create("other", "SELECT k, v FROM t")
    take(shop, "of_other", "other")
    take(shop, "two")

    assert code_of(shop, "st").code == "ST218"
    assert code_of(shop, "one", "t").code == "ST218"
    assert code_of(shop, "one", "of_other").code == "ST219"
    assert code_of(shop, "one", max_rows=-1).code == "ST501"
    shop.run("ALTER TABLE two ADD COLUMN note text", "ALTER TABLE two ALTER v TYPE bigint")
    error = code_of(shop, "one", "two")
    assert error.code == "ST219"
    assert "note is missing in public.one, text" in str(error)
    assert "v is integer in public.one, bigint in public.two" in str(error)
    shop.trickle.alter_stream_table("st", query="SELECT k, v FROM t WHERE k > 2")
    take(shop, "three")
    for later in (None, "three"):
        error = code_of(shop, "one", later)
        assert error.code == "ST219"
        assert "quer" in str(error)


def test_renames_are_followed(shop: Lab):
    shop.run(
        "CREATE SCHEMA old", "ALTER TABLE one RENAME TO first", "ALTER TABLE first SET SCHEMA old"
    )
    shop.run("ALTER TABLE st RENAME TO stock", "ALTER TABLE t RENAME TO things")

    found = shop.trickle.snapshots.diff_snapshots("old.first")

    assert (found.rows_added, found.rows_removed) == (14, 1)
    with pytest.raises(SnapshotNotFoundError):
        shop.trickle.snapshots.diff_snapshots("one")


def test_statements_of_the_page_run(lab: Lab):
    lab.run("CREATE TABLE t (region text, total int)", "INSERT INTO t VALUES ('north', 15)")
    lab.create("revenue", "SELECT region, total FROM t")
    take(lab, "revenue_monday", "revenue")
    take(lab, "revenue_friday", "revenue")
    lab.window("DELETE FROM t")
    [block] = re.findall(r"```sql\n(SELECT change.*?'revenue_monday'.*?)```", PAGE, re.DOTALL)

    found = [lab.rows(one) for one in block.strip().split(";\n")]

    assert found == [[], [("north",)], [("north", 15)]]


@pytest.fixture
def reader(shop: Lab) -> Iterator[str]:
    """Make a role that may look at the catalog and at no table."""
    dsn = shop.connection.info.dsn
    with ordinary_role(dsn) as role:
        shop.run(f"SELECT pgtrickle.grant_access('{role}', 'reader')")
        yield role


def test_reading_both_tables_is_what_it_takes(shop: Lab, reader: str, duckdb_engine: DuckDbEngine):
    dsn = make_conninfo(shop.connection.info.dsn, user=reader)
    with pgtrickle.connect(dsn, engine=Borrowed(duckdb_engine)) as guest:
        for right in ("USAGE ON SCHEMA public", "SELECT ON one", "SELECT ON st"):
            with pytest.raises(PrivilegeError):
                guest.snapshots.diff_snapshots("one")
            shop.run(f"GRANT {right} TO {reader}")
        assert guest.snapshots.diff_snapshots("one").rows_added == 14

        # What policies hide is not taken for removed; whoever they do not concern goes on.
        shop.run("ALTER TABLE st ENABLE ROW LEVEL SECURITY")
        shop.run("CREATE POLICY few ON st USING (k < 3)")
        with pytest.raises(PrivilegeError, match="42501"):
            guest.snapshots.diff_snapshots("one")
    assert shop.trickle.snapshots.diff_snapshots("one").rows_added == 14


def test_nothing_that_another_role_made_is_called(lab: Lab):
    """The owner of a type makes casts, which would run with the rights of whoever compares."""
    with ordinary_role(lab.connection.info.dsn) as hostile:
        lab.run(
            f"CREATE SCHEMA trap AUTHORIZATION {hostile}",
            f"SET SESSION AUTHORIZATION {hostile}",
            "CREATE TYPE trap.mood AS ENUM ('sad', 'glad')",
            "CREATE FUNCTION trap.seize(trap.mood) RETURNS text LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'seized'; END $$",
            "CREATE FUNCTION trap.seize_json(trap.mood) RETURNS json LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'seized'; END $$",
            "CREATE CAST (trap.mood AS text) WITH FUNCTION trap.seize(trap.mood)",
            "CREATE CAST (trap.mood AS json) WITH FUNCTION trap.seize_json(trap.mood)",
            "RESET SESSION AUTHORIZATION",
            "CREATE TABLE t (m trap.mood, ms trap.mood[])",
            "INSERT INTO t VALUES ('sad', '{sad}')",
        )
        with pytest.raises(psycopg.Error, match="seized"):
            lab.rows("SELECT m::text FROM t")
        lab.run("CREATE TABLE plain (k int)")
        lab.create("st", "SELECT k FROM plain")
        take(lab, "one")
        lab.run("ALTER TABLE one ADD m trap.mood, ADD ms trap.mood[]")
        lab.run("ALTER TABLE st ADD m trap.mood, ADD ms trap.mood[]")
        lab.run("ALTER TABLE st DISABLE TRIGGER USER", "INSERT INTO st VALUES (1, 'sad', '{glad}')")

        [one] = lab.trickle.snapshots.diff_snapshots("one").changes

        assert one.row == {"k": 1, "m": "sad", "ms": "{glad}"}
        lab.run("DROP TABLE one, t", "ALTER TABLE st DROP m, DROP ms")
