"""A dump carries everything, and a restoration makes it again: here, elsewhere, twice, in part."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgtrickle import WrittenDump
from pgtrickle.errors import (
    DefinitionDiffersError,
    DumpDamagedError,
    DumpNotRestorableError,
    DumpTooNewError,
    SettingError,
    TrickleError,
)
from pgtrickle.service.lifecycle.definitions.yaml_text import read_yaml, write_yaml
from tests.fixtures.psql import psql
from tests.labs.circles import EDGES, FEW, answer, walk, with_settings
from tests.labs.lab import Lab
from tests.service.lifecycle.dumping import (
    NAMES,
    contents,
    drop_everything,
    dump_text,
    exports,
    make_everything,
    opened,
    prepare,
    two_roles,
    waits_for_lock,
)

ZERO, PAIR, ABOVE, ODD = NAMES


@pytest.fixture
def full(database: str) -> Iterator[Lab]:
    """Make a database with everything that a dump carries."""
    with two_roles(database) as (reads, asks), opened(database) as lab:
        prepare(lab)
        make_everything(lab, reads, asks)
        yield lab


@pytest.fixture
def empty(other_database: str) -> Iterator[Lab]:
    with opened(other_database) as lab:
        yield lab


@pytest.fixture
def small(postgres_lab: Lab) -> Lab:
    """Make two stream tables, one above the other."""
    postgres_lab.run("CREATE TABLE t (id int PRIMARY KEY, k int)", "INSERT INTO t VALUES (1, 1)")
    postgres_lab.trickle.create_stream_table("counts", "SELECT k, count(*) AS n FROM t GROUP BY k")
    postgres_lab.trickle.create_stream_table("best", "SELECT max(n) AS n FROM counts")
    return postgres_lab


def words(lab: Lab) -> str:
    """Return everything as a script, but for the line with the name of the database."""
    return dump_text(lab).partition("\n")[2]


def statuses(done: Any) -> set[str]:
    return {one.status for one in done}


def test_yaml_brings_everything_back_and_again_changes_nothing(full: Lab, tmp_path: Path):
    before, rows, scripts = dump_text(full), contents(full), exports(full)
    path = tmp_path / "all.yaml"

    written = full.trickle.definitions.dump_definitions(path)
    drop_everything(full)
    restored = full.trickle.definitions.restore_definitions(path)

    assert isinstance(written, WrittenDump)
    assert (written.format, len(written.stream_tables)) == ("yaml", 4)
    assert statuses(restored) == {"created"}
    assert (dump_text(full), contents(full), exports(full)) == (before, rows, scripts)
    assert full.trickle.verify_stream_table(ODD).ok
    again = full.trickle.definitions.restore_definitions(path)
    assert statuses(again) == {"unchanged"}
    assert dump_text(full) == before


def test_script_brings_everything_to_another_database_and_again_changes_nothing(
    full: Lab, empty: Lab
):
    prepare(empty)
    script = dump_text(full)

    with empty.trickle.daemon.serving_requests():
        for _ in range(2):
            said = psql(empty.trickle.dsn, r"\set ON_ERROR_STOP on", script)
            assert said.status == 0, said.err
            assert words(empty) == words(full)
    assert contents(empty) == contents(full)


def test_script_of_one_brings_it_to_another_database_and_again_changes_nothing(
    full: Lab, empty: Lab
):
    """Whoever may not subscribe there is not told; a group comes when all its members are there."""
    prepare(empty)
    with empty.trickle.daemon.serving_requests():
        for name in (ZERO, ODD, ODD):
            script = full.trickle.export_definition(name)
            said = psql(empty.trickle.dsn, r"\set ON_ERROR_STOP on", script)
            assert said.status == 0, said.err
        for role, level in full.rows("SELECT * FROM pgtrickle.list_access()"):
            empty.trickle.grant_access(role, level)
        for name in (ZERO,):
            script = full.trickle.export_definition(name)
            said = psql(empty.trickle.dsn, r"\set ON_ERROR_STOP on", script)
            assert said.status == 0, said.err
    there = exports(empty)

    assert there[f"public.{ZERO}"] == full.trickle.export_definition(ZERO)
    assert "create_watermark_group" in there[ODD]
    assert "advance_watermark" in there[ODD]
    assert "gate_source" in there[ODD]


@pytest.mark.parametrize("form", ["sql", "yaml"])
def test_directory_with_a_file_per_definition(full: Lab, empty: Lab, tmp_path: Path, form: str):
    prepare(empty)
    path = tmp_path / "dump"
    dump = full.trickle.definitions.dump_definitions
    dump(path, format=form, per_table=True)

    assert sum("Sum_of" in one.name for one in path.iterdir()) == 1
    with pytest.raises(SettingError, match="not empty"):
        dump(path, format=form, per_table=True)
    if form == "yaml":
        empty.trickle.definitions.restore_definitions(path)
    else:
        with empty.trickle.daemon.serving_requests():
            said = psql(empty.trickle.dsn, r"\set ON_ERROR_STOP on", f"\\i {path / 'dump.sql'}")
        assert said.status == 0, said.err
    assert words(empty) == words(full)


def test_rows_come_along_and_the_next_refresh_reinitializes(small: Lab, tmp_path: Path):
    path = tmp_path / "dump"
    small.run("GRANT SELECT ON counts TO PUBLIC")
    rows, before = contents(small), dump_text(small)
    written = small.trickle.definitions.dump_definitions(path, format="yaml", with_data=True)
    drop_everything(small)
    small.run("INSERT INTO t VALUES (2, 1), (3, 3)")

    restored = small.trickle.definitions.restore_definitions(path)

    assert isinstance(written, WrittenDump)
    assert written.rows == sum(one.rows or 0 for one in restored) == 2
    assert contents(small) == rows  # of then, and not of the sources of today
    assert dump_text(small) == before
    assert statuses(small.trickle.definitions.restore_definitions(path)) == {"unchanged"}
    for name in ("counts", "best"):
        report = small.trickle.refresh_stream_table(name)
        assert report.action.value == "REINITIALIZE", report.reason
        assert small.trickle.verify_stream_table(name).ok
    small.run("DELETE FROM t WHERE id = 1")
    assert small.trickle.refresh_stream_table("counts").action.value == "DIFFERENTIAL"
    assert small.trickle.verify_stream_table("counts").ok


def test_dump_is_of_one_moment(small: Lab, tmp_path: Path):
    """A stream table changes after the definitions were read, and before its rows are."""
    before, path = contents(small), tmp_path / "dump"
    dump = small.trickle.definitions.dump_definitions
    with psycopg.connect(small.trickle.dsn) as other:
        other.execute("LOCK TABLE counts IN ACCESS EXCLUSIVE MODE")
        thread = threading.Thread(
            target=lambda: dump(path, format="yaml", with_data=True), daemon=True
        )
        thread.start()
        waits_for_lock(small)
        other.execute("SELECT pgtrickle.open_guard('counts')")
        other.execute("INSERT INTO counts VALUES (7, 7)")
        other.execute("COMMENT ON TABLE counts IS 'later'")
        other.commit()
        thread.join()
    assert contents(small) != before
    drop_everything(small)
    small.trickle.definitions.restore_definitions(path)

    assert contents(small) == before
    assert "later" not in dump_text(small)


def test_what_is_missing_of_a_definition_is_added(full: Lab, tmp_path: Path):
    """As a restoration leaves it that was interrupted anywhere."""
    before, path = dump_text(full), tmp_path / "all.yaml"
    full.trickle.definitions.dump_definitions(path)
    full.trickle.scheduler.set_stream_table_sla(ODD, None)
    full.run(
        f"COMMENT ON TABLE {ODD} IS NULL",
        f"ALTER TABLE {ODD} DROP CONSTRAINT positive",
        f"DROP POLICY everyone ON {ODD}",
        f"DROP TRIGGER quiet ON {ODD}",
        f"ALTER TABLE {ODD} RESET (fillfactor)",
        f"ALTER TABLE {ODD} REPLICA IDENTITY DEFAULT",
        f"ALTER TABLE {ODD} DISABLE ROW LEVEL SECURITY",
        f'COMMENT ON COLUMN {ODD}."n""x" IS NULL',
        f"REVOKE SELECT ON {ZERO} FROM PUBLIC",
        "COMMENT ON VIEW by_region IS NULL",
        "DELETE FROM pgtrickle.pgt_subscriptions",
        "DELETE FROM pgtrickle.pgt_watermark_groups",
    )
    full.trickle.alter_stream_table(ODD, tier="hot", engine="spark")
    full.run("UPDATE pgtrickle.pgt_stream_tables SET engine = NULL")
    full.trickle.scheduler.resume_scheduler(PAIR)

    restored = full.trickle.definitions.restore_definitions(path)

    assert {one.name: one.status for one in restored}["public.zero"] == "completed"
    assert dump_text(full) == before


def test_other_definitions_are_refused_by_name_or_replaced(full: Lab, tmp_path: Path):
    before, path = dump_text(full), tmp_path / "all.yaml"
    full.trickle.definitions.dump_definitions(path)
    full.trickle.alter_stream_table(ODD, tier="warm", schedule="9m")
    full.trickle.scheduler.set_stream_table_sla(ABOVE, None)
    full.trickle.alter_stream_table(ABOVE, schedule="1m")
    full.trickle.scheduler.set_stream_table_sla(ABOVE, "3m")
    full.trickle.outbox.disable_outbox(ODD)
    full.trickle.outbox.enable_outbox(ABOVE, retention_hours=1)
    full.trickle.resume_stream_table(ZERO)
    pair = full.value(f"SELECT pgtrickle.stream_table_spec('{PAIR}') ->> 'query'")
    full.trickle.alter_stream_table(PAIR, query=f"{pair} WHERE area <> 'x'")
    full.run(
        f"COMMENT ON TABLE {ODD} IS 'another'",
        'DROP INDEX "We ""said"" ☃"."an; index"',
        f'CREATE INDEX "an; index" ON {ODD} (region)',
        f"DROP POLICY everyone ON {ODD}",
        f"CREATE POLICY everyone ON {ODD} USING (false)",
        "SELECT pgtrickle.set_setting('lease_seconds', '99')",
    )
    full.trickle.scheduler.drop_watermark_group("it's nightly")
    full.trickle.scheduler.create_watermark_group("it's nightly", ["orders", "regions"], 61)
    changed = dump_text(full)

    with pytest.raises(DefinitionDiffersError) as caught:
        full.trickle.definitions.restore_definitions(path)

    said = caught.value.detail
    for one in (
        "tier is warm, not cold",
        "schedule is 9m, not 7m",
        "public.pair: its query is another",
        "public.above: its service level is 180 s, not 150 s",
        "public.above: its outbox keeps something else",
        "its comment is another",
        "its index an; index is another",
        "its policy everyone is another",
        "the setting lease_seconds is 99, not 31",
        "the watermark group it's nightly is another",
    ):
        assert one in said
    assert "--replace" in caught.value.hint
    assert dump_text(full) == changed
    restored = full.trickle.definitions.restore_definitions(path, replace=True)
    assert {one.name: one.status for one in restored}["public.pair"] == "replaced"
    assert dump_text(full) == before


def test_everything_that_is_missing_is_said_at_once(full: Lab, empty: Lab, tmp_path: Path):
    path = tmp_path / "all.yaml"
    full.trickle.definitions.dump_definitions(path)
    document = read(path)
    document["access"][0]["role"] = "nobody; at all"
    path.write_text(write_yaml(document))
    empty.run("CREATE TABLE zero (region text)")

    with pytest.raises(DumpNotRestorableError) as caught:
        empty.trickle.definitions.restore_definitions(path)

    assert caught.value.detail.splitlines() == [
        "public.zero is another relation",
        "the function public.twice(integer) does not exist",
        'the role "nobody; at all" does not exist',
        'the schema "We ""said"" ☃" does not exist',
        "the source public.orders does not exist",
        "the source public.regions does not exist",
    ]
    assert empty.rows("SELECT name FROM pgtrickle.pgt_status()") == []
    assert (
        empty.value("SELECT value FROM pgtrickle.pgt_settings WHERE name = 'lease_seconds'") is None
    )


def test_circle_is_closed_again(postgres_lab: Lab, tmp_path: Path):
    lab, path = postgres_lab, tmp_path / "all.yaml"
    lab.run(EDGES, FEW)
    with with_settings(lab, allow_circular=True):
        lab.trickle.create_stream_table("walk_1", "SELECT DISTINCT src, dst FROM edge")
        lab.trickle.create_stream_table("walk_0", walk(0, 2))
        lab.trickle.alter_stream_table(
            "walk_1", query=f"SELECT src, dst FROM edge UNION {walk(1, 2)}"
        )
        lab.trickle.create_stream_table("above", "SELECT count(*) AS n FROM walk_0")
    before, script = contents(lab), dump_text(lab)
    lab.trickle.definitions.dump_definitions(path)
    names = [one["name"] for one in read(path)["items"] if one["kind"] != "placeholder"]
    drop_everything(lab)

    with pytest.raises(DumpNotRestorableError, match="1 obstacles") as caught:
        lab.trickle.definitions.restore_definitions(path)
    assert "allow_circular is off" in caught.value.detail
    with with_settings(lab, allow_circular=True):
        assert statuses(lab.trickle.definitions.restore_definitions(path)) <= {
            "created",
            "completed",
        }
        assert statuses(lab.trickle.definitions.restore_definitions(path)) == {"unchanged"}

    assert names[-1] == "public.above"
    assert (contents(lab), dump_text(lab)) == (before, script)
    assert lab.rows("TABLE walk_0") == lab.rows(answer(0, 2))
    drop_everything(lab)
    with with_settings(lab, allow_circular=True), lab.trickle.daemon.serving_requests():
        for _ in range(2):
            said = psql(lab.trickle.dsn, r"\set ON_ERROR_STOP on", script)
            assert said.status == 0, said.err
            assert (contents(lab), dump_text(lab)) == (before, script)


def read(path: Path) -> Any:
    return read_yaml(path.read_text(), str(path))


Damage = Callable[[str], str]
DAMAGES: dict[str, tuple[type[TrickleError], Damage]] = {
    "cut off": (DumpDamagedError, lambda text: text[: len(text) * 2 // 3]),
    "without its end": (DumpDamagedError, lambda text: text.replace("complete: true\n", "")),
    "empty": (DumpDamagedError, lambda _: ""),
    "another document": (DumpDamagedError, lambda _: "a: 1\n"),
    "no YAML": (DumpDamagedError, lambda text: "{" + text),
    "a script": (DumpDamagedError, lambda _: "-- Definitions\nDROP TABLE t;\n"),
    "of a later version": (
        DumpTooNewError,
        lambda text: text.replace("pgtrickle_dump: 1", "pgtrickle_dump: 2"),
    ),
    "a number for a name": (
        DumpDamagedError,
        lambda text: text.replace("name: public.best", "name: 7"),
    ),
    "an unknown entry": (
        DumpDamagedError,
        lambda text: text.replace("paused: false", "run: rm -rf\n  paused: false"),
    ),
    "an unknown kind": (
        DumpDamagedError,
        lambda text: text.replace("kind: stream table", "kind: program"),
    ),
    "references": (
        DumpDamagedError,
        lambda text: text.replace("gates: []", "gates: &a []").replace(
            "watermarks: []", "watermarks: *a"
        ),
    ),
    "an object of Python": (
        DumpDamagedError,
        lambda text: text.replace("gates: []", "gates: !!python/object/apply:os.getcwd []"),
    ),
    "an unknown word": (
        DumpNotRestorableError,
        lambda text: text.replace("tier: hot", "tier: lukewarm"),
    ),
    "a service level without end": (
        DumpNotRestorableError,
        lambda text: text.replace("paused: false", "paused: false\n  sla_s: .inf", 1),
    ),
    "a service level that is no number": (
        DumpDamagedError,
        lambda text: text.replace("paused: false", "paused: false\n  sla_s: soon", 1),
    ),
    "an outbox that keeps nothing for ever": (
        DumpNotRestorableError,
        lambda text: text.replace(
            "paused: false",
            "paused: false\n  outbox: {retention_hours: .inf, inline_threshold_rows: 1}",
            1,
        ),
    ),
    "an outbox without an end": (
        DumpDamagedError,
        lambda text: text.replace("paused: false", "paused: false\n  outbox: {}", 1),
    ),
    "nested without end": (DumpDamagedError, lambda _: "a: " + "[" * 2_000),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_dump_is_refused_before_anything_happens(small: Lab, tmp_path: Path, damage: str):
    path = tmp_path / "all.yaml"
    small.trickle.definitions.dump_definitions(path)
    error, change = DAMAGES[damage]
    text = change(path.read_text())
    assert text != path.read_text()
    path.write_text(text)
    drop_everything(small)

    with pytest.raises(error) as caught:
        small.trickle.definitions.restore_definitions(path)

    assert caught.value.hint
    assert small.rows("SELECT name FROM pgtrickle.pgt_status()") == []


def test_rows_that_were_changed_or_lie_elsewhere_are_refused(small: Lab, tmp_path: Path):
    path, secret = tmp_path / "dump", tmp_path / "secret"
    secret.write_text("1\t1\n")
    small.trickle.definitions.dump_definitions(path, format="yaml", with_data=True)
    restore = small.trickle.definitions.restore_definitions
    drop_everything(small)
    [rows] = path.glob("*counts.rows")
    part = rows.with_suffix(".yaml")
    good = part.read_text()

    part.write_text(good.replace(f"file: {rows.name}", "file: ../secret"))
    with pytest.raises(DumpDamagedError, match="not the name of a part"):
        restore(path)
    part.write_text(good)
    rows.write_text(rows.read_text() + "2\t2\n")
    with pytest.raises(DumpDamagedError, match="not those that were dumped"):
        restore(path)
    rows.unlink()
    with pytest.raises(DumpDamagedError, match="No such file"):
        restore(path)
    assert small.rows("SELECT name FROM pgtrickle.pgt_status()") == []


OBJECTS = {
    "index": {"kind": "index", "name": "x", "definition": "USING btree (k); DROP TABLE safe"},
    "constraint": {"kind": "constraint", "name": "x", "definition": "CHECK (true);"
                   " DROP TABLE safe"},
    "policy": {"kind": "policy", "name": "x", "definition": "USING (true); DROP TABLE safe"},
    "trigger": {"kind": "trigger", "name": "x", "definition": "AFTER INSERT ON counts EXECUTE"
                " FUNCTION pgtrickle.refuse_write(); DROP TABLE safe"},
    "statistics": {"kind": "statistics", "name": "public.x; DROP TABLE safe", "definition":
                   "ON k, n FROM counts"},
    "name": {"kind": "index", "name": "x\" ON counts (k); DROP TABLE safe --",
             "definition": "; DROP"},
    "kind": {"kind": "table safe; DROP TABLE safe", "name": "x", "definition": ""},
}  # fmt: skip


@pytest.mark.parametrize("kind", OBJECTS)
def test_file_cannot_bring_a_statement_of_its_own(small: Lab, tmp_path: Path, kind: str):
    path = tmp_path / "all.yaml"
    small.trickle.definitions.dump_definitions(path)
    document = read(path)
    document["items"][0]["table"]["objects"] = [OBJECTS[kind]]
    path.write_text(write_yaml(document))
    drop_everything(small)
    small.run("CREATE TABLE safe ()")

    with pytest.raises(TrickleError):
        small.trickle.definitions.restore_definitions(path)

    assert small.value("SELECT to_regclass('safe')") == "safe"


def test_grants_and_views_of_a_file_are_no_statements_either(small: Lab, tmp_path: Path):
    path = tmp_path / "all.yaml"
    small.trickle.definitions.dump_definitions(path)
    document = read(path)
    small.run("CREATE TABLE safe ()")
    for privilege in ("SELECT ON safe TO PUBLIC; DROP TABLE safe; GRANT SELECT", "ALL"):
        document["items"][0]["table"]["grants"] = [{"privileges": [privilege]}]
        path.write_text(write_yaml(document))
        with pytest.raises(TrickleError):
            small.trickle.definitions.restore_definitions(path)
    del document["items"][0]["table"]["grants"]
    view = {"kind": "view", "name": "v", "definition": "AS SELECT 1; DROP TABLE safe", "table": {}}
    document["items"].append(view)
    path.write_text(write_yaml(document))
    with pytest.raises(TrickleError):
        small.trickle.definitions.restore_definitions(path)

    assert small.value("SELECT to_regclass('safe')") == "safe"
    assert small.value("SELECT relacl FROM pg_class WHERE relname = 'safe'") is None


def test_reader_exports_and_dumps_without_the_subscriptions_of_others(full: Lab):
    [(role,)] = full.rows("SELECT rolname FROM pg_roles WHERE rolname LIKE 'Role \"reads%'")
    quoted = '"' + role.replace('"', '""') + '"'
    full.run(f"SET ROLE {quoted}")
    try:
        script = full.value(f"SELECT pgtrickle.export_definition('{ZERO}')")
        whole = dump_text(full)
    finally:
        full.run("RESET ROLE")

    assert "told; ☃" not in script + whole
    assert f"pgtrickle.subscribe('public.{ZERO}', 'told; ☃')" in dump_text(full)


def test_names_of_a_moment_ago_are_exported_in_sql(small: Lab):
    """Nobody has followed the rename yet."""
    small.run("ALTER TABLE counts RENAME TO tally", "GRANT SELECT ON tally TO PUBLIC")

    script = small.value("SELECT pgtrickle.export_definition('tally')")
    assert "create_or_replace_stream_table('public.tally'" in script
    assert "GRANT SELECT ON TABLE public.tally TO PUBLIC" in script
    assert script.partition("RESET")[0] in dump_text(small)


def test_output_and_format_have_to_go_together(small: Lab, tmp_path: Path):
    dump = small.trickle.definitions.dump_definitions
    for options in (
        {"with_data": True},
        {"output": tmp_path / "x", "with_data": True, "format": "sql"},
        {"per_table": True},
        {"format": "xml"},
        {"output": tmp_path / "missing" / "x.yaml"},
    ):
        with pytest.raises(SettingError):
            dump(**options)
    assert dump() == dump_text(small)
    assert dump(format="yaml") == dump(format="yaml")
    assert list(tmp_path.iterdir()) == []
