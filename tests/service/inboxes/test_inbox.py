"""An inbox takes each message once, and shows what waits, what has failed and how it goes."""

from __future__ import annotations

import psycopg
import pytest

from pgtrickle.errors import TrickleError
from pgtrickle.service.inboxes.prune import prune_inboxes
from tests.labs.lab import Lab

PARTS = ["public.mail_pending", "public.mail_dlq", "public.mail_stats"]


def refresh(lab: Lab, *parts: str) -> None:
    for part in parts or ("pending", "dlq", "stats"):
        lab.trickle.refresh_stream_table(f"mail_{part}")
        assert lab.trickle.verify_stream_table(f"mail_{part}").ok


def receive(lab: Lab, *ids: str, more: str = "") -> int:
    """Insert messages as a producer does; return how many are new."""
    values = ", ".join(f"('{one}')" for one in ids)
    statement = f"INSERT INTO mail (event_id) VALUES {values} ON CONFLICT DO NOTHING{more}"
    return lab.connection.execute(statement.encode()).rowcount


def failing(code: str) -> pytest.RaisesExc[TrickleError]:
    return pytest.raises(TrickleError, check=lambda error: error.code == code)


def test_a_message_comes_once_and_waits_until_it_is_dealt_with(postgres_lab: Lab):
    lab = postgres_lab
    assert lab.trickle.inbox.create_inbox("mail", max_retries=2) == PARTS

    assert [receive(lab, "a", "b"), receive(lab, "b", "c")] == [2, 1]
    refresh(lab)
    assert lab.rows("SELECT event_id FROM mail_pending") == [("a",), ("b",), ("c",)]
    lab.run(
        "UPDATE mail SET processed_at = now() WHERE event_id = 'a'",
        "UPDATE mail SET retry_count = retry_count + 2, error = 'no' WHERE event_id = 'b'",
    )
    refresh(lab)
    assert lab.rows("SELECT event_id FROM mail_pending") == [("c",)]
    assert lab.rows("SELECT event_id, error FROM mail_dlq") == [("b", "no")]
    shown = "SELECT messages, pending, dead_letters, processed, retries FROM mail_stats"
    assert lab.rows(shown) == [(3, 1, 1, 1, 2)]
    [status] = lab.trickle.inbox.inbox_status("mail")
    assert (status.messages, status.pending, status.dead_letters, status.processed) == (3, 1, 1, 1)

    assert lab.trickle.inbox.replay_inbox_messages("mail", ["a", "c"]) == 0
    assert lab.trickle.inbox.replay_inbox_messages("mail") == 1
    refresh(lab)
    assert lab.rows("SELECT event_id, error FROM mail_pending") == [("b", None), ("c", None)]


def test_the_next_of_each_aggregate_waits_for_the_one_before_it(postgres_lab: Lab):
    lab = postgres_lab
    lab.trickle.inbox.create_inbox("mail", with_stats=False, with_dead_letter=False)
    lab.run(
        "INSERT INTO mail (event_id, aggregate_id, sequence_num) VALUES"
        " ('x2', 'x', 2), ('x1', 'x', 1), ('x4', 'x', 4), ('y1', 'y', 1),"
        " ('free', NULL, 9), ('also', NULL, 9)"
    )
    assert lab.trickle.inbox.enable_inbox_ordering("mail") == "public.mail_next"
    following = "SELECT event_id FROM mail_next"
    assert lab.rows(following) == [("also",), ("free",), ("x1",), ("y1",)]
    lab.run("UPDATE mail SET processed_at = now() WHERE event_id IN ('x1', 'free')")
    refresh(lab, "next")
    assert lab.rows(following) == [("also",), ("x2",), ("y1",)]
    lab.run("UPDATE mail SET retry_count = 3 WHERE event_id = 'x2'")
    refresh(lab, "next")
    assert lab.rows(following) == [("also",), ("y1",)]  # a dead letter holds back its aggregate
    lab.trickle.inbox.enable_inbox_ordering("mail", skip_dead_letters=True)
    assert lab.rows(following) == [("also",), ("x4",), ("y1",)]

    [gap] = lab.trickle.inbox.inbox_ordering_gaps("mail")
    assert (gap.aggregate, int(gap.after_sequence), int(gap.missing)) == ("x", 2, 1)
    assert lab.trickle.inbox.disable_inbox_ordering("mail") is True
    assert lab.trickle.inbox.disable_inbox_ordering("mail") is False
    assert lab.value("SELECT to_regclass('mail_next')") is None


