"""How each option of a stream table is put on record.

The refresh mode and the sink take more than a record; ``create`` and ``alter`` see to them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from psycopg import Connection

from pgtrickle.catalog.capture.wal_capture import update_requested_cdc_mode
from pgtrickle.catalog.graph import update_diamond_consistency, update_diamond_schedule_policy
from pgtrickle.catalog.scheduling.fuses import get_fuse, set_fuse
from pgtrickle.catalog.stream_tables import (
    update_engine,
    update_max_delta_fraction,
    update_schedule,
    update_status,
    update_tier,
)
from pgtrickle.model.scheduling.fuse import check_fuse
from pgtrickle.options.changes import Changes

_RECORD: Mapping[str, Callable[[Connection, int, Any], None]] = MappingProxyType(
    {
        "schedule": update_schedule,
        "status": update_status,
        "cdc_mode": update_requested_cdc_mode,
        "max_delta_fraction": update_max_delta_fraction,
        "engine": update_engine,
        "tier": update_tier,
        "diamond_consistency": update_diamond_consistency,
        "diamond_schedule_policy": update_diamond_schedule_policy,
    }
)
_FUSE = {"fuse": "mode", "fuse_ceiling": "ceiling", "fuse_sensitivity": "sensitivity"}


def record_options(connection: Connection, stream_table_id: int, changes: Changes) -> None:
    """Record the options that are given; commits nothing."""
    values = changes.values()
    for name, record in _RECORD.items():
        if name in values:
            record(connection, stream_table_id, values[name])
    fuse = {part: values[name] for name, part in _FUSE.items() if name in values}
    if fuse:
        changed = replace(get_fuse(connection, stream_table_id), **fuse)
        set_fuse(connection, stream_table_id, check_fuse(changed))
