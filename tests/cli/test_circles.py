"""``pgtrickle run`` keeps stream tables fresh that read one another."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

import pgtrickle
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.daemons import Daemon, await_

_REACH = (
    "WITH RECURSIVE reach AS (SELECT src, dst FROM edge UNION"
    " SELECT r.src, e.dst FROM reach AS r JOIN edge AS e ON e.src = r.dst)"
    " SELECT src, dst FROM reach ORDER BY 1, 2"
)


def test_daemon_refreshes_a_circle_as_one(
    database: str, start: Callable[..., Daemon], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGTRICKLE_ALLOW_CIRCULAR", "true")
    with (
        psycopg.connect(database, autocommit=True) as user,
        pgtrickle.connect(database, engine=DuckDbEngine()) as trickle,
    ):
        user.execute("CREATE TABLE edge (src int, dst int)")
        user.execute("INSERT INTO edge VALUES (1, 2), (2, 3), (3, 1)")
        trickle.create_stream_table("reach", "SELECT DISTINCT src, dst FROM edge", "1s")
        trickle.create_stream_table(
            "onward",
            "SELECT DISTINCT r.src, e.dst FROM reach AS r JOIN edge AS e ON e.src = r.dst",
            "calculated",
        )
        trickle.alter_stream_table(
            "reach", query="SELECT src, dst FROM edge UNION SELECT src, dst FROM onward"
        )
        daemon = start(database)

        def right() -> bool:
            stored = user.execute("SELECT src, dst FROM reach ORDER BY 1, 2").fetchall()
            return stored == user.execute(_REACH.encode()).fetchall()

        assert right()
        for statement in (
            b"INSERT INTO edge VALUES (3, 4), (4, 5)",
            b"DELETE FROM edge WHERE src = 3 AND dst = 1",
            b"UPDATE edge SET dst = 1 WHERE src = 4",
        ):
            user.execute(statement)
            await_(right, 120)

        assert daemon.stop() == 0
        assert [trickle.verify_stream_table(name).ok for name in ("reach", "onward")] == [True] * 2
        assert {one.status.value for one in trickle.list_stream_tables()} == {"ACTIVE"}
