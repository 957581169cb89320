"""The composition root: settings to adapters to the client object that users hold."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool

from pgtrickle.catalog.capture_control import list_held_back
from pgtrickle.catalog.graph import get_schedule_version
from pgtrickle.catalog.holds import list_holds
from pgtrickle.catalog.migrate import check_version, migrate
from pgtrickle.catalog.settings_table import (
    list_session_settings,
    list_stored_settings,
    record_settings,
    set_setting,
)
from pgtrickle.catalog.trust import trusted_session
from pgtrickle.catalog.watch import install_watch
from pgtrickle.embedded.server import start_embedded
from pgtrickle.errors import TrickleError
from pgtrickle.lake.elsewhere import check_catalog_dsn
from pgtrickle.model.cdc_mode import parse_cdc_mode
from pgtrickle.model.delta_fraction import Fraction
from pgtrickle.model.diamonds import Diamond
from pgtrickle.model.lost_servers import noticing_lost_server
from pgtrickle.model.modes import parse_refresh_mode, parse_status
from pgtrickle.model.names import QualifiedName
from pgtrickle.model.report import Progress, RefreshReport, VerifyReport
from pgtrickle.model.stream_table import InitiatedBy, StreamTable
from pgtrickle.model.tier import parse_tier
from pgtrickle.scheduler.bell import Bell
from pgtrickle.service.alter import alter_stream_table
from pgtrickle.service.bell import listening_for_changes
from pgtrickle.service.bind_again import Mended
from pgtrickle.service.capture_mode import tend_capture
from pgtrickle.service.control import (
    change_durability,
    pause_cdc,
    rebuild_cdc_triggers,
    repair_stream_table,
    resume_cdc,
    show_cdc_health,
)
from pgtrickle.service.create import create_stream_table
from pgtrickle.service.diagnose import Diagnosis, diagnose_errors
from pgtrickle.service.doctor import Check, check_machine, check_server
from pgtrickle.service.drop import drop_stream_table
from pgtrickle.service.explain import explain_stream_table
from pgtrickle.service.figures import FigureReader
from pgtrickle.service.idle import find_idle
from pgtrickle.service.lake_control import retry_delivery, show_sinks
from pgtrickle.service.lake_maintain import maintain_lake
from pgtrickle.service.lake_source import (
    attach_ducklake_table,
    detach_ducklake_table,
    show_ducklake_sources,
)
from pgtrickle.service.leadership import Leadership, standing_for_leader
from pgtrickle.service.prune import prune_history, pruning_history
from pgtrickle.service.refresh_stream_table import refresh_stream_table, refresh_unit
from pgtrickle.service.requests.server import RequestServer
from pgtrickle.service.runtime import Runtime, translated_errors, withheld_words
from pgtrickle.service.scheduler_control import SchedulerControl
from pgtrickle.service.status import (
    show_dependencies,
    show_history,
    show_shape,
    show_stream_table,
    show_stream_tables,
    show_time_zone,
)
from pgtrickle.service.tend_lake import tend_lake
from pgtrickle.service.validate import Validation, validate_query
from pgtrickle.service.verify import verify_stream_table
from pgtrickle.service.wal_slot import SlotHealth, find_slot_health
from pgtrickle.session import FIX_PATH, Session, fix_path
from pgtrickle.settings import SettingInEffect, Settings, load_settings, settings_in_effect
from pgtrickle.spark.arrow_reader import ReadConnections
from pgtrickle.spark.engine import SparkEngine
from pgtrickle.spark.session import SparkSessions

if TYPE_CHECKING:
    from datetime import timedelta

    from pyspark.sql import SparkSession

    from pgtrickle.catalog.capture_control import CaptureHealth
    from pgtrickle.catalog.refresh_history import Refresh
    from pgtrickle.model.lake_sink import LakeCare, SinkStatus
    from pgtrickle.model.lake_source import LakeSource
    from pgtrickle.ports import Engine
    from pgtrickle.scheduler.units import Shape


_RECONNECT_SECONDS = 5.0
_TRUST_SECONDS = 60.0  # after which a daemon looks again at who owns what in the catalog
_LOCK_TIMEOUT = "5s"  # unless a transaction says otherwise: nothing of ours waits for ever


def connect(
    dsn: str | None = None,
    *,
    directory: Path | None = None,
    engine: Engine | None = None,
    settings: Settings | None = None,
    spark: SparkSession | None = None,
) -> Trickle:
    """Open pgtrickle on a database and bring its catalog up to date.

    Without ``dsn`` the environment variable ``PGTRICKLE_DSN`` decides; without that either, a
    private PostgreSQL starts in ``directory`` (by default ``.pgtrickle`` here) and stops with
    its last user.

    ``spark`` is a session of the caller's, classic or Connect, beside which the work is done;
    without it one that this process has already is used, and without any Spark starts at first use.
    It is left as it was, and goes on after ``close``.
    """
    fixed = settings is not None
    settings = replace(settings, dsn=dsn or settings.dsn) if settings else load_settings(dsn=dsn)
    with ExitStack() as stack:
        address = settings.dsn
        if not address:
            address = stack.enter_context(start_embedded(directory)).dsn
        address, stored, (search_path, schema) = _read_stored_settings(address, settings)
        if not fixed:
            settings = load_settings(stored=stored, dsn=dsn)
        watched = make_conninfo(**noticing_lost_server(conninfo_to_dict(address)))
        adapters = _Adapters(watched, settings, engine, search_path, spark)
        runtime = stack.enter_context(adapters).runtime
        with runtime.connection() as connection:
            applied = migrate(connection)
            install_watch(connection)
            record_settings(connection)
        return Trickle(
            address, runtime, stack.pop_all(), schema=schema or "public", applied=applied
        )


def _read_stored_settings(
    dsn: str, settings: Settings
) -> tuple[str, dict[str, str], tuple[str, str | None]]:
    """Return the DSN of the catalog's owner, the settings that the database holds, the user's path.

    Fails at once and with the server's own reason, where a pool would go on trying.
    """
    timeout = int(settings.connection_timeout_seconds)
    with (
        withheld_words(dsn),
        translated_errors(),
        trusted_session(dsn, timeout) as (address, standing, connection),
    ):
        users = _find_users_path(connection)
        if standing.owner is None:  # whatever appears meanwhile was not looked at
            return address, list_session_settings(connection), users
        session, table = list_stored_settings(connection)
    return address, table | session, users


_GET_USERS_PATH = """
    SELECT s.reset_val FROM pg_catalog.pg_settings AS s WHERE s.name = 'search_path'
