"""Every committed change of a captured table reaches its buffer, whoever makes it and how."""

from __future__ import annotations

from collections import Counter

import psycopg
import pytest
from psycopg import sql

from pgtrickle.capture.buffers import buffer_name, list_buffer_columns
from pgtrickle.capture.triggers import drop_capture, install_capture
from pgtrickle.errors import (
    PrivilegeError,
    ReservedColumnError,
    SourceNotFoundError,
    SourceSchemaChangedError,
    UnsupportedSourceError,
)
from tests.capture.readers import capture, changes, count_buffer, relid_of, table
from tests.catalog.databases import SHADOWS, Database, become, value


def test_insert_update_delete_become_weights(connection: Database):
    captured = capture(connection, "orders", "id", "qty")
    connection.execute("INSERT INTO orders (id, qty) VALUES (1, 10), (2, 20), (3, 30)")
    connection.execute("UPDATE orders SET qty = qty + 1 WHERE id <= 2")
    connection.execute("DELETE FROM orders WHERE id = 3")

    rows = connection.execute(
        f"SELECT __weight, id, qty FROM {captured.buffer.sql} ORDER BY 2, 3, 1".encode()
    ).fetchall()
    assert rows == [
        (-1, 1, 10), (1, 1, 10), (1, 1, 11),
        (-1, 2, 20), (1, 2, 20), (1, 2, 21),
        (-1, 3, 30), (1, 3, 30),
    ]  # fmt: skip
    assert changes(connection, captured) == table(connection, captured)


def test_upsert_merge_copy_and_writing_ctes_are_captured(connection: Database):
    captured = capture(connection, "orders", "id", "qty")
    connection.execute("INSERT INTO orders (id, qty) VALUES (1, 1), (2, 2)")
    connection.execute(
        "INSERT INTO orders (id, qty) VALUES (2, 5), (3, 3) "
        "ON CONFLICT (id) DO UPDATE SET qty = excluded.qty"
    )
    connection.execute(
        "MERGE INTO orders o USING (VALUES (1), (9)) AS v (id) ON o.id = v.id "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, qty) VALUES (v.id, 9)"
    )
    with connection.cursor().copy("COPY orders (id, qty) FROM STDIN") as copy:
        copy.write_row((20, 20))
    connection.execute(
        "WITH gone AS (DELETE FROM orders WHERE id = 20 RETURNING id) "
        "INSERT INTO orders (id, qty) SELECT id + 1, 0 FROM gone"
    )

    assert changes(connection, captured) == table(connection, captured)
    assert changes(connection, captured) == Counter([(2, 5), (3, 3), (9, 9), (21, 0)])


def test_foreign_key_cascade_is_captured(connection: Database):
    connection.execute(
        "CREATE TABLE lines (order_id bigint REFERENCES orders ON DELETE CASCADE, n int)"
    )
    captured = capture(connection, "lines", "order_id", "n")
    connection.execute("INSERT INTO orders (id) VALUES (1), (2)")
    connection.execute("INSERT INTO lines VALUES (1, 1), (1, 2), (2, 3)")

    connection.execute("DELETE FROM orders WHERE id = 1")

    assert changes(connection, captured) == Counter([(2, 3)])


def test_keyless_duplicates_are_counted(connection: Database):
    connection.execute("CREATE TABLE bag (a int, b text)")
    captured = capture(connection, "bag", "a", "b")
    connection.execute("INSERT INTO bag VALUES (1, 'x'), (1, 'x'), (1, 'x'), (2, NULL)")
    connection.execute("DELETE FROM bag WHERE ctid = (SELECT ctid FROM bag WHERE a = 1 LIMIT 1)")
    connection.execute(
        "UPDATE bag SET a = 3 WHERE ctid = (SELECT ctid FROM bag WHERE a = 1 LIMIT 1)"
    )

    assert changes(connection, captured) == Counter([(1, "x"), (2, None), (3, "x")])

    connection.execute("DELETE FROM bag")
    connection.execute("INSERT INTO bag VALUES (1, 'x'), (1, 'x')")
    assert changes(connection, captured) == Counter({(1, "x"): 2})


