"""Nobody's code runs with our rights because it hangs on a table of the lake's catalog."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pgtrickle.errors import LakeCatalogError, TrickleError
from pgtrickle.lake.format.catalog import find_catalog
from pgtrickle.lake.format.trust import check_tables
from pgtrickle.lake.reader.open import LakeRead, describe
from pgtrickle.lake.write.commit_turns import take_turn
from pgtrickle.model.text.names import QualifiedName
from tests.security.bench import Bench
from tests.security.lake_bench import TABLE, LakeBench, a_lake

SPY = (
    "CREATE SCHEMA spy AUTHORIZATION {attacker}",
    "GRANT USAGE ON SCHEMA spy TO PUBLIC",
)
CODE = (
    "CREATE TABLE spy.seen (who text)",
    "GRANT INSERT ON spy.seen TO PUBLIC",
    "CREATE FUNCTION spy.look() RETURNS boolean LANGUAGE plpgsql AS"
    " $$ BEGIN INSERT INTO spy.seen VALUES (current_user); RETURN true; END $$",
    "CREATE FUNCTION spy.fire() RETURNS trigger LANGUAGE plpgsql AS"
    " $$ BEGIN PERFORM spy.look(); RETURN NEW; END $$",
)
# As owner of the table; {name} stands for it.
TRAPS = {
    "trigger": (
        "CREATE TRIGGER t BEFORE INSERT ON {name} FOR EACH ROW EXECUTE FUNCTION spy.fire()",
    ),
    "condition": (
        "CREATE TRIGGER t BEFORE INSERT ON {name} FOR EACH ROW WHEN (spy.look())"
        " EXECUTE FUNCTION pg_catalog.suppress_redundant_updates_trigger()",
    ),
    "rule": ("CREATE RULE r AS ON INSERT TO {name} DO ALSO SELECT spy.look()",),
    "policy": (
        "CREATE POLICY p ON {name} USING (spy.look())",
        "ALTER TABLE {name} ENABLE ROW LEVEL SECURITY",
    ),
    "check": ("ALTER TABLE {name} ADD CHECK (spy.look()) NOT VALID",),
    "default": ("ALTER TABLE {name} ADD COLUMN more boolean DEFAULT spy.look()",),
    "index": (
        "CREATE FUNCTION spy.pure(bigint) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS"
        " $$ BEGIN PERFORM spy.look(); RETURN true; END $$",
        "CREATE INDEX ON {name} (spy.pure(snapshot_id))",
    ),
    "domain": (
        "CREATE DOMAIN spy.number AS bigint CHECK (spy.look())",
        "ALTER TABLE {name} ALTER snapshot_id TYPE spy.number",
    ),
    "child": ("CREATE TABLE spy.child () INHERITS ({name})",),
    "view": (
        "ALTER TABLE {name} RENAME TO kept",
        "CREATE VIEW {name} AS SELECT * FROM lake.kept WHERE spy.look()",
        "GRANT ALL ON {name} TO PUBLIC",
    ),
}


@pytest.fixture
def lake(bench: Bench, tmp_path: Path) -> Iterator[LakeBench]:
    with a_lake(bench, tmp_path) as made:
        bench.run("admin", *SPY)
        bench.run("attacker", *CODE)
        yield made


def _seen(lake: LakeBench) -> object:
    owner = lake.bench.roles["owner"]
    return lake.bench.value("admin", f"SELECT count(*) FROM spy.seen WHERE who = '{owner}'")


@pytest.mark.parametrize("kind", TRAPS)
def test_tables_of_others_must_hold_no_code(lake: LakeBench, kind: str):
    lake.bench.run(
        "admin",
        "ALTER TABLE lake.ducklake_snapshot OWNER TO {attacker}",
        "GRANT ALL ON lake.ducklake_snapshot TO {owner}",
        "GRANT CREATE ON SCHEMA lake TO {attacker}",
    )
    lake.change()
    assert lake.sink_error() == ""  # of another role, and harmless
    lake.attack(*(one.replace("{name}", "lake.ducklake_snapshot") for one in TRAPS[kind]))
    lake.attack("TRUNCATE spy.seen")

    lake.change()
    maintained = lake.tidy()

    assert lake.sink_error().startswith("ST701")
    assert maintained.startswith("ST701")
    for attempt in (
        lambda: lake.trickle.lake.attach_ducklake_table("shop.followed", "main.revenue"),
        lambda: describe(
            LakeRead(lake.bench.dsn_of("owner"), "lake", QualifiedName("main", "revenue"))
        ),
    ):
        with pytest.raises(TrickleError) as raised:
            attempt()
        assert raised.value.code == "ST701"
    assert _seen(lake) == 0
    lake.trickle.drop_stream_table(TABLE)  # which a lake of others cannot prevent
    assert _seen(lake) == 0


@pytest.mark.parametrize("kind", ["trigger", "condition"])
def test_a_trigger_on_our_own_table_is_found(lake: LakeBench, kind: str):
    lake.bench.run("owner", "GRANT TRIGGER ON ALL TABLES IN SCHEMA lake TO {attacker}")
    lake.attack(*(one.replace("{name}", "lake.ducklake_data_file") for one in TRAPS[kind]))

    lake.change()

    assert lake.sink_error().startswith("ST701")
    assert _seen(lake) == 0


def test_a_trigger_that_comes_just_before_the_commit_is_found(lake: LakeBench):
    lake.bench.run("owner", "GRANT TRIGGER ON ALL TABLES IN SCHEMA lake TO {attacker}")
    owner = lake.bench.open("owner", autocommit=False)
    catalog = find_catalog(owner, "lake")
    assert catalog is not None
    lake.attack(*(one.replace("{name}", "lake.ducklake_data_file") for one in TRAPS["trigger"]))

    with pytest.raises(LakeCatalogError):
        take_turn(owner, catalog)


def test_no_trigger_can_come_while_we_commit(lake: LakeBench):
    lake.bench.run("owner", "GRANT TRIGGER ON ALL TABLES IN SCHEMA lake TO {attacker}")
    owner = lake.bench.open("owner", autocommit=False)
    catalog = find_catalog(owner, "lake")
    assert catalog is not None
    take_turn(owner, catalog)

    with pytest.raises(psycopg.errors.LockNotAvailable):
        lake.attack(
            "SET lock_timeout = '100ms'",
            *(one.replace("{name}", "lake.ducklake_data_file") for one in TRAPS["trigger"]),
        )


def test_a_row_cannot_name_another_relation_as_rows_of_a_table(lake: LakeBench):
    lake.bench.run("admin", "GRANT CREATE ON SCHEMA lake TO {attacker}")
    lake.attack(
        "CREATE VIEW lake.ducklake_trap AS SELECT 1::bigint AS row_id, 0::bigint AS begin_snapshot,"
        " NULL::bigint AS end_snapshot, 'x' AS region, 1 AS total WHERE spy.look()",
        "GRANT ALL ON lake.ducklake_trap TO PUBLIC",
        "INSERT INTO lake.ducklake_inlined_data_tables"
        " SELECT table_id, 'ducklake_trap', 1 FROM lake.ducklake_table",
    )

    with pytest.raises(TrickleError) as raised:
        lake.trickle.lake.attach_ducklake_table("shop.followed", "main.revenue")

    assert raised.value.code == "ST701"
    assert _seen(lake) == 0


def test_a_table_made_before_ours_is_looked_at(lake: LakeBench):
    lake.bench.run("admin", "GRANT CREATE ON SCHEMA lake TO {attacker}")
    [(table_id,)] = lake.rows("SELECT table_id FROM lake.ducklake_table")
    name = f"lake.ducklake_inlined_delete_{table_id}"
    lake.attack(
        f"CREATE TABLE {name} (file_id bigint, row_id bigint, begin_snapshot bigint)",
        f"GRANT ALL ON {name} TO PUBLIC",
        *(one.replace("{name}", name) for one in TRAPS["trigger"]),
    )

    lake.change()

    assert lake.sink_error().startswith("ST701")
    assert _seen(lake) == 0


def test_own_triggers_and_views_of_other_names_are_no_reason(lake: LakeBench):
    lake.bench.run(
        "owner",
        "CREATE FUNCTION shop.note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
        "CREATE TRIGGER t BEFORE INSERT ON lake.ducklake_snapshot"
        " FOR EACH ROW EXECUTE FUNCTION shop.note()",
        "CREATE VIEW lake.ducklake_overview AS SELECT 1",
    )

    check_tables(lake.bench.open("owner"), "lake")
    lake.change()

    assert lake.sink_error() == ""
