"""The verbs of requests that hold the scheduler back, and let it go on.

The scheduler asks the catalog before each refresh, so nothing here has to reach it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pgtrickle.catalog.scheduling.fuses import reset_fuse
from pgtrickle.catalog.scheduling.holds import pause_scheduler, resume_scheduler
from pgtrickle.catalog.scheduling.refresh_groups import (
    create_refresh_group,
    drop_refresh_group,
    list_members,
)
from pgtrickle.errors import SettingError
from pgtrickle.model.scheduling.refresh_group import DEFAULT_ISOLATION
from pgtrickle.model.scheduling.service_level import read_seconds
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.service.requests.caller import get_own_stream_table
from pgtrickle.service.scheduling.service_levels import set_stream_table_sla

if TYPE_CHECKING:  # which imports this module
    from pgtrickle.service.requests.verbs import Ask

_RESETS = ("apply", "reinitialize")


def pause(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Let the scheduler leave stream tables alone."""
    tables = _own(ask, given["names"])
    with ask.runtime.connection() as connection:
        pause_scheduler(connection, [one.id for one in tables])
    return {"paused": [str(one.name) for one in tables]}


def resume(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Let the scheduler go on with them."""
    tables = _own(ask, given["names"])
    with ask.runtime.connection() as connection:
        resume_scheduler(connection, [one.id for one in tables])
    return {"resumed": [str(one.name) for one in tables]}


def create_group(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Put stream tables into a refresh group."""
    tables = _own(ask, given["names"])
    with ask.runtime.connection() as connection:
        create_refresh_group(
            connection,
            given["group_name"],
            [one.relid for one in tables],
            given.get("isolation", DEFAULT_ISOLATION.value),
        )
    return {"group_name": given["group_name"], "members": [str(one.name) for one in tables]}


def drop_group(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Forget a refresh group, if its members are the caller's."""
    with ask.runtime.connection() as connection:
        members = list_members(connection, given["group_name"])
    _own(ask, [str(one) for one in members])
    with ask.runtime.connection() as connection:
        drop_refresh_group(connection, given["group_name"])
    return {"group_name": given["group_name"]}


def reset(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Decide what becomes of the changes that made a fuse blow."""
    action = given.get("action", "apply")
    if action not in _RESETS:
        raise SettingError(
            f'a fuse cannot be reset by "{action}"',
            hint=f"Choose one of {', '.join(_RESETS)}; changes are never skipped, since the"
            " contents would no longer be those of the query.",
        )
    stream_table = get_own_stream_table(ask, given["name"])
    with ask.runtime.connection() as connection:
        reset_fuse(connection, stream_table.id, reinitialize=action == "reinitialize")
    return {"name": str(stream_table.name), "action": action}


def set_sla(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Agree on a service level, or take it away."""
    stream_table = get_own_stream_table(ask, given["name"])
    seconds = given.get("sla_s")
    if seconds is not None:
        seconds = read_seconds(seconds)
    agreed = set_stream_table_sla(ask.runtime, stream_table.name, seconds)
    return {
        "name": agreed.stream_table,
        "sla_s": agreed.sla_s,
        "tier": agreed.tier.value,
        "schedule": agreed.schedule,
    }


def _own(ask: Ask, names: list[Any]) -> list[StreamTable]:
    return [get_own_stream_table(ask, str(name)) for name in names]
