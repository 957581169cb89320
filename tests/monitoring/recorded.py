"""Recorded series for each alert: with some it fires, with others it must not."""

from __future__ import annotations

from dataclasses import dataclass

Recorded = dict[str, str]  # series and their values each half minute, in promtool's notation


@dataclass(frozen=True, slots=True)
class Case:
    """What was recorded, and how many minutes later the alert fires for the first time."""

    alarming: Recorded
    fires_after: float  # in minutes; half a minute before it must not
    harmless: Recorded


_TABLE = '{database="shop", stream_table="public.revenue"}'
_OTHER = '{database="other", stream_table="public.revenue"}'
_SOURCE = '{database="shop", source="public.orders"}'
_PIPELINE = '{database="shop", pipeline="p"}'
_SLOW = '{database="shop", quantile="0.99", stream_table="public.revenue"}'
_MEDIAN = '{database="shop", quantile="0.5", stream_table="public.revenue"}'
_FIRST, _SECOND = '{database="shop", instance="a"}', '{database="shop", instance="b"}'


def _state(metric: str, label: str, state: str) -> str:
    return f'{metric}{{database="shop", {label}="{state}"}}'


def _relay(state: str) -> str:
    return f'pgtrickle_relay_state{{database="shop", pipeline="p", state="{state}"}}'


CASES: dict[str, Case] = {
    "PgTrickleNobodyLeads": Case(
        {f"pgtrickle_leading{_FIRST}": "0x60", f"pgtrickle_leading{_SECOND}": "0x60"},
        1,
        {f"pgtrickle_leading{_FIRST}": "0x60", f"pgtrickle_leading{_SECOND}": "1x60"},
    ),
    "PgTrickleDaemonIsNotReady": Case(
        {f"pgtrickle_ready{_FIRST}": "0x60"}, 2, {f"pgtrickle_ready{_FIRST}": "1 0 1 1x57"}
    ),
    "PgTrickleCatalogIsNotRead": Case(
        {f"pgtrickle_catalog_read_failures_total{_FIRST}": "0+1x60"},
        5.5,  # the first failure is seen at half a minute
        {f"pgtrickle_catalog_read_failures_total{_FIRST}": "7x60"},
    ),
    "PgTrickleSuspended": Case(
        {_state("pgtrickle_stream_tables", "status", "SUSPENDED"): "0 0 2x58"},
        1,
        {
            _state("pgtrickle_stream_tables", "status", "SUSPENDED"): "0x60",
            _state("pgtrickle_stream_tables", "status", "INITIALIZING"): "3x60",
        },
    ),
    "PgTrickleRefreshesFail": Case(
        {f"pgtrickle_consecutive_errors{_TABLE}": "0 2 3x58"},
        1,
        {f"pgtrickle_consecutive_errors{_TABLE}": "0 1 2x58"},
    ),
    "PgTrickleServiceLevelMissed": Case(
        {
            f"pgtrickle_staleness_seconds{_TABLE}": "0+30x60",
            f"pgtrickle_sla_seconds{_TABLE}": "60x60",
        },
        1.5,  # the first look at which it is older than 60 s
        {
            f"pgtrickle_staleness_seconds{_TABLE}": "0+30x60",  # which has no service level
            f"pgtrickle_staleness_seconds{_OTHER}": "50x60",
            f"pgtrickle_sla_seconds{_OTHER}": "60x60",
        },
    ),
    "PgTrickleFallsBehind": Case(
        {f"pgtrickle_interval_stretch{_TABLE}": "2x60"},
        10,
        {f"pgtrickle_interval_stretch{_TABLE}": "2x15 1x45"},
    ),
    "PgTrickleSlowRefreshes": Case(
        {f"pgtrickle_refresh_latency_seconds{_SLOW}": "31x60"},
        5,
        {
            f"pgtrickle_refresh_latency_seconds{_SLOW}": "30x60",
            f"pgtrickle_refresh_latency_seconds{_MEDIAN}": "31x60",
        },
    ),
    "PgTrickleQueueIsLong": Case(
        {
            f"pgtrickle_refreshes_queued{_FIRST}": "9x60",
            f"pgtrickle_refreshes_admitted{_FIRST}": "4x60",
        },
        10,
        {
            f"pgtrickle_refreshes_queued{_FIRST}": "9x60",
            f"pgtrickle_refreshes_admitted{_FIRST}": "9x60",
        },
    ),
    "PgTrickleRequestsWait": Case(
        {'pgtrickle_requests_queued{database="shop"}': "1x60"},
        10,
        {'pgtrickle_requests_queued{database="shop"}': "1x15 0x45"},
    ),
    "PgTrickleDeepBuffer": Case(
        {f"pgtrickle_change_buffer_rows{_SOURCE}": "100001x60"},
        5,
        {f"pgtrickle_change_buffer_rows{_SOURCE}": "100000x60"},
    ),
    "PgTrickleCaptureLag": Case(
        {f"pgtrickle_capture_lag_seconds{_SOURCE}": "901x60"},
        5,
        {f"pgtrickle_capture_lag_seconds{_SOURCE}": "900x60"},
    ),
    "PgTrickleSlotLag": Case(
        {'pgtrickle_slot_lag_bytes{database="shop"}': "104857600x60"},
        5,
        {'pgtrickle_slot_lag_bytes{database="shop"}': "104857599x60"},
    ),
    "PgTrickleSlotLagIsCritical": Case(
        {'pgtrickle_slot_lag_bytes{database="shop"}': "0 0 1073741824x58"},
        1,
        {'pgtrickle_slot_lag_bytes{database="shop"}': "1073741823x60"},
    ),
    "PgTrickleLakeIsAway": Case(
        {_state("pgtrickle_sinks", "state", "FAILED_RETRYABLE"): "1x60"},
        10,
        {_state("pgtrickle_sinks", "state", "DELIVERED"): "1x60"},
    ),
    "PgTrickleLakeGaveUp": Case(
        {_state("pgtrickle_sinks", "state", "FAILED_PERMANENT"): "0 0 1x58"},
        1,
        {_state("pgtrickle_sinks", "state", "FAILED_RETRYABLE"): "1x60"},
    ),
    "PgTrickleRelayIsBehind": Case(
        {f"pgtrickle_relay_lag_seconds{_PIPELINE}": "301x60"},
        5,
        {f"pgtrickle_relay_lag_seconds{_PIPELINE}": "300x60"},
    ),
    "PgTrickleRelayHasStopped": Case(
        {_relay("blocked"): "0 0 1x58"},
        1,
        {_relay("blocked"): "0x60", _relay("streaming"): "1x60", _relay("paused"): "1x60"},
    ),
    "PgTrickleDeadLetters": Case(
        {f"pgtrickle_relay_dead_letters{_PIPELINE}": "0 0 1x58"},
        1,
        {f"pgtrickle_relay_dead_letters{_PIPELINE}": "0x60"},
    ),
}