def test_truncate_writes_one_marker(connection: Database):
    captured = capture(connection, "orders", "id", "qty")
    connection.execute("INSERT INTO orders (id, qty) VALUES (1, 1), (2, 2)")

    connection.execute("TRUNCATE orders")

    markers = connection.execute(
        f"SELECT id, qty FROM {captured.buffer.sql} WHERE __weight = 0".encode()
    ).fetchall()
    assert markers == [(None, None)]


def test_truncate_marker_fits_columns_that_forbid_null(connection: Database):
    connection.execute("CREATE DOMAIN code AS varchar(5) NOT NULL CHECK (value <> '')")
    connection.execute("CREATE TABLE strict (id int PRIMARY KEY, code code)")
    captured = capture(connection, "strict", "id", "code")
    connection.execute("INSERT INTO strict VALUES (1, 'abc')")

    connection.execute("TRUNCATE strict")

    assert count_buffer(connection, captured) == 2
    assert list_buffer_columns(connection, captured.source_relid) == {
        "id": "integer",
        "code": "character varying",
    }


def test_rollback_leaves_nothing(connection: Database):
    captured = capture(connection, "orders", "id")
    with connection.transaction(force_rollback=True):
        connection.execute("INSERT INTO orders (id) VALUES (1)")

    assert count_buffer(connection, captured) == 0


def test_savepoint_rollback_leaves_only_what_was_kept(connection: Database):
    captured = capture(connection, "orders", "id")
    with connection.transaction():
        connection.execute("INSERT INTO orders (id) VALUES (1)")
        with connection.transaction(force_rollback=True):
            connection.execute("INSERT INTO orders (id) VALUES (2)")
        with connection.transaction():
            connection.execute("INSERT INTO orders (id) VALUES (3)")

    assert changes(connection, captured) == Counter([(1,), (3,)])
    assert value(connection, f"SELECT count(DISTINCT __xid) FROM {captured.buffer.sql}") == 1


def test_statement_that_touches_no_row_assigns_no_transaction_id(connection: Database):
    capture(connection, "orders", "id")
    with connection.transaction():
        connection.execute("UPDATE orders SET qty = 0 WHERE id = -1")
        connection.execute("DELETE FROM orders WHERE id = -1")
        assert value(connection, "SELECT pg_current_xact_id_if_assigned()") is None


def test_writer_needs_no_right_on_our_schemas(connection: Database, role: str):
    captured = capture(connection, "orders", "id", "qty")
    connection.execute(sql.SQL("GRANT ALL ON orders TO {}").format(sql.Identifier(role)))
    become(connection, role)

    connection.execute("INSERT INTO orders (id, qty) VALUES (1, 1)")
    connection.execute("UPDATE orders SET qty = 2")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        count_buffer(connection, captured)

    connection.execute("RESET SESSION AUTHORIZATION")
    assert changes(connection, captured) == Counter([(1, 2)])


def test_everyone_is_kept_out_of_buffers_and_functions(connection: Database, role: str):
    connection.execute("ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC")
    captured = capture(connection, "orders", "id")

    may_read = value(
        connection, "SELECT has_table_privilege(%s, %s, 'SELECT')", role, captured.buffer.sql
    )
    function = f"pgtrickle_changes.capture_{captured.source_relid}_insert()"
    may_call = value(connection, "SELECT has_function_privilege(%s, %s, 'EXECUTE')", role, function)
    assert (may_read, may_call) == (False, False)


def test_shadowing_functions_are_not_called(connection: Database):
    connection.execute(SHADOWS)
    captured = capture(connection, "public.orders", "id", "status")

    connection.execute("INSERT INTO public.orders (id, status) VALUES (1, 'new')")
    connection.execute("UPDATE public.orders SET status = 'old'")

    assert changes(connection, captured) == Counter([(1, "old")])


