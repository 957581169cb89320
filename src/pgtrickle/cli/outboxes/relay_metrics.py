"""The metrics of pipelines, in the text format of Prometheus, for ``/metrics`` of a relay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from pgtrickle.model.streams.relay import RelayStatus

_COUNTERS: tuple[tuple[str, str, Callable[[RelayStatus], float]], ...] = (
    ("pgtrickle_relay_messages", "Messages that receivers have taken.", lambda one: one.messages),
    ("pgtrickle_relay_retries", "Attempts that failed.", lambda one: one.retries),
)
_GAUGES: tuple[tuple[str, str, Callable[[RelayStatus], float]], ...] = (
    ("pgtrickle_relay_in_flight", "Messages on their way.", lambda one: one.in_flight),
    ("pgtrickle_relay_lag_entries", "Entries to be delivered.", lambda one: one.lag_entries),
    ("pgtrickle_relay_lag_rows", "Changes in these entries.", lambda one: one.lag_rows),
    ("pgtrickle_relay_lag_seconds", "Age of the oldest of them.", lambda one: one.lag_seconds),
    ("pgtrickle_relay_dead_letters", "Messages set aside.", lambda one: one.dead_letters),
)
STATES = (
    "new",
    "starting",
    "snapshot",
    "streaming",
    "retrying",
    "waiting",
    "paused",
    "blocked",
    "needs_snapshot",
    "failed",
    "stopped",
)


def write_page(found: Sequence[RelayStatus]) -> bytes:
    """Return the metrics of pipelines."""
    return generate_latest(_Page(found))


@dataclass(frozen=True, slots=True)
class _Page(Collector):
    found: Sequence[RelayStatus]

    def collect(self) -> Iterator[Family]:
        """Return it all."""
        return relay_families(self.found)


def relay_families(found: Sequence[RelayStatus]) -> Iterator[Family]:
    """Yield the metrics of pipelines."""
    for name, meaning, value in _COUNTERS:
        counter = CounterMetricFamily(name, meaning, labels=["pipeline"])
        for one in found:
            counter.add_metric([one.pipeline], value(one))
        yield counter
    for name, meaning, value in _GAUGES:
        gauge = GaugeMetricFamily(name, meaning, labels=["pipeline"])
        for one in found:
            gauge.add_metric([one.pipeline], value(one))
        yield gauge
    state = GaugeMetricFamily(
        "pgtrickle_relay_state", "1 for the state of a pipeline.", labels=["pipeline", "state"]
    )
    for one in found:
        for word in STATES:
            state.add_metric([one.pipeline, word], float(one.state == word))
    yield state
