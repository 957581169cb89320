"""``pgtrickle validate``: what it prints, its JSON shape, its exit code."""

from __future__ import annotations

from pathlib import Path

from psycopg import Connection
from psycopg.rows import TupleRow

from tests.cli.conftest import CommandLine

QUERY = "SELECT price, count(*) AS n FROM items GROUP BY price"
REFUSED = (
    "SELECT (SELECT max(d.s) FROM (SELECT sum(id) OVER (ORDER BY id ROWS (SELECT 1) PRECEDING) AS s"
    " FROM items) AS d) AS n"
    " FROM items, LATERAL (SELECT 1 UNION SELECT 2 LIMIT items.id) AS few"
)
KEYS = {"differential", "usable", "refresh_mode", "reasons", "columns", "sources", "plan"}


def test_validate_says_yes(cli: CommandLine, user: Connection[TupleRow]) -> None:
    answer = cli("validate", QUERY)

    assert answer.exit_code == 0
    assert answer.stdout.startswith("differential: yes\ncolumns:\n  price numeric(10,2)\n")
    assert "sources:\n  public.items (price)\n" in answer.stdout
    assert "st_<id>_group_1" in answer.stdout
    assert cli("list").stdout == "no stream tables\n"


def test_validate_says_no_with_every_reason(cli: CommandLine, user: Connection[TupleRow]) -> None:
    answer = cli("validate", REFUSED)

    assert answer.exit_code == 1
    assert answer.stdout.startswith("differential: no; AUTO would recompute it in full\n")
    for word in ("ROWS", "LIMIT"):
        assert any(
            marked.split(": ", 1)[-1][carets.index("^") - len("  line 1: ") :].startswith(word)
            for marked, carets in zip(
                answer.stdout.splitlines(), answer.stdout.splitlines()[1:], strict=False
            )
            if carets.strip().startswith("^")
        ), answer.stdout
    assert answer.stdout.count("hint: ") == answer.stdout.count("ST102: ")


def test_validate_as_json(cli: CommandLine, user: Connection[TupleRow]) -> None:
    yes, no = cli("validate", QUERY, "--json"), cli("validate", REFUSED, "--json")

    assert (yes.exit_code, no.exit_code) == (0, 1)
    assert set(yes.json) == set(no.json) == KEYS
    assert yes.json["refresh_mode"] == "DIFFERENTIAL"
    assert yes.json["columns"][0] == {"name": "price", "type": "numeric(10,2)"}
    assert yes.json["plan"]["operators"]["operator"] == "Result"
    assert no.json["refresh_mode"] == "FULL"
    assert {reason["code"] for reason in no.json["reasons"]} == {"ST102"}
    assert all(
        set(reason) == {"code", "message", "detail", "hint"} for reason in no.json["reasons"]
    )


def test_validate_a_query_that_postgresql_refuses(
    cli: CommandLine, user: Connection[TupleRow]
) -> None:
    answer = cli("validate", "SELECT nothing FROM items", "--json")

    assert answer.exit_code == 1
    assert answer.json["refresh_mode"] is None
    assert [reason["code"] for reason in answer.json["reasons"]] == ["ST105"]


def test_validate_reads_files_and_standard_input(
    cli: CommandLine, user: Connection[TupleRow], tmp_path: Path
) -> None:
    file = tmp_path / "query.sql"
    file.write_text(QUERY)

    assert cli("validate", "--file", str(file)).stdout == cli("validate", QUERY).stdout
    assert cli("validate", "-", stdin=QUERY).stdout == cli("validate", QUERY).stdout
