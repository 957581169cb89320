"""Rows are copied between connections, whether or not their types have a binary form."""

from __future__ import annotations

import psycopg
import pytest

from pgtrickle.storage.copying import copy_between


@pytest.mark.parametrize("created", [False, True])
@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("int", "42"),
        ("aclitem", "'=r/postgres'"),
        ("aclitem[]", "'{=r/postgres}'"),
        ("text", r"E'a\tb\\N'"),
    ],
)
def test_every_type(database: str, type_: str, value: str, *, created: bool) -> None:
    value = value.replace("postgres", str(psycopg.conninfo.conninfo_to_dict(database)["user"]))
    create = f"CREATE UNLOGGED TABLE target (v {type_})"
    with psycopg.connect(database) as source, psycopg.connect(database) as target:
        source.execute(f"CREATE TEMPORARY TABLE found AS SELECT {value}::{type_} AS v".encode())
        source.execute("INSERT INTO found VALUES (NULL)")
        if not created:
            target.execute(create.encode())

        count = copy_between(source, "found", target, "target", created=created * create)

        assert count == 2
        query = "SELECT v::text FROM {} ORDER BY v IS NULL"
        [expected, rows] = [
            one.execute(query.format(table).encode()).fetchall()
            for one, table in ((source, "found"), (target, "target"))
        ]
        assert rows == expected
