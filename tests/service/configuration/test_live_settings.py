"""Settings that change while processes run: each of them follows, and none restarts."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import fields

import psycopg
import pytest
from psycopg import sql

import pgtrickle
from pgtrickle import Trickle
from pgtrickle.settings import Settings, settings_for_restart, storable_settings
from tests.fakes.engine import NoEngine
from tests.fixtures.engines import Borrowed
from tests.fixtures.restartable import OwnServer

PATIENCE = 20.0  # seconds: a machine may be slow, and nothing here measures


@pytest.fixture
def admin(database: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def processes(database: str, admin: psycopg.Connection) -> Iterator[list[Trickle]]:
    """Connect as several processes do, each with a pool of its own."""
    with ExitStack() as stack:
        engine = Borrowed(NoEngine())
        yield [stack.enter_context(pgtrickle.connect(database, engine=engine)) for _ in range(3)]
        admin.execute(assign(admin, "RESET ALL"))


def assign(admin: psycopg.Connection, text: str, role: str | None = None) -> sql.Composed:
    """Write an ALTER of this database, or of a role in it."""
    database = sql.Identifier(admin.info.dbname)
    if role is None:
        return sql.SQL("ALTER DATABASE {} {}").format(database, sql.SQL(text))
    return sql.SQL("ALTER ROLE {} IN DATABASE {} {}").format(
        sql.Identifier(role), database, sql.SQL(text)
    )


def timeout(trickle: Trickle) -> float:
    """Use a connection, as every verb does; return a setting of the process."""
    trickle.list_stream_tables()
    return trickle._runtime.settings.planning_timeout_seconds


def becomes(read: Callable[[], object], wanted: object) -> None:
    """Wait until something has a value."""
    end = time.monotonic() + PATIENCE
    while read() != wanted:
        assert time.monotonic() < end, f"it is {read()}, not {wanted}"
        time.sleep(0.05)


def all_have(processes: list[Trickle], wanted: float) -> None:
    becomes(lambda: {timeout(one) for one in processes}, {wanted})


def test_every_process_follows_the_table(processes: list[Trickle], admin: psycopg.Connection):
    admin.execute("SELECT pgtrickle.set_setting('planning_timeout_seconds', '0.3')")
    all_have(processes, 0.3)

    processes[0].set_setting("planning_timeout_seconds", None)
    all_have(processes, 10.0)


def test_every_process_follows_the_database_and_the_role(
    processes: list[Trickle], admin: psycopg.Connection
):
    role = admin.info.user
    admin.execute("SELECT pgtrickle.set_setting('planning_timeout_seconds', '0.3')")
    admin.execute(assign(admin, "SET pg_trickle.planning_timeout_seconds = 0.4"))
    all_have(processes, 0.4)
    admin.execute(assign(admin, "SET pg_trickle.planning_timeout_seconds = 0.5", role))
    all_have(processes, 0.5)
    for trickle in processes:  # sessions from now on begin with the assigned value
        trickle._runtime.pool.resize(2, 40)
    admin.execute(assign(admin, "RESET pg_trickle.planning_timeout_seconds", role))
    all_have(processes, 0.4)
    admin.execute(assign(admin, "RESET pg_trickle.planning_timeout_seconds"))
    all_have(processes, 0.3)


def test_options_of_the_connection_stay(database: str, admin: psycopg.Connection):
    dsn = psycopg.conninfo.make_conninfo(
        database, options="-c pg_trickle.planning_timeout_seconds=0.7"
    )
    with pgtrickle.connect(dsn, engine=Borrowed(NoEngine())) as trickle:
        assert timeout(trickle) == 0.7
        admin.execute(assign(admin, "SET pg_trickle.planning_timeout_seconds = 0.4"))
        admin.execute(assign(admin, "SET pg_trickle.trim_rows = 44"))
        becomes(lambda: (timeout(trickle), trickle._runtime.settings.trim_rows), (0.7, 44))


def test_argument_and_environment_stay(
    database: str, admin: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
):
    given = Settings(planning_timeout_seconds=0.8)
    with pgtrickle.connect(database, engine=Borrowed(NoEngine()), settings=given) as fixed:
        monkeypatch.setenv("PGTRICKLE_PLANNING_TIMEOUT_SECONDS", "0.6")
        with pgtrickle.connect(database, engine=Borrowed(NoEngine())) as trickle:
            fixed.set_setting("planning_timeout_seconds", "0.2")
            fixed.set_setting("trim_rows", "45")
            becomes(lambda: (timeout(trickle), trickle._runtime.settings.trim_rows), (0.6, 45))
        assert (timeout(fixed), fixed._runtime.settings.trim_rows) == (0.8, 1_000_000)


def test_value_that_cannot_be_changes_nothing_and_is_told_once(
    processes: list[Trickle], admin: psycopg.Connection, caplog: pytest.LogCaptureFixture
):
    admin.execute("SELECT pgtrickle.set_setting('planning_timeout_seconds', '0.3')")
    all_have(processes, 0.3)
    with caplog.at_level(logging.INFO, "pgtrickle.service.configuration.live"):
        admin.execute(assign(admin, "SET pg_trickle.planning_timeout_seconds = 'much'"))
        admin.execute("SELECT pgtrickle.set_setting('trim_rows', '46')")
        becomes(
            lambda: {(timeout(one), one._runtime.settings.trim_rows) for one in processes},
            {(0.3, 46)},
        )

    told = [one.getMessage() for one in caplog.records if "cannot be" in one.getMessage()]
    assert len(told) == len(processes)
    assert all("planning_timeout" in one and "much" in one for one in told)
    changed = {one.getMessage() for one in caplog.records if "trim_rows" in one.getMessage()}
    assert changed == {"the setting trim_rows is now 46, it was 1000000"}


def test_setting_that_needs_a_restart_says_so_and_waits(
    processes: list[Trickle], caplog: pytest.LogCaptureFixture
):
    trickle = processes[1]
    with caplog.at_level(logging.WARNING, "pgtrickle.service.configuration.live"):
        processes[0].set_setting("spark_driver_memory", "3g")
        processes[0].set_setting("trim_rows", "47")
        becomes(lambda: (timeout(trickle), trickle._runtime.settings.trim_rows), (10.0, 47))

    assert trickle._runtime.settings.spark_driver_memory == "2g"
    assert "the setting spark_driver_memory is now 3g: it takes a restart" in caplog.text
    processes[0].set_setting("spark_driver_memory", None)


def test_which_settings_need_a_restart_is_told_everywhere(
    processes: list[Trickle], admin: psycopg.Connection
):
    wanted = set(settings_for_restart())
    assert {one.name for one in processes[0].list_settings() if one.needs_restart} == wanted
    shown = admin.execute("SELECT name FROM pgtrickle.show_settings() WHERE needs_restart")
    assert {name for (name,) in shown} == wanted & set(storable_settings())
    assert wanted < {one.name for one in fields(Settings)}


def test_guest_follows_the_database(database: str, admin: psycopg.Connection):
    role = f"guest_{admin.info.dbname}"
    name = sql.Identifier(role)
    admin.execute(sql.SQL("CREATE ROLE {} LOGIN").format(name))
    try:
        admin.execute("SELECT pgtrickle.grant_access(%s, 'reader')", [role])
        dsn = psycopg.conninfo.make_conninfo(database, user=role)
        with pgtrickle.connect(dsn, engine=Borrowed(NoEngine())) as guest:
            admin.execute(assign(admin, "SET pg_trickle.planning_timeout_seconds = 0.4", role))
            becomes(lambda: timeout(guest), 0.4)
            admin.execute(assign(admin, "RESET ALL", role))
            becomes(lambda: timeout(guest), 10.0)
    finally:
        admin.execute(sql.SQL("DROP OWNED BY {}").format(name))
        admin.execute(sql.SQL("DROP ROLE {}").format(name))


def test_reload_of_the_server_is_followed(own_server: OwnServer):
    configuration = own_server.data / "postgresql.conf"
    before = configuration.read_text()
    with (
        pgtrickle.connect(own_server.dsn, engine=Borrowed(NoEngine()), init=True) as trickle,
        psycopg.connect(own_server.dsn, autocommit=True) as admin,
    ):
        # A session that begins now has what is assigned to the database, for as long as it lives.
        admin.execute(assign(admin, "SET pg_trickle.planning_timeout_seconds = 7.5"))
        becomes(lambda: timeout(trickle), 7.5)
        trickle._runtime.pool.drain()
        timeout(trickle)
        admin.execute(assign(admin, "RESET pg_trickle.planning_timeout_seconds"))
        becomes(lambda: timeout(trickle), 10.0)
        configuration.write_text(f"{before}\npg_trickle.planning_timeout_seconds = 3.5\n")
        admin.execute("SELECT pg_reload_conf()")
        becomes(lambda: timeout(trickle), 3.5)
        configuration.write_text(before)
        admin.execute("SELECT pg_reload_conf()")
        becomes(lambda: timeout(trickle), 10.0)
