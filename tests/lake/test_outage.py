"""A lake that is away for long: everything tells of it, nothing is given up, and it catches up."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from psycopg.conninfo import make_conninfo

import pgtrickle
from pgtrickle.client.trickle import Trickle
from pgtrickle.errors import (
    ConnectionLostError,
    LakeCatalogError,
    LakePathError,
    LakeShapeError,
    LakeSinkError,
    LakeUnreachableError,
    LakeWriteError,
    PrivilegeError,
    StreamTableNotFoundError,
    TrickleError,
)
from pgtrickle.lake.format.catalog import create_catalog
from pgtrickle.model.lake.sink import DeliveryStatus, FailingSink, SinkNews
from pgtrickle.model.stream_table import Status
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.service.insight.checkup.check import Check
from pgtrickle.service.sinks.ducklake.errors import lake_errors
from pgtrickle.service.sinks.ducklake.failures import heals, pause_seconds
from pgtrickle.service.sinks.ducklake.news import SinkWatch
from pgtrickle.settings import load_settings
from tests.catalog.databases import ordinary_role
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.ducklake import lake_client
from tests.fixtures.engines import Borrowed
from tests.fixtures.restartable import OwnServer
from tests.lake.shore import COPY, LAKE_DSN, SOURCE, SUMS, FarShore, Shore
from tests.lake.test_delivery import down

_DUE = (
    "UPDATE pgtrickle.pgt_ducklake_sink_delivery"
    " SET next_attempt_at = now() WHERE status = 'FAILED_RETRYABLE'"
)
_ATTEMPTS = 25


@contextmanager
def moved_away(shore: Shore) -> Iterator[None]:
    """Take the directory of the lake away, as a mount that fails does."""
    aside = shore.path.with_name(f"{shore.path.name}-aside")
    shore.path.rename(aside)
    try:
        yield
    finally:
        shutil.move(aside, shore.path)


@contextmanager
def unmounted(shore: Shore) -> Iterator[None]:
    """Leave an empty directory in its place, as a mount point is without its disk."""
    with moved_away(shore):
        shore.path.mkdir()
        yield
        shore.path.rmdir()  # and so nothing was written there


def health(shore: Shore, check: str = "sinks") -> tuple[str, str]:
    [found] = shore.tell(
        f"SELECT severity, detail FROM pgtrickle.health_check() WHERE check_name = '{check}'"
    )
    return str(found[0]), str(found[1])


def doctor(trickle: Trickle) -> Check:
    [found] = [one for one in trickle.doctor() if one.name == "sinks"]
    return found


def fail_often(shore: Shore, name: str, attempts: int = _ATTEMPTS) -> list[float]:
    """Refresh and deliver in turn until so many attempts failed; return the pauses in seconds."""
    pauses = []
    for number in range(attempts):
        shore.run(f"UPDATE t SET v = {number}, s = 'r{number}' WHERE id % 5 = {number % 5}")
        shore.run(_DUE)
        if number % 2:
            shore.trickle.daemon.tend_lake()
        shore.trickle.refresh_stream_table(name)
        [(pause,)] = shore.tell(
            "SELECT extract(epoch FROM next_attempt_at - finished_at)::float8"
            " FROM pgtrickle.pgt_ducklake_sink_delivery WHERE status = 'FAILED_RETRYABLE'"
        )
        pauses.append(pause)
    return pauses


@pytest.mark.parametrize("outage", [down, moved_away, unmounted])
def test_lake_that_is_away_for_long_is_told_of_and_caught_up_with(
    shore: Shore, outage: Callable[[Shore], AbstractContextManager[None]]
):
    shore.create("copy", COPY)
    before = datetime.now(UTC)
    with outage(shore):
        pauses = fail_often(shore, "copy")
        status, attempts, error = shore.status()
        severity, detail = health(shore)
        checked = doctor(shore.trickle)
        [told] = shore.trickle.insight.diagnose_errors("copy")
        [shown] = shore.trickle.lake.ducklake_sink_status()
        shore.trickle.daemon.tend_lake()
        news = shore.trickle.daemon.sink_news()

    assert (status, attempts, (error or "")[:5]) == ("FAILED_RETRYABLE", _ATTEMPTS, "ST702")
    assert max(pauses[:3]) < 8
    assert 150 <= max(pauses[-3:]) <= 300
    assert (severity, checked.ok) == ("WARNING", False)
    for text in (detail, checked.detail):
        assert "public.copy" in text
        assert f"{_ATTEMPTS} attempts" in text
        assert "ST702" in text
    assert (told.error_code, told.error_class, told.part) == ("ST702", "backoff", "delivery")
    assert "by itself" in told.remedy
    assert shown.failing_since is not None
    assert before < shown.failing_since < datetime.now(UTC)
    assert news[-1].sink.attempts == _ATTEMPTS
    assert not news[-1].recovered

    shore.run(_DUE)
    shore.trickle.daemon.tend_lake()

    shore.check("copy")
    assert shore.status() == ("DELIVERED", 0, None)
    assert health(shore) == ("OK", "")
    assert doctor(shore.trickle).ok
    assert shore.trickle.insight.diagnose_errors("copy") == []
    assert [one.recovered for one in shore.trickle.daemon.sink_news()] == [True]
    [shown] = shore.trickle.lake.ducklake_sink_status()
    assert shown.failed_attempts == _ATTEMPTS
    assert (shown.last_rows or 0) + (shown.last_bytes or 0) > 0
    shore.window("copy", "UPDATE t SET s = 'after' WHERE id < 30")


def test_catalog_database_that_is_stopped_for_long_is_caught_up_with(
    far: FarShore, own_server: OwnServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(LAKE_DSN, own_server.dsn)
    far.trickle.create_stream_table("copy", COPY, sink="ducklake", ducklake_sink_path=str(far.path))
    own_server.stop()
    fail_often(far, "copy", 8)
    assert far.status()[:2] == ("FAILED_RETRYABLE", 8)
    severity, detail = health(far)
    assert (severity, "ST707" in detail) == ("WARNING", True)
    own_server.start()

    far.run(_DUE)
    far.trickle.daemon.tend_lake()

    assert health(far) == ("OK", "")
    with lake_client(own_server.dsn, "lake") as client:
        found = client.execute("SELECT * FROM copy ORDER BY ALL").fetchall()
    assert found == far.tell("SELECT * FROM copy ORDER BY 1, 2, 3")


def test_what_does_not_heal_is_given_up_and_critical_until_somebody_asks(shore: Shore):
    shore.create("sums", SUMS)
    with down(shore):
        fail_often(shore, "sums", 6)  # which count for nothing here
    shore.run("ALTER SCHEMA lake RENAME TO hidden")
    seen = []
    for number in range(5):
        shore.run(f"UPDATE t SET v = {100 + number} WHERE id = 1", _DUE)
        shore.trickle.refresh_stream_table("sums")
        seen.append(shore.status()[:2])

    assert seen == [
        ("FAILED_RETRYABLE", 7),
        ("FAILED_RETRYABLE", 8),
        ("FAILED_RETRYABLE", 9),
        ("FAILED_PERMANENT", 10),
        ("FAILED_PERMANENT", 10),
    ]
    severity, detail = health(shore)
    assert severity == "CRITICAL"
    assert "ST701" in detail
    assert "pgtrickle sink retry public.sums" in detail
    assert "pgtrickle sink retry public.sums" in doctor(shore.trickle).hint
    shore.run("ALTER SCHEMA hidden RENAME TO lake")

    shore.trickle.lake.retry_sink("sums")

    shore.check("sums")
    assert health(shore) == ("OK", "")


def test_directory_that_cannot_be_written_is_refused_when_the_sink_is_made(
    shore: Shore, tmp_path: Path
):
    file = tmp_path.with_name(f"{tmp_path.name}-file")
    file.write_text("no directory")

    with pytest.raises(LakeWriteError) as caught:
        shore.trickle.create_stream_table(
            "sums", SUMS, sink="ducklake", ducklake_sink_path=str(file / "lake")
        )

    assert "directory" in caught.value.hint
    with pytest.raises(StreamTableNotFoundError):
        shore.trickle.get_stream_table("sums")
    shore.trickle.create_stream_table("sums", SUMS)
    with down(shore), pytest.raises(LakeWriteError):
        shore.trickle.alter_stream_table("sums", sink="ducklake")
    assert shore.trickle.lake.ducklake_sink_status() == []
    shore.trickle.alter_stream_table("sums", sink="ducklake")
    shore.check("sums")


def test_new_copy_does_not_make_a_directory_in_the_place_of_one_that_is_away(shore: Shore):
    shore.create("sums", SUMS)
    with moved_away(shore):
        with pytest.raises(LakeWriteError):
            shore.trickle.create_stream_table("copy", COPY, sink="ducklake")
        assert not shore.path.exists()

    shore.create("copy", COPY)


def test_source_in_a_lake_that_is_away_suspends_nothing(shore: Shore):
    shore.ask("CREATE TABLE visits (id INT, page VARCHAR)")
    shore.ask("INSERT INTO visits SELECT i, 'p' || i FROM range(100) AS r (i)")
    shore.trickle.lake.attach_ducklake_table("visits", "visits")
    shore.trickle.create_stream_table("pages", "SELECT count(*) AS n FROM visits")
    shore.ask("INSERT INTO visits SELECT i, 'q' || i FROM range(100, 200) AS r (i)")
    with moved_away(shore):
        for _ in range(6):
            with pytest.raises(TrickleError) as caught:
                shore.trickle.daemon.refresh_unit(["pages"])
        severity, detail = health(shore, "lake")

    assert caught.value.code == "ST710"
    assert (severity, "public.visits" in detail) == ("WARNING", True)
    assert shore.trickle.get_stream_table("pages").status is Status.ACTIVE
    shore.trickle.refresh_stream_table("pages")
    assert shore.tell("TABLE pages") == [(200,)]
    assert health(shore, "lake") == ("OK", "")


@pytest.fixture
def ordinary(empty_database: str, duckdb_engine: DuckDbEngine, tmp_path: Path) -> Iterator[Shore]:
    """Open pgtrickle as a role with no more rights than it needs."""
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
        settings = load_settings(
            {}, dsn=dsn, ducklake_catalog_schema="lake", ducklake_sink_retry_seconds=0.0
        )
        with (
            psycopg.connect(dsn, autocommit=True) as connection,
            pgtrickle.connect(
                dsn, engine=Borrowed(duckdb_engine), settings=settings, init=True
            ) as trickle,
        ):
            create_catalog(connection, "lake", str(tmp_path))
            with lake_client(dsn, "lake") as client:
                yield Shore(trickle, connection, client, tmp_path)


def test_ordinary_role_is_told_of_an_outage_and_catches_up(ordinary: Shore):
    ordinary.create("copy", COPY)
    with moved_away(ordinary):
        for number in range(8):
            ordinary.run(f"UPDATE t SET s = 'x{number}' WHERE id < 10")
            ordinary.trickle.refresh_stream_table("copy")
            ordinary.trickle.daemon.tend_lake()
        assert ordinary.status()[0] == "FAILED_RETRYABLE"
        assert health(ordinary)[0] == "WARNING"
        assert not doctor(ordinary.trickle).ok

    ordinary.trickle.daemon.tend_lake()

    ordinary.check("copy")
    assert health(ordinary) == ("OK", "")
    assert doctor(ordinary.trickle).ok


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (LakeWriteError("full"), True),
        (LakeUnreachableError("away"), True),
        (ConnectionLostError("away"), True),
        (PrivilegeError("not granted"), True),
        (LakeCatalogError("not there"), False),
        (LakeSinkError("taken"), False),
        (LakePathError("elsewhere"), False),
        (LakeShapeError("does not fit"), False),
    ],
)
def test_kind_of_an_error_says_whether_it_heals(error: TrickleError, *, expected: bool):
    assert heals(error) is expected


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.ENOSPC, "Make room"),
        (errno.EACCES, "of the system write to the directory"),
        (errno.EROFS, "of the system write to the directory"),
        (errno.ENOENT, "mounted"),
        (errno.EIO, "disk or the network"),
    ],
)
def test_hint_says_what_is_wrong_with_the_storage(number: int, told: str):
    with pytest.raises(LakeWriteError) as caught, lake_errors():
        raise OSError(number, os.strerror(number))

    assert told in caught.value.hint
    assert heals(caught.value)


def test_rows_that_do_not_fit_are_no_outage():
    with pytest.raises(LakeShapeError) as caught, lake_errors():
        pa.array(["a"]).cast(pa.int64())

    assert not heals(caught.value)


def test_pauses_grow_up_to_a_limit():
    settings = load_settings({}, ducklake_sink_retry_seconds=2.0)

    assert [round(pause_seconds(settings, n) / 2**n + 0.5) for n in (1, 2, 3, 4, 5)] == [1] * 5
    assert all(150 <= pause_seconds(settings, n) <= 300 for n in (10, 100, 10**6))
    slow = load_settings({}, ducklake_sink_retry_seconds=3600.0)
    assert 1800 <= pause_seconds(slow, 9) <= 3600


def _failing(attempts: int, status: str = "FAILED_RETRYABLE") -> FailingSink:
    at = datetime(2026, 1, 1, 12, tzinfo=UTC)
    return FailingSink(
        QualifiedName("public", "copy"),
        QualifiedName("main", "copy"),
        DeliveryStatus(status),
        attempts,
        at,
        None if status != "FAILED_RETRYABLE" else at + timedelta(seconds=attempts),
        "ST702: could not write",
        "Make room.",
    )


def test_watch_tells_each_attempt_once_and_the_recovery():
    watch, there = SinkWatch(), [QualifiedName("public", "copy")]
    one, two, last = _failing(1), _failing(2), _failing(3, "FAILED_PERMANENT")
    for seen in (one, one, two, _failing(0, "PENDING"), _failing(2, "WRITING"), last, last):
        watch.compare([seen], there)
    assert watch.take() == [SinkNews(one), SinkNews(two), SinkNews(last)]

    watch.compare([], there)

    assert watch.take() == [SinkNews(last, recovered=True)]
    assert not watch.waits
    watch.compare([one], there)
    watch.take()
    watch.compare([], [])  # it was turned off
    assert watch.take() == []
