"""Plays a workload: every query a stream table, checked after each cycle.

The check does not trust pgtrickle's verifier: PostgreSQL answers the query itself and compares, as
multisets. A query that fails is left behind with its reason and the others go on, so that one run
tells about all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.client.trickle import Trickle
from tests.workloads.answers import Answers
from tests.workloads.follower import Follower
from tests.workloads.outcome import Outcome
from tests.workloads.workload import Workload


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
        name: Follower(
            trickle,
            Answers(connection, f"{workload.name}_{name}", query),
            Outcome(name),
            workload.mode,
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
