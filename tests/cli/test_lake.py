"""``pgtrickle lake``: tables of it that are attached, and its housekeeping."""

from __future__ import annotations

import os
from pathlib import Path

from psycopg import Connection
from psycopg.rows import TupleRow

from tests.cli.conftest import CommandLine

QUERY = "SELECT id, price FROM items WHERE price < 10"


def test_orphans_are_removed_and_told(
    cli: CommandLine, user: Connection[TupleRow], tmp_path: Path
) -> None:
    path = ("--sink", "ducklake", "--ducklake-sink-path", str(tmp_path / "lake"))
    assert cli("create", "cheap", "--query", QUERY, *path).exit_code == 0
    orphan = tmp_path / "lake" / "main" / "cheap" / "ducklake-left.parquet"
    orphan.write_bytes(b"PAR1")

    young = cli("lake", "maintain", "--json")
    os.utime(orphan, (0, 0))
    old = cli("lake", "maintain", "--older-than", "2h", "--json")
    again = cli("lake", "maintain")

    assert (young.exit_code, young.json["sinks"][0]["orphans"]) == (0, [])
    assert (old.exit_code, old.json["sinks"][0]["orphans"]) == (0, [str(orphan)])
    assert " ".join(again.stdout.split()) == (
        "public.cheap: 0 files merged, 0 deletes flushed; 0 orphans and 0 replaced files removed"
    )
    assert not orphan.exists()


def test_age_that_is_no_duration_is_told(cli: CommandLine, user: Connection[TupleRow]) -> None:
    answer = cli("lake", "maintain", "--older-than", "soon", "--json")

    assert (answer.exit_code, answer.error["code"]) == (1, "ST501")


def test_tables_are_attached_listed_and_detached(
    cli: CommandLine, user: Connection[TupleRow], tmp_path: Path
) -> None:
    path = ("--sink", "ducklake", "--ducklake-sink-path", str(tmp_path / "lake"))
    assert cli("create", "cheap", "--query", QUERY, *path).exit_code == 0

    attached = cli("lake", "attach", "again", "main.cheap", "--columns", "price", "--json")
    listed = cli("lake", "list")
    refused = cli("lake", "attach", "again", "main.cheap", "--json")
    detached = cli("lake", "detach", "again")

    assert (attached.exit_code, attached.json["landing"]) == (0, "public.again")
    assert attached.json["columns"] == ["price"]
    snapshot = attached.json["snapshot_id"]
    assert listed.stdout.strip() == (
        f"public.again <- main.cheap: snapshot {snapshot}, 1 columns, fallback"
    )
    assert (refused.exit_code, refused.error["code"]) == (1, "ST202")
    assert detached.stdout.strip() == "public.again: detached"
    assert cli("lake", "list", "--json").json == {"sources": []}


def test_catalog_is_shown_and_moved(
    cli: CommandLine, user: Connection[TupleRow], tmp_path: Path
) -> None:
    assert cli("lake", "show").stdout.strip() == "there is no lake yet"
    path = ("--sink", "ducklake", "--ducklake-sink-path", str(tmp_path / "lake"))
    assert cli("create", "cheap", "--query", QUERY, *path).exit_code == 0

    shown = cli("lake", "show").stdout
    [one] = cli("lake", "show", "--json").json["catalogs"]
    moved = cli("lake", "move", "--to", "elsewhere")
    refused = cli("lake", "move", "--from", "nowhere", "--to", "new", "--json")
    back = cli("lake", "move", "--json")
    already = cli("lake", "move")

    assert shown.startswith('schema "ducklake": 1 sinks, 0 attached tables, files below ')
    assert one["attach"] in shown
    assert one["attach"].endswith(" AS lake (METADATA_SCHEMA 'ducklake');")
    assert moved.exit_code == 0
    assert "tables moved from ducklake to elsewhere; 1 sinks and 0 attached tables" in moved.stdout
    assert "METADATA_SCHEMA 'elsewhere'" in moved.stdout
    assert (refused.exit_code, refused.error["code"]) == (1, "ST701")
    assert (back.json["from_schema"], back.json["to_schema"]) == ("elsewhere", "ducklake")
    assert (already.exit_code, "already" in already.stdout) == (0, True)
