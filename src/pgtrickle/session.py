"""Sessions of our own statements: under ``pg_catalog, pg_temp``, whatever the role's path.

A name in a statement of ours then means PostgreSQL's own object, and nobody who may create
functions or operators in a schema of the role's path can take its place (docs/adr/0034).  The path
is the session's where the session is ours alone.  Behind a pooler it would stay behind in a session
that others get next, so there every transaction sets it for itself, and a statement outside of one
gets a transaction of its own.
"""

from __future__ import annotations

import select
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import psycopg
from psycopg import Connection, Cursor, Transaction
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool

from pgtrickle.model.text.search_path import OWN_PATH

# Row security that would hide rows from us is an error: a stream table without them would be wrong.
# Literals of ours are written for the standard's strings.  Compiling a query to machine code takes
# half a second, and PostgreSQL does it for small catalogs that were never analysed.
_OWN_SETTINGS = {
    "search_path": OWN_PATH,
    "row_security": "off",
    "standard_conforming_strings": "on",
    "jit": "off",
}
# SET and not a query: the transaction may still choose its isolation level after it.
FIX_PATH = "; ".join(f"SET LOCAL {name} = {value}" for name, value in _OWN_SETTINGS.items())
_SEEN_BY_POLICY = "SET LOCAL row_security = on"
BEGIN_SNAPSHOT = f"BEGIN ISOLATION LEVEL REPEATABLE READ; {FIX_PATH}"

# One message: a session is ours alone if the one that answers is the one that was opened.
_FIX_SESSION = """
    SELECT pg_catalog.pg_backend_pid(),
           (SELECT pg_catalog.count(pg_catalog.set_config(s.name, s.value, false))
              FROM ROWS FROM (pg_catalog.unnest(%(names)s::pg_catalog.text[]),
                              pg_catalog.unnest(%(values)s::pg_catalog.text[])) AS s (name, value)
             WHERE pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.=) %(pid)s::pg_catalog.int4)
"""


class Session(Connection[TupleRow]):
    """A connection whose statements see ``pg_catalog`` first and nothing of users."""

    pooled = False  # the server's sessions are shared with others
    row_security = "off"
    of_guest = False  # of one who owns nothing in the catalog

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.cursor_factory = OwnCursor

    @classmethod
    def open(cls, dsn: str, **options: Any) -> Self:
        """Connect in autocommit mode; prepared statements do not survive a pooler."""
        connection = cls.connect(dsn, autocommit=True, prepare_threshold=None, **options)
        try:
            connection.fix_path()
        except BaseException:
            connection.close()
            raise
        return connection

    def fix_path(self, **more: str) -> None:
        """Fix the path, and ``more``, of a session that is ours alone, or note that it is not."""
        settings = {**_OWN_SETTINGS, "row_security": self.row_security, **more}
        pid = self.info.backend_pid
        values = {"names": list(settings), "values": list(settings.values()), "pid": pid}
        [(answering, _)] = self.execute(_FIX_SESSION, values).fetchall()
        self.pooled = answering != pid

    @staticmethod
    def check_open(session: Session) -> None:
        """Raise if the server has ended an idle session, which only its socket tells.

        A quiet socket costs no round trip: the server says something before it ends a session.
        """
        events = select.poll()
        events.register(session.fileno(), select.POLLIN)
        if events.poll(0):
            ConnectionPool.check_connection(session)

    @property
    def only_looks(self) -> bool:
        """Whether nothing can be written to the catalog."""
        return self.of_guest or self.info.parameter_status("in_hot_standby") == "on"

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
                if self.row_security != _OWN_SETTINGS["row_security"]:
                    self.execute(_SEEN_BY_POLICY)
            yield transaction


class CallerSession(Session):
    """A session of a role that asks the daemon: policies say which rows are its own."""

    row_security = "on"
    of_guest = True


class OwnCursor(Cursor[Any]):
    """A cursor that lets nothing run outside of a transaction where sessions are shared."""

    @contextmanager
    def _within(self, query: object = "") -> Iterator[None]:
        session = self.connection
        assert isinstance(session, Session)  # noqa: S101 - who else makes one
        # Procedures end transactions, too.
        text = query.decode() if isinstance(query, bytes) else query
        begins = isinstance(text, str) and text.startswith(("BEGIN", "CALL"))
        if session.pooled and session.autocommit and session.idle and not begins:
            with session.transaction():
                yield
        else:
            yield

    def execute(self, query: Any, params: Any = None, **options: Any) -> Self:
        """Run a statement."""
        with self._within(query):
            return super().execute(query, params, **options)

    def executemany(self, query: Any, params_seq: Any, **options: Any) -> None:
        """Run a statement for each of several sets of values."""
        with self._within():
            super().executemany(query, params_seq, **options)

    @contextmanager
    def copy(self, statement: Any, params: Any = None, **options: Any) -> Iterator[Any]:
        """Copy rows to or from a table."""
        with self._within(), super().copy(statement, params, **options) as copy:
            yield copy


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
