"""Every setting: its type, default, range, unit and meaning.

A setting comes from the first of these that gives it: an argument of ``pgtrickle.connect``; the
environment variable ``PGTRICKLE_<NAME>`` in capitals; ``pg_trickle.<name>``, set for the role or
the database; the table ``pgtrickle.pgt_settings``; its default.  Processes look at what the
database says again and again, and follow it, unless the setting needs a restart.
docs/configuration.md and the rows of that table are generated from this file.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from pgtrickle.errors import SettingError

SPARK, AUTO, POSTGRES = "spark", "auto", "postgres"  # the engines
CATALOG_SCHEMA = "ducklake"  # the default schema of the lake's catalog


def _setting(
    default: Any,
    doc: str,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    *,
    restart: bool = False,  # a process that runs goes on with the value it started with
) -> Any:
    metadata = {"doc": doc, "low": low, "high": high, "choices": choices, "restart": restart}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one process."""

    dsn: str = _setting(
        "",
        "The connection string of the database; empty: the embedded server is started.",
        restart=True,
    )
    lease_seconds: float = _setting(
        30.0,
        "How long a refresh may go without renewing its lease before another process may take"
        " over.",
        1,
        86400,
    )
    differential_max_change_ratio: float = _setting(
        0.5,
        "Under AUTO, the share of changed rows among a query's source rows above which a refresh"
        " recomputes in full, regardless of the predicted cost; an updated row counts once. A"
        " stream table's own max_delta_fraction takes precedence.",
        0,
        1,
    )
    cost_model_safety_margin: float = _setting(
        0.9,
        "Under AUTO, a refresh recomputes in full if the predicted time of FULL is less than this"
        " share of the predicted time of DIFFERENTIAL; 0: never because of its cost.",
        0,
        1,
    )
    engine: str = _setting(
        SPARK,
        "What computes the stages of a refresh: Spark (spark), the database itself (postgres),"
        " which starts no JVM and reads nothing out of the database, or the one that is predicted"
        " to be quicker (auto). A stream table's own engine takes precedence.",
        choices=(SPARK, AUTO, POSTGRES),
    )
    template_cache_max_entries: int = _setting(
        1000,
        "How many compiled queries a process keeps; beyond it, the one that was not used for"
        " longest is compiled again when it is needed. 0: no limit.",
        0,
        1000000,
        restart=True,
    )
    immediate_max_delta_rows: int = _setting(
        100_000,
        "How many rows a statement may change for an IMMEDIATE stream table to follow it at once.",
        1,
        10_000_000,
    )
    immediate_excess: str = _setting(
        "defer",
        "What becomes of a statement that changes more: the stream table is computed anew by its"
        " next refresh (defer), or the statement fails (error).",
        choices=("defer", "error"),
    )
    force_full_refresh: bool = _setting(
        default=False,
        doc="Recompute in full at every refresh, in every refresh mode and even if nothing has"
        " changed. IMMEDIATE stream tables are recomputed on their schedule too.",
    )
    max_concurrent_refreshes: int = _setting(
        4, "How many refreshes `pgtrickle run` runs at a time.", 1, 64
    )
    per_database_worker_quota: int = _setting(
        0,
        "How many refreshes of one database may run at a time, kept in its own settings table;"
        " 0: all.",
        0,
        64,
    )
    auto_backoff: bool = _setting(
        default=True,
        doc="Refresh a stream table half as often after three consecutive refreshes that took"
        " longer than its schedule, down to an eighth, until one takes no longer.",
    )
    event_wakeup: bool = _setting(
        default=True,
        doc="Let a captured change wake `pgtrickle run`, if its session on the server does not go"
        " through a pooler; otherwise it looks for changes when a stream table is due.",
        restart=True,
    )
    fuse_default_ceiling: int = _setting(
        0,
        "Changed rows above which the fuse of a stream table without its own ceiling blows;"
        " 0: no ceiling.",
        0,
        None,
    )
    allow_circular: bool = _setting(
        default=False,
        doc="Let a new query of a stream table close a circle of stream tables that read one"
        " another, if all their queries are monotone; existing circles are refreshed anyway.",
    )
    max_fixpoint_iterations: int = _setting(
        100,
        "The number of rounds after which the refresh of a circle that still finds rows gives up.",
        1,
        1_000_000,
    )
    planning_timeout_seconds: float = _setting(
        10.0,
        "How long PostgreSQL may take to plan a query while it is bound or compiled; a query that"
        " takes longer is refused.",
        0.05,
        3600,
    )
    compile_timeout_ms: int = _setting(
        60_000,
        "How long a query may be compiled, PostgreSQL's part included; a query that takes longer"
        " is refused with ST112.",
        100,
        3_600_000,
    )
    sla_window_hours: float = _setting(
        24.0, "The hours that sla_summary and the alerts on service levels look back.", 0.01, 87600
    )
    sla_error_budget_percent: float = _setting(
        1.0,
        "The share of the time in which a service level may be missed, and without one of the"
        " refreshes that may fail, in percent; kept in the settings table.",
        0.001,
        100,
    )
    schedule_recommendation_min_samples: int = _setting(
        20,
        "The number of refreshes with changes below which the planner recommends nothing, kept in"
        " the settings table.",
        1,
        10_000,
    )
    schedule_alert_cooldown_seconds: float = _setting(
        300.0,
        "The shortest time between two alerts that predict a missed service level of the same"
        " stream table.",
        0,
        86400,
    )
    max_consecutive_errors: int = _setting(
        3,
        "The number of consecutive errors, without temporary ones, after which `pgtrickle run`"
        " suspends a stream table; 0: never.",
        0,
        1000,
    )
    suspend_after_seconds: float = _setting(
        300.0,
        "The time from the first to the latest of consecutive errors before they suspend a"
        " stream table; 0: max_consecutive_errors alone decides.",
        0,
        86400,
    )
    history_retention_days: int = _setting(
        90, "How long the history keeps a refresh; 0: forever.", 0, 36500
    )
    history_prune_interval_seconds: float = _setting(
        60.0, "How often `pgtrickle run` looks for history to delete.", 1, 86400
    )
    delivery_retention_days: int = _setting(
        90,
        "How long the record of a delivery to a lake, and of the lake's snapshot that it made, is"
        " kept; 0: forever. The last delivery of each sink stays, and so do the totals.",
        0,
        36500,
    )
    request_retention_hours: float = _setting(
        24.0, "How long a request stays on record after its end.", 0.1, 87600
    )
    snapshot_retention_days: int = _setting(
        0,
        "How long a snapshot is kept before `pgtrickle run` drops it; 0: until somebody does. The"
        " newest snapshot of each stream table stays.",
        0,
        36500,
    )
    long_transaction_seconds: float = _setting(
        900.0,
        "From which age on an open transaction is a finding of health_check(): vacuum waits for it,"
        " and so do the changes that it makes.",
        1,
        604800,
    )
    profiles_kept: int = _setting(
        20,
        "How many profiles, the figures of `explain --analyze`, are kept of each stream table; 0:"
        " none.",
        0,
        1000,
    )
    read_connections: int = _setting(
        4, "How many connections read in parallel during one refresh.", 1, 64
    )
    large_read_bytes: int = _setting(
        32 * 2**20,
        "The size of one input of a refresh (a table, a window of changes, the result of a bounded"
        " read) from which Spark's executors read it in parts, in parallel, and write the result"
        " themselves. A smaller input passes through the memory of this process.",
        1,
        None,
    )
    spark_driver_memory: str = _setting(
        "2g",
        "The heap of Spark's driver, in Spark's notation; with a local master the executors"
        " use it too.",
        restart=True,
    )
    spark_class_archive: bool = _setting(
        default=True,
        doc="Keep an archive of the classes that Spark's JVM loads in the user's cache directory"
        " (about 150 MB): Spark then starts in half the time. The archive is written when Spark"
        " stops for the first time, which takes some seconds, or by a separate process beside a"
        " daemon.",
        restart=True,
    )
    spark_auth_secret_file: str = _setting(
        "",
        "Your file, with mode 0600, that contains the `spark.authenticate.secret` of a"
        " standalone Spark cluster. With a local master Spark creates its own secret.",
        restart=True,
    )
    refresh_stall_seconds: float = _setting(
        600.0,
        "The time without any progress (no job, stage or task ends, no row moves, no processor"
        " time is used) after which the Spark jobs of a refresh are cancelled, and Spark is"
        " restarted if it does not answer; 0: never.",
        0,
        86400,
        restart=True,
    )
    shutdown_seconds: float = _setting(
        30.0,
        "The time within which `pgtrickle run` ends after a signal, even if something hangs."
        " Refreshes in progress have the first half to finish and are then cancelled.",
        1,
        3600,
        restart=True,
    )
    driver_result_bytes: int = _setting(
        128 * 2**20,
        "The size up to which the result of a stage passes through the driver; a larger result is"
        " computed again and written by the executors.",
        2**20,
        None,
        restart=True,
    )
    progress_seconds: float = _setting(
        2.0, "How often a large refresh reports its progress.", 0.05, 3600
    )
    matview_polling: bool = _setting(
        default=True,
        doc="Accept materialized views as sources; each refresh reads all their rows to find out"
        " whether they changed.",
    )
    foreign_table_polling: bool = _setting(
        default=False,
        doc="Accept foreign tables as sources; each refresh reads all their rows to find out"
        " whether they changed.",
    )
    trim_rows: int = _setting(
        1_000_000, "The largest number of consumed changes that one refresh deletes.", 1, None
    )
    cdc_mode: str = _setting(
        "trigger",
        "How changes are captured: by `trigger`, from the `wal`, or `auto`, which reads the log"
        " if all conditions are met. A stream table's own cdc_mode takes precedence.",
    )
    cdc_paused: bool = _setting(
        default=False,
        doc="Capture nothing, for every session: a daemon pauses the capture of every source, and"
        " ends those pauses when this is off again. Then stream tables that read a source are"
        " loaded again.",
    )
    wal_max_changes_per_poll: int = _setting(
        100_000,
        "The number of messages after which a read of the log ends, at the end of the current"
        " transaction.",
        1,
        None,
    )
    wal_transition_timeout_seconds: float = _setting(
        300.0,
        "How long the creation of the logical slot may wait for open transactions.",
        1,
        86400,
    )
    wal_heartbeat_seconds: float = _setting(
        10.0,
        "How often `pgtrickle run` reads the log even if nothing is due, so that the server need"
        " not keep it.",
        0.1,
        3600,
    )
    slot_lag_warning_threshold_mb: int = _setting(
        100, "How much log the slot may hold back before a warning.", 1, None
    )
    slot_lag_critical_threshold_mb: int = _setting(
        1024, "How much log the slot may hold back before a critical alert.", 1, None
    )
    change_buffer_durability: str = _setting(
        "logged",
        "How new change buffers survive a crash of the server: completely (logged), completely,"
        " with commits that wait for the disk regardless of synchronous_commit (sync), or not at"
        " all (unlogged), which is cheaper, but each crash makes stream tables load again.",
        choices=("unlogged", "logged", "sync"),
    )
    snapshot_keeps_changes: bool = _setting(
        default=False,
        doc="Keep in the change buffers what the snapshots of stream tables need, so that the"
        " refresh after a restore is differential. The buffers grow until the snapshots are"
        " dropped; `pgtrickle doctor` shows by how much.",
    )
    shadow_refresh_throttle_ms: int = _setting(
        1000,
        "How long a shadow build pauses between two refreshes of its shadow, so that it leaves the"
        " server to others.",
        0,
        3_600_000,
    )
    shadow_converged_ms: int = _setting(
        5000,
        "A shadow has caught up if a refresh of it took no longer, or left no change to apply.",
        1,
        3_600_000,
    )
    shadow_stalled_refreshes: int = _setting(
        10,
        "After how many refreshes in a row that took longer and left no fewer changes a shadow"
        " build is given up; 0: never.",
        0,
        100_000,
    )
    compact_threshold: int = _setting(
        100_000,
        "Rows of a change buffer from which changes that cancel out are deleted from it; 0: never.",
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
        "Rows of a change buffer above which it is trimmed without the stream tables that are"
        " behind, which load again, or writers are slowed down (enforce_backpressure);"
        " 0: no limit.",
        0,
        None,
    )
    enforce_backpressure: bool = _setting(
        default=False,
        doc="Slow writers down while a change buffer is above max_buffer_rows, instead of making"
        " stream tables load again.",
    )
    backpressure_consecutive_limit: int = _setting(
        3, "The number of consecutive checks above the limit before pgtrickle acts.", 1, 1000
    )
    backpressure_delay_ms: int = _setting(
        20, "How long back pressure delays each statement that writes to a source.", 1, 10_000
    )
    notify_coalesce_ms: int = _setting(
        250,
        "The time between two notices to the same subscriber; refreshes in between share one"
        " notice; 0: each refresh has its own.",
        0,
        5000,
    )
    metrics_catalog_snapshot_ttl_ms: int = _setting(
        4000,
        "How long the metrics of a daemon show the same look at the catalog; 0: each request looks"
        " anew.",
        0,
        3_600_000,
    )
    metrics_request_timeout_ms: int = _setting(
        5000,
        "How long a request for metrics waits for the database; then what comes from the catalog is"
        " left out.",
        50,
        600_000,
    )
    otel_endpoint: str = _setting(
        "",
        "The address of a collector of OpenTelemetry that takes OTLP by gRPC, such as"
        " http://127.0.0.1:4317: each refresh is sent as a trace, and `pgtrickle run` sends its"
        " metrics; empty: nothing is sent. It needs the extra pgtrickle[otel].",
        restart=True,
    )
    otel_metrics_seconds: float = _setting(
        60.0,
        "How often `pgtrickle run` sends its metrics to that collector; 0: never.",
        0,
        86400,
        restart=True,
    )
    openlineage_url: str = _setting(
        "",
        "The address of a catalog that takes events of OpenLineage over HTTP, such as"
        " http://127.0.0.1:5000: each refresh that changes something is sent as a run; empty:"
        " nothing is sent. It needs the extra pgtrickle[lineage].",
        restart=True,
    )
    requests_per_caller: int = _setting(
        100,
        "How many requests of one role may wait at a time, kept in the settings table; roles that"
        " can act as the owner of the catalog have no limit.",
        1,
        100_000,
    )
    ducklake_catalog_schema: str = _setting(
        CATALOG_SCHEMA,
        "The PostgreSQL schema that holds the DuckLake catalog; recorded for each new sink.",
    )
    ducklake_catalog_dsn: str = _setting(
        "",
        "The connection string of the database with the DuckLake catalog; empty: this database."
        " Recorded for each new sink as written; ${ENV:NAME} in it is looked up at each"
        " connection. A password must be written in this form.",
    )
    ducklake_sink_failure_mode: str = _setting(
        "warn",
        "The effect of a failed delivery to the lake on its refresh: none, and the lake catches"
        " up later (warn), or the refresh fails too (error).",
        choices=("warn", "error"),
    )
    ducklake_sink_max_retries: int = _setting(
        3,
        "How often a delivery with a permanent failure is retried before it waits for"
        " `pgtrickle sink retry`; outages of storage and networks are retried without a limit.",
        0,
        1000,
    )
    ducklake_sink_retry_seconds: float = _setting(
        1.0, "The longest wait of the first retry; each later one waits twice as long.", 0, 3600
    )
    ducklake_sink_longest_retry_seconds: float = _setting(
        300.0, "The longest wait of any retry.", 0, 86400
    )
    ducklake_compaction_policy: str = _setting(
        "fallback",
        "The reaction if the snapshot up to which an attached table was read has expired in the"
        " lake: compare all its rows (fallback), or fail (error). Recorded for each newly attached"
        " table.",
        choices=("fallback", "error"),
    )
    ducklake_file_mode: str = _setting(
        "0600",
        "The octal mode of the local files of copies in the lake; directories are open to the same"
        " users. Use 0640 or 0644 if DuckDB reads them as another system user.",
        choices=("0600", "0640", "0644", "0660", "0664"),
    )
    ducklake_read_paths: str = _setting(
        "",
        "Further directories, separated by commas, that may contain files of attached lake tables"
        " in addition to the data path of their lake.",
    )
    ducklake_maintain_seconds: float = _setting(
        600.0,
        "How often a daemon merges the small files of a copy in the lake and removes files that are"
        " no longer needed; 0: never.",
        0,
        31_536_000,
    )
    ducklake_file_seconds: float = _setting(
        86_400.0,
        "The age from which a daemon removes files of the lake that no snapshot needs; choose it"
        " longer than any read or write takes.",
        1,
        31_536_000,
    )
    ducklake_keep_seconds: float = _setting(
        0.0, "The age from which a daemon expires snapshots of the lake; 0: never.", 0, 31_536_000
    )
    lock_wait_seconds: float = _setting(
        60.0,
        "How long create, drop, alter and other commands wait for a lock before they give up; they"
        " request it for a tenth of a second at a time, so that no other session queues behind"
        " them.",
        1,
        86400,
    )
    trusted_owner: str = _setting(
        "",
        "The role whose catalog you use without being its owner, and whose functions may run with"
        " your rights; `pg_trickle.trusted_owner` sets it for a role or a database; the catalog"
        " cannot set it. Superusers and the owner of the database are trusted.",
        restart=True,
    )
    connection_timeout_seconds: float = _setting(
        30.0, "How long to wait for a connection to PostgreSQL.", 1, 3600, restart=True
    )

    @property
    def tells_others(self) -> bool:
        """Whether somebody outside the database is told of refreshes."""
        return bool(self.otel_endpoint or self.openlineage_url)

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
            "How many seconds a CALL waits before it cancels its request; 0: without limit.",
        ),
        "enabled": ("on", "Off: the changes of this session are not captured (a gap)."),
        "block_source_ddl": (
            "off",
            "On: commands of this session that alter a source of a stream table are refused.",
        ),
    }
)

