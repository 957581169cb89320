"""Stream tables for PostgreSQL, maintained incrementally on Apache Spark.

What the package offers is imported at its first use: Spark starts many Python processes, which
need a few modules of ``pgtrickle.spark`` and none of the rest.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from pgtrickle.model.version import VERSION

if TYPE_CHECKING:
    from pgtrickle import errors
    from pgtrickle.bootstrap import connect
    from pgtrickle.catalog.capture.health import CaptureHealth
    from pgtrickle.catalog.console.picture import Picture, PicturePart
    from pgtrickle.catalog.refreshes.history import Refresh, RefreshStatus
    from pgtrickle.catalog.scheduling.paces import FallingBehind
    from pgtrickle.client.capture import CaptureVerbs
    from pgtrickle.client.definitions import DefinitionVerbs
    from pgtrickle.client.insight import InsightVerbs
    from pgtrickle.client.lake import LakeVerbs
    from pgtrickle.client.projects import ProjectVerbs
    from pgtrickle.client.scheduler import SchedulerVerbs
    from pgtrickle.client.shadows import ShadowVerbs
    from pgtrickle.client.snapshots import SnapshotVerbs
    from pgtrickle.client.streams.outbox import OutboxVerbs
    from pgtrickle.client.streams.relay import RelayVerbs
    from pgtrickle.client.table import Table
    from pgtrickle.client.trickle import Trickle
    from pgtrickle.errors import TrickleError
    from pgtrickle.lake.reader.source import register_ducklake
    from pgtrickle.model.capture.cdc_mode import CdcMode
    from pgtrickle.model.definitions.dump import RestoredItem, WrittenDump
    from pgtrickle.model.insight.disk_usage import DiskUsage
    from pgtrickle.model.insight.rehearsal import Profile
    from pgtrickle.model.insight.self_monitoring import MonitoringPart
    from pgtrickle.model.lake.catalog import MovedCatalog, ShownCatalog
    from pgtrickle.model.lake.past_rows import PastRows
    from pgtrickle.model.lake.sink import DeliveryStatus, LakeCare, SinkStatus
    from pgtrickle.model.lake.source import LakeSource
    from pgtrickle.model.projects.findings import (
        ProjectDifference,
        ProjectTestResult,
        WrittenProject,
    )
    from pgtrickle.model.projects.plan import AppliedStep, FieldChange, ProjectPlan, ProjectStep
    from pgtrickle.model.report import Progress, RefreshReport, SourceRead, VerifyReport
    from pgtrickle.model.scheduling.diamonds import DiamondConsistency, DiamondSchedulePolicy
    from pgtrickle.model.scheduling.fuse import FuseMode
    from pgtrickle.model.scheduling.recommendation import ModeAdvice, ScheduleAdvice
    from pgtrickle.model.scheduling.refresh_group import Isolation
    from pgtrickle.model.scheduling.service_level import AgreedLevel
    from pgtrickle.model.scheduling.tier import Tier
    from pgtrickle.model.shadows.build import EvolutionStatus
    from pgtrickle.model.shadows.difference import ShadowDiff
    from pgtrickle.model.status_report import (
        BufferSize,
        CacheStats,
        CaptureLag,
        DiamondGroup,
        Efficiency,
        FuseStatus,
        GateStatus,
        HealthCheck,
        Hold,
        ListedSource,
        MetricsSummary,
        Quiesced,
        RefreshGroup,
        ServiceLevel,
        Severity,
        StatusReport,
        StillRunning,
        TreeLine,
        Versions,
        Watermark,
        WatermarkGroup,
        WorkerSummary,
    )
    from pgtrickle.model.stream_table import Action, InitiatedBy, RefreshMode, Status, StreamTable
    from pgtrickle.model.streams.inbound import InboundDeadLetter, InboundStatus
    from pgtrickle.model.streams.inbox import InboxCheck, InboxStatus, OrderingGap
    from pgtrickle.model.streams.outbox import (
        ConsumerLag,
        LeasedEntry,
        Outbox,
        OutboxChange,
        OutboxPosition,
    )
    from pgtrickle.model.streams.relay import DeadLetter, RelayStatus
    from pgtrickle.model.table_snapshot import ListedSnapshot, RowChange, SnapshotDiff
    from pgtrickle.model.text.names import QualifiedName
    from pgtrickle.model.text.shown import Listing
    from pgtrickle.model.upgrades.plan import MigrationPlan
    from pgtrickle.options.words import AlterOptions, AlterWords, CreateOptions, Definition
    from pgtrickle.scheduler.loop import Watcher
    from pgtrickle.service.capturing.wal_slot import SlotHealth
    from pgtrickle.service.insight.channels import Notice
    from pgtrickle.service.insight.checkup.check import Check
    from pgtrickle.service.insight.diagnose import Diagnosis
    from pgtrickle.service.lifecycle.create_or_replace import Outcome
    from pgtrickle.service.lifecycle.rename import RenameReport
    from pgtrickle.service.lifecycle.repair.rebind import Mended
    from pgtrickle.service.lifecycle.validate import Validation
    from pgtrickle.service.outboxes.spark_source import register_outbox
    from pgtrickle.settings import SettingInEffect, Settings

__version__ = VERSION

__all__ = [
    "Action",
    "AgreedLevel",
    "AlterOptions",
    "AlterWords",
    "AppliedStep",
    "BufferSize",
    "CacheStats",
    "CaptureHealth",
    "CaptureLag",
    "CaptureVerbs",
    "CdcMode",
    "Check",
    "ConsumerLag",
    "CreateOptions",
    "DeadLetter",
    "Definition",
    "DefinitionVerbs",
    "DeliveryStatus",
    "Diagnosis",
    "DiamondConsistency",
    "DiamondGroup",
    "DiamondSchedulePolicy",
    "DiskUsage",
    "Efficiency",
    "EvolutionStatus",
    "FallingBehind",
    "FieldChange",
    "FuseMode",
    "FuseStatus",
    "GateStatus",
    "HealthCheck",
    "Hold",
    "InboundDeadLetter",
    "InboundStatus",
    "InboxCheck",
    "InboxStatus",
    "InitiatedBy",
    "InsightVerbs",
    "Isolation",
    "LakeCare",
    "LakeSource",
    "LakeVerbs",
    "LeasedEntry",
    "ListedSnapshot",
    "ListedSource",
    "Listing",
    "Mended",
    "MetricsSummary",
    "MigrationPlan",
    "ModeAdvice",
    "MonitoringPart",
    "MovedCatalog",
    "Notice",
    "OrderingGap",
    "Outbox",
    "OutboxChange",
    "OutboxPosition",
    "OutboxVerbs",
    "Outcome",
    "PastRows",
    "Picture",
    "PicturePart",
    "Profile",
    "Progress",
    "ProjectDifference",
    "ProjectPlan",
    "ProjectStep",
    "ProjectTestResult",
    "ProjectVerbs",
    "QualifiedName",
    "Quiesced",
    "Refresh",
    "RefreshGroup",
    "RefreshMode",
    "RefreshReport",
    "RefreshStatus",
    "RelayStatus",
    "RelayVerbs",
    "RenameReport",
    "RestoredItem",
    "RowChange",
    "ScheduleAdvice",
    "SchedulerVerbs",
    "ServiceLevel",
    "SettingInEffect",
    "Settings",
    "Severity",
    "ShadowDiff",
    "ShadowVerbs",
    "ShownCatalog",
    "SinkStatus",
    "SlotHealth",
    "SnapshotDiff",
    "SnapshotVerbs",
    "SourceRead",
    "Status",
    "StatusReport",
    "StillRunning",
    "StreamTable",
    "Table",
    "Tier",
    "TreeLine",
    "Trickle",
    "TrickleError",
    "Validation",
    "VerifyReport",
    "Versions",
    "Watcher",
    "Watermark",
    "WatermarkGroup",
    "WorkerSummary",
    "WrittenDump",
    "WrittenProject",
    "connect",
    "errors",
    "register_ducklake",
    "register_outbox",
]

_HOMES = {
    "WorkerSummary": "pgtrickle.model.status_report",
    "MetricsSummary": "pgtrickle.model.status_report",
    "CaptureLag": "pgtrickle.model.status_report",
    "Action": "pgtrickle.model.stream_table",
    "AgreedLevel": "pgtrickle.model.scheduling.service_level",
    "AlterOptions": "pgtrickle.options.words",
    "AlterWords": "pgtrickle.options.words",
    "AppliedStep": "pgtrickle.model.projects.plan",
    "BufferSize": "pgtrickle.model.status_report",
    "CacheStats": "pgtrickle.model.status_report",
    "CaptureHealth": "pgtrickle.catalog.capture.health",
    "CaptureVerbs": "pgtrickle.client.capture",
    "CdcMode": "pgtrickle.model.capture.cdc_mode",
    "Check": "pgtrickle.service.insight.checkup.check",
    "ConsumerLag": "pgtrickle.model.streams.outbox",
    "CreateOptions": "pgtrickle.options.words",
    "InboundDeadLetter": "pgtrickle.model.streams.inbound",
    "InboundStatus": "pgtrickle.model.streams.inbound",
    "InboxCheck": "pgtrickle.model.streams.inbox",
    "InboxStatus": "pgtrickle.model.streams.inbox",
    "OrderingGap": "pgtrickle.model.streams.inbox",
    "DeadLetter": "pgtrickle.model.streams.relay",
    "Definition": "pgtrickle.options.words",
    "DefinitionVerbs": "pgtrickle.client.definitions",
    "DeliveryStatus": "pgtrickle.model.lake.sink",
    "Diagnosis": "pgtrickle.service.insight.diagnose",
    "DiamondConsistency": "pgtrickle.model.scheduling.diamonds",
    "DiamondGroup": "pgtrickle.model.status_report",
    "DiamondSchedulePolicy": "pgtrickle.model.scheduling.diamonds",
    "Efficiency": "pgtrickle.model.status_report",
    "EvolutionStatus": "pgtrickle.model.shadows.build",
    "FieldChange": "pgtrickle.model.projects.plan",
    "FallingBehind": "pgtrickle.catalog.scheduling.paces",
    "FuseMode": "pgtrickle.model.scheduling.fuse",
    "FuseStatus": "pgtrickle.model.status_report",
    "GateStatus": "pgtrickle.model.status_report",
    "HealthCheck": "pgtrickle.model.status_report",
    "Hold": "pgtrickle.model.status_report",
    "InitiatedBy": "pgtrickle.model.stream_table",
    "InsightVerbs": "pgtrickle.client.insight",
    "Isolation": "pgtrickle.model.scheduling.refresh_group",
    "LakeCare": "pgtrickle.model.lake.sink",
    "LakeSource": "pgtrickle.model.lake.source",
    "LakeVerbs": "pgtrickle.client.lake",
    "LeasedEntry": "pgtrickle.model.streams.outbox",
    "ListedSnapshot": "pgtrickle.model.table_snapshot",
    "ListedSource": "pgtrickle.model.status_report",
    "Listing": "pgtrickle.model.text.shown",
    "Mended": "pgtrickle.service.lifecycle.repair.rebind",
    "MigrationPlan": "pgtrickle.model.upgrades.plan",
    "ModeAdvice": "pgtrickle.model.scheduling.recommendation",
    "MovedCatalog": "pgtrickle.model.lake.catalog",
    "Notice": "pgtrickle.service.insight.channels",
    "Outbox": "pgtrickle.model.streams.outbox",
    "OutboxChange": "pgtrickle.model.streams.outbox",
    "OutboxPosition": "pgtrickle.model.streams.outbox",
    "OutboxVerbs": "pgtrickle.client.streams.outbox",
    "Outcome": "pgtrickle.service.lifecycle.create_or_replace",
    "PastRows": "pgtrickle.model.lake.past_rows",
    "Picture": "pgtrickle.catalog.console.picture",
    "PicturePart": "pgtrickle.catalog.console.picture",
    "Progress": "pgtrickle.model.report",
    "ProjectDifference": "pgtrickle.model.projects.findings",
    "ProjectPlan": "pgtrickle.model.projects.plan",
    "ProjectStep": "pgtrickle.model.projects.plan",
    "ProjectTestResult": "pgtrickle.model.projects.findings",
    "ProjectVerbs": "pgtrickle.client.projects",
    "QualifiedName": "pgtrickle.model.text.names",
    "Quiesced": "pgtrickle.model.status_report",
    "Refresh": "pgtrickle.catalog.refreshes.history",
    "RefreshGroup": "pgtrickle.model.status_report",
    "RefreshMode": "pgtrickle.model.stream_table",
    "DiskUsage": "pgtrickle.model.insight.disk_usage",
    "MonitoringPart": "pgtrickle.model.insight.self_monitoring",
    "Profile": "pgtrickle.model.insight.rehearsal",
    "RefreshReport": "pgtrickle.model.report",
    "RefreshStatus": "pgtrickle.catalog.refreshes.history",
    "RelayStatus": "pgtrickle.model.streams.relay",
    "RelayVerbs": "pgtrickle.client.streams.relay",
    "RenameReport": "pgtrickle.service.lifecycle.rename",
    "RestoredItem": "pgtrickle.model.definitions.dump",
    "RowChange": "pgtrickle.model.table_snapshot",
    "ScheduleAdvice": "pgtrickle.model.scheduling.recommendation",
    "SchedulerVerbs": "pgtrickle.client.scheduler",
    "ServiceLevel": "pgtrickle.model.status_report",
    "SettingInEffect": "pgtrickle.settings",
    "Settings": "pgtrickle.settings",
    "Severity": "pgtrickle.model.status_report",
    "ShadowDiff": "pgtrickle.model.shadows.difference",
    "ShadowVerbs": "pgtrickle.client.shadows",
    "ShownCatalog": "pgtrickle.model.lake.catalog",
    "SinkStatus": "pgtrickle.model.lake.sink",
    "SlotHealth": "pgtrickle.service.capturing.wal_slot",
    "SnapshotDiff": "pgtrickle.model.table_snapshot",
    "SnapshotVerbs": "pgtrickle.client.snapshots",
    "SourceRead": "pgtrickle.model.report",
    "Status": "pgtrickle.model.stream_table",
    "StatusReport": "pgtrickle.model.status_report",
    "StillRunning": "pgtrickle.model.status_report",
    "StreamTable": "pgtrickle.model.stream_table",
    "Table": "pgtrickle.client.table",
    "Tier": "pgtrickle.model.scheduling.tier",
    "TreeLine": "pgtrickle.model.status_report",
    "Trickle": "pgtrickle.client.trickle",
    "TrickleError": "pgtrickle.errors",
    "Validation": "pgtrickle.service.lifecycle.validate",
    "VerifyReport": "pgtrickle.model.report",
    "Versions": "pgtrickle.model.status_report",
    "Watcher": "pgtrickle.scheduler.loop",
    "Watermark": "pgtrickle.model.status_report",
    "WatermarkGroup": "pgtrickle.model.status_report",
    "WrittenDump": "pgtrickle.model.definitions.dump",
    "WrittenProject": "pgtrickle.model.projects.findings",
    "connect": "pgtrickle.bootstrap",
    "register_ducklake": "pgtrickle.lake.reader.source",
    "register_outbox": "pgtrickle.service.outboxes.spark_source",
}


if not TYPE_CHECKING:  # which must not take any name for one of ours

    def __getattr__(name: str) -> object:
        """Import what is asked for."""
        if name == "errors":
            return import_module("pgtrickle.errors")
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return found


def __dir__() -> list[str]:
    """List what there is, imported or not."""
    return sorted({*globals(), *__all__})
