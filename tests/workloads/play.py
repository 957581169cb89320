"""Plays a workload: every query a strict DIFFERENTIAL stream table, checked after each cycle.

The check does not trust pgtrickle's verifier: PostgreSQL answers the query itself and compares, as
multisets. A query that fails is left behind with its reason and the others go on, so that one run
tells about all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.bootstrap import Trickle
from pgtrickle.errors import TrickleError
from pgtrickle.model.stream_table import Action
from tests.workloads.answers import Answers
from tests.workloads.stages import count_stages
from tests.workloads.workload import Workload

_SHOWN = 3  # rows of a difference


@dataclass(slots=True)
class Outcome:
    """What became of one query."""

    query: str
    stages: int = 0
    rows_changed: list[int] = field(default_factory=list)  # of PostgreSQL's answer, by cycle
    refresh_ms: list[float] = field(default_factory=list)
    answer_ms: list[float] = field(default_factory=list)
    failure: str | None = None

    @property
    def cycles(self) -> int:
        """Return after how many cycles the table was equal to its query."""
        return len(self.refresh_ms)


def play(
    trickle: Trickle,
    connection: Connection[TupleRow],
    workload: Workload,
    *,
    cycles: int,
    only: Collection[str] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Outcome]:
    """Load a workload, make its stream tables and follow it for some cycles."""
    say(f"{workload.name}: loading")
    workload.load(connection)
    followers = {
        name: _Follower(
            trickle, Answers(connection, f"{workload.name}_{name}", query), Outcome(name)
        )
        for name, query in workload.queries.items()
        if only is None or name in only
    }
    for follower in followers.values():
        follower.attempt("first load", follower.create, say)
    for cycle in range(1, cycles + 1):
        workload.change(connection, cycle)
        for follower in followers.values():
            follower.attempt(f"cycle {cycle}", follower.follow, say)
    for follower in followers.values():
        follower.attempt("after the last cycle", follower.rest, say)
        follower.leave()
    return {name: follower.outcome for name, follower in followers.items()}


@dataclass(slots=True)
class _Follower:
    """One query, its stream table and PostgreSQL's answers to it."""

    trickle: Trickle
    answers: Answers
    outcome: Outcome

    def attempt(self, moment: str, step: Callable[[], None], say: Callable[[str], None]) -> None:
        """Take a step, unless an earlier one failed; note why it fails."""
        if self.outcome.failure is not None:
            return
        say(f"{self.answers.stream_table}: {moment}")
        try:
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
        self.trickle.create_stream_table(name, self.answers.query, refresh_mode="DIFFERENTIAL")
        self.outcome.stages = count_stages(self.trickle, name)
        self.answers.ask()
        self._compare()
        if self.answers.columns_differ():
            raise AssertionError("the columns are not those of the query")

    def follow(self) -> None:
        """Refresh once and compare; the refresh must be differential and minimal."""
        report = self.trickle.refresh_stream_table(self.answers.stream_table)
        answer_ms = self.answers.ask()
        changed = self.answers.changed()
        if report.action not in {Action.DIFFERENTIAL, Action.NO_DATA}:
            raise AssertionError(f"the refresh was {report.action.value}: {report.reason}")
        self._compare()
        written = report.rows_inserted + report.rows_deleted
        if written != changed:
            raise AssertionError(f"{changed} rows changed and the refresh wrote {written}")
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

    def _compare(self) -> None:
        differences = self.answers.differences()
        if differences:
            raise AssertionError(
                f"{len(differences)} rows differ from PostgreSQL's: {differences[:_SHOWN]}"
            )