_LONGEST_VALUE = 8192  # as in the table
# Kept as written: secrets in them are looked up at each connection.
_EXPANDED_LATER = frozenset({"ducklake_catalog_dsn"})
# The database cannot hold a setting that is needed before the connection is made,
# nor may it name a file of this machine, nor declare which role is trusted, nor to whom this
# process tells what it does.
_NOT_STORED = frozenset(
    {
        "dsn",
        "connection_timeout_seconds",
        "openlineage_url",
        "otel_endpoint",
        "spark_auth_secret_file",
        "trusted_owner",
    }
)
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

# Environment variables that are read elsewhere and are not settings.
_OTHER_VARIABLES = ("debug", "home", "pg_bindir", "quiet")
_OF_TEST_LANES = re.compile(r"PGTRICKLE_(TEST|FUZZ|KILL|NEW)_|PGTRICKLE_LAKE_[A-Z]+$")


@dataclass(frozen=True, slots=True)
class UnknownSetting:
    """A name that looks like a setting of pgtrickle but is not one."""

    name: str  # as given
    nearest: str  # the most similar setting, or empty

    def __str__(self) -> str:
        """Return a warning of one line."""
        meant = f"; did you mean {self.nearest}?" if self.nearest else ""
        return f"{self.name} is not a setting of pgtrickle{meant}"


