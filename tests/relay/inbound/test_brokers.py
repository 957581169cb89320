"""Each kind of broker: messages come once, a relay goes on where it was, and says what it lacks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis import Redis

from tests.fixtures.daemons import await_
from tests.labs.lab import Lab
from tests.relay.inbound.brokers import (
    Running,
    held,
    jetstream,
    numbered,
    pipe,
    redis,
    sqs,
    status,
)
from tests.relay.servers import free_port, redis_server


@contextmanager
def receiving(lab: Lab) -> Iterator[None]:
    """Run a relay in a thread."""
    stop = threading.Event()
    thread = threading.Thread(target=lambda: lab.trickle.inbound.run_inbound(stop=stop))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30)


@pytest.mark.parametrize("running", [redis, jetstream, sqs])
def test_messages_come_once(postgres_lab: Lab, tmp_path: Path, running: Running):
    come_once(postgres_lab, tmp_path, running)


def come_once(lab: Lab, folder: Path, running: Running) -> None:
    with running(folder) as broker:
        pipe(lab, broker, max_inflight=7)
        broker.send(numbered(*range(20), 3, 4))
        [found] = lab.trickle.inbound.run_inbound(once=True)
        assert (found.error, found.messages, found.duplicates) == (None, 20, 2)
        broker.send(numbered(19, 20, 21))
        lab.trickle.inbound.run_inbound(once=True)
        assert (held(lab), status(lab).duplicates) == (list(range(22)), 3)
        # Everything once more: the ids keep messages single.
        lab.trickle.inbound.resume_inbound("p", again=True)
        lab.trickle.inbound.run_inbound(once=True)
        assert (held(lab), status(lab).messages) == (list(range(22)), 22)
        lab.run("TRUNCATE mail")
        lab.trickle.inbound.run_inbound(once=True)
        assert held(lab) == []  # the place says that they were received


def test_a_new_pipeline_may_begin_with_what_comes(postgres_lab: Lab, tmp_path: Path):
    lab = postgres_lab
    with redis(tmp_path) as broker:
        pipe(lab, broker, start="latest")
        broker.send(numbered(1))
        lab.trickle.inbound.run_inbound(once=True)
        broker.send(numbered(2))
        lab.trickle.inbound.run_inbound(once=True)
        assert held(lab) == [2]


def test_what_redis_has_trimmed_is_not_skipped(postgres_lab: Lab, tmp_path: Path):
    lab = postgres_lab
    with redis(tmp_path) as broker:
        pipe(lab, broker)
        broker.send(numbered(1))
        lab.trickle.inbound.run_inbound(once=True)
        lab.run("UPDATE pgtrickle.pgt_inbound_places SET place = '9999999999999-0'")
        lab.trickle.inbound.run_inbound(once=True)
        assert (status(lab).state, status(lab).error_code) == ("lost", "ST846")
        lab.trickle.inbound.resume_inbound("p", again=True)
        lab.trickle.inbound.run_inbound(once=True)
        assert (held(lab), status(lab).error_code) == ([1], None)


def test_a_broker_may_be_away_and_a_pipeline_paused(postgres_lab: Lab, tmp_path: Path):
    lab, port = postgres_lab, free_port()
    with redis_server(tmp_path, port) as url:
        lab.trickle.inbox.create_inbox("mail", with_stats=False, with_dead_letter=False)
        given = {"url": url, "stream": "mail"}
        lab.trickle.inbound.create_inbound_pipeline("p", "mail", "redis", given, poll_ms=20)
        with Redis.from_url(url) as client:
            client.xadd("mail", {"id": "a", "value": '{"n": 1}'})
    with receiving(lab):
        await_(lambda: status(lab).error_code == "ST843")
        with redis_server(tmp_path, port):
            await_(lambda: held(lab) == [1])
            lab.trickle.inbound.pause_inbound("p")
            await_(lambda: status(lab).state == "paused")
            lab.trickle.inbound.resume_inbound("p")
            await_(lambda: status(lab).state == "receiving")


def test_a_full_inbox_is_not_filled(postgres_lab: Lab, tmp_path: Path):
    lab = postgres_lab
    with redis(tmp_path) as broker:
        pipe(lab, broker, max_pending=5, max_inflight=3)
        broker.send(numbered(*range(20)))
        lab.trickle.inbound.run_inbound(once=True)
        assert (len(held(lab)), status(lab).state) == (6, "stopped")
        lab.run("UPDATE mail SET processed_at = now()")
        lab.trickle.inbound.run_inbound(once=True)
        assert len(held(lab)) == 12


@pytest.mark.parametrize("running", [redis, jetstream])
def test_an_altered_inbox_loses_nothing(postgres_lab: Lab, tmp_path: Path, running: Running):
    lab = postgres_lab
    with running(tmp_path) as broker:
        pipe(lab, broker)
        broker.send(numbered(1))
        lab.trickle.inbound.run_inbound(once=True)
        lab.run("ALTER TABLE mail RENAME COLUMN error TO mistake")
        broker.send(numbered(2))
        lab.trickle.inbound.run_inbound(once=True)
        assert (status(lab).state, status(lab).error_code) == ("failed", "ST842")
        lab.run("ALTER TABLE mail RENAME COLUMN mistake TO error")
        lab.trickle.inbound.run_inbound(once=True)
        assert held(lab) == [1, 2]


def test_a_lease_that_ran_out_is_kept_while_nobody_else_wants_the_pipeline(
    postgres_lab: Lab, tmp_path: Path
):
    """On a slow machine a relay would lose it again and again, and receive nothing."""
    lab = postgres_lab
    with redis(tmp_path) as broker:
        pipe(lab, broker)
        broker.send(numbered(1, 2))
        # Whatever keeps the pipeline finds its lease run out.
        lab.run(
            "CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " NEW.held_until := now() - interval '1 hour'; RETURN NEW; END $$",
            "CREATE TRIGGER late BEFORE INSERT OR UPDATE ON pgtrickle.pgt_inbound_states"
            " FOR EACH ROW EXECUTE FUNCTION late()",
        )
        lab.trickle.inbound.run_inbound(once=True)
        lab.run("DROP TRIGGER late ON pgtrickle.pgt_inbound_states", "DROP FUNCTION late()")
        assert (held(lab), status(lab).error) == ([1, 2], None)
