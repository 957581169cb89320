"""The client: a connection to the stream tables of one database, with the verbs on them.

What most programs need is a method of the client; the verbs on one subject are behind an attribute:
``scheduler``, ``capture``, ``lake``, ``outbox``, ``relay``, ``inbox``, ``inbound``,
``snapshots``, ``shadows``, ``definitions``, ``projects`` and ``insight``.
All have the names that they have in SQL (tools/verbs.py).

Each verb imports its use case when it is called: most processes only look at the catalog, and need
neither the compiler nor Arrow, which take longer to import than they have to live.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, TypeVar, Unpack, overload

from pgtrickle.catalog.migrate import migrate
from pgtrickle.catalog.settings_table import list_stored_settings, set_setting
from pgtrickle.client.table import Table
from pgtrickle.errors import CatalogMissingError
from pgtrickle.model.report import Progress, RefreshReport, VerifyReport
from pgtrickle.model.scheduling.delta_fraction import Fraction
from pgtrickle.model.stream_table import RefreshMode, StreamTable
from pgtrickle.model.text.shown import Listing
from pgtrickle.model.words import (
    AccessLevel,
    AnyCdcMode,
    AnyConsistency,
    AnyEngine,
    AnyEngineOrDefault,
    AnyFuseMode,
    AnyRefreshMode,
    AnySchedulePolicy,
    AnySink,
    AnyStatus,
    AnyTier,
    ExplainFormat,
)
from pgtrickle.options.changes import Changes, read_options
from pgtrickle.options.option import OptionVerb
from pgtrickle.options.stream_table import options_of
from pgtrickle.options.words import AlterOptions, AlterWords, CreateOptions, Definition
from pgtrickle.service.insight.status import (
    find_shown,
    show_history,
    show_stream_table,
    show_stream_tables,
)
from pgtrickle.service.lazy import Late
from pgtrickle.service.lease_waits import when_free
from pgtrickle.service.naming import Naming
from pgtrickle.service.runtime import Runtime
from pgtrickle.settings import SettingInEffect, settings_in_effect

if TYPE_CHECKING:
    from pgtrickle.catalog.refreshes.history import Refresh
    from pgtrickle.client.capture import CaptureVerbs
    from pgtrickle.client.definitions import DefinitionVerbs
    from pgtrickle.client.insight import InsightVerbs
    from pgtrickle.client.lake import LakeVerbs
    from pgtrickle.client.projects import ProjectVerbs
    from pgtrickle.client.scheduler import SchedulerVerbs
    from pgtrickle.client.shadows import ShadowVerbs
    from pgtrickle.client.snapshots import SnapshotVerbs
    from pgtrickle.client.streams.inbound import InboundVerbs
    from pgtrickle.client.streams.inbox import InboxVerbs
    from pgtrickle.client.streams.outbox import OutboxVerbs
    from pgtrickle.client.streams.relay import RelayVerbs
    from pgtrickle.daemon import Daemon
    from pgtrickle.model.status_report import HealthCheck, StatusReport, Versions
    from pgtrickle.model.upgrades.plan import MigrationPlan
    from pgtrickle.scheduler.loop import Watcher
    from pgtrickle.service.insight.channels import Notice
    from pgtrickle.service.insight.checkup.check import Check
    from pgtrickle.service.lifecycle.create_or_replace import Outcome
    from pgtrickle.service.lifecycle.rename import RenameReport
    from pgtrickle.service.lifecycle.repair.rebind import Mended
    from pgtrickle.service.lifecycle.validate import Validation


T = TypeVar("T")


class Trickle(Naming):
    """A connection to the stream tables of one database; use it as a context manager."""

    def __init__(
        self,
        dsn: str,
        runtime: Runtime,
        resources: ExitStack,
        *,
        schema: str = "public",
        applied: list[str] | None = None,
    ) -> None:
        super().__init__(runtime, schema)
        self.dsn = dsn
        self._applied = applied or []  # to the catalog, since ``connect`` began
        self._resources = resources
        self._daemon = Late(self._make_daemon)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop Spark and the embedded server, where this process started them."""
        self._resources.close()

    def on_progress(self, listener: Callable[[Progress], None] | None) -> None:
        """Call ``listener`` every few seconds of a large refresh, from another thread."""
        self._runtime.progress = listener

    def init(self) -> list[str]:
        """Create or upgrade the catalog; return the names of what was applied since ``connect``."""
        with self._runtime.connection_before_catalog() as connection:
            self._applied += migrate(connection)
        self._runtime.gap = None
        return self._applied

    @overload
    def migrate(self) -> list[str]: ...

    @overload
    def migrate(self, *, dry_run: Literal[False]) -> list[str]: ...

    @overload
    def migrate(self, *, dry_run: Literal[True]) -> MigrationPlan: ...

    def migrate(self, *, dry_run: bool = False) -> list[str] | MigrationPlan:
        """Upgrade the catalog, if there is one; returns the same as ``init``.

        With ``dry_run`` the upgrade is rehearsed in a transaction that is rolled back, and its plan
        is returned.  The rehearsal holds the same locks, for as long as the migration would.
        """
        if isinstance(self._runtime.gap, CatalogMissingError):
            raise self._runtime.gap
        if not dry_run:
            return self.init()
        from pgtrickle.catalog.upgrades.rehearse import rehearse

        with self._runtime.connection_before_catalog() as connection:
            return rehearse(connection)

    def run(
        self,
        stop: threading.Event | None = None,
        *,
        once: bool = False,
        watcher: Watcher | None = None,
        relay: bool = False,
        relay_file: str | Path | None = None,
    ) -> None:
        """Keep stream tables fresh, as ``pgtrickle run`` does, until ``stop`` is set or Ctrl-C.

        Blocks; from a thread, give it an event to stop it by.  With ``once`` it makes one pass.
        With ``relay`` it delivers the pipelines of the catalog too, and those of a ``relay_file``.
        A ``watcher`` is told of each refresh and failure; without one, failures go to the log.
        """
        from pgtrickle.daemon import LogWatcher

        daemon, file = self.daemon, None if relay_file is None else Path(relay_file)
        beside = daemon.relay_beside(file) if relay or file is not None else None
        daemon.run(stop or threading.Event(), watcher or LogWatcher(), once=once, relay=beside)

    @property
    def daemon(self) -> Daemon:
        """The scheduler's own methods, behind ``run``; users need none of them."""
        return self._daemon()

    @cached_property
    def scheduler(self) -> SchedulerVerbs:
        """The verbs on the scheduler: pauses, gates, watermarks, fuses, refresh groups."""
        from pgtrickle.client.scheduler import SchedulerVerbs

        return SchedulerVerbs(self._runtime, self._schema)

    @cached_property
    def capture(self) -> CaptureVerbs:
        """The verbs on capture: how changes of the sources are recorded, and how well."""
        from pgtrickle.client.capture import CaptureVerbs

        return CaptureVerbs(self._runtime, self._schema)

    @cached_property
    def lake(self) -> LakeVerbs:
        """The verbs on the lake: copies in it, its tables as sources, its catalog."""
        from pgtrickle.client.lake import LakeVerbs

        return LakeVerbs(self._runtime, self._schema)

    @cached_property
    def inbound(self) -> InboundVerbs:
        """The verbs on inbound pipelines: what relays receive into inboxes."""
        from pgtrickle.client.streams.inbound import InboundVerbs

        return InboundVerbs(self._runtime, self._schema)

    @cached_property
    def inbox(self) -> InboxVerbs:
        """The verbs on inboxes: receive messages once, and follow what becomes of them."""
        from pgtrickle.client.streams.inbox import InboxVerbs

        return InboxVerbs(self._runtime, self._schema)

    @cached_property
    def relay(self) -> RelayVerbs:
        """The verbs on relays: what is delivered where, and how that goes."""
        from pgtrickle.client.streams.relay import RelayVerbs

        return RelayVerbs(self._runtime, self._schema)

    @cached_property
    def shadows(self) -> ShadowVerbs:
        """The verbs on shadow builds: follow, compare, promote and cancel them."""
        from pgtrickle.client.shadows import ShadowVerbs

        return ShadowVerbs(self._runtime, self._schema)

    @cached_property
    def snapshots(self) -> SnapshotVerbs:
        """The verbs on snapshots: take, restore, list and drop them."""
        from pgtrickle.client.snapshots import SnapshotVerbs

        return SnapshotVerbs(self._runtime, self._schema)

    @cached_property
    def outbox(self) -> OutboxVerbs:
        """The verbs on outboxes: record what refreshes change, and read it."""
        from pgtrickle.client.streams.outbox import OutboxVerbs

        return OutboxVerbs(self._runtime, self._schema)

    @cached_property
    def definitions(self) -> DefinitionVerbs:
        """The verbs on the definitions of a whole database: dump them, and restore them."""
        from pgtrickle.client.definitions import DefinitionVerbs

        return DefinitionVerbs(self._runtime, self._schema)

    @cached_property
    def projects(self) -> ProjectVerbs:
        """The verbs on projects, which define stream tables by files: plan, apply, test them."""
        from pgtrickle.client.projects import ProjectVerbs

        return ProjectVerbs(self._runtime, self._schema)

    @cached_property
    def insight(self) -> InsightVerbs:
        """The verbs that explain: the graph, figures of refreshes, errors, the compiler."""
        from pgtrickle.client.insight import InsightVerbs

        return InsightVerbs(self._runtime, self._schema)

    def create_stream_table(
        self,
        name: str,
        query: str,
        schedule: str = "calculated",
        refresh_mode: AnyRefreshMode = RefreshMode.AUTO,
        *,
        initialize: bool = True,
        cdc_mode: AnyCdcMode | None = None,
        max_delta_fraction: float | None = None,
        engine: AnyEngine | None = None,
        diamond_consistency: AnyConsistency | None = None,
        diamond_schedule_policy: AnySchedulePolicy | None = None,
        sink: AnySink | None = None,
        ducklake_sink_path: str | None = None,
        ducklake_table: str | None = None,
        ducklake_partition_by: str | None = None,
    ) -> RefreshReport | None:
        """Declare a stream table and, unless told otherwise, load it.

        - ``schedule``: How often to refresh: 30s, 5m, 1h30m, a cron expression, or
          calculated.
        - ``refresh_mode``: How to maintain it: by changes, in full, as each refresh decides, or
          by writers at once.
        - ``initialize``: Whether to fill it now.
        - ``cdc_mode``: How its sources are captured; without one, the setting cdc_mode
          decides.
        - ``max_delta_fraction``: Share of changed rows, 0 to 1, above which AUTO recomputes
          in full.
        - ``engine``: What computes its refreshes: spark, postgres, or the quicker one
          (auto); without one, the setting engine decides.
        - ``diamond_consistency``: Whether the paths that meet in it are refreshed together.
        - ``diamond_schedule_policy``: When those are due: with the first of them, or with
          the last.
        - ``sink``: Where a copy of it is kept in step with it: ducklake.
        - ``ducklake_sink_path``: Directory of the lake's files; without one, that of the
          lake's catalog.
        - ``ducklake_table``: Table of the lake; without one, main and the same name.
        - ``ducklake_partition_by``: Partition keys in the lake, such as: region,
          year(placed_at).
        """
        from pgtrickle.service.lifecycle.create import create_stream_table

        words = CreateOptions(
            schedule=schedule,
            refresh_mode=refresh_mode,
            initialize=initialize,
            cdc_mode=cdc_mode,
            max_delta_fraction=max_delta_fraction,
            engine=engine,
            diamond_consistency=diamond_consistency,
            diamond_schedule_policy=diamond_schedule_policy,
            sink=sink,
            ducklake_sink_path=ducklake_sink_path,
            ducklake_table=ducklake_table,
            ducklake_partition_by=ducklake_partition_by,
        )
        return create_stream_table(self._runtime, self._name(name), query, read_options(words))

    def create_or_replace_stream_table(
        self, name: str, query: str, **options: Unpack[CreateOptions]
    ) -> Outcome:
        """Create a stream table, or change the one of this name to match this definition.

        ``options`` are those of ``create_stream_table``.  Those left out or None stay as they
        are, except for the schedule and the refresh mode.
        """
        from pgtrickle.service.lifecycle.create_or_replace import (
            CREATED,
            UNCHANGED,
            Outcome,
            find_changes,
        )

        existing = find_shown(self._runtime, self._name(name))
        if existing is None:
            return Outcome(CREATED, self.create_stream_table(name, query, **options))
        changes, another, status = find_changes(self._runtime, existing, query, options)
        if status != UNCHANGED:
            from pgtrickle.service.lifecycle.alter import alter_stream_table

            alter_stream_table(self._runtime, existing.name, changes, query=another)
        return Outcome(status)

    def create_stream_table_if_not_exists(
        self, name: str, query: str, **options: Unpack[CreateOptions]
    ) -> Outcome:
        """Create a stream table, unless one of this name exists, whatever its definition.

        ``options`` are those of ``create_stream_table``.
        """
        from pgtrickle.service.lifecycle.create_or_replace import CREATED, EXISTS, Outcome

        if find_shown(self._runtime, self._name(name)) is not None:
            return Outcome(EXISTS)
        return Outcome(CREATED, self.create_stream_table(name, query, **options))

    def bulk_create(self, definitions: Iterable[Definition]) -> Listing[StreamTable]:
        """Create several stream tables or, if one of them fails, none.

        A definition has the arguments of ``create_stream_table`` under their names.
        """
        from pgtrickle.service.lifecycle.bulk import create_all
        from pgtrickle.service.requests.arguments import check_arguments

        optional = [one.name for one in options_of(OptionVerb.CREATE)]

        def create(definition: Definition) -> StreamTable:
            words = {k: v.value if isinstance(v, Enum) else v for k, v in definition.items()}
            required = ("name", "query")
            known = check_arguments("bulk_create", words, required=required, optional=optional)
            self.create_stream_table(**known)
            return self.get_stream_table(known["name"])

        def drop(made: StreamTable) -> None:
            self.drop_stream_table(made.name.sql)

        return Listing(create_all(definitions, create, drop))

    def bulk_alter_stream_tables(
        self, names: Iterable[str], **changes: Unpack[AlterWords]
    ) -> Listing[StreamTable]:
        """Make the same changes, those of ``alter_stream_table``, to several stream tables."""
        wanted = [self.get_stream_table(name).name.sql for name in names]
        return Listing([self.alter_stream_table(name, **changes) for name in wanted])

    def bulk_drop_stream_tables(self, names: Iterable[str]) -> list[str]:
        """Drop several stream tables, in this order; return the dropped names."""
        wanted = [self.get_stream_table(name).name.sql for name in names]
        return [gone for name in wanted for gone in self.drop_stream_table(name)]

    def resume_stream_table(self, name: str) -> StreamTable:
        """Resume a suspended stream table."""
        from pgtrickle.service.lifecycle.resume import resume_stream_table

        return resume_stream_table(self._runtime, self._name(name))

    def validate_query(self, query: str) -> Validation:
        """Check whether a query can be maintained incrementally, and list every obstacle."""
        from pgtrickle.service.lifecycle.validate import validate_query

        return validate_query(self._runtime, query)

    def refresh_stream_table(self, name: str, *, full: bool = False) -> RefreshReport:
        """Bring a stream table up to date."""
        from pgtrickle.service.refreshing.dispatch import refresh_stream_table

        return refresh_stream_table(self._runtime, self._name(name), full=full)

    def cancel_refresh(self, name: str) -> bool:
        """Cancel a refresh that runs in this process; return whether there was one.

        It ends with ST214 before its next step, and has changed nothing.
        """
        return bool(self._runtime.jobs.cancel(self._runtime.engine, str(self._name(name))))

    def verify_stream_table(self, name: str) -> VerifyReport:
        """Compare a stream table with PostgreSQL's own answer to its query."""
        from pgtrickle.service.lifecycle.verify import verify_stream_table

        return verify_stream_table(self._runtime, self._name(name))

    def explain_stream_table(
        self,
        name: str,
        format: ExplainFormat = "text",  # noqa: A002 - PostgreSQL's word
        *,
        with_analyze: bool = False,
    ) -> str:
        """Show how a stream table is maintained: as text, json, dot, mermaid or html.

        ``with_analyze`` runs the reads and stages of the next refresh, measures them, and rolls
        everything back: no contents, state, frontier or history change.
        """
        from pgtrickle.service.insight.explain import explain_stream_table

        name_ = self._name(name)
        return explain_stream_table(self._runtime, name_, format, with_analyze=with_analyze)

    def alter_stream_table(
        self,
        name: str,
        schedule: str | None = None,
        refresh_mode: AnyRefreshMode | None = None,
        status: AnyStatus | None = None,
        *,
        query: str | None = None,
        cdc_mode: AnyCdcMode | None = None,
        max_delta_fraction: Fraction | None = None,
        engine: AnyEngineOrDefault | None = None,
        tier: AnyTier | None = None,
        fuse: AnyFuseMode | None = None,
        fuse_ceiling: int | None = None,
        fuse_sensitivity: float | None = None,
        diamond_consistency: AnyConsistency | None = None,
        diamond_schedule_policy: AnySchedulePolicy | None = None,
        shadow_build: bool | None = None,
        hold: bool | None = None,
        allow_breaking: bool | None = None,
        sink: AnySink | None = None,
        ducklake_sink_path: str | None = None,
        ducklake_table: str | None = None,
        ducklake_partition_by: str | None = None,
    ) -> StreamTable:
        """Change the query or the options of a stream table; None leaves an option as it is.

        Another ``query`` replaces the contents at once and keeps the table, its grants and its
        readers; ST213 if its columns do not fit and may not break, ST207 if someone needs one that
        goes.

        - ``schedule``: How often to refresh: 30s, 5m, 1h30m, a cron expression, or
          calculated.
        - ``refresh_mode``: How to maintain it: by changes, in full, as each refresh decides, or
          by writers at once.
        - ``status``: Whether it is refreshed: SUSPENDED stops that, ACTIVE resumes it.
        - ``cdc_mode``: How its sources are captured; without one, the setting cdc_mode
          decides.
        - ``max_delta_fraction``: Share of changed rows, 0 to 1, above which AUTO recomputes
          in full; default: the setting differential_max_change_ratio.
        - ``engine``: What computes its refreshes: spark, postgres, or the quicker one
          (auto); without one, the setting engine decides; default: the setting engine.
        - ``tier``: How much it matters: a factor on its schedule.
        - ``fuse``: Whether very many changes wait for a decision: off, on above a ceiling,
          or auto.
        - ``fuse_ceiling``: Changed rows above which its fuse blows; without one,
          fuse_default_ceiling decides.
        - ``fuse_sensitivity``: How many times the usual number of changes, above 1, blows
          a fuse in auto; else 10.
        - ``diamond_consistency``: Whether the paths that meet in it are refreshed together.
        - ``diamond_schedule_policy``: When those are due: with the first of them, or with
          the last.
        - ``shadow_build``: Whether the new query is loaded beside the old one, and follows
          it, before it takes its place.
        - ``hold``: Whether the shadow waits for promote_shadow when it has caught up.
        - ``allow_breaking``: Whether the new query may drop, retype and reorder columns that
          views read.
        - ``sink``: Where a copy of it is kept in step with it: ducklake; none: ends the
          copy.
        - ``ducklake_sink_path``: Directory of the lake's files; without one, that of the
          lake's catalog.
        - ``ducklake_table``: Table of the lake; without one, main and the same name.
        - ``ducklake_partition_by``: Partition keys in the lake, such as: region,
          year(placed_at).
        """
        from pgtrickle.service.lifecycle.alter import alter_stream_table

        words = AlterOptions(
            schedule=schedule,
            refresh_mode=refresh_mode,
            status=status,
            cdc_mode=cdc_mode,
            max_delta_fraction=max_delta_fraction,
            engine=engine,
            tier=tier,
            fuse=fuse,
            fuse_ceiling=fuse_ceiling,
            fuse_sensitivity=fuse_sensitivity,
            diamond_consistency=diamond_consistency,
            diamond_schedule_policy=diamond_schedule_policy,
            shadow_build=shadow_build,
            hold=hold,
            allow_breaking=allow_breaking,
            sink=sink,
            ducklake_sink_path=ducklake_sink_path,
            ducklake_table=ducklake_table,
            ducklake_partition_by=ducklake_partition_by,
        )
        return alter_stream_table(self._runtime, self._name(name), Changes.read(words), query=query)

    def drop_stream_table(self, name: str, *, cascade: bool = False) -> list[str]:
        """Drop a stream table, with ``cascade`` also its dependents; return the dropped names.

        Stream tables are listed by name, the one asked for last; before them other objects with
        their kind, as in ``view public.v``.
        """
        from pgtrickle.service.lifecycle.drop import drop_stream_table

        return drop_stream_table(self._runtime, self._name(name), cascade=cascade)

    def rename_stream_table(self, name: str, new_name: str) -> RenameReport:
        """Rename a stream table or, with ``schema.name``, move it to another schema.

        Views and stream tables that read it follow.  A copy in the lake keeps its name there.
        """
        from pgtrickle.service.lifecycle.rename import rename_stream_table

        return rename_stream_table(self._runtime, self._name(name), new_name)

    def export_definition(self, name: str) -> str:
        """Return SQL that creates this stream table, or restores its definition."""
        from pgtrickle.service.lifecycle.export_definition import export_definition

        return export_definition(self._runtime, self._name(name))

    def repair_stream_table(self, name: str) -> Listing[Mended]:
        """Restore triggers, buffers, guard and status; the next refresh reloads the table."""
        from pgtrickle.service.capturing.pause_and_repair import repair_stream_table

        return Listing(repair_stream_table(self._runtime, self._name(name)))

    def list_stream_tables(self) -> Listing[StreamTable]:
        """Return every stream table, by name."""
        return Listing(show_stream_tables(self._runtime))

    def get_stream_table(self, name: str) -> StreamTable:
        """Return one stream table."""
        return show_stream_table(self._runtime, self._name(name))

    def table(self, name: str) -> Table:
        """Return a handle that reads its rows: ``to_arrow``, ``to_pandas``, ``to_spark``."""
        return Table(self, self._runtime, self.get_stream_table(name).name)

    def refresh_history(self, name: str | None = None, limit: int = 20) -> Listing[Refresh]:
        """Return the latest refreshes of one stream table, or of all, the newest first."""
        wanted = self._name(name) if name is not None else None
        return Listing(show_history(self._runtime, wanted, limit=limit))

    def status(self) -> StatusReport:
        """Return the daemons, the queue, the running refreshes, and what needs attention."""
        from pgtrickle.service.insight.overview import show_overview

        return show_overview(self._runtime)

    def health_check(self) -> Listing[HealthCheck]:
        """Return the health checks with their severities: OK, WARNING or CRITICAL."""
        from pgtrickle.catalog.overview import list_checks

        with self._runtime.connection() as connection:
            return Listing(list_checks(connection))

    def follow(
        self,
        names: Sequence[str] = (),
        *,
        listening: Callable[[], None] = lambda: None,
        seconds: float | None = None,
    ) -> Iterator[Notice]:
        """Yield notices of refreshes and alerts as they happen, of these stream tables or all.

        ``listening`` is called as soon as no notice can be missed. Ends after ``seconds``, if
        given.
        """
        from pgtrickle.service.insight.channels import follow_notices

        wanted = [str(self._name(name)) for name in names]
        return follow_notices(self._runtime, wanted, listening=listening, seconds=seconds)

    def version(self) -> Versions:
        """Return the versions of package, catalog, server and Spark, and those of the daemon."""
        from pgtrickle.catalog.overview import get_versions

        with self._runtime.connection() as connection:
            return get_versions(connection)

    def list_settings(self) -> Listing[SettingInEffect]:
        """Return every setting of this process, where its value comes from, and whether to restart.

        Settings without ``needs_restart`` are followed while the process runs.
        """
        self._runtime.look_at_settings()
        with self._runtime.connection() as connection:
            session, table = list_stored_settings(connection)
        if self._runtime.live is not None:  # a session of the pool may have what is gone
            session = dict(self._runtime.live.session)
        return Listing(settings_in_effect(self._runtime.settings, session, table))

    def set_setting(self, name: str, value: str | None) -> None:
        """Set a setting for this database; None takes its value away.

        Every running process follows within two seconds, except where a restart is needed.
        ``cdc_paused`` takes effect before this returns.
        """
        if name == "ducklake_catalog_dsn" and value:
            from pgtrickle.lake.write.other_database import check_catalog_dsn

            check_catalog_dsn(value)
        with self._runtime.connection() as connection:
            set_setting(connection, name, value)
        self._runtime.look_at_settings()
        if name == "cdc_paused":
            from pgtrickle.service.capturing.switch import follow_switch

            follow_switch(self._runtime)

    def grant_access(self, role: str, level: AccessLevel) -> None:
        """Let a role read (``reader``), make requests (``operator``) or do all (``admin``)."""
        with self._runtime.connection() as connection:
            connection.execute("SELECT pgtrickle.grant_access(%s, %s)", [role, level])

    def revoke_access(self, role: str) -> None:
        """Revoke the access of a role."""
        with self._runtime.connection() as connection:
            connection.execute("SELECT pgtrickle.revoke_access(%s)", [role])

    def doctor(self) -> Listing[Check]:
        """Check Java, Spark, PostgreSQL, privileges, versions and the stream tables."""
        from pgtrickle.service.insight.doctor import check_machine, check_server

        return Listing([*check_machine(self._runtime.settings), *check_server(self._runtime)])

    def _beside_daemon(self, tell: Callable[[str], object]) -> Trickle:
        from pgtrickle.catalog.requests import is_served
        from pgtrickle.client.assisted import Assisted

        with self._runtime.connection() as connection:
            if connection.only_looks or not is_served(connection):
                return self
        return Assisted(self.dsn, self._runtime, self._schema, tell)

    def _when_free(
        self, act: Callable[[], T], seconds: float | None, waiting: Callable[[str], object]
    ) -> T:
        return when_free(act, lambda error: waiting(str(error)), seconds)

    def _make_daemon(self) -> Daemon:
        from pgtrickle.daemon import Daemon

        return Daemon(self._runtime, self._schema)
