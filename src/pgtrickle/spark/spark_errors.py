"""Translate Spark errors to pgtrickle's, by error condition and SQLSTATE."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from pgtrickle.errors import DataError, MemoryLimitError, SparkFailedError
from pgtrickle.ports import ResultTooLargeError
from pgtrickle.spark.executors.worker_errors import find_tagged

# Spark's message when results exceed its driver's limit; the condition has no name.
_RESULT_LIMIT = "spark.driver.maxResultSize"
_OUT_OF_MEMORY = "java.lang.OutOfMemoryError"
_OUT_OF_MEMORY_CODES = frozenset({3, 52})  # by -XX:+ExitOnOutOfMemoryError, by Spark itself


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raise Spark's errors in the block as pgtrickle's."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 - comes with pyspark
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise _for_exception(error, doing) from error
    except (Py4JError, OSError) as error:
        # The JVM, or the socket to it, is gone.
        raise _for_lost_jvm(error, doing) from error


def _for_lost_jvm(error: Exception, doing: str) -> Exception:
    text = str(error)
    if tagged := find_tagged(text):
        return tagged
    if _RESULT_LIMIT in text:
        return ResultTooLargeError(text)
    if _OUT_OF_MEMORY in text or jvm_ran_out_of_memory():
        return _out_of_memory(doing, text)
    return _failed(doing, text)


def _for_exception(error: Exception, doing: str) -> Exception:
    from pyspark.errors import ArithmeticException, DateTimeException, PySparkException

    if tagged := find_tagged(str(error)):
        return tagged
    if _RESULT_LIMIT in str(error):
        return ResultTooLargeError(str(error))
    if _OUT_OF_MEMORY in str(error) or jvm_ran_out_of_memory(patience=0):
        return _out_of_memory(doing, str(error))
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


def _out_of_memory(doing: str, detail: str) -> MemoryLimitError:
    return MemoryLimitError(
        f"Spark ran out of memory and could not {doing}",
        detail=detail,
        hint="Nothing was changed. Give Spark's driver more heap with PGTRICKLE_SPARK_DRIVER_MEMORY"
        " (2g if it is not set), or lower PGTRICKLE_LARGE_READ_BYTES.",
    )


def jvm_ran_out_of_memory(patience: float = 3.0) -> bool:
    """Tell whether the JVM of this process ended because it ran out of memory.

    It is called after a call to the JVM has failed, when the process may still be ending.
    """
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001 - no public way to ask
    if process is None:
        return False
    try:
        return process.wait(timeout=patience) in _OUT_OF_MEMORY_CODES
    except subprocess.TimeoutExpired:
        return False


def _failed(doing: str, detail: str) -> SparkFailedError:
    return SparkFailedError(
        f"Spark could not {doing}", detail=detail, hint="The next refresh tries again."
    )
