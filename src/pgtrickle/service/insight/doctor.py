"""``doctor``: check the requirements of pgtrickle, and say what to do if one is missing."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import ClassVar

from psycopg import Connection, sql

from pgtrickle.catalog.access.standing import Standing
from pgtrickle.catalog.access.trust import check_trust
from pgtrickle.catalog.capture.event_triggers import list_unsafe_watch
from pgtrickle.catalog.lake.sinks import list_failing_sinks, list_sinks
from pgtrickle.catalog.migrate import check_version
from pgtrickle.catalog.settings_table import list_unknown_parameters
from pgtrickle.catalog.stream_tables import list_stream_tables
from pgtrickle.errors import CatalogMissingError, CatalogOutdatedError, TrickleError
from pgtrickle.extras import lacking
from pgtrickle.model.stream_table import Status
from pgtrickle.model.text.names import QualifiedName, quote_identifier
from pgtrickle.model.text.shown import Shown
from pgtrickle.service.capturing.wal_slot import Severity, find_slot_health
from pgtrickle.service.insight.index_advice import IndexAdvice, advise_indexes
from pgtrickle.service.insight.snapshot_costs import add_up_snapshots
from pgtrickle.service.runtime import Runtime
from pgtrickle.session import Session
from pgtrickle.settings import find_unknown_variables
from pgtrickle.spark.sessions.java import require_java

_OLDEST_SERVER = 150000


@dataclass(frozen=True, slots=True)
class Check(Shown):
    """The result of one check."""

    in_listing: ClassVar[tuple[str, ...]] = (
        "name",
        "ok",
        "detail",
        "hint",
    )

    name: str
    ok: bool
    detail: str
    hint: str = ""
    missing_indexes: tuple[IndexAdvice, ...] = ()  # advice: they are not required


def check_machine() -> list[Check]:
    """Check this machine: Python, Java, Spark."""
    return [_python(), _java(), _spark()]


def check_server(runtime: Runtime) -> list[Check]:
    """Check the server, the catalog and the stream tables."""
    with runtime.connection() as connection:
        return [
            *check_database(connection, runtime.search_path),
            _catalog(connection),
            _owner(connection),
            _event_triggers(connection),
            _sources(connection),
            _stream_tables(connection),
            *_sinks(connection),
            *_snapshots(runtime, connection),
            *_unless_standby(connection, lambda: _indexes(runtime, connection)),
            _wakeup(runtime, connection),
            *_slot(runtime, connection),
        ]


def check_database(connection: Session, search_path: str) -> list[Check]:
    """Check the requirements of a database without a catalog."""
    return [
        _server(connection),
        _standby(connection),
        _privileges(connection),
        _schema(connection, search_path),
        _settings(connection),
        _names(connection),
    ]


def check_catalog_of_another(runtime: Runtime, standing: Standing) -> list[Check]:
    """Check what a guest on a catalog may see."""
    with runtime.connection() as connection:
        level = "an operator" if standing.may_ask else "a reader"
        trusted = standing.trusts_owner(runtime.settings.trusted_owner)
        return [
            _server(connection),
            _standby(connection),
            Check(
                "owner of the catalog",
                ok=True,
                detail=f'role "{standing.owner}"; "{standing.role}" is a guest on it, {level}'
                + ("" if trusted else ", who looks only"),
                hint="" if trusted else standing.needs_trust().hint,
            ),
            _settings(connection),
            _names(connection),
            _stream_tables(connection),
        ]


def unreached(error: TrickleError) -> Check:
    """Describe a failed connection, in the words of the server or driver."""
    words = " ".join(error.detail.split())
    detail = f"{error}: {words}" if words else str(error)
    of_catalog = isinstance(error, CatalogMissingError | CatalogOutdatedError)
    name = "catalog" if of_catalog else "connection"
    return Check(name, ok=False, detail=detail, hint=error.hint)


def _unless_standby(connection: Session, look: Callable[[], Check]) -> list[Check]:
    [(standby,)] = connection.execute(_IS_STANDBY).fetchall()
    return [] if standby else [look()]


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
        error = lacking("pyspark")
        return Check("spark", ok=False, detail=str(error), hint=error.hint)


def _server(connection: Connection) -> Check:
    version = connection.info.server_version
    return Check(
        "postgresql",
        ok=version >= _OLDEST_SERVER,
        detail=f"server version {version // 10000}.{version % 10000}",
        hint="" if version >= _OLDEST_SERVER else "Use PostgreSQL 15 or later.",
    )


_IS_STANDBY = "SELECT pg_catalog.pg_is_in_recovery()"


def _standby(connection: Connection) -> Check:
    [(standby,)] = connection.execute(_IS_STANDBY).fetchall()
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
    """Check who owns the catalog, and whether another role can put code into it."""
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


_ASK_PRIVILEGES = """
    SELECT current_user, pg_catalog.current_database(),
           pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE'),
           pg_catalog.has_database_privilege(pg_catalog.current_database(), 'TEMPORARY'),
           (SELECT count(*) = 3 FROM pg_catalog.pg_namespace AS n
             WHERE n.nspname IN ('pgtrickle', 'pgtrickle_changes', 'pgtrickle_state'))
