"""Settings from the environment, the role, the database and the table: which one counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import pgtrickle
from pgtrickle.errors import SettingError
from pgtrickle.settings import Settings, load_settings, storable_settings
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.engines import Borrowed


@pytest.fixture(autouse=True)
def forget_requests() -> None:
    """Use a database of one's own."""


@pytest.fixture
def admin(database: str, duckdb_engine: DuckDbEngine) -> Iterator[psycopg.Connection]:
    """Connect to a database with a catalog."""
    with pgtrickle.connect(database, engine=Borrowed(duckdb_engine)):
        pass
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


def lease(database: str) -> tuple[str, str]:
    """Return what a process that starts now has for one setting, and from where."""
    with pgtrickle.connect(database, engine=Borrowed(DuckDbEngine())) as trickle:
        [found] = [one for one in trickle.list_settings() if one.name == "lease_seconds"]
        assert float(found.value) == trickle._runtime.settings.lease_seconds
    return found.value, found.source


def test_precedence_from_the_default_up(
    admin: psycopg.Connection, database: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("PGTRICKLE_LEASE_SECONDS", raising=False)
    assert lease(database) == ("30.0", "default")
    admin.execute("SELECT pgtrickle.set_setting('lease_seconds', '40')")
    assert lease(database) == ("40.0", "table")
    admin.execute(f"ALTER DATABASE {admin.info.dbname} SET pg_trickle.lease_seconds = 50".encode())
    assert lease(database) == ("50.0", "session")
    monkeypatch.setenv("PGTRICKLE_LEASE_SECONDS", "60")
    assert lease(database) == ("60.0", "environment")
    with pgtrickle.connect(
        database, engine=Borrowed(DuckDbEngine()), settings=Settings(lease_seconds=70)
    ) as trickle:
        assert trickle._runtime.settings.lease_seconds == 70


def test_the_table_has_every_setting_that_may_be_stored(admin: psycopg.Connection):
    found: dict[str, str] = dict(
        admin.execute("SELECT name, default_value FROM pgtrickle.show_settings()").fetchall()
    )

    assert set(found) == set(storable_settings())
    # Both ways of writing a default mean the same.
    assert load_settings({}, stored=found) == Settings()
    assert {one.name for one in fields(Settings)} - set(found) == {
        "dsn",
        "connection_timeout_seconds",
        "spark_auth_secret_file",  # a file of the machine is not for the database to name
        "openlineage_url",  # nor to whom this process tells what it does
        "otel_endpoint",
        "trusted_owner",  # nor does a catalog say whom to trust
    }


def test_a_later_version_keeps_the_values_of_the_user(admin: psycopg.Connection, database: str):
    admin.execute("SELECT pgtrickle.set_setting('lease_seconds', '40')")
    admin.execute("UPDATE pgtrickle.pgt_settings SET doc = 'old', default_value = '1'")
    admin.execute("UPDATE pgtrickle.pgt_sql_api SET sha256 = 'x' WHERE name = '99_known_settings'")

    pgtrickle.connect(database, engine=Borrowed(DuckDbEngine()), init=True).close()

    row = admin.execute(
        "SELECT value, default_value, doc = 'old' FROM pgtrickle.pgt_settings"
        " WHERE name = 'lease_seconds'"
    ).fetchone()
    assert row == ("40", "30.0", False)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lease_seconds", "soon"),
        ("lease_seconds", "0"),
        ("lease_seconds", "86401"),
        ("lease_seconds", "1e3"),
        ("read_connections", "1.5"),
        ("matview_polling", "maybe"),
        ("change_buffer_durability", "eternal"),
        ("no_such_setting", "1"),
        ("dsn", "postgresql://elsewhere"),
    ],
)
def test_values_that_cannot_be_are_refused_by_the_table(
    admin: psycopg.Connection, name: str, value: str
):
    with pytest.raises(psycopg.Error) as caught:
        admin.execute("SELECT pgtrickle.set_setting(%s, %s)", [name, value])

    assert caught.value.sqlstate == "ST501"
    assert caught.value.diag.message_hint


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lease_seconds", "1.25"),
        ("trim_rows", "7"),
        ("matview_polling", "OFF"),
        ("change_buffer_durability", "sync"),
        ("cdc_mode", "wal"),
    ],
)
def test_what_the_table_accepts_a_process_accepts(admin: psycopg.Connection, name: str, value: str):
    admin.execute("SELECT pgtrickle.set_setting(%s, %s)", [name, value])

    assert getattr(load_settings({}, stored={name: value}), name) != getattr(Settings(), name)


def test_value_that_is_taken_back(admin: psycopg.Connection, database: str):
    admin.execute("SELECT pgtrickle.set_setting('lease_seconds', '40')")
    admin.execute("SELECT pgtrickle.set_setting('lease_seconds', NULL)")

    assert lease(database)[1] == "default"


def test_wrong_value_for_the_database_is_an_error_at_the_start(
    admin: psycopg.Connection, database: str
):
    admin.execute(
        f"ALTER DATABASE {admin.info.dbname} SET pg_trickle.lease_seconds = 'soon'".encode()
    )

    with pytest.raises(SettingError, match="lease_seconds"):
        lease(database)


def test_session_shows_what_it_has_set(admin: psycopg.Connection):
    admin.execute("SET pg_trickle.lease_seconds = 99")

    row = admin.execute(
        "SELECT value, source FROM pgtrickle.show_settings() WHERE name = 'lease_seconds'"
    ).fetchone()
    assert row == ("99", "session")


def test_secret_comes_from_the_environment(database: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SHOP_DATABASE", str(conninfo_to_dict(database)["dbname"]))
    dsn = make_conninfo(database, dbname="${ENV:SHOP_DATABASE}")

    with pgtrickle.connect(dsn, engine=Borrowed(DuckDbEngine())) as trickle:
        [shown] = [one.value for one in trickle.list_settings() if one.name == "dsn"]

    assert shown == "***"


def test_secret_that_is_missing_is_named():
    with pytest.raises(SettingError, match="SHOP_PASSWORD"):
        load_settings({"PGTRICKLE_DSN": "postgresql://ann:${ENV:SHOP_PASSWORD}@db"})


@pytest.mark.parametrize(("quota", "workers"), [("0", 4), ("2", 2), ("60", 4)])
def test_quota_of_a_database_bounds_its_workers(database: str, quota: str, workers: int):
    with pgtrickle.connect(database) as trickle:
        trickle.set_setting("per_database_worker_quota", quota)

    with pgtrickle.connect(database) as trickle:
        assert trickle.daemon.max_concurrent_refreshes == workers
