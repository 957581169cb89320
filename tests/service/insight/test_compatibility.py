"""What docs/compatibility.md says of notices, triggers and publications, with a real refresh."""

from __future__ import annotations

import json

import psycopg
import pytest
from psycopg import sql

from tests.labs.lab import Lab
from tools.compatibility.facts import CHANNELS, split_names

OWN = "of_my_own"
SHOP = (
    "CREATE TABLE t (id int PRIMARY KEY, k int, v int)",
    "INSERT INTO t SELECT n, n % 5, n FROM generate_series(1, 50) AS n",
)
KEYS = {one.name: split_names(one.keys) for one in CHANNELS}


@pytest.fixture
def shop(postgres_lab: Lab) -> Lab:
    postgres_lab.run(*SHOP)
    postgres_lab.create("sums", "SELECT k, sum(v) AS v FROM t GROUP BY k")
    return postgres_lab


def test_messages_have_the_keys_that_are_listed(shop: Lab) -> None:
    shop.run(f"SELECT pgtrickle.subscribe('sums', '{OWN}')", "UPDATE t SET v = v + 1 WHERE id = 1")
    with psycopg.connect(shop.trickle.dsn, autocommit=True) as listener:
        for channel in ("pg_trickle_refresh", OWN):
            listener.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        shop.refresh("sums", "DIFFERENTIAL")
        told = {
            notice.channel: json.loads(notice.payload)
            for notice in listener.notifies(timeout=60, stop_after=2)
        }

    assert list(told["pg_trickle_refresh"]) == KEYS["pg_trickle_refresh"]
    assert list(told[OWN]) == KEYS["subscribe"]
    assert told[OWN]["inserted_count"] == 1


def test_triggers_and_publications_stand_in_for_what_is_missing(shop: Lab) -> None:
    shop.run(
        "CREATE TABLE followed (change text, k int, v bigint)",
        "CREATE FUNCTION follow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO public.followed SELECT TG_OP, n.* FROM n; RETURN NULL; END $$",
        "CREATE TRIGGER gone AFTER DELETE ON sums REFERENCING OLD TABLE AS n"
        " FOR EACH STATEMENT EXECUTE FUNCTION follow()",
        "CREATE TRIGGER came AFTER INSERT ON sums REFERENCING NEW TABLE AS n"
        " FOR EACH STATEMENT EXECUTE FUNCTION follow()",
        "ALTER TABLE sums REPLICA IDENTITY FULL",
        "SET client_min_messages = error",  # about wal_level
        "CREATE PUBLICATION p FOR TABLE sums",
        "RESET client_min_messages",
        "UPDATE t SET v = v + 1 WHERE id = 1",
    )

    shop.refresh("sums", "DIFFERENTIAL")

    [(changes,)] = shop.connection.execute(
        "SELECT array_agg(change ORDER BY change) FROM followed"
    ).fetchall()
    assert changes == ["DELETE", "INSERT"]
    shop.trickle.drop_stream_table("sums")
    published = shop.connection.execute("SELECT FROM pg_publication_tables").fetchall()
    shop.run("DROP PUBLICATION p")
    assert published == []
