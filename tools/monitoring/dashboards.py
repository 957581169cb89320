"""The dashboards: what each panel shows, and from which value on it is bad."""

from __future__ import annotations

from pgtrickle.model import metrics
from tools.monitoring.expressions import PIPELINE, TABLE, of, quantile, rate, top, total
from tools.monitoring.panels import Dashboard, Panel, Row, Series, Variable
from tools.monitoring.thresholds import (
    BUFFER_ROWS,
    CAPTURE_LAG_SECONDS,
    SLOT_CRITICAL_BYTES,
    SLOT_WARNING_BYTES,
    SLOW_SECONDS,
)

_TABLE_LEGEND, _SOURCE_LEGEND = "{{stream_table}}", "{{source}}"
_PERCENTILES = ((0.5, "p50"), (0.99, "p99"))


def _stat(title: str, expression: str, doc: str, **more: float | bool) -> Panel:
    alarms = more.get("alarms")
    return Panel(
        title,
        (Series(expression),),
        doc,
        kind="stat",
        width=4,
        height=4,
        alarms=None if alarms is None else float(alarms),
        rising=bool(more.get("rising", True)),
    )


_NOT_WORKING = of(metrics.STREAM_TABLES, 'status=~"SUSPENDED|ERROR"')
_HEALTH = Row(
    "Health",
    (
        _stat(
            "Daemons that lead",
            total(of(metrics.LEADING)),
            "One for each database. With none, nothing is refreshed.",
            alarms=1,
            rising=False,
        ),
        _stat(
            "Daemons that are ready",
            total(of(metrics.READY)),
            "Those that lead or stand by on a server that answers.",
            alarms=1,
            rising=False,
        ),
        _stat(
            "Stream tables",
            total(of(metrics.STREAM_TABLES)),
            "All of them, whatever their status.",
        ),
        _stat(
            "Not working",
            total(_NOT_WORKING),
            "Suspended, or in error: see pgtrickle health.",
            alarms=1,
        ),
        _stat(
            "With errors",
            f"count({of(metrics.ERRORS)} > 0) or vector(0)",
            "Stream tables whose last refresh failed.",
            alarms=1,
        ),
        _stat(
            "Behind their schedule",
            f"count({of(metrics.STRETCH)} > 1) or vector(0)",
            "Their intervals are stretched, because refreshes take longer than they are long.",
            alarms=1,
        ),
    ),
)
_REFRESHES = Row(
    "Refreshes",
    (
        Panel(
            "Refreshes per second",
            (
                Series(
                    total(rate(metrics.REFRESHES), "action", "outcome"), "{{action}} {{outcome}}"
                ),
            ),
            "What the scheduler tried, by what the refresh was and how it ended.",
            unit="ops",
        ),
        Panel(
            "Duration",
            tuple(Series(quantile(share, metrics.DURATION), name) for share, name in _PERCENTILES),
            "Of all completed refreshes.",
            unit="s",
            alarms=SLOW_SECONDS,
        ),
        Panel(
            "Failures per second, by code",
            (Series(total(rate(metrics.FAILURES), "code"), "{{code}}"),),
            "docs/errors.md has the cause and the remedy of each code.",
            unit="ops",
        ),
        Panel(
            "Rows per second",
            (Series(total(rate(metrics.ROWS), "change"), "{{change}}"),),
            "Rows that refreshes inserted into and deleted from stream tables.",
            unit="rowsps",
        ),
        Panel(
            "Scheduler",
            (
                Series(total(of(metrics.RUNNING)), "running"),
                Series(total(of(metrics.QUEUED)), "queued"),
                Series(total(of(metrics.ADMITTED)), "admitted"),
                Series(total(of(metrics.REQUESTS)), "requests from SQL that wait"),
            ),
            "If more are queued than admitted for long, refreshes need more room.",
        ),
        Panel(
            "Refreshes that took too long, per second",
            (Series(total(rate(metrics.FALLING_BEHIND)), "longer than the interval"),),
            "Each of them stretches the interval of its stream table.",
            unit="ops",
        ),
        Panel(
            "Since the last round",
            (Series(f"max by (instance) ({of(metrics.LAST_ROUND)})", "{{instance}}"),),
            "The scheduler makes a round each second, or more often.",
            unit="s",
            alarms=60,
        ),
    ),
)
_FURTHEST_BEHIND = Row(
    "Stream tables that need a look",
    (
        Panel(
            "Oldest contents",
            (Series(top(of(metrics.STALENESS)), _TABLE_LEGEND),),
            "The age of the contents, of the ten oldest.",
            unit="s",
        ),
        Panel(
            "Slowest",
            (Series(top(of(metrics.LATENCY, 'quantile="0.99"')), _TABLE_LEGEND),),
            "The 99th percentile of the last twenty refreshes, of the ten slowest.",
            unit="s",
            alarms=SLOW_SECONDS,
        ),
        Panel(
            "Stretched intervals",
            (Series(top(f"{of(metrics.STRETCH)} > 1"), _TABLE_LEGEND),),
            "By which factor, because refreshes take longer than the interval.",
        ),
        Panel(
            "Consecutive errors",
            (Series(top(f"{of(metrics.ERRORS)} > 0"), _TABLE_LEGEND),),
            "Failed refreshes in a row.",
        ),
        Panel(
            "Compiled queries",
            (
                Series(total(rate(metrics.QUERY_HITS)), "found"),
                Series(total(rate(metrics.QUERY_MISSES)), "compiled"),
            ),
            "If queries are compiled all the time, the cache is too small.",
            unit="ops",
        ),
        Panel(
            "Queries in memory",
            (Series(total(of(metrics.QUERY_ENTRIES)), "entries"),),
            "Compiled queries that the leading daemon keeps.",
        ),
    ),
)
OVERVIEW = Dashboard(
    "pg_trickle",
    "pgtrickle: overview",
    "Whether stream tables are kept fresh, and which of them need a look.",
    (_HEALTH, _REFRESHES, _FURTHEST_BEHIND),
)

