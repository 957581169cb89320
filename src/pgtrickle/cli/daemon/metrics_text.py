"""Write metrics in the text format of Prometheus, quickly, again and again.

A page has some fifteen series for each stream table, and their labels are the same each time.  So
the text of labels is kept from one page to the next; the text is that of ``prometheus_client``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from prometheus_client.core import Metric as Family
from prometheus_client.utils import floatToGoString

from pgtrickle.cli.daemon.readings import Reading
from pgtrickle.model.metrics import MetricKind

_Labels = tuple[tuple[str, str], ...]
# Labels with their values, or the names of labels and beside them their values.
_Key = _Labels | tuple[tuple[str, ...], tuple[str, ...]]
_PLAIN = 1e6  # below, Go writes a number as Python does


@dataclass(slots=True)
class PageWriter:
    """Writes pages, each with one more label on every sample."""

    _texts: dict[_Key, str] = field(default_factory=dict)  # of the labels of the last page
    _database: str = ""  # in these texts

    def write(self, families: Iterable[Family | Reading], database: str) -> bytes:
        """Return a page."""
        before = self._texts if database == self._database else {}
        kept = dict[_Key, str]()
        text = "".join(self._lines(families, database, before, kept))
        self._texts, self._database = kept, database  # so that it holds no more than one page
        return text.encode()

    def _lines(
        self,
        families: Iterable[Family | Reading],
        database: str,
        before: dict[_Key, str],
        kept: dict[_Key, str],
    ) -> Iterator[str]:
        for family in families:
            if isinstance(family, Reading):
                yield from _read(family, database, before, kept)
                continue
            name = f"{family.name}_total" if family.type == "counter" else family.name
            yield _head(name, family.documentation, family.type)
            for sample in family.samples:
                labels = tuple(sample.labels.items())
                if "database" not in sample.labels:  # which those of a relay have
                    labels = (("database", database), *labels)
                text = kept.get(labels)
                if text is None:
                    text = kept[labels] = before.get(labels) or _write(labels)
                yield f"{sample.name}{text} {_number(sample.value)}\n"


def _read(
    reading: Reading, database: str, before: dict[_Key, str], kept: dict[_Key, str]
) -> Iterator[str]:
    metric = reading.metric
    names, counts = metric.labels, metric.kind is MetricKind.COUNTER
    name = f"{metric.name.removesuffix('_total')}_total" if counts else metric.name
    yield _head(name, metric.doc, metric.kind.value)
    for values, number in reading.values.items():
        key = (names, values)
        text = kept.get(key)
        if text is None:
            text = before.get(key)
            if text is None:
                text = _write((("database", database), *zip(names, values, strict=True)))
            kept[key] = text
        yield f"{name}{text} {_number(number)}\n"


def _head(name: str, doc: str, kind: str) -> str:
    doc = doc.replace("\\", "\\\\").replace("\n", "\\n")
    return f"# HELP {name} {doc}\n# TYPE {name} {kind}\n"


def _write(labels: _Labels) -> str:
    """Return labels in their order by name.

    >>> _write((("b", "1"), ("a", "x")))
    '{a="x",b="1"}'
    """
    return "{" + ",".join(f'{name}="{_quoted(value)}"' for name, value in sorted(labels)) + "}"


def _number(value: float) -> str:
    number = float(value)
    if -_PLAIN < number < _PLAIN:
        return repr(number)
    text: str = floatToGoString(number)  # type: ignore[no-untyped-call]
    return text


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
