"""Each command against a real database: what it prints, its JSON shape, its exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from tests.cli.conftest import CommandLine

QUERY = "SELECT id, price FROM items WHERE price < 10"
STREAM_TABLE_KEYS = {
    "name", "query", "defining_query", "schedule", "refresh_mode", "effective_refresh_mode",
    "downgrade_reason", "status", "populated", "needs_reinit", "frontier", "data_timestamp",
    "last_refresh_at", "consecutive_errors", "last_error", "owner",
    "max_delta_fraction",
    "cdc_mode", "suspended_by", "engine", "pinned", "next_change_at",
}  # fmt: skip
REPORT_KEYS = {
    "stream_table", "refresh_id", "action", "reason", "rows_inserted", "rows_deleted",
    "duration_ms", "reads", "timings_ms", "predicted_ms", "alternative_ms",
}  # fmt: skip
REFRESH_KEYS = {
    "refresh_id", "stream_table", "action", "status", "reason", "initiated_by", "start_time",
    "end_time", "data_timestamp", "rows_inserted", "rows_deleted", "delta_row_count", "reads",
    "changed_rows", "error_hint",
    "timings_ms", "predicted_ms", "predicted_differential_ms", "predicted_full_ms", "actual_ms",
    "rows_read", "bytes_read", "error_code", "error_message",
}  # fmt: skip


# The time in another form than a comparison with now() is not followed.
_TIMELY = "SELECT id FROM items WHERE age(timestamptz '2020-01-01') IS NOT NULL"


def test_init_twice_does_no_harm(cli: CommandLine, empty_database: str) -> None:
    cli.dsn = empty_database
    first, second = cli("init"), cli("init", "--json")

    assert (first.exit_code, second.exit_code) == (0, 0)
    assert first.stdout.startswith("catalog ready")
    assert second.json == {"applied": []}


def test_empty_database_lists_nothing(cli: CommandLine) -> None:
    assert cli("list").stdout == "no stream tables\n"
    assert cli("list", "--json").json == {"stream_tables": []}
    assert cli("history").stdout == "no refreshes\n"
    assert cli("history", "--json").json == {"refreshes": []}
    assert cli("refresh", "--all").stdout == "no stream tables\n"


def test_create_fills_the_table(cli: CommandLine, user: Connection[TupleRow]) -> None:
    answer = cli("create", "cheap", "--query", QUERY, "--schedule", "5m", "--json")

    assert answer.exit_code == 0
    assert set(answer.json) == {"outcome", "stream_table", "refresh"}
    assert set(answer.json["stream_table"]) == STREAM_TABLE_KEYS
    assert set(answer.json["refresh"]) == REPORT_KEYS
    assert answer.json["stream_table"]["schedule"] == "5m"
    assert answer.json["refresh"]["rows_inserted"] == 1
    assert user.execute("SELECT id FROM cheap").fetchall() == [(1,)]


def test_create_prints_what_it_did(cli: CommandLine, user: Connection[TupleRow]) -> None:
    answer = cli("create", "cheap", "--query", QUERY)

    assert answer.exit_code == 0
    assert answer.stdout.startswith("public.cheap: created\npublic.cheap: FULL +1 -0 in ")


def test_create_without_filling(cli: CommandLine, user: Connection[TupleRow]) -> None:
    answer = cli("create", "cheap", "--query", QUERY, "--no-initialize", "--json")

    assert answer.json["refresh"] is None
    assert answer.json["stream_table"]["populated"] is False


def test_create_from_standard_input(cli: CommandLine, user: Connection[TupleRow]) -> None:
    answer = cli("create", "cheap", "-", stdin=QUERY)

    assert answer.exit_code == 0


def test_create_from_a_file(cli: CommandLine, user: Connection[TupleRow], tmp_path: Path) -> None:
    file = tmp_path / "query.sql"
    file.write_text(QUERY)

    answer = cli("create", "cheap", "--file", str(file), "--json")

    assert answer.json["stream_table"]["query"] == QUERY


def test_list_shows_each_table(cli: CommandLine, cheap: str) -> None:
    assert cheap in cli("list").stdout
    [listed] = cli("list", "--json").json["stream_tables"]
    assert set(listed) == STREAM_TABLE_KEYS
    assert listed["name"] == cheap


def test_names_with_brackets_are_not_markup(cli: CommandLine, user: Connection[TupleRow]) -> None:
    cli("create", '"[bold]"', "--query", QUERY)

    assert 'public."[bold]"' in cli("list").stdout
    assert 'public."[bold]"' in cli("show", '"[bold]"').stdout
    assert 'public."[bold]"' in cli("history").stdout


def test_show_tells_everything(cli: CommandLine, cheap: str) -> None:
    shown = cli("show", cheap).stdout

    for expected in (
        cheap,
        QUERY,
        "AUTO",
        "DIFFERENTIAL",
        "ACTIVE",
        "frontier",
        "FULL",
        "refresh 1 read public.items",
    ):
        assert expected in shown


def test_show_as_json(cli: CommandLine, cheap: str) -> None:
    document = cli("show", cheap, "--json").json

    assert set(document) == STREAM_TABLE_KEYS | {"refreshes", "reads"}
    assert set(document["refreshes"][0]) == REFRESH_KEYS
    assert document["frontier"]["pg"]["snapshot"]


def test_show_tells_why_a_table_runs_as_full(cli: CommandLine, user: Connection[TupleRow]) -> None:
    cli("create", "first", "--query", _TIMELY)

    document = cli("show", "first", "--json").json

    assert document["effective_refresh_mode"] == "FULL"
    assert document["downgrade_reason"] in cli("show", "first").stdout


def test_refresh_tells_how_many_rows_changed(
    cli: CommandLine, cheap: str, user: Connection[TupleRow]
) -> None:
    user.execute("INSERT INTO items VALUES (3, 1), (4, 2)")
    user.execute("DELETE FROM items WHERE id = 1")

    answer = cli("refresh", cheap)

    assert answer.exit_code == 0
    assert answer.stdout.startswith(f"{cheap}: DIFFERENTIAL +2 -1 in ")


def test_refresh_as_json(cli: CommandLine, cheap: str) -> None:
    document = cli("refresh", cheap, "--json").json

    assert set(document) == REPORT_KEYS
    assert document["action"] == "NO_DATA"


def test_full_refresh(cli: CommandLine, cheap: str) -> None:
    assert cli("refresh", cheap, "--full", "--json").json["action"] == "FULL"


def test_refresh_all_goes_from_sources_to_readers(
    cli: CommandLine, cheap: str, user: Connection[TupleRow]
) -> None:
    cli("create", "a_count", "--query", "SELECT count(*) AS n FROM cheap")
    user.execute("INSERT INTO items VALUES (3, 1)")

    document = cli("refresh", "--all", "--json").json

    assert [one["stream_table"] for one in document["refreshes"]] == [cheap, "public.a_count"]
    assert document["errors"] == []
    assert user.execute("SELECT n FROM a_count").fetchall() == [(2,)]


def test_refresh_all_goes_on_after_a_failure(
    cli: CommandLine, cheap: str, user: Connection[TupleRow]
) -> None:
    user.execute("CREATE TABLE doomed (id int)")
    cli("create", "a_doomed", "--query", "SELECT id FROM doomed")
    user.execute("DROP TABLE doomed CASCADE")

    answer = cli("refresh", "--all", "--json")

    assert answer.exit_code == 1
    assert [one["stream_table"] for one in answer.json["refreshes"]] == [cheap]
    [failed] = answer.json["errors"]
    assert failed["stream_table"] == "public.a_doomed"
    assert failed["error"]["code"] == "ST301"


def test_verify_says_yes(cli: CommandLine, cheap: str) -> None:
    answer = cli("verify", cheap)

    assert answer.exit_code == 0
    assert answer.stdout == f"{cheap}: 1 rows, equal to PostgreSQL's own answer\n"


def test_verify_says_no_and_exits_1(
    cli: CommandLine, cheap: str, user: Connection[TupleRow]
) -> None:
    user.execute("ALTER TABLE cheap DISABLE TRIGGER pgtrickle_guard")
    user.execute("UPDATE cheap SET price = 6")

    answer = cli("verify", cheap, "--json")

    assert answer.exit_code == 1
    assert answer.json == {
        "stream_table": cheap,
        "ok": False,
        "rows": 1,
        "missing": 1,
        "extra": 1,
        "missing_sample": [["1", "5.00"]],
        "extra_sample": [["1", "6.00"]],
    }
    assert "missing: 1 | 5.00" in cli("verify", cheap).stdout


def test_explain_in_every_format(cli: CommandLine, cheap: str) -> None:
    assert "items" in cli("explain", cheap).stdout
    assert cli("explain", cheap, "--format", "dot").stdout.startswith("digraph")
    as_json = cli("explain", cheap, "--json")
    assert json.loads(as_json.stdout) == cli("explain", cheap, "--format", "JSON").json


def test_history_shows_the_newest_first(cli: CommandLine, cheap: str) -> None:
    cli("refresh", cheap)

    refreshes = cli("history", cheap, "--json").json["refreshes"]

    assert [one["action"] for one in refreshes] == ["NO_DATA", "FULL"]
    assert set(refreshes[0]) == REFRESH_KEYS
    assert len(cli("history", "--limit", "1", "--json").json["refreshes"]) == 1


def test_alter_changes_what_is_given(cli: CommandLine, cheap: str) -> None:
    document = cli("alter", cheap, "--schedule", "1h", "--refresh-mode", "full", "--json").json

    assert (document["schedule"], document["refresh_mode"]) == ("1h", "FULL")
    assert document["status"] == "ACTIVE"


def test_alter_says_why_it_runs_as_full(cli: CommandLine, cheap: str) -> None:
    altered = cli("alter", cheap, "--refresh-mode", "auto", "--query", _TIMELY).stdout

    reason = cli("show", cheap, "--json").json["downgrade_reason"]
    assert reason
    assert f"mode AUTO, runs as FULL: {reason}" in " ".join(altered.split())


def test_alter_replaces_the_query(cli: CommandLine, cheap: str, tmp_path: Path) -> None:
    file = tmp_path / "query.sql"
    file.write_text("SELECT id, price FROM items WHERE price > 0")

    altered = cli("alter", cheap, "--file", str(file), "--json")
    refused = cli("alter", cheap, "--query", "SELECT price, id FROM items", "--json")

    assert altered.json["query"] == file.read_text()
    assert cli("verify", cheap, "--json").json["ok"]
    assert (refused.exit_code, refused.error["code"]) == (1, "ST213")


def test_suspended_table_does_not_refresh(cli: CommandLine, cheap: str) -> None:
    assert "SUSPENDED" in cli("alter", cheap, "--status", "suspended").stdout

    assert cli("refresh", cheap, "--json").error["code"] == "ST211"
    assert cli("refresh", "--all", "--json").json == {"refreshes": [], "errors": []}
    assert cli("alter", cheap, "--status", "active", "--json").json["status"] == "ACTIVE"


def test_drop_names_what_went(cli: CommandLine, cheap: str) -> None:
    cli("create", "counted", "--query", "SELECT count(*) AS n FROM cheap")

    refused = cli("drop", cheap, "--json")
    dropped = cli("drop", cheap, "--cascade", "--json")

    assert (refused.exit_code, refused.error["code"]) == (1, "ST207")
    assert dropped.json == {"dropped": ["public.counted", cheap]}
    assert cli("list", "--json").json == {"stream_tables": []}


def test_drop_names_views_too(cli: CommandLine, cheap: str, user: Connection[TupleRow]) -> None:
    user.execute("CREATE VIEW seen AS TABLE cheap")
    user.execute("CREATE VIEW again AS TABLE seen")

    refused = cli("drop", cheap, "--json")
    dropped = cli("drop", cheap, "--cascade")

    assert refused.error["code"] == "ST207"
    assert refused.error["detail"] == "view public.again, view public.seen"
    assert dropped.stdout.splitlines() == [
        "view public.again: dropped",
        "view public.seen: dropped",
        f"{cheap}: dropped",
    ]


def test_rename_follows_and_the_old_name_leads_to_the_new(cli: CommandLine, cheap: str) -> None:
    cli("create", "counted", "--query", "SELECT count(*) AS n FROM cheap")

    renamed = cli("rename", cheap, "fair", "--json")

    assert renamed.json == {
        "name": "public.fair",
        "former_name": cheap,
        "followed": ["public.counted"],
    }
    old = cli("show", cheap, "--json").error
    assert (old["code"], old["hint"]) == ("ST201", "Use the name that it has: public.fair.")
    assert cli("refresh", "fair").exit_code == cli("refresh", "counted").exit_code == 0
    assert cli("rename", "fair", "cheap").stdout.splitlines() == [
        f"public.fair: renamed to {cheap}",
        "public.counted: reads it by its new name",
    ]


def test_export_prints_what_creates_the_table(
    cli: CommandLine, cheap: str, user: Connection[TupleRow]
) -> None:
    [(script,)] = user.execute("SELECT pgtrickle.export_definition('cheap')").fetchall()

    assert cli("export", cheap).stdout == script
    assert cli("export", cheap, "--json").json == {"name": cheap, "sql": script}
    assert cli("export", "nothing", "--json").error["code"] == "ST201"


def test_doctor_reports_every_check(cli: CommandLine) -> None:
    answer = cli("doctor", "--json")

    assert set(answer.json) == {"ok", "checks", "missing_indexes"}
    assert answer.exit_code == (0 if answer.json["ok"] else 1)
    assert {"java", "postgresql"} <= {check["name"] for check in answer.json["checks"]}


def test_doctor_tells_why_changes_do_not_wake_the_scheduler(
    cli: CommandLine, user: Connection[TupleRow]
) -> None:
    """The servers of the tests may prepare transactions; whoever says that nobody does is woken."""

    def wakeup() -> dict[str, str]:
        [check] = [c for c in cli("doctor", "--json").json["checks"] if "wake-up" in c["name"]]
        return dict(check)

    before, shown = wakeup(), cli("doctor").stdout
    user.execute(before["hint"].partition(": ")[2].encode())
    after = wakeup()
    by_setting = cli("doctor", PGTRICKLE_EVENT_WAKEUP="off").stdout

    assert "max_prepared_transactions" in before["detail"]
    assert "SET pg_trickle.event_wakeup = on" in before["hint"]
    assert before["hint"] in shown
    assert (after["detail"], after["hint"]) == ("on", "")
    assert "wake-up by changes: off, as set" in by_setting


def test_doctor_fails_on_a_failed_check(cli: CommandLine) -> None:
    answer = cli("doctor", JAVA_HOME="/nowhere")

    assert answer.exit_code == 1
    assert "FAILED java" in answer.stdout
    assert "hint: Install Java" in answer.stdout

    unneeded = cli("doctor", "--json", JAVA_HOME="/nowhere", PGTRICKLE_ENGINE="postgres").json
    [java] = [one for one in unneeded["checks"] if one["name"] == "java"]
    assert java["ok"]
    assert "not needed, since PostgreSQL computes" in java["detail"]

    assert "FAILED connection: the setting" in cli("doctor", PGTRICKLE_LEASE_SECONDS="soon").stdout


@pytest.mark.parametrize("command", ["show", "refresh", "verify", "explain", "history", "drop"])
def test_missing_table_is_an_error(cli: CommandLine, command: str) -> None:
    answer = cli(command, "nowhere")

    assert answer.exit_code == 1
    assert answer.stderr == (
        'error ST201: the stream table "public.nowhere" does not exist\n'
        "hint: List them with: pgtrickle list.\n"
    )


def test_alter_gives_a_stream_table_its_own_cost_limit(cli: CommandLine, cheap: str) -> None:
    altered = cli("alter", cheap, "--max-delta-fraction", "0.1", "--json")
    shown = cli("show", cheap).stdout
    back = cli("alter", cheap, "--max-delta-fraction", "default", "--json")

    assert altered.json["max_delta_fraction"] == 0.1
    assert "recomputed in full above 10% changed rows" in shown
    assert back.json["max_delta_fraction"] is None
    assert cli("alter", cheap, "--max-delta-fraction", "much").exit_code == 2


def test_alter_tells_how_sources_are_captured(cli: CommandLine, cheap: str) -> None:
    altered = cli("alter", cheap, "--cdc-mode", "trigger", "--json")
    shown = cli("show", cheap).stdout

    assert altered.json["cdc_mode"] == "TRIGGER"
    assert "capture    TRIGGER" in shown
    assert cli("alter", cheap, "--cdc-mode", "mirrors").exit_code == 2
