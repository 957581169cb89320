"""The verbs on one subject, for a guest: asked of the daemon, called in SQL, or refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NoReturn

from pgtrickle.catalog.lake.catalogs import list_told_catalogs
from pgtrickle.client.capture import CaptureVerbs
from pgtrickle.client.definitions import DefinitionVerbs
from pgtrickle.client.insight import InsightVerbs
from pgtrickle.client.lake import LakeVerbs
from pgtrickle.client.projects import ProjectVerbs
from pgtrickle.client.scheduler import SchedulerVerbs, check_watermark
from pgtrickle.client.shadows import ShadowVerbs
from pgtrickle.client.snapshots import SnapshotVerbs
from pgtrickle.client.streams.inbound import InboundVerbs
from pgtrickle.client.streams.inbox import InboxVerbs
from pgtrickle.client.streams.outbox import OutboxVerbs
from pgtrickle.client.streams.relay import RelayVerbs
from pgtrickle.model.lake.catalog import ShownCatalog
from pgtrickle.model.lake.past_rows import PastRows
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.scheduling.refresh_group import DEFAULT_ISOLATION
from pgtrickle.model.scheduling.service_level import AgreedLevel, parse_sla
from pgtrickle.model.scheduling.tier import Tier
from pgtrickle.model.shadows.difference import ShadowDiff, read_difference
from pgtrickle.model.stream_table import Action
from pgtrickle.model.streams.inbox import (
    INBOX_RETENTION_HOURS,
    MAX_RETRIES,
    SCHEDULE_SECONDS,
    URGENT_FROM,
    URGENT_SECONDS,
    inbox_name,
)
from pgtrickle.model.streams.outbox import INLINE_THRESHOLD_ROWS, RETENTION_HOURS
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.shown import Listing
from pgtrickle.model.words import AnyFuseMode, AnyIsolation
from pgtrickle.service.naming import Naming
from pgtrickle.service.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Means:
    """How a guest has something done that changes the catalog."""

    ask: Callable[..., Any]  # the daemon, by a request
    call: Callable[..., None]  # a function of the schema pgtrickle
    refuse: Callable[..., NoReturn]  # what only the owner of the catalog may do


class _OfGuest(Naming):
    def __init__(self, runtime: Runtime, schema: str, means: Means) -> None:
        super().__init__(runtime, schema)
        self._means = means

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        self._means.refuse()


class GuestScheduler(_OfGuest, SchedulerVerbs):
    """The verbs on the scheduler, for a guest."""

    def pause_scheduler(self, *names: str) -> None:
        """Ask for stream tables to be held back."""
        self._means.ask("pause_scheduler", names=self._all(names))

    def resume_scheduler(self, *names: str) -> None:
        """Ask for stream tables to be released."""
        self._means.ask("resume_scheduler", names=self._all(names))

    def set_fuse(
        self,
        name: str,
        mode: AnyFuseMode,
        *,
        ceiling: int | None = None,
        sensitivity: float | None = None,
    ) -> None:
        """Ask for a fuse."""
        options = {"fuse": mode, "fuse_ceiling": ceiling, "fuse_sensitivity": sensitivity}
        self._means.ask("alter_stream_table", self._get(name).name, **options)

    def reset_fuse(self, name: str, *, reinitialize: bool = False) -> None:
        """Ask for a fuse to be reset."""
        action = "reinitialize" if reinitialize else "apply"
        self._means.ask("reset_fuse", self._get(name).name, action=action)

    def set_stream_table_sla(self, name: str, sla: str | timedelta | None) -> AgreedLevel:
        """Ask for a service level."""
        seconds = None if sla is None else parse_sla(sla)
        answer = self._means.ask("set_stream_table_sla", self._get(name).name, sla_s=seconds)
        return AgreedLevel(
            answer["name"], answer["sla_s"], Tier(answer["tier"]), answer["schedule"]
        )

    def create_refresh_group(
        self, name: str, members: Sequence[str], isolation: AnyIsolation = DEFAULT_ISOLATION
    ) -> None:
        """Ask for a refresh group."""
        given: dict[str, Any] = {"names": self._all(members), "isolation": isolation}
        self._means.ask("create_refresh_group", group_name=name, **given)

    def drop_refresh_group(self, name: str) -> None:
        """Ask for a refresh group to be dropped."""
        self._means.ask("drop_refresh_group", group_name=name)

    def gate_source(self, source: str) -> None:
        """Hold back the consumers of a source that the guest owns."""
        self._means.call("gate_source(%s::pg_catalog.regclass)", self._name(source).sql)

    def ungate_source(self, source: str) -> None:
        """Release the consumers of a source that the guest owns."""
        self._means.call("ungate_source(%s::pg_catalog.regclass)", self._name(source).sql)

    def advance_watermark(self, source: str, watermark: datetime) -> None:
        """Record the moment up to which a source of the guest is complete."""
        check_watermark(watermark)
        call = "advance_watermark(%s::pg_catalog.regclass, %s)"
        self._means.call(call, self._name(source).sql, watermark)

    def create_watermark_group(
        self, name: str, sources: Sequence[str], tolerance_secs: float = 0
    ) -> None:
        """Hold back the consumers of the guest's sources until the watermarks agree."""
        call = "create_watermark_group(%s, %s::pg_catalog.regclass[], %s)"
        self._means.call(call, name, self._all(sources), float(tolerance_secs))

    def drop_watermark_group(self, name: str) -> None:
        """Drop a watermark group."""
        self._means.call("drop_watermark_group(%s)", name)

    def _all(self, names: Sequence[str]) -> list[str]:
        return [self._name(one).sql for one in names]


