"""``pgtrickle advise`` and ``pgtrickle sla``: what people read, and what scripts do."""

from __future__ import annotations

from datetime import timedelta

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle import connect
from tests.cli.conftest import CommandLine
from tests.labs.courses import MONDAY, Recorded, record
from tests.labs.lab import Lab


def remember(cli: CommandLine, user: Connection[TupleRow], name: str, took: float) -> None:
    """Give a stream table a history of three hours with a change in each minute."""
    refreshes = [
        Recorded(MONDAY + timedelta(seconds=60 * number), took, 500) for number in range(180)
    ]
    with connect(user.info.dsn) as trickle:
        record(Lab(trickle, user), name, refreshes)


def test_without_history_nothing_is_recommended_or_applied(cli: CommandLine, cheap: str) -> None:
    answer = cli("advise", "--apply")

    first, why = answer.stdout.splitlines()
    assert first == f"{cheap}: schedule calculated, no recommendation yet"
    assert why == "  why: 0 refreshes with changes are on record, of the 20 that it takes"
    [advice] = cli("advise", "cheap", "--json").json["advice"]
    assert (advice["confidence"], advice["applied"]) == (0, None)
    assert cli("advise", "nothing", "--json").error["code"] == "ST201"


def test_recommended_schedule_is_shown_and_taken_over(
    cli: CommandLine, cheap: str, user: Connection[TupleRow]
) -> None:
    remember(cli, user, "cheap", 2.0)
    [before] = cli("advise", "--json").json["advice"]
    assert (before["schedule"], before["applied"]) == ("calculated", None)
    shown = cli("advise", "cheap").stdout
    assert shown.startswith(f"{cheap}: schedule calculated, every ")
    assert "s is recommended (+" in shown

    answer = cli("advise", "--apply")

    seconds = round(before["recommended_interval_seconds"])
    assert 150 < seconds < 250
    assert answer.stdout.endswith(f"applied: schedule {seconds}s\n")
    assert cli("show", "cheap", "--json").json["schedule"] == f"{seconds}s"
    [after] = cli("advise", "--apply", "--json").json["advice"]
    assert (after["delta_pct"], after["applied"]) == (0, None)


def test_service_level_is_set_shown_and_cleared(
    cli: CommandLine, cheap: str, user: Connection[TupleRow]
) -> None:
    remember(cli, user, "cheap", 2.0)
    answer = cli("sla", "set", "cheap", "20s")
    assert answer.stdout == f"{cheap}: at most 20s old; tier warm, schedule 8s\n"
    assert cli("sla", "set", "cheap", "3s", "--json").error["code"] == "ST505"

    [shown] = cli("sla", "list", "--json").json["service_levels"]
    assert (shown["stream_table"], shown["sla_s"], shown["breach_s"]) == (cheap, 20, 0)
    assert "100.0%" in cli("sla", "list", "--hours", "1").stdout

    cleared = cli("sla", "clear", "cheap", "--json").json
    assert cleared == {"stream_table": cheap, "sla_s": None, "tier": "warm", "schedule": "8s"}
