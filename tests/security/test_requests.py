"""Attacks on the queue of requests: nobody stops the server or keeps the owner waiting."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.labs.lab import Lab
from tests.security.bench import REVENUE, Bench
from tests.security.serving import ended, refused, serving, stocked, submit, until

DEEP = '{"name": ' + "[" * 5000 + "]" * 5000 + "}"
MANY_DIGITS = '{"name": "t", "fuse_ceiling": ' + "9" * 5000 + "}"
EXPONENT = '{"name": "shop.revenue", "fuse_sensitivity": 1e400}'
QUOTES = json.dumps({"name": '"' * 500_000})
UNKNOWN = json.dumps({"x" * 500_000: 1})
LONG_LIST = json.dumps({"names": ["t"] * 20_000})
POISON = {
    "deep": ("drop_stream_table", DEEP, "ST605"),
    "digits": ("alter_stream_table", MANY_DIGITS, "ST605"),
    "exponent": ("alter_stream_table", EXPONENT, "ST605"),
    "quotes": ("refresh_stream_table", QUOTES, "ST605"),
    "unknown": ("refresh_stream_table", UNKNOWN, "ST605"),
    "list": ("pause_scheduler", LONG_LIST, "ST605"),
    "verb": ("no\nsuch verb", "{}", "ST605"),
}


@pytest.mark.parametrize("poison", POISON)
def test_poison_fails_by_itself_and_the_next_is_served(bench: Bench, poison: str):
    verb, arguments, code = POISON[poison]
    with stocked(bench, "attacker") as lab, serving(lab):
        began = time.monotonic()
        bad = submit(bench.open("attacker"), verb, arguments)
        good = submit(bench.open("owner"), "refresh_stream_table", '{"name": "shop.revenue"}')

        until(lambda: ended(lab, bad) and ended(lab, good))

    assert ended_with(bench, bad) == ("FAILED", code)
    assert ended_with(bench, good) == ("COMPLETED", None)
    assert time.monotonic() - began < 10


def ended_with(bench: Bench, request: int) -> tuple[Any, ...]:
    connection = bench.open("owner")
    query = "SELECT status, error ->> 'code' FROM pgtrickle.pgt_requests WHERE request_id = %s"
    [row] = connection.execute(query, [request]).fetchall()
    return row


def test_claim_that_raises_stops_nothing(bench: Bench):
    """What nobody foresaw, at the worst place: the row as it is claimed."""
    with stocked(bench, "attacker") as lab, serving(lab):
        lab.run(
            "CREATE FUNCTION shop.explode() RETURNS trigger LANGUAGE plpgsql AS"
            " 'BEGIN IF NEW.verb = ''bomb'' AND NEW.status <> ''FAILED'' THEN"
            " RAISE EXCEPTION ''boom''; END IF; RETURN NEW; END'",
            "CREATE TRIGGER explode BEFORE UPDATE ON pgtrickle.pgt_requests"
            " FOR EACH ROW EXECUTE FUNCTION shop.explode()",
        )
        submit(bench.open("attacker"), "bomb")

        time.sleep(1)
        served = lab.value("SELECT pgtrickle.is_served()")
        lab.run("DROP TRIGGER explode ON pgtrickle.pgt_requests")
        good = submit(bench.open("owner"), "refresh_stream_table", '{"name": "shop.revenue"}')
        until(lambda: ended(lab, good))

        assert served
        assert ended(lab, good) == ("COMPLETED", None)


def test_sizes_are_checked_where_rows_are_written(bench: Bench):
    with stocked(bench, "attacker"):
        attacker = bench.open("attacker")
        insert = "INSERT INTO pgtrickle.pgt_requests (verb, arguments) VALUES "

        assert refused(attacker, insert + "(repeat('x', 1000), '{}')") == "23514"
        assert refused(attacker, insert + "('x', to_jsonb(repeat('x', 2000000)))") == "23514"
        big = "('x', jsonb_build_object('name', repeat('x', 2000000)))"
        assert refused(attacker, insert + big) == "23514"
        keys = "(SELECT jsonb_object_agg(n, 1) FROM generate_series(1, 1000) AS n)"
        assert refused(attacker, insert + f"('x', {keys})") == "23514"


def test_name_of_a_million_quotes_is_answered_at_once_in_sql(bench: Bench):
    with stocked(bench, "attacker"):
        attacker = bench.open("attacker")
        attacker.execute("SET statement_timeout = '5s'")

        for call in ("get_staleness(%s)", "find_stream_table(%s)", "list_sources(%s)"):
            quotes = "repeat('\"', 5000000)"
            assert refused(attacker, f"SELECT pgtrickle.{call % quotes}") == "ST208"
        long = "SELECT pgtrickle.parse_duration_seconds(repeat('9', 5000000) || 's')"
        assert attacker.execute(long.encode()).fetchone() == (None,)


def test_role_has_no_more_than_its_quota_waiting(bench: Bench):
    with stocked(bench, "attacker", "writer") as lab:
        attacker = bench.open("attacker")
        flood = (
            "INSERT INTO pgtrickle.pgt_requests (verb, arguments)"
            " SELECT 'validate_query', '{}' FROM generate_series(1, 20000)"
        )

        assert refused(attacker, flood) == "ST606"
        for _ in range(100):
            submit(attacker, "validate_query")
        assert refused(attacker, "SELECT pgtrickle.submit_request('x', '{}')") == "ST606"
        submit(bench.open("writer"), "validate_query")  # others are not concerned
        lab.run("SELECT pgtrickle.set_setting('requests_per_caller', '101')")
        submit(attacker, "validate_query")
        assert refused(attacker, "SELECT pgtrickle.submit_request('x', '{}')") == "ST606"


def test_sessions_that_exceed_the_quota_together_are_cut_back(bench: Bench):
    with stocked(bench, "attacker") as lab:
        sessions = [bench.open("attacker", autocommit=False) for _ in range(3)]
        for session in sessions:
            for _ in range(60):
                submit(session, "nothing")
        for session in sessions:
            session.commit()
        waiting = "SELECT count(*) FROM pgtrickle.pgt_requests WHERE status = 'QUEUED'"
        assert lab.value(waiting) == 180

        lab.trickle._runtime.settings  # noqa: B018 - the default of 100 holds
        from pgtrickle.catalog.requests import sweep_requests

        with lab.trickle._runtime.connection() as connection:
            sweep_requests(connection, "nobody", [], quota=100, keep=timedelta(days=1))

        assert lab.value(waiting) == 100
        assert lab.rows(
            "SELECT DISTINCT error ->> 'code' FROM pgtrickle.pgt_requests WHERE status = 'FAILED'"
        ) == [("ST606",)]


def queue(lab: Lab, caller: str, verb: str, number: int) -> None:
    """Let requests of a role wait, however many."""
    lab.run(
        "INSERT INTO pgtrickle.pgt_requests (verb, arguments, caller, caller_oid)"
        f" SELECT '{verb}', '{{}}', '{caller}', '{caller}'::regrole::oid"
        f" FROM generate_series(1, {number})"
    )


def test_owner_is_not_behind_the_others(bench: Bench):
    with stocked(bench, "attacker", "writer") as lab:
        queue(lab, bench.roles["attacker"], "nothing", 20_000)
        mine = submit(bench.open("writer"), "nothing")
        owners = submit(bench.open("owner"), "refresh_stream_table", '{"name": "shop.revenue"}')
        lab.run("ANALYZE pgtrickle.pgt_requests")
        from pgtrickle.catalog.requests import claim_request

        with lab.trickle._runtime.connection() as connection:
            claimed = [claim_request(connection, "test", share=100) for _ in range(4)]

        ids = [one.id for one in claimed if one]
        assert ids[0] == owners
        assert mine in ids[1:3]  # each of the others in turn


def test_others_leave_a_worker_to_the_owner(bench: Bench):
    with stocked(bench, "attacker") as lab:
        queue(lab, bench.roles["attacker"], "nothing", 10)
        from pgtrickle.catalog.requests import claim_request

        with lab.trickle._runtime.connection() as connection:
            taken = [claim_request(connection, "test", share=3) for _ in range(5)]
            owners = submit(bench.open("owner"), "nothing")
            last = claim_request(connection, "test", share=3)

        assert [one is not None for one in taken] == [True] * 3 + [False] * 2
        assert last is not None
        assert last.id == owners


LOCKS = (
    "SELECT * FROM pgtrickle.pgt_requests FOR UPDATE",
    "SELECT * FROM pgtrickle.pgt_requests FOR KEY SHARE",
    "UPDATE pgtrickle.pgt_requests SET seen_at = now()",
    "SELECT pgtrickle.cancel_request(request_id) FROM pgtrickle.requests",
    "LOCK TABLE pgtrickle.pgt_requests IN ACCESS EXCLUSIVE MODE",
    "LOCK TABLE pgtrickle.pgt_request_signs IN ACCESS EXCLUSIVE MODE",
    "SELECT * FROM pgtrickle.pgt_request_signs FOR UPDATE",
    "LOCK TABLE pgtrickle.pgt_watermarks IN ACCESS EXCLUSIVE MODE",
    "LOCK TABLE pgtrickle.pgt_source_gates IN ACCESS EXCLUSIVE MODE",
)


@pytest.mark.parametrize("lock", LOCKS)
def test_no_lock_of_a_caller_holds_the_server_up(bench: Bench, lock: str):
    with stocked(bench, "attacker") as lab:
        holder = bench.open("attacker", autocommit=False)
        submit(holder, "nothing")
        holder.commit()
        try:
            holder.execute(lock.encode())
        except psycopg.errors.InsufficientPrivilege:
            holder.rollback()

        with serving(lab) as server:
            time.sleep(0.6)  # so that it has swept and looked
            server._sweep()
            lab.trickle.refresh_stream_table("shop.revenue")
            holds = lab.rows("SELECT * FROM pgtrickle.list_holds()")
            mine = submit(bench.open("owner"), "refresh_stream_table", '{"name": "shop.revenue"}')
            until(lambda: ended(lab, mine), 15)
            alive = lab.value("SELECT pgtrickle.is_served()")
            holder.rollback()

    assert (alive, holds) == (True, [])
    assert ended_with(bench, mine) == ("COMPLETED", None)


def test_request_of_a_dropped_role_is_not_that_of_its_namesake(bench: Bench):
    """Asked without the right; the role is dropped, and its name given to one who has it."""
    with stocked(bench) as lab:
        name, owner = "pgt_namesake", bench.roles["owner"]
        bench.run("admin", f"CREATE ROLE {name} LOGIN")
        try:
            lab.run(f"SELECT pgtrickle.grant_access('{name}', 'operator')")
            with psycopg.connect(bench.dsn, user=name, autocommit=True) as session:
                query = json.dumps({"name": "shop.mine", "query": REVENUE})
                request = submit(session, "create_stream_table", query)
            bench.run(
                "admin",
                f"DROP OWNED BY {name}",
                f"DROP ROLE {name}",
                f"CREATE ROLE {name} LOGIN",
                f"GRANT {owner} TO {name}",
            )

            with serving(lab):
                until(lambda: ended(lab, request))

            assert ended(lab, request) == ("FAILED", "ST605")
            assert lab.value("SELECT to_regclass('shop.mine')") is None
        finally:
            bench.run("admin", f"DROP OWNED BY {name}", f"DROP ROLE {name}")


def test_renamed_role_keeps_its_requests_and_its_namesake_gets_none(bench: Bench):
    with stocked(bench, "attacker") as lab:
        victim = bench.roles["attacker"]
        request = submit(bench.open("attacker"), "nothing")
        bench.run(
            "admin", f"ALTER ROLE {victim} RENAME TO pgt_renamed", f"CREATE ROLE {victim} LOGIN"
        )
        try:
            lab.run(f"SELECT pgtrickle.grant_access('{victim}', 'operator')")
            with psycopg.connect(bench.dsn, user=victim, autocommit=True) as namesake:
                seen = namesake.execute("SELECT count(*) FROM pgtrickle.requests").fetchone()
                cancel = sql.SQL("SELECT pgtrickle.cancel_request({})").format(request)
                cancelled = namesake.execute(cancel).fetchone()
            with psycopg.connect(bench.dsn, user="pgt_renamed", autocommit=True) as session:
                own = session.execute("SELECT count(*) FROM pgtrickle.requests").fetchone()
        finally:
            bench.run(
                "admin",
                f"DROP OWNED BY {victim}",
                f"DROP ROLE {victim}",
                f"ALTER ROLE pgt_renamed RENAME TO {victim}",
            )

    assert (seen, cancelled, own) == ((0,), (False,), (1,))


def test_requests_are_taken_back_by_their_callers_and_the_owner(bench: Bench):
    with stocked(bench, "attacker", "writer"):
        request = submit(bench.open("writer"), "nothing")
        cancel = f"SELECT pgtrickle.cancel_request({request})"

        forged = "INSERT INTO pgtrickle.pgt_request_signs (request_id, cancelled_at)"
        assert bench.value("attacker", cancel) is False
        assert refused(bench.open("attacker"), f"{forged} VALUES ({request}, now())") == "42501"
        assert bench.value("owner", cancel) is True
        assert bench.value("writer", cancel) is False  # it is already


def test_what_ended_is_forgotten_by_number_and_by_age(bench: Bench):
    with stocked(bench, "attacker") as lab:
        queue(lab, bench.roles["attacker"], "nothing", 1_500)
        lab.run(
            "UPDATE pgtrickle.pgt_requests SET status = 'CANCELLED', ended_at = clock_timestamp()"
        )
        from pgtrickle.catalog.requests import sweep_requests

        with lab.trickle._runtime.connection() as connection:
            sweep_requests(connection, "nobody", [], quota=100, keep=timedelta(days=1))

        assert lab.value("SELECT count(*) FROM pgtrickle.pgt_requests") == 1_000


HOLDS = (
    "SELECT pgtrickle.create_watermark_group('g', '{evil.a,evil.b}', 'Infinity')",
    "SELECT pgtrickle.create_watermark_group('g', '{evil.a,evil.b}', 'NaN')",
    "SELECT pgtrickle.create_watermark_group('g', '{evil.a,evil.b}', 1e300)",
    "SELECT pgtrickle.create_watermark_group(repeat('g', 10000), '{evil.a,evil.b}', 1)",
    "SELECT pgtrickle.advance_watermark('evil.a', 'infinity')",
    "SELECT pgtrickle.advance_watermark('evil.a', '-infinity')",
    "SELECT pgtrickle.advance_watermark('evil.a', '4713-01-01 BC')",
    "SELECT pgtrickle.advance_watermark('evil.a', '290000-01-01')",
    "INSERT INTO pgtrickle.pgt_source_gates (source_relid, gated_at)"
    " VALUES ('evil.a'::regclass, 'infinity')",
    "SELECT pgtrickle.create_watermark_group('g' || n, '{evil.a,evil.b}', 1)"
    " FROM generate_series(1, 1000) AS n",
)


@pytest.mark.parametrize("attack", HOLDS)
def test_values_of_an_operator_never_fail_the_scheduler(bench: Bench, attack: str):
    bench.run("admin", "CREATE SCHEMA evil AUTHORIZATION {attacker}")
    bench.run("attacker", "CREATE TABLE evil.a (id int)", "CREATE TABLE evil.b (id int)")
    with stocked(bench, "attacker") as lab:
        attacker = bench.open("attacker")
        attacker.execute("SELECT pgtrickle.advance_watermark('evil.b', '2001-01-01')")
        attacker.execute("SELECT pgtrickle.create_watermark_group('h', '{evil.a,evil.b}', 1)")

        assert refused(attacker, attack) in {"23514", "ST606"}

        attacker.execute("SELECT pgtrickle.gate_source('evil.a')")
        attacker.execute("SELECT pgtrickle.ungate_source('evil.a')")
        assert lab.rows("SELECT * FROM pgtrickle.list_holds()") == []
        assert len(lab.rows("SELECT * FROM pgtrickle.watermark_status()")) == 1