def test_row_security_of_the_source_hides_nothing(connection: Database, role: str):
    captured = capture(connection, "orders", "id")
    connection.execute(
        "ALTER TABLE orders ENABLE ROW LEVEL SECURITY;"
        "CREATE POLICY writing ON orders FOR INSERT WITH CHECK (true)"
    )
    connection.execute(sql.SQL("GRANT INSERT ON orders TO {}").format(sql.Identifier(role)))
    become(connection, role)

    connection.execute("INSERT INTO orders (id) VALUES (1)")

    connection.execute("RESET SESSION AUTHORIZATION")
    assert changes(connection, captured) == Counter([(1,)])


def test_replica_sessions_are_captured(connection: Database):
    captured = capture(connection, "orders", "id")
    connection.execute("SET session_replication_role = replica")

    connection.execute("INSERT INTO orders (id) VALUES (1)")

    assert changes(connection, captured) == Counter([(1,)])


def test_odd_names_are_quoted(connection: Database):
    connection.execute(
        'CREATE SCHEMA "My App"; CREATE TABLE "My App"."Or""ders%" '
        '("Select" int, "a b" text, "%s" int, "{x}" int, "$$" int, "__new" int, "it\'s" int)'
    )
    columns = ("Select", "a b", "%s", "{x}", "$$", "__new", "it's")
    captured = capture(connection, '"My App"."Or""ders%"', *columns)

    connection.execute(b'INSERT INTO "My App"."Or""ders%" VALUES (1, \'x\', 2, 3, 4, 5, 6)')
    connection.execute(b'UPDATE "My App"."Or""ders%" SET "Select" = 7')

    assert changes(connection, captured) == Counter([(7, "x", 2, 3, 4, 5, 6)])


def test_common_types_are_kept_as_they_are(connection: Database):
    connection.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
    connection.execute(
        "CREATE TABLE kinds (a numeric, b numeric(12, 4), c char(3), d timestamptz(3), e interval,"
        ' f uuid, g jsonb, h int[], i mood, j bytea, k text COLLATE "C", l json,'
        " m int GENERATED ALWAYS AS (1) STORED)"
    )
    relid = relid_of(connection, "kinds")
    captured = capture(connection, "kinds", *"abcdefghijklm")

    connection.execute(
        "INSERT INTO kinds VALUES ('1.50', 2, 'x', now(), '1 mon', gen_random_uuid(), '{}', '{1}',"
        " 'ok', '\\x00', 'y', '{ }')"
    )

    assert list_buffer_columns(connection, relid) == {
        "a": "numeric", "b": "numeric", "c": "bpchar",
        "d": "timestamp with time zone", "e": "interval", "f": "uuid", "g": "jsonb",
        "h": "integer[]", "i": "mood", "j": "bytea", "k": "text COLLATE pg_catalog.\"C\"",
        "l": "json", "m": "integer",
    }  # fmt: skip
    stored = f"SELECT ROW({', '.join(captured.columns)})::text FROM"
    assert value(connection, f"{stored} kinds") == value(
        connection, f"{stored} {captured.buffer.sql}"
    )


def test_capture_is_widened_and_shared(connection: Database):
    first = capture(connection, "orders", "id")
    connection.execute("INSERT INTO orders (id, qty) VALUES (1, 1)")
    second = capture(connection, "orders", "qty", "status")
    connection.execute("INSERT INTO orders (id, qty, status) VALUES (2, 2, 'new')")
    third = capture(connection, "orders", "id")

    assert first.columns == ("id",)
    assert second.columns == third.columns == ("id", "qty", "status")
    assert changes(connection, third) == Counter([(1, None, None), (2, 2, "new")])


def test_capture_of_no_columns_still_counts_rows(connection: Database):
    captured = capture(connection, "orders")
    connection.execute("INSERT INTO orders (id) VALUES (1), (2)")

    assert captured.columns == ()
    assert count_buffer(connection, captured) == 2


