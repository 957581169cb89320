"""The composition root: settings to adapters to the client object that users hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool

from pgtrickle.catalog.migrate import migrate
from pgtrickle.catalog.watch import install_watch
from pgtrickle.embedded.server import start_embedded
from pgtrickle.errors import SettingError, TrickleError
from pgtrickle.model.cdc_mode import parse_cdc_mode
from pgtrickle.model.delta_fraction import Fraction
from pgtrickle.model.names import QualifiedName
from pgtrickle.model.report import Progress, RefreshReport, VerifyReport
from pgtrickle.model.stream_table import InitiatedBy, RefreshMode, Status, StreamTable
from pgtrickle.service.alter import alter_stream_table
from pgtrickle.service.capture_mode import tend_capture
from pgtrickle.service.control import (
    Mended,
    change_durability,
    pause_cdc,
    rebuild_cdc_triggers,
    repair_stream_table,
    resume_cdc,
    show_cdc_health,
)
from pgtrickle.service.create import create_stream_table
from pgtrickle.service.doctor import Check, check_machine, check_server
from pgtrickle.service.drop import drop_stream_table
from pgtrickle.service.explain import explain_stream_table
from pgtrickle.service.idle import find_idle
from pgtrickle.service.lake_control import deliver_due, retry_delivery, show_sinks
from pgtrickle.service.lake_maintain import maintain_due, maintain_lake
from pgtrickle.service.refresh import refresh_stream_table
from pgtrickle.service.runtime import Runtime, translated_errors
from pgtrickle.service.status import (
    show_dependencies,
    show_history,
    show_stream_table,
    show_stream_tables,
)
from pgtrickle.service.validate import Validation, validate_query
from pgtrickle.service.verify import verify_stream_table
from pgtrickle.service.wal_slot import SlotHealth, find_slot_health
from pgtrickle.settings import Settings, load_settings
from pgtrickle.spark.arrow_reader import ReadConnections
from pgtrickle.spark.engine import SparkEngine
from pgtrickle.spark.session import SparkSessions

if TYPE_CHECKING:
    from datetime import timedelta

    from pgtrickle.catalog.capture_control import CaptureHealth
    from pgtrickle.catalog.refresh_history import Refresh
    from pgtrickle.model.lake_sink import LakeCare, SinkStatus
    from pgtrickle.ports import Engine


def connect(
    dsn: str | None = None,
    *,
    directory: Path | None = None,
    engine: Engine | None = None,
    settings: Settings | None = None,
) -> Trickle:
    """Open pgtrickle on a database and bring its catalog up to date.

    Without ``dsn`` the environment variable ``PGTRICKLE_DSN`` decides; without that either, a
    private PostgreSQL starts in ``directory`` (by default ``.pgtrickle`` here) and stops with
    its last user.
    """
    settings = replace(settings, dsn=dsn or settings.dsn) if settings else load_settings(dsn=dsn)
    with ExitStack() as stack:
        address = settings.dsn
        if not address:
            address = stack.enter_context(start_embedded(directory)).dsn
        _check_address(address, settings)
        runtime = stack.enter_context(_Adapters(address, settings, engine)).runtime
        with runtime.connection() as connection:
            applied = migrate(connection)
            install_watch(connection)
            [(schema,)] = connection.execute("SELECT pg_catalog.current_schema()").fetchall()
        return Trickle(
            address, runtime, stack.pop_all(), schema=schema or "public", applied=applied
        )


def _check_address(dsn: str, settings: Settings) -> None:
    """Fail at once and with the server's own reason, where a pool would go on trying."""
    timeout = int(settings.connection_timeout_seconds)
    with translated_errors():
        psycopg.connect(dsn, connect_timeout=timeout).close()


def diagnose(
    dsn: str | None = None,
    connect: Callable[[str | None], AbstractContextManager[Trickle]] = connect,
) -> list[Check]:
    """Check the machine and, if it can be reached, the server and the catalog on it."""
    try:
        with connect(dsn) as trickle:
            return trickle.doctor()
    except TrickleError as error:
        unreached = Check("connection", ok=False, detail=str(error), hint=error.hint)
        return [*check_machine(), unreached]


def _read_dates(connection: Connection[TupleRow]) -> None:
    """Let times be written as the driver reads them; poolers know this setting as the session's.

    The order in which a date is read stays the database's own: it is part of what a query means.
    """
    connection.execute("SET DateStyle = 'ISO'")


