"""Make the catalog of a database, and bring it up to the version this package expects.

What is stored comes from numbered migrations, each applied once: ``migrations/*.sql``.  A released
file never changes: its hash is recorded when it is applied, and a database whose hash differs is
refused rather than guessed about.  What runs (functions, procedures, views, policies, triggers)
comes from ``sql_api/*.sql``, applied again when their text changes.  All of it is one transaction:
a process that dies leaves nothing behind.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import LiteralString, TypeAlias, TypeVar

import psycopg
from psycopg import Connection, sql
from psycopg.rows import TupleRow

from pgtrickle.catalog.access.trust import check_trust
from pgtrickle.catalog.asking_procedures import write_asking_procedures
from pgtrickle.catalog.capture.event_triggers import install_watch
from pgtrickle.catalog.option_routines import write_option_routines
from pgtrickle.catalog.settings_table import list_known_settings
from pgtrickle.catalog.snapshots.differences import write_snapshot_differences
from pgtrickle.catalog.upgrades.blockers import describe_blockers, list_blockers
from pgtrickle.errors import (
    CatalogCorruptError,
    CatalogMissingError,
    CatalogOutdatedError,
    CatalogTooNewError,
    PrivilegeError,
    ServerBusyError,
    ServerVersionError,
    StandbyError,
    TrickleError,
)
from pgtrickle.model.text.trusted import trusted
from pgtrickle.model.version import VERSION

T = TypeVar("T")
# Enters a context around each step of a migration, which it is told by name.
Watch: TypeAlias = Callable[[str], AbstractContextManager[object]]
FILES = "functions and views"  # the step that applies every file

_OLDEST_SERVER = 150000
_HINT_INIT = "Run: pgtrickle init"
_HINT_MIGRATE = "Run: pgtrickle migrate"
_HINT_UPGRADE = "Install the version of pgtrickle that migrated this database, or a later one."
_FILE_NAME = re.compile(r"(\d{4})_(\w+)\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered change of the tables of the catalog."""

    version: int
    description: str
    sql: str
    sha256: str

    @property
    def name(self) -> str:
        """The number and the description."""
        return f"{self.version:04d} {self.description}"


@dataclass(frozen=True, slots=True)
class ApiFile:
    """One file of functions, procedures and views."""

    name: str
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


@cache
def list_api_files() -> tuple[ApiFile, ...]:
    """Read the files that are applied again when they change, in order of their names.

    Some are made by Python: the procedures that ask the daemon, the routines that list every
    option, the functions that compare snapshots, and the list of the settings that this package
    knows.
    """
    texts = {
        file.name.removesuffix(".sql"): file.read_text(encoding="utf-8")
        for file in resources.files("pgtrickle.catalog.sql_api").iterdir()
        if file.name.endswith(".sql")
    }
    texts["50_asking"] = write_asking_procedures()
    texts["62_options"] = write_option_routines()
    texts["88_snapshot_differences"] = write_snapshot_differences()
    texts["99_known_settings"] = list_known_settings()
    return tuple(
        ApiFile(name, text, hashlib.sha256(text.encode()).hexdigest())
        for name, text in sorted(texts.items())
    )


@dataclass(frozen=True, slots=True)
class Recorded:
    """The migrations and files that were applied to a database."""

    versions: dict[int, str]  # the hash of each migration
    api: dict[str, str]  # the hash of each file of what runs
    packages: tuple[str, ...]  # the versions of the package that applied them

    def find_gap(self) -> TrickleError | None:
        """Return the error if the catalog is not of this version; None if it is.

        Raise what no migration mends: it is of a newer version, or was changed by hand.
        """
        known = {migration.version: migration.sha256 for migration in list_migrations()}
        newest, version = max(known), max(self.versions, default=0)
        if not version:
            return CatalogMissingError("the database has no pgtrickle catalog", hint=_HINT_INIT)
        if version > newest:
            raise CatalogTooNewError(
                f"the catalog has version {version}, this package knows {newest}",
                hint=_HINT_UPGRADE,
            )
        if later := [one for one in self.packages if _number(one) > _number(VERSION)]:
            raise CatalogTooNewError(
                f"the catalog was migrated by pgtrickle {later[0]}, this is {VERSION}",
                hint=_HINT_UPGRADE,
            )
        for number, sha256 in self.versions.items():
            if known.get(number) != sha256:
                raise CatalogCorruptError(
                    f"migration {number} was applied with another text than this package has",
                    hint="Install the released package that created this catalog; "
                    "pgtrickle does not repair a catalog that was changed by hand.",
                )
        if version < newest:
            return CatalogOutdatedError(
                f"the catalog has version {version}, this package needs {newest}",
                hint=_HINT_MIGRATE,
            )
        if self.api != {file.name: file.sha256 for file in list_api_files()}:
            return CatalogOutdatedError(
                "the functions in the catalog are not those of this version of pgtrickle",
                hint=_HINT_MIGRATE,
            )
        return None

    def list_pending(self) -> list[Migration]:
        """Return the migrations that were not applied, in order."""
        return [one for one in list_migrations() if one.version not in self.versions]

    def list_stale_files(self) -> list[str]:
        """Return the names of the files that were not applied, or not with this text."""
        files = list_api_files()
        return [file.name for file in files if self.api.get(file.name) != file.sha256]


