"""``doctor``: check the requirements of pgtrickle, and say what to do if one is missing."""

from __future__ import annotations

import platform
from collections.abc import Callable
from importlib import metadata

from psycopg import Connection, sql

from pgtrickle.catalog.access.standing import Standing
from pgtrickle.catalog.access.trust import check_trust
from pgtrickle.catalog.capture.event_triggers import list_unsafe_watch
from pgtrickle.catalog.lake.sinks import list_failing_sinks, list_sinks
from pgtrickle.catalog.migrate import check_version
from pgtrickle.catalog.stream_tables import list_stream_tables
from pgtrickle.errors import CatalogMissingError, CatalogOutdatedError, TrickleError
from pgtrickle.extras import lacking
from pgtrickle.model.stream_table import Status
from pgtrickle.model.text.names import quote_identifier
from pgtrickle.service.capturing.wal_slot import Severity, find_slot_health
from pgtrickle.service.insight.checkup.check import Check
from pgtrickle.service.insight.checkup.database import (
    IS_STANDBY,
    check_database,
    check_encoding,
    check_names,
    check_server_version,
    check_sources,
    check_standby,
)
from pgtrickle.service.insight.checkup.findings import check_clock, check_findings
from pgtrickle.service.insight.index_advice import advise_indexes
from pgtrickle.service.insight.snapshot_costs import add_up_snapshots
from pgtrickle.service.runtime import Runtime
from pgtrickle.session import Session
from pgtrickle.settings import POSTGRES, Settings
from pgtrickle.spark.sessions.java import require_java


def check_machine(settings: Settings) -> list[Check]:
    """Check this machine: Python, Java, Spark; the last two only count where Spark computes."""
    for_spark = [_java(), _spark()]
    if settings.engine == POSTGRES:
        unneeded = "; not needed, since PostgreSQL computes (engine = postgres)"
        for_spark = [
            one if one.ok else Check(one.name, ok=True, detail=one.detail + unneeded)
            for one in for_spark
        ]
    return [_python(), *for_spark]


def check_server(runtime: Runtime) -> list[Check]:
    """Check the server, the catalog and the stream tables."""
    with runtime.connection() as connection:
        return [
            *check_database(connection, runtime.search_path),
            _catalog(connection),
            _owner(connection),
            _event_triggers(connection),
            check_sources(connection),
            _stream_tables(connection),
            *_sinks(connection),
            *_snapshots(runtime, connection),
            *_unless_standby(connection, lambda: _indexes(runtime, connection)),
            _wakeup(runtime, connection),
            *_slot(runtime, connection),
            check_clock(connection),
            *check_findings(connection),
        ]


def check_catalog_of_another(runtime: Runtime, standing: Standing) -> list[Check]:
    """Check what a guest on a catalog may see."""
    with runtime.connection() as connection:
        level = "an operator" if standing.may_ask else "a reader"
        trusted = standing.trusts_owner(runtime.settings.trusted_owner)
        return [
            check_server_version(connection),
            check_standby(connection),
            Check(
                "owner of the catalog",
                ok=True,
                detail=f'role "{standing.owner}"; "{standing.role}" is a guest on it, {level}'
                + ("" if trusted else ", who looks only"),
                hint="" if trusted else standing.needs_trust().hint,
            ),
            check_encoding(connection),
            check_names(connection),
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
    [(standby,)] = connection.execute(IS_STANDBY).fetchall()
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
