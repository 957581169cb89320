"""Consumer groups: every entry to one consumer at a time, at least once, in order."""

from __future__ import annotations

import threading
import time
from typing import Any

import psycopg
import pytest

from pgtrickle.errors import (
    ChangesGoneError,
    ConsumerGroupError,
    OffsetRefusedError,
    SettingError,
)
from pgtrickle.service.outboxes.prune import prune_old_entries
from tests.labs.lab import Lab


@pytest.fixture
def stream(postgres_lab: Lab) -> Lab:
    lab = postgres_lab
    lab.run("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 0), (2, 0)")
    lab.create("copy", "SELECT id, v FROM t")
    lab.trickle.outbox.enable_outbox("copy", retention_hours=0)
    return lab


def change(lab: Lab, times: int = 1) -> None:
    """Append so many entries."""
    for _ in range(times):
        lab.run("UPDATE t SET v = v + 1")
        lab.trickle.refresh_stream_table("copy")


def ids(found: list[Any]) -> list[int]:
    return [one.outbox_id for one in found]


def test_a_group_gets_each_entry_and_forgets_it_when_it_is_committed(stream: Lab) -> None:
    change(stream)
    outbox = stream.trickle.outbox
    outbox.create_consumer_group("late", "copy")
    outbox.create_consumer_group("early", "copy", "earliest")
    change(stream, 3)
    assert ids(outbox.poll_outbox("late", "a")) == [2, 3, 4]
    found = outbox.poll_outbox("early", "a", batch=2)
    assert ids(found) == [1, 2]
    assert found[0].changes is not None
    assert {one["op"] for one in found[0].changes} == {"update"}
    assert (found[0].inserted, found[0].updated, found[0].deleted) == (0, 2, 0)
    outbox.commit_offset("early", "a", 1)
    assert ids(outbox.poll_outbox("early", "a")) == [2, 3, 4]
    outbox.commit_offset("early", "a", 4)
    outbox.commit_offset("early", "a", 4)  # once more does no harm
    assert outbox.poll_outbox("early", "b") == []
    [early, late] = outbox.consumer_lag()
    assert (early.group_name, early.committed_id, early.lag_entries, early.leased_to) == (
        "early",
        4,
        0,
        None,
    )
    assert (late.lag_entries, late.lag_changes, late.leased_to, late.consumers) == (3, 6, "a", 1)
    assert late.lag_seconds > 0
    outbox.drop_consumer_group("late")
    assert not outbox.drop_consumer_group("late", if_exists=True)
    with pytest.raises(ConsumerGroupError):
        outbox.poll_outbox("late", "a")


def test_entries_are_with_one_consumer_until_its_lease_expires(stream: Lab) -> None:
    outbox = stream.trickle.outbox
    outbox.create_consumer_group("g", "copy")
    change(stream, 2)
    assert ids(outbox.poll_outbox("g", "dies", visibility_seconds=60)) == [1, 2]
    assert outbox.poll_outbox("g", "waits") == []
    outbox.consumer_heartbeat("g", "waits")
    assert outbox.extend_lease("g", "dies", 0.001) is not None
    time.sleep(0.01)
    assert ids(outbox.poll_outbox("g", "waits")) == [1, 2]
    with pytest.raises(OffsetRefusedError):
        outbox.commit_offset("g", "dies", 2)
    with pytest.raises(OffsetRefusedError):
        outbox.extend_lease("g", "dies")
    outbox.commit_offset("g", "waits", 1)
    for wrong in (0, 3):
        with pytest.raises(OffsetRefusedError):
            outbox.commit_offset("g", "waits", wrong)
    outbox.commit_offset("g", "waits", 2)


def test_a_group_can_go_back_and_forth_within_what_is_kept(stream: Lab) -> None:
    outbox = stream.trickle.outbox
    outbox.create_consumer_group("g", "copy")
    change(stream, 3)
    assert ids(outbox.poll_outbox("g", "a")) == [1, 2, 3]
    outbox.commit_offset("g", "a", 2)
    prune(stream)
    with pytest.raises(ChangesGoneError):
        outbox.seek_offset("g", 1)
    with pytest.raises(ChangesGoneError):
        outbox.seek_offset("g", 4)
    outbox.seek_offset("g", 3)
    assert outbox.poll_outbox("g", "a") == []
    outbox.seek_offset("g", 2)
    assert ids(outbox.poll_outbox("g", "a")) == [3]


def prune(lab: Lab, batch: int = 10_000) -> int:
    return prune_old_entries(lab.trickle._runtime, batch=batch)


