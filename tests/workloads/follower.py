"""One query of a workload, its stream table, and PostgreSQL's answers to it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pgtrickle.client.trickle import Trickle
from pgtrickle.errors import TrickleError
from pgtrickle.model.stream_table import Action, RefreshMode
from tests.workloads.answers import Answers, Row
from tests.workloads.compile_time import measure_compile
from tests.workloads.outcome import Outcome
from tests.workloads.stages import count_stages

_SECONDS = 300  # for one step: the first may start a JVM, and the machine may be busy
_SHOWN = 3  # rows of a difference


@dataclass(slots=True)
class Follower:
    """Follows one query through the cycles and notes what it sees."""

    trickle: Trickle
    answers: Answers
    outcome: Outcome
    mode: RefreshMode = RefreshMode.DIFFERENTIAL

    def attempt(self, moment: str, step: Callable[[], None], say: Callable[[str], None]) -> None:
        """Take a step, unless an earlier one failed; note why it fails."""
        if self.outcome.failure is not None:
            return
        say(f"{self.answers.stream_table}: {moment}")
        try:
            with self._limited():
                step()
        except TrickleError as error:
            self.outcome.failure = f"{moment}: {error.code}: {error}"
        except Exception as error:  # noqa: BLE001 - also a bug of ours must not hide the other queries
            self.outcome.failure = f"{moment}: {type(error).__name__}: {error}"
        if self.outcome.failure is not None:
            say(f"{self.answers.stream_table}: {self.outcome.failure}")

    def create(self) -> None:
        """Create the stream table and compare its first contents."""
        name = self.answers.stream_table
        self.outcome.compiled = measure_compile(self.answers.connection, self.answers.query)
        self.trickle.create_stream_table(name, self.answers.query, refresh_mode=self.mode)
        table = self.trickle.get_stream_table(name)
        if table.effective_refresh_mode is not RefreshMode.DIFFERENTIAL:
            self.outcome.refusal = table.downgrade_reason or "no reason given"
        self.outcome.stages = count_stages(self.trickle, name)
        self.answers.ask()
        self._compare("first load")
        if self.answers.columns_differ():
            raise AssertionError("the columns are not those of the query")

    def follow(self) -> None:
        """Refresh once and compare; the refresh must be minimal, and full only if refused."""
        report = self.trickle.refresh_stream_table(self.answers.stream_table)
        answer_ms = self.answers.ask()
        changed = self.answers.changed()
        allowed = {Action.DIFFERENTIAL if self.outcome.refusal is None else Action.FULL}
        if report.action not in {*allowed, Action.NO_DATA}:
            raise AssertionError(f"the refresh was {report.action.value}: {report.reason}")
        self._compare(f"cycle {self.outcome.cycles + 1}")
        written = report.rows_inserted + report.rows_deleted
        if written != changed:
            raise AssertionError(f"{changed} rows changed and the refresh wrote {written}")
        self.outcome.actions.append(self._action_on_record(report.refresh_id, report.action))
        self.outcome.rows_changed.append(changed)
        self.outcome.refresh_ms.append(report.duration_ms)
        self.outcome.answer_ms.append(answer_ms)

    def rest(self) -> None:
        """Refresh with nothing changed; check that the cycles did change something."""
        report = self.trickle.refresh_stream_table(self.answers.stream_table)
        if report.action is not Action.NO_DATA:
            raise AssertionError(f"nothing changed and the refresh was {report.action.value}")
        if not any(self.outcome.rows_changed):
            raise AssertionError("the answer never changed, so nothing was shown")

    def leave(self) -> None:
        """Drop what this query made, if it got that far."""
        self.answers.forget()
        if any(
            table.name.name == self.answers.stream_table
            for table in self.trickle.list_stream_tables()
        ):
            self.trickle.drop_stream_table(self.answers.stream_table)

    @contextmanager
    def _limited(self) -> Iterator[None]:
        """Cancel a refresh that takes too long: it ends with ST214 and is a failure."""
        name = self.answers.stream_table
        timer = threading.Timer(_SECONDS, self.trickle.cancel_refresh, [name])
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _action_on_record(self, refresh_id: int | None, reported: Action) -> Action:
        """Return the reported action, which must be the one in the history, if that has a row."""
        latest = self.trickle.refresh_history(self.answers.stream_table, limit=1)[0]
        if refresh_id is not None and (latest.id, latest.action) != (refresh_id, reported):
            raise AssertionError(f"reported {reported.value}, on record {latest.action}")
        return reported

    def _compare(self, moment: str) -> None:
        differences = self.answers.differences()
        if differences:
            raise AssertionError(
                f"{len(differences)} rows differ from PostgreSQL's: {differences[:_SHOWN]}"
            )
        if self.outcome.text_difference is None:
            self.outcome.text_difference = _told(moment, self.answers.text_differences())


def _told(moment: str, differences: list[Row]) -> str | None:
    if not differences:
        return None
    pair = [min(row for row in differences if row[0] == side) for side in ("missing", "extra")]
    return f"{moment}: {len(differences)} rows read otherwise: {pair}"
