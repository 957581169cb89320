"""Work that executors do part by part: a function, called with each part in a task.

The parts travel inside the function, which no plan or log shows; the DSN does not travel at all
(see ``connection_file``).  With a range of one row per partition and ``mapInArrow`` this works
through Spark Connect too.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from pgtrickle.ports import PartT, ResultT
from pgtrickle.spark.executors.connection_file import read_connection
from pgtrickle.spark.executors.worker_errors import tagged

if TYPE_CHECKING:  # importing pyspark costs a second
    from pyspark.sql import SparkSession

_SCHEMA = "number bigint, size bigint, result binary"
_CODEC = "zstd"  # all results together must not exceed the limit of Spark's driver


def spread(
    session: SparkSession,
    task: Callable[[str, PartT], ResultT],
    parts: Sequence[PartT],
    connection_file: str,
) -> list[ResultT]:
    """Call ``task`` with the DSN and each part, in one Spark task each; return the results.

    If Spark repeats a task, the result of one attempt is collected and the others are lost.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with tagged():
            dsn = read_connection(connection_file)
            for number in (n for batch in batches for n in batch.column(0).to_pylist()):
                result = pickle.dumps(task(dsn, parts[number]))
                packed = pa.compress(result, _CODEC, asbytes=True)
                values = {"number": [number], "size": [len(result)], "result": [packed]}
                yield pa.RecordBatch.from_pydict(values)

    frame = session.range(0, len(parts), 1, len(parts)).mapInArrow(run, _SCHEMA)
    collected = frame.toArrow().sort_by("number")
    # Spark itself trusts its workers in the same way.
    return [
        pickle.loads(pa.decompress(one["result"], one["size"], _CODEC))  # noqa: S301
        for one in collected.to_pylist()
    ]
