"""Expressions of PromQL over our metrics, from which dashboards and rules are made."""

from __future__ import annotations

from pgtrickle.model.metrics import Metric

DATABASE = 'database=~"$database"'
TABLE = 'stream_table=~"$stream_table"'
PIPELINE = 'pipeline=~"$pipeline"'


def of(metric: Metric, *matchers: str, end: str = "") -> str:
    """Return the series of a metric that a dashboard shows.

    >>> from pgtrickle.model.metrics import STALENESS
    >>> of(STALENESS, TABLE)
    'pgtrickle_staleness_seconds{database=~"$database", stream_table=~"$stream_table"}'
    """
    return f"{metric.name}{end}{{{', '.join([DATABASE, *matchers])}}}"


def rate(metric: Metric, *matchers: str, end: str = "") -> str:
    """Return how fast a counter rises, per second."""
    return f"rate({of(metric, *matchers, end=end)}[$__rate_interval])"


def total(expression: str, *labels: str) -> str:
    """Return the sum over everything but some labels."""
    by = f" by ({', '.join(labels)}) " if labels else ""
    return f"sum{by}({expression})"


def top(expression: str, number: int = 10) -> str:
    """Return the largest values."""
    return f"topk({number}, {expression})"


def quantile(share: float, metric: Metric, *labels: str) -> str:
    """Return a quantile of a histogram."""
    buckets = total(rate(metric, end="_bucket"), "le", *labels)
    return f"histogram_quantile({share:g}, {buckets})"
