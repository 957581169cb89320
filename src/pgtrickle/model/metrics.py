"""Every metric that a daemon or a relay serves: its name, its labels and its meaning.

Labels are few on purpose: a series that counts refreshes has no label for the stream table, and a
metric with such a label has at most ``SHOWN`` of them.  Every sample has the label ``database``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

SHOWN = 1000  # stream tables, and sinks, with their own series: those furthest behind


class MetricKind(Enum):
    """The type of a metric, in Prometheus's terms."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric, whatever its labels."""

    name: str
    kind: MetricKind
    doc: str
    labels: tuple[str, ...] = ()


def _counter(name: str, doc: str, *labels: str) -> Metric:
    return Metric(name, MetricKind.COUNTER, doc, labels)


def _gauge(name: str, doc: str, *labels: str) -> Metric:
    return Metric(name, MetricKind.GAUGE, doc, labels)


_TABLE = "stream_table"

# Every daemon reports these about itself.
VERSION = _gauge("pgtrickle_version", "1, with the version of the package as a label.", "version")
LEADING = _gauge("pgtrickle_leading", "1 for the leading daemon, 0 for one that stands by.")
READY = _gauge("pgtrickle_ready", "1 while `/ready` answers 200, which includes the server.")
LAST_ROUND = _gauge(
    "pgtrickle_seconds_since_last_round", "The time since the scheduler's last round."
)
REFRESHES = _counter(
    "pgtrickle_refreshes_total",
    "Refreshes that the scheduler tried. Failed and cancelled ones have the action `NONE`.",
    "action",
    "outcome",
)
FAILURES = _counter(
    "pgtrickle_refresh_failures_total", "Refreshes that failed, by the code of the error.", "code"
)
DURATION = Metric(
    "pgtrickle_refresh_seconds",
    MetricKind.HISTOGRAM,
    "The duration of completed refreshes.",
    ("action",),
)
ROWS = _counter(
    "pgtrickle_refresh_rows_total", "Rows that refreshes `inserted` and `deleted`.", "change"
)
RUNNING = _gauge("pgtrickle_refreshes_running", "Refreshes that are running.")
QUEUED = _gauge(
    "pgtrickle_refreshes_queued",
    "Refreshes that are due and wait for a worker, or for the refresh of a source.",
)
ADMITTED = _gauge(
    "pgtrickle_refreshes_admitted",
    "How many refreshes may run at a time: fewer than the setting after errors for want of room.",
)
FALLING_BEHIND = _counter(
    "pgtrickle_scheduler_falling_behind_total", "Refreshes that took longer than their interval."
)
NOT_READ = _counter(
    "pgtrickle_catalog_read_failures_total",
    "How often the metrics of the catalog could not be read.",
)

# Of Spark, as each daemon uses it: what this process knows by itself ...
SPARK_STARTED = _gauge(
    "pgtrickle_spark_started",
    "1 while the process has a session of Spark, which begins with the first computation on it.",
)
SPARK_RUNNING = _gauge(
    "pgtrickle_spark_computations_running", "Computations that the process waits for."
)
SPARK_COMPUTATIONS = _counter(
    "pgtrickle_spark_computations_total",
    "Computations that the process asked for: stages of refreshes, large reads and writes. Those"
    " that were cancelled are `failed`, too.",
    "outcome",
)
SPARK_SECONDS = _counter(
    "pgtrickle_spark_computation_seconds_total",
    "The time that they took, the start of Spark included.",
)
# ... and what Spark tells of itself.
SPARK_EXECUTORS = _gauge("pgtrickle_spark_executors", "Executors that can work.")
SPARK_CORES = _gauge("pgtrickle_spark_cores", "Cores of these executors.")
SPARK_HEAP = _gauge(
    "pgtrickle_spark_heap_bytes",
    "The heap of Spark's driver, `used` and `max`; with a local master, of the executor too.",
    "kind",
)
SPARK_JOBS_ACTIVE = _gauge("pgtrickle_spark_jobs_active", "Jobs that Spark works on.")
SPARK_JOBS = _counter("pgtrickle_spark_jobs_total", "Jobs `completed` and `failed`.", "outcome")
SPARK_TASKS_ACTIVE = _gauge("pgtrickle_spark_tasks_active", "Tasks that executors work on.")
SPARK_TASKS = _counter("pgtrickle_spark_tasks_total", "Tasks `completed` and `failed`.", "outcome")
SPARK_TASK_SECONDS = _counter(
    "pgtrickle_spark_task_seconds_total", "The time that tasks took, of all executors together."
)
SPARK_GC_SECONDS = _counter(
    "pgtrickle_spark_gc_seconds_total", "The part of it in which executors collected garbage."
)