class GuestCapture(_OfGuest, CaptureVerbs):
    """The verbs on capture, for a guest."""


class GuestLake(_OfGuest, LakeVerbs):
    """The verbs on the lake, for a guest."""

    def show_as_of(
        self,
        name: str,
        as_of: str | int | datetime,
        columns: Sequence[str] | None = None,
        max_rows: int = 100,
    ) -> PastRows:
        """Ask for rows of the past; values that JSON has no form for come as text."""
        found = self._means.ask(
            "show_as_of",
            self._get(name).name,
            as_of=str(as_of),
            columns=None if columns is None else list(columns),
            max_rows=max_rows,
        )
        return PastRows(
            found["stream_table"],
            found["snapshot_id"],
            datetime.fromisoformat(found["snapshot_time"]),
            tuple(found["columns"]),
            tuple(found["rows"]),
            found["complete"],
        )

    def ducklake_catalogs(self) -> Listing[ShownCatalog]:
        """Return where the catalogs of lakes are, as the catalog's owner lets readers know."""
        with self._runtime.connection() as connection:
            return Listing(list_told_catalogs(connection))


class GuestSnapshots(_OfGuest, SnapshotVerbs):
    """The verbs on snapshots, for a guest."""

    def snapshot_stream_table(
        self, name: str, target: str | None = None, *, to_lake: bool = False
    ) -> QualifiedName:
        """Ask for a snapshot."""
        taken = self._means.ask(
            "snapshot_stream_table", self._get(name).name, target=target, to_lake=to_lake
        )
        return QualifiedName.parse(str(taken))

    def restore_from_snapshot(self, name: str, source: str) -> RefreshReport:
        """Ask for a stream table to be restored."""
        found = self._means.ask("restore_from_snapshot", self._get(name).name, source=source)
        return _read_report(found)

    def drop_snapshot(self, table: str) -> QualifiedName:
        """Ask for a snapshot to be dropped."""
        dropped = self._means.ask("drop_snapshot", table=self._name(table).sql)
        return QualifiedName.parse(dropped["dropped"])


class GuestOutbox(_OfGuest, OutboxVerbs):
    """The verbs on outboxes, for a guest."""

    def enable_outbox(
        self,
        name: str,
        retention_hours: float = RETENTION_HOURS,
        inline_threshold_rows: int = INLINE_THRESHOLD_ROWS,
    ) -> None:
        """Ask for an outbox."""
        self._means.ask(
            "enable_outbox",
            self._get(name).name,
            retention_hours=retention_hours,
            inline_threshold_rows=inline_threshold_rows,
        )

    def disable_outbox(self, name: str, *, if_exists: bool = False) -> bool:
        """Ask for an outbox to be taken away."""
        found = self._means.ask("disable_outbox", self._get(name).name, if_exists=if_exists)
        return bool(found["ended"])


