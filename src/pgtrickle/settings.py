"""Every setting: its type, default, range, unit and meaning.

A setting comes from the first of these that gives it: an argument of ``pgtrickle.connect``; the
environment variable ``PGTRICKLE_<NAME>`` in capitals; ``pg_trickle.<name>``, set for the role or
the database; the table ``pgtrickle.pgt_settings``; its default.  docs/configuration.md and the
rows of that table are generated from this file.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from pgtrickle.errors import SettingError


def _setting(
    default: Any,
    doc: str,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    return field(
        default=default, metadata={"doc": doc, "low": low, "high": high, "choices": choices}
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one process."""

    dsn: str = _setting("", "Where PostgreSQL is; empty starts the embedded server.")
    lease_seconds: float = _setting(
        30.0,
        "How long a refresh may go without a sign of life before another may take over.",
        1,
        86400,
    )
    differential_max_change_ratio: float = _setting(
        0.5,
        "Under AUTO, the share of changed rows among a query's source rows above which a refresh"
        " recomputes in full, whatever it is predicted to cost; an updated row counts once. A"
        " stream table's own max_delta_fraction comes first.",
        0,
        1,
    )
    cost_model_safety_margin: float = _setting(
        0.9,
        "Under AUTO, a refresh recomputes in full where that is predicted to take less than this"
        " share of what following the changes is predicted to take; 0: never for its cost.",
        0,
        1,
    )
    force_full_refresh: bool = _setting(
        default=False, doc="Under AUTO, recompute in full at every refresh."
    )
    max_concurrent_refreshes: int = _setting(
        4, "How many refreshes `pgtrickle run` works on at a time.", 1, 64
    )
    per_database_worker_quota: int = _setting(
        0,
        "How many of them one database may have, kept in its own settings table; 0: all.",
        0,
        64,
    )
    auto_backoff: bool = _setting(
        default=True,
        doc="Refresh a stream table half as often after three refreshes in a row that took longer"
        " than its schedule, down to an eighth, until one takes no longer.",
    )
    event_wakeup: bool = _setting(
        default=True,
        doc="Let a captured change wake `pgtrickle run`, where it has a session of its own on the"
        " server; otherwise it looks for changes when they are due.",
    )
    fuse_default_ceiling: int = _setting(
        0,
        "Changed rows above which the fuse of a stream table blows that has no ceiling of its own;"
        " 0: none.",
        0,
        None,
    )
    allow_circular: bool = _setting(
        default=False,
        doc="Let a new query of a stream table close a circle of stream tables that read one"
        " another, if all their queries are monotone; those that are there are refreshed anyway.",
    )
    max_fixpoint_iterations: int = _setting(
        100,
        "After how many rounds the refresh of a circle gives up that still finds rows.",
        1,
        1_000_000,
    )
    planning_timeout_seconds: float = _setting(
        10.0,
        "How long PostgreSQL may take to plan a query while it is bound or compiled; one that takes"
        " longer is refused.",
        0.05,
        3600,
    )
    max_consecutive_errors: int = _setting(
        3,
        "After how many errors in a row that do not heal by themselves `pgtrickle run` suspends a"
        " stream table; 0: never.",
        0,
        1000,
    )
    history_retention_days: int = _setting(
        90, "How long the history keeps a refresh; 0: for ever.", 0, 36500
    )
    history_prune_interval_seconds: float = _setting(
        60.0, "How often `pgtrickle run` looks for history to delete.", 1, 86400
    )
    read_connections: int = _setting(
        4, "How many connections read side by side during one refresh.", 1, 64
    )
    large_read_bytes: int = _setting(
        32 * 2**20,
        "Size of one input of a refresh (a table, a window of changes, what a bounded read brings)"
        " from which Spark's executors read it in parts, side by side, and write the result"
        " themselves. A smaller one passes through the memory of this process.",
        1,
        None,
    )
    spark_driver_memory: str = _setting(
        "2g",
        "The heap of Spark's driver, as Spark writes sizes; with a local master the executors"
        " live in it too.",
    )
    spark_class_archive: bool = _setting(
        default=True,
        doc="Keep an archive of the classes that Spark's JVM loads in the user's cache directory"
        " (some 150 MB): Spark then starts in half the time. It is written when Spark stops for the"
        " first time, which takes some seconds, or by a process of its own beside a daemon.",
    )
    spark_auth_secret_file: str = _setting(
        "",
        "A file of yours, with mode 0600, that holds the `spark.authenticate.secret` of a"
        " standalone Spark cluster. With a local master Spark makes a secret of its own.",
    )
    refresh_stall_seconds: float = _setting(
        600.0,
        "After how long without any progress (no job, stage or task that ends, no row that moves,"
        " no processor time) what Spark does for a refresh is ended, and Spark started anew if it"
        " does not answer; 0: never.",
        0,
        86400,
    )
    shutdown_seconds: float = _setting(
        30.0,
        "Within how long `pgtrickle run` ends after a signal, whatever hangs. Refreshes in progress"
        " have the first half to finish and are cancelled then.",
        1,
        3600,
    )
    driver_result_bytes: int = _setting(
        128 * 2**20,
        "Size up to which the result of a stage passes through the driver; a larger one is"
        " computed again and written by the executors.",
        2**20,
        None,
    )
    progress_seconds: float = _setting(
        2.0, "How often a large refresh tells how far it is.", 0.05, 3600
    )
    matview_polling: bool = _setting(
        default=True,
        doc="Accept materialized views as sources; each refresh reads all their rows to learn"
        " whether they changed.",
    )
    foreign_table_polling: bool = _setting(
        default=False,
        doc="Accept foreign tables as sources; each refresh reads all their rows to learn whether"
        " they changed.",
    )
    trim_rows: int = _setting(
        1_000_000, "How many consumed changes one refresh deletes at most.", 1, None
    )
    cdc_mode: str = _setting(
        "trigger",
        "How changes are captured: by `trigger`, from the `wal`, or `auto`, which reads the log"
        " where all it needs is in place. A stream table's own cdc_mode comes first.",
    )
    wal_max_changes_per_poll: int = _setting(
        100_000,
        "After how many messages a read of the log ends with the transaction it is in.",
        1,
        None,
    )
    wal_transition_timeout_seconds: float = _setting(
        300.0,
        "How long creating the logical slot may wait for transactions that are open.",
        1,
        86400,
    )
    wal_heartbeat_seconds: float = _setting(
        10.0,
        "How often `pgtrickle run` reads the log although nothing is due, so that the server need"
        " not keep it.",
        0.1,
        3600,
    )
    slot_lag_warning_threshold_mb: int = _setting(
        100, "How much log the slot may hold back before a warning.", 1, None
    )
    slot_lag_critical_threshold_mb: int = _setting(
        1024, "How much log the slot may hold back before the matter is critical.", 1, None
    )
    change_buffer_durability: str = _setting(
        "logged",
        "What a crash of the server leaves of new change buffers: all (logged), all and the writer"
        " has waited for the disk whatever its synchronous_commit (sync), or nothing (unlogged):"
        " cheaper, and each crash makes stream tables start anew.",
        choices=("unlogged", "logged", "sync"),
    )
    compact_threshold: int = _setting(
        100_000,
        "Rows of a change buffer from which changes that undo one another are taken out of it;"
        " 0: never.",
        0,
        None,
    )
    buffer_alert_threshold: int = _setting(
        1_000_000,
        "Rows of a change buffer from which an alert is sent to the channel pg_trickle_alert.",
        1,
        None,
    )
    max_buffer_rows: int = _setting(
        0,
        "Rows of a change buffer above which stream tables that are behind no longer hold it up"
        " and start anew instead, or writers are slowed down (enforce_backpressure); 0: no limit.",
        0,
        None,
    )
    enforce_backpressure: bool = _setting(
        default=False,
        doc="Slow writers down while a change buffer is above max_buffer_rows, instead of letting"
        " stream tables start anew.",
    )
    backpressure_consecutive_limit: int = _setting(
        3, "How often in a row a buffer is found above its limit before something is done.", 1, 1000
    )
    backpressure_delay_ms: int = _setting(
        20, "How long back pressure holds up each statement that writes to a source.", 1, 10_000
    )
    notify_coalesce_ms: int = _setting(
        250,
        "How long after a notice the next one to the same subscriber waits, to tell of all"
        " refreshes meanwhile at once; 0: each refresh is told by itself.",
        0,
        5000,
    )
    requests_per_caller: int = _setting(
        100,
        "How many requests of one role may wait at a time, kept in the settings table; those who"
        " can act as the owner of the catalog may have any number.",
        1,
        100_000,
    )
    ducklake_catalog_schema: str = _setting(
        "public",
        "The schema of PostgreSQL that holds the DuckLake catalog; new sinks take it down.",
    )
    ducklake_catalog_dsn: str = _setting(
        "",
        "In which database the DuckLake catalog is; empty: in this one. New sinks take it down as"
        " it stands here, and look up ${ENV:NAME} in it whenever they connect; a password must be"
        " written so.",
    )
    ducklake_sink_failure_mode: str = _setting(
        "warn",
        "What a delivery to the lake that fails does to its refresh: nothing, and the lake catches"
        " up later (warn), or it fails too (error).",
        choices=("warn", "error"),
    )
    ducklake_sink_max_retries: int = _setting(
        3, "How often a delivery that failed is tried again before someone must ask.", 0, 1000
    )
    ducklake_sink_retry_seconds: float = _setting(
        1.0, "How long the first retry waits at most; each later one waits twice as long.", 0, 3600
    )
    ducklake_compaction_policy: str = _setting(
        "fallback",
        "What is done when the lake has forgotten the snapshot up to which an attached table was"
        " read: all its rows are compared (fallback), or that is an error (error); newly attached"
        " tables take it down.",
        choices=("fallback", "error"),
    )
    ducklake_file_mode: str = _setting(
        "0600",
        "Who may read the local files of copies in the lake, as an octal mode; directories are open"
        " to the same. 0640 or 0644 where DuckDB reads them as another user of the system.",
        choices=("0600", "0640", "0644", "0660", "0664"),
    )
    ducklake_read_paths: str = _setting(
        "",
        "Further directories, with commas in between, in which files of attached lake tables may"
        " lie beside the data path of their lake.",
    )
    ducklake_maintain_seconds: float = _setting(
        600.0,
        "How often a daemon merges the small files of a copy in the lake and removes what nobody"
        " needs; 0: never.",
        0,
        31_536_000,
    )
    ducklake_file_seconds: float = _setting(
        86_400.0,
        "The age from which a daemon removes files of the lake that no snapshot needs; longer than"
        " any reader or writer takes.",
        1,
        31_536_000,
    )
    ducklake_keep_seconds: float = _setting(
        0.0, "The age from which a daemon forgets snapshots of the lake; 0: never.", 0, 31_536_000
    )
    lock_wait_seconds: float = _setting(
        60.0,
        "How long create, drop, alter and others go on asking for a lock that somebody has, a tenth"
        " of a second at a time so that nobody has to wait behind them, before they give up.",
        1,
        86400,
    )
    connection_timeout_seconds: float = _setting(
        30.0, "How long to wait for a connection to PostgreSQL.", 1, 3600
    )

    @property
    def lake_file_mode(self) -> int:
        """The mode of new files in the lake."""
        return int(self.ducklake_file_mode, 8)

    @property
    def lease(self) -> timedelta:
        """The length of a lease."""
        return timedelta(seconds=self.lease_seconds)


