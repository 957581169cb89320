"""A handle to one stream table: its rows for Python, and the verbs that concern it alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pgtrickle.extras import with_named_extras
from pgtrickle.model.report import RefreshReport, VerifyReport
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.shown import Listing
from pgtrickle.model.words import ExplainFormat

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from pgtrickle.catalog.refreshes.history import Refresh
    from pgtrickle.client.trickle import Trickle
    from pgtrickle.service.runtime import Runtime


@with_named_extras
class Table:
    """One stream table, as ``Trickle.table`` gives it.

    Its rows are read at one moment, and exactly: a value that Arrow or Spark cannot hold is refused
    with ST405.  Types without a counterpart there come as PostgreSQL's own text.
    """

    def __init__(self, trickle: Trickle, runtime: Runtime, name: QualifiedName) -> None:
        self._trickle = trickle
        self._runtime = runtime
        self.name = name

    def __repr__(self) -> str:
        return f"<stream table {self.name}>"

    def to_arrow(self) -> pa.Table:
        """Return all rows as an Arrow table."""
        from pgtrickle.service.insight.read_rows import read_table

        return read_table(self._runtime, self.name)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows a few megabytes at a time, all as of one moment, for large tables."""
        from pgtrickle.service.insight.read_rows import read_batches

        return read_batches(self._runtime, self.name)

    def to_pandas(self) -> Any:
        """Return all rows as a pandas DataFrame; numerics stay exact decimals."""
        from pgtrickle.service.insight.read_rows import read_pandas

        return read_pandas(self._runtime, self.name)

    def to_spark(self, session: SparkSession | None = None) -> DataFrame:
        """Return the rows as a Spark DataFrame, in your session or in the one of this client.

        Executors read them at once and keep them, so that it shows one moment.
        """
        from pgtrickle.service.insight.read_rows import read_spark

        return read_spark(self._runtime, self.name, session)

    def info(self) -> StreamTable:
        """Return its entry in the catalog."""
        return self._trickle.get_stream_table(self.name.sql)

    def refresh(self, *, full: bool = False) -> RefreshReport:
        """Bring it up to date."""
        return self._trickle.refresh_stream_table(self.name.sql, full=full)

    def verify(self) -> VerifyReport:
        """Compare it with PostgreSQL's own answer to its query."""
        return self._trickle.verify_stream_table(self.name.sql)

    def history(self, limit: int = 20) -> Listing[Refresh]:
        """Return its latest refreshes, the newest first."""
        return self._trickle.refresh_history(self.name.sql, limit)

    def explain(
        self,
        format: ExplainFormat = "text",  # noqa: A002 - PostgreSQL's word
        *,
        with_analyze: bool = False,
    ) -> str:
        """Show how it is maintained; ``with_analyze``, what its next refresh takes."""
        explain = self._trickle.explain_stream_table
        return explain(self.name.sql, format, with_analyze=with_analyze)
