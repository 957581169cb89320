"""A migration is rehearsed: what it would do is told, and nothing of it is done."""

from __future__ import annotations

from itertools import product

import psycopg
import pytest

import pgtrickle
from pgtrickle.catalog.migrate import FILES, migrate
from pgtrickle.catalog.upgrades import rehearse as rehearsal
from pgtrickle.catalog.upgrades.rehearse import rehearse
from pgtrickle.model.upgrades.lock_modes import MODES, conflict
from tests.catalog.databases import Database
from tests.catalog.versions import LATER, NEXT, contents, describe, publish
from tests.fakes.engine import DuckDbEngine

HEADER = "-- Why: a\n-- Reads: b\n-- Locks: c\n\n"


def test_rehearsal_of_a_frozen_catalog_tells_what_migrate_then_does(
    frozen: str, owner: Database, monkeypatch: pytest.MonkeyPatch
):
    publish(monkeypatch, HEADER + LATER)
    before, look = contents(owner), describe(owner)

    with pgtrickle.connect(frozen, engine=DuckDbEngine()) as trickle:
        plan = trickle.migrate(dry_run=True)

        assert (contents(owner), describe(owner)) == (before, look)
        assert (plan.rehearsed, plan.package_version, plan.blockers) == (True, NEXT, ())
        applied = trickle.migrate()
        steps = [one.name for one in plan.steps]
        assert steps == [*applied[: len(steps) - 1], FILES]
        assert trickle.migrate(dry_run=True).steps == ()
    assert all(one.took_ms is not None and one.why and one.locks for one in plan.steps)
    assert plan.took_ms >= sum(one.took_ms or 0 for one in plan.steps)
    locks = {(one.relation, one.mode): one.step for one in plan.locks}
    assert ("pgtrickle.pgt_daemons", "AccessExclusiveLock") in locks
    # The header of that migration says so, too.
    if "0002 engine of a stream table" in steps:
        altered = locks["pgtrickle.pgt_stream_tables", "AccessExclusiveLock"]
        assert altered == "0002 engine of a stream table"


def test_rehearsal_that_is_killed_leaves_nothing(
    catalog: Database, database: str, monkeypatch: pytest.MonkeyPatch
):
    before = contents(catalog)
    kill = "SELECT pg_catalog.pg_terminate_backend(pg_catalog.pg_backend_pid());"
    publish(monkeypatch, f"{HEADER}{LATER} {kill}")

    with psycopg.connect(database) as doomed, pytest.raises(psycopg.OperationalError):
        rehearse(doomed)

    assert contents(catalog) == before


def test_rehearsal_names_who_holds_what_it_locks(
    catalog: Database, database: str, monkeypatch: pytest.MonkeyPatch
):
    publish(monkeypatch, HEADER + LATER)
    monkeypatch.setattr(rehearsal, "_PATIENCE_SECONDS", 0.0)
    with psycopg.connect(database, application_name="dozing") as other:
        other.execute("SELECT count(*) FROM pgtrickle.pgt_daemons")

        plan = rehearse(catalog)

        assert (plan.rehearsed, plan.steps[0].name) == (False, f"{NEXT:04d} later")
        assert plan.steps[0].took_ms is None
        [found] = [one for one in plan.blockers if one.relation == "pgtrickle.pgt_daemons"]
        assert (found.pid, found.application) == (other.info.backend_pid, "dozing")
    assert rehearse(catalog).rehearsed
    assert migrate(catalog) == [f"{NEXT:04d} later"]


def test_lock_modes_conflict_as_in_postgresql(catalog: Database, database: str):
    catalog.execute("CREATE TABLE locked ()")
    found = set()
    with psycopg.connect(database) as first, psycopg.connect(database) as second:
        for held, asked in product(MODES, MODES):
            lock = "LOCK TABLE locked IN {} MODE NOWAIT"
            first.execute(lock.format(_words(held)).encode())
            try:
                second.execute(lock.format(_words(asked)).encode())
            except psycopg.errors.LockNotAvailable:
                found.add((held, asked))
            first.rollback()
            second.rollback()

    assert found == {pair for pair in product(MODES, MODES) if conflict(*pair)}


def _words(mode: str) -> str:
    """Return a mode as LOCK TABLE writes it: AccessShareLock is ACCESS SHARE."""
    plain = mode.removesuffix("Lock")
    return "".join(f" {one}" if one.isupper() else one for one in plain).strip().upper()