# Read by functions in the database, in the session that they concern: no process has them.
SESSION_SETTINGS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "request_timeout": (
            "300",
            "How many seconds a CALL waits before it takes its request back; 0: without end.",
        ),
        "enabled": ("on", "Off: changes that this session makes are not captured (a gap)."),
        "block_source_ddl": (
            "off",
            "On: commands of this session that change what a stream table relies on are refused.",
        ),
    }
)

_LONGEST_VALUE = 8192  # as the table has it
# Kept as they were given: secrets in them are looked up by whoever connects.
_EXPANDED_LATER = frozenset({"ducklake_catalog_dsn"})
# What must be known before a connection can be made cannot come from the database.
# Nor may it name a file of this machine.
_NOT_STORED = frozenset({"dsn", "connection_timeout_seconds", "spark_auth_secret_file"})
_SECRET = re.compile(r"\$\{ENV:([A-Za-z_][A-Za-z0-9_]*)\}")
_UNITS = MappingProxyType(
    {
        "seconds": "s",
        "ms": "ms",
        "days": "days",
        "bytes": "bytes",
        "mb": "MB",
        "rows": "rows",
        "ratio": "share",
    }
)


def storable_settings() -> list[str]:
    """Return the names of the settings that the database may hold."""
    return [one.name for one in fields(Settings) if one.name not in _NOT_STORED]


