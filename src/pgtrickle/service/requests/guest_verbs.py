"""The verbs of a guest, beyond those that the daemon executes for everybody.

The daemon checks the privileges of the guest's role, and executes with its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

import psycopg

from pgtrickle.catalog.access.standing import Standing
from pgtrickle.catalog.dependencies import list_dependencies
from pgtrickle.errors import NotOwnerError
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.model.text.names import quote_identifier
from pgtrickle.model.text.trusted import trusted
from pgtrickle.model.words import ExplainFormat
from pgtrickle.service.requests.asking import Asking
from pgtrickle.session import Session

# The verbs that only the owner of the catalog may use.
OWNERS_VERBS = (
    "grant_access",
    "init",
    "migrate",
    "revoke_access",
    "run",
    "set_setting",
    "validate_query",
)


class Visiting(Asking):
    """The verbs of ``Trickle`` that change something, for a guest."""

    _standing: Standing
    _trusting: bool  # the guest runs what the owner of the catalog wrote

    def explain_stream_table(
        self,
        name: str,
        format: ExplainFormat = "text",  # noqa: A002 - PostgreSQL's word
        *,
        with_analyze: bool = False,
    ) -> str:
        """Show the plan to roles that can act as the owner, and the recorded facts to others.

        A plan requires privileges on everything that the query reads, and so does a rehearsal,
        which the daemon runs.
        """
        if with_analyze:
            wait = self._wait_seconds
            given = {"format": format, "with_analyze": True, "wait_seconds": wait}
            return str(self._ask("explain_stream_table", self._get(name).name, **given))
        if self._trusting and self._standing.may_ask:
            # Others' stream tables are explained from the record.
            with suppress(NotOwnerError):
                asked = self._ask("explain_stream_table", self._get(name).name, format=format)
                return str(asked)
        return self._explain_from_record(name, format)

    def resume_stream_table(self, name: str) -> StreamTable:
        """Ask for a suspended stream table to be resumed."""
        self._ask("resume_stream_table", self._get(name).name)
        return self._get(name)

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
