"""What a relay delivers is the stream table: by file, by table of another database, by HTTP."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import psycopg
import pytest

from pgtrickle.errors import PipelineError, PipelineMissingError
from pgtrickle.relay.envelopes import Envelope, decode
from pgtrickle.relay.messages import Op
from tests.fixtures.daemons import await_
from tests.labs.lab import Lab
from tests.relay.receiver import Receiver
from tests.relay.shop import (
    QUERIES,
    deliver,
    open_shop,
    relaying,
    status,
    write,
    write_file,
)
from tests.seeds import seed_of

_SEED = seed_of("PGTRICKLE_RELAY_SEED", 822)


def deliver_to_file(lab: Lab, directory: Path) -> tuple[Path, Path]:
    """Let a pipeline of a file deliver the first rows; return that file, and that of the rows."""
    open_shop(lab, "keyed")
    lines = directory / "changes.jsonl"
    given = {"stream_table": "keyed", "sink": "file", "options": {"path": str(lines)}}
    file = write_file(directory / "relay.json", p=given)
    deliver(lab, file)
    return file, lines


@pytest.mark.parametrize("envelope", Envelope)
@pytest.mark.parametrize("name", QUERIES)
def test_a_file_holds_each_message_once(
    postgres_lab: Lab, tmp_path: Path, name: str, envelope: Envelope
):
    lab, draw = postgres_lab, random.Random(f"{_SEED} {name} {envelope}")
    open_shop(lab, name)
    lines = tmp_path / "changes.jsonl"
    file = write_file(
        tmp_path / "relay.json",
        p={
            "stream_table": name,
            "sink": "file",
            "options": {"path": str(lines), "sync": False},
            "envelope": envelope.value,
            "sink_max_inflight": 7,
        },
    )
    for number in range(4):
        deliver(lab, file)
        receiver = Receiver(envelope)
        receiver.take(lines.read_bytes().splitlines())
        receiver.check(lab, name)
        assert receiver.repeated == 0
        write(lab, draw, number)
        lab.trickle.refresh_stream_table(name, full=number == 2)
        with lines.open("ab") as torn:  # as a relay that is killed leaves it
            torn.write(b'{"version": 1, "id": "half of a li')
    found = status(lab)
    assert (found.state, found.error) == ("stopped", None)
    assert found.messages == len(lines.read_bytes().splitlines()) - 1


def test_rows_come_first_and_changes_follow(postgres_lab: Lab, tmp_path: Path):
    lab = postgres_lab
    file, lines = deliver_to_file(lab, tmp_path)
    lab.run("UPDATE t SET note = 'changed' WHERE id = 5", "DELETE FROM t WHERE id = 6")
    lab.refresh("keyed")
    deliver(lab, file)

    received = Receiver().take(lines.read_bytes().splitlines())

    rows = lab.value("SELECT count(*) FROM keyed") + 1
    ops = [one.op for one in received]
    assert ops == [Op.RESET, *[Op.READ] * rows, Op.DELETE, Op.UPDATE]
    assert received[-1].key == {"id": 5}
    assert (received[-1].after or {})["note"] == "changed"


@pytest.mark.parametrize(("start", "expected"), [("earliest", 2), ("latest", 0)])
def test_a_pipeline_may_begin_with_changes(
    postgres_lab: Lab, tmp_path: Path, start: str, expected: int
):
    lab = postgres_lab
    open_shop(lab, "keyed")
    for id_ in (5, 6):
        lab.run(f"UPDATE t SET note = 'changed' WHERE id = {id_}")
        lab.refresh("keyed")
    lines = tmp_path / "changes.jsonl"
    given = {
        "stream_table": "keyed",
        "sink": "file",
        "options": {"path": str(lines)},
        "start": start,
    }
    file = write_file(tmp_path / "relay.json", p=given)
    deliver(lab, file)
    assert len(lines.read_bytes().splitlines()) == expected
    lab.run("UPDATE t SET note = 'again' WHERE id = 5")
    lab.refresh("keyed")
    deliver(lab, file)
    last = decode(lines.read_bytes().splitlines()[-1], Envelope.PLAIN)
    assert len(lines.read_bytes().splitlines()) == expected + 1
    assert (last.op, last.key) == (Op.UPDATE, {"id": 5})


@pytest.mark.parametrize("name", QUERIES)
def test_a_table_of_another_database_is_kept_equal(
    postgres_lab: Lab, empty_database: str, name: str
):
    lab, draw = postgres_lab, random.Random(f"{_SEED} {name}")
    open_shop(lab, name)
    options = {"dsn": empty_database, "table": 'copies."a % b"'}
    with psycopg.connect(empty_database, autocommit=True) as there:
        there.execute("CREATE SCHEMA copies")
        there.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
        lab.trickle.relay.create_relay_pipeline("p", name, "postgres", options, sink_max_inflight=6)
        for number in range(5):
            deliver(lab)
            held = there.execute('SELECT t::text FROM copies."a % b" AS t').fetchall()
            shown = lab.rows(f"SELECT s::text FROM {name} AS s")
            assert Counter(held) == Counter(shown)
            assert status(lab).error is None
            write(lab, draw, number)
            lab.trickle.refresh_stream_table(name, full=number == 2)
            if number == 3:  # the server there was restored, or the record here was lost
                lab.run("UPDATE pgtrickle.pgt_relay_states SET outbox_id = 1, row_number = 0")


def test_a_pipeline_begins_again(postgres_lab: Lab, tmp_path: Path):
    lab = postgres_lab
    file, lines = deliver_to_file(lab, tmp_path)
    lab.run("UPDATE t SET note = 'changed' WHERE id = 5")
    lab.refresh("keyed")
    lab.trickle.relay.resume_relay("p", again=True)
    deliver(lab, file)

    receiver = Receiver()
    received = receiver.take(lines.read_bytes().splitlines())

    assert [one.op for one in received].count(Op.RESET) == 2
    receiver.check(lab, "keyed")


def test_other_columns_are_told_by_a_reset(postgres_lab: Lab, tmp_path: Path):
    lab = postgres_lab
    file, lines = deliver_to_file(lab, tmp_path)
    lab.trickle.alter_stream_table("keyed", query="SELECT id, v, note AS label FROM t")
    deliver(lab, file)

    receiver = Receiver()
    received = receiver.take(lines.read_bytes().splitlines())

    assert {one.schema_version for one in received} == {1, 2}
    receiver.check(lab, "keyed")


def test_changes_that_are_gone_stop_a_pipeline_until_it_begins_again(
    postgres_lab: Lab, tmp_path: Path
):
    lab = postgres_lab
    file, lines = deliver_to_file(lab, tmp_path)
    lab.trickle.outbox.disable_outbox("keyed")
    lab.run("UPDATE t SET note = 'unseen'")
    lab.refresh("keyed")
    lab.trickle.outbox.enable_outbox("keyed")
    lab.run("UPDATE t SET note = 'seen' WHERE id = 5")
    lab.refresh("keyed")
    deliver(lab, file)
    found = status(lab)
    assert (found.state, found.error_code) == ("needs_snapshot", "ST802")
    lab.trickle.relay.resume_relay("p", again=True)
    deliver(lab, file)

    receiver = Receiver()
    receiver.take(lines.read_bytes().splitlines())

    receiver.check(lab, "keyed")


def test_entries_are_kept_until_they_are_delivered(postgres_lab: Lab, tmp_path: Path):
    lab = postgres_lab
    file, _ = deliver_to_file(lab, tmp_path)
    lab.run("UPDATE t SET note = 'changed' WHERE id = 5")
    lab.refresh("keyed")
    offset = "SELECT committed_id FROM pgtrickle.pgt_consumer_offsets"
    before = lab.value(offset)
    deliver(lab, file)
    assert (before, lab.value(offset)) == (0, 1)
    lab.trickle.relay.drop_relay_pipeline("p")
    assert lab.rows(offset) == []


def test_one_relay_delivers_a_pipeline(postgres_lab: Lab, tmp_path: Path):
    lab = postgres_lab
    file, lines = deliver_to_file(lab, tmp_path)
    lab.run(
        "UPDATE pgtrickle.pgt_relay_states SET holder = 'another',"
        " held_until = clock_timestamp() + interval '1 hour'",
        "UPDATE t SET note = 'changed' WHERE id = 5",
    )
    lab.refresh("keyed")
    before = lines.read_bytes()
    deliver(lab, file)
    assert lines.read_bytes() == before
    assert status(lab).relay == "another"


def test_paused_pipelines_deliver_nothing(postgres_lab: Lab, tmp_path: Path):
    lab = postgres_lab
    file, lines = deliver_to_file(lab, tmp_path)
    lab.trickle.relay.pause_relay("p")
    lab.run("UPDATE t SET note = 'changed' WHERE id = 5")
    lab.refresh("keyed")
    before = lines.read_bytes()
    deliver(lab, file)
    assert (lines.read_bytes(), status(lab).state) == (before, "paused")
    lab.trickle.relay.resume_relay("p")
    deliver(lab, file)
    assert lines.read_bytes() != before


def test_pipelines_of_the_catalog_are_checked_when_they_are_made(postgres_lab: Lab):
    lab, relay = postgres_lab, postgres_lab.trickle.relay
    open_shop(lab, "keyed")
    with pytest.raises(PipelineError, match="unknown sink"):
        relay.create_relay_pipeline("p", "keyed", "carrier pigeon")
    relay.create_relay_pipeline("p", "keyed", "stdout")
    with pytest.raises(PipelineError, match="already exists"):
        relay.create_relay_pipeline("p", "keyed", "stdout")
    relay.create_relay_pipeline("p", "keyed", "stdout", envelope="debezium", or_replace=True)
    assert relay.validate_relay() == ["p"]
    assert relay.test_relay("p") == "at least once"
    assert (status(lab).state, status(lab).sink) == ("new", "stdout")
    assert relay.drop_relay_pipeline("p")
    assert not relay.drop_relay_pipeline("p", if_exists=True)
    for refused in (relay.drop_relay_pipeline, relay.pause_relay, relay.resume_relay):
        with pytest.raises(PipelineMissingError):
            refused("p")


def test_writers_of_immediate_stream_tables_are_followed(postgres_lab: Lab, tmp_path: Path):
    lab = postgres_lab
    lab.run("CREATE TABLE u (id int PRIMARY KEY, k int)", "INSERT INTO u VALUES (1, 1), (2, 2)")
    lab.create("counts", "SELECT k, count(*) AS n FROM u GROUP BY k", "IMMEDIATE")
    lab.trickle.outbox.enable_outbox("counts")
    lab.trickle.refresh_stream_table("counts")
    lab.run("INSERT INTO u VALUES (3, 1)")  # whose entry has no number yet
    lines = tmp_path / "changes.jsonl"
    given = {"stream_table": "counts", "sink": "file", "options": {"path": str(lines)}}
    file = write_file(tmp_path / "relay.json", p=given)
    for statement in ("UPDATE u SET k = 3", "DELETE FROM u WHERE id = 1"):
        deliver(lab, file)
        receiver = Receiver()
        receiver.take(lines.read_bytes().splitlines())
        receiver.check(lab, "counts")
        lab.run(statement)


def test_changed_definitions_are_followed(postgres_lab: Lab, tmp_path: Path):
    lab = postgres_lab
    open_shop(lab, "keyed")
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    given = {"stream_table": "keyed", "sink": "file", "poll_ms": 20}
    file = write_file(tmp_path / "relay.json", p={**given, "options": {"path": str(first)}})
    with relaying(lab, file):
        await_(lambda: first.exists() and b'"read"' in first.read_bytes())
        file.write_text("pipelines: {p: {sink: nonsense}}")  # which changes nothing
        lab.run("UPDATE t SET note = 'to the first' WHERE id = 5")
        lab.refresh("keyed")
        await_(lambda: b"to the first" in first.read_bytes())
        write_file(file, p={**given, "options": {"path": str(second)}})
        await_(second.exists)
        lab.run("UPDATE t SET note = 'to the second' WHERE id = 5")
        lab.refresh("keyed")
        await_(lambda: b"to the second" in second.read_bytes())
    assert b"to the second" not in first.read_bytes()
    assert len(second.read_bytes().splitlines()) == 1