def test_urgent_messages_keep_their_order(postgres_lab: Lab):
    lab = postgres_lab
    lab.trickle.inbox.create_inbox("mail", with_stats=False)
    lab.run(
        "ALTER TABLE mail ADD COLUMN rank numeric",
        "INSERT INTO mail (event_id, aggregate_id, sequence_num, rank) VALUES"
        " ('x1', 'x', 1, 0), ('x2', 'x', 2, 9), ('y1', 'y', 1, 2.5), ('z', NULL, NULL, 2.4)",
    )
    made = lab.trickle.inbox.enable_inbox_priority("mail", "rank", 2.5)
    assert made == "public.mail_urgent"
    assert lab.rows("SELECT event_id, rank FROM mail_urgent ORDER BY 1") == [("x2", 9), ("y1", 2.5)]
    lab.trickle.inbox.enable_inbox_ordering("mail")
    assert lab.rows("SELECT event_id FROM mail_urgent") == [("y1",)]
    lab.trickle.inbox.disable_inbox_ordering("mail")
    assert lab.rows("SELECT event_id FROM mail_urgent") == [("x2",), ("y1",)]
    assert lab.trickle.get_stream_table("mail_urgent").schedule == "1s"
    assert lab.trickle.inbox.disable_inbox_priority("mail") is True
    assert lab.trickle.inbox.drop_inbox("mail")[-1] == "public.mail"


def test_what_was_dealt_with_long_ago_goes(postgres_lab: Lab):
    lab = postgres_lab
    lab.trickle.inbox.create_inbox("mail", retention_hours=1, with_stats=False)
    receive(lab, *(f"m{number}" for number in range(9)))
    lab.run(
        "UPDATE mail SET processed_at = now() - interval '2 hours' WHERE event_id < 'm5'",
        "UPDATE mail SET processed_at = now() WHERE event_id = 'm5'",
        "UPDATE mail SET received_at = now() - interval '1 year', retry_count = 9",
    )
    assert prune_inboxes(lab.trickle._runtime, batch=2) == 5
    assert lab.value("SELECT string_agg(event_id, ' ' ORDER BY event_id) FROM mail") == (
        "m5 m6 m7 m8"
    )


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        ("ALTER TABLE mail DROP COLUMN payload", "payload"),
        ("ALTER TABLE mail ALTER COLUMN error TYPE varchar(9)", "error"),
        ("ALTER TABLE mail DROP CONSTRAINT mail_pkey", "unique"),
        ("DROP TABLE mail", "gone"),
    ],
)
def test_a_table_that_was_altered_is_told_and_let_go(postgres_lab: Lab, harm: str, told: str):
    lab = postgres_lab
    lab.trickle.inbox.create_inbox("mail", with_stats=False, with_dead_letter=False)
    receive(lab, "a")
    lab.run(harm)

    [status] = lab.trickle.inbox.inbox_status("mail")
    assert told in (status.trouble or "")
    checks = {one.check: one.severity for one in lab.trickle.inbox.inbox_health("mail")}
    assert checks["table"] == "ERROR"
    with failing("ST842"):
        lab.trickle.inbox.replay_inbox_messages("mail")
    with failing("ST842"):
        lab.trickle.inbox.enable_inbox_ordering("mail")
    assert prune_inboxes(lab.trickle._runtime) == 0
    assert "public.mail_pending" in lab.trickle.inbox.drop_inbox("mail")
    assert lab.trickle.inbox.inbox_status() == []


