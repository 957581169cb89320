"""Write families of metrics in the text format of Prometheus, quickly, again and again.

A page has some fifteen series for each stream table, and their labels are the same each time.  So
the text of labels is kept from one page to the next; the text is that of ``prometheus_client``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from prometheus_client.core import Metric as Family
from prometheus_client.utils import floatToGoString

_Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class PageWriter:
    """Writes pages, each with one more label on every sample."""

    _texts: dict[_Labels, str] = field(default_factory=dict)  # of the labels of the last page

    def write(self, families: Iterable[Family], database: str) -> bytes:
        """Return a page."""
        before, kept = self._texts, dict[_Labels, str]()
        text = "".join(self._lines(families, database, before, kept))
        self._texts = kept  # so that it holds no more than one page
        return text.encode()

    def _lines(
        self,
        families: Iterable[Family],
        database: str,
        before: dict[_Labels, str],
        kept: dict[_Labels, str],
    ) -> Iterator[str]:
        for family in families:
            name = f"{family.name}_total" if family.type == "counter" else family.name
            doc = family.documentation.replace("\\", "\\\\").replace("\n", "\\n")
            yield f"# HELP {name} {doc}\n# TYPE {name} {family.type}\n"
            for sample in family.samples:
                labels = tuple(sample.labels.items())
                if "database" not in sample.labels:  # which those of a relay have
                    labels = (("database", database), *labels)
                text = kept.get(labels)
                if text is None:
                    text = kept[labels] = before.get(labels) or _write(labels)
                yield f"{sample.name}{text} {_number(sample.value)}\n"


def _write(labels: _Labels) -> str:
    """Return labels in their order by name.

    >>> _write((("b", "1"), ("a", "x")))
    '{a="x",b="1"}'
    """
    return "{" + ",".join(f'{name}="{_quoted(value)}"' for name, value in sorted(labels)) + "}"


def _number(value: float) -> str:
    text: str = floatToGoString(value)  # type: ignore[no-untyped-call]
    return text


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
