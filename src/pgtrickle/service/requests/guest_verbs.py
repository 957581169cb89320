"""The verbs of a guest, beyond those that the daemon executes for everybody.

The daemon checks the privileges of the guest's role, and executes with its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, NoReturn

import psycopg

from pgtrickle.catalog.access.standing import Standing
from pgtrickle.catalog.dependencies import list_dependencies
from pgtrickle.catalog.lake.catalogs import list_told_catalogs
from pgtrickle.errors import NotOwnerError, SettingError
from pgtrickle.model.lake.catalog import ShownCatalog
from pgtrickle.model.scheduling.refresh_group import DEFAULT_ISOLATION
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.model.text.names import quote_identifier
from pgtrickle.model.text.shown import Listing
from pgtrickle.model.text.trusted import trusted
from pgtrickle.model.words import AnyFuseMode, AnyIsolation, ExplainFormat
from pgtrickle.service.requests.asking import Asking
from pgtrickle.session import Session

# The verbs that only the owner of the catalog may use.
OWNERS_VERBS = (
    "attach_ducklake_table",
    "detach_ducklake_table",
    "drain",
    "explain_query_rewrite",
    "grant_access",
    "init",
    "maintain_lake",
    "migrate",
    "move_ducklake_catalog",
    "pause_cdc",
    "rebuild_cdc_triggers",
    "resume_cdc",
    "retry_sink",
    "revoke_access",
    "run",
    "set_buffer_durability",
    "set_setting",
    "undrain",
    "validate_query",
)


class Visiting(Asking):
    """The verbs of ``Trickle`` that change something, for a guest."""

    _standing: Standing
    _trusting: bool  # the guest runs what the owner of the catalog wrote

    def explain_stream_table(self, name: str, format: ExplainFormat = "text") -> str:  # noqa: A002 - PostgreSQL's word
        """Show the plan to roles that can act as the owner, and the recorded facts to others.

        A plan requires privileges on everything that the query reads.
        """
        if self._trusting and self._standing.may_ask:
            # Others' stream tables are explained from the record.
            with suppress(NotOwnerError):
                asked = self._ask("explain_stream_table", self._get(name).name, format=format)
                return str(asked)
        return self._explain_from_record(name, format)

    def ducklake_catalogs(self) -> Listing[ShownCatalog]:
        """Return where the catalogs of lakes are, as the catalog's owner lets readers know."""
        with self._runtime.connection() as connection:
            return Listing(list_told_catalogs(connection))

    def resume_stream_table(self, name: str) -> StreamTable:
        """Ask for a suspended stream table to be resumed."""
        self._ask("resume_stream_table", self._get(name).name)
        return self._get(name)

    def explain_delta(self, name: str) -> str:
        """Ask for the statements by which the engine computes a change."""
        return str(self._ask("explain_delta", self._get(name).name))

    def pause_scheduler(self, *names: str) -> None:
        """Ask for stream tables to be held back."""
        self._ask("pause_scheduler", names=self._all(names))

    def resume_scheduler(self, *names: str) -> None:
        """Ask for stream tables to be released."""
        self._ask("resume_scheduler", names=self._all(names))

    def set_fuse(
        self,
        name: str,
        mode: AnyFuseMode,
        *,
        ceiling: int | None = None,
        sensitivity: float | None = None,
    ) -> None:
        """Ask for a fuse."""
        options = {"fuse": mode, "fuse_ceiling": ceiling, "fuse_sensitivity": sensitivity}
        self._ask("alter_stream_table", self._get(name).name, **options)

    def reset_fuse(self, name: str, *, reinitialize: bool = False) -> None:
        """Ask for a fuse to be reset."""
        action = "reinitialize" if reinitialize else "apply"
        self._ask("reset_fuse", self._get(name).name, action=action)

    def create_refresh_group(
        self, name: str, members: Sequence[str], isolation: AnyIsolation = DEFAULT_ISOLATION
    ) -> None:
        """Ask for a refresh group."""
        given: dict[str, Any] = {"names": self._all(members), "isolation": isolation}
        self._ask("create_refresh_group", group_name=name, **given)

    def drop_refresh_group(self, name: str) -> None:
        """Ask for a refresh group to be dropped."""
        self._ask("drop_refresh_group", group_name=name)

    def gate_source(self, source: str) -> None:
        """Hold back the consumers of a source that the guest owns."""
        self._select("gate_source(%s::pg_catalog.regclass)", self._name(source).sql)

    def ungate_source(self, source: str) -> None:
        """Release the consumers of a source that the guest owns."""
        self._select("ungate_source(%s::pg_catalog.regclass)", self._name(source).sql)

    def advance_watermark(self, source: str, watermark: datetime) -> None:
        """Record the moment up to which a source of the guest is complete."""
        if watermark.tzinfo is None:
            raise SettingError(
                f"the watermark {watermark.isoformat()} has no time zone",
                hint="Add one, such as +00:00 at the end.",
            )
        call = "advance_watermark(%s::pg_catalog.regclass, %s)"
        self._select(call, self._name(source).sql, watermark)

    def create_watermark_group(
        self, name: str, sources: Sequence[str], tolerance_secs: float = 0
    ) -> None:
        """Hold back the consumers of the guest's sources until the watermarks agree."""
        call = "create_watermark_group(%s, %s::pg_catalog.regclass[], %s)"
        self._select(call, name, self._all(sources), float(tolerance_secs))

    def drop_watermark_group(self, name: str) -> None:
        """Drop a watermark group."""
        self._select("drop_watermark_group(%s)", name)

    def _all(self, names: Sequence[str]) -> list[str]:
        return [self._name(one).sql for one in names]

    def _explain_from_record(self, name: str, output: str) -> str:
        if output not in {"text", "json"}:
            raise self._standing.needs_level("operator", f"The format {output} shows the plan.")
        table = self._get(name)
        with self._runtime.connection() as connection:
            sources = [str(one.source) for one in list_dependencies(connection, table.id)]
        facts = {
            "stream_table": str(table.name),
            "refresh_mode": table.refresh_mode.value,
            "effective_refresh_mode": table.effective_refresh_mode.value,
            "refusal": table.downgrade_reason,
            "sources": sources,
        }
        if output == "json":
            return json.dumps(facts, indent=2, ensure_ascii=False)
        lines = [
            f"stream table {table.name}",
            f"mode: {table.refresh_mode.value}, in effect {table.effective_refresh_mode.value}",
            *([f"not differential: {table.downgrade_reason}"] if table.downgrade_reason else []),
            f"reads: {', '.join(sources)}",
            "",
            table.defining_query.strip(),
            "",
            f"The plan is shown to operators who can act as {quote_identifier(table.owner)}.",
        ]
        return "\n".join(lines)

    def _check_may_ask(self) -> None:
        if not self._standing.may_ask:
            raise self._standing.needs_level("operator")
        if not self._trusting:
            raise self._standing.needs_trust()

    @contextmanager
    def _session(self) -> Iterator[Session]:
        """Lend a connection to a guest who may make requests; name a missing privilege."""
        self._check_may_ask()
        with self._runtime.connection() as connection:
            try:
                yield connection
            except psycopg.errors.InsufficientPrivilege as error:
                words = error.diag.message_primary or ""
                raise self._standing.needs_level("operator", words) from error

    def _select(self, call: str, *values: object) -> None:
        with self._session() as connection:
            connection.execute(trusted(f"SELECT pgtrickle.{call}"), values)

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise self._standing.needs_owner()


for _verb in OWNERS_VERBS:
    setattr(Visiting, _verb, Visiting._refuse)  # noqa: SLF001 - our own