def find_unknown_variables(environment: Mapping[str, str] = os.environ) -> list[UnknownSetting]:
    """Return the environment variables that are named like settings but are not settings.

    >>> [one.nearest for one in find_unknown_variables({"PGTRICKLE_" + "LEASE_SECOND": "5"})]
    ['PGTRICKLE_LEASE_SECONDS']
    """
    known = [one.name for one in fields(Settings)] + list(_OTHER_VARIABLES)
    names = [f"PGTRICKLE_{name.upper()}" for name in known]
    given = (name for name in environment if name.startswith("PGTRICKLE_"))
    return _unlike(names, [name for name in given if not _OF_TEST_LANES.match(name)])


def find_unknown_parameters(given: Iterable[str]) -> list[UnknownSetting]:
    """Return the given ``pg_trickle.<name>`` parameters that pgtrickle does not know."""
    known = [*storable_settings(), *SESSION_SETTINGS, "trusted_owner"]
    return _unlike([f"pg_trickle.{name}" for name in known], given)


def _unlike(known: list[str], given: Iterable[str]) -> list[UnknownSetting]:
    return [
        UnknownSetting(name, next(iter(get_close_matches(name, known, 1, 0.8)), ""))
        for name in sorted(set(given) - set(known))
    ]


def storable_settings() -> list[str]:
    """Return the names of the settings that the database may hold."""
    return [one.name for one in fields(Settings) if one.name not in _NOT_STORED]