def test_an_inbox_follows_its_table_to_another_name(postgres_lab: Lab):
    lab = postgres_lab
    lab.run("CREATE SCHEMA other")
    lab.trickle.inbox.create_inbox("mail", with_stats=False)
    receive(lab, "a")
    lab.run("ALTER TABLE mail RENAME TO letters", "ALTER TABLE letters SET SCHEMA other")
    [status] = lab.trickle.inbox.inbox_status("other.letters")
    assert (status.inbox, status.pending) == ("other.letters", 1)
    with failing("ST841"):
        lab.trickle.inbox.inbox_status("mail")
    lab.trickle.inbox.drop_inbox("other.letters")


def test_bad_input_leaves_nothing_behind(postgres_lab: Lab):
    lab = postgres_lab
    for code, given in {
        "ST840": {"max_retries": -1},
        "ST202": {"schema": "public"},
        "ST208": {"schema": "nowhere"},
    }.items():
        if code == "ST202":
            lab.run("CREATE TABLE mail_dlq ()")  # the second stream table cannot be created
        with failing(code):
            lab.trickle.inbox.create_inbox("mail", **given)  # type: ignore[arg-type]
        assert lab.value("SELECT to_regclass('mail')") is None
        assert lab.trickle.list_stream_tables() == []
    for name in ("x" * 55, "pgtrickle.mail"):
        with pytest.raises(TrickleError):
            lab.trickle.inbox.create_inbox(name)
    lab.run("DROP TABLE mail_dlq")
    lab.trickle.inbox.create_inbox("mail")
    with failing("ST202"):
        lab.trickle.inbox.create_inbox("mail")
    for column in ("nothing", "event_id"):
        with failing("ST840"):
            lab.trickle.inbox.enable_inbox_ordering("mail", sequence_column=column)
    with failing("ST840"):
        lab.trickle.inbox.enable_inbox_priority("mail", urgent_from=float("nan"))
    with failing("ST840"):
        lab.trickle.inbox.inbox_ordering_gaps("mail")
    assert lab.trickle.inbox.drop_inbox("nobody", if_exists=True) == []


def test_an_inbox_that_others_read_stays(postgres_lab: Lab):
    lab = postgres_lab
    lab.trickle.inbox.create_inbox("mail")
    lab.create("more", "SELECT event_id FROM mail_pending")
    with failing("ST207"):
        lab.trickle.inbox.drop_inbox("mail")
    lab.trickle.drop_stream_table("more")
    lab.run("CREATE VIEW v AS SELECT event_id FROM mail")
    with failing("ST207"):
        lab.trickle.inbox.drop_inbox("mail")
    assert lab.trickle.inbox.inbox_status("mail")[0].stream_tables == sorted(PARTS)


def test_partitions_are_the_same_in_sql_and_in_python(postgres_lab: Lab):
    lab = postgres_lab
    for text in ("", "a", "order 7", "größe", "日本", "x" * 300):
        own = [
            worker
            for worker in range(7)
            if lab.trickle.inbox.inbox_is_my_partition(text, worker, 7)
        ]
        found = lab.connection.execute(
            "SELECT array_agg(w) FROM generate_series(0, 6) AS w"
            " WHERE pgtrickle.inbox_is_my_partition(%s, w, 7)",
            [text],
        ).fetchall()
        assert found == [(own,)]
        assert len(own) == 1
    for worker, workers in ((2, 2), (-1, 3), (0, 0)):
        with failing("ST840"):
            lab.trickle.inbox.inbox_is_my_partition("a", worker, workers)
        with pytest.raises(psycopg.Error) as caught:
            lab.value(f"SELECT pgtrickle.inbox_is_my_partition('a', {worker}, {workers})")
        assert caught.value.sqlstate == "ST840"