ONE_TABLE = Dashboard(
    "pg_trickle_table",
    "pgtrickle: one stream table",
    "How fresh one stream table is, what its refreshes do, and what they cost.",
    (
        Row(
            "Freshness",
            (
                Panel(
                    "Age of the contents",
                    (
                        Series(of(metrics.STALENESS, TABLE), "age"),
                        Series(of(metrics.SLA, TABLE), "service level"),
                    ),
                    "The line of the service level is there if the stream table has one.",
                    unit="s",
                ),
                Panel(
                    "Stretch of the interval",
                    (Series(of(metrics.STRETCH, TABLE), "factor"),),
                    "1: it keeps up.",
                ),
                Panel(
                    "Errors",
                    (
                        Series(of(metrics.ERRORS, TABLE), "consecutive errors"),
                        Series(of(metrics.LOCK_FAILURES, TABLE), "gave up for a lock"),
                    ),
                    "Failed refreshes in a row; of the last twenty, those that met a lock.",
                ),
            ),
        ),
        Row(
            "Refreshes",
            (
                Panel(
                    "Duration",
                    (
                        Series(of(metrics.LATENCY, TABLE), "quantile {{quantile}}"),
                        Series(of(metrics.LAST_SECONDS, TABLE), "the last one"),
                    ),
                    "Of the last twenty that changed something.",
                    unit="s",
                    alarms=SLOW_SECONDS,
                ),
                Panel(
                    "Predicted and actual",
                    (
                        Series(of(metrics.PREDICTED, TABLE), "predicted"),
                        Series(of(metrics.ACTUAL, TABLE), "actual"),
                    ),
                    "The time that the cost model predicts, and what it came to.",
                    unit="s",
                ),
                Panel(
                    "Rows of the last refresh",
                    (Series(of(metrics.LAST_ROWS, TABLE), "{{change}}"),),
                    "What it inserted and deleted.",
                ),
                Panel(
                    "Action and engine",
                    (Series(of(metrics.LAST_INFO, TABLE), "{{action}} on {{engine}}"),),
                    "What the last refresh that changed something did.",
                ),
                Panel(
                    "Statements of writers",
                    (Series(rate(metrics.IMMEDIATE_STATEMENTS, TABLE), "statements"),),
                    "Under IMMEDIATE: those whose changes the stream table has followed.",
                    unit="ops",
                ),
                Panel(
                    "Rows by writers",
                    (Series(rate(metrics.IMMEDIATE_ROWS, TABLE), "{{change}}"),),
                    "Under IMMEDIATE: rows inserted and deleted per second.",
                    unit="rowsps",
                ),
            ),
        ),
    ),
    (Variable("stream_table", "Stream table",
              'label_values(pgtrickle_consecutive_errors{database=~"$database"}, stream_table)',
              several=False),),
)  # fmt: skip

