"""The options as keyword arguments of Python, for verbs that hand them on and for definitions.

Type checkers find a word in them that does not exist.  A test compares them with the definition.
"""

from __future__ import annotations

from typing import Required, TypedDict

from pgtrickle.model.scheduling.delta_fraction import Fraction
from pgtrickle.model.words import (
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
)


class CreateOptions(TypedDict, total=False):
    """The options of ``create_stream_table``."""

    schedule: str
    refresh_mode: AnyRefreshMode
    initialize: bool
    cdc_mode: AnyCdcMode | None
    max_delta_fraction: float | None
    engine: AnyEngine | None
    diamond_consistency: AnyConsistency | None
    diamond_schedule_policy: AnySchedulePolicy | None
    sink: AnySink | None
    ducklake_sink_path: str | None
    ducklake_table: str | None
    ducklake_partition_by: str | None


class Definition(CreateOptions, total=False):
    """One stream table of ``bulk_create``."""

    name: Required[str]
    query: Required[str]


class AlterOptions(TypedDict, total=False):
    """The options of ``alter_stream_table``."""

    schedule: str | None
    refresh_mode: AnyRefreshMode | None
    status: AnyStatus | None
    cdc_mode: AnyCdcMode | None
    max_delta_fraction: Fraction | None
    engine: AnyEngineOrDefault | None
    tier: AnyTier | None
    fuse: AnyFuseMode | None
    fuse_ceiling: int | None
    fuse_sensitivity: float | None
    diamond_consistency: AnyConsistency | None
    diamond_schedule_policy: AnySchedulePolicy | None
    shadow_build: bool | None
    hold: bool | None
    allow_breaking: bool | None
    sink: AnySink | None
    ducklake_sink_path: str | None
    ducklake_table: str | None
    ducklake_partition_by: str | None


class AlterWords(AlterOptions, total=False):
    """The changes that ``bulk_alter_stream_tables`` takes."""

    query: str | None