NOTHING = Recorded({}, {}, ())


def _number(version: str) -> tuple[int, ...]:
    """Return a version as a value that can be compared.

    >>> _number("0.10.1") > _number("0.9")
    True
    """
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


_FIND_VERSION_TABLE = """
    SELECT FROM pg_catalog.pg_class AS c
      JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
     WHERE n.nspname = 'pgtrickle' AND c.relname = 'pgt_schema_version'
"""
READ_RECORDED = """
    SELECT (SELECT pg_catalog.jsonb_object_agg(v.version, v.sha256)
              FROM pgtrickle.pgt_schema_version AS v),
           (SELECT pg_catalog.jsonb_object_agg(a.name, a.sha256) FROM pgtrickle.pgt_sql_api AS a),
           (SELECT pg_catalog.jsonb_agg(DISTINCT a.package) FROM pgtrickle.pgt_sql_api AS a)
"""


def recorded_of(row: TupleRow) -> Recorded:
    """Return what the one row of ``READ_RECORDED`` says."""
    versions, api, packages = row
    return Recorded(
        {int(version): sha256 for version, sha256 in (versions or {}).items()},
        api or {},
        tuple(packages or ()),
    )


def read_recorded(connection: Connection[TupleRow]) -> Recorded:
    """Return what has been applied; nothing, if the database has no catalog."""
    rows = _read(connection, READ_RECORDED)
    return recorded_of(rows[0]) if rows else NOTHING


def _read(connection: Connection[TupleRow], statement: LiteralString) -> list[TupleRow]:
    """Return the rows of a query; none, if the database has no catalog.

    In a transaction or a savepoint of its own: a missing table must not spoil the caller's.
    """
    try:
        with connection.transaction():
            return connection.execute(statement).fetchall()
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        return []
    except psycopg.errors.InsufficientPrivilege as error:
        raise PrivilegeError(
            "the current role may not read the pgtrickle catalog",
            hint="Connect as the role that ran pgtrickle init.",
        ) from error


def migrate(connection: Connection[TupleRow]) -> list[str]:
    """Make the catalog, or apply what it lacks; return the names of what was applied.

    In one transaction, or inside the caller's when one is open.  Two processes may call this at
    once: the second waits, then finds nothing to do.
    """
    check_server(connection)
    try:
        applied = when_free(connection, lambda: bring_up_to_date(connection))
        install_watch(connection)
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