"""
_GET_USERS_SCHEMA = """
    SELECT pg_catalog.set_config('search_path', %s, true),
           pg_catalog.current_schema()::pg_catalog.text
"""


def _find_users_path(connection: Connection[TupleRow]) -> tuple[str, str | None]:
    """Return where names that the user writes are looked for, and the first schema there."""
    [(path,)] = connection.execute(_GET_USERS_PATH).fetchall()
    [(_, schema)] = connection.execute(_GET_USERS_SCHEMA, [path]).fetchall()
    connection.execute(FIX_PATH)
    return path, schema


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


def _configure(connection: Session) -> None:
    """Fix the path, and let times be written as the driver reads them.

    Poolers know the style of dates as the session's.  The order in which a date is read stays the
    database's own: it is part of what a query means.
    """
    fix_path(connection)
    connection.execute("SET DateStyle = 'ISO'")
    if not connection.pooled:  # others would get the session next
        connection.execute(f"SET lock_timeout = '{_LOCK_TIMEOUT}'".encode())


class _Adapters:
    """The adapters of one process, closed together."""

    def __init__(
        self,
        dsn: str,
        settings: Settings,
        engine: Engine | None,
        search_path: str,
        spark: SparkSession | None,
    ) -> None:
        sessions = SparkSessions(
            driver_memory=settings.spark_driver_memory,
            result_bytes=settings.driver_result_bytes,
            class_archive=settings.spark_class_archive,
            secret_file=settings.spark_auth_secret_file,
            session=spark,
        )
        pool = ConnectionPool(
            dsn,
            connection_class=Session,
            min_size=1,
            # A refresh holds two or three and borrows one more now and then; as many may be asked
            # for as the scheduler begins.
            max_size=8 + 8 * settings.max_concurrent_refreshes,
            kwargs={"autocommit": True, "prepare_threshold": None},
            configure=_configure,
            timeout=settings.connection_timeout_seconds,
            # Its attempts come at longer and longer intervals; asking again begins anew.
            reconnect_timeout=_RECONNECT_SECONDS,
            open=True,
            name="pgtrickle",
        )
        if engine is None:
            engine = SparkEngine(dsn, sessions, stall_seconds=settings.refresh_stall_seconds)
        self.runtime = Runtime(pool, ReadConnections(dsn), engine, settings, search_path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.runtime.engine.close()
        self.runtime.reads.close()
        self.runtime.pool.close()


class Trickle(SchedulerControl):
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
        self._trusted_at = time.monotonic()  # when nobody had set a trap in the catalog

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
        diamond_consistency: str | None = None,
        diamond_schedule_policy: str | None = None,
        sink: str | None = None,
        ducklake_sink_path: str | None = None,
        ducklake_table: str | None = None,
        ducklake_partition_by: str | None = None,
    ) -> RefreshReport | None:
        """Declare a stream table and, unless told otherwise, load it.

        ``max_delta_fraction`` is its own share of changed rows above which AUTO recomputes,
        ``cdc_mode`` how its sources are captured: ``trigger``, ``wal`` or ``auto``.
        ``diamond_consistency`` says whether the paths that meet in it are refreshed together,
        ``atomic`` or ``none``, and ``diamond_schedule_policy`` when: ``fastest`` or ``slowest``.
        With the ``sink`` ``ducklake`` it has a copy in the lake, committed together with it.
        """
        return create_stream_table(
            self._runtime,
            self._name(name),
            query,
            schedule=schedule,
            refresh_mode=parse_refresh_mode(refresh_mode),
            initialize=initialize,
            max_delta_fraction=max_delta_fraction,
            cdc_mode=parse_cdc_mode(cdc_mode) if cdc_mode is not None else None,
            diamond=Diamond.parse(diamond_consistency, diamond_schedule_policy),
            sink=sink,
            ducklake_sink_path=ducklake_sink_path,
            ducklake_table=ducklake_table,
            ducklake_partition_by=ducklake_partition_by,
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

    def cancel_refresh(self, name: str) -> bool:
        """Cancel a refresh that a thread of this process works on; tell whether there was one.

        It ends with ST214 before its next step, and has changed nothing.
        """
        return bool(self._runtime.jobs.cancel(self._runtime.engine, str(self._name(name))))

    def cancel_refreshes(self) -> list[str]:
        """Cancel every refresh that a thread of this process works on; return of which."""
        return self._runtime.jobs.cancel(self._runtime.engine)

    def kill_engine(self) -> None:
        """End Spark at once, whatever it does for this process."""
        self._runtime.engine.kill()

    @property
    def shutdown_seconds(self) -> float:
        """Within how long a daemon ends after a signal."""
        return self._runtime.settings.shutdown_seconds

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
        query: str | None = None,
        max_delta_fraction: Fraction | None = None,
        cdc_mode: str | None = None,
        diamond_consistency: str | None = None,
        diamond_schedule_policy: str | None = None,
        tier: str | None = None,
        sink: str | None = None,
        ducklake_sink_path: str | None = None,
        ducklake_table: str | None = None,
        ducklake_partition_by: str | None = None,
    ) -> StreamTable:
        """Change how a stream table is maintained, or its query; what is None stays.

        Another ``query`` replaces the contents at once and keeps the table, its grants and its
        readers; ST213 if its columns do not fit, ST207 if someone needs one that goes.
        A ``max_delta_fraction`` of ``"default"`` leaves it to ``differential_max_change_ratio``,
        a ``sink`` of ``"none"`` ends the copy in the lake.
        """
        return alter_stream_table(
            self._runtime,
            self._name(name),
            schedule=schedule,
            refresh_mode=parse_refresh_mode(refresh_mode) if refresh_mode is not None else None,
            status=parse_status(status) if status is not None else None,
            query=query,
            max_delta_fraction=max_delta_fraction,
            cdc_mode=parse_cdc_mode(cdc_mode) if cdc_mode is not None else None,
            diamond=Diamond.parse(diamond_consistency, diamond_schedule_policy),
            tier=None if tier is None else parse_tier(tier),
            sink=sink,
            ducklake_sink_path=ducklake_sink_path,
            ducklake_table=ducklake_table,
            ducklake_partition_by=ducklake_partition_by,
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

    def attach_ducklake_table(
        self,
        name: str,
        lake_table: str,
        columns: Sequence[str] | None = None,
        *,
        catalog_schema: str | None = None,
        compaction_policy: str | None = None,
    ) -> LakeSource:
        """Follow a table of the lake under a name, so that stream tables can read it.

        PostgreSQL holds its rows, of all ``columns`` or of some.  ``compaction_policy`` says what
        is done when the lake has forgotten the snapshot that was read last: ``fallback`` compares
        all rows, ``error`` gives up.
        """
        return attach_ducklake_table(
            self._runtime,
            self._name(name),
            lake_table,
            columns=columns,
            catalog_schema=catalog_schema,
            compaction_policy=compaction_policy,
        )

    def detach_ducklake_table(self, name: str) -> LakeSource:
        """Follow a table of the lake no longer, and drop its rows."""
        return detach_ducklake_table(self._runtime, self._name(name))

    def ducklake_sources(self) -> list[LakeSource]:
        """Return every attached lake table, and how far it has been read."""
        return show_ducklake_sources(self._runtime)

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

    def diagnose_errors(self, name: str) -> list[Diagnosis]:
        """Return the latest errors of a stream table, what they mean and what to do."""
        return diagnose_errors(self._runtime, self._name(name))

    def dependencies(self) -> dict[str, list[str]]:
        """Return, for each stream table, the stream tables it reads."""
        return show_dependencies(self._runtime)

    def version(self) -> str:
        """Return what differs whenever anything does on which the schedule depends."""
        with self._runtime.connection() as connection:
            return get_schedule_version(connection)

    def shape(self) -> Shape:
        """Return who reads whom, and which stream tables are refreshed together."""
        return show_shape(self._runtime)

    def refresh_unit(self, names: Sequence[str]) -> list[RefreshReport]:
        """Refresh a stream table for the scheduler, or several that belong together."""
        return refresh_unit(self._runtime, [self._name(name) for name in names])

    def find_idle(self, stream_tables: Sequence[StreamTable]) -> frozenset[int]:
        """Return the ids of those with nothing to do, by one query; note that they are current."""
        return find_idle(self._runtime, stream_tables)

    def find_held(self) -> dict[int, str]:
        """Return the ids of the stream tables that the scheduler leaves alone, and why."""
        with self._runtime.connection() as connection:
            switched_off = "its capture is paused, or pg_trickle.enabled is off"
            held_back = dict.fromkeys(list_held_back(connection), switched_off)
            return held_back | list_holds(connection)

    def check_catalog(self) -> None:
        """Raise if another version of the package, or a stranger, has taken the catalog over."""
        now = time.monotonic()
        trusted = now - self._trusted_at < _TRUST_SECONDS
        with self._runtime.connection() as connection:
            check_version(connection, trusted=trusted)
        if not trusted:
            self._trusted_at = now

    def time_zone(self) -> str:
        """Return the time zone in which cron schedules are meant: the server's."""
        return show_time_zone(self._runtime)

    @property
    def auto_backoff(self) -> bool:
        """Whether a stream table that cannot keep its schedule is refreshed less often."""
        return self._runtime.settings.auto_backoff

    @property
    def max_concurrent_refreshes(self) -> int:
        """How many refreshes may go on at a time, by the process and by the database's quota."""
        settings = self._runtime.settings
        quota = settings.per_database_worker_quota or settings.max_concurrent_refreshes
        return min(quota, settings.max_concurrent_refreshes)

    def prune_history(self) -> int:
        """Delete the history that is older than the settings keep it; return how many rows."""
        return prune_history(self._runtime)

    def pruning_history(self) -> AbstractContextManager[None]:
        """Prune the history again and again, for the length of a block."""
        return pruning_history(self._runtime)

    def figure_reader(self) -> FigureReader:
        """Return what reads figures of all stream tables and sinks, for metrics."""
        return FigureReader(self._runtime)

    def standing_for_leader(self) -> AbstractContextManager[Leadership]:
        """Ask for the lead among the daemons on this database, for the length of a block."""
        return standing_for_leader(self._runtime)

    def listening_for_changes(self) -> AbstractContextManager[Bell]:
        """Let changes ring a bell, for the length of a block."""
        return listening_for_changes(self._runtime)

    def tend_capture(self) -> None:
        """Read the log, watch the slot and hand sources over, if it is time for that."""
        tend_capture(self._runtime)

    def tend_lake(self) -> bool:
        """Follow attached tables, try deliveries that are due again, tidy the lake in time.

        Returns whether a table is attached.
        """
        return tend_lake(self._runtime)

    def slot_health(self) -> SlotHealth | None:
        """Tell how much log the slot holds back; None if nothing is captured from the log."""
        with self._runtime.connection() as connection:
            return find_slot_health(connection, self._runtime.settings)

    def serve_requests(self) -> int:
        """Execute what SQL sessions ask for by now; return how many requests that were."""
        with RequestServer(self._runtime) as server:
            return server.serve()

    def serving_requests(
        self, leads: Callable[[], bool] = lambda: True
    ) -> AbstractContextManager[object]:
        """Execute what SQL sessions ask for, from threads, for the length of a block.

        Takes nothing on while ``leads`` says no: then another process does.
        """
        return RequestServer(self._runtime, leads=leads, workers=self.max_concurrent_refreshes)

    def list_settings(self) -> list[SettingInEffect]:
        """Return every setting of this process, and where its value comes from."""
        with self._runtime.connection() as connection:
            session, table = list_stored_settings(connection)
        return settings_in_effect(self._runtime.settings, session, table)

    def set_setting(self, name: str, value: str | None) -> None:
        """Give a setting a value for this database, for processes that start from now on."""
        if name == "ducklake_catalog_dsn" and value:
            check_catalog_dsn(value)
        with self._runtime.connection() as connection:
            set_setting(connection, name, value)

    def doctor(self) -> list[Check]:
        """Check Java, Spark, PostgreSQL, privileges, versions and the stream tables."""
        return [*check_machine(), *check_server(self._runtime)]

    def _name(self, text: str) -> QualifiedName:
        return QualifiedName.parse(text, self._schema)