class GuestInbox(_OfGuest, InboxVerbs):
    """The verbs on inboxes, for a guest."""

    def create_inbox(
        self,
        name: str,
        schema: str | None = None,
        *,
        max_retries: int = MAX_RETRIES,
        with_dead_letter: bool = True,
        with_stats: bool = True,
        schedule_seconds: int = SCHEDULE_SECONDS,
        retention_hours: float = INBOX_RETENTION_HOURS,
    ) -> Listing[str]:
        """Ask for an inbox."""
        found = self._means.ask(
            "create_inbox",
            inbox_name(name, self._schema if schema is None else schema),
            max_retries=max_retries,
            with_dead_letter=with_dead_letter,
            with_stats=with_stats,
            schedule_seconds=schedule_seconds,
            retention_hours=retention_hours,
        )
        return Listing(found["stream_tables"])

    def drop_inbox(self, name: str, *, if_exists: bool = False) -> Listing[str]:
        """Ask for an inbox to be dropped."""
        found = self._means.ask("drop_inbox", self._name(name), if_exists=if_exists)
        return Listing(found["dropped"])

    def enable_inbox_ordering(
        self,
        name: str,
        aggregate_column: str = "aggregate_id",
        sequence_column: str = "sequence_num",
        *,
        skip_dead_letters: bool = False,
    ) -> str:
        """Ask for an inbox to be ordered."""
        found = self._means.ask(
            "enable_inbox_ordering",
            self._name(name),
            aggregate_column=aggregate_column,
            sequence_column=sequence_column,
            skip_dead_letters=skip_dead_letters,
        )
        return str(found["stream_table"])

    def disable_inbox_ordering(self, name: str) -> bool:
        """Ask for the order of an inbox to be taken away."""
        return bool(self._means.ask("disable_inbox_ordering", self._name(name))["ended"])

    def enable_inbox_priority(
        self,
        name: str,
        priority_column: str = "priority",
        urgent_from: float = URGENT_FROM,
        schedule_seconds: int = URGENT_SECONDS,
    ) -> str:
        """Ask for the urgent messages of an inbox apart."""
        found = self._means.ask(
            "enable_inbox_priority",
            self._name(name),
            priority_column=priority_column,
            urgent_from=urgent_from,
            schedule_seconds=schedule_seconds,
        )
        return str(found["stream_table"])

    def disable_inbox_priority(self, name: str) -> bool:
        """Ask for the urgent messages no more."""
        return bool(self._means.ask("disable_inbox_priority", self._name(name))["ended"])


class GuestRelay(_OfGuest, RelayVerbs):
    """The verbs on relays, for a guest, who may see what they do."""


class GuestInbound(_OfGuest, InboundVerbs):
    """The verbs on inbound pipelines, for a guest, who may see what they do."""


class GuestShadows(_OfGuest, ShadowVerbs):
    """The verbs on shadow builds, for a guest."""

    def compare_shadow(self, name: str, max_rows: int = 100) -> ShadowDiff:
        """Ask for a comparison; values that JSON has no form for come as text."""
        found = self._means.ask("compare_shadow", self._get(name).name, max_rows=max_rows)
        return read_difference(found)

    def promote_shadow(self, name: str) -> RefreshReport:
        """Ask for the query of a shadow to be put in force."""
        return _read_report(self._means.ask("promote_shadow", self._get(name).name))

    def cancel_shadow(self, name: str) -> QualifiedName:
        """Ask for a shadow build to be ended."""
        answer = self._means.ask("cancel_shadow", self._get(name).name)
        return QualifiedName.parse(answer["cancelled"])


def _read_report(found: dict[str, Any]) -> RefreshReport:
    return RefreshReport(
        found["name"],
        found["refresh_id"],
        Action(found["action"]),
        found["reason"],
        int(found["rows_inserted"]),
        int(found["rows_deleted"]),
        float(found["duration_ms"]),
    )


class GuestDefinitions(_OfGuest, DefinitionVerbs):
    """The verbs on the definitions of a whole database, for a guest: who may read may dump."""


class GuestProjects(_OfGuest, ProjectVerbs):
    """The verbs on projects, for a guest: the owner of the catalog plans and applies them."""


class GuestInsight(_OfGuest, InsightVerbs):
    """The verbs that explain, for a guest."""

    def explain_delta(self, name: str) -> str:
        """Ask for the statements by which the engine computes a change."""
        return str(self._means.ask("explain_delta", self._get(name).name))


# The verbs that only the owner of the catalog may use.
_OWNERS_VERBS: dict[type[_OfGuest], tuple[str, ...]] = {
    GuestScheduler: ("drain", "quiesce", "resume_all", "undrain"),
    GuestCapture: ("pause_cdc", "rebuild_cdc_triggers", "resume_cdc", "set_buffer_durability"),
    GuestLake: (
        "attach_ducklake_table",
        "detach_ducklake_table",
        "maintain_lake",
        "move_ducklake_catalog",
        "retry_sink",
    ),
    GuestRelay: (
        "create_relay_pipeline",
        "drop_relay_pipeline",
        "pause_relay",
        "relay_dead_letters",
        "replay_dead_letters",
        "resume_relay",
        "run_relay",
        "test_relay",
        "validate_relay",
    ),
    GuestInbound: (
        "create_inbound_pipeline",
        "drop_inbound_pipeline",
        "inbound_dead_letters",
        "pause_inbound",
        "replay_inbound_dead_letters",
        "resume_inbound",
        "run_inbound",
        "test_inbound",
        "validate_inbound",
    ),
    GuestDefinitions: ("restore_definitions",),
    GuestProjects: ("plan_project", "apply_project", "diff_project"),
    GuestInsight: (
        "explain_query_rewrite",
        "setup_self_monitoring",
        "teardown_self_monitoring",
    ),
}
for _kind, _verbs in _OWNERS_VERBS.items():
    for _verb in _verbs:
        setattr(_kind, _verb, _OfGuest._refuse)  # noqa: SLF001 - our own