CAPTURE = Dashboard(
    "pg_trickle_capture",
    "pgtrickle: capture",
    "The changes of sources that wait to be read, and the log that the server keeps for them.",
    (
        Row(
            "Buffers",
            (
                Panel(
                    "Changes that wait",
                    (Series(top(of(metrics.BUFFER_ROWS)), _SOURCE_LEGEND),),
                    "About how many, of the ten largest buffers.",
                    alarms=BUFFER_ROWS,
                ),
                Panel(
                    "Size",
                    (Series(top(of(metrics.BUFFER_BYTES)), _SOURCE_LEGEND),),
                    "What the ten largest buffers take.",
                    unit="bytes",
                ),
                Panel(
                    "Age of the oldest change",
                    (Series(top(of(metrics.CAPTURE_LAG)), _SOURCE_LEGEND),),
                    "For how long a captured change can have waited.",
                    unit="s",
                    alarms=CAPTURE_LAG_SECONDS,
                ),
            ),
        ),
        Row(
            "Log and writers",
            (
                Panel(
                    "Log that the slot keeps",
                    (Series(of(metrics.SLOT_LAG), "{{database}}"),),
                    "With cdc_mode = wal. A slot that nobody reads fills the disk.",
                    unit="bytes",
                    warns=SLOT_WARNING_BYTES,
                    alarms=SLOT_CRITICAL_BYTES,
                ),
                Panel(
                    "Oldest transaction",
                    (Series(of(metrics.OLDEST_TRANSACTION), "{{database}}"),),
                    "While it is open, captured changes and dead rows stay.",
                    unit="s",
                ),
                Panel(
                    "Writers that wait for one another",
                    (Series(total(rate(metrics.LOCK_FALLBACKS), "reason"), "{{reason}}"),),
                    "Statements for which an IMMEDIATE stream table took an exclusive lock.",
                    unit="ops",
                ),
                Panel(
                    "The catalog could not be read",
                    (Series(total(rate(metrics.NOT_READ), "instance"), "{{instance}}"),),
                    "Then the page of the daemon lacks what comes from the catalog.",
                    unit="ops",
                ),
            ),
        ),
    ),
)

LAKE = Dashboard(
    "pg_trickle_ducklake",
    "pgtrickle: lake",
    "Whether the copies in the lake are complete, and what is delivered.",
    (
        Row(
            "Deliveries",
            (
                Panel(
                    "Copies, by state",
                    (Series(total(of(metrics.SINKS), "state"), "{{state}}"),),
                    "FAILED_RETRYABLE is tried again, FAILED_PERMANENT waits for somebody.",
                ),
                Panel(
                    "Missing for",
                    (Series(top(of(metrics.LAG_SECONDS)), _TABLE_LEGEND),),
                    "How long the lake has lacked changes.",
                    unit="s",
                ),
                Panel(
                    "Refreshes missing",
                    (Series(top(of(metrics.LAG_REFRESHES)), _TABLE_LEGEND),),
                    "Refreshes with changes that the lake lacks.",
                ),
                Panel(
                    "Attempts per second",
                    (
                        Series(total(rate(metrics.DELIVERIES)), "delivered"),
                        Series(total(rate(metrics.ATTEMPTS)), "attempts"),
                        Series(total(rate(metrics.DELIVERY_FAILURES)), "failed"),
                    ),
                    "What was tried, and how it ended.",
                    unit="ops",
                ),
                Panel(
                    "Rows per second",
                    (Series(total(rate(metrics.DELIVERED_ROWS), "change"), "{{change}}"),),
                    "Rows inserted and deleted in the lake.",
                    unit="rowsps",
                ),
                Panel(
                    "Bytes per second",
                    (Series(top(rate(metrics.DELIVERED_BYTES)), _TABLE_LEGEND),),
                    "The size of the files written, of the ten that write most.",
                    unit="Bps",
                ),
            ),
        ),
        Row(
            "Snapshots",
            (
                Panel(
                    "Snapshot of the last delivery",
                    (Series(of(metrics.SNAPSHOT), _TABLE_LEGEND),),
                    "Lines that rise together are delivered together.",
                    width=24,
                ),
            ),
        ),
    ),
)