def unit_of(name: str) -> str:
    """Return the unit of a setting, which its name ends in; empty if it has none.

    >>> unit_of("lease_seconds"), unit_of("cdc_mode")
    ('s', '')
    """
    return _UNITS.get(name.rsplit("_", 1)[-1], "")


def show_value(value: object) -> str:
    """Write a value as ``load_settings`` reads it.

    >>> show_value(True), show_value(0.5)
    ('true', '0.5')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)


def expand_secrets(text: str, environment: Mapping[str, str]) -> str:
    """Put environment variables in place of ``${ENV:NAME}``, so that no file holds a secret.

    >>> expand_secrets("postgresql://ann:${ENV:PW}@db", {"PW": "x"})
    'postgresql://ann:x@db'
    """

    def find(match: re.Match[str]) -> str:
        value = environment.get(match[1])
        if value is None:
            raise SettingError(
                f"the environment variable {match[1]} is not set",
                hint=f"A setting refers to it as ${{ENV:{match[1]}}}: set one or the other.",
            )
        return value

    return _SECRET.sub(find, text)


def load_settings(
    environment: Mapping[str, str] = os.environ,
    stored: Mapping[str, str] = MappingProxyType({}),
    **overrides: object,
) -> Settings:
    """Read the settings from the environment, else from ``stored``, what the database has.

    Arguments that are not None come first.

    >>> load_settings({"PGTRICKLE_LEASE_SECONDS": "5"}).lease_seconds
    5.0
    >>> load_settings({"PGTRICKLE_LEASE_SECONDS": "soon"})
    Traceback (most recent call last):
    pgtrickle.errors.SettingError: the setting "lease_seconds" cannot be "soon"
    """
    settings = Settings()
    for one in fields(Settings):
        text = environment.get(f"PGTRICKLE_{one.name.upper()}", stored.get(one.name))
        if text is not None:
            if one.name not in _EXPANDED_LATER:
                text = expand_secrets(text, environment)
            value = _parse(one.name, text, type(getattr(settings, one.name)))
            settings = replace(settings, **{one.name: value})
    given: dict[str, Any] = {
        key: expand_secrets(value, environment)
        if isinstance(value, str) and key not in _EXPANDED_LATER
        else value
        for key, value in overrides.items()
        if value is not None
    }
    settings = replace(settings, **given)
    for one in fields(Settings):
        _check_range(one.name, getattr(settings, one.name), one.metadata)
    return settings


@dataclass(frozen=True, slots=True)
class SettingInEffect:
    """One setting of a process."""

    name: str
    value: str
    source: str  # environment, session (SET pg_trickle.x), table, default; else argument
    default: str
    unit: str
    doc: str


def settings_in_effect(
    settings: Settings,
    session: Mapping[str, str],
    table: Mapping[str, str],
    environment: Mapping[str, str] = os.environ,
) -> list[SettingInEffect]:
    """Say for every setting where its value comes from; those of a DSN may be secrets."""
    found = []
    for one in fields(Settings):
        value, default = getattr(settings, one.name), one.default
        if f"PGTRICKLE_{one.name.upper()}" in environment:
            source = "environment"
        elif one.name in session:
            source = "session"
        elif one.name in table:
            source = "table"
        else:
            source = "default" if value == default else "argument"
        shown = "***" if one.name.endswith("dsn") and value else show_value(value)
        found.append(
            SettingInEffect(
                one.name,
                shown,
                source,
                show_value(default),
                unit_of(one.name),
                one.metadata["doc"],
            )
        )
    return found


def _parse(name: str, text: str, kind: type) -> Any:
    if len(text) > _LONGEST_VALUE:
        raise _refuse(name, f"{text[:100]}...", f"It has {_LONGEST_VALUE} characters at most.")
    try:
        if kind is bool:
            return {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}[
                text.strip().lower()
            ]
        return kind(text)  # a number of too many digits is a ValueError, too
    except (ValueError, KeyError):
        raise _refuse(name, text, f"It is of the type {kind.__name__}.") from None


def _check_range(name: str, value: object, metadata: Mapping[str, Any]) -> None:
    low, high = metadata["low"], metadata["high"]
    if isinstance(value, (int, float)) and (
        not math.isfinite(value)
        or (low is not None and value < low)
        or (high is not None and value > high)
    ):
        raise _refuse(name, str(value), f"It lies between {low} and {high}.")
    if metadata["choices"] and value not in metadata["choices"]:
        raise _refuse(name, str(value), f"Choose one of {', '.join(metadata['choices'])}.")


def _refuse(name: str, text: str, hint: str) -> SettingError:
    return SettingError(f'the setting "{name}" cannot be "{text}"', hint=hint)
