"""The settings under which our own statements run."""

from __future__ import annotations

import psycopg
from psycopg import sql

from pgtrickle.session import Session, under_own_path


def test_no_statement_of_ours_is_compiled_to_machine_code(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as admin:
        name = sql.Identifier(admin.info.dbname)
        admin.execute(sql.SQL("ALTER DATABASE {} SET jit = on").format(name))

    with Session.open(database) as ours, psycopg.connect(under_own_path(database)) as reader:
        found = [one.execute("SHOW jit").fetchall() for one in (ours, reader)]

    assert found == [[("off",)], [("off",)]]
