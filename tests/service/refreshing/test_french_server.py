"""A server that speaks French: what errors lead to does not depend on their text.

The server of the wheel has no translations, Debian's has them; the locale is compiled here, so
that the machine need not have it.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

import pgtrickle
from pgtrickle.errors import TrickleError
from pgtrickle.model.lake.sink import SinkNews
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.stream_table import Action
from pgtrickle.scheduler.loop import Loop
from pgtrickle.scheduler.pace import Cycle
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.engines import Borrowed
from tests.fixtures.postgres import enterable_directory, plain_server
from tests.labs.hearing import heard
from tests.labs.lab import Lab
from tests.scheduler.shop import Clock, SameThread

BINARIES = Path("/usr/lib/postgresql/15/bin")
TRANSLATIONS = Path("/usr/share/locale/fr/LC_MESSAGES/postgres-15.mo")
LOCALE_SOURCE = Path("/usr/share/i18n/locales/fr_FR")
LOCALEDEF = Path("/usr/bin/localedef")
NEEDED = (BINARIES / "initdb", TRANSLATIONS, LOCALE_SOURCE, LOCALEDEF)

pytestmark = pytest.mark.skipif(
    not all(map(Path.exists, NEEDED)),
    reason="PostgreSQL 15 with its translations, or localedef, is not installed",
)


@pytest.fixture(scope="module")
def french_dsn() -> Iterator[str]:
    with enterable_directory() as locales:
        target = str(locales / "fr_FR.UTF-8")
        compiled = [str(LOCALEDEF), "-i", "fr_FR", "-f", "UTF-8", target]
        subprocess.run(compiled, check=True, capture_output=True)
        speaks_french = ("lc_messages=fr_FR.UTF-8",)
        environment = {"LOCPATH": str(locales)}
        with plain_server(BINARIES, more_settings=speaks_french, environment=environment) as dsn:
            yield dsn


@pytest.fixture
def french(french_dsn: str, duckdb_engine: DuckDbEngine) -> Iterator[Lab]:
    """Yield a stream table whose query fails for a zero, on a server that says so in French."""
    with (
        pgtrickle.connect(french_dsn, engine=Borrowed(duckdb_engine), init=True) as trickle,
        psycopg.connect(french_dsn, autocommit=True) as connection,
    ):
        trickle.list_stream_tables()  # this makes the catalog
        lab = Lab(trickle, connection)
        lab.reset()
        lab.run("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 1)")
        lab.create("ratio", "SELECT sum(10 / v) AS s FROM t")
        yield lab


@dataclass
class Errors:
    """Remembers the errors that the loop met, and how long it pauses after each."""

    met: list[TrickleError] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)

    def refreshed(self, report: RefreshReport) -> None:
        """Take no note of what went well."""

    def failed(self, name: str | None, error: TrickleError, retry_in: timedelta) -> None:
        assert name == "public.ratio"
        self.met.append(error)
        self.pauses.append(retry_in.total_seconds())

    def resumed(self, name: str) -> None:
        raise AssertionError(f"{name} works again")

    def fell_behind(self, cycle: Cycle) -> None:
        """Do nothing."""

    def sink_changed(self, news: SinkNews) -> None:
        raise AssertionError(f"there is no sink: {news}")


def look(lab: Lab, times: int) -> Errors:
    """Let a scheduler look that often, each time after the longest pause there is."""
    clock, errors = Clock(datetime.now(UTC)), Errors()
    loop = Loop(lab.trickle.daemon, errors, now=clock.now, workers=SameThread)
    for _ in range(times):
        clock.at += timedelta(minutes=10)
        loop.run_once(threading.Event())
    return errors


def standing(lab: Lab) -> tuple[str, int]:
    table = lab.trickle.get_stream_table("ratio")
    return table.status.value, table.consecutive_errors


def test_kind_of_an_error_does_not_depend_on_its_text(french: Lab):
    with pytest.raises(psycopg.errors.DivisionByZero, match="division par zéro"):
        french.run("SELECT 1 / 0")
    french.run("INSERT INTO t VALUES (2, 0)")

    with pytest.raises(TrickleError) as raised:
        french.trickle.refresh_stream_table("ratio")

    assert (raised.value.code, raised.value.sqlstate) == ("ST407", "22012")
    assert "division par zéro" in raised.value.detail


def test_errors_of_the_data_suspend_with_an_alert(french: Lab):
    french.run("INSERT INTO t VALUES (2, 0)")
    runtime = french.trickle._runtime
    runtime.settings = replace(runtime.settings, suspend_after_seconds=0)
    with psycopg.connect(french.trickle.dsn, autocommit=True) as listener:
        listener.execute("LISTEN pg_trickle_alert")
        errors = look(french, times=5)
        alerts = heard(french, listener, "pg_trickle_alert")

    assert [error.code for error in errors.met] == ["ST407"] * 5
    assert errors.pauses == [1.0, 2.0, 60.0, 60.0, 60.0]  # the last two are trials
    assert standing(french) == ("SUSPENDED", 5)
    assert [json.loads(alert)["event"] for alert in alerts] == ["auto_suspended"]


def test_what_may_heal_by_itself_is_tried_again_and_never_suspends(french: Lab):
    french.run("INSERT INTO t VALUES (2, 2)", "ALTER DATABASE postgres SET lock_timeout = '100ms'")
    french.reconnect()
    with psycopg.connect(french.trickle.dsn) as rival:
        rival.execute("LOCK TABLE ratio IN ACCESS EXCLUSIVE MODE")
        pid = rival.info.backend_pid
        errors = look(french, times=4)
    french.run("ALTER DATABASE postgres RESET lock_timeout")
    french.reconnect()

    assert [error.code for error in errors.met] == ["ST408"] * 4
    cause = errors.met[0].__cause__
    assert isinstance(cause, TrickleError)
    assert "verrou" in cause.detail
    assert f"process {pid}" in str(errors.met[0])
    assert errors.pauses == [1.0, 2.0, 4.0, 8.0]
    assert standing(french) == ("ACTIVE", 0)
    assert look(french, times=1).met == []
    french.check("ratio")


def test_lost_connection_is_tried_again(french: Lab):
    french.run("INSERT INTO t VALUES (2, 2)")
    french.before_next_stage(
        lambda: french.run(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
    )

    errors = look(french, times=2)

    assert [error.code for error in errors.met] == ["ST401"]
    assert standing(french) == ("ACTIVE", 0)
    french.check("ratio")


def test_what_is_gone_makes_the_next_refresh_start_anew(french: Lab):
    state = french.value(
        "SELECT oid::regclass::text FROM pg_class"
        " WHERE relnamespace = 'pgtrickle_state'::regnamespace AND relkind = 'r' LIMIT 1"
    )
    french.run("INSERT INTO t VALUES (2, 2)", f"DROP TABLE {state}")

    errors = look(french, times=2)

    [error] = errors.met
    assert error.sqlstate == "42P01"
    assert "n'existe pas" in error.detail
    [rebuilt] = french.trickle.refresh_history("ratio", limit=1)
    assert rebuilt.action is Action.REINITIALIZE
    french.check("ratio")
