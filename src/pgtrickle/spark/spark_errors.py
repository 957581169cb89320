"""Which of our errors a Spark failure is, by its error condition and SQLSTATE."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pgtrickle.errors import DataError, SparkFailedError, TrickleError
from pgtrickle.spark.worker_errors import find_tagged


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raise what Spark raises in the block as one of our errors."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 - comes with pyspark
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise _for_exception(error, doing) from error
    except (Py4JError, OSError) as error:
        # The JVM is gone, or the socket to it.
        raise (find_tagged(str(error)) or _failed(doing, str(error))) from error


def _for_exception(error: Exception, doing: str) -> TrickleError:
    from pyspark.errors import ArithmeticException, DateTimeException, PySparkException

    if tagged := find_tagged(str(error)):
        return tagged
    state = error.getSqlState() if isinstance(error, PySparkException) else None
    arithmetic = isinstance(error, ArithmeticException | DateTimeException)
    if arithmetic or (state or "").startswith(("22", "P0001")):
        return DataError(
            f"could not {doing}: a value is out of range or malformed"
            + (f" (SQLSTATE {state})" if state else ""),
            detail=str(error),
            hint="Correct the data or guard the expression in the defining query.",
        )
    return _failed(doing, str(error))


def _failed(doing: str, detail: str) -> SparkFailedError:
    return SparkFailedError(
        f"Spark could not {doing}", detail=detail, hint="The next refresh tries again."
    )
