"""Play a case on DuckDB: the compiled deltas against DuckDB's full answer after each window."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import duckdb
from sqlglot.errors import SqlglotError

from pgtrickle.errors import UnsupportedExpressionError
from pgtrickle.ports import Engine
from pgtrickle.sql.refusal import Refusal
from tests.delta.dialect import to_duckdb
from tests.delta.law import check_plan, compile_query
from tests.delta.world import World
from tests.fuzz.cases import Case


class Outcome(Enum):
    """What came of a case."""

    HELD = "held"
    REFUSED = "refused"  # by name, at compilation
    UNANSWERED = "unanswered"  # what it is compared with has no answer
    DIFFERS = "differs"
    CRASHED = "crashed"

    @property
    def failure(self) -> bool:
        """Whether the case shows a bug."""
        return self in {Outcome.DIFFERS, Outcome.CRASHED}


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a case, and why."""

    outcome: Outcome
    reason: str = ""


def play(world: World, case: Case, engine: Engine | None = None) -> Played:
    """Check the law on a case."""
    history = case.history()
    world.define(history.tables)
    try:
        staged = compile_query(world, case.defining_query())
    except (Refusal, UnsupportedExpressionError) as refusal:
        return Played(Outcome.REFUSED, _first_line(refusal))
    except Exception as error:  # noqa: BLE001 - any other error is a finding
        return _crashed(world, case, error)
    try:
        check_plan(world, case.defining_query(), staged, history, engine)
    except UnsupportedExpressionError as refusal:  # the engine's dialect has no word for it
        return Played(Outcome.REFUSED, _first_line(refusal))
    except AssertionError as difference:
        return Played(Outcome.DIFFERS, str(difference))
    except Exception as error:  # noqa: BLE001 - any other error is a finding
        return _crashed(world, case, error)
    return Played(Outcome.HELD)


def _crashed(world: World, case: Case, error: Exception) -> Played:
    """Tell a bug of ours from a query that DuckDB cannot answer itself."""
    try:
        world.rows(to_duckdb(case.query))
    except (duckdb.Error, SqlglotError) as own:
        return Played(Outcome.UNANSWERED, _first_line(own))
    return Played(Outcome.CRASHED, f"{type(error).__name__}: {error}")


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:100]
