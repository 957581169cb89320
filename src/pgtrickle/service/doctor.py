"""``doctor``: check what pgtrickle needs, and say what to do about what is missing."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib import metadata

from psycopg import Connection, sql

from pgtrickle.catalog.migrate import check_version
from pgtrickle.catalog.stream_tables import list_stream_tables
from pgtrickle.catalog.trust import check_trust
from pgtrickle.catalog.watch import list_unsafe_watch
from pgtrickle.errors import TrickleError
from pgtrickle.model.names import quote_identifier
from pgtrickle.model.stream_table import Status
from pgtrickle.service.index_advice import IndexAdvice, advise_indexes
from pgtrickle.service.runtime import Runtime
from pgtrickle.service.wal_slot import Severity, find_slot_health
from pgtrickle.spark.java import require_java

_OLDEST_SERVER = 150000


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    ok: bool
    detail: str
    hint: str = ""
    missing_indexes: tuple[IndexAdvice, ...] = ()  # advice: nothing is wrong without them


def check_machine() -> list[Check]:
    """Look at this machine: Python, Java, Spark."""
    return [_python(), _java(), _spark()]


def check_server(runtime: Runtime) -> list[Check]:
    """Look at the server, the catalog and the stream tables."""
    with runtime.connection() as connection:
        return [
            _server(connection),
            _standby(connection),
            _catalog(connection),
            _owner(connection),
            _event_triggers(connection),
            _privileges(connection),
            _settings(connection),
            _stream_tables(connection),
            _indexes(runtime, connection),
            _wakeup(runtime, connection),
            *_slot(runtime, connection),
        ]


def _python() -> Check:
    return Check("python", ok=True, detail=platform.python_version())


def _java() -> Check:
    try:
        return Check("java", ok=True, detail=str(require_java().command))
    except TrickleError as error:
        return Check("java", ok=False, detail=str(error), hint=error.hint)


def _spark() -> Check:
    try:
        return Check("spark", ok=True, detail=f"pyspark {metadata.version('pyspark')}")
    except metadata.PackageNotFoundError:
        return Check(
            "spark", ok=False, detail="pyspark is not installed", hint="pip install pgtrickle."
        )


def _server(connection: Connection) -> Check:
    version = connection.info.server_version
    return Check(
        "postgresql",
        ok=version >= _OLDEST_SERVER,
        detail=f"server version {version // 10000}.{version % 10000}",
        hint="" if version >= _OLDEST_SERVER else "Use PostgreSQL 15 or later.",
    )


def _standby(connection: Connection) -> Check:
    [(standby,)] = connection.execute("SELECT pg_catalog.pg_is_in_recovery()").fetchall()
    return Check(
        "writable",
        ok=not standby,
        detail="a standby" if standby else "a primary",
        hint="Connect to the primary." if standby else "",
    )


def _catalog(connection: Connection) -> Check:
    try:
        check_version(connection)
    except TrickleError as error:
        return Check("catalog", ok=False, detail=str(error), hint=error.hint)
    return Check("catalog", ok=True, detail="up to date")


def _owner(connection: Connection) -> Check:
    """Tell whose catalog it is, and whether anybody else can put code of his into it."""
    name = "owner of the catalog"
    try:
        standing = check_trust(connection)
    except TrickleError as error:
        return Check(name, ok=False, detail=str(error), hint=error.hint)
    return Check(name, ok=True, detail=f'role "{standing.owner}"')


def _event_triggers(connection: Connection) -> Check:
    unsafe = list_unsafe_watch(connection)
    if not unsafe:
        return Check("event triggers", ok=True, detail="none that others can change")
    called = ", ".join(f"{name} calls what {role} can replace" for name, role in unsafe)
    return Check(
        "event triggers",
        ok=False,
        detail=f"{called}: it runs in sessions of superusers",
        hint="Let a superuser run: "
        + " ".join(f"DROP EVENT TRIGGER {quote_identifier(name)};" for name, _ in unsafe),
    )


def _privileges(connection: Connection) -> Check:
    [(role, create, temporary)] = connection.execute(
        "SELECT current_user,"
        " pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')"
        "  OR pg_catalog.to_regnamespace('pgtrickle_state') IS NOT NULL,"
        " pg_catalog.has_database_privilege(pg_catalog.current_database(), 'TEMPORARY')"
    ).fetchall()
    missing = [word for word, held in (("CREATE", create), ("TEMPORARY", temporary)) if not held]
    return Check(
        "privileges",
        ok=not missing,
        detail=f'role "{role}" lacks {", ".join(missing)}' if missing else f'role "{role}"',
        hint=f'GRANT {", ".join(missing)} ON DATABASE ... TO "{role}".' if missing else "",
    )


def _settings(connection: Connection) -> Check:
    [(encoding,)] = connection.execute("SHOW server_encoding").fetchall()
    return Check(
        "encoding",
        ok=encoding == "UTF8",
        detail=f"server encoding {encoding}",
        hint="" if encoding == "UTF8" else "Use a database with the encoding UTF8.",
    )


def _stream_tables(connection: Connection) -> Check:
    tables = list_stream_tables(connection)
    troubled = [
        one for one in tables if one.status is not Status.ACTIVE or one.consecutive_errors > 0
    ]
    detail = f"{len(tables)} stream tables"
    if troubled:
        named = ", ".join(
            f"{one.name} ({one.last_error_message or one.status.value})" for one in troubled
        )
        return Check(
            "stream tables",
            ok=False,
            detail=f"{detail}, in trouble: {named}",
            hint=f"Look at them with: pgtrickle show {troubled[0].name}.",
        )
    return Check("stream tables", ok=True, detail=detail)


def _indexes(runtime: Runtime, connection: Connection) -> Check:
    advice = advise_indexes(runtime, connection)
    detail = f"{len(advice)} missing: refreshes scan tables" if advice else "none missing"
    return Check("indexes", ok=True, detail=detail, missing_indexes=advice)


_ASK_WAKEUP = """
    SELECT pg_catalog.current_database(),
           pg_catalog.current_setting('max_prepared_transactions')::pg_catalog.int4,
           pg_catalog.current_setting('pg_trickle.event_wakeup', true)
"""


def _wakeup(runtime: Runtime, connection: Connection) -> Check:
    """Tell whether changes wake the scheduler; without that it looks for them, so all is well."""
    [(database, prepared, wanted)] = connection.execute(_ASK_WAKEUP).fetchall()
    name = "wake-up by changes"
    if not runtime.settings.event_wakeup or wanted == "off":
        return Check(name, ok=True, detail="off, as set: changes are looked for on schedule")
    if prepared == 0 or wanted == "on":
        return Check(name, ok=True, detail="on")
    statement = sql.SQL("ALTER DATABASE {} SET pg_trickle.event_wakeup = on")
    return Check(
        name,
        ok=True,
        detail=f"off, because max_prepared_transactions is {prepared}: changes are looked for on"
        " schedule",
        hint="If nobody prepares transactions here, say so: "
        + statement.format(sql.Identifier(database)).as_string(connection),
    )


def _slot(runtime: Runtime, connection: Connection) -> list[Check]:
    """Look at the logical slot, where there is one."""
    health = find_slot_health(connection, runtime.settings)
    if health is None:
        return []
    fine = health.severity is not Severity.CRITICAL
    return [
        Check(
            "logical slot",
            ok=fine,
            detail=f"{health.slot}: {health.detail}",
            hint="" if fine else "See that pgtrickle run works, and end old transactions.",
        )
    ]
