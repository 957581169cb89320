"""Leading, standing by and taking over."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from pgtrickle.catalog.refreshes.leases import check_lease, claim_lease
from pgtrickle.catalog.scheduling.leader import claim_leadership, find_leader
from pgtrickle.errors import CatalogTooNewError, LeaseLostError
from pgtrickle.service.scheduling.leadership import Leadership
from tests.labs.lab import Lab

RIVAL = "elsewhere:1:rival"
LIVING = timedelta(seconds=11)  # what lasts twice a lease of ours was given by another clock


@pytest.fixture
def leadership(lab: Lab) -> Iterator[Leadership]:
    lab.run("CREATE TABLE t (a int)")
    lab.create("copy", "SELECT a FROM t")
    leadership = Leadership(lab.trickle._runtime)
    yield leadership
    leadership.give_up()


def test_first_to_ask_leads_and_goes_on_leading(lab: Lab, leadership: Leadership):
    leadership.ask()
    leadership.ask()

    assert leadership.leads
    assert find_leader(lab.connection) == lab.trickle._runtime.owner
    leadership.give_up()
    assert (leadership.leads, find_leader(lab.connection)) == (False, None)


def test_nobody_leads_beside_a_living_leader(lab: Lab, leadership: Leadership):
    number = lab.trickle.get_stream_table("copy").id
    claim_leadership(lab.connection, RIVAL, LIVING)
    lease = claim_lease(lab.connection, number, RIVAL, timedelta(hours=1))

    leadership.ask()

    assert not leadership.leads
    with lab.connection.transaction():
        check_lease(lab.connection, number, lease.token)


def test_status_names_who_leads_and_who_stands_by(lab: Lab, leadership: Leadership):
    claim_leadership(lab.connection, RIVAL, LIVING)
    leadership.ask()

    assert [(one.daemon, one.leads) for one in lab.trickle.status().daemons] == [
        (RIVAL, True),
        (lab.trickle._runtime.owner, False),
    ]
    leadership.give_up()
    assert [one.daemon for one in lab.trickle.status().daemons] == [RIVAL]


def test_daemons_that_were_killed_are_forgotten(lab: Lab, leadership: Leadership):
    claim_leadership(lab.connection, RIVAL, LIVING)
    lab.run(
        "UPDATE pgtrickle.pgt_leader SET expires_at = now() - '1s'::interval",
        "UPDATE pgtrickle.pgt_daemons SET seen_at = now() - '2h'::interval",
    )

    leadership.ask()

    assert lab.rows("SELECT daemon FROM pgtrickle.pgt_daemons") == [(lab.trickle._runtime.owner,)]


def test_who_takes_over_frees_what_the_dead_leader_held(lab: Lab, leadership: Leadership):
    number = lab.trickle.get_stream_table("copy").id
    claim_leadership(lab.connection, RIVAL, LIVING)
    lease = claim_lease(lab.connection, number, RIVAL, timedelta(hours=1))
    lab.run("UPDATE pgtrickle.pgt_leader SET expires_at = now() - '1s'::interval")

    leadership.ask()

    assert leadership.leads
    lab.run("INSERT INTO t VALUES (1)")
    lab.refresh("copy")
    with pytest.raises(LeaseLostError):
        check_lease(lab.connection, number, lease.token)


def test_catalog_of_another_version_ends_the_lead_and_frees_it(lab: Lab, leadership: Leadership):
    leadership.ask()
    lab.run("INSERT INTO pgtrickle.pgt_schema_version VALUES (9999, now(), 'later', 'x')")

    leadership.ask()

    lab.run("DELETE FROM pgtrickle.pgt_schema_version WHERE version = 9999")  # others follow here
    assert (leadership.leads, type(leadership.gap)) == (False, CatalogTooNewError)
    assert find_leader(lab.connection) is None


def test_lead_that_cannot_be_prolonged_ends_by_itself(lab: Lab, leadership: Leadership):
    leadership.ask()
    lab.run("UPDATE pgtrickle.pgt_leader SET owner = 'elsewhere:1:rival'")

    leadership.ask()

    assert not leadership.leads


def test_engine_is_started_while_the_lease_of_a_silent_leader_runs_out(
    lab: Lab, leadership: Leadership, monkeypatch: pytest.MonkeyPatch
):
    started = threading.Event()
    engine = lab.trickle._runtime.engine
    run = engine.run

    def noted(*given: Any) -> object:
        result = run(*given)
        started.set()
        return result

    monkeypatch.setattr(engine, "run", noted)
    claim_leadership(lab.connection, RIVAL, timedelta(seconds=6))

    leadership.ask()
    living = started.is_set()
    lab.run("UPDATE pgtrickle.pgt_leader SET expires_at = now() + '2s'::interval")
    leadership.ask()

    assert not living
    assert started.wait(60)
    assert not leadership.leads
