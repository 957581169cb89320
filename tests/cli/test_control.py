"""The commands that hold the scheduler back and let it go on."""

from __future__ import annotations

import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from tests.cli.conftest import CommandLine


def holds(cli: CommandLine) -> list[tuple[str, str]]:
    found = cli("scheduler", "holds", "--json").json["holds"]
    return [(one["stream_table"], one["reason"]) for one in found]


def test_gate_is_closed_and_opened(cli: CommandLine, cheap: str) -> None:
    assert cli("scheduler", "holds").stdout == "nothing is held back\n"

    assert cli("gate", "close", "items").stdout == "items: gated\n"
    assert holds(cli) == [(cheap, "the source public.items is gated")]
    assert cli("scheduler", "holds").stdout == f"{cheap}: the source public.items is gated\n"

    assert cli("gate", "open", "items", "--json").json == {"ungated": ["items"]}
    assert holds(cli) == []


def test_gate_of_what_does_not_exist(cli: CommandLine, cheap: str) -> None:
    assert cli("gate", "close", "nothing", "--json").error["code"] == "ST301"


def test_pause_resume_and_drain(cli: CommandLine, cheap: str) -> None:
    assert cli("scheduler", "pause", "cheap").stdout == "cheap: paused\n"
    assert holds(cli) == [(cheap, "the stream table is paused")]
    cli("scheduler", "resume", "cheap")
    assert holds(cli) == []

    assert cli("scheduler", "drain", "--timeout", "5").stdout == "drained\n"
    assert holds(cli) == [(cheap, "the scheduler is drained")]
    cli("scheduler", "undrain")
    assert holds(cli) == []


def test_quiesce_and_resume_all(cli: CommandLine, cheap: str, user: Connection[TupleRow]) -> None:
    assert cli("scheduler", "quiesce", "--json").json == {"quiet": True, "left": []}
    user.execute(
        "INSERT INTO pgtrickle.pgt_leases (pgt_id, owner, token, acquired_at, expires_at)"
        " SELECT pgt_id, 'another', 1, now(), now() + interval '1 hour'"
        " FROM pgtrickle.pgt_stream_tables"
    )
    answer = cli("scheduler", "quiesce", "--timeout", "0.1")
    assert answer.exit_code == 1
    assert answer.stdout.startswith(f"{cheap}: since ")
    [left] = cli("scheduler", "quiesce", "--timeout", "0", "--json").json["left"]
    assert (left["stream_table"], left["daemon"]) == (cheap, "another")
    assert "by another" in answer.stdout
    assert cli("scheduler", "resume-all").stdout == f"{cheap}: resumed\n"
    assert holds(cli) == []


def test_drain_that_takes_too_long_exits_1(
    cli: CommandLine, cheap: str, user: Connection[TupleRow]
) -> None:
    user.execute(
        "INSERT INTO pgtrickle.pgt_leases (pgt_id, owner, token, acquired_at, expires_at)"
        " SELECT pgt_id, 'another', 1, now(), now() + interval '1 hour'"
        " FROM pgtrickle.pgt_stream_tables"
    )

    answer = cli("scheduler", "drain", "--timeout", "0.2", "--json")

    assert (answer.exit_code, answer.json) == (1, {"drained": False})


def test_watermarks_out_of_step(cli: CommandLine, user: Connection[TupleRow]) -> None:
    user.execute("CREATE TABLE others (id int)")
    both = "SELECT i.id FROM items AS i JOIN others AS o ON o.id = i.id"
    assert cli("create", "both", "--query", both).exit_code == 0
    group = cli("watermark", "group", "day", "items", "others", "--tolerance", "60")
    assert group.stdout == "day: items, others\n"
    cli("watermark", "advance", "items", "2026-01-31T18:00:00+00:00")
    cli("watermark", "advance", "others", "2026-01-31T18:02:00+00:00")

    assert holds(cli) == [("public.both", "the watermarks of the group day are out of step")]

    backwards = cli("watermark", "advance", "others", "2026-01-31T18:00:00+00:00", "--json")
    assert "cannot go back" in backwards.error["message"]
    cli("watermark", "ungroup", "day")
    assert holds(cli) == []


