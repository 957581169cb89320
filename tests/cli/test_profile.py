"""``pgtrickle explain --analyze`` and ``pgtrickle profile``."""

from __future__ import annotations

from psycopg import Connection
from psycopg.rows import TupleRow

from tests.cli.conftest import CommandLine


def test_analyze_measures_and_leaves_the_change_for_a_refresh(
    cli: CommandLine, cheap: str, user: Connection[TupleRow]
) -> None:
    user.execute("DELETE FROM items")

    told = cli("explain", cheap, "--analyze").stdout
    as_json = cli("explain", cheap, "--analyze", "--json").json

    assert told.startswith(f"rehearsal of {cheap}, ")
    assert "everything was rolled back" in told
    deleted = as_json["rows_deleted"]
    assert deleted > 0
    assert f"{deleted} row" in told
    assert cli("refresh", cheap, "--json").json["rows_deleted"] == deleted


def test_profile_keeps_the_last_figures(
    cli: CommandLine, cheap: str, user: Connection[TupleRow]
) -> None:
    assert cli("profile", cheap, "--list").stdout == "no profiles\n"
    user.execute("DELETE FROM items")

    first = cli("profile", cheap).stdout
    second = cli("profile", cheap, "--json").json

    assert len(first.splitlines()) == 3  # names, a line, one profile
    assert [one["action"] for one in second["profiles"]] == ["DIFFERENTIAL", "DIFFERENTIAL"]
    assert cli("profile", cheap, "--list", "--json").json == second
    assert cli("profile", "nothing", "--json").error["code"] == "ST201"


def test_profile_says_what_it_cannot_rehearse(
    cli: CommandLine, cheap: str, user: Connection[TupleRow]
) -> None:
    [(column,)] = user.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = 'items'::regclass AND attnum = 1"
    ).fetchall()
    user.execute(f"ALTER TABLE items ALTER {column} TYPE text".encode())

    assert cli("profile", cheap).stdout.startswith("not rehearsed: columns of public.items")
