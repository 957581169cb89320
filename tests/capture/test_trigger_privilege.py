"""A role that owns the catalog and not the source needs the privilege TRIGGER on that, no more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from psycopg import sql

from pgtrickle.capture.triggers import drop_capture
from pgtrickle.catalog.migrate import migrate
from tests.capture.readers import capture, changes
from tests.catalog.databases import Database, become


@pytest.fixture
def database(empty_database: str) -> str:
    """Let an ordinary role make the catalog."""
    return empty_database


def test_trigger_privilege_is_enough(
    database: str, connect: Callable[[], Database], role: str, another_role: str
):
    owner = connect()
    owner.execute(
        sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(
            sql.Identifier(owner.info.dbname), sql.Identifier(role)
        )
    )
    owner.execute("CREATE TABLE public.theirs (id int)")
    owner.execute(
        sql.SQL("ALTER TABLE theirs OWNER TO {}; GRANT SELECT, TRIGGER ON theirs TO {}").format(
            sql.Identifier(another_role), sql.Identifier(role)
        )
    )
    ours = connect()
    become(ours, role)
    migrate(ours)

    captured = capture(ours, "theirs", "id")
    become(owner, another_role)
    owner.execute("INSERT INTO theirs VALUES (1)")

    assert changes(ours, captured) == Counter([(1,)])
    capture(ours, "theirs", "id")
    drop_capture(ours, captured.source_relid)
    owner.execute("INSERT INTO theirs VALUES (2)")
