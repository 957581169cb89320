"""Connecting looks at the catalog and changes nothing; verbs say what is missing."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from importlib import metadata

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

import pgtrickle
from pgtrickle.catalog.migrate import list_migrations
from pgtrickle.catalog.scheduling.leader import claim_leadership
from pgtrickle.errors import CatalogMissingError, CatalogOutdatedError, PrivilegeError, StandbyError
from pgtrickle.settings import Settings
from tests.catalog.databases import Database, ordinary_role, value
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.restartable import OwnServer

_SENT = re.compile(r"LOG: +(?:statement|execute [^:]+): ")


def test_connecting_takes_three_messages_to_the_server(own_server: OwnServer):
    pgtrickle.connect(own_server.dsn, engine=DuckDbEngine(), init=True).close()
    log = own_server.directory / "log"
    before = len(_SENT.findall(log.read_text()))
    logged = make_conninfo(own_server.dsn, options="-c log_statement=all")

    with pgtrickle.connect(logged, engine=DuckDbEngine()) as trickle:
        trickle._runtime.pool.wait()

        assert len(_SENT.findall(log.read_text())) - before <= 3


@pytest.mark.parametrize(
    "verb",
    [
        lambda trickle: trickle.list_stream_tables(),
        lambda trickle: trickle.create_stream_table("t", "SELECT 1 AS one"),
        lambda trickle: trickle.refresh_stream_table("t"),
        lambda trickle: trickle.list_settings(),
        lambda trickle: trickle.migrate(),
    ],
    ids=["list", "create", "refresh", "config", "migrate"],
)
def test_verbs_ask_for_init_where_there_is_no_catalog(
    empty_database: str, verb: Callable[[pgtrickle.Trickle], object]
):
    with (
        pgtrickle.connect(empty_database, engine=DuckDbEngine()) as trickle,
        pytest.raises(CatalogMissingError) as caught,
    ):
        verb(trickle)

    assert caught.value.hint == "Run: pgtrickle init"
    with psycopg.connect(empty_database) as connection:
        assert value(connection, "SELECT to_regnamespace('pgtrickle') IS NULL") is True


def test_init_makes_the_catalog_and_then_verbs_work(empty_database: str):
    with pgtrickle.connect(empty_database, engine=DuckDbEngine()) as trickle:
        applied = trickle.init()
        assert trickle.list_stream_tables() == []

    assert applied[0] == "0001 baseline"
    with pgtrickle.connect(empty_database, engine=DuckDbEngine()) as trickle:
        assert trickle.init() == trickle.migrate() == []


def test_verbs_ask_for_migrate_where_the_catalog_is_older(database: str, catalog: Database):
    catalog.execute("UPDATE pgtrickle.pgt_sql_api SET sha256 = 'x', package = '0.0.9'")

    with pgtrickle.connect(database, engine=DuckDbEngine()) as trickle:
        with pytest.raises(CatalogOutdatedError) as caught:
            trickle.list_stream_tables()
        assert caught.value.hint == "Run: pgtrickle migrate"
        assert trickle.migrate()
        assert trickle.list_stream_tables() == []


def test_stored_settings_are_read_by_the_same_look(database: str, catalog: Database):
    catalog.execute("SELECT pgtrickle.set_setting('max_concurrent_refreshes', '7')")

    with pgtrickle.connect(database, engine=DuckDbEngine()) as trickle:
        assert trickle._runtime.settings.max_concurrent_refreshes == 7
    with pgtrickle.connect(database, engine=DuckDbEngine(), settings=Settings()) as trickle:
        assert trickle._runtime.settings == Settings(dsn=database)


def test_reader_looks_at_a_standby_and_nobody_writes_to_it(own_server: OwnServer):
    with (
        ordinary_role(own_server.dsn) as reader,
        psycopg.connect(own_server.dsn, autocommit=True) as admin,
    ):
        admin.execute("CREATE TABLE t AS SELECT 1 AS id")
        with pgtrickle.connect(own_server.dsn, engine=DuckDbEngine(), init=True) as trickle:
            trickle.create_stream_table("copy", "SELECT id FROM t")
        admin.execute("SELECT pgtrickle.grant_access(%s, 'reader')", [reader])
        with own_server.copy() as standby:
            standby.start()
            guest = make_conninfo(standby.dsn, user=reader)
            with pgtrickle.connect(guest, engine=DuckDbEngine()) as trickle:
                assert [one.name.name for one in trickle.list_stream_tables()] == ["copy"]
                assert trickle.refresh_history("copy")
                with pytest.raises(PrivilegeError):
                    trickle.init()
            with pgtrickle.connect(standby.dsn, engine=DuckDbEngine()) as trickle:
                assert [one.name.name for one in trickle.list_stream_tables()] == ["copy"]
                for verb in (trickle.init, lambda: trickle.refresh_stream_table("copy")):
                    with pytest.raises(StandbyError):
                        verb()
        admin.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(reader)))


def test_sql_migrate_makes_again_what_is_missing_or_different(catalog: Database):
    catalog.execute("DROP VIEW pgtrickle.quick_health")
    catalog.execute("DROP POLICY pgt_watermarks_of_own ON pgtrickle.pgt_watermarks")
    catalog.execute("DROP TRIGGER forget_gaps ON pgtrickle.pgt_change_tracking")
    catalog.execute(
        "CREATE OR REPLACE FUNCTION pgtrickle.is_served() RETURNS boolean LANGUAGE sql"
        " AS 'SELECT true'"
    )
    catalog.execute("GRANT EXECUTE ON FUNCTION pgtrickle.notify(text, text) TO PUBLIC")

    done = catalog.execute("SELECT * FROM pgtrickle.migrate()").fetchall()

    assert done == [
        ("function pgtrickle.is_served()", "restored"),
        ("function pgtrickle.notify(text,text)", "restored"),
        ("policy pgt_watermarks_of_own on table pgtrickle.pgt_watermarks", "created"),
        ("trigger forget_gaps on table pgtrickle.pgt_change_tracking", "created"),
        ("view pgtrickle.quick_health", "created"),
    ]
    assert catalog.execute("SELECT * FROM pgtrickle.migrate()").fetchall() == []


def test_sql_migrate_is_the_owners(catalog: Database, database: str):
    with ordinary_role(database) as role:
        catalog.execute("SELECT pgtrickle.grant_access(%s, 'operator')", [role])
        catalog.execute(
            sql.SQL("GRANT EXECUTE ON FUNCTION pgtrickle.migrate() TO {}").format(
                sql.Identifier(role)
            )
        )
        with (
            psycopg.connect(make_conninfo(database, user=role)) as other,
            pytest.raises(psycopg.errors.InsufficientPrivilege, match="who owns the catalog"),
        ):
            other.execute("SELECT pgtrickle.migrate()")


def test_version_tells_of_the_package_and_of_the_daemon(database: str, catalog: Database):
    add = "INSERT INTO pgtrickle.pgt_daemons VALUES ('leads', now(), now() - '3s'::interval, {})"
    catalog.execute(add.format("'0.0.9', '4.0'").encode())
    claim_leadership(catalog, "stands by", timedelta(seconds=9))
    catalog.execute("UPDATE pgtrickle.pgt_leader SET owner = 'leads'")

    found = catalog.execute(
        "SELECT catalog_version, extension_version, library_version, pg_major_version,"
        " spark_version FROM pgtrickle.version()"
    ).fetchone()
    with pgtrickle.connect(database, engine=DuckDbEngine()) as trickle:
        versions, daemons = trickle.version(), trickle.status().daemons

    newest = len(list_migrations())
    server = catalog.info.server_version // 10000
    assert found == (newest, pgtrickle.__version__, "0.0.9", server, "4.0")
    assert (versions.package, versions.catalog) == (pgtrickle.__version__, newest)
    assert (versions.daemon, versions.daemon_spark) == ("0.0.9", "4.0")
    assert versions.spark == metadata.version("pyspark")
    assert [(one.package, one.spark) for one in daemons] == [
        ("0.0.9", "4.0"),
        (pgtrickle.__version__, metadata.version("pyspark")),
    ]
