"""``pgtrickle outbox`` and ``pgtrickle consumers``."""

from __future__ import annotations

from psycopg import Connection
from psycopg.rows import TupleRow

from tests.cli.conftest import CommandLine

QUERY = "SELECT id, price FROM items WHERE price < 10"


def test_the_changes_of_a_stream_table_are_recorded_and_shown(
    cli: CommandLine, user: Connection[TupleRow]
) -> None:
    assert cli("outbox", "status").stdout == "no outboxes\n"
    assert cli("consumers", "lag").stdout == "no consumer groups\n"
    assert cli("create", "cheap", "--query", QUERY).exit_code == 0
    refused = cli("outbox", "rows", "cheap", "--json")
    assert (refused.exit_code, refused.error["code"]) == (1, "ST801")
    told = cli("outbox", "enable", "cheap", "--retention-hours", "2.5")
    assert told.stdout == "cheap: its outbox is enabled\n"
    assert cli("outbox", "rows", "cheap").stdout == "no changes\n"
    assert cli("consumers", "create", "mirror", "cheap", "--earliest").exit_code == 0
    user.execute("INSERT INTO items VALUES (3, 1.50)")
    cli("refresh", "cheap")

    shown = cli("outbox", "rows", "cheap")
    found = cli("outbox", "rows", "cheap", "--from", "1", "--to", "1", "--limit", "1", "--json")
    status = cli("outbox", "status")
    lag = cli("consumers", "lag", "--json").json["groups"]

    assert shown.stdout == '1.1 insert {"id": 3, "price": "1.50"}\n'
    [change] = found.json["changes"]
    assert (change["outbox_id"], change["op"], change["before"]) == (1, "insert", None)
    assert change["after"] == {"id": 3, "price": "1.50"}
    assert status.stdout == "public.cheap: entries 1 to 1, kept for 2.5 hours\n"
    assert [(one["group_name"], one["lag_entries"]) for one in lag] == [("mirror", 1)]
    assert "mirror of public.cheap: 1 entries behind" in cli("consumers", "lag").stdout


def test_groups_and_outboxes_end(cli: CommandLine, user: Connection[TupleRow]) -> None:
    assert cli("create", "cheap", "--query", QUERY).exit_code == 0
    cli("outbox", "enable", "cheap")
    cli("consumers", "create", "mirror", "cheap")
    user.execute("INSERT INTO items VALUES (3, 1.5)")
    cli("refresh", "cheap")

    assert cli("consumers", "seek", "mirror", "1").stdout == "mirror: goes on after entry 1\n"
    beyond = cli("consumers", "seek", "mirror", "7", "--json")
    assert (beyond.exit_code, beyond.error["code"]) == (1, "ST802")
    assert cli("consumers", "drop", "mirror", "--json").json == {
        "group": "mirror",
        "dropped": True,
    }
    assert cli("consumers", "drop", "mirror", "--if-exists").stdout == "mirror: not there\n"
    assert cli("outbox", "disable", "cheap").stdout == "cheap: its outbox is gone\n"
    again = cli("outbox", "disable", "cheap", "--if-exists")
    assert again.stdout == "cheap: there was no outbox\n"
    assert cli("outbox", "disable", "cheap", "--json").error["code"] == "ST801"
