"""A dead letter that is replayed comes late, and moves no receiver's place back."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from redis import Redis

from tests.labs.lab import Lab
from tests.relay.receiver import Receiver
from tests.relay.servers import free_port, nats_server, redis_server
from tests.relay.shop import deliver, open_shop, status, write
from tests.relay.test_nats import make_stream
from tests.relay.test_nats import read as read_stream

Read = Callable[[], list[bytes]]
Opened = AbstractContextManager[tuple[str, dict[str, Any], Read]]


@contextmanager
def a_file(folder: Path) -> Iterator[tuple[str, dict[str, Any], Read]]:
    lines = folder / "changes.jsonl"
    yield "file", {"path": str(lines)}, lambda: lines.read_bytes().splitlines()


@contextmanager
def a_stream_of_redis(folder: Path) -> Iterator[tuple[str, dict[str, Any], Read]]:
    with redis_server(folder, free_port()) as url, Redis.from_url(url) as client:

        def read() -> list[bytes]:
            found: Any = client.xrange("changes") + client.xrange("changes:replayed")
            return [fields[b"value"] for _, fields in found]

        yield "redis", {"url": url, "stream": "changes"}, read


@contextmanager
def a_stream_of_nats(folder: Path) -> Iterator[tuple[str, dict[str, Any], Read]]:
    with nats_server(folder, free_port()) as url:
        make_stream(url)
        yield "nats", {"url": url, "subject": "changes.t"}, lambda: read_stream(url)


# As a refused message is left, with those of its key, when somebody wants it again.
_LETTER = """
    INSERT INTO pgtrickle.pgt_relay_dead_letters
        (pipeline, pgt_id, outbox_id, in_contents, row_number, op, key, after, schema_version,
         error_code, error, replay_at)
    SELECT 'p', s.pgt_id, 1, false, 990, 'insert', '{"id": 77777}', '{"id": 77777, "v": 2.0}', 1,
           'ST824', 'it was refused', now()
      FROM pgtrickle.pgt_stream_tables AS s WHERE s.pgt_name = 'keyed'
