"""Look at a database before anything in it is used: whose catalog it is, and of which version.

One message to the server asks ``pg_catalog`` alone.  Only if nobody set a trap, and the role works
as the owner of the catalog, a second one reads its tables.
"""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
from psycopg import Connection, Cursor, sql
from psycopg.rows import TupleRow

from pgtrickle.catalog.access.foreign_objects import FIND_FOREIGN, Foreign
from pgtrickle.catalog.access.standing import FIND_STANDING, Standing, dsn_of_owner
from pgtrickle.catalog.access.trust import stranger_error
from pgtrickle.catalog.capture.event_triggers import LIST_UNSAFE, drop_unsafe_watch
from pgtrickle.catalog.migrate import NOTHING, READ_RECORDED, Recorded, recorded_of
from pgtrickle.catalog.settings_table import LIST_PARAMETERS, list_session, list_table
from pgtrickle.errors import TrickleError
from pgtrickle.settings import UnknownSetting, find_unknown_parameters

_FIX_PATH = "SET LOCAL search_path = pg_catalog, pg_temp"
_FIND_TABLES = """
    SELECT count(*) = 3 FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
     WHERE n.nspname = 'pgtrickle' AND c.relkind = 'r'
       AND c.relname IN ('pgt_schema_version', 'pgt_sql_api', 'pgt_settings')
"""
# The last one: it leaves the user's path behind, until the message ends.
_FIND_USERS_PATH = """
    SELECT s.reset_val, set_config('search_path', s.reset_val, true),
           pg_catalog.current_schema()::pg_catalog.text
      FROM pg_settings AS s WHERE s.name = 'search_path'
"""


@dataclass(frozen=True, slots=True)
class Found:
    """The findings of one look at a database."""

    dsn: str  # by which to work: the owner's, if the role may act as the owner
    standing: Standing
    recorded: Recorded
    stored: dict[str, str]  # settings: the table's, and above them those of the role or database
    unknown: tuple[UnknownSetting, ...]  # parameters that mean nothing
    users_path: str
    users_schema: str | None  # the first one on that path

    def find_gap(self) -> TrickleError | None:
        """Return why the catalog cannot be used as it is; see ``Recorded.find_gap``."""
        return self.recorded.find_gap() if self.standing.works_as_owner else None


def look(dsn: str, connect_timeout: int) -> Found:
    """Look at a database; as the owner of its catalog, if the role may act as the owner.

    Raise ST215 where somebody could run what a stranger wrote.
    """
    with _connected(dsn, connect_timeout) as connection:
        first = _ask(connection)
        if first.standing.is_superuser and first.unsafe:
            with connection.transaction():
                connection.execute(_FIX_PATH)
                drop_unsafe_watch(connection)
        standing = first.standing
        if standing.works_as_owner or not standing.may_log_in_as_owner:
            return first.finish(dsn, connection)
    address = dsn_of_owner(dsn, standing.owner or "")
    try:
        owner = _connected(address, connect_timeout)
    except psycopg.OperationalError as error:
        raise standing.error() from error
    with owner:
        second = _ask(owner)
        if not second.standing.works_as_owner:
            raise second.standing.error()
        return second.finish(address, owner)


@dataclass(frozen=True, slots=True)
class _Answers:
    """What ``pg_catalog`` says."""

    standing: Standing
    stranger: Foreign | None
    unsafe: bool  # event triggers call what another than a superuser can replace
    has_tables: bool
    session: dict[str, str]
    unknown: tuple[UnknownSetting, ...]
    users_path: str
    users_schema: str | None

    def finish(self, dsn: str, connection: Connection[TupleRow]) -> Found:
        """Raise unless the session may go on; then read what the catalog says of itself."""
        if not (self.standing.works_as_owner or self.standing.may_visit):
            raise self.standing.error()
        if self.stranger is not None:
            raise stranger_error(self.stranger, self.standing)
        recorded, table = NOTHING, dict[str, str]()
        # Whatever appears meanwhile was not looked at, and a guest reads no table like that.
        if self.has_tables and self.standing.owner is not None and self.standing.works_as_owner:
            cursor = connection.execute(_joined(sql.SQL(READ_RECORDED), list_table()))
            [row], values = _rows(cursor)
            recorded, table = recorded_of(row), dict(values)
        return Found(
            dsn,
            self.standing,
            recorded,
            table | self.session,
            self.unknown,
            self.users_path,
            self.users_schema,
        )


def _ask(connection: Connection[TupleRow]) -> _Answers:
    cursor = connection.execute(
        _joined(
            sql.SQL(FIND_STANDING),
            sql.SQL(FIND_FOREIGN),
            sql.SQL(LIST_UNSAFE),
            sql.SQL(_FIND_TABLES),
            list_session(),
            sql.SQL(LIST_PARAMETERS),
            sql.SQL(_FIND_USERS_PATH),
        )
    )
    [standing], stranger, unsafe, [(has_tables,)], session, unknown, [path] = _rows(cursor)
    users_path, _, users_schema = path
    return _Answers(
        Standing(*standing),
        Foreign(*stranger[0]) if stranger else None,
        bool(unsafe),
        has_tables,
        dict(session),
        tuple(find_unknown_parameters(name for (name,) in unknown)),
        users_path,
        users_schema,
    )


def _joined(*statements: sql.Composable) -> sql.Composed:
    """Return one message of several statements, under our path: they are one transaction."""
    return sql.SQL(";").join([sql.SQL(_FIX_PATH), *statements])


def _rows(cursor: Cursor[TupleRow]) -> list[list[TupleRow]]:
    """Return the rows of each statement of a message but the first, which sets the path."""
    found = []
    while cursor.nextset():
        found.append(cursor.fetchall())
    return found


def _connected(dsn: str, connect_timeout: int) -> Connection[TupleRow]:
    return psycopg.connect(
        dsn, autocommit=True, connect_timeout=connect_timeout, prepare_threshold=None
    )
