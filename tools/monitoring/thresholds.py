"""From which values on something is bad, for panels and alerts alike."""

from __future__ import annotations

from pgtrickle.settings import Settings

_MEGABYTE = 1024 * 1024
_DEFAULTS = Settings()

SLOW_SECONDS = 30
BUFFER_ROWS = 100_000
CAPTURE_LAG_SECONDS = 900
RELAY_LAG_SECONDS = 300
SLOT_WARNING_BYTES = _DEFAULTS.slot_lag_warning_threshold_mb * _MEGABYTE
SLOT_CRITICAL_BYTES = _DEFAULTS.slot_lag_critical_threshold_mb * _MEGABYTE