# These are read from the catalog, so only the leading daemon reports them.
STREAM_TABLES = _gauge("pgtrickle_stream_tables", "Stream tables by their status.", "status")
STALENESS = _gauge(
    "pgtrickle_staleness_seconds",
    "The age of the contents of a stream table; absent before the first load.",
    _TABLE,
)
SLA = _gauge(
    "pgtrickle_sla_seconds",
    "The age that the contents of a stream table must not exceed; absent without a service level.",
    _TABLE,
)
STRETCH = _gauge(
    "pgtrickle_interval_stretch",
    "The factor on the interval of a stream table's schedule, because its refreshes fall behind.",
    _TABLE,
)
LATENCY = _gauge(
    "pgtrickle_refresh_latency_seconds",
    "The time that refreshes of a stream table took: median and 99th percentile of the last twenty"
    " that are in the history and changed something.",
    _TABLE,
    "quantile",
)
LAST_INFO = _gauge(
    "pgtrickle_last_refresh_info",
    "1, with what the last refresh that changed something did, and on which engine.",
    _TABLE,
    "action",
    "engine",
)
LAST_SECONDS = _gauge("pgtrickle_last_refresh_seconds", "The time that it took.", _TABLE)
LAST_ROWS = _gauge(
    "pgtrickle_last_refresh_rows", "The rows that it `inserted` and `deleted`.", _TABLE, "change"
)
PREDICTED = _gauge(
    "pgtrickle_last_refresh_predicted_seconds",
    "The time that the cost model predicted for it; absent if it predicted none.",
    _TABLE,
)
ACTUAL = _gauge(
    "pgtrickle_last_refresh_actual_seconds",
    "The time that it took of what the cost model predicts.",
    _TABLE,
)
LOCK_FAILURES = _gauge(
    "pgtrickle_recent_lock_failures",
    "Of the last twenty refreshes of a stream table, those that gave up for a lock (ST408).",
    _TABLE,
)
BUFFER_ROWS = _gauge(
    "pgtrickle_change_buffer_rows",
    "About how many captured changes of a source wait, as PostgreSQL's statistics have it.",
    "source",
)
BUFFER_BYTES = _gauge(
    "pgtrickle_change_buffer_bytes", "The size of the change buffer of a source.", "source"
)
CAPTURE_LAG = _gauge(
    "pgtrickle_capture_lag_seconds",
    "How long a captured change of a source can have waited: the age of the oldest contents that"
    " lack it; 0 if none waits.",
    "source",
)
SLOT_LAG = _gauge(
    "pgtrickle_slot_lag_bytes",
    "How much log the server keeps for the logical slot; absent if none is captured from.",
)
OLDEST_TRANSACTION = _gauge(
    "pgtrickle_oldest_transaction_seconds",
    "How long the oldest open transaction of the database has gone on, of those that the daemon's"
    " role may see; captured changes and dead rows stay until it ends. Absent without one.",
)
IMMEDIATE_STATEMENTS = _counter(
    "pgtrickle_immediate_statements_total",
    "Statements whose changes an IMMEDIATE stream table has followed.",
    _TABLE,
)
IMMEDIATE_ROWS = _counter(
    "pgtrickle_immediate_rows_total",
    "Rows `inserted` and `deleted` in an IMMEDIATE stream table, by PostgreSQL's statistics.",
    _TABLE,
    "change",
)
QUERY_HITS = _counter(
    "pgtrickle_query_cache_hits_total", "Refreshes that found their query compiled."
)
QUERY_MISSES = _counter(
    "pgtrickle_query_cache_misses_total", "Refreshes that had to compile their query."
)
QUERY_ENTRIES = _gauge("pgtrickle_query_cache_entries", "Compiled queries in memory.")
ERRORS = _gauge(
    "pgtrickle_consecutive_errors",
    "The number of consecutive failed refreshes of a stream table.",
    _TABLE,
)
# Why writers of an IMMEDIATE stream table wait for one another (immediate/locking.py).
LOCK_REASONS = ("several_scans", "several_stages", "no_key")
LOCK_FALLBACKS = _counter(
    "pgtrickle_ivm_lock_mode_fallback_total",
    "Statements for which an IMMEDIATE stream table took an exclusive lock, by the reason.",
    "reason",
)
REQUESTS = _gauge("pgtrickle_requests_queued", "Requests from SQL that wait for a worker.")
SINKS = _gauge("pgtrickle_sinks", "Copies in the lake by the state of their delivery.", "state")
DELIVERIES = _counter(
    "pgtrickle_sink_deliveries_total", "Deliveries to the lake that succeeded.", _TABLE
)
ATTEMPTS = _counter(
    "pgtrickle_sink_attempts_total", "Attempts to deliver, successful or not.", _TABLE
)
DELIVERY_FAILURES = _counter(
    "pgtrickle_sink_failures_total", "Attempts to deliver that failed.", _TABLE
)
DELIVERED_ROWS = _counter(
    "pgtrickle_sink_rows_total", "Rows `inserted` and `deleted` in the lake.", _TABLE, "change"
)
DELIVERED_BYTES = _counter(
    "pgtrickle_sink_bytes_total", "The size of the files written to the lake.", _TABLE
)
LAG_REFRESHES = _gauge(
    "pgtrickle_sink_lag_refreshes",
    "Refreshes with changes that the lake lacks; beyond a thousand they are not counted.",
    _TABLE,
)
LAG_SECONDS = _gauge(
    "pgtrickle_sink_lag_seconds",
    "The time for which the lake has lacked changes; 0 if it lacks none.",
    _TABLE,
)
SNAPSHOT = _gauge("pgtrickle_sink_snapshot_id", "The lake snapshot of the last delivery.", _TABLE)