def when_free(
    connection: Connection[TupleRow],
    block: Callable[[], T],
    *,
    patience: float = _PATIENCE_SECONDS,
    keep: bool = True,
) -> T:
    """Run a block in a transaction, again for as long as others use what it locks.

    Without ``keep``, nothing of what the block did remains.
    """
    end = time.monotonic() + patience
    rivals = 0
    while True:
        try:
            with connection.transaction(force_rollback=not keep):
                connection.execute(_BE_IMPATIENT)
                return block()
        except psycopg.errors.LockNotAvailable as error:
            if time.monotonic() > end:
                raise ServerBusyError(
                    "the catalog could not be migrated: others have used it for"
                    f" {patience:.0f} seconds",
                    detail=describe_blockers(list_blockers(connection)),
                    hint="Look in pg_stat_activity for a transaction that is left open, end it and"
                    " run: pgtrickle migrate",
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
_RECORD_MIGRATION = """
    INSERT INTO pgtrickle.pgt_schema_version (version, description, sha256)
    VALUES (%(version)s, %(description)s, %(sha256)s)
"""
_RECORD_FILE = """
    INSERT INTO pgtrickle.pgt_sql_api AS a (name, sha256, content, package)
    VALUES (%(name)s, %(sha256)s, %(content)s, %(package)s)
        ON CONFLICT (name) DO UPDATE
       SET sha256 = excluded.sha256, content = excluded.content, package = excluded.package,
           applied_at = pg_catalog.now()
"""
_FORGET_FILES = "DELETE FROM pgtrickle.pgt_sql_api WHERE name <> ALL (%(names)s)"


# A refresh in flight holds the lease that its commit checks: it commits before, or not at all.
_TAKE_LEASES = "DELETE FROM pgtrickle.pgt_leases"


def _unwatched(_step: str) -> AbstractContextManager[object]:
    return nullcontext()


def bring_up_to_date(connection: Connection[TupleRow], watch: Watch = _unwatched) -> list[str]:
    """Apply what the catalog lacks, in the caller's transaction; return the names of that.

    Refreshes in flight lose their leases: none commits into a catalog of another version.
    """
    _prepare_schemas(connection)
    # Before the table is there, whoever creates it first holds up the others.
    if connection.execute(_FIND_VERSION_TABLE).fetchone() is not None:
        connection.execute(_LOCK_CATALOG)
    [(search_path, _)] = connection.execute(_FIX_SEARCH_PATH).fetchall()
    recorded = read_recorded(connection)
    applied: list[str] = []
    if recorded.find_gap() is not None:
        if recorded.versions:
            connection.execute(_TAKE_LEASES)
        applied = [
            *_apply_migrations(connection, recorded, watch),
            *_apply_files(connection, recorded, watch),
        ]
    connection.execute(_RESTORE_SEARCH_PATH, (search_path,))
    return applied


def _apply_migrations(
    connection: Connection[TupleRow], recorded: Recorded, watch: Watch
) -> list[str]:
    applied = []
    for migration in recorded.list_pending():
        with watch(migration.name):
            connection.execute(trusted(migration.sql))
        values = {
            "version": migration.version,
            "description": migration.description,
            "sha256": migration.sha256,
        }
        connection.execute(_RECORD_MIGRATION, values)
        applied.append(migration.name)
    return applied


def _apply_files(connection: Connection[TupleRow], recorded: Recorded, watch: Watch) -> list[str]:
    """Apply all files if any differs: what one defines may use what is in another."""
    files = list_api_files()
    with watch(FILES):
        for file in files:
            connection.execute(trusted(file.sql))
            values = {
                "name": file.name,
                "sha256": file.sha256,
                "content": file.sql,
                "package": VERSION,
            }
            connection.execute(_RECORD_FILE, values)
        connection.execute(_FORGET_FILES, {"names": [file.name for file in files]})
    return recorded.list_stale_files()


def check_server(connection: Connection[TupleRow]) -> None:
    """Raise if the server is too old, or a standby."""
    if connection.info.server_version < _OLDEST_SERVER:
        raise ServerVersionError(
            f"the server runs PostgreSQL {connection.info.server_version // 10000}",
            hint="pgtrickle supports PostgreSQL 15 and later.",
        )
    check_primary(connection)


_IS_STANDBY = "SELECT pg_catalog.pg_is_in_recovery()"


def check_primary(connection: Connection[TupleRow]) -> None:
    """Raise ST504 on a standby."""
    with connection.transaction():
        [(standby,)] = connection.execute(_IS_STANDBY).fetchall()
    if standby:
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


def check_version(connection: Connection[TupleRow], *, trusted: bool = False) -> None:
    """Raise unless the catalog has exactly the version this package expects.

    And unless nobody set a trap in it, which may be ``trusted`` if it was looked at lately.
    """
    if not trusted:
        check_trust(connection)
    if (gap := read_recorded(connection).find_gap()) is not None:
        raise gap


_LIST_VERSIONS = "SELECT v.version, v.sha256 FROM pgtrickle.pgt_schema_version AS v"


def check_tables(connection: Connection[TupleRow]) -> None:
    """Raise unless the tables are of the version this package expects.

    For a guest, who reads tables of a catalog and may not see the text of its functions.
    """
    versions: dict[int, str] = dict(_read(connection, _LIST_VERSIONS))
    files = {file.name: file.sha256 for file in list_api_files()}
    if (gap := Recorded(versions, files, ()).find_gap()) is not None:
        raise gap
