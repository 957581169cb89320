"""A catalog of the lake in another database: reach it, and find out what was committed there.

Its DSN is kept as it was given, with ``${ENV:NAME}`` in place of secrets, which are looked up when
a connection is made.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

import psycopg
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgtrickle.errors import LakeSinkError, LakeUnreachableError
from pgtrickle.lake.catalog import LakeCatalog
from pgtrickle.lake.commit import begin_commit
from pgtrickle.lake.session import fix_settings_sql
from pgtrickle.model.connection_string import HINT, may_be_misread
from pgtrickle.session import Session
from pgtrickle.settings import expand_secrets

_REFERENCE = re.compile(r"\$\{ENV:[A-Za-z_][A-Za-z0-9_]*\}")
# A server that does not answer holds up the next refresh of this stream table, not for long.
_DEFAULTS = {
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
_HINT = "Write ${ENV:NAME} for it, as in: host=db dbname=lake password=${ENV:LAKE_PASSWORD}."


def check_catalog_dsn(dsn: str) -> None:
    """Raise ST703 for a DSN that is none, or that holds a secret.

    >>> check_catalog_dsn("host=db dbname=lake password=${ENV:LAKE_PASSWORD}")
    >>> check_catalog_dsn("${ENV:LAKE_DSN}")
    >>> check_catalog_dsn("postgresql://ann:secret@db/lake")
    Traceback (most recent call last):
    pgtrickle.errors.LakeSinkError: the setting ducklake_catalog_dsn holds a password
    """
    if _REFERENCE.fullmatch(dsn.strip()):
        return
    given = _parse(dsn)
    secrets = [str(given[name]) for name in ("password", "sslpassword") if given.get(name)]
    if any(not _REFERENCE.fullmatch(secret) for secret in secrets):
        raise LakeSinkError("the setting ducklake_catalog_dsn holds a password", hint=_HINT)


@contextmanager
def connected(dsn: str) -> Iterator[Connection]:
    """Connect to the database of a catalog, for the length of a block."""
    address = expand_secrets(dsn, os.environ)
    given = _parse(address)
    try:
        connection = Session.open(make_conninfo(**{**_DEFAULTS, **given}))
    except psycopg.OperationalError as error:
        if not error.sqlstate and may_be_misread(address):
            raise LakeUnreachableError(
                "the database with the catalog of the lake cannot be reached", hint=HINT
            ) from None
        raise _unreachable(error) from error
    with connection:
        yield connection


@contextmanager
def transaction(lake: Connection) -> Iterator[None]:
    """Run a block in one transaction of the catalog's database, under settings of our own."""
    with lake.transaction():
        lake.execute(fix_settings_sql().encode())
        # It rests while a large load is written.
        lake.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        yield


@contextmanager
def told_apart(lake: Connection) -> Iterator[None]:
    """Say of an error which of two databases it was that went away."""
    try:
        yield
    except psycopg.OperationalError as error:
        if not lake.broken:
            raise
        raise _unreachable(error) from error


class Outcome(Enum):
    """What became of a snapshot that was about to be committed."""

    COMMITTED = "committed"
    UNDONE = "undone"
    FORGOTTEN = "forgotten"  # there are later ones, and nothing tells of it


_FIND = "SELECT commit_extra_info FROM {changes} WHERE snapshot_id = %s"


def find_outcome(lake: Connection, catalog: LakeCatalog, snapshot_id: int, token: str) -> Outcome:
    """Find out what became of a snapshot, for good.

    Whoever writes one holds off all others until it is committed or not: when this has its turn,
    what it sees is the last word, even if the process that wrote it still lives.
    """
    with transaction(lake):
        head = begin_commit(lake, catalog).snapshot_id - 1
        statement = _FIND.format(changes=catalog.table("snapshot_changes"))
        row = lake.execute(statement.encode(), [snapshot_id]).fetchone()
    if row is not None and token in (row[0] or ""):
        return Outcome.COMMITTED
    return Outcome.FORGOTTEN if row is None and head >= snapshot_id else Outcome.UNDONE


def _parse(dsn: str) -> dict[str, str]:
    try:
        found = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:  # whose message may quote a secret
        raise LakeSinkError(
            "the setting ducklake_catalog_dsn is no connection string",
            hint='As in "host=db dbname=lake user=ann password=${ENV:LAKE_PASSWORD}".',
        ) from None
    return {name: str(value) for name, value in found.items() if value is not None}


def _unreachable(error: psycopg.Error) -> LakeUnreachableError:
    return LakeUnreachableError(
        f"the database with the catalog of the lake cannot be reached: {error}",
        hint="Check that its server runs, and what the setting ducklake_catalog_dsn says.",
    )