def test_what_a_group_needs_is_kept_and_said(stream: Lab) -> None:
    outbox = stream.trickle.outbox
    outbox.create_consumer_group("slow", "copy")
    outbox.create_consumer_group("quick", "copy")
    change(stream, 3)
    outbox.poll_outbox("quick", "a")
    outbox.commit_offset("quick", "a", 3)
    prune(stream)
    [status] = outbox.outbox_status("copy")
    assert (status.entries, status.slowest_group, status.blocked_by) == (3, "slow", "slow")
    assert [
        one.detail for one in stream.trickle.health_check() if one.check_name == "outboxes"
    ] == ["public.copy is kept for the consumer group slow"]
    outbox.drop_consumer_group("slow")
    prune(stream)
    [status] = outbox.outbox_status("copy")
    assert (status.entries, status.first_id, status.blocked_by) == (0, 4, None)


def test_pruning_takes_small_steps_and_leaves_no_rows(stream: Lab) -> None:
    outbox = stream.trickle.outbox
    outbox.enable_outbox("copy", retention_hours=1, inline_threshold_rows=0)
    prune(stream)  # what other tests have left
    change(stream, 3)
    assert prune(stream) == 0
    assert stream.value("SELECT count(*) FROM pgtrickle.pgt_outbox_rows") == 6
    stream.run(
        "UPDATE pgtrickle.pgt_outbox_entries SET created_at = now() - interval '2 hours'"
        " WHERE outbox_id <> 2"
    )
    prune(stream, batch=1)
    assert ids(outbox.outbox_rows("copy")) == [2, 2, 3, 3]  # what follows a younger one stays
    assert stream.value("SELECT count(*) FROM pgtrickle.pgt_outbox_rows") == 4
    outbox.disable_outbox("copy")
    prune(stream, batch=2)
    stream.trickle.drop_stream_table("copy")
    prune(stream)
    for table in ("entries", "rows", "schemas", "pending", "config"):
        assert stream.value(f"SELECT count(*) FROM pgtrickle.pgt_outbox_{table}") == 0


def test_twenty_consumers_that_race_and_die_lose_nothing_and_keep_the_order(stream: Lab) -> None:
    lab, entries = stream, 40
    lab.trickle.outbox.create_consumer_group("g", "copy")
    change(lab, entries)
    order: list[int] = []
    failures: list[BaseException] = []
    done = threading.Event()

    def consume(number: int) -> None:
        try:
            with psycopg.connect(lab.trickle.dsn, autocommit=True) as connection:
                deaths = 1 + number % 2
                while not done.is_set():
                    found = connection.execute(
                        "SELECT outbox_id FROM pgtrickle.poll_outbox('g', %s, 3, 0.2)",
                        [f"c{number}"],
                    ).fetchall()
                    if not found:
                        time.sleep(0.01)
                        continue
                    if deaths:
                        deaths -= 1
                        continue  # as if it had died: it says nothing more of them
                    for (outbox_id,) in found:
                        connection.execute(
                            "SELECT pgtrickle.commit_offset('g', %s, %s)",
                            [f"c{number}", outbox_id],
                        )
                        order.append(outbox_id)
                        if outbox_id == entries:
                            done.set()
        except psycopg.errors.DatabaseError as error:
            if error.sqlstate != "ST804":
                failures.append(error)
                done.set()

    threads = [threading.Thread(target=consume, args=[number]) for number in range(20)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert not failures
    assert order == list(range(1, entries + 1))  # each is committed once, in order


def test_bad_arguments_are_refused_with_a_remedy(stream: Lab) -> None:
    outbox = stream.trickle.outbox
    outbox.create_consumer_group("g", "copy")
    with pytest.raises(ConsumerGroupError) as caught:
        outbox.create_consumer_group("g", "copy")
    assert caught.value.hint
    with pytest.raises(SettingError):
        outbox.create_consumer_group("h", "copy", "middle")
    for batch, seconds in ((0, 30.0), (20_000, 30.0), (1, 0.0), (1, 1e9)):
        with pytest.raises(SettingError):
            outbox.poll_outbox("g", "a", batch=batch, visibility_seconds=seconds)
    with pytest.raises(ConsumerGroupError):
        outbox.poll_outbox("g", "")


def test_a_rolled_back_poll_leaves_no_lease(stream: Lab) -> None:
    outbox = stream.trickle.outbox
    outbox.create_consumer_group("g", "copy")
    change(stream)
    stream.run("BEGIN")
    assert len(stream.rows("SELECT * FROM pgtrickle.poll_outbox('g', 'a')")) == 1
    assert outbox.poll_outbox("g", "b") == []  # nobody waits for the one who is served
    stream.run("ROLLBACK")
    assert ids(outbox.poll_outbox("g", "b")) == [1]
