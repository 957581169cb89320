"""The verbs on the definitions of a whole database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgtrickle.catalog.settings_table import set_setting
from pgtrickle.client.lake import LakeVerbs
from pgtrickle.client.scheduler import SchedulerVerbs
from pgtrickle.model.text.shown import Listing
from pgtrickle.model.words import AnyDumpFormat
from pgtrickle.service.naming import Naming

if TYPE_CHECKING:  # each verb imports its use case when it is called
    from pgtrickle.model.definitions.dump import Described, RestoredItem, WrittenDump


class DefinitionVerbs(Naming):
    """Write every definition of a database into files, and restore them.

    It is ``trickle.definitions``.
    """

    def dump_definitions(
        self,
        output: str | Path | None = None,
        *,
        format: AnyDumpFormat | None = None,  # noqa: A002 - pg_dump's word
        per_table: bool = False,
        with_data: bool = False,
    ) -> WrittenDump | str:
        """Write every definition, each after what it reads; without ``output``, return the text.

        ``format`` is ``sql``, a script for psql, or ``yaml``, which ``restore_definitions`` reads;
        by default what the name of the file says, else ``sql``.  With ``per_table`` the output is
        a directory with a file per definition; ``with_data`` adds the rows.
        """
        from pgtrickle.service.lifecycle.definitions.take import dump_definitions

        return dump_definitions(
            self._runtime,
            None if output is None else Path(output),
            form=format,
            per_table=per_table,
            with_data=with_data,
        )

    def restore_definitions(
        self,
        path: str | Path,
        *,
        replace: bool = False,
        tell: Callable[[RestoredItem], object] = lambda _: None,
    ) -> Listing[RestoredItem]:
        """Restore a dump in YAML; ``tell`` is called after each stream table.

        What exists and agrees with the dump is left alone; what exists with another definition is
        refused or, with ``replace``, changed.  After an interruption, restore the dump again.
        """
        from pgtrickle.service.lifecycle.definitions.restore import restore_definitions

        verbs = _Verbs(self)
        path = Path(path)
        return Listing(restore_definitions(self._runtime, path, verbs, tell, replace=replace))


class _Verbs:
    """The verbs by which a dump is restored."""

    def __init__(self, client: DefinitionVerbs) -> None:
        runtime, schema = client._runtime, client._schema  # noqa: SLF001 - our own
        self._runtime = runtime
        self._scheduler = SchedulerVerbs(runtime, schema)
        self._lake = LakeVerbs(runtime, schema)

    def set_setting(self, name: str, value: str) -> None:
        with self._runtime.connection() as connection:
            set_setting(connection, name, value)

    def grant_access(self, role: str, level: str) -> None:
        with self._runtime.connection() as connection:
            connection.execute("SELECT pgtrickle.grant_access(%s, %s)", [role, level])

    def attach_lake_table(self, described: Described) -> None:
        from pgtrickle.model.text.names import QualifiedName

        name = QualifiedName.parse(described["name"])
        if name not in {one.landing for one in self._lake.ducklake_sources()}:
            self._lake.attach_ducklake_table(
                described["name"],
                described["lake_table"],
                described["columns"],
                catalog_schema=described["catalog_schema"],
                compaction_policy=described["compaction_policy"],
            )

    def gate_source(self, source: str) -> None:
        self._scheduler.gate_source(source)

    def advance_watermark(self, source: str, watermark: datetime) -> None:
        self._scheduler.advance_watermark(source, watermark)

    def create_watermark_group(
        self, name: str, sources: Sequence[str], tolerance_secs: float
    ) -> None:
        self._scheduler.create_watermark_group(name, sources, tolerance_secs)

    def drop_watermark_group(self, name: str) -> None:
        self._scheduler.drop_watermark_group(name)

    def create_refresh_group(self, name: str, members: Sequence[str], isolation: Any) -> None:
        self._scheduler.create_refresh_group(name, members, isolation)

    def drop_refresh_group(self, name: str) -> None:
        self._scheduler.drop_refresh_group(name)
