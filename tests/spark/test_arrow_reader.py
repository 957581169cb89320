"""Small reads see one snapshot, run side by side, survive dead connections, name errors."""

from __future__ import annotations

import psycopg
import pytest

from pgtrickle.errors import (
    ConnectionLostError,
    DataError,
    InternalError,
    PrivilegeError,
    ServerBusyError,
    StorageFullError,
)
from pgtrickle.model.sql_type import SqlType
from pgtrickle.transit.arrow_reader import ReadConnections, SmallRead, SnapshotReader
from pgtrickle.transit.carriers import carrier_for
from pgtrickle.transit.pg_errors import error_for
from tests.spark.exported_snapshot import exported_snapshot

NUMBER = carrier_for(SqlType("integer", "int4", "N"))


def test_all_reads_see_the_exported_snapshot(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as writer:
        writer.execute("CREATE TABLE t AS SELECT 1 AS a")
        connections = ReadConnections(database)
        read = SmallRead("SELECT a FROM public.t", (NUMBER,))
        with exported_snapshot(database) as snapshot:
            writer.execute("INSERT INTO t VALUES (2)")
            with SnapshotReader(connections, snapshot) as reader:
                tables = reader.read_all({str(i): read for i in range(6)})
        connections.close()

    assert [table and table.column("a").to_pylist() for table in tables.values()] == [[1]] * 6


def test_a_read_that_brings_too_much_is_given_up_and_the_others_go_on(database: str) -> None:
    connections = ReadConnections(database)
    reads = {
        "few": SmallRead("SELECT 7::int4", (NUMBER,)),
        "many": SmallRead("SELECT g::int4 FROM generate_series(1, 1000000) AS g", (NUMBER,)),
    }
    with (
        exported_snapshot(database) as snapshot,
        SnapshotReader(connections, snapshot) as reader,
    ):
        tables = reader.read_all(reads, limit=1000)
        again = reader.read("SELECT 8::int4", (NUMBER,), limit=1000)
    connections.close()

    assert tables["many"] is None
    assert tables["few"] is not None
    assert tables["few"].column(0).to_pylist() == [7]
    assert again.column(0).to_pylist() == [8]


def test_a_connection_that_died_while_idle_is_replaced(database: str) -> None:
    connections = ReadConnections(database)
    with exported_snapshot(database) as snapshot:
        with SnapshotReader(connections, snapshot) as reader:
            pid = reader.read("SELECT pg_backend_pid() AS pid", [NUMBER]).column(0)[0].as_py()
        with psycopg.connect(database, autocommit=True) as killer:
            killer.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])

        with SnapshotReader(connections, snapshot) as reader:
            other = reader.read("SELECT pg_backend_pid() AS pid", [NUMBER]).column(0)[0].as_py()
    connections.close()

    assert other != pid


def test_connections_are_reused_by_the_next_refresh(database: str) -> None:
    connections = ReadConnections(database)
    pids = set()
    for _ in range(3):
        with (
            exported_snapshot(database) as snapshot,
            SnapshotReader(connections, snapshot) as reader,
        ):
            pids.add(reader.read("SELECT pg_backend_pid() AS p", [NUMBER]).column(0)[0].as_py())
    connections.close()

    assert len(pids) == 1


def test_an_error_of_a_read_has_a_code_and_the_next_read_works(database: str) -> None:
    connections = ReadConnections(database)
    with exported_snapshot(database) as snapshot, SnapshotReader(connections, snapshot) as reader:
        with pytest.raises(DataError):
            reader.read("SELECT 1 / (5000 - i) FROM generate_series(1, 9000) AS i", [NUMBER])

        assert reader.read("SELECT 7 AS x", [NUMBER]).column(0).to_pylist() == [7]
    connections.close()


def test_an_unreachable_server_is_a_lost_connection() -> None:
    with pytest.raises(ConnectionLostError) as caught:
        ReadConnections("host=127.0.0.1 port=1").take("00000003-00000002-1")

    assert caught.value.hint


@pytest.mark.parametrize(
    ("sqlstate", "kind"),
    [
        ("08006", ConnectionLostError),
        ("57P01", ConnectionLostError),
        ("22003", DataError),
        ("42501", PrivilegeError),
        ("40001", ServerBusyError),
        ("55P03", ServerBusyError),
        ("57014", ServerBusyError),
        ("53100", StorageFullError),
        ("42P01", InternalError),
        (None, ConnectionLostError),
    ],
)
def test_sqlstate_decides_the_error(sqlstate: str | None, kind: type[Exception]) -> None:
    assert type(error_for(sqlstate, "whatever it says", doing="read")) is kind