def test_changed_types_and_dropped_columns_are_repaired(connection: Database):
    capture(connection, "orders", "id", "qty", "status")
    connection.execute("INSERT INTO orders (id, qty, status) VALUES (1, 1, 'new')")
    connection.execute("ALTER TABLE orders ALTER qty TYPE bigint, DROP status")

    captured = capture(connection, "orders", "qty")
    connection.execute("INSERT INTO orders (id, qty) VALUES (2, 5000000000)")

    assert captured.columns == ("id", "qty")
    assert changes(connection, captured)[2, 5000000000] == 1


def test_install_survives_a_renamed_table(connection: Database):
    capture(connection, "orders", "id")
    connection.execute("ALTER TABLE orders RENAME TO purchases")

    captured = capture(connection, "purchases", "qty")
    connection.execute("INSERT INTO purchases (id, qty) VALUES (1, 1)")

    assert captured.source.name == "purchases"
    assert changes(connection, captured) == Counter([(1, 1)])


def test_drop_capture_leaves_no_trace(connection: Database):
    captured = capture(connection, "orders", "id")
    for _ in range(2):
        drop_capture(connection, captured.source_relid)

    connection.execute("INSERT INTO orders (id) VALUES (1)")
    left = value(
        connection,
        "SELECT (SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'pgtrickle%%')"
        " + (SELECT count(*) FROM pg_class WHERE relname LIKE %s)"
        " + (SELECT count(*) FROM pg_proc WHERE proname ~ '^capture_[0-9]')",
        buffer_name(captured.source_relid) + "%",
    )
    assert left == 0


def test_drop_capture_after_the_source_is_gone(connection: Database):
    captured = capture(connection, "orders", "id")
    connection.execute("DROP TABLE orders")

    drop_capture(connection, captured.source_relid)

    assert list_buffer_columns(connection, captured.source_relid) is None


def test_missing_trigger_privilege_tells_what_to_grant(connection: Database, role: str):
    connection.execute(f'GRANT USAGE ON SCHEMA pgtrickle TO "{role}"'.encode())
    connection.execute(f'GRANT ALL ON pgtrickle.pgt_locks TO "{role}"'.encode())
    become(connection, role)

    with pytest.raises(PrivilegeError) as caught:
        capture(connection, "orders", "id")

    assert caught.value.hint == (
        f'Ask the owner to run: GRANT TRIGGER ON "public"."orders" TO "{role}";'
    )


@pytest.mark.parametrize("column", ["__xid", "__weight"])
def test_reserved_columns_are_refused(connection: Database, column: str):
    connection.execute(f"ALTER TABLE orders ADD {column} int".encode())

    with pytest.raises(ReservedColumnError, match=column):
        capture(connection, "orders", "id")


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        ("CREATE VIEW odd AS SELECT id FROM orders", "a view"),
        ("CREATE MATERIALIZED VIEW odd AS SELECT id FROM orders", "a materialized view"),
        ("CREATE TEMP TABLE odd (id int)", "a temporary table"),
        ("CREATE UNLOGGED TABLE odd (id int)", "an unlogged table"),
        (
            """CREATE TABLE odd (id int) PARTITION BY LIST (id);
               CREATE UNLOGGED TABLE part PARTITION OF odd DEFAULT""",
            'partition or child table "public.part" is an unlogged table',
        ),
    ],
)
def test_sources_that_triggers_would_miss_are_refused(
    connection: Database, definition: str, reason: str
):
    connection.execute(definition.encode())

    with pytest.raises(UnsupportedSourceError, match=reason):
        capture(connection, "odd", "id")


def test_system_catalogs_are_refused(connection: Database):
    with pytest.raises(UnsupportedSourceError, match="system catalog"):
        capture(connection, "pg_catalog.pg_class", "oid")


def test_missing_table_and_column_are_told_apart(connection: Database):
    with pytest.raises(SourceNotFoundError):
        install_capture(connection, 4, ["id"])
    with pytest.raises(SourceSchemaChangedError, match="nowhere"):
        capture(connection, "orders", "nowhere")
