"""Bring the catalog of a database up to the version this package expects.

Migrations are the ``.sql`` files of ``pgtrickle.catalog.migrations``, applied in order and each
in one transaction.  A released file never changes: its hash is recorded when it is applied, and
a database whose hash differs is refused rather than guessed about.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from typing import TypeVar

import psycopg
from psycopg import Connection, sql
from psycopg.rows import TupleRow

from pgtrickle.catalog.trust import check_trust
from pgtrickle.errors import (
    CatalogCorruptError,
    CatalogMissingError,
    CatalogTooNewError,
    PrivilegeError,
    ServerBusyError,
    ServerVersionError,
    StandbyError,
)

T = TypeVar("T")

_OLDEST_SERVER = 150000
_HINT_INIT = "Run: pgtrickle init"
_HINT_UPGRADE = "Install the version of pgtrickle that migrated this database, or a later one."
_FILE_NAME = re.compile(r"(\d{4})_(?:pre|post)_(\w+)\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered step of the catalog's schema."""

    version: int
    description: str
    sql: str
    sha256: str


@cache
def list_migrations() -> tuple[Migration, ...]:
    """Read the migrations of this package, in order."""
    found = []
    for file in resources.files("pgtrickle.catalog.migrations").iterdir():
        if match := _FILE_NAME.fullmatch(file.name):
            content = file.read_bytes()
            found.append(
                Migration(
                    version=int(match[1]),
                    description=match[2].replace("_", " "),
                    sql=content.decode(),
                    sha256=hashlib.sha256(content).hexdigest(),
                )
            )
    return tuple(sorted(found, key=lambda migration: migration.version))


def migrate(connection: Connection[TupleRow]) -> list[int]:
    """Apply the migrations that the database lacks and return their versions.

    Each runs in its own transaction, or inside the caller's when one is open.  Two processes may
    call this at once: the second waits, then finds nothing to do.
    """
    _check_server(connection)
    try:
        _when_free(connection, lambda: _prepare_schemas(connection))
        with connection.transaction():
            recorded = _list_recorded(connection)
        _check_recorded(recorded)
        applied = [
            migration.version
            for migration in list_migrations()
            if migration.version not in recorded
            and _when_free(connection, partial(_apply, connection, migration))
        ]
    except psycopg.errors.InsufficientPrivilege as error:
        raise PrivilegeError(
            f"the current role may not migrate the catalog: {error.diag.message_primary}",
            hint="Run pgtrickle init as the role that owns the schema pgtrickle.",
        ) from error
    return applied


_PATIENCE_SECONDS = 60.0
_PAUSE_SECONDS = 0.2
# Who waits for a lock holds up those who come later: it is given up soon and asked for again.
_BE_IMPATIENT = "SET LOCAL lock_timeout = '200ms'"
# What is met by who creates a schema or the first table at the same time as another, having waited
# for that one.
_RIVALRY = (
    psycopg.errors.UniqueViolation,
    psycopg.errors.DuplicateSchema,
    psycopg.errors.DuplicateTable,
    psycopg.errors.DuplicateObject,
)
_RIVALS = 5


def _when_free(connection: Connection[TupleRow], block: Callable[[], T]) -> T:
    """Run a block in a transaction, again for as long as others use what it locks."""
    end = time.monotonic() + _PATIENCE_SECONDS
    rivals = 0
    while True:
        try:
            with connection.transaction():
                connection.execute(_BE_IMPATIENT)
                return block()
        except psycopg.errors.LockNotAvailable as error:
            if time.monotonic() > end:
                raise ServerBusyError(
                    "the catalog could not be migrated: others have used it for"
                    f" {_PATIENCE_SECONDS:.0f} seconds",
                    hint="Look in pg_stat_activity for a transaction that is left open, end it and"
                    " run: pgtrickle init",
                ) from error
        except _RIVALRY:
            rivals += 1
            if rivals > _RIVALS:
                raise
        time.sleep(_PAUSE_SECONDS)


# Of those who migrate one goes on at a time; who only reads the versions is not held up.
_LOCK_CATALOG = "LOCK TABLE pgtrickle.pgt_schema_version IN SHARE ROW EXCLUSIVE MODE"
_FIX_SEARCH_PATH = """
    SELECT pg_catalog.current_setting('search_path'),
           pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true)
"""
_RESTORE_SEARCH_PATH = "SELECT pg_catalog.set_config('search_path', %s, true)"
_RECORD = """
    INSERT INTO pgtrickle.pgt_schema_version (version, description, sha256)
    VALUES (%(version)s, %(description)s, %(sha256)s)
"""


