"""A database with stream tables, and the one check that every test of the line makes.

The check does not trust the verifier: after each refresh the table is compared with its query
by PostgreSQL itself, as multisets.  The verifier has to agree with that after the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.client.trickle import Trickle
from pgtrickle.model.report import RefreshReport

Row = tuple[Any, ...]

# Several times faster than a new database with a new catalog.
_RESET = """
    DO $$
    DECLARE
        statement text;
        kept name;
        statements text[] := ARRAY(
            SELECT format('DROP SCHEMA %I CASCADE', nspname) FROM pg_namespace
             WHERE nspname !~ '^(pg_|pgtrickle)' AND nspname <> 'information_schema'
            UNION ALL
            SELECT format('DROP TABLE IF EXISTS %s CASCADE', oid::regclass) FROM pg_class
             WHERE relkind = 'r' AND relnamespace::regnamespace::text
                                     IN ('pgtrickle_changes', 'pgtrickle_state')
            UNION ALL
            SELECT format('DROP FUNCTION IF EXISTS %s CASCADE', oid::regprocedure) FROM pg_proc
             WHERE pronamespace::regnamespace::text IN ('pgtrickle_changes', 'pgtrickle_state')
            UNION ALL
            SELECT format('DROP %s IF EXISTS %s', CASE relkind WHEN 'c' THEN 'TYPE'
                                                  ELSE 'SEQUENCE' END, oid::regclass)
              FROM pg_class
             WHERE relkind IN ('c', 'S') AND relnamespace = 'pgtrickle_state'::regnamespace);
    BEGIN
        SET LOCAL client_min_messages = error;
        -- Everything goes, so nobody has to watch it go; only a superuser may say so.
        IF current_setting('is_superuser') = 'on' THEN
            SET LOCAL session_replication_role = replica;
        END IF;
        FOREACH statement IN ARRAY statements LOOP
            EXECUTE statement;
        END LOOP;
        CREATE SCHEMA public;
        DELETE FROM pgtrickle.pgt_stream_tables;
        -- And every other table that is empty in a new catalog, whatever tests come to write there.
        FOR kept IN SELECT relname FROM pg_class
                     WHERE relnamespace = 'pgtrickle'::regnamespace AND relkind = 'r'
                       AND relname NOT IN ('pgt_grants', 'pgt_locks', 'pgt_schema_version',
                                           'pgt_settings', 'pgt_sql_api') LOOP
            EXECUTE format('DELETE FROM pgtrickle.%I', kept);
        END LOOP;
        IF EXISTS (SELECT FROM pg_db_role_setting WHERE setdatabase =
                     (SELECT oid FROM pg_database WHERE datname = current_database())) THEN
            EXECUTE format('ALTER DATABASE %I RESET ALL', current_database());
        END IF;
    END $$
"""


@dataclass(slots=True)
class Lab:
    """One user's session beside pgtrickle, and the stream tables it has made."""

    trickle: Trickle
    connection: Connection[TupleRow]
    queries: dict[str, str] = field(default_factory=dict)
    verified: set[str] = field(default_factory=set)

    def reset(self) -> None:
        """Forget everything that earlier tests made in this database."""
        self.connection.execute(_RESET)
        self.trickle._runtime.engine.interruptions.clear()  # type: ignore[attr-defined]  # Borrowed

    def reconnect(self) -> None:
        """Let pgtrickle open its connections anew: a session keeps what the database set."""
        self.trickle._runtime.pool.drain()
        self.trickle._runtime.reads().close()

    def before_next_stage(self, interruption: Callable[[], object]) -> None:
        """Let something happen when the next refresh has read and not yet written."""
        self.trickle._runtime.engine.interruptions.append(interruption)  # type: ignore[attr-defined]  # Borrowed

    def run(self, *statements: str) -> None:
        """Run statements, each in a transaction of its own."""
        for statement in statements:
            self.connection.execute(statement.encode())

    @contextmanager
    def unwatched(self) -> Iterator[None]:
        """Go without event triggers for a while, as an ordinary role does."""
        names = [name for (name,) in self.rows("SELECT evtname FROM pg_event_trigger")]
        self.run(*(f"ALTER EVENT TRIGGER {name} DISABLE" for name in names))
        yield
        self.run(*(f"ALTER EVENT TRIGGER {name} ENABLE" for name in names))

    def rows(self, query: str) -> list[Row]:
        """Return the rows of a query, in a fixed order."""
        return sorted(self.connection.execute(query.encode()).fetchall(), key=repr)

    def value(self, query: str) -> Any:
        """Return the one value of a query."""
        [(found,)] = self.connection.execute(query.encode()).fetchall()
        return found

    def create(self, name: str, query: str, mode: str = "DIFFERENTIAL") -> RefreshReport:
        """Create and load a stream table, and check it."""
        report = self.trickle.create_stream_table(name, query, refresh_mode=mode)
        assert report is not None
        # Of the answers to a query that leaves it open, only that to the refined query is right.
        made = self.trickle.get_stream_table(name)
        self.queries[name] = made.defining_query if made.pinned else query
        self.verified.discard(name)
        self.check(name)
        return report

    def window(self, *statements: str, action: str = "DIFFERENTIAL") -> list[RefreshReport]:
        """Run statements, refresh every stream table in the order of creation, check each."""
        self.run(*statements)
        return [self.refresh(name, action) for name in self.queries]

    def refresh(self, name: str, action: str = "DIFFERENTIAL") -> RefreshReport:
        """Refresh one stream table and check it."""
        report = self.trickle.refresh_stream_table(name)
        assert report.action.value == action, report.reason
        self.check(name)
        if name not in self.verified:  # once a test: it takes half as long as the refresh
            self.verified.add(name)
            verified = self.trickle.verify_stream_table(name)
            assert verified.ok, verified
        return report

    def check(self, name: str) -> None:
        """Compare a stream table with its query."""
        assert self.differences(name) == []

    def differences(self, name: str) -> list[Row]:
        """Return the rows in which a stream table and its query differ, by PostgreSQL's word."""
        query = self.queries[name]
        return self.rows(
            f"SELECT 'missing', d.* FROM (({query}) EXCEPT ALL TABLE {name}) AS d UNION ALL"
            f" SELECT 'extra', d.* FROM (TABLE {name} EXCEPT ALL ({query})) AS d"
        )

    def leftovers(self) -> list[Row]:
        """List what pgtrickle keeps for stream tables: nothing, once the last is gone."""
        return self.rows(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace IN"
            " ('pgtrickle_changes'::regnamespace, 'pgtrickle_state'::regnamespace)"
            " UNION ALL SELECT relname FROM pg_class"
            " WHERE relkind IN ('c', 'S') AND relnamespace = 'pgtrickle_state'::regnamespace"
            " UNION ALL SELECT proname FROM pg_proc"
            " WHERE pronamespace = 'pgtrickle_state'::regnamespace"
            " UNION ALL SELECT tgname FROM pg_trigger WHERE tgname LIKE 'pgtrickle%'"
            " UNION ALL SELECT pgt_name FROM pgtrickle.pgt_stream_tables"
            " UNION ALL SELECT pgt_id::text FROM pgtrickle.pgt_leases"
            " UNION ALL SELECT source_relid::text FROM pgtrickle.pgt_change_tracking"
        )
