"""A word for each option that is not its default, so that tests see what becomes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pgtrickle.options.option import OptionVerb
from pgtrickle.options.stream_table import options_of

_WORDS: dict[str, Any] = {
    "schedule": "7m",
    "refresh_mode": "FULL",
    "initialize": False,
    "status": "SUSPENDED",
    "cdc_mode": "TRIGGER",
    "max_delta_fraction": 0.25,
    "engine": "postgres",
    "tier": "cold",
    "fuse": "auto",
    "fuse_ceiling": 77,
    "fuse_sensitivity": 3.5,
    "diamond_consistency": "none",
    "diamond_schedule_policy": "slowest",
    "shadow_build": True,
    "hold": True,
    "allow_breaking": True,
    "sink": "ducklake",
    "ducklake_table": 'marts."Copy of it"',
    "ducklake_partition_by": "k",
}
# What says how a new query comes into force, and is refused without one.
OF_QUERY = ("shadow_build", "hold", "allow_breaking")


def words(verb: OptionVerb, path: Path, *, leave: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return a word for each option of a verb; a new option without one is a KeyError."""
    known = _WORDS | {"ducklake_sink_path": str(path)}
    return {one.name: known[one.name] for one in options_of(verb) if one.name not in leave}