def _apply(connection: Connection[TupleRow], migration: Migration) -> bool:
    # Before the table is there, whoever creates it first holds up the others.
    if connection.execute(_FIND_VERSION_TABLE).fetchone() is not None:
        connection.execute(_LOCK_CATALOG)
    [(search_path, _)] = connection.execute(_FIX_SEARCH_PATH).fetchall()
    recorded = _list_recorded(connection)
    _check_recorded(recorded)
    missing = migration.version not in recorded
    if missing:
        connection.execute(migration.sql.encode())
        connection.execute(
            _RECORD,
            {
                "version": migration.version,
                "description": migration.description,
                "sha256": migration.sha256,
            },
        )
    connection.execute(_RESTORE_SEARCH_PATH, (search_path,))
    return missing


_FIND_VERSION_TABLE = """
    SELECT FROM pg_catalog.pg_class AS c
      JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
     WHERE n.nspname = 'pgtrickle' AND c.relname = 'pgt_schema_version'
"""
_LIST_RECORDED = "SELECT version, sha256 FROM pgtrickle.pgt_schema_version"


def _list_recorded(connection: Connection[TupleRow]) -> dict[int, str]:
    if connection.execute(_FIND_VERSION_TABLE).fetchone() is None:
        return {}
    return dict(connection.execute(_LIST_RECORDED).fetchall())


def _check_recorded(recorded: dict[int, str]) -> None:
    known = {migration.version: migration for migration in list_migrations()}
    newest = max(known)
    if recorded and max(recorded) > newest:
        raise CatalogTooNewError(
            f"the catalog has version {max(recorded)}, this package knows {newest}",
            hint=_HINT_UPGRADE,
        )
    for version, sha256 in recorded.items():
        if version not in known or known[version].sha256 != sha256:
            raise CatalogCorruptError(
                f"migration {version} was applied with another text than this package has",
                hint="Install the released package that created this catalog; "
                "pgtrickle does not repair a catalog that was changed by hand.",
            )


_CHECK_SERVER = "SELECT pg_catalog.pg_is_in_recovery()"


def _check_server(connection: Connection[TupleRow]) -> None:
    if connection.info.server_version < _OLDEST_SERVER:
        raise ServerVersionError(
            f"the server runs PostgreSQL {connection.info.server_version // 10000}",
            hint="pgtrickle supports PostgreSQL 15 and later.",
        )
    with connection.transaction():
        row = connection.execute(_CHECK_SERVER).fetchone()
    if row is not None and row[0]:
        raise StandbyError(
            "the server is a standby and accepts no writes",
            hint="Connect to the primary; add target_session_attrs=read-write to the DSN.",
        )


_LIST_MISSING_SCHEMAS = """
    SELECT wanted.name,
           pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE'),
           current_user, pg_catalog.current_database()
      FROM (VALUES ('pgtrickle'), ('pgtrickle_changes'), ('pgtrickle_state')) AS wanted (name)
     WHERE pg_catalog.to_regnamespace(wanted.name) IS NULL
"""


def _prepare_schemas(connection: Connection[TupleRow]) -> None:
    """Refuse schemas of someone else, and create those that are missing.

    Whoever creates one meanwhile makes this fail, and is looked at by the next attempt: from here
    on they are ours, and so is what is read from them.
    """
    missing = connection.execute(_LIST_MISSING_SCHEMAS).fetchall()
    check_trust(connection)  # after that, lest one that appears in between is neither
    for schema, allowed, role, database in missing:
        if not allowed:
            raise PrivilegeError(
                f'the role "{role}" may not create schemas in the database "{database}"',
                hint=f'Ask the owner to run: GRANT CREATE ON DATABASE "{database}" TO "{role}";',
            )
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))


_GET_VERSION = "SELECT pg_catalog.max(version) FROM pgtrickle.pgt_schema_version"


def check_version(connection: Connection[TupleRow], *, trusted: bool = False) -> None:
    """Raise unless the catalog has exactly the version this package expects.

    And unless nobody set a trap in it, which may be ``trusted`` if it was looked at lately.
    """
    if not trusted:
        check_trust(connection)
    try:
        # A transaction or a savepoint of its own: a missing table must not spoil the caller's.
        with connection.transaction():
            row = connection.execute(_GET_VERSION).fetchone()
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as error:
        raise CatalogMissingError(
            "the database has no pgtrickle catalog", hint=_HINT_INIT
        ) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise PrivilegeError(
            "the current role may not read the pgtrickle catalog",
            hint="Connect as the role that ran pgtrickle init.",
        ) from error
    version = 0 if row is None or row[0] is None else int(row[0])
    newest = list_migrations()[-1].version
    if version > newest:
        raise CatalogTooNewError(
            f"the catalog has version {version}, this package knows {newest}", hint=_HINT_UPGRADE
        )
    if version < newest:
        raise CatalogMissingError(
            f"the catalog has version {version}, this package needs {newest}", hint=_HINT_INIT
        )
