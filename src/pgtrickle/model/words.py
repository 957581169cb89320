"""The words that verbs take for choices: a member of the enum, or its word in either case.

The literals are what editors offer.  Any ``str`` passes the type checker, because words come from
files and arguments, too; one that does not exist is refused with ST501.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from pgtrickle.model.capture.cdc_mode import CdcMode
from pgtrickle.model.engine import EngineMode
from pgtrickle.model.scheduling.diamonds import DiamondConsistency, DiamondSchedulePolicy
from pgtrickle.model.scheduling.fuse import FuseMode
from pgtrickle.model.scheduling.refresh_group import Isolation
from pgtrickle.model.scheduling.tier import Tier
from pgtrickle.model.stream_table import RefreshMode, Status

AnyRefreshMode: TypeAlias = RefreshMode | Literal["AUTO", "DIFFERENTIAL", "FULL", "IMMEDIATE"] | str
AnyStatus: TypeAlias = Status | Literal["ACTIVE", "SUSPENDED"] | str
AnyCdcMode: TypeAlias = CdcMode | Literal["auto", "trigger", "wal"] | str
AnyEngine: TypeAlias = EngineMode | Literal["spark", "auto", "postgres"] | str
AnyEngineOrDefault: TypeAlias = AnyEngine | Literal["default"]
AnyTier: TypeAlias = Tier | Literal["hot", "warm", "cold", "frozen"] | str
AnyConsistency: TypeAlias = DiamondConsistency | Literal["atomic", "none"] | str
AnySchedulePolicy: TypeAlias = DiamondSchedulePolicy | Literal["fastest", "slowest"] | str
AnyIsolation: TypeAlias = Isolation | Literal["read_committed", "repeatable_read"] | str
AnyFuseMode: TypeAlias = FuseMode | Literal["off", "on", "auto"] | str
AnySink: TypeAlias = Literal["ducklake", "none"] | str
AnyDurability: TypeAlias = Literal["unlogged", "logged", "sync"] | str
AnyCompactionPolicy: TypeAlias = Literal["fallback", "error"] | str
AnyOffsetReset: TypeAlias = Literal["latest", "earliest"] | str
AccessLevel: TypeAlias = Literal["reader", "operator", "admin"] | str
AnyDumpFormat: TypeAlias = Literal["sql", "yaml"] | str
GraphFormat: TypeAlias = Literal["mermaid", "dot"] | str
ExplainFormat: TypeAlias = Literal["text", "json", "dot", "mermaid", "html"] | str
