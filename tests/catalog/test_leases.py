"""One process at a time holds a lease, and a token of the past never fits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest

from pgtrickle.catalog.refreshes.leases import check_lease, claim_lease, release_lease, renew_lease
from pgtrickle.errors import LeaseHeldError, LeaseLostError
from pgtrickle.model.stream_table import StreamTable
from tests.catalog.databases import Database

MINUTE = timedelta(minutes=1)
MOMENT = timedelta(microseconds=1)


@pytest.fixture
def rival(database: str) -> Iterator[Database]:
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


def test_held_lease_names_owner_and_expiry(catalog: Database, stream_table: StreamTable):
    lease = claim_lease(catalog, stream_table.id, "worker-1", MINUTE)

    with pytest.raises(LeaseHeldError) as caught:
        claim_lease(catalog, stream_table.id, "worker-2", MINUTE)

    assert "worker-1" in str(caught.value)
    assert str(lease.expires_at) in str(caught.value)


def test_owner_excludes_itself_too(catalog: Database, stream_table: StreamTable):
    claim_lease(catalog, stream_table.id, "worker-1", MINUTE)

    with pytest.raises(LeaseHeldError):
        claim_lease(catalog, stream_table.id, "worker-1", MINUTE)


def test_released_lease_is_free_with_a_greater_token(catalog: Database, stream_table: StreamTable):
    first = claim_lease(catalog, stream_table.id, "worker-1", MINUTE)
    release_lease(catalog, stream_table.id, first.token)

    second = claim_lease(catalog, stream_table.id, "worker-2", MINUTE)

    assert second.token > first.token


def test_expired_lease_is_taken_over_and_fenced(catalog: Database, stream_table: StreamTable):
    first = claim_lease(catalog, stream_table.id, "worker-1", MOMENT)
    second = claim_lease(catalog, stream_table.id, "worker-2", MINUTE)

    with pytest.raises(LeaseLostError):
        check_lease(catalog, stream_table.id, first.token)
    with pytest.raises(LeaseLostError):
        renew_lease(catalog, stream_table.id, first.token, MINUTE)
    release_lease(catalog, stream_table.id, first.token)
    check_lease(catalog, stream_table.id, second.token)


def test_expired_lease_that_nobody_took_is_still_good(catalog: Database, stream_table: StreamTable):
    lease = claim_lease(catalog, stream_table.id, "worker-1", MOMENT)

    check_lease(catalog, stream_table.id, lease.token)
    renewed = renew_lease(catalog, stream_table.id, lease.token, MINUTE)

    assert renewed.token == lease.token
    assert renewed.expires_at > lease.expires_at


def test_checked_lease_cannot_be_taken_before_the_commit(
    catalog: Database, rival: Database, stream_table: StreamTable
):
    lease = claim_lease(catalog, stream_table.id, "worker-1", MOMENT)
    rival.execute("SET lock_timeout = '100ms'")

    with catalog.transaction():
        check_lease(catalog, stream_table.id, lease.token)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            claim_lease(rival, stream_table.id, "worker-2", MINUTE)

    assert claim_lease(rival, stream_table.id, "worker-2", MINUTE).token > lease.token


def test_claim_refuses_a_duration_of_nothing(catalog: Database, stream_table: StreamTable):
    with pytest.raises(ValueError, match="lasts longer"):
        claim_lease(catalog, stream_table.id, "worker-1", timedelta(0))


def test_lease_goes_to_one_of_many(catalog: Database, database: str, stream_table: StreamTable):
    claim_lease(catalog, stream_table.id, "dead", MOMENT)
    outcomes: list[str] = []
    ready = threading.Barrier(6)

    def claim(number: int) -> None:
        with psycopg.connect(database) as connection:
            connection.execute("SELECT 1")
            ready.wait()
            try:
                claim_lease(connection, stream_table.id, f"worker-{number}", MINUTE)
                outcomes.append("won")
            except LeaseHeldError:
                outcomes.append("held")

    threads = [threading.Thread(target=claim, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(outcomes) == ["held"] * 5 + ["won"]
