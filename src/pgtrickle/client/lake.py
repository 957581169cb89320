"""The verbs on the lake: copies of stream tables in it, its tables as sources, its catalog."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgtrickle.model.text.shown import Listing
from pgtrickle.model.words import AnyCompactionPolicy
from pgtrickle.service.naming import Naming

if TYPE_CHECKING:  # each verb imports its use case when it is called
    from datetime import datetime, timedelta

    from pgtrickle.model.lake.catalog import MovedCatalog, ShownCatalog
    from pgtrickle.model.lake.past_rows import PastRows
    from pgtrickle.model.lake.sink import LakeCare, SinkStatus
    from pgtrickle.model.lake.source import LakeSource


class LakeVerbs(Naming):
    """Work with the lake: copies of stream tables in it, its tables as sources, its catalog.

    It is ``trickle.lake``.
    """

    def ducklake_sink_status(self) -> Listing[SinkStatus]:
        """Return every copy in the lake, and its position."""
        from pgtrickle.service.sinks.ducklake.copies import show_sinks

        return Listing(show_sinks(self._runtime))

    def show_as_of(
        self,
        name: str,
        as_of: str | int | datetime,
        columns: Sequence[str] | None = None,
        max_rows: int = 100,
    ) -> PastRows:
        """Return rows of a stream table as its copy in the lake had them, at most 10,000.

        ``as_of`` is the number of a snapshot of the lake, or a moment (UTC unless it names a zone):
        then it is the newest snapshot up to that.
        """
        from pgtrickle.service.sinks.ducklake.show_as_of import show_as_of

        return show_as_of(self._runtime, self._name(name), as_of, columns, max_rows)

    def retry_sink(self, name: str) -> SinkStatus:
        """Deliver the missing rows of a stream table to the lake now, after failures too."""
        from pgtrickle.service.sinks.ducklake.copies import retry_delivery

        return retry_delivery(self._runtime, self._name(name))

    def maintain_lake(
        self, older_than: timedelta, keep: timedelta | None = None, *, wait_seconds: float = 0.0
    ) -> LakeCare:
        """Merge small files of the lake, and remove unused files of this age.

        Snapshots older than ``keep`` are forgotten; without it, none.  A sink on whose stream table
        another works is tended after it, or is reported with ST209 after ``wait_seconds``.
        """
        from pgtrickle.service.sinks.ducklake.upkeep import maintain_lake

        return maintain_lake(self._runtime, older_than, keep, wait_seconds)

    def ducklake_catalogs(self) -> Listing[ShownCatalog]:
        """Return the catalogs of lakes, each with the line that attaches it in DuckDB."""
        from pgtrickle.service.sinks.ducklake.catalog_schema import show_catalogs

        return Listing(show_catalogs(self._runtime))

    def move_ducklake_catalog(
        self, to_schema: str | None = None, from_schema: str | None = None
    ) -> MovedCatalog:
        """Move the tables of a lake's catalog to another schema, by default ``ducklake``.

        Sinks, attached tables and the setting follow in the same transaction.  Clients have to
        attach again.
        """
        from pgtrickle.service.sinks.ducklake.catalog_schema import move_catalog

        return move_catalog(self._runtime, to_schema, from_schema)

    def attach_ducklake_table(
        self,
        name: str,
        lake_table: str,
        columns: Sequence[str] | None = None,
        *,
        catalog_schema: str | None = None,
        compaction_policy: AnyCompactionPolicy | None = None,
    ) -> LakeSource:
        """Attach a lake table under a name, so that stream tables can read it.

        PostgreSQL holds its rows, of all ``columns`` or of some.  ``compaction_policy`` says what
        is done when the lake has forgotten the snapshot that was read last: ``fallback`` compares
        all rows, ``error`` gives up.
        """
        from pgtrickle.service.sources.ducklake.attach import attach_ducklake_table

        return attach_ducklake_table(
            self._runtime,
            self._name(name),
            lake_table,
            columns=columns,
            catalog_schema=catalog_schema,
            compaction_policy=compaction_policy,
        )

    def detach_ducklake_table(self, name: str) -> LakeSource:
        """Detach a lake table, and drop the copy of its rows."""
        from pgtrickle.service.sources.ducklake.attach import detach_ducklake_table

        return detach_ducklake_table(self._runtime, self._name(name))

    def ducklake_sources(self) -> Listing[LakeSource]:
        """Return every attached lake table, and the snapshot it was read to."""
        from pgtrickle.service.sources.ducklake.attach import show_ducklake_sources

        return Listing(show_ducklake_sources(self._runtime))
