"""Databases that were cloned or restored, standbys, set-back clocks and transaction ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import pgtrickle
from pgtrickle.catalog.refreshes.leases import renew_lease
from pgtrickle.errors import Retry, StandbyError, StatusForbidsError
from pgtrickle.model.definitions.dump import WrittenDump
from pgtrickle.service.lifecycle.definitions.yaml_text import parse_yaml
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.engines import Borrowed
from tests.fixtures.restartable import OwnServer
from tests.labs.lab import Lab, Row

T = ("CREATE TABLE t (id int PRIMARY KEY, k int)", "INSERT INTO t VALUES (1, 1), (2, 1)")
COUNTS = "SELECT k, count(*) AS n FROM t GROUP BY k"
PAIRS = "SELECT a.k FROM t AS a JOIN t AS b ON b.k > a.k ORDER BY 1 LIMIT 3"
BEST = "SELECT max(n) AS n FROM counts"
RESTORED = "the database was restored or cloned elsewhere"

Open = Callable[[str], Lab]


@pytest.fixture
def open_lab(duckdb_engine: DuckDbEngine) -> Iterator[Open]:
    """Connect to a database; later ones are taken for copies of the first."""
    opened: list[Lab] = []

    def connect(dsn: str) -> Lab:
        trickle = pgtrickle.connect(dsn, engine=Borrowed(duckdb_engine), init=True)
        opened.append(Lab(trickle, psycopg.connect(dsn, autocommit=True)))
        opened[-1].queries = dict(opened[0].queries)
        return opened[-1]

    yield connect
    for lab in opened:
        close(lab)


def close(lab: Lab) -> None:
    lab.trickle.close()
    lab.connection.close()


@pytest.fixture
def original(own_server: OwnServer, open_lab: Open) -> Lab:
    """Make stream tables one above the other, with changes that wait in the buffers."""
    lab = open_lab(own_server.dsn)
    lab.run(*T)
    lab.create("counts", COUNTS)
    lab.create("best", BEST)
    lab.window("INSERT INTO t VALUES (3, 1)")
    lab.run("INSERT INTO t VALUES (4, 4)")
    return lab


def goes_on(lab: Lab) -> None:
    """Follow further changes."""
    lab.window("INSERT INTO t SELECT max(id) + 1, 1 FROM t", "UPDATE t SET k = 1 WHERE k = 4")
    lab.window(action="NO_DATA")


def test_restored_stream_table_is_altered_before_its_first_refresh(
    own_server: OwnServer, original: Lab, open_lab: Open
):
    dump = own_server.directory / "dump.sql"
    own_server.run("pg_dump", "-d", own_server.dsn, "-f", str(dump))
    original.run("CREATE DATABASE altered TEMPLATE template0")
    dsn = make_conninfo(own_server.dsn, dbname="altered")
    own_server.run("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", dsn, "-f", str(dump))
    copy = open_lab(dsn)
    assert defined(copy) == ["public.counts", "public.best"]
    copy.queries["counts"] = "SELECT k, count(*) + 1 AS n FROM t GROUP BY k"

    copy.trickle.alter_stream_table("counts", query=copy.queries["counts"])

    copy.check("counts")
    assert copy.value(
        "SELECT pgt_relid = 'counts'::regclass FROM pgtrickle.pgt_stream_tables"
        " WHERE pgt_name = 'counts'"
    )
    assert defined(copy) == ["public.counts", "public.best"]
    copy.refresh("best", "REINITIALIZE")
    goes_on(copy)


def defined(lab: Lab) -> list[str]:
    """Return the stream tables in the order in which a dump makes them."""
    text = lab.trickle.definitions.dump_definitions(format="yaml")
    assert isinstance(text, str)
    document: Any = parse_yaml(text)
    return [item["name"] for item in document["items"]]


def snapshots_came_along(copy: Lab, saved: list[Row]) -> None:
    """Restore from a snapshot of the original; it is still no table to write to."""
    [listed] = copy.trickle.snapshots.list_snapshots()
    assert (str(listed.table), listed.gap) == ("public.saved", RESTORED)
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
        copy.run("DELETE FROM saved")
    copy.trickle.snapshots.restore_from_snapshot("counts", "saved")
    assert copy.rows("TABLE counts") == copy.rows("TABLE saved") == saved


def test_cloned_database_starts_anew_and_the_original_goes_on(
    own_server: OwnServer, original: Lab, open_lab: Open
):
    close(original)
    with psycopg.connect(make_conninfo(own_server.dsn, dbname="template1"), autocommit=True) as one:
        one.execute("CREATE DATABASE clone TEMPLATE postgres")
    clone = open_lab(make_conninfo(own_server.dsn, dbname="clone"))
    clone.run("INSERT INTO t VALUES (5, 5)")
    with pytest.raises(StatusForbidsError):  # "best" would not find it
        clone.trickle.rename_stream_table("counts", "numbers")

    assert clone.refresh("counts", "REINITIALIZE").reason == RESTORED
    assert clone.refresh("best", "REINITIALIZE").reason == RESTORED
    assert clone.trickle.rename_stream_table("counts", "numbers").followed == ("public.best",)
    clone.queries = {"numbers": COUNTS, "best": "SELECT max(n) AS n FROM numbers"}
    goes_on(clone)
    again = open_lab(own_server.dsn)
    again.refresh("counts")
    again.refresh("best")


@pytest.mark.parametrize("durability", ["logged", "unlogged"])
def test_dumped_and_restored_database_starts_anew(
    own_server: OwnServer, original: Lab, open_lab: Open, durability: str
):
    original.trickle.capture.set_buffer_durability(durability)
    original.create("now", PAIRS, "IMMEDIATE")
    del original.queries["now"]
    original.trickle.snapshots.snapshot_stream_table("counts", "saved")
    saved = original.rows("TABLE saved")
    definitions = own_server.directory / "definitions.yaml"
    original.trickle.definitions.dump_definitions(definitions)
    # Other oids: the restored tables get those of the copy.
    dump = own_server.directory / "dump.sql"
    own_server.run("pg_dump", "-d", own_server.dsn, "-f", str(dump))
    original.run("CREATE DATABASE restored TEMPLATE template0")
    dsn = make_conninfo(own_server.dsn, dbname="restored")
    own_server.run("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", dsn, "-f", str(dump))
    with psycopg.connect(dsn, autocommit=True) as writer:
        # Before pgtrickle has ever looked at it, with triggers of another database.
        writer.execute("INSERT INTO t VALUES (5, 5)")
        writer.execute("UPDATE t SET k = 6 WHERE id = 1")
        writer.execute("DELETE FROM t WHERE id = 2")

    copy = open_lab(dsn)
    there = copy.trickle.definitions.restore_definitions(definitions)
    assert {one.status for one in there} == {"unchanged"}
    with_rows = copy.trickle.definitions.dump_definitions(
        own_server.directory / "rows", format="yaml", with_data=True
    )
    assert isinstance(with_rows, WrittenDump)
    assert with_rows.rows == len(saved) + 1  # the rows of "now" follow from the sources
    snapshots_came_along(copy, saved)
    assert copy.refresh("counts", "REINITIALIZE").reason == RESTORED
    copy.run("INSERT INTO t VALUES (7, 7)")
    copy.refresh("best", "REINITIALIZE")
    copy.refresh("counts")
    copy.refresh("best")
    goes_on(copy)
    copy.queries["now"] = PAIRS
    copy.refresh("now", "REINITIALIZE")
    copy.run("UPDATE t SET k = k + 1")
    copy.check("now")
    copy.trickle.drop_stream_table("now")
    assert [one.alert for one in copy.trickle.capture.check_cdc_health()] == [None, None]
    copy.trickle.drop_stream_table("counts", cascade=True)
    copy.run("DROP TABLE saved")
    assert copy.leftovers() == []


def test_standby_is_looked_at_and_goes_on_when_it_is_promoted(
    own_server: OwnServer, original: Lab, open_lab: Open, duckdb_engine: DuckDbEngine
):
    with own_server.copy() as standby:
        standby.start()
        with pgtrickle.connect(standby.dsn, engine=Borrowed(duckdb_engine)) as trickle:
            with pytest.raises(StandbyError) as caught:
                trickle.init()
            assert (caught.value.code, caught.value.retry) == ("ST504", Retry.BACKOFF)
            assert "target_session_attrs" in caught.value.hint
            with pytest.raises(StandbyError):
                trickle.refresh_stream_table("counts")
            assert [one.name.name for one in trickle.list_stream_tables()] == ["best", "counts"]
            assert trickle.refresh_history("counts")
            assert {one.name: one.ok for one in trickle.doctor()}["writable"] is False
        standby.run("pg_ctl", "-D", str(standby.data), "-w", "promote")

        promoted = open_lab(standby.dsn)
        promoted.run("INSERT INTO t VALUES (5, 5)")
        promoted.refresh("counts")
        promoted.refresh("best")
        goes_on(promoted)


def test_promoted_standby_has_empty_unlogged_buffers_and_starts_anew(
    own_server: OwnServer, original: Lab, open_lab: Open
):
    original.trickle.capture.set_buffer_durability("unlogged")
    with own_server.copy() as standby:
        standby.start()
        standby.run("pg_ctl", "-D", str(standby.data), "-w", "promote")

        promoted = open_lab(standby.dsn)
        promoted.refresh("counts", "REINITIALIZE")
        promoted.refresh("best", "REINITIALIZE")
        goes_on(promoted)


def test_server_that_becomes_a_standby_is_refused_until_it_is_promoted(
    own_server: OwnServer, original: Lab
):
    own_server.stop("fast")
    (own_server.data / "standby.signal").touch()
    own_server.start()
    with pytest.raises((StandbyError, pgtrickle.TrickleError)):
        original.trickle.refresh_stream_table("counts")  # may meet a dead connection first
    with pytest.raises(StandbyError):
        original.trickle.refresh_stream_table("counts")

    own_server.run("pg_ctl", "-D", str(own_server.data), "-w", "promote")
    original.connection.close()
    original.connection = psycopg.connect(own_server.dsn, autocommit=True)
    original.refresh("counts")


def set_epoch(server: OwnServer, epoch: int) -> None:
    server.stop("fast")
    server.run("pg_resetwal", "-f", "-D", str(server.data), "-e", str(epoch))
    server.start()


def test_transaction_ids_pass_an_epoch_and_are_set_back(
    own_server: OwnServer, original: Lab, open_lab: Open
):
    close(original)
    set_epoch(own_server, 1)
    later = open_lab(own_server.dsn)
    assert later.value("SELECT pg_current_xact_id()::text::int8 >> 32") == 1
    later.refresh("counts")
    later.refresh("best")
    goes_on(later)
    later.run("INSERT INTO t VALUES (50, 5)")  # waits in a buffer, with an id of the future
    close(later)

    set_epoch(own_server, 0)
    back = open_lab(own_server.dsn)
    report = back.refresh("counts", "REINITIALIZE")
    assert report.reason == "the server's transaction ids moved back"
    back.refresh("best", "REINITIALIZE")
    goes_on(back)


def test_lease_from_before_the_clock_was_set_back_is_free(lab: Lab):
    lab.run(*T)
    lab.create("counts", COUNTS)
    lab.run(
        "INSERT INTO pgtrickle.pgt_leases (pgt_id, owner, acquired_at, expires_at)"
        " SELECT pgt_id, 'gone', now() + interval '1h', now() + interval '61min'"
        " FROM pgtrickle.pgt_stream_tables"
    )

    lab.window("INSERT INTO t VALUES (3, 3)")


def test_lease_is_renewed_after_the_clock_was_set_back(lab: Lab):
    lab.run(*T)
    lab.create("counts", COUNTS)

    def set_back() -> None:
        lab.run(
            "UPDATE pgtrickle.pgt_leases SET acquired_at = now() + interval '5 s',"
            " expires_at = now() + interval '35 s'"
        )
        [(number, token)] = lab.rows("SELECT pgt_id, token FROM pgtrickle.pgt_leases")
        renewed = renew_lease(lab.connection, number, token, timedelta(seconds=2))
        assert renewed.expires_at < datetime.now(UTC) + timedelta(seconds=4)

    lab.run("INSERT INTO t VALUES (3, 3)")
    lab.before_next_stage(set_back)
    lab.refresh("counts")
