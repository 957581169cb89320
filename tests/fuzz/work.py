"""Play ranges of cases, in this process or in several."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.delta.world import World
from tests.fuzz.cases import Case
from tests.fuzz.generate import NEIGHBOURS, POSTGRES_ONLY, generate
from tests.fuzz.play import Played, play
from tests.fuzz.shrink import shrink
from tests.fuzz.tally import Tally

KEPT = Path(__file__).parent / "kept"
_MOST_SHRUNK = 5  # failures of one worker; after that they are only counted
_PATIENCE = 60.0  # seconds for one case


@dataclass(frozen=True, slots=True)
class Order:
    """Some neighbouring cases of a seed."""

    seed: int
    numbers: range
    off: tuple[str, ...] = POSTGRES_ONLY


def orders(seed: int, numbers: range, off: Collection[str] = ()) -> Iterator[Order]:
    """Cut a range of cases into neighbourhoods."""
    start = numbers.start
    while start < numbers.stop:
        stop = min(numbers.stop, (start // NEIGHBOURS + 1) * NEIGHBOURS)
        yield Order(seed, range(start, stop), (*POSTGRES_ONLY, *off))
        start = stop


def play_all(
    wanted: Sequence[Order], jobs: int, progress: Callable[[Tally], object] = lambda _: None
) -> Tally:
    """Play every order; ``progress`` hears of the sum so far."""
    total = Tally()
    if jobs == 1:
        worker = _Worker()
        parts: Iterator[Tally] = map(worker.work, wanted)
        for part in parts:
            total.merge(part)
            progress(total)
        worker.world.close()
        return total
    context = multiprocessing.get_context("spawn")
    with context.Pool(jobs, initializer=_start_worker) as pool:
        for part in pool.imap_unordered(_work, wanted):
            total.merge(part)
            progress(total)
    return total


class _Worker:
    """One process: its world, and how many failures it has shrunk."""

    def __init__(self) -> None:
        self.world = World()
        self._shrunk = 0

    def work(self, order: Order) -> Tally:
        tally = Tally()
        for number in order.numbers:
            case = generate(order.seed, number, order.off)
            played = self._play(case)
            tally.add(case, played)
            if played.outcome.failure:
                tally.failures.append((number, played, self._keep(order, number, case)))
        return tally

    def _play(self, case: Case) -> Played:
        patience = threading.Timer(_PATIENCE, self.world.connection.interrupt)
        patience.start()
        try:
            return play(self.world, case)
        finally:
            patience.cancel()

    def _keep(self, order: Order, number: int, case: Case) -> Path | None:
        if self._shrunk >= _MOST_SHRUNK:
            return None
        self._shrunk += 1
        return keep(shrink(case, self._play), f"{order.seed}-{number}")


def keep(case: Case, name: str) -> Path:
    """Write a case where a test replays it for ever."""
    path = KEPT / f"{name}.json"
    path.write_text(case.text())
    return path


_worker: _Worker | None = None


def _start_worker() -> None:
    global _worker  # noqa: PLW0603 - the process belongs to it
    _worker = _Worker()


def _work(order: Order) -> Tally:
    assert _worker is not None
    return _worker.work(order)
