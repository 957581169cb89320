"""An engine whose other processes are threads: what they are given and return is pickled."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from pgtrickle.ports import PartT, ResultT
from tests.fakes.engine import DuckDbEngine


class SpreadingEngine(DuckDbEngine):
    """DuckDB for the stages, and threads for work in parts; they are given ``dsn``."""

    def __init__(self, dsn: str) -> None:
        super().__init__()
        self._dsn = dsn
        self.spreads: list[int] = []  # how many parts each of them had
        self.repeated = 0  # how many parts are done again, as Spark does when it loses a result
        self.meanwhile: Callable[[], object] | None = None  # done when all parts are

    def spread(
        self, task: Callable[[str, PartT], ResultT], parts: Sequence[PartT]
    ) -> list[ResultT]:
        packed = [pickle.dumps((task, part)) for part in parts]
        self.spreads.append(len(parts))
        with ThreadPoolExecutor(2, "spread") as threads:
            list(threads.map(self._call, packed[: self.repeated]))
            results = list(threads.map(self._call, packed))
        if self.meanwhile is not None:
            self.meanwhile()
        return [pickle.loads(one) for one in results]  # noqa: S301 - our own

    def _call(self, packed: bytes) -> bytes:
        task, part = pickle.loads(packed)  # noqa: S301 - our own
        return pickle.dumps(task(self._dsn, part))