def settings_for_restart() -> list[str]:
    """Return the names of the settings that a running process does not follow."""
    return [one.name for one in fields(Settings) if one.metadata["restart"]]


def unit_of(name: str) -> str:
    """Return the unit of a setting, taken from the end of its name; empty if it has none.

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
    """Replace each ``${ENV:NAME}`` by the environment variable, so that no file holds a secret.

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
    """Read the settings from the environment, else from ``stored``, the values in the database.

    Arguments that are not None take precedence.

    >>> load_settings({"PGTRICKLE_LEASE_SECONDS": "5"}).lease_seconds
    5.0
    >>> load_settings({"PGTRICKLE_LEASE_SECONDS": "soon"})
    Traceback (most recent call last):
    pgtrickle.errors.SettingError: the setting "lease_seconds" cannot be "soon"
    """
    settings = Settings()
    for one in fields(Settings):
        kept = None if one.name in _NOT_STORED else stored.get(one.name)
        text = environment.get(f"PGTRICKLE_{one.name.upper()}", kept)
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
    needs_restart: bool  # a process that runs goes on with the value it started with


def settings_in_effect(
    settings: Settings,
    session: Mapping[str, str],
    table: Mapping[str, str],
    environment: Mapping[str, str] = os.environ,
) -> list[SettingInEffect]:
    """Return every setting with the source of its value; a DSN is hidden."""
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
        found.append(
            SettingInEffect(
                one.name,
                hide_secret(one.name, value),
                source,
                show_value(default),
                unit_of(one.name),
                one.metadata["doc"],
                one.metadata["restart"],
            )
        )
    return found