RELAY = Dashboard(
    "pg_trickle_relay",
    "pgtrickle: relay",
    "Whether pipelines deliver, how far they are behind, and what they could not deliver.",
    (
        Row(
            "Pipelines",
            (
                Panel(
                    "Age of the oldest entry",
                    (Series(of(metrics.RELAY_LAG_SECONDS, PIPELINE), "{{pipeline}}"),),
                    "Of those that are to be delivered.",
                    unit="s",
                ),
                Panel(
                    "Entries to be delivered",
                    (Series(of(metrics.RELAY_LAG_ENTRIES, PIPELINE), "{{pipeline}}"),),
                    "An entry is what one refresh changed.",
                ),
                Panel(
                    "Changes to be delivered",
                    (Series(of(metrics.RELAY_LAG_ROWS, PIPELINE), "{{pipeline}}"),),
                    "The rows of these entries.",
                ),
                Panel(
                    "Messages per second",
                    (Series(rate(metrics.RELAY_MESSAGES, PIPELINE), "{{pipeline}}"),),
                    "Those that receivers have taken.",
                    unit="ops",
                ),
                Panel(
                    "On their way, and set aside",
                    (
                        Series(of(metrics.RELAY_IN_FLIGHT, PIPELINE), "{{pipeline}} on the way"),
                        Series(of(metrics.RELAY_DEAD_LETTERS, PIPELINE), "{{pipeline}} set aside"),
                    ),
                    "pgtrickle relay dead-letters shows what was set aside, and replays it.",
                ),
                Panel(
                    "Attempts that failed, per second",
                    (Series(rate(metrics.RELAY_RETRIES, PIPELINE), "{{pipeline}}"),),
                    "Each is tried again after a pause.",
                    unit="ops",
                ),
                Panel(
                    "State",
                    (
                        Series(
                            f"{of(metrics.RELAY_STATE, PIPELINE)} == 1", "{{pipeline}}: {{state}}"
                        ),
                    ),
                    "A line for the state that a pipeline is in.",
                    width=24,
                ),
            ),
        ),
    ),
    (Variable("pipeline", "Pipeline",
              'label_values(pgtrickle_relay_in_flight{database=~"$database"}, pipeline)'),),
)  # fmt: skip

_INSTANCE_LEGEND = "{{instance}}"
SPARK = Dashboard(
    "pg_trickle_spark",
    "pgtrickle: Spark",
    "What daemons ask of Spark, and whether it has the memory and the executors for it.",
    (
        Row(
            "What daemons ask for",
            (
                Panel(
                    "Sessions",
                    (Series(of(metrics.SPARK_STARTED), _INSTANCE_LEGEND),),
                    "1 while a daemon has one; the first computation starts it.",
                ),
                Panel(
                    "Computations",
                    (
                        Series(total(of(metrics.SPARK_RUNNING)), "running"),
                        Series(
                            total(rate(metrics.SPARK_COMPUTATIONS), "outcome"),
                            "{{outcome}} per second",
                        ),
                    ),
                    "Stages of refreshes, large reads and writes.",
                ),
                Panel(
                    "Time for a computation",
                    (
                        Series(
                            f"{total(rate(metrics.SPARK_SECONDS))} /"
                            f" {total(rate(metrics.SPARK_COMPUTATIONS))}",
                            "mean",
                        ),
                    ),
                    "The first of a daemon includes the start of Spark.",
                    unit="s",
                ),
            ),
        ),
        Row(
            "What Spark tells",
            (
                Panel(
                    "Executors and cores",
                    (
                        Series(of(metrics.SPARK_EXECUTORS), f"{_INSTANCE_LEGEND} executors"),
                        Series(of(metrics.SPARK_CORES), f"{_INSTANCE_LEGEND} cores"),
                    ),
                    "Those that can work.",
                ),
                Panel(
                    "Heap of the driver",
                    (Series(of(metrics.SPARK_HEAP), f"{_INSTANCE_LEGEND} {{{{kind}}}}"),),
                    "Used until the next collection of garbage, and how much it can be.",
                    unit="bytes",
                ),
                Panel(
                    "Garbage collection, of the time of tasks",
                    (
                        Series(
                            f"{total(rate(metrics.SPARK_GC_SECONDS))} /"
                            f" {total(rate(metrics.SPARK_TASK_SECONDS))}",
                            "share",
                        ),
                    ),
                    "Above a tenth for long, executors need more memory.",
                    unit="percentunit",
                ),
                Panel(
                    "At work",
                    (
                        Series(of(metrics.SPARK_JOBS_ACTIVE), f"{_INSTANCE_LEGEND} jobs"),
                        Series(of(metrics.SPARK_TASKS_ACTIVE), f"{_INSTANCE_LEGEND} tasks"),
                    ),
                    "Jobs and tasks that are not done.",
                ),
                Panel(
                    "Jobs per second",
                    (Series(total(rate(metrics.SPARK_JOBS), "outcome"), "{{outcome}}"),),
                    "How they ended.",
                    unit="ops",
                ),
                Panel(
                    "Tasks per second",
                    (Series(total(rate(metrics.SPARK_TASKS), "outcome"), "{{outcome}}"),),
                    "How they ended; a failed task is tried again.",
                    unit="ops",
                ),
            ),
        ),
    ),
)

DASHBOARDS = (OVERVIEW, ONE_TABLE, CAPTURE, LAKE, RELAY, SPARK)
