"""The work of a refresh, counted in units, and the price of a unit.

    prior ms  =  sum over all kinds of work of   amount x price

The prices are the prior of the cost model: the expected time on an unmeasured machine.  History
corrects the total (see ``fit``), so only the proportions between the kinds of work matter here.  To
calibrate, refresh many stream tables in both ways: the history keeps the work of both actions and
the time of the chosen one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from types import MappingProxyType

from pgtrickle.model.engine import EngineMode


@dataclass(frozen=True, slots=True)
class Work:
    """Amounts of each kind of work; or, as a price list, milliseconds for one unit of each."""

    refreshes: float = 0.0  # one: the fixed cost of every refresh
    full_refreshes: float = 0.0  # one if everything is recomputed
    stages: float = 0.0  # rounds through the engine
    large_stages: float = 0.0  # of them, those whose inputs Spark's executors read
    reads: float = 0.0  # queries, each of which becomes a relation of the engine
    operators: float = 0.0  # of all stages' plans, each once per occurrence
    change_rows: float = 0.0  # read in change buffers, once per query
    keyed_rows: float = 0.0  # found by an index
    scanned_rows: float = 0.0  # read by scans of whole tables
    moved_values: float = 0.0  # rows times columns that reach the engine
    joined_rows: float = 0.0  # that the engine's joins produce
    staged_rows: float = 0.0  # that come back from the engine
    merged_rows: float = 0.0  # of state that is written
    recomputed_rows: float = 0.0  # that PostgreSQL evaluates again, for touched partitions
    filled_rows: float = 0.0  # of state that was empty
    compared_rows: float = 0.0  # of state and contents that a full refresh compares with the new
    applied_rows: float = 0.0  # of the stream table, deleted or inserted

    def __add__(self, other: Work) -> Work:
        return Work(*(getattr(self, one) + getattr(other, one) for one in KINDS))

    def to_json(self) -> dict[str, float]:
        """Return the amounts that are not zero, as the history stores them."""
        return {kind: round(amount, 1) for kind, amount in asdict(self).items() if amount}

    @classmethod
    def from_json(cls, document: Mapping[str, float]) -> Work:
        """Read the output of ``to_json``; kinds that are no longer counted are ignored."""
        return cls(**{kind: document[kind] for kind in KINDS if kind in document})


KINDS = tuple(one.name for one in fields(Work))

# Milliseconds for one unit, on two cores with Spark warm: the result of tools.calibrate_prices for
# about 500 refreshes of the queries of TPC-H at scale factor 0.1, rounded.
PRICES = Work(
    refreshes=50.0,
    full_refreshes=60.0,
    stages=20.0,
    large_stages=900.0,
    reads=5.0,
    operators=0.8,
    change_rows=0.000_3,
    keyed_rows=0.000_3,
    scanned_rows=0.000_1,
    moved_values=0.000_3,
    joined_rows=0.000_12,
    staged_rows=0.001_5,
    merged_rows=0.003,
    recomputed_rows=0.002_5,
    filled_rows=0.002,
    compared_rows=0.015,
    applied_rows=0.006,
)

# Where PostgreSQL computes the stages, no row leaves it and no job starts.  Fitted to the CPU time
# of 66 refreshes at the same scale: first loads and windows of 0.1 % and 1 %, each the first of its
# kind; kinds of work that these do not have are as above.
POSTGRES_PRICES = Work(
    refreshes=20.0,
    full_refreshes=5.0,
    stages=8.0,
    large_stages=0.0,
    reads=0.3,
    operators=0.2,
    change_rows=0.000_5,
    keyed_rows=0.002,
    scanned_rows=0.000_12,
    moved_values=0.000_01,
    joined_rows=0.000_15,
    staged_rows=0.001,
    merged_rows=0.006,
    recomputed_rows=0.003,
    filled_rows=0.001_7,
    compared_rows=0.015,
    applied_rows=0.005,
)
ENGINE_PRICES: Mapping[EngineMode, Work] = MappingProxyType(
    {EngineMode.SPARK: PRICES, EngineMode.POSTGRES: POSTGRES_PRICES}
)


def price(work: Work, prices: Work = PRICES) -> float:
    """Return the expected time of the work, in milliseconds.

    >>> round(price(Work(refreshes=1, stages=2), Work(refreshes=20, stages=40)))
    100
    """
    return sum(float(getattr(work, one) * getattr(prices, one)) for one in KINDS)