"""


@pytest.mark.parametrize("receiver", [a_file, a_stream_of_redis, a_stream_of_nats])
def test_the_place_stays_where_it_was(
    postgres_lab: Lab,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    receiver: Callable[[Path], Opened],
):
    lab, draw = postgres_lab, random.Random(f"replay {receiver.__name__}")
    monkeypatch.setenv("PGTRICKLE_RELAY_FILES", str(tmp_path))
    open_shop(lab, "keyed")
    with receiver(tmp_path) as (sink, options, read):
        lab.trickle.relay.create_relay_pipeline("p", "keyed", sink, options, sink_max_inflight=6)
        for number in range(4):
            write(lab, draw, number)
            lab.trickle.refresh_stream_table("keyed")
            deliver(lab)
            # A relay that dies after a replay leaves a receiver that alone knows the place.
            lab.run(_LETTER)
            deliver(lab)
            lab.run("UPDATE pgtrickle.pgt_relay_states SET outbox_id = NULL, sent_outbox_id = NULL")
            deliver(lab)
            assert status(lab).error is None
            told = Receiver()
            told.take(read())
            assert told.repeated == 0
            assert len(told.late) == number + 1
            told.check(lab, "keyed")
        assert status(lab).dead_letters == 0


def test_a_table_gets_no_change_again_after_a_replay(postgres_lab: Lab, empty_database: str):
    lab, draw = postgres_lab, random.Random("replay postgres")
    with psycopg.connect(empty_database, autocommit=True) as there:
        there.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
        open_shop(lab, "keyed")
        options = {"dsn": empty_database, "table": "public.copy"}
        lab.trickle.relay.create_relay_pipeline(
            "p", "keyed", "postgres", options, on_poison="dead_letter_key", max_failures=1
        )
        deliver(lab)
        there.execute("ALTER TABLE public.copy ADD CONSTRAINT few CHECK (v < 1000)")
        lab.run("UPDATE t SET v = 5000 WHERE id = 9")
        lab.trickle.refresh_stream_table("keyed")
        deliver(lab)
        for number in range(3):
            write(lab, draw, number)
            lab.trickle.refresh_stream_table("keyed")
            deliver(lab)
        assert status(lab).dead_letters > 0
        [place] = there.execute("SELECT p FROM public.pgtrickle_relay_places AS p").fetchall()
        there.execute("ALTER TABLE public.copy DROP CONSTRAINT few")
        lab.trickle.relay.replay_dead_letters("p")
        deliver(lab)
        assert status(lab).dead_letters == 0
        assert there.execute("SELECT p FROM public.pgtrickle_relay_places AS p").fetchall() == [
            place
        ]
        lab.run("UPDATE pgtrickle.pgt_relay_states SET outbox_id = NULL, sent_outbox_id = NULL")
        deliver(lab)
        held = there.execute("SELECT t::text FROM public.copy AS t ORDER BY 1").fetchall()
        assert held == sorted(lab.rows("SELECT s::text FROM keyed AS s"))


def test_dead_letters_have_a_bound_and_are_replayed_while_it_is_reached(
    postgres_lab: Lab, empty_database: str, monkeypatch: pytest.MonkeyPatch
):
    lab = postgres_lab
    monkeypatch.setattr("pgtrickle.relay.dead_letters.MAX_DEAD_LETTERS", 2)
    with psycopg.connect(empty_database, autocommit=True) as there:
        there.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
        open_shop(lab, "keyed")
        options = {"dsn": empty_database, "table": "public.copy"}
        lab.trickle.relay.create_relay_pipeline(
            "p", "keyed", "postgres", options, on_poison="dead_letter", max_failures=1
        )
        deliver(lab)
        there.execute("ALTER TABLE public.copy ADD CONSTRAINT few CHECK (v < 1000)")
        lab.run("UPDATE t SET v = 5000 WHERE id IN (9, 10, 11)")
        lab.trickle.refresh_stream_table("keyed")
        deliver(lab)
        assert (status(lab).state, status(lab).error_code) == ("blocked", "ST828")
        assert status(lab).dead_letters == 2
        there.execute("ALTER TABLE public.copy DROP CONSTRAINT few")
        lab.trickle.relay.replay_dead_letters("p")
        deliver(lab)
        assert (status(lab).error_code, status(lab).dead_letters) == (None, 0)
        held = there.execute("SELECT t::text FROM public.copy AS t ORDER BY 1").fetchall()
        assert held == sorted(lab.rows("SELECT s::text FROM keyed AS s"))


def test_a_lease_that_ran_out_is_kept_while_nobody_else_wants_the_pipeline(
    postgres_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """On a slow machine a relay would lose it again and again, and deliver nothing."""
    lab, lines = postgres_lab, tmp_path / "changes.jsonl"
    monkeypatch.setenv("PGTRICKLE_RELAY_FILES", str(tmp_path))
    open_shop(lab, "keyed")
    options = {"path": str(lines)}
    lab.trickle.relay.create_relay_pipeline("p", "keyed", "file", options, sink_max_inflight=2)
    # Whatever keeps the pipeline finds its lease run out.
    lab.run(
        "CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " NEW.held_until := now() - interval '1 hour'; RETURN NEW; END $$",
        "CREATE TRIGGER late BEFORE INSERT OR UPDATE ON pgtrickle.pgt_relay_states"
        " FOR EACH ROW EXECUTE FUNCTION late()",
    )
    deliver(lab)
    lab.run("DROP TRIGGER late ON pgtrickle.pgt_relay_states", "DROP FUNCTION late()")
    assert status(lab).error is None
    receiver = Receiver()
    receiver.take(lines.read_bytes().splitlines())
    receiver.check(lab, "keyed")
