"""The description of a read by executors, and the cutting of a table into ranges."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import pyarrow as pa

from pgtrickle.model.text.names import QualifiedName, quote_literal
from pgtrickle.sql.text.placeholders import fill, find
from pgtrickle.transit.carriers import Carrier, schema_ddl

CTID_RANGE = "{ctid range}"
_PAGE_BYTES = 8192
# A range costs two connections and a task; more ranges than the maximum only queue.
_PAGES_A_PARTITION = 64 * 2**20 // _PAGE_BYTES
_MAX_PARTITIONS = 256


@dataclass(frozen=True, slots=True)
class Report:
    """The table and the name under which a partition records its number of rows."""

    table: QualifiedName
    name: str


@dataclass(frozen=True, slots=True)
class LargeRead:
    """A query that executors run in parallel under one exported snapshot.

    If ``sql`` contains ``{ctid range}``, each partition reads one range of pages of the table that
    ``ctid`` names, of ``relpages`` pages; without it, the whole query is one partition.  The caller
    keeps the exporting transaction open until Spark has read everything.
    """

    sql: str
    columns: tuple[tuple[str, Carrier], ...]
    snapshot: str
    relpages: int = 0
    ctid: str = "ctid"  # qualified if the query reads more than one table
    partitions: int | None = None  # None: by size
    report: Report | None = None

    @property
    def schema_ddl(self) -> str:
        """The schema of the rows as Spark DDL."""
        return schema_ddl(pa.schema([(name, carrier.arrow) for name, carrier in self.columns]))

    def partition_queries(self) -> list[str]:
        """Return one query per partition; together they read every row once.

        The last range is open, so that pages added since ``relpages`` was estimated are read too.
        """
        if not find(self.sql, re.escape(CTID_RANGE)):
            return [self.sql]
        wanted = self.partitions or -(-max(self.relpages, 1) // _PAGES_A_PARTITION)
        count = max(1, min(wanted, max(self.relpages, 1), _MAX_PARTITIONS))
        starts = [self.relpages * i // count for i in range(count)]
        ranges = [
            self._range(start, starts[i + 1] if i + 1 < count else None)
            for i, start in enumerate(starts)
        ]
        return [with_range(self.sql, bounds) for bounds in ranges]

    def _range(self, start: int, end: int | None) -> str:
        lower = f"{self.ctid} >= '({start},0)'::tid"
        return lower if end is None else f"({lower} AND {self.ctid} < '({end},0)'::tid)"

    def options(self) -> dict[str, str]:
        """Return the data source options: SQL and names, never secrets, since plans show them."""
        finite_only = [carrier.finite_only for _, carrier in self.columns]
        options = {
            "queries": json.dumps(self.partition_queries()),
            "snapshot": self.snapshot,
            "finite_only": json.dumps(finite_only),
        }
        if self.report is not None:
            table = self.report.table
            options["report"] = json.dumps([table.schema, table.name, self.report.name])
        return options


def with_range(sql: str, bounds: str) -> str:
    """Return a query for the pages within some bounds; ``true`` stands for all of them.

    >>> with_range("SELECT a FROM t WHERE ({ctid range})", "true")
    'SELECT a FROM t WHERE (true)'
    """
    return fill(sql, re.escape(CTID_RANGE), lambda _: bounds)


def page_count_sql(relation: QualifiedName) -> str:
    """Return the query for a table's true number of pages, which ``relpages`` only estimates."""
    return f"SELECT pg_relation_size({quote_literal(relation.sql)}::regclass) / {_PAGE_BYTES}"