# A relay reports these, each with the label ``pipeline``.
_PIPELINE = "pipeline"
RELAY_MESSAGES = _counter(
    "pgtrickle_relay_messages_total", "Messages that receivers have taken.", _PIPELINE
)
RELAY_RETRIES = _counter("pgtrickle_relay_retries_total", "Attempts that failed.", _PIPELINE)
RELAY_IN_FLIGHT = _gauge("pgtrickle_relay_in_flight", "Messages on their way.", _PIPELINE)
RELAY_LAG_ENTRIES = _gauge("pgtrickle_relay_lag_entries", "Entries to be delivered.", _PIPELINE)
RELAY_LAG_ROWS = _gauge("pgtrickle_relay_lag_rows", "Changes in these entries.", _PIPELINE)
RELAY_LAG_SECONDS = _gauge("pgtrickle_relay_lag_seconds", "Age of the oldest of them.", _PIPELINE)
RELAY_DEAD_LETTERS = _gauge("pgtrickle_relay_dead_letters", "Messages set aside.", _PIPELINE)
RELAY_STATE = _gauge("pgtrickle_relay_state", "1 for the state of a pipeline.", _PIPELINE, "state")
INBOUND_MESSAGES = _counter(
    "pgtrickle_inbound_messages_total", "Messages that were new to inboxes.", _PIPELINE
)
INBOUND_DUPLICATES = _counter(
    "pgtrickle_inbound_duplicates_total", "Messages that inboxes had already.", _PIPELINE
)
INBOUND_RETRIES = _counter("pgtrickle_inbound_retries_total", "Attempts that failed.", _PIPELINE)
INBOUND_LAG = _gauge("pgtrickle_inbound_lag", "Messages to be received, if known.", _PIPELINE)
INBOUND_DEAD_LETTERS = _gauge(
    "pgtrickle_inbound_dead_letters", "Messages that cannot be read.", _PIPELINE
)
INBOUND_STATE = _gauge(
    "pgtrickle_inbound_state", "1 for the state of an inbound pipeline.", _PIPELINE, "state"
)

OF_EACH_DAEMON = (
    VERSION, LEADING, READY, LAST_ROUND, REFRESHES, FAILURES, DURATION, ROWS, RUNNING, QUEUED,
    ADMITTED, FALLING_BEHIND, NOT_READ,
)  # fmt: skip
OF_SPARK_USE = (SPARK_STARTED, SPARK_RUNNING, SPARK_COMPUTATIONS, SPARK_SECONDS)
OF_SPARK_ITSELF = (
    SPARK_EXECUTORS, SPARK_CORES, SPARK_HEAP, SPARK_JOBS_ACTIVE, SPARK_JOBS, SPARK_TASKS_ACTIVE,
    SPARK_TASKS, SPARK_TASK_SECONDS, SPARK_GC_SECONDS,
)  # fmt: skip
OF_SPARK = (*OF_SPARK_USE, *OF_SPARK_ITSELF)
OF_THE_LEADER = (
    STREAM_TABLES, STALENESS, SLA, STRETCH, LATENCY, LAST_INFO, LAST_SECONDS, LAST_ROWS, PREDICTED,
    ACTUAL, LOCK_FAILURES, ERRORS, BUFFER_ROWS, BUFFER_BYTES, CAPTURE_LAG, SLOT_LAG,
    OLDEST_TRANSACTION, LOCK_FALLBACKS,
    IMMEDIATE_STATEMENTS, IMMEDIATE_ROWS, QUERY_HITS, QUERY_MISSES, QUERY_ENTRIES, REQUESTS, SINKS,
    DELIVERIES, ATTEMPTS, DELIVERY_FAILURES, DELIVERED_ROWS, DELIVERED_BYTES, LAG_REFRESHES,
    LAG_SECONDS, SNAPSHOT,
)  # fmt: skip
OF_INBOUND = (
    INBOUND_MESSAGES, INBOUND_DUPLICATES, INBOUND_RETRIES, INBOUND_LAG, INBOUND_DEAD_LETTERS,
    INBOUND_STATE,
)  # fmt: skip
OF_A_RELAY = (
    RELAY_MESSAGES, RELAY_RETRIES, RELAY_IN_FLIGHT, RELAY_LAG_ENTRIES, RELAY_LAG_ROWS,
    RELAY_LAG_SECONDS, RELAY_DEAD_LETTERS, RELAY_STATE,
)  # fmt: skip
