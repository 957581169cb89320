"""Large reads: a Spark data source whose partitions the executors read from PostgreSQL.

Every partition opens its own connection and imports the same exported snapshot, so together they
see one moment.  Imported by functions only, since the base classes cost the import of pyspark.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import (  # noqa: TID253 - see the module's docstring
    DataSource,
    DataSourceReader,
    InputPartition,
)
from pyspark.sql.types import StructType  # noqa: TID253 - see the module's docstring

from pgtrickle.spark.executors.connection_file import read_connection
from pgtrickle.spark.executors.worker_errors import tagged
from pgtrickle.transit.carriers import Carrier, arrow_type
from pgtrickle.transit.conform import conform

FORMAT = "pgtrickle_postgres"


class PostgresSource(DataSource):
    """The rows of the queries in the option ``queries``, one partition each."""

    @classmethod
    def name(cls) -> str:
        """Return the name that ``format`` takes."""
        return FORMAT

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader; the schema is the one the driver gave."""
        options = self.options
        finite_only = json.loads(options["finite_only"])
        carriers = tuple(
            # The casts are in the queries already; only the shape of the values matters here.
            Carrier("{}", arrow_type(field.dataType.simpleString()), True, True, finite)  # noqa: FBT003
            for field, finite in zip(schema.fields, finite_only, strict=True)
        )
        queries = json.loads(options["queries"])
        report = json.loads(options.get("report", "null"))
        file = options["connection_file"]
        return PostgresReader(queries, options["snapshot"], file, carriers, report)


class QueryPartition(InputPartition):
    """One query of the read."""

    def __init__(self, number: int, sql: str) -> None:
        super().__init__(number)
        self.number = number
        self.sql = sql


class PostgresReader(DataSourceReader):
    """Reads each query on its own connection."""

    def __init__(
        self,
        queries: list[str],
        snapshot: str,
        connection_file: str,
        carriers: tuple[Carrier, ...],
        report: tuple[str, str, str] | None,
    ) -> None:
        self._report = report
        self._queries = queries
        self._snapshot = snapshot
        self._connection_file = connection_file
        self._carriers = carriers

    def partitions(self) -> list[InputPartition]:
        """Return one partition per query."""
        return [QueryPartition(number, sql) for number, sql in enumerate(self._queries)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows as the driver stores them, a few thousand at a time."""
        # Here and not above: Spark plans a read in processes that never connect.
        from pgtrickle.spark.executors.part_report import connected, report_rows  # noqa: PLC0415 - see above
        from pgtrickle.transit.arrow_reader import stream  # noqa: PLC0415 - see above

        assert isinstance(partition, QueryPartition)  # noqa: S101 - ours, from partitions()
        with tagged():
            dsn = read_connection(self._connection_file)
            rows = 0
            for batch in stream(dsn, self._snapshot, partition.sql):
                rows += batch.num_rows
                table = conform(pa.Table.from_batches([batch]), self._carriers)
                yield from table.to_batches()
            if self._report is not None:
                schema, name, view = self._report
                with connected(self._connection_file, doing="report rows") as connection:
                    report_rows(connection, (schema, name), f"{view}/{partition.number}", rows)
