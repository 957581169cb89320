"""The verbs of ``Trickle`` that the daemon executes on request, from Python.

Guests ask for everything; the owner of a catalog asks where a command would start a Spark of its
own beside the daemon's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from pgtrickle.catalog.refreshes.history import find_refresh
from pgtrickle.errors import RequestRefusedError
from pgtrickle.model.report import CostRecord, RefreshReport, VerifyReport
from pgtrickle.model.stream_table import Action, RefreshMode, StreamTable
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.shown import Listing
from pgtrickle.model.words import AnyRefreshMode, AnyStatus, ExplainFormat
from pgtrickle.service.insight.status import show_request_timeout
from pgtrickle.service.naming import Naming
from pgtrickle.service.requests.arguments import can_carry
from pgtrickle.service.requests.ask_daemon import Listeners, ask
from pgtrickle.session import Session

if TYPE_CHECKING:  # the compiler takes longer to import than looking at the catalog does
    from pgtrickle.service.lifecycle.create_or_replace import Outcome
    from pgtrickle.service.lifecycle.rename import RenameReport
    from pgtrickle.service.lifecycle.repair.rebind import Mended

# The verbs that the daemon executes for the owner of the catalog too, on request.
DAEMONS_VERBS = (
    "alter_stream_table",
    "create_or_replace_stream_table",
    "create_stream_table",
    "drop_stream_table",
    "explain_stream_table",
    "refresh_stream_table",
    "rename_stream_table",
    "repair_stream_table",
    "verify_stream_table",
)

T = TypeVar("T")


def _ignore(_: str) -> None:
    pass


class NotAskedError(Exception):
    """No request was made: the caller does the work itself."""


class Asking(Naming):
    """The verbs that the daemon executes."""

    _owns_catalog = False
    _wait_seconds: float | None = None  # for leases of others; None: as long as it takes

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._tell: Callable[[str], object] = _ignore  # is told who does the work
        self._waiting: Callable[[str], object] = _ignore  # is told why it waits

    def create_stream_table(
        self,
        name: str,
        query: str,
        schedule: str = "calculated",
        refresh_mode: AnyRefreshMode = RefreshMode.AUTO,
        **options: Any,
    ) -> RefreshReport | None:
        """Ask for a new stream table."""
        given = {"query": query, "schedule": schedule, "refresh_mode": refresh_mode}
        return self._report(self._ask("create_stream_table", self._name(name), **given, **options))

    def create_or_replace_stream_table(self, name: str, query: str, **options: Any) -> Outcome:
        """Ask for a new stream table, or for the one of this name to be like this."""
        from pgtrickle.service.lifecycle.create_or_replace import Outcome  # noqa: PLC0415 - see above

        verb = "create_or_replace_stream_table"
        answer = self._ask(verb, self._name(name), query=query, **options)
        return Outcome(answer["status"], self._report(answer))

    def alter_stream_table(
        self,
        name: str,
        schedule: str | None = None,
        refresh_mode: AnyRefreshMode | None = None,
        status: AnyStatus | None = None,
        **options: Any,
    ) -> StreamTable:
        """Ask for a change."""
        given = {"schedule": schedule, "refresh_mode": refresh_mode, "status": status}
        self._ask("alter_stream_table", self._get(name).name, **given, **options)
        return self._get(name)

    def drop_stream_table(self, name: str, *, cascade: bool = False) -> list[str]:
        """Ask for a stream table to be dropped."""
        answer = self._ask("drop_stream_table", self._get(name).name, cascade=cascade)
        return [str(one) for one in answer["dropped"]]

    def rename_stream_table(self, name: str, new_name: str) -> RenameReport:
        """Ask for another name."""
        from pgtrickle.service.lifecycle.rename import RenameReport  # noqa: PLC0415 - see above

        answer = self._ask("rename_stream_table", self._get(name).name, new_name=new_name)
        return RenameReport(answer["name"], answer["former_name"], tuple(answer["followed"]))

    def repair_stream_table(self, name: str) -> Listing[Mended]:
        """Ask for a stream table to be mended."""
        from pgtrickle.service.lifecycle.repair.rebind import Mended  # noqa: PLC0415 - see above

        told = self._ask("repair_stream_table", self._get(name).name)
        return Listing(Mended(*line.split(": ", 1)) for line in told.splitlines() if ": " in line)

    def refresh_stream_table(self, name: str, *, full: bool = False) -> RefreshReport:
        """Ask for a refresh."""
        given = {"full": full, "wait_seconds": self._wait_seconds}
        report = self._report(self._ask("refresh_stream_table", self._get(name).name, **given))
        assert report is not None  # noqa: S101 - a refresh has one
        return report

    def explain_stream_table(
        self,
        name: str,
        format: ExplainFormat = "text",  # noqa: A002 - PostgreSQL's word
        *,
        with_analyze: bool = False,
    ) -> str:
        """Ask for a rehearsal; the plan alone needs no daemon."""
        if not with_analyze:
            raise NotAskedError("explain_stream_table")
        wait = self._wait_seconds
        given = {"format": format, "with_analyze": True, "wait_seconds": wait}
        return str(self._ask("explain_stream_table", self._get(name).name, **given))

    def verify_stream_table(self, name: str) -> VerifyReport:
        """Ask for a comparison."""
        given = {"wait_seconds": self._wait_seconds}
        found = self._ask("verify_stream_table", self._get(name).name, **given)
        rows, missing, extra = (int(found[key]) for key in ("rows", "missing", "extra"))
        samples = (
            tuple(tuple(row) for row in found[key]) for key in ("missing_sample", "extra_sample")
        )
        return VerifyReport(found["name"], bool(found["ok"]), rows, missing, extra, *samples)

    def _when_free(
        self, act: Callable[[], T], seconds: float | None, waiting: Callable[[str], object]
    ) -> T:
        """Let the daemon wait while others work on what is asked for."""
        self._wait_seconds, self._waiting = seconds, waiting
        try:
            return act()
        finally:
            self._wait_seconds, self._waiting = None, _ignore

    @contextmanager
    def _session(self) -> Iterator[Session]:
        """Lend a connection on which to ask."""
        with self._runtime.connection() as connection:
            yield connection

    def _ask(self, verb: str, name: QualifiedName | None = None, **given: Any) -> Any:
        """Ask for something and wait until it is done; what is None is left out."""
        named = {} if name is None else {"name": name.sql}
        values = {
            key: value.value if isinstance(value, Enum) else value
            for key, value in (named | given).items()
            if value is not None
        }
        if not can_carry(values):
            self._give_up(verb)
        runtime = self._runtime
        listeners = Listeners(
            self._tell, self._waiting, runtime.progress, runtime.settings.progress_seconds
        )
        with self._session() as session:
            asked = ask(
                session,
                verb,
                values,
                path=runtime.search_path,
                name=name,
                begin_within=show_request_timeout(runtime) or None,
                listeners=listeners,
            )
            return asked.follow(owned=self._owns_catalog)

    def _give_up(self, verb: str) -> NoReturn:
        """Refuse to ask for what no request can carry."""
        raise RequestRefusedError(
            f'the arguments of "{verb}" are too long for a request, or not text',
            hint="Shorten them; leave out NUL characters and halves of surrogate pairs.",
        )

    def _report(self, answer: dict[str, Any]) -> RefreshReport | None:
        """Return what a refresh did: the history knows more of it than the answer."""
        if "refresh_id" not in answer:
            return None
        found = None
        if answer["refresh_id"] is not None:
            with self._runtime.connection() as connection:
                found = find_refresh(connection, int(answer["refresh_id"]))
        report = RefreshReport(
            answer["name"],
            answer["refresh_id"],
            Action(answer["action"]),
            answer["reason"],
            int(answer["rows_inserted"]),
            int(answer["rows_deleted"]),
            float(answer["duration_ms"]),
        )
        if found is None:
            return report
        predictions = (found.predicted_differential_ms, found.predicted_full_ms)
        costs = CostRecord(found.predicted_ms, *predictions)
        return replace(
            report,
            reads=found.reads,
            timings_ms=found.timings_ms,
            predicted_ms=costs.predicted_ms,
            alternative_ms=costs.alternative_ms,
        )