"""


def _privileges(connection: Connection) -> Check:
    """Check the privileges on the database; existing schemas need not be created."""
    [(role, database, create, temporary, there)] = connection.execute(_ASK_PRIVILEGES).fetchall()
    lacking = [word for word, held in (("CREATE", create), ("TEMPORARY", temporary)) if not held]
    fine = not lacking or (there and temporary)
    lacks = f" lacks {', '.join(lacking)}" if lacking else ""
    unneeded = ", which it needs no more: its schemas are there" if lacking and fine else ""
    return Check(
        "privileges",
        ok=fine,
        detail=f'role "{role}"{lacks}{unneeded}',
        hint=""
        if fine
        else f"Let the owner of the database run: GRANT {', '.join(lacking)} ON DATABASE"
        f" {quote_identifier(database)} TO {quote_identifier(role)};",
    )


_ASK_SCHEMA = """
    SELECT current_user, pg_catalog.current_schema()::pg_catalog.text,
           pg_catalog.has_schema_privilege(pg_catalog.current_schema(), 'CREATE'),
           EXISTS (SELECT FROM pg_catalog.pg_namespace AS n
                    WHERE pg_catalog.has_schema_privilege(n.oid, 'CREATE')
                      AND n.nspname !~ '^(pg_|information_schema$|pgtrickle)')
"""


def _schema(connection: Session, search_path: str) -> Check:
    """Check the schema of stream tables that are created without a schema name."""
    with connection.transaction(force_rollback=True):
        connection.execute(_SET_PATH, [search_path])
        [(role, schema, create, elsewhere)] = connection.execute(_ASK_SCHEMA).fetchall()
    name = "schema of stream tables"
    if create:
        return Check(name, ok=True, detail=f'"{schema}"')
    who = quote_identifier(role)
    if schema is None:
        place, hint = "none is on the search path", f"Run: CREATE SCHEMA AUTHORIZATION {who};"
    else:
        target = quote_identifier(schema)
        place = f'"{role}" lacks CREATE on "{schema}"'
        hint = f"Let its owner run: GRANT USAGE, CREATE ON SCHEMA {target} TO {who};"
    if elsewhere:
        place = f"{place}; name stream tables with the schema that they go to"
    return Check(name, ok=elsewhere, detail=place, hint=hint)


_SET_PATH = "SELECT pg_catalog.set_config('search_path', %s, true)"
_LIST_CLOSED_SOURCES = """
    SELECT DISTINCT current_user, d.source_schema, d.source_name,
           NOT pg_catalog.has_schema_privilege(n.oid, 'USAGE'),
           NOT pg_catalog.has_any_column_privilege(c.oid, 'SELECT')
      FROM pgtrickle.pgt_dependencies AS d
      JOIN pg_catalog.pg_class AS c ON c.oid = d.source_relid
      JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
     WHERE NOT pg_catalog.has_schema_privilege(n.oid, 'USAGE')
        OR NOT pg_catalog.has_any_column_privilege(c.oid, 'SELECT')
     ORDER BY 2, 3
"""


def _sources(connection: Connection) -> Check:
    """Check the privileges on the sources."""
    closed = connection.execute(_LIST_CLOSED_SOURCES).fetchall()
    if not closed:
        return Check("sources", ok=True, detail="all may be read")
    grants = {
        grant: None
        for role, schema, table, usage, select in closed
        for grant in _grants(role, QualifiedName(schema, table), usage=usage, select=select)
    }
    named = ", ".join(f"{schema}.{table}" for _, schema, table, *_ in closed)
    return Check(
        "sources",
        ok=False,
        detail=f'"{closed[0][0]}" may not read {named}',
        hint=f"Let their owners run: {' '.join(grants)}",
    )


def _grants(role: str, table: QualifiedName, *, usage: bool, select: bool) -> Iterator[str]:
    if usage:
        yield f"GRANT USAGE ON SCHEMA {quote_identifier(table.schema)} TO {quote_identifier(role)};"
    if select:
        yield f"GRANT SELECT ON {table.sql} TO {quote_identifier(role)};"


def _names(connection: Connection) -> Check:
    """Look for misspelled settings."""
    unknown = [*find_unknown_variables(), *list_unknown_parameters(connection)]
    return Check(
        "names of settings",
        ok=not unknown,
        detail="; ".join(map(str, unknown)) or "all known",
        hint="Correct or remove it; list the settings with: pgtrickle config." if unknown else "",
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
    troubled = [one for one in tables if one.status is not Status.ACTIVE or one.failing]
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


def _sinks(connection: Connection) -> list[Check]:
    """Check the sinks, if there are any."""
    sinks = list_sinks(connection)
    failing = list_failing_sinks(connection) if sinks else []
    if not sinks:
        return []
    detail = f"{len(sinks)} copies in the lake"
    if not failing:
        return [Check("sinks", ok=True, detail=detail)]
    named = "; ".join(one.describe() for one in failing)
    remedies = dict.fromkeys(one.remedy for one in failing)
    return [Check("sinks", ok=False, detail=f"{detail}, failing: {named}", hint=" ".join(remedies))]


def _snapshots(runtime: Runtime, connection: Connection) -> list[Check]:
    costs = add_up_snapshots(runtime, connection)
    if not costs.snapshots:
        return []
    hint = "Drop those that you do not need: pgtrickle snapshot list." if costs.changes else ""
    return [Check("snapshots", ok=True, detail=str(costs), hint=hint)]


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
    """Report whether changes wake the scheduler; both answers are fine, since it also polls."""
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
        hint="If nobody prepares transactions here, let a superuser run: "
        + statement.format(sql.Identifier(database)).as_string(connection),
    )


def _slot(runtime: Runtime, connection: Connection) -> list[Check]:
    """Check the logical slot, if there is one."""
    health = find_slot_health(connection, runtime.settings)
    if health is None:
        return []
    fine = health.severity is not Severity.CRITICAL
    return [
        Check(
            "logical slot",
            ok=fine,
            detail=f"{health.slot}: {health.detail}",
            hint="" if fine else "Check that pgtrickle run is running, and end old transactions.",
        )
    ]
