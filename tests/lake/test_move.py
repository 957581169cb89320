"""The catalog in a schema of its own, and moved to another: DuckDB reads the same rows there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

import pgtrickle
from pgtrickle.errors import LakeCatalogError, LakeReadError, PrivilegeError, ServerBusyError
from pgtrickle.lake.format.catalog import create_catalog
from pgtrickle.lake.reader.open import LakeRead, describe
from pgtrickle.settings import load_settings
from tests.catalog.databases import ordinary_role
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.ducklake import lake_client
from tests.fixtures.engines import Borrowed
from tests.lake.shore import COPY, SOURCE, SUMS, FarShore, Shore

_TABLES = """
    SELECT n.nspname, count(*) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
     WHERE c.relname LIKE 'ducklake\\_%' AND c.relkind = 'r' GROUP BY 1 ORDER BY 1
"""


def read(dsn: str, schema: str, name: str) -> Counter[tuple[Any, ...]]:
    """Return what a client that attaches now reads."""
    with lake_client(dsn, schema) as client:
        return Counter(client.execute(f"SELECT * FROM {name}").fetchall())


def schemas(shore: Shore) -> list[str]:
    return [schema for schema, _ in shore.tell(_TABLES)]


@pytest.fixture
def plain(empty_database: str, duckdb_engine: DuckDbEngine, tmp_path: Path) -> Iterator[Shore]:
    """Open pgtrickle with no settings of its own, as an ordinary role."""
    with (
        psycopg.connect(empty_database, autocommit=True) as admin,
        ordinary_role(empty_database) as role,
    ):
        for statement in (
            *SOURCE,
            f"GRANT CREATE ON DATABASE {admin.info.dbname} TO {role}",
            f"GRANT CREATE ON SCHEMA public TO {role}",
            f"ALTER TABLE t OWNER TO {role}",
        ):
            admin.execute(statement.encode())
        dsn = make_conninfo(empty_database, user=role)
        with (
            psycopg.connect(dsn, autocommit=True) as connection,
            pgtrickle.connect(dsn, engine=Borrowed(duckdb_engine), init=True) as trickle,
            duckdb.connect() as client,
        ):
            yield Shore(trickle, connection, client, tmp_path / "lake")


def make(shore: Shore) -> None:
    shore.trickle.create_stream_table(
        "copy", COPY, sink="ducklake", ducklake_sink_path=str(shore.path)
    )


def rows(shore: Shore, name: str = "copy") -> Counter[tuple[Any, ...]]:
    return Counter(shore.tell(f"TABLE {name}"))


def test_catalog_goes_to_a_schema_of_its_own_and_the_line_that_is_shown_reads_it(plain: Shore):
    make(plain)

    assert schemas(plain) == ["ducklake"]
    [shown] = plain.trickle.lake.ducklake_catalogs()
    assert (shown.catalog_schema, shown.sinks, shown.sources) == ("ducklake", 1, 0)
    assert "METADATA_SCHEMA 'ducklake'" in shown.attach
    with lake_client(plain.trickle.dsn, "ducklake") as client:
        client.execute("USE memory")
        client.execute("DETACH lake")
        client.execute(shown.attach)
        assert Counter(client.execute("SELECT * FROM lake.copy").fetchall()) == rows(plain)
    [(in_sql,)] = plain.tell("SELECT attach FROM pgtrickle.ducklake_catalogs()")
    assert in_sql == (
        f"ATTACH 'ducklake:postgres:dbname={plain.connection.info.dbname}' AS lake"
        " (METADATA_SCHEMA 'ducklake');"
    )


def test_catalog_moves_with_everything_that_names_it(plain: Shore):
    trickle, dsn = plain.trickle, plain.trickle.dsn
    trickle.set_setting("ducklake_catalog_schema", "public")
    with pgtrickle.connect(dsn, engine=Borrowed(DuckDbEngine())) as before:
        make(Shore(before, plain.connection, plain.client, plain.path))
        with lake_client(dsn, "public") as client:
            client.execute("CREATE TABLE small (a INT)")
            client.execute("INSERT INTO small VALUES (1), (2)")  # rows that lie in the catalog
        before.lake.attach_ducklake_table("landed", "main.small")
        before.create_stream_table("counted", "SELECT count(*) AS n FROM landed")
        plain.run("CREATE VIEW heads AS SELECT max(snapshot_id) AS head FROM ducklake_snapshot")
        [(head,)] = plain.tell("TABLE heads")
        assert schemas(plain) == ["public"]

        moved = before.lake.move_ducklake_catalog()

        assert (moved.from_schema, moved.to_schema) == ("public", "ducklake")
        assert (moved.sinks, moved.sources) == (1, 1)
        assert plain.tell(_TABLES) == [("ducklake", moved.tables)]
        assert plain.tell("TABLE heads") == [(head,)]
        assert read(dsn, "ducklake", "copy") == rows(plain)
        # All goes on in the process whose settings are from before, and in those that start now.
        plain.run("UPDATE t SET s = 'moved' WHERE id < 50")
        before.refresh_stream_table("copy")
        assert read(dsn, "ducklake", "copy") == rows(plain)
        before.create_stream_table("sums", SUMS, sink="ducklake")
        assert read(dsn, "ducklake", "sums") == rows(plain, "sums")
        with lake_client(dsn, "ducklake") as client:
            client.execute("INSERT INTO small VALUES (3)")
        before.refresh_stream_table("counted")
        assert plain.tell("TABLE counted") == [(3,)]
        assert before.lake.move_ducklake_catalog().tables == 0
    assert {one.name: one.value for one in trickle.list_settings()}[
        "ducklake_catalog_schema"
    ] == "ducklake"
    assert [one.status.value for one in trickle.lake.ducklake_sink_status()] == ["DELIVERED"] * 2


def test_catalog_moves_back_and_forth(plain: Shore):
    make(plain)
    for schema in ("one", "two words", "ducklake"):
        plain.trickle.lake.move_ducklake_catalog(schema)
        plain.run("UPDATE t SET v = v + 1 WHERE id < 10")
        plain.trickle.refresh_stream_table("copy")
        assert schemas(plain) == [schema]
        assert read(plain.trickle.dsn, schema, "copy") == rows(plain)


def test_client_that_holds_locks_is_named_and_nothing_has_moved(
    plain: Shore, duckdb_engine: DuckDbEngine
):
    make(plain)
    settings = load_settings({}, dsn=plain.trickle.dsn, lock_wait_seconds=1.0)
    with (
        pgtrickle.connect(engine=Borrowed(duckdb_engine), settings=settings) as hasty,
        lake_client(plain.trickle.dsn, "ducklake") as client,
    ):
        client.execute("BEGIN")
        client.execute("SELECT count(*) FROM copy").fetchall()

        with pytest.raises(ServerBusyError) as caught:
            hasty.lake.move_ducklake_catalog("elsewhere")

        assert "holds AccessShareLock" in str(caught.value)
        client.execute("ROLLBACK")
    assert schemas(plain) == ["ducklake"]
    assert plain.tell("SELECT to_regnamespace('elsewhere')") == [(None,)]
    plain.trickle.lake.move_ducklake_catalog("elsewhere")
    assert read(plain.trickle.dsn, "elsewhere", "copy") == rows(plain)


def test_moves_that_cannot_be_made_are_refused(plain: Shore, empty_database: str):
    make(plain)
    role = plain.connection.info.user
    with (
        psycopg.connect(empty_database, autocommit=True) as admin,
        ordinary_role(empty_database) as other,
    ):
        create_catalog(plain.connection, "full", str(plain.path))
        admin.execute(f"CREATE SCHEMA theirs AUTHORIZATION {other}".encode())
        admin.execute(f"GRANT ALL ON SCHEMA theirs TO {role}".encode())
        admin.execute(b"CREATE SCHEMA closed")
        for schema, error in (
            ("full", LakeCatalogError),
            ("theirs", LakeCatalogError),
            ("closed", PrivilegeError),
        ):
            with pytest.raises(error):
                plain.trickle.lake.move_ducklake_catalog(schema, "ducklake")
        with pytest.raises(LakeCatalogError):
            plain.trickle.lake.move_ducklake_catalog("new", "nowhere")
        admin.execute(f"ALTER TABLE ducklake.ducklake_tag OWNER TO {other}".encode())
        with pytest.raises(LakeCatalogError) as caught:
            plain.trickle.lake.move_ducklake_catalog("new", "ducklake")
        assert "OWNER TO" in caught.value.hint
        admin.execute(f"ALTER TABLE ducklake.ducklake_tag OWNER TO {role}".encode())
        admin.execute(b"DROP SCHEMA theirs")
    assert schemas(plain) == ["ducklake", "full"]


def test_new_catalog_is_not_put_into_a_schema_of_a_stranger(plain: Shore, empty_database: str):
    role = plain.connection.info.user
    with (
        psycopg.connect(empty_database, autocommit=True) as admin,
        ordinary_role(empty_database) as other,
    ):
        admin.execute(f"CREATE SCHEMA ducklake AUTHORIZATION {other}".encode())
        admin.execute(f"GRANT ALL ON SCHEMA ducklake TO {role}".encode())
        with pytest.raises(LakeCatalogError) as caught:
            make(plain)
        assert f'ALTER SCHEMA "ducklake" OWNER TO "{role}"' in caught.value.hint
        admin.execute(b"DROP SCHEMA ducklake")
        admin.execute(
            sql.SQL("REVOKE CREATE ON DATABASE {} FROM {}").format(
                sql.Identifier(admin.info.dbname), sql.Identifier(role)
            )
        )
        with pytest.raises(PrivilegeError) as refused:
            make(plain)
        assert "AUTHORIZATION" in refused.value.hint
        admin.execute(f"CREATE SCHEMA ducklake AUTHORIZATION {role}".encode())
        make(plain)  # which needs no right on the database
    assert read(plain.trickle.dsn, "ducklake", "copy") == rows(plain)


def test_rights_on_the_catalog_are_good_for_the_new_schema(plain: Shore, empty_database: str):
    make(plain)
    with (
        ordinary_role(empty_database) as reader,
        psycopg.connect(empty_database, autocommit=True) as admin,
    ):
        plain.run(
            f"GRANT USAGE ON SCHEMA ducklake TO {reader}",
            f"GRANT SELECT ON ALL TABLES IN SCHEMA ducklake TO {reader}",
        )

        plain.trickle.lake.move_ducklake_catalog("moved")

        asked = read(make_conninfo(empty_database, user=reader), "moved", "copy")
        assert asked == rows(plain)
        admin.execute(f"DROP OWNED BY {reader}".encode())


def test_sink_does_not_make_a_second_catalog_where_one_was(plain: Shore):
    make(plain)
    plain.run("ALTER SCHEMA ducklake RENAME TO hidden", "UPDATE t SET v = 1 WHERE id = 1")

    plain.trickle.refresh_stream_table("copy")

    assert schemas(plain) == ["hidden"]
    assert "ST701" in (plain.status()[2] or "")


def test_whoever_looks_in_the_wrong_schema_is_told_where_the_catalog_is(plain: Shore):
    create_catalog(plain.connection, "public", str(plain.path))
    plain.trickle.create_stream_table("sums", SUMS)

    with pytest.raises(LakeCatalogError) as caught:
        plain.trickle.alter_stream_table("sums", sink="ducklake")
    with pytest.raises(LakeCatalogError) as attached:
        plain.trickle.lake.attach_ducklake_table("visits", "main.visits")
    with pytest.raises(LakeReadError) as asked:
        describe(LakeRead.from_options({"dsn": plain.trickle.dsn, "table": "sums"}))

    assert '"public"' in caught.value.hint
    assert '"public"' in attached.value.hint
    assert '"public"' in asked.value.hint
    assert plain.trickle.lake.move_ducklake_catalog().from_schema == "public"
    plain.trickle.alter_stream_table("sums", sink="ducklake")
    assert read(plain.trickle.dsn, "ducklake", "sums") == rows(plain, "sums")


def test_catalog_in_another_database_moves_and_records_follow(far: FarShore, other_database: str):
    far.create("copy", COPY)

    moved = far.trickle.lake.move_ducklake_catalog("ducklake")

    assert (moved.from_schema, moved.sinks) == ("lake", 1)
    far.run("UPDATE t SET s = 'moved' WHERE id < 50")
    far.trickle.refresh_stream_table("copy")
    assert read(other_database, "ducklake", "copy") == rows(far)
    # Where it was moved and the records here did not follow, the same command lets them.
    far.run("UPDATE pgtrickle.pgt_ducklake_sinks SET catalog_schema = 'lake'")
    again = far.trickle.lake.move_ducklake_catalog("ducklake", "lake")
    assert (again.tables, again.sinks) == (0, 1)
    far.run("UPDATE t SET s = 'again' WHERE id < 50")
    far.trickle.refresh_stream_table("copy")
    assert read(other_database, "ducklake", "copy") == rows(far)
