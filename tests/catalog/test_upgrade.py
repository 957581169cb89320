"""A frozen catalog with stream tables in it is restored, upgraded, refreshed and verified."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import pgtrickle
from pgtrickle.catalog.migrate import check_version, migrate
from pgtrickle.errors import CatalogOutdatedError, LeaseLostError
from tests.catalog import freeze
from tests.catalog.conftest import thawed
from tests.catalog.databases import Database, value
from tests.catalog.freeze import OPERATOR, READER, STREAM_TABLES
from tests.catalog.versions import LATER, NEXT, describe, publish
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.engines import Borrowed


def test_upgraded_catalog_equals_a_new_one(owner: Database, database: str):
    migrate(owner)
    check_version(owner)

    with psycopg.connect(database) as new:
        assert describe(owner) == describe(new)


def test_stream_tables_of_a_frozen_catalog_go_on_after_the_upgrade(frozen: str, owner: Database):
    with pgtrickle.connect(frozen, engine=DuckDbEngine(), init=True) as trickle:
        assert trickle._runtime.settings.lease_seconds == 40
        for name in STREAM_TABLES:
            trickle.refresh_stream_table(name)
            assert trickle.verify_stream_table(name).ok
        owner.execute("INSERT INTO app.orders VALUES (7, 1, 100)")
        actions = {name: trickle.refresh_stream_table(name).action.value for name in STREAM_TABLES}
        assert all(trickle.verify_stream_table(name).ok for name in STREAM_TABLES)

    assert actions == {
        "app.revenue": "DIFFERENTIAL",
        "app.large": "DIFFERENTIAL",
        "app.moods": "NO_DATA",
        "app.best": "DIFFERENTIAL",
    }
    assert value(owner, "SELECT total FROM app.best") == 110
    assert value(
        owner, "SELECT tier FROM pgtrickle.stream_tables_info WHERE pgt_name = 'large'"
    ) == ("cold")
    assert value(owner, "SELECT count(*) FROM pgtrickle.list_subscriptions()") == 1


def test_what_is_frozen_today_is_of_use_to_later_versions(
    tmp_path: Path, empty_database: str, monkeypatch: pytest.MonkeyPatch
):
    freeze.main(tmp_path / "frozen.sql")

    with thawed(tmp_path / "frozen.sql", empty_database) as dsn:
        publish(monkeypatch, LATER)
        with pgtrickle.connect(dsn, engine=DuckDbEngine(), init=True) as trickle:
            trickle.snapshots.restore_from_snapshot("app.revenue", "app.saved")
            trickle.shadows.promote_shadow("app.best")
            for name in STREAM_TABLES:
                trickle.refresh_stream_table(name)
                assert trickle.verify_stream_table(name).ok
            assert trickle.get_stream_table("app.best").original_query == freeze.SHADOW
            [listed] = trickle.snapshots.list_snapshots()
    assert (listed.snapshot_table, listed.row_count) == ("saved", 2)


def test_readers_of_a_frozen_catalog_look_after_the_upgrade(frozen: str, owner: Database):
    migrate(owner)

    with pgtrickle.connect(make_conninfo(frozen, user=READER), engine=DuckDbEngine()) as guest:
        names = {f"{one.name.schema}.{one.name.name}" for one in guest.list_stream_tables()}
    assert names == set(STREAM_TABLES)
    may = "SELECT has_function_privilege(%s, 'pgtrickle.submit_request(text, jsonb)', 'EXECUTE')"
    found = [owner.execute(may, [role]).fetchone() for role in (READER, OPERATOR)]
    assert found == [(False,), (True,)]


def test_later_migration_is_asked_for_and_applied(
    frozen: str, owner: Database, monkeypatch: pytest.MonkeyPatch
):
    migrate(owner)
    publish(monkeypatch, LATER)

    with pgtrickle.connect(frozen, engine=DuckDbEngine()) as trickle:
        with pytest.raises(CatalogOutdatedError, match=f"this package needs {NEXT}"):
            trickle.refresh_stream_table("app.revenue")
        assert trickle.migrate() == [f"{NEXT:04d} later"]
        trickle.refresh_stream_table("app.revenue")
        assert trickle.verify_stream_table("app.revenue").ok
    assert value(owner, "SELECT count(shoe_size) FROM pgtrickle.pgt_daemons") == 0


def test_refresh_in_flight_does_not_commit_into_the_migrated_catalog(
    frozen: str, monkeypatch: pytest.MonkeyPatch
):
    engine = Borrowed(DuckDbEngine())
    with pgtrickle.connect(frozen, engine=engine, init=True) as trickle:
        with psycopg.connect(frozen, autocommit=True) as other:
            publish(monkeypatch, LATER)
            engine.interruptions = [lambda: migrate(other)]
            with pytest.raises(LeaseLostError):
                trickle.refresh_stream_table("app.large")
            assert value(other, "SELECT count(*) FROM pgtrickle.pgt_leases") == 0

        assert trickle.refresh_stream_table("app.large").rows_inserted == 1
        assert trickle.verify_stream_table("app.large").ok


def test_migration_that_fails_half_way_leaves_nothing_of_it(
    owner: Database, monkeypatch: pytest.MonkeyPatch
):
    migrate(owner)
    before = describe(owner)
    with monkeypatch.context() as broken:
        publish(broken, f"{LATER} SELECT 1 / 0;")
        with pytest.raises(psycopg.errors.DivisionByZero):
            migrate(owner)

    assert describe(owner) == before
    publish(monkeypatch, LATER)
    assert migrate(owner) == [f"{NEXT:04d} later"]