class _Adapters:
    """The adapters of one process, closed together."""

    def __init__(self, dsn: str, settings: Settings, engine: Engine | None) -> None:
        pool = ConnectionPool(
            dsn,
            min_size=1,
            max_size=16,
            kwargs={"autocommit": True, "prepare_threshold": None},
            configure=_read_dates,
            timeout=settings.connection_timeout_seconds,
            open=True,
            name="pgtrickle",
        )
        if engine is None:
            sessions = SparkSessions(
                driver_memory=settings.spark_driver_memory,
                result_bytes=settings.driver_result_bytes,
            )
            engine = SparkEngine(dsn, sessions)
        self.runtime = Runtime(pool, ReadConnections(dsn), engine, settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.runtime.engine.close()
        self.runtime.reads.close()
        self.runtime.pool.close()


class Trickle:
    """A connection to the stream tables of one database; use it as a context manager."""

    def __init__(
        self,
        dsn: str,
        runtime: Runtime,
        resources: ExitStack,
        *,
        schema: str = "public",
        applied: list[int] | None = None,
    ) -> None:
        self.dsn = dsn
        self._schema = schema  # of names that are given without one
        self._applied = applied or []  # migrations
        self._runtime = runtime
        self._resources = resources

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop Spark and the embedded server, where this process started them."""
        self._resources.close()

    def on_progress(self, listener: Callable[[Progress], None] | None) -> None:
        """Call ``listener`` every few seconds of a large refresh, from another thread."""
        self._runtime.progress = listener

    def init(self) -> list[int]:
        """Bring the catalog up to date; return the migrations applied since ``connect`` began."""
        with self._runtime.connection() as connection:
            self._applied += migrate(connection)
        return self._applied

    def create_stream_table(
        self,
        name: str,
        query: str,
        schedule: str = "calculated",
        refresh_mode: str = "AUTO",
        *,
        initialize: bool = True,
        max_delta_fraction: float | None = None,
        cdc_mode: str | None = None,
        sink: str | None = None,
        ducklake_sink_path: str | None = None,
        ducklake_table: str | None = None,
    ) -> RefreshReport | None:
        """Declare a stream table and, unless told otherwise, load it.

        ``max_delta_fraction`` is its own share of changed rows above which AUTO recomputes,
        ``cdc_mode`` how its sources are captured: ``trigger``, ``wal`` or ``auto``.  With the
        ``sink`` ``ducklake`` it has a copy in the lake, committed together with it.
        """
        return create_stream_table(
            self._runtime,
            self._name(name),
            query,
            schedule=schedule,
            refresh_mode=_mode(refresh_mode),
            initialize=initialize,
            max_delta_fraction=max_delta_fraction,
            cdc_mode=parse_cdc_mode(cdc_mode) if cdc_mode is not None else None,
            sink=sink,
            ducklake_sink_path=ducklake_sink_path,
            ducklake_table=ducklake_table,
        )

    def validate_query(self, query: str) -> Validation:
        """Tell whether and how a query could be maintained, and every reason why not."""
        return validate_query(self._runtime, query)

    def refresh_stream_table(
        self, name: str, *, full: bool = False, initiated_by: InitiatedBy = InitiatedBy.MANUAL
    ) -> RefreshReport:
        """Bring a stream table up to date."""
        return refresh_stream_table(
            self._runtime, self._name(name), full=full, initiated_by=initiated_by
        )

    def verify_stream_table(self, name: str) -> VerifyReport:
        """Compare a stream table with PostgreSQL's own answer to its query."""
        return verify_stream_table(self._runtime, self._name(name))

    def explain_stream_table(self, name: str, format: str = "text") -> str:  # noqa: A002 - PostgreSQL's word
        """Show how a stream table is maintained: as ``text``, ``json`` or ``dot``."""
        return explain_stream_table(self._runtime, self._name(name), format)

    def alter_stream_table(
        self,
        name: str,
        schedule: str | None = None,
        refresh_mode: str | None = None,
        status: str | None = None,
        *,
        max_delta_fraction: Fraction | None = None,
        cdc_mode: str | None = None,
        sink: str | None = None,
        ducklake_sink_path: str | None = None,
        ducklake_table: str | None = None,
    ) -> StreamTable:
        """Change how a stream table is maintained; what is None stays.

        A ``max_delta_fraction`` of ``"default"`` leaves it to ``differential_max_change_ratio``,
        a ``sink`` of ``"none"`` ends the copy in the lake.
        """
        return alter_stream_table(
            self._runtime,
            self._name(name),
            schedule=schedule,
            refresh_mode=_mode(refresh_mode) if refresh_mode is not None else None,
            status=_status(status) if status is not None else None,
            max_delta_fraction=max_delta_fraction,
            cdc_mode=parse_cdc_mode(cdc_mode) if cdc_mode is not None else None,
            sink=sink,
            ducklake_sink_path=ducklake_sink_path,
            ducklake_table=ducklake_table,
        )

    def drop_stream_table(self, name: str, *, cascade: bool = False) -> list[str]:
        """Drop a stream table, with ``cascade`` also those that read it."""
        return drop_stream_table(self._runtime, self._name(name), cascade=cascade)

    def repair_stream_table(self, name: str) -> list[Mended]:
        """Mend triggers, buffers, guard and status of a stream table; it then starts anew."""
        return repair_stream_table(self._runtime, self._name(name))

    def check_cdc_health(self) -> list[CaptureHealth]:
        """Return every captured source, with a row for each thing that is wrong."""
        return show_cdc_health(self._runtime)

    def rebuild_cdc_triggers(self) -> list[Mended]:
        """Make the triggers of every capture anew."""
        return rebuild_cdc_triggers(self._runtime)

    def pause_cdc(self, *sources: str) -> list[str]:
        """Stop capturing these sources, or all, for every session, until ``resume_cdc``."""
        return pause_cdc(self._runtime, [self._name(one) for one in sources])

    def resume_cdc(self, *sources: str) -> list[str]:
        """Capture again; the stream tables start anew with their next refresh."""
        return resume_cdc(self._runtime, [self._name(one) for one in sources])

    def set_buffer_durability(self, durability: str) -> list[str]:
        """Store every change buffer ``unlogged``, ``logged`` or ``sync``; writers wait for it."""
        return change_durability(self._runtime, durability)

    def ducklake_sink_status(self) -> list[SinkStatus]:
        """Return every copy in the lake, and how far it is."""
        return show_sinks(self._runtime)

    def retry_sink(self, name: str) -> SinkStatus:
        """Deliver now what the lake lacks of a stream table, however often that failed before."""
        return retry_delivery(self._runtime, self._name(name))

    def maintain_lake(self, older_than: timedelta, keep: timedelta | None = None) -> LakeCare:
        """Merge small files of the lake, remove those of this age that nobody needs.

        Snapshots older than ``keep`` are forgotten; without it, none.
        """
        return maintain_lake(self._runtime, older_than, keep)

    def list_stream_tables(self) -> list[StreamTable]:
        """Return every stream table, by name."""
        return show_stream_tables(self._runtime)

    def get_stream_table(self, name: str) -> StreamTable:
        """Return one stream table."""
        return show_stream_table(self._runtime, self._name(name))

    def refresh_history(self, name: str | None = None, limit: int = 20) -> list[Refresh]:
        """Return the latest refreshes of one stream table, or of all, the newest first."""
        wanted = self._name(name) if name is not None else None
        return show_history(self._runtime, wanted, limit=limit)

    def dependencies(self) -> dict[str, list[str]]:
        """Return, for each stream table, the stream tables it reads."""
        return show_dependencies(self._runtime)

    def find_idle(self, stream_tables: Sequence[StreamTable]) -> frozenset[int]:
        """Return the ids of those with nothing to do, by one query; note that they are current."""
        return find_idle(self._runtime, stream_tables)

    def tend_capture(self) -> None:
        """Read the log, watch the slot and hand sources over, if it is time for that."""
        tend_capture(self._runtime)

    def tend_lake(self) -> None:
        """Try again the deliveries that are due, and tidy the lake if it is time for that."""
        deliver_due(self._runtime)
        maintain_due(self._runtime)

    def slot_health(self) -> SlotHealth | None:
        """Tell how much log the slot holds back; None if nothing is captured from the log."""
        with self._runtime.connection() as connection:
            return find_slot_health(connection, self._runtime.settings)

    def doctor(self) -> list[Check]:
        """Check Java, Spark, PostgreSQL, privileges, versions and the stream tables."""
        return [*check_machine(), *check_server(self._runtime)]

    def _name(self, text: str) -> QualifiedName:
        return QualifiedName.parse(text, self._schema)


def _mode(text: str) -> RefreshMode:
    try:
        return RefreshMode(text.upper())
    except ValueError:
        raise SettingError(
            f'the refresh mode "{text}" does not exist',
            hint=f"Choose one of {', '.join(mode.value for mode in RefreshMode)}.",
        ) from None


def _status(text: str) -> Status:
    try:
        return Status(text.upper())
    except ValueError:
        raise SettingError(
            f'the status "{text}" does not exist', hint="Choose ACTIVE or SUSPENDED."
        ) from None
