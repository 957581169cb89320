"""A value that JSON cannot hold stops the refresh before anything is changed, and loses nothing."""

from __future__ import annotations

import pytest

from pgtrickle.errors import OutboxValueError
from tests.labs.lab import Lab

_TOO_LARGE = 270_000_000  # characters; jsonb holds texts of up to 268,435,455 bytes


def test_a_text_beyond_the_limit_of_json(postgres_lab: Lab):
    lab = postgres_lab
    lab.run("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'a')")
    lab.create("s", "SELECT id, v FROM t")
    lab.trickle.outbox.enable_outbox("s")
    lab.trickle.refresh_stream_table("s")
    lab.run("INSERT INTO t VALUES (2, 'b')", f"INSERT INTO t VALUES (3, repeat('x', {_TOO_LARGE}))")
    with pytest.raises(OutboxValueError) as refused:
        lab.trickle.refresh_stream_table("s")
    assert refused.value.code == "ST805"
    assert "outbox disable public.s" in refused.value.hint
    assert lab.rows("SELECT id, v FROM s") == [(1, "a")]
    assert lab.rows("SELECT count(*) FROM pgtrickle.outbox_rows('s')") == [(0,)]

    lab.run("DELETE FROM t WHERE id = 3")
    lab.trickle.refresh_stream_table("s")

    assert lab.rows("SELECT id, v FROM s ORDER BY id") == [(1, "a"), (2, "b")]
    found = lab.rows("SELECT op, after ->> 'v' FROM pgtrickle.outbox_rows('s')")
    assert found == [("insert", "b")]
