"""A sensor that reports the refreshes of the daemon, so that what is below them can follow."""

import json
from collections.abc import Sequence

from dagster import (
    AssetMaterialization,
    DefaultSensorStatus,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)

from dagster_pgtrickle.resource import PgTrickle, chosen, key_of
from pgtrickle import InitiatedBy, Refresh, RefreshStatus

_LOOKED_AT = 1_000  # refreshes, the latest ones


def refresh_sensor(
    database: PgTrickle,
    names: Sequence[str] | None = None,
    *,
    name: str = "pgtrickle_refreshes",
    key_prefix: Sequence[str] = (),
    minimum_interval_seconds: int = 30,
    default_status: DefaultSensorStatus = DefaultSensorStatus.STOPPED,
) -> SensorDefinition:
    """Make a sensor that records a materialization for each refresh of the daemon's schedule.

    A refresh that found nothing new is no event.  The first look reports nothing: it begins there.
    """

    @sensor(
        name=name,
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=default_status,
        description="Refreshes that the daemon made on its schedule.",
    )
    def refreshes(context: SensorEvaluationContext):
        with database.client() as trickle:
            wanted = {str(one.name) for one in chosen(trickle, names)}
            ended = [
                one
                for one in trickle.refresh_history(limit=_LOOKED_AT)
                if one.status is not RefreshStatus.RUNNING
            ]
        # They end in another order than they began, so the cursor is a set and not a number.
        cursor = json.dumps([one.id for one in ended])
        if context.cursor is None:
            return SensorResult(skip_reason=SkipReason("begins here"), cursor=cursor)
        known = set(json.loads(context.cursor))
        oldest = min(known, default=0)
        news = [
            one
            for one in reversed(ended)
            if one.id > oldest and one.id not in known and _counts(one, wanted)
        ]
        events = [_event(one, key_prefix) for one in news]
        return SensorResult(asset_events=events, cursor=cursor)

    return refreshes


def _counts(one: Refresh, wanted: set[str]) -> bool:
    return (
        one.status is RefreshStatus.COMPLETED
        and one.initiated_by is InitiatedBy.SCHEDULER
        and one.rows_inserted + one.rows_deleted > 0
        and str(one.stream_table) in wanted
    )


def _event(one: Refresh, key_prefix: Sequence[str]) -> AssetMaterialization:
    return AssetMaterialization(
        asset_key=key_of(one.stream_table, key_prefix),
        metadata={
            "refresh_id": one.id,
            "action": "" if one.action is None else one.action.value,
            "reason": one.reason,
            "rows_inserted": one.rows_inserted,
            "rows_deleted": one.rows_deleted,
        },
    )