def hide_secret(name: str, value: object) -> str:
    """Write the value of a setting for a human, without a connection string.

    >>> hide_secret("dsn", "password=x"), hide_secret("lease_seconds", 5.0)
    ('***', '5.0')
    """
    return "***" if name.endswith("dsn") and value else show_value(value)


def _parse(name: str, text: str, kind: type) -> Any:
    if len(text) > _LONGEST_VALUE:
        raise _refuse(name, f"{text[:100]}...", f"Use at most {_LONGEST_VALUE} characters.")
    try:
        if kind is bool:
            return {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}[
                text.strip().lower()
            ]
        return kind(text)  # a number of too many digits is a ValueError, too
    except (ValueError, KeyError):
        raise _refuse(name, text, f"Its type is {kind.__name__}.") from None


def _check_range(name: str, value: object, metadata: Mapping[str, Any]) -> None:
    low, high = metadata["low"], metadata["high"]
    if isinstance(value, (int, float)) and (
        not math.isfinite(value)
        or (low is not None and value < low)
        or (high is not None and value > high)
    ):
        raise _refuse(name, str(value), f"Choose a value between {low} and {high}.")
    if metadata["choices"] and value not in metadata["choices"]:
        raise _refuse(name, str(value), f"Choose one of {', '.join(metadata['choices'])}.")


def _refuse(name: str, text: str, hint: str) -> SettingError:
    return SettingError(f'the setting "{name}" cannot be "{text}"', hint=hint)
