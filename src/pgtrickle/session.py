"""Sessions of our own statements: under ``pg_catalog, pg_temp``, whatever the role's path.

A name in a statement of ours then means PostgreSQL's own object, and nobody who may create
functions or operators in a schema of the role's path can take its place (docs/adr/0034).  The path
is the session's where the session is ours alone.  Behind a pooler it would stay behind in a session
that others get next, so there every transaction sets it for itself, and a statement outside of one
gets a transaction of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import psycopg
from psycopg import Connection, Cursor, Transaction
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow

from pgtrickle.model.search_path import OWN_PATH

# Row security that would hide rows from us is an error: a stream table without them would be wrong.
# Literals of ours are written for the standard's strings.
_OWN_SETTINGS = {
    "search_path": OWN_PATH,
    "row_security": "off",
    "standard_conforming_strings": "on",
}
# SET and not a query: the transaction may still choose its isolation level after it.
FIX_PATH = "; ".join(f"SET LOCAL {name} = {value}" for name, value in _OWN_SETTINGS.items())
BEGIN_SNAPSHOT = f"BEGIN ISOLATION LEVEL REPEATABLE READ; {FIX_PATH}"

_WHO_ANSWERS = "SELECT pg_catalog.pg_backend_pid()"


class Session(Connection[TupleRow]):
    """A connection whose statements see ``pg_catalog`` first and nothing of users."""

    pooled = False  # the server's sessions are shared with others

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.cursor_factory = _OwnCursor

    @classmethod
    def open(cls, dsn: str, **options: Any) -> Self:
        """Connect in autocommit mode; prepared statements do not survive a pooler."""
        connection = cls.connect(dsn, autocommit=True, prepare_threshold=None, **options)
        try:
            fix_path(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def idle(self) -> bool:
        """Whether no transaction is open."""
        return self.info.transaction_status is TransactionStatus.IDLE

    @contextmanager
    def transaction(
        self,
        savepoint_name: str | None = None,
        force_rollback: bool = False,  # noqa: FBT001, FBT002 - psycopg's signature
    ) -> Iterator[Transaction]:
        """Start a transaction, or a savepoint within one."""
        outermost = self.idle
        with super().transaction(savepoint_name, force_rollback) as transaction:
            if self.pooled and outermost:
                self.execute(FIX_PATH)
            yield transaction


class _OwnCursor(Cursor[Any]):
    """A cursor that lets nothing run outside of a transaction where sessions are shared."""

    @contextmanager
    def _within(self, query: object = "") -> Iterator[None]:
        session = self.connection
        assert isinstance(session, Session)  # noqa: S101 - who else makes one
        begins = isinstance(query, str) and query.startswith("BEGIN")
        if session.pooled and session.autocommit and session.idle and not begins:
            with session.transaction():
                yield
        else:
            yield

    def execute(self, query: Any, params: Any = None, **options: Any) -> Self:
        with self._within(query):
            return super().execute(query, params, **options)

    def executemany(self, query: Any, params_seq: Any, **options: Any) -> None:
        with self._within():
            super().executemany(query, params_seq, **options)

    @contextmanager
    def copy(self, statement: Any, params: Any = None, **options: Any) -> Iterator[Any]:
        with self._within(), super().copy(statement, params, **options) as copy:
            yield copy


def fix_path(session: Session) -> None:
    """Fix the path of a session that is ours alone, or note that it is not."""
    [(pid,)] = session.execute(_WHO_ANSWERS).fetchall()
    session.pooled = pid != session.info.backend_pid
    if not session.pooled:
        session.execute("; ".join(f"SET {name} = {value}" for name, value in _OWN_SETTINGS.items()))


def is_pooled(dsn: str) -> bool:
    """Tell whether a pooler answers, and not the server itself."""
    try:
        with Session.open(dsn) as session:
            return session.pooled
    except psycopg.Error:
        return False


def under_own_path(dsn: str) -> str:
    """Return a connection string whose session begins under our own path.

    >>> under_own_path("dbname=shop options='-c work_mem=8MB'")[:52]
    "dbname=shop options='-c work_mem=8MB -c search_path="
    """
    given = str(conninfo_to_dict(dsn).get("options") or "")
    ours = [f"-c {name}={value.replace(' ', '')}" for name, value in _OWN_SETTINGS.items()]
    return make_conninfo(dsn, options=" ".join([given, *ours]).strip())