@pytest.mark.parametrize("moment", ["yesterday", "2026-01-31T18:00:00"])
def test_moment_without_a_meaning_is_a_usage_mistake(bare_cli: CommandLine, moment: str) -> None:
    assert bare_cli("watermark", "advance", "items", moment).exit_code == 2


def test_fuse_blows_and_is_reset(cli: CommandLine, cheap: str, user: Connection[TupleRow]) -> None:
    assert cli("fuse", "set", "cheap", "on", "--ceiling", "2").stdout == "cheap: fuse on\n"
    user.execute("INSERT INTO items SELECT i, 1 FROM generate_series(10, 20) AS i")
    user.execute("UPDATE pgtrickle.pgt_stream_tables SET last_refresh_at = now() - '1h'::interval")
    assert cli("run", "--once").stderr.startswith("error ST212: ")
    assert holds(cli) == [(cheap, "its fuse has blown: 11 changed rows, more than 2")]

    assert cli("fuse", "reset", "cheap").stdout == "cheap: the next refresh will apply\n"
    assert cli("run", "--once").stdout.startswith(f"{cheap}: DIFFERENTIAL +11 ")
    assert cli("fuse", "reset", "cheap", "--json").error["code"] == "ST211"


@pytest.mark.parametrize("option", [["--ceiling", "0"], ["--sensitivity", "1"]])
def test_fuse_that_cannot_be_is_refused(cli: CommandLine, cheap: str, option: list[str]) -> None:
    assert cli("fuse", "set", "cheap", "auto", *option).exit_code != 0


def test_refresh_group_is_made_and_dropped(cli: CommandLine, cheap: str) -> None:
    assert cli("create", "dear", "--query", "SELECT id FROM items WHERE price > 10").exit_code == 0

    made = cli("group", "create", "prices", "cheap", "dear", "--json").json

    assert made == {"group": "prices", "members": ["cheap", "dear"], "isolation": "repeatable_read"}
    again = cli("group", "create", "other", "cheap", "dear", "--json")
    assert 'already belongs to the refresh group "prices"' in again.error["message"]
    assert cli("group", "drop", "prices").stdout == "prices: dropped\n"
    assert cli("group", "drop", "prices").exit_code == 1


def test_errors_are_explained(cli: CommandLine, cheap: str, user: Connection[TupleRow]) -> None:
    assert cli("errors", "cheap").stdout == "no errors\n"
    user.execute("DROP TABLE items CASCADE")
    assert cli("refresh", "cheap").exit_code == 1

    [error] = cli("errors", "cheap", "--json").json["errors"]

    assert (error["error_code"], error["error_class"]) == ("ST301", "never")
    assert error["meaning"] == "A source table of the stream table no longer exists."
    assert "pgtrickle drop public.cheap" in error["remedy"]
    assert error["remedy"] in cli("errors", "cheap").stdout


def test_who_falls_behind_is_shown(
    cli: CommandLine, cheap: str, user: Connection[TupleRow]
) -> None:
    assert cli("scheduler", "behind").stdout == "every stream table keeps up with its schedule\n"
    user.execute(
        "INSERT INTO pgtrickle.pgt_paces"
        " (pgt_id, late, stretch, interval_seconds, took_seconds, stretched_at)"
        " SELECT pgt_id, 1, 4, 60, 130.5, now() FROM pgtrickle.pgt_stream_tables"
    )

    told = cli("scheduler", "behind").stdout
    assert told.startswith(f"{cheap}: took 130.5 s, schedule ")
    assert told.endswith("now every 240 s\n")
    [shown] = cli("scheduler", "behind", "--json").json["falling_behind"]
    assert (shown["stretch"], shown["late_refreshes"]) == (4, 1)


def test_self_monitoring_is_set_up_shown_and_torn_down(cli: CommandLine, cheap: str) -> None:
    assert "monitor setup" in cli("monitor", "status").stdout

    made = cli("monitor", "setup", "--schedule", "5m", "--json").json["stream_tables"]

    assert "pgtrickle_monitoring.efficiency" in made
    assert "5m" in cli("monitor", "status").stdout
    assert len(cli("monitor", "status", "--json").json["parts"]) == len(made) == 3
    assert sorted(cli("monitor", "teardown").stdout.split()) == sorted(made)
    assert cli("monitor", "teardown", "--json").json == {"dropped": []}
