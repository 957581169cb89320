"""Our text of metrics is that of ``prometheus_client``, whatever the labels are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from pgtrickle.cli.daemon.metrics_text import PageWriter
from pgtrickle.cli.daemon.readings import Reading
from pgtrickle.model.metrics import Metric, MetricKind

_TEXTS = st.text(alphabet=st.sampled_from('ab"\\\n{},= é'), max_size=6)
_VALUES = st.floats() | st.integers(min_value=-(2**53), max_value=2**53).map(float)


@dataclass(frozen=True)
class Page(Collector):
    """The same families, for the writer of prometheus_client."""

    found: list[Family]

    def collect(self) -> Iterator[Family]:
        return iter(self.found)


def families(rows: list[tuple[str, str, float]]) -> list[Family]:
    gauge = GaugeMetricFamily("one", "A gauge\nin two lines.", labels=["table", "change"])
    counter = CounterMetricFamily("two", "A \\ counter.", labels=["table"])
    histogram = HistogramMetricFamily("three", "A histogram.", labels=["action"])
    bare = GaugeMetricFamily("four", "Without labels.")
    for table, change, value in rows:
        gauge.add_metric([table, change], value)
        counter.add_metric([table], value)
        histogram.add_metric([table], [("0.5", 1), ("+Inf", 2)], 1.5)
        bare.add_metric([], value)
    return [gauge, counter, histogram, bare]


@given(st.lists(st.lists(st.tuples(_TEXTS, _TEXTS, _VALUES), max_size=4), max_size=3), _TEXTS)
def test_pages_are_those_of_prometheus_client(
    pages: list[list[tuple[str, str, float]]], database: str
) -> None:
    writer = PageWriter()
    for rows in pages:
        labelled = families(rows)
        for one in labelled:
            one.samples = [
                sample._replace(labels={"database": database} | sample.labels)
                for sample in one.samples
            ]

        assert writer.write(families(rows), database) == generate_latest(Page(labelled))


def test_labels_are_kept_for_one_page_only() -> None:
    writer = PageWriter()
    writer.write(families([("a", "b", 1.0)]), "shop")
    writer.write(families([("c", "d", 1.0)]), "shop")

    assert not any('"a"' in text for text in writer._texts.values())


@given(st.dictionaries(st.tuples(_TEXTS, _TEXTS), _VALUES | st.booleans(), max_size=4), _TEXTS)
def test_readings_are_written_as_the_families_that_they_are(
    values: dict[tuple[str, ...], float], database: str
) -> None:
    metrics = [
        Metric("one", MetricKind.GAUGE, "A gauge\nin two lines.", ("table", "change")),
        Metric("two_total", MetricKind.COUNTER, "A \\ counter.", ("table", "change")),
        # The labels of this one have the same values, and other names.
        Metric("three_total", MetricKind.COUNTER, "Another.", ("table", "action")),
    ]
    readings = [Reading(one, values) for one in metrics]
    writer, of_families = PageWriter(), PageWriter()

    for name in (database, database, f"{database}2"):
        page = writer.write(readings, name)

        assert page == of_families.write([one.family() for one in readings], name)
